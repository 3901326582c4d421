/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * failfs [-o OPTION,...] [-f] SOURCE MOUNTPOINT
 *
 * A FUSE file system that shows SOURCE and fails where it is told to:
 *
 *	eio=PATH:N	the N-th read (from 1) of that file gives EIO, as do
 *			those after it
 *	eacces=PATH	opening that directory gives EACCES
 *	short=PATH	each write to that file of more than one byte takes
 *			half of it
 *	enospc=PATH	closing or syncing that file, once written to, gives
 *			ENOSPC
 *	grows=PATH	each read of that file makes it longer before,
 *	shrinks=PATH	cuts it to 10 bytes,
 *	comes=PATH	puts a new one in its place,
 *	stirs=PATH	or makes and removes one beside it
 *	goes=PATH	it is listed, but not there
 *	slow=MS		each write takes that long,
 *	slow-read=MS	each read
 *
 * PATH starts with a slash at the mount point, or is the name alone, in any
 * directory. Named files bypass the page cache, so that one read or write is
 * one request. Inode numbers and extended attributes are those of SOURCE;
 * inode flags (chattr) are not passed on.
 */
#define FUSE_USE_VERSION 31
#include <fuse.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

static struct opt {
	char *eio, *eacces, *shrt, *enospc; /* or NULL */
	char *grows, *shrinks, *comes, *stirs, *goes;
	unsigned slow, slow_read;
} opt;

static unsigned long eio_at, eio_reads; /* which read fails; reads so far */
static char *source;
static int root = -1;

/* An opened file. */
struct handle {
	int fd;
	int written;
};

static struct handle *
handle(struct fuse_file_info *fi)
{
	return (struct handle *)(uintptr_t)fi->fh;
}

/* Whether `path` is the one an option names. */
static int
named(const char *want, const char *path)
{
	if (!want) {
		return 0;
	}
	return strcmp(want, want[0] == '/' ? path : strrchr(path, '/') + 1) ==
	       0;
}

/* Relative to root. */
static const char *
rel(const char *path)
{
	return path[1] ? path + 1 : ".";
}

/* For calls that know no directory descriptor. The caller's buffer. */
static const char *
full(const char *path, char *buf, size_t len)
{
	snprintf(buf, len, "/proc/self/fd/%d/%s", root, rel(path));
	return buf;
}

#define FULL(path) full(path, (char[8192]){ 0 }, 8192)
#define RESULT(call) ((call) < 0 ? -errno : 0)

static int
f_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	(void)fi;
	if (named(opt.goes, path)) {
		return -ENOENT;
	}
	return RESULT(fstatat(root, rel(path), st, AT_SYMLINK_NOFOLLOW));
}

static int
f_readlink(const char *path, char *buf, size_t size)
{
	ssize_t n = readlinkat(root, rel(path), buf, size - 1);

	if (n < 0) {
		return -errno;
	}
	buf[n] = '\0';
	return 0;
}

static int
f_mknod(const char *path, mode_t mode, dev_t dev)
{
	return RESULT(mknodat(root, rel(path), mode, dev));
}

static int
f_mkdir(const char *path, mode_t mode)
{
	return RESULT(mkdirat(root, rel(path), mode));
}

static int
f_unlink(const char *path)
{
	return RESULT(unlinkat(root, rel(path), 0));
}

static int
f_rmdir(const char *path)
{
	return RESULT(unlinkat(root, rel(path), AT_REMOVEDIR));
}

static int
f_symlink(const char *target, const char *path)
{
	return RESULT(symlinkat(target, root, rel(path)));
}

static int
f_rename(const char *from, const char *to, unsigned flags)
{
	return RESULT(renameat2(root, rel(from), root, rel(to), flags));
}

static int
f_link(const char *from, const char *to)
{
	return RESULT(linkat(root, rel(from), root, rel(to), 0));
}

static int
f_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	(void)fi;
	return RESULT(fchmodat(root, rel(path), mode, 0));
}

static int
f_chown(const char *path, uid_t uid, gid_t gid, struct fuse_file_info *fi)
{
	(void)fi;
	return RESULT(fchownat(root, rel(path), uid, gid, AT_SYMLINK_NOFOLLOW));
}

static int
f_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	return RESULT(fi ? ftruncate(handle(fi)->fd, size)
			 : truncate(FULL(path), size));
}

static int
f_utimens(const char *path, const struct timespec ts[2],
	  struct fuse_file_info *fi)
{
	(void)fi;
	return RESULT(utimensat(root, rel(path), ts, AT_SYMLINK_NOFOLLOW));
}

static int
open_file(const char *path, int flags, mode_t mode, struct fuse_file_info *fi)
{
	struct handle *h = calloc(1, sizeof(*h));
	int errnum;

	if (!h) {
		return -ENOMEM;
	}
	/* The kernel adds offsets itself; reading is wanted for lseek. */
	flags &= ~O_APPEND;
	h->fd = openat(root, rel(path), flags | O_CLOEXEC, mode);
	if (h->fd < 0) {
		errnum = errno;
		free(h);
		return -errnum;
	}
	fi->fh = (uintptr_t)h;
	fi->direct_io = named(opt.eio, path) || named(opt.shrt, path) ||
			named(opt.enospc, path) || named(opt.grows, path) ||
			named(opt.shrinks, path) || named(opt.comes, path) ||
			named(opt.stirs, path);
	return 0;
}

static int
f_open(const char *path, struct fuse_file_info *fi)
{
	return open_file(path, fi->flags & ~(O_CREAT | O_EXCL), 0, fi);
}

static int
f_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	return open_file(path, fi->flags | O_CREAT, mode, fi);
}

/* What is to happen to a file that is just read. */
static int
move_on(const char *path)
{
	char fresh[8192];
	int fd;

	if (named(opt.shrinks, path)) {
		return truncate(FULL(path), 10);
	}
	if (!named(opt.grows, path) && !named(opt.comes, path) &&
	    !named(opt.stirs, path)) {
		return 0;
	}
	snprintf(fresh, sizeof(fresh), "%s%s", rel(path),
		 named(opt.grows, path) ? "" : ".new");
	fd = openat(root, fresh, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (fd < 0 || write(fd, "more of it", 10) != 10 || close(fd) < 0) {
		return -1;
	}
	if (named(opt.stirs, path)) {
		return unlinkat(root, fresh, 0);
	}
	return named(opt.comes, path) ? renameat(root, fresh, root, rel(path))
				      : 0;
}

static int
f_read(const char *path, char *buf, size_t size, off_t off,
       struct fuse_file_info *fi)
{
	ssize_t n;

	if (named(opt.eio, path) && ++eio_reads >= eio_at) {
		return -EIO;
	}
	if (move_on(path) < 0) {
		return -errno;
	}
	if (opt.slow_read) {
		poll(NULL, 0, (int)opt.slow_read);
	}
	n = pread(handle(fi)->fd, buf, size, off);
	return n < 0 ? -errno : (int)n;
}

static int
f_write(const char *path, const char *buf, size_t size, off_t off,
	struct fuse_file_info *fi)
{
	ssize_t n;

	if (named(opt.shrt, path) && size > 1) {
		size /= 2;
	}
	if (opt.slow) {
		poll(NULL, 0, (int)opt.slow);
	}
	handle(fi)->written = 1;
	n = pwrite(handle(fi)->fd, buf, size, off);
	return n < 0 ? -errno : (int)n;
}

static int
f_flush(const char *path, struct fuse_file_info *fi)
{
	return named(opt.enospc, path) && handle(fi)->written ? -ENOSPC : 0;
}

static int
f_fsync(const char *path, int datasync, struct fuse_file_info *fi)
{
	(void)datasync;
	if (named(opt.enospc, path) && handle(fi)->written) {
		return -ENOSPC;
	}
	return RESULT(fsync(handle(fi)->fd));
}

static int
f_release(const char *path, struct fuse_file_info *fi)
{
	(void)path;
	close(handle(fi)->fd);
	free(handle(fi));
	return 0;
}

static int
f_fallocate(const char *path, int mode, off_t off, off_t len,
	    struct fuse_file_info *fi)
{
	(void)path;
	return RESULT(fallocate(handle(fi)->fd, mode, off, len));
}

static off_t
f_lseek(const char *path, off_t off, int whence, struct fuse_file_info *fi)
{
	off_t at = lseek(handle(fi)->fd, off, whence);

	(void)path;
	return at < 0 ? -errno : at;
}

static int
f_opendir(const char *path, struct fuse_file_info *fi)
{
	int fd;

	if (named(opt.eacces, path)) {
		return -EACCES;
	}
	fd = openat(root, rel(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	fi->fh = (uintptr_t)fdopendir(fd);
	if (!fi->fh) {
		close(fd);
		return -ENOMEM;
	}
	return 0;
}

/* All at once: offset 0 tells libfuse to keep the entries itself. */
static int
f_readdir(const char *path, void *buf, fuse_fill_dir_t filler, off_t off,
	  struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	DIR *d = (DIR *)(uintptr_t)fi->fh;
	struct dirent *de;

	(void)path;
	(void)off;
	(void)flags;
	rewinddir(d);
	while ((de = readdir(d)) != NULL) {
		struct stat st = { .st_ino = de->d_ino,
				   .st_mode = DTTOIF(de->d_type) };

		if (filler(buf, de->d_name, &st, 0, 0)) {
			break;
		}
	}
	return 0;
}

static int
f_releasedir(const char *path, struct fuse_file_info *fi)
{
	(void)path;
	closedir((DIR *)(uintptr_t)fi->fh);
	return 0;
}

static int
f_statfs(const char *path, struct statvfs *st)
{
	(void)path;
	return RESULT(fstatvfs(root, st));
}

static int
f_setxattr(const char *path, const char *name, const char *v, size_t size,
	   int flags)
{
	return RESULT(lsetxattr(FULL(path), name, v, size, flags));
}

static int
f_getxattr(const char *path, const char *name, char *v, size_t size)
{
	ssize_t n = lgetxattr(FULL(path), name, v, size);

	return n < 0 ? -errno : (int)n;
}

static int
f_listxattr(const char *path, char *list, size_t size)
{
	ssize_t n = llistxattr(FULL(path), list, size);

	return n < 0 ? -errno : (int)n;
}

static int
f_removexattr(const char *path, const char *name)
{
	return RESULT(lremovexattr(FULL(path), name));
}

static void *
f_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
	(void)conn;
	cfg->use_ino = 1;
	cfg->entry_timeout = cfg->attr_timeout = cfg->negative_timeout = 0;
	cfg->nullpath_ok = 0;
	umask(0);
	return NULL;
}

static const struct fuse_operations ops = {
	.init = f_init,
	.getattr = f_getattr,
	.readlink = f_readlink,
	.mknod = f_mknod,
	.mkdir = f_mkdir,
	.unlink = f_unlink,
	.rmdir = f_rmdir,
	.symlink = f_symlink,
	.rename = f_rename,
	.link = f_link,
	.chmod = f_chmod,
	.chown = f_chown,
	.truncate = f_truncate,
	.utimens = f_utimens,
	.open = f_open,
	.create = f_create,
	.read = f_read,
	.write = f_write,
	.flush = f_flush,
	.fsync = f_fsync,
	.release = f_release,
	.fallocate = f_fallocate,
	.lseek = f_lseek,
	.opendir = f_opendir,
	.readdir = f_readdir,
	.releasedir = f_releasedir,
	.statfs = f_statfs,
	.setxattr = f_setxattr,
	.getxattr = f_getxattr,
	.listxattr = f_listxattr,
	.removexattr = f_removexattr,
};

static const struct fuse_opt options[] = {
	{ "eio=%s", offsetof(struct opt, eio), 0 },
	{ "eacces=%s", offsetof(struct opt, eacces), 0 },
	{ "short=%s", offsetof(struct opt, shrt), 0 },
	{ "enospc=%s", offsetof(struct opt, enospc), 0 },
	{ "grows=%s", offsetof(struct opt, grows), 0 },
	{ "shrinks=%s", offsetof(struct opt, shrinks), 0 },
	{ "comes=%s", offsetof(struct opt, comes), 0 },
	{ "stirs=%s", offsetof(struct opt, stirs), 0 },
	{ "goes=%s", offsetof(struct opt, goes), 0 },
	{ "slow=%u", offsetof(struct opt, slow), 0 },
	{ "slow-read=%u", offsetof(struct opt, slow_read), 0 },
	FUSE_OPT_END,
};

/* The first argument that is no option is SOURCE, the second is libfuse's. */
static int
take(void *data, const char *arg, int key, struct fuse_args *out)
{
	(void)data;
	(void)out;
	if (key == FUSE_OPT_KEY_NONOPT && !source) {
		source = strdup(arg);
		return 0;
	}
	return 1;
}

int
main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	char *colon;
	int rc;

	if (fuse_opt_parse(&args, &opt, options, take) < 0 || !source) {
		fprintf(stderr, "usage: failfs [-f] [-o OPTION,...] SOURCE "
				"MOUNTPOINT\n");
		return 2;
	}
	root = open(source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) {
		fprintf(stderr, "failfs: %s: %s\n", source, strerror(errno));
		return 2;
	}
	if (opt.eio) {
		colon = strrchr(opt.eio, ':');
		eio_at = colon ? strtoul(colon + 1, NULL, 10) : 1;
		if (colon) {
			*colon = '\0';
		}
	}
	/* One thread: the counting needs no lock. */
	fuse_opt_add_arg(&args, "-s");
	rc = fuse_main(args.argc, args.argv, &ops, NULL);
	fuse_opt_free_args(&args);
	return rc;
}
