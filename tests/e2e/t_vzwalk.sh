# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The walk of t_safety.sh with a suspended container of OpenVZ: wherever a
# migration is broken off, one host has it with its dump, and can resume it.
# run: asan-only

# shellcheck disable=SC2034,SC2016 # read by tests/run; $VEID
TEST_TIMEOUT=300

# shellcheck source=SCRIPTDIR/safety.sh
. "$VZ_TOP/tests/e2e/safety.sh"
# shellcheck source=SCRIPTDIR/walk.sh
. "$VZ_TOP/tests/e2e/walk.sh"

setup_file()
{
	openvz_up
	mkdir -p "$B/srv"
	reference
	traces
}

scenarios()
{
	cat <<-END
	clean - - -
	back src.take-over=fail - -
	undo - dst.commit.after-kind=fail -
	END
}

eval "plain_$(declare -f fresh)"
eval "plain_$(declare -f owned_by)"

# The container of the walk is suspended.
fresh()
{
	plain_fresh "$1"
	[ "$(kind_of "$1")" = openvz ] || return 0
	rm -rf "$A/vz/dump/Dump.$1" "$B/vz/dump/Dump.$1"
	(umask 077 && mkdir -p "$A/vz/dump" &&
		echo 0123456789abcdef >"$A/vz/dump/Dump.$1")
}

owned_by()
{
	vz_status "$1" "$2" "CTID $2 exist unmounted down suspended"
	assert_eq 0123456789abcdef "$(cat "$(host_dir "$1")/vz/dump/Dump.$2")"
	assert_no_file "$(host_dir "$(other "$1")")/vz/dump/Dump.$2"
	assert_no_file "$(tree_of "$1" "$2")/.vzmigrate-luggage"
	plain_owned_by "$1" "$2"
	# That was a resume; the next look is at a suspended one again.
	assert_no_file "$(host_dir "$1")/vz/dump/Dump.$2"
	echo 0123456789abcdef >"$(host_dir "$1")/vz/dump/Dump.$2"
}

test_walk_suspended()
{
	CT=501
	each die_on_a clean a 8 all
	each fail_on_a clean a 9
}

test_walk_suspended_agent()
{
	CT=501
	each die_on_b clean b 9 all
	each fail_on_b clean b 12
	each die_on_a back a 6
	each die_on_b undo b 4
}
