# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What is asked for on the command line is what happens: the connection's
# options through the whole program, where nothing is in common with the
# server, and the new names of each kind.
# run: asan-full

# shellcheck disable=SC2034,SC2164,SC2016 # read by tests/run, which sets -e
TEST_TIMEOUT=150
TOOLS=$VZ_BUILDDIR/tests/tools

setup_file()
{
	hosts_possible || skip "no throw-away hosts here: $HOSTS_WHY"
	# Programs of the hosts' own; the directory goes with the run's.
	HOSTS_PATH=$(mktemp -d "$TEST_TMP/bin.XXXXXX")
	chmod 755 "$HOSTS_PATH"
	ln -s "$VZ_TOP/tests/tools/vzctl-standin" "$HOSTS_PATH/vzctl"
	hosts_up tmpfs a b j
	A=$(host_dir a) B=$(host_dir b)
	for d in "$A" "$B"; do
		mkdir -p "$d"/etc/vz/conf "$d"/etc/vz/names "$d"/vz/private \
			"$d"/vz/root "$d"/var/lib/vz/lock "$d"/srv
		cat >"$d/etc/vz/vz.conf" <<-'END'
		VIRTUOZZO=yes
		LOCKDIR=/var/lib/vz/lock
		DUMPDIR=/vz/dump
		VE_ROOT=/vz/root/$VEID
		VE_PRIVATE=/vz/private/$VEID
		END
	done
	# A second door of b, which lets in another key only.
	on a ssh-keygen -q -t ed25519 -N '' -C other -f '/root/the other key'
	cp "$A/root/the other key.pub" "$B/root/.ssh/others"
	host_sshd_extra b 2222 'AuthorizedKeysFile .ssh/others'
	mkdir -p "$A/srv/d"
	echo x >"$A/srv/d/x"
	COUNT=$BED_TMP/count
	echo 0 >"$COUNT"
}

vzm()
{
	on a vzmigrate "$@"
}

# moves OPTION ... - a directory goes to the host that the options mean; the
# place is a new one each time, so that it is this run that made it.
moves()
{
	local n
	n=$(($(<"$COUNT") + 1))
	echo "$n" >"$COUNT"
	assert_exit 0 vzm --kind=dir "$@" "/srv/d:/srv/d$n"
	assert_file "$B/srv/d$n/x"
}

refused()
{
	local code=$1 says=$2
	shift 2
	assert_exit "$code" vzm --kind=dir "$@"
	assert_match "$says" "$ERR"
	assert_eq 1 "$(wc -l <"$ERR")" "lines on stderr: $(cat "$ERR")"
}

# At the second door the first key does not do, so each of these proves that
# both port and key were taken.
OTHER='-o HostKeyAlias=b -o IdentitiesOnly=yes'

test_port_and_identity()
{
	moves --ssh="$OTHER" -p 2222 -i '/root/the other key' b
	moves --ssh="$OTHER" --port=2222 --identity='/root/the other key' b
	moves --ssh="$OTHER -p 2222 -i '/root/the other key'" b
	moves --ssh="$OTHER -p2222 -i \"/root/the other key\" -l root" b
	moves --ssh="$OTHER -i /root/the\\ other\\ key" ssh://root@b:2222
	moves --ssh="$OTHER" -i '/root/the other key' "[$(host_addr b 6)]:2222"
	refused 4 'does not let root in' --ssh="$OTHER" -p 2222 b /srv/d
	refused 4 'refused' -p 2223 b /srv/d
	refused 1 "port" -p 99999 b /srv/d
}

test_jump()
{
	local log from o
	log=$(host_sshd_log b)
	from="($(host_addr j)|$(host_addr j 6))"
	for o in '-J j' '--jump=root@j:22' '--ssh=-J root@j'; do
		: >"$log"
		if [ "${o#--ssh}" != "$o" ]; then
			moves "$o" b
		else
			# shellcheck disable=SC2086
			moves $o b
		fi
		assert_match "Accepted publickey for root from $from" "$log"
	done
	# What the jump host's ssh says comes before.
	assert_exit 4 vzm --kind=dir -J nosuch.invalid b /srv/d
	assert_match '^ssh: Could not resolve hostname nosuch.invalid' "$ERR"
	assert_match \
		'^vzmigrate: b: no SSH connection through the jump host nosuch' \
		"$ERR"
}

test_other_words_of_ssh()
{
	moves --ssh='-4 -C' b
	moves --ssh='-6 -v' b
	moves --ssh='-C -o ConnectTimeout=5 -o "User root" -oBatchMode=yes' b
	assert_exit 0 vzm -v --kind=dir --ssh='-c aes256-ctr' b /srv/d:/srv/dc
	assert_match 'cipher=aes256-ctr' "$OUT"
	refused 1 '-X' --ssh=-X b /srv/d
	refused 1 'PermitLocalCommand|LocalCommand' \
		--ssh='-o LocalCommand=x -o PermitLocalCommand=yes' b /srv/d
	refused 1 'quote' --ssh="-i 'open" b /srv/d
	refused 1 'nobody|command|word' --ssh='-4 nobody' b /srv/d
}

# One login for all containers of a call.
test_one_connection()
{
	local log
	log=$(host_sshd_log b)
	mkdir -p "$A/srv/e"
	: >"$log"
	assert_exit 0 vzm --kind=dir b /srv/d:/srv/one1 /srv/e:/srv/one2
	assert_file "$B/srv/one1/x"
	assert_file "$B/srv/one2"
	assert_eq 1 "$(grep -ac 'Accepted publickey' "$log")"
}

# A user who is not root, and a sudo that lets him.
test_sudo()
{
	command -v sudo >/dev/null || skip "no sudo"
	on b useradd -m -p '*' -s /bin/sh admin
	on b install -d -m 700 -o admin /home/admin/.ssh
	on b install -m 600 -o admin /root/.ssh/authorized_keys \
		/home/admin/.ssh/
	on b install -m 440 /dev/stdin /etc/sudoers <<-END
	Defaults secure_path="$HOSTS_PATH:${VZ_BUILDDIR}/vzmigrate:$HOSTS_SYSPATH"
	root ALL=(ALL) ALL
	END
	assert_exit 4 vzm --kind=dir admin@b /srv/d:/srv/no
	assert_match 'sudo refuses to start vzmigrate-agent for admin' "$ERR"
	echo 'admin ALL=(root) NOPASSWD: ALL' >>"$B/etc/sudoers"
	on b chmod 440 /etc/sudoers
	moves admin@b
	assert_match 'to admin@b: ' "$OUT"
	assert_eq 0 "$(stat -c %u "$B/srv/d$(<"$COUNT")/x")"
	assert_no_file "$B/srv/no"
}

# The agent tied down as the manual says: whoever has the key can put
# containers into one place and do nothing else.
test_forced_command()
{
	local key
	key=$(cat "$A/root/the other key.pub")
	echo "restrict,command=\"vzmigrate-agent --allow-root=/srv/in\" $key" \
		>"$B/root/.ssh/forced"
	host_sshd_extra b 2224 'AuthorizedKeysFile .ssh/forced'
	mkdir -p "$B/srv/in"
	set -- --ssh="$OTHER" -p 2224 -i '/root/the other key'
	assert_exit 0 vzm --kind=dir "$@" b /srv/d:/srv/in/d
	assert_file "$B/srv/in/d/x"
	refused 6 'outside the roots .*--allow-root' "$@" b /srv/d:/srv/out
	# Nor does another command get through.
	refused 6 'allow-root' --agent='touch /srv/out' "$@" b /srv/d:/srv/out
	assert_exit 1 vzm --kind=dir "$@" b /srv/d:/srv/in/../out
	assert_no_file "$B/srv/out"
	host_sshd_stop b 2224
}

# C3: a file as people have them; its alias is known in no other way.
test_configuration_file()
{
	printf '%s\r\n' 'Include /nonexistent/x' 'Host odd' '  HostName b' \
		'  Port 2222' '  HostKeyAlias b' '  IdentitiesOnly yes' \
		'  IdentityFile "/root/the other key"' 'Match final all' \
		'  ConnectTimeout 9' >"$A/root/.ssh/config"
	moves odd
	refused 4 'odd' --ssh-config=none odd /srv/d
	mv "$A/root/.ssh/config" "$A/root/elsewhere"
	moves --ssh-config=/root/elsewhere odd
	moves --ssh='-F /root/elsewhere' odd
	refused 4 'odd' odd /srv/d
	refused 15 '/nowhere' --ssh-config=/nowhere b /srv/d
}

# --- C1: nothing in common --------------------------------------------------

only()
{
	host_sshd_conf b "$1"
	host_sshd_restart b
}

test_one_cipher_there()
{
	local c
	for c in chacha20-poly1305@openssh.com aes256-ctr; do
		only "Ciphers $c"
		moves b
		assert_match "cipher=$c" "$OUT"
	done
	only 'Ciphers aes128-cbc'
	assert_exit 4 vzm --kind=dir b /srv/d:/srv/no
	assert_match 'we offer, and the server lacks: .*aes256-ctr' "$ERR"
	assert_match 'the server offers: aes128-cbc$' "$ERR"
	assert_match 'we leave out aes128-cbc: CBC mode' "$ERR"
	assert_match '^vzmigrate: b: no cipher \(.*\) in common; to widen our list: --allow-cipher=aes128-cbc$' "$ERR"
	assert_exit 4 vzm --kind=dir --cipher=aes256-ctr b /srv/d:/srv/no
	assert_match '--cipher=aes128-cbc --allow-cipher=aes128-cbc$' "$ERR"
	# And what it advises, works.
	moves --allow-cipher=aes128-cbc b
	assert_match 'cipher=aes128-cbc' "$OUT"
	moves --cipher=aes128-cbc --allow-cipher=aes128-cbc b
	only "MACs hmac-sha2-512"
	assert_exit 4 vzm --kind=dir --cipher=aes256-ctr --mac=hmac-sha2-256 \
		b /srv/d:/srv/no
	assert_match 'no MAC .* in common; to widen our list: --mac=hmac-sha2-512$' \
		"$ERR"
	only 'KexAlgorithms diffie-hellman-group14-sha256'
	assert_exit 4 vzm --kind=dir \
		--ssh='-o KexAlgorithms=curve25519-sha256' b /srv/d:/srv/no
	assert_match 'the server offers: diffie-hellman-group14-sha256' "$ERR"
	assert_match '^vzmigrate: b: no key exchange method in common' "$ERR"
	only ''
	assert_no_file "$B/srv/no"
}

test_ciphers_that_are_gone()
{
	echo 'Ciphers arcfour,blowfish-cbc' >"$A/root/gone"
	assert_exit 15 vzm --kind=dir --ssh-config=/root/gone b /srv/d:/srv/no
	assert_match 'arcfour' "$ERR"
	assert_match 'blowfish-cbc' "$ERR"
	echo 'Ciphers arcfour,blowfish-cbc,aes256-ctr' >"$A/root/gone"
	moves --ssh-config=/root/gone b
	assert_match 'warning: .*arcfour' "$ERR"
	assert_match 'warning: .*blowfish-cbc' "$ERR"
	assert_match 'cipher=aes256-ctr .*warnings=2' "$OUT"
	assert_no_file "$B/srv/no"
}

# --- new names --------------------------------------------------------------

vz_make()
{
	mkdir -p "$A/vz/private/$1/etc" "$A/vz/root/$1"
	echo "ct$1" >"$A/vz/private/$1/etc/hostname"
	cat >"$A/etc/vz/conf/$1.conf" <<-END
	VE_LAYOUT=simfs
	VE_ROOT="/vz/root/\$VEID"
	VE_PRIVATE="/vz/private/\$VEID"
	OSTEMPLATE="none"
	END
}

test_new_names_openvz()
{
	vz_make 301
	vz_make 302
	on a vzctl set 302 --name web --save
	assert_exit 0 vzm b 301:401:/vz/other/401:/vz/otherroot/401
	assert_file "$B/vz/other/401/etc/hostname"
	assert_match '^VE_PRIVATE="?/vz/other/401"?$' "$B/etc/vz/conf/401.conf"
	assert_match '^VE_ROOT="?/vz/otherroot/401"?$' "$B/etc/vz/conf/401.conf"
	assert_exit 0 vzm --new-id=402 --new-name=shop \
		--new-private=/vz/other/402 --new-root=/vz/otherroot/402 b web
	assert_file "$B/vz/other/402/etc/hostname"
	assert_match '^VE_ROOT="?/vz/otherroot/402"?$' "$B/etc/vz/conf/402.conf"
	assert_match '^NAME="?shop"?$' "$B/etc/vz/conf/402.conf"
	assert_file "$B/etc/vz/names/shop"
	assert_no_file "$A/etc/vz/names/web"
	# They are for one; each of several has its own after the colon.
	vz_make 303
	vz_make 304
	assert_exit 1 vzm --new-id=403 b 303 304
	assert_match '--new-id is for one container' "$ERR"
	assert_exit 0 vzm b 303:403 304:404
	assert_file "$B/vz/private/403/etc/hostname"
	assert_file "$B/vz/private/404/etc/hostname"
}

test_new_names_lxc()
{
	lxc_make a n1
	lxc_make a n2
	# It is known here, so no host is asked.
	assert_exit 1 vzm --new-name=m1 nosuchhost n1
	assert_match '^vzmigrate: n1: an lxc container has one name: use --new-id instead of --new-name$' "$ERR"
	assert_exit 1 vzm nosuchhost n1::/data/n1:/x
	assert_match '^vzmigrate: n1: --new-root has no meaning for lxc' "$ERR"
	assert_exit 1 vzm --new-id=.m1 nosuchhost n1
	assert_match "^vzmigrate: n1: '.m1' cannot be the name of an lxc" "$ERR"
	assert_exit 0 vzm --new-id=m1 b n1
	assert_file "$B/var/lib/lxc/m1/rootfs/sbin/init"
	assert_match '^lxc.uts.name = m1$' "$B/var/lib/lxc/m1/config"
	mkdir -p "$B/data"
	assert_exit 0 vzm b n2:m2:/data/m2
	assert_file "$B/data/m2/sbin/init"
	assert_match '^lxc.rootfs.path = (dir:)?/data/m2$' \
		"$B/var/lib/lxc/m2/config"
	on b lxc-start m2
	wait_until 10 eval '[ "$(lxc_state b m2)" = RUNNING ]'
	on b lxc-stop -k m2
}

test_new_names_dir()
{
	assert_exit 0 vzm --kind=dir --new-private=/srv/by-option b /srv/d
	assert_file "$B/srv/by-option/x"
	refused 1 'contradicts' --new-private=/srv/p b /srv/d:/srv/q
	assert_no_file "$B/srv/p"
	assert_no_file "$B/srv/q"
	cp -r "$A/srv/d" "$A/srv/with:colon"
	assert_exit 0 vzm --kind=dir b '/srv/with\:colon:/srv/without'
	assert_file "$B/srv/without/x"
}

# --- what the configuration refers to (S10) ---------------------------------

test_lxc_own_and_shared()
{
	local c=$A/var/lib/lxc/s10
	lxc_make a s10
	printf 'lxc.environment = OWN=yes\n' >"$c/extra.conf"
	printf '#!/bin/sh\nexit 0\n' >"$c/hook"
	chmod 755 "$c/hook"
	mkdir -p "$A/srv/shared" "$A/etc/shared"
	echo 'lxc.environment = SHARED=yes' >"$A/etc/shared/lxc.conf"
	cat >>"$c/config" <<-END
	lxc.include = /var/lib/lxc/s10/extra.conf
	lxc.include = /etc/shared/lxc.conf
	lxc.hook.pre-start = /var/lib/lxc/s10/hook
	lxc.mount.entry = /srv/shared mnt none bind,create=dir 0 0
	END
	# What is shared must be there; all of it is told at once.
	assert_exit 19 vzm b s10
	assert_match '/etc/shared/lxc.conf' "$ERR"
	assert_match '/srv/shared' "$ERR"
	assert_no_file "$B/var/lib/lxc/s10"
	mkdir -p "$B/srv/shared" "$B/etc/shared"
	cp "$A/etc/shared/lxc.conf" "$B/etc/shared/"
	assert_exit 0 vzm b s10:t10
	assert_file "$B/var/lib/lxc/t10/extra.conf"
	assert_file "$B/var/lib/lxc/t10/hook"
	assert_match '^lxc.include = /var/lib/lxc/t10/extra.conf$' \
		"$B/var/lib/lxc/t10/config"
	assert_match '^lxc.hook.pre-start = /var/lib/lxc/t10/hook$' \
		"$B/var/lib/lxc/t10/config"
	on b lxc-start t10
	wait_until 10 eval '[ "$(lxc_state b t10)" = RUNNING ]'
	on b lxc-stop -k t10
}

# --- locks (S6) -------------------------------------------------------------

# Busy and no directory, and what would fail on the other side only after the
# source was given up.
test_lock_directory()
{
	local d=$A/var/lib/vz/lock
	vz_make 310
	rmdir "$d"
	echo x >"$d"
	assert_exit 15 vzm b 310
	assert_match "lock directory /var/lib/vz/lock cannot be used" "$ERR"
	rm "$d"
	mkdir "$d"
	echo 1 >"$d/310.lck"
	assert_exit 20 vzm b 310
	rm "$d/310.lck"
	on b mount -t tmpfs -o ro none /var/lib/vz/lock
	assert_exit 19 vzm b 310
	assert_match '^vzmigrate: root@b: the lock directory .*read-only' "$ERR"
	on b umount /var/lib/vz/lock
	echo 1 >"$B/var/lib/vz/lock/310.lck"
	assert_exit 20 vzm b 310
	rm "$B/var/lib/vz/lock/310.lck"
	assert_exit 0 vzm --check-only b 310
	assert_no_file "$B/var/lib/vz/lock/310.lck"
	assert_file "$A/etc/vz/conf/310.conf"
	assert_exit 0 vzm b 310
}
