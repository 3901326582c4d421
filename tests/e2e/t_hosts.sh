# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The test bed itself: what other tests take for granted.
# run: no-asan
# shellcheck disable=SC2016 # what hosts expand

# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=300
[ -z "${VZ_TEST_FULL:-}" ] || TEST_TIMEOUT=900

setup_file()
{
	hosts_possible || skip "$HOSTS_WHY"
	hosts_up tmpfs a b=ext4 j
}

test_ssh_from_a_to_b()
{
	assert_eq b "$(on a ssh b hostname)" name
	assert_eq b "$(on a ssh "$(host_addr b)" hostname)" IPv4
	assert_eq b "$(on a ssh "$(host_addr b 6)" hostname)" IPv6
	assert_exit 7 on a ssh b exit 7
}

test_ssh_through_j()
{
	assert_eq b "$(on a ssh -J j b hostname)"
}

test_b_may_not_log_in_on_a()
{
	assert_exit 255 on b ssh -o BatchMode=yes \
		-o StrictHostKeyChecking=no a true
	assert_match 'Permission denied' "$ERR"
}

test_each_host_has_its_own_keys()
{
	local t
	for t in ed25519 rsa ecdsa; do
		assert_match "^ssh_host_${t}_key.pub$" \
			<(ls "$(host_dir a)/etc/ssh")
		! cmp -s "$(host_dir a)/etc/ssh/ssh_host_${t}_key" \
			"$(host_dir b)/etc/ssh/ssh_host_${t}_key" ||
			fail "one $t key on both hosts"
	done
}

test_exit_status_and_input_pass()
{
	assert_exit 42 on a sh -c 'exit 42'
	assert_eq "in put" "$(echo "in put" | on b cat)"
	assert_eq "a b  c" "$(on a printf %s "a b  c")"
}

test_hosts_are_isolated()
{
	local d
	for d in /var/lib/lxc /run/lxc /run/lock /var/lib/vzmigrate \
		/run/vzmigrate /var/log/vzmigrate /etc/vz /vz /var/tmp \
		/root/.ssh /home /srv; do
		on a mkdir -p $d
		on a touch $d/only-on-a
		assert_exit 1 on b test -e $d/only-on-a
		assert_no_file $d/only-on-a
		assert_file "$(host_dir a)$d/only-on-a"
	done
	assert_exit 1 on b sh -c 'ps ax | grep -q "[i]nit .* a$"'
	on a sh -c 'hostname | grep -qx a'
}

test_file_systems_as_asked()
{
	assert_eq tmpfs "$(on a stat -f -c %T /var/lib/lxc)"
	assert_eq ext2/ext3 "$(on b stat -f -c %T /var/lib/lxc)"
	# One file system, as on a real host: a rename across works.
	on b sh -c 'mkdir -p /vz && touch /vz/x && mv /vz/x /var/lib/lxc/x'
	assert_eq "$(on b stat -c %d /vz)" "$(on b stat -c %d /var/lib/lxc)"
}

test_scratch_is_seen_everywhere()
{
	echo hello >"$TEST_TMP/f"
	assert_eq hello "$(on b cat "$TEST_TMP/f")"
	on b sh -c "echo back >$TEST_TMP/g"
	assert_eq back "$(cat "$TEST_TMP/g")"
}

test_agent_of_this_build_comes_first()
{
	assert_match "^$VZ_BUILDDIR/vzmigrate:" \
		<(on a ssh b 'echo "$PATH"')
}

# Both run at once under one name, in cgroups and sockets of their own.
test_containers_of_one_name_on_both_hosts()
{
	local h
	lxc_make a c1
	lxc_make b c1
	assert_eq STOPPED "$(lxc_state a c1)"
	for h in a b; do
		assert_exit 0 on $h lxc-start -n c1
	done
	for h in a b; do
		wait_until 10 running $h c1
		assert_eq c1 "$(on $h lxc-attach -n c1 -- hostname)"
	done
	assert_exit 0 on a lxc-stop -n c1 -t 10
	assert_eq STOPPED "$(lxc_state a c1)"
	assert_eq RUNNING "$(lxc_state b c1)"
	assert_exit 0 on b lxc-stop -k -n c1
	assert_eq STOPPED "$(lxc_state b c1)"
}

running()
{
	[ "$(lxc_state "$1" "$2")" = RUNNING ]
}

# LXC asks with SIGPWR first: init must have ended by itself.
test_container_ends_by_itself()
{
	cat >"$TEST_TMP/init" <<-'END'
	#!/bin/sh
	trap 'echo asked >/root/ended; exit 0' PWR
	echo up >/root/started
	while :; do sleep 1 & wait $!; done
	END
	lxc_make a c2 "$TEST_TMP/init"
	on a lxc-start -n c2
	wait_until 10 test -s "$(host_dir a)/var/lib/lxc/c2/rootfs/root/started"
	on a lxc-stop -n c2 -t 30
	assert_eq asked "$(cat "$(host_dir a)/var/lib/lxc/c2/rootfs/root/ended")"
}

test_orphans_are_reaped()
{
	on a sh -c '(sleep 0.1 & ) ; true'
	wait_until 5 no_zombies
}

no_zombies()
{
	! on a ps -eo stat= | grep -q '^Z'
}

test_background_command_has_a_pid()
{
	local rc=0
	on_bg a sleep 100
	assert_eq sleep "$(cat "/proc/$ON_PID/comm")"
	kill -TERM "$ON_PID"
	wait "$ON_BG" || rc=$?
	assert_eq 143 $rc
}

test_sshd_settings()
{
	host_sshd_conf b 'Ciphers aes128-ctr
SetEnv PATH=/usr/bin FROM=extra
Match User nobody
ForceCommand /bin/false'
	host_sshd_restart b
	assert_eq "/usr/bin extra" "$(on a ssh b 'echo $PATH $FROM')"
	assert_exit 255 on a ssh -o Ciphers=aes256-ctr b true
	assert_match 'no matching cipher' "$ERR"
	host_sshd_conf b ''
	host_sshd_restart b
	assert_exit 0 on a ssh -o Ciphers=aes256-ctr b true
}

test_second_sshd()
{
	host_sshd_extra b 2222 'Banner /etc/hostname'
	assert_exit 0 on a ssh -p 2222 -o HostKeyAlias=b b true
	assert_match '^b$' "$ERR"
	host_sshd_stop b 2222
	assert_exit 255 on a ssh -p 2222 -o HostKeyAlias=b b true
	assert_match 'refused' "$ERR"
	assert_exit 0 on a ssh b true
	assert_match 'Accepted publickey' "$(host_sshd_log b)"
}

test_user_that_is_not_root()
{
	on b useradd -m -p '*' -s /bin/sh guest
	on b install -d -m 700 -o guest /home/guest/.ssh
	on b install -m 600 -o guest /root/.ssh/authorized_keys \
		/home/guest/.ssh/
	assert_eq guest "$(on a ssh guest@b id -un)"
	assert_exit 1 grep -q ^guest: /etc/passwd
}

test_syslog()
{
	local log
	log=$(host_syslog a)
	on a logger -t probe "one line"
	wait_until 5 grep -q 'probe: one line' "$log"
}

# 4 MiB at 40 Mbit/s take 0.8 s, and a busy machine makes it only longer.
test_link_rate()
{
	local ms
	link_rate 40mbit
	ms=$(transfer_ms)
	[ "$ms" -ge 500 ] || fail "shaped: $ms ms"
	assert_match 'tbf.*rate 40Mbit' <(on a tc qdisc show dev eth0)
	link_rate none
	assert_no_match tbf <(on a tc qdisc show dev eth0)
}

transfer_ms()
{
	local t=${EPOCHREALTIME/[.,]/}
	on a sh -c 'head -c 4194304 /dev/zero | ssh b "cat >/dev/null"'
	echo $(((${EPOCHREALTIME/[.,]/} - t) / 1000))
}

test_link_cut()
{
	link_cut b
	assert_exit 255 on a ssh -o ConnectTimeout=1 b true
	link_join b
	wait_until 20 on a ssh -o ConnectTimeout=1 b true
}

# bed_script WORDS ... - a shell of its own that brings hosts up, says the
# name of its directory and then does WORDS.
bed_script()
{
	cat >"$TEST_TMP/bed.sh" <<-END
	set -eu
	. "$VZ_TOP/tests/e2e/hosts.sh"
	hosts_up ${BED_FS:-ext4} a b
	echo "\$BED" >"$TEST_TMP/bed"
	$*
	END
	# A group of its own, and SIGINT not ignored as in plain `&`.
	set -m
	bash "$TEST_TMP/bed.sh" </dev/null >"$TEST_TMP/bed.log" 2>&1 &
	bed_pid=$!
	set +m
}

bed_of()
{
	compgen -G "${TMPDIR:-/tmp}/vzbed.$1.*"
}

test_nothing_left_after_down()
{
	BED_FS=xfs bed_script 'lxc_make a c; on a lxc-start -n c
		on a sleep 1000 & host_syslog b; on b setsid sleep 1000 &'
	wait "$bed_pid" || fail "$(cat "$TEST_TMP/bed.log")"
	no_leftovers "$(cat "$TEST_TMP/bed")"
}

test_nothing_left_after_sigkill()
{
	bed_script 'lxc_make a c; on a lxc-start -n c; echo up; sleep 1000'
	wait_until 30 grep -q up "$TEST_TMP/bed.log"
	kill -KILL -- "-$bed_pid"
	no_leftovers "$(cat "$TEST_TMP/bed")"
}

# interrupted SIGNAL SECONDS - in the middle of hosts_up, the signal to the
# whole group as a terminal sends it.
interrupted()
{
	local bed
	bed_script 'sleep 1000'
	wait_until 10 bed_of "$bed_pid" >/dev/null
	bed=$(bed_of "$bed_pid")
	sleep "$2"
	kill -"$1" -- "-$bed_pid"
	wait "$bed_pid" || :
	no_leftovers "$bed"
}

test_nothing_left_after_sigint_in_up()
{
	interrupted INT 0.2
	interrupted INT 0.6
}

test_nothing_left_after_sigterm_in_up()
{
	interrupted TERM 0.4
}

full_nothing_left_whenever_it_ends()
{
	local i s
	for ((i = 0; i < 25; i++)); do
		for s in INT TERM KILL; do
			interrupted $s "$((i / 10)).$((i % 10))"
		done
	done
}

test_two_sets_at_once()
{
	bed_script 'assert=$(on a ssh b hostname); echo "other $assert"
		sleep 1000'
	wait_until 30 grep -q '^other b' "$TEST_TMP/bed.log"
	assert_eq b "$(on a ssh b hostname)"
	kill -TERM -- "-$bed_pid"
	wait "$bed_pid" || :
	no_leftovers "$(cat "$TEST_TMP/bed")"
	assert_eq b "$(on a ssh b hostname)"
}

test_up_twice_is_refused()
{
	assert_exit 1 hosts_up
	assert_match 'there are hosts already' "$ERR"
}

test_half_way_failure_leaves_nothing()
{
	bed_script :
	wait "$bed_pid" || fail "$(cat "$TEST_TMP/bed.log")"
	# A file that is not a file system: mount fails.
	sed -i "s/^hosts_up .*/HOSTS_SIZE=1k hosts_up ext4 a b/" \
		"$TEST_TMP/bed.sh"
	assert_exit 1 bash "$TEST_TMP/bed.sh"
	assert_match 'could not bring the hosts up' "$ERR"
	wait_until 10 no_bed_of_mine
}

no_bed_of_mine()
{
	! losetup -n -O BACK-FILE | grep -q 'vzbed.*deleted'
}
