# SPDX-License-Identifier: Apache-2.0
# Scripts that build programs once and keep them source this file.

cannot() {
	echo "${0##*/}: $*" >&2
	exit 77
}

if [[ $EUID -eq 0 ]]; then
	cache=/var/cache/headroom-tests
else
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/headroom-tests
fi

# end_if_complete DIRECTORY: prints it and exits if it has all programs
end_if_complete() {
	local program
	for program in "${programs[@]}"; do
		[[ -x $1/$program ]] || return 0
	done
	echo "$1"
	exit 0
}

# find_programs NAMED DIRECTORY: exits with the directory named by the user, or with an earlier build in DIRECTORY
find_programs() {
	if [[ -n $1 ]]; then
		end_if_complete "$1"
		cannot "$1 has not all of ${programs[*]}"
	fi
	end_if_complete "$2"
	# If several tests ask at once, one builds and the others wait.
	mkdir -p "$(dirname "$2")"
	exec 9>"$2.lock"
	flock 9
	end_if_complete "$2"
}

# build_with_go DIRECTORY MODULE VERSION [OPTION...]: builds ./cmd/PROGRAM of each of programs from the
# module proxy that Go is set to, by the version of Go that the module asks for, runs the first one as a trial, and prints the directory
build_with_go() {
	local directory=$1 module=$2 version=$3 building=$1.building go source candidate
	shift 3
	go=$(command -v go || true)
	for candidate in /usr/local/go/bin/go /usr/lib/go/bin/go; do
		[[ -n $go || ! -x $candidate ]] || go=$candidate
	done
	[[ -n $go ]] || cannot "no Go to build $module $version with"
	# The source is copied as a main module, because `go install` refuses modules with replace directives.
	rm -rf "$building"
	mkdir -p "$building/programs"
	# shellcheck disable=SC2064 # building is local
	trap "rm -rf '$building'" EXIT
	source=$(GOTOOLCHAIN=auto "$go" mod download -json "$module@$version" </dev/null 2>/dev/null |
		sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') || true
	[[ -n $source ]] || cannot "Go could not download $module@$version"
	cp -r "$source" "$building/source"
	chmod -R u+w "$building/source"
	(
		cd "$building/source"
		GOFLAGS="-p=1 -mod=mod -buildvcs=false" GOTOOLCHAIN=auto GOWORK=off \
			nice "$go" build -o "$building/programs/" "$@" "${programs[@]/#/./cmd/}"
	) </dev/null >"$directory.log" 2>&1 ||
		cannot "Go could not build $module $version: $(tail -n 1 "$directory.log")"
	"$building/programs/${programs[0]}" --version >/dev/null || exit 1
	rm -rf "$directory"
	mv "$building/programs" "$directory"
	echo "$directory"
}
