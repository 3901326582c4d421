/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * msg: the requests of the client and the agent's replies (PROTOCOL.md,
 * "Requests"). Each struct has msg_put_X(enc, x), msg_get_X(body, len, x,
 * err) and, where it owns memory, msg_X_fini(x). After a failed get the
 * struct is empty (fini is harmless). Strings in a struct to be put are
 * borrowed; in one that was got they are owned.
 */
#ifndef WIRE_MSG_H
#define WIRE_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "ct/ct.h"
#include "fs/fsprobe.h"
#include "wire/codec.h"

#define MSG_ID_LEN 16
#define MSG_TEXT_MAX 4096
#define MSG_BODY_MAX (512u << 10)

/* Methods, in the order of a migration. The body of the request and of the
 * reply are named; "-" is an empty body. */
enum msg_method {
	MSG_HELLO = 1,	    /* hello; hello_reply. First, once a connection */
	MSG_OPEN = 2,	    /* open; open_reply. Fences the session */
	MSG_PUT_FILE = 3,   /* put_file; -. A CT file, kept in the session */
	MSG_CHECK = 4,	    /* check; check_reply */
	MSG_RESERVE = 5,    /* -; -. Staging area and reservation */
	MSG_PASS_BEGIN = 6, /* pass; -. Content frames may follow */
	MSG_PASS_END = 7,   /* pass; proof. All written, metadata applied,
			       read back */
	MSG_PROOF_LIST = 8, /* proof_list; proof_list_reply. After a mismatch:
			       the agent's digests, a page at a time */
	MSG_SYNC = 9,	    /* -; -. What the passes wrote is on disk */
	MSG_TAKE_OVER = 10, /* take_over; take_over_reply */
	MSG_NEVER = 11,	    /* -; state. Make it sure that it never runs here */
	MSG_ABORT = 12,	    /* abort; state. Give up: delete or keep */
	MSG_FINISH = 13,    /* -; state. The client knows; end the session */
	MSG_SINK = 14,	    /* -; sink. What SINK frames have cost so far; no
			       session is needed */
	MSG_FSPROBE = 15,   /* -; check_reply. What the file system can hold,
			       before CHECK */
	MSG_STREAM_OPEN = 20, /* -; join. A data stream may be added */
	MSG_STREAM_END = 21,  /* stream_end; stream_end_reply. A data stream has
				 died: nothing more is taken of it */
	MSG_JOIN = 22, /* join; -. Instead of HELLO: this is a data stream of
			  another agent's connection */
};

/* Where a session stands on the destination; the last journal record says. */
enum msg_dst_state {
	MSG_DST_NONE = 0,      /* opened, nothing made */
	MSG_DST_RESERVED = 1,  /* staging area and reservation exist */
	MSG_DST_PROVEN = 2,    /* the tree is whole and was read back */
	MSG_DST_COMMITTED = 3, /* the destination owns the container */
	MSG_DST_RUNNING = 4,   /* and it was seen running */
	MSG_DST_NEVER = 5,     /* it will never run here for this session */
	MSG_DST_ABORTED = 6,   /* given up, cleaned */
	MSG_DST_FINISHED = 7,  /* committed, and the client knows */
};
const char *msg_dst_state_name(enum msg_dst_state s);

struct msg_hello {
	uint32_t proto;	       /* FRAME_PROTO */
	uint32_t caps;	       /* enum frame_cap */
	char *version;	       /* of the client program */
	uint32_t keepalive_ms; /* both ends send that often when idle, and give
				  the other up after 15 times that */
	struct digest_key key; /* of this connection's proofs */
};

struct msg_hello_reply {
	char *version;
	uint8_t host_id[MSG_ID_LEN]; /* made once, /var/lib/vzmigrate/host-id */
	char *boot_id;		     /* /proc/sys/kernel/random/boot_id */
	char *hostname;
	char *kernel;  /* uname release */
	char *machine; /* uname machine */
	uint32_t uid;  /* effective */
	uint32_t nproc;
	uint8_t hw_aes; /* 1: the processor has AES instructions */
	int64_t time_s; /* its clock */
};

struct msg_open {
	uint8_t session[MSG_ID_LEN];
	char *kind;
	char *lxcpath, *vz_conf; /* --dst-... options, or NULL */
	char *source;		 /* "host CT" for messages and the journal */
	uint8_t source_host[MSG_ID_LEN];
	char *id, *name; /* on the source; name may be NULL */
	char *new_id, *new_name, *new_private, *new_root; /* or NULL */
	bool keep_dst;
	uint32_t metadata_policy; /* enum meta_policy */
};

struct msg_open_reply {
	uint32_t epoch;	    /* raised by this OPEN */
	uint8_t state;	    /* enum msg_dst_state before this run acts */
	char *id, *name;    /* the place, as decided here */
	char *tree, *stage; /* final tree, staging area */
	bool same_host;	    /* source_host is this host */
};

/* A CT file (struct ct_file). */
struct msg_put_file {
	char *role;
	uint8_t *data; /* owned after get */
	size_t len;
	uint16_t mode;
	uint32_t uid, gid;
};

struct msg_check {
	uint64_t bytes; /* allocated on the source */
	uint64_t inodes;
	uint32_t caps; /* enum fsprobe_cap that the tree may need */
	uint64_t largest_file;
	char *nodeps;  /* --nodeps list, or NULL */
	uint8_t start; /* as in struct msg_take_over */
};

struct msg_check_reply {
	struct fsprobe fs;
	struct ct_findings findings;
};

struct msg_pass {
	uint32_t number; /* 1 is the full copy */
	bool final;
};

struct msg_proof {
	uint64_t entries; /* names below the root, and the root */
	uint64_t bytes;	  /* of content written in this session */
	struct digest sum;
};

struct msg_proof_list {
	uint64_t from; /* first entry's number */
};
/* Reply: u32 count, then count times (path bytes, digest); count 0 ends. */

struct msg_take_over {
	uint32_t epoch;
	uint8_t start; /* 0: leave it stopped; else the enum ct_state to bring
			  it into, and to see it live in */
};

#define MSG_UP_UNKNOWN UINT64_MAX

struct msg_take_over_reply {
	uint8_t state;	   /* enum msg_dst_state */
	char *tree;	   /* where it is now */
	uint64_t since_ms; /* it is up for so long; MSG_UP_UNKNOWN: not known,
			      or not started */
};

struct msg_abort {
	bool keep; /* --keep-dst: staging area and journal stay */
};

struct msg_state {
	uint8_t state;
	char *note; /* for the person, e.g. a tree kept aside; or NULL */
};

struct msg_sink {
	uint64_t bytes;	  /* payload of SINK frames, since the start */
	uint64_t cpu_us;  /* the agent's processor time */
	uint64_t sshd_us; /* its sshd's; 0: cannot be read */
};

/* What a new stream has to show. Wipe it after use. */
#define MSG_TOKEN_LEN 32
struct msg_join {
	uint32_t number;	      /* of the stream, from 1; never again */
	uint8_t id[MSG_ID_LEN];	      /* where its agent finds the other */
	uint8_t token[MSG_TOKEN_LEN]; /* good for one stream */
};

struct msg_stream_end {
	uint32_t number;
	uint64_t acked; /* frames of it that the client knows as finished */
};

struct msg_stream_end_reply {
	uint64_t frames; /* received whole; no more will be */
};

/* Body of a REPLY frame after its id. */
struct msg_reply_head {
	int32_t code; /* 0 or enum err_code */
	char *text;   /* error text when code != 0 */
};

#define MSG_DECLARE(x)                                                   \
	void msg_put_##x(struct enc *n, const struct msg_##x *m);        \
	int msg_get_##x(const void *body, size_t len, struct msg_##x *m, \
			struct err *e)

MSG_DECLARE(hello);
MSG_DECLARE(hello_reply);
MSG_DECLARE(open);
MSG_DECLARE(open_reply);
MSG_DECLARE(put_file);
MSG_DECLARE(check);
MSG_DECLARE(check_reply);
MSG_DECLARE(pass);
MSG_DECLARE(proof);
MSG_DECLARE(proof_list);
MSG_DECLARE(take_over);
MSG_DECLARE(take_over_reply);
MSG_DECLARE(abort);
MSG_DECLARE(state);
MSG_DECLARE(sink);
MSG_DECLARE(join);
MSG_DECLARE(stream_end);
MSG_DECLARE(stream_end_reply);

void msg_hello_fini(struct msg_hello *m);
void msg_hello_reply_fini(struct msg_hello_reply *m);
void msg_open_fini(struct msg_open *m);
void msg_open_reply_fini(struct msg_open_reply *m);
void msg_put_file_fini(struct msg_put_file *m);
void msg_check_fini(struct msg_check *m);
void msg_check_reply_fini(struct msg_check_reply *m);
void msg_take_over_reply_fini(struct msg_take_over_reply *m);
void msg_state_fini(struct msg_state *m);

/* The method's name for logs. */
const char *msg_method_name(unsigned method);

#endif
