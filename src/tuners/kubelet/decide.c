/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/kubelet/kubelet.h"

/* Images that a node may have to pull when it starts: what the advice assumes. */
#define START_IMAGES 60

#define FEW_PULLS 3 /* below this many at once, pulls wait for each other */

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

static void decide_setting(const struct kubelet *kubelet, struct proposal *proposal)
{
	const struct kubelet_seen *seen = &kubelet->seen;
	const struct kubelet_values *running = running_values(seen);
	struct want *want = proposal_file(proposal, kubelet_own_text);
	struct file_change *file = want->file;

	copy_text(want->name, sizeof(want->name), KUBELET_SETTING);
	file->target.format = EDIT_OWN;
	copy_text(file->target.path, sizeof(file->target.path), seen->config);
	if (running)
		copy_text(want->actual, sizeof(want->actual),
			running->field[KUBELET_SERIALIZE_IMAGE_PULLS].text);
	want->reason = "kept";
	/* Nothing is written where the others' files say the same already. */
	if (!kubelet->manage || kubelet_unmanageable(seen) ||
		(!is_serial(&seen->others) && seen->own == KUBELET_OWN_MISSING))
		return;
	if (snprintf(file->target.path, sizeof(file->target.path), "%s/%s", seen->config_dir,
		    KUBELET_OWN_FILE) >= (int)sizeof(file->target.path)) {
		want->error = -ENAMETOOLONG;
		return;
	}
	want->reason = "configured";
	/* The kubelet reads the file at its next start; headroom never restarts it. */
	file->edit.service =
		(struct service){.activation = ACTIVATE_NOTHING, .unit = "kubelet.service"};
	copy_text(want->wanted, sizeof(want->wanted), "false");
	if (seen->own == KUBELET_OWN_WRITTEN)
		copy_text(file->on_disk, sizeof(file->on_disk), "false");
	else if (seen->own == KUBELET_OWN_OTHER)
		copy_text(file->on_disk, sizeof(file->on_disk), "another text");
}

static bool is_problem(const struct kubelet_values *values)
{
	uint64_t most = number_of(values, KUBELET_MAX_PARALLEL_IMAGE_PULLS);

	return is_serial(values) || (most > 0 && most < FEW_PULLS);
}

/* "serializeImagePulls is true (by default)", with where it was given, and the cure. */
static void describe_problem(const struct kubelet_seen *seen, const struct kubelet_values *values,
	struct condition_reading *condition)
{
	bool serial = is_serial(values);
	enum kubelet_field field =
		serial ? KUBELET_SERIALIZE_IMAGE_PULLS : KUBELET_MAX_PARALLEL_IMAGE_PULLS;
	const struct kubelet_value *value = &values->field[field];

	condition_raise(condition, serial ? "serial-pulls" : "few-parallel-pulls", "%s is %s (",
		kubelet_fields[field].name, value->text);
	if (value->origin == KUBELET_FILE)
		condition_append(condition, "%.120s:%u)", value->file, value->line);
	else if (value->origin == KUBELET_FLAG)
		condition_append(condition, "by the flag --%s)", kubelet_fields[field].flag);
	else
		condition_append(condition, "by default)");
	if (is_problem(&seen->values))
		condition_append(condition,
			": set serializeImagePulls: false and maxParallelImagePulls: 5 or more in "
			"%.80s, and restart the kubelet",
			seen->config[0] ? seen->config : "its configuration");
	else
		condition_append(condition,
			" for the running kubelet; its files say otherwise now: restart the "
			"kubelet");
}

static void decide_condition(const struct kubelet_seen *seen, struct proposal *proposal)
{
	const struct kubelet_values *running = running_values(seen);
	const struct kubelet_values *values = running ? running : &seen->values;
	struct condition_reading *condition =
		proposal_condition(proposal, kubelet_conditions, "parallel-pulls");

	if (seen->presence == KUBELET_ABSENT) {
		condition->status = CONDITION_UNKNOWN;
		condition->reason = "no-kubelet";
		condition_append(condition, "no kubelet was found on this node");
	} else if (seen->why[0]) {
		condition->status = CONDITION_UNKNOWN;
		condition->reason = "kubelet-config-unreadable";
		condition_append(condition, "%s", seen->why);
	} else if (is_problem(values)) {
		describe_problem(seen, values, condition);
	} else if (number_of(values, KUBELET_MAX_PARALLEL_IMAGE_PULLS) > 0) {
		condition_append(condition, "the kubelet pulls up to %s images at once",
			values->field[KUBELET_MAX_PARALLEL_IMAGE_PULLS].text);
	} else {
		condition_append(condition, "the kubelet pulls any number of images at once");
	}
}

void kubelet_decide(
	const void *self, const struct decide_input *input, void *memory, struct proposal *proposal)
{
	const struct kubelet *kubelet = self;

	(void)input, (void)memory;
	/* The meaning of a broken file is unknown: nothing is written beside it. */
	if (kubelet->seen.presence != KUBELET_ABSENT && kubelet->seen.why[0] == '\0')
		decide_setting(kubelet, proposal);
	decide_condition(&kubelet->seen, proposal);
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
