/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unit tests of the command line, its words and the exit codes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/exitcode.h"
#include "cli/options.h"
#include "cli/options_int.h"
#include "xfer/compress.h"

#define ARGS_MAX 16

/* Parse a line of words separated by blanks; '' is an empty word. */
struct parsed {
	struct options o;
	struct err e;
	int rc;
	char line[1024];
};

static void
parse(struct parsed *p, const char *line)
{
	char *argv[ARGS_MAX + 1], *save = NULL;
	int argc = 0;

	memset(p, 0, sizeof(*p));
	snprintf(p->line, sizeof(p->line), "%s", line);
	argv[argc++] = (char *)"vzmigrate";
	for (char *w = strtok_r(p->line, " ", &save); w;
	     w = strtok_r(NULL, " ", &save)) {
		assert_true(argc < ARGS_MAX);
		argv[argc++] = strcmp(w, "''") == 0 ? w + 2 : w;
	}
	argv[argc] = NULL;
	p->rc = options_parse(argc, argv, &p->o, &p->e);
}

/* ---- what is refused: the text names the option ---- */

static const struct {
	const char *line;
	const char *says; /* beginning of the text */
} bad[] = {
	{ "", "the destination is missing" },
	{ "host", "the container is missing" },
	{ "-r no host", "the container is missing" },
	{ "host ''", "'': the container's name is empty" },
	{ "host :5", "':5': the container's name is empty" },
	{ "host 1:2:3:4:5", "'1:2:3:4:5': a container is given as" },
	{ "--kind=dir host /a:/b:/c", "'/a:/b:/c': a directory is given as" },
	{ "--kind=dir host /a:", "'/a:': the directory on the destination" },
	{ "host /a:/b:/c", "'/a:/b:/c': a directory is given as" },
	{ "host 1 1", "1 is given twice" },
	{ "-r maybe host 1", "-r/--remove-area: 'maybe' is neither" },
	{ "host 1 -r", "-r/--remove-area: a value is missing" },
	{ "host 1 --remove-area", "-r/--remove-area: a value is missing" },
	{ "--kind=xen host 1", "--kind: 'xen' is not a kind" },
	{ "--metadata=loose host 1", "--metadata: 'loose' is neither" },
	{ "--streams=17 host 1",
	  "--streams: '17' is neither a number of 1 to 16 nor auto" },
	{ "--streams=0 host 1", "--streams: '0' is neither" },
	{ "--streams=4x host 1", "--streams: '4x' is neither" },
	{ "--streams=-1 host 1", "--streams: '-1' is neither" },
	{ "--streams= host 1", "--streams: '' is neither" },
	{ "--nodeps=disk host 1", "-f/--nodeps: 'disk' is not a check" },
	{ "-f=rates host 1", "-f/--nodeps: 'rates' is not a check" },
	{ "--nodeps=cpu,x host 1", "-f/--nodeps: 'x' is not a check" },
	{ "--nodeps=v host 1", "-f/--nodeps: 'v' is not a check" },
	{ "-fvx host 1", "-f/--nodeps: 'vx' is not a check" },
	{ "-fvl host 1", "-f/--nodeps: 'vl' is not a check" },
	{ "-fvz host 1", "-z/--eztempl: " },
	{ "-p 0 host 1", "-p/--port: '0' is not a port" },
	{ "-p x host 1", "-p/--port: 'x' is not a port" },
	{ "--ssh=-X host 1", "--ssh: " },
	{ "--cipher= host 1", "--cipher: '' is empty" },
	{ "--new-id= host 1", "--new-id: '' is empty" },
	{ "--new-id=5 host 1 2", "--new-id is for one container, 2 are" },
	{ "--new-name=a host 1 2", "--new-name is for one container" },
	{ "--new-private=/a host 1 2", "--new-private is for one container" },
	{ "--dst=/a host 1 2", "--new-private is for one container" },
	{ "--new-root=/a host 1 2", "--new-root is for one container" },
	{ "--new-id=5 host 1:6", "--new-id '5' contradicts '6'" },
	{ "--quiet -v host 1", "--quiet and -v/--verbose exclude" },
	{ "--check-only=yes host 1", "--check-only takes no value" },
	{ "--frobnicate host 1",
	  "unknown option --frobnicate (vzmigrate --help lists them)" },
	{ "--new=5 host 1", "--new can be any of --new-id, --new-uuid, "
			    "--new-name, --new-private, --new-root" },
	{ "--comp host 1", "--comp can be any of --compress, --compact" },
	{ "--l host 1", "--l can be any of --lxcpath, --limit-speed, "
			"--limit-cutover, --lazy, --live" },
	{ "-Q host 1", "unknown option -Q" },
	{ "-1 host", "unknown option -1" },
	/* Of the namesakes, not done here: each by its name. */
	{ "--live host 1", "--live: " },
	{ "--online host 1", "--online: " },
	{ "--onl host 1", "--online: " },
	{ "--compress=0 host 1", "--compress: '0' is not a level" },
	{ "--compress=20 host 1", "--compress: '20' is not a level" },
	{ "--compress=x host 1", "--compress: 'x' is not a level" },
	{ "--compress=3x host 1", "--compress: '3x' is not a level" },
	{ "--compress= host 1", "--compress: '' is not a level" },
	{ "--nocompress=1 host 1", "--nocompress takes no value" },
	{ "--limit-speed=9 host 1", "-l/--limit-speed: '9' is not a rate" },
	{ "--limit-speed=-1 host 1", "-l/--limit-speed: '-1' is not a rate" },
	{ "--limit-speed= host 1", "-l/--limit-speed: '' is not a rate" },
	{ "-l root host 1", "-l/--limit-speed: 'root' is not a rate" },
	{ "--timeout=0 host 1", "--timeout: '0' is not a time" },
	{ "--timeout=43201 host 1", "--timeout: '43201' is not a time" },
	{ "--timeout host 1", "--timeout: 'host' is not a time" },
	{ "--lazy host 1", "--lazy: running processes" },
	{ "--require-realtime host 1", "--require-realtime: running proc" },
	{ "--readonly host 1", "--readonly: the source has to be locked" },
	{ "--keep-src host 1", "--keep-src: two hosts would own it" },
	{ "--private=/a host 1", "--private: where its files are" },
	{ "--config=/a host 1", "--config: " },
	{ "-z host 1", "-z/--eztempl: templates" },
	{ "--aprogress host 1", "--aprogress: use --json" },
	{ "--skiplock host 1", "--skiplock: " },
	{ "--skipregister host 1", "--skipregister: " },
	{ "--socket host 1", "--socket: " },
	{ "--no-ssl host 1", "--no-ssl: the transport is SSH" },
	{ "--certificate=/a host 1", "--certificate: " },
	{ "--privatekey=/a host 1", "--privatekey: " },
	{ "--ciphers=x host 1", "--ciphers: it is for SSL" },
	{ "-agent host 1", "-agent: " },
	{ "-ps 3 4 5 6", "-ps: " },
	{ "root:geheim@host 1", "a password is not taken" },
	/* What it is refused for comes before all else. */
	{ "--live", "--live: running processes" },
	{ "--probe-ciphers=0 host", "--probe-ciphers: '0' is not a time" },
	{ "--probe-ciphers=.5 host", "--probe-ciphers: '.5' is not a time" },
	{ "--probe-ciphers=1,5 host", "--probe-ciphers: '1,5' is not a time" },
	{ "--probe-ciphers=601 host", "--probe-ciphers: '601' is not a time" },
	{ "--probe-ciphers=-4 host", "--probe-ciphers: '-4' is not a time" },
	{ "--probe-ciphers= host", "--probe-ciphers: '' is not a time" },
	{ "--probe-ciphers=4s host", "--probe-ciphers: '4s' is not a time" },
	{ "--probe-ciphers", "the destination is missing" },
	{ "--print host", "the container is missing" },
	{ "--print host 1", "--print is for --probe-ciphers without" },
	{ "--probe-ciphers --print host 1", "--print is for --probe-ciphers" },
	{ "--probe-ciphers --print --json host", "--print is for --probe" },
	{ "--probe-ciphers --new-id=5 host", "--new-id is for one container" },
	{ "--probe-ciphers --take-back=0a host 1",
	  "--take-back connects to no host" },
	{ "--take-back= host 1", "--take-back: '' is empty" },
	{ "host 1 --take-back", "--take-back: a value is missing" },
	{ "--take-back=0a host 1 2", "--take-back is for one container" },
};

static void
test_probe(void **state)
{
	static const struct {
		const char *line;
		int64_t ms;
		size_t ncts;
	} t[] = {
		{ "--probe-ciphers host", 4000, 0 },
		{ "--probe-ciphers host 1", 4000, 1 },
		{ "host --probe-ciphers=10", 10000, 0 },
		{ "--probe-ciphers=0.25 host 1 2", 250, 2 },
		{ "--probe-ciphers=600 host", 600000, 0 },
		{ "--probe-ciphers=1.2345 host", 1234, 0 },
		{ "host 1", 0, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct parsed p;

		parse(&p, t[i].line);
		assert_int_equal(p.rc, 0);
		assert_int_equal(p.o.probe_ms, t[i].ms);
		assert_int_equal(p.o.ncts, t[i].ncts);
		options_fini(&p.o);
	}
}

/* Called by the other name it needs neither option. */
static void
test_probe_name(void **state)
{
	static const struct {
		const char *name;
		bool print;
	} t[] = {
		{ "vzmigrate-cipher-probe", true },
		{ "/usr/sbin/vzmigrate-cipher-probe", true },
		{ "vzmigrate", false },
		{ "/x/vzmigrate-cipher-probe/vzmigrate", false },
		{ "vzmigrate-cipher-probe2", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		char name[64], host[] = "host", set[] = "--probe-ciphers=2",
			       ct[] = "1";
		char *argv[] = { name, set, host, ct, NULL };
		struct options o;
		struct err e = { 0 };

		snprintf(name, sizeof(name), "%s", t[i].name);
		assert_int_equal(options_parse(3, argv, &o, &e), 0);
		assert_int_equal(o.print, t[i].print);
		assert_int_equal(o.probe_ms, 2000);
		options_fini(&o);
		argv[1] = host;
		argv[2] = ct;
		assert_int_equal(options_parse(2, argv, &o, &e),
				 t[i].print ? 0 : E_USAGE);
		assert_int_equal(o.probe_ms, t[i].print ? 4000 : 0);
		options_fini(&o);
		assert_int_equal(options_parse(3, argv, &o, &e),
				 t[i].print ? E_USAGE : 0);
		options_fini(&o);
	}
}

static void
test_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct parsed p;

		parse(&p, bad[i].line);
		if (p.rc != E_USAGE ||
		    strncmp(p.e.text, bad[i].says, strlen(bad[i].says)) != 0) {
			print_error("'%s': code %d, text \"%s\"\n", bad[i].line,
				    p.rc, p.e.text);
		}
		assert_int_equal(p.rc, E_USAGE);
		assert_int_equal(
			strncmp(p.e.text, bad[i].says, strlen(bad[i].says)), 0);
		assert_null(strchr(p.e.text, '\n'));
		assert_int_equal(exitcode_of(p.rc, STEP_NONE, false),
				 EXITCODE_USAGE);
		options_fini(&p.o);
	}
}

/* ---- what is understood ---- */

static void
test_words(void **state)
{
	struct parsed p;

	(void)state;
	parse(&p, "u@h 101 102:202 103::/p 104:204:/p:/r web:web2");
	assert_int_equal(p.rc, 0);
	assert_string_equal(p.o.target.user, "u");
	assert_string_equal(p.o.target.host, "h");
	assert_string_equal(p.o.target_text, "u@h");
	assert_int_equal(p.o.ncts, 5);
	assert_string_equal(p.o.cts[0].word, "101");
	assert_null(p.o.cts[0].new_id);
	assert_string_equal(p.o.cts[1].new_id, "202");
	assert_null(p.o.cts[2].new_id);
	assert_string_equal(p.o.cts[2].new_private, "/p");
	assert_string_equal(p.o.cts[3].new_root, "/r");
	assert_string_equal(p.o.cts[4].new_id, "web2");
	assert_int_equal(p.o.plan.remove, PLAN_REMOVE_DEFAULT);
	options_fini(&p.o);

	parse(&p, "--kind=dir h /srv/a:/srv/b /srv/c\\:d:/e\\\\f");
	assert_int_equal(p.rc, 0);
	assert_string_equal(p.o.plan.kind->name, "dir");
	assert_string_equal(p.o.cts[0].word, "/srv/a");
	assert_string_equal(p.o.cts[0].new_private, "/srv/b");
	assert_null(p.o.cts[0].new_id);
	assert_string_equal(p.o.cts[1].word, "/srv/c:d");
	assert_string_equal(p.o.cts[1].new_private, "/e\\f");
	options_fini(&p.o);

	/* A path needs no kind to be taken apart as one. */
	parse(&p, "h /srv/a:/srv/b");
	assert_int_equal(p.rc, 0);
	assert_null(p.o.plan.kind);
	assert_string_equal(p.o.cts[0].new_private, "/srv/b");
	options_fini(&p.o);
}

static void
test_values(void **state)
{
	struct parsed p;

	(void)state;
	parse(&p, "h 1 --new-id=2 --new-name n --new-private /p --new-root=/r "
		  "--lxcpath=/l --dst-lxcpath=/dl --vz-conf=/v "
		  "--dst-vz-conf=/dv");
	assert_int_equal(p.rc, 0);
	assert_string_equal(p.o.cts[0].new_id, "2");
	assert_string_equal(p.o.cts[0].new_name, "n");
	assert_string_equal(p.o.cts[0].new_private, "/p");
	assert_string_equal(p.o.cts[0].new_root, "/r");
	assert_string_equal(p.o.plan.host.lxcpath, "/l");
	assert_string_equal(p.o.plan.dst_lxcpath, "/dl");
	assert_string_equal(p.o.plan.host.vz_conf, "/v");
	assert_string_equal(p.o.plan.dst_vz_conf, "/dv");
	options_fini(&p.o);

	parse(&p, "-r no -p 2222 -i key -J jump --ssh-config=none "
		  "--ssh=-4 --cipher=aes256-ctr --mac=hmac-sha2-256 "
		  "--agent=/x/agent h 1");
	assert_int_equal(p.rc, 0);
	assert_int_equal(p.o.plan.remove, PLAN_REMOVE_NO);
	assert_int_equal(p.o.ssh.port, 2222);
	assert_int_equal(p.o.ssh.identities.n, 1);
	assert_string_equal(p.o.ssh.jump, "jump");
	assert_string_equal(p.o.ssh.config, "none");
	assert_string_equal(p.o.cipher, "aes256-ctr");
	assert_string_equal(p.o.mac, "hmac-sha2-256");
	assert_string_equal(p.o.agent, "/x/agent");
	options_fini(&p.o);
}

static void
test_switches(void **state)
{
	struct parsed p;

	(void)state;
	parse(&p, "-r yes --keep-dst --dry-run --metadata=warn --json -vv -v "
		  "-t h 1");
	assert_int_equal(p.rc, 0);
	assert_int_equal(p.o.plan.remove, PLAN_REMOVE_YES);
	assert_true(p.o.plan.keep_dst);
	assert_true(p.o.plan.check_only);
	assert_int_equal(p.o.plan.metadata, META_WARN);
	assert_true(p.o.json);
	assert_true(p.o.times);
	assert_int_equal(p.o.verbose, 3);
	options_fini(&p.o);

	parse(&p, "--allow-cipher=aes128-cbc --allow-cipher=3des-cbc "
		  "--ssh-cipher=aes128-cbc --check-only --quiet h 1");
	assert_int_equal(p.rc, 0);
	assert_int_equal(p.o.nallow, 2);
	assert_string_equal(p.o.allow[1], "3des-cbc");
	assert_string_equal(p.o.cipher, "aes128-cbc");
	assert_true(p.o.plan.check_only);
	assert_true(p.o.quiet);
	options_fini(&p.o);
}

static void
test_rate_and_compression(void **state)
{
	static const struct {
		const char *line;
		int compress;
		uint64_t limit;
	} t[] = {
		{ "h 1", COMPRESS_AUTO, 0 },
		{ "--compress h 1", COMPRESS_DEFAULT, 0 },
		{ "--compress=1 h 1", 1, 0 },
		{ "--compress=19 h 1", 19, 0 },
		{ "--nocompress h 1", COMPRESS_OFF, 0 },
		{ "--nocompress --compress=5 h 1", 5, 0 },
		{ "--limit-speed=10M h 1", COMPRESS_AUTO, 10 << 20 },
		{ "-l 1.5G h 1", COMPRESS_AUTO, 3u << 29 },
		{ "-l 1024 h 1", COMPRESS_AUTO, 1024 },
		{ "-l none h 1", COMPRESS_AUTO, 0 },
		{ "-l 0 h 1", COMPRESS_AUTO, 0 },
	};
	struct parsed p;

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		parse(&p, t[i].line);
		assert_int_equal(p.rc, 0);
		assert_int_equal(p.o.plan.compress, t[i].compress);
		assert_int_equal(p.o.plan.limit_speed, t[i].limit);
		assert_false(p.o.plan.limit_cutover);
		options_fini(&p.o);
	}
	parse(&p, "-l 1M --limit-cutover h 1");
	assert_int_equal(p.rc, 0);
	assert_true(p.o.plan.limit_cutover);
	options_fini(&p.o);
}

/* Of the namesakes: each is told in one line, in the order given. */
static void
test_accepted(void **state)
{
	static const struct {
		const char *line;
		const char *notes[3]; /* beginnings */
	} t[] = {
		{ "h 1", { NULL } },
		{ "--ssh-mux h 1", { "--ssh-mux: connections are" } },
		{ "-W h 1", { "-W/--whole-file: " } },
		{ "--whole-file h 1", { "-W/--whole-file: " } },
		{ "-b h 1", { "-b/--batch: " } },
		{ "-c h 1", { "-c/--compact: images are moved as" } },
		{ "-s h 1", { "-s/--snapshot: an image is read" } },
		{ "--keeper h 1", { "--keeper: " } },
		{ "--keeper=5 h 1", { "--keeper: " } },
		{ "--keep-images h 1", { "--keep-images: " } },
		{ "--nonsharedfs h 1", { "--nonsharedfs: " } },
		{ "--run-as=7 h 1", { "--run-as: " } },
		{ "--ignore-backup-disk h 1", { "--ignore-backup-disk: " } },
		{ "--noevent h 1", { "--noevent: " } },
		{ "--resume h 1", { "--resume: " } },
		{ "--batch --ssh-mu h 1", { "-b/--batch: ", "--ssh-mux: " } },
		{ "--nodeps h 1", { NULL } },
		{ "-f=cpu_check,disk_space h 1", { NULL } },
		{ "--nodeps=cpu,ipv6,rate h 1",
		  { "-f/--nodeps: such a check is not made: ipv6, rate" } },
		{ "-fcpu h 1", { NULL } },
		{ "-fbv h 1", { "-b/--batch: " } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct parsed p;
		size_t n = 0;

		parse(&p, t[i].line);
		if (p.rc) {
			print_error("'%s': %s\n", t[i].line, p.e.text);
		}
		assert_int_equal(p.rc, 0);
		assert_int_equal(p.o.ncts, 1);
		assert_string_equal(p.o.target.host, "h");
		for (; t[i].notes[n]; n++) {
			assert_true(n < p.o.notes.n);
			assert_int_equal(strncmp(p.o.notes.v[n], t[i].notes[n],
						 strlen(t[i].notes[n])),
					 0);
		}
		assert_int_equal(p.o.notes.n, n);
		options_fini(&p.o);
	}
}

static void
test_notes_are_told(void **state)
{
	static const struct {
		const char *line, *text;
	} t[] = {
		{ "--ssh-mux h 1",
		  "vzmigrate: --ssh-mux: connections are always shared\n" },
		{ "--ssh-mux --quiet h 1", "" },
		{ "-v h 1", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		char *text = NULL;
		size_t len = 0;
		FILE *f = open_memstream(&text, &len);
		struct parsed p;

		assert_non_null(f);
		parse(&p, t[i].line);
		assert_int_equal(p.rc, 0);
		options_tell(&p.o, f);
		assert_int_equal(fclose(f), 0);
		assert_string_equal(text, t[i].text);
		free(text);
		options_fini(&p.o);
	}
}

/* What the letters behind -f do. */
static void
test_letters(void **state)
{
	struct parsed p;

	(void)state;
	parse(&p, "-ftvv h 1");
	assert_int_equal(p.rc, 0);
	assert_string_equal(p.o.plan.nodeps, "all");
	assert_true(p.o.times);
	assert_int_equal(p.o.verbose, 2);
	options_fini(&p.o);
	parse(&p, "-f=cpu h 1");
	assert_int_equal(p.rc, 0);
	assert_string_equal(p.o.plan.nodeps, "cpu");
	assert_false(p.o.times);
	options_fini(&p.o);
	/* As in the classic. */
	parse(&p, "-v h 1");
	assert_true(p.o.times);
	options_fini(&p.o);
	parse(&p, "--timeout=7 --new-uuid=u h 1");
	assert_int_equal(p.rc, 0);
	assert_int_equal(p.o.timeout_ms, 7000);
	assert_string_equal(p.o.cts[0].new_id, "u");
	options_fini(&p.o);
}

static void
test_actions(void **state)
{
	static const char *const helps[] = { "-h", "--help", "--usage",
					     "-h --live", "-?" };
	struct parsed p;

	(void)state;
	for (size_t i = 0; i < sizeof(helps) / sizeof(helps[0]); i++) {
		parse(&p, helps[i]);
		assert_int_equal(p.rc, 0);
		assert_int_equal(p.o.action, OPTIONS_HELP);
		options_fini(&p.o);
	}
	parse(&p, "--version");
	assert_int_equal(p.rc, 0);
	assert_int_equal(p.o.action, OPTIONS_VERSION);
	options_fini(&p.o);
}

/* Every option is in the help, on a line of its own or among those that are
 * refused, and no line is too long. */
static void
test_help(void **state)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	(void)state;
	assert_non_null(f);
	options_help(f);
	assert_int_equal(fclose(f), 0);
	for (const struct options_row *r = options_table; r->name; r++) {
		char line[80], word[80];
		const char *refused = strstr(text, "\nRefused"), *at;

		assert_non_null(refused);
		snprintf(line, sizeof(line), "\n  %c%c%s--%s",
			 r->shrt ? '-' : ' ', r->shrt ? r->shrt : ' ',
			 r->shrt ? ", " : "  ", r->name);
		snprintf(word, sizeof(word), "--%s", r->name);
		at = strstr(text, line);
		if (r->fate == OPTIONS_REFUSE) {
			assert_null(at);
			at = strstr(refused, word);
		}
		if (!at || (at > refused) != (r->fate == OPTIONS_REFUSE)) {
			print_error("not in the help: %s\n", r->name);
			fail();
		}
	}
	assert_non_null(strstr(text, "\n  20  "));
	assert_non_null(strstr(text, "\n  65  "));
	for (char *l = text; *l;) {
		size_t n = strcspn(l, "\n");

		assert_true(n <= 100);
		l += n + (l[n] == '\n');
	}
	free(text);
}

/* No two options have a name in common. */
static void
test_table(void **state)
{
	(void)state;
	for (const struct options_row *r = options_table; r->name; r++) {
		for (const struct options_row *q = options_table; q < r; q++) {
			assert_string_not_equal(r->name, q->name);
			assert_true(!r->shrt || r->shrt != q->shrt);
		}
		assert_int_equal(r->fate == OPTIONS_CALL, r->set != NULL);
		assert_true(r->text || r > options_table);
	}
}

/* ---- exit codes ---- */

static void
test_exitcodes(void **state)
{
	static const struct {
		int code;
		enum steps_step step;
		bool remote;
		int want;
	} v[] = {
		{ E_NONE, STEP_NONE, false, 0 },
		{ E_USAGE, STEP_CHECK, true, 1 },
		{ E_CONNECT, STEP_CONNECT, false, 4 },
		{ E_HOSTKEY, STEP_CONNECT, false, 4 },
		{ E_AUTH, STEP_CONNECT, false, 4 },
		{ E_VERSION, STEP_CONNECT, false, 4 },
		{ E_PROTOCOL, STEP_CONNECT, false, 4 },
		{ E_TIMEOUT, STEP_CONNECT, false, 4 },
		{ E_CLOSED, STEP_CONNECT, false, 4 },
		{ E_CLOSED, STEP_CHECK, false, 6 },
		{ E_CLOSED, STEP_PASSES, false, 6 },
		{ E_TIMEOUT, STEP_PASSES, false, 6 },
		{ E_NOSPACE, STEP_CHECK, true, 6 },
		{ E_DENIED, STEP_CHECK, true, 6 },
		{ E_SYSTEM, STEP_RESERVE, true, 6 },
		{ E_SYSTEM, STEP_PASSES, false, 6 },
		{ E_CHANGED, STEP_PASSES, false, 6 },
		{ E_EXISTS, STEP_CHECK, true, 9 },
		{ E_EXISTS, STEP_TAKE_OVER, true, 9 },
		{ E_NOT_FOUND, STEP_LOCK, false, 10 },
		{ E_CONFIG, STEP_LOCK, false, 15 },
		{ E_PLOOP, STEP_CHECK, true, 16 },
		{ E_CONFIG, STEP_CHECK, true, 19 },
		{ E_BUSY, STEP_LOCK, false, 20 },
		{ E_BUSY, STEP_CONNECT, true, 20 },
		{ E_NOMEM, STEP_LOCK, false, 64 },
		{ E_LIMIT, STEP_NONE, false, 15 },
		{ E_LIMIT, STEP_LOCK, false, 15 },
		{ E_SYSTEM, STEP_NONE, false, 64 },
		{ E_SYSTEM, STEP_LOCK, false, 64 },
		{ E_DENIED, STEP_LOCK, false, 64 },
		{ E_SYSTEM, STEP_RETIRE, false, 64 },
		{ E_UNKNOWN, STEP_TAKE_OVER, false, 65 },
		{ E_UNKNOWN, STEP_CONNECT, false, 65 },
		{ E_VERIFY, STEP_FINAL, false, 67 },
		{ E_UNSUPPORTED, STEP_LOCK, false, 68 },
		{ E_STATE, STEP_LOCK, false, 69 },
		{ E_CANCELLED, STEP_PASSES, false, 70 },
		{ E_CORRUPT, STEP_LOCK, false, 71 },
		{ E_FENCED, STEP_PASSES, true, 72 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		int got = exitcode_of(v[i].code, v[i].step, v[i].remote);

		if (got != v[i].want) {
			print_error("%s in %s: %d, want %d\n",
				    err_name(v[i].code), steps_name(v[i].step),
				    got, v[i].want);
		}
		assert_int_equal(got, v[i].want);
	}
	/* Whatever the error, the step and the side: a documented code. */
	for (int code = E_NOMEM; code >= E_PLOOP; code--) {
		for (int step = STEP_NONE; step <= STEP_LAST; step++) {
			int x = exitcode_of(code, (enum steps_step)step,
					    step % 2);
			const struct exitcode_row *r = exitcode_rows;

			while (r->text && (int)r->code != x) {
				r++;
			}
			assert_non_null(r->text);
			assert_int_not_equal(x, 0);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_probe),
		cmocka_unit_test(test_probe_name),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_switches),
		cmocka_unit_test(test_rate_and_compression),
		cmocka_unit_test(test_accepted),
		cmocka_unit_test(test_notes_are_told),
		cmocka_unit_test(test_letters),
		cmocka_unit_test(test_actions),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_exitcodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
