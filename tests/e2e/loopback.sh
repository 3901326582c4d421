# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The demo where namespaces are not allowed: one machine, two sshds on loopback
# ports with a key each, and a plain directory instead of a container. Sourced
# by quickstart, with hosts.sh, whose BED and traps it uses.

# loop_sshd NAME - starts one on a free port; prints nothing, sets LOOP_PORT.
loop_sshd()
{
	local d=$BED/$1 try
	mkdir -m 700 "$d"
	ssh-keygen -q -t ed25519 -N '' -f "$d/hostkey"
	cp "$BED/id.pub" "$d/authorized_keys"
	for try in 1 2 3 4 5 6 7 8 9 10; do
		LOOP_PORT=$((20000 + (RANDOM + try) % 10000))
		cat >"$d/sshd_config" <<-END
		Port $LOOP_PORT
		ListenAddress 127.0.0.1
		HostKey $d/hostkey
		AuthorizedKeysFile $d/authorized_keys
		PidFile $d/pid
		StrictModes no
		UsePAM no
		PasswordAuthentication no
		PermitRootLogin prohibit-password
		Subsystem sftp internal-sftp
		SetEnv PATH=$VZ_BUILDDIR/vzmigrate:$PATH
		END
		setpriv --pdeathsig KILL /usr/sbin/sshd -D \
			-f "$d/sshd_config" -E "$d/log" </dev/null &
		LOOP_PID=$!
		echo "$LOOP_PID" >>"$BED/state/holders"
		disown "$LOOP_PID"
		_hosts_wait 5 loop_listens "$d" "$LOOP_PID" || :
		[ -s "$d/pid" ] && return
	done
	cat "$d/log" >&2
	return 1
}

loop_listens()
{
	[ -s "$1/pid" ] || ! kill -0 "$2" 2>/dev/null
}

# loop_up - sets LOOP_A and LOOP_B to the two ports.
loop_up()
{
	BED=${TMPDIR:-/tmp}/vzbed.$BASHPID.$RANDOM
	BED_TMP=$BED/tmp
	_hosts_traps
	mkdir -m 700 "$BED"
	mkdir "$BED/state" "$BED/fs" "$BED/img" "$BED_TMP"
	: >"$BED/state/cgroups"
	_hosts_guard
	[ -d /run/sshd ] || mkdir /run/sshd
	ssh-keygen -q -t ed25519 -N '' -f "$BED/id"
	loop_sshd a
	LOOP_A=$LOOP_PORT
	loop_sshd b
	LOOP_B=$LOOP_PORT
	echo "[127.0.0.1]:$LOOP_A $(cut -d' ' -f1,2 "$BED/a/hostkey.pub")" \
		>"$BED/known_hosts"
	echo "[127.0.0.1]:$LOOP_B $(cut -d' ' -f1,2 "$BED/b/hostkey.pub")" \
		>>"$BED/known_hosts"
}

demo_loopback()
{
	local a b log made d
	loop_up
	a=$BED/a/tree b=$BED/b/tree log=$BED_TMP/log
	start_tree "$1" "$a"
	build
	quietly "$VZ_BUILDDIR/make.log" make -C "$VZ_BUILDDIR" tests/tools/treecmp
	finish_tree "$a"
	made=()
	for d in /var/lib/vzmigrate /run/vzmigrate /var/log/vzmigrate; do
		[ -e $d ] || made+=("$d")
	done
	say "vzmigrate --kind=dir root@127.0.0.1 (port $LOOP_B) $a:$b"
	"$VZ_BUILDDIR/vzmigrate/vzmigrate" --kind=dir -p "$LOOP_B" -i "$BED/id" \
		--ssh-config=none \
		--ssh="-o UserKnownHostsFile=$BED/known_hosts" \
		"root@127.0.0.1" "$a:$b" | tee "$log"
	# There is one machine only, so its own folders served as both hosts'.
	rmdir /run/sshd 2>/dev/null || :
	[ ${#made[@]} = 0 ] || rm -rf --one-file-system "${made[@]}"
	demo_end "$a" "$b" "$log"
}
