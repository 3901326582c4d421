# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Whatever dies, whenever: one host owns the container, and the same command
# again ends it well. It needs a build with fault points.

# run: asan-only
# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=600

# shellcheck source=SCRIPTDIR/safety.sh
. "$VZ_TOP/tests/e2e/safety.sh"
# shellcheck source=SCRIPTDIR/walk.sh
. "$VZ_TOP/tests/e2e/walk.sh"

setup_file()
{
	hosts_possible || skip "$HOSTS_WHY"
	openvz_hosts
	hosts_up tmpfs a b c
	openvz_hosts a b
	mkdir -p "$(host_dir b)/srv"
	reference
	traces
}

# --- the walk ---------------------------------------------------------------

# What is passed depends on what goes wrong; each line: a name, faults on a and
# b that lead there, options.
scenarios()
{
	cat <<-END
	clean - - -
	back src.take-over=fail - -
	undo - dst.commit.after-kind=fail -
	refused - dst.reserve.stage-made=fail -
	kept src.proof=fail - --keep-dst
	lost src.proof=kill - -
	END
}

test_every_point_is_walked()
{
	# What only one that runs passes is walked in t_runwalk.sh.
	all_points_walked '^(src\.(stop|stopped|start|started|round|synced)|dst\.start\..*|dst\.undo\.stop|journal\.(stopping|start|started|start-failed|running)\..*)$'
}

# The quick suite goes to a point of each step, and to each kind of fault; what
# is near the change of hands more densely. t_runwalk.sh goes to others.
test_walk_source_dies()
{
	at die_on_a clean a src.reserve:1 send.chunk:1 journal.blocked.torn:1 \
		journal.retiring.before:1 journal.retired.after:1 \
		src.take-over:1 journal.committed.torn:1 src.destroy:1
}

test_walk_agent_dies()
{
	at die_on_b clean b dst.fence.after-end:1 journal.file.torn:1 \
		recv.chunk:1 journal.proven.before:1 journal.commit.after:1 \
		dst.commit.after-flags:1 journal.finished.before:1
}

test_walk_source_fails()
{
	at fail_on_a clean a journal.open.torn:1 send.chunk:1 src.proof:1 \
		src.take-over:1
}

test_walk_agent_fails()
{
	at fail_on_b clean b recv.batch:1 journal.pass.before:1 \
		dst.commit.after-kind:1
}

test_walk_ways_back()
{
	at die_on_a back a src.never:1 journal.given-up.torn:1
	at die_on_b back b dst.abort.unstaged:1
	at die_on_b undo b journal.undo.torn:1
	at die_on_b refused b journal.unreserved.after:1
	at die_on_b kept b journal.kept.before:1
}

# The other kinds.
other_kind()
{
	at die_on_a clean a journal.retired.after:1 src.take-over:1
	at die_on_b clean b dst.commit.after-kind:1 journal.committed.torn:1
}

test_walk_openvz()
{
	CT=301
	other_kind
}

test_walk_dir()
{
	CT=/srv/box
	other_kind
}

full_walk_openvz()
{
	CT=301
	each die_on_a clean a 1
	each die_on_b clean b 1
}

full_walk_dir()
{
	CT=/srv/box
	each die_on_a clean a 1
	each die_on_b clean b 1
}

full_walk_source_dies() { each die_on_a clean a 1; }
full_walk_agent_dies() { each die_on_b clean b 1; }
full_walk_source_fails() { each fail_on_a clean a 1; }
full_walk_agent_fails() { each fail_on_b clean b 1; }
full_walk_back_source_dies() { each die_on_a back a 1; }
full_walk_back_agent_dies() { each die_on_b back b 1; }
full_walk_back_source_fails() { each fail_on_a back a 1; }
full_walk_back_agent_fails() { each fail_on_b back b 1; }

full_walk_others()
{
	local s h
	for s in undo refused kept; do
		for h in a b; do
			[ -n "$(points $s $h)" ] || continue
			each die_on_$h $s $h 1
			each fail_on_$h $s $h 1
		done
	done
}

# --- the link breaks --------------------------------------------------------

# cut_at HOST POINT CODES - the cable is pulled while both wait at that point.
cut_at()
{
	local h=$1 point=$2 t
	fresh c
	if [ "$h" = a ]; then
		SOON=1 held "$point" "${SHORT_LINK[@]}" c
	else
		SOON=1 B_HOLD=1 held "$point" "${SHORT_LINK[@]}" c
	fi
	link_cut b
	t=$SECONDS
	if [ "$h" = a ]; then
		go_on
	else
		# It is the client that must notice.
		ended
		rm "$HOLD"
	fi
	link_join b
	[ $((SECONDS - t)) -le 20 ] || fail "$point: $((SECONDS - t)) s"
	want "$3" "$point"
	case $RC in
	0) assert_match 'was not told that all is done' "$ERR" ;;
	65) assert_match 'run the same command again' "$ERR" ;;
	*)
		assert_match 'c: the link broke in step "[a-z ]+": b: ' "$ERR"
		assert_match 'no sign of life|takes no data|connection was lost' "$ERR"
		owned_by a c
		;;
	esac
	one_owner c
	if [ "$RC" = 0 ]; then
		owned_by b c
		on b rm -rf $STATE/sessions
	else
		again c
	fi
}

test_link_cut()
{
	cut_at b recv.chunk 6
	cut_at a src.take-over 65
}

full_link_cut_elsewhere()
{
	cut_at a src.pass 6
	cut_at b dst.pass.finished 6
	cut_at a src.reserve 6
	cut_at a src.block 6
	cut_at a send.chunk 6
	cut_at a src.proof 6
	cut_at a src.retire 65
	cut_at b dst.reserve.made 6
	cut_at b dst.commit.before-kind 65
	cut_at b dst.commit.after-kind 65
	cut_at a src.finish 0
}

test_link_is_not_there()
{
	fresh c
	link_cut b
	mig "${SHORT_LINK[@]}" c
	link_join b
	want 4
	owned_by a c
	again c
}

# T4: a middlebox forgets a connection that is idle for 600 ms, while this side
# or the other works for 2 s.
idle_for_2s()
{
	sleep 2
	go_on
}

test_middlebox()
{
	local proxy=(--ssh="-o 'ProxyCommand=idlecut 600 busybox nc %h %p'")
	fresh c
	SOON=1 held src.pass "${proxy[@]}" c
	idle_for_2s
	want 0 "a long scan"
	fresh c
	SOON=1 B_HOLD=1 held dst.pass.finished "${proxy[@]}" c
	idle_for_2s
	want 0 "long work there"
}

# Without keepalives it would have been cut, and this is found out.
full_middlebox_cuts()
{
	local proxy=(--ssh="-o 'ProxyCommand=idlecut 600 busybox nc %h %p'")
	fresh c
	HELD_ENV=VZMIGRATE_KEEPALIVE_MS=700
	held src.pass "${proxy[@]}" c
	HELD_ENV=''
	idle_for_2s
	want 6 "no keepalives"
	assert_match 'the link broke in step "[a-z ]+": b: (no sign of life|.* takes no data)' "$ERR"
	again c
}

# --- the other side stops, or is one of before ------------------------------

agent_pid()
{
	on b pgrep -x vzmigrate-agent
}

# T5
test_agent_stopped()
{
	local p
	for p in ${STOPS:-recv.chunk:2}; do
		fresh c
		AGENT=$(agent_once "$p=stop")
		SOON=1 mig c
		AGENT=''
		want 6 "$p"
		assert_match 'the link broke in step "[a-z ]+": b: no sign of life' \
			"$ERR"
		owned_by a c
		# It still stands there; the next run ends it.
		assert_eq 1 "$(agent_pid | wc -l)" "agents"
		again c
	done
}

full_agent_stopped_elsewhere()
{
	STOPS='dst.pass.finished dst.reserve.made recv.batch recv.ack journal.pass.before
		journal.proven.torn'
	test_agent_stopped
}

# Stopped in the middle of the commit, with the session's lock.
test_agent_stopped_in_the_commit()
{
	local p
	for p in ${STOPS:-dst.commit.before-kind}; do
		fresh c
		AGENT=$(agent_once "$p=stop")
		A_ENV=VZMIGRATE_REPLY_MS=20000
		SOON=1 mig c
		AGENT=''
		A_ENV=''
		want 0 "$p"
		owned_by b c
		nothing_left
	done
}

full_agent_stopped_later_in_the_commit()
{
	STOPS=dst.commit.after-kind
	test_agent_stopped_in_the_commit
}

# The order is in the socket of an agent that does not read; the same run
# connects again and ends that agent first.
test_order_in_a_stopped_agents_socket()
{
	local old
	fresh c
	SOON=1 held src.take-over c
	old=$(agent_pid)
	on b kill -STOP "$old"
	go_on
	want 0
	assert_exit 1 on b kill -0 "$old"
	owned_by b c
	nothing_left
}

sent_and_lost()
{
	grep -qE 'connection lost: b: (no sign of life|.* takes no data)' "$ERR"
}

# The same, and the source dies with it: another run must not be overtaken by
# the old order.
test_order_of_a_dead_source()
{
	local old
	fresh c
	HELD_ENV=VZMIGRATE_PAUSE_MS=20000
	SOON=1 held src.take-over -vv c
	HELD_ENV=''
	old=$(agent_pid)
	on b kill -STOP "$old"
	rm "$HOLD"
	wait_until 20 sent_and_lost
	kill -KILL "$MIG_PID"
	ended
	want 137
	# The new run goes as far as to be connected, then the old agent may
	# do what it wants to.
	held src.take-over c
	on b kill -CONT "$old" 2>/dev/null || :
	go_on
	want 0
	assert_exit 1 on b kill -0 "$old"
	owned_by b c
	nothing_left
}

test_two_at_once()
{
	local h rc
	fresh c
	held src.pass c
	# Nor to another host.
	for h in b c; do
		rc=0
		on a vzmigrate "$h" c >"$TEST_TMP/second" 2>&1 || rc=$?
		assert_eq 20 $rc "to $h: $(cat "$TEST_TMP/second")"
		assert_match '^vzmigrate: .*(lock|migrat)' "$TEST_TMP/second"
		assert_eq 1 "$(wc -l <"$TEST_TMP/second")" lines
	done
	go_on
	want 0
	owned_by b c
	nothing_left
}

test_open_session_with_another_host()
{
	local session
	fresh c
	A_FAULT=journal.retired.after=kill mig c
	want 137
	session=$(sed -n '/ session=/{s/.* session=\([0-9a-f]*\) .*/\1/p;q}' \
		"$(host_dir a)$STATE/source/lxc-c/journal")
	A_FAULT='' MIG_HOST=c mig c
	want 20
	assert_match "session $session to root@b" "$ERR"
	assert_no_file "$(host_dir c)$CTS/c"
	again c
}

# S6: each host is source and destination at the same time.
test_both_ways()
{
	local rc=0
	trust_back
	fresh c
	fresh d
	mv "$(host_dir a)$CTS/d" "$(host_dir b)$CTS/d"
	held src.block c
	on b vzmigrate a d >"$TEST_TMP/o2" 2>"$TEST_TMP/e2" || rc=$?
	assert_eq 0 $rc "$(cat "$TEST_TMP/e2")"
	go_on
	want 0
	owned_by b c
	owned_by a d
	# One container, there and back, while its first move was not ended.
	fresh c
	A_FAULT=src.finish=kill mig c
	want 137
	A_FAULT=''
	rc=0
	on b vzmigrate a c >"$TEST_TMP/o2" 2>"$TEST_TMP/e2" || rc=$?
	assert_eq 9 $rc "$(cat "$TEST_TMP/e2")"
	owned_by b c
	again c
	on b vzmigrate a c >"$TEST_TMP/o2" 2>"$TEST_TMP/e2" ||
		fail "back: $(cat "$TEST_TMP/e2")"
	owned_by a c
	nothing_left
}

# trust_back - b may log in on a, too.
trust_back()
{
	local d
	d=$(host_dir a)
	cat "$(host_dir b)/root/.ssh/id_ed25519.pub" \
		>>"$d/root/.ssh/authorized_keys"
	chmod 600 "$d/root/.ssh/authorized_keys"
	echo "a,$(host_addr a),$(host_addr a 6)" \
		"$(cut -d' ' -f1,2 "$d/etc/ssh/ssh_host_ed25519_key.pub")" \
		>>"$(host_dir b)/root/.ssh/known_hosts"
}

# --- the source cannot be removed (S1) --------------------------------------

test_source_removal_fails()
{
	local d
	d=$(host_dir a)$CTS/c
	fresh c
	echo 'lxc.start.auto = 1' >>"$d/config"
	on a mount -t tmpfs none "$CTS/c/rootfs/srv/empty"
	mig c
	want 66
	assert_match 'c was moved, but not everything was cleaned up here' "$ERR"
	assert_match 'the source copy could not be removed' "$ERR"
	# As after a reboot with autostart on.
	assert_eq '' "$(on a lxc-autostart -L)"
	assert_no_file "$d/config"
	if on a lxc-start -n c 2>/dev/null; then
		fail "it starts on a"
	fi
	assert_eq "$(stat -c %Y "$REF/srv/big")" \
		"$(stat -c %Y "$(host_dir b)$CTS/c/rootfs/srv/big")"
	startable b c || fail "it does not start on b"
	on a umount "$CTS/c/rootfs/srv/empty"
	mig c
	want 10
	clean_up
}

test_source_with_immutable_files()
{
	fresh c
	chattr +i "$(host_dir a)$CTS/c/rootfs/srv/own" ||
		skip "no immutable files on tmpfs here"
	chattr +i "$(host_dir a)$CTS/c/rootfs"
	mig c
	want 0
	assert_no_file "$(host_dir a)$CTS/c"
	lsattr -d "$(host_dir b)$CTS/c/rootfs" | grep -q '^[^ ]*i' ||
		fail "the root is not immutable on b"
	chattr -i "$(host_dir b)$CTS/c/rootfs" \
		"$(host_dir b)$CTS/c/rootfs/srv/own"
	nothing_left
}

# No program can set this, or get rid of it, but with the disk in its hands.
test_immutable_device()
{
	local d=/srv/disk img=$TEST_TMP/img
	truncate -s 8M "$img"
	mkfs.ext4 -q -F "$img"
	on a mkdir -p $d
	on a mount -o loop "$img" $d
	on a mknod $d/null c 1 3
	on a umount $d
	debugfs -w -R "set_inode_field null flags 0x10" "$img" \
		>"$TEST_TMP/debugfs" 2>&1
	on a mount -o loop "$img" $d
	if on a rm $d/null 2>/dev/null; then
		fail "it is not immutable: $(cat "$TEST_TMP/debugfs")"
	fi
	mig $d
	on a umount $d
	rmdir "$(host_dir a)$d"
	want 68
	assert_match 'null: it is immutable, and is no file or directory' "$ERR"
	assert_no_file "$(host_dir b)$d"
	nothing_left
}

# --- signals (S4) -----------------------------------------------------------

interrupted_at()
{
	fresh c
	held "$1" c
	kill -"$2" "$MIG_PID"
	wait_until 10 grep -q 'stopping, the source will be as it was' "$ERR"
	kill -"$2" "$MIG_PID"
	wait_until 10 grep -q 'already stopping' "$ERR"
	go_on
	want 70 "$1"
	tail -n 1 "$ERR" | grep -q 'vzmigrate: ' || fail "$(cat "$ERR")"
	owned_by a c
	nothing_left
	again c
}

test_signal_before_the_change_of_hands()
{
	interrupted_at src.reserve INT
	interrupted_at send.chunk TERM
	interrupted_at src.proof INT
}

too_late_at()
{
	fresh c
	held "$1" c
	kill -"$2" "$MIG_PID"
	wait_until 10 grep -q 'too late to go back' "$ERR"
	kill -"$2" "$MIG_PID"
	wait_until 10 grep -q 'already stopping' "$ERR"
	go_on
	want 0 "$1"
	owned_by b c
	nothing_left
}

test_signal_after_the_change_of_hands()
{
	too_late_at src.retire TERM
	too_late_at src.take-over INT
}

full_signals_elsewhere()
{
	interrupted_at src.block TERM
	interrupted_at src.pass HUP
	interrupted_at journal.proven.before INT
	too_late_at journal.retired.after INT
	too_late_at src.finish HUP
	too_late_at src.destroy TERM
}

# --- locks (S6) -------------------------------------------------------------

test_lock_directory()
{
	local d
	d=$(host_dir a)
	# Elsewhere, and not there yet.
	fresh 301
	sed -i 's|^LOCKDIR=.*|LOCKDIR=/vz/elsewhere|' "$d/etc/vz/vz.conf"
	held src.pass 301
	assert_file "$d/vz/elsewhere/301.lck"
	assert_no_file "$d/vz/lock/301.lck"
	go_on
	want 0
	# Read-only: another message than busy.
	fresh 301
	on a mount -t tmpfs -o ro none /vz/elsewhere
	mig 301
	on a umount /vz/elsewhere
	want "15 64"
	assert_match '/vz/elsewhere.*(Read-only|read-only)' "$ERR"
	assert_no_match 'locked by' "$ERR"
	sed -i 's|^LOCKDIR=.*|LOCKDIR=/vz/lock|' "$d/etc/vz/vz.conf"
	owned_by a 301
	# Of a dead process.
	echo 999999 >"$d/vz/lock/301.lck"
	mig 301
	want 0
	owned_by b 301
	nothing_left
}
