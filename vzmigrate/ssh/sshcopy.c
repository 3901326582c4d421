/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshcopy: rewrites ssh_config files into a private directory. State: the
 * directory, named 0, 1, 2 ... in the order of reading; owned by the caller.
 */
#include "ssh/sshcopy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "ssh/sshline.h"

#define FILE_MAX (1 << 20)
#define FILES_MAX 256
#define DEPTH_MAX 16 /* ssh's own limit of Include */

/* Each carrier is a keyword whose value ssh prints as it stands. */
static const struct {
	const char *keyword;
	const char *carried; /* as ssh -G prints the keyword */
	const char *carrier;
} carriers[] = {
	{ "Ciphers", "ciphers", "XAuthLocation" },
	{ "MACs", "macs", "LocalCommand" },
	{ "KexAlgorithms", "kexalgorithms", "PKCS11Provider" },
	{ "HostKeyAlgorithms", "hostkeyalgorithms", "SecurityKeyProvider" },
	{ "PubkeyAcceptedAlgorithms", "pubkeyacceptedalgorithms",
	  "RemoteCommand" },
	{ "PubkeyAcceptedKeyTypes", "pubkeyacceptedalgorithms",
	  "RemoteCommand" },
};

#define CARRIERS (sizeof(carriers) / sizeof(carriers[0]))

struct copy {
	const char *dir;  /* where the copies go */
	const char *home; /* of the local user */
	unsigned files;	  /* how many were written */
};

bool
sshcopy_would_help(const char *message)
{
	static const char *const signs[] = { "Bad SSH2 ", "Bad key types",
					     "Bad protocol 2 host key",
					     "algorithm" };

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		if (strstr(message, signs[i])) {
			return true;
		}
	}
	return false;
}

const char *
sshcopy_carrier(const char *keyword)
{
	for (size_t i = 0; i < CARRIERS; i++) {
		if (strcasecmp(keyword, carriers[i].keyword) == 0) {
			return carriers[i].carrier;
		}
	}
	return NULL;
}

const char *
sshcopy_carried(const char *carrier)
{
	for (size_t i = 0; i < CARRIERS; i++) {
		if (strcasecmp(carrier, carriers[i].carrier) == 0) {
			return carriers[i].carried;
		}
	}
	return NULL;
}

bool
sshcopy_is_default(const char *value)
{
	return *value == '/' || strcasecmp(value, "internal") == 0 ||
	       strcasecmp(value, "none") == 0;
}

static int copy_file(struct copy *c, const char *path, const char *base,
		     int depth, unsigned *number, struct err *e);

/* Where an Include's pattern points; NULL where it is kept as it is. */
static char *
include_pattern(struct copy *c, const char *word, const char *base,
		struct err *e)
{
	if (*word == '/') {
		return io_asprintf(e, "%s", word);
	}
	if (word[0] == '~' && word[1] == '/') {
		return io_asprintf(e, "%s%s", c->home, word + 1);
	}
	return io_asprintf(e, "%s/%s", base, word);
}

static int
copy_include(struct copy *c, const char *rest, const char *base, int depth,
	     struct buf *out, struct err *e)
{
	struct sshlist words = { NULL, 0 };
	int rc = sshline_words(rest, &words, e), any = 0;

	for (size_t i = 0; rc == 0 && i < words.n; i++) {
		cleanup(free_ptr) char *pattern =
			include_pattern(c, words.v[i], base, e);
		glob_t g = { 0 };

		if (!pattern) {
			rc = E_NOMEM;
			break;
		}
		if (glob(pattern, 0, NULL, &g) != 0) {
			continue; /* ssh passes over missing files too */
		}
		for (size_t k = 0; rc == 0 && k < g.gl_pathc; k++) {
			unsigned n = 0;

			rc = copy_file(c, g.gl_pathv[k], base, depth + 1, &n,
				       e);
			if (rc == 0) {
				rc = buf_printf(out, e, "%s %s/%u",
						any++ ? "" : "Include", c->dir,
						n);
			}
		}
		globfree(&g);
	}
	sshlist_fini(&words);
	return rc < 0 ? rc : buf_append(out, "\n", 1, e);
}

static int
copy_line(struct copy *c, char *line, const char *base, int depth,
	  struct buf *out, struct err *e)
{
	cleanup(free_ptr) char *whole = strdup(line);
	char *key, *rest;
	const char *carrier;

	if (!whole) {
		return err_nomem(e);
	}
	if (!sshline_split(line, &key, &rest)) {
		return buf_append(out, "\n", 1, e);
	}
	carrier = sshcopy_carrier(key);
	if (carrier) {
		size_t len = strlen(rest);

		if (len > 1 && *rest == '"' && rest[len - 1] == '"') {
			rest[len - 1] = '\0';
			rest++;
		}
		return buf_printf(out, e, "%s %s\n", carrier, rest);
	}
	if (sshcopy_carried(key)) {
		return buf_append(out, "\n", 1, e);
	}
	if (strcasecmp(key, "Include") == 0) {
		return copy_include(c, rest, base, depth, out, e);
	}
	whole[strcspn(whole, "\r\n")] = '\0';
	return buf_printf(out, e, "%s\n", whole);
}

static int
write_copy(struct copy *c, unsigned number, const struct buf *b, struct err *e)
{
	cleanup(free_ptr) char *path = io_asprintf(e, "%s/%u", c->dir, number);
	cleanup(close_fd) int fd = -1;

	if (!path) {
		return E_NOMEM;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		return err_sys(e, errno, "cannot create %s", path);
	}
	return io_write_full(fd, b->data, b->len, path, e);
}

static int
copy_file(struct copy *c, const char *path, const char *base, int depth,
	  unsigned *number, struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	cleanup(buf_finip) struct buf out;
	size_t len;
	int rc;

	buf_init(&out, 2 * FILE_MAX);
	if (depth > DEPTH_MAX || c->files >= FILES_MAX) {
		return err_set(e, E_LIMIT, "%s: too many files are included",
			       path);
	}
	*number = c->files++;
	if (io_read_file(AT_FDCWD, path, FILE_MAX, &text, &len, e) < 0) {
		return write_copy(c, *number, &out, e);
	}
	for (char *p = text; *p;) {
		size_t n = strcspn(p, "\n");
		bool more = p[n] != '\0';

		p[n] = '\0';
		rc = copy_line(c, p, base, depth, &out, e);
		if (rc < 0) {
			return err_wrap(e, "%s", path);
		}
		p += n + more;
	}
	return write_copy(c, *number, &out, e);
}

static int
copy_all(struct copy *c, const char *config, struct buf *top, struct err *e)
{
	cleanup(free_ptr) char *base = io_asprintf(e, "%s/.ssh", c->home);
	cleanup(free_ptr) char *user = NULL;
	unsigned n;
	int rc;

	if (!base) {
		return E_NOMEM;
	}
	if (config) {
		rc = copy_file(c, config, base, 0, &n, e);
		return rc < 0 ? rc
			      : buf_printf(top, e, "Include %s/%u\n", c->dir,
					   n);
	}
	user = io_asprintf(e, "%s/config", base);
	rc = user ? copy_file(c, user, base, 0, &n, e) : E_NOMEM;
	if (rc == 0) {
		rc = buf_printf(top, e, "Include %s/%u\n", c->dir, n);
	}
	if (rc == 0) {
		rc = copy_file(c, "/etc/ssh/ssh_config", "/etc/ssh", 0, &n, e);
	}
	return rc < 0 ? rc : buf_printf(top, e, "Include %s/%u\n", c->dir, n);
}

int
sshcopy_make(const char *config, const char *home, char **dir, char **file,
	     struct err *e)
{
	cleanup(buf_finip) struct buf top;
	const char *tmp = getenv("TMPDIR");
	struct copy c = { .home = home };
	int rc;

	*file = NULL;
	buf_init(&top, 65536);
	*dir = io_asprintf(e, "%s/vzmigrate-ssh-XXXXXX",
			   tmp && *tmp == '/' ? tmp : "/tmp");
	if (!*dir) {
		return E_NOMEM;
	}
	if (!mkdtemp(*dir)) {
		rc = err_sys(e, errno, "cannot make the directory %s", *dir);
		free(steal_ptr(dir));
		return rc;
	}
	c.dir = *dir;
	rc = copy_all(&c, config, &top, e);
	if (rc == 0) {
		rc = write_copy(&c, FILES_MAX, &top, e);
	}
	if (rc == 0) {
		*file = io_asprintf(e, "%s/%u", *dir, FILES_MAX);
		rc = *file ? 0 : E_NOMEM;
	}
	if (rc < 0) {
		sshcopy_remove(steal_ptr(dir));
	}
	return rc;
}

void
sshcopy_remove(char *dir)
{
	DIR *d = dir ? opendir(dir) : NULL;

	if (d) {
		const struct dirent *de;

		while ((de = readdir(d))) {
			if (de->d_name[0] != '.') {
				unlinkat(dirfd(d), de->d_name, 0);
			}
		}
		closedir(d);
		rmdir(dir);
	}
	free(dir);
}
