/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_REGISTRY_H
#define RUNTIME_REGISTRY_H

/* Names of registries and addresses of their mirrors, as a configuration gives them. Pure. */

#include <stdbool.h>
#include <stddef.h>

#define REGISTRY_NAME_MAX 262 /* a DNS name (253, RFC 1035), "[", "]", ":65535" and the end */
#define REGISTRY_URL_MAX  256

/*
 * 0 for host[:port] and nothing else: a DNS name, an IPv4 address or an IPv6 one in brackets, the
 * port 1..65535. -EINVAL for all that could lead elsewhere in a path or a file. "_default" is no
 * registry.
 */
int registry_check_name(const char *name);

/*
 * 0 for http[s]://host[:port][/path] without user, password, query, fragment, "..", quotes, white
 * space or any other character that needs an escape in TOML or JSON. -EINVAL else.
 */
int registry_check_url(const char *url);

/* Copies a checked URL without the slashes at its end. False when it does not fit. */
bool registry_copy_url(char *dst, size_t size, const char *url);

/* Lists of URLs, separated by spaces. What is added is there once, without slashes at its end. */
bool registry_list_has(const char *list, const char *url, size_t len);
void registry_list_add(char *list, size_t size, const char *url, size_t len);

/*
 * A list for showing: as it is, or cut, with a checksum of all of it at the end. So two lists that
 * differ never look the same.
 */
void registry_shorten_list(const char *list, char *out, size_t size);

/* True when the URL's host is "localhost" or a loopback address: surely on this node. */
bool registry_is_loopback(const char *url);

#endif
