/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <sys/capability.h>

/* Sends the messages of libbpf to the log, at debug level. */
void bpf_quiet_libbpf(void);

/* Writes the error and the cure. error is -errno as returned by libbpf. */
void bpf_explain_failure(int error, char *why, size_t size);

/* Returns whether programs may call this function of the kernel, as far as its types tell. */
bool bpf_kernel_has_function(const char *name);

/*
 * Calls visit for every element of a map, in no order. It may miss elements that are added or
 * removed meanwhile. Returns 0 or -errno; the elements visited before an error are valid.
 */
typedef void bpf_visit(void *userdata, const void *key, const void *value);
int bpf_each(int map, size_t key_size, size_t value_size, bpf_visit *visit, void *userdata);

/*
 * Drops all other capabilities of the calling thread, as far as it has these. Threads that it
 * starts later inherit the rest. Returns 0 or -errno.
 */
int capability_keep(const cap_value_t *kept, size_t n);

/* Returns whether the calling thread has the capability in its effective set. */
static inline bool capability_have(cap_value_t capability)
{
	cap_t caps = cap_get_proc();
	cap_flag_value_t value = CAP_CLEAR;
	bool have = caps && cap_get_flag(caps, capability, CAP_EFFECTIVE, &value) == 0 &&
		    value == CAP_SET;

	cap_free(caps);
	return have;
}
