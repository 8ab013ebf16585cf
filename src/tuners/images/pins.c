/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/images/images.h"

#define PREFIX "pin."

/* Where the runtime's CRI honours the label: containerd 1.6.25, 1.7.10 and 2.0. */
static bool honours_pins(const struct image_runtime *runtime)
{
	const char *version = runtime->version + (runtime->version[0] == 'v');
	unsigned major = 0, minor = 0, patch = 0;

	if (runtime->kind != RUNTIME_CONTAINERD ||
		sscanf(version, "%3u.%3u.%3u", &major, &minor, &patch) < 2)
		return false;
	return major > 1 || (major == 1 && (minor > 7 || (minor == 7 && patch >= 10) ||
						   (minor == 6 && patch >= 25)));
}

static void want_pin(
	const struct images_tuner *tuner, const char *name, bool pinned, struct proposal *proposal)
{
	const struct images_sample *sample = &tuner->sample;
	const struct runtime_image *image = sampled_image(sample, name);
	struct want *want = proposal_file(proposal, pinned ? PINNED : NULL);
	struct file_change *file = want->file;
	size_t len = strlen(name), most = SETTING_NAME_MAX - sizeof(PREFIX);

	/* Of a long name the end: it has the tag or the digest. */
	snprintf(want->name, sizeof(want->name), PREFIX "%s", name + len - MIN(len, most));
	want->reason = pinned ? "configured" : "no-longer-configured";
	if (!sample->answers) {
		want->reason = "runtime-silent";
	} else if (!honours_pins(&sample->runtime)) {
		want->error = -ENOENT;
		want->reason =
			sample->runtime.kind == RUNTIME_CONTAINERD ? "pins-ignored" : "no-pins";
	} else if (!image) {
		want->reason = "image-missing";
	} else {
		copy_text(want->wanted, SETTING_VALUE_MAX, pinned ? PINNED : NOT_PINNED);
	}
	file->target.format = EDIT_PIN;
	copy_text(file->target.path, sizeof(file->target.path), name);
	copy_text(file->edit.service.socket, sizeof(file->edit.service.socket),
		sample->runtime.socket + strlen(tuner->host->root));
	if (image && !want->error)
		copy_text(want->actual, SETTING_VALUE_MAX, image->pinned ? PINNED : NOT_PINNED);
	copy_text(file->on_disk, SETTING_VALUE_MAX, want->actual);
}

static bool is_wanted(const struct images_tuner *tuner, const char *name)
{
	return text_list_has(&tuner->config.pins, name) ||
	       (streq(name, tuner->sample.sandbox) &&
		       text_list_has(&tuner->config.pins, IMAGES_SANDBOX));
}

void images_decide_pins(const struct images_tuner *tuner, const struct decide_input *input,
	struct proposal *proposal)
{
	const struct images_sample *sample = &tuner->sample;
	const struct text_list *pins = &tuner->config.pins;

	if (!sample->runtime.socket[0])
		return;
	if (sample->sandbox[0] && is_wanted(tuner, sample->sandbox))
		want_pin(tuner, sample->sandbox, true, proposal);
	for (size_t i = 0; i < pins->n; i++)
		if (!streq(pins->items[i], IMAGES_SANDBOX) &&
			!streq(pins->items[i], sample->sandbox))
			want_pin(tuner, pins->items[i], true, proposal);
	if (!sample->sandbox[0] && text_list_has(pins, IMAGES_SANDBOX))
		return;
	/* What was pinned for an older configuration, or as an older sandbox image. */
	for (size_t i = 0; i < input->n_files; i++) {
		const struct file_target *target = &input->files[i].target;
		const struct runtime_image *image = sampled_image(sample, target->path);

		if (target->format == EDIT_PIN && image && image->pinned &&
			!is_wanted(tuner, target->path))
			want_pin(tuner, target->path, false, proposal);
	}
}
