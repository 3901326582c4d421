# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Completion of vzmigrate(8) for bash: options as `vzmigrate --help` tells
# them, so that they are those of the program that is there; hosts of the ssh
# configuration and known_hosts; containers of this host.

# "OPTION VALUE" of each option, one a line; VALUE is "-" where it takes none,
# and begins with "[" where it may be left out.
_vzmigrate_options()
{
	command "${1:-vzmigrate}" --help 2>/dev/null | awk '
		/^(Refused|Exit codes)/ { exit }
		/^ +(-[a-zA-Z], )?--[a-z]/ {
			name = $1 ~ /,$/ ? $2 : $1
			value = "-"
			if (i = index(name, "=")) {
				value = substr(name, i + 1)
				name = substr(name, 1, i - 1)
			}
			if (sub(/\[$/, "", name)) {
				sub(/\]$/, "", value)
				value = "[" value
			}
			print name, value
			if ($1 ~ /,$/)
				print substr($1, 1, 2), value
		}'
}

# _vzmigrate_included FILE DIR - FILE and what it includes, once each, into
# files[]; names that are not absolute are in DIR.
_vzmigrate_included()
{
	local IFS='' pattern f
	for f in "${files[@]}"; do
		[ "$f" != "$1" ] || return 0
	done
	[ -f "$1" ] && [ -r "$1" ] || return 0
	files+=("$1")
	while read -r pattern; do
		case $pattern in
		/*) ;;
		\~/*) pattern=$HOME/${pattern#??} ;;
		*) pattern=$2/$pattern ;;
		esac
		# A glob, as in ssh.
		for f in $pattern; do
			_vzmigrate_included "$f" "$2"
		done
	done < <(awk '
		{ sub(/\r$/, ""); sub(/^[ \t]+/, "") }
		tolower($0) ~ /^include[ \t=]/ {
			sub(/^[^ \t=]+[ \t]*=?[ \t]*/, "")
			while (match($0, /"[^"]*"|[^ \t"]+/)) {
				word = substr($0, RSTART, RLENGTH)
				if (word ~ /^#/)
					break
				$0 = substr($0, RSTART + RLENGTH)
				gsub(/"/, "", word)
				print word
			}
		}' "$1")
}

# Hosts that can be named: no patterns, and nothing of a hashed line.
_vzmigrate_hosts()
{
	local f files=()
	_vzmigrate_included ~/.ssh/config ~/.ssh
	_vzmigrate_included /etc/ssh/ssh_config /etc/ssh
	[ ${#files[@]} = 0 ] || awk '
		{ sub(/\r$/, ""); sub(/^[ \t]+/, "") }
		tolower($0) ~ /^host[ \t=]/ {
			sub(/^[^ \t=]+[ \t]*=?[ \t]*/, "")
			gsub(/"/, "")
			n = split($0, h, /[ \t]+/)
			for (i = 1; i <= n && h[i] !~ /^#/; i++)
				if (h[i] !~ /[*?!]/ && h[i] != "")
					print h[i]
		}' "${files[@]}"
	files=()
	for f in ~/.ssh/known_hosts ~/.ssh/known_hosts2 \
		/etc/ssh/ssh_known_hosts; do
		[ ! -f "$f" ] || [ ! -r "$f" ] || files+=("$f")
	done
	[ ${#files[@]} = 0 ] || awk '
		/^[ \t]*([@#|]|$)/ { next }
		{
			n = split($1, h, ",")
			for (i = 1; i <= n; i++) {
				sub(/^\[/, "", h[i])
				sub(/\](:[0-9]+)?$/, "", h[i])
				if (h[i] ~ /^[A-Za-z0-9]/ && h[i] !~ /[*?!|]/ &&
				    h[i] !~ /:/)
					print h[i]
			}
		}' "${files[@]}"
}

# LXC's below LXCPATH or where this host has them, OpenVZ's by id and name.
_vzmigrate_containers()
{
	local path=$1 f
	if [ -z "$path" ]; then
		path=$(lxc-config lxc.lxcpath 2>/dev/null)
		path=${path:-/var/lib/lxc}
	fi
	for f in "$path"/*/config; do
		[ ! -f "$f" ] || { f=${f%/config} && echo "${f##*/}"; }
	done
	for f in /etc/vz/conf/[1-9a-f]*.conf; do
		f=${f##*/}
		case ${f%.conf} in
		*[!0-9a-f-]*) ;;
		*) [ ! -f "/etc/vz/conf/$f" ] || echo "${f%.conf}" ;;
		esac
	done
	for f in /etc/vz/names/*; do
		[ ! -e "$f" ] || echo "${f##*/}"
	done
}

# _vzmigrate_value OPTION VALUE CUR - candidates for the value of an option.
_vzmigrate_value()
{
	local IFS=$'\n'
	case $1$2 in
	*LIST)
		# Names after the last comma.
		local before=
		case $3 in
		*,*) before=${3%,*}, ;;
		esac
		case $1 in
		*cipher*) compgen -P "$before" -W \
			"$(ssh -Q cipher 2>/dev/null)" -- "${3##*,}" ;;
		*mac*) compgen -P "$before" -W \
			"$(ssh -Q mac 2>/dev/null)" -- "${3##*,}" ;;
		esac
		;;
	*HOST) compgen -W "$(_vzmigrate_hosts)" -- "$3" ;;
	--kind*) compgen -W $'openvz\nlxc\ndir' -- "$3" ;;
	*PATH) compgen -d -- "$3" ;;
	*FILE*)
		[ "${2%none}" = "$2" ] || compgen -W none -- "$3"
		compgen -f -- "$3"
		;;
	# What is in capitals is a placeholder.
	*\|*) compgen -W "${2//|/$'\n'}" -X '[A-Z]*' -- "$3" ;;
	esac
}

# The functions below share the variables of _vzmigrate.

# _vzmigrate_split LINE - what stands before the cursor, in words[], and the
# word at the cursor in full (without quotes) and raw. Bash's own splitting, at
# = : and @, cannot be undone.
_vzmigrate_split()
{
	local i c quote=''
	words=() full='' raw=''
	for ((i = 0; i < ${#1}; i++)); do
		c=${1:i:1}
		case $quote$c in
		[[:space:]])
			[ -z "$raw" ] || words+=("$full")
			full='' raw=''
			continue
			;;
		\' | \") quote=$c ;;
		"''" | '""') quote='' ;;
		\\ | \"\\)
			i=$((i + 1))
			full+=${1:i:1}
			c+=${1:i:1}
			;;
		*) full+=$c ;;
		esac
		raw+=$c
	done
}

# What words[] mean: kind, path, how many are no options (n), and the option
# that waits for its value (opt). --status has no host before the containers.
_vzmigrate_before()
{
	local w value
	n=0 kind='' path='' opt=''
	for w in "${words[@]:1}"; do
		value=$w
		case $opt$w in
		--*=*)
			[ -n "$opt" ] || opt=${w%%=*}
			value=${w#"$opt="}
			;;
		-*)
			if [ -z "$opt" ]; then
				[ "$w" != --status ] || n=$((n + 1))
				case ${takes[$w]:--} in
				- | \[*) ;;
				*) opt=$w ;;
				esac
				continue
			fi
			;;
		*) n=$((n + 1)) ;;
		esac
		case $opt in
		--kind) kind=$value ;;
		--lxcpath) path=$value ;;
		esac
		opt=''
	done
}

# What fits full, into out[].
_vzmigrate_fitting()
{
	local IFS=$'\n' w before='' eq=('' '=')
	if [ -n "$opt" ]; then
		mapfile -t out < <(_vzmigrate_value "$opt" "${takes[$opt]}" \
			"$full")
	elif [[ $full = --*=* ]]; then
		opt=${full%%=*}
		mapfile -t out < <(_vzmigrate_value "$opt" "${takes[$opt]#[}" \
			"${full#*=}")
		out=("${out[@]/#/$opt=}")
	elif [[ $full = -* ]]; then
		for w in "${!takes[@]}"; do
			[[ $w = "$full"* ]] || continue
			case ${takes[$w]} in
			- | \[*) out+=("$w") ;;
			*) out+=("$w${eq[${#w} > 2]}") ;;
			esac
		done
	elif [ "$n" = 0 ]; then
		[[ $full != *@* ]] || before=${full%"${full##*@}"}
		mapfile -t out < <(compgen -P "$before" \
			-W "$(_vzmigrate_hosts)" -- "${full##*@}")
	elif [ "$kind" = dir ] || [[ $full = /* ]]; then
		mapfile -t out < <(compgen -d -- "$full")
	else
		mapfile -t out < <(compgen \
			-W "$(_vzmigrate_containers "$path")" -- "$full" |
			sed 's/[^A-Za-z0-9_.,:@%+/-]/\\&/g')
	fi
}

_vzmigrate()
{
	local IFS=$' \t\n' n kind path opt w value head words full raw out=()
	local -A takes=()
	while read -r w value; do
		takes[$w]=$value
	done < <(_vzmigrate_options "$1")
	_vzmigrate_split "${COMP_LINE:0:COMP_POINT}"
	_vzmigrate_before
	_vzmigrate_fitting
	# Readline replaces what follows the last character at which it breaks
	# words; an @ is part of that.
	head=${raw%"${raw##*["$COMP_WORDBREAKS"]}"}
	COMPREPLY=("${out[@]#"${head%@}"}")
	case ${out[0]-} in
	# An option whose value follows.
	--*=) [ ${#out[@]} != 1 ] || compopt -o nospace 2>/dev/null ;;
	# Of paths, readline takes care itself: a slash, no blank.
	/* | ./* | --*=/*) compopt -o filenames 2>/dev/null ;;
	esac
} &&
	complete -F _vzmigrate vzmigrate
