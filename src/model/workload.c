/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/workload.h>

const char *workload_kind_name(enum workload_kind kind)
{
	static const char *const names[] = {
		[WORKLOAD_HOST] = "host",
		[WORKLOAD_POD] = "pod",
		[WORKLOAD_CONTAINER] = "container",
		[WORKLOAD_UNIT] = "unit",
		[WORKLOAD_LXD] = "lxd",
		[WORKLOAD_NETNS] = "netns",
	};

	return names[kind];
}
