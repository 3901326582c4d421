/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * treecmp [--atime] [--ignore=WHAT,...] A B
 *
 * Compare two trees in every attribute of every entry. It shares no code with
 * the program that it checks, and is as simple as it can be.
 *
 * Prints one line per difference with the path escaped, or "entries=N
 * bytes=N" (bytes of data, not of holes) when there is none. Exit status: 0
 * equal, 1 different, 2 trouble (something could not be read or was not
 * understood).
 *
 * WHAT is what the lines say: type, mode, owner, mtime, atime (ignored unless
 * --atime), size, rdev, target, xattr, flags, projid, content, holes, blocks,
 * nlink, links (which names are one inode).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

enum what {
	W_TYPE,
	W_MODE,
	W_OWNER,
	W_MTIME,
	W_ATIME,
	W_SIZE,
	W_RDEV,
	W_TARGET,
	W_XATTR,
	W_FLAGS,
	W_PROJID,
	W_CONTENT,
	W_HOLES,
	W_BLOCKS,
	W_NLINK,
	W_LINKS,
	W_MISSING,
	W_COUNT,
};

static const char *const what_names[W_COUNT] = {
	"type",	 "mode",   "owner", "mtime", "atime",	"size",
	"rdev",	 "target", "xattr", "flags", "projid",	"content",
	"holes", "blocks", "nlink", "links", "missing",
};

/* Flags of chattr that a person can set; others tell how the file system
 * stores the file. */
#define FLAGS                                                               \
	(FS_SECRM_FL | FS_UNRM_FL | FS_COMPR_FL | FS_SYNC_FL |              \
	 FS_IMMUTABLE_FL | FS_APPEND_FL | FS_NODUMP_FL | FS_NOATIME_FL |    \
	 FS_JOURNAL_DATA_FL | FS_NOTAIL_FL | FS_DIRSYNC_FL | FS_TOPDIR_FL | \
	 FS_NOCOW_FL | FS_PROJINHERIT_FL)

#define CHUNK (1u << 20)       /* bytes compared at once */
#define HOLE_SLACK (64u << 10) /* data runs end at blocks */
#define BLOCK_SLACK (1u << 20) /* bytes; file systems allocate ahead */

static bool ignored[W_COUNT];
static uint64_t differences, troubles, entries, bytes;

/* The path of what is compared now; grows as needed. */
static char *path;
static size_t path_len, path_cap;

static void
show_bytes(FILE *f, const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c < 0x20 || c >= 0x7f || c == '\\') {
			fprintf(f, "\\x%02x", c);
		} else {
			fputc(c, f);
		}
	}
}

static void
show_path(FILE *f)
{
	if (path_len == 0) {
		fputc('.', f);
	}
	show_bytes(f, path, path_len);
}

static void __attribute__((format(printf, 2, 3)))
differ(enum what w, const char *fmt, ...)
{
	va_list ap;

	if (ignored[w]) {
		return;
	}
	differences++;
	show_path(stdout);
	printf(": %s: ", what_names[w]);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

static void
trouble(const char *what)
{
	troubles++;
	fprintf(stderr, "treecmp: ");
	show_path(stderr);
	fprintf(stderr, ": %s: %s\n", what, strerror(errno));
}

static void *
must(void *p)
{
	if (!p) {
		fprintf(stderr, "treecmp: out of memory\n");
		exit(2);
	}
	return p;
}

/* --- hard links ----------------------------------------------------------*/

/* Maps an inode to the inode that it was first met with on the other side. */
struct pair {
	uint64_t dev, ino, other_dev, other_ino;
};

struct map {
	struct pair *slots; /* ino 0: free */
	size_t cap, used;
};

static struct map a_to_b, b_to_a;

static struct pair *
slot(struct map *m, uint64_t dev, uint64_t ino)
{
	size_t i = (size_t)((ino * 0x9e3779b97f4a7c15u) ^ dev) & (m->cap - 1);

	while (m->slots[i].ino &&
	       (m->slots[i].ino != ino || m->slots[i].dev != dev)) {
		i = (i + 1) & (m->cap - 1);
	}
	return &m->slots[i];
}

static struct pair *
lookup(struct map *m, uint64_t dev, uint64_t ino)
{
	if (m->used * 2 >= m->cap) {
		struct map n = { .cap = m->cap ? 2 * m->cap : 1024,
				 .used = m->used };

		n.slots = must(calloc(n.cap, sizeof(*n.slots)));
		for (size_t i = 0; i < m->cap; i++) {
			struct pair *p = &m->slots[i];

			if (p->ino) {
				*slot(&n, p->dev, p->ino) = *p;
			}
		}
		free(m->slots);
		*m = n;
	}
	return slot(m, dev, ino);
}

/* False where the first inode was met with another partner before. */
static bool
remember(struct map *m, const struct stat *x, const struct stat *y)
{
	struct pair *p = lookup(m, x->st_dev, x->st_ino);

	if (!p->ino) {
		p->dev = x->st_dev;
		p->ino = x->st_ino;
		p->other_dev = y->st_dev;
		p->other_ino = y->st_ino;
		m->used++;
		return true;
	}
	return p->other_dev == y->st_dev && p->other_ino == y->st_ino;
}

/* Whether A's inode was met before, with anything. */
static bool
links(const struct stat *a, const struct stat *b)
{
	bool known = lookup(&a_to_b, a->st_dev, a->st_ino)->ino != 0;

	if (!remember(&a_to_b, a, b)) {
		differ(W_LINKS, "one inode in A with another name, not in B");
	}
	if (!remember(&b_to_a, b, a)) {
		differ(W_LINKS, "one inode in B with another name, not in A");
	}
	return known;
}

/* --- attributes ----------------------------------------------------------*/

struct xattrs {
	char *list; /* names, NUL-separated */
	size_t n;
	char **names; /* sorted */
};

static int
cmp_str(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
xattrs_read(const char *p, struct xattrs *x)
{
	ssize_t len;

	memset(x, 0, sizeof(*x));
	x->list = must(malloc(65536));
	len = llistxattr(p, x->list, 65536);
	if (len < 0) {
		return errno == EOPNOTSUPP ? 0 : -1;
	}
	x->names = must(calloc((size_t)len + 1, sizeof(char *)));
	for (char *s = x->list; s < x->list + len; s += strlen(s) + 1) {
		/* how xfs stores what it also shows as system.posix_acl_* */
		if (strncmp(s, "trusted.SGI_ACL_", 16) != 0) {
			x->names[x->n++] = s;
		}
	}
	qsort(x->names, x->n, sizeof(char *), cmp_str);
	return 0;
}

static void
compare_value(const char *pa, const char *pb, const char *name)
{
	static char va[65536], vb[65536];
	ssize_t na = lgetxattr(pa, name, va, sizeof(va));
	ssize_t nb = lgetxattr(pb, name, vb, sizeof(vb));

	if (na < 0 || nb < 0) {
		trouble(name);
	} else if (na != nb) {
		differ(W_XATTR, "%s has %zd bytes in A, %zd in B", name, na,
		       nb);
	} else if (memcmp(va, vb, (size_t)na) != 0) {
		differ(W_XATTR, "%s has another value", name);
	}
}

static void
compare_xattrs(const char *pa, const char *pb)
{
	struct xattrs a, b = { 0 };
	size_t i = 0, j = 0;

	if (xattrs_read(pa, &a) < 0 || xattrs_read(pb, &b) < 0) {
		trouble("extended attributes");
	}
	while (i < a.n || j < b.n) {
		int c = i == a.n   ? 1
			: j == b.n ? -1
				   : strcmp(a.names[i], b.names[j]);

		if (c < 0) {
			differ(W_XATTR, "%s only in A", a.names[i++]);
		} else if (c > 0) {
			differ(W_XATTR, "%s only in B", b.names[j++]);
		} else {
			compare_value(pa, pb, a.names[i]);
			i++;
			j++;
		}
	}
	free(a.list);
	free(a.names);
	free(b.list);
	free(b.names);
}

static void
inode_flags(int fd, unsigned *flags, unsigned *projid)
{
	struct fsxattr x;
	int v = 0;

	*flags = *projid = 0;
	if (ioctl(fd, FS_IOC_GETFLAGS, &v) == 0) {
		*flags = (unsigned)v & FLAGS;
	}
	memset(&x, 0, sizeof(x));
	if (ioctl(fd, FS_IOC_FSGETXATTR, &x) == 0) {
		*projid = x.fsx_projid;
	}
}

static void
compare_flags(int fa, int fb)
{
	unsigned a, b, pa, pb;

	inode_flags(fa, &a, &pa);
	inode_flags(fb, &b, &pb);
	if (a != b) {
		differ(W_FLAGS, "0x%x in A, 0x%x in B", a, b);
	}
	if (pa != pb) {
		differ(W_PROJID, "%u in A, %u in B", pa, pb);
	}
}

static void
compare_time(enum what w, const struct timespec *a, const struct timespec *b)
{
	if (a->tv_sec != b->tv_sec || a->tv_nsec != b->tv_nsec) {
		differ(w, "%lld.%09ld in A, %lld.%09ld in B",
		       (long long)a->tv_sec, a->tv_nsec, (long long)b->tv_sec,
		       b->tv_nsec);
	}
}

static void
compare_stat(const struct stat *a, const struct stat *b)
{
	if ((a->st_mode ^ b->st_mode) & 07777) {
		differ(W_MODE, "%o in A, %o in B", a->st_mode & 07777,
		       b->st_mode & 07777);
	}
	if (a->st_uid != b->st_uid || a->st_gid != b->st_gid) {
		differ(W_OWNER, "%u:%u in A, %u:%u in B", a->st_uid, a->st_gid,
		       b->st_uid, b->st_gid);
	}
	if ((S_ISCHR(a->st_mode) || S_ISBLK(a->st_mode)) &&
	    a->st_rdev != b->st_rdev) {
		differ(W_RDEV, "%u:%u in A, %u:%u in B", major(a->st_rdev),
		       minor(a->st_rdev), major(b->st_rdev), minor(b->st_rdev));
	}
	compare_time(W_MTIME, &a->st_mtim, &b->st_mtim);
	compare_time(W_ATIME, &a->st_atim, &b->st_atim);
	if (!S_ISDIR(a->st_mode) && a->st_nlink != b->st_nlink) {
		differ(W_NLINK, "%ju in A, %ju in B", (uintmax_t)a->st_nlink,
		       (uintmax_t)b->st_nlink);
	}
}

/* --- content -------------------------------------------------------------*/

/* The first data at or after `pos`; `*end` where it ends. size: none. */
static uint64_t
next_data(int fd, uint64_t pos, uint64_t size, uint64_t *end)
{
	off_t at = pos < size ? lseek(fd, (off_t)pos, SEEK_DATA) : -1, hole;

	*end = size;
	if (at < 0) {
		if (pos < size && errno != ENXIO) {
			return pos; /* cannot tell: all of it */
		}
		return size;
	}
	hole = lseek(fd, at, SEEK_HOLE);
	if (hole > at && (uint64_t)hole < size) {
		*end = (uint64_t)hole;
	}
	return (uint64_t)at;
}

static bool
same_range(int fa, int fb, uint64_t from, uint64_t len)
{
	static char a[CHUNK], b[CHUNK];

	while (len) {
		size_t n = len < CHUNK ? (size_t)len : CHUNK;
		ssize_t na = pread(fa, a, n, (off_t)from);
		ssize_t nb =
			na > 0 ? pread(fb, b, (size_t)na, (off_t)from) : na;

		if (na < 0 || nb < 0) {
			trouble("read");
			return true;
		}
		if (na == 0 || nb != na || memcmp(a, b, (size_t)na) != 0) {
			return false;
		}
		from += (uint64_t)na;
		len -= (uint64_t)na;
	}
	return true;
}

static uint64_t
data_bytes(int fd, uint64_t size)
{
	uint64_t sum = 0, end;

	for (uint64_t at = next_data(fd, 0, size, &end); at < size;
	     at = next_data(fd, end, size, &end)) {
		sum += end - at;
	}
	return sum;
}

static void
compare_content(int fa, int fb, const struct stat *a, const struct stat *b)
{
	uint64_t size = (uint64_t)a->st_size, pos = 0, da, db;

	if (a->st_size != b->st_size) {
		differ(W_SIZE, "%jd in A, %jd in B", (intmax_t)a->st_size,
		       (intmax_t)b->st_size);
		return;
	}
	while (pos < size) {
		uint64_t ea, eb, sa = next_data(fa, pos, size, &ea);
		uint64_t sb = next_data(fb, pos, size, &eb);
		uint64_t start = sa < sb ? sa : sb;
		uint64_t end = sa < sb ? ea : eb;

		if (start >= size) {
			break;
		}
		if (!same_range(fa, fb, start, end - start)) {
			differ(W_CONTENT, "between bytes %ju and %ju",
			       (uintmax_t)start, (uintmax_t)end);
			break;
		}
		pos = end;
	}
	da = data_bytes(fa, size);
	db = data_bytes(fb, size);
	bytes += da;
	if (db > da + da / 16 + HOLE_SLACK) {
		differ(W_HOLES, "%ju bytes of data in A, %ju in B",
		       (uintmax_t)da, (uintmax_t)db);
	}
	if ((uint64_t)b->st_blocks * 512 >
	    (uint64_t)a->st_blocks * 512 + da / 8 + BLOCK_SLACK) {
		differ(W_BLOCKS, "%jd of 512 bytes in A, %jd in B",
		       (intmax_t)a->st_blocks, (intmax_t)b->st_blocks);
	}
}

/* --- the tree ------------------------------------------------------------*/

struct names {
	char **v;
	size_t n, cap;
};

static int
names_read(int dirfd, struct names *l)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_NOATIME);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	memset(l, 0, sizeof(*l));
	if (!d) {
		return -1;
	}
	while ((errno = 0, de = readdir(d)) != NULL) {
		if (strcmp(de->d_name, ".") == 0 ||
		    strcmp(de->d_name, "..") == 0) {
			continue;
		}
		if (l->n == l->cap) {
			l->cap = l->cap ? 2 * l->cap : 64;
			l->v = must(realloc(l->v, l->cap * sizeof(char *)));
		}
		l->v[l->n++] = must(strdup(de->d_name));
	}
	if (errno) {
		closedir(d);
		return -1;
	}
	closedir(d);
	if (l->n) {
		qsort(l->v, l->n, sizeof(char *), cmp_str);
	}
	return 0;
}

static void
names_free(struct names *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i]);
	}
	free(l->v);
}

static size_t
path_push(const char *name)
{
	size_t old = path_len, n = strlen(name);

	if (path_len + n + 2 > path_cap) {
		path_cap = 2 * (path_len + n + 2);
		path = must(realloc(path, path_cap));
	}
	if (path_len) {
		path[path_len++] = '/';
	}
	memcpy(path + path_len, name, n);
	path_len += n;
	return old;
}

static void compare_dirs(int da, int db);

static void
compare_opened(int da, int db, const char *name, const struct stat *a,
	       const struct stat *b, bool seen)
{
	int flags = O_RDONLY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC;
	int fa = openat(da, name, flags), fb = openat(db, name, flags);

	if (fa < 0 || fb < 0) {
		trouble("open");
	} else {
		compare_flags(fa, fb);
		if (S_ISREG(a->st_mode)) {
			if (!seen) {
				compare_content(fa, fb, a, b);
			}
		} else {
			compare_dirs(fa, fb);
		}
	}
	if (fa >= 0) {
		close(fa);
	}
	if (fb >= 0) {
		close(fb);
	}
}

static void
compare_target(int da, int db, const char *name)
{
	static char a[8192], b[8192];
	ssize_t na = readlinkat(da, name, a, sizeof(a));
	ssize_t nb = readlinkat(db, name, b, sizeof(b));

	if (na < 0 || nb < 0) {
		trouble("readlink");
	} else if (na != nb || memcmp(a, b, (size_t)na) != 0) {
		differ(W_TARGET, "%zd bytes in A, %zd in B", na, nb);
	}
}

static void
compare_entry(int da, int db, const char *name)
{
	char pa[512], pb[512];
	struct stat a, b;
	bool seen = false;

	entries++;
	if (fstatat(da, name, &a, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fstatat(db, name, &b, AT_SYMLINK_NOFOLLOW) < 0) {
		trouble("stat");
		return;
	}
	if ((a.st_mode ^ b.st_mode) & S_IFMT) {
		differ(W_TYPE, "%o in A, %o in B", a.st_mode & S_IFMT,
		       b.st_mode & S_IFMT);
		return;
	}
	compare_stat(&a, &b);
	snprintf(pa, sizeof(pa), "/proc/self/fd/%d/%s", da, name);
	snprintf(pb, sizeof(pb), "/proc/self/fd/%d/%s", db, name);
	compare_xattrs(pa, pb);
	if (!S_ISDIR(a.st_mode) && (a.st_nlink > 1 || b.st_nlink > 1)) {
		seen = links(&a, &b);
	}
	if (S_ISLNK(a.st_mode)) {
		compare_target(da, db, name);
	}
	if (S_ISREG(a.st_mode) || S_ISDIR(a.st_mode)) {
		compare_opened(da, db, name, &a, &b, seen);
	}
}

static void
missing(const char *name, char side)
{
	size_t old = path_push(name);

	differ(W_MISSING, "only in %c", side);
	path_len = old;
}

static void
compare_dirs(int da, int db)
{
	struct names a, b = { 0 };
	size_t i = 0, j = 0;

	if (names_read(da, &a) < 0 || names_read(db, &b) < 0) {
		trouble("read directory");
	}
	while (i < a.n || j < b.n) {
		int c = i == a.n ? 1 : j == b.n ? -1 : strcmp(a.v[i], b.v[j]);

		if (c < 0) {
			missing(a.v[i++], 'A');
		} else if (c > 0) {
			missing(b.v[j++], 'B');
		} else {
			size_t old = path_push(a.v[i]);

			compare_entry(da, db, a.v[i]);
			path_len = old;
			i++;
			j++;
		}
	}
	names_free(&a);
	names_free(&b);
}

static int
usage(void)
{
	fprintf(stderr, "usage: treecmp [--atime] [--ignore=WHAT,...] A B\n");
	return 2;
}

static int
add_ignored(char *list)
{
	for (char *s = strtok(list, ","); s; s = strtok(NULL, ",")) {
		int i = 0;

		while (i < W_COUNT && strcmp(s, what_names[i]) != 0) {
			i++;
		}
		if (i == W_COUNT) {
			fprintf(stderr, "treecmp: cannot ignore \"%s\"\n", s);
			return -1;
		}
		ignored[i] = true;
	}
	return 0;
}

int
main(int argc, char **argv)
{
	struct rlimit rl;
	int i, a, b;

	ignored[W_ATIME] = true;
	for (i = 1; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
		if (strcmp(argv[i], "--atime") == 0) {
			ignored[W_ATIME] = false;
		} else if (strncmp(argv[i], "--ignore=", 9) == 0) {
			if (add_ignored(argv[i] + 9) < 0) {
				return 2;
			}
		} else {
			return usage();
		}
	}
	if (argc - i != 2) {
		return usage();
	}
	/* two descriptors for each level */
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
	a = open(argv[i], O_RDONLY | O_DIRECTORY | O_NOATIME);
	b = open(argv[i + 1], O_RDONLY | O_DIRECTORY | O_NOATIME);
	if (a < 0 || b < 0) {
		fprintf(stderr, "treecmp: %s: %s\n", argv[i + (a >= 0)],
			strerror(errno));
		return 2;
	}
	path_cap = 256;
	path = must(malloc(path_cap));
	compare_entry(a, b, ".");
	close(a);
	close(b);
	free(path);
	free(a_to_b.slots);
	free(b_to_a.slots);
	if (troubles) {
		return 2;
	}
	if (differences) {
		return 1;
	}
	printf("entries=%ju bytes=%ju\n", (uintmax_t)entries, (uintmax_t)bytes);
	return 0;
}
