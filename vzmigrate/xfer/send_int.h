/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * send_int: what the sender's files share; for send*.c alone.
 *
 *	send.c         batches, frames, the pass; the callbacks of a pass
 *	               without a ledger
 *	send_file.c    one regular file, special file or link
 *	send_diff.c    a large file against the blocks that are there
 *	send_update.c  the callbacks of a pass with a ledger
 *	send_groups.c  names of inodes with several, after the walk
 */
#ifndef XFER_SEND_INT_H
#define XFER_SEND_INT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "fs/content.h"
#include "fs/meta.h"
#include "fs/scan.h"
#include "track/ledger.h"
#include "wire/tree.h"
#include "xfer/inomap.h"
#include "xfer/link.h"
#include "xfer/send.h"
#include "xfer/send_dirs.h"

#define SEND_THREADS_MAX 8
#define SEND_DEFS_MAX (12u << 10)
/* Files up to this size travel inside a batch. */
#define SEND_INLINE_MAX (128u << 10)

/* One thread's batch in the making and its part of the sum. */
struct lane {
	struct pool_frame *f; /* NULL: none begun */
	struct tree_out body; /* within f, behind the length */
	uint8_t defs_bytes[SEND_DEFS_MAX];
	struct tree_out defs; /* within defs_bytes */
	struct buf defined;   /* u32 ids whose definition is in `defs` */
	struct buf path;      /* of the entry at hand */
	struct digest_state *scratch; /* owned */
	struct send_result part;
	struct statx dir_stx; /* of the directory being listed */
	bool link_failed;     /* so the entry at hand is not to blame */
	struct buf names;     /* struct send_name, for send_groups */
	int64_t busy_ns;      /* spent in the walk on what differs */
	unsigned number;
	unsigned flushed; /* batches that were sent */
};

struct pass {
	struct link *l;
	const struct digest_key *key;
	const struct send_opts *o;
	struct pool *pool;	/* the link's */
	struct send_dirs *dirs; /* names of directories, for definitions */
	struct inomap *groups;	/* source inode -> group id, nlink > 1; without
				   a ledger */
	uint32_t *next_id;	/* atomic; ids of groups and large files */
	uint32_t own_id;	/* where next_id points without a ledger */
	pthread_mutex_t lock;	/* mounts; directories once `walked` */
	char **mounts;
	size_t nmounts;
	unsigned threads;
	int rootfd; /* borrowed */
	uint64_t rootdev;
	/* With a ledger: */
	struct ledger *led;
	int64_t suspect_from; /* ctime, ns: from there on it is suspect */
	bool rehash; /* every regular file is read, whatever its times say */
	bool doubts; /* the next pass will do that, if it is the final one */
	bool walked; /* the walk is over: directories belong to nobody */
	struct buf late; /* struct ledger_dir *: touched since its end */
	bool late_lost;	 /* one is missing there for want of memory */
	struct lane lane[SEND_THREADS_MAX];
};

/* How an entry was brought over. */
enum send_how {
	SEND_WHOLE,  /* made anew */
	SEND_SAME,   /* nothing was sent: it is as the ledger says */
	SEND_META,   /* metadata alone */
	SEND_UPDATE, /* blocks of it */
};

/* An entry being sent. */
struct item {
	int dirfd;
	uint32_t dir; /* the scan's id of it */
	const char *name;
	size_t name_len;
	uint32_t group;			 /* 0: no other names */
	int fd;				 /* regular files */
	const struct images_file *image; /* of p->o->images, or NULL */
	struct content_ahead ahead;	 /* of an image; its lane's thread */
	struct statx stx;
	struct meta m;
	struct digest content;
	uint64_t bytes; /* of content that was sent, without holes */
	/* With a ledger: what the destination has, */
	bool was_known; /* so the next two say what is there */
	struct digest was_proof, was_content;
	uint32_t was_group;	      /* proof is that group's */
	struct ledger_file *was_file; /* its blocks, or NULL; borrowed */
	/* and what came of it. */
	enum send_how how;
	bool torn;	       /* it changed while it was read */
	struct blocks *blocks; /* of a large file; owned */
	uint64_t reread;       /* bytes read to compare */
};

/* Flags that only an empty file can be given: their change needs a new one. */
#define SEND_EARLY_FLAGS (FS_NOCOW_FL | FS_COMPR_FL)

/* ---- send.c ---- */

/* E_CANCELLED where somebody wants an end, else 0. */
int send_stopped(struct pass *p, struct err *e);
/* Give the lane's batch to the link. */
int send_flush(struct pass *p, struct lane *n, struct err *e);
/* Make room for `need` bytes of body and `defs` of definitions. */
int send_reserve(struct pass *p, struct lane *n, size_t need, size_t defs,
		 struct err *e);
/* Room for a record of `need` bytes and a definition, in the scan's directory
 * `dir`, which is defined in this batch or before; its id on the wire in
 * `*wire`. */
int send_prepare(struct pass *p, struct lane *n, uint32_t dir, size_t need,
		 uint32_t *wire, struct err *e);
/* Read, hash and send [off, off + len) of file `id`; it->ahead.end may tell
 * that more is wanted. */
int send_chunk(struct pass *p, struct lane *n, struct item *it, uint32_t id,
	       uint64_t off, size_t len, struct err *e);
uint32_t send_new_id(struct pass *p);
/* An entry was sent, with so many bytes of content. */
void send_count(struct pass *p, struct lane *n, uint64_t bytes);
void send_add(struct lane *n, const struct digest *d);
/* Set n->path: `dir` of `dir_len` bytes and the name. */
int send_path(struct lane *n, const char *dir, size_t dir_len, const char *name,
	      size_t name_len, struct err *e);
/* Put n->path in front of an error; not where the link is to blame. */
int send_name_error(struct lane *n, struct err *e);
/* Whether something vanished or changed: no error while the container runs. */
bool send_forgiven(const struct pass *p, const struct err *e);

/* scan_ops.on_mount: notes the mount point. */
int send_on_mount(const char *path, size_t path_len, void *arg, struct err *e);

/* ---- send_file.c ---- */

/* Whether the times of `fd` are still those of `was`. 0, E_CHANGED. */
int send_file_unchanged(int fd, const struct statx *was, struct err *e);
int send_file_settle(int fd, const struct statx *stx, struct err *e);
/* meta_read, less the hints that mean nothing on the destination. */
int send_file_meta(struct pass *p, int dirfd, const char *name, int fd,
		   const struct statx *stx, struct meta *m, struct err *e);
/* Read [off, off + len) to `to`: all of it, zeros for what has gone while the
 * container runs, else E_CHANGED. `a` is this thread's, and used where the file
 * is an image. */
int send_file_read(struct pass *p, struct item *it, struct content_ahead *a,
		   uint8_t *to, uint64_t off, size_t len, struct err *e);
/* Add a piece to a file's content digest, and to it->blocks if there is such a
 * table. */
int send_file_hash(struct pass *p, struct item *it, uint64_t off,
		   const uint8_t *data, size_t len, struct err *e);
/* The bytes up to the next multiple of TREE_PIECE. */
size_t send_file_piece(uint64_t off, uint64_t end);
/* Send it as it has to be. E_CHANGED where it changes or vanishes and that is
 * not allowed; it->m is kept for the caller (send_file_done). */
int send_file_regular(struct pass *p, struct lane *n, struct item *it,
		      struct err *e);
int send_file_special(struct pass *p, struct lane *n, struct item *it,
		      struct err *e);
/* One more name of it->group. */
int send_file_link(struct pass *p, struct lane *n, struct item *it,
		   struct err *e);
/* Close and free what an item holds. */
void send_file_done(struct item *it);
/* What it adds to the proof with group `group` (0: a name of its own, whose
 * path is n->path). */
struct digest send_file_proof(struct pass *p, struct lane *n,
			      const struct item *it, uint32_t group);
/* What META would leave as it is. */
struct digest send_file_content(struct pass *p, const struct item *it);

/* CLOCK_MONOTONIC in ns. */
int64_t send_now_ns(void);

/* ---- send_diff.c ---- */

/* Compare an open large file with it->was_file and send what differs. Sets
 * it->how (never SEND_WHOLE), it->content and it->blocks. */
int send_diff(struct pass *p, struct lane *n, struct item *it, struct err *e);

/* ---- send_update.c ---- */

extern const struct scan_ops send_update_ops;
/* Fill in it->was_... from an entry. */
void send_update_was(struct pass *p, struct item *it,
		     const struct ledger_entry *en);
/* Something in `d` was sent: its own entry is due. */
void send_update_touch(struct pass *p, struct ledger_dir *d);
/* Whether its times prove nothing for the next pass. */
bool send_update_suspect(const struct pass *p, const struct statx *stx);
/* What there is to be read of it, holes left out. */
uint64_t send_update_bytes(const struct statx *stx);
/* Whether the next pass has to read it again. */
bool send_update_moving(const struct pass *p, const struct item *it);
/* Send a directory's entry if it is due or its metadata changed, and add it to
 * the sum. `stx` was taken before the listing. */
int send_update_dir(struct pass *p, struct lane *n, struct ledger_dir *d,
		    int fd, const struct statx *stx, struct err *e);
/* After the walk and the groups: directories touched since their end. */
int send_update_late(struct pass *p, struct lane *n, struct err *e);
/* Begin a pass on the ledger: syncfs, clocks, what is suspect; and its end. */
int send_update_begin(struct pass *p, struct err *e);
void send_update_end(struct pass *p);
/* Give it->blocks to the ledger's file `*no`, a new one where that is 0. */
int send_update_file(struct pass *p, struct lane *n, struct item *it,
		     uint32_t *no, struct err *e);

/* ---- send_groups.c ---- */

/* A name of an inode with several, as the walk met it. */
struct send_name {
	uint64_t dev, ino;
	struct ledger_entry *en;
	struct ledger_dir *dir;
	struct digest seen;
	uint64_t bytes; /* send_update_bytes */
	bool regular;
};

/* Keep a name for later. */
int send_groups_name(struct pass *p, struct lane *n, struct ledger_dir *d,
		     struct ledger_entry *en, const struct statx *stx,
		     struct err *e);
/* After the walk: decide on all groups and send what differs. */
int send_groups(struct pass *p, struct err *e);

#endif
