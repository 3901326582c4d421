# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The walk of walk.sh with a container that runs: whatever dies, whenever, and
# after the same command again, exactly one host runs it.

# run: asan-only
# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=900

# shellcheck source=SCRIPTDIR/safety.sh
. "$VZ_TOP/tests/e2e/safety.sh"
# shellcheck source=SCRIPTDIR/walk.sh
. "$VZ_TOP/tests/e2e/walk.sh"

setup_file()
{
	hosts_possible || skip "$HOSTS_WHY"
	# How long it is watched there: the walk need not wait for it.
	HOSTS_SSHD_ENV="VZMIGRATE_LIFE_MS=150"
	openvz_hosts
	hosts_up tmpfs a b
	openvz_hosts a b
	mkdir -p "$(host_dir b)/srv"
	reference
	traces
}

scenarios()
{
	cat <<-END
	clean - - -
	back src.take-over=fail - -
	undo - dst.start.lives=fail -
	lost src.stopped=kill - -
	END
}

eval "$(declare -f fresh | sed '1s/fresh/fresh_stopped/')"
eval "$(declare -f nothing_left | sed '1s/nothing_left/nothing_left_else/')"
eval "$(declare -f one_owner | sed '1s/one_owner/one_conf/')"

runs_on()
{
	case $(kind_of "$2") in
	openvz) [[ "$(on "$1" vzctl status "$2" 2>&1)" == *\ running* ]] ;;
	*) [ "$(lxc_state "$1" "$2" 2>/dev/null)" = RUNNING ] ;;
	esac
}

starts_on()
{
	case $(kind_of "$2") in
	openvz) on "$1" vzctl start "$2" ;;
	*) on "$1" lxc-start -n "$2" ;;
	esac >"$TEST_TMP/start" 2>&1
	wait_until 10 runs_on "$1" "$2"
}

halt()
{
	case $(kind_of "$2") in
	openvz) on "$1" vzctl stop "$2" --fast ;;
	*) on "$1" lxc-stop -k -n "$2" ;;
	esac >/dev/null 2>&1 || :
}

# fresh CT - as the reference, running on a.
fresh()
{
	halt a "$1"
	halt b "$1"
	fresh_stopped "$1"
	starts_on a "$1"
}

# What ran on b and went back was kept aside, and said.
nothing_left()
{
	local d
	for d in "$(host_dir b)"{$CTS,/vz/private}/.vzmigrate-ran-*; do
		[ -e "$d" ] || continue
		assert_file "$d/tree/srv/own"
		grep -q "${d#"$(host_dir b)"}/tree" "$ERR" "$TEST_TMP"/*.err ||
			fail "$d was kept and is not named"
		rm -rf --one-file-system "$d"
	done
	cp "$ERR" "$TEST_TMP/before.err"
	nothing_left_else
}

one_owner()
{
	one_conf "$1"
	if runs_on a "$1" && runs_on b "$1"; then
		fail "both hosts run $1"
	fi
	# The one that a second run may have to say of what the first kept.
	cp "$ERR" "$TEST_TMP/first.err"
}

# owned_by HOST CT - it runs there and nowhere else, and its tree is right.
owned_by()
{
	local h=$1 ct=$2 o
	o=$(other "$h")
	assert_file "$(conf_of "$h" "$ct")"
	assert_no_file "$(conf_of "$o" "$ct")"
	runs_on "$h" "$ct" || fail "$ct does not run on $h"
	! runs_on "$o" "$ct" || fail "$ct runs on $o"
	halt "$h" "$ct"
	# LXC makes a directory for a moment.
	touch -r "$REF" "$(tree_of "$h" "$ct")"
	treecmp_ok "$REF" "$(tree_of "$h" "$ct")"
	starts_on "$h" "$ct"
}

test_every_point_of_running_is_walked()
{
	# What is passed by others is walked in t_safety.sh.
	all_points_walked '^(recv|send|dst\.(reserve|fence|pass|abort|undo|finish|commit))\.|^src\.(destroy|finish|never|abort|un.*)|^journal\.(aborted|abort|kept|unreserved|commit-failed|link-lost|finish|finished|restored|given-up|never|undo|done|file|reserve|reserved|pass|proven|open|commit|committed)\.'
}

test_walk_source_dies() { each die_on_a clean a 12 all; }
test_walk_agent_dies() { each die_on_b clean b 16 all; }
test_walk_source_fails() { each fail_on_a clean a 12; }
test_walk_agent_fails() { each fail_on_b clean b 16; }

test_walk_ways_back()
{
	each die_on_a back a 6
	each die_on_b undo b 5
}

full_walk_source_dies() { each die_on_a clean a 1; }
full_walk_agent_dies() { each die_on_b clean b 1; }
full_walk_source_fails() { each fail_on_a clean a 1; }
full_walk_agent_fails() { each fail_on_b clean b 1; }
full_walk_back_source_dies() { each die_on_a back a 1; }
full_walk_back_agent_dies() { each die_on_b back b 1; }
full_walk_undo_source_dies() { each die_on_a undo a 1; }
full_walk_undo_agent_dies() { each die_on_b undo b 1; }
full_walk_undo_agent_fails() { each fail_on_b undo b 1; }

full_walk_openvz()
{
	CT=301
	each die_on_a clean a 1
	each die_on_b clean b 1
}
