/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <sys/capability.h>

/*
 * What every user of libbpf needs: its messages go to the log at debug level, and an error of
 * opening, loading or attaching becomes one sentence with errno and cure in why.
 */
void bpf_quiet_libbpf(void);

/* error is -errno as libbpf returned it. */
void bpf_explain_failure(int error, char *why, size_t size);

/*
 * Calls take for every element of a map, given by its descriptor, in no order. What comes or goes
 * meanwhile may be left out. 0 or -errno; what was taken until then was right.
 */
typedef void bpf_take(void *userdata, const void *key, const void *value);
int bpf_each(int map, size_t key_size, size_t value_size, bpf_take *take, void *userdata);

/* True when this process has it in its effective set. */
static inline bool capability_have(cap_value_t capability)
{
	cap_t caps = cap_get_proc();
	cap_flag_value_t value = CAP_CLEAR;
	bool have = caps && cap_get_flag(caps, capability, CAP_EFFECTIVE, &value) == 0 &&
		    value == CAP_SET;

	cap_free(caps);
	return have;
}
