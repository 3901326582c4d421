# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# S4: either process dies at every fault point, one after another; the same
# command again moves the container, and at no time two hosts could run it.
# run: asan-only

# shellcheck disable=SC2034,SC2164 # read by tests/run, which sets -e
TEST_TIMEOUT=600
TOOLS=$VZ_BUILDDIR/tests/tools
POINTS_MAX=150

setup_file()
{
	hosts_possible || skip "no throw-away hosts here: $HOSTS_WHY"
	# Programs of the hosts' own; the directory goes with the run's.
	HOSTS_PATH=$(mktemp -d "$TEST_TMP/bin.XXXXXX")
	chmod 755 "$HOSTS_PATH"
	ln -s "$VZ_TOP/tests/tools/vzctl-standin" "$HOSTS_PATH/vzctl"
	hosts_up a b
	A=$(host_dir a) B=$(host_dir b)
	for d in "$A" "$B"; do
		mkdir -p "$d"/etc/vz/conf "$d"/etc/vz/names "$d"/vz/private \
			"$d"/vz/root "$d"/var/lib/vz/lock "$d"/srv
		cat >"$d/etc/vz/vz.conf" <<-'END'
		VIRTUOZZO=yes
		LOCKDIR=/var/lib/vz/lock
		DUMPDIR=/vz/dump
		VE_ROOT=/vz/root/$VEID
		VE_PRIVATE=/vz/private/$VEID
		END
	done
}

# Whether the runtime of HOST would start it.
startable_lxc()
{
	[ -e "$(host_dir "$1")/var/lib/lxc/ct/config" ]
}

startable_openvz()
{
	[ -e "$(host_dir "$1")/etc/vz/conf/101.conf" ] &&
		! [ -e "$(host_dir "$1")/var/lib/vz/lock/101.lck" ]
}

make_lxc()
{
	mkdir -p "$A/var/lib/lxc/ct/rootfs/d"
	printf 'lxc.uts.name = ct\nlxc.rootfs.path = dir:/var/lib/lxc/ct/rootfs\n' \
		>"$A/var/lib/lxc/ct/config"
	head -c 200000 /dev/urandom >"$A/var/lib/lxc/ct/rootfs/d/f"
	ln "$A/var/lib/lxc/ct/rootfs/d/f" "$A/var/lib/lxc/ct/rootfs/g"
}

make_openvz()
{
	mkdir -p "$A/vz/private/101/etc" "$A/vz/root/101"
	head -c 200000 /dev/urandom >"$A/vz/private/101/etc/f"
	cat >"$A/etc/vz/conf/101.conf" <<-'END'
	VE_LAYOUT=simfs
	VE_ROOT=/vz/root/$VEID
	VE_PRIVATE=/vz/private/$VEID
	END
}

clean()
{
	rm -rf "$A"/var/lib/lxc/ct* "$B"/var/lib/lxc/ct* \
		"$A"/vz/private/* "$B"/vz/private/* "$A"/etc/vz/conf/* \
		"$B"/etc/vz/conf/* "$A"/var/lib/vzmigrate "$B"/var/lib/vzmigrate \
		"$A"/var/lib/vz/lock/* "$B"/var/lib/vz/lock/* \
		"$A"/var/lib/lxc/.vz* "$B"/var/lib/lxc/.vz* \
		"$B"/vz/private/.vz*
}

# one KIND CT TREE NAME=VALUE [AGENT] - with that fault, then without.
one()
{
	local kind=$1 ct=$2 tree=$3 fault=$4 agent=${5:-} rc=0
	clean
	"make_$kind"
	rm -rf "$TEST_TMP/was"
	cp -a "$A/$tree" "$TEST_TMP/was"
	if [ -n "$agent" ]; then
		on a vzmigrate -r no --agent="env VZMIGRATE_FAULT=$fault \
vzmigrate-agent" b "$ct" >"$TEST_TMP/o" 2>"$TEST_TMP/e" || rc=$?
	else
		on a env "VZMIGRATE_FAULT=$fault" vzmigrate -r no b "$ct" \
			>"$TEST_TMP/o" 2>"$TEST_TMP/e" || rc=$?
	fi
	if "startable_$kind" a && "startable_$kind" b; then
		fail "$fault: both hosts have it"
	fi
	ONE_RC=$rc
	# The rerun.
	if [ "$rc" != 0 ]; then
		rc=0
		on a vzmigrate -r no b "$ct" >"$TEST_TMP/o2" 2>"$TEST_TMP/e2" ||
			rc=$?
		# 10: it had been moved but for the last word.
		[ "$rc" = 0 ] || [ "$rc" = 10 ] || {
			tail -n 5 "$TEST_TMP/e" "$TEST_TMP/e2" >&2
			fail "$fault: the rerun ended with $rc"
		}
	fi
	if "startable_$kind" a || ! "startable_$kind" b; then
		fail "$fault: not moved ($rc): $(cat "$TEST_TMP/e2")"
	fi
	"$TOOLS/treecmp" "$TEST_TMP/was" "$B/$tree" >"$TEST_TMP/cmp" ||
		fail "$fault: differs: $(head "$TEST_TMP/cmp")"
	if ls -d "$B/${tree%/*}"/.vzm* "$B"/var/lib/vzmigrate/reserve/* \
		2>/dev/null | grep .; then
		fail "$fault: left on b"
	fi
}

# all KIND CT TREE HOW [AGENT] - the n-th point for every n, until none is hit.
all()
{
	local n
	for ((n = 1; n < POINTS_MAX; n++)); do
		one "$1" "$2" "$3" "*:$n=$4" "${5:-}"
		[ "$ONE_RC" != 0 ] || break
	done
	[ "$n" -gt 10 ] || fail "only $n points"
	[ "$n" -lt "$POINTS_MAX" ] || fail "no end of points"
	echo "$n points"
}

test_source_killed_lxc()
{
	all lxc ct var/lib/lxc/ct/rootfs kill
}

test_agent_killed_lxc()
{
	all lxc ct var/lib/lxc/ct/rootfs kill agent
}

full_source_killed_openvz()
{
	all openvz 101 vz/private/101 kill
}

full_agent_killed_openvz()
{
	all openvz 101 vz/private/101 kill agent
}

# Failing is not as long: a point that fails late is only a warning, so that
# the number of points is that of a whole run.
full_source_fails_lxc()
{
	local n
	for ((n = 1; n < 60; n++)); do
		one lxc ct var/lib/lxc/ct/rootfs "*:$n=fail"
	done
}
