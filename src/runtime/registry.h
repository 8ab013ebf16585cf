/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Registries: their names, and the URLs, health and lists of their mirrors. */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/wait.h"

#define REGISTRY_NAME_MAX 262 /* a DNS name (253, RFC 1035), "[", "]", ":65535" and the end */
#define REGISTRY_URL_MAX  256
#define REGISTRY_DEFAULT  "_default" /* any registry without mirrors of its own */

/*
 * Accepts host[:port]: a DNS name, an IPv4 address or an IPv6 one in brackets, a port from 1 to
 * 65535. Returns 0, or -EINVAL for anything else, such as "_default".
 */
int registry_check_name(const char *name);

/*
 * Accepts http[s]://host[:port][/path] without user, password, query, fragment, "..", quotes, white
 * space or any other character that needs an escape in TOML or JSON. Returns 0 or -EINVAL.
 */
int registry_check_url(const char *url);

/* Copies a checked URL without trailing slashes. False when it does not fit. */
bool registry_copy_url(char *dst, size_t size, const char *url);

#define RUNTIME_MIRROR_MAX 32 /* configured in total */

/* An item of the option runtime.mirrors. */
struct runtime_mirror {
	char registry[REGISTRY_NAME_MAX]; /* or REGISTRY_DEFAULT */
	char url[REGISTRY_URL_MAX];
};

/* Copies the configured mirrors. Returns their number. */
struct config;
size_t registry_read_mirrors(
	const struct config *config, struct runtime_mirror mirrors[static RUNTIME_MIRROR_MAX]);

/* Lists of URLs, separated by spaces. Adding drops trailing slashes and skips duplicates. */
bool registry_list_has(const char *list, const char *url, size_t len);
void registry_list_add(char *list, size_t size, const char *url, size_t len);

/* Copies a list for display. A list that does not fit is cut and ends with its checksum. */
void registry_shorten_list(const char *list, char *out, size_t size);

/* True when a checked URL's host is "localhost" or a loopback address. */
bool registry_is_loopback(const char *url);

/* Whether an address is in a network (CIDR) of a list. */
bool registry_list_covers(const char *list, const char *address);

/* Finds the certificates that the node trusts, below host_root. "": none. */
void registry_find_ca(const char *host_root, char path[static PATH_MAX]);

/*
 * Mirror health: GET URL/v2/ (OCI distribution specification, "determining support") every 10 s,
 * within 2 s, without redirects or credentials. 200 and 401 mean healthy: a mirror that requires a
 * login works. A web page does not.
 *
 * The first answer sets the state. Later the state changes after two contradicting answers, 1 s
 * apart: one lost packet does not disable a mirror.
 */

#define MIRROR_WHY_MAX 192

enum mirror_state {
	MIRROR_UNKNOWN, /* not checked yet: not used */
	MIRROR_UP,
	MIRROR_DOWN,
};

struct mirror {
	char url[REGISTRY_URL_MAX]; /* without trailing slashes */
	enum mirror_state state;
	char why[MIRROR_WHY_MAX]; /* why the last check failed; "" after a success */
	uint64_t due_us;          /* CLOCK_MONOTONIC of the next check */
	uint64_t took_us;         /* duration of the last check */
	unsigned int against;     /* answers in a row that contradict the state */
};

/*
 * Checks all due mirrors at the same time. HTTPS uses the certificates that the node trusts, below
 * host_root ("" for /). A cancelled check changes nothing.
 */
void mirrors_check(
	struct mirror *mirrors, size_t n, const char *host_root, const struct wait *wait);
