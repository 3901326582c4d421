# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A container that runs is moved: it is stopped late, started there, and of
# its data nothing is lost; and whatever fails, it runs here again.

# run: asan-full
# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=300

# shellcheck source=SCRIPTDIR/safety.sh
. "$VZ_TOP/tests/e2e/safety.sh"

setup_file()
{
	hosts_possible || skip "$HOSTS_WHY"
	openvz_hosts
	# Programs put there by shim.
	HOSTS_PATH=/root/shim:$HOSTS_PATH
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
	# Noted, so that it ends between two rounds, not in one.
	trap 'end=1' PWR TERM
	end=
	echo start >>/srv/log
	n=0
	# Where it was killed in a round, the list is what counts.
	[ ! -e /srv/all ] || while read -r l; do n=$l; done </srv/all
	while [ -z "$end" ]; do
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
	echo stop >>/srv/log
	END
	echo "$TEST_TMP/init"
}

# runs CT [veth] - a container with the writer, running on a.
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
	[ "${2:-}" != veth ] || sed -i 's/^lxc.net.0.type.*/lxc.net.0.type = veth\
lxc.net.0.link = lxcbr9\
lxc.net.0.flags = up/' "$(host_dir a)$CTS/$1/config"
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
	# As Debian has it: with a hook that is slow.
	on a lxc-stop -k -n c1
	sed -i '/^lxc.hook.post-stop =$/d' "$(conf_of a c1)"
	rm "$(host_dir a)$CTS/c1/rootfs/srv/log"
	on a lxc-start -n c1
	wait_until 10 writes a c1
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

# downtime_with OPTION ... - of a container that writes 6 MB when it is told to
# stop, moved at 2 MB a second.
downtime_with()
{
	local r
	stops c9
	cat >"$TEST_TMP/init" <<-'END'
	#!/bin/sh
	trap 'cat /srv/fixed /srv/fixed >/srv/late; exit' PWR TERM
	echo up >/srv/up
	while :; do sleep 0.05; done
	END
	lxc_make a c9 "$TEST_TMP/init"
	r=$(host_dir a)$CTS/c9/rootfs
	mkdir "$r/srv"
	ln -sf busybox "$r/bin/cat"
	head -c 3000000 /dev/urandom >"$r/srv/fixed"
	on a lxc-start -n c9
	wait_until 10 test -s "$r/srv/up"
	mig --limit-speed=2M --nocompress --noiter "$@" c9
	want 0
	assert_eq 6000000 "$(stat -c %s "$(host_dir b)$CTS/c9/rootfs/srv/late")"
	stops c9
	downtime=$(sed -n 's/^vzmigrate: moved .* downtime=\([0-9]*\)\.\([0-9]\).*/\1\2/p' \
		"$OUT")
}

# In tenths of a second. While its users wait the limit is lifted.
test_limit_at_the_cut_over()
{
	downtime_with --limit-cutover
	[ "$downtime" -ge 25 ] || fail "6 MB at 2 MB/s in $downtime/10 s"
	downtime_with
	[ "$downtime" -lt 25 ] || fail "limited: $downtime/10 s"
}

# own_net HOST - LXC looks for a bridge in /sys, which is the machine's: so the
# host's own is put over it.
own_net()
{
	# shellcheck disable=SC2016 # expanded there
	on "$1" sh -c 'mkdir -p /mnt/sys && mount -t sysfs sys /mnt/sys &&
		for d in class/net devices/virtual/net; do
			mount --bind /mnt/sys/$d /sys/$d || exit
		done'
}

# On a bridge.
test_with_a_veth()
{
	local h
	for h in a b; do
		on $h ip link add lxcbr9 type bridge
		on $h ip link set lxcbr9 up
		own_net $h
	done
	runs c2 veth
	mig c2
	want 0
	runs_only_on b c2 2
	on b ip link show master lxcbr9 | grep -q . || fail "no veth on b"
	nothing_left
	stops c2
	for h in a b; do
		on $h ip link del lxcbr9
	done
}

test_nostart()
{
	runs c3
	mig --nostart c3
	want 0
	assert_eq STOPPED "$(lxc_state b c3)"
	assert_no_file "$(conf_of a c3)"
	assert_no_match 'downtime' "$OUT"
	assert_eq "start stop" "$(xargs \
		<"$(host_dir b)$CTS/c3/rootfs/srv/log")"
	nothing_left
	stops c3
}

test_frozen_stays_frozen()
{
	runs c4
	on a lxc-freeze -n c4
	mig c4
	want 0
	assert_eq FROZEN "$(lxc_state b c4)"
	on b lxc-unfreeze -n c4
	runs_only_on b c4
	nothing_left
	stops c4
}

# It does not listen: after the time-out the runtime stops it by force.
test_stop_by_force()
{
	runs c5
	on a lxc-stop -k -n c5
	sed -i 's/trap .*/trap "" PWR TERM/' \
		"$(host_dir a)$CTS/c5/rootfs/sbin/init"
	on a lxc-start -n c5
	wait_until 10 writes a c5
	mig -v --stop-timeout=1 c5
	want 0
	assert_match 'c5 does not stop within 1 s as asked, so it is stopped by force' "$ERR"
	stopped_in c5 1000 6000
	runs_only_on b c5
	nothing_left
	stops c5
}

# stopped_in CT FROM TO - its stop took as many ms.
stopped_in()
{
	local ms
	ms=$(sed -n "s/^vzmigrate: $1 stopped, \\([0-9]*\\) ms\$/\\1/p" "$ERR")
	if [ -z "$ms" ] || [ "$ms" -lt "$2" ] || [ "$ms" -gt "$3" ]; then
		fail "stopped in ${ms:-?} ms, wanted $2 to $3"
	fi
}

# Nor does the runtime's tool, not even to a SIGTERM.
full_stop_by_a_tool_that_hangs()
{
	runs c5
	# shellcheck disable=SC2016 # expanded there
	shim a lxc-stop 'case " $* " in *" -k "*) exec "$REAL" "$@" ;; esac
		trap "" TERM
		sleep 100'
	mig -v --stop-timeout=1 c5
	unshim
	want 0
	assert_match 'c5 does not stop within 1 s as asked' "$ERR"
	stopped_in c5 6000 14000
	runs_only_on b c5
	nothing_left
	stops c5
}

# It is asked as LXC asks where its configuration does not say how, and its init
# hears that only later.
test_stop_that_is_slow()
{
	runs c5
	on a lxc-stop -k -n c5
	sed -i 's/^echo stop.*/sleep 1.5\n&/' \
		"$(host_dir a)$CTS/c5/rootfs/sbin/init"
	on a lxc-start -n c5
	wait_until 10 writes a c5
	mig -v c5
	want 0
	stopped_in c5 1500 20000
	assert_no_match 'by force' "$ERR"
	runs_only_on b c5
	nothing_left
	stops c5
}

# shim HOST PROGRAM TEXT - PROGRAM is this shell script there, until unshim;
# in it "$REAL" is the real one.
shim()
{
	local real
	real=$(command -v "$2")
	mkdir -p "$(host_dir "$1")/root/shim"
	printf '#!/bin/sh\nREAL=%s\n%s\n' "$real" "$3" \
		>"$(host_dir "$1")/root/shim/$2"
	chmod 755 "$(host_dir "$1")/root/shim/$2"
}

unshim()
{
	rm -rf "$(host_dir a)/root/shim" "$(host_dir b)/root/shim"
}

# A stop that never ends: it runs here as before.
test_stop_that_never_ends()
{
	runs c6
	shim a lxc-stop 'exit 1'
	mig --stop-timeout=1 c6
	unshim
	want 8
	assert_match 'c6 is running still.*; the source is as it was' "$ERR"
	runs_only_on a c6 1
	nothing_left
	again_runs c6
}

# again_runs CT - the same command moves it now.
again_runs()
{
	A_FAULT='' B_FAULT='' AGENT=''
	mig -r yes "$1"
	want 0 "the second run"
	runs_only_on b "$1"
	nothing_left
	stops "$1"
}

test_start_fails_there()
{
	runs c7
	shim b lxc-start 'echo "no such luck" >&2; exit 1'
	mig c7
	want 7
	assert_match 'start of c7: lxc-start of c7 failed: no such luck.*; the source is as it was' "$ERR"
	unshim
	runs_only_on a c7 2
	assert_no_file "$(host_dir b)$CTS/c7"
	nothing_left
	again_runs c7
}

# It starts, and its init ends within 2 s: what it did is kept.
test_start_dies_there()
{
	local d
	runs c8
	sed -i 's/^echo start.*/echo start >>\/srv\/log\nif [ -e \/only-a ]; then sleep 1; exit; fi/' \
		"$(host_dir a)$CTS/c8/rootfs/sbin/init"
	shim b lxc-start "touch $CTS/c8/rootfs/only-a; exec \$REAL \"\$@\""
	mig c8
	unshim
	want 7
	assert_match 'start of c8: c8 was started, but did not live for 2000 ms: it is stopped; the source is as it was' "$ERR"
	assert_match 'b: c8 ran here; what it did is kept in /var/lib/lxc/.vzmigrate-ran-[0-9a-f]+/tree' "$ERR"
	runs_only_on a c8 2
	assert_no_file "$(host_dir b)$CTS/c8"
	d=$(echo "$(host_dir b)$CTS"/.vzmigrate-ran-*)
	assert_eq "start stop start" "$(xargs <"$d/tree/srv/log")"
	rm -rf "$d"
	nothing_left
	again_runs c8
}

# F13: all the while its root makes a directory and a link to /etc of one name,
# D3, D5: and files come, go, grow and shrink.
test_hostile_while_it_runs()
{
	local h r p
	stops c11
	cat >"$TEST_TMP/init" <<-'END'
	#!/bin/sh
	trap 'end=1' PWR TERM
	end=
	cd /var/spool
	n=0
	while [ -z "$end" ]; do
		n=$((n + 1))
		mkdir x 2>/dev/null && echo mine >x/passwd && echo mine >x/new
		rm -rf x
		ln -s /etc x
		rm x
		ln -s /etc/passwd y
		rm y
		echo "$n" >y
		echo "$n" >>grows
		echo >shrinks
		mv y z
		echo "$n" >count
	done
	END
	lxc_make a c11 "$TEST_TMP/init"
	r=$(host_dir a)$CTS/c11/rootfs
	mkdir "$r/var/spool"
	for p in ln mv rm mkdir; do
		ln -sf busybox "$r/bin/$p"
	done
	for h in a b; do
		echo "secret of $h" >"$(host_dir $h)/etc/only-$h"
		sha256sum <"$(host_dir $h)/etc/passwd" >"$TEST_TMP/passwd.$h"
	done
	on a lxc-start -n c11
	wait_until 10 test -s "$r/var/spool/count"
	mig --max-downtime=0 --rounds=4 c11
	want 0
	r=$(host_dir b)$CTS/c11/rootfs
	wait_until 10 lxc_is RUNNING b c11
	for h in a b; do
		[ -z "$(find "$r" -name "only-$h")" ] ||
			fail "what is /etc of $h came over"
		assert_no_file "$(host_dir $h)/etc/new"
		assert_eq "$(<"$TEST_TMP/passwd.$h")" \
			"$(sha256sum <"$(host_dir $h)/etc/passwd")"
		rm "$(host_dir $h)/etc/only-$h"
	done
	nothing_left
	stops c11
}

# D6: something is mounted in its tree, and is unmounted by a hook a while after
# the container has stopped; what was beneath is found in the final pass.
test_hook_unmounts_late()
{
	local d
	runs c12
	on a lxc-stop -k -n c12
	d=$(host_dir a)$CTS/c12
	rm "$d/rootfs/srv/log"
	mkdir "$d/rootfs/srv/under"
	echo beneath >"$d/rootfs/srv/under/file"
	cat >"$d/hook" <<-END
	#!/bin/sh
	sleep 1
	umount $CTS/c12/rootfs/srv/under || :
	END
	chmod 755 "$d/hook"
	sed -i "s|^lxc.hook.post-stop =\$|lxc.hook.post-stop = $CTS/c12/hook|" \
		"$d/config"
	on a lxc-start -n c12
	wait_until 10 writes a c12
	on a mount -t tmpfs none "$CTS/c12/rootfs/srv/under"
	mig c12
	want 0
	assert_match 'srv/under.*mount' "$ERR"
	assert_eq beneath "$(cat "$(host_dir b)$CTS/c12/rootfs/srv/under/file")"
	runs_only_on b c12 2
	nothing_left
	stops c12
}

# openvz, by the stand-in.
vz_runs()
{
	local r d
	d=$(host_dir a)
	r=$d/vz/private/$1
	lxc_make a tmp
	mv "$d$CTS/tmp/rootfs" "$r"
	rm -r "$d$CTS/tmp"
	cat >"$d/etc/vz/conf/$1.conf" <<-'END'
	VE_ROOT="/vz/root/$VEID"
	VE_PRIVATE="/vz/private/$VEID"
	END
	on a vzctl "$2" "$1" >/dev/null
}

vz_is()
{
	assert_eq "CTID $2 exist $3" "$(on "$1" vzctl status "$2")"
}

test_openvz()
{
	vz_runs 401 start
	vz_is a 401 "mounted running"
	mig 401
	want 0
	vz_is b 401 "mounted running"
	nothing_left
	on b vzctl stop 401 >/dev/null
	vz_runs 402 mount
	mig 402
	want 0
	vz_is b 402 "mounted down"
	nothing_left
	on b vzctl umount 402 >/dev/null
}

test_openvz_start_fails()
{
	vz_runs 403 start
	printf '#!/bin/sh\nexit 1\n' >"$(host_dir b)/etc/vz/conf/403.premount"
	chmod 755 "$(host_dir b)/etc/vz/conf/403.premount"
	mig 403
	want 7
	rm "$(host_dir b)/etc/vz/conf/403.premount"
	assert_match 'vzctl start 403 failed with code 79' "$ERR"
	vz_is a 403 "mounted running"
	nothing_left
	mig 403
	want 0
	vz_is b 403 "mounted running"
	nothing_left
	on b vzctl stop 403 >/dev/null
}

# --- before anything is done ------------------------------------------------

# N4, U10: all findings at once, each with what to do next.
test_checks()
{
	local c d
	runs c9
	d=$(host_dir b)
	# In the way over there: a container with its MAC and its address.
	lxc_make b other
	cat >>"$d$CTS/other/config" <<-'END'
	lxc.net.1.type = veth
	lxc.net.1.hwaddr = 00:16:3E:AA:BB:CC
	lxc.net.1.ipv4.address = 10.9.8.7/24
	END
	c=$(conf_of a c9)
	cat >>"$c" <<-'END'
	lxc.net.1.type = veth
	lxc.net.1.link = lxcbr77
	lxc.net.1.hwaddr = 00:16:3e:aa:bb:cc
	lxc.net.1.ipv4.address = 10.9.8.7/24
	lxc.mount.entry = /srv/shared srv none bind 0 0
	END
	mig --check-only c9
	want 19
	assert_match 'the network device lxcbr77 that the configuration names is not there; make it' "$ERR"
	assert_match 'the MAC address 00:16:3e:aa:bb:cc is in use by lxc container other' "$ERR"
	assert_match 'the address 10.9.8.7/24 is in use by lxc container other' "$ERR"
	assert_match 'the mount /srv/shared that the configuration uses is not there' "$ERR"
	assert_match 'c9: 4 checks failed, nothing was changed' "$ERR"
	runs_only_on a c9 1
	mig --check-only --nodeps=net,bindmount,mac c9
	want 12
	mig --check-only --nodeps=net,bindmount,mac,ip c9
	want 0
	mig --check-only -f c9
	want 0
	rm -rf "$d$CTS/other"
	# What stays stopped there needs no bridge yet.
	on a lxc-stop -k -n c9
	mig --check-only --nodeps=bindmount c9
	want 0
	assert_match 'lxcbr77.* before the container is started' "$ERR"
	# An address of the host itself.
	sed -i "s|10.9.8.7/24|$(host_addr b)/24|" "$c"
	mig --check-only --nodeps=bindmount c9
	want 12
	assert_match "the address $(host_addr b)/24 is in use by this host's eth0" "$ERR"
	nothing_left
	stops c9
}

test_more_rounds()
{
	runs c10
	mig --max-downtime=0 --rounds=5 -t c10
	want 0
	assert_match ' passes=[3-6] ' "$OUT"
	# -t: the downtime is the last of the stages.
	grep -E '^  [a-z ]+  +[0-9.]+ s( |$)' "$OUT" | tail -n 1 |
		grep -q '^  downtime ' || fail "$(cat "$OUT")"
	runs_only_on b c10 2
	stops c10
	runs c10
	mig --max-downtime=0 --noiter c10
	want 0
	assert_match ' passes=2 ' "$OUT"
	runs_only_on b c10 2
	nothing_left
	stops c10
}
