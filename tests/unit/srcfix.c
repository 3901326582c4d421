/* SPDX-License-Identifier: GPL-2.0-or-later */
/* srcfix: see the header. The kind's functions and the sender stand in for the
 * real ones; everything else is the program's own code. */
#include "srcfix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/io.h"
#include "migrate/statedir.h"
#include "track/ledger.h"
#include "wire/frame.h"
#include "wire/msg.h"

struct src_result srcfix_result;
struct err srcfix_err;
bool srcfix_check_only, srcfix_keep_dst;
enum plan_remove srcfix_remove;
const char *srcfix_new_id;
bool srcfix_up;
volatile int srcfix_stop;
unsigned srcfix_keepalive_ms;

static char top[64];
static char path_buf[8][256];

/* "TOP/fmt"; one of a few static strings. */
static const char *
path(const char *name)
{
	static int at;
	char *p = path_buf[at++ % 8];

	snprintf(p, sizeof(path_buf[0]), "%s/%s", top, name);
	return p;
}

static bool
there(const char *name)
{
	return access(path(name), F_OK) == 0;
}

static void
put(const char *name, const char *text)
{
	FILE *f = fopen(path(name), "w");

	if (!f || fputs(text, f) < 0 || fclose(f) != 0) {
		abort();
	}
}

static int
get(const char *name, char *out, size_t len)
{
	FILE *f = fopen(path(name), "r");
	size_t n = f ? fread(out, 1, len - 1, f) : 0;

	out[n] = '\0';
	if (f) {
		fclose(f);
	}
	return f ? 0 : -1;
}

static const struct ct_kind up_kind;

static const struct ct_kind *
kind(void)
{
	return srcfix_up ? &up_kind : &srcfix_kind;
}

/* ---- the kind: config is the container; its name tells the mark ---- */

static int
move(const char *from, const char *to, struct err *e)
{
	if (!there(from) && there(to)) {
		return 0;
	}
	return rename(path(from), path(to)) < 0
		       ? err_sys(e, errno, "%s to %s", from, to)
		       : 0;
}

static int
kind_load(const struct ct_host *h, const char *word, struct ct *c,
	  struct err *e)
{
	char tag[64];

	(void)h;
	memset(c, 0, sizeof(*c));
	if (strcmp(word, "ct1") != 0) {
		return err_set(e, E_NOT_FOUND, "no container %s", word);
	}
	if (there("config.migrated")) {
		get("config.migrated", tag, sizeof(tag));
		c->mark = CT_RETIRED;
		c->tag = strdup(tag);
	} else if (there("config.blocked")) {
		c->mark = CT_BLOCKED;
	} else if (!there("config")) {
		return err_set(e, E_NOT_FOUND, "no container %s", word);
	}
	c->kind = kind();
	c->id = strdup(word);
	c->tree = strdup(path("tree"));
	c->state = there("running") ? CT_RUNNING : CT_STOPPED;
	return 0;
}

static int
kind_lock(const struct ct_host *h, const struct ct *c, int *lockfd,
	  struct err *e)
{
	(void)h;
	if (there("locked")) {
		return err_set(e, E_BUSY, "%s is locked", c->id);
	}
	*lockfd = -1;
	return 0;
}

static void
kind_unlock(const struct ct_host *h, const struct ct *c, int lockfd)
{
	(void)h;
	(void)c;
	(void)lockfd;
}

static int
kind_state(const struct ct_host *h, const struct ct *c, enum ct_state *s,
	   struct err *e)
{
	(void)h;
	(void)c;
	(void)e;
	/* "raced": it was started just before it was blocked. */
	*s = there("running") || (there("raced") && !there("config"))
		     ? CT_RUNNING
		     : CT_STOPPED;
	return 0;
}

static int
kind_block(const struct ct_host *h, const struct ct *c, struct err *e)
{
	(void)h;
	(void)c;
	return move("config", "config.blocked", e);
}

static int
kind_unblock(const struct ct_host *h, const struct ct *c, struct err *e)
{
	(void)h;
	(void)c;
	return move("config.blocked", "config", e);
}

static int
kind_retire(const struct ct_host *h, const struct ct *c, const char *tag,
	    struct err *e)
{
	int rc;

	(void)h;
	(void)c;
	if (there("no-retire")) {
		return err_set(e, E_SYSTEM, "cannot retire");
	}
	rc = move("config.blocked", "config.migrated", e);
	if (rc == 0) {
		put("config.migrated", tag);
	}
	return rc;
}

static int
kind_unretire(const struct ct_host *h, const struct ct *c, const char *tag,
	      struct err *e)
{
	(void)h;
	(void)c;
	(void)tag;
	/* Where it was not retired yet it is blocked. */
	return there("config.migrated")
		       ? move("config.migrated", "config.blocked", e)
		       : 0;
}

static int
kind_destroy(const struct ct_host *h, const struct ct *c, struct err *e)
{
	(void)h;
	(void)c;
	if (there("no-destroy")) {
		return err_set(e, E_SYSTEM, "cannot destroy");
	}
	if (!there("config.migrated") && there("tree")) {
		return err_set(e, E_STATE, "not retired");
	}
	unlink(path("tree/file"));
	rmdir(path("tree"));
	unlink(path("config.migrated"));
	return 0;
}

const struct ct_kind srcfix_kind = {
	.name = "fix",
	.remove_default = true,
	.load = kind_load,
	.lock = kind_lock,
	.unlock = kind_unlock,
	.state = kind_state,
	.block = kind_block,
	.unblock = kind_unblock,
	.retire = kind_retire,
	.unretire = kind_unretire,
	.destroy = kind_destroy,
};

/* One that runs while the file "running" is there. */
static int
up_life(const struct ct_host *h, const struct ct *c, struct ct_life *l,
	struct err *e)
{
	(void)h;
	(void)c;
	(void)e;
	*l = (struct ct_life){ .state = CT_STOPPED };
	if (there("running")) {
		*l = (struct ct_life){ CT_RUNNING, 42, 7 };
	}
	return 0;
}

static int
up_stop(const struct ct_host *h, const struct ct *c, int64_t ms, struct err *e)
{
	(void)h;
	(void)c;
	(void)ms;
	if (there("no-stop")) {
		return err_set(e, E_STOP, "it goes on and on");
	}
	srcfix_mark("running", false);
	return 0;
}

static int
up_start(const struct ct_host *h, const struct ct *c, enum ct_state to,
	 struct err *e)
{
	(void)h;
	(void)c;
	(void)to;
	if (!there("config")) {
		return err_set(e, E_START, "it is blocked");
	}
	srcfix_mark("running", true);
	return 0;
}

static const struct ct_kind up_kind = {
	.name = "fix",
	.remove_default = true,
	.load = kind_load,
	.lock = kind_lock,
	.unlock = kind_unlock,
	.state = kind_state,
	.block = kind_block,
	.unblock = kind_unblock,
	.retire = kind_retire,
	.unretire = kind_unretire,
	.life = up_life,
	.stop = up_stop,
	.start = up_start,
	.destroy = kind_destroy,
};

/* ---- the sender ---- */

void
send_result_fini(struct send_result *r)
{
	memset(r, 0, sizeof(*r));
}

int
send_tree(int rootfd, struct link *l, const struct digest_key *key,
	  const struct send_opts *o, struct send_result *r, struct err *e)
{
	(void)rootfd;
	(void)l;
	(void)key;
	memset(r, 0, sizeof(*r));
	if (o->ledger && ledger_begin(o->ledger, o->pass, e) < 0) {
		return e->code;
	}
	if (there("interrupt")) {
		srcfix_stop = 1;
	}
	if (o->stop && *o->stop) {
		return err_set(e, E_CANCELLED, "interrupted");
	}
	if (there("vanished")) {
		return err_set(e, E_CHANGED, "tree/file vanished");
	}
	r->proof.entries = 2;
	r->proof.bytes = 5;
	r->bytes = 5;
	return 0;
}

int
send_survey(int rootfd, const struct send_opts *o, const struct fsprobe *there,
	    struct send_survey *s, struct err *e)
{
	(void)rootfd;
	(void)o;
	(void)there;
	(void)e;
	*s = (struct send_survey){ .bytes = 5, .entries = 2, .inodes = 2 };
	return 0;
}

int
send_explain(int rootfd, struct link *l, const struct digest_key *key,
	     uint32_t drop_flags, char *out, size_t outlen, struct err *e)
{
	(void)drop_flags;
	(void)rootfd;
	(void)l;
	(void)key;
	(void)e;
	snprintf(out, outlen, "file: content");
	return 0;
}

/* ---- the agent ---- */

static void
read_all(int fd, void *to, size_t len)
{
	if (io_read_full(fd, to, len, "agent", NULL) != (ssize_t)len) {
		_exit(0);
	}
}

static void
reply(int fd, uint32_t id, int code, const char *text, struct buf *body)
{
	struct frame_header h = { .type = FRAME_REPLY };
	uint8_t head[FRAME_HEADER];
	struct buf b;
	struct enc n;

	buf_init(&b, FRAME_PAYLOAD_MAX);
	enc_init(&n, &b, NULL);
	enc_u32(&n, id);
	enc_u32(&n, (uint32_t)code);
	enc_str(&n, text);
	if (body) {
		enc_raw(&n, body->data, body->len);
	}
	h.len = (uint32_t)b.len;
	frame_put_header(head, &h);
	if (io_write_full(fd, head, sizeof(head), "agent", NULL) < 0 ||
	    io_write_full(fd, b.data, b.len, "agent", NULL) < 0) {
		_exit(0);
	}
	buf_fini(&b);
}

/* The file of a session, and its state; MSG_DST_NONE where there is none. */
static const char *
session_file(const uint8_t id[MSG_ID_LEN])
{
	char name[64] = "dst/";

	for (int i = 0; i < MSG_ID_LEN; i++) {
		sprintf(name + 4 + 2 * i, "%02x", id[i]);
	}
	return path(name);
}

static int
read_state(const char *file)
{
	FILE *f = fopen(file, "r");
	int s = MSG_DST_NONE;

	if (f) {
		if (fscanf(f, "%d", &s) != 1) {
			s = MSG_DST_NONE;
		}
		fclose(f);
	}
	return s;
}

static void
write_state(const char *file, int s)
{
	char tmp[300];
	FILE *f;

	snprintf(tmp, sizeof(tmp), "%s.new", file);
	f = fopen(tmp, "w");
	if (!f || fprintf(f, "%d\n", s) < 0 || fclose(f) != 0 ||
	    rename(tmp, file) < 0) {
		abort();
	}
}

static void
put_hello(struct enc *n)
{
	struct utsname here;
	struct msg_hello_reply r = { .version = (char *)"test",
				     .boot_id = (char *)"boot",
				     .hostname = (char *)"b",
				     .kernel = here.release,
				     .machine = here.machine,
				     .time_s = time(NULL) };
	char host[16];

	if (uname(&here) < 0) {
		abort();
	}
	get("host", host, sizeof(host));
	r.host_id[0] = (uint8_t)atoi(host);
	msg_put_hello_reply(n, &r);
}

static void
put_check(struct enc *n, int trick)
{
	struct msg_check_reply r = { .fs = { .type = "ext4" } };

	if (trick == TRICK_FINDINGS || trick == TRICK_FINDING) {
		ct_finding_add(&r.findings, E_EXISTS, false, "in the way");
	}
	if (trick == TRICK_FINDINGS) {
		ct_finding_add(&r.findings, E_NOSPACE, false, "too small");
		ct_finding_add(&r.findings, E_NONE, true, "a bit odd");
	}
	msg_put_check_reply(n, &r);
	ct_findings_fini(&r.findings);
}

static void
put_proof(struct enc *n, int trick)
{
	struct msg_proof p = { .entries = 2, .bytes = 5 };

	if (trick == TRICK_DIFFER) {
		p.sum.b[0] = 1;
	}
	msg_put_proof(n, &p);
}

static void
put_state(struct enc *n, int s)
{
	struct msg_state m = { .state = (uint8_t)s };

	msg_put_state(n, &m);
}

static void
put_open(struct enc *n, int s)
{
	struct msg_open_reply r = { .epoch = 1,
				    .state = (uint8_t)s,
				    .id = (char *)"ct1",
				    .tree = (char *)"/there/ct1",
				    .stage = (char *)"/there/stage" };

	msg_put_open_reply(n, &r);
}

static void
put_taken(struct enc *n, int s)
{
	struct msg_take_over_reply r = { .state = (uint8_t)s,
					 .tree = (char *)"/there/ct1" };

	msg_put_take_over_reply(n, &r);
}

/* "no-start": it is committed, and does not start. */
static int
take_over(const uint8_t *body, size_t len, const char *file, int s,
	  struct enc *n)
{
	struct msg_take_over m;

	if (msg_get_take_over(body, len, &m, NULL) < 0) {
		return E_PROTOCOL;
	}
	if (s != MSG_DST_PROVEN && s != MSG_DST_COMMITTED &&
	    s != MSG_DST_RUNNING) {
		return E_STATE;
	}
	if (s == MSG_DST_PROVEN) {
		s = MSG_DST_COMMITTED;
		write_state(file, s);
	}
	if (m.start && s == MSG_DST_COMMITTED) {
		if (there("no-start")) {
			return E_START;
		}
		s = MSG_DST_RUNNING;
		write_state(file, s);
	}
	put_taken(n, s);
	return 0;
}

/* Do it; the body of the answer into `n`. 0 or a code. */
static int
act(int method, const uint8_t *body, size_t len, char file[300], int trick,
    struct enc *n)
{
	int s = *file ? read_state(file) : MSG_DST_NONE;
	struct msg_pass pass;
	struct msg_open o;

	switch (method) {
	case MSG_HELLO:
		put_hello(n);
		return 0;
	case MSG_OPEN:
		if (msg_get_open(body, len, &o, NULL) < 0) {
			return E_PROTOCOL;
		}
		snprintf(file, 300, "%s", session_file(o.session));
		msg_open_fini(&o);
		put_open(n, read_state(file));
		return 0;
	case MSG_FSPROBE:
		put_check(n, 0);
		return 0;
	case MSG_CHECK:
		put_check(n, trick);
		return 0;
	case MSG_RESERVE:
		write_state(file, MSG_DST_RESERVED);
		return 0;
	case MSG_PASS_END:
		if (msg_get_pass(body, len, &pass, NULL) < 0) {
			return E_PROTOCOL;
		}
		if (pass.final && trick != TRICK_DIFFER) {
			write_state(file, MSG_DST_PROVEN);
		}
		put_proof(n, trick);
		return 0;
	case MSG_TAKE_OVER:
		if (there("no-commit")) {
			return E_DENIED;
		}
		return take_over(body, len, file, s, n);
	case MSG_NEVER:
		if (s == MSG_DST_RUNNING ||
		    (s == MSG_DST_COMMITTED && !there("no-start"))) {
			put_state(n, s);
			return 0;
		}
		write_state(file, MSG_DST_NEVER);
		put_state(n, MSG_DST_NEVER);
		return 0;
	case MSG_ABORT:
		if (len != 1 || !body[0]) {
			write_state(file, MSG_DST_ABORTED);
		}
		put_state(n, MSG_DST_ABORTED);
		return 0;
	case MSG_FINISH:
		write_state(file, MSG_DST_FINISHED);
		put_state(n, MSG_DST_FINISHED);
		return 0;
	default: /* PUT_FILE, PASS_BEGIN, SYNC */
		return 0;
	}
}

/* The trick for `method`, which is played once. */
static int
take_trick(int method, int *code)
{
	char text[64];
	int trick, at;

	*code = 0;
	if (get("trick", text, sizeof(text)) < 0 ||
	    sscanf(text, "%d %d %d", &trick, &at, code) != 3 || at != method) {
		return TRICK_NONE;
	}
	unlink(path("trick"));
	return trick;
}

static void
serve(int fd, uint32_t id, int method, const uint8_t *body, size_t len,
      char file[300])
{
	struct buf b;
	struct enc n;
	int code, rc, trick = take_trick(method, &code);

	if (code == SRCFIX_CUT &&
	    (trick == TRICK_DIE_BEFORE || trick == TRICK_DIE_AFTER)) {
		put("unreachable", "");
	}
	if (trick == TRICK_DIE_BEFORE) {
		_exit(0);
	}
	if (trick == TRICK_HANG) {
		for (;;) {
			pause();
		}
	}
	if (trick == TRICK_REFUSE) {
		reply(fd, id, code, "refused as told", NULL);
		return;
	}
	buf_init(&b, MSG_BODY_MAX);
	enc_init(&n, &b, NULL);
	rc = act(method, body, len, file, trick, &n);
	if (trick == TRICK_DIE_AFTER) {
		_exit(0);
	}
	reply(fd, id, rc, rc ? "not in this state" : NULL, rc ? NULL : &b);
	buf_fini(&b);
}

static void __attribute__((noreturn)) agent(int fd)
{
	static uint8_t body[FRAME_PAYLOAD_MAX];
	char file[300] = "", line[FRAME_GREETING_MAX + 64];
	size_t n = frame_put_greeting(line, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (io_write_full(fd, line, n, "agent", NULL) < 0) {
		_exit(0);
	}
	for (;;) {
		uint8_t head[FRAME_HEADER];
		struct frame_header h;
		struct dec d;
		uint32_t id;
		int method;

		read_all(fd, head, sizeof(head));
		if (frame_get_header(head, &h, NULL) < 0) {
			_exit(1);
		}
		read_all(fd, body, h.len);
		if (h.type == FRAME_GOODBYE) {
			_exit(0);
		}
		if (h.type == FRAME_KEEPALIVE) {
			/* Answering them is enough: it is never busy. */
			if (io_write_full(fd, head, sizeof(head), "agent",
					  NULL) < 0) {
				_exit(0);
			}
			continue;
		}
		if (h.type != FRAME_REQUEST) {
			continue;
		}
		dec_init(&d, body, h.len);
		id = dec_u32(&d);
		method = dec_u16(&d);
		serve(fd, id, method, d.p, d.left, file);
	}
}

static int
dial(void *arg, bool must, struct bytechan **c, struct err *e)
{
	int fds[2];
	pid_t pid;

	(void)arg;
	(void)must;
	if (there("unreachable")) {
		return err_set(e, E_CONNECT, "b: no route");
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
		return err_sys(e, errno, "socketpair");
	}
	pid = fork();
	if (pid == 0) {
		/* Nothing else of ours, locks above all. */
		if (dup2(fds[1], 0) != 0 || close_range(3, ~0u, 0) < 0) {
			_exit(1);
		}
		agent(0);
	}
	close(fds[1]);
	*c = bytechan_fds(fds[0], fds[0], e);
	return *c ? 0 : e->code;
}

/* ---- running ---- */

void
srcfix_trick(enum srcfix_trick trick, enum msg_method method, int code)
{
	char text[64];

	snprintf(text, sizeof(text), "%d %d %d", (int)trick, (int)method, code);
	put("trick", text);
}

void
srcfix_unreachable(bool on)
{
	if (on) {
		put("unreachable", "");
	} else {
		unlink(path("unreachable"));
	}
}

void
srcfix_host(int n)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", n);
	put("host", text);
}

static void
reap(void)
{
	while (waitpid(-1, NULL, WNOHANG) > 0) {
	}
}

static int
run(const char *session)
{
	struct srcconn_opts o = { .dial = dial,
				  .host = "b",
				  .greeting_ms = 5000,
				  .keepalive_ms = srcfix_keepalive_ms };
	struct plan plan = { .kind = kind(),
			     .rounds = { .max_rounds = 2 },
			     .remove = srcfix_remove,
			     .keep_dst = srcfix_keep_dst,
			     .check_only = srcfix_check_only };
	struct src_env env = { .plan = &plan,
			       .dest = "root@b",
			       .stop = &srcfix_stop,
			       .tries = 3,
			       .pause_ms = 1 };
	struct plan_ct ct = { .word = (char *)"ct1",
			      .new_id = (char *)srcfix_new_id };
	int rc;

	src_result_fini(&srcfix_result);
	err_clear(&srcfix_err);
	env.conn = srcconn_new(&o, &srcfix_err);
	if (!env.conn) {
		return E_NOMEM;
	}
	rc = session ? src_take_back(&env, &ct, session, &srcfix_result,
				     &srcfix_err)
		     : src_migrate(&env, &ct, &srcfix_result, &srcfix_err);
	srcconn_free(env.conn);
	reap();
	return rc;
}

int
srcfix_run(void)
{
	return run(NULL);
}

int
srcfix_take_back(const char *session)
{
	return run(session);
}

int
srcfix_run_apart(const char *fault, int *rc)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		setenv("VZMIGRATE_FAULT", fault, 1);
		fault_reset();
		/* Small numbers fit an exit status. */
		_exit(-srcfix_run());
	}
	if (waitpid(pid, &status, 0) != pid) {
		abort();
	}
	if (WIFSIGNALED(status)) {
		return 1;
	}
	*rc = -WEXITSTATUS(status);
	return 0;
}

/* ---- looking ---- */

bool
srcfix_startable(void)
{
	return there("config");
}

bool
srcfix_retired(void)
{
	return there("config.migrated");
}

bool
srcfix_tree(void)
{
	return there("tree/file");
}

/* Call for each session of the destination. */
static int
each_session(int (*fn)(const char *file, int state, int arg), int arg)
{
	DIR *d = opendir(path("dst"));
	struct dirent *de;
	int sum = 0;

	while (d && (de = readdir(d))) {
		char name[64];

		if (strlen(de->d_name) != 2 * MSG_ID_LEN) {
			continue;
		}
		snprintf(name, sizeof(name), "dst/%.32s", de->d_name);
		sum += fn(path(name), read_state(path(name)), arg);
	}
	if (d) {
		closedir(d);
	}
	return sum;
}

static int
owns(const char *file, int state, int arg)
{
	(void)file;
	(void)arg;
	return state == MSG_DST_COMMITTED || state == MSG_DST_RUNNING ||
	       state == MSG_DST_FINISHED;
}

static int
left(const char *file, int state, int arg)
{
	(void)file;
	(void)arg;
	return state != MSG_DST_FINISHED && state != MSG_DST_ABORTED;
}

static int
set(const char *file, int state, int arg)
{
	(void)state;
	write_state(file, arg);
	return 1;
}

bool
srcfix_running(void)
{
	return there("running");
}

bool
srcfix_dst_owns(void)
{
	return each_session(owns, 0) > 0;
}

int
srcfix_dst_leftovers(void)
{
	return each_session(left, 0);
}

void
srcfix_dst_set(enum msg_dst_state s)
{
	if (each_session(set, (int)s) == 0) {
		abort();
	}
}

enum steps_state
srcfix_state(void)
{
	enum steps_state state;
	struct err e = { 0 };
	struct srcsession *s;

	if (srcsession_open("fix", "ct1", &s, &e) < 0) {
		fprintf(stderr, "%s\n", e.text);
		abort();
	}
	state = srcsession_state(s);
	srcsession_close(s);
	return state;
}

void
srcfix_history(int *closed)
{
	DIR *d = opendir(path("state/source/fix-ct1"));
	struct dirent *de;

	*closed = 0;
	while (d && (de = readdir(d))) {
		*closed += strlen(de->d_name) ==
			   strlen("journal.") + 2 * MSG_ID_LEN;
	}
	if (d) {
		closedir(d);
	}
}

int
srcfix_setup(void **state)
{
	(void)state;
	/* Hundreds of runs with all their fsyncs: in memory where possible. */
	strcpy(top, access("/dev/shm", W_OK) == 0 ? "/dev/shm/vzm-src-XXXXXX"
						  : "/tmp/vzm-src-XXXXXX");
	if (!mkdtemp(top) || mkdir(path("tree"), 0755) < 0 ||
	    mkdir(path("dst"), 0700) < 0) {
		return -1;
	}
	put("config", "");
	put("tree/file", "hello");
	srcfix_host(1);
	setenv("VZMIGRATE_STATE_DIR", path("state"), 1);
	unsetenv("VZMIGRATE_FAULT");
	srcfix_check_only = srcfix_keep_dst = false;
	srcfix_remove = PLAN_REMOVE_DEFAULT;
	srcfix_new_id = NULL;
	srcfix_up = false;
	srcfix_stop = 0;
	srcfix_keepalive_ms = 500;
	return 0;
}

static int
drop(const char *name, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(name);
}

int
srcfix_teardown(void **state)
{
	(void)state;
	src_result_fini(&srcfix_result);
	return nftw(top, drop, 16, FTW_DEPTH | FTW_PHYS);
}

void
srcfix_mark(const char *name, bool on)
{
	if (on) {
		put(name, "");
	} else {
		unlink(path(name));
	}
}
