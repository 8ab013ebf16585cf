# SPDX-License-Identifier: Apache-2.0
# Completion of headroom(8) for bash.

_headroom() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local options='--host-root'
	COMPREPLY=()

	if [[ $COMP_CWORD -eq 1 ]]; then
		mapfile -t COMPREPLY < <(compgen -W 'agent status plan apply restore top explain check-config version --help --version' -- "$cur")
		return
	fi
	case $prev in
	--config)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	--host-root)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	--only)
		mapfile -t COMPREPLY < <(compgen -W 'neighbor thp sysctl' -- "$cur")
		return
		;;
	esac
	case ${COMP_WORDS[1]} in
	agent) options+=' --config --observe' ;;
	status) options+=' --config --json --watch' ;;
	plan) options+=' --config --json --only' ;;
	apply) options+=' --config --only' ;;
	restore) options+=' --config --only --images' ;;
	top | explain | check-config) options+=' --config' ;;
	version) options+=' --config --json' ;;
	esac
	if [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
	elif [[ ${COMP_WORDS[1]} == check-config ]]; then
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	elif [[ ${COMP_WORDS[1]} == top ]]; then
		mapfile -t COMPREPLY < <(compgen -W 'dns neighbor' -- "$cur")
	elif [[ ${COMP_WORDS[1]} == explain ]]; then
		mapfile -t COMPREPLY < <(compgen -W 'profile neighbor/ipv4 neighbor/ipv6' -- "$cur")
	fi
}

complete -F _headroom headroom
