# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The sources themselves: who includes whom, the form, and whether what is
# written about the program is true of it.
# run: no-asan

# shellcheck disable=SC2034,SC2016,SC2013,SC1003 # read by tests/run; patterns
TEST_TIMEOUT=60

# A function may be longer than 100 lines when it is named here, with the
# reason why it reads better whole. None does so far.
LONG_FUNCTIONS=''

# Rank, then its folders (ARCHITECTURE.md).
ranks()
{
	cat <<-END
	0 base
	1 fs
	1 wire
	1 ct
	1 report
	1 track
	2 ssh
	3 cipher
	3 xfer
	4 migrate
	5 cli
	5 agent
	END
}

# files NAME-PATTERN ... - of the program, the tests and the benchmarks.
files()
{
	local d args=() p
	for p; do
		args+=(-o -name "$p")
	done
	for d in vzmigrate tests bench; do
		[ ! -d "$VZ_TOP/$d" ] ||
			find "$VZ_TOP/$d" -type f \( "${args[@]:1}" \) \
				! -path '*/corpus/*'
	done
}

# includes - "FILE INCLUDED" of the program, both as folder/name.
includes()
{
	(cd "$VZ_TOP/vzmigrate" && grep -rHoE --include='*.[ch]' \
		'^#include "[a-z]+/[a-z_0-9]+\.h"' .) |
		sed 's,^\./,,; s,:#include ", ,; s,"$,,'
}

test_include_ranks()
{
	local bad
	[ "$(includes | wc -l)" -gt 500 ] || fail "includes are not found"
	bad=$(includes | awk '
		NR == FNR { rank[$2] = $1; next }
		{
			split($1, from, "/"); split($2, to, "/")
			if (!(from[1] in rank) || !(to[1] in rank))
				print $0, "(unknown folder)"
			else if (rank[to[1]] > rank[from[1]])
				print $0, "(upwards)"
		}' <(ranks) -)
	assert_eq '' "$bad" "includes against the ranks"
	# The table that people read says the same.
	bad=$(sed -n 's/^| \([0-9]\) | \(`.*`\) |.*/\1 \2/p' \
		"$VZ_TOP/ARCHITECTURE.md" | tr -d '`/,' |
		awk '{ for (i = 2; i <= NF; i++) print $1, $i }' |
		sort | comm -13 <(ranks | sort) -)
	assert_eq '' "$bad" "ranks in ARCHITECTURE.md"
	for bad in "$VZ_TOP"/vzmigrate/*/; do
		ranks | grep -q " $(basename "$bad")\$" ||
			fail "no rank for $bad"
	done
}

# acyclic WHAT - pairs on stdin are edges; names what is in a ring.
acyclic()
{
	local out
	out=$(sort -u | tsort 2>&1 >/dev/null) ||
		fail "$1 in a ring: ${out//$'\n'/ }"
}

test_no_ring_of_headers()
{
	includes | awk '$1 ~ /\.h$/' | acyclic headers
	includes | awk '{ split($1, a, "/"); split($2, b, "/")
		if (a[1] != b[1]) print a[1], b[1] }' | acyclic folders
}

# A header that needs another one before it would not be read alone.
test_headers_stand_alone()
{
	local h cc=${CC:-gcc} inc="$VZ_TOP/vzmigrate"
	command -v "$cc" >/dev/null || skip "no C compiler"
	while read -r h; do
		echo "#include \"${h#"$inc"/}\"" | "$cc" -std=gnu11 \
			-D_GNU_SOURCE -fsyntax-only -Wall -Werror -I"$inc" \
			-x c - || fail "$h does not compile alone"
	done < <(find "$inc" -name '*.h')
}

# FILE:LINES NAME of each function longer than $1 lines.
longer_than()
{
	files '*.c' | while read -r f; do
		awk -v max="$1" -v f="${f#"$VZ_TOP"/}" '
			/^[a-z_A-Z0-9]+\(/ { name = $0; sub(/\(.*/, "", name) }
			/^\{/ { from = NR }
			/^\}/ && from {
				if (NR - from + 1 > max)
					print f ":" NR - from + 1, name
				from = 0
			}' "$f"
	done
}

test_length_of_functions()
{
	local bad
	[ -n "$(longer_than 40)" ] || fail "functions are not found"
	bad=$(longer_than 100 | while read -r where name; do
		[[ " $LONG_FUNCTIONS " == *" $name "* ]] ||
			echo "$where $name"
	done)
	assert_eq '' "$bad" "functions of more than 100 lines"
}

test_first_lines()
{
	local f bad=''
	while read -r f; do
		head -n 3 "$f" | grep -q \
			'SPDX-License-Identifier: GPL-2.0-or-later' ||
			bad+=" ${f#"$VZ_TOP"/}"
	done < <(files '*.[ch]' '*.sh' run host-init replay-all '*-standin'
		printf '%s\n' "$VZ_TOP"/{Makefile.am,configure.ac} \
			"$VZ_TOP"/{quickstart,man/vzmigrate.8})
	assert_eq '' "$bad" "without their licence"
}

# found REGEX FILE ... - nothing of that kind stands there.
none_of()
{
	local what=$1 re=$2
	shift 2
	if (cd "$VZ_TOP" && grep -nE "$re" "$@") >"$TEST_TMP/found"; then
		fail "$what: $(head -n 5 "$TEST_TMP/found")"
	fi
}

test_what_does_not_belong_there()
{
	local sources
	mapfile -t sources < <(files '*.[ch]' '*.sh')
	[ ${#sources[@]} -gt 150 ] || fail "sources are not found"
	none_of "paths of somebody's machine" '/(wor[k]|hom[e]/[a-z]+/src)/' \
		"${sources[@]}" README.md ARCHITECTURE.md PROTOCOL.md \
		CONTRIBUTING.md Makefile.am configure.ac quickstart
	none_of "work left undone" '(TOD[O]|FIXM[E])' "${sources[@]}"
	mapfile -t sources < <(find "$VZ_TOP/vzmigrate" -name '*.[ch]')
	none_of "typedef of a struct" '^typedef (struct|union|enum)' \
		"${sources[@]}"
	none_of "code in comments" '^[[:space:]]*//' "${sources[@]}"
	mapfile -t sources < <(find "$VZ_TOP/vzmigrate" -name '*.[ch]' \
		! -name main.c)
	none_of "exit() where something may be owed" '(^|[^_a-z])exit\(' \
		"${sources[@]}"
}

# libssh is known in one folder, and not at all by the agent.
test_libssh_stays_where_it_belongs()
{
	local where
	where=$(cd "$VZ_TOP/vzmigrate" &&
		grep -rlE '#include <libssh/' . | cut -d/ -f2 | sort -u)
	assert_eq ssh "$where"
	assert_no_match 'libssh' <(ldd "$VZ_BUILDDIR/vzmigrate/vzmigrate-agent")
	assert_match 'libssh' <(ldd "$VZ_BUILDDIR/vzmigrate/vzmigrate")
}

# Each file is built or shipped.
test_nothing_is_forgotten()
{
	local f bad=''
	while read -r f; do
		f=${f#"$VZ_TOP"/}
		grep -qE "(^|[[:space:]])${f//./\\.}([[:space:]]|\$)" \
			"$VZ_TOP/Makefile.am" || bad+=" $f"
	done < <(files '*.[ch]' '*.sh' run host-init '*-standin' '*.txt' \
		'*.json' '*.want' '*.conf' | grep -v '/bench/.*\.json$')
	assert_eq '' "$bad" "not in Makefile.am"
}

# --- what is written --------------------------------------------------------

# The manual as it is read.
manual()
{
	command -v groff >/dev/null || skip "no groff"
	groff -t -man -Tutf8 -P-cbou -ww -rLL=80n -rLT=80n \
		"$VZ_TOP/man/vzmigrate.8" >"$TEST_TMP/man" 2>"$TEST_TMP/warned"
	# Words that were broken at the end of a line, in one again.
	sed -z 's/\xe2\x80\x90\n *//g; s/-\n */-/g' "$TEST_TMP/man" \
		>"$TEST_TMP/text"
}

test_manual_renders()
{
	manual
	assert_eq '' "$(cat "$TEST_TMP/warned")" "warnings of groff"
	assert_eq '' "$(grep -nE '.{81}' "$TEST_TMP/man" || :)" "wide lines"
}

test_manual_has_every_option()
{
	local o bad='' help=$TEST_TMP/help
	manual
	"$VZ_BUILDDIR/vzmigrate/vzmigrate" --help >"$help"
	for o in $(grep -oE '^ +(-[a-zA-Z], )?--[a-z-]+' "$help" |
		grep -oE -e '--[a-z-]+' | sort -u) \
		$(sed -n 's/^\t{ "\([a-z-]*\)", .*/--\1/p' \
			"$VZ_TOP/vzmigrate/cli/options_table.c"); do
		grep -qE -e "$o([^a-z-]|\$)" "$TEST_TMP/text" || bad+=" $o"
	done
	assert_eq '' "$bad" "options that the manual lacks"
	[ "$(grep -c -e ' --' "$help")" -gt 25 ] || fail "options not found"
}

test_manual_has_every_exit_code()
{
	local n bad=''
	manual
	for n in $("$VZ_BUILDDIR/vzmigrate/vzmigrate" --help |
		sed -n '/^Exit codes/,$s/^ *\([0-9]\{1,2\}\) .*/\1/p'); do
		grep -qE "^ {3,}$n( |\$)" "$TEST_TMP/man" || bad+=" $n"
	done
	assert_eq '' "$bad" "exit codes that the manual lacks"
	# And the environment that the sources read, but for the tests' own.
	for n in $(cd "$VZ_TOP/vzmigrate" && grep -rhoE 'VZMIGRATE_[A-Z_]+' \
		cli agent migrate report --include='*.c' | sort -u |
		grep -vE '_(FAULT|FAULT_TRACE|FENCE_MS|LIFE_MS|REPLY_MS)$'); do
		grep -q "$n" "$TEST_TMP/man" || bad+=" $n"
	done
	assert_eq '' "$bad" "environment that the manual lacks"
}

# What the README tells people to type.
test_readme()
{
	local w bad='' readme=$VZ_TOP/README.md
	for w in $(sed -n '/^    apt-get install/,/[^\\]$/p' "$readme" |
		sed 's/apt-get install//' | tr -d '\\'); do
		sed -n '/^BUILD_PKGS=/,/"$/p' "$VZ_TOP/quickstart" |
			grep -qE "(\"|[[:space:]])$w(\"|[[:space:]]|\$)" ||
			bad+=" $w"
	done
	assert_eq '' "$bad" "packages that quickstart does not install"
	for w in $(grep -oE '\./quickstart [a-z]+' "$readme" | cut -d' ' -f2); do
		"$VZ_TOP/quickstart" --help | grep -q "quickstart $w" ||
			fail "no ./quickstart $w"
	done
	# Every line that begins with vzmigrate is one that it understands:
	# what fails is the connection (--status makes none).
	grep -oE '^(\| `|    )vzmigrate [^`]*' "$readme" |
		sed 's/^| `//; s/^    //' | grep -v -e ' --status' \
		>"$TEST_TMP/lines"
	[ "$(wc -l <"$TEST_TMP/lines")" -ge 6 ] || fail "no examples"
	while read -r w; do
		w=${w/root@newhost/root@newhost.invalid}
		w="$VZ_BUILDDIR/vzmigrate/$w"
		(eval "VZMIGRATE_STATE_DIR=$TEST_TMP/s VZMIGRATE_LOG_DIR=$TEST_TMP/l
			$w" >/dev/null 2>"$TEST_TMP/err") && fail "it went: $w"
		assert_no_match 'option|usage|value' "$TEST_TMP/err"
	done <"$TEST_TMP/lines"
}
