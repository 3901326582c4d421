# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Compression and the rate limit, between two real sshds: the tree is the same
# whatever is asked for; on a slow link compression comes on by itself, for what
# shrinks; the rate holds, and can be changed while a copy runs.

# shellcheck disable=SC2034,SC2164 # read by tests/run, which sets -e
TEST_TIMEOUT=120
TOOLS=$VZ_BUILDDIR/tests/tools

setup_file()
{
	hosts_possible || skip "no throw-away hosts here: $HOSTS_WHY"
	hosts_up tmpfs a b
	A=$(host_dir a) B=$(host_dir b)
	mkdir -p "$A/srv/mixed/many" "$B/srv"
	"$TOOLS/nastytree" --small "$A/srv/mixed/nasty" >"$BED_TMP/nasty"
	seq 1 300000 >"$A/srv/mixed/text"
	head -c 3000000 /dev/urandom >"$A/srv/mixed/random"
	mkdir "$A/srv/text" "$A/srv/random"
	(cd "$A/srv/mixed/many" && split -l 400 -a 4 ../text)
	seq 1 4000000 >"$A/srv/text/text"
	head -c 8388608 /dev/urandom >"$A/srv/random/random"
}

copy()
{
	on a vzmigrate --kind=dir "$@"
}

# same TREE - of a is the tree of b, in every attribute.
same()
{
	"$TOOLS/treecmp" "$A/srv/$1" "$B/srv/dst" >"$TEST_TMP/treecmp" ||
		fail "the trees differ: $(head -n 20 "$TEST_TMP/treecmp")"
	on b rm -rf --one-file-system /srv/dst 2>/dev/null ||
		"$TOOLS/nastytree" --remove "$B/srv/dst/nasty" &&
		on b rm -rf --one-file-system /srv/dst
}

# value KEY - of the summary's line.
value()
{
	sed -n "s/.* $1=\([^ ]*\).*/\1/p" "$OUT" | head -n 1
}

control()
{
	echo "$A"/var/lib/vzmigrate/source/dir-*/control
}

# A copy is at work: its control file is there, and bytes have arrived.
at_work()
{
	[ -e "$(control)" ] && [ -n "$(find "$B"/srv/.vzmigrate-*/tree \
		-type f -size +200k 2>/dev/null)" ]
}

test_same_tree()
{
	local o plain
	for o in --nocompress --compress=1 --compress=3 --compress=9 \
		--verbose; do
		assert_exit 0 copy $o b /srv/mixed:/srv/dst
		same mixed
		case $o in
		--nocompress)
			assert_eq none "$(value compress)" "$o"
			plain=$(value wire_bytes)
			;;
		--compress*)
			assert_eq zstd "$(value compress)" "$o"
			# Numbers shrink, noise does not.
			[ "$(value wire_bytes)" -lt $((plain * 3 / 4)) ] ||
				fail "$o: $(cat "$OUT")"
			;;
		esac
	done
	# The highest level takes its time.
	assert_exit 0 copy --compress=19 b /srv/mixed/many:/srv/dst
	same mixed/many
	assert_eq zstd "$(value compress)"
	assert_no_file "$(control)"
}

# The way of a file to the control file of the run is in -v.
test_limit_holds()
{
	local try rate
	for try in 1 2 3; do
		assert_exit 0 copy --limit-speed=4M -v b /srv/random:/srv/dst
		same random
		assert_match 'limit can be changed in .*/control' "$ERR"
		rate=$(value rate)
		# Faster it is never; slower, when the machine is busy.
		[ "$rate" -le $((4194304 * 115 / 100)) ] ||
			fail "$rate bytes per second, 4194304 allowed"
		[ "$rate" -lt $((4194304 * 85 / 100)) ] || return 0
	done
	fail "three times slower than the limit: $rate bytes per second"
}

test_limit_changed_while_running()
{
	local pid from
	copy -l 384K -v b /srv/random:/srv/dst >"$TEST_TMP/out" \
		2>"$TEST_TMP/err" &
	pid=$!
	wait_until 20 at_work
	assert_eq 600 "$(stat -c %a "$(control)")"
	assert_eq 'limit-speed = 393216' "$(tail -n 1 "$(control)")"
	from=$SECONDS
	echo 'limit-speed = fast' >"$(control)"
	wait_until 10 grep -q 'control: limit-speed: "fast" is not a size' \
		"$TEST_TMP/err"
	echo 'limit-speed = none' >"$(control)"
	wait "$pid"
	# It would have taken 20 s more.
	[ $((SECONDS - from)) -lt 15 ] || fail "took $((SECONDS - from)) s"
	assert_match 'control: limit-speed is none now' "$TEST_TMP/err"
	same random
}

# What was queued does not hold up the end.
test_interrupt_under_limit()
{
	local pid from rc=0
	on_bg a vzmigrate --kind=dir --limit-speed=256K b \
		/srv/random:/srv/dst >"$TEST_TMP/out" 2>"$TEST_TMP/err"
	pid=$ON_BG
	wait_until 20 at_work
	from=$SECONDS
	kill -INT "$ON_PID"
	wait "$pid" || rc=$?
	assert_eq 70 "$rc" "$(cat "$TEST_TMP/err")"
	[ $((SECONDS - from)) -lt 20 ] || fail "took $((SECONDS - from)) s"
	assert_no_file "$(control)"
	assert_no_file "$B/srv/dst"
}

# By itself: on where the link is slow and it helps.
test_slow_link()
{
	link_rate 40mbit
	assert_exit 0 copy -vv b /srv/text:/srv/dst
	same text
	assert_match 'compression: level 0 -> 1' "$ERR"
	assert_eq zstd "$(value compress)"
	# The first 12 MB are queued before anything is known of the link.
	[ "$(value wire_bytes)" -lt 24000000 ] || fail "$(cat "$OUT")"
	assert_exit 0 copy -v b /srv/random:/srv/dst
	same random
	assert_eq none "$(value compress)"
	link_rate none
}
