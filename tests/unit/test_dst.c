/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The destination's half as the source sees it: real agents (the program
 * agent_faulty, which is vzmigrate-agent with fault points) over socketpairs,
 * driven by the client's link. The main part kills the agent at every point
 * at which it passes, and looks at what the next one makes of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <linux/fs.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "migrate/dst.h"
#include "migrate/dst_rec.h"
#include "xfer/link.h"
#include "track/ledger.h"
#include "xfer/send.h"
#include "needroot.h"

#define CALL_MS 60000
#define POINTS_MAX 2000 /* a run passes some hundreds */

/* Which points are visited: each only with VZ_TEST_FULL in the environment
 * (tests/run --full). What the sanitizers look for does not depend on the
 * point, and they make an agent's start slow. */
#ifdef __SANITIZE_ADDRESS__
#define STRIDE_QUICK 17
#define STRIDE_FULL 3
#else
#define STRIDE_QUICK 7
#define STRIDE_FULL 1
#endif

static char top[64];		  /* everything of one test */
static char agent_path[PATH_MAX]; /* agent_faulty */
static uint8_t session[MSG_ID_LEN];
static const char *kind = "dir";

/* One agent with the link to it. */
struct agent {
	pid_t pid;
	struct link *l;
	struct digest_key key;
	struct msg_hello_reply hello;
	uint32_t epoch; /* of the last OPEN */
};

/* ---- files ---- */

static char *
at(const char *fmt, ...)
{
	static char ring[8][PATH_MAX];
	static unsigned next;
	char *out = ring[next++ % 8];
	va_list ap;
	int n = snprintf(out, PATH_MAX, "%s/", top);

	va_start(ap, fmt);
	vsnprintf(out + n, (size_t)(PATH_MAX - n), fmt, ap);
	va_end(ap);
	return out;
}

static bool
is_there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static void
write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static char *
read_text(const char *path)
{
	struct err e = { 0 };
	char *p;

	if (io_read_file(AT_FDCWD, path, 1 << 20, &p, NULL, &e) < 0) {
		fail_msg("%s", e.text);
	}
	return p;
}

static int
root_flag(const char *path, bool set, bool on)
{
	cleanup(close_fd) int fd =
		open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int flags = 0;

	if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0) {
		return -1;
	}
	if (!set) {
		return flags & FS_IMMUTABLE_FL ? 1 : 0;
	}
	flags = on ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
	return ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

static int
wipe_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void
wipe(const char *path)
{
	if (is_there(path)) {
		assert_int_equal(nftw(path, wipe_one, 16, FTW_DEPTH | FTW_PHYS),
				 0);
	}
}

/* How many names a directory has, which may be missing; appended to `list`
 * (may be NULL) for the message. */
static unsigned
count_names(const char *path, char *list, size_t len)
{
	DIR *d = opendir(path);
	struct dirent *de;
	unsigned n = 0;

	while (d && (de = readdir(d))) {
		if (strcmp(de->d_name, ".") == 0 ||
		    strcmp(de->d_name, "..") == 0) {
			continue;
		}
		n++;
		if (list) {
			size_t at_ = strlen(list);

			snprintf(list + at_, len - at_, " %s", de->d_name);
		}
	}
	if (d) {
		closedir(d);
	}
	return n;
}

/* ---- agents ---- */

static void
child_agent(int fd, const char *fault, const char *const *args)
{
	const char *argv[8] = { agent_path };
	size_t n = 1;

	while (args && *args) {
		argv[n++] = *args++;
	}
	if (fault) {
		setenv("VZMIGRATE_FAULT", fault, 1);
	} else {
		unsetenv("VZMIGRATE_FAULT");
	}
	dup2(fd, 0);
	dup2(fd, 1);
	execv(agent_path, (char *const *)(uintptr_t)argv);
	_exit(127);
}

static int
start_args(struct agent *a, const char *fault, const char *const *args,
	   struct err *e)
{
	const struct link_opts o = { .greeting_ms = 20000,
				     .keepalive_ms = 2000,
				     .host = "b" };
	struct bytechan *c;
	int sv[2];

	*a = (struct agent){ .pid = -1 };
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv),
			 0);
	assert_int_equal(digest_key_new(&a->key, e), 0);
	a->pid = fork();
	assert_true(a->pid >= 0);
	if (a->pid == 0) {
		child_agent(sv[1], fault, args);
	}
	close(sv[1]);
	c = bytechan_fds(sv[0], sv[0], e);
	assert_non_null(c);
	return link_open(c, &o, &a->key, &a->l, &a->hello, e);
}

static int
start(struct agent *a, const char *fault, struct err *e)
{
	return start_args(a, fault, NULL, e);
}

/* End the link and reap; whether the agent was killed. */
static bool
finish(struct agent *a)
{
	int st;

	link_close(a->l);
	a->l = NULL;
	msg_hello_reply_fini(&a->hello);
	assert_int_equal(waitpid(a->pid, &st, 0), a->pid);
	return WIFSIGNALED(st);
}

static void
must_start(struct agent *a, const char *fault)
{
	struct err e = { 0 };

	if (start(a, fault, &e) < 0) {
		fail_msg("%s", e.text);
	}
}

/* ---- requests ---- */

static int
call(struct agent *a, enum msg_method m, const struct buf *body,
     struct buf *reply, struct err *e)
{
	return link_call(a->l, m, body ? body->data : NULL,
			 body ? body->len : 0, reply, CALL_MS, e);
}

static char place[PATH_MAX]; /* where the container is to go */

static int
do_open(struct agent *a, const char *new_id, int *state, struct err *e)
{
	struct buf b, r;
	struct enc n;
	struct msg_open m = { .kind = (char *)(uintptr_t)kind,
			      .source = (char *)"a src",
			      .id = (char *)"web" };
	struct msg_open_reply o = { 0 };
	char src[PATH_MAX], lxc[PATH_MAX];
	int rc;

	memcpy(m.session, session, sizeof(session));
	if (strcmp(kind, "dir") == 0) {
		snprintf(src, sizeof(src), "%s/src", top);
		m.id = src;
		m.new_private = (char *)(uintptr_t)(new_id ? new_id : place);
	} else {
		snprintf(lxc, sizeof(lxc), "%s/lxc", top);
		m.lxcpath = lxc;
		m.new_id = (char *)(uintptr_t)new_id;
	}
	buf_init(&b, MSG_BODY_MAX);
	buf_init(&r, MSG_BODY_MAX);
	enc_init(&n, &b, e);
	msg_put_open(&n, &m);
	assert_int_equal(n.rc, 0);
	rc = call(a, MSG_OPEN, &b, &r, e);
	if (rc == 0) {
		rc = msg_get_open_reply(r.data, r.len, &o, e);
	}
	if (rc == 0) {
		a->epoch = o.epoch;
		*state = o.state;
	}
	msg_open_reply_fini(&o);
	buf_fini(&b);
	buf_fini(&r);
	return rc;
}

static int
do_put_file(struct agent *a, const char *role, const char *text, struct err *e)
{
	struct msg_put_file m = { .role = (char *)(uintptr_t)role,
				  .data = (uint8_t *)(uintptr_t)text,
				  .len = strlen(text),
				  .mode = 0644 };
	struct buf b;
	struct enc n;
	int rc;

	buf_init(&b, MSG_BODY_MAX);
	enc_init(&n, &b, e);
	msg_put_put_file(&n, &m);
	rc = call(a, MSG_PUT_FILE, &b, NULL, e);
	buf_fini(&b);
	return rc;
}

static int
put_files(struct agent *a, struct err *e)
{
	int rc;

	if (strcmp(kind, "dir") == 0) {
		return 0;
	}
	rc = do_put_file(a, "config", "lxc.uts.name = web\n", e);
	return rc < 0 ? rc : do_put_file(a, "extra/notes", "hello\n", e);
}

/* FSPROBE, or CHECK with its body. */
static int
ask_check(struct agent *a, enum msg_method method, struct buf *body,
	  struct msg_check_reply *out, struct err *e)
{
	struct buf r;
	int rc;

	buf_init(&r, MSG_BODY_MAX);
	rc = call(a, method, body, &r, e);
	if (rc == 0) {
		rc = msg_get_check_reply(r.data, r.len, out, e);
	}
	buf_fini(&r);
	return rc;
}

static int
do_fsprobe(struct agent *a, struct msg_check_reply *out, struct err *e)
{
	struct buf none = { 0 };

	return ask_check(a, MSG_FSPROBE, &none, out, e);
}

static int
do_check(struct agent *a, uint64_t bytes, struct msg_check_reply *out,
	 struct err *e)
{
	struct msg_check m = { .bytes = bytes, .inodes = 10 };
	struct buf b;
	struct enc n;
	int rc;

	buf_init(&b, MSG_BODY_MAX);
	enc_init(&n, &b, e);
	msg_put_check(&n, &m);
	rc = ask_check(a, MSG_CHECK, &b, out, e);
	buf_fini(&b);
	return rc;
}

static int
do_pass_no(struct agent *a, enum msg_method method, uint32_t number, bool final,
	   struct msg_proof *p, struct err *e)
{
	struct msg_pass m = { .number = number, .final = final };
	struct buf b, r;
	struct enc n;
	int rc;

	buf_init(&b, MSG_BODY_MAX);
	buf_init(&r, MSG_BODY_MAX);
	enc_init(&n, &b, e);
	msg_put_pass(&n, &m);
	rc = call(a, method, &b, p ? &r : NULL, e);
	if (rc == 0 && p) {
		rc = msg_get_proof(r.data, r.len, p, e);
	}
	buf_fini(&b);
	buf_fini(&r);
	return rc;
}

static int
do_pass(struct agent *a, enum msg_method method, struct msg_proof *p,
	struct err *e)
{
	return do_pass_no(a, method, 1, true, p, e);
}

/* One of several passes. */
static int
one_pass(struct agent *a, struct ledger *l, uint32_t number, bool final,
	 struct err *e)
{
	const struct send_opts o = {
		.threads = 2, .ledger = l, .pass = number, .final = final
	};
	struct send_result sent = { 0 };
	struct msg_proof got;
	cleanup(close_fd) int fd =
		open(at("src"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = do_pass_no(a, MSG_PASS_BEGIN, number, final, NULL, e);

	rc = rc < 0 ? rc : send_tree(fd, a->l, &a->key, &o, &sent, e);
	rc = rc < 0 ? rc : do_pass_no(a, MSG_PASS_END, number, final, &got, e);
	if (rc == 0) {
		ledger_commit(l);
		if (final && !digest_eq(&got.sum, &sent.proof.sum)) {
			rc = err_set(e, E_VERIFY, "the proofs differ");
		} else if (!final && got.entries) {
			rc = err_set(e, E_VERIFY, "a proof too early");
		}
	}
	send_result_fini(&sent);
	return rc;
}

/* The whole tree, with the proofs compared. */
static int
copy_tree(struct agent *a, struct err *e)
{
	const struct send_opts o = { .threads = 2 };
	struct send_result sent = { 0 };
	struct msg_proof got;
	cleanup(close_fd) int fd =
		open(at("src"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = do_pass(a, MSG_PASS_BEGIN, NULL, e);

	assert_true(fd >= 0);
	if (rc == 0) {
		rc = send_tree(fd, a->l, &a->key, &o, &sent, e);
	}
	if (rc == 0) {
		rc = do_pass(a, MSG_PASS_END, &got, e);
	}
	if (rc == 0 && (got.entries != sent.proof.entries ||
			!digest_eq(&got.sum, &sent.proof.sum))) {
		rc = err_set(e, E_VERIFY, "the proofs differ");
	}
	send_result_fini(&sent);
	return rc;
}

static int
do_take_over(struct agent *a, uint32_t epoch, int *state, struct err *e)
{
	struct msg_take_over m = { .epoch = epoch };
	struct msg_take_over_reply t = { 0 };
	struct buf b, r;
	struct enc n;
	int rc;

	buf_init(&b, MSG_BODY_MAX);
	buf_init(&r, MSG_BODY_MAX);
	enc_init(&n, &b, e);
	msg_put_take_over(&n, &m);
	rc = call(a, MSG_TAKE_OVER, &b, &r, e);
	if (rc == 0) {
		rc = msg_get_take_over_reply(r.data, r.len, &t, e);
	}
	if (rc == 0) {
		*state = t.state;
	}
	msg_take_over_reply_fini(&t);
	buf_fini(&b);
	buf_fini(&r);
	return rc;
}

/* NEVER, ABORT or FINISH. */
static int
do_end(struct agent *a, enum msg_method method, bool keep, int *state,
       struct err *e)
{
	struct msg_abort m = { .keep = keep };
	struct msg_state s = { 0 };
	struct buf b, r;
	struct enc n;
	int rc;

	buf_init(&b, MSG_BODY_MAX);
	buf_init(&r, MSG_BODY_MAX);
	enc_init(&n, &b, e);
	if (method == MSG_ABORT) {
		msg_put_abort(&n, &m);
	}
	rc = call(a, method, &b, &r, e);
	if (rc == 0) {
		rc = msg_get_state(r.data, r.len, &s, e);
	}
	if (rc == 0) {
		*state = s.state;
	}
	msg_state_fini(&s);
	buf_fini(&b);
	buf_fini(&r);
	return rc;
}

static void
need(int rc, const struct err *e, const char *what)
{
	if (rc < 0) {
		fail_msg("%s: %s", what, e->text);
	}
}

/* ---- the source's part, in small ---- */

/* From OPEN to the proof. */
static int
prepare(struct agent *a, struct err *e)
{
	int state, rc = do_open(a, NULL, &state, e);

	if (rc == 0) {
		rc = put_files(a, e);
	}
	if (rc == 0) {
		rc = call(a, MSG_RESERVE, NULL, NULL, e);
	}
	if (rc == 0) {
		rc = copy_tree(a, e);
	}
	return rc == 0 ? call(a, MSG_SYNC, NULL, NULL, e) : rc;
}

/* The source's own journal: 1 once it has retired its container. */
static int
go_forward(struct agent *a, bool *retired, struct err *e)
{
	int state, rc = do_open(a, NULL, &state, e);

	if (rc == 0 && !*retired) {
		rc = prepare(a, e);
		if (rc == 0) {
			*retired = true;
		}
	}
	if (rc == 0 && state != MSG_DST_FINISHED) {
		rc = do_take_over(a, a->epoch, &state, e);
	}
	return rc == 0 ? do_end(a, MSG_FINISH, false, &state, e) : rc;
}

static int
go_back(struct agent *a, struct err *e)
{
	int state, rc = do_open(a, NULL, &state, e);

	if (rc == 0) {
		rc = do_end(a, MSG_NEVER, false, &state, e);
	}
	return rc == 0 ? do_end(a, MSG_ABORT, false, &state, e) : rc;
}

/* ---- what must be true afterwards ---- */

static void
hex_session(char out[33])
{
	for (size_t i = 0; i < MSG_ID_LEN; i++) {
		snprintf(out + 2 * i, 3, "%02x", session[i]);
	}
}

static enum msg_dst_state
journal_state(void)
{
	struct dst_rec r = { 0 };
	struct err e = { 0 };
	char hex[33];
	enum msg_dst_state s;
	int fd;

	hex_session(hex);
	fd = open(at("state/sessions/%s", hex), O_RDONLY | O_DIRECTORY);
	assert_true(fd >= 0);
	need(journal_read(fd, "journal", "journal", dst_rec_apply, &r, &e), &e,
	     "journal");
	s = r.state;
	dst_rec_fini(&r);
	close(fd);
	return s;
}

static void
assert_tree(const char *tree)
{
	struct stat a, b;
	char path[PATH_MAX], *text;

	snprintf(path, sizeof(path), "%s/etc/hello", tree);
	text = read_text(path);
	assert_string_equal(text, "world\n");
	free(text);
	assert_int_equal(lstat(at("src"), &a), 0);
	assert_int_equal(lstat(tree, &b), 0);
	assert_int_equal(a.st_mode, b.st_mode);
	assert_int_equal(a.st_mtim.tv_nsec, b.st_mtim.tv_nsec);
}

/* Nothing but what the test itself made may be beside the place. */
static void
assert_clean(const char *how, unsigned names_at_place)
{
	char left[4096] = "";
	unsigned n = count_names(at("state/reserve"), left, sizeof(left));
	unsigned p =
		count_names(strcmp(kind, "dir") == 0 ? at("dst") : at("lxc"),
			    left, sizeof(left));

	if (n != 0 || p != names_at_place) {
		fail_msg("%s: %u reservations, %u names at the place:%s", how,
			 n, p, left);
	}
}

static void
assert_moved(const char *how)
{
	assert_int_equal(journal_state(), MSG_DST_FINISHED);
	if (strcmp(kind, "dir") == 0) {
		assert_tree(place);
	} else {
		char *text = read_text(at("lxc/web/config"));

		assert_non_null(strstr(text, "lxc.uts.name = web"));
		free(text);
		text = read_text(at("lxc/web/notes"));
		assert_string_equal(text, "hello\n");
		free(text);
		assert_int_equal(count_names(at("lxc/web"), NULL, 0), 3);
		assert_tree(at("lxc/web/rootfs"));
	}
	assert_clean(how, 1);
}

static void
assert_gone(const char *how)
{
	assert_int_equal(journal_state(), MSG_DST_ABORTED);
	assert_clean(how, 0);
}

/* ---- fixture ---- */

static int
setup(void **state)
{
	struct err e = { 0 };
	char *p;

	(void)state;
	kind = "dir";
	/* On tmpfs where there is one: some thousand syncs are waited for. */
	strcpy(top, access("/dev/shm", W_OK) == 0 ? "/dev/shm/vzm-dst-XXXXXX"
						  : "/tmp/vzm-dst-XXXXXX");
	if (!mkdtemp(top)) {
		return -1;
	}
	if (mkdir(at("src"), 0755) || mkdir(at("src/etc"), 0755) ||
	    mkdir(at("dst"), 0755) || mkdir(at("lxc"), 0755)) {
		return -1;
	}
	write_file(at("src/etc/hello"), "world\n");
	setenv("VZMIGRATE_STATE_DIR", at("state"), 1);
	snprintf(place, sizeof(place), "%s/dst/ct", top);
	if (readlink("/proc/self/exe", agent_path, sizeof(agent_path) - 1) <
	    0) {
		return -1;
	}
	p = strrchr(agent_path, '/');
	strcpy(p, "/agent_faulty");
	return digest_random(session, sizeof(session), &e);
}

static int
teardown(void **state)
{
	(void)state;
	/* What a test that failed may have left. */
	umount2(at("dst"), MNT_DETACH);
	root_flag(at("src"), true, false);
	root_flag(place, true, false);
	wipe(top);
	return 0;
}

/* As if nothing had been tried yet. */
static void
start_over(void)
{
	struct err e = { 0 };

	wipe(at("state"));
	wipe(at("dst"));
	wipe(at("lxc"));
	assert_int_equal(mkdir(at("dst"), 0755), 0);
	assert_int_equal(mkdir(at("lxc"), 0755), 0);
	assert_int_equal(digest_random(session, sizeof(session), &e), 0);
}

/* ---- tests ---- */

static void
test_whole(void **state)
{
	struct agent a;
	struct err e = { 0 };
	bool retired = false;
	struct msg_check_reply r = { 0 };
	uint32_t caps;
	int st;

	(void)state;
	must_start(&a, NULL);
	assert_int_equal(a.hello.uid, geteuid());
	assert_int_equal(strlen(a.hello.boot_id), 36);
	need(do_open(&a, NULL, &st, &e), &e, "OPEN");
	assert_int_equal(st, MSG_DST_NONE);
	assert_int_equal(a.epoch, 1);
	need(do_fsprobe(&a, &r, &e), &e, "FSPROBE");
	assert_int_equal(r.findings.n, 0);
	caps = r.fs.caps;
	assert_true(caps & FSPROBE_OWNER);
	msg_check_reply_fini(&r);
	need(do_check(&a, 1000, &r, &e), &e, "CHECK");
	assert_int_equal(r.findings.n, 0);
	assert_true(r.fs.bytes_free > 0);
	assert_int_equal(r.fs.caps, caps);
	msg_check_reply_fini(&r);
	need(go_forward(&a, &retired, &e), &e, "all");
	assert_false(finish(&a));
	assert_moved("whole");
	/* Asking again changes nothing. */
	must_start(&a, NULL);
	need(do_open(&a, NULL, &st, &e), &e, "OPEN");
	assert_int_equal(st, MSG_DST_FINISHED);
	assert_int_equal(do_end(&a, MSG_NEVER, false, &st, &e), E_STATE);
	assert_int_equal(do_end(&a, MSG_ABORT, false, &st, &e), E_STATE);
	assert_false(finish(&a));
	assert_moved("asked again");
}

static void
test_wrong_order(void **state)
{
	struct agent a;
	struct err e = { 0 };
	int st;

	(void)state;
	must_start(&a, NULL);
	assert_int_equal(call(&a, MSG_RESERVE, NULL, NULL, &e), E_STATE);
	need(do_open(&a, NULL, &st, &e), &e, "OPEN");
	assert_int_equal(do_pass(&a, MSG_PASS_BEGIN, NULL, &e), E_STATE);
	assert_int_equal(do_take_over(&a, a.epoch, &st, &e), E_STATE);
	need(call(&a, MSG_RESERVE, NULL, NULL, &e), &e, "RESERVE");
	assert_int_equal(do_take_over(&a, a.epoch, &st, &e), E_STATE);
	need(copy_tree(&a, &e), &e, "copy");
	/* A stale order carries a stale epoch. */
	assert_int_equal(do_take_over(&a, a.epoch - 1, &st, &e), E_FENCED);
	/* A new pass takes the proof back. */
	need(do_pass(&a, MSG_PASS_BEGIN, NULL, &e), &e, "PASS_BEGIN");
	assert_int_equal(do_take_over(&a, a.epoch, &st, &e), E_STATE);
	need(do_end(&a, MSG_NEVER, false, &st, &e), &e, "NEVER");
	assert_int_equal(st, MSG_DST_NEVER);
	assert_int_equal(call(&a, MSG_RESERVE, NULL, NULL, &e), E_STATE);
	need(do_end(&a, MSG_ABORT, false, &st, &e), &e, "ABORT");
	assert_int_equal(call(&a, MSG_RESERVE, NULL, NULL, &e), E_STATE);
	assert_int_equal(call(&a, 99, NULL, NULL, &e), E_PROTOCOL);
	assert_false(finish(&a));
	assert_gone("wrong order");
}

/* Several passes, with something that comes and goes between them. */
static void
test_passes(void **state)
{
	struct agent a;
	struct err e = { 0 };
	struct ledger *l;
	int st;

	(void)state;
	must_start(&a, NULL);
	l = ledger_new(&a.key, &e);
	assert_non_null(l);
	need(do_open(&a, NULL, &st, &e), &e, "OPEN");
	need(put_files(&a, &e), &e, "PUT_FILE");
	need(call(&a, MSG_RESERVE, NULL, NULL, &e), &e, "RESERVE");
	assert_int_equal(do_pass_no(&a, MSG_PASS_BEGIN, 2, false, NULL, &e),
			 E_STATE);
	assert_int_equal(mkdir(at("src/passing"), 0755), 0);
	assert_int_equal(symlink("x", at("src/passing/by")), 0);
	need(one_pass(&a, l, 1, false, &e), &e, "pass 1");
	assert_int_equal(do_take_over(&a, a.epoch, &st, &e), E_STATE);
	/* Neither the same again nor one left out. */
	assert_int_equal(do_pass_no(&a, MSG_PASS_BEGIN, 3, false, NULL, &e),
			 E_STATE);
	need(call(&a, MSG_SYNC, NULL, NULL, &e), &e, "SYNC");
	assert_int_equal(unlink(at("src/passing/by")), 0);
	need(one_pass(&a, l, 2, false, &e), &e, "pass 2");
	assert_int_equal(rmdir(at("src/passing")), 0);
	need(call(&a, MSG_SYNC, NULL, NULL, &e), &e, "SYNC");
	assert_int_equal(do_take_over(&a, a.epoch, &st, &e), E_STATE);
	need(one_pass(&a, l, 3, true, &e), &e, "pass 3");
	ledger_free(l);
	need(call(&a, MSG_SYNC, NULL, NULL, &e), &e, "SYNC");
	need(do_take_over(&a, a.epoch, &st, &e), &e, "TAKE_OVER");
	need(do_end(&a, MSG_FINISH, false, &st, &e), &e, "FINISH");
	assert_false(finish(&a));
	assert_moved("passes");
}

/* Order within passes: each request in the wrong place. */
static void
test_passes_wrong_order(void **state)
{
	struct agent a;
	struct err e = { 0 };
	struct msg_proof p = { 0 };
	struct ledger *l;
	int st;

	(void)state;
	must_start(&a, NULL);
	l = ledger_new(&a.key, &e);
	need(do_open(&a, NULL, &st, &e), &e, "OPEN");
	need(put_files(&a, &e), &e, "PUT_FILE");
	need(call(&a, MSG_RESERVE, NULL, NULL, &e), &e, "RESERVE");
	need(one_pass(&a, l, 1, false, &e), &e, "pass 1");
	assert_int_equal(do_pass_no(&a, MSG_PASS_END, 1, false, NULL, &e),
			 E_STATE);
	need(do_pass_no(&a, MSG_PASS_BEGIN, 2, true, NULL, &e), &e, "pass 2");
	assert_int_equal(call(&a, MSG_SYNC, NULL, NULL, &e), E_STATE);
	assert_int_equal(do_pass_no(&a, MSG_PASS_BEGIN, 3, true, NULL, &e),
			 E_STATE);
	assert_int_equal(do_pass_no(&a, MSG_PASS_END, 3, true, NULL, &e),
			 E_STATE);
	need(do_pass_no(&a, MSG_PASS_END, 2, true, &p, &e), &e, "pass 2");
	assert_true(p.entries > 0);
	/* Pass 1 begins anew, with an empty tree. */
	need(copy_tree(&a, &e), &e, "copy");
	/* It was the final one. */
	assert_int_equal(do_pass_no(&a, MSG_PASS_BEGIN, 2, true, NULL, &e),
			 E_STATE);
	assert_int_equal(do_take_over(&a, a.epoch, &st, &e), E_STATE);
	ledger_free(l);
	need(do_end(&a, MSG_ABORT, false, &st, &e), &e, "ABORT");
	assert_false(finish(&a));
	assert_gone("wrong order of passes");
}

static unsigned
stride(void)
{
	return getenv("VZ_TEST_FULL") ? STRIDE_FULL : STRIDE_QUICK;
}

/* Kill at the n-th point; `act` is what the source does. Whether the agent
 * was killed. */
static bool
killed_by(const char *fault, bool back, bool *retired)
{
	struct agent a;
	struct err e = { 0 };
	int rc = start(&a, fault, &e);

	if (rc == 0) {
		rc = back ? go_back(&a, &e) : go_forward(&a, retired, &e);
	}
	if (finish(&a)) {
		return true;
	}
	need(rc, &e, "a run that was not killed");
	return false;
}

static bool
killed_at(unsigned n, bool back, bool *retired)
{
	char fault[32];

	snprintf(fault, sizeof(fault), "*:%u=kill", n);
	return killed_by(fault, back, retired);
}

static void
every_point_forward(const char *k)
{
	unsigned n = 1;
	bool more = true;

	kind = k;
	for (; more; n += stride()) {
		bool retired = false;
		struct agent a;
		struct err e = { 0 };
		char how[64];

		assert_true(n < POINTS_MAX);
		snprintf(how, sizeof(how), "%s killed at %u, forward", k, n);
		start_over();
		more = killed_at(n, false, &retired);
		must_start(&a, NULL);
		need(go_forward(&a, &retired, &e), &e, how);
		assert_false(finish(&a));
		assert_moved(how);
	}
	assert_true(n > 100);
}

static void
every_point_back(const char *k)
{
	unsigned n = 1;
	bool more = true;

	kind = k;
	for (; more; n += stride()) {
		bool retired = false;
		struct agent a;
		struct err e = { 0 };
		char how[64];

		assert_true(n < POINTS_MAX);
		snprintf(how, sizeof(how), "%s killed at %u, back", k, n);
		start_over();
		more = killed_at(n, false, &retired);
		if (!more) {
			break; /* finished: no way back */
		}
		must_start(&a, NULL);
		if (go_back(&a, &e) < 0) {
			/* Only where FINISH had been carried out. */
			assert_int_equal(e.code, E_STATE);
			assert_int_equal(journal_state(), MSG_DST_FINISHED);
			assert_false(finish(&a));
			continue;
		}
		assert_false(finish(&a));
		assert_gone(how);
	}
	assert_true(n > 100);
}

/* Committed, then killed on the way back, then back again. */
static void
every_point_undo(const char *k)
{
	unsigned n = 1;
	bool more = true;

	kind = k;
	for (; more; n += stride()) {
		struct agent a;
		struct err e = { 0 };
		char how[64];
		int st;

		assert_true(n < POINTS_MAX);
		snprintf(how, sizeof(how), "%s undo killed at %u", k, n);
		start_over();
		must_start(&a, NULL);
		need(prepare(&a, &e), &e, how);
		need(do_take_over(&a, a.epoch, &st, &e), &e, how);
		assert_int_equal(st, MSG_DST_COMMITTED);
		assert_false(finish(&a));
		more = killed_at(n, true, NULL);
		must_start(&a, NULL);
		need(go_back(&a, &e), &e, how);
		assert_false(finish(&a));
		assert_gone(how);
	}
	assert_true(n > 40);
}

/* The recovery is killed as well: first at `first`, then at every point of
 * what the next agent does about it, then no more. */
static void
every_point_again(const char *k, const char *first, bool back)
{
	unsigned n = 1;
	bool more = true;

	kind = k;
	for (; more; n += stride()) {
		bool retired = false;
		struct agent a;
		struct err e = { 0 };
		char how[128];

		assert_true(n < POINTS_MAX);
		snprintf(how, sizeof(how), "%s, %s, then killed at %u", k,
			 first, n);
		start_over();
		assert_true(killed_by(first, false, &retired));
		assert_true(retired);
		more = killed_at(n, back, &retired);
		must_start(&a, NULL);
		need(back ? go_back(&a, &e) : go_forward(&a, &retired, &e), &e,
		     how);
		assert_false(finish(&a));
		if (back) {
			assert_gone(how);
		} else {
			assert_moved(how);
		}
	}
	assert_true(n > 20);
}

static void
test_points_again(void **state)
{
	(void)state;
	/* The configuration is in place, the journal does not say so yet. */
	every_point_again("lxc", "journal.committed.before=kill", false);
	every_point_again("lxc", "journal.committed.torn=kill", true);
	every_point_again("dir", "dst.commit.before-kind=kill", false);
	every_point_again("dir", "journal.committed.after=kill", true);
}

static void
test_points_forward_dir(void **state)
{
	(void)state;
	every_point_forward("dir");
}

static void
test_points_forward_lxc(void **state)
{
	(void)state;
	every_point_forward("lxc");
}

static void
test_points_back_dir(void **state)
{
	(void)state;
	every_point_back("dir");
}

static void
test_points_back_lxc(void **state)
{
	(void)state;
	every_point_back("lxc");
}

static void
test_points_undo_dir(void **state)
{
	(void)state;
	every_point_undo("dir");
}

static void
test_points_undo_lxc(void **state)
{
	(void)state;
	every_point_undo("lxc");
}

/* A second agent ends the first, which is alive and well. */
static void
test_fence_live(void **state)
{
	struct agent a, b;
	struct err e = { 0 };
	int st;

	(void)state;
	must_start(&a, NULL);
	need(prepare(&a, &e), &e, "prepare");
	must_start(&b, NULL);
	need(do_open(&b, NULL, &st, &e), &e, "OPEN");
	assert_int_equal(st, MSG_DST_PROVEN);
	assert_true(b.epoch > a.epoch);
	assert_int_equal(do_take_over(&a, a.epoch, &st, &e), E_CLOSED);
	assert_true(finish(&a));
	need(do_take_over(&b, b.epoch, &st, &e), &e, "TAKE_OVER");
	need(do_end(&b, MSG_FINISH, false, &st, &e), &e, "FINISH");
	assert_false(finish(&b));
	assert_moved("fenced");
}

static bool
is_stopped(pid_t pid)
{
	int st;

	return waitpid(pid, &st, WUNTRACED) == pid && WIFSTOPPED(st);
}

struct order {
	struct agent *a;
	int rc, state;
	struct err e;
};

static void *
order_thread(void *arg)
{
	struct order *o = arg;

	o->rc = do_take_over(o->a, o->a->epoch, &o->state, &o->e);
	return NULL;
}

/* An agent in the middle of a commit holds the lock: it is waited for, not
 * ended; once it is through, the next OPEN finds the commit. */
static void
test_fence_in_commit(void **state)
{
	struct agent a, b;
	struct err e = { 0 };
	struct order o = { .a = &a };
	pthread_t t;
	int st;

	(void)state;
	/* Not stopped: that would be an agent that never goes on. */
	setenv("VZMIGRATE_FAULT_HOLD", at("hold"), 1);
	must_start(&a, "dst.commit.before-kind=hold");
	unsetenv("VZMIGRATE_FAULT_HOLD");
	need(prepare(&a, &e), &e, "prepare");
	assert_int_equal(pthread_create(&t, NULL, order_thread, &o), 0);
	for (int i = 0; i < 2000 && !is_there(at("hold")); i++) {
		poll(NULL, 0, 10);
	}
	assert_true(is_there(at("hold")));
	setenv("VZMIGRATE_FENCE_MS", "300", 1);
	must_start(&b, NULL);
	unsetenv("VZMIGRATE_FENCE_MS");
	assert_int_equal(do_open(&b, NULL, &st, &e), E_BUSY);
	assert_non_null(strstr(e.text, "still carrying out an order"));
	assert_int_equal(unlink(at("hold")), 0);
	pthread_join(t, NULL);
	need(o.rc, &o.e, "TAKE_OVER");
	assert_int_equal(o.state, MSG_DST_COMMITTED);
	need(do_open(&b, NULL, &st, &e), &e, "OPEN");
	assert_int_equal(st, MSG_DST_COMMITTED);
	assert_true(finish(&a));
	need(do_end(&b, MSG_FINISH, false, &st, &e), &e, "FINISH");
	assert_false(finish(&b));
	assert_moved("waited for");
}

/* An agent that does not even take SIGTERM. */
static void
test_fence_stopped(void **state)
{
	struct agent a, b;
	struct err e = { 0 };
	int st;

	(void)state;
	must_start(&a, NULL);
	need(prepare(&a, &e), &e, "prepare");
	assert_int_equal(kill(a.pid, SIGSTOP), 0);
	assert_true(is_stopped(a.pid));
	must_start(&b, NULL);
	need(do_open(&b, NULL, &st, &e), &e, "OPEN");
	assert_int_equal(st, MSG_DST_PROVEN);
	assert_true(finish(&a));
	need(go_back(&b, &e), &e, "back");
	assert_false(finish(&b));
	assert_gone("stopped agent");
}

/* The pid in the agent file is somebody else's by now. */
static void *
open_thread(void *arg)
{
	struct order *o = arg;

	o->rc = do_open(o->a, NULL, &o->state, &o->e);
	return NULL;
}

/* Stopped with the lock before it is noted as the session's agent. */
static void
test_fence_stopped_opening(void **state)
{
	struct agent a, b;
	struct err e = { 0 };
	struct order o = { .a = &a };
	pthread_t t;
	int st;

	(void)state;
	must_start(&a, "dst.fence.before-epoch=stop");
	assert_int_equal(pthread_create(&t, NULL, open_thread, &o), 0);
	assert_true(is_stopped(a.pid));
	must_start(&b, NULL);
	need(do_open(&b, NULL, &st, &e), &e, "OPEN");
	assert_int_equal(st, MSG_DST_NONE);
	pthread_join(t, NULL);
	assert_int_equal(o.rc, E_CLOSED);
	assert_true(finish(&a));
	assert_false(finish(&b));
}

static void
test_fence_other_pid(void **state)
{
	struct agent a;
	struct err e = { 0 };
	char hex[33], *text, *space, line[512];
	pid_t other;
	int st;

	(void)state;
	must_start(&a, "sys.unlinkat.before:1=kill");
	need(do_open(&a, NULL, &st, &e), &e, "OPEN");
	hex_session(hex);
	assert_true(finish(&a)); /* dies before it signs off */
	text = read_text(at("state/sessions/%s/agent", hex));
	space = strchr(text, ' ');
	assert_non_null(space);
	/* Start times tick every 10 ms; the other one must be younger. */
	poll(NULL, 0, 30);
	other = fork();
	if (other == 0) {
		pause();
		_exit(0);
	}
	snprintf(line, sizeof(line), "%d%s", (int)other, space);
	free(text);
	write_file(at("state/sessions/%s/agent", hex), line);
	must_start(&a, NULL);
	need(do_open(&a, NULL, &st, &e), &e, "OPEN");
	assert_int_equal(waitpid(other, &st, WNOHANG), 0);
	assert_int_equal(kill(other, SIGKILL), 0);
	assert_int_equal(waitpid(other, &st, 0), other);
	assert_false(finish(&a));
}

/* Somebody made the place between check and commit. */
static void
place_taken(const char *k)
{
	struct agent a;
	struct err e = { 0 };
	int st;

	kind = k;
	must_start(&a, NULL);
	need(prepare(&a, &e), &e, "prepare");
	if (strcmp(k, "dir") == 0) {
		assert_int_equal(mkdir(place, 0711), 0);
		write_file(at("dst/ct/theirs"), "x");
	} else {
		assert_int_equal(mkdir(at("lxc/web"), 0711), 0);
		write_file(at("lxc/web/config"), "# theirs\n");
	}
	assert_int_equal(do_take_over(&a, a.epoch, &st, &e), E_EXISTS);
	need(go_back(&a, &e), &e, "back");
	assert_false(finish(&a));
	assert_int_equal(journal_state(), MSG_DST_ABORTED);
	assert_clean("place taken", 1);
	assert_true(is_there(strcmp(k, "dir") == 0 ? at("dst/ct/theirs")
						   : at("lxc/web/config")));
}

static void
test_place_taken_dir(void **state)
{
	(void)state;
	place_taken("dir");
}

static void
test_place_taken_lxc(void **state)
{
	(void)state;
	place_taken("lxc");
}

/* An immutable root directory cannot be renamed: the flag comes last, also
 * from an agent that did not receive the tree, and goes first. */
static void
immutable_root(const char *fault, bool back)
{
	struct agent a;
	struct err e = { 0 };
	bool retired = false;

	start_over();
	if (fault) {
		assert_true(killed_by(fault, false, &retired));
		assert_true(retired);
	}
	must_start(&a, NULL);
	if (back) {
		need(go_back(&a, &e), &e, "back");
	} else {
		need(go_forward(&a, &retired, &e), &e, "forward");
	}
	assert_false(finish(&a));
	if (back) {
		assert_gone("immutable root");
		return;
	}
	assert_moved("immutable root");
	assert_int_equal(root_flag(place, false, false), 1);
	assert_int_equal(root_flag(place, true, false), 0);
}

static void
test_immutable_root(void **state)
{
	(void)state;
	if (root_flag(at("src"), true, true) < 0) {
		print_message("skipped: no immutable flag in %s: %s\n", top,
			      strerror(errno));
		skip();
	}
	immutable_root(NULL, false);
	immutable_root("dst.commit.before-kind=kill", false);
	immutable_root("dst.commit.after-kind=kill", false);
	immutable_root("dst.commit.after-flags=kill", false);
	immutable_root("journal.committed.after=kill", false);
	immutable_root("dst.commit.after-flags=kill", true);
	immutable_root("journal.committed.after=kill", true);
	assert_int_equal(root_flag(at("src"), true, false), 0);
}

/* Two sessions want one place. */
static void
test_reserved(void **state)
{
	struct agent a, b;
	struct err e = { 0 };
	struct msg_check_reply r = { 0 };
	char first[33];
	int st;

	(void)state;
	must_start(&a, NULL);
	need(do_open(&a, NULL, &st, &e), &e, "OPEN");
	need(call(&a, MSG_RESERVE, NULL, NULL, &e), &e, "RESERVE");
	hex_session(first);
	assert_int_equal(digest_random(session, sizeof(session), &e), 0);
	must_start(&b, NULL);
	need(do_open(&b, NULL, &st, &e), &e, "OPEN");
	need(do_check(&b, 1000, &r, &e), &e, "CHECK");
	assert_int_equal(r.findings.n, 1);
	assert_int_equal(r.findings.v[0].code, E_BUSY);
	assert_non_null(strstr(r.findings.v[0].text, first));
	msg_check_reply_fini(&r);
	assert_int_equal(call(&b, MSG_RESERVE, NULL, NULL, &e), E_BUSY);
	assert_non_null(strstr(e.text, first));
	/* Refused, it left nothing; with the first gone it gets the place. */
	assert_int_equal(count_names(at("dst"), NULL, 0), 1);
	need(do_end(&a, MSG_ABORT, false, &st, &e), &e, "ABORT");
	assert_false(finish(&a));
	need(call(&b, MSG_RESERVE, NULL, NULL, &e), &e, "RESERVE");
	assert_int_equal(count_names(at("dst"), NULL, 0), 1);
	need(do_end(&b, MSG_ABORT, false, &st, &e), &e, "ABORT");
	assert_false(finish(&b));
	assert_gone("reserved");
}

/* A reservation of a session that no longer exists is nobody's. */
static void
test_stale_reservation(void **state)
{
	struct agent a;
	struct err e = { 0 };
	char hex[33];
	int st;

	(void)state;
	must_start(&a, NULL);
	need(do_open(&a, NULL, &st, &e), &e, "OPEN");
	need(call(&a, MSG_RESERVE, NULL, NULL, &e), &e, "RESERVE");
	assert_false(finish(&a));
	hex_session(hex);
	wipe(at("state/sessions/%s", hex));
	wipe(at("dst/.vzmigrate-%s", hex));
	assert_int_equal(digest_random(session, sizeof(session), &e), 0);
	must_start(&a, NULL);
	need(do_open(&a, NULL, &st, &e), &e, "OPEN");
	need(call(&a, MSG_RESERVE, NULL, NULL, &e), &e, "RESERVE");
	need(go_back(&a, &e), &e, "back");
	assert_false(finish(&a));
	assert_gone("stale reservation");
}

/* Two containers over one connection, and another place for one session. */
static void
test_open_again(void **state)
{
	struct agent a;
	struct err e = { 0 };
	bool retired = false;
	char other[PATH_MAX];
	int st;

	(void)state;
	snprintf(other, sizeof(other), "%s/dst/other", top);
	must_start(&a, NULL);
	need(do_open(&a, NULL, &st, &e), &e, "OPEN");
	need(call(&a, MSG_RESERVE, NULL, NULL, &e), &e, "RESERVE");
	need(do_open(&a, other, &st, &e), &e, "OPEN");
	assert_int_equal(st, MSG_DST_RESERVED);
	assert_int_equal(call(&a, MSG_RESERVE, NULL, NULL, &e), E_STATE);
	assert_non_null(strstr(e.text, place));
	need(do_end(&a, MSG_ABORT, false, &st, &e), &e, "ABORT");
	need(go_forward(&a, &retired, &e), &e, "first");
	assert_moved("first");
	assert_int_equal(digest_random(session, sizeof(session), &e), 0);
	strcpy(place, other);
	retired = false;
	need(go_forward(&a, &retired, &e), &e, "second");
	assert_tree(other);
	assert_clean("second", 2);
	assert_false(finish(&a));
}

/* --keep-dst: area, journal and reservation stay, and are adopted. */
static void
test_keep(void **state)
{
	struct agent a;
	struct err e = { 0 };
	bool retired = false;
	int st;

	(void)state;
	must_start(&a, NULL);
	need(prepare(&a, &e), &e, "prepare");
	need(do_end(&a, MSG_ABORT, true, &st, &e), &e, "ABORT");
	assert_int_equal(st, MSG_DST_RESERVED);
	/* What was proven before the abort is not committed after it. */
	assert_int_equal(do_take_over(&a, a.epoch, &st, &e), E_STATE);
	assert_false(finish(&a));
	assert_int_equal(count_names(at("state/reserve"), NULL, 0), 2);
	assert_int_equal(count_names(at("dst"), NULL, 0), 1);
	must_start(&a, NULL);
	need(go_forward(&a, &retired, &e), &e, "adopt");
	assert_false(finish(&a));
	assert_moved("kept");
}

/* The client dies: no goodbye, no abort. What it had made stays, and the
 * agent ends by itself. */
static void
test_link_lost(void **state)
{
	struct agent a;
	struct err e = { 0 };
	char hex[33], *text;
	int up[2], st;
	pid_t client, agent;

	(void)state;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(pipe(up), 0);
	client = fork();
	if (client == 0) {
		if (start(&a, NULL, &e) < 0 || do_open(&a, NULL, &st, &e) < 0 ||
		    call(&a, MSG_RESERVE, NULL, NULL, &e) < 0 ||
		    write(up[1], &a.pid, sizeof(a.pid)) < 0) {
			_exit(1);
		}
		_exit(0);
	}
	close(up[1]);
	assert_int_equal(read(up[0], &agent, sizeof(agent)), sizeof(agent));
	assert_int_equal(waitpid(client, &st, 0), client);
	assert_int_equal(st, 0);
	assert_int_equal(waitpid(agent, &st, 0), agent);
	assert_true(WIFEXITED(st) && WEXITSTATUS(st) == 1);
	close(up[0]);
	hex_session(hex);
	text = read_text(at("state/sessions/%s/journal", hex));
	assert_non_null(strstr(text, " link-lost why="));
	free(text);
	assert_int_equal(journal_state(), MSG_DST_RESERVED);
	assert_int_equal(count_names(at("dst"), NULL, 0), 1);
	assert_int_equal(count_names(at("state/reserve"), NULL, 0), 2);
}

static void
test_allow_root(void **state)
{
	const char *args[] = { "--allow-root", at("lxc"), "--allow-root",
			       at("dst"), NULL };
	const char *narrow[] = { "--allow-root", at("lxc"), NULL };
	struct agent a;
	struct err e = { 0 };
	int st;

	(void)state;
	assert_int_equal(symlink(at("src"), at("dst/out")), 0);
	need(start_args(&a, NULL, args, &e), &e, "start");
	need(do_open(&a, NULL, &st, &e), &e, "OPEN");
	/* A symlink inside leads outside. */
	assert_int_equal(do_open(&a, at("dst/out/x"), &st, &e), E_DENIED);
	assert_int_equal(do_open(&a, at("dstx"), &st, &e), E_DENIED);
	assert_false(finish(&a));
	need(start_args(&a, NULL, narrow, &e), &e, "start");
	assert_int_equal(do_open(&a, NULL, &st, &e), E_DENIED);
	assert_non_null(strstr(e.text, "--allow-root"));
	kind = "lxc";
	need(do_open(&a, NULL, &st, &e), &e, "OPEN lxc");
	assert_false(finish(&a));
}

/* The staging file system is full: the copy fails, the abort does not. */
static void
test_full(void **state)
{
	struct agent a;
	struct err e = { 0 };
	struct msg_check_reply r = { 0 };
	char *big;
	int fd, st;

	(void)state;
	if (mount("tmpfs", at("dst"), "tmpfs", 0, "size=1m,nr_inodes=100") <
	    0) {
		print_message("skipped: cannot mount a tmpfs: %s\n",
			      strerror(errno));
		skip();
	}
	big = calloc(1, 4 << 20);
	assert_non_null(big);
	memset(big, 7, 4 << 20);
	fd = open(at("src/big"), O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, big, 4 << 20), 4 << 20);
	close(fd);
	free(big);
	must_start(&a, NULL);
	need(do_open(&a, NULL, &st, &e), &e, "OPEN");
	need(do_check(&a, 4 << 20, &r, &e), &e, "CHECK");
	assert_int_equal(r.findings.n, 2);
	assert_int_equal(r.findings.v[0].code, E_NOSPACE);
	assert_non_null(strstr(r.findings.v[0].text, "MiB"));
	assert_int_equal(r.findings.v[1].code, E_NOSPACE);
	assert_non_null(strstr(r.findings.v[1].text, "inodes"));
	msg_check_reply_fini(&r);
	need(call(&a, MSG_RESERVE, NULL, NULL, &e), &e, "RESERVE");
	assert_int_equal(copy_tree(&a, &e), E_NOSPACE);
	need(go_back(&a, &e), &e, "back");
	assert_false(finish(&a));
	assert_gone("full");
	assert_int_equal(umount(at("dst")), 0);
}

/* A journal that is damaged in the middle stops everything, by name. */
static void
test_corrupt_journal(void **state)
{
	struct agent a;
	struct err e = { 0 };
	char hex[33], *text;
	int st;

	(void)state;
	must_start(&a, NULL);
	need(do_open(&a, NULL, &st, &e), &e, "OPEN");
	need(call(&a, MSG_RESERVE, NULL, NULL, &e), &e, "RESERVE");
	assert_false(finish(&a));
	hex_session(hex);
	text = read_text(at("state/sessions/%s/journal", hex));
	text[30] ^= 1;
	write_file(at("state/sessions/%s/journal", hex), text);
	free(text);
	must_start(&a, NULL);
	assert_int_equal(do_open(&a, NULL, &st, &e), E_CORRUPT);
	assert_non_null(strstr(e.text, hex));
	assert_non_null(strstr(e.text, "line 1"));
	assert_false(finish(&a));
	assert_int_equal(count_names(at("dst"), NULL, 0), 1);
}

static void
set_old(const char *path)
{
	const struct timeval tv[2] = {
		{ .tv_sec = time(NULL) - 31 * 86400 },
		{ .tv_sec = time(NULL) - 31 * 86400 },
	};

	assert_int_equal(utimes(path, tv), 0);
}

/* Sessions that are over go after 30 days by their journal's own time; what
 * a damaged or newer journal belongs to stays. */
static void
test_clean_old(void **state)
{
	struct agent a;
	struct err e = { 0 };
	char hex[33];
	int st;

	(void)state;
	must_start(&a, NULL);
	need(do_open(&a, NULL, &st, &e), &e, "OPEN");
	need(do_end(&a, MSG_ABORT, false, &st, &e), &e, "ABORT");
	assert_false(finish(&a));
	hex_session(hex);
	dst_clean_old();
	assert_true(is_there(at("state/sessions/%s", hex)));
	/* Old on disk, but its records are of today. */
	set_old(at("state/sessions/%s/journal", hex));
	dst_clean_old();
	assert_true(is_there(at("state/sessions/%s", hex)));
	/* Without any journal. */
	assert_int_equal(unlink(at("state/sessions/%s/journal", hex)), 0);
	set_old(at("state/sessions/%s", hex));
	dst_clean_old();
	assert_false(is_there(at("state/sessions/%s", hex)));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(test_whole),
		T(test_wrong_order),
		T(test_passes),
		T(test_passes_wrong_order),
		T(test_fence_live),
		T(test_fence_in_commit),
		T(test_fence_stopped),
		T(test_fence_stopped_opening),
		T(test_fence_other_pid),
		T(test_place_taken_dir),
		T(test_place_taken_lxc),
		T(test_immutable_root),
		T(test_reserved),
		T(test_stale_reservation),
		T(test_open_again),
		T(test_keep),
		T(test_link_lost),
		T(test_allow_root),
		T(test_full),
		T(test_corrupt_journal),
		T(test_clean_old),
		T(test_points_forward_dir),
		T(test_points_forward_lxc),
		T(test_points_back_dir),
		T(test_points_back_lxc),
		T(test_points_undo_dir),
		T(test_points_undo_lxc),
		T(test_points_again),
	};

	need_root();
	signal(SIGPIPE, SIG_IGN);
	if (argc > 1) {
		cmocka_set_test_filter(argv[1]);
	}
	return cmocka_run_group_tests_name("dst", tests, NULL, NULL);
}
