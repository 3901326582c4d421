# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the tests of the copying share: file systems on the hosts, trees in
# them, the program run from host a to host b. Sourced by the t_*.sh that need
# it.
#
#   fs_mount HOST FS DIR [SIZE [MOUNT-OPTIONS [MKFS-ARGUMENT ...]]]
#                      a new file system (tmpfs, ramfs, or ext4, xfs, btrfs on
#                      a loop device) at DIR there
#   view HOST          where its root is seen from here, mounts and all
#   move ARG ...       vzmigrate --kind=dir with these, on a
#   same_tree SRC DST [IGNORE]
#                      SRC of a and DST of b are the same, but for that
#   diff_tree SRC DST  prints how they differ
#   look_at HOST DIR   a line for each name below, with all that no one may
#                      change; for untouched
#   untouched HOST DIR FILE
#                      DIR is as it was when look_at wrote FILE
#   nothing_left DIR   no staging area beside DIR on b, no reservation there
#   failing HOST OPTIONS REAL MOUNTPOINT
#                      shows REAL there, with faults (tests/tools/failfs)
#   healed HOST MOUNTPOINT [REAL]
#                      no more faults there; REAL in its place
#   peak HOST NAME FILE
#                      in the background: keeps the largest peak of memory of
#                      processes of that name in FILE, in KiB; PEAK_PID

TOOLS=$VZ_BUILDDIR/tests/tools

view()
{
	echo "/proc/${HOST_PID[$1]}/root"
}

fs_mount()
{
	local host=$1 fs=$2 dir=$3 size=${4:-2G} opts=${5:-} img dev
	shift $(($# < 5 ? $# : 5))
	img=$BED/img/$host.${dir//\//_}
	on "$host" mkdir -p "$dir"
	case $fs in
	tmpfs)
		on "$host" mount -t tmpfs -o "size=$size${opts:+,$opts}" t "$dir"
		return
		;;
	ramfs)
		on "$host" mount -t ramfs r "$dir"
		return
		;;
	esac
	rm -f "$img"
	truncate -s "$size" "$img"
	case $fs in
	ext4) mkfs.ext4 -qF "$@" "$img" ;;
	xfs) mkfs.xfs -qf "$@" "$img" ;;
	btrfs) mkfs.btrfs -qf "$@" "$img" >/dev/null ;;
	esac
	dev=$(losetup -f --show "$img")
	# The mount holds it from here on, and frees it in the end.
	on "$host" mount -t "$fs" ${opts:+-o "$opts"} "$dev" "$dir" || {
		losetup -d "$dev"
		return 1
	}
	losetup -d "$dev"
}

move()
{
	on a vzmigrate --kind=dir --quiet "$@"
}

diff_tree()
{
	"$TOOLS/treecmp" ${3:+--ignore="$3"} "$(view a)$1" "$(view b)$2"
}

same_tree()
{
	local rc=0 out
	out=$(diff_tree "$@") || rc=$?
	[ $rc = 0 ] || fail "$1 and $2 differ: $out"
}

look_at()
{
	# Reading a directory or a link may set its access time.
	find "$(view "$1")$2" \( -type f -printf '%A@ ' -o -printf '- ' \) \
		-printf '%P %y %i %n %U %G %m %s %b %T@ %C@ %l\n' | sort
}

untouched()
{
	local now=$3.now
	look_at "$1" "$2" >"$now"
	cmp -s "$3" "$now" || fail "$2 was touched:
$(diff "$3" "$now" | head -n 20)"
}

nothing_left()
{
	local dir
	dir=$(view b)$(dirname "$1")
	assert_eq '' "$(find "$dir" -mindepth 1 -maxdepth 1 \
		-name '.vzmigrate-*')" "staging area"
	assert_no_file "$(view b)$1"
	assert_eq '' "$(find "$(view b)/var/lib/vzmigrate/reserve" \
		-type f ! -name '.*' ! -name lock 2>/dev/null)" reservation
}

peak()
{
	on_bg "$1" bash -c '
		max=0
		while :; do
			for p in /proc/[0-9]*; do
				read -r comm 2>/dev/null <"$p/comm" || continue
				[ "$comm" = "$0" ] || continue
				while read -r key kb _; do
					[ "$key" = VmHWM: ] || continue
					[ "$kb" -gt $max ] || break
					max=$kb
					echo $max >"$1.new"
					mv "$1.new" "$1"
				done 2>/dev/null <"$p/status"
			done
			read -r -t 0.05 _ <> <(:) || :
		done' "$2" "$3"
	# shellcheck disable=SC2034 # for the caller
	PEAK_PID=$ON_PID
}

failing()
{
	[ -x "$TOOLS/failfs" ] || skip "built without fuse3"
	[ -c /dev/fuse ] || skip "no /dev/fuse"
	on "$1" mkdir -p "$3" "$4"
	on_bg "$1" "$TOOLS/failfs" -f -o "$2" "$3" "$4"
	FAILFS=$ON_BG
	wait_until 10 on "$1" mountpoint -q "$4"
}

healed()
{
	on "$1" umount "$2"
	wait "$FAILFS"
	[ -z "${3:-}" ] || on "$1" mount --bind "$3" "$2"
}
