# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# vzmigrate/ssh/ against real sshds on loopback ports, through sshprobe. One
# test for each trap of libssh that the code works around, and field cases T1,
# T7, T8, T10, T11, T14, C1, C3 as far as the connection.
# run: asan-full
# shellcheck disable=SC2016 # what the remote shell expands

# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=240

setup_file()
{
	SD=$(mktemp -d)
	# sshd checks nothing here (StrictModes no), but a user's login shell
	# must reach the files.
	chmod 755 "$SD"
	PROBE=$VZ_BUILDDIR/tests/tools/sshprobe
	[ -x "$PROBE" ] || fail "sshprobe is not built: $PROBE"
	[ -x /usr/sbin/sshd ] || skip "no sshd here (Debian: openssh-server)"
	[ -d /run/sshd ] || mkdir /run/sshd
	local k
	for k in hk hk2 id id2 id3 ca; do
		ssh-keygen -q -t ed25519 -N '' -C "$k" -f "$SD/$k"
	done
	ssh-keygen -q -t rsa -b 2048 -N '' -C hkrsa -f "$SD/hkrsa"
	ssh-keygen -q -t rsa -b 2048 -N '' -C idrsa -f "$SD/idrsa"
	ssh-keygen -q -t ed25519 -N 'pass phrase' -C enc -f "$SD/enc"
	ssh-keygen -q -t rsa -b 2048 -m PEM -N secret -C pem -f "$SD/pem"
	cat "$SD"/{id,idrsa,enc,pem}.pub >"$SD/ak"
	# instead PATH OF-THIS-MACHINE CMD ... - CMD sees the one for the other.
	cat >"$SD/instead" <<-'END'
	#!/bin/sh
	[ "$1" = -- ] || exec unshare -m "$0" -- "$@"
	mount --bind "$2" "$3" && shift 3 && exec "$@"
	END
	chmod 755 "$SD/instead"
}

teardown_file()
{
	rm -rf "${SD:?}"
}

# --- helpers ----------------------------------------------------------------

listens()
{
	[ -s "$1/pid" ] || ! kill -0 "$2" 2>/dev/null
}

# start_sshd NAME [LINE ...] - a server of this test's own; sets PORT, PID. The
# lines come first in its configuration, where sshd takes the first value.
start_sshd()
{
	local d=$TEST_TMP/$1 try
	shift
	mkdir -p "$d"
	for try in 1 2 3 4 5 6 7 8 9 10; do
		PORT=$((20000 + (RANDOM + try) % 12000))
		printf '%s\n' "$@" >"$d/config"
		cat >>"$d/config" <<-END
		Port $PORT
		ListenAddress 127.0.0.1
		PidFile $d/pid
		AuthorizedKeysFile $SD/ak
		StrictModes no
		UsePAM no
		PasswordAuthentication no
		KbdInteractiveAuthentication no
		LogLevel DEBUG1
		END
		# bash would read the account's .bashrc, which may do anything
		grep -q '^SetEnv ' "$d/config" ||
			echo "SetEnv SHLVL=2" >>"$d/config"
		grep -q '^HostKey ' "$d/config" ||
			echo "HostKey $SD/hk" >>"$d/config"
		setpriv --pdeathsig KILL \
			${ETC:+"$SD/instead" "$ETC" /etc} \
			/usr/sbin/sshd -D -f "$d/config" -E "$d/log" </dev/null &
		PID=$!
		disown "$PID"
		wait_until 10 listens "$d" "$PID"
		[ -s "$d/pid" ] && return
	done
	cat "$d/log" >&2
	fail "sshd does not start"
}

# known PORT KEYFILE ... - what is recorded, in $TEST_TMP/kh
known()
{
	local port=$1 k
	shift
	: >"$TEST_TMP/kh"
	for k in "$@"; do
		echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 "$SD/$k.pub")" \
			>>"$TEST_TMP/kh"
	done
}

# probe [OPTION ...] - with the user's files out of the way
probe()
{
	SSH_AUTH_SOCK=${AGENT:-} "$PROBE" --ssh-config="${CONFIG:-none}" \
		--ssh="-o UserKnownHostsFile=$TEST_TMP/kh \
		-o GlobalKnownHostsFile=/dev/null" "$@"
}

# The usual: one server, its key known, the good identity.
usual()
{
	start_sshd srv "$@"
	known "$PORT" hk
}

good()
{
	probe -p "$PORT" -i "$SD/id" "$@"
}

start_agent()
{
	AGENT=$TEST_TMP/agent
	# setgid, so pdeathsig would not hold; a stopped one takes only KILL
	ssh-agent -D -a "$AGENT" >/dev/null 2>&1 </dev/null &
	AGENT_PID=$!
	trap 'kill -KILL "$AGENT_PID"' EXIT
	disown "$AGENT_PID"
	wait_until 10 test -S "$AGENT"
}

add_key()
{
	SSH_AUTH_SOCK=$AGENT ssh-add -q "$@" 2>/dev/null
}

# No log line of a server tells of an attempt to authenticate.
no_credential()
{
	assert_no_match 'Accepted|Failed|Postponed|userauth-request' \
		"$TEST_TMP/$1/log"
}

# All sshd processes below a pid, the deepest last.
sshd_tree()
{
	local p
	for p in $(pgrep -P "$1"); do
		echo "$p"
		sshd_tree "$p"
	done
}

# --- the connection ---------------------------------------------------------

test_connect_and_info()
{
	usual
	assert_exit 5 good --info --fds root@127.0.0.1 \
		'echo out; echo err >&2; exit 5'
	assert_eq out "$(cat "$OUT")"
	assert_match '^err$' "$ERR"
	assert_match '^cipher_c2s: aes128-gcm@openssh.com$' "$ERR"
	# what comes back is not under GCM: CVE-2026-59847
	assert_match '^cipher_s2c: chacha20-poly1305@openssh.com$' "$ERR"
	assert_match '^peer: 127.0.0.1 '"$PORT" "$ERR"
	assert_match '^hostkey: ssh-ed25519 SHA256:' "$ERR"
	assert_match '^srv_ciphers_c2s: .*aes256-ctr' "$ERR"
	assert_match '^strict_kex: 1$' "$ERR"
	assert_match "^auth: publickey $SD/id\$" "$ERR"
	assert_match '^end: the remote command ended with status 5' "$ERR"
	# the socket is close-on-exec (libssh's own is not), nothing leaks
	assert_match '^fd open: socket:.* cloexec=1' "$ERR"
	assert_no_match '^fd open: socket:.* cloexec=0' "$ERR"
	assert_eq "$(sed -n 's/^fds before: //p' "$ERR")" \
		"$(sed -n 's/^fds after: //p' "$ERR")" descriptors
}

test_addresses()
{
	start_sshd srv "ListenAddress ::1"
	echo "[127.0.0.1]:$PORT,[::1]:$PORT,[localhost]:$PORT" \
		"$(cut -d' ' -f1,2 "$SD/hk.pub")" >"$TEST_TMP/kh"
	local t
	for t in 127.0.0.1 root@::1 "[::1]:$PORT" "ssh://root@[::1]:$PORT" \
		"ssh://127.0.0.1:$PORT/" localhost; do
		assert_exit 0 good "$t" true
	done
	assert_exit 0 good --ssh=-4 localhost true
	assert_exit 109 probe -p 1 --ssh=-6 ::1 true
	# The address is told once, however often it was tried.
	assert_match "error connect: cannot connect to ::1 port 1: Connection refused\$" "$ERR"
	assert_exit 109 probe -p 1 --ssh='-4 -o ConnectionAttempts=2' \
		localhost true
	assert_match "error connect: cannot connect to localhost: 127.0.0.1 port 1: Connection refused\$" "$ERR"
	assert_exit 109 good --ssh=-4 ::1 true
}

test_second_address_is_tried()
{
	usual
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	echo "[two-faces]:$PORT $(cut -d' ' -f1,2 "$SD/hk.pub")" \
		>"$TEST_TMP/kh"
	printf '%s two-faces\n' ::1 127.0.0.2 127.0.0.1 >"$TEST_TMP/hosts"
	assert_exit 0 "$SD/instead" "$TEST_TMP/hosts" /etc/hosts "$PROBE" \
		--ssh-config=none --info -p "$PORT" -i "$SD/id" \
		--ssh="-o UserKnownHostsFile=$TEST_TMP/kh" two-faces true
	assert_match '^peer: 127.0.0.1 ' "$ERR"
}

test_no_such_host()
{
	assert_exit 109 probe no-such-host.invalid true
	assert_match 'error connect: cannot find the host' "$ERR"
}

test_server_that_says_nothing()
{
	# a listener that accepts and is silent; then one that is no SSH
	python3 - "$TEST_TMP/port" <<-'END' &
	import socket, sys, os
	s = socket.socket()
	s.bind(("127.0.0.1", 0))
	s.listen(8)
	open(sys.argv[1] + ".new", "w").write(str(s.getsockname()[1]))
	os.rename(sys.argv[1] + ".new", sys.argv[1])
	keep = [s.accept()]
	c = s.accept()[0]
	c.sendall(b"HTTP/1.0 400 no\r\n" * 20)
	c.close()
	s.accept()
	END
	local pid=$!
	wait_until 10 test -s "$TEST_TMP/port"
	local port
	port=$(cat "$TEST_TMP/port")
	assert_exit 107 probe -p "$port" --timeout 1000 127.0.0.1 true
	assert_match 'error timeout: .*does not answer' "$ERR"
	assert_exit 109 probe -p "$port" --timeout 3000 127.0.0.1 true
	assert_match 'error connect: 127.0.0.1: no SSH connection' "$ERR"
	kill "$pid"
}

# --- host keys (T11) --------------------------------------------------------

test_hostkey_unknown()
{
	start_sshd srv
	: >"$TEST_TMP/kh"
	assert_exit 110 good 127.0.0.1 true
	assert_match 'error host-key: .*not known.*SHA256:' "$ERR"
	assert_exit 110 good --ssh='-o StrictHostKeyChecking=yes' 127.0.0.1 true
	no_credential srv
	assert_eq '' "$(cat "$TEST_TMP/kh")" known_hosts
	assert_exit 0 good --ssh='-o StrictHostKeyChecking=accept-new' \
		127.0.0.1 true
	assert_match "^\[127.0.0.1\]:$PORT ssh-ed25519 " "$TEST_TMP/kh"
	assert_exit 0 good --ssh='-o StrictHostKeyChecking=yes' 127.0.0.1 true
	# hashed, by us and by ssh-keygen
	: >"$TEST_TMP/kh"
	assert_exit 0 good --ssh='-o StrictHostKeyChecking=no
		-o HashKnownHosts=yes' 127.0.0.1 true
	assert_match '^\|1\|' "$TEST_TMP/kh"
	ssh-keygen -q -F "[127.0.0.1]:$PORT" -f "$TEST_TMP/kh" >/dev/null ||
		fail "ssh-keygen does not find what we hashed"
	known "$PORT" hk
	ssh-keygen -q -H -f "$TEST_TMP/kh" >/dev/null 2>&1
	assert_match '^\|1\|' "$TEST_TMP/kh"
	assert_exit 0 good --ssh='-o StrictHostKeyChecking=yes' 127.0.0.1 true
}

test_hostkey_changed_or_revoked()
{
	local strict
	start_sshd srv
	for strict in no off accept-new ask yes; do
		known "$PORT" id hk2
		sed -i '1s/^[^ ]*/other/' "$TEST_TMP/kh"
		assert_exit 110 good --ssh="-o StrictHostKeyChecking=$strict" \
			127.0.0.1 true
		assert_match "CHANGED.*SHA256:.*$TEST_TMP/kh line 2 .*SHA256:" \
			"$ERR"
		known "$PORT" hk hk
		sed -i '2s/^/@revoked /' "$TEST_TMP/kh"
		assert_exit 110 good --ssh="-o StrictHostKeyChecking=$strict" \
			127.0.0.1 true
		assert_match "revoked in $TEST_TMP/kh line 2" "$ERR"
		# a line of a type that nobody knows hides nothing
		known "$PORT" hk2
		echo "[127.0.0.1]:$PORT ssh-dss AAAAB3NzaC1kc3M=" \
			>>"$TEST_TMP/kh"
		assert_exit 110 good --ssh="-o StrictHostKeyChecking=$strict" \
			127.0.0.1 true
	done
	no_credential srv
}

test_hostkey_known_type_is_preferred()
{
	start_sshd srv "HostKey $SD/hk" "HostKey $SD/hkrsa"
	known "$PORT" hkrsa
	assert_exit 0 good --info --ssh='-o StrictHostKeyChecking=yes' \
		127.0.0.1 true
	assert_match '^hostkey: ssh-rsa ' "$ERR"
	# the server has not the known type any more
	start_sshd other
	known "$PORT" hkrsa
	assert_exit 110 good --ssh='-o StrictHostKeyChecking=no' 127.0.0.1 true
	assert_match 'another type' "$ERR"
	no_credential other
}

test_hostkey_odd_files()
{
	start_sshd srv
	known "$PORT" hk
	sed -i 's/ /\t/g; 1i garbage\n@unknown x y z\n\x01\xff' "$TEST_TMP/kh"
	assert_exit 0 good --ssh='-o StrictHostKeyChecking=yes' 127.0.0.1 true
	rm "$TEST_TMP/kh"
	mkdir "$TEST_TMP/kh"
	assert_exit 110 good 127.0.0.1 true
	assert_match "$TEST_TMP/kh is not a file" "$ERR"
	rmdir "$TEST_TMP/kh"
	start_sshd other
	echo "@cert-authority * $(cut -d' ' -f1,2 "$SD/ca.pub")" >"$TEST_TMP/kh"
	assert_exit 110 good --ssh='-o StrictHostKeyChecking=no' 127.0.0.1 true
	assert_match "certificate authority.*$TEST_TMP/kh line 1" "$ERR"
	no_credential other
}

test_hostkey_asked_on_a_terminal()
{
	start_sshd srv
	: >"$TEST_TMP/kh"
	on_terminal 'fingerprint\)' yes --ask -p "$PORT" -i "$SD/id" \
		127.0.0.1 'echo the-end'
	assert_match the-end "$TEST_TMP/tty"
	assert_match "^\[127.0.0.1\]:$PORT ssh-ed25519 " "$TEST_TMP/kh"
}

# on_terminal PATTERN ANSWER ARGS ... - sshprobe on a terminal of its own that
# answers once; the transcript is in $TEST_TMP/tty, the exit code in TTY_RC.
on_terminal()
{
	local pattern=$1 answer=$2
	shift 2
	cat >"$TEST_TMP/exp" <<-'END'
	set timeout 60
	log_file -noappend -a $env(TEST_TMP)/tty
	set args [lrange $argv 2 end]
	spawn -noecho sh -c {exec "$@" </dev/null} sh {*}$args
	set asked 0
	expect {
		-re [lindex $argv 0] {
			incr asked
			send "[lindex $argv 1]\r"
			exp_continue
		}
		timeout { exit 124 }
		eof
	}
	set st [wait]
	puts "asked: $asked"
	exit [lindex $st 3]
	END
	rm -f "$TEST_TMP/tty"
	TTY_RC=0
	export TEST_TMP
	SSH_AUTH_SOCK=${AGENT:-} expect "$TEST_TMP/exp" \
		"$pattern" "$answer" "$PROBE" --ssh-config=none \
		--ssh="-o UserKnownHostsFile=$TEST_TMP/kh \
		-o GlobalKnownHostsFile=/dev/null" "$@" \
		>"$TEST_TMP/expout" 2>&1 || TTY_RC=$?
	grep -h '^asked: ' "$TEST_TMP/expout" >>"$TEST_TMP/tty" || :
}

# --- authentication ---------------------------------------------------------

test_keys_in_order()
{
	usual
	assert_exit 0 probe -p "$PORT" -i "$SD/id2" -i "$SD/idrsa" -i "$SD/id" \
		--info -v -v 127.0.0.1 true
	# the first that works is used: the second, never the third
	assert_match "^auth: publickey $SD/idrsa\$" "$ERR"
	assert_match "trying the key $SD/id2" "$ERR"
	assert_no_match "trying the key $SD/id\$" "$ERR"
}

test_no_pub_file_is_written()
{
	usual
	cp "$SD/id" "$TEST_TMP/only"
	assert_exit 0 probe -p "$PORT" -i "$TEST_TMP/only" 127.0.0.1 true
	assert_no_file "$TEST_TMP/only.pub"
	# a stale .pub beside the key does not hide it, nor does rubbish
	cp "$SD/id2.pub" "$TEST_TMP/only.pub"
	assert_exit 0 probe -p "$PORT" -i "$TEST_TMP/only" 127.0.0.1 true
	echo rubbish >"$TEST_TMP/only.pub"
	assert_exit 0 probe -p "$PORT" -i "$TEST_TMP/only" 127.0.0.1 true
	cp "$SD/id2" "$TEST_TMP/bad"
	echo rubbish >"$TEST_TMP/bad.pub"
	assert_exit 0 probe -p "$PORT" -i "$TEST_TMP/bad" -i "$SD/id" \
		127.0.0.1 true
	chmod 644 "$TEST_TMP/only"
	assert_exit 111 probe -p "$PORT" -i "$TEST_TMP/only" 127.0.0.1 true
	assert_match 'can be read by others' "$ERR"
}

test_too_many_keys()
{
	usual 'MaxAuthTries 3'
	local i args=()
	for i in 1 2 3 4 5; do
		ssh-keygen -q -t ed25519 -N '' -f "$TEST_TMP/k$i"
		args+=(-i "$TEST_TMP/k$i")
	done
	# libssh 0.10 waits for ever here
	local t=$SECONDS
	assert_exit 111 probe -p "$PORT" "${args[@]}" --timeout 20000 \
		127.0.0.1 true
	assert_match 'hung up after [0-9]+ keys' "$ERR"
	[ $((SECONDS - t)) -lt 10 ] || fail "it took the whole time-out"
}

test_agent()
{
	usual 'MaxAuthTries 3'
	start_agent
	add_key "$SD/id2" && add_key "$SD/id3" && add_key "$SD/id"
	assert_exit 0 probe -p "$PORT" --info --ssh='-o IdentityFile=none' \
		127.0.0.1 true
	assert_match '^auth: publickey agent key id' "$ERR"
	# the agent has the wrong keys in front; IdentitiesOnly takes the named
	# one from it although the private key file is not there
	ssh-keygen -q -t ed25519 -N '' -f "$TEST_TMP/k1"
	ssh-keygen -q -t ed25519 -N '' -f "$TEST_TMP/k2"
	SSH_AUTH_SOCK=$AGENT ssh-add -q -D 2>/dev/null
	add_key "$TEST_TMP/k1" && add_key "$TEST_TMP/k2" && add_key "$SD/id2"
	add_key "$SD/id3" && add_key "$SD/id"
	assert_exit 111 probe -p "$PORT" 127.0.0.1 true
	assert_match 'hung up after' "$ERR"
	cp "$SD/id.pub" "$TEST_TMP/name.pub"
	assert_exit 0 probe -p "$PORT" --info -i "$TEST_TMP/name.pub" \
		--ssh='-o IdentitiesOnly=yes' 127.0.0.1 true
	assert_match "^auth: publickey $TEST_TMP/name.pub\$" "$ERR"
	# as in ssh, a named key that the agent holds comes first anyway
	assert_exit 0 probe -p "$PORT" -i "$SD/id" --more 3 127.0.0.1 'echo x'
	assert_eq 4 "$(grep -cE '^(more|x)$' "$OUT")" connections
	# an encrypted key that the agent holds asks nothing
	SSH_AUTH_SOCK=$AGENT ssh-add -q -D 2>/dev/null
	printf '#!/bin/sh\necho pass phrase\n' >"$TEST_TMP/askpass"
	chmod 755 "$TEST_TMP/askpass"
	SSH_ASKPASS=$TEST_TMP/askpass SSH_ASKPASS_REQUIRE=force add_key "$SD/enc"
	assert_exit 0 probe -p "$PORT" -i "$SD/enc" 127.0.0.1 true
	# an agent that hangs costs ten seconds, not for ever
	kill -STOP "$AGENT_PID"
	assert_exit 0 probe -p "$PORT" -i "$SD/id" 127.0.0.1 true
	kill -CONT "$AGENT_PID"
}

test_certificates()
{
	usual "TrustedUserCAKeys $SD/ca.pub" 'AuthorizedKeysFile none'
	cp "$SD/id3" "$SD/id3.pub" "$TEST_TMP/"
	assert_exit 111 probe -p "$PORT" -i "$TEST_TMP/id3" 127.0.0.1 true
	ssh-keygen -q -s "$SD/ca" -I me -n root "$TEST_TMP/id3.pub"
	assert_exit 0 probe -p "$PORT" -i "$TEST_TMP/id3" --info --more 2 \
		127.0.0.1 true
	assert_match "^auth: publickey $TEST_TMP/id3-cert.pub" "$ERR"
	mv "$TEST_TMP/id3-cert.pub" "$TEST_TMP/c.pub"
	assert_exit 0 probe -p "$PORT" -i "$TEST_TMP/id3" \
		--ssh="-o CertificateFile=$TEST_TMP/c.pub" 127.0.0.1 true
	# the agent signs for a certificate in a file
	start_agent
	add_key "$TEST_TMP/id3"
	rm "$TEST_TMP/id3"
	assert_exit 0 probe -p "$PORT" -i "$TEST_TMP/id3" \
		--ssh="-o CertificateFile=$TEST_TMP/c.pub" 127.0.0.1 true
}

test_encrypted_key_without_terminal()
{
	usual
	local k
	for k in enc pem; do
		assert_exit 111 setsid -w "$PROBE" --ssh-config=none --ask \
			--ssh="-o UserKnownHostsFile=$TEST_TMP/kh" -p "$PORT" \
			-i "$SD/$k" 127.0.0.1 true
		assert_match "$SD/$k: is encrypted, no agent holds it, and there is no terminal" \
			"$ERR"
	done
	assert_exit 111 probe --ask --ssh='-o BatchMode=yes' -p "$PORT" \
		-i "$SD/enc" 127.0.0.1 true
	assert_match 'BatchMode forbids questions' "$ERR"
}

test_passphrase_is_asked_once()
{
	usual
	on_terminal 'Passphrase of the key [^:]*: ' 'pass phrase' --ask --info \
		-p "$PORT" -i "$SD/enc" --more 4 127.0.0.1 'echo the-end'
	assert_match the-end "$TEST_TMP/tty"
	assert_match '^asked: 1' "$TEST_TMP/tty"
	assert_eq 0 "$TTY_RC"
	# PEM, and a wrong answer: no second question
	on_terminal 'Passphrase of the key [^:]*: ' secret --ask \
		-p "$PORT" -i "$SD/pem" 127.0.0.1 'echo the-end'
	assert_match the-end "$TEST_TMP/tty"
	on_terminal 'Passphrase of the key [^:]*: ' wrong --ask \
		-p "$PORT" -i "$SD/pem" 127.0.0.1 'echo the-end'
	assert_match 'the passphrase is wrong' "$TEST_TMP/tty"
	assert_match '^asked: 1' "$TEST_TMP/tty"
	assert_no_match 'secret|pass phrase' "$TEST_TMP/tty"
	# a key that the server does not want costs no question
	cp "$SD/enc" "$TEST_TMP/other"
	ssh-keygen -q -t ed25519 -N 'x y z' -f "$TEST_TMP/unwanted"
	on_terminal 'Passphrase of the key [^:]*: ' 'x y z' --ask \
		-p "$PORT" -i "$TEST_TMP/unwanted" -i "$SD/id" 127.0.0.1 \
		'echo the-end'
	assert_match the-end "$TEST_TMP/tty"
	assert_match '^asked: 0' "$TEST_TMP/tty"
}

# A password needs an account with one, and PAM for keyboard-interactive. The
# servers that are started after this have it; this machine does not.
password_account()
{
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	ETC=$TEST_TMP/etc
	cp -a /etc "$ETC"
	echo "vzt:x:54321:54321::$TEST_TMP:/bin/sh" >>"$ETC/passwd"
	echo 'vzt:x:54321:' >>"$ETC/group"
	# "right"
	echo 'vzt:$6$vzmigrate$qJbcSsaOfLbMUn8Ep2W1yipgBXiGA8kBDJBBI6M1dqSGu3GCjSMG2ABXDOis8GvcP0Uzxil.o8fQNu1IdmP6k.:19000:0:99999:7:::' \
		>>"$ETC/shadow"
}

test_password()
{
	password_account
	usual 'PasswordAuthentication yes'
	on_terminal 'Password of [^:]*: ' right --ask --info -p "$PORT" \
		--more 7 "vzt@127.0.0.1" 'echo the-end'
	assert_match the-end "$TEST_TMP/tty"
	assert_match '^auth: password' "$TEST_TMP/tty"
	assert_match '^asked: 1' "$TEST_TMP/tty"
	assert_eq 7 "$(grep -c '^more' "$TEST_TMP/tty")" connections
	assert_no_match right "$TEST_TMP/tty"
	on_terminal 'Password of [^:]*: ' wrong --ask -p "$PORT" \
		"vzt@127.0.0.1" 'echo the-end'
	assert_match 'password: not accepted' "$TEST_TMP/tty"
	assert_match '^asked: 1' "$TEST_TMP/tty"
	# never a prompt without a terminal, or in batch mode
	assert_exit 111 setsid -w "$PROBE" --ssh-config=none --ask -p "$PORT" \
		--ssh="-o UserKnownHostsFile=$TEST_TMP/kh" \
		"vzt@127.0.0.1" true
	assert_match 'it takes: publickey, password.*no terminal' "$ERR"
	on_terminal 'Password of [^:]*: ' right --ask -p "$PORT" \
		--ssh='-o BatchMode=yes' "vzt@127.0.0.1" 'echo the-end'
	assert_match '^asked: 0' "$TEST_TMP/tty"
	assert_match 'BatchMode forbids' "$TEST_TMP/tty"
}

test_keyboard_interactive()
{
	[ -e /etc/pam.d/sshd ] || skip "sshd has no PAM configuration here"
	password_account
	usual 'KbdInteractiveAuthentication yes' 'UsePAM yes'
	on_terminal 'Password: ' right --ask --info -p "$PORT" --more 2 \
		"vzt@127.0.0.1" 'echo the-end'
	assert_match the-end "$TEST_TMP/tty"
	assert_match '^auth: keyboard-interactive' "$TEST_TMP/tty"
	assert_match '^asked: 1' "$TEST_TMP/tty"
}

test_two_factors()
{
	password_account
	usual 'PasswordAuthentication yes' \
		'AuthenticationMethods publickey,password'
	on_terminal 'Password of [^:]*: ' right --ask --info -p "$PORT" \
		-i "$SD/id" --more 2 "vzt@127.0.0.1" 'echo the-end'
	assert_match the-end "$TEST_TMP/tty"
	assert_match '^auth: publickey .*/id, then password' "$TEST_TMP/tty"
	assert_match '^asked: 1' "$TEST_TMP/tty"
	# a key alone is right and not enough
	assert_exit 111 probe -p "$PORT" -i "$SD/id" "vzt@127.0.0.1" true
	assert_match 'it takes: password' "$ERR"
	# two keys
	start_sshd two 'AuthenticationMethods publickey,publickey'
	known "$PORT" hk
	assert_exit 0 probe -p "$PORT" --info -i "$SD/id" -i "$SD/idrsa" \
		127.0.0.1 true
	assert_match '^auth: publickey .*/id, then publickey .*/idrsa' "$ERR"
	assert_exit 111 probe -p "$PORT" -i "$SD/id" 127.0.0.1 true
}

# --- algorithms (C1) --------------------------------------------------------

test_server_with_one_cipher()
{
	local c
	for c in chacha20-poly1305@openssh.com aes256-ctr; do
		usual "Ciphers $c"
		assert_exit 0 good --info 127.0.0.1 true
		assert_match "^cipher_c2s: $c\$" "$ERR"
		assert_match "^cipher_s2c: $c\$" "$ERR"
		kill "$PID"
	done
	usual 'Ciphers aes128-cbc'
	assert_exit 109 good 127.0.0.1 true
	assert_match "the server has aes128-cbc; we offer .*aes256-ctr" \
		"$ERR"
	assert_exit 0 good --info --c2s aes128-cbc --s2c aes128-cbc 127.0.0.1 \
		true
	assert_match '^cipher_c2s: aes128-cbc$' "$ERR"
	assert_exit 103 good --c2s arcfour 127.0.0.1 true
	assert_match "this libssh has no cipher 'arcfour'" "$ERR"
}

test_each_direction_of_its_own()
{
	usual
	assert_exit 0 good --info --c2s aes256-ctr \
		--s2c aes128-gcm@openssh.com 127.0.0.1 true
	assert_match '^cipher_c2s: aes256-ctr$' "$ERR"
	assert_match '^cipher_s2c: aes128-gcm@openssh.com$' "$ERR"
	assert_match '^mac_c2s: hmac-sha2-256-etm@openssh.com$' "$ERR"
}

# --- the user's configuration (C3) ------------------------------------------

test_configuration()
{
	usual
	CONFIG=$TEST_TMP/config
	printf '%s\r\n' 'Include /nonexistent/x' 'Match final all' \
		"  IdentityFile $SD/id" 'Host there' "  Port $PORT" \
		'  HostName 127.0.0.1' '  Ciphers arcfour,blowfish-cbc' >"$CONFIG"
	assert_exit 0 probe there true
	# without it the name is unknown
	CONFIG=none
	assert_exit 109 probe there.invalid true
}

test_proxy_command()
{
	usual
	CONFIG=$TEST_TMP/config
	cat >"$CONFIG" <<-END
	Host there
	  HostName 127.0.0.1
	  Port $PORT
	  IdentityFile $SD/id
	  ProxyCommand $TEST_TMP/proxy %h %p
	END
	cat >"$TEST_TMP/proxy" <<-END
	#!/bin/sh
	echo \$\$ >>$TEST_TMP/pids
	exec python3 $TEST_TMP/pipe "\$@"
	END
	chmod 755 "$TEST_TMP/proxy"
	cat >"$TEST_TMP/pipe" <<-'END'
	import os, select, socket, sys
	s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
	while True:
	    r = select.select([0, s], [], [])[0]
	    if s in r:
	        d = s.recv(65536)
	        if not d: break
	        while d: d = d[os.write(1, d):]
	    if 0 in r:
	        d = os.read(0, 65536)
	        if not d: break
	        s.sendall(d)
	END
	head -c 5000000 /dev/urandom >"$TEST_TMP/data"
	assert_exit 0 probe --info --fds there sha256sum <"$TEST_TMP/data"
	assert_eq "$(sha256sum <"$TEST_TMP/data")" "$(cat "$OUT")"
	assert_match '^proxy: 1' "$ERR"
	assert_exit 0 probe --more 2 there true
	# each is gone when the probe is
	local p
	assert_eq 4 "$(wc -l <"$TEST_TMP/pids")" proxies
	while read -r p; do
		! kill -0 "$p" 2>/dev/null || fail "proxy $p is still there"
	done <"$TEST_TMP/pids"
	sed -i 's/ProxyCommand.*/ProxyCommand exit 3/' "$CONFIG"
	assert_exit 109 probe there true
}

# All that a short command says and its end come in one piece with the answer
# to the request, before anybody can have asked for it.
test_output_comes_early()
{
	usual
	CONFIG=$TEST_TMP/config
	cat >"$CONFIG" <<-END
	Host there
	  HostName 127.0.0.1
	  Port $PORT
	  IdentityFile $SD/id
	  ProxyCommand python3 $TEST_TMP/lumps %h %p
	END
	cat >"$TEST_TMP/lumps" <<-'END'
	import os, select, socket, sys, time
	s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
	while True:
	    r = select.select([0, s], [], [])[0]
	    if 0 in r:
	        d = os.read(0, 65536)
	        if not d: break
	        s.sendall(d)
	    elif s in r:
	        time.sleep(0.2)
	        d = s.recv(65536)
	        if not d: break
	        while d: d = d[os.write(1, d):]
	END
	assert_exit 5 probe there 'echo out; echo err >&2; exit 5' </dev/null
	assert_eq out "$(cat "$OUT")"
	assert_match '^err$' "$ERR"
}

test_jump_host_100_mb()
{
	usual
	local far=$PORT
	start_sshd jump "HostKey $SD/hk2"
	echo "[127.0.0.1]:$PORT $(cut -d' ' -f1,2 "$SD/hk2.pub")" \
		>>"$TEST_TMP/kh"
	CONFIG=$TEST_TMP/config
	cat >"$CONFIG" <<-END
	UserKnownHostsFile $TEST_TMP/kh
	IdentityFile $SD/id
	Host far
	  HostName 127.0.0.1
	  Port $far
	END
	head -c 104857600 /dev/urandom >"$TEST_TMP/data"
	assert_exit 0 probe --info -J "root@127.0.0.1:$PORT" far sha256sum \
		<"$TEST_TMP/data"
	assert_eq "$(sha256sum <"$TEST_TMP/data")" "$(cat "$OUT")" digest
	assert_match '^proxy: 1' "$ERR"
	assert_match 'direct-tcpip' "$TEST_TMP/jump/log"
	# libssh 0.11 ends all sessions with a jump host when one ends
	assert_exit 0 probe -J "root@127.0.0.1:$PORT" --more 3 far 'echo last'
	assert_match last "$OUT"
}

# --- the channel ------------------------------------------------------------

test_stderr_and_exit_while_we_write()
{
	usual
	# libssh waits for ever for a window here
	assert_exit 9 good --write-timeout 20000 127.0.0.1 \
		'echo some words >&2; exit 9' </dev/zero
	assert_match '^some words$' "$ERR"
	assert_match 'end: the remote command ended with status 9' "$ERR"
}

test_chatty_command_does_not_block_us()
{
	usual
	# 3 MB on each stream, more than libssh's window, while we only write
	head -c 20000000 /dev/zero >"$TEST_TMP/data"
	assert_exit 0 good 127.0.0.1 \
		'head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero;
		cat >/dev/null' <"$TEST_TMP/data"
	assert_eq 3000000 "$(wc -c <"$OUT")" stdout
	[ "$(wc -c <"$ERR")" -ge 3000000 ] || fail "stderr was lost"
}

test_banner_noise()
{
	head -c 30000 /dev/zero | tr '\0' x >"$TEST_TMP/banner"
	usual "Banner $TEST_TMP/banner"
	assert_exit 0 good 127.0.0.1 \
		'head -c 40000 /dev/zero; printf "\0end"; echo e >&2'
	assert_eq 40004 "$(wc -c <"$OUT")"
}

test_exit_by_signal_and_missing_command()
{
	usual
	assert_exit 99 good 127.0.0.1 'kill -KILL $$'
	assert_match 'ended by signal KILL' "$ERR"
	assert_exit 127 good 127.0.0.1 no-such-command
	assert_match 'ended with status 127' "$ERR"
}

test_forced_command()
{
	echo "command=\"echo forced; echo was \$SSH_ORIGINAL_COMMAND\"" \
		"$(cat "$SD/id2.pub")" >"$TEST_TMP/ak"
	usual "AuthorizedKeysFile $TEST_TMP/ak"
	assert_exit 0 probe -p "$PORT" -i "$SD/id2" 127.0.0.1 'the wish'
	assert_match '^was the wish$' "$OUT"
}

test_no_session_allowed()
{
	usual 'MaxSessions 0'
	assert_exit 126 good --timeout 5000 127.0.0.1 true
	assert_match 'error remote: opening a channel' "$ERR"
}

test_max_startups()
{
	usual 'MaxStartups 2:100:2'
	assert_exit 0 good --more 8 --timeout 30000 127.0.0.1 'echo x'
	assert_eq 9 "$(grep -cE '^(more|x)$' "$OUT")" connections
}

test_server_killed_while_we_write()
{
	usual
	good --write-timeout 20000 127.0.0.1 'cat >/dev/null' \
		>"$TEST_TMP/o" 2>"$TEST_TMP/e" </dev/zero &
	local probe=$! rc=0
	wait_until 10 grep -q 'Starting session' "$TEST_TMP/srv/log"
	# shellcheck disable=SC2046
	kill -KILL $(sshd_tree "$PID")
	wait "$probe" || rc=$?
	assert_eq 108 "$rc" "exit code"
	assert_match 'error closed: the connection was lost' "$TEST_TMP/e"
}

test_server_stopped_while_we_write()
{
	usual
	good --silence 3000 --write-timeout 60000 127.0.0.1 'cat >/dev/null' \
		>"$TEST_TMP/o" 2>"$TEST_TMP/e" </dev/zero &
	local probe=$! rc=0 t pids
	wait_until 10 grep -q 'Starting session' "$TEST_TMP/srv/log"
	pids=$(sshd_tree "$PID")
	t=$SECONDS
	# shellcheck disable=SC2086
	kill -STOP $pids
	wait "$probe" || rc=$?
	# shellcheck disable=SC2086
	kill -KILL $pids
	assert_eq 107 "$rc" "exit code"
	assert_match 'no sign of life' "$TEST_TMP/e"
	[ $((SECONDS - t)) -lt 15 ] || fail "it took $((SECONDS - t)) s"
}

test_server_stopped_while_idle()
{
	usual
	good --silence 3000 --idle 60000 127.0.0.1 'cat' \
		>"$TEST_TMP/o" 2>"$TEST_TMP/e" &
	local probe=$! rc=0 t pids
	wait_until 10 grep -q 'Starting session' "$TEST_TMP/srv/log"
	pids=$(sshd_tree "$PID")
	t=$SECONDS
	# shellcheck disable=SC2086
	kill -STOP $pids
	wait "$probe" || rc=$?
	# shellcheck disable=SC2086
	kill -KILL $pids
	assert_eq 107 "$rc" "exit code"
	assert_match 'no sign of life' "$TEST_TMP/e"
	[ $((SECONDS - t)) -lt 15 ] || fail "it took $((SECONDS - t)) s"
}

test_idle_lives()
{
	# the server asks every second and gives up at two misses; and we ask,
	# which it answers
	usual 'ClientAliveInterval 1' 'ClientAliveCountMax 2'
	assert_exit 0 good --silence 3000 --idle 8000 127.0.0.1 'cat'
	assert_no_match 'error|end:' "$ERR"
}

test_stopped_reader_is_not_a_dead_peer()
{
	usual
	# a command that does not read for 6 s, twice the time of silence
	assert_exit 0 good --silence 3000 --write-timeout 30000 127.0.0.1 \
		'sleep 6; wc -c' < <(head -c 20000000 /dev/zero)
	assert_eq 20000000 "$(tr -d ' ' <"$OUT")"
	# and one that never does
	assert_exit 107 good --silence 30000 --write-timeout 2000 127.0.0.1 \
		'exec sleep 60' </dev/zero
	assert_match 'takes no data' "$ERR"
}

test_rekeying_with_data_both_ways()
{
	usual 'RekeyLimit 1M'
	head -c 30000000 /dev/urandom >"$TEST_TMP/data"
	assert_exit 0 good 127.0.0.1 cat <"$TEST_TMP/data"
	assert_eq "$(sha256sum <"$TEST_TMP/data")" "$(sha256sum <"$OUT")"
	assert_exit 0 good --ssh='-o RekeyLimit=1M' 127.0.0.1 sha256sum \
		<"$TEST_TMP/data"
	assert_eq "$(sha256sum <"$TEST_TMP/data")" "$(cat "$OUT")"
	[ "$(grep -c 'set_newkeys: rekeying' "$TEST_TMP/srv/log")" -ge 40 ] ||
		fail "the server did not rekey"
}

full_gigabyte_with_rekeying()
{
	usual 'RekeyLimit 16M'
	head -c 1073741824 /dev/urandom >"$TEST_TMP/data"
	assert_exit 0 good 127.0.0.1 sha256sum <"$TEST_TMP/data"
	assert_eq "$(sha256sum <"$TEST_TMP/data")" "$(cat "$OUT")"
}

test_descriptors_after_failures()
{
	usual
	known "$PORT" hk2
	assert_exit 110 good --fds 127.0.0.1 true
	assert_eq "$(sed -n 's/^fds before: //p' "$ERR")" \
		"$(sed -n 's/^fds after: //p' "$ERR")" "after a bad host key"
	known "$PORT" hk
	assert_exit 111 probe -p "$PORT" -i "$SD/id2" --fds 127.0.0.1 true
	assert_eq "$(sed -n 's/^fds before: //p' "$ERR")" \
		"$(sed -n 's/^fds after: //p' "$ERR")" "after refused keys"
	assert_exit 109 good --fds --c2s aes128-cbc 127.0.0.1 true
	assert_eq "$(sed -n 's/^fds before: //p' "$ERR")" \
		"$(sed -n 's/^fds after: //p' "$ERR")" "after no common cipher"
	# closed once each
	command -v strace >/dev/null || skip "no strace here for the last part"
	# (the leak check cannot run under strace)
	ASAN_OPTIONS=detect_leaks=0 strace -f -qq -e trace=close \
		-o "$TEST_TMP/trace" "$PROBE" --ssh-config=none -p "$PORT" -i "$SD/id" --more 3 \
		--ssh="-o UserKnownHostsFile=$TEST_TMP/kh" 127.0.0.1 true \
		>/dev/null 2>&1
	assert_no_match EBADF "$TEST_TMP/trace"
}
