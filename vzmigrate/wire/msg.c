/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * msg: each message as bytes and back, field by field in the order of
 * PROTOCOL.md. No state, no I/O.
 */
#include "wire/msg.h"

#include <stdlib.h>
#include <string.h>

static void
put_id(struct enc *n, const uint8_t id[MSG_ID_LEN])
{
	enc_raw(n, id, MSG_ID_LEN);
}

static void
get_raw(struct dec *d, void *to, size_t len)
{
	const uint8_t *p = dec_raw(d, len);

	if (p) {
		memcpy(to, p, len);
	}
}

static bool
get_bool(struct dec *d)
{
	uint8_t v = dec_u8(d);

	if (v > 1) {
		d->rc = E_PROTOCOL;
	}
	return v == 1;
}

void
msg_put_hello(struct enc *n, const struct msg_hello *m)
{
	enc_u32(n, m->proto);
	enc_u32(n, m->caps);
	enc_str(n, m->version);
	enc_u32(n, m->keepalive_ms);
	enc_raw(n, m->key.secret, sizeof(m->key.secret));
}

int
msg_get_hello(const void *body, size_t len, struct msg_hello *m, struct err *e)
{
	struct dec d;
	int rc;

	*m = (struct msg_hello){ 0 };
	dec_init(&d, body, len);
	m->proto = dec_u32(&d);
	m->caps = dec_u32(&d);
	m->version = dec_str_needed(&d, 64);
	m->keepalive_ms = dec_u32(&d);
	get_raw(&d, m->key.secret, sizeof(m->key.secret));
	rc = dec_end(&d, "hello", e);
	if (rc < 0) {
		msg_hello_fini(m);
	}
	return rc;
}

void
msg_hello_fini(struct msg_hello *m)
{
	free(m->version);
	*m = (struct msg_hello){ 0 };
}

void
msg_put_hello_reply(struct enc *n, const struct msg_hello_reply *m)
{
	enc_str(n, m->version);
	put_id(n, m->host_id);
	enc_str(n, m->boot_id);
	enc_str(n, m->hostname);
	enc_str(n, m->kernel);
	enc_str(n, m->machine);
	enc_u32(n, m->uid);
	enc_u32(n, m->nproc);
	enc_u8(n, m->hw_aes);
	enc_i64(n, m->time_s);
}

int
msg_get_hello_reply(const void *body, size_t len, struct msg_hello_reply *m,
		    struct err *e)
{
	struct dec d;
	int rc;

	*m = (struct msg_hello_reply){ 0 };
	dec_init(&d, body, len);
	m->version = dec_str_needed(&d, 64);
	get_raw(&d, m->host_id, MSG_ID_LEN);
	m->boot_id = dec_str_needed(&d, 64);
	m->hostname = dec_str_needed(&d, 256);
	m->kernel = dec_str_needed(&d, 256);
	m->machine = dec_str_needed(&d, 256);
	m->uid = dec_u32(&d);
	m->nproc = dec_u32(&d);
	m->hw_aes = dec_u8(&d);
	m->time_s = dec_i64(&d);
	rc = dec_end(&d, "reply to hello", e);
	if (rc < 0) {
		msg_hello_reply_fini(m);
	}
	return rc;
}

void
msg_hello_reply_fini(struct msg_hello_reply *m)
{
	free(m->version);
	free(m->boot_id);
	free(m->hostname);
	free(m->kernel);
	free(m->machine);
	*m = (struct msg_hello_reply){ 0 };
}

void
msg_put_open(struct enc *n, const struct msg_open *m)
{
	put_id(n, m->session);
	enc_str(n, m->kind);
	enc_str(n, m->lxcpath);
	enc_str(n, m->vz_conf);
	enc_str(n, m->source);
	put_id(n, m->source_host);
	enc_str(n, m->id);
	enc_str(n, m->name);
	enc_str(n, m->new_id);
	enc_str(n, m->new_name);
	enc_str(n, m->new_private);
	enc_str(n, m->new_root);
	enc_u8(n, m->keep_dst);
	enc_u32(n, m->metadata_policy);
}

int
msg_get_open(const void *body, size_t len, struct msg_open *m, struct err *e)
{
	struct dec d;
	int rc;

	*m = (struct msg_open){ 0 };
	dec_init(&d, body, len);
	get_raw(&d, m->session, MSG_ID_LEN);
	m->kind = dec_str_needed(&d, 32);
	m->lxcpath = dec_str(&d, MSG_TEXT_MAX);
	m->vz_conf = dec_str(&d, MSG_TEXT_MAX);
	m->source = dec_str_needed(&d, MSG_TEXT_MAX);
	get_raw(&d, m->source_host, MSG_ID_LEN);
	m->id = dec_str_needed(&d, MSG_TEXT_MAX);
	m->name = dec_str(&d, MSG_TEXT_MAX);
	m->new_id = dec_str(&d, MSG_TEXT_MAX);
	m->new_name = dec_str(&d, MSG_TEXT_MAX);
	m->new_private = dec_str(&d, MSG_TEXT_MAX);
	m->new_root = dec_str(&d, MSG_TEXT_MAX);
	m->keep_dst = get_bool(&d);
	m->metadata_policy = dec_u32(&d);
	rc = dec_end(&d, "open", e);
	if (rc < 0) {
		msg_open_fini(m);
	}
	return rc;
}

void
msg_open_fini(struct msg_open *m)
{
	free(m->kind);
	free(m->lxcpath);
	free(m->vz_conf);
	free(m->source);
	free(m->id);
	free(m->name);
	free(m->new_id);
	free(m->new_name);
	free(m->new_private);
	free(m->new_root);
	*m = (struct msg_open){ 0 };
}

void
msg_put_open_reply(struct enc *n, const struct msg_open_reply *m)
{
	enc_u32(n, m->epoch);
	enc_u8(n, m->state);
	enc_str(n, m->id);
	enc_str(n, m->name);
	enc_str(n, m->tree);
	enc_str(n, m->stage);
	enc_u8(n, m->same_host);
}

int
msg_get_open_reply(const void *body, size_t len, struct msg_open_reply *m,
		   struct err *e)
{
	struct dec d;
	int rc;

	*m = (struct msg_open_reply){ 0 };
	dec_init(&d, body, len);
	m->epoch = dec_u32(&d);
	m->state = dec_u8(&d);
	if (m->state > MSG_DST_FINISHED) {
		d.rc = E_PROTOCOL;
	}
	m->id = dec_str_needed(&d, MSG_TEXT_MAX);
	m->name = dec_str(&d, MSG_TEXT_MAX);
	m->tree = dec_str_needed(&d, MSG_TEXT_MAX);
	m->stage = dec_str_needed(&d, MSG_TEXT_MAX);
	m->same_host = get_bool(&d);
	rc = dec_end(&d, "reply to open", e);
	if (rc < 0) {
		msg_open_reply_fini(m);
	}
	return rc;
}

void
msg_open_reply_fini(struct msg_open_reply *m)
{
	free(m->id);
	free(m->name);
	free(m->tree);
	free(m->stage);
	*m = (struct msg_open_reply){ 0 };
}

void
msg_put_put_file(struct enc *n, const struct msg_put_file *m)
{
	enc_str(n, m->role);
	enc_bytes(n, m->data, m->len);
	enc_u16(n, m->mode);
	enc_u32(n, m->uid);
	enc_u32(n, m->gid);
}

int
msg_get_put_file(const void *body, size_t len, struct msg_put_file *m,
		 struct err *e)
{
	const uint8_t *p;
	struct dec d;
	int rc;

	*m = (struct msg_put_file){ 0 };
	dec_init(&d, body, len);
	m->role = dec_str_needed(&d, 512);
	p = dec_bytes(&d, MSG_BODY_MAX, &m->len);
	m->data = p ? malloc(m->len + 1) : NULL;
	if (m->data) {
		memcpy(m->data, p, m->len);
		m->data[m->len] = '\0';
	} else if (d.rc == 0) {
		d.rc = E_NOMEM;
	}
	m->mode = dec_u16(&d);
	if (m->mode > 07777) {
		d.rc = E_PROTOCOL;
	}
	m->uid = dec_u32(&d);
	m->gid = dec_u32(&d);
	rc = dec_end(&d, "file", e);
	if (rc < 0) {
		msg_put_file_fini(m);
	}
	return rc;
}

void
msg_put_file_fini(struct msg_put_file *m)
{
	free(m->role);
	free(m->data);
	*m = (struct msg_put_file){ 0 };
}

void
msg_put_check(struct enc *n, const struct msg_check *m)
{
	enc_u64(n, m->bytes);
	enc_u64(n, m->inodes);
	enc_u32(n, m->caps);
	enc_u64(n, m->largest_file);
	enc_str(n, m->nodeps);
	enc_u8(n, m->start);
}

/* 0, or a state that a container can be brought into. */
static uint8_t
get_start(struct dec *d)
{
	uint8_t s = dec_u8(d);

	if (s && s != CT_RUNNING && s != CT_FROZEN && s != CT_MOUNTED) {
		d->rc = E_PROTOCOL;
	}
	return s;
}

int
msg_get_check(const void *body, size_t len, struct msg_check *m, struct err *e)
{
	struct dec d;
	int rc;

	*m = (struct msg_check){ 0 };
	dec_init(&d, body, len);
	m->bytes = dec_u64(&d);
	m->inodes = dec_u64(&d);
	m->caps = dec_u32(&d);
	m->largest_file = dec_u64(&d);
	m->nodeps = dec_str(&d, MSG_TEXT_MAX);
	m->start = get_start(&d);
	rc = dec_end(&d, "check", e);
	if (rc < 0) {
		msg_check_fini(m);
	}
	return rc;
}

void
msg_check_fini(struct msg_check *m)
{
	free(m->nodeps);
	*m = (struct msg_check){ 0 };
}

void
msg_put_check_reply(struct enc *n, const struct msg_check_reply *m)
{
	enc_u32(n, m->fs.caps);
	enc_u32(n, m->fs.xattr_max);
	enc_u64(n, m->fs.bytes_free);
	enc_u64(n, m->fs.inodes_free);
	enc_u64(n, m->fs.link_max);
	enc_str(n, m->fs.type);
	enc_u32(n, (uint32_t)m->findings.n);
	for (size_t i = 0; i < m->findings.n; i++) {
		enc_u32(n, (uint32_t)m->findings.v[i].code);
		enc_u8(n, m->findings.v[i].warning);
		enc_str(n, m->findings.v[i].text);
	}
}

static void
get_findings(struct dec *d, struct ct_findings *f)
{
	uint32_t count = dec_u32(d);

	if (count > CT_FINDINGS_MAX) {
		d->rc = E_PROTOCOL;
	}
	for (uint32_t i = 0; i < count && d->rc == 0; i++) {
		f->v[i].code = (int32_t)dec_u32(d);
		f->v[i].warning = get_bool(d);
		f->v[i].text = dec_str_needed(d, MSG_TEXT_MAX);
		f->n = i + 1;
	}
}

int
msg_get_check_reply(const void *body, size_t len, struct msg_check_reply *m,
		    struct err *e)
{
	struct dec d;
	char *type;
	int rc;

	*m = (struct msg_check_reply){ 0 };
	dec_init(&d, body, len);
	m->fs.caps = dec_u32(&d);
	m->fs.xattr_max = dec_u32(&d);
	m->fs.bytes_free = dec_u64(&d);
	m->fs.inodes_free = dec_u64(&d);
	m->fs.link_max = dec_u64(&d);
	type = dec_str_needed(&d, sizeof(m->fs.type) - 1);
	if (type) {
		memcpy(m->fs.type, type, strlen(type) + 1);
	}
	free(type);
	get_findings(&d, &m->findings);
	rc = dec_end(&d, "reply to check", e);
	if (rc < 0) {
		msg_check_reply_fini(m);
	}
	return rc;
}

void
msg_check_reply_fini(struct msg_check_reply *m)
{
	for (size_t i = 0; i < m->findings.n; i++) {
		free(m->findings.v[i].text);
	}
	*m = (struct msg_check_reply){ 0 };
}

void
msg_put_pass(struct enc *n, const struct msg_pass *m)
{
	enc_u32(n, m->number);
	enc_u8(n, m->final);
}

int
msg_get_pass(const void *body, size_t len, struct msg_pass *m, struct err *e)
{
	struct dec d;

	*m = (struct msg_pass){ 0 };
	dec_init(&d, body, len);
	m->number = dec_u32(&d);
	m->final = get_bool(&d);
	return dec_end(&d, "pass", e);
}

void
msg_put_proof(struct enc *n, const struct msg_proof *m)
{
	enc_u64(n, m->entries);
	enc_u64(n, m->bytes);
	enc_raw(n, m->sum.b, DIGEST_LEN);
}

int
msg_get_proof(const void *body, size_t len, struct msg_proof *m, struct err *e)
{
	struct dec d;

	*m = (struct msg_proof){ 0 };
	dec_init(&d, body, len);
	m->entries = dec_u64(&d);
	m->bytes = dec_u64(&d);
	get_raw(&d, m->sum.b, DIGEST_LEN);
	return dec_end(&d, "proof", e);
}

void
msg_put_proof_list(struct enc *n, const struct msg_proof_list *m)
{
	enc_u64(n, m->from);
}

int
msg_get_proof_list(const void *body, size_t len, struct msg_proof_list *m,
		   struct err *e)
{
	struct dec d;

	*m = (struct msg_proof_list){ 0 };
	dec_init(&d, body, len);
	m->from = dec_u64(&d);
	return dec_end(&d, "proof list", e);
}

void
msg_put_take_over(struct enc *n, const struct msg_take_over *m)
{
	enc_u32(n, m->epoch);
	enc_u8(n, m->start);
}

int
msg_get_take_over(const void *body, size_t len, struct msg_take_over *m,
		  struct err *e)
{
	struct dec d;

	*m = (struct msg_take_over){ 0 };
	dec_init(&d, body, len);
	m->epoch = dec_u32(&d);
	m->start = get_start(&d);
	return dec_end(&d, "take-over", e);
}

void
msg_put_take_over_reply(struct enc *n, const struct msg_take_over_reply *m)
{
	enc_u8(n, m->state);
	enc_str(n, m->tree);
	enc_u64(n, m->since_ms);
}

int
msg_get_take_over_reply(const void *body, size_t len,
			struct msg_take_over_reply *m, struct err *e)
{
	struct dec d;
	int rc;

	*m = (struct msg_take_over_reply){ 0 };
	dec_init(&d, body, len);
	m->state = dec_u8(&d);
	if (m->state > MSG_DST_FINISHED) {
		d.rc = E_PROTOCOL;
	}
	m->tree = dec_str_needed(&d, MSG_TEXT_MAX);
	m->since_ms = dec_u64(&d);
	rc = dec_end(&d, "reply to take-over", e);
	if (rc < 0) {
		msg_take_over_reply_fini(m);
	}
	return rc;
}

void
msg_take_over_reply_fini(struct msg_take_over_reply *m)
{
	free(m->tree);
	*m = (struct msg_take_over_reply){ 0 };
}

void
msg_put_abort(struct enc *n, const struct msg_abort *m)
{
	enc_u8(n, m->keep);
}

int
msg_get_abort(const void *body, size_t len, struct msg_abort *m, struct err *e)
{
	struct dec d;

	*m = (struct msg_abort){ 0 };
	dec_init(&d, body, len);
	m->keep = get_bool(&d);
	return dec_end(&d, "abort", e);
}

void
msg_put_state(struct enc *n, const struct msg_state *m)
{
	enc_u8(n, m->state);
	enc_str(n, m->note);
}

int
msg_get_state(const void *body, size_t len, struct msg_state *m, struct err *e)
{
	struct dec d;
	int rc;

	*m = (struct msg_state){ 0 };
	dec_init(&d, body, len);
	m->state = dec_u8(&d);
	if (m->state > MSG_DST_FINISHED) {
		d.rc = E_PROTOCOL;
	}
	m->note = dec_str(&d, MSG_TEXT_MAX);
	rc = dec_end(&d, "state", e);
	if (rc < 0) {
		msg_state_fini(m);
	}
	return rc;
}

void
msg_state_fini(struct msg_state *m)
{
	free(m->note);
	*m = (struct msg_state){ 0 };
}

void
msg_put_sink(struct enc *n, const struct msg_sink *m)
{
	enc_u64(n, m->bytes);
	enc_u64(n, m->cpu_us);
	enc_u64(n, m->sshd_us);
}

int
msg_get_sink(const void *body, size_t len, struct msg_sink *m, struct err *e)
{
	struct dec d;

	*m = (struct msg_sink){ 0 };
	dec_init(&d, body, len);
	m->bytes = dec_u64(&d);
	m->cpu_us = dec_u64(&d);
	m->sshd_us = dec_u64(&d);
	return dec_end(&d, "sink", e);
}

void
msg_put_join(struct enc *n, const struct msg_join *m)
{
	enc_u32(n, m->number);
	enc_raw(n, m->id, MSG_ID_LEN);
	enc_raw(n, m->token, MSG_TOKEN_LEN);
}

int
msg_get_join(const void *body, size_t len, struct msg_join *m, struct err *e)
{
	const uint8_t *id, *token;
	struct dec d;

	*m = (struct msg_join){ 0 };
	dec_init(&d, body, len);
	m->number = dec_u32(&d);
	id = dec_raw(&d, MSG_ID_LEN);
	token = dec_raw(&d, MSG_TOKEN_LEN);
	if (token) {
		memcpy(m->id, id, MSG_ID_LEN);
		memcpy(m->token, token, MSG_TOKEN_LEN);
	}
	return dec_end(&d, "join", e);
}

void
msg_put_stream_end(struct enc *n, const struct msg_stream_end *m)
{
	enc_u32(n, m->number);
	enc_u64(n, m->acked);
}

int
msg_get_stream_end(const void *body, size_t len, struct msg_stream_end *m,
		   struct err *e)
{
	struct dec d;

	*m = (struct msg_stream_end){ 0 };
	dec_init(&d, body, len);
	m->number = dec_u32(&d);
	m->acked = dec_u64(&d);
	return dec_end(&d, "stream-end", e);
}

void
msg_put_stream_end_reply(struct enc *n, const struct msg_stream_end_reply *m)
{
	enc_u64(n, m->frames);
}

int
msg_get_stream_end_reply(const void *body, size_t len,
			 struct msg_stream_end_reply *m, struct err *e)
{
	struct dec d;

	*m = (struct msg_stream_end_reply){ 0 };
	dec_init(&d, body, len);
	m->frames = dec_u64(&d);
	return dec_end(&d, "stream-end reply", e);
}

const char *
msg_dst_state_name(enum msg_dst_state s)
{
	static const char *const names[] = {
		[MSG_DST_NONE] = "none",
		[MSG_DST_RESERVED] = "reserved",
		[MSG_DST_PROVEN] = "proven",
		[MSG_DST_COMMITTED] = "committed",
		[MSG_DST_RUNNING] = "running",
		[MSG_DST_NEVER] = "never",
		[MSG_DST_ABORTED] = "aborted",
		[MSG_DST_FINISHED] = "finished",
	};

	return s <= MSG_DST_FINISHED ? names[s] : "unknown";
}

const char *
msg_method_name(unsigned method)
{
	static const char *const names[] = {
		[MSG_HELLO] = "hello",
		[MSG_OPEN] = "open",
		[MSG_PUT_FILE] = "put-file",
		[MSG_CHECK] = "check",
		[MSG_RESERVE] = "reserve",
		[MSG_PASS_BEGIN] = "pass-begin",
		[MSG_PASS_END] = "pass-end",
		[MSG_PROOF_LIST] = "proof-list",
		[MSG_SYNC] = "sync",
		[MSG_TAKE_OVER] = "take-over",
		[MSG_NEVER] = "never",
		[MSG_ABORT] = "abort",
		[MSG_FINISH] = "finish",
		[MSG_SINK] = "sink",
		[MSG_FSPROBE] = "fsprobe",
		[MSG_STREAM_OPEN] = "stream-open",
		[MSG_STREAM_END] = "stream-end",
		[MSG_JOIN] = "join",
	};

	return method <= MSG_JOIN && names[method] ? names[method] : "unknown";
}
