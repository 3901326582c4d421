# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The walk: a migration is broken off at every point that it passes, on either
# host, and run again. Sourced after safety.sh, by files that define
# scenarios(), which prints lines: a name, faults on a and on b that lead there,
# options ("-" for none). fresh, owned_by and nothing_left may be replaced.
#
#   traces                  runs each scenario once and notes its points
#   each FUNCTION SCENARIO HOST N [all]
#                           FUNCTION at every N-th of them
#   at FUNCTION SCENARIO HOST POINT ...
#                           FUNCTION at these
#   die_on_a, die_on_b      FUNCTIONs: the process there is killed
#   fail_on_a, fail_on_b    what is done there fails
#   cut_on_a, cut_on_b      the link breaks while that host is there
#   hold_on_b               the agent stops there, its source is killed, and
#                           the rerun meets the old agent alive
#   all_points_walked [REGEX]
#                           every point in the sources but those is passed

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
		on a rm -rf "$STATE"/source
		on b rm -rf "$STATE"/sessions "$STATE"/reserve
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

all_points_walked()
{
	local h missing
	for h in a b; do
		[ "$(events $h | wc -l)" -ge 10 ] || fail "events of $h?"
		missing=$(points_in_source $h | sort -u | comm -23 - \
			<(cat "$BED_TMP"/trace.*.$h | sort -u) |
			grep -vE "${1:-^\$}" || :)
		assert_eq '' "$missing" "points that no scenario passes on $h"
	done
	# And none of a name that the lists above do not know.
	missing=$(find "$VZ_TOP/vzmigrate" -name '*.c' -exec cat {} + |
		tr -d '\n' | grep -oE 'fault_point\([^;]*;' |
		grep -oE '"[a-z][a-z.-]*"' | tr -d '"' |
		grep -vE '^(src|send|dst|recv)\.' || :)
	assert_eq '' "$missing" "points of an unknown family"
}

# sample N [all] - every N-th line, and with "all" those around the change of
# hands, too.
sample()
{
	awk -v n="$1" -v all="${2:-}" 'NR % n == 1 || n == 1 ||
		(all && /retir|commit|take-over|destroy/)'
}

each()
{
	local fn=$1 s=$2 h=$3 n=$4 p
	p=$(points "$s" "$h" | sample "$n" "${5:-}")
	[ -n "$p" ] || fail "no points: $s $h"
	# shellcheck disable=SC2086
	at "$fn" "$s" "$h" $p
}

# at - all failures are shown, not only the first.
at()
{
	local fn=$1 s=$2 h=$3 p bad=''
	local s_ fa fb opt
	shift 3
	read -r s_ fa fb opt < <(scenarios | grep "^$s ")
	: "$s_"
	CT=${CT:-c}
	SC_A=$(none "$fa") SC_B=$(none "$fb") SC_OPT=$(none "$opt")
	for p; do
		points "$s" "$h" | grep -qxF "$p" ||
			fail "$s does not pass $p on $h"
		if ! ( "$fn" "$p" "$s" ) 2>"$TEST_TMP/each"; then
			echo "--- $fn $s $h $p" >&2
			cat "$TEST_TMP/each" >&2
			bad="$bad $p"
			# What one leaves is not to fail the next.
			clean_up
		fi
	done
	[ -z "$bad" ] || fail "$fn, $s, on $h:$bad"
}

# Closed or not: what a person would look at and remove.
clean_source()
{
	on a rm -rf "$STATE"/source
}

clean_up()
{
	wait_until 20 no_agents
	on a rm -rf "$STATE"/source
	on b rm -rf "$STATE"/sessions "$STATE"/reserve
	on a sh -c "rm -rf $CTS/* $CTS/.vzmigrate-* /vz/lock/* /etc/vz/conf/*"
	on b sh -c "rm -rf $CTS/* $CTS/.vzmigrate-* /srv/.vzmigrate-* \
		/vz/private/.vzmigrate-* /vz/lock/* /etc/vz/conf/*"
}

# again CT [CODES] - the same command without a fault moves it.
again()
{
	A_FAULT='' B_FAULT='' AGENT=''
	mig -r yes "$1"
	want "${2:-0}" "the second run"
	owned_by b "$1"
	nothing_left
	assert_no_file "$(conf_of a "$1")"
}

# The source's process dies.
die_on_a()
{
	fresh "$CT"
	A_FAULT=${SC_A:+$SC_A,}$1=kill B_FAULT=$SC_B
	# shellcheck disable=SC2086
	mig -r yes $SC_OPT "$CT"
	case $1 in
	# How many there are is not the same each time.
	*.batch:[2-9]* | *.chunk:[2-9]*) want "137 0" ;;
	*) want 137 ;;
	esac
	one_owner "$CT"
	after_death "$1"
}

# after_death POINT - of the source's process there.
after_death()
{
	case $1 in
	journal.done.after:* | src.put-away*)
		owned_by b "$CT"
		# A dead process's lock is none, and nobody looks for it any
		# more: the container is not here.
		rm -f "$(host_dir a)/vz/lock/$CT.lck"
		again "$CT" 10
		assert_match 'was moved away|there is no container' \
			"$ERR"
		# Else the next run would begin with putting it away.
		clean_source
		;;
	*)
		[ "$RC" = 0 ] || again "$CT"
		;;
	esac
}

# The agent dies, once: what this connection's end means is found out with the
# next one, by the same run or another.
die_on_b()
{
	fresh "$CT"
	A_FAULT=$SC_A AGENT=$(agent_once "${SC_B:+$SC_B,}$1=kill")
	# shellcheck disable=SC2086
	mig -r yes $SC_OPT "$CT"
	one_owner "$CT"
	if [ "$RC" = 0 ]; then
		owned_by b "$CT"
		nothing_left
		return
	fi
	# Connecting; copying; what the scenario itself makes fail.
	want "4 6 7 8 64 137" "the first run"
	as_it_was "$CT"
	again "$CT"
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
	fresh "$CT"
	A_FAULT=${SC_A:+$SC_A,}$1=fail B_FAULT=$SC_B
	# shellcheck disable=SC2086
	mig -r yes $SC_OPT "$CT"
	judge "$@"
}

fail_on_b()
{
	fresh "$CT"
	A_FAULT=$SC_A AGENT=$(agent_once "${SC_B:+$SC_B,}$1=fail")
	# shellcheck disable=SC2086
	mig -r yes $SC_OPT "$CT"
	judge "$@"
}

# up_before CT - whether it runs when it is told to move; replaced by those who
# have such.
up_before()
{
	false
}

says_it_was_restored()
{
	grep -q 'the source is as it was' "$ERR" && return
	cat "$ERR" >&2
	fail "it does not say that the source is as it was"
}

# judge POINT SCENARIO - after a failure that was survived.
judge()
{
	one_owner "$CT"
	case $RC in
	0 | 66)
		# Moved; what was left undone was said.
		owned_by b "$CT"
		if [ "$RC" = 66 ]; then
			assert_match 'not everything was cleaned up' "$ERR"
			assert_no_file "$(conf_of a "$CT")"
			rm -rf "$(tree_of a "$CT")" "$(host_dir a)$CTS/${CT:?}"
			clean_source
		fi
		case $1 in
		*finish*)
			# It keeps its record, and that is said.
			assert_match 'was not told that all is done' "$ERR"
			on b rm -rf "$STATE"/sessions
			;;
		esac
		nothing_left
		;;
	4 | 6 | 7 | 8 | 64)
		# What was touched was put back, and that was said.
		owned_by a "$CT"
		case $2,$1 in
		# What cannot be recorded, or said there, the next run does.
		clean,journal.*.after:*) ;;
		clean,*) nothing_left ;;
		esac
		case $1 in
		src.pass* | send.* | recv.* | dst.pass.*)
			# Of one that runs nothing was touched yet.
			up_before "$CT" || says_it_was_restored
			;;
		src.block* | src.proof* | *.proven.*)
			says_it_was_restored
			;;
		esac
		again "$CT"
		;;
	65 | 73)
		# Could not be learned, or not be undone: both said to run it
		# again.
		assert_match 'run the same command again' "$ERR"
		again "$CT"
		;;
	*)
		want "a documented code"
		;;
	esac
}

# Found out in seconds; only one address, since each is waited for.
SHORT_LINK=(--ssh="-o ConnectTimeout=1 -o AddressFamily=inet")

cut_on_a()
{
	fresh "$CT"
	# shellcheck disable=SC2086
	SOON=1 HELD_MAYBE=1 held "$1" "${SHORT_LINK[@]}" -r yes $SC_OPT "$CT"
	link_cut b
	go_on
	link_join b
	after_the_cut "$1"
}

# The client notices, and the agent may go on without it.
cut_on_b()
{
	fresh "$CT"
	# shellcheck disable=SC2086
	SOON=1 B_HOLD=1 HELD_MAYBE=1 \
		held "$1" "${SHORT_LINK[@]}" -r yes $SC_OPT "$CT"
	link_cut b
	ended
	rm -f "$HOLD"
	wait_until 20 no_agents
	link_join b
	after_the_cut "$1"
}

# after_the_cut POINT
after_the_cut()
{
	one_owner "$CT"
	case $RC in
	0)
		# Of what it was not told the destination keeps a record.
		! grep -q 'was not told that all is done' "$ERR" ||
			on b rm -rf "$STATE"/sessions
		owned_by b "$CT"
		nothing_left
		return
		;;
	65)
		assert_match 'run the same command again' "$ERR"
		;;
	4 | 6)
		assert_match 'no sign of life|takes no data|connection was lost|cannot connect' \
			"$ERR"
		owned_by a "$CT"
		;;
	*)
		want "a documented code" "$1"
		;;
	esac
	again "$CT"
}

agent_stands()
{
	mig_gone || on b ps -eo stat=,args= | grep -q '^T.*[v]zmigrate-agent'
}

hold_on_b()
{
	fresh "$CT"
	A_FAULT=$SC_A AGENT=$(agent_once "${SC_B:+$SC_B,}$1=stop")
	# shellcheck disable=SC2086
	begun -r yes $SC_OPT "$CT"
	wait_until 20 agent_stands
	kill -KILL "$MIG_PID" 2>/dev/null || :
	ended
	one_owner "$CT"
	if [ "$RC" = 0 ]; then
		owned_by b "$CT"
		nothing_left
		return
	fi
	want 137
	# A lock that is held is waited for, a while.
	A_ENV=VZMIGRATE_REPLY_MS=20000
	again "$CT"
	A_ENV=''
}
