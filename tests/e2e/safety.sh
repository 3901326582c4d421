# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What t_safety.sh and t_hostile.sh share: a container that can be made again
# and again from a reference, a migration with faults, and the question which
# host owns it. Hosts are a (source) and b.
#
#   reference               makes the reference on a, once a file
#   fresh CT                CT is as the reference on a, and nowhere on b
#   mig [OPTION ...] CT     moves it; RC, and the output in $OUT and $ERR.
#                           A_ENV, A_FAULT, B_FAULT, B_ENV, LIMIT (seconds);
#                           AGENT instead of the agent
#   owned_by HOST CT        that host can start it, the other one cannot, and
#                           its tree is the reference's
#   one_owner CT            at most one host could start it
#   nothing_left            no staging area, reservation, mark or open journal
#
# Times in the program are small here, so that a test need not wait.

CTS=/var/lib/lxc
STATE=/var/lib/vzmigrate
KEEPALIVE_MS=100
export TEST_QUICK_ENV="VZMIGRATE_KEEPALIVE_MS=$KEEPALIVE_MS \
VZMIGRATE_GREETING_MS=3000 VZMIGRATE_PAUSE_MS=20 VZMIGRATE_REPLY_MS=3000"
A_ENV='' A_FAULT='' B_FAULT='' B_ENV='' AGENT='' LIMIT=30 RC=0

reference()
{
	local r
	lxc_make a ref
	r=$(host_dir a)/srv/ref
	mkdir -p "$r"
	mv "$(host_dir a)$CTS/ref/rootfs" "$(host_dir a)$CTS/ref/config" "$r/"
	rmdir "$(host_dir a)$CTS/ref"
	REF=$r/rootfs
	mkdir "$REF/srv"
	head -c 300000 /dev/urandom >"$REF/srv/big"
	truncate -s 5M "$REF/srv/big"
	ln "$REF/srv/big" "$REF/srv/big too"
	printf 'x' >"$REF/srv/own"
	chown 1000:1001 "$REF/srv/own"
	chmod 6755 "$REF/srv/own"
	setfattr -n user.note -v there "$REF/srv/own" 2>/dev/null || :
	mkfifo "$REF/srv/fifo"
	mknod "$REF/srv/null" c 1 3
	mkdir -m 711 "$REF/srv/empty"
	# What the copies are made with must be exact itself.
	cp -a "$r" "$r.too"
	treecmp_ok "$REF" "$r.too/rootfs"
	rm -r "$r.too"
}

treecmp_ok()
{
	"$VZ_BUILDDIR/tests/tools/treecmp" "$@" >"$TEST_TMP/cmp" 2>&1 ||
		fail "trees differ: $(head -n 5 "$TEST_TMP/cmp")"
}

fresh()
{
	local h
	for h in a b; do
		rm -rf --one-file-system "$(host_dir $h)$CTS/$1"
	done
	cp -a "$(host_dir a)/srv/ref" "$(host_dir a)$CTS/$1"
	sed -i "s|/ref/|/$1/|; s|= ref\$|= $1|" \
		"$(host_dir a)$CTS/$1/config"
}

# agent_once FAULT - prints a command for --agent whose first process has the
# fault and whose later ones have none.
agent_once()
{
	local f=$TEST_TMP/agent-once
	rm -rf "$f" "$f.used"
	cat >"$f" <<-END
	#!/bin/sh
	if mkdir $f.used 2>/dev/null; then
		export VZMIGRATE_FAULT='$1'
	fi
	exec env ${B_ENV:-} vzmigrate-agent
	END
	chmod 755 "$f"
	echo "$f"
}

mig()
{
	local agent=$AGENT
	if [ -z "$agent" ]; then
		agent="env ${B_ENV:-} ${B_FAULT:+VZMIGRATE_FAULT=$B_FAULT} vzmigrate-agent"
	fi
	OUT=$TEST_TMP/stdout ERR=$TEST_TMP/stderr RC=0
	# shellcheck disable=SC2086 # several settings
	on a env $TEST_QUICK_ENV ${A_ENV:-} \
		${A_FAULT:+VZMIGRATE_FAULT="$A_FAULT"} \
		timeout -k 5 "$LIMIT" vzmigrate --agent="$agent" "${@:1:$#-1}" \
		"${MIG_HOST:-b}" "${@: -1}" >"$OUT" 2>"$ERR" || RC=$?
	if [ $RC = 124 ]; then
		tail -n 40 "$ERR" >&2
		fail "not done in $LIMIT s"
	fi
}

# want CODE [WHAT] - after mig.
want()
{
	[[ " $1 " == *" $RC "* ]] && return
	tail -n 40 "$ERR" >&2
	fail "${2:+$2: }exit code: want $1, got $RC"
}

# startable HOST CT - for a moment it runs.
startable()
{
	local h=$1 ct=$2
	on "$h" lxc-start -n "$ct" >"$TEST_TMP/start" 2>&1 || return 1
	wait_until 10 lxc_is RUNNING "$h" "$ct"
	on "$h" lxc-stop -k -n "$ct" || :
	wait_until 10 lxc_is STOPPED "$h" "$ct"
	# LXC makes a directory for a moment.
	touch -r "$REF" "$(host_dir "$h")$CTS/$ct/rootfs"
}

lxc_is()
{
	[ "$(lxc_state "$2" "$3" 2>/dev/null)" = "$1" ]
}

other()
{
	[ "$1" = a ] && echo b || echo a
}

one_owner()
{
	local n=0 h
	for h in a b; do
		[ ! -e "$(host_dir $h)$CTS/$1/config" ] || n=$((n + 1))
	done
	[ $n -le 1 ] || fail "both hosts have the configuration of $1"
}

owned_by()
{
	local h=$1 ct=$2
	assert_file "$(host_dir "$h")$CTS/$ct/config"
	treecmp_ok "$REF" "$(host_dir "$h")$CTS/$ct/rootfs"
	startable "$h" "$ct" ||
		fail "$ct does not start on $h: $(cat "$TEST_TMP/start")"
	if on "$(other "$h")" lxc-start -n "$ct" >/dev/null 2>&1; then
		fail "$ct starts on $(other "$h"), too"
	fi
}

# rests - prints what a session left on the hosts.
rests()
{
	local h d f
	for h in a b; do
		d=$(host_dir $h)
		find "$d$CTS" "$d/srv" "$d/vz" -maxdepth 3 \( \
			-name '.vzmigrate-*' -o -name 'config.vzmigrate-*' -o \
			-name 'config.migrated*' \) 2>/dev/null || :
		find "$d$STATE/reserve" -mindepth 1 2>/dev/null || :
		for f in "$d$STATE"/source/*/journal; do
			[ -e "$f" ] || continue
			tail -n 1 "$f" | grep -E -v ' (done|given-up) ' || :
		done
		for f in "$d$STATE"/sessions/*/journal; do
			[ -e "$f" ] || continue
			awk '$3 ~ /^(finished|aborted)$/ { held = "" }
				$3 ~ /^(file|reserve|pass|kept|commit|undo)/ {
					held = $0 }
				END { if (held) print "open: " held }' "$f"
		done
	done
	agents
}

# Of this host: there may be others' on this machine.
agents()
{
	on b ps -eo pid=,args= | grep '[v]zmigrate-agent' || :
}

no_agents()
{
	[ -z "$(agents)" ]
}

nothing_left()
{
	local r
	# It ends by itself when its link is gone.
	wait_until 20 no_agents
	r=$(rests)
	[ -z "$r" ] || fail "left over: $r"
}
