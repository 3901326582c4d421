# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Every option, by the table tests/data/options.tab: what it does is seen on
# two hosts, what has no effect says so and nothing else changes, what is
# refused says why before anything happens. And --help, the manual and the
# completions have these options and no other.
# run: asan-full

# shellcheck disable=SC2034,SC2164,SC2016,SC2094 # read by tests/run, which sets -e
TEST_TIMEOUT=200
TABLE=$VZ_TOP/tests/data/options.tab
V=$VZ_BUILDDIR/vzmigrate/vzmigrate

# shellcheck source=SCRIPTDIR/safety.sh
. "$VZ_TOP/tests/e2e/safety.sh"

# hosts - up once, for the tests that need them.
hosts()
{
	hosts_possible || skip "no throw-away hosts here: $HOSTS_WHY"
	openvz_hosts
	hosts_up tmpfs a b
	openvz_hosts a b
	A=$(host_dir a) B=$(host_dir b)
	mkdir -p "$A/srv/d" "$B/srv"
	head -c 5000 /dev/zero | tr '\0' x >"$A/srv/d/x"
	N=0
}

# rows FATE - NAME, LETTER, VALUE and the rest of each such row.
rows()
{
	awk -F '\t' -v fate="$1" '$4 == fate {
		print $1 "\t" $2 "\t" $3 "\t" $5 }' "$TABLE"
}

test_table_is_sound()
{
	local bad
	bad=$(awk -F '\t' '
		/^#/ { next }
		NF != 5 || $4 !~ /^(does|none|refused)$/ { print "row: " $0 }
		seen[$1]++ || ($2 != "-" && letter[$2]++) { print "twice: " $0 }
		' "$TABLE")
	assert_eq '' "$bad"
	[ "$(grep -vc '^#' "$TABLE")" -gt 75 ] || fail "rows are not found"
}

# --- what is written of them ------------------------------------------------

# "NAME LETTER VALUE" of the rows with one of these fates.
of_table()
{
	awk -F '\t' -v fates=" $* " '!/^#/ && index(fates, " " $4 " ") {
		print $1, $2, $3 }' "$TABLE" | sort
}

# The same from --help, where the options are that are not refused.
of_help()
{
	"$V" --help | awk '
		/^Refused/ { exit }
		/^ +(-[a-zA-Z], )?--[a-z]/ {
			letter = $1 ~ /,$/ ? substr($1, 2, 1) : "-"
			name = substr($1 ~ /,$/ ? $2 : $1, 3)
			value = "-"
			if (i = index(name, "=")) {
				value = substr(name, i + 1)
				name = substr(name, 1, i - 1)
				if (sub(/\[$/, "", name))
					value = "[" value
			}
			print name, letter, value
		}' | sort
}

test_help_has_them()
{
	local name letter value text help=$TEST_TMP/help
	diff <(of_table does none) <(of_help) >&2 || fail "--help differs"
	"$V" --help >"$help"
	# In its part without effect, with this text.
	sed -n '/^Accepted without an effect/,/^$/p' "$help" >"$TEST_TMP/none"
	assert_eq "$(rows none | cut -f1)" \
		"$(grep -oE -e '--[a-z-]+' "$TEST_TMP/none" | cut -c3-)"
	while IFS=$'\t' read -r name letter value text; do
		assert_match "--$name(\[?=[^ ]*)? +$text\$" "$TEST_TMP/none"
	done < <(rows none)
	assert_eq "$(rows refused | cut -f1)" \
		"$(sed -n '/^Refused/,/^$/p' "$help" | tr ' /' '\n' |
			sed -n 's/^--//p')" "refused"
}

# tags - what the manual is asked for: the names at which a paragraph of
# OPTIONS hangs, "NAME LETTER VALUE".
tags()
{
	groff -t -man -Tascii -P-cbou -rLL=100n "$VZ_TOP/man/vzmigrate.8" \
		2>/dev/null | awk '
		/^[A-Z]/ { on = /^OPTIONS/ }
		/^   Options for rsync/ { on = 0 }
		on && /^       -/ {
			sub(/^ +/, "")
			sub(/ +[A-Z][a-z].*/, "") # what is beside a short tag
			# A line of a paragraph may begin so, too.
			if ($0 !~ /^(-[a-zA-Z], )?--[^ ]*[a-zA-Z\]](, --[a-z-]+)*$/)
				next
			n = split($0, w, /, /)
			letter = "-"
			for (i = 1; i <= n; i++) {
				if (w[i] ~ /^-[a-zA-Z]$/) {
					letter = substr(w[i], 2)
					continue
				}
				name = substr(w[i], 3)
				value = "-"
				if (k = index(name, "=")) {
					value = substr(name, k + 1)
					name = substr(name, 1, k - 1)
					if (sub(/\[$/, "", name))
						value = "[" value
				}
				print name, letter, value
				letter = "-"
			}
		}' | sort
}

test_manual_has_them()
{
	command -v groff >/dev/null || skip "no groff"
	# It says which kinds there are, in place of the word.
	diff <(of_table does none refused | sed 's/ KIND$/ openvz|lxc|dir/') \
		<(tags) >&2 || fail "the manual differs"
}

test_completions_have_them()
{
	local w
	PATH=$VZ_BUILDDIR/vzmigrate:$PATH
	of_table does none | while read -r name letter w; do
		echo "--$name"
		[ "$letter" = - ] || echo "-$letter"
	done | sort >"$TEST_TMP/want"
	env -i HOME="$TEST_TMP" PATH="$PATH" bash --norc -c '
		. "$1"
		COMP_LINE="vzmigrate -" COMP_POINT=11
		_vzmigrate vzmigrate
		printf "%s\n" "${COMPREPLY[@]%=}"' bash \
		"$VZ_TOP/completions/vzmigrate.bash" | sort >"$TEST_TMP/got"
	diff "$TEST_TMP/want" "$TEST_TMP/got" >&2 || fail "bash differs"
	command -v zsh >/dev/null || skip "no zsh"
	env -i HOME="$TEST_TMP" PATH="$PATH" zsh -f -c '
		setopt extendedglob
		. "$1"
		_vzmigrate_options' zsh "$VZ_TOP/completions/_vzmigrate" |
		sed -nE 's/^\*(--?[a-zA-Z-]*[a-zA-Z]).*/\1/p' | sort >"$TEST_TMP/got"
	diff "$TEST_TMP/want" "$TEST_TMP/got" >&2 || fail "zsh differs"
}

# --- what is refused --------------------------------------------------------

# An example of a value, for those that want one.
example()
{
	case $1 in
	- | \[*) ;;
	*) echo "=x" ;;
	esac
}

# No host of this name is looked for: the error is about the option.
test_refused()
{
	local name letter value text shown
	export VZMIGRATE_STATE_DIR=$TEST_TMP/state
	while IFS=$'\t' read -r name letter value text; do
		shown=--$name
		[ "$letter" = - ] || shown=-$letter/--$name
		assert_exit 1 "$V" nosuch.invalid 1 "--$name$(example "$value")"
		assert_match "^vzmigrate: $shown: $text" "$ERR"
		assert_eq 1 "$(wc -l <"$ERR")" "lines of $name"
		assert_eq '' "$(cat "$OUT")"
		[ "$letter" = - ] || {
			assert_exit 1 "$V" nosuch.invalid 1 "-$letter"
			assert_match "^vzmigrate: $shown: $text" "$ERR"
		}
	done < <(rows refused)
	assert_no_file "$TEST_TMP/state"
}

# What rsync has, we know: of some at a time only the last is unknown.
test_options_of_rsync()
{
	local words
	command -v rsync >/dev/null || skip "no rsync"
	rsync --help | awk -F '  +' '
		/^Options/ { on = 1 }
		on && /^-/ && !/^--no-OPTION/ {
			n = split($1, w, /, | \(/)
			for (i = 1; i <= n; i++)
				if (w[i] ~ /^-/) {
					sub(/=.*/, "", w[i])
					v = $1 ~ /rsh=/ ? "ssh" : "1"
					print w[i], $1 ~ /=/ ? v : ""
				}
		}' >"$TEST_TMP/rsync"
	[ "$(wc -l <"$TEST_TMP/rsync")" -gt 150 ] || fail "no options found"
	while read -r words; do
		assert_exit 1 "$V" "--rsync=$words --nosuch" h 1
		assert_match '^vzmigrate: --rsync: cannot be honoured: .*--nosuch \(not known\)$' "$ERR"
		assert_no_match ', --nosuch' "$ERR"
	done < <(paste -d ' ' - - - - - - - - - - <"$TEST_TMP/rsync")
}

# --- what has no effect -----------------------------------------------------

# Without the progress of what takes long today.
said()
{
	grep -v '^vzmigrate: /srv/d ' "$ERR"
}

# All in one run: it does what it does without them, and says a line for each.
without_effect()
{
	local name letter value text words=()
	: >"$TEST_TMP/want"
	while IFS=$'\t' read -r name letter value text; do
		words+=("--$name$(example "$value")")
		if [ "$letter" = - ]; then
			echo "vzmigrate: --$name: $text"
		else
			words+=("-$letter")
			echo "vzmigrate: -$letter/--$name: $text"
			echo "vzmigrate: -$letter/--$name: $text"
		fi >>"$TEST_TMP/want"
	done < <(rows none)
	assert_exit 0 vzm "${words[@]}" b /srv/d:/srv/none
	diff "$TEST_TMP/want" <(said) >&2 || fail "the lines differ"
	assert_file "$B/srv/none/x"
	assert_exit 0 vzm --quiet "${words[@]}" b /srv/d:/srv/none2
	assert_eq '' "$(cat "$ERR")" "--quiet"
}

# --- what has one -----------------------------------------------------------

vzm()
{
	on a vzmigrate "$@"
}

# moves OPTION ... - the directory goes to b; $THERE is where it is there.
moves()
{
	N=$((N + 1))
	THERE=$B/srv/d$N
	assert_exit 0 vzm "$@" b "/srv/d:/srv/d$N"
	assert_file "$THERE/x"
}

opt_remove_area()
{
	moves
	assert_file "$A/srv/d/x"
	cp -r "$A/srv/d" "$A/srv/gone"
	assert_exit 0 vzm -r no b /srv/gone:/srv/gone1
	assert_file "$A/srv/gone/x"
	assert_exit 0 vzm --remove-area=yes b /srv/gone:/srv/gone2
	assert_no_file "$A/srv/gone"
	assert_file "$B/srv/gone2/x"
}

# fails OPTION ... - a move to $K that breaks off in the copying.
fails()
{
	K=/srv/k$N
	assert_exit 6 vzm --agent='ulimit -f 2; exec vzmigrate-agent' "$@" \
		b "/srv/d:$K"
}

staged()
{
	on b find /srv -maxdepth 1 -name '.vzmigrate-*'
}

opt_keep_dst()
{
	fails
	assert_eq '' "$(staged)"
	fails --keep-dst
	assert_match '^/srv/.vzmigrate-[0-9a-f]+$' <(staged)
	assert_exit 0 vzm b "/srv/d:$K"
	assert_eq '' "$(staged)"
}

opt_abort()
{
	fails --keep-dst
	assert_exit 0 vzm --abort b "/srv/d:$K"
	assert_match '^vzmigrate: given up CT /srv/d: session=[0-9a-f]+$' "$OUT"
	assert_eq '' "$(staged)"
}

opt_status()
{
	assert_exit 0 vzm --status
	assert_match '^vzmigrate: no migration is unfinished here$' "$OUT"
	fails --keep-dst
	assert_exit 0 vzm --status /srv/d
	assert_match '^vzmigrate: status CT /srv/d to root@b: .* kind=dir state=restored owner=source process=none new_ct='"$K place=$K$" "$OUT"
	assert_exit 0 vzm --abort b "/srv/d:$K"
}

opt_new_id()
{
	lxc_make a n1
	assert_exit 0 vzm --new-id=m1 b n1
	assert_file "$B$CTS/m1/config"
	lxc_make a n2
	assert_exit 0 vzm --new-uuid=m2 b n2
	assert_file "$B$CTS/m2/config"
}

opt_new_private()
{
	assert_exit 0 vzm --new-private=/srv/np b /srv/d
	assert_file "$B/srv/np/x"
	assert_exit 0 vzm --dst=/srv/dst b /srv/d
	assert_file "$B/srv/dst/x"
}

opt_kind()
{
	lxc_make a k1
	assert_exit 10 vzm --kind=openvz --check-only b k1
	assert_exit 0 vzm --kind=lxc --check-only b k1
	assert_match ' kind=lxc ' "$OUT"
	assert_exit 0 vzm --kind=dir --check-only b /srv/d:/srv/never
	assert_match ' kind=dir ' "$OUT"
}

opt_lxcpath()
{
	lxc_make a p1
	mkdir -p "$A/other" "$B/else"
	mv "$A$CTS/p1" "$A/other/"
	sed -i "s,$CTS/p1,/other/p1," "$A/other/p1/config"
	assert_exit 10 vzm b p1
	assert_exit 0 vzm --lxcpath=/other --dst-lxcpath=/else b p1
	assert_file "$B/else/p1/config"
	assert_no_file "$B$CTS/p1"
	assert_no_file "$A/other/p1/config"
}

opt_vz_conf()
{
	local d
	for d in "$A" "$B"; do
		mkdir -p "$d"/etc/vz2/conf "$d/vz2"/{private,root}
		sed "s,=/vz/\(private\|root\),=/vz2/\1," "$d/etc/vz/vz.conf" \
			>"$d/etc/vz2/vz.conf"
	done
	mkdir -p "$A/vz2/private/501/etc"
	printf '%s\n' 'VE_LAYOUT=simfs' 'VE_ROOT="/vz2/root/$VEID"' \
		'VE_PRIVATE="/vz2/private/$VEID"' 'OSTEMPLATE="none"' \
		>"$A/etc/vz2/conf/501.conf"
	assert_exit 10 vzm --check-only b 501
	assert_exit 0 vzm -v --vz-conf=/etc/vz2/vz.conf \
		--dst-vz-conf=/etc/vz2/vz.conf --check-only b 501
	assert_match '501 will be 501 in /vz2/private/501 on ' "$ERR"
	assert_exit 0 vzm -v --vz-conf=/etc/vz2/vz.conf --check-only b 501
	assert_match '501 will be 501 in /vz/private/501 on ' "$ERR"
}

# What vzctl is asked to do to an image is seen in unit/test_ct_openvz.
opt_image()
{
	mkdir -p "$A/vz/private/502/etc"
	printf '%s\n' 'VE_LAYOUT=simfs' 'VE_ROOT="/vz/root/$VEID"' \
		'VE_PRIVATE="/vz/private/$VEID"' 'OSTEMPLATE="none"' \
		>"$A/etc/vz/conf/502.conf"
	assert_exit 0 vzm --compact b 502
	assert_match 'warning: 502 has no ploop image, so --compact has no' \
		"$ERR"
	moves -s
	assert_match 'warning: /srv/d has no ploop image, so --snapshot has' \
		"$ERR"
	moves -c --snapshot
}

opt_check_only()
{
	local o
	for o in --check-only --dry-run; do
		assert_exit 0 vzm $o b /srv/d:/srv/never
		assert_match '^vzmigrate: checked CT /srv/d ' "$OUT"
	done
	assert_no_file "$B/srv/never"
	assert_eq '' "$(staged)"
}

# Room for the destination's half is small.
opt_nodeps()
{
	on b mkdir -p /small
	on b mount -t tmpfs -o size=64k none /small
	assert_exit 6 vzm --check-only b /srv/d:/small/d
	assert_match 'not enough room .*--nodeps=disk_space goes on' "$ERR"
	for o in --nodeps=disk_space --nodeps=ip,disk_space --nodeps -f \
		-f=all; do
		assert_exit 0 vzm $o --check-only b /srv/d:/small/d
		assert_match 'warning: .*not enough room' "$ERR"
	done
	assert_exit 6 vzm --nodeps=ip --check-only b /srv/d:/small/d
	assert_exit 0 vzm -f=disk_space b /srv/d:/small/d
	on b test -f /small/d/x
	# Ignored checks that there are not are told.
	assert_exit 0 vzm --nodeps=ipv6,rate --check-only b /srv/d:/srv/never
	assert_match '^vzmigrate: -f/--nodeps: such a check is not made: ipv6, rate$' "$ERR"
	on b umount /small
}

opt_rsync()
{
	moves '--rsync=-aHAX -z --bwlimit=5000 --delete'
	assert_match ' compress=zstd ' "$OUT"
	assert_eq 2 "$(said | wc -l)"
	assert_match '^vzmigrate: --rsync: taken: -z as --compress, --bwlimit=5000 as --limit-speed=5120000$' "$ERR"
	assert_match 'so anyway, .*: -a, -H, -A, -X, --delete$' "$ERR"
	# Both strings count; what is behind ssh is for ssh.
	assert_exit 0 vzm --rsync=--bwlimit=1M --rsync='-e "ssh -c aes256-ctr"' \
		b /srv/d:/srv/rs
	assert_match ' cipher=aes256-ctr ' "$OUT"
	assert_exit 1 vzm --rsync='--exclude=x -u' --rsync=--chmod=u+x \
		b /srv/d:/srv/never
	assert_match '^vzmigrate: --rsync: cannot be honoured: --exclude=x, -u \(.*\); --chmod=u\+x \(.*\)$' "$ERR"
	assert_no_file "$B/srv/never"
}

# Somebody who takes connections and never says a word.
opt_timeout()
{
	local from=$SECONDS
	on_bg b busybox nc -l -p 2230 -e sleep 100
	wait_until 10 on b grep -q ':08B6 ' /proc/net/tcp /proc/net/tcp6
	assert_exit 4 vzm --timeout=1 -p 2230 b /srv/d:/srv/never
	[ $((SECONDS - from)) -lt 20 ] || fail "it took $((SECONDS - from)) s"
	kill "$ON_PID"
	moves --timeout=600
}

opt_cipher()
{
	moves --cipher=aes256-ctr --mac=hmac-sha2-512
	assert_match ' cipher=aes256-ctr mac=hmac-sha2-512 .*cipher_by=option' \
		"$OUT"
	moves --ssh-cipher=aes192-ctr
	assert_match ' cipher=aes192-ctr .*cipher_by=option' "$OUT"
}

opt_probe()
{
	assert_exit 0 vzm --cipher=aes128-ctr,aes256-ctr --mac=hmac-sha2-256 \
		--probe-ciphers=1 b
	assert_match '^ciphers to root@b, .*: 2 candidates' "$OUT"
	assert_exit 0 vzm --cipher=aes128-ctr --probe-ciphers=1 --print b
	assert_eq aes128-ctr "$(cat "$OUT")"
	moves --cipher=aes128-ctr --probe-ciphers=1
	assert_match 'cipher_by=probe' "$OUT"
}

opt_agent()
{
	moves --agent='touch /srv/started; exec vzmigrate-agent'
	assert_file "$B/srv/started"
	assert_exit 4 vzm --agent=/nosuch b /srv/d:/srv/never
	assert_match "'/nosuch' is not found there" "$ERR"
}

opt_compress()
{
	moves --compress
	assert_match ' wire_bytes=[0-9]{1,3} .* compress=zstd ' "$OUT"
	moves --compress=19
	assert_match ' compress=zstd ' "$OUT"
	moves --nocompress --rsync=-z
	assert_match ' wire_bytes=5[0-9]{3} .* compress=none ' "$OUT"
}

# Two seconds' worth, of which a piece may go at once.
opt_limit()
{
	local from=${EPOCHREALTIME/./}
	head -c 400000 /dev/urandom >"$A/srv/d/y"
	moves --limit-speed=200K
	[ $((${EPOCHREALTIME/./} - from)) -gt 750000 ] || fail "too fast"
	moves -l none
	rm "$A/srv/d/y"
}

opt_json()
{
	moves --json
	assert_eq 1 "$(grep -c '^{"event":"summary","result":"copied"' "$OUT")"
	assert_no_match '^[^{]' "$OUT"
}

opt_quiet()
{
	moves --quiet
	assert_eq 1 "$(wc -l <"$OUT")" "lines of summary"
	assert_eq '' "$(cat "$ERR")"
	moves
	[ "$(wc -l <"$OUT")" -gt 1 ] || fail "one line without it, too"
}

opt_verbose()
{
	# The steps, and what the destination says of them.
	moves -v
	assert_match '^vzmigrate: /srv/d: take over$' "$ERR"
	assert_match '^vzmigrate: b: .*: committed at ' "$ERR"
	assert_match '^vzmigrate: the limit can be changed in ' "$ERR"
	assert_no_match 'debug: |trace: ' "$ERR"
	[ "$(wc -l <"$ERR")" -lt 25 ] || fail "-v tells $(wc -l <"$ERR") lines"
	assert_match '^ +final pass +[0-9.]+ s' "$OUT"
	moves -vv
	assert_match '^vzmigrate: debug: .*: proven -> retiring$' "$ERR"
	assert_match '^vzmigrate: debug: b: .*: proven -> committed$' "$ERR"
	assert_no_match 'trace: ' "$ERR"
	moves -vvv
	assert_match '^vzmigrate: trace: libssh: ' "$ERR"
	moves --verbose
	assert_match '^vzmigrate: /srv/d: take over$' "$ERR"
}

opt_times()
{
	local o
	for o in -t --times; do
		moves $o
		assert_match '^ +final pass +[0-9.]+ s' "$OUT"
	done
	moves
	assert_no_match '^ +final pass' "$OUT"
}

opt_help()
{
	local o
	for o in -h --help --usage '-?'; do
		assert_exit 0 vzm "$o"
		assert_match '^Usage: vzmigrate' "$OUT"
		assert_match '^Exit codes:' "$OUT"
	done
}

opt_version()
{
	assert_exit 0 vzm --version
	assert_match '^vzmigrate [0-9.]+$' "$OUT"
}

# What the refusal of --readonly advises, on a host whose disk can only be read.
readonly_source()
{
	on a mount --bind /srv /srv
	on a mount -o remount,ro,bind /srv
	assert_exit 0 on a env VZMIGRATE_STATE_DIR=/dev/shm/s \
		VZMIGRATE_LOG_DIR=/dev/shm/l vzmigrate --kind=dir \
		b /srv/d:/srv/from-ro
	on a umount /srv
	assert_file "$B/srv/from-ro/x"
	assert_match ' warnings=0$' "$OUT"
}

# All of them, each in a shell of its own; those that fail are named.
test_each()
{
	local name letter value shown f t bad='' done=' '
	hosts
	while IFS=$'\t' read -r name letter value shown; do
		N=$((N + 10))
		case $shown in
		*.*)
			# It is there, and has to do with the option.
			f=$VZ_TOP/tests/e2e/${shown%.*}.sh t=${shown#*.}
			sed -n "/^$t()/,/^}/p" "$f" |
				grep -qE -e "--$name|-$letter " ||
				bad+=" $name:$shown"
			continue
			;;
		*' '*) continue ;;
		esac
		[[ $done != *" $shown "* ]] || continue
		done+="$shown "
		echo "--- $shown"
		# Not in the condition: set -e would not count there.
		("$shown") &
		wait "$!" || bad+=" $shown"
	done < <(
		printf '%s\t-\t-\t%s\n' none without_effect none readonly_source
		rows does
	)
	assert_eq '' "$bad" "not as the table says"
	hosts_down
}
