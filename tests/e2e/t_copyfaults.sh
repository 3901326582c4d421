# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A copy that cannot be made: disks that fail, files that move under the
# reading, a destination that fills up or cannot be written. Each time the exit
# code is exact, the source as it was, nothing left on the destination, and the
# next run succeeds.

# run: asan-full
# shellcheck disable=SC2034,SC2164 # read by tests/run, which sets -e
TEST_TIMEOUT=120
# shellcheck source=SCRIPTDIR/trees.sh
. "$VZ_TOP/tests/e2e/trees.sh"

setup_file()
{
	hosts_possible || skip "$HOSTS_WHY"
	hosts_up tmpfs a b
	fs_mount a tmpfs /fs/src
	fs_mount b tmpfs /fs/dst
}

# small_tree DIR - on a: some files, a large one, links.
small_tree()
{
	on a mkdir -p "$1/d/sub"
	on a sh -c "cd $1 && head -c 3000000 /dev/urandom >big &&
		for i in 1 2 3 4 5 6 7 8 9; do echo \$i >d/\$i; done &&
		head -c 100000 /dev/urandom >d/sub/middle && ln d/1 d/sub/one &&
		ln -s ../big d/link && chown 1000 d/2 &&
		touch -d @1234567890.5 big d/sub"
}

# refused CODE REGEX ARG ... - the run ends so, and leaves no trace. The last
# argument is SRC:DST; REAL is where SRC is looked at, if elsewhere.
refused()
{
	local code=$1 want=$2 last=${!#} real
	shift 2
	real=${REAL:-${last%%:*}}
	look_at a "$real" >"$TEST_TMP/before"
	assert_exit "$code" move "$@"
	assert_match "$want" "$ERR"
	untouched a "$real" "$TEST_TMP/before"
	nothing_left "${last#*:}"
}

# goes_through SRC DST
goes_through()
{
	assert_exit 0 move b "$1:$2"
	assert_match 'verified=true' "$OUT"
	same_tree "$1" "$2"
}

# --- the source's disk ------------------------------------------------------

test_read_error()
{
	small_tree /fs/src/eio
	failing a eio=big:3 /fs/src/eio /mnt/eio
	refused 6 'big: .*Input/output error' b /mnt/eio:/fs/dst/eio
	healed a /mnt/eio /fs/src/eio
	goes_through /mnt/eio /fs/dst/eio
	on a umount /mnt/eio
}

test_read_error_of_a_small_file()
{
	small_tree /fs/src/eio2
	failing a eio=/d/5:1 /fs/src/eio2 /mnt/eio2
	refused 6 'd/5: .*Input/output error' b /mnt/eio2:/fs/dst/eio2
	healed a /mnt/eio2 /fs/src/eio2
	goes_through /mnt/eio2 /fs/dst/eio2
	on a umount /mnt/eio2
}

test_directory_that_cannot_be_read()
{
	small_tree /fs/src/eacces
	failing a eacces=/d/sub /fs/src/eacces /mnt/eacces
	REAL=/fs/src/eacces refused 6 'd/sub: .*Permission denied' b /mnt/eacces:/fs/dst/eacces
	healed a /mnt/eacces /fs/src/eacces
	goes_through /mnt/eacces /fs/dst/eacces
	on a umount /mnt/eacces
}

# --- files that move --------------------------------------------------------

# moving NAME FAULT WANT - with a file that moves whenever it is read the run is
# refused and names it; when it keeps still a run goes through.
moving()
{
	small_tree "/fs/src/$1"
	failing a "$2" "/fs/src/$1" "/mnt/$1"
	assert_exit 6 move b "/mnt/$1:/fs/dst/$1"
	assert_match "$3" "$ERR"
	assert_match 'the source is as it was' "$ERR"
	nothing_left "/fs/dst/$1"
	healed a "/mnt/$1" "/fs/src/$1"
	goes_through "/mnt/$1" "/fs/dst/$1"
	on a umount "/mnt/$1"
}

test_file_that_grows_for_ever()
{
	moving grows grows=/d/5 'd/5: .*(changed|shorter)'
}

test_large_file_that_grows_for_ever()
{
	moving growsbig grows=big 'big: .*(changed|shorter)'
}

test_file_that_is_truncated()
{
	moving cut shrinks=big 'big: .*(changed|shorter)'
}

test_small_file_that_is_truncated()
{
	moving cutsmall shrinks=middle 'd/sub/middle: .*(changed|shorter)'
}

test_file_that_is_replaced()
{
	moving replaced comes=/d/5 'd/5: .*replaced'
}

test_files_that_come_and_go()
{
	moving stirred stirs=/d/5 ' d: changed'
	moving gone goes=/d/5 'd/5: vanished'
}

# --- the destination's disk -------------------------------------------------

test_short_writes()
{
	small_tree /fs/src/short
	failing b short=big /fs/dst/short /mnt/short
	goes_through /fs/src/short /mnt/short/t
	healed b /mnt/short
}

test_full_at_close()
{
	small_tree /fs/src/close
	failing b enospc=middle /fs/dst/close /mnt/close
	refused 6 'b: d/sub/middle: .*No space left' b \
		/fs/src/close:/mnt/close/t
	healed b /mnt/close /fs/dst/close
	goes_through /fs/src/close /mnt/close/t
	on b umount /mnt/close
}

test_large_file_full_at_close()
{
	small_tree /fs/src/closebig
	failing b enospc=big /fs/dst/closebig /mnt/closebig
	refused 6 'b: big: .*No space left' b /fs/src/closebig:/mnt/closebig/t
	healed b /mnt/closebig /fs/dst/closebig
	goes_through /fs/src/closebig /mnt/closebig/t
	on b umount /mnt/closebig
}

test_not_enough_room()
{
	small_tree /fs/src/room
	on a fallocate -l 60M /fs/src/room/large
	fs_mount b ext4 /fs/room 100M '' -N500
	refused 6 'not enough room in /fs/room: 1[23][0-9] MiB' b \
		/fs/src/room:/fs/room/t
	# Both at once are told together.
	assert_match 'not enough inodes in /fs/room: 10[0-9][0-9] are needed' "$ERR"
	assert_match '2 checks failed, nothing was changed' "$ERR"
	on b umount /fs/room
}

test_read_only_destination()
{
	small_tree /fs/src/ro
	fs_mount b ext4 /fs/ro 200M
	on b mount -o remount,ro /fs/ro
	refused 6 'nothing can be written to /fs/ro: .*Read-only' b \
		/fs/src/ro:/fs/ro/t
	on b mount -o remount,rw /fs/ro
	goes_through /fs/src/ro /fs/ro/t
	on b umount /fs/ro
}

# staged DIR KIB - so much has come already.
staged()
{
	local kib
	kib=$(du -sk "$(view b)$1"/.vzmigrate-*/tree 2>/dev/null | cut -f 1)
	[ "${kib:-0}" -ge "$2" ]
}

# filled_up NAME MKFS-ARGS TREE FILLER - another one fills the destination
# while the copy is under way.
filled_up()
{
	local fs=/fs/$1 src=/fs/src/$1 rc=0 run
	fs_mount b ext4 "$fs" 300M '' "$2"
	on a mkdir "$src"
	on a sh -c "cd $src && $3"
	look_at a "$src" >"$TEST_TMP/before"
	link_rate 100mbit
	move b "$src:$fs/t" >"$TEST_TMP/out" 2>"$TEST_TMP/err" &
	run=$!
	wait_until 20 staged "$fs" 2000
	on b sh -c "mkdir $fs/other && cd $fs/other && $4"
	link_rate none
	wait $run || rc=$?
	assert_eq 6 $rc "$(cat "$TEST_TMP/err")"
	assert_match 'b: .*No space left on device' "$TEST_TMP/err"
	assert_match 'the source is as it was' "$TEST_TMP/err"
	untouched a "$src" "$TEST_TMP/before"
	nothing_left "$fs/t"
	on b rm -r "$fs/other"
	goes_through "$src" "$fs/t"
	on b umount "$fs"
}

test_bytes_run_out()
{
	filled_up bytes -q 'for i in 1 2 3 4 5 6 7 8; do
		head -c 8000000 /dev/urandom >$i; done' \
		'! cat /dev/zero >fill 2>/dev/null'
}

test_inodes_run_out()
{
	filled_up inodes -N4000 'head -c 20000 /dev/urandom >0 &&
		perl -e "for (1 .. 2500) { 
			open my \$i, q(<), 0; read \$i, my \$d, 20000;
			open my \$o, q(>), qq(f\$_); print \$o \$d }"' \
		'perl -e "my \$n = 0; 1 while open(my \$f, q(>), ++\$n); exit 0"'
}
