/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * err: formats and chains error texts. State: none; the caller owns each
 * struct err.
 */
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"

static void
set_text(struct err *e, const char *fmt, va_list ap)
{
	char raw[ERR_TEXT_MAX];
	int n = vsnprintf(raw, sizeof(raw), fmt, ap);

	if (n < 0) {
		raw[0] = '\0';
	}
	escape_text(e->text, sizeof(e->text), raw);
}

int
err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (!e) {
		return code;
	}
	e->code = code;
	e->sys = 0;
	va_start(ap, fmt);
	set_text(e, fmt, ap);
	va_end(ap);
	return code;
}

int
err_sys(struct err *e, int errnum, const char *fmt, ...)
{
	int code = errnum == ENOMEM			  ? E_NOMEM
		   : errnum == ENOSPC || errnum == EDQUOT ? E_NOSPACE
							  : E_SYSTEM;
	va_list ap;
	size_t len;

	if (!e) {
		return code;
	}
	e->code = code;
	e->sys = errnum;
	va_start(ap, fmt);
	set_text(e, fmt, ap);
	va_end(ap);
	len = strlen(e->text);
	snprintf(e->text + len, sizeof(e->text) - len, ": %s",
		 strerror(errnum));
	return code;
}

int
err_nomem(struct err *e)
{
	return err_set(e, E_NOMEM, "out of memory");
}

static void
prefix_text(struct err *e, const char *fmt, va_list ap)
{
	char head[ERR_TEXT_MAX], old[ERR_TEXT_MAX];
	size_t len;

	memcpy(old, e->text, sizeof(old));
	set_text(e, fmt, ap);
	memcpy(head, e->text, sizeof(head));
	len = strnlen(head, sizeof(head) - 3);
	memcpy(e->text, head, len);
	snprintf(e->text + len, sizeof(e->text) - len, ": %s", old);
}

int
err_wrap(struct err *e, const char *fmt, ...)
{
	va_list ap;

	if (!e || e->code == E_NONE) {
		return E_SYSTEM;
	}
	va_start(ap, fmt);
	prefix_text(e, fmt, ap);
	va_end(ap);
	return e->code;
}

int
err_recode(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (!e) {
		return code;
	}
	va_start(ap, fmt);
	prefix_text(e, fmt, ap);
	va_end(ap);
	e->code = code;
	return code;
}

static const char unknown[] = "unknown-error";

const char *
err_name(int code)
{
	static const char *const names[] = {
		[-E_NONE] = "none",
		[-E_NOMEM] = "no-memory",
		[-E_SYSTEM] = "system",
		[-E_USAGE] = "usage",
		[-E_LIMIT] = "limit",
		[-E_PROTOCOL] = "protocol",
		[-E_VERSION] = "version",
		[-E_TIMEOUT] = "timeout",
		[-E_CLOSED] = "closed",
		[-E_CONNECT] = "connect",
		[-E_HOSTKEY] = "host-key",
		[-E_AUTH] = "authentication",
		[-E_CONFIG] = "configuration",
		[-E_NOT_FOUND] = "not-found",
		[-E_EXISTS] = "exists",
		[-E_BUSY] = "busy",
		[-E_DENIED] = "denied",
		[-E_NOSPACE] = "no-space",
		[-E_UNSUPPORTED] = "unsupported",
		[-E_STATE] = "state",
		[-E_CHANGED] = "changed",
		[-E_VERIFY] = "verify",
		[-E_CANCELLED] = "cancelled",
		[-E_CORRUPT] = "corrupt",
		[-E_FENCED] = "fenced",
		[-E_UNKNOWN] = "owner-unknown",
		[-E_REMOTE] = "remote",
		[-E_COPY] = "copy",
		[-E_START] = "start",
		[-E_STOP] = "stop",
		[-E_IN_USE] = "in-use",
		[-E_QUOTA] = "quota",
		[-E_PLOOP] = "ploop",
	};
	size_t i = (size_t) - (long)code;

	if (code > 0 || i >= sizeof(names) / sizeof(names[0])) {
		return unknown;
	}
	return names[i];
}

bool
err_known(int code)
{
	return err_name(code) != unknown;
}

void
err_clear(struct err *e)
{
	e->code = E_NONE;
	e->sys = 0;
	e->text[0] = '\0';
}
