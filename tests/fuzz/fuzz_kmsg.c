/* SPDX-License-Identifier: Apache-2.0 */

/* Parses any bytes as a record of /dev/kmsg, and as a line of syslog(2). */

#include "base/text.h"
#include "kernel/kmsg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = must(calloc(1, size + 1));
	struct kmsg_record record = {.text = ""};

	memcpy(text, data, size);
	if (kmsg_parse_record(text, &record) &&
		(!text_is_printable(record.text) || record.level > 7))
		abort();
	if (kmsg_parse_line(text, &record) && (!text_is_printable(record.text) || record.level > 7))
		abort();
	return 0;
}
