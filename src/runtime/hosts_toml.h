/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_HOSTS_TOML_H
#define RUNTIME_HOSTS_TOML_H

/*
 * The text of certs.d/REGISTRY/hosts.toml, which containerd and nerdctl read at each pull
 * (containerd docs/hosts.md). Pure.
 *
 * containerd takes the FIRST directory that exists: for a registry with a port HOST_PORT_ and then
 * HOST:PORT, for one without HOST, and at last _default. Two consequences for who writes files:
 *  - a directory made for a registry hides a second one for it, and _default: look at all of
 *    hosts_toml_directories() before making one;
 *  - a hosts.toml put into a directory that holds somebody's *.crt, *.cert or *.key without a
 *    hosts.toml switches these certificates off: such a directory is somebody else's.
 */

#include <stdbool.h>
#include <stddef.h>

#include "runtime/registry.h"

#define HOSTS_TOML_DEFAULT  "_default" /* any registry without a directory of its own */
#define HOSTS_TOML_FILE_MAX 65536      /* bytes; more is nobody's hosts.toml */
#define HOSTS_TOML_URLS_MAX 32

/* Whether this containerd ("1.6.20~ds1", "v2.1.4") knows dial_timeout. */
bool hosts_toml_knows_dial_timeout(const char *containerd_version);

/*
 * The whole file, terminated, for the caller to free; the first line marks it as ours. urls are of
 * mirrors in the order wanted; those on this node go first, doubles count once. The registry itself
 * comes last without being named. dial_timeout_ms, until connected to a mirror, is left out when 0.
 * 0, -EINVAL for a bad URL or without one, -E2BIG above HOSTS_TOML_URLS_MAX, -ENOMEM.
 */
int hosts_toml_write(const char *const *urls, size_t n, unsigned int dial_timeout_ms, char **text);

/*
 * The mirrors that a file of ours has, in its order, separated by one space; "none" without one.
 * What does not fit is cut, and a checksum of all of it put at the end.
 */
void hosts_toml_mirrors(const char *text, char *words, size_t size);

/* True when the first line is our mark: this file we may replace and remove. */
bool hosts_toml_is_ours(const char *text, size_t len);

/*
 * The directories below certs.d that containerd would read for a registry, first one first; the
 * first is where a new file goes. registry is a name for registry_check_name or HOSTS_TOML_DEFAULT.
 * Returns how many (1 or 2) or -EINVAL.
 */
int hosts_toml_directories(const char *registry, char directories[static 2][REGISTRY_NAME_MAX]);

#endif
