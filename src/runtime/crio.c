/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cri_read.h"

static const struct runtime_location locations[] = {
	{.runtime = {.name = "crio",
		 .managed_by = RUNTIME_OF_NODE,
		 .socket = "/run/crio/crio.sock",
		 .config = "/etc/crio/crio.conf",
		 .unit = "crio.service"},
		.other_unit = "cri-o.service"},
	{.runtime = {0}},
};

static void read_crio(struct runtime_reading *reading)
{
	static const struct cri_question questions[] = {
		{cri_ask_version, false, true},
		{cri_ask_names, true, true},
		{cri_ask_store, true, true},
		{0},
	};

	cri_read(reading, questions);
}

const struct runtime_driver crio_driver = {
	.name = "crio",
	.locations = locations,
	.options = {"config", "c"},
	.read = read_crio,
	.serves_kubelet = true,
};
