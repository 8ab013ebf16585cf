/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_HOSTS_TOML_H
#define RUNTIME_HOSTS_TOML_H

/*
 * The text of certs.d/REGISTRY/hosts.toml, which containerd and nerdctl read at each pull
 * (containerd docs/hosts.md). Pure.
 *
 * containerd takes the FIRST directory that exists: for a registry with a port HOST_PORT_ and then
 * HOST:PORT, for one without HOST, and at last _default. Two consequences for whoever places files:
 *  - a directory made for a registry hides a second one for it, and _default: look at all of
 *    hosts_toml_directories() before making one;
 *  - a hosts.toml put into a directory that holds somebody's *.crt, *.cert or *.key without a
 *    hosts.toml switches these certificates off: such a directory is somebody else's.
 */

#include <stdbool.h>
#include <stddef.h>

#include "runtime/registry.h"

#define HOSTS_TOML_DEFAULT   "_default" /* any registry without a directory of its own */
#define HOSTS_TOML_FILE_MAX  65536      /* bytes; more is nobody's hosts.toml */
#define HOSTS_TOML_HOSTS_MAX 32

struct hosts_toml_mirror {
	const char *url; /* registry_check_url; slashes at its end do not matter */
	bool same_node;  /* goes before those that are not; see registry_is_loopback */
};

struct hosts_toml {
	const struct hosts_toml_mirror
		*mirrors; /* in the order wanted; of doubles the first counts */
	size_t n;
	/*
	 * What is asked when no mirror has it, with http:// or https://. NULL: containerd's own
	 * choice, which is right for every registry (registry-1.docker.io for docker.io) and the
	 * only one possible in _default.
	 */
	const char *upstream;
	/* Until connected to a mirror, in ms; 0: not said. Only containerd 2.1 and later knows it.
	 */
	unsigned int dial_timeout_ms;
};

/* Whether this containerd ("1.6.20~ds1", "v2.1.4") knows dial_timeout. */
bool hosts_toml_knows_dial_timeout(const char *containerd_version);

/*
 * The whole file, terminated, for the caller to free; the first line marks it as ours. 0, -EINVAL
 * for a bad URL or without a mirror, -E2BIG above HOSTS_TOML_HOSTS_MAX, -ENOMEM.
 */
int hosts_toml_write(const struct hosts_toml *hosts, char **text, size_t *len);

/* True when the first line is our mark: this file we may replace and remove. */
bool hosts_toml_is_ours(const char *text, size_t len);

/*
 * The directories below certs.d that containerd would read for a registry, first one first; the
 * first is where a new file goes. registry is a name for registry_check_name or HOSTS_TOML_DEFAULT.
 * Returns how many (1 or 2) or -EINVAL.
 */
int hosts_toml_directories(const char *registry, char directories[static 2][REGISTRY_NAME_MAX]);

#endif
