# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: GPL-2.0-or-later
#
# safety.sh's words for a container that runs, for t_runwalk.sh and
# t_runfault.sh; sourced after it, and after walk.sh where that is used.
#
#   running_hosts           brings the hosts up, with the reference
#   fresh, owned_by, one_owner, nothing_left
#                           as there: the container runs, on one host alone
#   runs_on HOST CT, starts_on HOST CT, halt HOST CT
#   reboot_both             what was up is not any more; autostart has run
#   disk HOST DIR SIZE [MKFS-ARG ...]
#                           DIR there is on a disk of its own, which keeps back
#                           what is not synced for as long as it can
#   disk_gone HOST DIR
#   inside                  from now on host_dir shows what is mounted there

running_hosts()
{
	hosts_possible || skip "$HOSTS_WHY"
	# How long it is watched there: nobody need wait for it here.
	HOSTS_SSHD_ENV="${HOSTS_SSHD_ENV:-} VZMIGRATE_LIFE_MS=150"
	openvz_hosts
	hosts_up tmpfs a b
	openvz_hosts a b
	mkdir -p "$(host_dir b)/srv"
	reference
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

up_before()
{
	true
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

reboot_both()
{
	local h
	for h in a b; do
		halt $h c
		on $h lxc-autostart >/dev/null 2>&1 || :
	done
}

# image HOST DIR - the file of that disk.
image()
{
	echo "$BED_TMP/disk.$1${2//\//_}"
}

disk()
{
	local h=$1 dir=$2 size=$3 img
	shift 3
	img=$(image "$h" "$dir")
	truncate -s "$size" "$img"
	mkfs.ext4 -q -F "$@" "$img"
	on "$h" mkdir -p "$dir"
	on "$h" mount -o loop,commit=300 "$img" "$dir"
	on "$h" rmdir "$dir/lost+found"
}

# What ended a moment ago may hold it still.
disk_off()
{
	on "$1" umount "$2" 2>/dev/null
}

disk_gone()
{
	wait_until 10 disk_off "$1" "$2"
	rm -f "$(image "$1" "$2")"
}

inside()
{
	# shellcheck disable=SC2317 # called by everybody
	host_dir()
	{
		echo "/proc/${HOST_PID[$1]:?no such host}/root"
	}
}
