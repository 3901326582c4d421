# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A stopped container moves between two hosts: each kind, what is refused and
# how, and what a rerun does.

# shellcheck disable=SC2034,SC2164 # read by tests/run, which sets -e
TEST_TIMEOUT=150
TOOLS=$VZ_BUILDDIR/tests/tools

setup_file()
{
	hosts_possible || skip "no throw-away hosts here: $HOSTS_WHY"
	# Programs of the hosts' own; the directory goes with the run's.
	HOSTS_PATH=$(mktemp -d "$TEST_TMP/bin.XXXXXX")
	chmod 755 "$HOSTS_PATH"
	ln -s "$VZ_TOP/tests/tools/vzctl-standin" "$HOSTS_PATH/vzctl"
	hosts_up ext4 a b
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
}

# --- helpers ----------------------------------------------------------------

vzm()
{
	on a vzmigrate "$@"
}

# vz_make HOST CTID - a stopped simfs container.
vz_make()
{
	local d
	d=$(host_dir "$1")
	mkdir -p "$d/vz/private/$2/etc" "$d/vz/root/$2"
	echo "ct$2" >"$d/vz/private/$2/etc/hostname"
	cat >"$d/etc/vz/conf/$2.conf" <<-END
	ONBOOT="yes"
	VE_LAYOUT=simfs
	VE_ROOT="/vz/root/\$VEID"
	VE_PRIVATE="/vz/private/\$VEID"
	OSTEMPLATE="none"
	END
}

# same TREE TREE - equal in every attribute.
same()
{
	"$TOOLS/treecmp" "$1" "$2" >"$TEST_TMP/treecmp" ||
		fail "the trees differ: $(head -n 20 "$TEST_TMP/treecmp")"
}

# One line on stderr, which is the error.
one_line()
{
	assert_eq 1 "$(wc -l <"$ERR")" "lines on stderr: $(cat "$ERR")"
	assert_match "^vzmigrate: " "$ERR"
}

# refused CODE REGEX OPTION ... - that exit code, one line that matches, and
# nothing is left on the destination.
refused()
{
	local code=$1 says=$2
	shift 2
	assert_exit "$code" vzm "$@"
	one_line
	assert_match "$says" "$ERR"
	no_sessions
}

# No session is unfinished on b.
no_sessions()
{
	local j
	for j in "$B"/var/lib/vzmigrate/sessions/*/journal; do
		if grep -qs ' reserve ' "$j" &&
			! grep -qE ' (finished|aborted) ' "$j"; then
			fail "left on b: $(tail -n 1 "$j")"
		fi
	done
	if [ -n "$(ls "$B/var/lib/vzmigrate/reserve" 2>/dev/null)" ]; then
		fail "reserved on b: $(ls "$B/var/lib/vzmigrate/reserve")"
	fi
}

agent_pid()
{
	on b pgrep -x vzmigrate-agent | tail -n 1
}

# It writes into a staging area of more than 1 MB.
agent_copies()
{
	[ "$(du -s "$B"/srv/.vzmigrate* 2>/dev/null | cut -f1 | tail -n 1)" \
		-gt 1000 ] 2>/dev/null
}

# at_work CT - its migration can be seen.
at_work()
{
	vzm --status "$1" 2>/dev/null | grep -q ' pid=[0-9]'
}

agent_runs()
{
	on b pgrep -x vzmigrate-agent >/dev/null
}

# kept WHERE PATH - the summary says where the container is now, where the copy
# is kept, and how to be rid of it; that is done.
kept()
{
	local cmd
	assert_match "^  (now|copied to) $1\$" "$OUT"
	assert_match "^  the (copy that is kept here cannot be started|source stays here, as it was): $2\$" \
		"$OUT"
	cmd=$(sed -n 's/^  to remove it: //p' "$OUT")
	on a bash -euc "${cmd:-false}"
	assert_no_file "$A$2"
}

# --- each kind --------------------------------------------------------------

test_lxc()
{
	lxc_make a web
	"$TOOLS/nastytree" --small "$A/var/lib/lxc/web/rootfs/nasty"
	assert_exit 0 vzm -r no b web
	assert_match '^vzmigrate: moved CT web to root@b: .* kind=lxc new_ct=web place=/var/lib/lxc/web/rootfs files=[0-9]+ bytes=[0-9]+ .*seconds=[0-9.]+ .*cipher=.* cipher_by=hardware .*verified=true' "$OUT"
	# What each container of the distribution has is no warning.
	assert_match ' warnings=0$' "$OUT"
	same "$A/var/lib/lxc/web/rootfs" "$B/var/lib/lxc/web/rootfs"
	assert_no_match '^web *$' <(on a lxc-ls -1)
	assert_match '^web *$' <(on b lxc-ls -1)
	# It can be started there, not here.
	on b lxc-start web
	wait_until 10 eval '[ "$(lxc_state b web)" = RUNNING ]'
	on b lxc-stop -k web
	if on a lxc-start web 2>/dev/null; then
		fail "the source can still be started"
	fi
	no_sessions
	# And says so when asked again.
	cp "$OUT" "$TEST_TMP/moved"
	refused 10 'web is not here any more: it was moved away by session [0-9a-f]{32}, see its log in /var/log/vzmigrate; what is left is the copy that was kept$' -r no b web
	OUT=$TEST_TMP/moved
	# As the manual says of immutable files.
	on a chattr -R -f -i -a /var/lib/lxc/web/rootfs || :
	kept 'web on root@b, in /var/lib/lxc/web/rootfs' \
		/var/lib/lxc/web/rootfs
	assert_no_file "$A/var/lib/lxc/web"
}

test_lxc_source_removed()
{
	lxc_make a gone
	assert_exit 0 vzm b gone:came
	assert_match 'new_ct=came' "$OUT"
	assert_no_file "$A/var/lib/lxc/gone"
	assert_file "$B/var/lib/lxc/came/rootfs/sbin/init"
	assert_match 'lxc.rootfs.path = dir:/var/lib/lxc/came/rootfs' \
		"$B/var/lib/lxc/came/config"
	on b lxc-start came
	wait_until 10 eval '[ "$(lxc_state b came)" = RUNNING ]'
	on b lxc-stop -k came
}

test_dir()
{
	"$TOOLS/nastytree" --small "$A/srv/nasty"
	assert_exit 0 vzm --kind=dir b /srv/nasty:/srv/new/nasty
	assert_match '^vzmigrate: copied ' "$OUT"
	same "$A/srv/nasty" "$B/srv/new/nasty"
	no_sessions
	# The source is of use still.
	assert_exit 0 vzm --kind=dir b /srv/nasty:/srv/again
	same "$A/srv/nasty" "$B/srv/again"
	assert_match '^  copied to /srv/again on root@b$' "$OUT"
	assert_match '^  to remove it: rm -rf --one-file-system /srv/nasty$' \
		"$OUT"
	assert_exit 0 vzm --kind=dir -r yes b /srv/nasty
	assert_no_file "$A/srv/nasty"
	same "$B/srv/again" "$B/srv/nasty"
	"$TOOLS/nastytree" --remove "$B/srv/again"
	"$TOOLS/nastytree" --remove "$B/srv/nasty"
}

test_openvz()
{
	vz_make a 101
	cp -a "$A/vz/private/101" "$TEST_TMP/was"
	assert_exit 0 vzm b 101
	same "$TEST_TMP/was" "$B/vz/private/101"
	assert_no_file "$A/etc/vz/conf/101.conf"
	assert_no_file "$A/vz/private/101"
	assert_match 'VE_LAYOUT=' "$B/etc/vz/conf/101.conf"
	assert_match 'exist' <(on b vzctl status 101)
	assert_match 'deleted' <(on a vzctl status 101)
	assert_no_file "$A/var/lib/vz/lock/101.lck"
	assert_no_file "$B/var/lib/vz/lock/101.lck"
}

test_openvz_kept_and_renamed()
{
	vz_make a 102
	printf '#!/bin/sh\n' >"$A/etc/vz/conf/102.start"
	assert_exit 0 vzm -r no --new-id=202 --new-private=/vz/elsewhere/202 \
		b 102
	assert_file "$A/etc/vz/conf/102.conf.migrated"
	assert_file "$A/vz/private/102/etc/hostname"
	assert_file "$B/etc/vz/conf/202.conf"
	assert_file "$B/vz/elsewhere/202/etc/hostname"
	kept '202 on root@b, in /vz/elsewhere/202' /vz/private/102
	assert_eq '' "$(find "$A/etc/vz/conf" -name '102*')"
}

test_several()
{
	lxc_make a one
	lxc_make a two
	lxc_make a four
	# A name that is wrong is told before the first goes.
	assert_exit 10 vzm b one two three four
	assert_match '^vzmigrate: there is no container three' "$ERR"
	assert_eq '' "$(cat "$OUT")"
	assert_file "$A/var/lib/lxc/one/config"
	lxc_make a three
	lxc_make b three
	assert_exit 9 vzm b one two three four
	assert_match 'moved CT one' "$OUT"
	assert_match 'moved CT two' "$OUT"
	assert_match 'not tried: four' "$ERR"
	assert_match '^vzmigrate: .*three' "$ERR"
	assert_file "$A/var/lib/lxc/four/config"
	assert_match '^four *$' <(on a lxc-ls -1)
	# What is said while it goes on names the one that is moved.
	assert_no_match '^vzmigrate: vzmigrate ' "$ERR"
}

# --- what is told -----------------------------------------------------------

test_cipher_told()
{
	mkdir -p "$A/srv/c"
	assert_exit 0 vzm --kind=dir --cipher=aes256-ctr --mac=hmac-sha2-512 \
		b /srv/c:/srv/c1
	assert_match 'cipher=aes256-ctr mac=hmac-sha2-512 .*cipher_by=option' \
		"$OUT"
	echo 'Ciphers aes192-ctr' >"$A/root/ssh.conf"
	assert_exit 0 vzm --kind=dir --ssh-config=/root/ssh.conf b \
		/srv/c:/srv/c2
	assert_match 'cipher=aes192-ctr .*cipher_by="?ssh' "$OUT"
	assert_exit 1 vzm --kind=dir --cipher=arcfour b /srv/c:/srv/c3
	assert_match 'arcfour' "$ERR"
	assert_no_file "$B/srv/c3"
}

test_json()
{
	mkdir -p "$A/srv/j"
	echo x >"$A/srv/j/x"
	assert_exit 0 vzm --json --kind=dir b /srv/j:/srv/j2
	jq -es 'last | .event == "summary" and .result == "copied" and
		.destination == "root@b" and .bytes == 2 and .verified and
		.new_ct == "/srv/j2" and .place == "/srv/j2" and
		.source_kept == "/srv/j" and .remains == ["/srv/j"]' \
		"$OUT" >/dev/null || fail "$(cat "$OUT")"
	assert_exit 9 vzm --json --kind=dir b /srv/j:/srv/j2
	jq -es 'last | .result == "failed" and .step == "check" and
		.owner == "source"' "$OUT" >/dev/null || fail "$(cat "$OUT")"
}

test_times_and_log()
{
	local log
	mkdir -p "$A/srv/t"
	host_syslog a >"$TEST_TMP/syslog"
	rm -rf "$A/var/log/vzmigrate"
	assert_exit 0 vzm -t --kind=dir b /srv/t:/srv/t2
	assert_match 'take over +[0-9.]+ s' "$OUT"
	log=$(ls "$A"/var/log/vzmigrate/*.log)
	assert_eq "700 600" "$(stat -c %a "$A/var/log/vzmigrate") $(
		stat -c %a "$log")"
	assert_match 'info: /srv/t: retire' "$log"
	assert_match 'debug: b: session: proven -> committed' "$log"
	assert_match 'info: moved' "$log"
	wait_until 5 grep -q 'vzmigrate.*start CT /srv/t to root@b session' \
		"$(cat "$TEST_TMP/syslog")"
	wait_until 5 grep -q 'vzmigrate.*end CT /srv/t to root@b.*moved' \
		"$(cat "$TEST_TMP/syslog")"
}

test_check_only()
{
	lxc_make a chk
	cp -a "$A/var/lib/lxc/chk" "$TEST_TMP/was"
	assert_exit 0 vzm --check-only b chk
	assert_match '^vzmigrate: checked CT chk to root@b: .* new_ct=chk place=/var/lib/lxc/chk/rootfs state=stopped state_there=stopped files=[1-9][0-9]* bytes=[1-9][0-9]* disk_bytes=[1-9][0-9]* free_bytes=[1-9][0-9]* free_inodes=[0-9]+ filesystem=ext4 removes=true .* cipher=.* warnings=0$' "$OUT"
	assert_match '^  nothing is in the way; it would be chk on root@b, in /var/lib/lxc/chk/rootfs$' "$OUT"
	assert_match '^  it is stopped, and would be stopped there$' "$OUT"
	assert_match '^  then the source copy would be removed' "$OUT"
	assert_exit 0 vzm --check-only --json b chk
	jq -e '.result == "checked" and .files > 10 and .removes and
		.filesystem == "ext4" and .free_bytes > .disk_bytes and
		.state == "stopped"' "$OUT" >/dev/null || fail "$(cat "$OUT")"
	same "$TEST_TMP/was" "$A/var/lib/lxc/chk"
	assert_no_file "$B/var/lib/lxc/chk"
	no_sessions
	rm -rf "$A/var/lib/lxc/chk"
}

# --- bad input --------------------------------------------------------------

test_bad_options()
{
	refused 1 'frobnicate' --frobnicate b 101
	refused 1 '-r/--remove-area' -r maybe b 101
	refused 1 '--live' --live b 101
	refused 1 '--rsync.*--exclude=x' --rsync=--exclude=x b 101
	refused 1 'container is missing' b
	refused 1 "name is empty" b ''
	refused 1 'root directory' --kind=dir b /
	refused 1 'directory on the destination is empty' --kind=dir b /srv:
	refused 10 'no directory /nowhere' --kind=dir b /nowhere
	refused 10 'nope' b nope
	refused 1 'holds' --kind=dir b /var/lib/lxc
	assert_exit 0 vzm --help
	assert_match '^Usage: vzmigrate ' "$OUT"
	assert_exit 0 vzm --version
	assert_match '^vzmigrate [0-9]' "$OUT"
}

# One wrong line in a configuration would take the neighbours along.
test_not_its_own()
{
	vz_make a 301
	vz_make a 302
	sed -i 's|^VE_PRIVATE=.*|VE_PRIVATE=/vz/private|' \
		"$A/etc/vz/conf/302.conf"
	refused 15 'is not its own: it holds the openvz container [0-9]' b 302
	lxc_make a var
	sed -i 's|^lxc.rootfs.path.*|lxc.rootfs.path = /var|' \
		"$A/var/lib/lxc/var/config"
	refused 15 'is not its own: it holds' --new-private=/srv/v b var
	refused 1 'keeps its journals' --kind=dir b /var/lib/vzmigrate:/srv/v
	assert_file "$A/vz/private/301/etc/hostname"
	assert_no_file "$B/srv/v"
	rm -r "$A/var/lib/lxc/var" "$A/etc/vz/conf/"30[12].conf \
		"$A/vz/private/"30[12]
}

# A limit on the size of files is an error like a full disk, no sudden death.
test_file_size_limit()
{
	mkdir -p "$A/srv/lim"
	assert_exit 64 on a bash -o pipefail -c '(ulimit -f 0
		exec vzmigrate --kind=dir b /srv/lim) 2>&1 | cat'
	assert_match '^vzmigrate: .*: File too large' "$OUT"
	head -c 3000000 /dev/zero | tr '\0' x >"$A/srv/lim/f"
	assert_exit 6 vzm --agent='ulimit -f 1000; exec vzmigrate-agent' \
		--kind=dir b /srv/lim
	assert_match 'f: .*: File too large; the source is as it was' "$ERR"
	no_sessions
	assert_exit 0 vzm --kind=dir b /srv/lim
	same "$A/srv/lim" "$B/srv/lim"
}

# To itself: by another name of this host.
test_same_host()
{
	mkdir -p "$A/srv/s/sub"
	on a sh -c 'ssh-keyscan 127.0.0.1 2>/dev/null >>/root/.ssh/known_hosts
		cat /root/.ssh/id_*.pub >>/root/.ssh/authorized_keys'
	assert_exit 1 vzm --kind=dir 127.0.0.1 /srv/s
	one_line
	assert_exit 1 vzm --kind=dir 127.0.0.1 /srv/s:/srv/s/sub/in
	one_line
	assert_no_file "$A/srv/s/sub/in"
	assert_exit 1 vzm --kind=dir 127.0.0.1 /srv/s/sub:/srv/s
	one_line
	assert_file "$A/srv/s/sub"
	# Elsewhere on the same host is a copy like any other.
	assert_exit 0 vzm --kind=dir 127.0.0.1 /srv/s:/srv/s2
	same "$A/srv/s" "$A/srv/s2"
}

# S5
test_exists_there()
{
	local d=$B/var/lib/lxc
	lxc_make a ex
	lxc_make b ex
	refused 9 'ex' b ex
	on b lxc-start ex
	refused 9 'ex' b ex
	on b lxc-stop -k ex
	rm -rf "$d/ex"
	mkdir -p "$d/ex"
	echo 'lxc.uts.name = ex' >"$d/ex/config"
	refused 9 'ex' b ex
	rm -rf "$d/ex"
	mkdir -p "$d/ex/rootfs"
	refused 9 'ex' b ex
	rm -rf "$d/ex"
	ln -s /nowhere "$d/ex"
	refused 9 'ex' b ex
	rm "$d/ex"
	assert_file "$A/var/lib/lxc/ex/config"
	assert_exit 0 vzm b ex
}

# U10: all findings at once, each with what to do.
test_all_findings()
{
	vz_make a 110
	on a vzctl set 110 --name web --save
	vz_make b 110
	ln -s /etc/vz/conf/99.conf "$B/etc/vz/names/web"
	echo 1 >"$B/var/lib/vz/lock/110.lck"
	assert_exit 9 vzm b 110
	assert_match 'error: root@b: there is a container 110 already .*--new-id' \
		"$ERR"
	assert_match 'error: root@b: the name web is taken .*--new-name' "$ERR"
	assert_match 'error: root@b: container 110 is locked by pid 1 .*; run the command again when that has ended$' "$ERR"
	assert_match '^vzmigrate: 110: 3 checks failed, nothing was changed$' \
		"$ERR"
	rm "$B/var/lib/vz/lock/110.lck" "$B/etc/vz/names/web"
	rm -rf "$B/vz/private/110" "$B/etc/vz/conf/110.conf"
	vz_make a 111
	mkdir -p "$B/vz/private/111"
	assert_exit 9 vzm b 111
	rm -rf "$B/vz/private/111"
	assert_exit 0 vzm b 110
}

# S6
test_locks()
{
	local pid
	vz_make a 120
	echo 1 >"$A/var/lib/vz/lock/120.lck"
	refused 20 'container 120 is locked by pid 1 .*120.lck; run the command again when that has ended$' b 120
	# A dead process's lock is taken over.
	sh -c 'echo $$' >"$A/var/lib/vz/lock/120.lck"
	assert_exit 0 vzm -r no b 120
	# No directory for locks.
	vz_make a 121
	mv "$A/var/lib/vz/lock" "$A/var/lib/vz/away"
	echo x >"$A/var/lib/vz/lock"
	assert_exit 15 vzm b 121
	one_line
	assert_match 'LOCKDIR|/var/lib/vz/lock' "$ERR"
	rm "$A/var/lib/vz/lock"
	mv "$A/var/lib/vz/away" "$A/var/lib/vz/lock"
	assert_exit 0 vzm b 121
}

# The same container by two runs at once: one has it.
test_two_at_once()
{
	mkdir -p "$A/srv/two"
	head -c 30000000 /dev/urandom >"$A/srv/two/f"
	link_rate 40mbit
	on_bg a vzmigrate --quiet --kind=dir b /srv/two:/srv/two1
	wait_until 20 at_work /srv/two
	assert_exit 20 vzm --kind=dir b /srv/two:/srv/two2
	# By whom, and what to do; the same to one who wants to give it up.
	one_line
	assert_match "^vzmigrate: /srv/two is in a migration to root@b, session [0-9a-f]{32}, process [0-9]+, step \"[a-z ]+\": wait until it is done, --status tells how far it is; to stop it, interrupt that process \\(kill -INT [0-9]+\\)\$" "$ERR"
	assert_exit 20 vzm --abort b /srv/two:/srv/two1
	assert_match '^vzmigrate: /srv/two is in a migration to root@b, ' "$ERR"
	link_rate none
	wait "$ON_BG"
	same "$A/srv/two" "$B/srv/two1"
	assert_no_file "$B/srv/two2"
}

test_cannot_connect()
{
	lxc_make a con
	refused 4 'nosuchhost' nosuchhost.invalid con
	refused 4 'refused' -p 1 b con
	[ -e "$A/root/other" ] ||
		on a ssh-keygen -q -t ed25519 -N '' -f /root/other
	refused 4 'does not let root in' --ssh="-o BatchMode=yes \
-o IdentitiesOnly=yes -o IdentityFile=/root/other" b con
	sed 's/ssh-ed25519 .*/ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ+4Bg2kJ1VxQk3G0yq0sG9D5lq7rQW1hA2k0Y3x4bcd/' \
		"$A/root/.ssh/known_hosts" >"$A/root/.ssh/changed"
	refused 4 'host key|HOST KEY|changed' \
		--ssh='-o UserKnownHostsFile=/root/.ssh/changed' b con
	assert_file "$A/var/lib/lxc/con/config"
}

test_no_agent()
{
	lxc_make a noag
	refused 4 "not found there: install vzmigrate on that host" \
		--agent=/nowhere/vzmigrate-agent b noag
	refused 4 'cannot be executed' --agent=/etc b noag
	refused 4 'b: ' --agent=true b noag
	refused 4 'hello there' --agent='echo hello there' b noag
	# Of another version of the protocol.
	refused 4 'protocol 99' --agent='printf \
"\n\001VZMIGRATE-AGENT\001 proto=99 caps=0\n"; sleep 1; true' b noag
}

# --- T1: what login shells say ----------------------------------------------

# Whatever the test before left.
quiet()
{
	host_sshd_conf b ''
	host_sshd_restart b
	link_rate none
}

noise()
{
	host_sshd_conf b "ForceCommand $1"
	host_sshd_restart b
}

test_shell_noise()
{
	lxc_make a noisy
	noise 'printf "Welcome!\\n0\\0\\033[2Jno newline"; exec vzmigrate-agent'
	assert_exit 0 vzm -r no b noisy:n1
	assert_match 'printed [0-9]+ bytes before.*Welcome' "$ERR"
	assert_no_match "$(printf '\033')" "$ERR"
	lxc_make a noisy2
	noise 'head -c 40000 /dev/zero | tr "\\0" x; exec vzmigrate-agent'
	assert_exit 0 vzm -r no b noisy2:n2
	lxc_make a noisy3
	noise 'echo only here >&2; exec vzmigrate-agent'
	assert_exit 0 vzm -r no b noisy3:n3
	# No agent behind it: in seconds, quoting what came.
	lxc_make a noisy4
	noise 'head -c 100000 /dev/zero | tr "\\0" y; sleep 100'
	refused 4 'yyyy' b noisy4
	noise 'echo Last login; cat >/dev/null'
	assert_exit 4 on a env VZMIGRATE_GREETING_MS=1500 vzmigrate b noisy4
	assert_match 'Last login' "$ERR"
	quiet
	assert_exit 0 vzm b noisy4
}

# --- T5, T4: an agent that dies or stops ------------------------------------

big_dir()
{
	mkdir -p "$A/srv/$1"
	head -c 40000000 /dev/urandom >"$A/srv/$1/f"
}

test_agent_killed()
{
	local rc=0
	quiet
	big_dir kill
	link_rate 80mbit
	on_bg a vzmigrate --quiet --kind=dir b /srv/kill:/srv/kill2 \
		>"$TEST_TMP/o" 2>"$TEST_TMP/e"
	wait_until 20 agent_copies
	on b pkill -KILL -x vzmigrate-agent
	wait "$ON_BG" || rc=$?
	link_rate none
	assert_eq 6 "$rc" "$(cat "$TEST_TMP/e")"
	assert_match 'the source is as it was' "$TEST_TMP/e"
	assert_no_file "$B/srv/kill2"
	assert_exit 0 vzm --kind=dir b /srv/kill:/srv/kill2
	same "$A/srv/kill" "$B/srv/kill2"
	no_sessions
}

test_agent_stopped()
{
	local rc=0
	quiet
	big_dir stop
	link_rate 80mbit
	on_bg a env VZMIGRATE_KEEPALIVE_MS=250 vzmigrate --quiet --kind=dir b \
		/srv/stop:/srv/stop2 >"$TEST_TMP/o" 2>"$TEST_TMP/e"
	wait_until 20 agent_copies
	on b pkill -STOP -x vzmigrate-agent
	wait "$ON_BG" || rc=$?
	on b pkill -KILL -x vzmigrate-agent
	link_rate none
	assert_match 'no sign of life|takes no data' "$TEST_TMP/e"
	assert_eq 6 "$rc" "$(cat "$TEST_TMP/e")"
	assert_exit 0 vzm --kind=dir b /srv/stop:/srv/stop2
	same "$A/srv/stop" "$B/srv/stop2"
	no_sessions
}

test_interrupted()
{
	local rc=0
	big_dir int
	link_rate 80mbit
	wait_until 10 eval '! agent_runs'
	on_bg a vzmigrate --quiet --kind=dir b /srv/int:/srv/int2 \
		>"$TEST_TMP/o" 2>"$TEST_TMP/e"
	wait_until 20 agent_runs
	kill -INT "$ON_PID"
	wait "$ON_BG" || rc=$?
	link_rate none
	assert_eq 70 "$rc" "$(cat "$TEST_TMP/e")"
	# On a busy machine it may have begun to undo before it says so.
	assert_match 'interrupt: (stopping, the source will be as it was|already stopping)' \
		"$TEST_TMP/e"
	assert_no_file "$B/srv/int2"
	wait_until 5 eval '! agent_runs'
	no_sessions
	assert_exit 0 vzm --kind=dir b /srv/int:/srv/int2
}

# --- S8: no room there ------------------------------------------------------

# small MB INODES - a file system of its own in b's /srv/small.
small()
{
	if on b mountpoint -q /srv/small; then
		wait_until 10 on b umount /srv/small
	fi
	mkdir -p "$B/srv/small"
	rm -f "$B/img"
	truncate -s "$1M" "$B/img"
	mkfs.ext4 -q -N "$2" "$B/img"
	on b mount -o loop /img /srv/small
}

test_full()
{
	big_dir full
	mkdir -p "$A/srv/many"
	(cd "$A/srv/many" && seq 200 | xargs touch)
	# Found before anything is sent: bytes, then inodes, then both.
	small 30 4000
	refused 6 'not enough room' --kind=dir b /srv/full:/srv/small/full
	small 300 128
	refused 6 'not enough inodes' --kind=dir b /srv/many:/srv/small/many
	small 20 64
	assert_exit 6 vzm --kind=dir b /srv/full:/srv/small/full
	assert_match 'error: .*not enough room' "$ERR"
	assert_match 'error: .*not enough inodes' "$ERR"
	assert_match '^vzmigrate: /srv/full: 2 checks failed' "$ERR"
	on b mount -o remount,ro /srv/small
	refused 6 'ead-only|cannot' --kind=dir b /srv/many:/srv/small/ro
	wait_until 10 on b umount /srv/small
	assert_file "$A/srv/full/f"
	no_sessions
}

# --- sudo -------------------------------------------------------------------

test_not_root()
{
	lxc_make a su
	grep -q '^plain:' "$B/etc/passwd" ||
		echo 'plain:x:1234:1234::/tmp/plain:/bin/sh' >>"$B/etc/passwd"
	mkdir -p "$B/home/plain/.ssh"
	sed -i 's#^plain:.*#plain:x:1234:1234::/home/plain:/bin/sh#' \
		"$B/etc/passwd"
	grep -q '^plain:' "$B/etc/shadow" ||
		echo 'plain:*:19000:0:99999:7:::' >>"$B/etc/shadow"
	cat "$A"/root/.ssh/id_*.pub >"$B/home/plain/.ssh/authorized_keys"
	chown -R 1234:1234 "$B/home/plain"
	chmod -R go-w "$B/home/plain"
	mkdir -p "$TEST_TMP/sudo"
	# Answers as sudo does when it wants a password.
	cat >"$HOSTS_PATH/sudo" <<-'END'
	#!/bin/sh
	echo "sudo: a password is required" >&2
	exit 1
	END
	chmod 755 "$HOSTS_PATH/sudo"
	refused 4 'sudo refuses to start vzmigrate-agent for plain' plain@b su
	cat >"$HOSTS_PATH/sudo" <<-'END'
	#!/bin/sh
	echo "sudo: vzmigrate-agent: command not found" >&2
	exit 1
	END
	refused 4 'install vzmigrate on that host' plain@b su
	rm "$HOSTS_PATH/sudo"
	assert_exit 64 on a setpriv --reuid nobody --clear-groups vzmigrate b su
	one_line
	assert_match 'Permission denied; run vzmigrate as root' "$ERR"
	assert_file "$A/var/lib/lxc/su/config"
}
