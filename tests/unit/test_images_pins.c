/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "tuners/images/images.h"

#define PAUSE "registry.k8s.io/pause:3.9"
#define APP   "registry.example/team/app:1"
#define OLD   "registry.example/team/app:0"

struct bench {
	struct host host;
	struct images_tuner tuner;
	struct runtime_image images[3];
	struct file_record records[2];
	size_t n_records;
	struct proposal proposal;
};

static void add_image(struct bench *bench, const char *name, bool pinned)
{
	struct runtime_image *image = &bench->images[bench->tuner.sample.n_images++];

	copy_text(image->name, sizeof(image->name), name);
	image->pinned = pinned;
}

static void add_record(struct bench *bench, const char *name)
{
	struct file_record *record = &bench->records[bench->n_records++];

	snprintf(record->name, sizeof(record->name), "pin.%.100s", name);
	copy_text(record->target.path, sizeof(record->target.path), name);
	record->target.format = EDIT_PIN;
}

static void bench_make(struct bench *bench)
{
	struct images_sample *sample = &bench->tuner.sample;

	assert_true(host_init(&bench->host, "/host"));
	bench->tuner.host = &bench->host;
	text_list_add(&bench->tuner.config.pins, IMAGES_SANDBOX);
	sample->answers = true;
	sample->runtime.kind = RUNTIME_CONTAINERD;
	strcpy(sample->runtime.socket, "/host/run/containerd/containerd.sock");
	strcpy(sample->runtime.version, "2.1.4");
	strcpy(sample->sandbox, PAUSE);
	sample->images = bench->images;
}

static void bench_clear(struct bench *bench)
{
	proposal_clear(&bench->proposal);
	free(bench->tuner.config.pins.items);
}

#define BENCH_TEST(name) TEST_OF(bench, bench, bench_make, bench_clear, name)

static const struct want *decide(struct bench *bench)
{
	const struct decide_input input = {.files = bench->records, .n_files = bench->n_records};

	proposal_reset(&bench->proposal);
	images_decide_pins(&bench->tuner, &input, &bench->proposal);
	return bench->proposal.wants;
}

BENCH_TEST(the_sandbox_image_is_pinned)
{
	const struct want *want;

	add_image(bench, APP, true);
	add_image(bench, PAUSE, false);
	want = decide(bench);
	assert_int_equal(bench->proposal.n_wants, 1);
	assert_string_equal(want->name, "pin." PAUSE);
	assert_string_equal(want->wanted, PINNED);
	assert_string_equal(want->actual, NOT_PINNED);
	assert_string_equal(want->file->on_disk, NOT_PINNED);
	assert_string_equal(want->file->edit.text, PINNED);
	assert_string_equal(want->file->target.path, PAUSE);
	assert_string_equal(want->file->edit.service.socket, "/run/containerd/containerd.sock");
	assert_int_equal(want->error, 0);
}

BENCH_TEST(an_image_that_is_also_the_sandbox_is_one_setting)
{
	add_image(bench, PAUSE, true);
	text_list_add(&bench->tuner.config.pins, PAUSE);
	assert_string_equal(decide(bench)->actual, PINNED);
	assert_int_equal(bench->proposal.n_wants, 1);
}

BENCH_TEST(an_image_that_is_not_there_waits)
{
	const struct want *want = decide(bench);

	assert_string_equal(want->wanted, "");
	assert_string_equal(want->reason, "image-missing");
	assert_int_equal(want->error, 0);
}

BENCH_TEST(where_pins_are_ignored_they_are_unsupported)
{
	static const struct {
		enum runtime_kind kind;
		const char *version, *reason;
	} cases[] = {
		{RUNTIME_CONTAINERD, "1.6.20~ds1", "pins-ignored"},
		{RUNTIME_CONTAINERD, "1.7.9", "pins-ignored"},
		{RUNTIME_DOCKER, "20.10.24+dfsg1", "no-pins"},
		{RUNTIME_CRIO, "1.30.0", "no-pins"},
		{RUNTIME_CONTAINERD, "1.6.25", NULL},
		{RUNTIME_CONTAINERD, "1.7.10", NULL},
	};

	add_image(bench, PAUSE, false);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct image_runtime *runtime = &bench->tuner.sample.runtime;
		const struct want *want;

		runtime->kind = cases[i].kind;
		strcpy(runtime->version, cases[i].version);
		want = decide(bench);
		assert_int_equal(want->error, cases[i].reason ? -ENOENT : 0);
		assert_string_equal(want->reason, cases[i].reason ? cases[i].reason : "configured");
		assert_string_equal(want->wanted, cases[i].reason ? "" : PINNED);
	}
}

BENCH_TEST(a_silent_runtime_is_only_observed)
{
	bench->tuner.sample.answers = false;
	assert_string_equal(decide(bench)->reason, "runtime-silent");
	assert_string_equal(bench->proposal.wants->wanted, "");
	bench->tuner.sample.runtime.socket[0] = '\0';
	(void)decide(bench);
	assert_int_equal(bench->proposal.n_wants, 0);
}

BENCH_TEST(what_was_pinned_here_and_is_not_configured_any_more_is_unpinned)
{
	const struct want *want;

	add_image(bench, PAUSE, true);
	add_image(bench, OLD, true);
	add_image(bench, APP, true); /* by someone else */
	add_record(bench, PAUSE);
	add_record(bench, OLD);
	want = decide(bench);
	assert_int_equal(bench->proposal.n_wants, 2);
	assert_string_equal(want[1].name, "pin." OLD);
	assert_string_equal(want[1].wanted, NOT_PINNED);
	assert_string_equal(want[1].reason, "no-longer-configured");
	assert_null(want[1].file->edit.text);
	/* Nothing is left to do, and nothing to show. */
	bench->images[1].pinned = false;
	(void)decide(bench);
	assert_int_equal(bench->proposal.n_wants, 1);
}

BENCH_TEST(the_sandbox_image_stays_pinned_while_its_name_is_not_known)
{
	add_image(bench, PAUSE, true);
	add_record(bench, PAUSE);
	bench->tuner.sample.sandbox[0] = '\0';
	(void)decide(bench);
	assert_int_equal(bench->proposal.n_wants, 0);
}

BENCH_TEST(a_long_name_keeps_its_end)
{
	char name[IMAGE_NAME_MAX];
	const struct want *want;

	memset(name, 'a', sizeof(name));
	strcpy(name + 200, ":tag");
	text_list_add(&bench->tuner.config.pins, name);
	add_image(bench, name, false);
	want = &decide(bench)[1];
	assert_int_equal(strlen(want->name), SETTING_NAME_MAX - 1);
	assert_string_equal(want->name + SETTING_NAME_MAX - 5, ":tag");
	assert_string_equal(want->file->target.path, name);
}
