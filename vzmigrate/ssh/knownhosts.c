/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * knownhosts: reads and appends to known_hosts files. State: the caller's
 * struct knownhosts.
 */
#include "ssh/knownhosts.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/io.h"
#include "base/log.h"
#include "ssh/sshline.h"

#define FILE_MAX (64 << 20)
#define LINES_MAX 4096
#define LOCK_WAIT_MS 5000
#define SHA1_LEN 20

int
knownhosts_unbase64(const char *text, uint8_t *out, size_t out_len)
{
	size_t len = strlen(text), pad = 0;
	cleanup(free_ptr) uint8_t *tmp = NULL;
	int n;

	if (len == 0 || len % 4 || len / 4 * 3 > 1 << 20) {
		return -1;
	}
	/* OpenSSL takes blanks too; here they cannot occur in a word. */
	while (pad < 2 && text[len - 1 - pad] == '=') {
		pad++;
	}
	tmp = malloc(len / 4 * 3);
	if (!tmp) {
		return -1;
	}
	n = EVP_DecodeBlock(tmp, (const unsigned char *)text, (int)len);
	if (n < (int)pad || (size_t)n - pad > out_len) {
		return -1;
	}
	memcpy(out, tmp, (size_t)n - pad);
	return n - (int)pad;
}

char *
knownhosts_base64(const uint8_t *data, size_t len, struct err *e)
{
	char *out = len > 1 << 20 ? NULL : malloc((len + 2) / 3 * 4 + 1);

	if (!out) {
		err_nomem(e);
		return NULL;
	}
	EVP_EncodeBlock((unsigned char *)out, data, (int)len);
	return out;
}

static uint32_t
be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

bool
knownhosts_blob_type(const uint8_t *blob, size_t len, char type[64])
{
	uint32_t n;

	type[0] = '\0';
	if (len < 4) {
		return false;
	}
	n = be32(blob);
	if (n == 0 || n >= 64 || n > len - 4) {
		return false;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (!isgraph(blob[4 + i])) {
			return false;
		}
	}
	memcpy(type, blob + 4, n);
	type[n] = '\0';
	return true;
}

int
knownhosts_rsa_bits(const uint8_t *blob, size_t len)
{
	char type[64];
	size_t at;
	uint32_t n = 0;

	if (!knownhosts_blob_type(blob, len, type) ||
	    strcmp(type, "ssh-rsa") != 0) {
		return 0;
	}
	at = 4 + strlen(type);
	for (int i = 0; i < 2; i++) { /* e, then n */
		if (len - at < 4) {
			return 0;
		}
		n = be32(blob + at);
		at += 4;
		if (n > len - at) {
			return 0;
		}
		at += i == 0 ? n : 0;
	}
	while (n && blob[at] == 0) {
		at++;
		n--;
	}
	return n == 0 ? 0 : (int)(n * 8) - __builtin_clz(blob[at]) + 24;
}

char *
knownhosts_fingerprint(const uint8_t *blob, size_t len,
		       char out[KNOWNHOSTS_PRINT_LEN])
{
	unsigned char md[EVP_MAX_MD_SIZE], text[2 * EVP_MAX_MD_SIZE];
	unsigned n = 0;

	strcpy(out, "SHA256:?");
	if (EVP_Digest(blob, len, md, &n, EVP_sha256(), NULL)) {
		EVP_EncodeBlock(text, md, (int)n);
		text[strcspn((char *)text, "=")] = '\0';
		snprintf(out, KNOWNHOSTS_PRINT_LEN, "SHA256:%.50s",
			 (char *)text);
	}
	return out;
}

char *
knownhosts_name(const char *host, int port, struct err *e)
{
	char *name = port == 22 ? io_asprintf(e, "%s", host)
				: io_asprintf(e, "[%s]:%d", host, port);

	for (char *p = name; p && *p; p++) {
		*p = (char)tolower((unsigned char)*p);
	}
	return name;
}

/* "|1|salt|hash": HMAC-SHA1 of the name under the salt. */
static bool
hashed_matches(char *hosts, const char *name)
{
	char *salt_text = hosts + 3, *hash_text = strchr(salt_text, '|');
	uint8_t salt[SHA1_LEN], want[SHA1_LEN];
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (!hash_text) {
		return false;
	}
	*hash_text++ = '\0';
	if (knownhosts_unbase64(salt_text, salt, sizeof(salt)) != SHA1_LEN ||
	    knownhosts_unbase64(hash_text, want, sizeof(want)) != SHA1_LEN ||
	    !HMAC(EVP_sha1(), salt, SHA1_LEN, (const unsigned char *)name,
		  strlen(name), md, &n)) {
		return false;
	}
	return n == SHA1_LEN && CRYPTO_memcmp(md, want, SHA1_LEN) == 0;
}

static bool
hosts_match(char *hosts, const char *name)
{
	return strncmp(hosts, "|1|", 3) == 0
		       ? hashed_matches(hosts, name)
		       : sshline_match_list(hosts, ',', name, true) == 1;
}

/* The next word of *p, ended with a NUL; NULL at the end. */
static char *
next_word(char **p)
{
	char *w = *p + strspn(*p, " \t");
	size_t n = strcspn(w, " \t");

	if (!*w) {
		return NULL;
	}
	*p = w + n + (w[n] != '\0');
	w[n] = '\0';
	return w;
}

static int
keep_line(struct knownhosts *k, const struct knownhosts_line *l,
	  const uint8_t *blob, struct err *e)
{
	struct knownhosts_line *v;

	if (k->n >= LINES_MAX) {
		return err_set(e, E_LIMIT, "%s: too many lines name this host",
			       l->file);
	}
	v = realloc(k->v, (k->n + 1) * sizeof(*v));
	if (!v) {
		return err_nomem(e);
	}
	k->v = v;
	v[k->n] = *l;
	v[k->n].blob = malloc(l->len);
	if (!v[k->n].blob) {
		return err_nomem(e);
	}
	memcpy(v[k->n].blob, blob, l->len);
	k->n++;
	return 0;
}

/* One line. 1 kept, 0 not for us, or an error. */
static int
scan_line(struct knownhosts *k, struct knownhosts_line *l, char *line,
	  const char *name, struct err *e)
{
	uint8_t blob[KNOWNHOSTS_BLOB_MAX];
	char *hosts, *type, *key, *p = line;
	int n;

	hosts = next_word(&p);
	if (!hosts || *hosts == '#') {
		return 0;
	}
	if (*hosts == '@') {
		if (strcmp(hosts, "@revoked") == 0) {
			l->marker = KNOWNHOSTS_REVOKED;
		} else if (strcmp(hosts, "@cert-authority") == 0) {
			l->marker = KNOWNHOSTS_CA;
		} else {
			log_debug("%s line %u: unknown marker", l->file,
				  l->line);
			return 0;
		}
		hosts = next_word(&p);
	}
	type = next_word(&p);
	key = next_word(&p);
	if (!hosts || !key) {
		log_debug("%s line %u: not a line of known_hosts", l->file,
			  l->line);
		return 0;
	}
	if (!hosts_match(hosts, name)) {
		return 0;
	}
	n = knownhosts_unbase64(key, blob, sizeof(blob));
	if (n < 0 || !knownhosts_blob_type(blob, (size_t)n, l->type) ||
	    strcmp(l->type, type) != 0) {
		log_warn("%s line %u names this host and cannot be "
			 "understood; it is passed over",
			 l->file, l->line);
		return 0;
	}
	l->len = (size_t)n;
	n = keep_line(k, l, blob, e);
	return n < 0 ? n : 1;
}

int
knownhosts_scan(struct knownhosts *k, const char *file, char *text,
		const char *name, struct err *e)
{
	unsigned number = 0;

	while (*text) {
		size_t n = strcspn(text, "\n");
		bool more = text[n] != '\0';
		struct knownhosts_line l = { .file = file, .line = ++number };
		int rc;

		text[n] = '\0';
		if (n && text[n - 1] == '\r') {
			text[n - 1] = '\0';
		}
		rc = scan_line(k, &l, text, name, e);
		if (rc < 0) {
			return rc;
		}
		text += n + more;
	}
	return 0;
}

int
knownhosts_read(struct knownhosts *k, const char *file, const char *name,
		struct err *e)
{
	cleanup(free_ptr) char *text = NULL;
	struct stat st;
	size_t len;
	int rc;

	if (stat(file, &st) < 0) {
		if (errno == ENOENT || errno == ENOTDIR) {
			return 0;
		}
		return err_set(e, E_HOSTKEY, "%s cannot be read: %s", file,
			       strerror(errno));
	}
	if (S_ISCHR(st.st_mode)) {
		return 0; /* /dev/null */
	}
	if (!S_ISREG(st.st_mode)) {
		return err_set(e, E_HOSTKEY, "%s is not a file", file);
	}
	rc = io_read_file(AT_FDCWD, file, FILE_MAX, &text, &len, e);
	if (rc < 0) {
		return err_recode(e, E_HOSTKEY, "the known host keys");
	}
	for (size_t i = 0; i < len; i++) {
		if (!text[i]) {
			text[i] = '?'; /* so that what follows is seen */
		}
	}
	return knownhosts_scan(k, file, text, name, e);
}

void
knownhosts_fini(struct knownhosts *k)
{
	for (size_t i = 0; i < k->n; i++) {
		free(k->v[i].blob);
	}
	free(k->v);
	*k = (struct knownhosts){ NULL, 0 };
}

enum knownhosts_verdict
knownhosts_check(const struct knownhosts *k, const uint8_t *blob, size_t len,
		 const struct knownhosts_line **why)
{
	const struct knownhosts_line *same = NULL, *changed = NULL;
	const struct knownhosts_line *other = NULL, *ca = NULL;
	char type[64];

	knownhosts_blob_type(blob, len, type);
	*why = NULL;
	for (size_t i = 0; i < k->n; i++) {
		const struct knownhosts_line *l = &k->v[i];
		bool equal = l->len == len && memcmp(l->blob, blob, len) == 0;

		if (l->marker == KNOWNHOSTS_REVOKED) {
			if (equal) {
				*why = l;
				return KNOWNHOSTS_IS_REVOKED;
			}
		} else if (l->marker == KNOWNHOSTS_CA) {
			ca = ca ? ca : l;
		} else if (equal) {
			same = same ? same : l;
		} else if (strcmp(l->type, type) == 0) {
			changed = changed ? changed : l;
		} else {
			other = other ? other : l;
		}
	}
	*why = same ? same : changed ? changed : ca ? ca : other;
	return same	 ? KNOWNHOSTS_OK
	       : changed ? KNOWNHOSTS_CHANGED
	       : ca	 ? KNOWNHOSTS_CA_ONLY
	       : other	 ? KNOWNHOSTS_OTHER_TYPE
			 : KNOWNHOSTS_UNKNOWN;
}

bool
knownhosts_has_type(const struct knownhosts *k, const char *type)
{
	for (size_t i = 0; i < k->n; i++) {
		if (k->v[i].marker == KNOWNHOSTS_PLAIN &&
		    strcmp(k->v[i].type, type) == 0) {
			return true;
		}
	}
	return false;
}

/* The name as it stands in the file. */
static char *
written_name(const char *name, bool hash, struct err *e)
{
	uint8_t salt[SHA1_LEN], md[EVP_MAX_MD_SIZE];
	cleanup(free_ptr) char *a = NULL, *b = NULL;
	unsigned n = 0;

	if (!hash) {
		return io_asprintf(e, "%s", name);
	}
	if (digest_random(salt, sizeof(salt), e) < 0 ||
	    !HMAC(EVP_sha1(), salt, SHA1_LEN, (const unsigned char *)name,
		  strlen(name), md, &n)) {
		err_set(e, E_UNSUPPORTED, "a host name cannot be hashed");
		return NULL;
	}
	a = knownhosts_base64(salt, SHA1_LEN, e);
	b = knownhosts_base64(md, n, e);
	return a && b ? io_asprintf(e, "|1|%s|%s", a, b) : NULL;
}

static int
lock_file(int fd, const char *file, struct err *e)
{
	int64_t deadline = io_deadline(LOCK_WAIT_MS);

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR) {
			return err_sys(e, errno, "cannot lock %s", file);
		}
		if (io_left_ms(deadline) == 0) {
			return err_set(e, E_BUSY, "%s is locked", file);
		}
		poll(NULL, 0, 50); /* flock has no time-out of its own */
	}
	return 0;
}

static int
make_parent(const char *file, struct err *e)
{
	cleanup(free_ptr) char *dir = strdup(file);
	char *slash = dir ? strrchr(dir, '/') : NULL;

	if (!dir) {
		return err_nomem(e);
	}
	if (!slash || slash == dir) {
		return 0;
	}
	*slash = '\0';
	return mkdir(dir, 0700) < 0 && errno != EEXIST
		       ? err_sys(e, errno, "cannot make %s", dir)
		       : 0;
}

/* Under the lock: look again, then append. */
static int
append_line(int fd, const char *file, const char *name, bool hash,
	    const uint8_t *blob, size_t len, struct err *e)
{
	const struct knownhosts_line *why;
	struct knownhosts k = { NULL, 0 };
	cleanup(free_ptr) char *shown = NULL, *key = NULL, *line = NULL;
	char type[64], last = '\n';
	enum knownhosts_verdict known;
	int rc = knownhosts_read(&k, file, name, e);
	off_t size = lseek(fd, 0, SEEK_END);

	known = knownhosts_check(&k, blob, len, &why);
	knownhosts_fini(&k);
	if (rc < 0 || known == KNOWNHOSTS_OK) {
		return rc;
	}
	if (!knownhosts_blob_type(blob, len, type)) {
		return err_set(e, E_PROTOCOL, "the host key is malformed");
	}
	if (size > 0 && pread(fd, &last, 1, size - 1) != 1) {
		return err_sys(e, errno, "cannot read %s", file);
	}
	shown = written_name(name, hash, e);
	key = knownhosts_base64(blob, len, e);
	if (!shown || !key) {
		return E_NOMEM;
	}
	line = io_asprintf(e, "%s%s %s %s\n", last == '\n' ? "" : "\n", shown,
			   type, key);
	return line ? io_write_full(fd, line, strlen(line), file, e) : E_NOMEM;
}

int
knownhosts_add(const char *file, const char *name, bool hash,
	       const uint8_t *blob, size_t len, struct err *e)
{
	cleanup(close_fd) int fd = -1;
	struct stat st;
	int rc = make_parent(file, e);

	if (rc < 0) {
		return rc;
	}
	fd = open(file, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK,
		  0600);
	if (fd < 0 || fstat(fd, &st) < 0) {
		return err_sys(e, errno, "cannot open %s", file);
	}
	if (!S_ISREG(st.st_mode)) {
		return 0;
	}
	rc = lock_file(fd, file, e);
	return rc < 0 ? rc : append_line(fd, file, name, hash, blob, len, e);
}
