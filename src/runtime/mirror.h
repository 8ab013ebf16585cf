/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_MIRROR_H
#define RUNTIME_MIRROR_H

/*
 * Whether registry mirrors work: GET URL/v2/ (OCI distribution specification, "determining
 * support") every 10 s, each within 2 s. 200 and 401 are health: a mirror that wants a login is
 * alive. Nothing else is: redirects are not followed, no credentials are sent.
 *
 * The first answer counts at once. After that a state changes when two answers in a row say so, the
 * second asked 1 s after the first: one lost packet takes no mirror out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wait.h"
#include "runtime/registry.h"

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

#endif
