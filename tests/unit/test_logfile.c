/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of report/logfile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "base/io.h"
#include "report/logfile.h"

/* The C library's syslog is stood in for by these, also in a build with
 * fortified sources. */
static struct {
	char ident[32], text[2048];
	int option, facility, priority, calls;
} seen;

void __syslog_chk(int priority, int flag, const char *fmt, ...);

static void
note(int priority, const char *fmt, va_list ap)
{
	seen.priority = priority;
	seen.calls++;
	vsnprintf(seen.text, sizeof(seen.text), fmt, ap);
}

void
openlog(const char *ident, int option, int facility)
{
	snprintf(seen.ident, sizeof(seen.ident), "%s", ident);
	seen.option = option;
	seen.facility = facility;
}

void
closelog(void)
{
}

void
syslog(int priority, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	note(priority, fmt, ap);
	va_end(ap);
}

void
__syslog_chk(int priority, int flag, const char *fmt, ...)
{
	va_list ap;

	(void)flag;
	va_start(ap, fmt);
	note(priority, fmt, ap);
	va_end(ap);
}

struct place {
	char top[64]; /* made for the test */
	char dir[96]; /* the log directory, not there yet */
};

static int
make_place(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	strcpy(p->top, "/tmp/vzmigrate-logfile.XXXXXX");
	if (!mkdtemp(p->top)) {
		return -1;
	}
	snprintf(p->dir, sizeof(p->dir), "%s/log", p->top);
	*state = p;
	return 0;
}

static int
drop_place(void **state)
{
	struct place *p = *state;
	DIR *d = opendir(p->dir);
	struct dirent *x;

	while (d && (x = readdir(d))) {
		unlinkat(dirfd(d), x->d_name, 0);
	}
	if (d) {
		closedir(d);
	}
	if (rmdir(p->dir)) {
		unlink(p->dir); /* a test made it a symlink or a file */
	}
	rmdir(p->top);
	free(p);
	return 0;
}

static mode_t
mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode & 07777;
}

static void
want_match(const char *text, const char *pattern)
{
	regex_t re;

	assert_int_equal(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
	if (regexec(&re, text, 0, NULL, 0)) {
		fail_msg("\"%s\" does not match %s", text, pattern);
	}
	regfree(&re);
}

#define STAMP                                                   \
	"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}" \
	"\\.[0-9]{3}[+-][0-9]{2}:[0-9]{2}"

static void
test_lines(void **state)
{
	struct place *p = *state;
	struct logfile *f = NULL;
	struct err e = { 0 };
	mode_t old = umask(0277);
	char *text, path[256];
	int h;

	assert_int_equal(logfile_open(p->dir, "101", &f, &e), 0);
	umask(old);
	assert_int_equal(mode_of(p->dir), 0700);
	assert_int_equal(mode_of(logfile_path(f)), 0600);
	h = log_add_sink(LOGL_DEBUG, logfile_sink, f);
	log_warn("one\ntwo");
	log_debug("three");
	log_trace("not wanted");
	log_remove_sink(h);
	snprintf(path, sizeof(path), "%s", logfile_path(f));
	want_match(path, "/log/[0-9]{8}T[0-9]{6}-101\\.log$");
	assert_int_equal(logfile_close(f, &e), 0);
	assert_int_equal(io_read_file(AT_FDCWD, path, 4096, &text, NULL, &e),
			 0);
	want_match(text, "^" STAMP " warning: one\\\\ntwo\n" STAMP
			 " debug: three\n$");
	free(text);
}

/* Names of the same second are told apart; odd bytes do no harm. */
static void
test_names(void **state)
{
	struct place *p = *state;
	struct logfile *f[5];
	struct err e = { 0 };
	char ct[200];

	for (int i = 0; i < 5; i++) {
		assert_int_equal(logfile_open(p->dir, "../a b/\n", &f[i], &e),
				 0);
		want_match(logfile_path(f[i]),
			   "/log/[0-9T]+-\\.\\._a_b__(-[2-5])?\\.log$");
		for (int k = 0; k < i; k++) {
			assert_string_not_equal(logfile_path(f[i]),
						logfile_path(f[k]));
		}
	}
	for (int i = 0; i < 5; i++) {
		assert_int_equal(logfile_close(f[i], &e), 0);
	}
	memset(ct, 'x', sizeof(ct));
	ct[sizeof(ct) - 1] = '\0';
	assert_int_equal(logfile_open(p->dir, ct, &f[0], &e), 0);
	want_match(logfile_path(f[0]), "-x{64}\\.log$");
	assert_int_equal(logfile_close(f[0], &e), 0);
}

static void
test_directory(void **state)
{
	struct place *p = *state;
	struct logfile *f = NULL;
	struct err e = { 0 };
	char missing[128];

	/* an open one is closed */
	assert_int_equal(mkdir(p->dir, 0700), 0);
	assert_int_equal(chmod(p->dir, 0777), 0);
	assert_int_equal(logfile_open(p->dir, "1", &f, &e), 0);
	assert_int_equal(mode_of(p->dir), 0700);
	assert_int_equal(unlink(logfile_path(f)), 0);
	assert_int_equal(logfile_close(f, &e), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(p->dir, 65534, (gid_t)-1), 0);
		assert_int_equal(logfile_open(p->dir, "1", &f, &e), E_DENIED);
		assert_non_null(strstr(e.text, "belongs to uid 65534"));
		assert_null(f);
	} else {
		print_message("not root: somebody else's directory is not "
			      "tried\n");
	}
	assert_int_equal(rmdir(p->dir), 0);
	assert_int_equal(symlink(p->top, p->dir), 0);
	assert_int_equal(logfile_open(p->dir, "1", &f, &e), E_DENIED);
	assert_non_null(strstr(e.text, "symlink is not followed"));
	snprintf(missing, sizeof(missing), "%s/a/b", p->top);
	assert_int_equal(logfile_open(missing, "1", &f, &e), E_SYSTEM);
	assert_non_null(strstr(e.text, "cannot make"));
}

/* A write that fails is told at the end, and nothing breaks. */
static void
test_write_fails(void **state)
{
	struct place *p = *state;
	struct logfile *f = NULL;
	struct err e = { 0 };
	struct rlimit old, none;

	assert_int_equal(logfile_open(p->dir, "1", &f, &e), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	none = old;
	none.rlim_cur = 10;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	logfile_sink(LOGL_INFO, "a line that does not fit", f);
	logfile_sink(LOGL_INFO, "nor this", f);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	/* the first was cut at 10 bytes */
	assert_int_equal(logfile_close(f, &e), E_NOSPACE);
	assert_non_null(strstr(e.text, "cannot write "));
	assert_int_equal(logfile_close(NULL, &e), 0);
}

static void
test_syslog(void **state)
{
	(void)state;
	logfile_syslog_start("101", "root@host", "ab12");
	assert_string_equal(seen.ident, "vzmigrate");
	assert_int_equal(seen.option, LOG_PID);
	assert_int_equal(seen.facility, LOG_DAEMON);
	assert_int_equal(seen.priority, LOG_INFO);
	assert_string_equal(seen.text, "start CT 101 to root@host session "
				       "ab12");
	logfile_syslog_end("101\n", "root@host", NULL, false, "no %s space");
	assert_int_equal(seen.priority, LOG_ERR);
	assert_string_equal(seen.text, "end CT 101\\n to root@host session -: "
				       "failed: no %s space");
	logfile_syslog_end("101", "root@host", "ab12", true, NULL);
	assert_int_equal(seen.priority, LOG_INFO);
	assert_string_equal(seen.text, "end CT 101 to root@host session ab12: "
				       "moved");
	assert_int_equal(seen.calls, 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_lines, make_place,
						drop_place),
		cmocka_unit_test_setup_teardown(test_names, make_place,
						drop_place),
		cmocka_unit_test_setup_teardown(test_directory, make_place,
						drop_place),
		cmocka_unit_test_setup_teardown(test_write_fails, make_place,
						drop_place),
		cmocka_unit_test(test_syslog),
	};

	setlocale(LC_ALL, "");
	return cmocka_run_group_tests_name("logfile", tests, NULL, NULL);
}
