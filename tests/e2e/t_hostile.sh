# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A peer that breaks the protocol, on either side, and a login shell that
# talks: nothing outside the staging area is touched, the source is never lost,
# and the end comes soon and in one clear line.

# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=600

# shellcheck source=SCRIPTDIR/safety.sh
. "$VZ_TOP/tests/e2e/safety.sh"
LIMIT=20

setup_file()
{
	hosts_possible || skip "$HOSTS_WHY"
	hosts_up tmpfs a b
	reference
	B=$(host_dir b)
	mkdir -p "$B/srv" "$B/outside/d"
	echo canary >"$B/outside/f"
}

# --- a hostile client against the agent -------------------------------------

# snap - all of b but what sessions own, with everything that a write changes.
snap()
{
	(cd "$B" && find . -xdev \( -path ./var/lib/vzmigrate -o \
		-path './srv/.vzmigrate-*' -o -path "./srv/box" -o \
		-path "./var/lib/lxc/.vzmigrate-*" -o -path ./var/log -o \
		-path ./run \) -prune -o \
		-type d -printf '%P d %m %U:%G\n' -o \
		-printf '%P %y %s %T@ %C@ %m %U:%G %l\n' | sort)
}

# evil CASE [KIND ID PLACE] - what it prints is in $OUT.
evil()
{
	local c=$1 rc=0
	shift
	[ $# -gt 0 ] || set -- dir /x /srv/box
	# What one case left alone is what the next one finds.
	[ -e "$TEST_TMP/before" ] || snap >"$TEST_TMP/before"
	OUT=$TEST_TMP/evil.$c
	# shellcheck disable=SC2086 # several settings
	on b timeout -k 5 60 evilclient "$c" "$@" env ${HOSTS_SSHD_ENV:-} \
		vzmigrate-agent --allow-root="${ALLOW:-/srv}" >"$OUT" 2>"$TEST_TMP/err" ||
		rc=$?
	assert_eq 0 $rc "$c: $(cat "$OUT" "$TEST_TMP/err")"
	grep -qE '^end: exit [01]$' "$OUT" || fail "$c: $(cat "$OUT")"
	snap >"$TEST_TMP/after"
	diff "$TEST_TMP/before" "$TEST_TMP/after" >&2 ||
		fail "$c: changed outside the staging area"
	mv "$TEST_TMP/after" "$TEST_TMP/before"
}

forget()
{
	rm -rf "$B/srv/box" "$B"/srv/.vzmigrate-* \
		"$B$CTS"/.vzmigrate-* "$B/$STATE/sessions" \
		"$B/$STATE/reserve"
}

says()
{
	grep -qE "$2" "$OUT" || fail "$1: no \"$2\" in: $(cat "$OUT")"
}

# The case, and what must be said.
content_cases()
{
	cat <<-'END'
	link-then-below|^pass-end: (exists a: |denied .*a symbolic link is in the way)
	below-then-link|^pass-end: (exists a: |denied .*a symbolic link is in the way)
	link-in-the-way|^pass-end: denied .*a symbolic link is in the way
	dotdot|^pass-end: protocol malformed record
	dotdot-dir|^log: malformed record
	dot|^pass-end: protocol malformed record
	absolute|^pass-end: protocol malformed record
	slash|^pass-end: protocol malformed record
	slash-dir|^log: malformed record
	nul-in-name|^pass-end: protocol malformed record
	empty-name|^pass-end: protocol malformed record
	hard-link-outside|^pass-end: denied .*a symbolic link is in the way
	link-without-group|^pass-end: protocol .*never sent
	ring|^log: directory 2 in undefined directory 1
	own-parent|^log: malformed record
	twice-defined|^log: directory 1 defined twice
	root-defined|^log: malformed record
	undefined-dir|^pass-end: protocol directory 9 is not defined
	huge-dir-id|^log: directory id 2147483632 is too large
	huge-group|^pass-end: protocol malformed record
	piece-beyond|^pass-end: protocol .*beyond the end
	piece-wraps|^pass-end: protocol .*malformed piece
	piece-short|^pass-end: protocol .*malformed piece
	huge-size|^pass-end: protocol malformed metadata
	chunk-beyond|^pass-end: protocol .*beyond the end
	chunk-wraps|^pass-end: protocol .*beyond the end
	chunk-of-none|^pass-end: protocol file 3 is not defined
	chunk-empty|^pass-end: protocol malformed chunk
	chunk-missing|^pass-end: protocol 1 files are not whole
	chunk-too-many|^pass-end: protocol .*(more chunks|ended wrongly)
	many-files|^log: more than 256 large files at once
	file-def-outside|^pass-end: denied .*a symbolic link is in the way
	file-over-link|^pass-end: exists f
	twice-one-name|^pass-end: exists f
	garbage-batch|^log: malformed batch
	bad-time|^pass-end: protocol malformed metadata
	bad-xattrs|^pass-end: protocol extended attributes are cut short
	no-root|^pass-end: protocol .*a directory without metadata
	content-after-pass|^log: content outside a pass
	remove-below-link|^pass-end: protocol out: a directory without metadata
	remove-dotdot|^pass-end: protocol malformed record
	remove-root|^pass-end: protocol malformed record
	remove-path|^pass-end: protocol malformed record
	meta-below-link|^pass-end: denied .*a symbolic link is in the way
	meta-of-link|^pass-end: changed out: is of another type
	meta-group|^pass-end: protocol f: metadata for a name of another group
	update-below-link|^pass-end: denied .*a symbolic link is in the way
	update-of-link|^pass-end: denied .*a symbolic link is in the way
	update-small|^pass-end: protocol f: an update of what did not come in
	update-twice|^pass-end: protocol big: an update of what did not come in
	update-huge|^pass-end: (system|limit|no-space|protocol) big: 
	hole-beyond|^log: a hole that file 4 cannot have
	hole-wraps|^log: malformed record
	update-first|^pass-end: protocol a change of something in the first
	pass-skipped|^pass-begin: state pass 4 cannot follow
	pass-after-final|^pass-begin: state no pass may follow
	after-never|^take-over: state .*never
	old-epoch|^take-over: fenced the order is of epoch 0
	start|^take-over: unsupported
	start-state|^take-over: protocol malformed take-over
	END
}

order_cases()
{
	cat <<-'END'
	content-outside-pass|^log: content outside a pass
	no-credit|^log: more than 48 frames without credit
	request-flood|^log: too many requests at once
	frame-too-large|^log: frame of type 3 with 2147483647 bytes, limit
	frame-type|^log: frame of unknown type 99
	frame-flags|^log: frame of type 1 with unknown flags
	frame-zero|^log: frame of type 1
	frame-of-agent|^log: unexpected frame of type 4
	frame-cut|^end: exit 1
	zstd|^log: compressed content not agreed on
	zstd-bomb|^pass-end: protocol .*compressed content of 67108864 bytes
	zstd-junk|^pass-end: protocol .*compressed content without its size
	zstd-request|^log: compressed frame of type 3
	no-hello|^open: the agent is gone
	hello-twice|^hello: the agent is gone
	hello-version|^hello: version the client speaks protocol 2, this agent 1
	hello-keepalive|^hello: protocol keepalive of 1 ms
	unknown-method|unknown request 4711
	no-open|^reserve: state no session was opened
	no-pass|^take-over: state "commit" is not possible: reserved
	no-reserve|^pass-begin: state there is no staging area yet
	trailing|^pass-begin: protocol malformed pass: 1 bytes too many
	many-roles|^put-file: limit more than 256 files
	random|^junk: the agent is gone
	END
}

run_cases()
{
	local c want
	while IFS='|' read -r c want <&3; do
		evil "$c"
		says "$c" "$want"
		if grep -q '^take-over: ok' "$OUT" || [ -e "$B/srv/box" ]; then
			fail "$c: was committed: $(cat "$OUT")"
		fi
		forget
	done 3< <("$1")
}

test_client_breaks_content()
{
	run_cases content_cases
}

test_client_breaks_order()
{
	run_cases order_cases
}

# The tool itself is no reason for the refusals; and a hard link to a symbolic
# link is made, not followed.
test_client_that_keeps_the_rules()
{
	evil honest
	says honest '^take-over: ok'
	assert_eq evil "$(cat "$B/srv/box/plain")"
	forget
	evil update
	says update '^take-over: ok'
	assert_eq 777 "$(stat -c %a "$B/srv/box/d/f")"
	assert_no_file "$B/srv/box/f"
	assert_eq 196608 "$(stat -c %s "$B/srv/box/big")"
	forget
	evil hard-link-to-link
	says hard-link-to-link '^take-over: ok'
	assert_eq "$(stat -c %i "$B/srv/box/s")" \
		"$(stat -c %i "$B/srv/box/t")"
	assert_eq symbolic\ link "$(stat -c %F "$B/srv/box/t")"
	forget
}

test_every_case_is_used()
{
	assert_eq "$(on b evilclient list | sort)" "$({
		content_cases
		order_cases
		printf '%s\n' honest update hard-link-to-link no-sync role \
			role-foreign open-only
	} | sed 's/|.*//' | sort)"
}

test_client_names_of_files()
{
	ALLOW=$CTS
	evil role lxc evil -
	assert_eq 5 "$(grep -c '^put-file: protocol an impossible' "$OUT")"
	assert_no_match '^put-file: ok' "$OUT"
	forget
	# Of no kind's making: nothing is done with it.
	evil role-foreign lxc evil -
	assert_no_file "$B$CTS/evil"
	cat "$OUT"
	forget
}

# Where it may go at all.
test_client_leaves_the_allowed_roots()
{
	local p
	ln -sfn /outside "$B/srv/way-out"
	for p in /outside/x /srv/../outside/x /srv/way-out/x /srv /srvx/y / \
		/etc; do
		evil open-only dir /x "$p"
		grep -qE '^(open|reserve): (denied|usage|exists|not-found|config) ' \
			"$OUT" || fail "$p: $(cat "$OUT")"
		assert_no_match '^reserve: ok' "$OUT"
		forget
	done
	evil open-only no-such-kind /x /srv/box
	assert_no_match '^open: ok' "$OUT"
	evil open-only lxc ../../outside -
	assert_no_match '^reserve: ok' "$OUT"
	rm "$B/srv/way-out"
}

# Another process in the staging area's parent swaps a directory for a link
# while the agent writes; the container's users may do so after a commit only,
# but root of the host's other tenants is nobody to rely on.
test_staging_area_is_private()
{
	evil open-only
	assert_eq "700 0:0" "$(stat -c '%a %u:%g' "$B"/srv/.vzmigrate-*)"
	forget
}

# --- who may add a stream ---------------------------------------------------

# The case; what must be said, each so often; and how the agents end, that of
# the connection first.
join_cases()
{
	cat <<-'END'
	honest|1 ^streams: ok$|1 0
	wrong-token|3 ^join: denied the agent here does not take|1 1 1 1 0
	twice|1 ^join: denied the agent here does not take|1 0 1 0
	twice|1 ^the first: ok$|1 0 1 0
	other-session|2 ^join: denied the agent here does not take|1 1 1 1 0 0
	before|1 ^join: denied there is no agent here that waits|1 1
	after|1 ^join: denied there is no agent here that waits|0 1
	ended|1 ^stream-end: not-found there is no stream 1$|1 0 1 0
	ended|1 ^join: denied the agent here does not take|1 0 1 0
	flood|1 ^denied: 32 of 32$|1( 1){32} 0 0
	flood|1 ^streams: ok$|1( 1){32} 0 0
	opens|1 ^opened: 1024, then limit more than 1024 streams$|1 1 0
	opens|1 ^join: denied the agent here does not take|1 1 0
	opens|1 ^streams: ok$|1 1 0
	malformed|1 ^join: protocol malformed join$|1 1 1 1 1 1 0
	malformed|1 ^join: protocol malformed join: 1 bytes too many|1 1 1 1 1 1 0
	malformed|1 ^join: protocol malformed join: [0-9]{7} bytes too many|1 1 1 1 1 1 0
	on-control|1 ^join: gone$|1
	requests|1 ^stream-open: gone$|1 0
	goodbye|1 ^unharmed: ok$|1 0 0
	END
}

test_streams_that_join()
{
	local c want ends last='' san=${HOSTS_SSHD_ENV:-}
	while IFS='|' read -r c want ends <&3; do
		OUT=$TEST_TMP/join.$c
		# shellcheck disable=SC2086 # several settings
		[ "$c" = "$last" ] || on b timeout 60 eviljoin "$c" env $san \
			vzmigrate-agent >"$OUT" 2>"$OUT.err" ||
			fail "$c: $(cat "$OUT" "$OUT.err")"
		last=$c
		assert_eq "${want%% *}" "$(grep -cE "${want#* }" "$OUT")" \
			"$c, ${want#* }: $(cat "$OUT")"
		says "$c" "^end: $ends\$"
		# What was refused leaves nothing, and does no harm.
		case $c in wrong-token | twice | other-session | ended | flood | \
			malformed | goodbye)
			says "$c" '^unharmed: ok$'
			assert_no_match '^unharmed: no' "$OUT"
			says "$c" '^descriptors: 0 more$'
			assert_no_match '^descriptors: [1-9]' "$OUT"
			;;
		esac
	done 3< <(join_cases)
	assert_eq 700 "$(stat -c %a "$B/$STATE/join")"
	assert_eq '' "$(ls "$B/$STATE/join")" "sockets"
	assert_eq "$(on b eviljoin list | sort)" \
		"$(join_cases | cut -d'|' -f1 | sort -u)" "cases"
}

# --- a hostile agent against the client -------------------------------------

# EVIL_ENV is the client's besides, for that run alone.
EVIL_ENV=

# meet CASE CODES REGEX - the client ends with one of the codes and says so in
# one line; the source is as it was or the other host has it; another run with
# an honest agent ends it.
meet()
{
	local c=$1 t=$SECONDS
	fresh c
	AGENT="env ${HOSTS_SSHD_ENV:-} evilagent $c vzmigrate-agent"
	A_ENV=$EVIL_ENV
	SOON=1 mig --ssh="-o ConnectTimeout=2" c
	A_ENV=
	want "$2" "$c"
	[ $((SECONDS - t)) -le 15 ] || fail "$c: took $((SECONDS - t)) s"
	one_owner c
	if [ "$RC" != 0 ]; then
		# The line is the last one, and has no bytes that steer a
		# terminal.
		tail -n 1 "$ERR" | grep -qE "^vzmigrate: .*($3)" ||
			fail "$c: $(tail -n 3 "$ERR")"
	fi
	if LC_ALL=C grep -q $'\033' "$ERR" "$OUT"; then
		fail "$c: raw escapes were printed"
	fi
	[ "$RC" = 65 ] || [ "$RC" = 0 ] ||
		assert_file "$(host_dir a)$CTS/c/config"
	AGENT=''
	[ "$RC" = 0 ] || mig c
	want 0 "$c: then with an honest agent"
	treecmp_ok "$REF" "$(host_dir b)$CTS/c/rootfs"
	assert_no_file "$(host_dir a)$CTS/c/config"
	nothing_left
}

test_agent_greeting()
{
	# No honest agent is met with that.
	EVIL_ENV=VZMIGRATE_GREETING_MS=1000
	meet greet-drip 4 'no agent there.*no greeting in 1 s'
	meet greet-silence 4 'did not answer: no greeting in 1 s'
	meet greet-stderr 4 'no greeting in 1 s'
	EVIL_ENV=
	meet greet-noise 4 'no agent there, but: "nnnn'
	meet greet-version 4 'the agent speaks protocol 99, this program 1'
	meet greet-malformed 4 'malformed greeting'
	meet greet-endless-line 4 'malformed greeting'
	meet greet-dies 4 'ended with status 3'
}

test_agent_frames()
{
	meet big:9 6 'b: frame of type 4 with 2147483647 bytes'
	meet type:9 6 'b: frame of unknown type 77'
	meet client-type:9 6 'b: unexpected frame of type 5'
	meet half:9 6 'b: the remote command ended'
	meet drip:4 6 'b: no sign of life for [0-9]+ s'
	meet silent:4 6 'b: no sign of life for [0-9]+ s'
	meet ack-future:7 6 'b: ack of frames never sent'
	EVIL_ENV=VZMIGRATE_REPLY_MS=1000
	meet keepalives:4 6 'b: no reply to [a-z-]+ in 1 s'
}

test_agent_replies()
{
	meet huge:1 4 'b: a reply of [0-9]+ bytes is too long'
	meet garbage:2 4 'b: malformed'
	meet empty:3 6 'b: malformed'
	meet empty:6 6 'b: malformed'
	meet trailing-reply:6 6 'b: malformed.*1 bytes too many'
	meet short-reply:9 6 'b: malformed'
	meet code-positive:6 '6 64 68' 'b: a positive code'
	meet code-no-text:7 6 'b: failed'
	meet escape:7 6 'b: .x1b\[2J.x1b\]0;owned.x07.nvzmigrate: moved'
	meet never-asked:3 0
	meet fault:7 6 'a fault of no code'
}

# What it says of the tree, and of who owns it.
test_agent_lies()
{
	meet proof-sum 67 'is not the same as the source.*the source is as it was'
	meet proof-count 67 'is not the same as the source.*the source is as it was'
	meet state-unknown 6 'malformed reply to take-over; the source is as it was'
	meet state-proven 65 'cannot be learned.*again and again'
	meet state-none 65 'contradict each other'
}

log_bytes()
{
	du -sb "$(host_dir a)/var/log/vzmigrate" | cut -f1
}

# It cannot fill the source's disk with its log.
test_agent_floods()
{
	local before
	meet none 0
	before=$(log_bytes)
	EVIL_ENV=VZMIGRATE_REPLY_MS=1000
	meet flood:4 6 'b: no reply to|b: no sign of life'
	EVIL_ENV=
	grep -rq 'its log is not taken any more' \
		"$(host_dir a)/var/log/vzmigrate" || fail "the flood was taken"
	meet stderr:4 6 'b: no sign of life'
	[ $(($(log_bytes) - before)) -lt 24000000 ] ||
		fail "$(($(log_bytes) - before)) bytes of log"
}

# cut_at CASE N-TH ... - the connection ends there.
cuts()
{
	local n last
	fresh c
	AGENT="env EVIL_COUNT=$TEST_TMP/count evilagent none vzmigrate-agent"
	mig c
	want 0
	last=$(cat "$TEST_TMP/count")
	[ "$last" -gt 20 ] || fail "only $last frames"
	for ((n = 1; n <= last; n += $1)); do
		meet "cut:$n" "0 4 6 65" ''
		[ "$1" != 1 ] || meet "half:$n" "0 4 6 65" ''
	done
	for ((n = 1; n <= 24; n += $1)); do
		meet "cut-client:$n" "0 4 6 65" ''
	done
	# The order was carried out, its answer never comes.
	meet cut-after-order "0 65" ''
}

test_agent_cuts() { cuts 14; }
full_agent_replies_elsewhere()
{
	local n
	meet code-unknown:6 6 'b: an unknown code'
	meet twice:3 0
	for n in 1 2 3 4 5 6 7 8 9 10; do
		meet "huge:$n" "4 6" 'b: .*(too long|unexpected reply)'
		meet "garbage:$n" "4 6 65" 'b: '
		meet "code-no-text:$n" "0 6 64 65" 'b: failed'
		meet "silent:$n" "0 4 6 65" ''
		meet "drip:$n" "0 4 6 65" ''
	done
}

full_agent_cuts_at_every_frame() { cuts 1; }

# --- a login shell that talks (T1) ------------------------------------------

# shell_says SCRIPT - b's login shell runs it first.
# shellcheck disable=SC2016 # what b expands
shell_says()
{
	printf '%s\n' "$1" >"$B/root/.talk"
	host_sshd_conf b 'ForceCommand sh -c ". /root/.talk; eval \"\$SSH_ORIGINAL_COMMAND\""'
	host_sshd_restart b
}

quiet_shell()
{
	host_sshd_conf b ''
	host_sshd_restart b
}

test_shell_banner()
{
	# 40 KB, and no line feed at the end.
	shell_says 'head -c 40000 /dev/zero | tr "\0" B'
	fresh c
	mig c
	want 0
	assert_match 'printed 40000 bytes before the agent started.*BBBB' "$ERR"
	shell_says 'printf "a\0b\0\033[2J\377\376no end"'
	fresh c
	mig c
	want 0
	assert_match 'x1b\[2J' "$ERR"
	assert_eq 0 "$(LC_ALL=C grep -c $'\033' "$ERR")"
	# On stderr alone.
	shell_says 'echo welcome to b >&2'
	fresh c
	mig -v c
	want 0
	assert_match 'b: stderr: welcome to b' "$ERR"
	assert_no_match 'login shell printed' "$ERR"
	quiet_shell
}

test_shell_that_reads()
{
	local t
	# A question: its answer would be taken from our frames. It gets none,
	# since the client says nothing before the greeting.
	A_ENV=VZMIGRATE_GREETING_MS=3000
	shell_says 'printf "password: "; read x; exec sleep 1000'
	fresh c
	t=$SECONDS
	mig c
	want 4
	[ $((SECONDS - t)) -le 8 ] || fail "took $((SECONDS - t)) s"
	assert_match '^vzmigrate: b: no agent there, but: "password: "' "$ERR"
	# Too much of it.
	shell_says 'while :; do echo spam spam spam; done'
	fresh c
	mig c
	want 4
	assert_match '^vzmigrate: b: no agent there, but: "spam' "$ERR"
	# And a shell that refuses.
	shell_says 'echo "This account is not available"; exit 1'
	fresh c
	mig c
	want 4
	assert_match 'This account is not available' "$ERR"
	owned_by a c
	quiet_shell
}
