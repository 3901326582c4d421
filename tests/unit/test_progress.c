/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of report/progress: on a pseudo-terminal, a pipe, a full pipe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <jansson.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/io.h"
#include "report/progress.h"

#define WAIT_MS 20000

/* A raw pseudo-terminal of `cols` columns: what is written to *slave comes out
 * of *master unchanged. */
static void
open_pty(int *master, int *slave, unsigned short cols)
{
	struct winsize w = { .ws_row = 24, .ws_col = cols };
	struct termios t;
	char *name;

	*master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(*master >= 0);
	assert_int_equal(grantpt(*master), 0);
	assert_int_equal(unlockpt(*master), 0);
	name = ptsname(*master);
	assert_non_null(name);
	*slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(*slave >= 0);
	assert_int_equal(tcgetattr(*slave, &t), 0);
	cfmakeraw(&t);
	assert_int_equal(tcsetattr(*slave, TCSANOW, &t), 0);
	assert_int_equal(ioctl(*slave, TIOCSWINSZ, &w), 0);
}

/* All that is there now, or that comes until `until` is in it. */
static void
take(int fd, char *out, size_t size, const char *until)
{
	int64_t deadline = io_deadline(WAIT_MS);
	size_t len = 0;

	out[0] = '\0';
	for (;;) {
		struct pollfd w = { .fd = fd, .events = POLLIN };
		bool more = until && !strstr(out, until);
		ssize_t n;

		if (poll(&w, 1, more ? io_left_ms(deadline) : 0) <= 0 ||
		    len + 1 >= size) {
			assert_false(more);
			return;
		}
		n = read(fd, out + len, size - 1 - len);
		if (n <= 0) {
			return;
		}
		len += (size_t)n;
		out[len] = '\0';
	}
}

static void
test_terminal(void **state)
{
	char got[4096];
	struct progress *p;
	int m, s;

	(void)state;
	open_pty(&m, &s, 120);
	assert_int_equal(setenv("TERM", "xterm", 1), 0);
	p = progress_new(PROGRESS_AUTO, s, s, "CT 101", NULL);
	progress_stage(p, "pass 1");
	progress_tick(p, 1000);
	take(m, got, sizeof(got), NULL);
	assert_string_equal(got, "\rCT 101 pass 1\x1b[K");
	progress_total(p, 24500, 1000000000);
	progress_add(p, 1000, 250000000);
	progress_wire(p, 250000000, 100000000);
	progress_streams(p, 4);
	/* not time yet */
	progress_tick(p, 1199);
	take(m, got, sizeof(got), NULL);
	assert_string_equal(got, "");
	/* 250 MB in the first second, 750 MB to go */
	progress_tick(p, 2000);
	take(m, got, sizeof(got), NULL);
	assert_string_equal(got,
			    "\rCT 101 pass 1 25% 250 MB/1.0 GB 250 MB/s ETA "
			    "0:03 1000/24500 files 4 streams compressed "
			    "2.5:1\x1b[K");
	/* a log line replaces the line, which comes back: one write */
	progress_log_sink(LOGL_WARN, "odd", p);
	take(m, got, sizeof(got), NULL);
	assert_string_equal(got,
			    "\r\x1b[Kvzmigrate: warning: odd\n"
			    "\rCT 101 pass 1 25% 250 MB/1.0 GB 250 MB/s ETA "
			    "0:03 1000/24500 files 4 streams compressed "
			    "2.5:1\x1b[K");
	progress_limit(p, 10000000);
	progress_tick(p, 2200);
	take(m, got, sizeof(got), NULL);
	assert_non_null(strstr(got, " compressed 2.5:1 limit 10.0 MB/s\x1b[K"));
	progress_pause(p);
	progress_pause(p);
	take(m, got, sizeof(got), NULL);
	assert_string_equal(got, "\r\x1b[K");
	progress_log_sink(LOGL_INFO, "plain", p);
	progress_tick(p, 9000);
	take(m, got, sizeof(got), NULL);
	assert_string_equal(got, "vzmigrate: plain\n");
	progress_resume(p);
	progress_tick(p, 9900);
	take(m, got, sizeof(got), NULL);
	assert_string_equal(got, "");
	progress_resume(p);
	progress_tick(p, 10000);
	take(m, got, sizeof(got), NULL);
	assert_int_equal(strncmp(got, "\rCT 101 pass 1 25%", 18), 0);
	progress_free(p);
	take(m, got, sizeof(got), NULL);
	assert_string_equal(got, "\r\x1b[K");
	close(m);
	close(s);
}

/* Parts fall off from the right, never in the middle; nothing wraps. */
/* Zeros would look like a standstill, and each container has its name. */
static void
test_label(void **state)
{
	char got[4096];
	struct progress *p;
	int m, s;

	(void)state;
	open_pty(&m, &s, 120);
	assert_int_equal(setenv("TERM", "xterm", 1), 0);
	p = progress_new(PROGRESS_AUTO, s, s, "vzmigrate", NULL);
	progress_label(p, "a\nb");
	progress_stage(p, "proof");
	progress_tick(p, 1000);
	take(m, got, sizeof(got), NULL);
	assert_string_equal(got, "\ra\\nb proof\x1b[K");
	progress_free(p);
	close(m);
	close(s);
}

static void
test_width(void **state)
{
	static const struct {
		unsigned short cols;
		const char *line;
	} t[] = {
		{ 2, "\rC\x1b[K" },
		{ 10, "\rCT 101 pa\x1b[K" },
		{ 17, "\rCT 101 pass 1 0%\x1b[K" },
		{ 27, "\rCT 101 pass 1 0% 0 B/1.0 kB\x1b[K" },
		{ 28, "\rCT 101 pass 1 0% 0 B/1.0 kB\x1b[K" },
		{ 42, "\rCT 101 pass 1 0% 0 B/1.0 kB 0 B/s 0 files\x1b[K" },
	};
	char got[4096];
	int m, s;

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct progress *p;

		open_pty(&m, &s, t[i].cols);
		p = progress_new(PROGRESS_TERMINAL, s, s, "CT 101", NULL);
		progress_stage(p, "pass 1");
		progress_total(p, 0, 1000);
		progress_tick(p, 1000);
		take(m, got, sizeof(got), NULL);
		if (t[i].cols == 27) {
			/* 27 columns hold 26, the amount has 27 */
			assert_string_equal(got, "\rCT 101 pass 1 0% 0 B/s"
						 "\x1b[K");
		} else {
			assert_string_equal(got, t[i].line);
		}
		progress_free(p);
		close(m);
		close(s);
	}
}

/* Foreign bytes in label and stage; wide characters count double. */
static void
test_escapes(void **state)
{
	char got[4096];
	struct progress *p;
	int m, s;

	(void)state;
	open_pty(&m, &s, 13);
	p = progress_new(PROGRESS_TERMINAL, s, s, "a\x1b[2J\n", NULL);
	progress_tick(p, 0);
	take(m, got, sizeof(got), NULL);
	assert_string_equal(got, "\ra\\x1b[2J\\n\x1b[K");
	progress_free(p);
	take(m, got, sizeof(got), NULL);
	/* three of two columns, then what fits of the rest */
	p = progress_new(PROGRESS_TERMINAL, s, s,
			 "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5"
			 "\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5",
			 NULL);
	progress_tick(p, 0);
	take(m, got, sizeof(got), NULL);
	assert_string_equal(got, "\r\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e"
				 "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\x1b[K");
	progress_free(p);
	close(m);
	close(s);
}

static void
test_plain(void **state)
{
	char got[4096];
	struct progress *p;
	int fd[2];

	(void)state;
	assert_int_equal(pipe(fd), 0);
	p = progress_new(PROGRESS_AUTO, fd[1], fd[1], "CT 101", NULL);
	progress_stage(p, "pass 1");
	progress_tick(p, 0);
	progress_total(p, 10, 100000000);
	progress_add(p, 1, 50000000);
	progress_tick(p, 9999);
	take(fd[0], got, sizeof(got), NULL);
	assert_string_equal(got, "vzmigrate: CT 101 pass 1\n");
	progress_tick(p, 10000);
	progress_log_sink(LOGL_ERROR, "bad", p);
	take(fd[0], got, sizeof(got), NULL);
	assert_non_null(strstr(got, "vzmigrate: CT 101 pass 1 50% 50.0 MB/100 "
				    "MB "));
	assert_non_null(strstr(got, " 1/10 files\nvzmigrate: error: bad\n"));
	/* a new stage counts from 0 and is shown at once */
	progress_stage(p, "pass 2");
	progress_add(p, 2, 3000);
	progress_tick(p, 10001);
	take(fd[0], got, sizeof(got), NULL);
	assert_string_equal(got,
			    "vzmigrate: CT 101 pass 2 3.0 kB 0 B/s 2 files\n");
	progress_free(p);
	take(fd[0], got, sizeof(got), NULL);
	assert_string_equal(got, "");
	close(fd[0]);
	close(fd[1]);
}

/* A terminal that cannot move its cursor gets plain lines. */
static void
test_dumb(void **state)
{
	char got[4096];
	struct progress *p;
	int m, s;

	(void)state;
	open_pty(&m, &s, 80);
	assert_int_equal(setenv("TERM", "dumb", 1), 0);
	p = progress_new(PROGRESS_AUTO, s, s, "CT 1", NULL);
	progress_tick(p, 0);
	take(m, got, sizeof(got), NULL);
	assert_string_equal(got, "vzmigrate: CT 1\n");
	progress_free(p);
	close(m);
	close(s);
	assert_int_equal(setenv("TERM", "xterm", 1), 0);
}

static void
test_json(void **state)
{
	char got[4096];
	struct progress *p;
	json_t *o;
	int fd[2], log[2], streams;
	const char *event, *label, *stage;
	json_int_t files, bytes, total_files, total_bytes, rate, eta;
	json_int_t wire, limit;
	double ratio;

	(void)state;
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(pipe(log), 0);
	p = progress_new(PROGRESS_JSON, fd[1], log[1], "CT \"1\"", NULL);
	progress_stage(p, "pass 1");
	progress_tick(p, 0);
	take(fd[0], got, sizeof(got), NULL);
	o = json_loads(got, 0, NULL);
	assert_non_null(o);
	assert_null(json_object_get(o, "total_bytes"));
	assert_null(json_object_get(o, "eta"));
	assert_null(json_object_get(o, "ratio"));
	assert_null(json_object_get(o, "wire_bytes"));
	assert_null(json_object_get(o, "limit"));
	json_decref(o);
	progress_total(p, 10, 4000000);
	progress_add(p, 1, 1000000);
	progress_wire(p, 3, 2);
	progress_streams(p, 3);
	progress_limit(p, 5000);
	progress_log_sink(LOGL_WARN, "beside", p);
	progress_tick(p, 1000);
	take(fd[0], got, sizeof(got), NULL);
	assert_ptr_equal(strchr(got, '\n'), got + strlen(got) - 1);
	o = json_loads(got, 0, NULL);
	assert_non_null(o);
	assert_int_equal(json_unpack(o,
				     "{s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:i,"
				     "s:f,s:I,s:I!}",
				     "event", &event, "label", &label, "stage",
				     &stage, "files", &files, "bytes", &bytes,
				     "total_files", &total_files, "total_bytes",
				     &total_bytes, "rate", &rate, "eta", &eta,
				     "streams", &streams, "ratio", &ratio,
				     "wire_bytes", &wire, "limit", &limit),
			 0);
	assert_string_equal(event, "progress");
	assert_string_equal(label, "CT \"1\"");
	assert_string_equal(stage, "pass 1");
	assert_int_equal(files, 1);
	assert_int_equal(bytes, 1000000);
	assert_int_equal(total_files, 10);
	assert_int_equal(total_bytes, 4000000);
	assert_int_equal(rate, 1000000);
	assert_int_equal(eta, 3);
	assert_int_equal(streams, 3);
	assert_true(ratio > 1.499 && ratio < 1.501);
	assert_int_equal(wire, 2);
	assert_int_equal(limit, 5000);
	json_decref(o);
	/* log lines never come between the objects */
	take(log[0], got, sizeof(got), NULL);
	assert_string_equal(got, "vzmigrate: warning: beside\n");
	progress_free(p);
	close(fd[0]);
	close(fd[1]);
	close(log[0]);
	close(log[1]);
}

static void
test_quiet(void **state)
{
	char got[256];
	struct progress *p;
	int fd[2];

	(void)state;
	assert_int_equal(pipe(fd), 0);
	p = progress_new(PROGRESS_QUIET, fd[1], fd[1], "CT 1", NULL);
	progress_stage(p, "pass 1");
	progress_tick(p, 0);
	progress_flush(p);
	progress_log_sink(LOGL_ERROR, "bad", p);
	progress_free(p);
	take(fd[0], got, sizeof(got), NULL);
	assert_string_equal(got, "vzmigrate: error: bad\n");
	close(fd[0]);
	close(fd[1]);
}

/* The rate follows a change within some seconds, and a stall ends the ETA. */
static void
test_rate(void **state)
{
	char got[4096];
	struct progress *p;
	json_int_t rate = 0;
	int fd[2];

	(void)state;
	assert_int_equal(pipe(fd), 0);
	p = progress_new(PROGRESS_JSON, fd[1], fd[1], "", NULL);
	progress_stage(p, "s");
	progress_tick(p, 0);
	for (int i = 1; i <= 30; i++) {
		json_t *o;

		/* 1 MB/s for 10 s, then 2 MB/s for 10 s, then nothing */
		progress_add(p, 0, i <= 10 ? 1000000 : i <= 20 ? 2000000 : 0);
		take(fd[0], got, sizeof(got), NULL);
		progress_tick(p, i * 1000);
		take(fd[0], got, sizeof(got), "\n");
		o = json_loads(got, 0, NULL);
		assert_int_equal(json_unpack(o, "{s:I}", "rate", &rate), 0);
		json_decref(o);
		if (i <= 10) {
			assert_in_range(rate, 999990, 1000000);
		} else if (i <= 20) {
			/* 2 - e^(-t/3) MB/s */
			assert_in_range(rate, 1000000, 2000000);
		}
		if (i == 13) {
			assert_in_range(rate, 1632000, 1633000);
		}
		if (i == 20) {
			assert_in_range(rate, 1964000, 1965000);
		}
	}
	/* e^(-10/3) = 3.6 % of it is left */
	assert_in_range(rate, 69000, 71000);
	progress_free(p);
	close(fd[0]);
	close(fd[1]);
}

/* A display that went away costs the display alone. */
static void
test_gone(void **state)
{
	struct progress *p;
	int fd[2], log[2];
	char got[256];

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(pipe(log), 0);
	p = progress_new(PROGRESS_PLAIN, fd[1], log[1], "CT 1", NULL);
	close(fd[0]);
	progress_tick(p, 0);
	progress_tick(p, 20000);
	progress_log_sink(LOGL_WARN, "still here", p);
	take(log[0], got, sizeof(got), NULL);
	assert_string_equal(got, "vzmigrate: warning: still here\n");
	progress_free(p);
	close(fd[1]);
	close(log[0]);
	close(log[1]);
}

#define WRITERS 4
#define LINES 200

struct job {
	struct progress *p;
	int id;
};

static void *
work(void *arg)
{
	struct job *j = arg;

	for (int i = 0; i < LINES; i++) {
		progress_add(j->p, 1, 1000);
		progress_wire(j->p, 1000, 500);
		log_info("line %d of %d.", i, j->id);
	}
	return NULL;
}

/*
 * Four threads count and log while the display's own thread draws. What the
 * terminal shows of each finished line, after the last wipe in it, is one
 * whole log line; none is lost, none is out of order within its thread.
 */
static void
test_threads(void **state)
{
	static char got[1 << 22];
	struct job jobs[WRITERS];
	pthread_t t[WRITERS];
	struct progress *p;
	int m, s, handle, next[WRITERS] = { 0 }, seen = 0;
	size_t len = 0;
	int64_t deadline = io_deadline(WAIT_MS);
	char *line, *rest;

	(void)state;
	open_pty(&m, &s, 80);
	p = progress_new(PROGRESS_TERMINAL, s, s, "CT 1", NULL);
	handle = log_add_sink(LOGL_INFO, progress_log_sink, p);
	progress_stage(p, "pass 1");
	progress_flush(p);
	assert_int_equal(progress_start(p, NULL), 0);
	for (int i = 0; i < WRITERS; i++) {
		jobs[i] = (struct job){ p, i };
		assert_int_equal(pthread_create(&t[i], NULL, work, &jobs[i]),
				 0);
	}
	while (seen < WRITERS * LINES) {
		struct pollfd w = { .fd = m, .events = POLLIN };
		ssize_t n;

		assert_true(poll(&w, 1, io_left_ms(deadline)) == 1);
		n = read(m, got + len, sizeof(got) - 1 - len);
		assert_true(n > 0);
		for (ssize_t i = 0; i < n; i++) {
			seen += got[len + (size_t)i] == '\n';
		}
		len += (size_t)n;
	}
	for (int i = 0; i < WRITERS; i++) {
		pthread_join(t[i], NULL);
	}
	log_remove_sink(handle);
	got[len] = '\0';
	rest = got;
	for (int i = 0; i < WRITERS * LINES; i++) {
		char want[64], *wiped;
		int num, id;

		line = strsep(&rest, "\n");
		wiped = strrchr(line, '\x1b');
		assert_non_null(wiped);
		assert_int_equal(sscanf(wiped,
					"\x1b[Kvzmigrate: line %d of %d.", &num,
					&id),
				 2);
		assert_in_range(id, 0, WRITERS - 1);
		assert_int_equal(num, next[id]++);
		snprintf(want, sizeof(want), "\x1b[Kvzmigrate: line %d of %d.",
			 num, id);
		assert_string_equal(wiped, want);
	}
	progress_flush(p);
	take(m, got, sizeof(got), "800 files");
	assert_non_null(strstr(got, "800 kB"));
	assert_non_null(strstr(got, "compressed 2.0:1"));
	progress_free(p);
	take(m, got, sizeof(got), NULL);
	/* the last thing is a wiped line */
	assert_true(strlen(got) >= 4);
	assert_string_equal(got + strlen(got) - 4, "\r\x1b[K");
	close(m);
	close(s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_terminal), cmocka_unit_test(test_label),
		cmocka_unit_test(test_width),	 cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_plain),	 cmocka_unit_test(test_dumb),
		cmocka_unit_test(test_json),	 cmocka_unit_test(test_quiet),
		cmocka_unit_test(test_rate),	 cmocka_unit_test(test_gone),
		cmocka_unit_test(test_threads),
	};

	setlocale(LC_ALL, "");
	return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
