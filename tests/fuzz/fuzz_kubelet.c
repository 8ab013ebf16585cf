/* SPDX-License-Identifier: Apache-2.0 */

/* Any bytes at all as the kubelet's configuration, and as its command line. */

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "tuners/kubelet/kubelet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_values(struct kubelet_values *values)
{
	for (int i = 0; i < KUBELET_FIELDS; i++)
		if (strpbrk(values->field[i].text, "\n\r\033"))
			abort();
	kubelet_fill_defaults(values, false);
	if (!streq(values->field[KUBELET_SERIALIZE_IMAGE_PULLS].text, "true") &&
		!streq(values->field[KUBELET_SERIALIZE_IMAGE_PULLS].text, "false"))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kubelet_values values = {0};
	struct kubelet_process process = {0};
	char why[TUNER_WHY_MAX] = "";
	char *line = calloc(1, size + 1);
	int r = kubelet_parse("/f", (const char *)data, size, &values, why);

	if (!line)
		return -1;
	if (r == -EBADMSG && (!starts_with(why, "/f:") || strpbrk(why, "\n\r\033")))
		abort();
	check_values(&values);
	/* Words end with a NUL, as /proc has them: and so does the last. */
	if (size > 0)
		memcpy(line, data, size);
	kubelet_parse_command_line(line, size + 1, &process);
	check_values(&process.flags);
	free(line);
	return 0;
}
