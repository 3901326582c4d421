# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The pump under ThreadSanitizer, which does not go together with the other
# sanitizers: a build of its own, of the unit tests that run it.

# run: no-asan
# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=900

full_no_races()
{
	local dir=$TEST_TMP/build t
	echo 'int main(void) { return 0; }' >"$TEST_TMP/t.c"
	gcc -fsanitize=thread -o "$TEST_TMP/t" "$TEST_TMP/t.c" 2>/dev/null &&
		"$TEST_TMP/t" || skip "no ThreadSanitizer"
	mkdir "$dir"
	cd "$dir" || fail "no $dir"
	"$VZ_TOP/configure" CFLAGS='-g -O1 -fsanitize=thread -fno-omit-frame-pointer' \
		>log 2>&1 || fail "$(tail -n 5 log)"
	for t in test_streams test_xfer; do
		make "tests/unit/$t" >log 2>&1 || fail "$(tail -n 20 log)"
		TSAN_OPTIONS='halt_on_error=0 exitcode=66' "tests/unit/$t" \
			>log 2>&1 || fail "$t: $(grep -A 30 -m 1 -e WARNING \
				-e FAILED log || tail -n 20 log)"
	done
}
