/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/workload.h>

#include "base/json.h"

#include <stdio.h>

const char *const workload_kind_names[] = {
	[WORKLOAD_HOST] = "host",
	[WORKLOAD_POD] = "pod",
	[WORKLOAD_CONTAINER] = "container",
	[WORKLOAD_UNIT] = "unit",
	[WORKLOAD_LXD] = "lxd",
	[WORKLOAD_NETNS] = "netns",
};

void workload_describe(const struct workload *workload, char *text, size_t size)
{
	if (workload->kind == WORKLOAD_HOST)
		snprintf(text, size, "the host");
	else
		snprintf(text, size, "%s %s%s%s", workload_kind_names[workload->kind],
			workload->namespace, workload->namespace[0] ? "/" : "", workload->name);
}

void workload_json(struct json *json, cJSON *parent, const struct workload *workload)
{
	cJSON *object = json_object(json, parent, "workload");

	json_text(json, object, "kind", workload_kind_names[workload->kind]);
	json_text(json, object, "namespace", workload->namespace);
	json_text(json, object, "name", workload->name);
	json_text(json, object, "id", workload->id);
}
