# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What is done with hosts that are up: their sshds, links and containers.
# Sourced by hosts.sh, which says at its top what each function does.

# --- sshd -------------------------------------------------------------------

# _sshd_write HOST PORT LINES - the first value of a keyword counts in
# sshd_config, and a Match block goes on to the end of the file: so the extra
# lines come first, with their Match blocks last.
_sshd_write()
{
	local host=$1 port=$2 extra=$3 dir=$BED/fs/$1/etc/ssh top match key line
	local sub=
	[ "$port" = 22 ] || sub=.$port
	top=$(sed '/^[[:space:]]*[Mm]atch[[:space:]]/,$d' <<<"$extra")
	match=$(sed -n '/^[[:space:]]*[Mm]atch[[:space:]]/,$p' <<<"$extra")
	{
		printf '%s\n' "$top"
		while read -r key line; do
			grep -qiE "^[[:space:]]*${key}[[:space:]=]" <<<"$top" ||
				printf '%s %s\n' "$key" "$line"
		done <<-END
		Port $port
		ListenAddress 0.0.0.0
		ListenAddress ::
		HostKey /etc/ssh/ssh_host_ed25519_key
		HostKey /etc/ssh/ssh_host_rsa_key
		HostKey /etc/ssh/ssh_host_ecdsa_key
		PidFile /run/sshd-$port.pid
		LogLevel VERBOSE
		UsePAM no
		PermitRootLogin yes
		MaxStartups 100
		PrintMotd no
		UseDNS no
		Subsystem sftp internal-sftp
		AcceptEnv LANG LC_*
		SetEnv PATH=${HOSTS_PATH:+$HOSTS_PATH:}$(_hosts_path):$HOSTS_SYSPATH ${HOSTS_SSHD_ENV:-}
		$(_sshd_penalties)
		END
		printf '%s\n' "$match"
	} >"$dir/sshd_config$sub"
}

# Newer servers refuse an address for a while after failed logins, which tests
# make on purpose; older ones do not know the keyword.
_sshd_penalties()
{
	if [ -z "${SSHD_PENALTIES+x}" ]; then
		SSHD_PENALTIES=
		/usr/sbin/sshd -T -f /dev/null -o PerSourcePenalties=no \
			-h "$BED/fs/${HOSTS_NAMES[0]}/etc/ssh/ssh_host_ed25519_key" \
			>/dev/null 2>&1 && SSHD_PENALTIES="PerSourcePenalties no"
	fi
	echo "$SSHD_PENALTIES"
}

_sshd_start()
{
	local host=$1 port=$2 sub=
	[ "$port" = 22 ] || sub=.$port
	on "$host" /usr/sbin/sshd -f "/etc/ssh/sshd_config$sub" \
		-E "/var/log/sshd-$port.log" </dev/null || return
	# The pid is written after the sockets listen.
	_hosts_wait 10 test -s "$BED/fs/$host/run/sshd-$port.pid" || {
		_hosts_say "sshd of $host does not listen on $port"
		return 1
	}
}

host_sshd_conf()
{
	_sshd_write "$1" 22 "$2"
}

host_sshd_stop()
{
	local host=$1 port=${2:-22} pid file
	file=$BED/fs/$host/run/sshd-$port.pid
	[ -s "$file" ] || return 0
	pid=$(<"$file")
	# sshd removes the file only when it ends by a signal of its liking.
	on "$host" kill -TERM "$pid" 2>/dev/null || :
	_hosts_wait 10 _sshd_gone "$host" "$pid" || return
	rm -f "$file"
}

_sshd_gone()
{
	! on "$1" kill -0 "$2" 2>/dev/null
}

host_sshd_restart()
{
	host_sshd_stop "$1" 22 && _sshd_start "$1" 22
}

host_sshd_extra()
{
	host_sshd_stop "$1" "$2" && _sshd_write "$1" "$2" "$3" &&
		_sshd_start "$1" "$2"
}

host_sshd_log()
{
	echo "$BED/fs/$1/var/log/sshd-${2:-22}.log"
}

host_syslog()
{
	local file=$BED/fs/$1/var/log/messages
	: >>"$file"
	on "$1" busybox syslogd -O /var/log/messages </dev/null || return
	_hosts_wait 5 on "$1" test -S /dev/log || return
	echo "$file"
}

# --- the links --------------------------------------------------------------

link_rate()
{
	local n pid
	for n in "${HOSTS_NAMES[@]}"; do
		pid=${HOST_PID[$n]}
		_hosts_net "$pid" tc qdisc del dev eth0 root 2>/dev/null || :
		_hosts_net "$BED_SWITCH" tc qdisc del dev "v-$n" root \
			2>/dev/null || :
		[ "$1" = none ] && continue
		# What leaves the host and what reaches it.
		_hosts_net "$pid" tc qdisc add dev eth0 root tbf \
			rate "$1" burst "${2:-128k}" latency 50ms || return
		_hosts_net "$BED_SWITCH" tc qdisc add dev "v-$n" root tbf \
			rate "$1" burst "${2:-128k}" latency 50ms || return
	done
}

# Out of the bridge: both ends keep their carrier and learn nothing.
link_cut()
{
	_hosts_net "$BED_SWITCH" ip link set "v-$1" nomaster
}

link_join()
{
	_hosts_net "$BED_SWITCH" ip link set "v-$1" master br0
}

# --- containers -------------------------------------------------------------

lxc_make()
{
	local host=$1 name=$2 init=${3:-} dir busybox a
	dir=$BED/fs/$host/var/lib/lxc/$name
	busybox=$(command -v busybox) || { _hosts_say "no busybox"; return 1; }
	mkdir -p "$dir/rootfs"/{bin,sbin,dev,proc,sys,tmp,etc,root,var,usr/bin} ||
		return
	cp "$busybox" "$dir/rootfs/bin/busybox" || return
	for a in sh cat date echo hostname ls mkdir ps rm sleep sync touch; do
		ln -sf busybox "$dir/rootfs/bin/$a"
	done
	chmod 1777 "$dir/rootfs/tmp"
	echo "root:x:0:0:root:/root:/bin/sh" >"$dir/rootfs/etc/passwd"
	echo "$name" >"$dir/rootfs/etc/hostname"
	if [ -n "$init" ]; then
		install -m 755 "$init" "$dir/rootfs/sbin/init" || return
	else
		# lxc-stop asks with SIGPWR.
		cat >"$dir/rootfs/sbin/init" <<-'END'
		#!/bin/sh
		trap 'exit 0' PWR TERM
		while :; do
			sleep 3600 &
			wait $!
		done
		END
		chmod 755 "$dir/rootfs/sbin/init"
	fi
	# LXC sends another signal to an init that seems to block SIGRTMIN+3,
	# as a shell does for a moment when it forks: then nobody hears it. And
	# the hook of lxcfs, cleared in the last line, sleeps for half a second.
	cat >"$dir/config" <<-END
	lxc.uts.name = $name
	lxc.rootfs.path = dir:/var/lib/lxc/$name/rootfs
	lxc.include = /usr/share/lxc/config/common.conf
	lxc.net.0.type = empty
	lxc.console.path = none
	lxc.tty.max = 0
	lxc.pty.max = 1
	lxc.init.cmd = /sbin/init
	lxc.signal.halt = SIGPWR
	lxc.hook.post-stop =
	END
}

lxc_state()
{
	on "$1" lxc-info -H -s -n "$2"
}
