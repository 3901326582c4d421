# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Several connections for one copy: they are used, they may break, be refused
# or be cut, and the copy is whole in the end.

# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=120
# A million files take longer.
[ -z "${VZ_TEST_FULL:-}" ] || TEST_TIMEOUT=900
# shellcheck source=SCRIPTDIR/trees.sh
. "$VZ_TOP/tests/e2e/trees.sh"

setup_file()
{
	hosts_possible || skip "$HOSTS_WHY"
	hosts_up tmpfs a b
	A=$(host_dir a) B=$(host_dir b)
	tree /srv/t
}

# tree DIR - on a: 26 MB that do not shrink, in large files and small ones.
tree()
{
	on a sh -c "mkdir -p $1/d/e/f && cd $1 &&
		for i in 1 2 3; do head -c 6000000 /dev/urandom >large\$i; done &&
		for i in \$(seq 160); do
			mkdir d/\$i && head -c 30000 /dev/urandom >d/\$i/a &&
			head -c 20000 /dev/urandom >d/e/\$i
		done && ln large1 d/e/f/link"
}

# What runs on b for this run: the agents, oldest first.
agents()
{
	on b pgrep -x vzmigrate-agent
}

agents_are()
{
	[ "$(agents | wc -l)" = "$1" ]
}

no_agents()
{
	! agents >/dev/null
}

has_streams()
{
	grep -qE "^.*b: $1 streams\$" "$TEST_TMP/e"
}

# begin ARG ... - a run in the background that takes its time, until it has
# STREAMS (3) streams; 1: until there is an agent. NEW is where the copy goes.
begin()
{
	NEW=/srv/new$RANDOM
	wait_until 20 no_agents
	on_bg a env VZMIGRATE_KEEPALIVE_MS="${KEEPALIVE:-1000}" \
		vzmigrate -vv --kind=dir --limit-speed="${RATE:-2M}" "$@" b \
		"/srv/t:$NEW" >"$TEST_TMP/o" 2>"$TEST_TMP/e"
	RUN=$ON_BG RUN_PID=$ON_PID
	if [ "${STREAMS:-3}" = 1 ]; then
		wait_until 30 grep -q 'limit can be changed' "$TEST_TMP/e"
	else
		wait_until 60 has_streams "${STREAMS:-3}"
	fi
}

# Let it hurry from here on.
hurry()
{
	local control
	for control in "$A"/var/lib/vzmigrate/source/dir-*/control; do
		[ ! -e "$control" ] || echo 'limit-speed = none' >"$control"
	done 2>/dev/null
}

# ends CODE
ends()
{
	local rc=0
	hurry
	wait "$RUN" || rc=$?
	[ "$rc" = "$1" ] || fail "exit code $rc, not $1: $(tail -n 20 "$TEST_TMP/e")"
}

# The run went through, and with so many streams at most.
whole()
{
	ends 0
	assert_match ", $1 streams?" "$TEST_TMP/o"
	same_tree /srv/t "$NEW"
	wait_until 20 no_agents
	assert_eq '' "$(ls "$B/var/lib/vzmigrate/join" 2>/dev/null)" "sockets"
}

# The sshd of the youngest agent: that of a data stream. sshd of OpenSSH 9.8
# and later has another name; the parent is it in any case.
kill_stream()
{
	local agent
	agent=$(agents | tail -n 1)
	on b kill -KILL "$(on b ps -o ppid= -p "$agent" | tr -d ' ')"
}

test_three()
{
	begin --streams=3
	whole 3
	assert_eq 3 "$(grep -c 'Accepted publickey' "$(host_sshd_log b)")" "connections"
}

test_one()
{
	STREAMS=1 begin --streams=1
	whole 1
}

# A tree this small is there before another stream could be.
test_small_tree_has_one()
{
	on a sh -c 'mkdir -p /srv/s && echo x >/srv/s/x'
	assert_exit 0 on a vzmigrate --kind=dir b /srv/s:/srv/s2
	assert_match ', 1 stream' "$OUT"
}

test_json_tells()
{
	assert_exit 0 on a vzmigrate --json --kind=dir --streams=1 b \
		/srv/t:/srv/json
	assert_match '"event":"summary".*"streams":1,' "$OUT"
}

test_stream_is_killed()
{
	begin --streams=3
	kill_stream
	whole 3
	assert_match 'a data stream broke' "$TEST_TMP/e"
}

test_helper_is_killed()
{
	begin --streams=3
	on b kill -KILL "$(agents | tail -n 1)"
	whole 3
}

# T5 with streams: all is over, nothing is left, and it works again.
test_control_agent_is_killed()
{
	begin --streams=3
	on b kill -KILL "$(agents | head -n 1)"
	ends 6
	assert_match 'the source is as it was' "$TEST_TMP/e"
	nothing_left "$NEW"
	wait_until 20 no_agents
	# It left its socket, which the next one finds.
	assert_eq 1 "$(find "$B/var/lib/vzmigrate/join" -type s | wc -l)"
	begin --streams=3
	whole 3
}

test_all_agents_are_stopped()
{
	begin --streams=3
	# shellcheck disable=SC2046 # numbers
	on b kill -STOP $(agents)
	# The sshds live, and take what fits their windows.
	kill -INT "$RUN_PID"
	sleep 0.1
	# shellcheck disable=SC2046
	on b kill -CONT $(agents)
	ends 70
	nothing_left "$NEW"
	wait_until 20 no_agents
}

test_interrupted()
{
	begin --streams=3
	kill -INT "$RUN_PID"
	ends 70
	nothing_left "$NEW"
	wait_until 20 no_agents
}

# T7: few may be in the middle of connecting at a time; they come one after
# another.
test_few_startups()
{
	host_sshd_conf b 'MaxStartups 2:100:2
MaxSessions 1'
	host_sshd_restart b
	STREAMS=8 begin --streams=8
	whole 8
	host_sshd_conf b ''
	host_sshd_restart b
}

# Nobody listens any more once the first connection is there.
test_no_more_connections()
{
	local from=$SECONDS
	STREAMS=1 begin --streams=4 \
		--agent='kill $(cat /run/sshd-22.pid); exec vzmigrate-agent'
	ends 0
	host_sshd_restart b
	assert_match ', 1 stream' "$TEST_TMP/o"
	same_tree /srv/t "$NEW"
	[ $((SECONDS - from)) -lt 25 ] || fail "it waited for streams"
}

# Connections, but no agents at their other ends.
test_no_more_agents()
{
	STREAMS=1 begin --streams=2 \
		--agent='mkdir /run/first || exit 3; exec vzmigrate-agent'
	ends 0
	on b rmdir /run/first
	assert_match ', 1 stream' "$TEST_TMP/o"
	same_tree /srv/t "$NEW"
}

# The agent tied down by a forced command.
test_forced_command()
{
	local key
	on a ssh-keygen -q -t ed25519 -N '' -f /root/forced
	key=$(cat "$A/root/forced.pub")
	echo "restrict,command=\"vzmigrate-agent --allow-root=/srv\" $key" \
		>"$B/root/.ssh/forced"
	host_sshd_extra b 2224 'AuthorizedKeysFile .ssh/forced'
	begin --streams=3 -p 2224 -i /root/forced \
		--ssh='-o IdentitiesOnly=yes -o StrictHostKeyChecking=accept-new'
	whole 3
	host_sshd_stop b 2224
}

# T4: a middlebox forgets a connection on which nothing passes for 1.5 s, and
# each stream has nothing to carry for longer: the limit makes it wait.
test_middlebox()
{
	local until
	RATE=16K KEEPALIVE=500 begin --streams=3 \
		--ssh="-o 'ProxyCommand=idlecut 1500 busybox nc %h %p'"
	until=$((SECONDS + 4))
	wait_until 10 eval "[ \$SECONDS -ge $until ]"
	whole 3
	assert_no_match 'a data stream broke' "$TEST_TMP/e"
}

# evil CASE - with data streams whose agents break a rule.
evil()
{
	STREAMS=2 begin --streams=2 \
		--agent="env ${HOSTS_SSHD_ENV:-} evilagent $1 vzmigrate-agent"
}

# lies CASE ... - what a data stream does wrong costs it its life, and no more.
lies()
{
	local c
	for c in "$@"; do
		evil "$c"
		whole 2
		assert_match 'a data stream broke' "$TEST_TMP/e"
		assert_no_match 'a fault of no code' "$TEST_TMP/e"
	done
}

test_streams_that_lie()
{
	lies stream-ack-future:2 stream-fault:2
	evil stream-ack-twice:1
	whole 2
	assert_no_match 'a data stream broke' "$TEST_TMP/e"
	KEEPALIVE=400 evil stream-silent:2
	whole 2
	assert_match 'a data stream broke.*: b: (no sign of life|takes no data)' \
		"$TEST_TMP/e"
}

full_streams_that_lie() { lies stream-ack-back:2 stream-dead-fault:2 stream-cut:2; }

# But what is lost that way is missed; and where it cannot be learned what
# has arrived, the run ends at once, perhaps without a word to the agent.
test_streams_that_lose()
{
	evil stream-eat
	ends 6
	assert_match '^vzmigrate: .*(files are not whole|is not defined|without metadata|not the same).*the source is as it was' \
		"$TEST_TMP/e"
	nothing_left "$NEW"
	evil stream-end-lie:2
	ends 6
	assert_match '^vzmigrate: .*b: 1048576 frames of a stream are said to have' \
		"$TEST_TMP/e"
	evil stream-end-denied:2
	ends 6
	assert_match '^vzmigrate: .*b: no such stream; the source is as it was' \
		"$TEST_TMP/e"
	wait_until 20 no_agents
}

# --- what is held up is not piled up ----------------------------------------

# bounded SRC CMD ... - CMD copies SRC, of which far more is held up than may be
# in memory; neither side grows beyond 64 MB.
bounded()
{
	local kib f
	# With sanitizers memory is another thing.
	if grep -q fsanitize "$VZ_BUILDDIR/config.log"; then
		skip "with sanitizers"
	fi
	on a sh -c 'mkdir -p /srv/big && cd /srv/t &&
		for i in 1 2 3 4 5; do cat large?; done >/srv/big/one'
	peak a vzmigrate "$TEST_TMP/peak.a"
	peak b vzmigrate-agent "$TEST_TMP/peak.b"
	"$@"
	for f in "$TEST_TMP"/peak.?; do
		kib=$(<"$f")
		[ "$kib" -lt 65536 ] || fail "${f##*.}: $kib KiB"
	done
	on a rm -r /srv/big
	on b rm -rf /srv/new-big
}

copy_big()
{
	assert_exit 0 on a vzmigrate --kind=dir --streams=3 --nocompress b \
		"/srv/big:${1:-/srv/new-big}"
}

slow_link()
{
	link_rate 400mbit
	copy_big
	link_rate none
}

test_memory_on_a_slow_link()
{
	bounded slow_link
}

slow_disk()
{
	failing b slow=2 /srv/slow /mnt/slow
	copy_big /mnt/slow/t
	healed b /mnt/slow
	on b rm -rf /srv/slow
}

test_memory_with_a_slow_disk_there()
{
	bounded slow_disk
}

# One stream's sshd stands still: it is given up, the others go on.
stalled()
{
	local sshd
	on_bg a env VZMIGRATE_KEEPALIVE_MS=400 vzmigrate -vv --kind=dir \
		--nocompress --limit-speed=20M --streams=3 b \
		/srv/big:/srv/new-big >"$TEST_TMP/o" 2>"$TEST_TMP/e"
	RUN=$ON_BG
	wait_until 60 has_streams 3
	sshd=$(on b ps -o ppid= -p "$(agents | tail -n 1)" | tr -d ' ')
	on b kill -STOP "$sshd"
	ends 0
	on b kill -KILL "$sshd"
	assert_match 'a data stream broke' "$TEST_TMP/e"
	same_tree /srv/big /srv/new-big
}

test_memory_with_a_stalled_stream()
{
	bounded stalled
}

# A reader of the source that is slow: both sides wait, and neither gives up.
slow_source()
{
	on a mkdir -p /mnt/big
	failing a slow-read=2 /srv/big /mnt/big
	assert_exit 0 on a vzmigrate --kind=dir \
		--streams=3 --nocompress b /mnt/big:/srv/new-big
	healed a /mnt/big
}

full_memory_with_a_slow_disk_here()
{
	bounded slow_source
}

# P2: a million names in one directory, and a million directories. Names are
# kept for those that are to be visited yet: 80 bytes for each are allowed.
full_million()
{
	local kib f dir
	if grep -q fsanitize "$VZ_BUILDDIR/config.log"; then
		skip "with sanitizers"
	fi
	on a perl -e 'mkdir "/srv/wide"; chdir "/srv/wide" or die;
		for (1 .. 1000000) { open my $f, ">", "f$_" or die }'
	on a perl -e 'mkdir "/srv/many"; chdir "/srv/many" or die;
		for (1 .. 1000000) { mkdir "d$_" or die;
			open my $f, ">", "d$_/f" or die }'
	for dir in wide many; do
		peak a vzmigrate "$TEST_TMP/peak.a"
		peak b vzmigrate-agent "$TEST_TMP/peak.b"
		assert_exit 0 on a vzmigrate --kind=dir b "/srv/$dir:/srv/new-$dir"
		for f in "$TEST_TMP"/peak.?; do
			kib=$(<"$f")
			echo "${f##*.}: $kib KiB"
			[ "$kib" -lt $((65536 + 2 * 80000)) ] ||
				fail "${f##*.}: $kib KiB"
		done
	done
	on a rm -r /srv/wide /srv/many
	on b rm -r /srv/new-wide /srv/new-many
}

# 5 GB of data over four streams.
full_five_gigabytes()
{
	on a sh -c 'mkdir /srv/five && cd /srv/t && for i in $(seq 278); do
		cat large?; done >/srv/five/five'
	peak a vzmigrate "$TEST_TMP/peak.a"
	peak b vzmigrate-agent "$TEST_TMP/peak.b"
	assert_exit 0 on a vzmigrate --kind=dir --streams=4 b \
		/srv/five:/srv/new-five
	cmp "$(view a)/srv/five/five" "$(view b)/srv/new-five/five"
	on a rm -r /srv/five
	on b rm -r /srv/new-five
}

# --- how many ---------------------------------------------------------------

# As many as pay: a link on which one fills it needs no more than two, and one
# that is long enough gets a second by itself.
test_auto_has_two()
{
	link_rate 100mbit
	NEW=/srv/auto
	assert_exit 0 on a vzmigrate --kind=dir b "/srv/t:$NEW"
	link_rate none
	assert_match ', [23] streams' "$OUT"
	same_tree /srv/t "$NEW"
}
