/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * xattr: reads and writes extended attributes through a descriptor, so that
 * no name is looked up twice. No state.
 *
 * An object that cannot be opened (symlink, device, fifo, socket) is reached
 * through /proc/self/fd of its O_PATH descriptor, which leads to that very
 * inode and, for a symlink, no further.
 */
#include "fs/xattr.h"

#include <endian.h>
#include <errno.h>
#include <linux/limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"

#define FIRST_TRY                                               \
	1024 /* bytes of a value asked for at first: the kernel \
		allocates what it is asked for */
#define CAPABILITY "security.capability"

/* The inode, and how to name it to the kernel. */
struct target {
	int fd;
	int is_path;
	char proc[32]; /* /proc/self/fd/N where is_path */
};

/* One attribute in a packed block; borrowed. */
struct item {
	const char *name; /* not NUL-terminated */
	size_t name_len;
	const uint8_t *value;
	size_t value_len;
};

static void
target_init(struct target *t, int fd, int is_path)
{
	t->fd = fd;
	t->is_path = is_path;
	if (is_path) {
		snprintf(t->proc, sizeof(t->proc), "/proc/self/fd/%d", fd);
	}
}

static ssize_t
t_list(const struct target *t, char *list, size_t size)
{
	return t->is_path ? listxattr(t->proc, list, size)
			  : flistxattr(t->fd, list, size);
}

static ssize_t
t_get(const struct target *t, const char *name, void *v, size_t size)
{
	return t->is_path ? getxattr(t->proc, name, v, size)
			  : fgetxattr(t->fd, name, v, size);
}

static int
t_set(const struct target *t, const char *name, const void *v, size_t len)
{
	return t->is_path ? setxattr(t->proc, name, v, len, 0)
			  : fsetxattr(t->fd, name, v, len, 0);
}

static int
t_remove(const struct target *t, const char *name)
{
	return t->is_path ? removexattr(t->proc, name)
			  : fremovexattr(t->fd, name);
}

/* xfs lists its ACLs twice: as system.posix_acl_* and under these names, by
 * which the raw form could be set behind the back of the first. */
static bool
is_shadow(const char *name)
{
	return strcmp(name, "trusted.SGI_ACL_FILE") == 0 ||
	       strcmp(name, "trusted.SGI_ACL_DEFAULT") == 0;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/*
 * Sorted names of what the inode has, pointing into `list` (`size` bytes,
 * the kernel's limit). Returns their number, `*names` owned by the caller.
 */
static int
list_names(const struct target *t, char *list, size_t size, char ***names,
	   struct err *e)
{
	/* Most inodes have none, and the kernel allocates what it is given
	 * room for, 64 KiB each time. */
	ssize_t got = t_list(t, NULL, 0);
	size_t max = 0, n = 0;

	*names = NULL;
	if (got > 0) {
		got = t_list(t, list, size);
	}
	if (got < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
		return 0;
	}
	if (got < 0 && (errno == E2BIG || errno == ERANGE)) {
		return err_set(e, E_LIMIT,
			       "more than %zu bytes of names of extended "
			       "attributes",
			       size);
	}
	if (got < 0) {
		return err_sys(e, errno, "cannot list extended attributes");
	}
	if (got == 0) {
		return 0;
	}
	for (ssize_t i = 0; i < got; i++) {
		max += list[i] == '\0';
	}
	*names = malloc(max * sizeof(**names));
	if (max && !*names) {
		return err_nomem(e);
	}
	for (ssize_t i = 0; i < got; i += (ssize_t)strlen(list + i) + 1) {
		if (list[i] && !is_shadow(list + i)) {
			(*names)[n++] = list + i;
		}
	}
	if (n > 1) {
		qsort(*names, n, sizeof(**names), by_name);
	}
	return (int)n;
}

/* The value into `v` (XATTR_SIZE_MAX bytes). -1 with errno. */
static ssize_t
get_value(const struct target *t, const char *name, void *v)
{
	ssize_t n = t_get(t, name, v, FIRST_TRY);

	if (n < 0 && errno == ERANGE) {
		n = t_get(t, name, v, XATTR_SIZE_MAX);
	}
	return n;
}

static int
pack_one(const struct target *t, const char *name, struct buf *out,
	 struct err *e)
{
	size_t name_len = strlen(name), head = 2 + name_len + 4;
	uint8_t *p = buf_reserve(out, head + XATTR_SIZE_MAX, e);
	uint16_t nl = htole16((uint16_t)name_len);
	uint32_t vl;
	ssize_t n;

	if (!p) {
		return e ? e->code : E_LIMIT;
	}
	n = get_value(t, name, p + head);
	if (n < 0 && errno == ENODATA) {
		return 0; /* taken away meanwhile: ctime tells the next pass */
	}
	if (n < 0) {
		return err_sys(e, errno, "cannot read %s", name);
	}
	vl = htole32((uint32_t)n);
	memcpy(p, &nl, 2);
	memcpy(p + 2, name, name_len);
	memcpy(p + 2 + name_len, &vl, 4);
	out->len += head + (size_t)n;
	if (out->len > META_XATTRS_MAX) {
		return err_set(e, E_LIMIT,
			       "more than %u bytes of extended attributes",
			       META_XATTRS_MAX);
	}
	return 0;
}

bool
xattr_some(int dirfd, const char *name)
{
	char path[32 + NAME_MAX + 1];
	int n = snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dirfd,
			 name);
	ssize_t got;

	if (n < 0 || (size_t)n >= sizeof(path)) {
		return true;
	}
	got = llistxattr(path, NULL, 0);
	return got > 0 || (got < 0 && errno != EOPNOTSUPP && errno != ENOSYS);
}

int
xattr_read(int fd, int is_path, uint8_t **packed, size_t *len, struct err *e)
{
	char list[XATTR_LIST_MAX];
	cleanup(free_ptr) char **names = NULL;
	cleanup(buf_finip) struct buf out;
	struct target t;
	int n;

	*packed = NULL;
	*len = 0;
	target_init(&t, fd, is_path);
	buf_init(&out, META_XATTRS_MAX + 2 * XATTR_SIZE_MAX);
	n = list_names(&t, list, sizeof(list), &names, e);
	for (int i = 0; i < n; i++) {
		int rc = pack_one(&t, names[i], &out, e);

		if (rc < 0) {
			return rc;
		}
	}
	if (n <= 0 || out.len == 0) {
		return n < 0 ? n : 0;
	}
	*packed = realloc(out.data, out.len);
	if (!*packed) {
		return err_nomem(e);
	}
	*len = out.len;
	out.data = NULL;
	out.len = out.cap = 0;
	return 0;
}

/* The item at the start of the block; returns its packed length, 0 where the
 * block is not well-formed. */
static size_t
unpack(const uint8_t *p, size_t len, struct item *it)
{
	uint16_t nl;
	uint32_t vl;

	if (len < 2) {
		return 0;
	}
	memcpy(&nl, p, 2);
	it->name_len = le16toh(nl);
	if (len - 2 < it->name_len || len - 2 - it->name_len < 4) {
		return 0;
	}
	it->name = (const char *)p + 2;
	memcpy(&vl, p + 2 + it->name_len, 4);
	it->value_len = le32toh(vl);
	if (len - 6 - it->name_len < it->value_len) {
		return 0;
	}
	it->value = p + 6 + it->name_len;
	return 6 + it->name_len + it->value_len;
}

/* memcmp order, the shorter first, as strcmp in list_names. */
static int
item_cmp(const struct item *a, const char *name, size_t len)
{
	size_t n = a->name_len < len ? a->name_len : len;
	int c = memcmp(a->name, name, n);

	return c ? c : a->name_len < len ? -1 : a->name_len > len;
}

int
xattr_check(const uint8_t *p, size_t len, struct err *e)
{
	struct item it, last = { 0 };

	if (len > META_XATTRS_MAX) {
		return err_set(e, E_PROTOCOL,
			       "extended attributes of %zu bytes", len);
	}
	for (size_t at = 0, n; at < len; at += n, last = it) {
		const char *dot;

		n = unpack(p + at, len - at, &it);
		if (n == 0) {
			return err_set(e, E_PROTOCOL,
				       "extended attributes are cut short");
		}
		dot = memchr(it.name, '.', it.name_len);
		if (it.name_len > XATTR_NAME_MAX ||
		    it.value_len > XATTR_SIZE_MAX || !dot || dot == it.name ||
		    dot == it.name + it.name_len - 1 ||
		    memchr(it.name, '\0', it.name_len)) {
			return err_set(e, E_PROTOCOL,
				       "an extended attribute's name or length "
				       "is impossible");
		}
		if (at && item_cmp(&last, it.name, it.name_len) >= 0) {
			return err_set(e, E_PROTOCOL,
				       "extended attributes are not sorted");
		}
	}
	return 0;
}

/*
 * Whether ENOSPC means what it says (field case F4): nearly no block is free.
 * ext4 keeps up to 2 % back even from root, and says the same of a value that
 * is larger than a block.
 */
static bool
disk_full(int fd, size_t value_len)
{
	struct statfs sf;

	if (fstatfs(fd, &sf) < 0 || sf.f_blocks == 0) {
		return false;
	}
	if ((uint64_t)sf.f_bfree * (uint64_t)sf.f_bsize < 2 * XATTR_SIZE_MAX) {
		return true;
	}
	return sf.f_bfree < sf.f_blocks / 25 &&
	       value_len < (uint64_t)sf.f_bsize;
}

/* What to do about a refused attribute. */
static int
refused(const struct target *t, int errnum, const char *doing, const char *name,
	size_t value_len, struct meta_loss *loss, struct err *e)
{
	char shown[4 * XATTR_NAME_MAX + 1];
	int rc = 0;

	escape_bytes(shown, sizeof(shown), name, strlen(name));
	if (errnum == EIO || errnum == EROFS || errnum == ENOMEM ||
	    errnum == EDQUOT ||
	    (errnum == ENOSPC && disk_full(t->fd, value_len))) {
		return err_sys(e, errnum, "cannot %s %s", doing, shown);
	}
	if (loss) {
		rc = buf_append(&loss->xattrs, name, strlen(name) + 1, e);
	}
	if (rc < 0) {
		return rc;
	}
	if (errnum == ENOSPC || errnum == E2BIG || errnum == ERANGE) {
		return meta_refuse(loss, e,
				   "the extended attribute %s of %zu bytes is "
				   "too large for this file system",
				   shown, value_len);
	}
	return meta_refuse(loss, e,
			   "this file system refuses to %s the extended "
			   "attribute %s: %s",
			   doing, shown, strerror(errnum));
}

/* Set one unless it has that value already. */
static int
set_one(const struct target *t, const struct item *it, bool present,
	uint8_t *value, struct meta_loss *loss, struct err *e)
{
	char name[XATTR_NAME_MAX + 1];

	if (it->name_len > XATTR_NAME_MAX) {
		return err_set(e, E_PROTOCOL,
			       "an attribute's name is too long");
	}
	memcpy(name, it->name, it->name_len);
	name[it->name_len] = '\0';
	if (present) {
		ssize_t n = get_value(t, name, value);

		if (n >= 0 && (size_t)n == it->value_len &&
		    memcmp(value, it->value, it->value_len) == 0) {
			return 0;
		}
	}
	if (t_set(t, name, it->value, it->value_len) < 0) {
		return refused(t, errno, "set", name, it->value_len, loss, e);
	}
	return 0;
}

static bool
in_names(char **names, int n, const struct item *it)
{
	int lo = 0, hi = n;

	while (lo < hi) {
		int mid = lo + (hi - lo) / 2;
		int c = item_cmp(it, names[mid], strlen(names[mid]));

		if (c == 0) {
			return true;
		}
		if (c < 0) {
			hi = mid;
		} else {
			lo = mid + 1;
		}
	}
	return false;
}

/* Remove what is in `names` but not in the block; both are sorted. */
static int
remove_others(const struct target *t, const uint8_t *packed, size_t len,
	      char **names, int n, struct meta_loss *loss, struct err *e)
{
	size_t at = 0;

	for (int i = 0; i < n; i++) {
		struct item it;
		int c = 1, rc;

		while (at < len) {
			size_t used = unpack(packed + at, len - at, &it);

			if (used == 0) {
				return err_set(e, E_PROTOCOL,
					       "damaged extended attributes");
			}
			c = item_cmp(&it, names[i], strlen(names[i]));
			if (c >= 0) {
				break;
			}
			at += used;
		}
		if ((at < len && c == 0) || t_remove(t, names[i]) == 0 ||
		    errno == ENODATA) {
			continue;
		}
		rc = refused(t, errno, "remove", names[i], 0, loss, e);
		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

/* First all but the capability (`last` 0), then it. */
static int
set_all(const struct target *t, const uint8_t *packed, size_t len, int last,
	char **names, int n, struct meta_loss *loss, struct err *e)
{
	cleanup(free_ptr) uint8_t *value = NULL;
	struct item it;

	for (size_t at = 0, used; at < len; at += used) {
		bool present;
		int rc;

		used = unpack(packed + at, len - at, &it);
		if (used == 0) {
			return err_set(e, E_PROTOCOL,
				       "damaged extended attributes");
		}
		if ((item_cmp(&it, CAPABILITY, strlen(CAPABILITY)) == 0) !=
		    last) {
			continue;
		}
		present = in_names(names, n, &it);
		if (present && !value && !(value = malloc(XATTR_SIZE_MAX))) {
			return err_nomem(e);
		}
		rc = set_one(t, &it, present, value, loss, e);
		if (rc < 0) {
			return rc;
		}
	}
	return 0;
}

int
xattr_apply(int fd, int is_path, const uint8_t *packed, size_t len,
	    struct meta_loss *loss, struct err *e)
{
	char list[XATTR_LIST_MAX];
	cleanup(free_ptr) char **names = NULL;
	struct target t;
	int n, rc;

	target_init(&t, fd, is_path);
	n = list_names(&t, list, sizeof(list), &names, e);
	if (n < 0) {
		return n;
	}
	/* Removing first makes room. */
	rc = remove_others(&t, packed, len, names, n, loss, e);
	if (rc < 0) {
		return rc;
	}
	rc = set_all(&t, packed, len, 0, names, n, loss, e);
	if (rc == 0) {
		rc = set_all(&t, packed, len, 1, names, n, loss, e);
	}
	return rc;
}
