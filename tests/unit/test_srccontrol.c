/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of migrate/srccontrol: the file a person edits while it runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "fs/remove.h"
#include "migrate/srccontrol.h"

struct fix {
	char top[64];
	int dir;
	struct limit *l;
	struct srccontrol *c;
	int64_t now;
	int sink;
	unsigned warnings;
	char last[256]; /* of them */
};

static void
on_log(enum log_level level, const char *line, void *arg)
{
	struct fix *f = arg;

	if (level == LOGL_WARN) {
		f->warnings++;
		snprintf(f->last, sizeof(f->last), "%s", line);
	}
}

static int
setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	snprintf(f->top, sizeof(f->top), "/tmp/vzm-control-XXXXXX");
	assert_non_null(mkdtemp(f->top));
	f->dir = open(f->top, O_RDONLY | O_DIRECTORY);
	f->l = limit_new(5 << 20, NULL);
	f->c = srccontrol_open(f->dir, "S/control", f->l, NULL);
	assert_non_null(f->c);
	f->now = 1000;
	f->sink = log_add_sink(LOGL_WARN, on_log, f);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fix *f = *state;
	int tmp = open("/tmp", O_RDONLY | O_DIRECTORY);

	log_remove_sink(f->sink);
	srccontrol_close(f->c);
	limit_free(f->l);
	close(f->dir);
	assert_int_equal(remove_tree(tmp, strrchr(f->top, '/') + 1, NULL, NULL),
			 0);
	close(tmp);
	free(f);
	return 0;
}

/* As an editor does it: another inode, so that the change shows whatever the
 * clock's grain is. */
static void
edit_as(struct fix *f, const char *text, mode_t mode)
{
	int fd = openat(f->dir, "new", O_WRONLY | O_CREAT | O_TRUNC, mode);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	assert_int_equal(io_write_full(fd, text, strlen(text), "new", NULL), 0);
	close(fd);
	assert_int_equal(renameat(f->dir, "new", f->dir, "control"), 0);
}

static void
poll_after(struct fix *f, int64_t ms)
{
	f->now += ms;
	srccontrol_poll(f->c, f->now);
}

static void
edit(struct fix *f, const char *text)
{
	edit_as(f, text, 0600);
	poll_after(f, 1000);
}

static void
test_made(void **state)
{
	struct fix *f = *state;
	char *text;
	struct stat st;

	assert_int_equal(fstatat(f->dir, "control", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(
		io_read_file(f->dir, "control", 4096, &text, NULL, NULL), 0);
	assert_non_null(strstr(text, "\nlimit-speed = 5242880\n"));
	free(text);
	/* Ours says nothing new. */
	poll_after(f, 1000);
	assert_int_equal(limit_rate(f->l), 5 << 20);
	srccontrol_close(f->c);
	f->c = NULL;
	assert_int_equal(fstatat(f->dir, "control", &st, 0), -1);
	/* Without a limit, and where something stands. */
	limit_set(f->l, 0);
	assert_int_equal(symlinkat("/etc/passwd", f->dir, "control"), 0);
	f->c = srccontrol_open(f->dir, "S/control", f->l, NULL);
	assert_non_null(f->c);
	assert_int_equal(
		io_read_file(f->dir, "control", 4096, &text, NULL, NULL), 0);
	assert_non_null(strstr(text, "\nlimit-speed = none\n"));
	free(text);
}

static void
test_changed(void **state)
{
	struct fix *f = *state;

	edit(f, "limit-speed = 10M\n");
	assert_int_equal(limit_rate(f->l), 10 << 20);
	/* Not looked at before a second has passed. */
	edit_as(f, "limit-speed=7K", 0644);
	poll_after(f, 900);
	assert_int_equal(limit_rate(f->l), 10 << 20);
	poll_after(f, 100);
	assert_int_equal(limit_rate(f->l), 7 << 10);
	edit(f, "\n# a word\n\t limit-speed\t=  none  \r\n\n");
	assert_int_equal(limit_rate(f->l), 0);
	edit(f, "limit-speed = 2M\nlimit-speed = 3M\n");
	assert_int_equal(limit_rate(f->l), 3 << 20);
	edit(f, "limit-speed = 0\n");
	assert_int_equal(limit_rate(f->l), 0);
	assert_int_equal(f->warnings, 0);
	/* Nothing said, or gone: as it was. */
	edit(f, "limit-speed = 3M\n");
	edit(f, "");
	edit(f, "# limit-speed = 9M\n");
	assert_int_equal(unlinkat(f->dir, "control", 0), 0);
	poll_after(f, 1000);
	assert_int_equal(limit_rate(f->l), 3 << 20);
	assert_int_equal(f->warnings, 0);
	edit(f, "limit-speed = 4M\n");
	assert_int_equal(limit_rate(f->l), 4 << 20);
}

/* In place, as `echo > control` does. */
static void
test_in_place(void **state)
{
	struct fix *f = *state;
	int fd = openat(f->dir, "control", O_WRONLY | O_TRUNC);

	assert_int_equal(write(fd, "limit-speed = 1M\n", 17), 17);
	close(fd);
	poll_after(f, 1000);
	assert_int_equal(limit_rate(f->l), 1 << 20);
}

static void
bad(struct fix *f, const char *why)
{
	unsigned before = f->warnings;

	poll_after(f, 1000);
	poll_after(f, 1000);
	assert_int_equal(f->warnings, before + 1);
	if (!strstr(f->last, "S/control: ") || !strstr(f->last, why)) {
		fail_msg("'%s', not '%s'", f->last, why);
	}
	assert_int_equal(limit_rate(f->l), 5 << 20);
}

static void
test_bad(void **state)
{
	struct fix *f = *state;
	char *big = calloc(1, 5001);

	edit_as(f, "limit-speed = fast\n", 0600);
	bad(f, "\"fast\" is not a size");
	edit_as(f, "limit-speed = 10\n", 0600);
	bad(f, "less than 1024");
	edit_as(f, "limit-speed = -1\n", 0600);
	bad(f, "limit-speed");
	edit_as(f, "limit-speed 10M\n", 0600);
	bad(f, "'limit-speed 10M' is not a setting");
	edit_as(f, "limit-speed = 9M\nstreams = 4\n", 0600);
	bad(f, "'streams' is not a setting");
	edit_as(f, "\x1b[31m\n", 0600);
	bad(f, "is not a setting");
	memset(big, '\n', 5000);
	edit_as(f, big, 0600);
	bad(f, "is no short text");
	free(big);
	edit_as(f, "limit-speed = 9M\n", 0666);
	bad(f, "its owner alone");
	unlinkat(f->dir, "control", 0);
	assert_int_equal(symlinkat("/etc/passwd", f->dir, "control"), 0);
	bad(f, "symbolic link");
	unlinkat(f->dir, "control", 0);
	assert_int_equal(mkfifoat(f->dir, "control", 0600), 0);
	bad(f, "its owner alone");
	unlinkat(f->dir, "control", 0);
	assert_int_equal(mkdirat(f->dir, "control", 0700), 0);
	bad(f, "its owner alone");
	unlinkat(f->dir, "control", AT_REMOVEDIR);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_made, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_in_place, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
