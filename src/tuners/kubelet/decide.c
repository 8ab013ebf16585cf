/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/kubelet/kubelet.h"

#include "base/parse.h"
#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

const char kubelet_own_text[] =
	"# Written by headroom, because its configuration says kubelet.manage: true.\n"
	"# headroom restore takes this file away.\n"
	"apiVersion: kubelet.config.k8s.io/v1beta1\n"
	"kind: KubeletConfiguration\n"
	"serializeImagePulls: false\n";

/* The kubelet reads the file at its next start; headroom never restarts it. */
static const struct file_edit own_edit = {
	.text = kubelet_own_text,
	.service = {.activation = ACTIVATE_NOTHING, .unit = "kubelet.service"},
};

static const struct kubelet_value *field(
	const struct kubelet_values *values, enum kubelet_field which)
{
	return &values->field[which];
}

static bool is_serial(const struct kubelet_values *values)
{
	return streq(field(values, KUBELET_SERIALIZE_IMAGE_PULLS)->text, "true");
}

/* How many images at once; 0 for any number. */
static uint64_t most_pulls(const struct kubelet_values *values)
{
	uint64_t number = 0;

	(void)parse_count(field(values, KUBELET_MAX_PARALLEL_IMAGE_PULLS)->text, &number);
	return number;
}

const char *kubelet_unmanageable(const struct kubelet_seen *seen)
{
	if (seen->presence != KUBELET_RUNNING)
		return "no running kubelet was found, so its drop-in directory is not known: start "
		       "the kubelet";
	if (seen->config_dir[0] == '\0')
		return "the kubelet reads no drop-in directory: start it with --config-dir (from "
		       "Kubernetes 1.28), or write serializeImagePulls: false into its file";
	if (field(&seen->values, KUBELET_SERIALIZE_IMAGE_PULLS)->origin == KUBELET_FLAG)
		return "--serialize-image-pulls stands on the kubelet's command line and wins over "
		       "its files: remove the flag";
	if (seen->overridden)
		return "a file that comes after " KUBELET_OWN_FILE
		       " sets serializeImagePulls: change it there";
	return NULL;
}

/* Nothing is written where the others' files say the same already. */
static bool is_wanted(const struct kubelet_seen *seen, const struct kubelet_config *config)
{
	return config->manage && !kubelet_unmanageable(seen) &&
	       (is_serial(&seen->others) || seen->own != KUBELET_OWN_MISSING);
}

static const struct kubelet_values *running_values(const struct kubelet_seen *seen)
{
	if (seen->values_run)
		return &seen->values;
	return seen->others_run ? &seen->others : NULL;
}

static int decide_setting(const struct kubelet_seen *seen, const struct kubelet_config *config,
	struct proposal *proposal)
{
	const struct kubelet_values *running = running_values(seen);
	struct file_want *want = proposal_file(proposal);

	if (!want)
		return -ENOMEM;
	copy_text(want->name, sizeof(want->name), KUBELET_SETTING);
	want->target = (struct file_target){.format = EDIT_OWN};
	copy_text(want->target.path, sizeof(want->target.path), seen->config);
	if (running)
		copy_text(want->actual, sizeof(want->actual),
			field(running, KUBELET_SERIALIZE_IMAGE_PULLS)->text);
	want->reason = "kept";
	if (!is_wanted(seen, config))
		return 0;
	if (snprintf(want->target.path, sizeof(want->target.path), "%s/%s", seen->config_dir,
		    KUBELET_OWN_FILE) >= (int)sizeof(want->target.path)) {
		want->error = -ENAMETOOLONG;
		return 0;
	}
	want->reason = "configured";
	want->edit = &own_edit;
	copy_text(want->wanted, sizeof(want->wanted), "false");
	if (seen->own == KUBELET_OWN_WRITTEN)
		copy_text(want->on_disk, sizeof(want->on_disk), "false");
	else if (seen->own == KUBELET_OWN_OTHER)
		copy_text(want->on_disk, sizeof(want->on_disk), "another text");
	return 0;
}

/* "serializeImagePulls is true (by default)", with where it was given. */
static int describe(
	const struct kubelet_values *values, enum kubelet_field which, char *text, size_t size)
{
	const struct kubelet_value *value = field(values, which);
	int used = snprintf(text, size, "%s is %s (", kubelet_field_name(which), value->text);

	if (value->origin == KUBELET_FILE)
		used += snprintf(
			text + used, size - (size_t)used, "%.120s:%u)", value->file, value->line);
	else if (value->origin == KUBELET_FLAG)
		used += snprintf(text + used, size - (size_t)used, "by the flag --%s)",
			kubelet_field_flag(which));
	else
		used += snprintf(text + used, size - (size_t)used, "by default)");
	return used;
}

static void say_problem(const struct kubelet_seen *seen, const struct kubelet_values *values,
	bool changed, struct condition_reading *condition)
{
	bool serial = is_serial(values);
	size_t size = sizeof(condition->message);
	int used = describe(values,
		serial ? KUBELET_SERIALIZE_IMAGE_PULLS : KUBELET_MAX_PARALLEL_IMAGE_PULLS,
		condition->message, size);

	condition->status = CONDITION_TRUE;
	condition->reason = serial ? "serial-pulls" : "few-parallel-pulls";
	if (changed)
		snprintf(condition->message + used, size - (size_t)used,
			" for the running kubelet; its files say otherwise now: restart the kubelet");
	else
		snprintf(condition->message + used, size - (size_t)used,
			": set serializeImagePulls: false and maxParallelImagePulls: 5 or more in "
			"%.80s, and restart the kubelet",
			seen->config[0] ? seen->config : "its configuration");
}

static bool is_problem(const struct kubelet_values *values)
{
	uint64_t most = most_pulls(values);

	return is_serial(values) || (most > 0 && most < KUBELET_FEW_PULLS);
}

static void judge_pulls(const struct kubelet_seen *seen, struct condition_reading *condition)
{
	const struct kubelet_values *running = running_values(seen);
	const struct kubelet_values *values = running ? running : &seen->values;
	uint64_t most = most_pulls(values);

	if (is_problem(values)) {
		say_problem(seen, values, !is_problem(&seen->values), condition);
		return;
	}
	condition->status = CONDITION_FALSE;
	condition->reason = "parallel-pulls";
	if (most > 0)
		snprintf(condition->message, sizeof(condition->message),
			"the kubelet pulls up to %" PRIu64 " images at once", most);
	else
		copy_text(condition->message, sizeof(condition->message),
			"the kubelet pulls any number of images at once");
}

static int decide_condition(const struct kubelet_seen *seen, struct proposal *proposal)
{
	struct condition_reading *condition = proposal_condition(proposal);

	if (!condition)
		return -ENOMEM;
	condition->type = &kubelet_conditions[KUBELET_SERIAL_PULLS];
	condition->status = CONDITION_UNKNOWN;
	if (seen->presence == KUBELET_ABSENT) {
		condition->reason = "no-kubelet";
		copy_text(condition->message, sizeof(condition->message),
			"no kubelet was found on this node");
	} else if (seen->why[0]) {
		condition->reason = "kubelet-config-unreadable";
		copy_text(condition->message, sizeof(condition->message), seen->why);
	} else {
		judge_pulls(seen, condition);
	}
	return 0;
}

int kubelet_decide(const struct kubelet_seen *seen, const struct kubelet_config *config,
	struct proposal *proposal)
{
	/* What a broken file means nobody knows: nothing is written beside it. */
	if (seen->presence != KUBELET_ABSENT && seen->why[0] == '\0') {
		int r = decide_setting(seen, config, proposal);

		if (r < 0)
			return r;
	}
	return decide_condition(seen, proposal);
}
