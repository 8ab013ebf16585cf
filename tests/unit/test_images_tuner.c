/* SPDX-License-Identifier: Apache-2.0 */
#include "config_fixture.h"
#include "directory.h"

#include "tuners/images/images.h"

static void expect_fault(const char *text, unsigned line, unsigned column, const char *words)
{
	_cleanup_loaded_ struct loaded loaded = load_options(text);

	assert_one_fault(&loaded, line, column, words);
}

/* test_config.py of the root tests has more faults. */
TEST(faults_of_images_have_their_position)
{
	expect_fault("images:\n  archives: [images/*.tar]\n", 2, 14, "absolute path");
	expect_fault("images:\n  pull: [a:b:c]\n", 2, 10, "not an image reference");
	expect_fault("images:\n  pin: [sandbox, \"a b\"]\n", 2, 18, "not an image reference");
	expect_fault("images: {parallel: 0}\n", 1, 20, "from 1 to 16");
	expect_fault("images: {wave: {start: tomorrow}}\n", 1, 24, "RFC 3339");
}

struct made {
	struct directory directory;
	struct images_tuner *tuner;
};

static void make(struct made *made)
{
	directory_make(&made->directory);
	made->directory.host.state = made->directory.path;
	made->tuner = images_tuner.open(&made->directory.host, &made->directory.facts, NULL);
}

static void clear(struct made *made)
{
	struct images_memory memory = {0};

	images_tuner.close(made->tuner, &memory);
	directory_remove(&made->directory);
}

#define TUNER_TEST(name) TEST_OF(made, made, make, clear, name)

static void configure(struct made *made, const char *text)
{
	_cleanup_loaded_ struct loaded loaded = load_options(text);

	assert_loaded(&loaded);
	images_tuner.configure(made->tuner, loaded.config);
}

static void sample(struct made *made)
{
	const struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1};
	const struct task_ops *job = &images_tuner.tasks[TASK_SAMPLE];
	void *request = job->request(made->tuner, NULL, true);

	job->run(request, &wait);
	job->adopt(made->tuner, request);
}

/* Returns the found archives, each followed by a space. */
static const char *found(const struct made *made)
{
	static char text[1024];

	text[0] = '\0';
	for (size_t i = 0; i < made->tuner->sample.n_archives; i++) {
		const struct archive_file *file = &made->tuner->sample.archives[i];

		strcat(strcat(text, file->path), file->error < 0 ? "! " : " ");
	}
	return text;
}

TUNER_TEST(archives_are_files_patterns_and_directories)
{
	static const char *const names[] = {"/i/b.tar", "/i/a.tar.gz", "/i/text.txt",
		"/i/.hidden.tar", "/i/layout/index.json", "/i/sub/deeper.tar", "/j/1/x.img",
		"/j/2/y.img"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		directory_put(&made->directory, names[i], "");
	configure(made, "images: {archives: [/i]}");
	sample(made);
	assert_string_equal(found(made), "/i/a.tar.gz /i/b.tar /i/layout ");
	configure(made, "images: {archives: [/i/layout, '/j/*/*.img', /i/text.txt, /i/b.tar, /i]}");
	sample(made);
	assert_string_equal(
		found(made), "/i/layout /j/1/x.img /j/2/y.img /i/text.txt /i/b.tar /i/a.tar.gz ");
	configure(made, "images: {archives: [/i/missing.tar, '/none/*.tar', /i/sub/deeper.tar]}");
	sample(made);
	assert_string_equal(found(made), "/i/missing.tar! /i/sub/deeper.tar ");
}

TUNER_TEST(a_new_archive_settles_before_it_is_read)
{
	directory_put(&made->directory, "/i/a.tar", "");
	configure(made, "images: {archives: [/i/a.tar]}");
	sample(made);
	assert_true(made->tuner->sample.archives[0].settling);
	assert_true(made->tuner->sample.next_us < now_us() + 5 * USEC_PER_SEC);
}

TUNER_TEST(names_are_completed_and_listed_once)
{
	configure(made,
		"images: {pull: [busybox, 'docker.io/library/busybox:latest', 'r.example/a@sha256:"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa']}");
	assert_int_equal(made->tuner->config.pulls.n, 2);
	assert_string_equal(made->tuner->config.pulls.items[0], "docker.io/library/busybox:latest");
	assert_string_equal(made->tuner->config.pins.items[0], IMAGES_SANDBOX);
	configure(made, "images: {wave: {start: '2026-05-01T04:00:00+02:00'}}");
	assert_int_equal(made->tuner->config.pulls.n, 0);
	assert_int_equal(made->tuner->config.wave.start_us, UINT64_C(1777600800000000));
}

TUNER_TEST(a_damaged_record_is_ignored)
{
	static const char *const texts[] = {"", "{", "[]", "{\"version\": 2, \"images\": [{}]}",
		"{\"version\": 1, \"images\": 7}"};
	struct preload_list list = {0};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		directory_put(&made->directory, "/images.json", texts[i]);
		record_read(made->directory.path, &list);
		assert_int_equal(list.n, 0);
	}
}

static struct transfer *begin(struct made *made)
{
	struct images_memory memory = {
		.n_begin = 1, .begin = {{.kind = TRANSFER_ARCHIVE, .archive.path = "/i/a.tar"}}};

	return images_tuner.tasks[TASK_TRANSFER].request(made->tuner, &memory, false);
}

TUNER_TEST(a_load_is_cancelled_when_it_fills_the_store)
{
	struct image_row row = {.preload.source = "/i/a.tar"};
	const struct images_memory full = {.full = true, .rows = &row, .n = 1};
	struct transfer *transfer = begin(made);

	assert_false(images_tuner.tasks[TASK_TRANSFER].cancels(transfer, &full));
	transfer->done = 1;
	assert_true(images_tuner.tasks[TASK_TRANSFER].cancels(transfer, &full));
	images_tuner.tasks[TASK_TRANSFER].adopt(made->tuner, transfer);
}

/* The next sample may hang. */
TUNER_TEST(an_archive_that_left_the_configuration_is_not_listed_any_more)
{
	static const struct {
		const char *text;
		size_t listed;
	} rows[] = {{"/i/a.tar", 1}, {"/i/", 1}, {"'/i/*.tar'", 1}, {"'/*'", 1}, {"'/[a-i]/'", 1},
		{"/i/a.tar.gz", 0}, {"'/*.tar'", 0}, {"/j", 0}, {"/", 0}};
	char text[64];

	directory_put(&made->directory, "/i/a.tar", "");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct images_memory memory = {0};
		struct proposal proposal = {0};
		const struct decide_input input = {.now_us = now_us()};

		configure(made, "images: {archives: [/i]}");
		sample(made);
		snprintf(text, sizeof(text), "images: {archives: [%s]}", rows[i].text);
		configure(made, text);
		images_tuner.decide(made->tuner, &input, &memory, &proposal);
		assert_int_equal(memory.n, rows[i].listed);
		proposal_clear(&proposal);
		images_tuner.close(made->tuner, &memory);
		made->tuner =
			images_tuner.open(&made->directory.host, &made->directory.facts, NULL);
	}
}

TUNER_TEST(a_load_is_cancelled_without_progress)
{
	struct image_row row = {.preload.source = "/i/a.tar"};
	const struct images_memory memory = {.rows = &row, .n = 1};
	struct transfer *transfer;

	configure(made, "runtime: {pull_progress_timeout: 10s}");
	transfer = begin(made);
	assert_false(images_tuner.tasks[TASK_TRANSFER].cancels(transfer, &memory));
	transfer->load_us = now_us() - 11 * USEC_PER_SEC;
	transfer->done = 1;
	assert_false(images_tuner.tasks[TASK_TRANSFER].cancels(transfer, &memory));
	transfer->progress_us -= 11 * USEC_PER_SEC;
	assert_true(images_tuner.tasks[TASK_TRANSFER].cancels(transfer, &memory));
	preload_add(&transfer->found, "/i/a.tar", "a:1")->reason = REASON_LOAD_FAILED;
	transfer->error = -ECANCELED;
	images_tuner.tasks[TASK_TRANSFER].adopt(made->tuner, transfer);
	assert_non_null(strstr(made->tuner->record.entries[0].why, "no progress within 10 s"));
}

/* A transfer may end after its tuner was closed. */
TUNER_TEST(a_cancelled_transfer_changes_no_record)
{
	struct transfer *transfer = begin(made);

	preload_add(&transfer->found, "/i/a.tar", "a:1")->loaded = true;
	transfer->error = -ECANCELED;
	images_tuner.tasks[TASK_TRANSFER].adopt(made->tuner, transfer);
	assert_int_equal(made->tuner->record.n, 0);
	assert_int_equal(made->tuner->n_active, 0);
	images_tuner.tasks[TASK_TRANSFER].adopt(NULL, begin(made));
	made->tuner->n_active = 0;
}

static int find_nothing(const struct image_runtime *, const char *, const struct wait *,
	struct runtime_image *, char why[static IMAGES_WHY_MAX])
{
	why[0] = '\0';
	return -ENOENT;
}

static int pull_nothing(const struct image_runtime *, const char *, const struct wait *,
	_Atomic uint64_t *, char[static IMAGES_WHY_MAX])
{
	return 0;
}

/* Pulls an image; returns what is known of it then. */
static const struct preload *pull(struct made *made, const struct runtime_driver *driver)
{
	const struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1};
	struct transfer *transfer = begin(made);

	transfer->kind = TRANSFER_PULL;
	transfer->runtime.driver = driver;
	strcpy(transfer->name, "docker.io/library/a:1");
	images_transfer(transfer, &wait);
	images_tuner.tasks[TASK_TRANSFER].adopt(made->tuner, transfer);
	return preload_find(&made->tuner->record, "", "docker.io/library/a:1");
}

TUNER_TEST(a_pulled_image_that_the_runtime_does_not_list_has_failed)
{
	static const struct runtime_driver driver = {
		.name = "fake", .find = find_nothing, .pull = pull_nothing};
	const struct preload *known = pull(made, &driver);

	assert_int_equal(known->reason, REASON_PULL_FAILED);
	assert_string_equal(
		known->why, "fake reported success but does not list the image: see its log");
	assert_int_equal(known->failures, 1);
	assert_false(known->loaded);
}

static int find_any(const struct image_runtime *, const char *name, const struct wait *,
	struct runtime_image *ret, char[static IMAGES_WHY_MAX])
{
	*ret = (struct runtime_image){.id = "sha256:1"};
	set_text(ret->name, name);
	return 0;
}

TUNER_TEST(an_image_that_others_brought_since_the_sample_is_not_pulled)
{
	static const struct runtime_driver driver = {.name = "fake", .find = find_any};
	const struct preload *known = pull(made, &driver);

	assert_null(known->reason);
	assert_string_equal(known->id, ""); /* it is not ours */
}

/* Amounts of less than a megabyte, too. */
TEST(the_reason_names_what_an_image_needs_and_what_is_left)
{
	static const struct {
		uint64_t need, left;
		const char *text;
	} cases[] = {
		{0, 0, "the image store has 0 bytes left"},
		{1, 0, "it needs about 1 bytes, and the image store has 0 bytes left"},
		{999, 998, "it needs about 999 bytes, and the image store has 998 bytes left"},
		{1000, 1, "it needs about 1.0 kB, and the image store has 1 bytes left"},
		{499999, 1500, "it needs about 500.0 kB, and the image store has 1.5 kB left"},
		{20 << 20, 950000, "it needs about 21.0 MB, and the image store has 950.0 kB left"},
		{10000000000, 300000000,
			"it needs about 10.0 GB, and the image store has 300.0 MB left"},
	};
	char why[IMAGES_WHY_MAX], expected[IMAGES_WHY_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		images_describe_room(why, cases[i].need, cases[i].left);
		snprintf(expected, sizeof(expected),
			"%s before the kubelet deletes images: free some space, or preload less",
			cases[i].text);
		assert_string_equal(why, expected);
	}
}

/* The layouts of cgroupfs, systemd, cgroup v1 and kind. */
DIRECTORY_TEST(a_kubelet_without_pods_has_no_cgroup_of_one)
{
	static const char *const pods[] = {
		"/sys/fs/cgroup/kubepods/pod6f1a",
		"/sys/fs/cgroup/kubepods/burstable/podf2c0",
		"/sys/fs/cgroup/kubepods.slice/kubepods-pod0a1b.slice",
		"/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pode1.slice",
		"/sys/fs/cgroup/pids/kubepods.slice/kubepods-pod9.slice",
		"/sys/fs/cgroup/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podab.slice",
	};
	char file[128];

	directory_put(directory, "/sys/fs/cgroup/kubepods/burstable/cgroup.procs", "");
	directory_put(directory,
		"/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/cgroup.procs", "");
	directory_put(directory, "/sys/fs/cgroup/system.slice/podman.service/cgroup.procs", "");
	assert_false(images_has_pods(&directory->host));
	for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
		snprintf(file, sizeof(file), "%s/cgroup.procs", pods[i]);
		directory_put(directory, file, "");
		assert_true(images_has_pods(&directory->host));
		directory_delete(directory, file);
		assert_int_equal(rmdir(directory_at(directory, pods[i]).text), 0);
		assert_false(images_has_pods(&directory->host));
	}
}
