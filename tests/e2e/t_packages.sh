# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The packages: what they say agrees with each other and with what is
# installed; they build from what `make dist` carries, and a container moves
# with what was installed from them. They are installed over a copy of this
# machine's root that only the test sees.
# run: no-asan

# shellcheck disable=SC2034,SC2164,SC2016 # read by tests/run, which sets -e
TEST_TIMEOUT=900
SPEC=$VZ_TOP/packaging/rpm/vzmigrate.spec

version()
{
	sed -n 's/^AC_INIT(\[vzmigrate\], \[\(.*\)\])$/\1/p' \
		"$VZ_TOP/configure.ac"
}

test_versions_agree()
{
	local v
	v=$(version)
	[ -n "$v" ] || fail "configure.ac has no version"
	assert_eq "$v" "$(sed -n '1s/^vzmigrate (\(.*\)) .*/\1/p' \
		"$VZ_TOP/debian/changelog")" debian/changelog
	assert_eq "$v" "$(sed -n 's/^Version: *//p' "$SPEC")" "the spec"
	assert_eq "$v-1" "$(sed -n '/^%changelog/{n;s/.* - //p}' "$SPEC")" \
		"the spec's changelog"
	assert_eq "$v" "$(sed -n '3p' "$VZ_TOP/NEWS")" NEWS
	assert_eq "vzmigrate $v" \
		"$("$VZ_BUILDDIR/vzmigrate/vzmigrate" --version)"
}

# What `make install` puts where, below the prefix, beginning with usr/.
installed()
{
	make -s -C "$VZ_BUILDDIR" install DESTDIR="$TEST_TMP/stage" \
		prefix=/usr >"$TEST_TMP/log" 2>&1 ||
		fail "make install: $(tail -n 5 "$TEST_TMP/log")"
	(cd "$TEST_TMP/stage" && find usr ! -type d | sort)
}

test_file_lists()
{
	local want
	command -v make >/dev/null || skip "no make"
	want=$(installed)
	assert_match '^usr/sbin/vzmigrate-cipher-probe$' <(echo "$want")
	assert_eq vzmigrate \
		"$(readlink "$TEST_TMP/stage/usr/sbin/vzmigrate-cipher-probe")"
	assert_eq "$want" "$(sed 's,vendor-completions,site-functions,' \
		"$VZ_TOP"/debian/*.install | sort)" "debian/*.install"
	# The manual of vzmigrate-cipher-probe is a link that packages make.
	assert_eq "$want" "$(sed -n '/^%files/,/^%changelog/{
		s,%{_sbindir},usr/sbin,; s,%{_bindir},usr/bin,
		s,%{_mandir},usr/share/man,; s,\.8\*$,.8,
		s,%{bash_completions_dir},usr/share/bash-completion/completions,
		s,%{zsh_completions_dir},usr/share/zsh/site-functions,
		/cipher-probe\.8/d; /^usr/p }' "$SPEC" | sort)" "the spec"
	# And it can be removed again, and that program be had alone.
	make -s -C "$VZ_BUILDDIR" uninstall DESTDIR="$TEST_TMP/stage" \
		prefix=/usr >/dev/null 2>&1
	assert_eq '' "$(cd "$TEST_TMP/stage" && find . ! -type d)" "left"
	make -s -C "$VZ_BUILDDIR" install-cipher-probe prefix=/usr \
		DESTDIR="$TEST_TMP/alone" >/dev/null 2>&1
	assert_eq ./usr/sbin/vzmigrate-cipher-probe \
		"$(cd "$TEST_TMP/alone" && find . ! -type d)"
	assert_exit 1 "$TEST_TMP/alone/usr/sbin/vzmigrate-cipher-probe" h 1
	assert_match '--print is for' "$ERR"
}

# Every file of the repository is in what is distributed.
test_dist_is_complete()
{
	local f bad
	git -C "$VZ_TOP" rev-parse --show-toplevel >"$TEST_TMP/git" 2>&1 ||
		skip "no repository here: $(head -n 1 "$TEST_TMP/git")"
	sed 's/^[[:space:]]*//; s/ *\\$//' "$VZ_TOP/Makefile.am" |
		tr ' ' '\n' | sort -u >"$TEST_TMP/named"
	bad=$(git -C "$VZ_TOP" ls-files | grep -vxE \
		'\.gitignore|Makefile\.am|configure\.ac|tests/fuzz/corpus/.*' |
		sort | comm -23 - "$TEST_TMP/named")
	assert_eq '' "$bad" "not in Makefile.am"
	while read -r f; do
		assert_file "$VZ_TOP/$f"
	done < <(cat "$VZ_TOP"/debian/*.docs)
}

test_control()
{
	local f=$VZ_TOP/debian/control
	assert_match '^Depends: .*libssh-4 \(>= 0\.10\.6-0\+deb12u3\)' "$f"
	assert_no_match 'libssh' <(sed -n '/^Package: vzmigrate-agent/,$p' "$f")
	assert_match '^Replaces: vzctl' "$f"
	assert_match '^Conflicts: *vzctl' "$SPEC"
	bash -n "$VZ_TOP/debian/tests/move"
}

# --- built and installed ----------------------------------------------------

# dist - what is distributed, in $DIST; made once, compressed a little.
dist()
{
	DIST=$RUN_TMP/vzmigrate-$(version).tar.xz
	[ ! -e "$DIST" ] || return 0
	make -s -C "$VZ_BUILDDIR" dist XZ_OPT=-1 >"$TEST_TMP/log" 2>&1 ||
		fail "make dist: $(tail -n 5 "$TEST_TMP/log")"
	mv "$VZ_BUILDDIR/${DIST##*/}" "$DIST"
}

# build deb|rpm - into $TEST_TMP/out.
build()
{
	dist
	DEB_BUILD_OPTIONS='parallel=2' "$VZ_TOP/packaging/build" --quick "$1" \
		"$DIST" "$TEST_TMP/out" >"$TEST_TMP/log" 2>&1 || {
		tail -n 30 "$TEST_TMP/log" >&2
		fail "the packages do not build"
	}
}

# in_a_root CMD ... - runs CMD with a root of its own: what it changes outside
# /tmp, /dev and the like is gone afterwards.
in_a_root()
{
	unshare -m --propagation private bash -c '
		set -eu
		# Not below /tmp, which is shown inside as well.
		r=/mnt top=$1
		shift
		mount -t tmpfs root "$r"
		mkdir "$r/upper" "$r/work" "$r/new"
		mount -t overlay root -o \
			"lowerdir=/,upperdir=$r/upper,workdir=$r/work" "$r/new"
		for d in /proc /sys /dev /tmp "$top"; do
			mkdir -p "$r/new$d"
			mount --rbind "$d" "$r/new$d"
		done
		mkdir -p "$r/new/run/old-root"
		cd "$r/new"
		pivot_root . run/old-root
		umount -l run/old-root
		exec chroot . "$@"' bash "$VZ_TOP" "$@"
}

# moves SCRIPT - the test of the Debian package, from the sources that were
# distributed, as the machine is after SCRIPT.
moves()
{
	hosts_possible || skip "no throw-away hosts here: $HOSTS_WHY"
	mkdir -p "$TEST_TMP/src"
	tar -C "$TEST_TMP/src" --strip-components=1 -xJf "$DIST"
	assert_exit 0 in_a_root sh -ec "$1
		cd /
		exec env -u VZ_TOP -u VZ_BUILDDIR -u HOSTS_PATH \
			$TEST_TMP/src/debian/tests/move"
	assert_match '^vzmigrate: moved ' "$OUT"
	assert_match '^move: OK$' "$OUT"
	assert_no_file /usr/bin/vzmigrate-agent
}

not_on_this_machine()
{
	local f
	for f in /usr/sbin/vzmigrate /usr/bin/vzmigrate-agent; do
		[ ! -e $f ] || skip "$f is installed on this machine"
	done
}

# fake_vzctl - a package that has a vzmigrate of its own.
fake_vzctl()
{
	local d=$TEST_TMP/vzctl
	mkdir -p "$d/DEBIAN" "$d/usr/sbin" "$d/usr/share/man/man8"
	echo classic | tee "$d/usr/sbin/vzmigrate" "$d/usr/sbin/vzctl" |
		gzip -n >"$d/usr/share/man/man8/vzmigrate.8.gz"
	printf '%s\n' 'Package: vzctl' 'Version: 4.11.1-1' \
		'Architecture: all' 'Maintainer: Nobody <nobody@example.org>' \
		'Description: for the test' >"$d/DEBIAN/control"
	dpkg-deb --root-owner-group -b "$d" "$TEST_TMP/vzctl.deb" >/dev/null
}

test_deb()
{
	local p
	for p in dpkg-buildpackage dh lintian; do
		command -v $p >/dev/null || skip "no $p"
	done
	not_on_this_machine
	build deb
	cd "$TEST_TMP/out"
	lintian --allow-root --fail-on error,warning ./*.changes \
		>"$TEST_TMP/lintian" 2>&1 || {
		cat "$TEST_TMP/lintian" >&2
		fail "lintian is not content"
	}
	assert_match 'libssh-4 \(>= 0\.10\.6-0\+deb12u3\)' \
		<(dpkg-deb -f "vzmigrate_$(version)_"*.deb Depends)
	assert_no_match libssh \
		<(dpkg-deb -f vzmigrate-agent_*.deb Depends)
	fake_vzctl
	# Installed over the classic, which goes on without its vzmigrate; an
	# update of it does not bring that back.
	moves "dpkg -i $TEST_TMP/vzctl.deb $TEST_TMP/out/vzmigrate_*.deb \
			$TEST_TMP/out/vzmigrate-agent_*.deb
		dpkg -i $TEST_TMP/vzctl.deb
		grep -qx classic /usr/sbin/vzctl
		vzmigrate --version
		test -s /usr/share/man/man8/vzmigrate-agent.8.gz
		test -f /usr/share/doc/vzmigrate/patches/vzctl-4.3-to-4.7/series
		dpkg -V vzmigrate vzmigrate-agent"
	assert_match "^vzmigrate $(version)\$" "$OUT"
}

test_rpm()
{
	local p
	for p in rpmbuild rpm2cpio cpio; do
		command -v $p >/dev/null || skip "no $p"
	done
	not_on_this_machine
	build rpm
	cd "$TEST_TMP/out"
	assert_match '^libssh >= 0\.11\.5$' \
		<(rpm -qp --requires "vzmigrate-$(version)-"*64.rpm 2>&1)
	assert_no_match libssh <(rpm -qp --requires vzmigrate-agent-*.rpm 2>&1)
	assert_match '/patches/vzmigrate-7/series$' \
		<(rpm -qpl "vzmigrate-$(version)-"*64.rpm 2>&1)
	moves "cd /
		for p in $TEST_TMP/out/vzmigrate-*.rpm; do
			case \$p in *.src.rpm) continue ;; esac
			rpm2cpio \$p | cpio -idu --quiet
		done
		vzmigrate --version"
	assert_match "^vzmigrate $(version)\$" "$OUT"
}
