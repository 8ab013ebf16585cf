# SPDX-License-Identifier: Apache-2.0
# Sourced by what builds programs once and keeps them.

cannot() {
	echo "tests/tool/${0##*/}: $*" >&2
	exit 77
}

# end_if_complete DIRECTORY: prints it if it has all of programs
end_if_complete() {
	local program
	for program in "${programs[@]}"; do
		[[ -x $1/$program ]] || return 0
	done
	echo "$1"
	exit 0
}

# find_programs NAMED DIRECTORY: ends with the directory that the user has named, or with the one of an earlier build
find_programs() {
	if [[ -n $1 ]]; then
		end_if_complete "$1"
		cannot "$1 has not all of ${programs[*]}"
	fi
	end_if_complete "$2"
	# Several tests may ask at once: one builds, the others wait for it.
	mkdir -p "$(dirname "$2")"
	exec 9>"$2.lock"
	flock 9
	end_if_complete "$2"
}
