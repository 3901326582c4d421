/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hostid: this host's and this boot's random names. The file is written once
 * and belongs to this module.
 */
#include "migrate/hostid.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/atomicfile.h"
#include "base/cleanup.h"
#include "base/digest.h"
#include "base/io.h"
#include "migrate/statedir.h"

#define HOSTID_FILE "host-id"

static int
hex_digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
				      : -1;
}

static int
parse(const char *text, uint8_t id[HOSTID_LEN], struct err *e)
{
	for (size_t i = 0; i < HOSTID_LEN; i++) {
		int hi = hex_digit(text[2 * i]);
		int lo = hi < 0 ? -1 : hex_digit(text[2 * i + 1]);

		if (lo < 0) {
			return err_set(e, E_CORRUPT,
				       "%s/" HOSTID_FILE
				       " is not 32 hex digits",
				       statedir_path());
		}
		id[i] = (uint8_t)(hi << 4 | lo);
	}
	return 0;
}

static int
make(int dir, struct err *e)
{
	struct digest d;
	char hex[2 * DIGEST_LEN + 2];
	int rc = digest_random(&d, sizeof(d), e);

	if (rc < 0) {
		return rc;
	}
	digest_hex(&d, hex);
	strcat(hex, "\n");
	rc = atomicfile_write(dir, HOSTID_FILE, hex, strlen(hex), 0600, 1, e);
	/* Another process was quicker: its id is the one. */
	return rc == E_EXISTS ? 0 : rc;
}

int
hostid_get(uint8_t id[HOSTID_LEN], struct err *e)
{
	cleanup(close_fd) int dir = statedir_open("", e);
	cleanup(free_ptr) char *text = NULL;
	struct err first = { 0 };
	int rc;

	if (dir < 0) {
		return dir;
	}
	rc = io_read_file(dir, HOSTID_FILE, 64, &text, NULL, &first);
	if (rc < 0 && first.sys == ENOENT) {
		rc = make(dir, e);
		if (rc < 0) {
			return err_wrap(e, "host id in %s", statedir_path());
		}
		rc = io_read_file(dir, HOSTID_FILE, 64, &text, NULL, &first);
	}
	if (rc < 0) {
		if (e) {
			*e = first;
		}
		return err_wrap(e, "host id in %s", statedir_path());
	}
	return parse(text, id, e);
}

int
hostid_boot(char out[HOSTID_BOOT_MAX], struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	size_t len;
	int rc = io_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id",
			      HOSTID_BOOT_MAX - 1, &text, &len, e);

	if (rc < 0) {
		return rc;
	}
	len = strcspn(text, "\n");
	memcpy(out, text, len);
	out[len] = '\0';
	return 0;
}
