/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * options_help: the text of --help, made from the two tables. The completions
 * read it: an option is on a line of its own, indented, and what follows
 * "Refused" is none of theirs.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "cli/exitcode.h"
#include "cli/options_int.h"

#define WIDTH 79

/* One option; `same` is the row that it is another name of, or NULL. */
static void
print_row(FILE *to, const struct options_row *r, const struct options_row *same)
{
	char left[64];
	int n = snprintf(left, sizeof(left), "  %c%c%s--%s",
			 r->shrt ? '-' : ' ', r->shrt ? r->shrt : ' ',
			 r->shrt ? ", " : "  ", r->name);

	if (r->arg && *r->arg == '[') {
		snprintf(left + n, sizeof(left) - (size_t)n, "[=%s",
			 r->arg + 1);
	} else if (r->arg) {
		snprintf(left + n, sizeof(left) - (size_t)n, "=%s", r->arg);
	}
	if (same) {
		fprintf(to, "%-30s as --%s\n", left, same->name);
	} else {
		fprintf(to, "%-30s %s\n", left, r->text);
	}
}

static void
print_rows(FILE *to, bool notes)
{
	const struct options_row *same = NULL;

	for (const struct options_row *r = options_table; r->name; r++) {
		if (r->fate == OPTIONS_REFUSE ||
		    (r->fate == OPTIONS_NOTE) != notes) {
			continue;
		}
		print_row(to, r, r->text ? NULL : same);
		same = r->text ? r : same;
	}
}

static void
print_refused(FILE *to)
{
	size_t at = 0;

	for (const struct options_row *r = options_table; r->name; r++) {
		char name[64];
		size_t len = strlen(options_table_shown(r, name));

		if (r->fate != OPTIONS_REFUSE) {
			continue;
		}
		if (at && at + 1 + len > WIDTH) {
			fputc('\n', to);
			at = 0;
		}
		fprintf(to, "%s%s", at ? " " : "  ", name);
		at += len + (at ? 1 : 2);
	}
	fputc('\n', to);
}

void
options_help(FILE *to)
{
	fputs("Usage: vzmigrate [option ...] [user@]host "
	      "CT[:NEWCT[:NEWPRIVATE[:NEWROOT]]] ...\n"
	      "       vzmigrate --kind=dir [option ...] [user@]host "
	      "SRC_DIR[:DST_DIR] ...\n"
	      "       vzmigrate --probe-ciphers[=SECONDS] [option ...] "
	      "[user@]host\n"
	      "       vzmigrate --status [--json] [CT ...]\n"
	      "Move containers to another host over SSH; one that runs is "
	      "stopped "
	      "late and started there.\n\n",
	      to);
	print_rows(to, false);
	fputs("\nAccepted without an effect, with a line that says why:\n", to);
	print_rows(to, true);
	fputs("\nRefused, with the reason:\n", to);
	print_refused(to);
	fputs("\nExit codes:\n", to);
	for (const struct exitcode_row *x = exitcode_rows; x->text; x++) {
		fprintf(to, "  %2d  %s\n", (int)x->code, x->text);
	}
	fputs("\nThe manual, vzmigrate(8), tells more.\n", to);
}
