/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/capability.h"

#include "base/cleanup.h"

#include <errno.h>

static void release_caps(cap_t *caps)
{
	if (*caps)
		cap_free(*caps);
}

bool capability_have(cap_value_t capability)
{
	_cleanup_(release_caps) cap_t caps = cap_get_proc();
	cap_flag_value_t value = CAP_CLEAR;

	return caps && cap_get_flag(caps, capability, CAP_EFFECTIVE, &value) == 0 &&
	       value == CAP_SET;
}

int capability_keep_only(const cap_value_t *kept, size_t n)
{
	_cleanup_(release_caps) cap_t caps = cap_init();

	if (!caps)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!capability_have(kept[i]))
			continue;
		if (cap_set_flag(caps, CAP_PERMITTED, 1, &kept[i], CAP_SET) < 0 ||
			cap_set_flag(caps, CAP_EFFECTIVE, 1, &kept[i], CAP_SET) < 0)
			return -errno;
	}
	return cap_set_proc(caps) < 0 ? -errno : 0;
}
