# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The tools that other tests trust: treecmp notices each single change,
# nastytree makes and removes its tree, failfs fails where it is told to.
# run: no-asan

# shellcheck disable=SC2034,SC2164 # read by tests/run, which sets -e
TEST_TIMEOUT=120
TOOLS=$VZ_BUILDDIR/tests/tools

# A small tree in $TEST_TMP/a and an exact copy in $TEST_TMP/b.
two_trees()
{
	rm -rf "$TEST_TMP/a" "$TEST_TMP/b"
	mkdir -p "$TEST_TMP/a/d/sub"
	(
		cd "$TEST_TMP/a"
		head -c 300000 /dev/zero | tr '\0' q >f
		printf x >d/small
		truncate -s 10M hole
		ln -s f link
		ln d/small d/sub/hard2
		printf y >lone
		mkfifo p
		mknod c c 1 3
		setfattr -n user.a -v 1 f
		setfattr -n trusted.l -v 1 -h link
		touch -d '2001-02-03 04:05:06.000000007' f d/small lone hole p c
		touch -h -d '2001-02-03 04:05:06.000000008' link
		touch -d '2001-02-03 04:05:06.000000009' d/sub
		touch -d '2001-02-03 04:05:06.000000009' d
		touch -d '2001-02-03 04:05:06.000000009' .
	)
	cp -a --sparse=always "$TEST_TMP/a" "$TEST_TMP/b"
	# Reading has changed access times.
	(cd "$TEST_TMP/b" && find . -depth -exec touch -h -a -r {} ../a/{} \;)
	# A link cannot be read without a trace, but where that is newer than
	# all changes of it (relatime).
	touch -h -a -d '2037-01-02 03:04:05' "$TEST_TMP/a/link" "$TEST_TMP/b/link"
}

# notices REGEX COMMAND - after COMMAND in b, treecmp has one line only, and it
# matches; with that kind ignored there is none.
notices()
{
	local want=$1 kind
	shift
	two_trees
	(cd "$TEST_TMP/b" && eval "$*")
	assert_exit 1 "$TOOLS/treecmp" --atime "$TEST_TMP/a" "$TEST_TMP/b"
	assert_match "^$want" "$OUT"
	[ "$(wc -l <"$OUT")" = 1 ] || fail "not one line: $(cat "$OUT")"
	kind=$(sed -E 's/^[^:]*: ([a-z]+): .*/\1/' "$OUT")
	[ "$kind" = missing ] && return
	assert_exit 0 "$TOOLS/treecmp" --atime "--ignore=$kind" \
		"$TEST_TMP/a" "$TEST_TMP/b"
	# The other way round it is noticed just as well, but for more room
	# taken by A.
	[ "$kind" = holes ] || [ "$kind" = blocks ] ||
		assert_exit 1 "$TOOLS/treecmp" --atime "$TEST_TMP/b" \
			"$TEST_TMP/a"
}

# keep FILE COMMAND - run COMMAND, then give FILE (and .) its times back.
keep()
{
	local f=$1 ref=$TEST_TMP/ref dref=$TEST_TMP/dref
	shift
	touch "$ref" "$dref"
	touch -h -r "$f" "$ref"
	touch -r . "$dref"
	eval "$*"
	touch -h -r "$ref" "$f"
	touch -r "$dref" .
	rm -f "$ref" "$dref"
}

test_equal()
{
	two_trees
	assert_exit 0 "$TOOLS/treecmp" --atime "$TEST_TMP/a" "$TEST_TMP/b"
	assert_match '^entries=11 bytes=[0-9]+$' "$OUT"
	touch -a "$TEST_TMP/b/f"
	assert_exit 0 "$TOOLS/treecmp" "$TEST_TMP/a" "$TEST_TMP/b"
}

odd_name()
{
	touch $'new\n\e'
}

test_each_attribute()
{
	notices 'f: mode: ' chmod 4644 f
	notices '\.: mode: ' chmod 700 .
	notices 'd/sub: mode: ' chmod 1755 d/sub
	notices 'lone: owner: 0:0 in A, 0:5' chown 0:5 lone
	notices 'link: owner: ' chown -h 4294967294 link
	notices 'f: mtime: ' touch -m -d '@981173106.000000008' f
	notices 'link: mtime: ' touch -h -m -d '@5.000000008' link
	notices 'd: mtime: ' touch -m -d '@5.000000008' d
	notices '\.: mtime: ' touch -m -d '@5.000000008' .
	notices 'f: atime: ' touch -a -d '@5' f
	notices 'f: xattr: user.a has another value' setfattr -n user.a -v 2 f
	notices 'f: xattr: user.a has 1 bytes in A, 2' \
		setfattr -n user.a -v 12 f
	notices 'f: xattr: user.a only in A' setfattr -x user.a f
	notices 'p: xattr: trusted.b only in B' setfattr -n trusted.b -v 1 p
	notices 'link: xattr: trusted.l only in A' setfattr -h -x trusted.l link
	notices 'd: xattr: user.d only in B' setfattr -n user.d d
	notices 'lone: size: 1 in A, 2 in B' keep lone 'printf yy \>lone'
	notices 'lone: content: ' keep lone 'printf z \>lone'
	notices 'f: content: ' keep f \
		'printf Z \| dd of=f bs=1 seek=299999 conv=notrunc'
	notices 'link: target: ' keep link 'ln -snf g link \; setfattr -h \
		-n trusted.l -v 1 link'
	notices 'c: rdev: 1:3 in A, 1:5' keep c 'rm c \; mknod c c 1 5'
	notices 'p: type: ' keep p 'rm p \; touch p'
	notices 'p: missing: only in A' keep . 'rm p'
	notices 'new\\x0a\\x1b: missing: only in B' keep . odd_name
}

test_holes_and_blocks()
{
	notices 'hole: holes: ' keep hole \
		'dd if=/dev/zero of=hole bs=64k count=8 seek=3 conv=notrunc'
	notices 'lone: blocks: ' keep lone 'fallocate -n -l 8M lone'
}

test_links()
{
	two_trees
	# The same names, as many links each, but grouped otherwise.
	(
		cd "$TEST_TMP/a"
		for i in 1 2 3 4; do
			printf same >"d/g$i"
		done
		ln -f d/g1 d/g2
		ln -f d/g3 d/g4
		touch -d @7 d/g? d
	)
	(
		cd "$TEST_TMP/b"
		for i in 1 2 3 4; do
			printf same >"d/g$i"
		done
		ln -f d/g1 d/g3
		ln -f d/g2 d/g4
		touch -d @7 d/g? d
	)
	assert_exit 1 "$TOOLS/treecmp" "$TEST_TMP/a" "$TEST_TMP/b"
	assert_match '^d/g2: links: one inode in A' "$OUT"
	assert_match '^d/g3: links: one inode in B' "$OUT"
	assert_no_match ': [^l][a-z]*: ' "$OUT"
	# A link that became a copy.
	two_trees
	(
		cd "$TEST_TMP/b"
		cp -a d/small d/copy
		mv d/copy d/small
		touch -d '@981173106.000000009' d
	)
	assert_exit 1 "$TOOLS/treecmp" "$TEST_TMP/a" "$TEST_TMP/b"
	assert_match '^d/small: nlink: 2 in A, 1 in B' "$OUT"
}

test_flags()
{
	two_trees
	chattr +d "$TEST_TMP/b/f" 2>/dev/null ||
		skip "no chattr on $TEST_TMP"
	chattr +A "$TEST_TMP/b/d"
	assert_exit 1 "$TOOLS/treecmp" "$TEST_TMP/a" "$TEST_TMP/b"
	assert_match '^d: flags: 0x0 in A, 0x80 in B' "$OUT"
	assert_match '^f: flags: 0x0 in A, 0x40 in B' "$OUT"
}

test_trouble()
{
	two_trees
	assert_exit 2 "$TOOLS/treecmp" "$TEST_TMP/a" "$TEST_TMP/no"
	assert_match 'No such file' "$ERR"
	assert_exit 2 "$TOOLS/treecmp" "$TEST_TMP/a"
	assert_exit 2 "$TOOLS/treecmp" --ignore=nonsense "$TEST_TMP/a" \
		"$TEST_TMP/b"
	assert_match nonsense "$ERR"
}

test_nastytree()
{
	assert_exit 0 "$TOOLS/nastytree" --small --seed 5 "$TEST_TMP/n"
	assert_exit 0 "$TOOLS/treecmp" "$TEST_TMP/n" "$TEST_TMP/n"
	assert_match '^entries=[0-9]{3,} bytes=' "$OUT"
	assert_exit 0 "$TOOLS/nastytree" --small "$TEST_TMP/m"
	assert_exit 1 "$TOOLS/treecmp" "$TEST_TMP/n" "$TEST_TMP/m"
	assert_exit 2 "$TOOLS/nastytree" "$TEST_TMP/m"
	assert_exit 0 "$TOOLS/nastytree" --remove "$TEST_TMP/n"
	assert_exit 0 "$TOOLS/nastytree" --remove "$TEST_TMP/m"
	assert_no_file "$TEST_TMP/n"
	assert_exit 2 "$TOOLS/nastytree" --remove "$TEST_TMP/n"
	assert_exit 2 "$TOOLS/nastytree" --nonsense "$TEST_TMP/n"
}

test_failfs()
{
	local m=$TEST_TMP/m s=$TEST_TMP/s
	[ -x "$TOOLS/failfs" ] || skip "built without fuse3"
	[ -c /dev/fuse ] || skip "no /dev/fuse"
	mkdir -p "$m" "$s/locked" "$s/d"
	head -c 1000000 /dev/urandom >"$s/d/f"
	"$TOOLS/failfs" -o eio=f:3,eacces=/locked,short=w,enospc=/full \
		"$s" "$m"
	# shellcheck disable=SC2064
	trap "umount -l '$m'" EXIT
	assert_exit 1 dd if="$m/d/f" of=/dev/null bs=4096
	assert_match 'Input/output error' "$ERR"
	assert_match '^2\+0 records in' "$ERR"
	assert_exit 2 ls "$m/locked"
	assert_match 'Permission denied' "$ERR"
	dd if="$s/d/f" of="$m/w" bs=100000 2>/dev/null # which goes on
	cmp "$s/d/f" "$s/w"
	assert_exit 1 dd if="$s/d/f" of="$m/full" bs=1000 count=1
	assert_match 'No space left' "$ERR"
	ln "$m/w" "$m/d/w2"
	assert_eq "$(stat -c %i "$s/w")" "$(stat -c %i "$m/d/w2")"
}
