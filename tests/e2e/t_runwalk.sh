# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The walk of walk.sh with a container that runs: whatever dies, whenever, and
# after the same command again, exactly one host runs it.

# run: asan-only
# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=900

# shellcheck source=SCRIPTDIR/safety.sh
. "$VZ_TOP/tests/e2e/safety.sh"
# shellcheck source=SCRIPTDIR/walk.sh
. "$VZ_TOP/tests/e2e/walk.sh"

setup_file()
{
	hosts_possible || skip "$HOSTS_WHY"
	# How long it is watched there: the walk need not wait for it.
	HOSTS_SSHD_ENV="VZMIGRATE_LIFE_MS=150"
	openvz_hosts
	hosts_up tmpfs a b
	openvz_hosts a b
	mkdir -p "$(host_dir b)/srv"
	reference
	traces
}

scenarios()
{
	cat <<-END
	clean - - -
	back src.take-over=fail - -
	undo - dst.start.lives=fail -
	lost src.stopped=kill - -
	END
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

test_every_point_of_running_is_walked()
{
	# What is passed by others is walked in t_safety.sh.
	all_points_walked '^(recv|send|dst\.(reserve|fence|pass|abort|undo|finish|commit))\.|^src\.(destroy|finish|never|abort|un.*)|^journal\.(aborted|abort|kept|unreserved|commit-failed|link-lost|finish|finished|restored|given-up|never|undo|done|file|reserve|reserved|pass|proven|open|commit|committed)\.'
}

test_walk_source_dies() { each die_on_a clean a 24 all; }
test_walk_agent_dies() { each die_on_b clean b 24 all; }
test_walk_source_fails() { each fail_on_a clean a 16; }
test_walk_agent_fails() { each fail_on_b clean b 20; }

# A record of which is not known whether the disk has it: what was done is left
# alone until the next connection reads what there is.
test_record_in_doubt()
{
	local p
	CT=c SC_A='' SC_B='' SC_OPT=''
	for p in committed started running; do
		fail_on_b "journal.$p.after:1" clean
	done
}

test_walk_ways_back()
{
	each die_on_a back a 6
	each die_on_b undo b 5
}

full_walk_source_dies() { each die_on_a clean a 1; }
full_walk_agent_dies() { each die_on_b clean b 1; }
full_walk_source_fails() { each fail_on_a clean a 1; }
full_walk_agent_fails() { each fail_on_b clean b 1; }
full_walk_back_source_dies() { each die_on_a back a 1; }
full_walk_back_agent_dies() { each die_on_b back b 1; }
full_walk_undo_source_dies() { each die_on_a undo a 1; }
full_walk_undo_agent_dies() { each die_on_b undo b 1; }
full_walk_undo_agent_fails() { each fail_on_b undo b 1; }

full_walk_openvz()
{
	CT=301
	each die_on_a clean a 1
	each die_on_b clean b 1
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
	given_up src.pass
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
	mig --ssh="-o ConnectTimeout=1" --abort c
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

# --- both hosts are rebooted in between -------------------------------------

# What was up is not any more; the boot scripts start what they know.
reboot_both()
{
	local h
	for h in a b; do
		halt $h c
		on $h lxc-autostart >/dev/null 2>&1 || :
	done
}

rebooted_at()
{
	fresh c
	echo 'lxc.start.auto = 1' >>"$(conf_of a c)"
	if [ "$1" = a ]; then
		A_FAULT=$2=kill
		mig c
		A_FAULT=''
		want 137 "$2"
	else
		# The source dies while it asks again.
		AGENT=$(agent_once "$2=kill") A_FAULT=src.take-over:2=kill
		mig c
		AGENT='' A_FAULT=''
		want "137 0" "$2"
	fi
	wait_until 20 no_agents
	reboot_both
	one_owner c
	[ "$RC" = 0 ] || again c
	owned_by b c
	nothing_left
}

test_reboot_in_between()
{
	local p
	for p in src.stop src.stopped journal.proven.after src.retire \
		journal.retired.after src.finish; do
		rebooted_at a "$p"
	done
	for p in dst.start.ordered dst.start.done dst.commit.after-kind; do
		rebooted_at b "$p"
	done
}

# --- the old agent holds its orders -----------------------------------------

# It stands in the middle of the start when its source dies; the next run ends
# it, finds the container up, and goes on.
test_agent_stopped_in_the_start()
{
	local p
	for p in dst.start.ordered dst.start.done dst.start.lives; do
		fresh c
		AGENT=$(agent_once "$p=stop")
		A_ENV=VZMIGRATE_REPLY_MS=20000
		mig c
		AGENT='' A_ENV=''
		want 0 "$p"
		owned_by b c
		nothing_left
	done
}

# --- the link breaks --------------------------------------------------------

# The agent ends the take-over without it.
test_link_cut_in_the_take_over()
{
	fresh c
	B_HOLD=1 held dst.start.ordered --ssh="-o ConnectTimeout=1" c
	link_cut b
	ended
	rm "$HOLD"
	wait_until 20 runs_on b c
	wait_until 20 no_agents
	link_join b
	want 65
	assert_match 'run the same command again' "$ERR"
	one_owner c
	again c
}

test_link_cut_while_it_is_down()
{
	fresh c
	held src.stopped --ssh="-o ConnectTimeout=1" c
	link_cut b
	go_on
	link_join b
	want 6
	assert_match 'the source is as it was' "$ERR"
	owned_by a c
	again c
}

# --- signals ----------------------------------------------------------------

test_signal_while_it_is_down()
{
	local p
	for p in src.stop src.stopped src.proof; do
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
	assert_match '^vzmigrate: status CT c to root@b: session=[0-9a-f]{32} kind=lxc state=open owner=source process=running pid=[0-9]+ step="passes" pass=[0-9]+ files=' \
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
	assert o["owner"] == "source" and o["destination"] == "root@b", o
	END
	STATUS_RC=10
	status d
	assert_match 'd is in no unfinished migration here' "$TEST_TMP/status"
	STATUS_RC=0
	kill -KILL "$MIG_PID"
	ended
	status c
	assert_match ' state=open owner=source process=none$' \
		"$TEST_TMP/status"
	again c
	fresh d
	A_FAULT=journal.retired.after=kill mig d
	A_FAULT=''
	status d
	assert_match ' state=retired owner=unknown process=none$' \
		"$TEST_TMP/status"
	again d
}

# --- the destination cannot take it -----------------------------------------

# S8: it fills up after the checks; the container has not even been stopped.
test_full_while_it_runs()
{
	fresh c
	head -c 8M /dev/urandom >"$(tree_of a c)/srv/more"
	on b mount -t tmpfs -o size=80m small $CTS
	held src.pass c
	on b sh -c "head -c 200M /dev/zero >$CTS/fill" 2>/dev/null || :
	go_on
	want "6"
	assert_match 'No space left on device' "$ERR"
	runs_on a c || fail "c does not run on a"
	assert_no_match 'the source is as it was' "$ERR"
	on b umount $CTS
	nothing_left
	rm "$(tree_of a c)/srv/more"
	touch -r "$REF/srv" "$(tree_of a c)/srv"
	again c
}

# --- power is lost ----------------------------------------------------------

# The state directory of a host on a disk of its own, which keeps back what
# was not synced as long as it can.
state_disk()
{
	local img=$BED_TMP/state.$1
	truncate -s 64M "$img"
	mkfs.ext4 -q -F "$img"
	on "$1" mkdir -p $STATE
	on "$1" mount -o loop,commit=300 "$img" $STATE
}

# What is on the disk now.
snapshot()
{
	cp --sparse=always "$BED_TMP/state.$1" "$BED_TMP/state.$1.now"
}

lose_power()
{
	on "$1" umount $STATE
	mv "$BED_TMP/state.$1.now" "$BED_TMP/state.$1"
	on "$1" mount -o loop,commit=300 "$BED_TMP/state.$1" $STATE
}

power_lost_at()
{
	fresh c
	echo 'lxc.start.auto = 1' >>"$(conf_of a c)"
	if [ "$1" = a ]; then
		A_FAULT=$2=kill
		mig c
		A_FAULT=''
		want "137 0" "$2"
	else
		AGENT=$(agent_once "$2=kill") A_FAULT=src.take-over:2=kill
		mig c
		AGENT='' A_FAULT=''
	fi
	snapshot a
	snapshot b
	wait_until 20 no_agents
	lose_power a
	lose_power b
	reboot_both
	one_owner c
	if [ "$RC" = 0 ]; then
		return
	fi
	mig c
	# The disk may have lost that it was all done.
	want "0 10" "$2, again"
	owned_by b c
	nothing_left
}

full_power_loss()
{
	local h p
	for h in a b; do
		state_disk $h
	done
	for p in $(points clean a | grep -E '^(journal|src)' | sample 2 all); do
		power_lost_at a "$p"
	done
	for p in $(points clean b | grep -E '^(journal|dst)' | sample 3 all); do
		power_lost_at b "$p"
	done
	for h in a b; do
		on $h umount $STATE
		rm "$BED_TMP/state.$h"
	done
}

test_take_back()
{
	local session
	fresh c
	A_FAULT=journal.retired.after=kill mig c
	want 137
	A_FAULT=''
	session=$(sed -n 's/.* session=\([0-9a-f]*\) .*/\1/p' \
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
