# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Throw-away hosts on this one machine, for tests and the demo. Source it; root
# only. A host has namespaces of its own (network, mount, process, host name,
# cgroup), its own root file system (only /usr, /opt, /tmp and the like are
# this machine's), an sshd with its own keys, and an address on a common bridge.
#
#   hosts_possible          0 when this machine can do it, else 1 and the reason
#                           in HOSTS_WHY
#   hosts_up [FS] [NAME[=FS] ...]
#                           FS: tmpfs (default), ext4, xfs or btrfs, the file
#                           system of each host's root. Names: a b by default.
#                           The first host's root key is authorized on all
#                           others, and it knows their host keys, by name and
#                           address. Sets traps that take the hosts down when
#                           this shell ends; a guard does so if it is killed.
#                           Not in $(...): the hosts die with the calling shell.
#   hosts_down [BED]        all away, as often as wanted, from half way too
#   on HOST CMD ...         runs CMD there as root, in /; its exit status
#   on_bg HOST CMD ...      the same in the background; ON_BG is the pid to wait
#                           for, ON_PID the pid of CMD itself, as seen from here
#   host_addr HOST [6]      prints its IPv4 (IPv6) address
#   host_dir HOST           prints where its root is seen from here, so
#                           $(host_dir a)/var/lib/lxc is the host's /var/lib/lxc
#   host_sshd_conf HOST 'LINES'
#                           extra sshd_config; replaces the same keywords of
#                           ours; '' for none; effective with the next restart
#   host_sshd_restart HOST  sessions that are open stay
#   host_sshd_extra HOST PORT 'LINES'
#                           another sshd there, with these lines
#   host_sshd_stop HOST [PORT]
#   host_sshd_log HOST [PORT]  prints the name of the log, seen from here
#   host_syslog HOST        starts a syslogd there; prints the name of its file
#   link_rate RATE|none     shapes all links, both ways (tc's units: 100mbit)
#   link_cut HOST, link_join HOST
#                           pulls the host's cable without a word; back again
#   lxc_make HOST NAME [INIT]
#                           a small busybox container; INIT: a file for its
#                           /sbin/init instead of one that only waits
#   lxc_state HOST NAME     prints RUNNING or STOPPED
#
# Variables: BED the private directory of this set, BED_TMP a directory seen
# under the same name here and on every host. HOSTS_NAMES the names. Read at
# hosts_up: VZ_TOP (source tree), VZ_BUILDDIR, HOSTS_SHARED (more directories
# to show on all hosts, one a line), HOSTS_SIZE (size of each image, 8G),
# HOSTS_SSHD_ENV (NAME=VALUE ... for the agents), HOSTS_PATH (searched first),
# HOSTS_KEYS (a directory for keys that the next sets take again).

HOSTS_LIB=$(readlink -f "${BASH_SOURCE[0]}")
: "${VZ_TOP:=${HOSTS_LIB%/tests/e2e/*}}"
: "${VZ_BUILDDIR:=$VZ_TOP/build}"
HOSTS_NET4=10.77.0
HOSTS_NET6=fd77:7a6d:6967
HOSTS_SYSPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
BED=
BED_TMP=
HOSTS_NAMES=()
HOSTS_WHY=
declare -A HOST_PID=() HOST_NUM=()

# shellcheck source=SCRIPTDIR/hosts-use.sh
. "${HOSTS_LIB%/*}/hosts-use.sh"

_hosts_say()
{
	printf 'hosts: %s\n' "$*" >&2
}

# _hosts_wait SECONDS CMD ... - polls CMD until it succeeds; 1 when too late.
_hosts_wait()
{
	local end=$((SECONDS + $1 + 1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.02
	done
}

_hosts_net()
{
	local pid=$1
	shift
	nsenter -t "$pid" -n -- "$@"
}

hosts_possible()
{
	local f
	HOSTS_WHY=
	if [ "$(id -u)" != 0 ]; then
		HOSTS_WHY="not root"
		return 1
	fi
	for f in ip tc nsenter unshare setpriv sshd ssh-keygen pivot_root; do
		if ! PATH=$PATH:$HOSTS_SYSPATH command -v $f >/dev/null; then
			HOSTS_WHY="no command $f"
			return 1
		fi
	done
	if ! f=$(unshare -m -n -p -u -C --propagation private --fork sh -c '
		mount -t tmpfs t /mnt && mount -t proc p /proc &&
		ip link add x0 type veth peer name x1 &&
		ip link add xb type bridge' 2>&1); then
		HOSTS_WHY="namespaces are not allowed here: ${f##*$'\n'}"
		return 1
	fi
}

# --- taking down ------------------------------------------------------------

# _bed_pids BED - prints the processes that hold this bed's hosts: those that
# were recorded, those in its cgroups, and those which are only about to get
# there, since a signal may come between a fork and the note of it.
_bed_pids()
{
	local bed=$1 p dirs
	_bed_cgroups "$bed"
	{
		cat "$bed"/state/*.pid "$bed/state/holders" || :
		[ ${#dirs[@]} = 0 ] || find "${dirs[@]}" -name cgroup.procs \
			-exec cat {} + || :
		grep -lzF host-init /proc/[0-9]*/cmdline |
			sed 's,^/proc/\([0-9]*\)/.*,\1,' || :
	} 2>/dev/null | sort -un | while read -r p; do
		# The caller may be in one of these cgroups through `on`.
		if [ "$p" -gt 1 ] && [ "$p" != "$BASHPID" ] &&
			[ "$p" != $$ ] && _bed_owns "$bed" "$p"; then
			echo "$p"
		fi
	done
	return 0
}

# _bed_cgroups BED - sets dirs to its own in each hierarchy.
_bed_cgroups()
{
	local mnt dir
	dirs=()
	while read -r mnt dir; do
		[ ! -d "$dir" ] || dirs+=("$dir")
	done <"$1/state/cgroups"
}

# _bed_owns BED PID - a pid that was recorded may be another's by now. It is
# asked of every host on this machine, so it starts no process.
_bed_owns()
{
	local word args=() cgroups=''
	mapfile -d '' -t args 2>/dev/null <"/proc/$2/cmdline"
	for word in "${args[@]}"; do
		case $word in "$1" | *"$1/"*) return 0 ;; esac
	done
	read -r -d '' cgroups 2>/dev/null <"/proc/$2/cgroup"
	[[ $cgroups == *"/${1##*/}/"* ]]
}

# _bed_kill BED - 0 when nothing of it ran any more.
_bed_kill()
{
	local bed=$1 p alive=0 dirs f
	_bed_cgroups "$bed"
	# A frozen process takes no signal, not even this one.
	while IFS= read -r f; do
		case $f in
		*/freezer.state) echo THAWED >"$f" ;;
		*/cgroup.freeze) echo 0 >"$f" ;;
		esac 2>/dev/null
	done < <([ ${#dirs[@]} = 0 ] || find "${dirs[@]}" -mindepth 1 \
		\( -name freezer.state -o -name cgroup.freeze \) 2>/dev/null)
	for p in $(_bed_pids "$bed"); do
		kill -KILL "$p" 2>/dev/null && alive=1
	done
	[ $alive = 0 ]
}

_bed_rm_cgroups()
{
	local dirs
	_bed_cgroups "$1"
	[ ${#dirs[@]} = 0 ] ||
		find "${dirs[@]}" -depth -type d -exec rmdir {} + 2>/dev/null
	_bed_cgroups "$1"
	[ ${#dirs[@]} = 0 ]
}

_bed_umount()
{
	local m left=0
	for m in "$1"/fs/*; do
		mountpoint -q "$m" || continue
		umount "$m" 2>/dev/null || left=1
	done
	[ $left = 0 ]
}

# _bed_let_go BED - a signal may have come while this very shell had something
# of the bed open by a redirection, or as its directory.
_bed_let_go()
{
	local fd
	for fd in /proc/"$BASHPID"/fd/*; do
		case $(readlink "$fd") in
		"$1"/*) ;;
		*) continue ;;
		esac
		fd=${fd##*/}
		if [ "$fd" -le 2 ]; then
			eval "exec $fd<>/dev/null"
		else
			eval "exec $fd>&-"
		fi
	done
	case $PWD/ in "$1"/*) cd / || : ;; esac
}

# _bed_clean BED - one round; 0 when there is nothing more to do.
_bed_clean()
{
	_bed_kill "$1"
	_bed_rm_cgroups "$1" && _bed_umount "$1" && _bed_kill "$1"
}

# The loop device is freed by the kernel when the last mount of it is gone,
# which for a dying mount namespace comes a little later.
_bed_loops_free()
{
	! losetup -n -O BACK-FILE 2>/dev/null | grep -qF "$1/img/"
}

# Whoever unshared the mount namespace while our images were mounted has copies
# of these mounts. The kernel frees the device with the last of them; all that
# can be done here is to name their holders.
_bed_loops_why()
{
	local p who
	for p in /proc/[0-9]*; do
		grep -qF "$1/" "$p/mountinfo" 2>/dev/null || continue
		who+=" ${p#/proc/}($(<"$p/comm"))"
	done 2>/dev/null
	_hosts_say "loop devices of $1 stay until these end:${who:- nobody}"
}

hosts_down()
{
	local bed=${1:-$BED} ok=0 m e=$- guard='' traps
	if [ ! -d "$bed" ]; then
		_hosts_forget "$bed"
		return 0
	fi
	set +e
	# What is begun here must be ended: a second signal waits.
	traps=$(trap -p INT TERM HUP)
	trap '' INT TERM HUP
	if [ -d "$bed/state" ]; then
		_bed_let_go "$bed"
		touch "$bed/state/cgroups"
		guard=$(cat "$bed/state/guard" 2>/dev/null)
		if ! _hosts_wait 15 _bed_clean "$bed"; then
			_hosts_say "$bed is busy: $(_bed_pids "$bed" | xargs)"
			for m in "$bed"/fs/*; do
				umount -l "$m" 2>/dev/null
			done
			ok=1
		fi
		_hosts_wait 5 _bed_loops_free "$bed" ||
			_bed_loops_why "$bed"
	fi
	if ! rm -rf --one-file-system "$bed" 2>/dev/null; then
		chattr -fR -ia "$bed" 2>/dev/null
		rm -rf --one-file-system "$bed" || ok=1
	fi
	if [ -n "$guard" ] && [ "$guard" != "$$" ] &&
		_bed_owns "$bed" "$guard"; then
		kill -KILL -- "-$guard" 2>/dev/null
	fi
	_hosts_forget "$bed"
	trap - INT TERM HUP
	eval "$traps"
	case $e in *e*) set -e ;; esac
	return $ok
}

_hosts_forget()
{
	[ "$1" = "$BED" ] || return 0
	BED=
	BED_TMP=
	HOSTS_NAMES=()
	HOST_PID=()
	HOST_NUM=()
}

_hosts_traps()
{
	trap hosts_down EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
}

# _hosts_guard - a process apart that takes the bed down if the owner dies
# without doing it (SIGKILL); ended by hosts_down. It makes the directory, so
# that there is none without a guard.
_hosts_guard()
{
	local owner=$BASHPID
	# shellcheck disable=SC2016 # expanded by the inner shell
	setsid bash -c '
		trap "" INT TERM HUP
		mkdir -m 700 "$2" "$2/state" || exit
		echo "$$" >"$2/state/guard"
		# A zombie, which its parent may keep for long, is dead, too.
		while read -r s 2>/dev/null <"/proc/$3/stat" &&
			[[ ${s##*) } != Z* ]]; do
			sleep 0.5
		done
		export HOSTS_NO_TRAPS=1
		. "$1" && hosts_down "$2"
	' hosts-guard "$HOSTS_LIB" "$BED" "$owner" \
		</dev/null >/dev/null 2>&1 &
	disown $!
	_hosts_wait 20 test -s "$BED/state/guard"
}

# --- bringing up ------------------------------------------------------------

# _hosts_cgroups - records "MOUNT-POINT OUR-DIRECTORY" for each hierarchy.
_hosts_cgroups()
{
	local mnt dir
	awk '{ for (i = 7; $i != "-"; i++); }
		$(i + 1) ~ /^cgroup2?$/ && !seen[$5]++ { print $5 }' \
		/proc/self/mountinfo |
	while read -r mnt; do
		[ -w "$mnt/cgroup.procs" ] || continue
		echo "$mnt $mnt/${BED##*/}"
	done >"$BED/state/cgroups"
	while read -r mnt dir; do
		mkdir "$dir"
		_cgroup_init "$mnt" "$dir"
	done <"$BED/state/cgroups"
}

# _cgroup_init PARENT DIR - makes DIR ready to hold processes.
_cgroup_init()
{
	local f c=()
	if [ -e "$2/cpuset.mems" ] && [ -e "$2/cgroup.clone_children" ]; then
		for f in cpuset.cpus cpuset.mems; do
			cat "$1/$f" >"$2/$f"
		done
		echo 1 >"$2/cgroup.clone_children"
	fi
	if [ -e "$2/cgroup.subtree_control" ]; then
		read -ra c <"$2/cgroup.controllers" || :
		for f in "${c[@]}"; do
			echo "+$f" >"$2/cgroup.subtree_control" || :
		done 2>/dev/null
	fi
}

_hosts_fs()
{
	local name=$1 fs=$2 dir=$BED/fs/$1 img=$BED/img/$1
	mkdir -p "$dir"
	case $fs in
	tmpfs)
		mount -t tmpfs -o mode=755,size=75% vzbed "$dir"
		return
		;;
	ext4) set -- mkfs.ext4 -q -F -m 0 -i 8192 -E lazy_itable_init=1 ;;
	xfs) set -- mkfs.xfs -q -f ;;
	btrfs) set -- mkfs.btrfs -q -f ;;
	*)
		_hosts_say "unknown file system: $fs"
		return 1
		;;
	esac
	truncate -s "${HOSTS_SIZE:-8G}" "$img" || return
	PATH=$PATH:$HOSTS_SYSPATH "$@" "$img" || return
	mount -t "$fs" -o loop "$img" "$dir"
}

# _hosts_etc NAME - the files that make the host another one than this machine.
_hosts_etc()
{
	local name=$1 root=$BED/fs/$1 n t
	cp -a /etc "$root/" || return
	rm -rf "$root/etc/ssh" "$root/etc/vz" "$root/etc/mtab"
	mkdir -p "$root/etc/ssh"
	ln -s /proc/self/mounts "$root/etc/mtab"
	echo "$name" >"$root/etc/hostname"
	{
		echo "127.0.0.1 localhost"
		echo "::1 localhost ip6-localhost"
		for n in "${HOSTS_NAMES[@]}"; do
			echo "$(host_addr "$n") $n"
			echo "$(host_addr "$n" 6) $n"
		done
	} >"$root/etc/hosts"
	# As Debian ships it.
	cat >"$root/etc/ssh/ssh_config" <<-'END'
	Include /etc/ssh/ssh_config.d/*.conf
	Host *
	    SendEnv LANG LC_*
	    HashKnownHosts yes
	END
	cp /etc/ssh/moduli "$root/etc/ssh/" 2>/dev/null || :
	mkdir -m 700 "$root/root" "$root/root/.ssh"
	for t in ed25519 ecdsa; do
		ssh-keygen -q -t $t -N '' -C "root@$name" \
			-f "$root/etc/ssh/ssh_host_${t}_key" || return
	done
	_hosts_rsa_key "$name" "$root/etc/ssh/ssh_host_rsa_key" || return
	ssh-keygen -q -t ed25519 -N '' -C "root@$name" \
		-f "$root/root/.ssh/id_ed25519"
}

# _hosts_rsa_key NAME FILE - takes long to make, so that of the host with this
# number in another set is taken, where HOSTS_KEYS has it.
_hosts_rsa_key()
{
	local kept=${HOSTS_KEYS:+$HOSTS_KEYS/${HOST_NUM[$1]}} new
	if [ -n "$kept" ] && [ -d "$kept" ]; then
		cp -p "$kept/${2##*/}" "$kept/${2##*/}.pub" "${2%/*}/"
		return
	fi
	ssh-keygen -q -t rsa -b 2048 -N '' -C "root@$1" -f "$2" || return
	[ -n "$kept" ] || return 0
	new=$(mktemp -d "$kept.XXXXXX") && cp -p "$2" "$2.pub" "$new/" ||
		return
	# Two sets may come up at once; one key is enough.
	mv -T "$new" "$kept" 2>/dev/null || rm -r "$new"
}

# _hosts_trust - the first host may log in on the others and knows them.
_hosts_trust()
{
	local first=$BED/fs/${HOSTS_NAMES[0]}/root/.ssh n t
	for n in "${HOSTS_NAMES[@]:1}"; do
		install -m 600 "$first/id_ed25519.pub" \
			"$BED/fs/$n/root/.ssh/authorized_keys"
		for t in ed25519 rsa ecdsa; do
			echo "$n,$(host_addr "$n"),$(host_addr "$n" 6)" \
				"$(cut -d' ' -f1,2 \
				"$BED/fs/$n/etc/ssh/ssh_host_${t}_key.pub")"
		done >>"$first/known_hosts"
	done
}

# _hosts_hold CMD ... - starts CMD so that it dies with this shell and no
# signal of the terminal reaches it; HOLD_PID is its pid.
_hosts_hold()
{
	setpriv --pdeathsig KILL setsid "$@" </dev/null &
	HOLD_PID=$!
	echo "$HOLD_PID" >>"$BED/state/holders"
	disown "$HOLD_PID"
}

_hosts_other_net()
{
	[ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]
}

_hosts_ready()
{
	[ -s "$BED/state/$1.ready" ] || ! kill -0 "$2" 2>/dev/null
}

_hosts_start()
{
	local name=$1
	_hosts_hold "${HOSTS_LIB%/*}/host-init" cgroup "$BED" "$name" \
		>"$BED/state/$name.log" 2>&1
	HOST_PID[$name]=$HOLD_PID
}

# _hosts_started NAME - waits until it is whole; its process 1 becomes known.
_hosts_started()
{
	local name=$1
	if ! _hosts_wait 20 _hosts_ready "$name" "${HOST_PID[$name]}" ||
		! [ -s "$BED/state/$name.ready" ]; then
		_hosts_say "host $name did not start:"
		cat "$BED/state/$name.log" >&2
		return 1
	fi
	HOST_PID[$name]=$(<"$BED/state/$name.pid")
}

_hosts_link()
{
	local name=$1 pid=${HOST_PID[$1]}
	_hosts_net "$BED_SWITCH" ip link add "v-$name" type veth \
		peer name eth0 netns "$pid"
	_hosts_net "$BED_SWITCH" ip link set "v-$name" master br0 up
	_hosts_net "$pid" ip -b - <<-END
	link set lo up
	link set eth0 up
	addr add $(host_addr "$name")/24 dev eth0
	addr add $(host_addr "$name" 6)/64 dev eth0 nodad
	END
}

hosts_up()
{
	local fs=tmpfs n
	local -A fs_of=()
	if [ -n "$BED" ]; then
		_hosts_say "there are hosts already: $BED"
		return 1
	fi
	hosts_possible || { _hosts_say "$HOSTS_WHY"; return 1; }
	case ${1:-} in
	tmpfs | ext4 | xfs | btrfs)
		fs=$1
		shift
		;;
	esac
	[ $# -gt 0 ] || set -- a b
	for n; do
		HOSTS_NAMES+=("${n%%=*}")
		HOST_NUM[${n%%=*}]=${#HOSTS_NAMES[@]}
		fs_of[${n%%=*}]=$fs
		case $n in *=*) fs_of[${n%%=*}]=${n#*=} ;; esac
	done
	# The name is known before the directory is there, so that a signal at
	# any time finds what to remove.
	BED=$(readlink -f "${TMPDIR:-/tmp}")/vzbed.$BASHPID.$RANDOM
	BED_TMP=$BED/tmp
	[ "${HOSTS_NO_TRAPS:-}" ] || _hosts_traps
	if ! _hosts_up_all; then
		_hosts_say "could not bring the hosts up"
		hosts_down
		return 1
	fi
}

# The steps of hosts_up. Each is checked, since a caller that tests our status
# has switched errexit off.
_hosts_up_all()
{
	local n
	_hosts_guard || return
	mkdir "$BED/fs" "$BED/img" "$BED/tmp" || return
	# Users of the hosts that are not root get at the scratch directory.
	chmod 711 "$BED" && chmod 700 "$BED/fs" "$BED/img" || return
	: >"$BED/state/cgroups"
	printf '%s\n' "$VZ_TOP" "$VZ_BUILDDIR" "$BED_TMP" \
		${HOSTS_SHARED:+"$HOSTS_SHARED"} >"$BED/state/shared"
	_hosts_cgroups || return
	_hosts_hold "${HOSTS_LIB%/*}/host-init" switch "$BED" br0
	BED_SWITCH=$HOLD_PID
	for n in "${HOSTS_NAMES[@]}"; do
		_hosts_fs "$n" "${fs_of[$n]}" || return
		_hosts_etc "$n" || return
		_hosts_start "$n" || return
	done
	_hosts_trust || return
	_hosts_wait 5 _hosts_other_net "$BED_SWITCH" || return
	_hosts_net "$BED_SWITCH" ip link add br0 type bridge || return
	_hosts_net "$BED_SWITCH" ip link set br0 up || return
	for n in "${HOSTS_NAMES[@]}"; do
		_hosts_started "$n" || return
		_hosts_link "$n" || return
		host_sshd_conf "$n" '' || return
		_sshd_start "$n" 22 || return
	done
}

# --- using them -------------------------------------------------------------

host_addr()
{
	local n=${HOST_NUM[$1]:?no such host}
	if [ "${2:-4}" = 6 ]; then
		echo "$HOSTS_NET6::$n"
	else
		echo "$HOSTS_NET4.$n"
	fi
}

host_dir()
{
	: "${HOST_NUM[$1]:?no such host}"
	echo "$BED/fs/$1"
}

# _on_exec HOST CMD ... - becomes CMD on that host; for subshells.
_on_exec()
{
	local host=$1 mnt dir
	shift
	# Where the v2 hierarchy is delegated, a process may only be moved by
	# one that is inside; v1 does not care, and joining it is slow.
	while read -r mnt dir; do
		[ -e "$dir/cgroup.subtree_control" ] || continue
		echo "$BASHPID" >"$dir/$host/init.scope/cgroup.procs" || :
	done <"$BED/state/cgroups"
	HOME=/root USER=root LOGNAME=root \
	PATH=${HOSTS_PATH:+$HOSTS_PATH:}$(_hosts_path):$HOSTS_SYSPATH \
	exec nsenter -t "${HOST_PID[$host]:?no such host}" \
		-m -n -p -u -C -- "$@"
}

_hosts_path()
{
	echo "$VZ_BUILDDIR/vzmigrate:$VZ_BUILDDIR/tests/tools"
}

on()
{
	(_on_exec "$@")
}

on_bg()
{
	(_on_exec "$@") &
	ON_BG=$!
	_hosts_wait 5 _on_child "$ON_BG"
}

# The command is the child of nsenter, which forks into the pid namespace.
_on_child()
{
	local c
	kill -0 "$1" 2>/dev/null || return 0
	c=$(tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline")
	case $c in nsenter\ *) ;; *) return 1 ;; esac
	# There is no newline at the end of it: read says 1.
	read -r ON_PID _ <"/proc/$1/task/$1/children" || [ -n "$ON_PID" ]
}
