# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Ciphers: what servers of all sorts offer, policy, what is told, and the probe
# with servers and links that do not play along.
# run: asan-full

# shellcheck disable=SC2034,SC2164 # read by tests/run, which sets -e
TEST_TIMEOUT=150

setup_file()
{
	hosts_possible || skip "no throw-away hosts here: $HOSTS_WHY"
	hosts_up tmpfs a b c
	A=$(host_dir a) B=$(host_dir b)
	mkdir -p "$A/srv/d" "$B/srv" "$A/root/bin"
	head -c 300000 /dev/urandom >"$A/srv/d/f"
	server all 2201 "Ciphers $(ssh -Q cipher | paste -sd,)" \
		"MACs $(ssh -Q mac | paste -sd,)"
	server chacha 2202 'Ciphers chacha20-poly1305@openssh.com'
	server ctr 2203 'Ciphers aes256-ctr' 'MACs hmac-sha2-256'
	server cbc 2204 'Ciphers aes128-cbc'
	server gcm 2205 'Ciphers aes128-gcm@openssh.com,aes256-gcm@openssh.com'
	server few 2206 'MaxStartups 2:100:2'
	server nothing 2207 'ForceCommand cat >/dev/null; echo no'
	proxy_script
}

# server NAME PORT LINE ... - an sshd of b, and a Host of that name on a.
server()
{
	local name=$1 port=$2
	shift 2
	host_sshd_extra b "$port" "$(printf '%s\n' "$@")"
	cat >>"$A/root/.ssh/config" <<-END
	Host $name
	    HostName b
	    Port $port
	    HostKeyAlias b
	END
}

# A ProxyCommand on a with faults. Its first argument is a directory of its own
# with the plan: the file N says what connection number N does, `rest` what the
# others do: "pass", "drop", "stall", "stall-after BYTES", "until SECONDS":
# dropped until so long after the first of these, "live N": dropped where N
# others are alive.
proxy_script()
{
	cat >"$A/root/bin/faulty" <<'END'
#!/bin/bash
dir=$1 host=$2 port=$3
exec 9>"$dir/lock"
flock 9
n=$(($(cat "$dir/count" 2>/dev/null) + 1))
echo "$n" >"$dir/count"
read -r what arg < <(cat "$dir/$n" 2>/dev/null || cat "$dir/rest" 2>/dev/null || echo pass)
case $what in
drop) exit 1 ;;
stall) exec 9>&-; exec sleep 1000 ;;
stall-after)
	exec 9>&-
	(head -c "$arg"; exec sleep 1000) | busybox nc "$host" "$port"
	exit
	;;
until)
	[ -e "$dir/first" ] || date +%s >"$dir/first"
	[ $(($(date +%s) - $(<"$dir/first"))) -ge "$arg" ] || exit 1
	;;
live)
	alive=0
	for p in "$dir"/live.*; do
		[ -e "$p" ] && kill -0 "${p##*.}" 2>/dev/null &&
			alive=$((alive + 1))
	done
	[ "$alive" -lt "$arg" ] || exit 1
	: >"$dir/live.$$"
	;;
esac
exec 9>&-
exec busybox nc "$host" "$port"
END
	chmod 755 "$A/root/bin/faulty"
}

# faulty N=PLAN ... - sets PROXY to the option that goes through it.
faulty()
{
	local dir p
	dir=$(mktemp -d "$TEST_TMP/proxy.XXXXXX")
	for p; do
		echo "${p#*=}" >"$dir/${p%%=*}"
	done
	PROXY="--ssh=-o 'ProxyCommand=/root/bin/faulty $dir %h %p'"
}

vzm()
{
	on a vzmigrate "$@"
}

# probe_json OPTION ... - measures into $TEST_TMP/probe.json.
probe_json()
{
	assert_exit 0 vzm --json "$@" >/dev/null
	cp "$OUT" "$TEST_TMP/probe.json"
	has '.event == "probe"'
	has '.measure_seconds <= .budget_seconds + 0.01'
}

# has JQ - is true of it.
has()
{
	jq -e "$1" "$TEST_TMP/probe.json" >/dev/null ||
		fail "not so: $1: $(jq -c 'del(.candidates[].samples,
			.algorithms)' "$TEST_TMP/probe.json")"
}

# names WANT - of the candidates, sorted.
names()
{
	assert_eq "$1" "$(jq -r '[.candidates[] | .cipher +
		if .mac then "+" + .mac else "" end] | sort | join(" ")' \
		"$TEST_TMP/probe.json" | sed 's/@openssh.com//g')"
}

fresh()
{
	rm -rf "$B/srv/to" "$A/var/lib/vzmigrate/source"
}

# moved CT-OPTIONS ... - copies /srv/d and checks that it did.
moved()
{
	fresh
	assert_exit 0 vzm --kind=dir "$@" /srv/d:/srv/to
	cmp "$A/srv/d/f" "$B/srv/to/f"
}

# --- what servers offer -----------------------------------------------------

test_all()
{
	probe_json --probe-ciphers=4 all
	names "aes128-ctr+hmac-sha2-256-etm aes128-ctr+hmac-sha2-512-etm \
aes128-gcm aes192-ctr+hmac-sha2-256-etm aes192-ctr+hmac-sha2-512-etm \
aes256-ctr+hmac-sha2-256-etm aes256-ctr+hmac-sha2-512-etm aes256-gcm \
chacha20-poly1305"
	has '.sink | startswith("vzmigrate-agent")'
	has '[.candidates[] | .state] | all(. != "given-up")'
	has '.algorithms[] | select(.name == "aes128-cbc") | .server and
		.here and .policy == "needs --allow-cipher"'
	has '.algorithms[] | select(.name == "arcfour") | (.server | not) and
		.policy == "removed" and (.why | test("RC4 is broken"))'
	has '.server.version | startswith("SSH-2.0-OpenSSH")'
	has '.server.strict_kex'
	# Each sample is there.
	has '[.candidates[] | (.samples | length) == .rounds] | all'
	has '[.candidates[].samples[] | .bytes > 0 and .seconds > 0 and
		.mb_s > 0] | all'
	has '[.candidates[].samples[] | .cpu_here >= 0 and .cpu_there > 0] |
		all'
}

# For people: bars, a mark on the winner, the line of ssh_config; with -v why
# each name is in or out.
test_text()
{
	assert_exit 0 on a env LC_ALL=C vzmigrate --probe-ciphers=1 \
		--cipher=aes128-gcm@openssh.com,chacha20-poly1305@openssh.com b
	assert_match '^\* [a-z0-9-]+ +#+ +[0-9]+ \([0-9]+-[0-9]+\) +[0-9.]+ +[0-9.]+$' \
		"$OUT"
	assert_match '^Ciphers \^(aes128-gcm|chacha20-poly1305)@openssh.com$' \
		"$OUT"
	assert_match '^connecting took [0-9]+ ms, measuring [0-9]+ ms of 1000' \
		"$OUT"
	assert_eq 1 "$(grep -c '^\*' "$OUT")"
	assert_exit 0 on a env LC_ALL=C.UTF-8 vzmigrate --probe-ciphers=1 -v \
		gcm
	assert_match '^\* .*█' "$OUT"
	assert_match '^blowfish-cbc .* removed: OpenSSH 7.6 removed it' "$OUT"
	assert_match '^chacha20-poly1305@openssh.com +- +yes +offered' "$OUT"
	assert_match '^aes128-gcm@openssh.com +yes +yes +offered' "$OUT"
	assert_match '^umac-64@openssh.com +yes +- +no library' "$OUT"
}

test_only_chacha()
{
	probe_json --probe-ciphers=1 chacha
	names chacha20-poly1305
	has '.why == "only" and .end == "alone"'
	moved chacha
	assert_match 'cipher=chacha20-poly1305@openssh.com .*cipher_by=hardware' \
		"$OUT"
	moved --probe-ciphers=1 chacha
	assert_match 'cipher=chacha20-poly1305@openssh.com .*cipher_by=probe' \
		"$OUT"
}

# A plain MAC, since the server has no other: marked.
test_ctr_plain_mac()
{
	assert_exit 0 vzm --probe-ciphers=1 ctr
	assert_match '^\* aes256-ctr\+hmac-sha2-256 .* plain MAC$' "$OUT"
	assert_match '^Ciphers \^aes256-ctr$' "$OUT"
	assert_match '^MACs \^hmac-sha2-256$' "$OUT"
	probe_json --probe-ciphers=1 ctr
	has '.candidates[0].plain_mac'
	moved -vv ctr
	assert_match 'cipher=aes256-ctr mac=hmac-sha2-256 cipher_in=aes256-ctr mac_in=hmac-sha2-256 cipher_by=hardware' \
		"$OUT"
	assert_match 'hmac-sha2-256 is a plain MAC .*server has no encrypt' \
		"$ERR"
	# Each direction, and who decided.
	assert_match 'to the server aes256-ctr, MAC hmac-sha2-256; from it aes256-ctr, MAC hmac-sha2-256; ciphers decided by: hardware, MACs by: default' \
		"$ERR"
}

# C1
test_only_cbc()
{
	assert_exit 4 vzm --probe-ciphers=1 cbc
	assert_match 'we offer, and the server lacks: aes128-gcm' "$ERR"
	assert_match 'the server offers: aes128-cbc$' "$ERR"
	assert_match 'no cipher .* in common; .* --allow-cipher=aes128-cbc$' \
		"$ERR"
	assert_exit 4 vzm --kind=dir cbc /srv/d:/srv/to
	assert_match '--allow-cipher=aes128-cbc' "$ERR"
	moved --allow-cipher=aes128-cbc cbc
	assert_match 'cipher=aes128-cbc mac=hmac-sha2-256-etm@openssh.com' \
		"$OUT"
	probe_json --probe-ciphers=1 --allow-cipher=aes128-cbc cbc
	names "aes128-cbc+hmac-sha2-256-etm aes128-cbc+hmac-sha2-512-etm"
	# As a weak one it is measured where it is allowed, and only there.
	probe_json --probe-ciphers=1 --allow-cipher=aes128-cbc \
		--mac=hmac-sha1-etm@openssh.com \
		--cipher=aes128-cbc,aes128-gcm@openssh.com all
	names "aes128-cbc+hmac-sha1-etm aes128-gcm"
}

test_gcm()
{
	probe_json --probe-ciphers=1 gcm
	names "aes128-gcm aes256-gcm"
	moved --probe-ciphers=1 gcm
	assert_match 'cipher=aes(128|256)-gcm@openssh.com .*cipher_by=probe' \
		"$OUT"
}

test_dropbear()
{
	local pid
	command -v dropbear >/dev/null || skip "no dropbear here"
	mkdir -p "$B/etc/dropbear"
	on b dropbearkey -t ed25519 -f /etc/dropbear/key >/dev/null 2>&1
	echo "[b]:2222 $(on b dropbearkey -y -f /etc/dropbear/key |
		grep '^ssh-ed25519')" >>"$A/root/.ssh/known_hosts"
	on b dropbear -r /etc/dropbear/key -p 2222 -P /run/dropbear.pid
	wait_until 10 test -s "$B/run/dropbear.pid"
	pid=$(<"$B/run/dropbear.pid")
	probe_json --probe-ciphers=1 -p 2222 \
		--agent="$VZ_BUILDDIR/vzmigrate/vzmigrate-agent" b
	has '.sink | startswith("vzmigrate-agent")'
	has '.server.version | test("dropbear")'
	has '[.candidates[].cipher] | index("chacha20-poly1305@openssh.com")'
	has '[.candidates[] | select(.cipher == "aes256-ctr") | .plain_mac] |
		length > 0 and all'
	# Half of the other host's time would mislead.
	has '[.candidates[].cpu_there] | all(. == null)'
	moved --probe-ciphers=1 -p 2222 \
		--agent="$VZ_BUILDDIR/vzmigrate/vzmigrate-agent" b
	on b kill "$pid"
}

# --- order and precedence ---------------------------------------------------

# C2
test_order_by_hardware()
{
	local want=chacha20-poly1305@openssh.com
	grep -qw aes /proc/cpuinfo && want=aes128-gcm@openssh.com
	moved b
	assert_match "cipher=$want .*cipher_by=hardware" "$OUT"
}

test_precedence()
{
	printf 'Host *\n Ciphers aes192-ctr\n MACs hmac-sha2-512\n' \
		>"$A/root/c.conf"
	moved --ssh-config=/root/c.conf b
	assert_match 'cipher=aes192-ctr mac=hmac-sha2-512 .*cipher_by="ssh configuration"' \
		"$OUT"
	moved --ssh-config=/root/c.conf --ssh='-c aes128-ctr' b
	assert_match 'cipher=aes128-ctr .*cipher_by="ssh option"' "$OUT"
	moved --ssh-config=/root/c.conf --ssh='-c aes128-ctr' \
		--cipher=aes256-ctr --mac=hmac-sha2-256 b
	assert_match 'cipher=aes256-ctr mac=hmac-sha2-256 .*cipher_by=option' \
		"$OUT"
	# The probe measures what is left of it, no more.
	probe_json --ssh-config=/root/c.conf --probe-ciphers=1 b
	names "aes192-ctr+hmac-sha2-512"
	printf 'Host *\n Ciphers ^aes256-ctr\n' >"$A/root/c.conf"
	moved --ssh-config=/root/c.conf b
	assert_match 'cipher=aes256-ctr ' "$OUT"
	printf 'Host *\n Ciphers -*gcm*,chacha*\n' >"$A/root/c.conf"
	probe_json --ssh-config=/root/c.conf --probe-ciphers=1 b
	has '[.candidates[].cipher | test("-ctr$")] | all'
}

# C1, C3
test_bad_config()
{
	printf 'Host *\n Ciphers arcfour,blowfish-cbc\n' >"$A/root/c.conf"
	assert_exit 15 vzm --ssh-config=/root/c.conf --probe-ciphers=1 b
	assert_match 'arcfour is left out' "$ERR"
	assert_match 'leaves no cipher to offer' "$ERR"
	assert_exit 15 vzm --ssh-config=/root/c.conf --kind=dir b \
		/srv/d:/srv/to
	printf 'Ciphers arcfour,aes128-ctr\r\nMatch final all\r\n  Compression no\r\nInclude /nowhere/at/all\r\n' \
		>"$A/root/c.conf"
	moved --ssh-config=/root/c.conf b
	assert_match 'arcfour is left out' "$ERR"
	assert_match 'cipher=aes128-ctr ' "$OUT"
	cp "$A/root/c.conf" "$TEST_TMP/keep"
	cp "$A/root/.ssh/config" "$TEST_TMP/config"
	cp "$A/root/c.conf" "$A/root/.ssh/config"
	moved --ssh-config=none b
	cp "$TEST_TMP/config" "$A/root/.ssh/config"
	assert_match 'cipher_by=hardware' "$OUT"
	assert_exit 1 vzm --probe-ciphers --cipher=none b
	assert_match 'none' "$ERR"
}

# --- into what, through what ------------------------------------------------

test_no_agent()
{
	probe_json --probe-ciphers=1 --agent=/nowhere/agent \
		--cipher=aes128-gcm@openssh.com,chacha20-poly1305@openssh.com b
	has '.sink | startswith("dd")'
	has '.no_agent != null'
	has '[.candidates[] | .state != "given-up" and .mb_s > 0.1] | all'
	has '[.candidates[].cpu_there] | all(. == null)'
	# Neither: told, not invented.
	assert_exit 4 vzm --probe-ciphers=1 --agent=/nowhere/agent \
		"$TWO" nothing
	assert_match 'no agent there .*no other sink' "$ERR"
}

test_jump()
{
	probe_json --probe-ciphers=1 -J c \
		--cipher=aes128-gcm@openssh.com,aes256-ctr b
	names "aes128-gcm aes256-ctr+hmac-sha2-256-etm \
aes256-ctr+hmac-sha2-512-etm"
	has '.server.kex | length > 100'
	has '[.candidates[].rounds] | add > 0'
	moved --probe-ciphers=1 -J c --cipher=aes128-gcm@openssh.com b
	assert_match 'cipher=aes128-gcm@openssh.com .*cipher_by=probe' "$OUT"
}

# The link is slower than any cipher, also on a busy machine.
test_slow_link()
{
	link_rate 20mbit
	assert_exit 0 vzm --probe-ciphers=3 \
		--cipher=aes128-gcm@openssh.com,chacha20-poly1305@openssh.com b
	link_rate none
	assert_match 'the cipher does not matter: the link is slower' "$OUT"
	assert_match '^\* ' "$OUT"
}

# --- used -------------------------------------------------------------------

test_used()
{
	local pick
	fresh
	assert_exit 0 vzm --json --probe-ciphers=1 --kind=dir "$TWO" all \
		/srv/d:/srv/to
	pick=$(jq -r 'select(.event == "probe") | .pick' "$OUT")
	[ -n "$pick" ] || fail "no pick"
	jq -es --arg p "$pick" 'last | .event == "summary" and
		.cipher_by == "probe" and .cipher_gain > 0 and
		(.cipher_default | length) > 0 and
		(.cipher + if .mac then "+" + .mac else "" end) == $p and
		(.ssh_config | startswith("Ciphers ^"))' "$OUT" >/dev/null ||
		fail "$(tail -n 1 "$OUT")"
	moved --probe-ciphers=1 "$TWO" b
	assert_match 'permanent with, in ssh_config: Ciphers \^' "$OUT"
	assert_match '^\* ' "$ERR"
	# Not before it is known that there is something to move.
	assert_exit 10 vzm --probe-ciphers=600 b nothere
	# A directory that was never copied: no warning of that.
	cp -r "$A/srv/d" "$A/srv/quiet"
	assert_exit 0 vzm --quiet --probe-ciphers=1 --kind=dir "$TWO" \
		b /srv/quiet
	assert_match 'cipher_by=probe' "$OUT"
	[ ! -s "$ERR" ] || fail "quiet is not: $(cat "$ERR")"
}

# --- servers that do not play along -----------------------------------------

TWO=--cipher=aes128-gcm@openssh.com,aes256-gcm@openssh.com
THREE=$TWO,chacha20-poly1305@openssh.com

# The one that reads what it offers.
test_drops_the_first()
{
	faulty 1=drop
	assert_exit 0 vzm --probe-ciphers=1 "$PROXY" "$TWO" b
	assert_match 'cannot read what the server offers' "$ERR"
	assert_match '^\* aes' "$OUT"
}

# All that it measures with: the migration still runs.
test_drops_all()
{
	faulty 1=pass 2=pass 'rest=until 12'
	moved --probe-ciphers=1 "$PROXY" "$TWO" b
	assert_match 'aes128-gcm +given up: ' "$ERR"
	assert_match 'could not be measured .*going on with what negotiation' \
		"$ERR"
	assert_match 'cipher=aes128-gcm@openssh.com .*cipher_by=option' "$OUT"
}

# No more than two at a time: one candidate is measured.
test_refuses_parallel()
{
	faulty 'rest=live 2'
	moved --probe-ciphers=1 "$PROXY" "$TWO" b
	assert_match 'aes256-gcm +given up: ' "$ERR"
	assert_match 'cipher=aes128-gcm@openssh.com .*cipher_by=probe' "$OUT"
}

# T7: half-open connections count there; ours come one after another.
test_max_startups()
{
	# shellcheck disable=SC2016 # for the shell there
	on_bg b bash -c 'exec 3<>/dev/tcp/127.0.0.1/2206; sleep 100' \
		>/dev/null 2>&1
	wait_until 10 eval 'on b busybox netstat -tn | grep -q 127.0.0.1:2206'
	moved --probe-ciphers=1 "$TWO" few
	kill "$ON_PID" 2>/dev/null || :
	assert_match 'cipher_by=probe' "$OUT"
	assert_no_match 'given up' "$ERR"
}

# One does not answer, one stops in the middle, one works.
test_stalls()
{
	faulty 3=stall '4=stall-after 2000000'
	moved --probe-ciphers=4 "$PROXY" "$THREE" b
	assert_match 'aes128-gcm +given up: .*(does not answer|stalled)' "$ERR"
	assert_match 'aes256-gcm +(given up: |not measured)' "$ERR"
	assert_match 'cipher=chacha20-poly1305@openssh.com .*cipher_by=probe' \
		"$OUT"
}

# All of them stall, for ever.
test_stalls_all()
{
	local from=$SECONDS
	faulty 3=stall 4=stall
	moved --probe-ciphers=1 "$PROXY" "$TWO" b
	[ $((SECONDS - from)) -lt 40 ] || fail "took $((SECONDS - from)) s"
	assert_match 'aes256-gcm +given up: .*(does not answer|stalled)' \
		"$ERR"
	assert_match 'going on with what negotiation chooses' "$ERR"
	assert_match 'cipher_by=option' "$OUT"
}

test_interrupted()
{
	local rc=0
	fresh
	# One of the test before would be taken for ours, before ours is there.
	wait_until 10 eval '! on b pgrep -x vzmigrate-agent >/dev/null'
	on_bg a vzmigrate --probe-ciphers=60 --kind=dir b /srv/d:/srv/to \
		>"$TEST_TMP/o" 2>"$TEST_TMP/e"
	wait_until 20 eval 'on b pgrep -x vzmigrate-agent >/dev/null'
	kill -INT "$ON_PID"
	wait "$ON_BG" || rc=$?
	assert_eq 70 "$rc" "$(cat "$TEST_TMP/e")"
	assert_no_file "$B/srv/to"
	wait_until 10 eval '! on b pgrep -x vzmigrate-agent >/dev/null'
}

# The host key is checked as ever, before anything is measured.
test_host_key()
{
	sed 's/ssh-ed25519 .*/ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ+4Bg2kJ1VxQk3G0yq0sG9D5lq7rQW1hA2k0Y3x4bcd/' \
		"$A/root/.ssh/known_hosts" >"$A/root/.ssh/changed"
	assert_exit 4 vzm --probe-ciphers=1 \
		--ssh='-o UserKnownHostsFile=/root/.ssh/changed' b
	assert_match 'host key|HOST KEY|changed' "$ERR"
	[ ! -s "$OUT" ] || fail "it measured: $(cat "$OUT")"
}
