/* SPDX-License-Identifier: Apache-2.0 */

/* Parses any bytes as the configuration of the kubelet. */

#include "runtime/kubelet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_values(const struct kubelet_values *values)
{
	for (int i = 0; i < KUBELET_FIELDS; i++)
		if (strpbrk(values->field[i].text, "\n\r\033"))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kubelet_values values = {0};
	char why[KUBELET_WHY_MAX] = "";
	int r = kubelet_parse("/f", (const char *)data, size, &values, why);

	if (r == -EBADMSG && (!starts_with(why, "/f:") || strpbrk(why, "\n\r\033")))
		abort();
	check_values(&values);
	return 0;
}
