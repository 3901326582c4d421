/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of the journal, the state directory and the host id. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "migrate/hostid.h"
#include "migrate/journal.h"
#include "migrate/statedir.h"

static char dir[64];
static int dirfd_;

static int
setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/vzm-journal-XXXXXX");
	if (!mkdtemp(dir)) {
		return -1;
	}
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dirfd_ < 0 ? -1 : 0;
}

static int
drop(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static int
teardown(void **state)
{
	(void)state;
	close(dirfd_);
	return nftw(dir, drop, 16, FTW_DEPTH | FTW_PHYS);
}

/* What a replay showed: "event key=value ...\n". */
static int
collect(const struct journal_record *r, void *arg, struct err *e)
{
	struct buf *b = arg;
	int rc = buf_printf(b, e, "%llu %s", (unsigned long long)r->seq,
			    r->event);

	for (size_t i = 0; i < r->nfields && rc == 0; i++) {
		rc = buf_printf(b, e, " %s=%s", r->fields[i].key,
				r->fields[i].value);
	}
	return rc ? rc : buf_append(b, "\n", 1, e);
}

static struct journal *
must_open(unsigned flags, struct buf *b)
{
	struct journal *j = NULL;
	struct err e = { 0 };
	int rc = journal_open(dirfd_, "j", "DIR/j", flags, b ? collect : NULL,
			      b, &j, &e);

	if (rc) {
		fail_msg("journal_open: %s", e.text);
	}
	return j;
}

static void
write_three(void)
{
	struct journal *j = must_open(JOURNAL_CREATE | JOURNAL_EXCL, NULL);
	struct err e = { 0 };

	assert_int_equal(journal_append(j, &e, "one", "a", "1", "none",
					(char *)NULL, (char *)NULL),
			 0);
	assert_int_equal(journal_append(j, &e, "two", "path",
					"/a b\n\xff%=#\x1b", "empty", "",
					(char *)NULL),
			 0);
	assert_int_equal(journal_append(j, &e, "three.x", (char *)NULL), 0);
	assert_int_equal(journal_seq(j), 3);
	journal_close(j);
}

static char *
slurp(size_t *len)
{
	char *p;
	struct err e = { 0 };

	assert_int_equal(io_read_file(dirfd_, "j", 1 << 20, &p, len, &e), 0);
	return p;
}

static void
spill(const char *data, size_t len)
{
	int fd = openat(dirfd_, "j", O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), (ssize_t)len);
	close(fd);
}

static void
test_round_trip(void **state)
{
	struct buf b;
	struct err e = { 0 };
	struct journal *j;
	struct stat st;
	char *text;
	size_t len;

	(void)state;
	buf_init(&b, 1 << 20);
	write_three();
	j = must_open(0, &b);
	assert_string_equal(buf_cstr(&b, &e),
			    "1 one a=1\n"
			    "2 two path=/a b\n\xff%=#\x1b empty=\n"
			    "3 three.x\n");
	/* It goes on where it ended. */
	assert_int_equal(journal_append(j, &e, "four", (char *)NULL), 0);
	journal_close(j);
	buf_clear(&b);
	assert_int_equal(journal_read(dirfd_, "j", "DIR/j", collect, &b, &e),
			 0);
	assert_non_null(strstr(buf_cstr(&b, &e), "\n4 four\n"));
	buf_fini(&b);
	/* Readable, and private. */
	text = slurp(&len);
	assert_non_null(strstr(text, " two path=/a%20b%0A%FF%25%3D%23%1B "
				     "empty= #"));
	free(text);
	assert_int_equal(fstatat(dirfd_, "j", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void
test_open_faults(void **state)
{
	struct journal *j = NULL;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(journal_open(dirfd_, "j", "DIR/j", 0, NULL, NULL, &j,
				      &e),
			 E_NOT_FOUND);
	assert_int_equal(faccessat(dirfd_, "j.lock", F_OK, 0), -1);
	assert_int_equal(journal_read(dirfd_, "j", "DIR/j", NULL, NULL, &e),
			 E_NOT_FOUND);
	write_three();
	assert_int_equal(journal_open(dirfd_, "j", "DIR/j",
				      JOURNAL_CREATE | JOURNAL_EXCL, NULL, NULL,
				      &j, &e),
			 E_EXISTS);
	assert_int_equal(unlinkat(dirfd_, "j", 0), 0);
	assert_int_equal(symlinkat("elsewhere", dirfd_, "j"), 0);
	assert_int_equal(journal_open(dirfd_, "j", "DIR/j", JOURNAL_CREATE,
				      NULL, NULL, &j, &e),
			 E_SYSTEM);
	assert_int_equal(e.sys, ELOOP);
}

static int
refuse(const struct journal_record *r, void *arg, struct err *e)
{
	(void)arg;
	return r->seq == 2 ? err_set(e, E_STATE, "no") : 0;
}

static void
test_callback_error(void **state)
{
	struct journal *j = NULL;
	struct err e = { 0 };

	(void)state;
	write_three();
	assert_int_equal(journal_open(dirfd_, "j", "DIR/j", 0, refuse, NULL, &j,
				      &e),
			 E_STATE);
	journal_close(must_open(0, NULL)); /* the lock was let go */
}

static void
test_lock(void **state)
{
	struct journal *j, *k = NULL;
	struct err e = { 0 };
	char want[128];
	int st, up[2], down[2];
	pid_t pid;
	char c;

	(void)state;
	write_three();
	assert_int_equal(pipe(up), 0);
	assert_int_equal(pipe(down), 0);
	pid = fork();
	if (pid == 0) {
		j = must_open(0, NULL);
		close(down[1]);
		if (write(up[1], "x", 1) != 1 || read(down[0], &c, 1) < 0) {
			_exit(1);
		}
		journal_close(j);
		_exit(0);
	}
	assert_int_equal(read(up[0], &c, 1), 1);
	assert_int_equal(journal_open(dirfd_, "j", "DIR/j", 0, NULL, NULL, &k,
				      &e),
			 E_BUSY);
	snprintf(want, sizeof(want), "journal DIR/j is in use by process %d",
		 (int)pid);
	assert_string_equal(e.text, want);
	/* Looking is allowed meanwhile. */
	assert_int_equal(journal_read(dirfd_, "j", "DIR/j", NULL, NULL, &e), 0);
	close(down[0]);
	close(down[1]);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	journal_close(must_open(0, NULL));
	close(up[0]);
	close(up[1]);
}

static void
count_warnings(enum log_level level, const char *line, void *arg)
{
	if (level == LOGL_WARN && strstr(line, "cut off a torn last line")) {
		++*(int *)arg;
	}
}

/* Cut the file at every byte: the whole records in front of the cut are
 * there, the rest is gone and told, and appending goes on. */
static void
test_torn_everywhere(void **state)
{
	size_t len;
	struct buf b;
	struct err e = { 0 };
	char *text;

	(void)state;
	write_three();
	text = slurp(&len);
	buf_init(&b, 1 << 20);
	for (size_t cut = 0; cut < len; cut++) {
		size_t whole = 0, lines = 0, now;
		int warned = 0;
		int h = log_add_sink(LOGL_WARN, count_warnings, &warned);
		struct journal *j;
		char *after;

		for (size_t i = 0; i < cut; i++) {
			if (text[i] == '\n') {
				whole = i + 1;
				lines++;
			}
		}
		spill(text, cut);
		buf_clear(&b);
		j = must_open(0, &b);
		log_remove_sink(h);
		assert_int_equal(warned, cut > whole);
		assert_int_equal(journal_seq(j), lines);
		assert_int_equal(journal_append(j, &e, "more", (char *)NULL),
				 0);
		journal_close(j);
		after = slurp(&now);
		assert_memory_equal(after, text, whole);
		free(after);
		buf_clear(&b);
		j = must_open(0, &b);
		assert_int_equal(journal_seq(j), lines + 1);
		journal_close(j);
	}
	buf_fini(&b);
	free(text);
}

/* A last line whose bytes did not all reach the disk, though its newline
 * did, is torn too. */
static void
test_torn_with_newline(void **state)
{
	size_t len;
	char *text;
	struct journal *j;

	(void)state;
	write_three();
	text = slurp(&len);
	memset(text + len - 10, 0, 9);
	spill(text, len);
	j = must_open(0, NULL);
	assert_int_equal(journal_seq(j), 2);
	journal_close(j);
	free(text);
}

/* Any one changed byte in front of the last line is found, and named. */
static void
test_corrupt_middle(void **state)
{
	size_t len, last;
	char *text;

	(void)state;
	write_three();
	text = slurp(&len);
	last = len - 1;
	while (text[last - 1] != '\n') {
		last--;
	}
	for (size_t i = 0; i < last; i++) {
		struct journal *j = NULL;
		struct err e = { 0 };
		size_t line = 1;

		for (size_t k = 0; k < i; k++) {
			line += text[k] == '\n';
		}
		text[i] ^= 0x15;
		spill(text, len);
		text[i] ^= 0x15;
		assert_int_equal(journal_open(dirfd_, "j", "DIR/j", 0, NULL,
					      NULL, &j, &e),
				 E_CORRUPT);
		assert_memory_equal(e.text, "DIR/j, line ", 12);
		assert_int_equal(atoi(e.text + 12), line);
	}
	free(text);
}

/* Lost, doubled and exchanged lines have right checksums but wrong numbers. */
static void
test_wrong_order(void **state)
{
	size_t len;
	struct journal *j = NULL;
	struct err e = { 0 };
	char *text, *second;

	(void)state;
	write_three();
	text = slurp(&len);
	second = strchr(text, '\n') + 1;
	spill(second, len - (size_t)(second - text));
	assert_int_equal(journal_open(dirfd_, "j", "DIR/j", 0, NULL, NULL, &j,
				      &e),
			 E_CORRUPT);
	assert_string_equal(e.text, "DIR/j, line 1: record 2 where 1 is due");
	free(text);
}

/* A full disk: the record is not there, and later ones are. */
static void
test_no_space(void **state)
{
	struct rlimit old, low;
	struct journal *j;
	struct err e = { 0 };
	char big[3000];
	struct buf b;

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	write_three();
	buf_init(&b, 1 << 20);
	j = must_open(0, NULL);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	low = old;
	low.rlim_cur = 1024;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	assert_int_equal(journal_append(j, &e, "big", "v", big, (char *)NULL),
			 E_SYSTEM);
	assert_int_equal(e.sys, EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(journal_append(j, &e, "small", (char *)NULL), 0);
	journal_close(j);
	j = must_open(0, &b);
	assert_non_null(strstr(buf_cstr(&b, &e), "\n4 small\n"));
	journal_close(j);
	buf_fini(&b);
}

static void
test_limits(void **state)
{
	struct journal *j = must_open(JOURNAL_CREATE, NULL);
	struct err e = { 0 };
	char *big = malloc(JOURNAL_LINE_MAX + 1);

	(void)state;
	assert_non_null(big);
	memset(big, 'x', JOURNAL_LINE_MAX);
	big[JOURNAL_LINE_MAX] = '\0';
	assert_int_equal(journal_append(j, &e, "big", "v", big, (char *)NULL),
			 E_LIMIT);
	assert_int_equal(journal_append(j, &e, "ok", (char *)NULL), 0);
	assert_int_equal(journal_seq(j), 1);
	journal_close(j);
	free(big);
}

static void
test_get(void **state)
{
	struct journal_record r = {
		.fields = { { "n", "42" },
			    { "bad", "4x" },
			    { "huge", "99999999999999999999" } },
		.nfields = 3,
	};

	(void)state;
	assert_string_equal(journal_get(&r, "n"), "42");
	assert_null(journal_get(&r, "m"));
	assert_int_equal(journal_get_u64(&r, "n", 7), 42);
	assert_int_equal(journal_get_u64(&r, "bad", 7), 7);
	assert_int_equal(journal_get_u64(&r, "huge", 7), 7);
	assert_int_equal(journal_get_u64(&r, "m", 7), 7);
}

static void
test_host_id(void **state)
{
	uint8_t a[HOSTID_LEN], b[HOSTID_LEN];
	struct err e = { 0 };
	char path[128], boot[HOSTID_BOOT_MAX];
	struct stat st;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/a/state", dir);
	setenv("VZMIGRATE_STATE_DIR", path, 1);
	assert_int_equal(hostid_get(a, &e), 0);
	assert_int_equal(hostid_get(b, &e), 0);
	assert_memory_equal(a, b, HOSTID_LEN);
	fd = statedir_open("source", &e);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	close(fd);
	fd = statedir_open("", &e);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(unlinkat(fd, "host-id", 0), 0);
	assert_int_equal(symlinkat("/dev/null", fd, "host-id"), 0);
	assert_int_equal(hostid_get(a, &e), E_CORRUPT);
	/* A directory that others may write to is not trusted. */
	assert_int_equal(fchmod(fd, 0770), 0);
	assert_int_equal(statedir_open("", &e), E_DENIED);
	close(fd);
	unsetenv("VZMIGRATE_STATE_DIR");
	assert_int_equal(hostid_boot(boot, &e), 0);
	assert_int_equal(strlen(boot), 36);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_round_trip),
		T(test_open_faults),
		T(test_callback_error),
		T(test_lock),
		T(test_torn_everywhere),
		T(test_torn_with_newline),
		T(test_corrupt_middle),
		T(test_wrong_order),
		T(test_no_space),
		T(test_limits),
		T(test_get),
		T(test_host_id),
	};

	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
