# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What tests/run does in the process of one item: a unit program, or an
# end-to-end file with its hosts. RUN_TMP is the item's own directory; the
# results are in its file "results".

# shellcheck disable=SC2154 # builddir, asandir, unit_limit: options of run
# item_main NAME PATH
item_main()
{
	local dir=$builddir
	case $1 in
	asan/*)
		dir=$asandir
		# Reports go to files, so that none is lost with a far stderr.
		export ASAN_OPTIONS=detect_leaks=1:log_path=$RUN_TMP/san/asan
		export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:log_path=$RUN_TMP/san/ubsan
		export HOSTS_SSHD_ENV="ASAN_OPTIONS=$ASAN_OPTIONS UBSAN_OPTIONS=$UBSAN_OPTIONS"
		;;
	esac
	case $1 in
	unit/* | asan/unit/*) run_program "$1" "$2" "$dir" ;;
	*) file_main "$1" "$2" "$dir" ;;
	esac
}

# sanitizer_reports FILE - 0 when there are any; moves them to the end of FILE.
sanitizer_reports()
{
	local f any=1
	for f in "$RUN_TMP"/san/*; do
		[ -e "$f" ] || continue
		cat "$f" >>"$1"
		rm -f "$f"
		any=0
	done
	return $any
}

# --- unit programs ----------------------------------------------------------

# unit_result KIND NAME ... - as result, for names that the filter wants.
unit_result()
{
	matches "$2" && result "$@"
}

# run_program NAME PATH DIR - one result for each test that it reports in TAP,
# or one in all where it does not speak TAP.
run_program()
{
	local name=$1 prog=$3/$2 dir=$3 out=$RUN_TMP/out rc=0 t plan n=0 bad=0
	local line re='^(not )?ok ([0-9]+) (-|# SKIP) (.*)$'
	t=${EPOCHREALTIME/[.,]/}
	# Scripts lie in the source tree; the rest is as in Makefile.am.
	[ -e "$prog" ] || prog=$VZ_TOP/$2
	(cd "$dir" && CMOCKA_MESSAGE_OUTPUT=TAP srcdir=$VZ_TOP builddir=. \
		exec setpriv --pdeathsig TERM timeout -k 5 "$unit_limit" \
		"$prog" </dev/null) >"$out" 2>&1 || rc=$?
	t=$(since "$t")
	while IFS= read -r line; do
		[[ $line =~ $re ]] || continue
		# Number 0 is the set-up of a group, which has no plan.
		[ "${BASH_REMATCH[2]}" = 0 ] || n=$((n + 1))
		line=$name.${BASH_REMATCH[4]}
		# cmocka 1.1.5 calls a skipped test "not ok".
		if [ "${BASH_REMATCH[3]}" = "# SKIP" ]; then
			unit_result skip "$line" "$(why "$line" "$out")"
		elif [ -n "${BASH_REMATCH[1]}" ]; then
			bad=1
			unit_result FAIL "$line" "" "$out"
		else
			unit_result ok "$line" "$t"
		fi
	done < <(tr -d '\0' <"$out")
	plan=$(awk '/^1\.\.[0-9]+$/ { n += substr($0, 4) }
		END { print n + 0 }' "$out")
	if sanitizer_reports "$out"; then
		result FAIL "$name" "sanitizer report" "$out"
	elif [ $rc = 124 ]; then
		result FAIL "$name" "not done in $unit_limit s" "$out"
	elif [ "$plan" -gt $n ] && { [ $bad = 0 ] || [ $rc -ge 128 ]; }; then
		result FAIL "$name" "$n of $plan tests ran, exit status $rc" \
			"$out"
	elif [ $rc = 77 ] && [ $n = 0 ]; then
		unit_result skip "$name" "$(tail -n 1 "$out")"
	elif [ $rc != 0 ] && [ $bad = 0 ]; then
		result FAIL "$name" "exit status $rc" "$out"
	elif [ $n = 0 ]; then
		unit_result ok "$name" "$t"
	fi
}

# why NAME FILE - a unit test tells why it skips in a line "SKIP NAME: reason"
# before it calls skip().
why()
{
	local w
	w=$(tr -d '\0' <"$2" | sed -n "s/^.*SKIP ${1##*.}: //p" | head -n 1)
	echo "${w:-it gives no reason}"
}

# --- end-to-end files -------------------------------------------------------

# limit SECONDS PID - waits for PID, the leader of a process group, at most so
# long; 124 when it was too long.
limit()
{
	local rc
	rm -f "$RUN_TMP/late"
	set -m
	(
		set +m
		trap - EXIT INT TERM HUP
		sleep "$1"
		: >"$RUN_TMP/late"
		end_group "$2"
	) </dev/null >/dev/null 2>&1 &
	dog=$!
	set +m
	wait "$2"
	rc=$?
	if [ -e "$RUN_TMP/late" ]; then
		wait "$dog"
		dog=
		return 124
	fi
	kill -KILL -- "-$dog" 2>/dev/null
	wait "$dog" 2>/dev/null
	dog=
	return $rc
}

on_err()
{
	echo "${BASH_SOURCE[1]##*/}:${BASH_LINENO[0]}: failed: $1" >&2
}

strict()
{
	set -eE -u -o pipefail
	trap 'on_err "$BASH_COMMAND"' ERR
}

# one_test NAME - runs it in the shell of the file, which has the hosts.
one_test()
{
	local t=$1 out=$RUN_TMP/out start rc name=$file.$1
	TEST_TMP=$(mktemp -d "${BED_TMP:-$RUN_TMP}/t.XXXXXX")
	chmod 755 "$TEST_TMP"
	TEST_SKIP=$RUN_TMP/skip
	rm -f "$TEST_SKIP"
	start=${EPOCHREALTIME/[.,]/}
	set -m
	(
		set +m
		trap - EXIT INT TERM HUP
		unset HOSTS_NO_TRAPS
		strict
		"$t"
	) </dev/null >"$out" 2>&1 &
	test_pid=$!
	set +m
	limit "${TEST_TIMEOUT:-60}" "$test_pid"
	rc=$?
	# What it left running in the background ends here.
	kill -KILL -- "-$test_pid" 2>/dev/null
	test_pid=
	start=$(since "$start")
	if sanitizer_reports "$out"; then
		result FAIL "$name" "sanitizer report" "$out"
	elif [ $rc = 0 ]; then
		result ok "$name" "$start" "$out"
	elif [ $rc = 77 ] && [ -s "$TEST_SKIP" ]; then
		result skip "$name" "$(<"$TEST_SKIP")"
	elif [ $rc = 124 ]; then
		result FAIL "$name" "not done in ${TEST_TIMEOUT:-60} s" "$out"
	else
		result FAIL "$name" "exit status $rc, $start s" "$out"
	fi
	rm -rf --one-file-system "$TEST_TMP"
	[ $rc != 124 ] || fresh_hosts
}

# After a test that hung nobody knows in which state the hosts are.
fresh_hosts()
{
	[ -n "$BED" ] || return 0
	declare -F teardown_file >/dev/null && (teardown_file) >/dev/null 2>&1
	hosts_down
	set_up
}

set_up()
{
	declare -F setup_file >/dev/null || return 0
	phase=setup
	TEST_TMP=$RUN_TMP TEST_SKIP=$RUN_TMP/skip
	rm -f "$TEST_SKIP"
	strict
	# A failure in here ends this shell: file_end reports it.
	setup_file >"$RUN_TMP/setup.out" 2>&1
	trap - ERR
	set +eE
	set +o pipefail
	phase=tests
	trap file_end EXIT
}

# file_end - the EXIT trap of a file's shell.
file_end()
{
	local rc=$? t
	trap '' INT TERM HUP
	set +eEu
	trap - ERR
	# The shell may have ended inside a redirection.
	exec 1>&"$out_fd"
	exec 2>&"$err_fd"
	[ -n "$dog" ] && kill -KILL -- "-$dog" 2>/dev/null
	[ -n "$test_pid" ] && end_group "$test_pid"
	if [ "$phase" = setup ]; then
		for t in "${tests[@]:$count}"; do
			if [ -s "$TEST_SKIP" ]; then
				result skip "$file.$t" "$(<"$TEST_SKIP")"
			else
				result FAIL "$file.$t" "set-up failed ($rc)" \
					"$RUN_TMP/setup.out"
			fi
		done
	elif declare -F teardown_file >/dev/null; then
		(teardown_file) >"$RUN_TMP/out" 2>&1 ||
			result FAIL "$file.teardown_file" "" "$RUN_TMP/out"
	fi
	HOSTS_NO_TRAPS=1
	if ! hosts_down >"$RUN_TMP/out" 2>&1; then
		result FAIL "$file.hosts_down" "" "$RUN_TMP/out"
	fi
	exit "$rc"
}

# file_main NAME PATH DIR - all tests of one file; this shell owns its hosts.
file_main()
{
	file=$1 count=0 phase=load BED='' test_pid='' dog=''
	exec {out_fd}>&1 {err_fd}>&2
	mapfile -t tests < <(wanted "$1" "$2")
	export VZ_BUILDDIR=$3 HOSTS_SHARED=$RUN_TMP
	HOSTS_NO_TRAPS=1
	# shellcheck source=SCRIPTDIR/e2e/hosts.sh
	. "$VZ_TOP/tests/e2e/hosts.sh"
	# shellcheck source=SCRIPTDIR/e2e/lib.sh
	. "$VZ_TOP/tests/e2e/lib.sh"
	trap file_end EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	phase=setup TEST_SKIP=$RUN_TMP/skip
	: >"$RUN_TMP/setup.out"
	# shellcheck disable=SC1090
	. "$2" || exit 1
	phase=tests
	set_up
	for t in "${tests[@]}"; do
		count=$((count + 1))
		one_test "$t"
	done
}
