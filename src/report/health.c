/* SPDX-License-Identifier: Apache-2.0 */
#include "report/report.h"

#include "base/json.h"
#include "base/text.h"

int report_health(const struct node *node, char **ret, size_t *len)
{
	struct json json;
	cJSON *checks;

	json_begin(&json);
	json_text(&json, json.root, "status", verdict_name(node_verdict(node)));
	checks = json_array(&json, json.root, "checks");
	for (size_t i = 0; i < node->n_conditions; i++) {
		const struct condition *condition = &node->conditions[i];
		cJSON *check = json_append(&json, checks);

		json_text(&json, check, "type", condition->now.type->name);
		json_text(&json, check, "status", verdict_name(condition_verdict(condition)));
		json_text(&json, check, "reason", condition->now.reason);
		json_text(&json, check, "message", condition->now.message);
	}
	return json_end(&json, false, ret, len);
}

/* A tuner that is switched on must work, or say what it lacks; off without being told is a fault.
 */
static bool put_tuner(FILE *out, const struct tuner_status *tuner)
{
	const char *name = tuner->ops->name;

	if (tuner->mode == MODE_OFF) {
		fprintf(out, "[+] %s: off\n", name);
		return true;
	}
	if (tuner->state == TUNER_ACTIVE) {
		fprintf(out, "[+] %s: active\n", name);
		return true;
	}
	if (tuner->state == TUNER_DEGRADED && tuner->why[0]) {
		fprintf(out, "[~] %s: degraded: %s\n", name, tuner->why);
		return true;
	}
	fprintf(out, "[-] %s: %s%s%s\n", name, tuner_state_name(tuner->state),
		tuner->why[0] ? ": " : "", tuner->why);
	return false;
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
