/* SPDX-License-Identifier: Apache-2.0 */
#include "report/notify.h"

#include "base/util.h"

#include <inttypes.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>

#define STATUS_MAX 256

/*
 * Errors of sd_notify are ignored: the agent may run without a service manager, and one that gets
 * no message notices by itself.
 */
void notify_ready(void)
{
	sd_notify(0, "READY=1");
}

void notify_reloading(void)
{
	/* The time is required for Type=notify-reload, and ignored by systemd before 253. */
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_us());
}

void notify_stopping(void)
{
	sd_notify(0, "STOPPING=1");
}

void notify_watchdog(void)
{
	/* Only for who asked: each message wakes the service manager. */
	if (sd_watchdog_enabled(0, NULL) > 0)
		sd_notify(0, "WATCHDOG=1");
}

static void put_status(FILE *out, const struct node *node)
{
	size_t synced = 0;

	for (size_t i = 0; i < node->n_settings; i++)
		synced += setting_in_sync(&node->settings[i]);
	fputs(verdict_names[node_verdict(node)], out);
	for (size_t i = 0; i < node->n_conditions; i++)
		if (node->conditions[i].now.status == CONDITION_TRUE)
			fprintf(out, ", %s", node->conditions[i].now.type->name);
	fprintf(out, "; %zu of %zu settings in sync", synced, node->n_settings);
	if (node_would_change(node) > 0)
		fprintf(out, "; %zu would change", node_would_change(node));
	for (size_t i = 0; i < node->n_tuners; i++)
		if (node->tuners[i].mode == MODE_RELEASED)
			fprintf(out, "; %s released", node->tuners[i].ops->name);
	/* Whole percents, so that a busy table does not send a new line every second. */
	for (size_t i = 0; i < node->n_limits; i++)
		if (node->limits[i].now.max > 0)
			fprintf(out, "; %s %.0f %% used", node->limits[i].now.name,
				(1 - limit_headroom(&node->limits[i])) * 100);
}

void notify_status(const struct node *node, char keep[static STATUS_MAX])
{
	char status[STATUS_MAX] = "";
	FILE *out = fmemopen(status, sizeof(status) - 1, "w"); /* cuts what does not fit */

	if (!out)
		return;
	put_status(out, node);
	fclose(out);
	if (streq(status, keep))
		return;
	copy_text(keep, STATUS_MAX, status);
	sd_notifyf(0, "STATUS=%s", status);
}
