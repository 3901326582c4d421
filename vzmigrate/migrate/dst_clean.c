/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dst_clean: removes the directories of sessions that are long over. A
 * session that was committed but never finished by its source is kept for
 * ever: it is what tells that source who owns the container.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "fs/remove.h"
#include "migrate/dst_int.h"
#include "migrate/statedir.h"

#define LOOK_MAX 2000 /* directories looked at in one run */
#define DROP_MAX 50   /* and removed */
#define OLD_S ((int64_t)DST_KEEP_DAYS * 86400)

/* Whether nobody will ask for it again. */
static bool
is_over(int dir, const char *name)
{
	struct dst_rec r = { 0 };
	struct err e = { 0 };
	struct stat st;
	bool over;

	/* The journal's time on disk first, so that most are not read. */
	if (fstatat(dir, "journal", &st, AT_SYMLINK_NOFOLLOW) < 0) {
		/* A crash came before the journal was made. */
		return errno == ENOENT && fstat(dir, &st) == 0 &&
		       st.st_mtime < time(NULL) - OLD_S;
	}
	if (st.st_mtime >= time(NULL) - OLD_S) {
		return false;
	}
	over = journal_read(dir, "journal", name, dst_rec_apply, &r, &e) == 0 &&
	       r.last_s < time(NULL) - OLD_S && !r.committing && !r.undoing &&
	       (dst_rec_state(&r) == MSG_DST_ABORTED ||
		dst_rec_state(&r) == MSG_DST_FINISHED ||
		(!r.placed && (dst_rec_state(&r) == MSG_DST_NONE ||
			       dst_rec_state(&r) == MSG_DST_NEVER)));
	dst_rec_fini(&r);
	return over;
}

/* Under the session's lock, so that no OPEN is under way; one that waits for
 * the lock sees that its file is gone and starts over. */
static bool
drop(int sessions, const char *name)
{
	cleanup(close_fd) int dir =
		openat(sessions, name,
		       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup(close_fd) int lock = -1;
	struct err e = { 0 };

	if (dir < 0 || !is_over(dir, name)) {
		return false;
	}
	lock = openat(dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
		      0600);
	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0 ||
	    !is_over(dir, name)) {
		return false;
	}
	log_debug("removing the old session %s", name);
	if (remove_tree(sessions, name, NULL, &e) < 0) {
		log_debug("%s", e.text);
		return false;
	}
	return true;
}

void
dst_clean_old(void)
{
	struct err e = { 0 };
	cleanup(close_fd) int fd = statedir_open("sessions", &e);
	struct dirent *de;
	int looked = 0, dropped = 0, dfd;
	DIR *d;

	dfd = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = dfd < 0 ? NULL : fdopendir(dfd);
	if (!d) {
		if (dfd >= 0) {
			close(dfd);
		}
		return; /* OPEN will tell what is wrong */
	}
	while (looked < LOOK_MAX && dropped < DROP_MAX && (de = readdir(d))) {
		if (strlen(de->d_name) != 2 * MSG_ID_LEN ||
		    strspn(de->d_name, "0123456789abcdef") != 2 * MSG_ID_LEN) {
			continue;
		}
		looked++;
		dropped += drop(fd, de->d_name);
	}
	closedir(d);
}
