# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Passes over trees that change at random (tests/unit/test_passes.c), on each
# file system: the unit test itself runs on that of /tmp only. A failure names
# its seed: VZ_PASSES_SEED=N VZ_PASSES_COUNT=1 repeats it.

# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=1200

setup_file()
{
	hosts_possible || skip "$HOSTS_WHY"
	HOSTS_SIZE=2G hosts_up e=ext4 x=xfs b=btrfs t=tmpfs
}

# seeds HOST FIRST COUNT [HOST]
#                           where the trees are, and where the copies
seeds()
{
	local dir dst
	dir=$(host_dir "$1")/var/passes
	dst=$(host_dir "${4:-$1}")/var/passes
	mkdir -p "$dir" "$dst"
	env VZ_PASSES_SEED="$2" VZ_PASSES_COUNT="$3" VZ_PASSES_DIR="$dir" \
		${4:+VZ_PASSES_DST="$dst"} builddir="$VZ_BUILDDIR" \
		"$VZ_BUILDDIR/tests/unit/test_passes" \
		>"$TEST_TMP/out" 2>&1 || fail "$(tail -n 60 "$TEST_TMP/out")"
	assert_match "^# $3 seeds from $2 on" "$TEST_TMP/out"
	rmdir "$dir" || fail "something was left behind"
	[ -z "${4:-}" ] || rmdir "$dst" || fail "something was left behind"
}

test_changes_on_ext4()
{
	seeds e 10001 4
}

test_changes_on_xfs()
{
	seeds x 10001 4
}

test_changes_on_btrfs()
{
	seeds b 10001 4
}

test_changes_on_tmpfs()
{
	seeds t 10001 4
}

# The destination holds less, and the proofs are the same all the same.
test_changes_from_ext4_to_tmpfs()
{
	seeds e 20001 4 t
}

test_changes_from_btrfs_to_xfs()
{
	seeds b 20001 4 x
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
