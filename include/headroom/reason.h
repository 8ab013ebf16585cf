/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The reason of the state of a setting, condition or image. The log, JSON, metrics and `explain`
 * print its slug. Code compares reasons, never slugs: JSON is parsed with reason_parse() first.
 */

#include <stdbool.h>

#define ROW(name, ...) REASON_##name,

enum reason {
	REASON_NONE,
#include <headroom/reason_rows.h>
	REASONS,
};

#undef ROW

/* The person or program that must act before a reason goes away. */
enum reason_act {
	ACT_NOBODY,   /* nothing is wrong, or nothing can be done */
	ACT_AGENT,    /* the agent goes on by itself */
	ACT_ADMIN,    /* the administrator of the node */
	ACT_WRITER,   /* whoever else writes the value */
	ACT_WORKLOAD, /* the owner of a workload */
	ACT_SERVER,   /* the operator of a registry, mirror or DNS server */
};

struct reason_row {
	const char *slug; /* "near-full" */
	const char *help;
	enum reason_act act;
	bool retry;         /* a later attempt can succeed although nobody has acted */
	bool unmet;         /* `apply` reports a setting with it, although no write failed */
	bool chosen;        /* of a value that the node has: shown instead of in-sync */
	bool told;          /* doctor prints it although it is only advice */
	const char *absent; /* what the node lacks, so that a condition does not apply; or NULL */
};

/* By reason. The row of REASON_NONE has empty texts and allows retries. */
extern const struct reason_row reason_rows[REASONS];

/* REASON_NONE for an unknown slug. */
enum reason reason_parse(const char *slug);

/* Returns "the administrator must act"; NULL: nobody must. With retry: "... if retries fail". */
const char *reason_act_text(enum reason reason);
