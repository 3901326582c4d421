# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# ct/ against LXC's own programs, and against vzctl's stand-in, through
# tests/tools/ctprobe, on one throw-away host.

setup_file()
{
	hosts_possible || skip "$HOSTS_WHY"
	command -v lxc-start >/dev/null || skip "no lxc (package lxc)"
	command -v busybox >/dev/null || skip "no busybox (busybox-static)"
	hosts_up a
	CT=$VZ_BUILDDIR/tests/tools/ctprobe
	[ -x "$CT" ] || fail "$CT is not built"
	on a mkdir -p /srv/lxc /etc/vz/conf /etc/vz/names /vz/private /vz/root
	mkdir "$BED_TMP/bin"
	ln -s "$VZ_TOP/tests/tools/vzctl-standin" "$BED_TMP/bin/vzctl"
}

# ct ARG ... - ctprobe on the host, with vzctl's stand-in.
ct()
{
	on a env "PATH=$BED_TMP/bin:$PATH" "$CT" "$@"
}

vzctl()
{
	on a "$BED_TMP/bin/vzctl" "$@"
}

lxc_root()
{
	host_dir a
}

running()
{
	[ "$(lxc_state a "$1")" = RUNNING ]
}

stopped()
{
	[ "$(lxc_state a "$1")" = STOPPED ]
}

test_lxc_states()
{
	lxc_make a st
	assert_eq stopped "$(ct state lxc st)"
	on a lxc-start -n st
	wait_until 10 running st
	assert_eq running "$(ct state lxc st)"
	# The configuration under another name does not hide that it runs.
	ct block lxc st
	assert_eq running "$(ct state lxc st)"
	on a lxc-stop -k -n st
	assert_eq stopped "$(ct state lxc st)"
	ct unblock lxc st
	stopped st
}

test_lxc_blocked_cannot_start()
{
	lxc_make a bl
	on a sh -c 'echo lxc.start.auto = 1 >>/var/lib/lxc/bl/config'
	assert_match '^autostart 1$' <(ct load lxc bl)
	assert_match '^bl$' <(on a lxc-autostart -L | cut -d' ' -f1)
	ct block lxc bl
	assert_exit 1 on a lxc-start -n bl
	assert_match 'No container config' "$ERR"
	assert_eq "" "$(on a lxc-autostart -L | grep -w bl || :)" autostart
	assert_exit 0 on a lxc-autostart
	assert_eq blocked "$(ct load lxc bl | sed -n 's/^mark //p')"
	ct retire lxc bl s-1
	assert_exit 1 on a lxc-start -n bl
	assert_eq s-1 "$(ct load lxc bl | sed -n 's/^tag //p')"
	assert_eq "" "$(on a lxc-ls -1 | grep -x bl || :)" lxc-ls
	ct unretire lxc bl s-1
	ct unblock lxc bl
	on a lxc-start -n bl
	wait_until 10 running bl
	on a lxc-stop -k -n bl
	ct block lxc bl
	ct retire lxc bl s-2
	ct destroy lxc bl
	assert_no_file "$(lxc_root)/var/lib/lxc/bl"
}

test_lxc_committed_starts()
{
	local r stage
	r=$(lxc_root)
	lxc_make a co
	printf '#!/bin/sh\ntouch /srv/hook.ran\n' >"$r/var/lib/lxc/co/hook"
	chmod 755 "$r/var/lib/lxc/co/hook"
	echo 'lxc.hook.pre-start = /var/lib/lxc/co/hook' \
		>>"$r/var/lib/lxc/co/config"
	stage=$r/srv/lxc/.stage
	mkdir -m 700 "$stage"
	cp -a "$r/var/lib/lxc/co/rootfs" "$stage/root"
	assert_eq "" "$(ct check lxc co /srv/lxc neu)"
	assert_eq 0 "$(ct registered lxc co /srv/lxc neu)"
	ct commit lxc co /srv/lxc neu /srv/lxc/.stage/root
	assert_eq 1 "$(ct registered lxc co /srv/lxc neu)"
	assert_eq STOPPED "$(on a lxc-info -P /srv/lxc -n neu -s -H)"
	# Without what it came from, so that it must live on its own.
	on a mv /var/lib/lxc/co /var/lib/co.away
	on a lxc-start -P /srv/lxc -n neu
	assert_file "$r/srv/hook.ran"
	assert_eq neu "$(on a lxc-attach -P /srv/lxc -n neu -- hostname)"
	on a mv /var/lib/co.away /var/lib/lxc/co
	assert_match 'error exists: /srv/lxc/neu is a container already, and it' \
		<(ct check lxc co /srv/lxc neu)
	on a lxc-stop -P /srv/lxc -k -n neu
	ct uncommit lxc co /srv/lxc neu /srv/lxc/.stage/root
	assert_no_file "$r/srv/lxc/neu"
	assert_file "$stage/root/sbin/init"
	assert_exit 1 on a lxc-start -P /srv/lxc -n neu
	rm -rf "$stage" "$r/var/lib/lxc/co"
}

# lxc-info takes LXC's lock, as each of its programs does that reads the
# configuration: the migration's own lock must not make it wait.
test_lxc_lock_lets_lxc_work()
{
	lxc_make a lk
	assert_exit 0 ct lock lxc lk lxc-info -n lk -s -H
	assert_match '^STOPPED$' "$OUT"
	assert_exit 15 ct lock lxc lk "$CT" lock lxc lk true
	assert_match 'lxc /var/lib/lxc/lk is locked by pid [0-9]+ \(' "$ERR"
	rm -rf "$(lxc_root)/var/lib/lxc/lk"
}

vz_make()
{
	local r
	r=$(lxc_root)
	mkdir -p "$r/vz/private/$1"/{bin,sbin}
	cp "$(command -v busybox)" "$r/vz/private/$1/bin/busybox"
	ln -s busybox "$r/vz/private/$1/bin/sh"
	ln -s busybox "$r/vz/private/$1/bin/sleep"
	printf '#!/bin/sh\nwhile :; do sleep 1; done\n' \
		>"$r/vz/private/$1/sbin/init"
	chmod 755 "$r/vz/private/$1/sbin/init"
	cat >"$r/etc/vz/vz.conf" <<-'END'
	LOCKDIR=/vz/lock
	DUMPDIR=/vz/dump
	VE_ROOT=/vz/root/$VEID
	VE_PRIVATE=/vz/private/$VEID
	END
	printf 'NAME="%s"\nONBOOT="yes"\n' "$2" >"$r/etc/vz/conf/$1.conf"
	ln -s "/etc/vz/conf/$1.conf" "$r/etc/vz/names/$2"
}

test_openvz()
{
	local r
	r=$(lxc_root)
	vz_make 101 web
	assert_eq openvz "$(ct detect - web)"
	vzctl start 101 >/dev/null
	assert_eq running "$(ct state openvz 101)"
	vzctl stop 101 --fast >/dev/null
	assert_eq stopped "$(ct state openvz web)"
	# The lock is the same in both directions.
	assert_exit 9 ct lock openvz web "$BED_TMP/bin/vzctl" start 101
	assert_match '^Container already locked$' "$ERR"
	ct block openvz web
	assert_exit 14 vzctl start 101
	assert_exit 21 vzctl start web
	ct retire openvz 101 s-1
	assert_file "$r/etc/vz/conf/101.conf.migrated"
	assert_exit 14 vzctl start 101
	ct unretire openvz 101 s-1
	ct unblock openvz 101
	assert_exit 0 vzctl start web
	vzctl stop 101 --fast >/dev/null
	ct block openvz 101
	ct retire openvz 101 s-2
	ct destroy openvz 101
	assert_eq "" "$(ls -A "$r/vz/private" "$r/etc/vz/conf" \
		"$r/etc/vz/names" | grep -v : | xargs)"
}
