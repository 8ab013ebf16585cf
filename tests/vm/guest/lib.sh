# SPDX-License-Identifier: Apache-2.0
# The suites source this file: reports for the host, and common helpers.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

pass() { echo "@@ pass $1"; }
fail() { echo "@@ fail $1: ${*:2}"; }
skip() { echo "@@ skip $1: ${*:2}"; }
figure() { echo "@@ figure $1: ${*:2}"; }

# verdict NAME FAULT: passes if the fault is empty
verdict() {
	if [[ -z ${*:2} ]]; then pass "$1"; else fail "$1" "${@:2}"; fi
}

# expect NAME WANTED GOT
expect() {
	if [[ $2 == "$3" ]]; then pass "$1"; else fail "$1" "wanted $2, got $3"; fi
}

# until_true SECONDS COMMAND...
until_true() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < end)) || return 1
		sleep 0.1
	done
}

# The metrics of the running agent. The machine lacks an HTTP client.
metrics() {
	exec 3<>/dev/tcp/127.0.0.1/19810
	printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
	cat <&3
	exec 3>&-
}

# lacks TUNER: what the agent says that the tuner lacks
lacks() { headroom status --json | tr -d '\n' | grep -o "\"name\":[[:space:]]*\"$1\"[^{}]*\"degraded\"[^{}]*"; }
lacks_nothing() { ! lacks "$1" >/dev/null; }

# loaded TUNER: the same, when its programs are loaded. The command loads them, too, which takes as long: on a busy host
# more than 30 s, which is a reason to be degraded until they are.
loaded() {
	headroom version >/dev/null
	until_true 120 lacks_nothing "$1"
	lacks "$1"
}

milliseconds() {
	local now=${EPOCHREALTIME//[.,]/}
	echo $((now / 1000))
}
