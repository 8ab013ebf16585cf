/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A fake host, a journal and one job, for the tests of configuration files. */

#include "directory.h"

#include "apply/file.h"
#include "apply/file_transaction.h"

#define CRI         "plugins.\"io.containerd.grpc.v1.cri\""
#define CONFIG_TOML "/etc/containerd/config.toml"
#define DAEMON_JSON "/etc/docker/daemon.json"
#define HOSTS       "/etc/containerd/certs.d/docker.io/hosts.toml"
#define DOWNLOADS   "containerd.max_concurrent_downloads"

struct file_fixture {
	struct directory root, state;
	struct file_job job;
	struct wait wait;
	struct key_record *records; /* after the job */
	size_t n_records;
	bool done; /* the plan has the results of the last job */
};

/* Reads the journal again, like another process. */
static inline void fixture_reopen(struct file_fixture *fixture)
{
	if (fixture->job.journal)
		file_journal_close(fixture->job.journal);
	fixture->job.journal = NULL;
	assert_int_equal(file_journal_open(fixture->state.path, true, &fixture->job.journal), 0);
}

static inline void fixture_make(struct file_fixture *fixture)
{
	*fixture = (struct file_fixture){
		.wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1}, .job = {.undo = true}};
	directory_make(&fixture->root);
	directory_make(&fixture->state);
	assert_true(host_init(&fixture->job.host, fixture->root.path));
	fixture_reopen(fixture);
}

static inline void fixture_clear(struct file_fixture *fixture)
{
	plan_clear(&fixture->job.plan);
	free(fixture->records);
	file_journal_close(fixture->job.journal);
	directory_remove(&fixture->root);
	directory_remove(&fixture->state);
}

#define _cleanup_fixture_  __attribute__((cleanup(fixture_clear)))
#define FIXTURE_TEST(name) TEST_OF(file_fixture, fixture, fixture_make, fixture_clear, name)

/* Adds a change to the next job. on_disk is the present value of its key, text the new one. */
static inline struct change *fixture_change(struct file_fixture *fixture, const char *name,
	struct file_change file, const char *on_disk, const char *wanted, const char *text)
{
	struct change *change;

	file.text = (char *)text;
	file.base = file.format == EDIT_TOML ? "version = 2\n" : NULL;
	if (fixture->done)
		plan_clear(&fixture->job.plan);
	fixture->done = false;
	copy_text(file.on_disk, SETTING_VALUE_MAX, on_disk);
	change = plan_add(&fixture->job.plan, &file, name, "runtime", "3", wanted);
	change->reason = REASON_CONFIGURED;
	return change;
}

static inline struct change *change_downloads(
	struct file_fixture *fixture, const char *on_disk, const char *wanted)
{
	const struct file_change file = {.path = CONFIG_TOML,
		.format = EDIT_TOML,
		.table = CRI,
		.key = "max_concurrent_downloads"};

	return fixture_change(fixture, DOWNLOADS, file, on_disk, wanted, wanted);
}

static inline struct change *change_docker(
	struct file_fixture *fixture, const char *on_disk, const char *wanted)
{
	const struct file_change file = {
		.path = DAEMON_JSON, .format = EDIT_JSON, .key = "max-concurrent-downloads"};

	return fixture_change(
		fixture, "docker.max-concurrent-downloads", file, on_disk, wanted, wanted);
}

/* Adds a change of a file that is ours. text NULL: the file is removed. */
static inline struct change *change_hosts(
	struct file_fixture *fixture, const char *wanted, const char *text)
{
	const struct file_change file = {.path = HOSTS, .format = EDIT_OWN};

	return fixture_change(fixture, "mirrors.docker.io", file, "", wanted, text);
}

/* Runs the job and returns the error of its first change. The plan stays until the next change. */
static inline int run_job(struct file_fixture *fixture, enum file_task task)
{
	fixture->job.n_open = 0;
	fixture->job.task = task;
	fixture->done = true;
	file_transaction(&fixture->job, &fixture->wait);
	free(fixture->records);
	fixture->records = file_journal_snapshot(fixture->job.journal, &fixture->n_records);
	return fixture->job.plan.n > 0 ? fixture->job.plan.changes[0].error : 0;
}

static inline void apply_downloads(
	struct file_fixture *fixture, const char *on_disk, const char *wanted)
{
	change_downloads(fixture, on_disk, wanted);
	assert_int_equal(run_job(fixture, FILE_APPLY), 0);
}

static inline const struct change *restore_all(struct file_fixture *fixture)
{
	plan_clear(&fixture->job.plan);
	(void)run_job(fixture, FILE_RESTORE);
	assert_int_equal(fixture->job.error, 0);
	return fixture->job.plan.changes;
}

static inline void assert_no_file(const struct directory *directory, const char *name)
{
	if (access(directory_at(directory, name).text, F_OK) == 0)
		fail_msg("%s is there", name);
}

static inline void assert_forgotten(const struct file_fixture *fixture)
{
	assert_int_equal(fixture->job.journal->n_files, 0);
	assert_int_equal(fixture->n_records, 0);
	assert_int_equal(fixture->job.journal->n_pins, 0);
}
