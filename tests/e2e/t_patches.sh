# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# patches/: each applies in both ways to lines written for the test, and what
# it leaves does what it says. With VZCTL_SRC=DIR they are applied to a copy of
# a real tree as well (`make check-patches`).
# run: no-asan

# shellcheck disable=SC2034,SC2164,SC2016 # read by tests/run, which sets -e
TEST_TIMEOUT=120
P=$VZ_TOP/patches
DATA=$VZ_TOP/tests/data/patches

# apply WAY PATCH - to the tree in the current directory.
apply()
{
	case $1 in
	patch) patch -s -f -F0 --no-backup-if-mismatch -p1 <"$2" ;;
	git) git apply --unidiff-zero "$2" ;;
	esac
}

# The patches of a directory, in their order.
series()
{
	grep -vE '^(#|$)' "$P/$1/series" | sed "s,^,$P/$1/,"
}

# patched TARGET [WAY] - a copy of its fixture, all patches applied; the
# current directory from then on.
patched()
{
	local p
	mkdir -p "$TEST_TMP/$1-${2:-patch}"
	cd "$TEST_TMP/$1-${2:-patch}"
	cp -R "$DATA/$1/." .
	while read -r p; do
		apply "${2:-patch}" "$p" || fail "$p does not apply"
	done < <(series "$1")
}

need_tools()
{
	command -v patch >/dev/null || skip "no patch"
	command -v git >/dev/null || skip "no git"
	# A repository around the directory would be taken for the tree.
	export GIT_CEILING_DIRECTORIES=$TEST_TMP
}

test_form()
{
	local d p n=0
	for d in "$P"/*/; do
		d=$(basename "$d")
		assert_file "$DATA/$d"
		assert_eq "$(cd "$P/$d" && ls -- *.patch)" \
			"$(series "$d" | sed 's,.*/,,' | sort)" "$d/series"
		for p in "$P/$d"/*.patch; do
			n=$((n + 1))
			# DEP-3, then the diff.
			awk -v p="$p" '
				/^--- / { exit }
				/^$/ { next }
				!/^( |[A-Z][A-Za-z-]*: .)/ { print p, $0 }' \
				"$p" >"$TEST_TMP/bad"
			assert_eq '' "$(cat "$TEST_TMP/bad")" "header"
			for f in Description Author Origin Forwarded \
				Last-Update; do
				assert_match "^$f: ." "$p"
			done
			# Changed lines only, and none that merely adds.
			awk -v p="$p" '
				/^@@ / { if (in_hunk && !old) print p, at
					in_hunk = 1; old = 0; at = $0; next }
				!in_hunk { next }
				/^-/ { old = 1; next }
				!/^\+/ { print p, "context:", $0 }
				END { if (!in_hunk || !old) print p, at }' \
				"$p" >"$TEST_TMP/bad"
			assert_eq '' "$(cat "$TEST_TMP/bad")" "hunks"
			assert_match "\`$(basename "$p")\`" "$P/README.md"
		done
		assert_match "\`$d/\`" "$P/README.md"
	done
	assert_eq 7 "$n" "number of patches"
}

test_apply_both_ways()
{
	local d p
	need_tools
	for d in "$P"/*/; do
		d=$(basename "$d")
		(patched "$d" patch)
		(patched "$d" git)
		diff -r "$TEST_TMP/$d-patch" "$TEST_TMP/$d-git" >&2 ||
			fail "$d: the two ways differ"
		assert_no_match 'blowfish|arcfour|aes256' \
			"$(find "$TEST_TMP/$d-patch/bin" -type f)"
		# And off again.
		cd "$TEST_TMP/$d-patch"
		while read -r p; do
			patch -s -f -F0 --no-backup-if-mismatch -R -p1 <"$p"
		done < <(series "$d" | tac)
		diff -r "$DATA/$d" . >&2 || fail "$d: not as it was"
	done
}

# given SHELL WORD ... - what the patched tool makes of its command line, in
# one line.
given()
{
	local shell=$1
	shift
	tr '\n' ' ' < <("$shell" bin/vzmigrate.in "$@" 2>"$TEST_TMP/err" ||
		echo "exit:$?") | sed 's/ $//'
}

# cipher_probe SCRIPT - the program that the tool asks.
cipher_probe()
{
	mkdir -p "$TEST_TMP/bin"
	printf '#!/bin/sh\n%s\n' "$1" >"$TEST_TMP/bin/vzmigrate-cipher-probe"
	chmod 755 "$TEST_TMP/bin/vzmigrate-cipher-probe"
}

# test of the shell tool's lines: base is what stands in SSH_OPTIONS anyway.
shell_lines()
{
	local s=$1 base=$2 scp
	scp=${base//ssh:/scp:}
	rm -rf "${TEST_TMP:?}/bin"
	assert_eq "$base${scp}word:h word:101" "$(given "$s" h 101)"
	assert_eq "$base${scp}word:h word:101" \
		"$(given "$s" -r no --keep-dst h 101)"
	# Given: to ssh and scp.
	set -- "ssh:-c ssh:a,b@c.d " "scp:-c scp:a,b@c.d "
	assert_eq "$base$1$scp$2word:h word:101" \
		"$(given "$s" --ssh-cipher=a,b@c.d h 101)"
	assert_eq "$base$1$scp$2word:h word:101" \
		"$(given "$s" -r no --ssh-cipher a,b@c.d -v h 101)"
	# The user's own is behind.
	assert_eq "${base}ssh:-c ssh:x ssh:-c ssh:y ${scp}scp:-c scp:x word:h word:1" \
		"$(given "$s" --ssh-cipher=x '--ssh=-c y' h 1)"
	assert_eq exit:1 "$(given "$s" '--ssh-cipher=a -o ProxyCommand=b' h 1)"
	assert_match 'needs a list of ciphers' "$TEST_TMP/err"
	assert_eq exit:1 "$(given "$s" h 1 --ssh-cipher)"
	assert_match 'needs a list of ciphers' "$TEST_TMP/err"
	# Nobody to ask, no answer, an empty one: negotiation.
	assert_eq "$base${scp}word:h word:1" "$(given "$s" --probe-ciphers h 1)"
	assert_match 'no cipher was measured' "$TEST_TMP/err"
	cipher_probe 'echo x; exit 4'
	assert_eq "$base${scp}word:h word:1" "$(given "$s" --probe-ciphers h 1)"
	cipher_probe :
	assert_eq "$base${scp}word:h word:1" "$(given "$s" h 1 --probe-ciphers)"
	assert_match 'no cipher was measured' "$TEST_TMP/err"
	# Asked for this host and with these options.
	cipher_probe "printf '<%s>' \"\$@\" >$TEST_TMP/asked; echo x1@y"
	set -- "ssh:-c ssh:x1@y " "scp:-c scp:x1@y "
	assert_eq "$base$1$scp$2word:root@h word:1" \
		"$(given "$s" -r yes --probe-ciphers root@h 1)"
	assert_eq '<--ssh=-o BatchMode=yes ><root@h>' "$(cat "$TEST_TMP/asked")"
	assert_eq "$base$1ssh:-p ssh:22 $scp$2word:h word:1" \
		"$(given "$s" --probe-ciphers '--ssh=-p 22' h 1)"
	assert_eq '<--ssh=-o BatchMode=yes -p 22><h>' "$(cat "$TEST_TMP/asked")"
	# Not asked where the list is given.
	rm "$TEST_TMP/asked"
	given "$s" --probe-ciphers --ssh-cipher=z h 1 >/dev/null
	assert_no_file "$TEST_TMP/asked"
}

test_shell_tool_runs()
{
	local s n=0
	need_tools
	PATH=$TEST_TMP/bin:$PATH
	command -v vzmigrate-cipher-probe >/dev/null &&
		skip "vzmigrate-cipher-probe is installed on this machine"
	for s in sh bash 'busybox'; do
		command -v "$s" >/dev/null || continue
		[ "$s" != busybox ] || {
			printf '#!/bin/sh\nexec busybox sh "$@"\n' \
				>"$TEST_TMP/busybox-sh"
			chmod 755 "$TEST_TMP/busybox-sh"
			s=$TEST_TMP/busybox-sh
		}
		rm -rf "$TEST_TMP"/vzctl-*
		(patched vzctl-3.0.23-to-4.2 && shell_lines "$s" '')
		(patched vzctl-4.3-to-4.7 &&
			shell_lines "$s" 'ssh:-o ssh:BatchMode=yes ')
		n=$((n + 1))
	done
	[ $n -ge 2 ] || fail "only $n shells were tried"
}

# vzctl 4.8 has no fixed cipher: the second patch goes on alone.
test_second_patch_alone()
{
	need_tools
	mkdir -p "$TEST_TMP/t/bin"
	cd "$TEST_TMP/t"
	printf '#!/bin/sh\n%s\necho "$SSH_OPTIONS"\n' \
		'SSH_OPTIONS="-o BatchMode=yes"' >bin/vzmigrate.in
	apply git "$P/vzctl-4.3-to-4.7/ssh-cipher-and-probe.patch"
	assert_eq '-o BatchMode=yes -c q' \
		"$(sh bin/vzmigrate.in --ssh-cipher q h 1)"
}

test_openvz7_runs()
{
	local d cc=${CC:-gcc}
	need_tools
	command -v "$cc" >/dev/null || skip "no C compiler"
	for d in vzmigrate-7 vzmigrate-7-from-7.0.139 vzmigrate-7-to-7.0.125; do
		(
			patched $d
			"$cc" -Wall -Werror -x c -o run bin/bincom.cpp
			assert_eq '1:-T 2:-o ' "$(./run | tr '\n' ' ')" "$d"
			case $d in
			*-to-*) ;;
			*) assert_eq '1:-T 2:-c 3:x,y 4:-o ' \
				"$(./run x,y | tr '\n' ' ')" "$d" ;;
			esac
		)
	done
}

# --- the program that is asked ----------------------------------------------

# The patched lines on a host, with the real program there.
test_cipher_probe()
{
	local name
	need_tools
	hosts_possible || skip "no throw-away hosts here: $HOSTS_WHY"
	HOSTS_PATH=$TEST_TMP/path
	mkdir "$HOSTS_PATH"
	ln -s "$VZ_BUILDDIR/vzmigrate/vzmigrate" \
		"$HOSTS_PATH/vzmigrate-cipher-probe"
	hosts_up tmpfs a b
	set -- --cipher=aes256-ctr,aes128-ctr --mac=hmac-sha2-256
	assert_exit 0 on a vzmigrate-cipher-probe "$@" --probe-ciphers=0.5 \
		root@b
	assert_match '^aes(128|256)-ctr$' "$OUT"
	assert_eq 1 "$(wc -l <"$OUT")" "lines"
	assert_exit 0 on a vzmigrate --cipher=aes128-ctr --probe-ciphers=0.5 \
		--print b
	assert_eq aes128-ctr "$(cat "$OUT")"
	# What cannot be measured is not printed.
	assert_exit 4 on a vzmigrate-cipher-probe -p 1 b
	assert_eq '' "$(cat "$OUT")"
	assert_exit 1 on a vzmigrate-cipher-probe b 101
	assert_match '--print is for --probe-ciphers without a container' "$ERR"
	# One that is full takes no name: that is a failure, too.
	assert_exit 64 on a sh -c \
		'exec vzmigrate-cipher-probe --cipher=aes128-ctr \
			--mac=hmac-sha2-256 b >/dev/full'
	(
		patched vzctl-4.3-to-4.7
		assert_exit 0 on a sh "$PWD/bin/vzmigrate.in" --probe-ciphers \
			--ssh='-p 22 -c aes128-ctr -m hmac-sha2-256' root@b 101
		name=$(sed -n '/^ssh:-c/{n;s/^ssh://p;q}' "$OUT")
		on a ssh -o BatchMode=yes -c "$name" b true ||
			fail "ssh does not take the cipher '$name'"
	)
	hosts_down
}

# --- a real tree ------------------------------------------------------------

# The target that fits the tree, and its patches; nothing if none does.
fitting()
{
	local f=$1/bin/vzmigrate.in c=$1/bin/bincom.cpp
	if grep -qx 'SSH_OPTIONS="-c blowfish"' "$f"; then
		series vzctl-3.0.23-to-4.2
	elif grep -qx 'SSH_OPTIONS="-c blowfish -o BatchMode=yes"' "$f"; then
		series vzctl-4.3-to-4.7
	elif grep -qx 'SSH_OPTIONS="-o BatchMode=yes"' "$f"; then
		series vzctl-4.3-to-4.7 | tail -n 1
	elif grep -q 'ssh_options, "arcfour")' "$c"; then
		series vzmigrate-7-to-7.0.125
	elif grep -q 'ssh_options, "aes256-gcm@openssh.com,arcfour")' "$c"; then
		series vzmigrate-7
	elif grep -q 'ssh_options, "aes256-gcm@openssh.com")' "$c"; then
		series vzmigrate-7-from-7.0.139
	fi 2>/dev/null
}

test_real_tree()
{
	local way p f
	need_tools
	[ -n "${VZCTL_SRC:-}" ] ||
		skip "VZCTL_SRC names no tree of the old tool"
	fitting "$VZCTL_SRC" >"$TEST_TMP/list"
	[ -s "$TEST_TMP/list" ] || fail "no patch is for $VZCTL_SRC"
	for way in patch git; do
		mkdir -p "$TEST_TMP/$way/bin"
		cd "$TEST_TMP/$way"
		for f in bin/vzmigrate.in bin/bincom.cpp; do
			[ ! -f "$VZCTL_SRC/$f" ] || cp "$VZCTL_SRC/$f" bin/
		done
		while read -r p; do
			apply $way "$p" || fail "$p does not apply"
		done <"$TEST_TMP/list"
		if [ -f bin/vzmigrate.in ]; then
			sh -n bin/vzmigrate.in
			assert_no_match '-c blowfish' bin/vzmigrate.in
		else
			assert_no_match 'ssh_options, "(arcfour|aes)' \
				bin/bincom.cpp
		fi
	done
	diff -r "$TEST_TMP/patch" "$TEST_TMP/git" >&2 ||
		fail "the two ways differ"
}
