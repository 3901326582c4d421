# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A container that runs is moved: it is stopped late, started there, and of
# its data nothing is lost; and whatever fails, it runs here again.

# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=300

# shellcheck source=SCRIPTDIR/safety.sh
. "$VZ_TOP/tests/e2e/safety.sh"

setup_file()
{
	hosts_possible || skip "$HOSTS_WHY"
	openvz_hosts
	hosts_up tmpfs a b
	openvz_hosts a b
	mkdir -p "$(host_dir b)/srv"
}

# writer_init - prints an init that counts into a file all the time, notes
# each start and each orderly stop, and stops as lxc-stop asks.
writer_init()
{
	cat >"$TEST_TMP/init" <<-'END'
	#!/bin/sh
	trap 'echo stop >>/srv/log; exit 0' PWR TERM
	echo start >>/srv/log
	read -r n </srv/count 2>/dev/null || n=0
	while :; do
		n=$((n + 1))
		echo "$n" >/srv/count.new
		echo "$n" >>/srv/all
		mv /srv/count.new /srv/count
		if [ $((n % 50)) = 0 ]; then
			mkdir -p "/srv/d/$n"
			rm -rf "/srv/d/$((n - 500))"
			sleep 0.01
		fi
	done
	END
	echo "$TEST_TMP/init"
}

# runs CT - a container with the writer, running on a.
runs()
{
	local r
	stops "$1"
	lxc_make a "$1" "$(writer_init)"
	r=$(host_dir a)$CTS/$1/rootfs
	mkdir "$r/srv"
	ln -sf busybox "$r/bin/mv"
	head -c 3000000 /dev/urandom >"$r/srv/fixed"
	sha256sum <"$r/srv/fixed" >"$TEST_TMP/fixed.$1"
	on a lxc-start -n "$1"
	wait_until 10 writes a "$1"
}

# stops CT - ends and removes it on both hosts.
stops()
{
	local h
	for h in a b; do
		on $h lxc-stop -k -n "$1" 2>/dev/null || :
		rm -rf --one-file-system "$(host_dir $h)$CTS/${1:?}"
	done
}

count_of()
{
	cat "$(host_dir "$1")$CTS/$2/rootfs/srv/count" 2>/dev/null || echo 0
}

# writes HOST CT - its writer is at work.
writes()
{
	local n
	[ "$(lxc_state "$1" "$2" 2>/dev/null)" = RUNNING ] || return 1
	n=$(count_of "$1" "$2")
	_hosts_wait 5 counts_on "$1" "$2" "$n"
}

counts_on()
{
	[ "$(count_of "$1" "$2")" -gt "$3" ]
}

# runs_only_on HOST CT [STARTS] - there alone, and its data is whole: numbers
# without a gap, one start for each stop.
runs_only_on()
{
	local h=$1 ct=$2 o r
	o=$(other "$h")
	[ "$(lxc_state "$h" "$ct")" = RUNNING ] || fail "$ct does not run on $h"
	wait_until 10 writes "$h" "$ct"
	if [ "$(lxc_state "$o" "$ct" 2>/dev/null)" = RUNNING ]; then
		fail "$ct runs on $o, too"
	fi
	assert_no_file "$(conf_of "$o" "$ct")"
	r=$(host_dir "$h")$CTS/$ct/rootfs/srv
	assert_eq "$(<"$TEST_TMP/fixed.$ct")" "$(sha256sum <"$r/fixed")"
	# The last line may be under way.
	head -n -1 "$r/all" | awk '$1 != n + 1 { print "after", n, "comes", $1
		exit 1 } { n = $1 }' || fail "data of $ct were lost"
	if [ -n "${3:-}" ]; then
		assert_eq "$3" "$(grep -c start "$r/log")" "starts"
	fi
}

test_running_container_moves()
{
	runs c1
	mig c1
	want 0
	runs_only_on b c1 2
	assert_eq "start stop start" "$(xargs \
		<"$(host_dir b)$CTS/c1/rootfs/srv/log")"
	assert_match '^vzmigrate: moved CT c1 to root@b: .* downtime=[0-9.]+ ' \
		"$OUT"
	nothing_left
	stops c1
}
