# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What arrives is the tree: every kind of file, on and across file systems,
# with the real program between two hosts. What the destination's file system
# cannot hold is found before anything is copied; with --metadata=warn exactly
# that is missing, and the proof passes.

# run: asan-full
# shellcheck disable=SC2034,SC2164 # read by tests/run, which sets -e
TEST_TIMEOUT=300
# shellcheck source=SCRIPTDIR/trees.sh
. "$VZ_TOP/tests/e2e/trees.sh"

setup_file()
{
	local f h
	hosts_possible || skip "$HOSTS_WHY"
	hosts_up tmpfs a b
	for h in a b; do
		fs_mount $h tmpfs /fs/tmpfs
		for f in ext4 xfs btrfs; do
			fs_mount $h $f /fs/$f 4G
		done
	done
}

# nasty FS [ARG ...] - the tree /fs/FS/nasty on a, made once. Prints its name.
nasty()
{
	local fs=$1 dir=/fs/$1/nasty log=$BED_TMP/left-out.$1
	shift
	if ! [ -e "$(view a)$dir" ]; then
		on a "$TOOLS/nastytree" --small "$@" $dir >"$log" ||
			fail "nastytree on $fs"
		sed "s/^/$fs: /" "$log" >&2
	fi
	echo $dir
}

same_fs()
{
	local src dst=/fs/$1/same
	src=$(nasty "$1")
	look_at a "$src" >"$TEST_TMP/before"
	assert_exit 0 move b "$src:$dst"
	assert_match 'verified=true warnings=0' "$OUT"
	untouched a "$src" "$TEST_TMP/before"
	same_tree "$src" $dst
	on b "$TOOLS/nastytree" --remove $dst
}

test_nasty_tree_on_ext4()
{
	same_fs ext4
}

test_nasty_tree_on_xfs()
{
	same_fs xfs
}

test_nasty_tree_on_btrfs()
{
	same_fs btrfs
}

test_nasty_tree_on_tmpfs()
{
	same_fs tmpfs
}

full_nasty_trees_of_full_size()
{
	local f n
	for f in tmpfs ext4 xfs btrfs; do
		for n in 11 12 13; do
			on a "$TOOLS/nastytree" --seed $n /fs/$f/full
			assert_exit 0 move b /fs/$f/full:/fs/$f/full
			same_tree /fs/$f/full /fs/$f/full
			on a "$TOOLS/nastytree" --remove /fs/$f/full
			on b "$TOOLS/nastytree" --remove /fs/$f/full
		done
	done
}

# --- across file systems ----------------------------------------------------

# across FROM TO FINDING DIFFERENCES - strict: refused before anything is
# copied, with the finding; going without: arrives, and each line of the
# comparison matches DIFFERENCES.
across()
{
	local src dst=/fs/$2/from-$1
	src=$(nasty "$1")
	assert_exit 68 move b "$src:$dst"
	assert_match "$3" "$ERR"
	assert_no_match 'copied' "$OUT"
	nothing_left $dst
	assert_exit 0 move --metadata=warn b "$src:$dst"
	assert_match 'verified=true' "$OUT"
	assert_match 'warning: .*gone without' "$ERR"
	diff_tree "$src" $dst >"$TEST_TMP/diff" || :
	assert_match "$4" "$TEST_TMP/diff"
	assert_no_match "^(.*: )?(content|missing|mode|owner|size|type): " \
		"$TEST_TMP/diff"
	grep -avE "$4|^entries=" "$TEST_TMP/diff" >"$TEST_TMP/more" || :
	[ ! -s "$TEST_TMP/more" ] ||
		fail "more is missing: $(cat "$TEST_TMP/more")"
	on b "$TOOLS/nastytree" --remove $dst
}

BIG='^xattrs/big-[0-9]+: xattr: user.big only in A'
TIMES='^times/[fdl]1[23](/child)?: mtime:'
FLAGS='^(flags/.*|projects/d.*): flags:'
COMPR='^flags/[fd]-c: (flags|xattr: btrfs.compression only in A)'

test_tmpfs_to_ext4()
{
	across tmpfs ext4 'attributes of 3072 bytes, the tree has one of 65536' \
		"$BIG|$TIMES"
}

test_btrfs_to_ext4()
{
	across btrfs ext4 'cannot hold: times before' \
		"$BIG|$TIMES|$COMPR|$FLAGS"
}

test_xfs_to_ext4()
{
	across xfs ext4 'cannot hold: project ids' \
		"$BIG|$TIMES|^projects/d.*: projid: 4242 in A, 0 in B"
}

# Project ids are inherited, and looked for on directories only. One that a file
# has alone is met when it is copied: no less exact, only later.
test_lone_project_id()
{
	local src=/fs/xfs/lone
	on a mkdir $src
	on a cp /etc/passwd $src/f
	on a chattr -p 77 $src/f
	look_at a $src >"$TEST_TMP/before"
	assert_exit 68 move b $src:/fs/ext4/lone
	assert_match 'f: this file system refuses project id 77' "$ERR"
	untouched a $src "$TEST_TMP/before"
	nothing_left /fs/ext4/lone
	assert_exit 0 move --metadata=warn b $src:/fs/ext4/lone
	assert_match 'warning: .*f: .*gone without' "$ERR"
}

test_xfs_to_btrfs()
{
	across xfs btrfs 'cannot hold: project ids, inherited project ids' \
		"$BIG|^projects/d.*: (flags|projid):"
}

test_ext4_to_tmpfs()
{
	across ext4 tmpfs 'cannot hold: synchronous files' \
		"$FLAGS"
}

test_ext4_to_btrfs()
{
	across ext4 btrfs 'cannot hold: inherited project ids' "$FLAGS"
}

# Advice how to store a file is left out, with a warning, also when all else
# must be exact: systemd sets +C on its journals.
test_hints_are_left_out()
{
	on a mkdir /fs/btrfs/hints
	on a chattr +C /fs/btrfs/hints
	on a cp /etc/passwd /fs/btrfs/hints/f
	assert_exit 0 move b /fs/btrfs/hints:/fs/ext4/hints
	assert_match 'has no use for the inode flag C' "$ERR"
	assert_match 'verified=true' "$OUT"
	diff_tree /fs/btrfs/hints /fs/ext4/hints >"$TEST_TMP/diff" || :
	assert_eq 2 "$(grep -c ': flags: ' "$TEST_TMP/diff")"
	assert_no_match '^(.*: )?(content|missing|mode|owner|xattr|mtime)' \
		"$TEST_TMP/diff"
}

# Some things cannot be gone without: there would be no entry.
test_ext4_to_xfs()
{
	local n=/fs/ext4/nasty
	assert_eq $n "$(nasty ext4)"
	assert_exit 68 move --metadata=warn b $n:/fs/xfs/from-ext4
	assert_match 'links of more than 1023 bytes, device numbers' "$ERR"
	nothing_left /fs/xfs/from-ext4
	on a cp -a $n/types /fs/ext4/kept
	on a rm $n/types/{link-4095,blk-large,chr-large}
	across ext4 xfs 'cannot hold: synchronous directories' "$FLAGS"
	on a rm -r /fs/ext4/kept
}

test_no_acls_and_attributes_there()
{
	local src=/fs/ext4/plain f
	fs_mount b ramfs /fs/ramfs
	on a mkdir -p $src/d
	on a sh -c "cd $src && echo one >f && echo two >d/g && ln f d/hard &&
		setfattr -n user.u -v 1 f && setfattr -n user.u -v 2 d &&
		setfattr -n system.posix_acl_access -v \
0x0200000001000600ffffffff02000400e803000004000400ffffffff10000400ffffffff20000000ffffffff d/g"
	assert_exit 68 move b $src:/fs/ramfs/plain
	assert_match 'ramfs\) cannot hold: user.* attributes, ACLs' "$ERR"
	nothing_left /fs/ramfs/plain
	assert_exit 0 move --metadata=warn b $src:/fs/ramfs/plain
	for f in f d d/g; do
		# Either name of the two.
		assert_match "warning: .*: (d/hard|$f): .*gone without" "$ERR"
	done
	same_tree $src /fs/ramfs/plain xattr
	assert_exit 0 on b sh -c 'test /fs/ramfs/plain/f -ef \
		/fs/ramfs/plain/d/hard'
	on b umount /fs/ramfs
}

# --- single cases -----------------------------------------------------------

# Owner, setuid and a capability at once; then only the content, only the owner
# and nothing is changed.
test_setuid_and_capability()
{
	local n=0 change src=/fs/ext4/f1 dst
	on a mkdir $src
	on a sh -c "printf abc >$src/f && chown 1000:1000 $src/f &&
		chmod 6755 $src/f"
	on a setcap cap_net_raw=ep $src/f
	for change in : "printf xyz >$src/f" "chown 1001 $src/f" :; do
		n=$((n + 1)) dst=/fs/ext4/f1-$n
		# Both take the capability away, on the source too.
		on a sh -c "$change && chmod 6755 $src/f &&
			setcap cap_net_raw=ep $src/f"
		assert_exit 0 move b $src:$dst
		same_tree $src $dst
		assert_eq "$dst/f cap_net_raw=ep" "$(on b getcap $dst/f)"
		assert_eq "$((n > 2 ? 1001 : 1000)):1000 6755" \
			"$(on b stat -c '%u:%g %a' $dst/f)"
	done
}

# A uid whose name is another one there.
test_numbers_not_names()
{
	on a mkdir /fs/ext4/f2
	on a touch /fs/ext4/f2/f
	on a sh -c 'echo alice:x:106:106::/:/bin/sh >>/etc/passwd
		echo bob:x:107:107::/:/bin/sh >>/etc/passwd'
	on b sh -c 'echo bob:x:106:106::/:/bin/sh >>/etc/passwd
		echo alice:x:107:107::/:/bin/sh >>/etc/passwd'
	on a chown 106:107 /fs/ext4/f2/f
	assert_exit 0 move b /fs/ext4/f2:/fs/ext4/f2
	assert_eq '106:107 bob' "$(on b stat -c '%u:%g %U' /fs/ext4/f2/f)"
}

# Refused by ext4 with ENOSPC, which is not a full disk.
test_large_attribute()
{
	local v
	v=$(head -c 8192 /dev/zero | tr '\0' v)
	on a mkdir /fs/tmpfs/f4
	on a touch /fs/tmpfs/f4/f
	on a setfattr -n user.big -v "$v" /fs/tmpfs/f4/f
	on a setfattr -n user.small -v s /fs/tmpfs/f4/f
	assert_exit 68 move b /fs/tmpfs/f4:/fs/ext4/f4
	assert_match 'attributes of 3072 bytes, the tree has one of 8192' "$ERR"
	nothing_left /fs/ext4/f4
	assert_exit 0 move --metadata=warn b /fs/tmpfs/f4:/fs/ext4/f4
	assert_match 'f: the extended attribute user.big of 8192 bytes' "$ERR"
	assert_match 'verified=true' "$OUT"
	assert_eq 'user.small="s"' \
		"$(on b getfattr --absolute-names -d /fs/ext4/f4/f | grep "=")"
}

# Each is small enough, all together are not: met only when they are set.
test_many_attributes()
{
	local i v
	v=$(head -c 1000 /dev/zero | tr '\0' v)
	on a mkdir /fs/tmpfs/f4m
	on a touch /fs/tmpfs/f4m/{f,g}
	for i in 1 2 3 4 5 6 7 8; do
		on a setfattr -n user.$i -v "$v$i" /fs/tmpfs/f4m/f
	done
	assert_exit 68 move b /fs/tmpfs/f4m:/fs/ext4/f4m
	assert_match 'b: f: .* too large for this file system' "$ERR"
	nothing_left /fs/ext4/f4m
	assert_exit 0 move --metadata=warn b /fs/tmpfs/f4m:/fs/ext4/f4m
	assert_match 'verified=true' "$OUT"
	# What fits is there.
	assert_match '^user.1=' <(on b getfattr --absolute-names -d \
		/fs/ext4/f4m/f)
}

# Time and room follow what is allocated.
test_sparse_files()
{
	local f t src used
	for f in ext4 xfs btrfs tmpfs; do
		src=/fs/$f/f6
		on a mkdir $src
		on a sh -c "cd $src && truncate -s 1T middle hole end &&
			printf x | dd of=middle bs=1 seek=549755813888 \
				conv=notrunc status=none &&
			head -c 100000 /dev/urandom | dd of=end conv=notrunc \
				status=none &&
			head -c 1000000 /dev/zero >zeros &&
			fallocate -l 1M unwritten"
		t=$SECONDS
		assert_exit 0 move b $src:$src
		[ $((SECONDS - t)) -le 10 ] || fail "$f: $((SECONDS - t)) s"
		same_tree $src $src
		used=$(on b du -sk $src | cut -f 1)
		[ "$used" -le 2500 ] || fail "$f: $used KiB are used"
		assert_eq 1099511627776 "$(on b stat -c %s $src/middle)"
	done
}

# More links than the file system there allows to one inode.
test_70000_links()
{
	local links
	on a sh -c "mkdir /fs/tmpfs/f8 && cd /fs/tmpfs/f8 && mkdir 'a
b' && echo x >0 && ln 0 'a
b/n
l' && exec perl -e 'link \"0\", \$_ or die for 1 .. 69998'"
	assert_eq 70000 "$(on a stat -c %h /fs/tmpfs/f8/0)"
	assert_exit 0 move b /fs/tmpfs/f8:/fs/ext4/f8
	assert_match 'warning: .*no more hard links' "$ERR"
	assert_match 'verified=true' "$OUT"
	same_tree /fs/tmpfs/f8 /fs/ext4/f8 links,nlink
	links=$(find "$(view b)/fs/ext4/f8" -type f -printf '%i %n\n' |
		sort | uniq -c | awk '{ print $1, $3 }' | sort -n | xargs)
	assert_eq '5000 5000 65000 65000' "$links"
	on b rm -r /fs/ext4/f8
	on a rm -r /fs/tmpfs/f8
}

full_70000_links_in_one_group()
{
	local f
	on a sh -c "mkdir /fs/tmpfs/f8 && cd /fs/tmpfs/f8 && echo x >0 &&
		exec perl -e 'link \"0\", \$_ or die for 1 .. 69999'"
	for f in tmpfs xfs; do
		assert_exit 0 move b /fs/tmpfs/f8:/fs/$f/f8
		assert_no_match 'hard links' "$ERR"
		assert_eq 70000 "$(on b stat -c %h /fs/$f/f8/0)"
		same_tree /fs/tmpfs/f8 /fs/$f/f8
		on b rm -r /fs/$f/f8
	done
	on a rm -r /fs/tmpfs/f8
}

test_immutable_and_append_only()
{
	local f src
	for f in ext4 xfs btrfs tmpfs; do
		src=/fs/$f/f9
		on a mkdir -p $src/d/sub
		on a sh -c "cd $src && echo f >f && echo l >log && ln f d/g &&
			chattr +a log && echo more >>log && chattr +i f &&
			echo c >d/child && chattr +i d/sub d &&
			touch -d @1000000000 . && chattr +i ." ||
			fail "no such tree on $f"
		assert_exit 0 move -r yes b $src:$src-new
		assert_match 'verified=true warnings=0' "$OUT"
		assert_no_file "$(view a)$src"
		assert_eq 'i f i d a log i .' "$(on b sh -c "cd $src-new &&
			lsattr -d f d log . | sed 's/^[^ ]*\\([ia]\\)[^ ]*/\\1/' |
			xargs")" "$f"
		assert_eq 'l more' "$(on b cat $src-new/log | xargs)"
		assert_eq 1000000000 "$(on b stat -c %Y $src-new)"
		assert_exit 2 on b sh -c "echo x >$src-new/f"
		assert_exit 2 on b sh -c "echo x >$src-new/new"
	done
}

test_nasty_source_is_removed()
{
	local f
	for f in ext4 btrfs; do
		on a "$TOOLS/nastytree" --small --seed 3 /fs/$f/gone
		assert_exit 0 move b /fs/$f/gone:/fs/$f/ref
		assert_exit 0 move -r yes b /fs/$f/gone:/fs/$f/gone
		assert_no_file "$(view a)/fs/$f/gone"
		assert_exit 0 on b "$TOOLS/treecmp" /fs/$f/ref /fs/$f/gone
		on b "$TOOLS/nastytree" --remove /fs/$f/ref
		on b "$TOOLS/nastytree" --remove /fs/$f/gone
	done
}

# --- places -----------------------------------------------------------------

# /vz is a link on both hosts, and the tree's own place on the source another.
test_linked_prefixes()
{
	local h
	for h in a b; do
		on $h rm -rf /vz
		on $h mkdir -p /srv/vz/private
		on $h ln -s srv/vz /vz
	done
	on a sh -c 'mkdir -p /data/101/etc && echo 101 >/data/101/etc/hostname
		ln -s /data/101 /srv/vz/private/101
		ln -s /etc/hostname /data/101/link'
	assert_exit 0 move b /vz/private/101:/vz/private/101
	assert_eq 101 "$(on b cat /srv/vz/private/101/etc/hostname)"
	assert_eq /etc/hostname "$(on b readlink /vz/private/101/link)"
	assert_eq directory "$(on b stat -c %F /srv/vz/private/101)"
	same_tree /data/101 /srv/vz/private/101
	assert_file "$(view a)/data/101/etc/hostname"
	nothing_left /srv/vz/private/other
}

# Other file systems within the tree stay where they are, and are told.
test_mounts_in_the_tree()
{
	local src=/fs/ext4/d6 f
	on a mkdir -p $src/{bound,ram,plain} /fs/ext4/elsewhere
	on a touch $src/file-bound
	on a sh -c "echo secret >/fs/ext4/elsewhere/secret &&
		echo under >$src/ram/under"
	on a mount --bind /fs/ext4/elsewhere $src/bound
	on a mount --bind /fs/ext4/elsewhere/secret $src/file-bound
	on a mount -t tmpfs t $src/ram
	on a sh -c "echo over >$src/ram/over"
	assert_exit 0 move b $src:/fs/ext4/d6-new
	on a umount $src/bound
	on a umount $src/file-bound
	on a umount $src/ram
	for f in bound ram file-bound; do
		assert_match "warning: .*not carried: $f is another" "$ERR"
	done
	assert_exit 1 grep -r secret "$(view b)/fs/ext4/d6-new"
	assert_no_file "$(view b)/fs/ext4/d6-new/ram/over"
	assert_exit 0 on b test -d /fs/ext4/d6-new/plain
	assert_exit 0 on b test -d /fs/ext4/d6-new/bound
	assert_eq "$(on a sh -c "cd $src && find . | sort | xargs")" \
		"$(on b sh -c "cd /fs/ext4/d6-new && find . | sort | xargs")" \
		"names, those that the mounts hid among them"
}

# The tenant swaps a directory and a link to a directory outside, all the time.
# A run may fail, and says why; what is outside is never read.
test_swapped_for_a_link()
{
	local i src=/fs/tmpfs/f13 rc ok=0 bad=0
	on a mkdir -p $src/var/spool/x /fs/tmpfs/outside
	on a sh -c "cd $src/var/spool/x && for i in 1 2 3 4 5 6 7 8 9; do
			echo inside >f\$i; echo outside-\$((6*7)) \
				>/fs/tmpfs/outside/f\$i; done"
	on_bg a perl -e '
		chdir "/fs/tmpfs/f13/var/spool" or die;
		while (1) {
			rename "x", "x.d";
			symlink "/fs/tmpfs/outside", "x";
			select undef, undef, undef, rand(0.06)
				if rand(1) < 0.0005;
			unlink "x";
			rename "x.d", "x";
			# Now and then long enough for a directory to be
			# taken for quiet.
			select undef, undef, undef, rand(0.06)
				if rand(1) < 0.0005;
		}'
	for i in 1 2 3 4 5 6 7 8; do
		rc=0
		move --keep-dst b $src:/fs/tmpfs/f13-$i >"$TEST_TMP/out" \
			2>"$TEST_TMP/err" || rc=$?
		if [ $rc = 0 ]; then
			ok=$((ok + 1))
		else
			bad=$((bad + 1))
			assert_eq 6 $rc "$(cat "$TEST_TMP/err")"
			assert_match 'var/spool.*(changed|replaced|vanished)|/x' \
				"$TEST_TMP/err"
		fi
		assert_exit 1 grep -rl outside-42 "$(view b)/fs/tmpfs"
	done
	kill "$ON_PID"
	wait "$ON_BG" || :
	echo "$ok runs went through, $bad ended with an error"
	on a sh -c "cd $src/var/spool && [ ! -d x.d ] || { rm -f x; mv x.d x; }"
	assert_exit 0 move b $src:/fs/tmpfs/f13-quiet
	same_tree $src /fs/tmpfs/f13-quiet
	# What --keep-dst kept for one place does not outlive the choice of
	# another.
	assert_eq '' "$(on b ls /var/lib/vzmigrate/reserve)" "still reserved"
}

# --- many -------------------------------------------------------------------

# crowd FILES DIRS - /fs/tmpfs/many on a, and both programs' memory.
crowd()
{
	local files=$1 dirs=$2 limit kb w
	on a rm -rf /fs/tmpfs/many
	on a perl -e '
		my ($files, $dirs) = @ARGV;
		mkdir $_ or die for map "/fs/tmpfs/many$_", "", "/f", "/d";
		chdir "/fs/tmpfs/many" or die;
		for (1 .. $files) {
			open my $f, ">", "f/$_" or die;
			print $f $_;
		}
		mkdir "d/$_" or die for 1 .. $dirs;' "$files" "$dirs"
	peak a vzmigrate "$TEST_TMP/peak-a"
	local peak_a=$PEAK_PID
	peak b vzmigrate-agent "$TEST_TMP/peak-b"
	local peak_b=$PEAK_PID
	assert_exit 0 move b /fs/tmpfs/many:/fs/tmpfs/many
	kill "$peak_a" "$peak_b"
	assert_match "verified=true" "$OUT"
	assert_match " files=$((files + dirs + 3)) " "$OUT"
	limit=$((65536 + (files + dirs) * 80 / 1024))
	for w in a b; do
		kb=$(cat "$TEST_TMP/peak-$w")
		echo "$w: $kb KiB of $limit"
		# Sanitizers take memory of their own.
		ldd "$VZ_BUILDDIR/vzmigrate/vzmigrate" | grep -q libasan ||
			[ "$kb" -le $limit ] ||
			fail "$w: $kb KiB, more than $limit"
	done
	same_tree /fs/tmpfs/many /fs/tmpfs/many
	on a rm -rf /fs/tmpfs/many
	on b rm -rf /fs/tmpfs/many
}

test_many_files_and_directories()
{
	crowd 20000 10000
}

full_very_many_files_and_directories()
{
	crowd 200000 100000
}
