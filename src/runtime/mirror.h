/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_MIRROR_H
#define RUNTIME_MIRROR_H

/*
 * Whether registry mirrors work: GET URL/v2/ (OCI distribution specification, "determining
 * support") every 10 s, each within 2 s. 200 and 401 are health: a mirror that wants a login is
 * alive. Nothing else is: redirects are not followed, no credentials are sent.
 *
 * The first answer counts at once. After that a state changes when two answers in a row say so, the
 * second asked 1 s after the first: one lost packet takes no mirror out, and a mirror that comes
 * and goes rewrites no file with every check.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <systemd/sd-event.h>

#include "base/cleanup.h"
#include "runtime/registry.h"

#define MIRROR_WHY_MAX 192
#define MIRRORS_MAX    32

struct fetcher;
struct mirrors;

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
	uint64_t checked_us;      /* CLOCK_MONOTONIC of the last answer; 0: none yet */
	uint64_t took_us;         /* the last answer */
	unsigned int against;     /* answers in a row that contradict the state */
};

/* Some mirror's state has changed. Called from the loop. May call mirrors_set, not mirrors_close.
 */
typedef void mirrors_changed_fn(void *userdata);

/*
 * host_root ("" for /) is where the certificates are looked for that the node itself trusts.
 * fetcher must outlive the mirrors. 0 or -ENOMEM.
 */
int mirrors_open(sd_event *event, struct fetcher *fetcher, const char *host_root,
	mirrors_changed_fn *changed, void *userdata, struct mirrors **mirrors);

/*
 * Which mirrors to check from now on; those known already keep their state, new ones are checked at
 * once. Doubles count once. 0, -EINVAL (registry_check_url), -E2BIG above MIRRORS_MAX, or
 * -ENOMEM; on an error everything stays as it was.
 */
int mirrors_set(struct mirrors *mirrors, const char *const *urls, size_t n);

/* The mirror with this URL (slashes at its end do not matter), or NULL. Holds until mirrors_set. */
const struct mirror *mirrors_find(const struct mirrors *mirrors, const char *url);

/* All, in the order of mirrors_set. */
const struct mirror *mirrors_all(const struct mirrors *mirrors, size_t *n);

/*
 * Takes one more answer: the rule at the top of this page, without clock or socket. Writes state,
 * since_us, checked_us and against. True when the state has changed.
 */
bool mirror_observe(struct mirror *mirror, bool healthy, uint64_t checked_us);

/* True when each has had an answer or a failure. */
bool mirrors_settled(const struct mirrors *mirrors);

void mirrors_close(struct mirrors *mirrors); /* NULL is fine */

DEFINE_CLEANUP(struct mirrors, mirrors_close)

#endif
