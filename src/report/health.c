/* SPDX-License-Identifier: Apache-2.0 */
#include "report/report.h"

#include "base/json.h"
#include "base/text.h"

int report_health(const struct node *node, char **ret, size_t *len)
{
	struct json json;
	cJSON *checks;

	json_begin(&json);
	json_text(&json, json.root, "status", verdict_names[node_verdict(node)]);
	checks = json_array(&json, json.root, "checks");
	for (size_t i = 0; i < node->n_conditions; i++) {
		const struct condition *condition = &node->conditions[i];
		cJSON *check = json_append(&json, checks);

		json_text(&json, check, "type", condition->now.type->name);
		json_text(&json, check, "status", verdict_names[condition_verdict(condition)]);
		json_text(&json, check, "reason", condition->now.reason);
		json_text(&json, check, "message", condition->now.message);
	}
	return json_end(&json, false, ret, len);
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

struct ready_text {
	const struct node *node;
	bool ready;
};

static void put_ready(FILE *out, void *data)
{
	struct ready_text *text = data;
	const struct node *node = text->node;

	text->ready = node->applied;
	fputs(node->applied ? "[+] applied\n" : "[-] applied: the first apply is not done yet\n",
		out);
	for (size_t i = 0; i < node->n_tuners; i++)
		text->ready &= put_tuner(out, &node->tuners[i]);
	fputs(text->ready ? "ready\n" : "not ready\n", out);
}

int report_ready(const struct node *node, bool *ready, char **ret, size_t *len)
{
	struct ready_text text = {.node = node};
	int r = document_text(put_ready, &text, ret, len);

	if (r == 0)
		*ready = text.ready;
	return r;
}
