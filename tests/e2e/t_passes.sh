# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Passes over trees that change at random (tests/unit/test_passes.c), on each
# file system: the unit test itself runs on that of /tmp only. A failure names
# its seed: VZ_PASSES_SEED=N VZ_PASSES_COUNT=1 repeats it.

# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=1200
# shellcheck source=SCRIPTDIR/trees.sh
. "$VZ_TOP/tests/e2e/trees.sh"

setup_file()
{
	hosts_possible || skip "$HOSTS_WHY"
	HOSTS_SIZE=2G hosts_up e=ext4 x=xfs b=btrfs t=tmpfs
}

# run_in DIR NAME=VALUE ... - the unit test with trees there; IN="on HOST" for
# a file system that only that host sees.
run_in()
{
	local dir=$1
	shift
	${IN:-} mkdir -p "$dir"
	${IN:-} env "$@" VZ_PASSES_DIR="$dir" builddir="$VZ_BUILDDIR" \
		"$VZ_BUILDDIR/tests/unit/test_passes" \
		>"$TEST_TMP/out" 2>&1 || fail "$(tail -n 60 "$TEST_TMP/out")"
	${IN:-} rmdir "$dir" || fail "something was left behind"
}

# seeds HOST FIRST COUNT [HOST]
#                           where the trees are, and where the copies
seeds()
{
	local dst
	dst=$(host_dir "${4:-$1}")/var/copies
	mkdir -p "$dst"
	run_in "$(host_dir "$1")/var/passes" VZ_PASSES_TEST=test_any_change \
		VZ_PASSES_SEED="$2" VZ_PASSES_COUNT="$3" \
		${4:+VZ_PASSES_DST="$dst"}
	assert_match "^# $3 seeds from $2 on" "$TEST_TMP/out"
	rmdir "$dst" || fail "something was left behind"
}

# cases HOST - those that chance seldom finds.
cases()
{
	local t
	for t in test_same_numbers test_write_under_way; do
		run_in "$(host_dir "$1")/var/passes" VZ_PASSES_TEST=$t
		assert_match "(OK|SKIP).* $t" "$TEST_TMP/out"
	done
}

test_cases_on_ext4() { cases e; }
test_cases_on_xfs() { cases x; }
test_cases_on_btrfs() { cases b; }

test_changes_on_ext4()
{
	seeds e 10001 6
}

test_changes_on_xfs()
{
	seeds x 10001 6
}

test_changes_on_btrfs()
{
	seeds b 10001 6
}

# Times of whole seconds.
test_changes_on_ext4_of_old()
{
	fs_mount e ext4 /old 500M '' -I 128
	IN="on e" run_in /old/passes VZ_PASSES_TEST=test_any_change \
		VZ_PASSES_SEED=10001 VZ_PASSES_COUNT=10
	on e umount /old
}

test_changes_on_tmpfs()
{
	seeds t 10001 6
}

# The destination holds less, and the proofs are the same all the same.
test_changes_from_ext4_to_tmpfs()
{
	seeds e 20001 6 t
}

test_changes_from_btrfs_to_xfs()
{
	seeds b 20001 6 x
}

full_changes_across()
{
	seeds e 30001 200 t
	seeds x 30001 200 e
	seeds b 30001 200 e
	seeds e 30001 200 b
	seeds b 30001 200 x
}

full_changes_on_ext4()
{
	seeds e 1 400
}

full_changes_on_xfs()
{
	seeds x 1 400
}

full_changes_on_btrfs()
{
	seeds b 1 400
}

full_changes_on_tmpfs()
{
	seeds t 1 400
}
