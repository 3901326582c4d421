/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the configurations of tests/data/vzconf (see the README there) as the
 * program does, and compares with what is expected and with a shell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "ct/shconf.h"

#define FILES_MIN 14

static char corpus[PATH_MAX]; /* the directory of the files */
static char top[64] = "/tmp/corpus.XXXXXX";

static int
setup(void **state)
{
	const char *src = getenv("srcdir");
	char path[PATH_MAX];

	(void)state;
	assert_true((size_t)snprintf(path, sizeof(path), "%s/tests/data/vzconf",
				     src ? src : ".") < sizeof(path));
	if (!realpath(path, corpus) || !mkdtemp(top) || chdir(top) < 0) {
		return -1;
	}
	return 0;
}

static int
teardown(void **state)
{
	const char *const argv[] = { "rm", "-rf", top, NULL };
	struct child_result r = { 0 };

	(void)state;
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(
		child_run(&(struct child_cmd){ .argv = argv }, &r, NULL), 0);
	child_result_fini(&r);
	return 0;
}

static char *
slurp(const char *name, const char *suffix, size_t *len)
{
	char path[PATH_MAX], *text = NULL;

	assert_true((size_t)snprintf(path, sizeof(path), "%s/%s%s", corpus,
				     name, suffix) < sizeof(path));
	if (io_read_file(AT_FDCWD, path, 1 << 20, &text, len, NULL) < 0) {
		fail_msg("cannot read %s", path);
	}
	return text;
}

/* Whatever was executed left a file here. */
static unsigned
executed(void)
{
	DIR *d = opendir(".");
	unsigned n = 0;

	assert_non_null(d);
	for (struct dirent *de; (de = readdir(d));) {
		n += strncmp(de->d_name, "executed", 8) == 0;
	}
	closedir(d);
	return n;
}

/* What a shell that includes the file has in KEY (heap), and its exit code. */
static char *
shell_has(const char *name, const char *key, int *status)
{
	char path[PATH_MAX];
	const char *const argv[] = {
		"bash",
		"-c",
		"VEID=101; . \"$1\"; eval \"printf %s \\\"\\$$2\\\"\"",
		"sh",
		path,
		key,
		NULL
	};
	struct child_result r = { 0 };
	char *out;

	assert_true((size_t)snprintf(path, sizeof(path), "%s/%s.conf", corpus,
				     name) < sizeof(path));
	assert_int_equal(
		child_run(&(struct child_cmd){ .argv = argv }, &r, NULL), 0);
	*status = r.status;
	out = strdup(buf_cstr(&r.out, NULL));
	child_result_fini(&r);
	return out;
}

/* One line of NAME.want: KEY, how, text. */
static void
check(const char *name, const char *text, size_t len, const char *key,
      const char *how, const char *want)
{
	cleanup(free_ptr) char *value = NULL;
	struct err e = { 0 };
	int rc = shconf_get(text, len, "101.conf", key, "101", &value, &e);
	const char *got = rc == 1 ? "is" : rc == 0 ? "no" : "bad";

	if (strcmp(got, how) != 0 || strcmp(want, rc == 1  ? value
						  : rc < 0 ? e.text
							   : "") != 0) {
		fail_msg("%s: %s: want %s '%s', got %s '%s'", name, key, how,
			 want, got, rc == 1 ? value : e.text);
	}
	assert_true(rc >= 0 || rc == E_CONFIG);
	if (rc == 1 && strncmp(name, "shell", 5) != 0) {
		int status;
		cleanup(free_ptr) char *sh = shell_has(name, key, &status);

		assert_int_equal(status, 0);
		if (strcmp(sh, value) != 0) {
			fail_msg("%s: %s: a shell has '%s', we '%s'", name, key,
				 sh, value);
		}
	}
}

/* An edit changes its own lines alone: what else is expected stays so. */
static void
check_edit(const char *name, const char *text, size_t len)
{
	static const struct shconf_edit ed[] = {
		{ "VE_PRIVATE", "/srv/private/7" },
		{ "ADDED", "yes" },
	};
	cleanup(buf_finip) struct buf b;
	cleanup(free_ptr) char *value = NULL;

	buf_init(&b, 1 << 20);
	assert_int_equal(shconf_edit(text, len, NULL, 0, &b, NULL), 0);
	assert_int_equal(b.len, len);
	assert_memory_equal(b.data, text, len);
	buf_clear(&b);
	assert_int_equal(shconf_edit(text, len, ed, 2, &b, NULL), 0);
	assert_int_equal(shconf_get((char *)b.data, b.len, name, "VE_PRIVATE",
				    "101", &value, NULL),
			 1);
	assert_string_equal(value, "/srv/private/7");
	for (const char *p = text, *end; p < text + len; p = end) {
		end = memchr(p, '\n', (size_t)(text + len - p));
		end = end ? end + 1 : text + len;
		if (!memmem(p, (size_t)(end - p), "VE_PRIVATE=", 11) &&
		    !memmem(b.data, b.len, p, (size_t)(end - p))) {
			fail_msg("%s: the edit lost %.*s", name, (int)(end - p),
				 p);
		}
	}
}

static unsigned
one_file(const char *name)
{
	size_t len, n = 0;
	cleanup(free_ptr) char *text = slurp(name, ".conf", &len);
	cleanup(free_ptr) char *want = slurp(name, ".want", NULL);
	char *save = NULL;

	for (char *line = strtok_r(want, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save), n++) {
		char *how = strchr(line, '\t');
		char *value = how ? strchr(how + 1, '\t') : NULL;

		assert_non_null(value);
		*how++ = '\0';
		*value++ = '\0';
		check(name, text, len, line, how, value);
	}
	check_edit(name, text, len);
	return (unsigned)n;
}

static void
test_corpus(void **state)
{
	DIR *d = opendir(corpus);
	unsigned files = 0;

	(void)state;
	assert_non_null(d);
	for (struct dirent *de; (de = readdir(d));) {
		char *dot = strrchr(de->d_name, '.');

		if (!dot || strcmp(dot, ".conf") != 0) {
			continue;
		}
		*dot = '\0';
		files++;
		if (one_file(de->d_name) < 3) {
			fail_msg("%s: hardly anything is expected", de->d_name);
		}
	}
	closedir(d);
	assert_true(files >= FILES_MIN);
	assert_int_equal(executed(), 0);
}

/* And a shell would have: else the test above could not fail. */
static void
test_shell_would(void **state)
{
	int status; /* it ends in the middle of a word */

	(void)state;
	free(shell_has("shell-isms", "K", &status));
	assert_true(executed() >= 8);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_corpus),
		cmocka_unit_test(test_shell_would),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
