# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# OpenVZ's containers, there and back again: of vzctl 3.0, 4.x and OpenVZ 7,
# stopped, running and suspended, with what belongs to them. vzctl and vzquota
# are models (tests/tools).

# shellcheck disable=SC2034,SC2016 # read by tests/run; $VEID
TEST_TIMEOUT=300

# shellcheck source=SCRIPTDIR/safety.sh
. "$VZ_TOP/tests/e2e/safety.sh"

UUID=5e1c9a8b-3c1f-4d5e-9f10-0a1b2c3d4e5f

setup_file()
{
	openvz_up
	trust_back
}

# b may log in on a, too.
trust_back()
{
	local t
	cat "$B/root/.ssh/id_ed25519.pub" >>"$A/root/.ssh/authorized_keys"
	chmod 600 "$A/root/.ssh/authorized_keys"
	for t in ed25519 rsa ecdsa; do
		echo "a $(cut -d' ' -f1,2 "$A/etc/ssh/ssh_host_${t}_key.pub")"
	done >>"$B/root/.ssh/known_hosts"
}

# versions A B [criu] - which vzctl the hosts have.
versions()
{
	printf '%s\n' "$1" ${3:+"$3"} >"$A/etc/vz/vzctl-version"
	printf '%s\n' "$2" ${3:+"$3"} >"$B/etc/vz/vzctl-version"
}

# make CT [LINE ...] - a container on a that can run, with these lines in its
# configuration.
make()
{
	local r=$A/vz/private/$1 ct=$1
	shift
	rm -rf "$A"/etc/vz/conf/"$ct"* "$B"/etc/vz/conf/"$ct"* "$r" \
		"$B/vz/private/$ct"
	lxc_make a tmp
	mv "$A$CTS/tmp/rootfs" "$r"
	rm -r "$A$CTS/tmp"
	mkdir -p "$r/srv"
	echo "of $ct" >"$r/srv/note"
	touch -d @1000000000 "$r"
	printf '%s\n' 'VE_ROOT="/vz/root/$VEID"' \
		'VE_PRIVATE="/vz/private/$VEID"' 'VE_LAYOUT="simfs"' "$@" \
		>"$A/etc/vz/conf/$ct.conf"
}

# move FROM TO CT [OPTION ...]
move()
{
	local from=$1 to=$2 ct=$3
	shift 3
	# shellcheck disable=SC2086 # several settings
	assert_exit 0 on "$from" env $TEST_QUICK_ENV vzmigrate "$@" "$to" "$ct"
}

life()
{
	on "$1" cat "/run/vzctl-standin/$2.life"
}

# stop HOST CT - so that nothing keeps the hosts from going.
stop()
{
	on "$1" vzctl stop "$2" --fast >/dev/null
}

# found HOST WORD ... - what there is of a container with these words.
found()
{
	local d w
	d=$(host_dir "$1")
	shift
	for w; do
		find "$d/etc/vz" "$d/vz" -maxdepth 2 -name "*$w*"
	done
}

# --- there and back again -----------------------------------------------------

test_stopped_there_and_back()
{
	versions 4.11.1 4.9.4
	make 401 '# customer  17' 'NAME="customer 17"' 'ONBOOT="yes"' \
		'HOSTNAME="$(touch /tmp/executed-by-vzmigrate)"' \
		'. /etc/vz/more.conf' 'DESCRIPTION="a \"quoted\" word"'
	ln -s /etc/vz/conf/401.conf "$A/etc/vz/names/customer 17"
	for f in start stop mount umount premount postumount; do
		echo "touch /tmp/executed-by-vzmigrate # $f" \
			>"$A/etc/vz/conf/401.$f"
	done
	chmod 750 "$A/etc/vz/conf/401.mount"
	cp -a "$A/vz/private/401" "$TEST_TMP/tree"
	cp -a "$A/etc/vz/conf" "$TEST_TMP/conf"
	rm -f /tmp/executed-by-vzmigrate
	move a b 'customer 17'
	vz_status b 'customer 17' 'CTID 401 exist unmounted down'
	vz_status a 401 'CTID 401 deleted unmounted down'
	treecmp_ok "$TEST_TMP/tree" "$B/vz/private/401"
	# Its place is this host's; all else is as it was, unread lines too.
	assert_eq "$(sed '/^VE_ROOT\|^VE_PRIVATE/d' "$TEST_TMP/conf/401.conf")" \
		"$(cat "$B/etc/vz/conf/401.conf")"
	for f in start stop mount umount premount postumount; do
		cmp "$TEST_TMP/conf/401.$f" "$B/etc/vz/conf/401.$f"
	done
	assert_eq 750 "$(stat -c %a "$B/etc/vz/conf/401.mount")"
	assert_eq '' "$(found a 401 customer)"
	nothing_left
	move b a 401
	treecmp_ok "$TEST_TMP/tree" "$A/vz/private/401"
	vz_status a 'customer 17' 'CTID 401 exist unmounted down'
	assert_eq '' "$(found b 401 customer)"
	assert_no_file /tmp/executed-by-vzmigrate
	rm "$A/etc/vz/names/customer 17" "$A"/etc/vz/conf/401.*
}

# running_there_and_back A B HEAD - with these versions of vzctl.
running_there_and_back()
{
	local first f
	versions "$1" "$2"
	make 402 'NAME=web'
	ln -sfn /etc/vz/conf/402.conf "$A/etc/vz/names/web"
	# vzctl runs them, each where it is.
	for f in premount mount umount postumount; do
		printf '#!/bin/sh\necho "%s $VEID" >>/run/scripts\n' $f \
			>"$A/etc/vz/conf/402.$f"
		chmod 755 "$A/etc/vz/conf/402.$f"
	done
	for f in start stop; do
		echo "echo $f >>/srv/scripts" >"$A/etc/vz/conf/402.$f"
	done
	rm -f "$A/run/scripts" "$B/run/scripts"
	on a vzctl start web >/dev/null
	first=$(life a 402)
	move a b web
	vz_status b 402 'CTID 402 exist mounted running'
	vz_status a 402 'CTID 402 deleted unmounted down'
	assert_eq 'premount 402 mount 402 umount 402 postumount 402' \
		"$(on a cat /run/scripts | xargs)"
	assert_eq 'premount 402 mount 402' "$(on b cat /run/scripts | xargs)"
	assert_eq 'start stop start' "$(xargs <"$B/vz/private/402/srv/scripts")"
	[ "$first" != "$(life b 402)" ] || fail "the same life on b"
	move b a 402
	vz_status a web 'CTID 402 exist mounted running'
	vz_status b 402 'CTID 402 deleted unmounted down'
	assert_eq 'of 402' "$(cat "$A/vz/private/402/srv/note")"
	nothing_left
	stop a 402
	rm -rf "$A"/etc/vz/conf/402.* "$A/etc/vz/names/web"
}

test_running_there_and_back() { running_there_and_back 4.11.1 4.11.1; }
test_running_vzctl3() { running_there_and_back 3.0.30 3.0.24; }
test_running_from_3_to_4() { running_there_and_back 3.0.30 4.11.1; }

# --- suspended ----------------------------------------------------------------

# suspended_there_and_back CT [criu]
suspended_there_and_back()
{
	local first kind=file
	versions 4.11.1 4.11.1 "${2:-}"
	make "$1"
	on a vzctl start "$1" >/dev/null
	first=$(life a "$1")
	on a vzctl suspend "$1" >/dev/null
	vz_status a "$1" "CTID $1 exist unmounted down suspended"
	cp -a "$A/vz/private/$1" "$TEST_TMP/tree.$1"
	cp -a "$A/vz/dump/Dump.$1" "$TEST_TMP/dump.$1"
	# It is no less suspended for being left stopped.
	move a b "$1" --nostart
	vz_status b "$1" "CTID $1 exist unmounted down suspended"
	vz_status a "$1" "CTID $1 deleted unmounted down"
	treecmp_ok "$TEST_TMP/tree.$1" "$B/vz/private/$1"
	diff -r "$TEST_TMP/dump.$1" "$B/vz/dump/Dump.$1"
	assert_no_file "$A/vz/dump/Dump.$1"
	nothing_left
	move b a "$1"
	vz_status a "$1" "CTID $1 exist unmounted down suspended"
	treecmp_ok "$TEST_TMP/tree.$1" "$A/vz/private/$1"
	assert_no_file "$B/vz/dump/Dump.$1"
	on a vzctl resume "$1" >/dev/null
	assert_eq "$first" "$(life a "$1")" "its life"
	stop a "$1"
	nothing_left
	rm -rf "$A"/etc/vz/conf/"$1".*
}

test_suspended_there_and_back() { suspended_there_and_back 403; }
test_suspended_by_criu() { suspended_there_and_back 404 criu; }

# Under another id, with places that differ and are symlinks, and DUMPDIR on
# another file system there.
test_places_that_differ()
{
	versions 4.11.1 4.11.1
	make 405 'VE_PRIVATE="/vz/private/405"'
	on a vzctl start 405 >/dev/null
	on a vzctl suspend 405 >/dev/null
	mkdir -p "$A/data" "$B/store/private" "$B/dumps" "$B/locks"
	mv "$A/vz/private/405" "$A/data/ct405"
	ln -s /data/ct405 "$A/vz/private/405"
	cp "$B/etc/vz/vz.conf" "$TEST_TMP/vz.conf"
	on b mount -t tmpfs x /dumps
	on b ln -s /dumps /dumplink
	on b ln -s /store /link
	cat >"$B/etc/vz/vz.conf" <<-'END'
	LOCKDIR="/locks"
	DUMPDIR="/dumplink/deep"	# made when it is needed
	VE_ROOT=/vz/root/$VEID
	VE_PRIVATE=/link/private/${VEID}
	END
	move a b 405:505
	vz_status b 505 'CTID 505 exist unmounted down suspended'
	assert_file "$B/store/private/505/srv/note"
	assert_eq 600 "$(on b stat -c %a /dumps/deep/Dump.505)"
	assert_no_file "$A/data/ct405"
	assert_no_file "$A/vz/private/405"
	assert_eq '' "$(ls "$B/locks")"
	move b a 505:405
	vz_status a 405 'CTID 405 exist unmounted down suspended'
	assert_eq '' "$(on b ls /dumps/deep)"
	on b umount /dumps
	cp "$TEST_TMP/vz.conf" "$B/etc/vz/vz.conf"
	rm -rf "$B/store" "$B/link" "$B/dumplink" "$B"/etc/vz/conf/505* \
		"$A"/etc/vz/conf/405* "$A"/vz/dump/*
	nothing_left
}

# --- quota --------------------------------------------------------------------

test_quota()
{
	local q='VZQUOTA_DIR=/var/vzquota'
	versions 4.11.1 4.11.1
	for t in vzquota vzdqdump vzdqload; do
		ln -sf "$VZ_TOP/tests/tools/vzquota-standin" "$RUN_TMP/bin/$t"
	done
	make 406 'DISKSPACE="1G:1.1G"' 'DISKINODES="200000:220000"' \
		'QUOTATIME="600"' 'QUOTAUGIDLIMIT="100"'
	on a vzctl start 406 >/dev/null
	on a vzquota setlimit2 406 -u 1000 500 600 70 80
	on a vzquota setlimit2 406 -g 33 1 2 3 4
	move a b 406
	vz_status b 406 'CTID 406 exist mounted running'
	on b vzquota show 406 >"$TEST_TMP/quota"
	assert_match '^on=1$' "$TEST_TMP/quota"
	assert_match '^bsoft=1048576$' "$TEST_TMP/quota"
	assert_match '^ugids=100$' "$TEST_TMP/quota"
	assert_eq '1000 0 500 600 70 80 0 0 33 1 1 2 3 4 0 0' \
		"$(sed -n 's/^ugid://p' "$TEST_TMP/quota" | xargs)"
	assert_exit 11 on a vzquota show 406
	assert_no_file "$B/vz/private/406/.vzmigrate-luggage"
	stop b 406
	move b a 406
	assert_eq '1000 0 500 600 70 80 0 0 33 1 1 2 3 4 0 0' \
		"$(on a vzquota show 406 | sed -n 's/^ugid://p' | xargs)"
	nothing_left
	# What fails there leaves the container here, with its quota.
	rm "$RUN_TMP/bin/vzdqload"
	printf '#!/bin/sh\nexit 4\n' >"$RUN_TMP/bin/vzdqload"
	chmod 755 "$RUN_TMP/bin/vzdqload"
	on a vzctl start 406 >/dev/null
	mig 406
	want 13
	assert_match 'vzdqload 406 failed with code 4' "$ERR"
	vz_status a 406 'CTID 406 exist mounted running'
	assert_eq '1000 0 500 600 70 80 0 0 33 1 1 2 3 4 0 0' \
		"$(on a vzquota show 406 | sed -n 's/^ugid://p' | xargs)"
	nothing_left
	stop a 406
	rm -f "$RUN_TMP"/bin/vzquota "$RUN_TMP"/bin/vzdq*
	rm -rf "$A"/etc/vz/conf/406.*
}

# --- OpenVZ 7 -----------------------------------------------------------------

# make7 UUID - on a.
make7()
{
	local p=$A/vz/private/$1
	make "$1"
	mkdir "$p.new"
	mv "$p" "$p.new/fs"
	mv "$p.new" "$p"
	mkdir "$p/dump" "$p/scripts"
	ln -s 5 "$p/.ve.layout"
	printf '%s\n' 'VE_ROOT="/vz/root/$VEID"' 'NAME="seven"' \
		'ONBOOT="auto"' >"$p/ve.conf"
	rm "$A/etc/vz/conf/$1.conf"
	on a vzctl register "/vz/private/$1" "$1" >/dev/null
}

test_openvz7_there_and_back()
{
	local u=$UUID first
	versions 7.0.194 7.0.220
	make7 $u
	on a vzctl start $u >/dev/null
	move a b "{${u^^}}"
	vz_status b $u "VEID $u exist mounted running"
	vz_status a $u "VEID $u deleted unmounted down"
	assert_eq "/vz/private/$u/ve.conf" \
		"$(readlink "$B/etc/vz/conf/$u.conf")"
	assert_eq '' "$(found a $u seven)"
	nothing_left
	first=$(life b $u)
	on b vzctl suspend seven >/dev/null
	move b a seven
	vz_status a seven "VEID $u exist unmounted suspended"
	on a vzctl start seven >/dev/null
	assert_eq "$first" "$(life a $u)" "its life"
	nothing_left
	stop a $u
	# What it cannot run on is found before anything is done.
	versions 7.0.194 4.11.1
	mig $u
	want 68
	assert_match 'layout of OpenVZ 7, which vzctl 4 on the destination' \
		"$ERR"
	vz_status a $u "VEID $u exist unmounted down"
	nothing_left
	on a vzctl unregister $u >/dev/null
	rm -rf "$A/vz/private/$u"
}
