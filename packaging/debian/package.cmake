# SPDX-License-Identifier: Apache-2.0
# The Debian package, by CPack: cmake --workflow --preset deb

list(GET changelog 0 newest)
string(REGEX MATCH "^headroom \\(([0-9.]+)\\)" matched "${newest}")
if(NOT CMAKE_MATCH_1 STREQUAL PROJECT_VERSION)
	message(FATAL_ERROR "packaging/debian/changelog begins with ${CMAKE_MATCH_1}, the project is ${PROJECT_VERSION}")
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME headroom)
set(CPACK_PACKAGE_VENDOR Headroom)
# Between releases a package has the commit's time and hash in its version. It upgrades packages of earlier
# commits, and the release upgrades it.
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
if(HEADROOM_RELEASE_TAG EQUAL -1)
	execute_process(COMMAND date --utc --date=@${HEADROOM_COMMIT_TIME} +%Y%m%d.%H%M%S
		OUTPUT_VARIABLE when OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
	string(APPEND CPACK_PACKAGE_VERSION "~git${when}.${HEADROOM_COMMIT}")
endif()
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
if(CMAKE_SYSROOT)
	file(REAL_PATH ${CMAKE_SYSROOT} HEADROOM_SYSROOT)
	set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
	set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${HEADROOM_SYSROOT}/usr/lib/aarch64-linux-gnu)
endif()
configure_file(debian/cpack.cmake.in cpack.cmake @ONLY)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_BINARY_DIR}/cpack.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/debian/stamp.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Headroom maintainers")
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "keeps a node's hidden limits away from its workloads")
set(CPACK_PACKAGE_DESCRIPTION
"A node has limits that nobody watches until something breaks: the kernel's
neighbour tables, the DNS queries that a cloud allows one machine, the layers
that a container runtime fetches at once, transparent huge pages, sysctls made
for one machine and not for a hundred containers. Headroom sets them, keeps
them set, watches their use per workload, and reports it to people, to
Prometheus and to Kubernetes.
.
Every original value is recorded before the first write. Removing the package
restores all of them.")
# Computes the dependencies from the symbols that the program uses, see README.md.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
	${CMAKE_CURRENT_SOURCE_DIR}/debian/conffiles
	${CMAKE_CURRENT_SOURCE_DIR}/debian/postinst
	${CMAKE_CURRENT_SOURCE_DIR}/debian/prerm
	${CMAKE_CURRENT_SOURCE_DIR}/debian/postrm)
include(CPack)
