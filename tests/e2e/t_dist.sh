# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What goes with the program: completion for bash and zsh, and the agent's
# manual, each against what the programs say of themselves.
# run: no-asan

# shellcheck disable=SC2034,SC2164,SC2016,SC2013 # read by tests/run, which sets -e
TEST_TIMEOUT=120
C=$VZ_TOP/completions
PATH=$VZ_BUILDDIR/vzmigrate:$PATH

# What is no host that could be named.
NO_HOST='secret|evil|pattern|not|comment|after|other|\||\*|\?|/'

# A home and an lxcpath with what is to be found, and what is not.
world()
{
	export HOME=$TEST_TMP/home
	mkdir -p "$HOME/.ssh" "$TEST_TMP/lxc"/{web,"db 1",no-config} \
		"$TEST_TMP/dirs/one"
	touch "$TEST_TMP/lxc"/{web,"db 1"}/config
	mkdir -p "$HOME/.ssh/more" "$HOME/own dir"
	cat >"$HOME/.ssh/config" <<-END
	# Host comment
	Include more/*.conf "~/own dir/x" # and no more/other
	  include = $HOME/absolute /nonexistent/x
	END
	# Each in its turn names one that is read already, too.
	printf 'Host inc1\r\nInclude config more/b.conf\r\n' \
		>"$HOME/.ssh/more/a.conf"
	printf 'Host inc2 inc2.*\n' >"$HOME/.ssh/more/b.conf"
	echo 'Host other' >"$HOME/.ssh/more/other"
	echo 'Host inc3' >"$HOME/own dir/x"
	printf 'Include more/a.conf nested\nHost inc4\n' >"$HOME/absolute"
	printf 'Host inc5 ?nc5\nInclude ~/absolute\n' >"$HOME/.ssh/nested"
	cat >>"$HOME/.ssh/config" <<-'END'
	Host alpha alpha.example *.pattern !not
	  HostName 192.0.2.1
	host=gate # after
	Host *
	END
	ssh-keygen -q -t ed25519 -N '' -f "$TEST_TMP/k"
	{
		echo "known,192.0.2.7 $(cut -d' ' -f1,2 "$TEST_TMP/k.pub")"
		echo "[odd]:2222 $(cut -d' ' -f1,2 "$TEST_TMP/k.pub")"
		echo "@revoked evil $(cut -d' ' -f1,2 "$TEST_TMP/k.pub")"
		echo "secret $(cut -d' ' -f1,2 "$TEST_TMP/k.pub")"
	} >"$HOME/.ssh/known_hosts"
	# The last line's name is hashed, the others stay.
	tail -n 1 "$HOME/.ssh/known_hosts" >"$TEST_TMP/h"
	sed -i '$d' "$HOME/.ssh/known_hosts"
	ssh-keygen -q -H -f "$TEST_TMP/h" >/dev/null 2>&1
	assert_match '^\|1\|' "$TEST_TMP/h"
	cat "$TEST_TMP/h" >>"$HOME/.ssh/known_hosts"
}

# typed TEXT - what bash would put in place of what follows the last = or :,
# or of that with the last @; sorted, one a line.
typed()
{
	env -i HOME="$HOME" PATH="$PATH" bash --norc -c '
		. "$1"
		COMP_LINE=$2 COMP_POINT=${#2}
		_vzmigrate vzmigrate
		printf "%s\n" "${COMPREPLY[@]}"' bash "$C/vzmigrate.bash" "$1" |
		sort
}

offers()
{
	assert_eq "$2" "$(typed "$1" | tr '\n' ' ' | sed 's/ $//')" \
		"after '$1'"
}

test_bash_options()
{
	local help=$TEST_TMP/help o bad=
	world
	vzmigrate --help | sed '/^Refused/,$d' >"$help"
	# All that the help has, long and short, and no other.
	{
		grep -oE '^ +(-[a-zA-Z], )?--[a-z-]+(\[?=)?' "$help" |
			sed 's/.*--/--/; s/\[=//'
		grep -oE '^ +-[a-zA-Z],' "$help" | tr -d ' ,'
	} | sort >"$TEST_TMP/want"
	[ "$(wc -l <"$TEST_TMP/want")" -gt 30 ] || fail "options not found"
	typed 'vzmigrate -' >"$TEST_TMP/got"
	diff "$TEST_TMP/want" "$TEST_TMP/got" >&2 || fail "options differ"
	offers 'vzmigrate --remo' --remove-area=
	offers 'vzmigrate --remove-area=' 'no yes'
	offers 'vzmigrate --remove-area=y' yes
	offers 'vzmigrate -r ' 'no yes'
	offers 'vzmigrate --kind ' 'dir lxc openvz'
	offers 'vzmigrate --metadata=s' strict
	offers 'vzmigrate --probe-c' --probe-ciphers
	offers "vzmigrate --lxcpath=$TEST_TMP/d" "$TEST_TMP/dirs"
	offers "vzmigrate -i $TEST_TMP/k" "$TEST_TMP/k $TEST_TMP/k.pub"
	offers 'vzmigrate --nosuch=' ''
	typed 'vzmigrate --cipher=aes128-ctr,aes256-c' >"$TEST_TMP/got"
	assert_match '^aes128-ctr,aes256-ctr$' "$TEST_TMP/got"
}

test_bash_words()
{
	local lxc=$TEST_TMP/lxc
	world
	typed 'vzmigrate ' >"$TEST_TMP/hosts"
	for h in alpha alpha.example gate known odd 192.0.2.7 \
		inc1 inc2 inc3 inc4 inc5; do
		assert_match "^$h\$" "$TEST_TMP/hosts"
	done
	assert_no_match "$NO_HOST" "$TEST_TMP/hosts"
	offers 'vzmigrate inc' 'inc1 inc2 inc3 inc4 inc5'
	offers 'vzmigrate al' 'alpha alpha.example'
	offers 'vzmigrate root@ga' @gate
	offers 'vzmigrate root@' "$(sed 's/^/@/' "$TEST_TMP/hosts" |
		tr '\n' ' ' | sed 's/ $//')"
	offers "vzmigrate --ssh='-p 22' root@ga" @gate
	offers 'vzmigrate --ssh "-p 22 -J x" -i a\ b ga' gate
	offers 'vzmigrate -J ga' gate
	offers 'vzmigrate --jump=ga' gate
	offers 'vzmigrate -r no --keep-dst -p 22 ga' gate
	offers 'vzmigrate --port=22 ga' gate
	offers 'vzmigrate --probe-ciphers ga' gate
	# After the host, containers; the lxcpath is that of the line.
	offers "vzmigrate --lxcpath=$lxc alpha w" web
	offers "vzmigrate --lxcpath $lxc root@alpha " 'db\ 1 web'
	offers "vzmigrate --lxcpath=$lxc root@alpha web:new d" 'db\ 1'
	offers "vzmigrate --status --lxcpath=$lxc w" web
	offers "vzmigrate --kind=dir alpha $TEST_TMP/dirs/o" \
		"$TEST_TMP/dirs/one"
	offers "vzmigrate --kind dir alpha $TEST_TMP/dirs/o" \
		"$TEST_TMP/dirs/one"
}

# The key itself, in a shell with a terminal.
test_bash_tab()
{
	command -v expect >/dev/null || skip "no expect"
	world
	cat >"$TEST_TMP/tab" <<-'END'
	set timeout 20
	spawn env -i HOME=$env(HOME) PATH=$env(PATH) TERM=dumb bash --norc -i
	expect -re {[#$] } { send "PS1=rea''dy:\r" }
	expect ready: { send ". $env(FILE)\r" }
	expect ready: { send "vzmigrate() { echo \"got:<\$*>\"; }\r" }
	expect ready: {
		send "vzmigrate --rem\tn\t root@ga\t --lxcpath $env(LXC)/no\t"
		send -- " --lxcpath=$env(LXC) d\t\r"
	}
	expect {
		-ex $env(WANT) { exit 0 }
		timeout { exit 1 }
		eof { exit 2 }
	}
	END
	# An option, its value, a host, a path (a slash, no blank), a container.
	WANT="got:<--remove-area=no root@gate --lxcpath $TEST_TMP/lxc/no-config/"
	WANT+=" --lxcpath=$TEST_TMP/lxc db 1>"
	LXC=$TEST_TMP/lxc WANT=$WANT FILE=$C/vzmigrate.bash \
		expect "$TEST_TMP/tab" >"$TEST_TMP/out" 2>&1 || {
		cat -v "$TEST_TMP/out" >&2
		fail "not completed"
	}
}

test_zsh()
{
	command -v zsh >/dev/null || skip "no zsh"
	world
	zsh -fn "$C/_vzmigrate"
	in_zsh()
	{
		env -i HOME="$HOME" PATH="$PATH" zsh -f -c '
			setopt extendedglob
			. "$1"
			shift
			"$@"' zsh "$C/_vzmigrate" "$@"
	}
	in_zsh _vzmigrate_hosts | sort -u >"$TEST_TMP/hosts"
	for h in gate odd inc1 inc2 inc3 inc4 inc5; do
		assert_match "^$h\$" "$TEST_TMP/hosts"
	done
	assert_no_match "$NO_HOST" "$TEST_TMP/hosts"
	assert_eq $'db 1\nweb' \
		"$(in_zsh _vzmigrate_containers "$TEST_TMP/lxc" | sort)"
	in_zsh _vzmigrate_options >"$TEST_TMP/specs"
	assert_match '^\*--remove-area=\[.*\]:yes or no:\(yes no\)$' \
		"$TEST_TMP/specs"
	assert_match '^\*-r\+\[' "$TEST_TMP/specs"
	assert_match '^\*--probe-ciphers=-\[.*\]::SECONDS:$' "$TEST_TMP/specs"
	assert_eq "$(vzmigrate --help | sed '/^Refused/,$d' |
		grep -oE -e '^ +(-[a-zA-Z], )?--[a-z-]+' |
		grep -oE -e '--[a-z-]+' | sort)" \
		"$(grep -oE '^\*--[a-z-]+' "$TEST_TMP/specs" | tr -d '*' | sort)"
}

# zsh's own machine, driven through a terminal of its module zpty.
test_zsh_tab()
{
	command -v zsh >/dev/null || skip "no zsh"
	zsh -fc 'zmodload zsh/zpty' 2>/dev/null || skip "zsh without zpty"
	world
	# Nothing long is typed, and the keys are the same whatever $EDITOR is.
	cat >"$TEST_TMP/.zshrc" <<-'END'
	PS1=ready:
	zle_highlight=()
	bindkey -e
	fpath=($FPATH1 $fpath)
	autoload -Uz compinit && compinit -u -D
	END
	cat >"$TEST_TMP/tab.zsh" <<-'END'
	zmodload zsh/zpty
	expect() {
		local got= all=
		local -i end=$((SECONDS + 60))
		while (( SECONDS < end )); do
			if zpty -rt z got; then
				all+=$got
				[[ $all == *$1* ]] && return 0
			else
				zselect -t 2
			fi
		done
		print -r -- "no $1 in: ${(V)all}"
		exit 1
	}
	zmodload zsh/zselect
	TERM=dumb zpty -b z zsh -d -i
	expect ready:
	zpty -w -n z $'vzmigrate --status --lxcpath=lxc we\t\C-a: \n'
	expect '--lxcpath=lxc web'
	zpty -w -n z $'vzmigrate --remove-a\tn\t root@ga\t\C-a: \n'
	expect 'root@gate'
	zpty -w z "print -r -- got:\$history[\$((HISTCMD - 1))]"
	expect 'got:: vzmigrate --remove-area=no root@gate'
	END
	# Short, for the line is not to be longer than the terminal.
	cd "$TEST_TMP"
	FPATH1=$C ZDOTDIR=$TEST_TMP zsh -f "$TEST_TMP/tab.zsh" >"$TEST_TMP/out" 2>&1 || {
		cat -v "$TEST_TMP/out" >&2
		fail "not completed"
	}
}

# --- the agent's manual -----------------------------------------------------

test_agent_manual()
{
	local m=$VZ_TOP/man/vzmigrate-agent.8 o
	command -v groff >/dev/null || skip "no groff"
	groff -t -man -Tutf8 -P-cbou -ww -rLL=80n -rLT=80n "$m" \
		>"$TEST_TMP/man" 2>"$TEST_TMP/warned"
	assert_eq '' "$(cat "$TEST_TMP/warned")" "warnings of groff"
	assert_eq '' "$(grep -nE '.{81}' "$TEST_TMP/man" || :)" "wide lines"
	assert_match 'SPDX-License-Identifier: GPL-2.0-or-later' \
		<(head -n 3 "$m")
	vzmigrate-agent --help >"$TEST_TMP/help"
	for o in $(grep -oE '^ +--[a-z-]+' "$TEST_TMP/help"); do
		assert_match "$o([^a-z-]|\$)" "$TEST_TMP/man"
	done
	assert_eq "$(grep -oE -e '^ {7}(-h, )?--[a-z-]+' "$TEST_TMP/man" |
		grep -oE -e '--[a-z-]+' | sort -u)" \
		"$(grep -oE '^ +--[a-z-]+' "$TEST_TMP/help" | tr -d ' ' | sort)"
	for o in $(grep -rhoE 'VZMIGRATE_[A-Z_]+' \
		"$VZ_TOP/vzmigrate/agent" \
		"$VZ_TOP/vzmigrate/migrate/statedir.c" | sort -u); do
		assert_match "$o" "$TEST_TMP/man"
	done
	# What it says of a wrong option.
	assert_exit 1 vzmigrate-agent --nosuch
	assert_exit 1 vzmigrate-agent --allow-root=relative
	assert_match 'absolute path' "$ERR"
	assert_exit 0 vzmigrate-agent --version
}
