/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names of registries, their mirrors' addresses and health, and lists of these. */

#include <stdbool.h>
#include <stddef.h>

#include "base/wait.h"

#define REGISTRY_NAME_MAX 262 /* a DNS name (253, RFC 1035), "[", "]", ":65535" and the end */
#define REGISTRY_URL_MAX  256
#define REGISTRY_DEFAULT  "_default" /* any registry without mirrors of its own */

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

/* True when a checked URL's host is "localhost" or a loopback address: surely on this node. */
bool registry_is_loopback(const char *url);

/*
 * Whether registry mirrors work: GET URL/v2/ (OCI distribution specification, "determining
 * support") every 10 s, each within 2 s. 200 and 401 are health: a mirror that wants a login is
 * alive. Nothing else is: redirects are not followed, no credentials are sent.
 *
 * The first answer counts at once. After that a state changes when two answers in a row say so, the
 * second asked 1 s after the first: one lost packet takes no mirror out.
 */

#define MIRROR_WHY_MAX 192

enum mirror_state {
	MIRROR_UNKNOWN, /* not checked yet: not to be used */
	MIRROR_UP,
	MIRROR_DOWN,
};

struct mirror {
	char url[REGISTRY_URL_MAX]; /* without slashes at its end */
	enum mirror_state state;
	char why[MIRROR_WHY_MAX]; /* of the last check's failure; "" after a success */
	uint64_t since_us;        /* CLOCK_MONOTONIC of the last change of state */
	uint64_t due_us;          /* CLOCK_MONOTONIC of the next check */
	uint64_t took_us;         /* the last answer */
	unsigned int against;     /* answers in a row that contradict the state */
};

/*
 * Checks at the same time all that are due. host_root ("" for /) is where the certificates are that
 * the node itself trusts. A check that was cancelled leaves a mirror as it was.
 */
void mirrors_check(
	struct mirror *mirrors, size_t n, const char *host_root, const struct wait *wait);

/* Takes one answer by the rule above. Writes state, since_us, due_us and against. */
void mirror_observe(struct mirror *mirror, bool healthy, uint64_t checked_us);
