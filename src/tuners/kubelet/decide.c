/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/kubelet/kubelet.h"

#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* Images that a node may have to pull when it starts: what the advice assumes. */
#define START_IMAGES 60

/* The kubelet reads the file at its next start; headroom never restarts it. */
static const struct file_edit own_edit = {
	.text = kubelet_own_text,
	.service = {.activation = ACTIVATE_NOTHING, .unit = "kubelet.service"},
};

static bool is_serial(const struct kubelet_values *values)
{
	return streq(values->field[KUBELET_SERIALIZE_IMAGE_PULLS].text, "true");
}

/* 0 also for a field without a value. */
static uint64_t number_of(const struct kubelet_values *values, enum kubelet_field field)
{
	uint64_t number = 0;

	(void)parse_count(values->field[field].text, &number);
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
	if (seen->values.field[KUBELET_SERIALIZE_IMAGE_PULLS].origin == KUBELET_FLAG)
		return "the kubelet's command line has --serialize-image-pulls, which overrides "
		       "its files: remove the flag";
	if (seen->overridden)
		return "a file that comes after " KUBELET_OWN_FILE
		       " sets serializeImagePulls: change it there";
	return NULL;
}

/* What the running kubelet took at its start; NULL: not known. */
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
			running->field[KUBELET_SERIALIZE_IMAGE_PULLS].text);
	want->reason = "kept";
	/* Nothing is written where the others' files say the same already. */
	if (!config->manage || kubelet_unmanageable(seen) ||
		(!is_serial(&seen->others) && seen->own == KUBELET_OWN_MISSING))
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

static bool is_problem(const struct kubelet_values *values)
{
	uint64_t most = number_of(values, KUBELET_MAX_PARALLEL_IMAGE_PULLS);

	return is_serial(values) || (most > 0 && most < KUBELET_FEW_PULLS);
}

/* "serializeImagePulls is true (by default)", with where it was given, and the cure. */
static void describe_problem(const struct kubelet_seen *seen, const struct kubelet_values *values,
	struct condition_reading *condition)
{
	bool serial = is_serial(values);
	enum kubelet_field field =
		serial ? KUBELET_SERIALIZE_IMAGE_PULLS : KUBELET_MAX_PARALLEL_IMAGE_PULLS;
	const struct kubelet_value *value = &values->field[field];
	char from[160] = "by default", cure[256];

	if (value->origin == KUBELET_FILE)
		snprintf(from, sizeof(from), "%.120s:%u", value->file, value->line);
	else if (value->origin == KUBELET_FLAG)
		snprintf(from, sizeof(from), "by the flag --%s", kubelet_fields[field].flag);
	if (is_problem(&seen->values))
		snprintf(cure, sizeof(cure),
			": set serializeImagePulls: false and maxParallelImagePulls: 5 or more in "
			"%.80s, and restart the kubelet",
			seen->config[0] ? seen->config : "its configuration");
	else
		snprintf(cure, sizeof(cure),
			" for the running kubelet; its files say otherwise now: restart the "
			"kubelet");
	condition->status = CONDITION_TRUE;
	condition->reason = serial ? "serial-pulls" : "few-parallel-pulls";
	snprintf(condition->message, sizeof(condition->message), "%s is %s (%s)%s",
		kubelet_fields[field].name, value->text, from, cure);
}

static void describe_pulls(const struct kubelet_values *values, struct condition_reading *condition)
{
	uint64_t most = number_of(values, KUBELET_MAX_PARALLEL_IMAGE_PULLS);

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
	const struct kubelet_values *running = running_values(seen);
	const struct kubelet_values *values = running ? running : &seen->values;
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
	} else if (is_problem(values)) {
		describe_problem(seen, values, condition);
	} else {
		describe_pulls(values, condition);
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

size_t kubelet_advise(const struct kubelet_seen *seen,
	char advices[static KUBELET_ADVICES_MAX][CONDITION_MESSAGE_MAX])
{
	const struct kubelet_values *values = &seen->values;
	uint64_t qps = number_of(values, KUBELET_REGISTRY_PULL_QPS);
	uint64_t burst = number_of(values, KUBELET_REGISTRY_BURST);
	uint64_t high = number_of(values, KUBELET_IMAGE_GC_HIGH);
	const char *age = values->field[KUBELET_IMAGE_MAXIMUM_GC_AGE].text;
	size_t n = 0;

	if (seen->presence == KUBELET_ABSENT || seen->why[0])
		return 0;
	if (qps > 0 && burst < START_IMAGES)
		snprintf(advices[n++], CONDITION_MESSAGE_MAX,
			"registryPullQPS is %" PRIu64 " with registryBurst %" PRIu64
			": of %d images that a node needs at once, the last begins %" PRIu64
			" s late, and pulls beyond it fail and are tried again later. It limits "
			"how many begin, not how many run: raise both, or set registryPullQPS: 0.",
			qps, burst, START_IMAGES, (START_IMAGES - burst + qps - 1) / qps);
	if (high < 100)
		snprintf(advices[n++], CONDITION_MESSAGE_MAX,
			"From %" PRIu64
			" %% of the image file system on, the kubelet deletes images that no "
			"container uses, down to %" PRIu64
			" %%, preloaded images too unless they are pinned. Keep the preloaded "
			"images well below it, or raise imageGCHighThresholdPercent.",
			high, number_of(values, KUBELET_IMAGE_GC_LOW));
	if (strspn(age, "0smh") < strlen(age))
		snprintf(advices[n++], CONDITION_MESSAGE_MAX,
			"imageMaximumGCAge is %s: the kubelet deletes images unused for that long "
			"even when there is room, preloaded images too unless they are pinned. 0s "
			"switches it off.",
			age);
	return n;
}
