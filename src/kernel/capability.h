/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_CAPABILITY_H
#define KERNEL_CAPABILITY_H

#include <stdbool.h>
#include <stddef.h>

#include <sys/capability.h>

/* True when this process has it in its effective set. */
bool capability_have(cap_value_t capability);

/*
 * Gives up, for good, every capability but those listed, which stay as far as they are had. 0 or
 * -errno.
 */
int capability_keep_only(const cap_value_t *kept, size_t n);

#endif
