# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A container that runs, and what may come in its way besides: it is given up,
# interrupted, asked about; its disk fails, or the destination's is full.

# run: asan-only
# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=300

# shellcheck source=SCRIPTDIR/safety.sh
. "$VZ_TOP/tests/e2e/safety.sh"
# shellcheck source=SCRIPTDIR/walk.sh
. "$VZ_TOP/tests/e2e/walk.sh"
# shellcheck source=SCRIPTDIR/running.sh
. "$VZ_TOP/tests/e2e/running.sh"

setup_file()
{
	running_hosts
	CT=c SC_A='' SC_B='' SC_OPT=''
}

# --- given up (--abort) -----------------------------------------------------

given_up()
{
	fresh c
	A_FAULT=$1=kill mig c
	want 137
	A_FAULT=''
	mig --abort c
	want 0 "$1"
	assert_match '^vzmigrate: given up CT c: session=[0-9a-f]{32}$' "$OUT"
	owned_by a c
	nothing_left
	mig --abort c
	want 10
	assert_match 'c is in no unfinished migration here' "$ERR"
}

# json_is NAME=VALUE ... - $OUT is one object that has these.
json_is()
{
	python3 - "$OUT" "$@" <<-'END'
	import json, sys
	lines = open(sys.argv[1]).read().splitlines()
	assert len(lines) == 1, lines
	o = json.loads(lines[0])
	for kv in sys.argv[2:]:
	    k, v = kv.split("=", 1)
	    assert o[k] == v, (k, v, o)
	END
}

test_abort()
{
	given_up src.stopped
	given_up journal.retired.after
	again c
}

test_abort_json()
{
	fresh c
	A_FAULT=src.pass=kill mig c
	want 137
	A_FAULT=''
	mig --abort --json c
	want 0
	json_is event=summary 'result=given up' ct=c destination=root@b kind=lxc
	nothing_left
	mig --abort --json c
	want 10
	json_is event=summary result=failed ct=c owner=source
}

test_abort_is_too_late()
{
	fresh c
	A_FAULT=src.finish=kill mig c
	want 137
	A_FAULT=''
	mig --abort c
	want 69
	assert_match 'root@b has taken c over .* it cannot be given up' "$ERR"
	again c
}

# The other host cannot be reached: this one is put right all the same.
test_abort_without_the_link()
{
	fresh c
	A_FAULT=src.stopped=kill mig c
	want 137
	A_FAULT=''
	link_cut b
	mig "${SHORT_LINK[@]}" --abort c
	link_join b
	want 4
	assert_match 'the source is as it was' "$ERR"
	assert_match 'keeps the staging area' "$ERR"
	owned_by a c
	mig --abort c
	want 0
	owned_by a c
	nothing_left
}

test_take_back()
{
	local session
	fresh c
	A_FAULT=journal.retired.after=kill mig c
	want 137
	A_FAULT=''
	session=$(sed -n '/ session=/{s/.* session=\([0-9a-f]*\) .*/\1/p;q}' \
		"$(host_dir a)$STATE/source/lxc-c/journal")
	link_cut b
	mig --take-back=0badc0de --json c
	want 1
	json_is event=summary result=failed owner=unknown
	mig --take-back="$session" --json c
	link_join b
	want 0
	json_is event=summary 'result=taken back' ct=c destination=root@b \
		session="$session"
	owned_by a c
	clean_up
}

# --- the old agent holds its orders -----------------------------------------

# It stands in the middle of the start when its source dies; the next run ends
# it, finds the container up, and goes on.
test_agent_stopped_in_the_start()
{
	local p
	for p in ${STOPS:-dst.start.done}; do
		fresh c
		AGENT=$(agent_once "$p=stop")
		A_ENV=VZMIGRATE_REPLY_MS=20000
		SOON=1 mig c
		AGENT='' A_ENV=''
		want 0 "$p"
		owned_by b c
		nothing_left
	done
}

full_agent_stopped_elsewhere_in_the_start()
{
	STOPS='dst.start.ordered dst.start.lives'
	test_agent_stopped_in_the_start
}

# --- signals ----------------------------------------------------------------

test_signal_while_it_is_down()
{
	local p
	for p in src.stop src.proof; do
		fresh c
		held "$p" c
		kill -INT "$MIG_PID"
		wait_until 10 grep -q 'stopping, the source will be as it was' \
			"$ERR"
		go_on
		want 70 "$p"
		owned_by a c
		nothing_left
	done
	# While it is put back a second one is told what goes on.
	fresh c
	A_FAULT=src.proof=fail
	HELD_ENV=''
	held_too src.start
	kill -INT "$MIG_PID"
	kill -INT "$MIG_PID"
	wait_until 10 grep -q 'already stopping (it is brought to what it was)' \
		"$ERR"
	go_on
	want 6
	owned_by a c
	nothing_left
}

# held_too POINT - as held, with A_FAULT besides.
held_too()
{
	HOLD=$TEST_TMP/hold
	rm -f "$HOLD"
	A_FAULT="$A_FAULT,$1=hold" A_ENV="VZMIGRATE_FAULT_HOLD=$HOLD"
	mig_args c
	A_FAULT='' A_ENV=''
	on_bg a env --default-signal=INT "${MIG_ENV[@]}" "${MIG[@]}" \
		>"$OUT" 2>"$ERR"
	MIG_BG=$ON_BG MIG_PID=$ON_PID
	wait_until 20 test -e "$HOLD"
}

test_signal_in_the_take_over()
{
	fresh c
	B_HOLD=1 held dst.start.ordered c
	kill -TERM "$MIG_PID"
	wait_until 10 grep -q 'too late to go back' "$ERR"
	go_on
	want 0
	owned_by b c
	nothing_left
}

# stalled_sshd - prints the process of b through which a data stream comes.
stalled_sshd()
{
	# Its agent is the second one.
	on b ps -eo pid=,ppid=,comm= --sort=start_time,pid | awk '
		{ up[$1] = $2; is[$1] = $3 }
		$3 == "vzmigrate-agent" && n++ { p = $1 }
		END { while (p && is[p] != "sshd") p = up[p]
			if (p) print p }'
}

has_stream()
{
	[ -n "$(stalled_sshd)" ]
}

# A data stream stands still, and is not yet taken for dead: who interrupts does
# not wait for that.
test_signal_with_a_stalled_stream()
{
	local t p
	fresh c
	head -c 40M /dev/urandom >"$(tree_of a c)/srv/more"
	link_rate 40mbit
	A_ENV=VZMIGRATE_KEEPALIVE_MS=2000
	begun --streams=2 --nocompress c
	A_ENV=''
	wait_until 20 has_stream
	p=$(stalled_sshd)
	# Until there is something in it that is not acknowledged.
	sleep 0.5
	on b kill -STOP "$p"
	sleep 0.5
	t=$SECONDS
	kill -INT "$MIG_PID"
	ended
	t=$((SECONDS - t))
	link_rate none
	on b kill -CONT "$p"
	want 70
	[ $t -le 12 ] || fail "interrupted in $t s"
	assert_no_match 'keeps the staging area' "$ERR"
	rm "$(tree_of a c)/srv/more"
	touch -r "$REF/srv" "$(tree_of a c)/srv"
	owned_by a c
	nothing_left
}

# --- from another terminal --------------------------------------------------

status()
{
	local rc=0
	on a vzmigrate --status "$@" >"$TEST_TMP/status" 2>&1 || rc=$?
	assert_eq "$STATUS_RC" $rc "$(cat "$TEST_TMP/status")"
}

test_status()
{
	STATUS_RC=0
	status
	assert_match '^vzmigrate: no migration is unfinished here$' \
		"$TEST_TMP/status"
	fresh c
	held src.synced c
	status
	assert_match '^vzmigrate: status CT c to root@b: session=[0-9a-f]{32} kind=lxc state=open owner=source process=running new_ct=c place=/var/lib/lxc/c/rootfs pid=[0-9]+ step="passes" pass=[0-9]+ files=' \
		"$TEST_TMP/status"
	status --json c
	python3 - "$TEST_TMP/status" <<-'END'
	import json, sys
	lines = open(sys.argv[1]).read().splitlines()
	assert len(lines) == 1, lines
	o = json.loads(lines[0])
	assert o["event"] == "status" and o["ct"] == "c", o
	assert o["running"] is True and o["step"] == "passes", o
	assert o["pass"] >= 1 and o["total_files"] > 10, o
	assert o["new_ct"] == "c", o
	assert o["place"] == "/var/lib/lxc/c/rootfs", o
	assert o["owner"] == "source" and o["destination"] == "root@b", o
	END
	STATUS_RC=10
	status d
	assert_match 'd is in no unfinished migration here' "$TEST_TMP/status"
	STATUS_RC=0
	kill -KILL "$MIG_PID"
	ended
	status c
	assert_match ' state=open owner=source process=none new_ct=c place=/var/lib/lxc/c/rootfs$' \
		"$TEST_TMP/status"
	again c
	fresh d
	A_FAULT=journal.retired.after=kill mig d
	A_FAULT=''
	status d
	assert_match ' state=retired owner=unknown process=none new_ct=d place=/var/lib/lxc/d/rootfs$' \
		"$TEST_TMP/status"
	again d
}

# --- the destination cannot take it -----------------------------------------

# fills_at POINT CODE FILL [MKFS-ARG ...] - S8: the destination's small disk is
# filled up, and there is more to send.
fills_at()
{
	local p=$1 code=$2 fill=$3 srv
	shift 3
	fresh c
	(
		inside
		disk b $CTS 100M "$@"
		srv=$(tree_of a c)/srv
		held "$p" c
		on b sh -c "cd $CTS && $fill" 2>/dev/null || :
		mkdir "$srv/more"
		head -c 12M /dev/urandom >"$srv/more/bytes"
		seq 300 | (cd "$srv/more" && xargs touch)
		go_on
		want "$code" "$p"
		assert_match 'b: .*No space left on device' "$ERR"
		# Before it was stopped nothing was done that is undone.
		if [ "$p" = src.stopped ]; then
			assert_match 'the source is as it was' "$ERR"
		else
			assert_match 'the source was not touched$' "$ERR"
		fi
		rm -r "$srv/more"
		touch -r "$REF/srv" "$srv"
		owned_by a c
		rm -f "$(host_dir b)$CTS"/fill*
		nothing_left
		disk_gone b $CTS
	)
	again c
}

FILL_BYTES='cat /dev/zero >fill'
# shellcheck disable=SC2016 # expanded there
FILL_INODES='n=0; while : >fill.$n; do n=$((n + 1)); done'

test_full_by_bytes()
{
	fills_at src.round 6 "$FILL_BYTES"
}

full_in_the_first_pass()
{
	fills_at src.pass 6 "$FILL_BYTES"
	fills_at src.pass 6 "$FILL_INODES" -N 1200
}

test_full_by_inodes()
{
	fills_at src.round 6 "$FILL_INODES" -N 1200
}

# In the final pass: it is down, and runs again.
test_full_while_it_is_down()
{
	fills_at src.stopped 6 "$FILL_BYTES"
}

full_no_inodes_while_it_is_down()
{
	fills_at src.stopped 6 "$FILL_INODES" -N 1200
}

test_read_only_destination()
{
	fresh c
	on b mount -t tmpfs -o ro none $CTS
	mig c
	on b umount $CTS
	want 6
	assert_match 'nothing can be written to /var/lib/lxc: .*Read-only' "$ERR"
	owned_by a c
	nothing_left
	# It becomes so between the passes.
	(
		inside
		disk b $CTS 100M
		held src.round c
		on b mount -o remount,ro $CTS
		touch "$(tree_of a c)/srv/more"
		go_on
		want 6
		assert_match 'b: .*Read-only file system' "$ERR"
		rm "$(tree_of a c)/srv/more"
		touch -r "$REF/srv" "$(tree_of a c)/srv"
		owned_by a c
		on b mount -o remount,rw $CTS
		again c
		halt b c
		disk_gone b $CTS
	)
}

# S5: one of this name is there; this one does not even notice.
test_exists_there()
{
	fresh c
	fresh_stopped d
	mv "$(host_dir a)$CTS/d" "$(host_dir b)$CTS/c"
	mig c
	want 9
	rm -r "$(host_dir b)$CTS/c"
	owned_by a c
	nothing_left
}

# --- the source's disk ------------------------------------------------------

# eio_at POINT - a file that comes after the first pass cannot be read.
eio_at()
{
	local real=$TEST_TMP/real srv
	[ -x "$VZ_BUILDDIR/tests/tools/failfs" ] || skip "built without fuse3"
	[ -c /dev/fuse ] || skip "no /dev/fuse"
	(
		inside
		fresh c
		on a mkdir -p "$real"
		on a mount --bind $CTS "$real"
		on_bg a failfs -f -o dev,suid,eio=late:1 "$real" $CTS
		wait_until 10 on a mountpoint -q $CTS
		srv=$(tree_of a c)/srv
		held "$1" c
		echo late >"$srv/late"
		go_on
		want 6 "$1"
		assert_match 'srv/late: .*Input/output error' "$ERR"
		runs_on a c || fail "c does not run on a: $(cat "$ERR")"
		assert_no_file "$(conf_of b c)"
		halt a c
		wait_until 10 on a umount $CTS
		wait_until 10 on a umount "$real"
		rm "$srv/late"
		touch -r "$REF/srv" "$srv"
		starts_on a c
		owned_by a c
		nothing_left
	)
	again c
}

test_eio_in_a_later_pass()
{
	eio_at src.round
}

full_eio_while_it_is_down()
{
	eio_at src.stopped
}

# --- the source cannot be removed -------------------------------------------

# S1, D6: something is mounted in its tree.
test_source_removal_fails()
{
	fresh c
	echo 'lxc.start.auto = 1' >>"$(conf_of a c)"
	on a mount -t tmpfs none "$CTS/c/rootfs/srv/empty"
	mig -r yes c
	want 66
	assert_match 'srv/empty' "$ERR"
	assert_match 'the source copy could not be removed' "$ERR"
	assert_eq '' "$(on a lxc-autostart -L)"
	runs_on b c || fail "c does not run on b"
	reboot_both
	! runs_on a c || fail "c runs on a"
	runs_on b c || fail "c does not run on b any more"
	halt b c
	treecmp_ok --ignore=mtime "$REF" "$(tree_of b c)"
	on a umount "$CTS/c/rootfs/srv/empty"
	clean_up
}
