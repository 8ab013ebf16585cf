/* SPDX-License-Identifier: Apache-2.0 */
#include "config_fixture.h"

#include "tuners/images/images.h"

/* ---- options ---- */

static void expect_fault(const char *text, unsigned line, unsigned column, const char *words)
{
	_cleanup_loaded_ struct loaded loaded = load_options(text);

	assert_one_fault(&loaded, line, column, words);
}

TEST(faults_have_their_position)
{
	expect_fault("images:\n  archives: [images/*.tar]\n", 2, 14, "absolute path");
	expect_fault("images:\n  pull: [a:b:c]\n", 2, 10, "not an image reference");
	expect_fault("images:\n  pull: [UPPER/case]\n", 2, 10, "not an image reference");
	expect_fault("images:\n  pin: [sandbox, \"a b\"]\n", 2, 18, "not an image reference");
	expect_fault("images: {parallel: 0}\n", 1, 20, "from 1 to 16");
	expect_fault("images: {wave: {start: tomorrow}}\n", 1, 24, "RFC 3339");
	expect_fault("images: {wave: {start: 2026-05-01}}\n", 1, 24, "RFC 3339");
	expect_fault("images: {wave: {round: 20}}\n", 1, 24, "with its unit");
	expect_fault("images: {wave: {nodes: 10k}}\n", 1, 24, "digits alone");
	expect_fault("images: {pulls: []}\n", 1, 10, "did you mean pull?");
}

/* ---- a tuner on a made-up node ---- */

struct made {
	struct directory directory;
	struct images_tuner *tuner;
};

static void make(struct made *made)
{
	directory_make(&made->directory);
	made->directory.host.state = made->directory.path;
	made->tuner = images_tuner.open(&made->directory.host, NULL);
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
	const struct job_ops *job = &images_tuner.jobs[JOB_SAMPLE];
	void *request = job->request(made->tuner, NULL, true);

	job->run(request, &wait);
	job->adopt(made->tuner, request);
}

/* The archives that were found, each followed by a blank. */
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

TUNER_TEST(an_archive_that_was_just_written_settles_first)
{
	directory_put(&made->directory, "/i/a.tar", "");
	configure(made, "images: {archives: [/i/a.tar]}");
	sample(made);
	assert_true(made->tuner->sample.archives[0].settling);
	assert_true(made->tuner->sample.next_us < now_us() + 5 * USEC_PER_SEC);
}

TUNER_TEST(names_are_whole_and_there_once)
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

/* Whether it is there was not asked: a pull would be one too many. */
TUNER_TEST(nothing_begins_between_a_new_configuration_and_its_first_sample)
{
	const struct decide_input input = {.now_us = now_us()};
	struct images_memory memory = {0};
	struct proposal proposal = {0};

	configure(made, "images: {pull: [r.example/a]}");
	sample(made);
	configure(made, "images: {pull: [r.example/b]}");
	images_tuner.decide(made->tuner, &input, &memory, &proposal);
	assert_int_equal(memory.n, 1);
	assert_string_equal(memory.rows[0].reason, "not-asked-yet");
	proposal_clear(&proposal);
	sample(made);
	images_tuner.decide(made->tuner, &input, &memory, &proposal);
	assert_string_equal(memory.rows[0].reason, "no-runtime");
	free(memory.rows);
	proposal_clear(&proposal);
}

/* ---- the record ---- */

TUNER_TEST(the_record_is_read_as_it_was_written)
{
	struct preload_list list = {0}, read = {0};
	struct preload *one = preload_add(&list, "/i/a.tar", "docker.io/library/a:1");
	_cleanup_free_ char *text = NULL;

	copy_text(one->id, sizeof(one->id), "sha256:aa");
	one->size = UINT64_C(17) << 30;
	one->first_seen_us = UINT64_C(1777600800000001);
	one->failures = 3;
	one = preload_add(&list, "/i/a.tar", "");
	one->key = (struct archive_key){UINT64_MAX, UINT64_MAX - 1, 3, 4, 5};
	preload_add(&list, "/i/torn.tar", "")->reason = "archive-broken";
	text = record_text(&list);
	assert_int_equal(record_write(made->directory.path, text), 0);
	record_read(made->directory.path, &read);
	assert_int_equal(read.n, 2); /* what could not be read is tried again by the next agent */
	assert_memory_equal(&read.entries[0], &list.entries[0], sizeof(*one));
	assert_memory_equal(&read.entries[1].key, &list.entries[1].key, sizeof(one->key));
	free(list.entries);
	free(read.entries);
}

TUNER_TEST(a_torn_record_is_none)
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

/* ---- transfers and what becomes of them ---- */

static struct transfer *begin(struct made *made, const char *path, uint64_t inode)
{
	struct images_memory memory = {.n_begin = 1, .begin = {{.kind = TRANSFER_ARCHIVE}}};

	copy_text(memory.begin[0].archive.path, IMAGES_TEXT_MAX, path);
	memory.begin[0].archive.key.inode = inode;
	return images_tuner.jobs[JOB_TRANSFER].request(made->tuner, &memory, false);
}

static void end(struct made *made, struct transfer *transfer, int error, const char *name)
{
	preload_add(&transfer->found, transfer->archive.path, "")->key = transfer->archive.key;
	if (name)
		preload_add(&transfer->found, transfer->archive.path, name)->loaded = true;
	transfer->error = error;
	images_tuner.jobs[JOB_TRANSFER].adopt(made->tuner, transfer);
}

TUNER_TEST(an_archive_that_was_replaced_forgets_what_was_in_it)
{
	const struct preload_list *record = &made->tuner->record;

	end(made, begin(made, "/i/a.tar", 1), 0, "a:1");
	end(made, begin(made, "/i/b.tar", 1), 0, "b:1");
	end(made, begin(made, "/i/a.tar", 1), 0, "a:2");
	assert_non_null(preload_find(record, "/i/a.tar", "a:1")); /* the same archive: both */
	end(made, begin(made, "/i/a.tar", 2), 0, "a:3");
	assert_null(preload_find(record, "/i/a.tar", "a:1"));
	assert_null(preload_find(record, "/i/a.tar", "a:2"));
	assert_non_null(preload_find(record, "/i/a.tar", "a:3"));
	assert_non_null(preload_find(record, "/i/b.tar", "b:1"));
	assert_int_equal(made->tuner->n_active, 0);
	assert_true(made->tuner->dirty);
}

TUNER_TEST(a_transfer_that_was_cancelled_or_whose_tuner_was_closed_changes_nothing)
{
	end(made, begin(made, "/i/a.tar", 1), -ECANCELED, "a:1");
	assert_int_equal(made->tuner->record.n, 0);
	assert_int_equal(made->tuner->n_active, 0);
	images_tuner.jobs[JOB_TRANSFER].adopt(NULL, begin(made, "/i/a.tar", 1));
	made->tuner->n_active = 0;
	assert_int_equal(made->tuner->record.n, 0);
}

/* ---- pins ---- */

TUNER_TEST(a_pin_names_the_socket_as_the_host_does)
{
	char *socket = made->tuner->sample.runtime.socket;
	const struct decide_input input = {0};
	struct images_memory memory = {0};
	struct proposal proposal = {0};

	configure(made, "images: {pin: [r.example/a]}");
	made->tuner->sample.runtime.driver = &containerd_driver;
	snprintf(socket, sizeof(made->tuner->sample.runtime.socket), "%s/run/x.sock",
		made->directory.path);
	images_tuner.decide(made->tuner, &input, &memory, &proposal);
	assert_int_equal(proposal.n_wants, 1);
	assert_string_equal(proposal.wants->pin.socket, "/run/x.sock");
	assert_string_equal(proposal.wants->pin.image, "r.example/a:latest");
	proposal_clear(&proposal);
}
