/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * progress: counters that any thread adds to, and one line made from them.
 * Output: a terminal line, plain lines or JSON objects on a descriptor. The
 * counters are atomic; everything else in the struct is guarded by `lock`.
 * Nothing here logs, since the log calls in here (progress_log_sink).
 */
#include "report/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/escape.h"
#include "base/io.h"
#include "report/human.h"

#define LABEL_MAX 128
#define LINE_MAX_BYTES 512
#define RATE_TAU_MS 3000.0 /* time constant of the smoothed rate */
#define WIPE "\r\x1b[K"
#define WRITE_WAIT_MS 1000 /* a terminal stopped for longer is given up */

struct progress {
	enum progress_mode mode;
	int fd;				 /* borrowed */
	int log_fd;			 /* borrowed */
	uint64_t files, bytes;		 /* atomic; over the whole run */
	uint64_t want_files, want_bytes; /* atomic; of this stage */
	uint64_t content, wire;		 /* atomic */
	uint64_t limit;			 /* atomic; bytes per second; 0: none */
	unsigned streams;		 /* atomic */

	pthread_mutex_t lock;
	char label[LABEL_MAX];
	char stage[LABEL_MAX];
	uint64_t base_files, base_bytes; /* counters when the stage began */
	int64_t sampled_ms; /* when the rate was last updated; -1: never */
	uint64_t sampled;   /* bytes then */
	int64_t stage_ms;   /* first sample of the stage */
	double rate;	    /* bytes per second, smoothed */
	int64_t drawn_ms;   /* last drawing */
	bool due;	    /* draw at the next tick */
	bool shown;	    /* a redrawn line is on the terminal */
	unsigned paused;    /* depth */
	bool dead;	    /* the display could not be written */

	pthread_t thread;
	pthread_cond_t wake; /* for `stop` */
	bool running;
	bool stop;
};

/* What a line is made of. */
struct view {
	uint64_t files, bytes, want_files, want_bytes;
	uint64_t content, wire, limit;
	unsigned streams;
	double rate;
	int64_t eta_s; /* -1: unknown */
};

static uint64_t
get(const uint64_t *v)
{
	return __atomic_load_n(v, __ATOMIC_RELAXED);
}

/* Whole, or the display is given up. */
static void
put(struct progress *p, int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n >= 0) {
			text += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			struct pollfd w = { .fd = fd, .events = POLLOUT };

			if (poll(&w, 1, WRITE_WAIT_MS) == 0) {
				p->dead = fd == p->fd || p->dead;
				return;
			}
		} else if (errno != EINTR) {
			p->dead = fd == p->fd || p->dead;
			return;
		}
	}
}

static unsigned
width(const struct progress *p)
{
	struct winsize w;

	if (ioctl(p->fd, TIOCGWINSZ, &w) || w.ws_col < 2) {
		return 80;
	}
	return w.ws_col;
}

/* Columns of a text, at least: what may be wide counts as two. */
static size_t
columns(const char *s)
{
	size_t n = 0;

	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c < 0x80 || (c >= 0xc0 && c < 0xe1)) {
			n++;
		} else if (c >= 0xe1) {
			n += 2;
		}
	}
	return n;
}

/* Cut at a character's border to at most `max` columns. */
static void
cut(char *s, size_t max)
{
	size_t len = strlen(s);

	while (len && columns(s) > max) {
		do {
			len--;
		} while (len && ((unsigned char)s[len] & 0xc0) == 0x80);
		s[len] = '\0';
	}
}

/* Append a part if it fits whole; parts come most important first. */
static void __attribute__((format(printf, 3, 4)))
part(char *line, size_t max, const char *fmt, ...)
{
	char text[128];
	size_t len = strlen(line);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (columns(line) + columns(text) <= max &&
	    len + strlen(text) < LINE_MAX_BYTES) {
		memcpy(line + len, text, strlen(text) + 1);
	}
}

static void
make_line(const struct progress *p, const struct view *v, char *line,
	  size_t max)
{
	char a[HUMAN_MAX], b[HUMAN_MAX];
	uint64_t percent = 0, ratio;

	snprintf(line, LINE_MAX_BYTES, "%s%s%s", p->label,
		 p->stage[0] && p->label[0] ? " " : "", p->stage);
	cut(line, max);
	/* A stage that counts nothing here: the work is the other side's. */
	if (!v->want_bytes && !v->want_files && !v->bytes && !v->files) {
		return;
	}
	if (v->want_bytes) {
		percent = (uint64_t)(100 * ((double)v->bytes /
					    (double)v->want_bytes));
		part(line, max, " %" PRIu64 "%%",
		     percent > 100 ? 100 : percent);
		part(line, max, " %s/%s", human_bytes(a, v->bytes),
		     human_bytes(b, v->want_bytes));
	} else {
		part(line, max, " %s", human_bytes(a, v->bytes));
	}
	part(line, max, " %s", human_rate(a, (uint64_t)v->rate));
	if (v->eta_s >= 0) {
		part(line, max, " ETA %s", human_clock(a, v->eta_s));
	}
	if (v->want_files) {
		part(line, max, " %" PRIu64 "/%" PRIu64 " files", v->files,
		     v->want_files);
	} else {
		part(line, max, " %" PRIu64 " files", v->files);
	}
	if (v->streams) {
		part(line, max, " %u stream%s", v->streams,
		     v->streams == 1 ? "" : "s");
	}
	/* What is not compressed has a little more on the wire. */
	if (v->wire && v->content / 51 > v->wire / 50) {
		ratio = (uint64_t)(10 * ((double)v->content / (double)v->wire) +
				   0.5);
		part(line, max, " compressed %" PRIu64 ".%" PRIu64 ":1",
		     ratio / 10, ratio % 10);
	}
	if (v->limit) {
		part(line, max, " limit %s", human_rate(a, v->limit));
	}
}

static void
see(const struct progress *p, struct view *v)
{
	v->files = get(&p->files) - p->base_files;
	v->bytes = get(&p->bytes) - p->base_bytes;
	v->want_files = get(&p->want_files);
	v->want_bytes = get(&p->want_bytes);
	v->content = get(&p->content);
	v->wire = get(&p->wire);
	v->limit = get(&p->limit);
	v->streams = __atomic_load_n(&p->streams, __ATOMIC_RELAXED);
	v->rate = p->rate;
	v->eta_s = -1;
	if (v->want_bytes >= v->bytes && v->want_bytes && v->rate >= 1) {
		double s = (double)(v->want_bytes - v->bytes) / v->rate;

		v->eta_s = s < 1e9 ? (int64_t)(s + 0.5) : -1;
	}
}

static bool
set(json_t *o, const char *key, json_t *value)
{
	return json_object_set_new(o, key, value) == 0;
}

static void
draw_json(struct progress *p, const struct view *v)
{
	json_t *o = json_object();
	char *text = NULL;
	bool ok = o && set(o, "event", json_string("progress")) &&
		  set(o, "label", json_string(p->label)) &&
		  set(o, "stage", json_string(p->stage)) &&
		  set(o, "files", json_integer((json_int_t)v->files)) &&
		  set(o, "bytes", json_integer((json_int_t)v->bytes)) &&
		  set(o, "rate", json_integer((json_int_t)v->rate)) &&
		  set(o, "streams", json_integer(v->streams));

	if (ok && v->want_files) {
		ok = set(o, "total_files",
			 json_integer((json_int_t)v->want_files));
	}
	if (ok && v->want_bytes) {
		ok = set(o, "total_bytes",
			 json_integer((json_int_t)v->want_bytes));
	}
	if (ok && v->eta_s >= 0) {
		ok = set(o, "eta", json_integer(v->eta_s));
	}
	if (ok && v->wire) {
		ok = set(o, "wire_bytes", json_integer((json_int_t)v->wire)) &&
		     set(o, "ratio",
			 json_real((double)v->content / (double)v->wire));
	}
	if (ok && v->limit) {
		ok = set(o, "limit", json_integer((json_int_t)v->limit));
	}
	/* Out of memory costs one object of many. */
	text = ok ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(4)) : NULL;
	json_decref(o);
	if (text) {
		size_t len = strlen(text);

		text[len] = '\n'; /* in place of the NUL: one write */
		put(p, p->fd, text, len + 1);
	}
	free(text);
}

/* The lock is held. `before` is written with the line, in one piece. */
static void
draw(struct progress *p, const char *before)
{
	char line[LINE_MAX_BYTES], out[LINE_MAX_BYTES + LOG_LINE_MAX + 128];
	struct view v;
	int n = 0;

	see(p, &v);
	if (p->dead || p->paused || p->mode == PROGRESS_QUIET) {
		return;
	}
	p->due = false;
	if (p->mode == PROGRESS_JSON) {
		draw_json(p, &v);
		return;
	}
	if (p->mode == PROGRESS_PLAIN) {
		make_line(p, &v, line, LINE_MAX_BYTES / 2);
		n = snprintf(out, sizeof(out), "vzmigrate: %s\n", line);
	} else {
		make_line(p, &v, line, width(p) - 1);
		n = snprintf(out, sizeof(out), "%s\r%s\x1b[K", before, line);
		p->shown = true;
	}
	put(p, p->fd, out, (size_t)n);
}

static void
sample(struct progress *p, int64_t now)
{
	uint64_t bytes = get(&p->bytes);
	double dt, since, fresh, weight;

	if (p->sampled_ms < 0) {
		p->sampled_ms = p->stage_ms = now;
		p->sampled = p->base_bytes;
	}
	dt = (double)(now - p->sampled_ms);
	if (dt <= 0) {
		return;
	}
	since = (double)(now - p->stage_ms);
	fresh = (double)(bytes - p->sampled) * 1000 / dt;
	weight = 1 - exp(-dt / RATE_TAU_MS);
	/* A young stage has no past to smooth with: its plain mean. */
	if (since < RATE_TAU_MS) {
		weight = dt / since;
	}
	p->rate += weight * (fresh - p->rate);
	p->sampled_ms = now;
	p->sampled = bytes;
}

static int64_t
interval(const struct progress *p)
{
	return p->mode == PROGRESS_TERMINAL ? 200
	       : p->mode == PROGRESS_JSON   ? 1000
					    : 10000;
}

static void
wipe(struct progress *p)
{
	if (p->shown && !p->dead) {
		put(p, p->fd, WIPE, strlen(WIPE));
	}
	p->shown = false;
}

static enum progress_mode
resolve(enum progress_mode mode, int fd)
{
	const char *term = getenv("TERM");

	if (mode != PROGRESS_AUTO) {
		return mode;
	}
	return isatty(fd) && term && *term && strcmp(term, "dumb") != 0
		       ? PROGRESS_TERMINAL
		       : PROGRESS_PLAIN;
}

struct progress *
progress_new(enum progress_mode mode, int fd, int log_fd, const char *label,
	     struct err *e)
{
	struct progress *p = calloc(1, sizeof(*p));
	pthread_condattr_t attr;

	if (!p) {
		err_nomem(e);
		return NULL;
	}
	p->mode = resolve(mode, fd);
	p->fd = fd;
	p->log_fd = log_fd;
	escape_text(p->label, sizeof(p->label), label);
	p->sampled_ms = -1;
	p->drawn_ms = INT64_MIN / 2;
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->wake, &attr);
	pthread_condattr_destroy(&attr);
	return p;
}

void
progress_free(struct progress *p)
{
	if (!p) {
		return;
	}
	if (p->running) {
		pthread_mutex_lock(&p->lock);
		p->stop = true;
		pthread_cond_signal(&p->wake);
		pthread_mutex_unlock(&p->lock);
		pthread_join(p->thread, NULL);
	}
	wipe(p);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* The lock is held. */
static void
tick(struct progress *p, int64_t now)
{
	sample(p, now);
	if (p->due || now - p->drawn_ms >= interval(p)) {
		p->drawn_ms = now;
		draw(p, "");
	}
}

static void *
run(void *arg)
{
	struct progress *p = arg;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		int64_t until = io_now_ms() + 200;
		struct timespec t = { .tv_sec = until / 1000,
				      .tv_nsec = until % 1000 * 1000000 };

		tick(p, io_now_ms());
		pthread_cond_timedwait(&p->wake, &p->lock, &t);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

int
progress_start(struct progress *p, struct err *e)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&p->thread, NULL, run, p);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r) {
		return err_sys(e, r, "cannot start the progress thread");
	}
	p->running = true;
	return 0;
}

void
progress_tick(struct progress *p, int64_t now_ms)
{
	pthread_mutex_lock(&p->lock);
	tick(p, now_ms);
	pthread_mutex_unlock(&p->lock);
}

void
progress_flush(struct progress *p)
{
	pthread_mutex_lock(&p->lock);
	sample(p, io_now_ms());
	draw(p, "");
	pthread_mutex_unlock(&p->lock);
}

void
progress_label(struct progress *p, const char *label)
{
	pthread_mutex_lock(&p->lock);
	escape_text(p->label, sizeof(p->label), label);
	pthread_mutex_unlock(&p->lock);
}

void
progress_stage(struct progress *p, const char *name)
{
	pthread_mutex_lock(&p->lock);
	escape_text(p->stage, sizeof(p->stage), name);
	p->base_files = get(&p->files);
	p->base_bytes = get(&p->bytes);
	p->sampled_ms = -1;
	p->rate = 0;
	p->due = true;
	__atomic_store_n(&p->want_files, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&p->want_bytes, 0, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&p->lock);
}

void
progress_total(struct progress *p, uint64_t files, uint64_t bytes)
{
	__atomic_store_n(&p->want_files, files, __ATOMIC_RELAXED);
	__atomic_store_n(&p->want_bytes, bytes, __ATOMIC_RELAXED);
}

void
progress_add(struct progress *p, uint64_t files, uint64_t bytes)
{
	__atomic_fetch_add(&p->files, files, __ATOMIC_RELAXED);
	__atomic_fetch_add(&p->bytes, bytes, __ATOMIC_RELAXED);
}

void
progress_wire(struct progress *p, uint64_t content, uint64_t wire)
{
	__atomic_fetch_add(&p->content, content, __ATOMIC_RELAXED);
	__atomic_fetch_add(&p->wire, wire, __ATOMIC_RELAXED);
}

void
progress_streams(struct progress *p, unsigned n)
{
	__atomic_store_n(&p->streams, n, __ATOMIC_RELAXED);
}

void
progress_limit(struct progress *p, uint64_t rate)
{
	__atomic_store_n(&p->limit, rate, __ATOMIC_RELAXED);
}

void
progress_pause(struct progress *p)
{
	pthread_mutex_lock(&p->lock);
	p->paused++;
	wipe(p);
	pthread_mutex_unlock(&p->lock);
}

void
progress_resume(struct progress *p)
{
	pthread_mutex_lock(&p->lock);
	if (p->paused > 0) {
		p->paused--;
	}
	p->due = true;
	pthread_mutex_unlock(&p->lock);
}

void
progress_log_sink(enum log_level level, const char *line, void *arg)
{
	struct progress *p = arg;
	char text[LOG_LINE_MAX + 64];
	bool plain = level == LOGL_INFO, was_shown;
	int n;

	pthread_mutex_lock(&p->lock);
	was_shown = p->shown && !p->dead;
	n = snprintf(text, sizeof(text), "%svzmigrate: %s%s%s\n",
		     was_shown && p->fd == p->log_fd ? WIPE : "",
		     plain ? "" : log_level_name(level), plain ? "" : ": ",
		     line);
	n = n < (int)sizeof(text) ? n : (int)sizeof(text) - 1;
	if (was_shown && p->fd == p->log_fd && !p->paused) {
		draw(p, text);
	} else {
		if (was_shown) {
			wipe(p);
		}
		put(p, p->log_fd, text, (size_t)n);
		if (was_shown) {
			draw(p, "");
		}
	}
	pthread_mutex_unlock(&p->lock);
}
