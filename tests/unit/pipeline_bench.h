/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_PIPELINE_BENCH_H
#define TESTS_UNIT_PIPELINE_BENCH_H

/*
 * From a tuner's wish to a runtime that has taken it: one setting of one file, a made-up systemd,
 * and what runs with the file as it was when the unit was last restarted.
 */

#include "fake_systemd.h"

#include "agent/pipeline.h"
#include "apply/reconcile.h"
#include "base/log.h"

#include <errno.h>

#define PATH "/etc/docker/daemon.json"
#define NAME "docker.max-concurrent-downloads"
#define OLD  "{\n  \"max-concurrent-downloads\": 3\n}\n"
#define NEW  "{\n  \"max-concurrent-downloads\": 10\n}\n"
#define HOUR (3600 * USEC_PER_SEC)

static const struct tuner_ops bench_ops = {.name = "runtime"};

struct bench {
	struct fake_systemd fake;
	struct directory root, state;
	struct core core;
	struct tuner_status tuner;
	struct want want;
	struct file_edit edit;
	struct pipeline pipeline;
	unsigned seen; /* restarts that the running value follows */
	uint64_t now_us;
};

static inline void bench_make(struct bench *bench, enum restart_policy policy)
{
	struct core *core = &bench->core;

	*bench = (struct bench){.tuner = {.ops = &bench_ops}, .now_us = now_us()};
	fake_systemd_make(&bench->fake);
	directory_make(&bench->root);
	directory_make(&bench->state);
	directory_put(&bench->root, PATH, OLD);
	assert_true(host_init(&core->host, bench->root.path));
	assert_int_equal(journal_open(bench->state.path, "boot", true, &core->journal), 0);
	core->checksum = 1;
	bench->edit = (struct file_edit){.text = "10"};
	bench->edit.service = (struct service){
		.activation = ACTIVATE_RESTART, .restart = policy, .unit = FAKE_UNIT};
	bench->want = (struct want){.name = NAME,
		.place = {.kind = PLACE_EDIT,
			.path = PATH,
			.format = EDIT_JSON,
			.key = "max-concurrent-downloads"},
		.actual = "3",
		.wanted = "10",
		.reason = "configured",
		.edit = &bench->edit};
	bench->pipeline = (struct pipeline){
		.core = core, .event = bench->fake.event, .timeout_us = 300 * USEC_PER_MSEC};
}

static inline void bench_clear(struct bench *bench)
{
	pipeline_close(&bench->pipeline);
	plan_clear(&bench->core.plan);
	journal_close(bench->core.journal);
	free(bench->core.node.settings);
	directory_remove(&bench->root);
	directory_remove(&bench->state);
	fake_systemd_clear(&bench->fake);
}

/* The process is killed, and another one begins with what is on disk. */
static inline void bench_kill(struct bench *bench)
{
	struct core *core = &bench->core;
	struct pipeline next = {.core = core,
		.event = bench->pipeline.event,
		.timeout_us = bench->pipeline.timeout_us};

	pipeline_close(&bench->pipeline);
	journal_close(steal(core->journal));
	free(steal(core->node.settings));
	core->node.n_settings = core->node.settings_allocated = 0;
	assert_int_equal(journal_open(bench->state.path, "boot", true, &core->journal), 0);
	bench->pipeline = next;
}

/* One step of what pipeline_run() does. */
static inline void bench_step(struct bench *bench)
{
	struct pipeline *pipeline = &bench->pipeline;

	if (!pipeline_wants_store(pipeline)) {
		assert_true(sd_event_run(pipeline->event, 20 * USEC_PER_SEC) > 0);
		return;
	}
	assert_int_equal(pipeline_note(pipeline), 0);
	assert_int_equal(journal_store(bench->core.journal), 0);
	pipeline_stored(pipeline, 0);
}

#define _cleanup_bench_ __attribute__((cleanup(bench_clear)))

/* What the file says to whoever reads it. */
static inline void read_file_value(const struct bench *bench, char value[static SETTING_VALUE_MAX])
{
	_cleanup_free_ char *text = directory_get(&bench->root, PATH);
	const char *number = text ? strstr(text, ": ") : NULL;

	snprintf(value, SETTING_VALUE_MAX, "%d", number ? atoi(number + 2) : 0);
}

/* What one look after so much time finds to be done. */
static inline void plan(struct bench *bench, uint64_t later)
{
	struct core *core = &bench->core;
	struct reconcile_input input = {.tuner = &bench->tuner,
		.wants = &bench->want,
		.n_wants = 1,
		.records = core->journal->records,
		.n_records = core->journal->n_records,
		.observe_reason = "observe-mode",
		.config = core->checksum,
		.now_us = bench->now_us += later};

	read_file_value(bench, bench->want.on_disk);
	if (bench->fake.restarts > bench->seen && bench->fake.socket >= 0)
		read_file_value(bench, bench->want.actual);
	bench->seen = bench->fake.restarts;
	plan_reset(&core->plan);
	assert_int_equal(reconcile(&core->node, &input, &core->plan), 0);
}

/* The same, and what follows from it. */
static inline void look(struct bench *bench, uint64_t later)
{
	plan(bench, later);
	if (pipeline_apply(&bench->pipeline, &bench->core.plan))
		pipeline_run(&bench->pipeline);
}

static inline void expect_at(const struct bench *bench, enum setting_state state,
	const char *reason, unsigned restarts, const char *file, int line)
{
	const struct setting *setting = node_setting(&bench->core.node, NAME);

	if (setting->state != state || !streq(setting->reason, reason))
		fail_msg("line %d: %s, %s", line, setting_state_name(setting->state),
			setting->reason);
	if (bench->fake.restarts != restarts)
		fail_msg("line %d: %u restarts", line, bench->fake.restarts);
	assert_file(&bench->root, PATH, file);
}

#define expect(bench, state, reason, restarts, file) \
	expect_at(bench, state, reason, restarts, file, __LINE__)

static inline void restore(struct bench *bench)
{
	if (pipeline_restore(&bench->pipeline, NULL))
		pipeline_run(&bench->pipeline);
	assert_int_equal(bench->pipeline.store_error, 0);
	assert_int_equal(bench->core.journal->n_files, 0);
	assert_int_equal(bench->core.journal->n_records, 0);
}

#endif
