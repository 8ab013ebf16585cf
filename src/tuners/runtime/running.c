/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/util.h"

#include <stdio.h>

/* A process's start is known to a tick of the kernel's clock (10 ms), and times of files drift. */
#define START_SLACK_US (50 * USEC_PER_MSEC)

#define DEFAULT_DOWNLOADS "3" /* of every containerd; Docker's client knows its own */

void runtime_duration_text(uint64_t us, char text[static 32])
{
	uint64_t seconds = us / USEC_PER_SEC, hours = seconds / 3600, minutes = seconds / 60 % 60;
	size_t used = 0;

	if (hours > 0)
		used = (size_t)snprintf(text, 32, "%lluh", (unsigned long long)hours);
	if (hours > 0 || minutes > 0)
		used += (size_t)snprintf(
			text + used, 32 - used, "%llum", (unsigned long long)minutes);
	snprintf(text + used, 32 - used, "%llus", (unsigned long long)(seconds % 60));
}

/* What a daemon has read when it started is what stands there, if nobody has written since. */
static void infer(struct runtime_one *one, char value[static SETTING_VALUE_MAX],
	const char *on_disk, const char *otherwise)
{
	bool unchanged =
		one->started_us > 0 && one->file_changed_us <= one->started_us + START_SLACK_US;

	copy_text(value, SETTING_VALUE_MAX, !unchanged ? "" : on_disk[0] ? on_disk : otherwise);
}

void runtime_infer_running(struct runtime_one *one)
{
	bool told = one->told_downloads[0] &&
		    !strstr(one->edits[CONTAINERD_DOWNLOADS].table, "transfer");
	bool same = one->inferred_of_us == one->started_us && one->started_us > 0;

	if (one->where.kind != RUNTIME_CONTAINERD || one->file_signature == 0)
		return;
	/* Once known of a daemon it stays so, whatever is written to the file while it runs. */
	if (told)
		copy_text(one->downloads, SETTING_VALUE_MAX, one->told_downloads);
	else if (!same && one->file_error == 0)
		infer(one, one->downloads, one->on_disk_downloads, DEFAULT_DOWNLOADS);
	if (one->told_timeout[0])
		copy_text(one->timeout, SETTING_VALUE_MAX, one->told_timeout);
	else if (!same && one->file_error == 0)
		infer(one, one->timeout, one->on_disk_timeout, "");
	copy_text(one->directory, SETTING_VALUE_MAX, one->told_directory);
	one->inferred_of_us = one->started_us;
}
