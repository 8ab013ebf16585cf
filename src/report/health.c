/* SPDX-License-Identifier: Apache-2.0 */
#include "report/report.h"

#include "base/json.h"
#include "base/text.h"

cJSON *report_health(const struct node *node)
{
	cJSON *root = cJSON_CreateObject();
	cJSON *checks;

	json_text(root, "status", verdict_names[node_verdict(node)]);
	checks = json_array(root, "checks");
	for (size_t i = 0; i < node->n_conditions; i++) {
		const struct condition *condition = &node->conditions[i];
		cJSON *check = json_append(checks);

		json_text(check, "type", condition->now.type->name);
		json_text(check, "status", verdict_names[condition_verdict(condition)]);
		json_text(check, "reason", condition->now.reason);
		json_text(check, "message", condition->now.message);
	}
	return root;
}

/* A tuner that is on must work, or say what it lacks; off though it is on is a fault. */
static bool put_tuner(FILE *out, const struct tuner_status *tuner)
{
	bool degraded = tuner->state == TUNER_DEGRADED && tuner->why[0];
	bool good = tuner->mode == MODE_OFF || tuner->state == TUNER_ACTIVE || degraded;
	char since[TIME_TEXT_MAX];

	fprintf(out, "[%c] %s: %s",
		!good      ? '-'
		: degraded ? '~'
			   : '+',
		tuner->ops->name,
		tuner->mode == MODE_OFF ? "off" : tuner_state_names[tuner->state]);
	if (tuner->mode == MODE_RELEASED) {
		time_text(tuner->since_us, since);
		fprintf(out, ", released since %s", since);
	}
	fprintf(out, "%s%s\n", tuner->mode != MODE_OFF && tuner->why[0] ? ": " : "",
		tuner->mode != MODE_OFF ? tuner->why : "");
	return good;
}

bool report_ready(FILE *out, const struct node *node)
{
	bool ready = node->applied;

	fputs(ready ? "[+] applied\n" : "[-] applied: the first apply is not done yet\n", out);
	for (size_t i = 0; i < node->n_tuners; i++)
		ready &= put_tuner(out, &node->tuners[i]);
	fputs(ready ? "ready\n" : "not ready\n", out);
	return ready;
}

void report_line(const struct node *node, char line[static STATUS_LINE_MAX])
{
	size_t synced = 0;

	for (size_t i = 0; i < node->n_settings; i++)
		synced += setting_in_sync(&node->settings[i]);
	copy_text(line, STATUS_LINE_MAX, verdict_names[node_verdict(node)]);
	for (size_t i = 0; i < node->n_conditions; i++)
		if (node->conditions[i].now.status == CONDITION_TRUE)
			text_append(
				line, STATUS_LINE_MAX, ", %s", node->conditions[i].now.type->name);
	text_append(
		line, STATUS_LINE_MAX, "; %zu of %zu settings in sync", synced, node->n_settings);
	if (node_would_change(node) > 0)
		text_append(line, STATUS_LINE_MAX, "; %zu would change", node_would_change(node));
	for (size_t i = 0; i < node->n_tuners; i++)
		if (node->tuners[i].mode == MODE_RELEASED)
			text_append(
				line, STATUS_LINE_MAX, "; %s released", node->tuners[i].ops->name);
	/* Whole percents, so that a busy table does not send a new line every second. */
	for (size_t i = 0; i < node->n_limits; i++)
		if (node->limits[i].now.max > 0)
			text_append(line, STATUS_LINE_MAX, "; %s %.0f %% used",
				node->limits[i].now.name,
				(1 - limit_headroom(&node->limits[i])) * 100);
}
