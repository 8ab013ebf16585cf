/* SPDX-License-Identifier: Apache-2.0 */
#include "model/node.h"

#include "base/json.h"
#include "base/text.h"

struct setting *node_setting(const struct node *node, const char *name)
{
	return find_named(node->settings, node->n_settings, name);
}

const char *held_by_name(enum held_by held)
{
	return held == HELD_BY_MODE       ? "mode"
	       : held == HELD_BY_OWN_MODE ? "own-mode"
	       : held == HELD_BY_OPTION   ? "option"
					  : "restore";
}

bool node_transfers(const struct node *node)
{
	for (size_t i = 0; i < node->n_tuners; i++)
		if (node->tuners[i].under_way[TASK_TRANSFER] > 0)
			return true;
	return false;
}

bool node_restart_due(const struct node *node)
{
	for (size_t i = 0; i < node->n_settings; i++)
		if (node->settings[i].restart_due)
			return true;
	return false;
}

size_t node_would_change(const struct node *node)
{
	size_t n = 0;

	for (size_t i = 0; i < node->n_settings; i++) {
		const struct setting *setting = &node->settings[i];

		n += setting->mode != MODE_ENFORCE && setting->wanted[0] &&
		     setting->state == SETTING_OBSERVED && !setting_in_sync(setting);
	}
	return n;
}

enum verdict condition_verdict(const struct condition *condition)
{
	return condition->status == CONDITION_TRUE ? (enum verdict)condition->severity : VERDICT_OK;
}

enum verdict limit_verdict(const struct node *node, const struct limit *limit)
{
	double used = limit->now.max > 0 ? 1 - limit_headroom(limit) : 0;

	/* The first one is the worst. */
	for (size_t i = 0; i < node->findings.n; i++) {
		const struct finding *finding = &node->findings.findings[i];

		if (streq(finding->slug, limit->now.name))
			return finding->ignored ? VERDICT_OK : (enum verdict)finding->severity;
	}
	return used >= 0.95 ? VERDICT_CRITICAL : used >= 0.8 ? VERDICT_WARNING : VERDICT_OK;
}

enum verdict node_verdict(const struct node *node)
{
	enum verdict worst = VERDICT_OK;

	for (size_t i = 0; i < node->n_conditions; i++)
		worst = MAX(worst, condition_verdict(&node->conditions[i]));
	return worst;
}

const char *const tuner_state_names[] = {
	[TUNER_ACTIVE] = "active",
	[TUNER_DEGRADED] = "degraded",
	[TUNER_OFF] = "off",
};

const char *const verdict_names[] = {
	[VERDICT_OK] = "ok",
	[VERDICT_WARNING] = "warning",
	[VERDICT_CRITICAL] = "critical",
};

void condition_unknown(struct condition_reading *reading, enum reason reason)
{
	reading->status = CONDITION_UNKNOWN;
	reading->reason = reason;
}

void condition_append(struct condition_reading *reading, const char *format, ...)
{
	size_t used = strlen(reading->message);
	va_list args;

	va_start(args, format);
	vsnprintf(reading->message + used, sizeof(reading->message) - used, format, args);
	va_end(args);
}

const char *const condition_status_names[] = {
	[CONDITION_FALSE] = "False",
	[CONDITION_TRUE] = "True",
	[CONDITION_UNKNOWN] = "Unknown",
};

const char *const severity_names[] = {
	[SEVERITY_WARNING] = "warning",
	[SEVERITY_CRITICAL] = "critical",
	[SEVERITY_ADVICE] = "advice",
};

const char *const workload_kind_names[] = {
	[WORKLOAD_HOST] = "host",
	[WORKLOAD_POD] = "pod",
	[WORKLOAD_CONTAINER] = "container",
	[WORKLOAD_UNIT] = "unit",
	[WORKLOAD_LXD] = "lxd",
	[WORKLOAD_NETNS] = "netns",
	[WORKLOAD_UID] = "uid",
};

const char *workload_name(const struct workload *workload)
{
	return workload->name[0] ? workload->name : workload->id;
}

bool workload_equal(const struct workload *a, const struct workload *b)
{
	return a->kind == b->kind && streq(a->namespace, b->namespace) && streq(a->name, b->name) &&
	       streq(a->id, b->id);
}

bool workload_is_named(const struct workload *workload)
{
	return !starts_with(workload->id, workload_name(workload));
}

bool workload_lacks_name(const struct workload *workload)
{
	return (workload->kind == WORKLOAD_POD || workload->kind == WORKLOAD_CONTAINER ||
		       workload->kind == WORKLOAD_NETNS) &&
	       !workload_is_named(workload);
}

bool workload_is_unknown_netns(const struct workload *workload)
{
	return workload->kind == WORKLOAD_NETNS && streq(workload->name, workload->id);
}

void workload_describe(const struct workload *workload, char *text, size_t size)
{
	if (workload->kind == WORKLOAD_HOST)
		snprintf(text, size, "host");
	else
		snprintf(text, size, "%s %s%s%s", workload_kind_names[workload->kind],
			workload->namespace, workload->namespace[0] ? "/" : "",
			workload_name(workload));
}

void workload_json(cJSON *parent, const struct workload *workload)
{
	cJSON *object = json_object(parent, "workload");
	char text[WORKLOAD_TEXT_MAX];

	json_text(object, "kind", workload_kind_names[workload->kind]);
	json_text(object, "namespace", workload->namespace);
	json_text(object, "name", workload_name(workload));
	json_text(object, "id", workload->id);
	workload_describe(workload, text, sizeof(text));
	json_text(object, "text", text);
}
