# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# OpenVZ containers whose file system is in ploop images, by the stand-ins for
# vzctl and ploop: images and snapshots arrive as they are, and what is written
# to an image past its file's times and past the page cache arrives, too.

# shellcheck disable=SC2034 # read by tests/run
TEST_TIMEOUT=300

# shellcheck source=SCRIPTDIR/safety.sh
. "$VZ_TOP/tests/e2e/safety.sh"

BASE='{8b9f5ac4-1f3a-4f0e-9e5b-0e0c2f6d7a11}'
TOP='{5fbaabe3-6958-40ff-92a7-860e329aab41}'
MiB=$((1024 * 1024))

setup_file()
{
	hosts_possible || skip "$HOSTS_WHY"
	openvz_hosts
	HOSTS_PATH=/root/shim:$HOSTS_PATH
	# What is poked below a file system must have a disk.
	hosts_up ext4 a b
	openvz_hosts a b
	for h in a b; do
		mkdir -p "$(host_dir $h)/root/shim"
		ln -s "$VZ_TOP/tests/tools/ploop-standin" \
			"$(host_dir $h)/root/shim/ploop"
		# For new containers: what is there is not asked.
		echo 'VE_LAYOUT=ploop' >>"$(host_dir $h)/etc/vz/vz.conf"
	done
}

area()
{
	echo "$(host_dir "$1")/vz/private/$2"
}

# image GUID FILE
image()
{
	printf '<Image>\n<GUID>%s</GUID>\n<Type>Compressed</Type>\n' "$1"
	printf '<File>%s</File>\n</Image>\n' "$2"
}

# descriptor CT IMAGES
descriptor()
{
	cat >"$(area a "$1")/root.hdd/DiskDescriptor.xml" <<-END
	<?xml version="1.0"?>
	<Parallels_disk_image Version="1.0">
	<Disk_Parameters>
	<Disk_size>131072</Disk_size>
	</Disk_Parameters>
	<StorageData>
	<Storage>
	<Start>0</Start>
	<End>131072</End>
	<Blocksize>2048</Blocksize>
	$2
	</Storage>
	</StorageData>
	<Snapshots>
	<TopGUID>$TOP</TopGUID>
	</Snapshots>
	</Parallels_disk_image>
	END
}

# ploop_make CT [INIT] - on a: an image of 64 MiB, of which a file system has
# the first 48 and nobody the rest, above a snapshot's; sparse, both.
ploop_make()
{
	local d p
	d=$(host_dir a)
	p=$(area a "$1")
	lxc_make a tmp "${2:-}"
	mkdir -p "$d$CTS/tmp/rootfs/srv" "$p/root.hdd" "$p/dump/$BASE"
	truncate -s 64M "$p/root.hdd/root.hdd.$TOP"
	mkfs.ext4 -q -F -d "$d$CTS/tmp/rootfs" "$p/root.hdd/root.hdd.$TOP" \
		48M 2>/dev/null
	fallocate -d "$p/root.hdd/root.hdd.$TOP"
	rm -r "$d$CTS/tmp"
	head -c 65536 /dev/urandom | dd of="$p/root.hdd/root.hdd.$TOP" bs=4096 \
		seek=$((56 * MiB / 4096)) conv=notrunc status=none
	truncate -s 256M "$p/root.hdd/root.hdd"
	head -c 3000000 /dev/urandom | dd of="$p/root.hdd/root.hdd" bs=$MiB \
		seek=100 conv=notrunc status=none
	touch "$p/root.hdd/DiskDescriptor.xml.lck"
	mkdir "$p/root.hdd/root.hdd.mnt"
	echo '<Snapshots/>' >"$p/Snapshots.xml"
	echo conf >"$p/dump/$BASE/ve.conf"
	descriptor "$1" "$(image "$BASE" root.hdd; image "$TOP" "root.hdd.$TOP")"
	cat >"$d/etc/vz/conf/$1.conf" <<-'END'
	VE_LAYOUT="ploop"
	VE_ROOT="/vz/root/$VEID"
	VE_PRIVATE="/vz/private/$VEID"
	END
}

vz_is()
{
	assert_eq "CTID $2 exist $3" "$(on "$1" vzctl status "$2")"
}

# No more is allocated in the copy than in what it was made from.
sparse_as()
{
	local a b
	a=$(du -sk "$1" | cut -f 1)
	b=$(du -sk "$2" | cut -f 1)
	[ "$b" -le $((a + 256)) ] || fail "$2 takes $b KiB, $1 $a"
}

test_stopped()
{
	ploop_make 501
	# Larger than the disk there: what counts is what is allocated.
	truncate -s 100G "$(area a 501)/root.hdd/root.hdd"
	cp -a "$(area a 501)" "$TEST_TMP/was"
	REF=$(area a 501)
	treecmp_ok "$REF" "$TEST_TMP/was"
	sparse_as "$(area a 501)" "$TEST_TMP/was"
	mig 501
	want 0
	treecmp_ok "$TEST_TMP/was" "$(area b 501)"
	sparse_as "$TEST_TMP/was" "$(area b 501)"
	assert_match '^VE_LAYOUT="ploop"$' "$(conf_of b 501)"
	assert_no_file "$(area a 501)"
	nothing_left
	on b vzctl start 501 >/dev/null
	vz_is b 501 "mounted running"
	on b vzctl stop 501 >/dev/null
}

# Both layouts, under one vz.conf, which has none of its own to say.
test_mix()
{
	lxc_make a tmp
	mv "$(host_dir a)$CTS/tmp/rootfs" "$(area a 502)"
	rm -r "$(host_dir a)$CTS/tmp"
	cat >"$(conf_of a 502)" <<-'END'
	VE_ROOT="/vz/root/$VEID"
	VE_PRIVATE="/vz/private/$VEID"
	END
	ploop_make 503
	sed -i /LAYOUT/d "$(conf_of a 503)"
	mig 502
	want 0
	mig 503
	want 0
	assert_match '^VE_LAYOUT="simfs"$' "$(conf_of b 502)"
	assert_match '^VE_LAYOUT="ploop"$' "$(conf_of b 503)"
	for ct in 502 503; do
		on b vzctl start $ct >/dev/null
		vz_is b $ct "mounted running"
		on b vzctl stop $ct >/dev/null
	done
	nothing_left
}

# What the classic had vzctl do before it read the image: a shim does it here.
test_compacted_and_snapshot()
{
	local shim asked
	shim=$(host_dir a)/root/shim/vzctl asked=$(host_dir a)/root/asked
	ploop_make 508
	cat >"$shim" <<-END
	#!/bin/sh
	case "\$*" in
	'--skiplock compact 508' | '--skiplock snapshot 508')
		echo "\$2" >>/root/asked
		[ ! -e /root/fails ] || { echo 'no room' >&2; exit 3; }
		echo "\$2" >>/vz/private/508/dump/done
		;;
	*) exec $RUN_TMP/bin/vzctl "\$@" ;;
	esac
	END
	chmod 755 "$shim"
	touch "$(host_dir a)/root/fails"
	mig -c -s 508
	want 6
	assert_match 'vzctl compact 508 failed with code 3: no room' "$ERR"
	assert_eq compact "$(cat "$asked")"
	assert_file "$(conf_of a 508)"
	assert_no_file "$(area b 508)"
	rm "$(host_dir a)/root/fails"
	mig --compact --snapshot 508
	want 0
	assert_eq $'compact\ncompact\nsnapshot' "$(cat "$asked")"
	assert_eq $'compact\nsnapshot' "$(cat "$(area b 508)/dump/done")"
	rm "$shim" "$asked"
}

# Whatever a simfs container's root makes in its own tree.
test_simfs_with_a_descriptor()
{
	lxc_make a tmp
	mv "$(host_dir a)$CTS/tmp/rootfs" "$(area a 504)"
	rm -r "$(host_dir a)$CTS/tmp"
	mkdir "$(area a 504)/root.hdd"
	echo '<!DOCTYPE x [' >"$(area a 504)/root.hdd/DiskDescriptor.xml"
	cat >"$(conf_of a 504)" <<-'END'
	VE_LAYOUT=simfs
	VE_ROOT="/vz/root/$VEID"
	VE_PRIVATE="/vz/private/$VEID"
	END
	mig 504
	want 0
	assert_file "$(area b 504)/root.hdd/DiskDescriptor.xml"
	nothing_left
}

# counter_init - prints an init that counts into a file.
counter_init()
{
	cat >"$TEST_TMP/init" <<-'END'
	#!/bin/sh
	n=0
	[ ! -e /srv/all ] || while read -r l; do n=$l; done </srv/all
	echo "start $n" >>/srv/log
	while :; do
		n=$((n + 1))
		echo "$n" >>/srv/all
		[ $((n % 50)) != 0 ] || sleep 0.01
	done
	END
	echo "$TEST_TMP/init"
}

counts()
{
	[ "$(on "$1" sh -c "wc -l <'/vz/root/$2/srv/all'")" -gt "$3" ]
}

# A container that writes to its file system all the time: it goes on where it
# was stopped.
test_running()
{
	local at
	ploop_make 505 "$(counter_init)"
	on a vzctl start 505 >/dev/null
	wait_until 20 counts a 505 1000
	mig 505
	want 0
	vz_is b 505 "mounted running"
	nothing_left
	at=$(on b sed -n 's/^start //p' /vz/root/505/srv/log | tail -n 1)
	[ "$at" -gt 1000 ] || fail "started at $at"
	wait_until 20 counts b 505 $((at + 100))
	# In a row, none missing and none twice, where the one ended and the
	# other began.
	on b head -n $((at + 100)) /vz/root/505/srv/all | cmp - <(seq $((at + 100)))
	on b vzctl stop 505 >/dev/null
	on b fsck.ext4 -fn "/vz/private/505/root.hdd/root.hdd.$TOP" >"$TEST_TMP/fsck" 2>&1 ||
		fail "$(cat "$TEST_TMP/fsck")"
}

# The dump lies beside the private area, and the image is nobody's meanwhile.
test_suspended()
{
	local img=root.hdd/root.hdd.$TOP sum
	ploop_make 530
	on a vzctl start 530 >/dev/null
	on a vzctl suspend 530 >/dev/null
	vz_is a 530 "unmounted down suspended"
	sum=$(sha256sum <"$(area a 530)/$img")
	mig 530
	want 0
	vz_is b 530 "unmounted down suspended"
	assert_eq "$sum" "$(sha256sum <"$(area b 530)/$img")"
	assert_no_file "$(area b 530)/.vzmigrate-luggage"
	assert_no_file "$(host_dir a)/vz/dump/Dump.530"
	nothing_left
	on b vzctl resume 530 >/dev/null
	vz_is b 530 "mounted running"
	on b vzctl stop 530 --fast >/dev/null
}

test_mounted()
{
	ploop_make 506
	on a vzctl mount 506 >/dev/null
	vz_is a 506 "mounted down"
	mig 506
	want 0
	vz_is b 506 "mounted down"
	on b test -x /vz/root/506/sbin/init
	on b vzctl umount 506 >/dev/null
	nothing_left
}

# poker FILE OFFSET - makes a program on a and prints its name. It writes its argument there,
# on the disk itself: no time of the file is moved, and the page cache goes on
# saying what it did. So does the kernel for a ploop device.
poker()
{
	local at
	on a sync
	at=$(on a filefrag -e -b4096 "$1" | awk -v want=$(($2 / 4096)) '
		$1 ~ /^[0-9]+:$/ {
			gsub(/[.:]+/, " "); first = $2; last = $3; at = $4
			if (want >= first && want <= last)
				print at + want - first
		}')
	[ -n "$at" ] || fail "where $1 is on the disk is not known"
	cat >"$(host_dir a)/root/poke$at" <<-END
	#!/bin/sh
	set -e
	dev=\$(findmnt -n -o SOURCE /)
	dd if=\$dev of=/root/block bs=4096 count=1 skip=$at iflag=direct status=none
	printf '%s' "\$1" | dd of=/root/block conv=notrunc status=none
	dd if=/root/block of=\$dev bs=4096 seek=$at oflag=direct conv=notrunc status=none
	END
	chmod 755 "$(host_dir a)/root/poke$at"
	echo "/root/poke$at"
}

# as_read FILE OFFSET N - through the page cache.
as_read()
{
	dd if="$1" bs=1 skip="$2" count="$3" status=none
}

# shows_nothing FILE PROGRAM OFFSET - neither the times nor the page cache tell
# what that program writes there.
shows_nothing()
{
	local f was
	f=$(area a 507)/$1
	was=$(stat -c '%y %z' "$f")
	on a "$2" first
	assert_eq "$was" "$(stat -c '%y %z' "$f")"
	[ "$(as_read "$f" "$3" 5)" != first ] || fail "the page cache knows"
}

# What is written between the last pass before the stop and the final one: to
# the root disk, which is mounted; to another, of which the model makes no
# device, so that nothing else moves its times; and to a snapshot's image, into
# which the top one is merged, as the descriptor shows then.
test_written_without_trace()
{
	local top=root.hdd/root.hdd.$TOP more=disk2.hdd/data real f
	local base=root.hdd/root.hdd poke_top poke_more poke_base
	local off=$((56 * MiB + 4096)) base_off=$((100 * MiB + 4096))
	ploop_make 507
	mkdir "$(area a 507)/disk2.hdd"
	head -c $MiB /dev/urandom >"$(area a 507)/$more"
	sed "s,root.hdd.$TOP,data," "$(area a 507)/root.hdd/DiskDescriptor.xml" |
		sed '/<Image>/{N;/'"$BASE"'/{N;N;N;d}}' \
			>"$(area a 507)/disk2.hdd/DiskDescriptor.xml"
	echo "DISK=\"uuid={1},image=root.hdd;uuid={2},image=disk2.hdd\"" \
		>>"$(conf_of a 507)"
	on a vzctl start 507 >/dev/null
	on a cat "/vz/private/507/$top" "/vz/private/507/$more" \
		"/vz/private/507/$base" >/dev/null
	poke_top=$(poker "/vz/private/507/$top" $off)
	poke_more=$(poker "/vz/private/507/$more" 65536)
	poke_base=$(poker "/vz/private/507/$base" $base_off)
	# Or this test would show nothing.
	shows_nothing "$base" "$poke_base" $base_off
	shows_nothing "$top" "$poke_top" $off
	shows_nothing "$more" "$poke_more" 65536
	# When it is stopped the kernel writes once more.
	real=$RUN_TMP/bin/vzctl
	cat >"$(host_dir a)/root/shim/vzctl" <<-END
	#!/bin/sh
	case "\$*" in
	*stop*)
		$real "\$@"
		rc=\$?
		$poke_top 'at the end'
		$poke_more 'there, too'
		$poke_base 'merged'
		echo '<!-- -->' >>/vz/private/507/root.hdd/DiskDescriptor.xml
		exit \$rc
		;;
	esac
	exec $real "\$@"
	END
	chmod 755 "$(host_dir a)/root/shim/vzctl"
	mig --nostart -r no 507
	rm "$(host_dir a)/root/shim/vzctl"
	want 0
	assert_eq 'at the end' "$(as_read "$(area b 507)/$top" $off 10)"
	assert_eq 'there, too' "$(as_read "$(area b 507)/$more" 65536 10)"
	assert_eq 'merged' "$(as_read "$(area b 507)/$base" $base_off 6)"
	for f in "$top" "$more" "$base"; do
		dd if="$(area a 507)/$f" bs=1M iflag=direct status=none |
			cmp - "$(area b 507)/$f"
	done
	# It stays sparse through the passes.
	sparse_as "$(area a 507)" "$(area b 507)"
	assert_match 'passes=[3-9]' "$OUT"
	rm -rf "$(area a 507)" "$(conf_of a 507)".*
	nothing_left
	on b vzctl start 507 >/dev/null
	on b vzctl stop 507 >/dev/null
}

test_no_ploop_there()
{
	ploop_make 518
	cp -a "$(area a 518)" "$TEST_TMP/was"
	mv "$(host_dir b)/root/shim/ploop" "$TEST_TMP/ploop"
	mig 518
	want 16
	assert_match '^vzmigrate: root@b: the container.s file system is a ploop image, and the command ploop is not installed on the destination' "$ERR"
	mig --check-only 518
	mv "$TEST_TMP/ploop" "$(host_dir b)/root/shim/ploop"
	want 16
	treecmp_ok "$(area a 518)" "$TEST_TMP/was"
	assert_file "$(conf_of a 518)"
	assert_no_file "$(area b 518)"
	nothing_left
	mig --check-only 518
	want 0
}

# An absolute path in the descriptor, and another VE_PRIVATE there.
test_absolute_paths()
{
	local conf d
	ploop_make 509
	descriptor 509 "$(image "$BASE" /vz/private/509/root.hdd/root.hdd
		image "$TOP" "/vz/private/509/root.hdd/root.hdd.$TOP")"
	cp -a "$(area a 509)" "$TEST_TMP/was"
	conf=$(host_dir b)/etc/vz/vz.conf
	cp "$conf" "$TEST_TMP/vz.conf"
	# The same place: nothing is touched.
	mig -r no 509
	want 0
	treecmp_ok "$TEST_TMP/was" "$(area b 509)"
	rm -rf "$(area b 509)" "$(conf_of b 509)"
	mv "$(conf_of a 509).migrated" "$(conf_of a 509)"
	rm "$(conf_of a 509).migrated.session"
	sed -i "s,^VE_PRIVATE=.*,VE_PRIVATE=/vz/other/ct/\$VEID," "$conf"
	sed -i /VE_PRIVATE/d "$(conf_of a 509)"
	mig 509
	want 0
	d=$(host_dir b)/vz/other/ct/509
	assert_match '^<File>root.hdd</File>$' "$d/root.hdd/DiskDescriptor.xml"
	assert_match "^<File>root.hdd.$TOP</File>\$" \
		"$d/root.hdd/DiskDescriptor.xml"
	assert_no_match '/vz/' "$d/root.hdd/DiskDescriptor.xml"
	# With the images where it says they are; all else is as it was.
	on b vzctl start 509 >/dev/null
	vz_is b 509 "mounted running"
	on b vzctl stop 509 >/dev/null
	cp "$TEST_TMP/vz.conf" "$conf"
	sed 's,<File>,&/vz/private/509/root.hdd/,' \
		"$d/root.hdd/DiskDescriptor.xml" |
		cmp - "$TEST_TMP/was/root.hdd/DiskDescriptor.xml"
	cmp "$d/root.hdd/root.hdd" "$TEST_TMP/was/root.hdd/root.hdd"
	nothing_left
}

test_outside_is_refused()
{
	ploop_make 510
	descriptor 510 "$(image "$BASE" /vz/pool/golden
		image "$TOP" "root.hdd.$TOP")"
	mig 510
	want 68
	assert_match 'names the image /vz/pool/golden, which is not in the private area' "$ERR"
	descriptor 510 "$(image "$BASE" root.hdd; image "$TOP" "root.hdd.$TOP")"
	mv "$(area a 510)/root.hdd" "$(host_dir a)/srv/"
	ln -s /srv/root.hdd "$(area a 510)/root.hdd"
	mig 510
	want 68
	assert_match 'a disk must be in the private area itself: root.hdd: a symbolic link is in the way' "$ERR"
	rm "$(area a 510)/root.hdd"
	mv "$(host_dir a)/srv/root.hdd" "$(area a 510)/"
	echo 'DISK="uuid={1},device=/dev/sdb1,mnt=/data"' >>"$(conf_of a 510)"
	mig 510
	want 68
	assert_match 'DISK names /dev/sdb1' "$ERR"
	assert_no_file "$(area b 510)"
	nothing_left
}
