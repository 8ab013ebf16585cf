/* SPDX-License-Identifier: Apache-2.0 */
#include "report/report.h"

#include "base/build.h"
#include "base/json.h"

#include <string.h>

#define STATUS_SCHEMA 1

static void add_node(struct json *json, const struct node *node)
{
	cJSON *object = json_object(json, json->root, "node");

	json_text(json, object, "name", node->name);
	json_text(json, object, "version", HEADROOM_VERSION);
	json_text(json, object, "commit", HEADROOM_COMMIT);
	json_time(json, object, "started", node->started_us);
	json_text(json, object, "verdict", verdict_names[node_verdict(node)]);
	json_bool(json, object, "applied", node->applied);
	json_number(json, object, "would_change", (double)node_would_change(node));
}

static void add_top(struct json *json, cJSON *parent, const struct limit_reading *reading)
{
	cJSON *top = json_array(json, parent, "top");

	for (unsigned i = 0; i < reading->n_top; i++) {
		cJSON *user = json_append(json, top);

		workload_json(json, user, &reading->top[i].workload);
		json_number(json, user, "used", (double)reading->top[i].used);
	}
}

static void add_limit(struct json *json, cJSON *array, const struct limit *limit)
{
	cJSON *object = json_append(json, array);
	double full = limit_full_in_seconds(limit);

	json_text(json, object, "name", limit->now.name);
	json_number(json, object, "used", (double)limit->now.used);
	json_number(json, object, "max", (double)limit->now.max);
	json_text(json, object, "unit", limit->now.unit);
	json_number(json, object, "headroom", limit_headroom(limit));
	json_number(json, object, "peak", (double)limit->peak);
	json_number(json, object, "hits", (double)limit->now.hits);
	json_text(json, object, "bound", limit->now.upper_bound ? "upper" : "exact");
	if (full < 0)
		json_null(json, object, "full_in_seconds");
	else
		json_number(json, object, "full_in_seconds", full);
	add_top(json, object, &limit->now);
}

static void add_setting(struct json *json, cJSON *array, const struct setting *setting)
{
	cJSON *object = json_append(json, array);

	json_text(json, object, "name", setting->name);
	json_text(json, object, "tuner", setting->tuner);
	json_text(json, object, "mode", mode_names[setting->mode]);
	json_text(json, object, "wanted", setting->wanted);
	json_text(json, object, "actual", setting->actual);
	json_text(json, object, "original", setting->original);
	json_text(json, object, "state", setting_state_names[setting->state]);
	json_text(json, object, "reason", setting->reason);
	json_text(json, object, "why", setting->why);
}

static void add_condition(struct json *json, cJSON *array, const struct condition *condition)
{
	cJSON *object = json_append(json, array);

	json_text(json, object, "type", condition->now.type->name);
	json_text(json, object, "status", condition_status_names[condition->now.status]);
	json_text(json, object, "severity", severity_names[condition->now.type->severity]);
	json_text(json, object, "reason", condition->now.reason);
	json_text(json, object, "message", condition->now.message);
	json_time(json, object, "since", condition->since_us);
}

static void add_lists(struct json *json, const struct node *node)
{
	cJSON *limits = json_array(json, json->root, "limits");
	cJSON *settings = json_array(json, json->root, "settings");
	cJSON *conditions = json_array(json, json->root, "conditions");
	cJSON *tuners = json_array(json, json->root, "tuners");

	for (size_t i = 0; i < node->n_limits; i++)
		add_limit(json, limits, &node->limits[i]);
	for (size_t i = 0; i < node->n_settings; i++)
		add_setting(json, settings, &node->settings[i]);
	for (size_t i = 0; i < node->n_conditions; i++)
		add_condition(json, conditions, &node->conditions[i]);
	for (size_t i = 0; i < node->n_tuners; i++) {
		const struct tuner_status *tuner = &node->tuners[i];
		cJSON *object = json_append(json, tuners);

		json_text(json, object, "name", tuner->ops->name);
		json_text(json, object, "mode", mode_names[tuner->mode]);
		json_time(json, object, "since", tuner->since_us);
		json_text(json, object, "state", tuner_state_names[tuner->state]);
		json_text(json, object, "why", tuner->why);
	}
}

/* Members of the contract are there whether or not their tuner is: readers need not test. */
static void add_documents(struct json *json, const struct node *node, bool trusted)
{
	for (size_t i = 0; i < node->n_tuners; i++) {
		const struct tuner_status *tuner = &node->tuners[i];

		if (tuner->ops->document && tuner->self)
			json_adopt(json, json->root, tuner->ops->document_name,
				tuner->ops->document(tuner->self, tuner->memory, trusted));
	}
	if (!cJSON_HasObjectItem(json->root, "dns"))
		json_null(json, json->root, "dns");
	if (!cJSON_HasObjectItem(json->root, "images"))
		json_array(json, json->root, "images");
}

int report_status(const struct node *node, bool pretty, bool trusted, char **ret, size_t *len)
{
	struct json json;

	json_begin(&json);
	json_number(&json, json.root, "schema", STATUS_SCHEMA);
	add_node(&json, node);
	add_lists(&json, node);
	add_documents(&json, node, trusted);
	return json_end(&json, pretty, ret, len);
}

static void add_text_or_null(struct json *json, cJSON *object, const char *key, const char *text)
{
	if (text && text[0])
		json_text(json, object, key, text);
	else
		json_null(json, object, key);
}

int report_plan(const struct plan *plan, bool done, char **ret)
{
	struct json json;
	cJSON *changes;
	size_t failed = 0;

	json_begin(&json);
	changes = json_array(&json, json.root, "changes");
	for (size_t i = 0; i < plan->n; i++) {
		const struct change *change = &plan->changes[i];
		bool bad = done && change->error < 0;
		cJSON *object = json_append(&json, changes);

		json_text(&json, object, "name", change->name);
		json_text(&json, object, "tuner", change->tuner);
		json_text(&json, object, "old", change->old);
		if (change->left)
			json_null(&json, object, "new");
		else
			json_text(&json, object, "new", change->new);
		add_text_or_null(&json, object, "actual", done ? change->actual : NULL);
		json_text(&json, object, "reason", change->reason);
		add_text_or_null(&json, object, "error",
			!bad          ? NULL
			: change->why ? change->why
				      : strerror(-change->error));
		failed += bad;
	}
	json_number(&json, json.root, "failed", (double)failed);
	return json_end(&json, true, ret, NULL);
}
