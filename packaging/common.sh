# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by packaging/image and packaging/release, in the top directory: facts, and the parts of an OCI archive. $epoch is the time
# of all files, $work a directory, and $blobs the directory of the archive's blobs.

oci=application/vnd.oci.image # shellcheck disable=SC2034
version=$(sed -nE 's/^project\(headroom VERSION ([0-9.]+).*/\1/p' CMakeLists.txt) # shellcheck disable=SC2034

# The value of a field of debian/control, which has the maintainer and the addresses of the project.
field() { # NAME
	sed -n "s/^$1: *//p" packaging/debian/control
}

reproducible_tar() { # DIRECTORY: packs its content with a fixed order, fixed times and fixed owners
	tar --create --directory="$1" --sort=name --format=posix --pax-option=delete=atime,delete=ctime \
		--mtime="@$epoch" --owner=0 --group=0 --numeric-owner .
}
blob() { # MEDIA-TYPE: stores the standard input, prints its descriptor without the closing brace
	cat >"$work/blob"
	local digest size
	digest=$(sha256sum <"$work/blob" | cut -d' ' -f1)
	size=$(stat --format=%s "$work/blob")
	mv "$work/blob" "$blobs/$digest"
	printf '{"mediaType":"%s","digest":"sha256:%s","size":%s' "$1" "$digest" "$size"
}
digest_of() { # DESCRIPTOR
	sed -E 's/.*"sha256:([0-9a-f]+)".*/\1/' <<<"$1"
}
