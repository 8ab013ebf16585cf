/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEADROOM_CONDITION_H
#define HEADROOM_CONDITION_H

/* A condition is a statement about the node's health. True means that there is a problem. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONDITION_MESSAGE_MAX 320

enum condition_type {
	CONDITION_NEIGHBOR_TABLE_PRESSURE,
	CONDITION_NEIGHBOR_TABLE_OVERFLOW,
	CONDITION_TRANSPARENT_HUGE_PAGES_ACTIVE,
	CONDITION_DNS_BUDGET_PRESSURE,
	CONDITION_DNS_BUDGET_EXCEEDED,
	CONDITION_DNS_UNANSWERED,
	CONDITION_DNS_FORWARDER_CROWDING,
	CONDITION_RUNTIME_UNREACHABLE,
	CONDITION_RUNTIME_RESTART_PENDING,
	CONDITION_IMAGE_STORE_FULL,
	CONDITION_PULL_STUCK,
	CONDITION_KUBELET_SERIAL_PULLS,
	CONDITION_OF_TUNERS, /* those above are the tuners', those below the agent's own */
	CONDITION_SETTING_DRIFTED = CONDITION_OF_TUNERS,
	CONDITION_SETTING_FAILED,
	CONDITION_CONFIG_INVALID,
	CONDITION_AGENT_DEGRADED,
	CONDITION_TYPES, /* how many there are */
};

enum condition_status {
	CONDITION_FALSE,
	CONDITION_TRUE,
	CONDITION_UNKNOWN,
};

/* What a True condition does to the verdict of /health. */
enum severity {
	SEVERITY_WARNING,
	SEVERITY_CRITICAL,
};

/* What is said of a condition just now. */
struct condition_reading {
	enum condition_type type;
	enum condition_status status;
	const char *reason; /* a slug of src/model/reason.c */
	char message[CONDITION_MESSAGE_MAX];
};

struct condition {
	struct condition_reading now;
	uint64_t since_us; /* CLOCK_REALTIME of the last change of status */
};

/* Takes a new reading; since_us moves only when the status changes. True when it did. */
bool condition_observe(
	struct condition *condition, const struct condition_reading *reading, uint64_t realtime_us);

const char *condition_name(enum condition_type type);            /* "NeighborTableOverflow" */
const char *condition_status_name(enum condition_status status); /* "True" */
const char *condition_sentence(enum condition_type type);        /* what it means, and the cure */
enum severity condition_severity(enum condition_type type);
bool condition_by_name(const char *name, enum condition_type *type); /* type only on success */

#endif
