# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Whatever dies, whenever: one host owns the container, and the same command
# again ends it well. It needs a build with fault points.

# run: asan-only
# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=600

# shellcheck source=SCRIPTDIR/safety.sh
. "$VZ_TOP/tests/e2e/safety.sh"

setup_file()
{
	hosts_possible || skip "$HOSTS_WHY"
	hosts_up tmpfs a b
	reference
	traces
}

# --- the walk ---------------------------------------------------------------

# What is passed depends on what goes wrong; each line: a name, faults on a and
# b that lead there, options.
scenarios()
{
	cat <<-END
	clean - - -
	back src.take-over=fail - -
	undo - dst.commit.after-kind=fail -
	refused - dst.reserve.stage-made=fail -
	kept src.proof=fail - --keep-dst
	lost src.proof=kill - -
	END
}

none()
{
	[ "$1" = - ] || echo "$1"
}

# trace_of SCENARIO HOST - the file with the points that it passes there.
trace_of()
{
	echo "$BED_TMP/trace.$1.$2"
}

traces()
{
	local s fa fb opt
	while read -r s fa fb opt <&3; do
		fresh t
		A_FAULT=$(none "$fa") B_FAULT=$(none "$fb")
		A_ENV=VZMIGRATE_FAULT_TRACE=$(trace_of "$s" a)
		B_ENV=VZMIGRATE_FAULT_TRACE=$(trace_of "$s" b)
		# shellcheck disable=SC2046
		mig $(none "$opt") t
		wait_until 20 no_agents
		chmod 644 "$BED_TMP"/trace.*
		A_FAULT='' B_FAULT='' A_ENV='' B_ENV=''
		# So that the next one begins with nothing.
		fresh t
		on a rm -rf $STATE/source
		on b rm -rf $STATE/sessions $STATE/reserve
		on b sh -c "rm -rf $CTS/.vzmigrate-*"
	done 3< <(scenarios)
}

# points SCENARIO HOST - "NAME:N" to die at: the first and the last time that
# it is passed; of scenarios but the first only what the first has not.
points()
{
	local s=$1 h=$2
	if [ "$s" = clean ]; then
		cat "$(trace_of clean "$h")"
	else
		grep -vxFf "$(trace_of clean "$h")" "$(trace_of "$s" "$h")" ||
			:
	fi | awk '{ if (!n[$1]++) order[++k] = $1 }
		END { for (i = 1; i <= k; i++) {
			print order[i] ":1"
			if (n[order[i]] > 1) print order[i] ":" n[order[i]]
		} }'
}

# The state file of each host names its events; every one has three points.
events()
{
	local src=$VZ_TOP/vzmigrate/migrate
	if [ "$1" = a ]; then
		sed -n 's/^\t\[STEPS_[A-Z_]*\] =[ \t]*{ "\([a-z-]*\)".*/\1/p' \
			"$src/steps.c" | grep -vx new
	else
		sed -n 's/^\t\[EV_[A-Z_]*\] =[ \t]*{ *"\([a-z-]*\)".*/\1/p' \
			"$src/dst_rec.c"
	fi
}

points_in_source()
{
	local e
	for e in $(events "$1"); do
		printf 'journal.%s.%s\n' "$e" before "$e" torn "$e" after
	done
	# Both halves of a name that is chosen count.
	find "$VZ_TOP/vzmigrate" -name '*.c' -exec cat {} + |
		tr -d '\n' | grep -oE 'fault_point\([^;]*;' |
		grep -oE '"[a-z][a-z.-]*"' | tr -d '"' |
		grep -E "$([ "$1" = a ] && echo '^(src|send)\.' ||
			echo '^(dst|recv)\.')"
}

test_every_point_is_walked()
{
	local h missing
	for h in a b; do
		[ "$(events $h | wc -l)" -ge 10 ] || fail "events of $h?"
		missing=$(points_in_source $h | sort -u | comm -23 - \
			<(cat "$BED_TMP"/trace.*.$h | sort -u))
		assert_eq '' "$missing" "points that no scenario passes on $h"
	done
	# And none of a name that the lists above do not know.
	missing=$(find "$VZ_TOP/vzmigrate" -name '*.c' -exec cat {} + |
		tr -d '\n' | grep -oE 'fault_point\([^;]*;' |
		grep -oE '"[a-z][a-z.-]*"' | tr -d '"' |
		grep -vE '^(src|send|dst|recv)\.' || :)
	assert_eq '' "$missing" "points of an unknown family"
}

# sample N - every N-th line, but all of those around the change of hands.
sample()
{
	awk -v n="$1" 'NR % n == 1 || n == 1 ||
		/retir|commit|take-over|never|undo|destroy/'
}

# each WHAT FUNCTION SCENARIO HOST N - FUNCTION POINT for a sample of them;
# all failures are shown, not only the first.
each()
{
	local fn=$1 s=$2 h=$3 n=$4 p bad='' count=0
	local s_ fa fb opt
	read -r s_ fa fb opt < <(scenarios | grep "^$s ")
	: "$s_"
	SC_A=$(none "$fa") SC_B=$(none "$fb") SC_OPT=$(none "$opt")
	for p in $(points "$s" "$h" | sample "$n"); do
		count=$((count + 1))
		if ! ( "$fn" "$p" "$s" ) 2>"$TEST_TMP/each"; then
			echo "--- $fn $s $h $p" >&2
			cat "$TEST_TMP/each" >&2
			bad="$bad $p"
			# What one leaves is not to fail the next.
			clean_up
		fi
	done
	[ $count -gt 0 ] || fail "no points: $s $h"
	[ -z "$bad" ] || fail "$fn, $s, on $h:$bad"
}

clean_up()
{
	wait_until 20 no_agents
	on a rm -rf $STATE/source
	on b rm -rf $STATE/sessions $STATE/reserve
	on a sh -c "rm -rf $CTS/* $CTS/.vzmigrate-*"
	on b sh -c "rm -rf $CTS/* $CTS/.vzmigrate-*"
}

# again CT [CODES] - the same command without a fault moves it.
again()
{
	A_FAULT='' B_FAULT='' AGENT=''
	mig "$1"
	want "${2:-0}" "the second run"
	owned_by b "$1"
	nothing_left
	assert_no_file "$(host_dir a)$CTS/$1/config"
}

# The source's process dies.
die_on_a()
{
	fresh c
	A_FAULT=${SC_A:+$SC_A,}$1=kill B_FAULT=$SC_B
	# shellcheck disable=SC2086
	mig $SC_OPT c
	case $1 in
	# How many there are is not the same each time.
	*.batch:[2-9]* | *.chunk:[2-9]*) want "137 0" ;;
	*) want 137 ;;
	esac
	one_owner c
	case $1 in
	journal.done.after:*)
		owned_by b c
		again c 10
		assert_match 'was moved away|no such|does not exist|not here' \
			"$ERR"
		;;
	*)
		[ $RC = 0 ] || again c
		;;
	esac
}

# The agent dies, once: what this connection's end means is found out with the
# next one, by the same run or another.
die_on_b()
{
	fresh c
	A_FAULT=$SC_A AGENT=$(agent_once "${SC_B:+$SC_B,}$1=kill")
	# shellcheck disable=SC2086
	mig $SC_OPT c
	one_owner c
	if [ $RC = 0 ]; then
		owned_by b c
		nothing_left
		return
	fi
	# Connecting; copying; what the scenario itself makes fail.
	want "4 6 64 137" "the first run"
	as_it_was c
	again c
}

# as_it_was CT - after a failure before the change of hands: this host has it.
as_it_was()
{
	if [ "$RC" != 137 ]; then
		owned_by a "$1"
	fi
}

# A point fails instead: no process dies, so the program itself says what
# became of the container.
fail_on_a()
{
	fresh c
	A_FAULT=${SC_A:+$SC_A,}$1=fail B_FAULT=$SC_B
	# shellcheck disable=SC2086
	mig $SC_OPT c
	judge "$1"
}

fail_on_b()
{
	fresh c
	A_FAULT=$SC_A AGENT=$(agent_once "${SC_B:+$SC_B,}$1=fail")
	# shellcheck disable=SC2086
	mig $SC_OPT c
	judge "$1"
}

# judge POINT - after a failure that was survived.
judge()
{
	one_owner c
	case $RC in
	0 | 66)
		# Moved; what was left undone was said.
		owned_by b c
		[ $RC = 0 ] || again c "0 10"
		nothing_left
		;;
	4 | 6 | 64)
		# What was touched was put back, and that was said.
		owned_by a c
		nothing_left
		case $1 in
		*block* | src.* | send.* | recv.* | *pass* | *proven* | \
			*retir* | *commit* | *take*)
			grep -q 'the source is as it was' "$ERR" || {
				cat "$ERR" >&2
				fail "it does not say that the source is as it was"
			}
			;;
		esac
		again c
		;;
	65 | 73)
		# Could not be learned, or not be undone: both said to run it
		# again.
		assert_match 'run the same command again' "$ERR"
		again c
		;;
	*)
		want "a documented code"
		;;
	esac
}

test_walk_source_dies() { each die_on_a clean a 9; }
test_walk_agent_dies() { each die_on_b clean b 9; }
test_walk_source_fails() { each fail_on_a clean a 9; }
test_walk_agent_fails() { each fail_on_b clean b 9; }

test_walk_ways_back()
{
	each die_on_a back a 4
	each die_on_b back b 4
	each die_on_b undo b 2
	each die_on_b refused b 2
	each die_on_b kept b 2
}

full_walk_source_dies() { each die_on_a clean a 1; }
full_walk_agent_dies() { each die_on_b clean b 1; }
full_walk_source_fails() { each fail_on_a clean a 1; }
full_walk_agent_fails() { each fail_on_b clean b 1; }
full_walk_back_source_dies() { each die_on_a back a 1; }
full_walk_back_agent_dies() { each die_on_b back b 1; }
full_walk_back_source_fails() { each fail_on_a back a 1; }
full_walk_back_agent_fails() { each fail_on_b back b 1; }

full_walk_others()
{
	local s h
	for s in undo refused kept; do
		for h in a b; do
			[ -n "$(points $s $h)" ] || continue
			each die_on_$h $s $h 1
			each fail_on_$h $s $h 1
		done
	done
}
