# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The pump under ThreadSanitizer, which does not go together with the other
# sanitizers: a build of its own, the unit tests that run threads, and whole
# copies between two hosts. With --full only: the build alone takes minutes.

# run: no-asan
# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=2400

# build DIR
build()
{
	echo 'int main(void) { return 0; }' >"$TEST_TMP/t.c"
	if ! gcc -fsanitize=thread -o "$TEST_TMP/t" "$TEST_TMP/t.c" 2>/dev/null ||
		! "$TEST_TMP/t"; then
		skip "no ThreadSanitizer"
	fi
	mkdir "$1"
	cd "$1" || fail "no $1"
	"$VZ_TOP/configure" CFLAGS='-g -O1 -fsanitize=thread -fno-omit-frame-pointer' \
		>log 2>&1 || fail "$(tail -n 5 log)"
	make -j "$(nproc)" >log 2>&1 || fail "$(tail -n 20 log)"
	make check TESTS= >log 2>&1 || fail "$(tail -n 20 log)"
}

# no_reports DIR
no_reports()
{
	local f
	for f in "$1"/*; do
		[ ! -e "$f" ] || fail "$(head -n 60 "$f")"
	done
}

full_no_races()
{
	local dir=$TEST_TMP/build san=$TEST_TMP/san t
	build "$dir"
	mkdir -m 1777 "$san"
	export TSAN_OPTIONS=halt_on_error=0:exitcode=66:log_path=$san/tsan
	for t in streams passes xfer send recv ship limit tuner progress; do
		builddir=$dir "tests/unit/test_$t" >"$TEST_TMP/log" 2>&1 ||
			fail "$t: $(grep -A 30 -m 1 -e FAILED -e ERROR \
				"$TEST_TMP/log")"
		no_reports "$san"
	done
	# Copies, broken and interrupted ones too, by the runner itself.
	env -u E2E_PREFIX HOSTS_SSHD_ENV="TSAN_OPTIONS=$TSAN_OPTIONS" \
		"$VZ_TOP/tests/run" --builddir "$dir" --filter \
		'^e2e/(t_streams.test_(three|stream|all_agents|inter)|t_running.test_running_container|t_compress.test_inter)' \
		>"$TEST_TMP/log" 2>&1 || fail "$(tail -n 60 "$TEST_TMP/log")"
	no_reports "$san"
}
