# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What t_safety.sh and t_hostile.sh share: a container that can be made again
# and again from a reference, a migration with faults, and the question which
# host owns it. Hosts are a (source) and b.
#
#   reference               makes the reference on a, once a file
#   fresh CT                CT is as the reference on a, and nowhere on b. A
#                           number is an openvz container (with the stand-in
#                           for vzctl), a path a directory, else it is lxc
#   mig [OPTION ...] CT     moves it; RC, and the output in $OUT and $ERR.
#                           A_ENV, A_FAULT, B_FAULT, B_ENV, LIMIT (seconds);
#                           AGENT instead of the agent; MIG_HOST instead of b;
#                           SOON=1: who is silent for 1.5 s is dead, not only
#                           after 4.5 s, for tests in which somebody is
#   held POINT [OPTION ...] CT
#                           begins to move it and returns when it has come to
#                           POINT and waits there (B_HOLD=POINT: or there, on
#                           b); MIG_PID is its process
#                           With HELD_MAYBE=1 it may also end before.
#   go_on                   lets it, and waits for its end: RC
#   begun [OPTION ...] CT   begins to move it in the background: MIG_PID
#   ended                   waits for its end: RC
#   owned_by HOST CT        that host can start it, the other one cannot, and
#                           its tree is the reference's
#   one_owner CT            at most one host could start it
#   nothing_left            no staging area, reservation, mark or open journal
#
# Times in the program are small here, so that a test need not wait; and not so
# small that a busy machine is taken for a dead peer.

CTS=/var/lib/lxc
STATE=/var/lib/vzmigrate
export TEST_QUICK_ENV="VZMIGRATE_KEEPALIVE_MS=300 \
VZMIGRATE_GREETING_MS=10000 VZMIGRATE_PAUSE_MS=20 VZMIGRATE_REPLY_MS=10000 \
VZMIGRATE_TRIES=3"
A_ENV='' A_FAULT='' B_FAULT='' B_ENV='' AGENT='' LIMIT=30 RC=0 SOON=''

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

kind_of()
{
	case $1 in
	/*) echo dir ;;
	[0-9]*) echo openvz ;;
	*) echo lxc ;;
	esac
}

# tree_of HOST CT, conf_of HOST CT - as seen from here.
tree_of()
{
	case $(kind_of "$2") in
	dir) echo "$(host_dir "$1")$2" ;;
	openvz) echo "$(host_dir "$1")/vz/private/$2" ;;
	lxc) echo "$(host_dir "$1")$CTS/$2/rootfs" ;;
	esac
}

conf_of()
{
	case $(kind_of "$2") in
	dir) echo "$(host_dir "$1")$2" ;;
	openvz) echo "$(host_dir "$1")/etc/vz/conf/$2.conf" ;;
	lxc) echo "$(host_dir "$1")$CTS/$2/config" ;;
	esac
}

fresh()
{
	local h d
	for h in a b; do
		d=$(host_dir $h)
		rm -rf --one-file-system "$(tree_of $h "$1")"
		case $(kind_of "$1") in
		openvz) rm -rf "$d/etc/vz/conf/$1".* "$d"/vz/private/"$1"* ;;
		lxc) rm -rf "$d$CTS/${1:?}" ;;
		esac
	done
	d=$(host_dir a)
	case $(kind_of "$1") in
	dir) cp -a "$REF" "$d$1" ;;
	openvz)
		cp -a "$REF" "$d/vz/private/$1"
		cat >"$d/etc/vz/conf/$1.conf" <<-'END'
		VE_LAYOUT=simfs
		VE_ROOT="/vz/root/$VEID"
		VE_PRIVATE="/vz/private/$VEID"
		END
		;;
	lxc)
		cp -a "$d/srv/ref" "$d$CTS/$1"
		sed -i "s|/ref/|/$1/|; s|= ref\$|= $1|" "$d$CTS/$1/config"
		;;
	esac
}

# openvz_hosts - before hosts_up: vzctl is the stand-in; after it, with the
# hosts' names: its directories.
openvz_hosts()
{
	local d
	if [ $# = 0 ]; then
		mkdir -p "$RUN_TMP/bin"
		ln -sf "$VZ_TOP/tests/tools/vzctl-standin" "$RUN_TMP/bin/vzctl"
		HOSTS_PATH=$RUN_TMP/bin
		return
	fi
	for d; do
		d=$(host_dir "$d")
		mkdir -p "$d"/etc/vz/conf "$d"/etc/vz/names "$d"/vz/private \
			"$d"/vz/root "$d"/vz/lock
		cat >"$d/etc/vz/vz.conf" <<-'END'
		VIRTUOZZO=yes
		LOCKDIR=/vz/lock
		DUMPDIR=/vz/dump
		VE_ROOT=/vz/root/$VEID
		VE_PRIVATE=/vz/private/$VEID
		END
	done
}

# openvz_up - hosts a and b, in directories A and B, with that vzctl.
openvz_up()
{
	hosts_possible || skip "$HOSTS_WHY"
	openvz_hosts
	hosts_up tmpfs a b
	openvz_hosts a b
	A=$(host_dir a) B=$(host_dir b)
}

# vz_status HOST CT WORDS - is what vzctl says there.
vz_status()
{
	assert_eq "$3" "$(on "$1" vzctl status "$2" 2>/dev/null)" "status on $1"
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

# mig_args OPTION ... CT - the command's words in MIG, its settings in MIG_ENV.
mig_args()
{
	local agent=$AGENT
	if [ -z "$agent" ]; then
		agent="env ${B_ENV:-} ${B_FAULT:+VZMIGRATE_FAULT=$B_FAULT} vzmigrate-agent"
	fi
	OUT=$TEST_TMP/stdout ERR=$TEST_TMP/stderr RC=0
	# shellcheck disable=SC2206 # several settings
	MIG_ENV=($TEST_QUICK_ENV ${SOON:+VZMIGRATE_KEEPALIVE_MS=100} ${A_ENV:-}
		${A_FAULT:+VZMIGRATE_FAULT="$A_FAULT"})
	MIG=(vzmigrate --agent="$agent" "${@:1:$#-1}" "${MIG_HOST:-b}"
		"${@: -1}")
}

mig()
{
	mig_args "$@"
	on a env "${MIG_ENV[@]}" timeout -k 5 "$LIMIT" "${MIG[@]}" \
		>"$OUT" 2>"$ERR" || RC=$?
	if [ $RC = 124 ]; then
		tail -n 40 "$ERR" >&2
		fail "not done in $LIMIT s"
	fi
}

held()
{
	HOLD=$TEST_TMP/hold
	rm -f "$HOLD"
	if [ -n "${B_HOLD:-}" ]; then
		B_ENV="VZMIGRATE_FAULT=$1=hold VZMIGRATE_FAULT_HOLD=$HOLD"
	else
		A_ENV="VZMIGRATE_FAULT_HOLD=$HOLD ${HELD_ENV:-}" A_FAULT="$1=hold"
	fi
	shift
	begun "$@"
	A_ENV='' A_FAULT='' B_ENV=''
	wait_until 20 held_or_gone
	[ -e "$HOLD" ] || [ -n "${HELD_MAYBE:-}" ] ||
		fail "it never came there: $(tail -n 5 "$ERR")"
}

held_or_gone()
{
	[ -e "$HOLD" ] || mig_gone
}

begun()
{
	mig_args "$@"
	# A job in the background would ignore SIGINT.
	on_bg a env --default-signal=INT "${MIG_ENV[@]}" "${MIG[@]}" \
		>"$OUT" 2>"$ERR"
	MIG_BG=$ON_BG MIG_PID=$ON_PID
}

go_on()
{
	rm -f "$HOLD"
	ended
}

ended()
{
	wait_until "$LIMIT" mig_gone
	wait "$MIG_BG" || RC=$?
}

mig_gone()
{
	! kill -0 "$MIG_BG" 2>/dev/null
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
	case $(kind_of "$ct") in
	dir) return ;;
	openvz)
		on "$h" vzctl start "$ct" >"$TEST_TMP/start" 2>&1 || return 1
		on "$h" vzctl stop "$ct" --fast >/dev/null
		;;
	lxc)
		on "$h" lxc-start -n "$ct" >"$TEST_TMP/start" 2>&1 || return 1
		wait_until 10 lxc_is RUNNING "$h" "$ct"
		on "$h" lxc-stop -k -n "$ct" || :
		wait_until 10 lxc_is STOPPED "$h" "$ct"
		;;
	esac
	# LXC makes a directory for a moment.
	touch -r "$REF" "$(tree_of "$h" "$ct")"
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
	[ "$(kind_of "$1")" != dir ] || return 0
	for h in a b; do
		[ ! -e "$(conf_of $h "$1")" ] || n=$((n + 1))
	done
	[ $n -le 1 ] || fail "both hosts have the configuration of $1"
}

owned_by()
{
	local h=$1 ct=$2 o
	o=$(other "$h")
	assert_file "$(conf_of "$h" "$ct")"
	treecmp_ok "$REF" "$(tree_of "$h" "$ct")"
	startable "$h" "$ct" ||
		fail "$ct does not start on $h: $(cat "$TEST_TMP/start")"
	if [ "$(kind_of "$ct")" = dir ]; then
		assert_no_file "$(tree_of "$o" "$ct")"
	elif startable "$o" "$ct" 2>/dev/null; then
		fail "$ct starts on $o, too"
	fi
}

# rests - prints what a session left on the hosts.
rests()
{
	local h d f
	for h in a b; do
		d=$(host_dir $h)
		find "$d$CTS" "$d/srv" "$d/vz" "$d/etc/vz" -maxdepth 3 \( \
			-name '.vzmigrate-*' -o -name '*.vzmigrate-*' -o \
			-name '*.migrated*' -o -name '*.lck*' \) \
			2>/dev/null || :
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
