# SPDX-License-Identifier: Apache-2.0
# Scripts that build programs once and keep them source this file.

cannot() {
	echo "tests/tool/${0##*/}: $*" >&2
	exit 77
}

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
