# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The walk of walk.sh with a container that runs: whatever dies, whenever, and
# after the same command again, exactly one host runs it. The quick suite goes
# to a point or two of each step, --full to all of them.

# run: asan-only
# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=1800

# shellcheck source=SCRIPTDIR/safety.sh
. "$VZ_TOP/tests/e2e/safety.sh"
# shellcheck source=SCRIPTDIR/walk.sh
. "$VZ_TOP/tests/e2e/walk.sh"
# shellcheck source=SCRIPTDIR/running.sh
. "$VZ_TOP/tests/e2e/running.sh"

setup_file()
{
	running_hosts
	traces
}

scenarios()
{
	cat <<-END
	clean - - -
	back src.take-over=fail - -
	undo - dst.start.lives=fail -
	END
}

test_every_point_of_running_is_walked()
{
	# What is passed by others is walked in t_safety.sh.
	all_points_walked '^(recv|send|dst\.(reserve|fence|pass|abort|undo|finish|commit))\.|^src\.(destroy|finish|never|abort|un.*)|^journal\.(aborted|abort|kept|unreserved|commit-failed|link-lost|finish|finished|restored|given-up|never|undo|done|file|reserve|reserved|pass|proven|open|commit|committed)\.'
}

# --- one of them dies, or fails ---------------------------------------------

test_walk_source_dies()
{
	at die_on_a clean a src.round:1 journal.blocking.after:1 \
		src.stopped:1 src.proof:1 journal.retired.after:1 \
		src.take-over:1 src.put-away.before:1
}

test_walk_agent_dies()
{
	at die_on_b clean b recv.batch:1 journal.proven.torn:1 \
		dst.commit.after-kind:1 dst.start.done:1 \
		journal.running.before:1 journal.finish.after:1
}

test_walk_source_fails()
{
	at fail_on_a clean a src.block:1 journal.retired.before:1 src.finish:1
}

test_walk_agent_fails()
{
	at fail_on_b clean b journal.proven.before:1 dst.start.ordered:1
}

# A record of which is not known whether the disk has it: what was done is left
# alone until the next connection reads what there is.
test_record_in_doubt()
{
	at fail_on_b clean b journal.running.after:1
}

test_walk_ways_back()
{
	at die_on_a back a src.unretire:1 src.start:1
	at die_on_b undo b dst.undo.after-kind:1
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

# --- the link breaks --------------------------------------------------------

test_walk_link_cut()
{
	at cut_on_a clean a src.stopped:1 src.retire:1
	at cut_on_b clean b dst.start.ordered:1
}

full_walk_link_cut_at_the_source() { each cut_on_a clean a 1; }
full_walk_link_cut_at_the_agent() { each cut_on_b clean b 1; }

# --- the old agent is alive -------------------------------------------------

test_walk_old_agent_alive()
{
	at hold_on_b clean b dst.commit.before-kind:1 dst.start.done:1
}

full_walk_old_agent_alive() { each hold_on_b clean b 1; }

# --- both hosts are rebooted in between -------------------------------------

starts_by_itself()
{
	fresh "$CT"
	echo 'lxc.start.auto = 1' >>"$(conf_of a "$CT")"
}

# broken_off_on_a POINT, broken_off_on_b POINT
broken_off_on_a()
{
	A_FAULT=${SC_A:+$SC_A,}$1=kill B_FAULT=$SC_B
	# shellcheck disable=SC2086
	mig -r yes $SC_OPT "$CT"
	A_FAULT='' B_FAULT=''
	want "137 0" "$1"
	wait_until 20 no_agents
}

# The source dies, too, when it asks again.
broken_off_on_b()
{
	A_FAULT=src.take-over:2=kill
	AGENT=$(agent_once "${SC_B:+$SC_B,}$1=kill")
	# shellcheck disable=SC2086
	mig -r yes $SC_OPT "$CT"
	AGENT='' A_FAULT=''
	want "0 4 6 7 8 64 137" "$1"
	wait_until 20 no_agents
}

reboot_on_a()
{
	starts_by_itself
	broken_off_on_a "$1"
	reboot_both
	one_owner "$CT"
	after_death "$1"
	owned_by b "$CT"
	nothing_left
}

reboot_on_b()
{
	starts_by_itself
	broken_off_on_b "$1"
	reboot_both
	one_owner "$CT"
	[ "$RC" = 0 ] || again "$CT"
	owned_by b "$CT"
	nothing_left
}

test_walk_reboot()
{
	at reboot_on_a clean a src.stopped:1
	at reboot_on_b clean b dst.start.done:1
}

full_walk_reboot_at_the_source() { each reboot_on_a clean a 1; }
full_walk_reboot_at_the_agent() { each reboot_on_b clean b 1; }

# --- power is lost ----------------------------------------------------------

# The trees and the journals of both hosts, on disks that were told to sync
# nothing but what they must.
power_begins()
{
	local h
	inside
	for h in a b; do
		disk $h $STATE 64M
		disk $h $CTS 96M
	done
}

power_ends()
{
	local h
	for h in a b; do
		halt $h "$CT"
		disk_gone $h $STATE
		disk_gone $h $CTS
	done
}

# What is on the disks now is all that there will be.
lose_power()
{
	local h d img
	for h in a b; do
		for d in "$STATE" "$CTS"; do
			img=$(image "$d")
			on $h cp --sparse=always "$img" "$img.now"
		done
	done
	for h in a b; do
		halt $h "$CT"
		for d in "$STATE" "$CTS"; do
			img=$(image "$d")
			wait_until 10 disk_off $h "$d"
			on $h mv "$img.now" "$img"
			on $h mount -o loop,commit=300 "$img" "$d"
		done
	done
	reboot_both
	one_owner "$CT"
}

# Lived on for a while, so it is on the disk.
on_disk()
{
	starts_by_itself
	on a sync -f $CTS
	# And that the one before is gone there.
	on b sync -f $CTS
}

# after_power - what was done, or the disk may have lost that it was.
after_power()
{
	if ! runs_on b "$CT" || [ "$RC" != 0 ]; then
		mig -r yes "$CT"
		want "0 10" "$1, again"
	fi
	owned_by b "$CT"
	wait_until 20 no_agents
	on a rm -rf $STATE/source
	on b rm -rf $STATE/sessions
}

power_on_a()
{
	on_disk
	broken_off_on_a "$1"
	lose_power
	after_power "$1"
}

power_on_b()
{
	on_disk
	broken_off_on_b "$1"
	lose_power
	after_power "$1"
}

test_power_loss()
{
	power_begins
	at power_on_a clean a journal.retired.after:1
	at power_on_b clean b dst.start.done:1
	power_ends
}

full_power_loss()
{
	power_begins
	each power_on_a clean a 1
	each power_on_b clean b 1
	power_ends
}
