# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the end-to-end tests share; sourced by tests/item.sh before each t_*.sh,
# together with hosts.sh.
#
# A file tests/e2e/t_NAME.sh defines functions test_* (and full_*, which run
# with --full only). Each runs in a subshell of its own under `set -eu -o
# pipefail`, stdin from /dev/null, with a time limit (TEST_TIMEOUT=SECONDS at
# the top of the file changes it). setup_file and teardown_file, when defined,
# run once around them; hosts brought up in setup_file serve all tests of the
# file. Names of hosts and so on set in setup_file are seen by the tests.
#
#   fail MESSAGE ...        ends the test
#   skip REASON             ends the test as skipped; in setup_file, all of them
#   assert_eq WANT GOT [WHAT]
#   assert_exit CODE CMD ...
#                           runs CMD and wants this exit code; its output is
#                           in the files $OUT and $ERR then
#   assert_match REGEX FILE, assert_no_match REGEX FILE
#                           extended regular expression, on any line
#   assert_file FILE, assert_no_file FILE
#   wait_until SECONDS CMD ...
#                           polls CMD until it succeeds; fails when too late
#   no_leftovers BED        fails if anything of that set of hosts is left, and
#                           does not go within 30 s
#
# A file is run with the ordinary build and again with the one with sanitizers,
# which has the fault hooks, too; a line of its own changes that:
# "# run: no-asan" the ordinary build alone; "# run: asan-only" the other alone;
# "# run: asan-full" the second time with --full only.
#
# Other files run at the same time: a test touches nothing of this machine that
# another may use or copy, and its deadlines allow for a busy machine.
#
# TEST_TMP is a directory of the test's own, seen on the hosts under the same
# name, removed afterwards.

_where()
{
	local i=1
	# The first caller that is not one of these helpers.
	while [ "${BASH_SOURCE[$i]:-}" = "${BASH_SOURCE[0]}" ]; do
		i=$((i + 1))
	done
	printf '%s:%s: ' "${BASH_SOURCE[$i]##*/}" "${BASH_LINENO[$((i - 1))]}"
}

fail()
{
	echo "$(_where)$*" >&2
	exit 1
}

skip()
{
	echo "$*" >"$TEST_SKIP"
	exit 77
}

assert_eq()
{
	[ "$1" = "$2" ] || fail "${3:+$3: }want '$1', got '$2'"
}

assert_exit()
{
	local want=$1 got=0
	shift
	OUT=$TEST_TMP/stdout ERR=$TEST_TMP/stderr
	"$@" >"$OUT" 2>"$ERR" || got=$?
	[ "$got" = "$want" ] && return
	{
		echo "--- stdout"
		tail -n 40 "$OUT"
		echo "--- stderr"
		tail -n 40 "$ERR"
		echo "---"
	} >&2
	fail "exit code: want $want, got $got: $*"
}

assert_match()
{
	grep -qaE -e "$1" "$2" && return
	tail -n 40 "$2" >&2
	fail "no line of $2 matches: $1"
}

assert_no_match()
{
	grep -aE -e "$1" "$2" >&2 || return 0
	fail "a line of $2 matches: $1"
}

assert_file()
{
	[ -e "$1" ] || [ -L "$1" ] || fail "missing: $1"
}

assert_no_file()
{
	if [ -e "$1" ] || [ -L "$1" ]; then
		fail "should not exist: $1"
	fi
}

wait_until()
{
	local limit=$1 end=$((SECONDS + $1 + 1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || fail "not within $limit s: $*"
		sleep 0.05
	done
}

# leftovers BED - prints what is left of it.
leftovers()
{
	local bed=$1
	if [ -e "$bed" ]; then
		echo "directory $bed"
	fi
	grep -F "$bed/" /proc/self/mountinfo || :
	losetup -n -O NAME,BACK-FILE | grep -F "$bed/" || :
	find /sys/fs/cgroup -name "${bed##*/}" 2>/dev/null || :
	# Not the process that looks.
	grep -lzx "[/]${bed#/}" /proc/[0-9]*/cmdline 2>/dev/null |
		sed 's,^/proc/\([0-9]*\)/.*,process \1,' || :
}

no_leftovers()
{
	local left i
	# Other mount namespaces of this machine may hold copies of mounts.
	for ((i = 0; i < 300; i++)); do
		left=$(leftovers "$1")
		[ -n "$left" ] || return 0
		sleep 0.1
	done
	fail "left over: $left"
}
