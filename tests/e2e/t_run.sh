# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The test runner itself: a test that it calls passed has passed.
# run: no-asan
# shellcheck disable=SC2016 # what other shells expand

# file NAME - an end-to-end file of that tree; its text is stdin.
file()
{
	local top=$TEST_TMP/top
	mkdir -p "$top/tests/e2e" "$top/build/tests/unit"
	cp "$VZ_TOP"/tests/{run,item.sh} "$top/tests/"
	cp "$VZ_TOP"/tests/e2e/{hosts.sh,hosts-use.sh,lib.sh,host-init} \
		"$top/tests/e2e/"
	[ -e "$top/tests/times" ] || : >"$top/tests/times"
	[ -e "$top/build/Makefile" ] || units
	cat >"$top/tests/e2e/$1.sh"
}

# again WANT-EXIT ARGS ... - the runner over the files that are there.
again()
{
	local want=$1
	shift
	assert_exit "$want" env -u RUN_TMP "$TEST_TMP/top/tests/run" "$@"
}

# runner WANT-EXIT ARGS ... - a runner of its own over the files in
# $TEST_TMP/top; stdin holds t_x.sh.
runner()
{
	file t_x
	again "$@"
}

# units NAME ... - unit programs of the build; each a script on stdin lines.
units()
{
	local u=("${@/#/tests/unit/}")
	mkdir -p "$TEST_TMP/top/build/tests/unit"
	printf 'TESTS = %s\ncheck:\n' "${u[*]}" >"$TEST_TMP/top/build/Makefile"
}

last_line()
{
	assert_eq "$1" "$(tail -n 1 "$OUT")"
}

test_counts()
{
	runner 1 <<-'END'
	test_good() { true; }
	test_bad() { false; true; }
	test_unset() { echo "$no_such_variable"; }
	test_pipe() { false | true; }
	test_says() { fail "for a reason"; }
	test_sub() { x=$(skip "no such thing"); echo "$x"; }
	test_skips() { skip "no such kernel"; }
	test_77() { exit 77; }
	full_long() { true; }
	END
	last_line '1 passed, 5 failed, 2 skipped'
	assert_match '^ok e2e/t_x.test_good \(' "$OUT"
	assert_match '^FAIL e2e/t_x.test_bad: exit status 1' "$OUT"
	assert_match 't_x.sh:2: failed: false' "$OUT"
	assert_match '^    t_x.sh:5: for a reason' "$OUT"
	assert_match '^skip e2e/t_x.test_sub: no such thing' "$OUT"
	assert_match '^skip e2e/t_x.test_skips: no such kernel$' "$OUT"
	assert_match '^FAIL e2e/t_x.test_77: exit status 77' "$OUT"
	assert_no_match full_long "$OUT"
}

test_full_and_filter()
{
	runner 0 --full --filter 'long$' <<-'END'
	test_bad() { false; }
	full_long() { true; }
	END
	last_line '1 passed, 0 failed, 0 skipped'
	again 1 --filter nothing
	last_line '0 passed, 0 failed, 0 skipped'
}

# What ignores SIGTERM or left the group is ended, too, and told.
test_time_out()
{
	runner 1 <<-'END'
	TEST_TIMEOUT=4
	test_hangs() { trap '' TERM; echo before; while :; do read -r _ <> <(:) || :; done; }
	test_after() { true; }
	test_daemon() {
		setsid sleep 1000 &
		# Until it has left the group, which ends with the test: what
		# comes first of its words is setsid until then.
		until read -rd '' c </proc/$!/cmdline && [ "$c" = sleep ]; do :; done
	}
	END
	assert_match '^FAIL e2e/t_x.test_hangs: not done in 4 s' "$OUT"
	assert_match '^    before' "$OUT"
	assert_match '^ok e2e/t_x.test_after' "$OUT"
	assert_match '^FAIL e2e/t_x.processes_left' "$OUT"
	assert_match 'sleep 1000' "$OUT"
	last_line '2 passed, 2 failed, 0 skipped'
}

test_set_up_fails()
{
	runner 1 <<-'END'
	setup_file() { echo in set-up; false; }
	test_1() { true; }
	test_2() { true; }
	END
	assert_match '^FAIL e2e/t_x.test_1: set-up failed' "$OUT"
	assert_match '^    in set-up' "$OUT"
	last_line '0 passed, 2 failed, 0 skipped'
}

test_set_up_skips()
{
	runner 0 <<-'END'
	setup_file() { skip "not here"; }
	test_1() { true; }
	END
	assert_match '^skip e2e/t_x.test_1: not here' "$OUT"
	last_line '0 passed, 0 failed, 1 skipped'
}

test_file_that_does_not_parse()
{
	runner 1 <<-'END'
	test_1() { true; }
	test_2() { if; }
	END
	assert_no_match '^ok' "$OUT"
	last_line '0 passed, 2 failed, 0 skipped'
}

# A file that is killed in the middle has not passed.
test_file_that_dies()
{
	runner 1 <<-'END'
	test_1() { true; }
	test_2() { kill -KILL $$; }
	test_3() { true; }
	END
	assert_match '^ok e2e/t_x.test_1 ' "$OUT"
	assert_match '^FAIL e2e/t_x.test_2: it did not run: .* 137' "$OUT"
	assert_match '^FAIL e2e/t_x.test_3: it did not run' "$OUT"
	last_line '1 passed, 2 failed, 0 skipped'
}

# program NAME - a unit program; its text is stdin.
program()
{
	mkdir -p "$TEST_TMP/top/build/tests/unit"
	{ echo '#!/bin/sh'; cat; } >"$TEST_TMP/top/build/tests/unit/$1"
	chmod 755 "$TEST_TMP/top/build/tests/unit/$1"
}

test_unit_programs()
{
	program test_tap <<-'END'
	echo 1..3
	echo 'ok 1 - first'
	echo 'SKIP third: no such device'
	echo 'not ok 2 - second'
	echo 'not ok 3 # SKIP third'
	exit 1
	END
	program test_dies <<-'END'
	printf '1..2\nok 1 - first\n'
	kill -ABRT $$
	END
	program test_few <<-'END'
	printf '1..2\nok 1 - first\n'
	END
	program test_exit <<-'END'
	printf '1..1\nok 1 - first\n'
	exit 3
	END
	program test_plain </dev/null
	units test_tap test_dies test_few test_exit test_plain test_missing
	runner 1 </dev/null
	assert_match '^ok unit/test_tap.first ' "$OUT"
	assert_match '^FAIL unit/test_tap.second' "$OUT"
	assert_match '^skip unit/test_tap.third: no such device$' "$OUT"
	assert_match '^FAIL unit/test_dies: 1 of 2 tests ran, exit status 134' \
		"$OUT"
	assert_match '^FAIL unit/test_few: 1 of 2 tests ran' "$OUT"
	assert_match '^FAIL unit/test_exit: exit status 3' "$OUT"
	assert_match '^ok unit/test_plain ' "$OUT"
	assert_match '^FAIL unit/test_missing: exit status 127' "$OUT"
	last_line '5 passed, 5 failed, 1 skipped'
}

# A report of a sanitizer is a failure, whatever the test thought.
test_sanitizer_report()
{
	runner 1 <<-'END'
	test_1() { echo "runtime error: so" >"$RUN_TMP/san/ubsan.1"; }
	test_2() { true; }
	END
	assert_match '^FAIL e2e/t_x.test_1: sanitizer report' "$OUT"
	assert_match 'runtime error: so' "$OUT"
	last_line '1 passed, 1 failed, 0 skipped'
}

test_not_built()
{
	runner 0 <<<'test_1() { true; }'
	rm "$TEST_TMP/top/build/Makefile"
	again 2
	assert_match 'is not built' "$ERR"
}

# Whoever starts it in the background of a script has SIGINT ignored.
test_signals_are_as_usual()
{
	runner 0 <<-'END'
	test_1() { bash -c 'kill -INT $$; sleep 0; exit 0' || exit 0; exit 1; }
	END
	(
		trap '' INT HUP
		exec env -u RUN_TMP -u VZ_RUN_SIGNALS "$TEST_TMP/top/tests/run"
	) >"$TEST_TMP/out" 2>&1 || fail "$(cat "$TEST_TMP/out")"
	assert_eq '1 passed, 0 failed, 0 skipped' "$(tail -n 1 "$TEST_TMP/out")"
}

# --- several at once --------------------------------------------------------

# waiting FILE OTHER - a test that ends when that file's has begun.
waiting()
{
	cat <<-END
	test_1() {
		: >"$TEST_TMP/$1"
		wait_until 20 test -e "$TEST_TMP/$2"
	}
	END
}

# Each is counted once, and what is told of a file stays together.
test_two_files_at_once()
{
	{ waiting x y; echo 'test_2() { sleep 0.5; }'; } | file t_x
	{ waiting y x; echo 'test_2() { sleep 0.5; false; }'; } | file t_y
	again 1 --jobs 2
	last_line '3 passed, 1 failed, 0 skipped'
	assert_eq 2 "$(sed -n 's,^[okFAIL]* e2e/\(t_.\)\..*,\1,p' "$OUT" |
		uniq | wc -l)" "files in one piece: $(cat "$OUT")"
	again 2 --jobs 0
}

test_longest_first()
{
	file t_x <<<'test_1() { true; }'
	file t_y <<<'test_1() { true; }'
	file t_new <<<'test_1() { true; }'
	program test_u </dev/null
	units test_u
	printf '%s\n' '# SECONDS NAME' '0 e2e/t_x' '900 e2e/t_y' \
		'5 e2e/t_gone' >"$TEST_TMP/top/tests/times"
	again 0 --jobs 1
	# What nobody knows may take long; a unit program does not.
	assert_eq 'e2e/t_y e2e/t_new unit/test_u e2e/t_x' \
		"$(sed -n 's/^ok \([^ .]*\).*/\1/p' "$OUT" | xargs)"
}

# What is there no more would not be missed.
test_times_are_of_what_exists()
{
	local name bad=''
	while read -r _ name; do
		case ${name#asan/} in
		e2e/*) [ -e "$VZ_TOP/tests/${name#asan/}.sh" ] ;;
		*) grep -qE "/${name##*/}( |\$)" "$VZ_TOP/Makefile.am" ;;
		esac || bad+=" $name"
	done < <(grep -v '^#' "$VZ_TOP/tests/times")
	assert_eq '' "$bad" "in tests/times, but not there"
}

# The processes of one item are not those of another.
test_strays_are_told_apart()
{
	file t_x <<-END
	test_1() {
		setsid sleep 1000 &
		# As in test_time_out.
		until read -rd '' c </proc/\$!/cmdline && [ "\$c" = sleep ]; do :; done
		echo \$! >"$TEST_TMP/x"
	}
	END
	file t_y <<-END
	test_1() {
		sleep 900 &
		wait_until 20 test -s "$TEST_TMP/x"
		wait_until 20 eval '! kill -0 \$(<"$TEST_TMP/x") 2>/dev/null'
		kill \$!
	}
	END
	again 1 --jobs 2
	assert_match '^FAIL e2e/t_x.processes_left' "$OUT"
	assert_match '^ok e2e/t_y.test_1' "$OUT"
	last_line '2 passed, 1 failed, 0 skipped'
}

# Whoever dies, and when: the others run, and nobody counts it as passed.
test_items_that_die()
{
	file t_x <<-'END'
	teardown_file() { kill -KILL $$; }
	test_1() { true; }
	END
	{ waiting y y; } | file t_y
	# The shell of the item is the parent of what limits its time.
	program test_kills <<-'END'
	kill -KILL "$(ps -o ppid= -p $PPID | tr -d ' ')"
	sleep 1000
	END
	program test_plain </dev/null
	units test_kills test_plain
	again 1
	assert_match '^ok e2e/t_x.test_1 ' "$OUT"
	assert_match '^FAIL e2e/t_x.end: it ended with 137' "$OUT"
	assert_match '^ok e2e/t_y.test_1 ' "$OUT"
	assert_match '^FAIL unit/test_kills.end: it ended with 137' "$OUT"
	assert_match '^ok unit/test_plain ' "$OUT"
	assert_match '^failed: unit/test_kills.end' "$OUT"
	assert_no_match '^ok unit/test_kills' "$OUT"
	nothing_runs
}

test_second_try()
{
	file t_x <<-END
	test_once() { [ -e "$TEST_TMP/two" ] || { : >"$TEST_TMP/two"; false; }; }
	test_2() { true; }
	END
	VZ_SECOND_TRY=1 again 0
	assert_match '^FAIL e2e/t_x.test_once' "$OUT"
	assert_match '^passed at the second try: e2e/t_x.test_once$' "$OUT"
	last_line '2 passed, 0 failed, 0 skipped'
	rm "$TEST_TMP/two"
	again 1
	last_line '1 passed, 1 failed, 0 skipped'
	echo 'test_3() { false; }' >>"$TEST_TMP/top/tests/e2e/t_x.sh"
	VZ_SECOND_TRY=1 again 1
	assert_match '^failed: e2e/t_x.test_3$' "$OUT"
	last_line '2 passed, 1 failed, 0 skipped'
}

nothing_runs()
{
	[ -z "$(pgrep -f "$TEST_TMP/top/")" ] ||
		fail "still running: $(pgrep -af "$TEST_TMP/top/")"
}

# interrupted SIGNAL - with two files in the middle of a test.
interrupted()
{
	local f
	rm -f "$TEST_TMP"/[xy]
	for f in x y; do
		file t_$f <<<"test_1() { : >'$TEST_TMP/$f'; sleep 1000; }"
	done
	# Whoever is killed leaves its directory behind: here it goes with ours.
	TMPDIR=$TEST_TMP env -u RUN_TMP "$TEST_TMP/top/tests/run" --jobs 2 \
		>"$TEST_TMP/out" 2>&1 &
	wait_until 20 test -e "$TEST_TMP/x"
	wait_until 20 test -e "$TEST_TMP/y"
	kill -"$1" $!
}

test_interrupted()
{
	local rc=0
	interrupted TERM
	wait $! || rc=$?
	assert_eq 143 $rc
	assert_no_match '^ok' "$TEST_TMP/out"
	cat "$TEST_TMP/out"
	assert_eq '0 passed, 0 failed, 0 skipped' "$(tail -n 1 "$TEST_TMP/out")"
	nothing_runs
}

# Nobody is left to end the files: they do so themselves.
test_killed()
{
	interrupted KILL
	wait $! || :
	wait_until 20 eval '[ -z "$(pgrep -f "$TEST_TMP/top/")" ]'
}
