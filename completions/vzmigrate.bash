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
	"${1:-vzmigrate}" --help 2>/dev/null | sed -nE '
		/^Exit codes/q
		/^ +(-[a-zA-Z], )?--[a-z]/!d
		s/^ +(-[a-zA-Z], )?(--[a-z-]+)(\[?)=?([^] ]*).*/\1 \2 \3\4/
		s/^(-[a-zA-Z]), (--[a-z-]+) (.*)/\1 \3\n\2 \3/
		s/^ (--[a-z-]+ )/\1/
		s/ (\n|$)/ -\1/g
		p'
}

# Hosts that can be named: no patterns, and nothing of a hashed line.
_vzmigrate_hosts()
{
	local f files=()
	for f in ~/.ssh/config ~/.ssh/config.d/* /etc/ssh/ssh_config \
		/etc/ssh/ssh_config.d/*; do
		[ ! -f "$f" ] || [ ! -r "$f" ] || files+=("$f")
	done
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
	*\|*) compgen -W "${2//|/$'\n'}" -- "$3" ;;
	esac
}

_vzmigrate()
{
	local IFS=$' \t\n' line full tail i w n=0 glued=0 last='' kind='' path=''
	local opt='' value head out=()
	local -A takes=()
	while read -r w value; do
		takes[$w]=$value
	done < <(_vzmigrate_options "$1")
	# The word as it was typed, and its part after the last character at
	# which readline breaks words, which is what it replaces.
	line=${COMP_LINE:0:COMP_POINT}
	full=${line##*[[:space:]]}
	tail=${full##*["$COMP_WORDBREAKS"]}
	head=${full%"$tail"}
	# What stands before it.
	for ((i = 1; i < COMP_CWORD; i++)); do
		w=${COMP_WORDS[i]}
		case $w in
		[=:@]*) glued=1 ;;
		*)
			if [ $glued = 1 ]; then
				case $opt in
				--kind) kind=$w ;;
				--lxcpath) path=$w ;;
				esac
				glued=0 opt=''
			elif [ -n "$opt" ] && [ "${takes[$opt]:0:1}" != '[' ]; then
				case $opt in
				--kind) kind=$w ;;
				--lxcpath) path=$w ;;
				esac
				opt='' last=option
			elif [ "${w:0:1}" = - ]; then
				last=option
				opt=''
				case ${takes[$w]:--} in
				-) ;;
				*) opt=$w ;;
				esac
				case $w in
				--*=*)
					opt=''
					case $w in
					--kind=*) kind=${w#*=} ;;
					--lxcpath=*) path=${w#*=} ;;
					esac
					;;
				esac
			else
				opt='' last=word
				n=$((n + 1))
			fi
			;;
		esac
	done
	case ${COMP_WORDS[COMP_CWORD]} in
	[=:@]*) glued=1 ;;
	esac
	# A word that goes on was counted already.
	if [ $glued = 1 ] && [ "$last" = word ]; then
		n=$((n - 1))
	fi
	if [ "${full:0:2}" = -- ] && [ "${full#*=}" != "$full" ]; then
		opt=${full%%=*}
		mapfile -t out < <(_vzmigrate_value "$opt" "${takes[$opt]#[}" \
			"${full#*=}")
		out=("${out[@]/#/$opt=}")
	elif [ -n "$opt" ] && [ "${takes[$opt]:0:1}" != '[' ]; then
		mapfile -t out < <(_vzmigrate_value "$opt" "${takes[$opt]}" \
			"$full")
	elif [ "${full:0:1}" = - ]; then
		for w in "${!takes[@]}"; do
			[ "${w#"$full"}" = "$w" ] || case ${takes[$w]} in
			- | \[*) out+=("$w") ;;
			*)
				case $w in
				--*) out+=("$w=") ;;
				*) out+=("$w") ;;
				esac
				;;
			esac
		done
	elif [ $n = 0 ]; then
		w=
		case $full in
		*@*) w=${full%"${full##*@}"} ;;
		esac
		mapfile -t out < <(IFS=$'\n' compgen -P "$w" \
			-W "$(_vzmigrate_hosts)" -- "${full##*@}")
	elif [ "$kind" = dir ] || [ "${full:0:1}" = / ]; then
		mapfile -t out < <(compgen -d -- "$full")
	else
		mapfile -t out < <(IFS=$'\n' compgen \
			-W "$(_vzmigrate_containers "$path")" -- "$full")
	fi
	# An option whose value follows the "=" gets no blank.
	if [ ${#out[@]} = 1 ] && [ "${out[0]%=}" != "${out[0]}" ]; then
		compopt -o nospace 2>/dev/null
	fi
	COMPREPLY=("${out[@]#"$head"}")
} &&
	complete -o filenames -o bashdefault -F _vzmigrate vzmigrate
