/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "apply/reconcile.h"
#include "base/text.h"

#define SECOND USEC_PER_SEC

#define HOUR (3600 * SECOND)

/* One tuner with one setting, a value or a file, that is polled again and again. */
struct fixture {
	struct node node;
	struct want want;
	struct value_record record;
	struct file_change file;
	struct key_record key_record;
	struct proposal proposal;
	struct decide_input decide;
	struct reconcile_input input;
	struct plan plan;
};

static void fixture_make(struct fixture *fixture)
{
	*fixture = (struct fixture){0};
	fixture->want = (struct want){
		.name = "vm.a", .actual = "100", .wanted = "100", .reason = REASON_CONFIGURED};
	fixture->file = (struct file_change){.text = (char *)"10", .base = "version = 2\n"};
	fixture->proposal = (struct proposal){.wants = &fixture->want, .n_wants = 1};
	fixture->decide.now_us = HOUR;
	fixture->input = (struct reconcile_input){.tuner = "sysctl",
		.proposal = &fixture->proposal,
		.decide = &fixture->decide,
		.values_recordable = true,
		.files_recordable = true};
}

static void fixture_clear(struct fixture *fixture)
{
	plan_clear(&fixture->plan);
	free(fixture->node.settings);
}

#define _cleanup_fixture_  __attribute__((cleanup(fixture_clear)))
#define FIXTURE_TEST(name) TEST_OF(fixture, fixture, fixture_make, fixture_clear, name)

/* Polls a second later, with this value on the node. */
static struct setting *poll(struct fixture *fixture, const char *actual)
{
	fixture->decide.now_us += SECOND;
	copy_text(fixture->want.actual, SETTING_VALUE_MAX, actual);
	plan_clear(&fixture->plan);
	reconcile(&fixture->node, &fixture->input, &fixture->plan);
	return node_setting(&fixture->node, "vm.a");
}

/* The same for a file: actual is in force, on_disk is in the file. */
static struct setting *poll_file(struct fixture *fixture, const char *actual, const char *on_disk)
{
	fixture->want.kind = SETTING_FILE;
	fixture->want.file = &fixture->file;
	copy_text(fixture->want.wanted, SETTING_VALUE_MAX, "10");
	copy_text(fixture->file.on_disk, SETTING_VALUE_MAX, on_disk);
	return poll(fixture, actual);
}

static void expect_at(const struct fixture *fixture, enum setting_state state, enum reason reason,
	size_t changes, int line)
{
	const struct setting *setting = node_setting(&fixture->node, "vm.a");

	if (setting->state != state || setting->reason != reason)
		fail_msg("line %d: %s, %s", line, setting_state_names[setting->state],
			reason_rows[setting->reason].slug);
	if (fixture->plan.n != changes)
		fail_msg("line %d: %zu changes", line, fixture->plan.n);
}

#define expect(fixture, state, reason, changes) expect_at(fixture, state, reason, changes, __LINE__)

#define poll_to(fixture, actual, state, reason, changes) \
	(poll(fixture, actual), expect(fixture, state, reason, changes))

#define poll_file_to(fixture, actual, on_disk, state, reason, changes) \
	(poll_file(fixture, actual, on_disk), expect(fixture, state, reason, changes))

static void record_original(struct fixture *fixture, const char *original, const char *target)
{
	set_text(fixture->record.name, "vm.a");
	copy_text(fixture->record.original, SETTING_VALUE_MAX, original);
	copy_text(fixture->record.before, SETTING_VALUE_MAX, original);
	copy_text(fixture->record.wanted, SETTING_VALUE_MAX, target);
	fixture->decide.values = &fixture->record;
	fixture->decide.n_values = 1;
}

FIXTURE_TEST(a_difference_is_planned)
{
	const struct change *change;

	poll_to(fixture, "5", SETTING_PENDING, REASON_CONFIGURED, 1);
	change = &fixture->plan.changes[0];
	assert_string_equal(change->name, "vm.a");
	assert_string_equal(change->tuner, "sysctl");
	assert_string_equal(change->old, "5");
	assert_string_equal(change->new, "100");
	assert_int_equal(change->reason, REASON_CONFIGURED);
	assert_string_equal(node_setting(&fixture->node, "vm.a")->original, "5");
	record_original(fixture, "5", "100");
	poll_to(fixture, " 100 ", SETTING_IN_SYNC, REASON_IN_SYNC, 0);
	assert_string_equal(node_setting(&fixture->node, "vm.a")->original, "5");
	/* A new configured value is not drift. */
	copy_text(fixture->want.wanted, SETTING_VALUE_MAX, "200");
	poll_to(fixture, "100", SETTING_PENDING, REASON_CONFIGURED, 1);
	assert_int_equal(node_setting(&fixture->node, "vm.a")->drift.total, 0);
}

/* The configuration says 100. The record says that the original is 5 and ours 50. */
TEST(the_state_depends_on_the_value_and_its_record)
{
	static const struct {
		const char *actual;
		enum setting_state state;
		enum reason reason;
		bool recorded, kept, unrecordable;
		enum mode mode;
		int error;
	} cases[] = {
		{"5", SETTING_PENDING, REASON_CONFIGURED, .mode = MODE_ENFORCE},
		{" 100 ", SETTING_IN_SYNC, REASON_IN_SYNC, .mode = MODE_ENFORCE},
		/* The original, a value of an older configuration, a value of others. */
		{"5", SETTING_PENDING, REASON_CONFIGURED, .recorded = true},
		{"50", SETTING_PENDING, REASON_CONFIGURED, .recorded = true},
		{"7", SETTING_PENDING, REASON_DRIFT, .recorded = true},
		{"", SETTING_UNSUPPORTED, REASON_NOT_IN_THIS_KERNEL, .error = -ENOENT},
		{"", SETTING_FAILED, REASON_UNREADABLE, .error = -EACCES},
		{"5", SETTING_FAILED, REASON_UNREADABLE, .mode = MODE_RELEASED, .error = -EIO},
		{"5", SETTING_OBSERVED, REASON_OBSERVE_MODE, .mode = MODE_OBSERVE},
		{"5", SETTING_OBSERVED, REASON_RESTORED, .mode = MODE_RELEASED},
		{"5", SETTING_OBSERVED, REASON_KEPT, .mode = MODE_RELEASED, .kept = true},
		{"5", SETTING_OBSERVED, REASON_NOT_RECORDED, .unrecordable = true},
		/* A failed restore stays a failure until the value is restored. */
		{"100", SETTING_FAILED, REASON_NOT_RESTORED, .mode = MODE_RELEASED,
			.recorded = true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_fixture_ struct fixture fixture;
		bool pending = cases[i].state == SETTING_PENDING;

		fixture_make(&fixture);
		if (cases[i].recorded)
			record_original(&fixture, "5", "50");
		if (cases[i].kept)
			fixture.want.wanted[0] = '\0';
		fixture.want.error = cases[i].error;
		fixture.decide.mode = cases[i].mode;
		fixture.input.values_recordable = !cases[i].unrecordable;
		poll_to(&fixture, cases[i].actual, cases[i].state, cases[i].reason, pending);
		assert_int_equal(node_setting(&fixture.node, "vm.a")->drift.total,
			cases[i].reason == REASON_DRIFT);
		if (cases[i].reason == REASON_RESTORED)
			assert_int_equal(node_would_change(&fixture.node), 1);
		/* The error goes away with its cause. */
		fixture.want.error = 0;
		assert_int_equal(poll(&fixture, "5")->error,
			cases[i].reason == REASON_NOT_RESTORED ? -EIO : 0);
	}
}

TEST(an_impossible_setting_fails_only_if_the_configuration_asks_for_it)
{
	static const struct {
		int error;
		bool requested;
		enum mode mode;
		enum setting_state state;
	} cases[] = {
		{-EOPNOTSUPP, true, MODE_ENFORCE, SETTING_FAILED},
		{-EOPNOTSUPP, false, MODE_ENFORCE, SETTING_OBSERVED},
		{-EOPNOTSUPP, true, MODE_OBSERVE, SETTING_OBSERVED},
		{-ENOENT, true, MODE_ENFORCE, SETTING_FAILED},
		{-ENOENT, false, MODE_ENFORCE, SETTING_UNSUPPORTED},
		{-ENOENT, true, MODE_RELEASED, SETTING_UNSUPPORTED},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_fixture_ struct fixture fixture;

		fixture_make(&fixture);
		fixture.want.error = cases[i].error;
		fixture.want.requested = cases[i].requested;
		fixture.want.reason = REASON_FILE_OF_OTHERS;
		set_text(fixture.want.why, "hosts.toml is not ours");
		fixture.decide.mode = cases[i].mode;
		poll_file_to(&fixture, "3", "3", cases[i].state, REASON_FILE_OF_OTHERS, 0);
		assert_string_equal(
			node_setting(&fixture.node, "vm.a")->why, "hosts.toml is not ours");
		/* It becomes possible. */
		fixture.want.error = 0;
		fixture.want.reason = REASON_CONFIGURED;
		fixture.want.why[0] = '\0';
		fixture.decide.mode = MODE_ENFORCE;
		poll_file_to(&fixture, "3", "3", SETTING_PENDING, REASON_CONFIGURED, 1);
	}
}

FIXTURE_TEST(a_node_without_descriptors_fails_no_setting)
{
	poll_to(fixture, "100", SETTING_IN_SYNC, REASON_IN_SYNC, 0);
	fixture->want.error = -ENFILE;
	poll_to(fixture, "", SETTING_IN_SYNC, REASON_IN_SYNC, 0);
	assert_string_equal(node_setting(&fixture->node, "vm.a")->actual, "100");
	fixture->want.error = -EACCES;
	poll_to(fixture, "", SETTING_FAILED, REASON_UNREADABLE, 0);
}

TEST(drift_is_handled_as_configured)
{
	static const struct {
		enum on_drift on_drift;
		enum setting_state state;
		enum reason reason;
		size_t changes;
	} cases[] = {
		{ON_DRIFT_ENFORCE, SETTING_PENDING, REASON_DRIFT, 1},
		{ON_DRIFT_YIELD, SETTING_YIELDED, REASON_LEFT_BY_ON_DRIFT, 0},
		{ON_DRIFT_REPORT, SETTING_DRIFTED, REASON_LEFT_BY_ON_DRIFT, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_fixture_ struct fixture fixture;
		const struct setting *setting;

		fixture_make(&fixture);
		fixture.input.on_drift = cases[i].on_drift;
		poll(&fixture, "100");
		setting = poll(&fixture, "7");
		expect(&fixture, cases[i].state, cases[i].reason, cases[i].changes);
		assert_int_equal(setting->drift.at_us[0], fixture.decide.now_us);
		/* Drift that stays is counted once. */
		for (int n = 0; n < 10 && cases[i].changes == 0; n++)
			poll_to(&fixture, n % 2 ? "7" : "8", cases[i].state, cases[i].reason,
				cases[i].changes);
		assert_int_equal(setting->drift.total, 1);
		/* Someone else sets the wanted value. */
		poll_to(&fixture, "100", SETTING_IN_SYNC, REASON_IN_SYNC, 0);
	}
}

/* The value cannot be recorded, and nobody rewrites it meanwhile. */
FIXTURE_TEST(drift_that_waits_to_be_set_again_is_counted_once)
{
	struct setting *setting = poll(fixture, "100");

	for (int i = 0; i < 3 * FIGHT_ROUNDS; i++) {
		poll_to(fixture, "7", SETTING_PENDING, REASON_DRIFT, 1);
		if (i % 2)
			setting_become(setting, SETTING_FAILED, REASON_NOT_RECORDED, -ENOSPC, NULL);
	}
	assert_int_equal(setting->drift.total, 1);
	poll(fixture, "100");
	assert_int_equal(poll(fixture, "7")->drift.total, 2);
}

/* Someone else and the agent write in turns. */
static void fight(struct fixture *fixture, unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		poll_to(fixture, "7", SETTING_PENDING, REASON_DRIFT, 1);
		poll_to(fixture, "100", SETTING_IN_SYNC, REASON_IN_SYNC, 0);
	}
}

FIXTURE_TEST(the_sixth_drift_within_ten_minutes_yields)
{
	poll(fixture, "100");
	fight(fixture, FIGHT_ROUNDS);
	fixture->decide.now_us += FIGHT_SECONDS * USEC_PER_SEC;
	fight(fixture, FIGHT_ROUNDS);
	fixture->decide.now_us += (FIGHT_SECONDS - 60) * USEC_PER_SEC;
	assert_int_equal(poll(fixture, "7")->drift.total, 2 * FIGHT_ROUNDS + 1);
	expect(fixture, SETTING_YIELDED, REASON_REWRITTEN_TOO_OFTEN, 0);
	poll_to(fixture, "8", SETTING_YIELDED, REASON_REWRITTEN_TOO_OFTEN, 0);
	/* A reload does not begin the fight again, however late. */
	fixture->decide.now_us += 86400 * USEC_PER_SEC;
	reconcile_reset(&fixture->node, NULL, false);
	poll_to(fixture, "7", SETTING_YIELDED, REASON_REWRITTEN_TOO_OFTEN, 0);
	/* Once the value is as wanted, the fight is over. */
	poll_to(fixture, "100", SETTING_IN_SYNC, REASON_IN_SYNC, 0);
	fixture->decide.now_us += 3600 * USEC_PER_SEC;
	fight(fixture, 1);
}

/* kube-proxy sets nf_conntrack_max each time it starts. */
FIXTURE_TEST(a_writer_that_comes_back_in_hours_is_corrected_each_time)
{
	poll(fixture, "100");
	for (int i = 0; i < 24; i++) {
		fight(fixture, 1 + i % 3);
		fixture->decide.now_us += 1800 * USEC_PER_SEC;
	}
}

FIXTURE_TEST(a_failed_change_is_retried_after_a_delay)
{
	struct setting *setting = poll(fixture, "5");

	setting_become(setting, SETTING_FAILED, REASON_WRITE_REFUSED, -EPERM, NULL);
	setting->since_us = 1;
	setting->retry_at_us = fixture->decide.now_us + RETRY_US;
	poll_to(fixture, "5", SETTING_FAILED, REASON_WRITE_REFUSED, 0);
	fixture->decide.now_us += RETRY_US;
	poll_to(fixture, "5", SETTING_PENDING, REASON_CONFIGURED, 1);
	setting_become(setting, SETTING_FAILED, REASON_WRITE_REFUSED, -EPERM, NULL);
	assert_int_equal(setting->since_us, 1);
	setting = poll(fixture, "100");
	assert_true(setting->since_us > 1);
	expect(fixture, SETTING_IN_SYNC, REASON_IN_SYNC, 0);
	assert_int_equal(setting->error, 0);
	assert_int_equal(setting->retry_at_us, 0);
}

/* A setting keeps its counters as long as its tuner has it. */
TEST(settings_come_and_go_with_their_tuner)
{
	static const char sysctl[] = "sysctl", thp[] = "thp"; /* compared as pointers */
	static const struct {
		const char *tuner, *wants[2], *names;
	} steps[] = {
		{sysctl, {NULL, NULL}, ""}, /* the first tuner is off */
		{sysctl, {"a", "b"}, "sysctl/a=0 sysctl/b=0 "},
		{thp, {"a", "c"}, "sysctl/a=0 sysctl/b=5 thp/a=0 thp/c=0 "},
		{sysctl, {"b", NULL}, "sysctl/b=5 thp/a=0 thp/c=0 "},
		{sysctl, {"x", "b"}, "sysctl/x=0 sysctl/b=5 thp/a=0 thp/c=0 "},
		{sysctl, {NULL, NULL}, "thp/a=0 thp/c=0 "},
		{thp, {"c", "a"}, "thp/c=0 thp/a=0 "},
	};
	struct decide_input decide = {.mode = MODE_OBSERVE};
	struct node node = {0};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct want wants[2] = {{.reason = REASON_KEPT}, {.reason = REASON_KEPT}};
		struct proposal proposal = {.wants = wants};
		struct reconcile_input input = {
			.tuner = steps[i].tuner, .proposal = &proposal, .decide = &decide};
		struct plan plan = {0};
		char names[256] = "";

		for (; proposal.n_wants < 2 && steps[i].wants[proposal.n_wants]; proposal.n_wants++)
			copy_text(wants[proposal.n_wants].name, SETTING_NAME_MAX,
				steps[i].wants[proposal.n_wants]);
		reconcile(&node, &input, &plan);
		assert_int_equal(plan.n, 0);
		if (i == 2)
			node.settings[1].drift.total = 5;
		for (size_t s = 0; s < node.n_settings; s++)
			text_append(names, sizeof(names), "%s/%s=%d ", node.settings[s].tuner,
				node.settings[s].name, (int)node.settings[s].drift.total);
		assert_string_equal(names, steps[i].names);
	}
	free(node.settings);
}

/* ---- files ---- */

FIXTURE_TEST(a_difference_in_the_file_is_planned)
{
	const struct change *change;

	fixture->input.values_recordable = false; /* does not matter for files */
	poll_file_to(fixture, "3", "", SETTING_PENDING, REASON_CONFIGURED, 1);
	change = &fixture->plan.changes[0];
	assert_string_equal(change->old, "3");
	assert_string_equal(change->file->on_disk, "");
	assert_string_equal(change->new, "10");
	assert_int_equal(change->file->state, FILE_WANTED);
	/* The plan has a copy: the text of the tuner is valid until its next decision. */
	assert_ptr_not_equal(change->file->text, fixture->file.text);
	assert_string_equal(change->file->text, "10");
	/* It is in force, but the file lacks it: the next start would lose it. */
	poll_file_to(fixture, "10", "3", SETTING_PENDING, REASON_CONFIGURED, 1);
	poll_file_to(fixture, "10", "10", SETTING_IN_SYNC, REASON_IN_SYNC, 0);
	/* The state of a file does not change while a job edits it. */
	fixture->input.files_busy = true;
	poll_file_to(fixture, "10", "4", SETTING_IN_SYNC, REASON_IN_SYNC, 0);
	fixture->input.files_busy = fixture->input.files_recordable = false;
	poll_file_to(fixture, "10", "4", SETTING_OBSERVED, REASON_NOT_RECORDED, 0);
}

/* A restart changes the value in force; only a change of the file is drift. */
FIXTURE_TEST(only_the_file_drifts)
{
	poll_file(fixture, "10", "10");
	assert_int_equal(poll_file(fixture, "3", "10")->drift.total, 0);
	expect(fixture, SETTING_PENDING, REASON_RESTART_PENDING, 0);
	assert_int_equal(poll_file(fixture, "3", "4")->drift.total, 1);
	expect(fixture, SETTING_PENDING, REASON_DRIFT, 1);
}

/* test_restart.c has all inputs of the rule. */
TEST(the_rule_of_restarts_plans_delays_or_yields)
{
	static const struct {
		const char *on_disk;
		enum restart_policy policy;
		bool busy, transferring;
		size_t restarts;
		enum setting_state state;
		enum reason reason;
		bool planned, due;
	} cases[] = {
		{"10", RESTART_NEVER, false, false, 0, SETTING_PENDING, REASON_RESTART_PENDING,
			false, false},
		{"10", RESTART_NOW, false, false, 0, SETTING_PENDING, REASON_RESTART_PENDING, true,
			true},
		{"10", RESTART_NOW, true, true, 0, SETTING_PENDING, REASON_RESTART_PENDING, true,
			true},
		{"10", RESTART_WHEN_IDLE, false, false, 0, SETTING_PENDING, REASON_RESTART_PENDING,
			true, true},
		{"10", RESTART_WHEN_IDLE, true, false, 0, SETTING_PENDING, REASON_RESTART_PENDING,
			false, true},
		{"10", RESTART_WHEN_IDLE, false, true, 0, SETTING_PENDING, REASON_RESTART_PENDING,
			false, true},
		{"10", RESTART_WHEN_IDLE, false, false, 1, SETTING_PENDING, REASON_RESTART_PENDING,
			false, false},
		{"10", RESTART_NOW, false, false, 2, SETTING_PENDING, REASON_RESTARTED_TOO_OFTEN,
			false, false},
		/* A file of others is written once more, unless its daemon may not restart. */
		{"4", RESTART_NOW, false, false, 1, SETTING_PENDING, REASON_DRIFT, true, true},
		{"4", RESTART_NOW, false, false, 2, SETTING_YIELDED, REASON_RESTARTED_TOO_OFTEN,
			false, false},
		{"4", RESTART_NEVER, false, false, 2, SETTING_PENDING, REASON_DRIFT, true, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_fixture_ struct fixture fixture;
		struct restart_history history = {.unit = "containerd.service"};

		fixture_make(&fixture);
		poll_file(&fixture, "10", "10");
		fixture.file.activation = ACTIVATE_RESTART;
		fixture.file.restart = cases[i].policy;
		set_text(fixture.file.daemon.unit, history.unit);
		fixture.file.daemon.busy = cases[i].busy;
		fixture.input.transferring = cases[i].transferring;
		fixture.decide.realtime_us = 86400 * USEC_PER_SEC;
		for (size_t k = 0; k < cases[i].restarts; k++)
			restart_add(&history, 86400 - 60);
		fixture.decide.restarts = &history;
		fixture.decide.n_restarts = 1;
		assert_int_equal(
			poll_file(&fixture, "3", cases[i].on_disk)->restart_due, cases[i].due);
		expect(&fixture, cases[i].state, cases[i].reason, cases[i].planned);
	}
}

/* The job that is planned reports it, and asks for no further restart. */
TEST(a_restart_without_effect_is_reported_before_another_is_allowed)
{
	static const enum restart_policy policies[] = {RESTART_WHEN_IDLE, RESTART_NOW};

	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		_cleanup_fixture_ struct fixture fixture;
		struct restart_history history = {.unit = "containerd.service",
			.tried = {{.name = "vm.a", .value = "10"}},
			.n_tried = 1};

		fixture_make(&fixture);
		fixture.file.activation = ACTIVATE_RESTART;
		fixture.file.restart = policies[i];
		set_text(fixture.file.daemon.unit, history.unit);
		fixture.decide.realtime_us = 86400 * USEC_PER_SEC;
		for (size_t k = 0; k < 1 + i; k++)
			restart_add(&history, 86400 - 60);
		fixture.decide.restarts = &history;
		fixture.decide.n_restarts = 1;
		assert_false(poll_file(&fixture, "3", "10")->restart_due);
		expect(&fixture, SETTING_PENDING, REASON_RESTART_PENDING, 1);
		set_text(history.tried[0].value, "9");
		poll_file(&fixture, "3", "10");
		expect(&fixture, SETTING_PENDING,
			i == 0 ? REASON_RESTART_PENDING : REASON_RESTARTED_TOO_OFTEN, 0);
	}
}

TEST(a_recorded_value_in_the_file_is_not_drift)
{
	static const struct {
		const char *on_disk, *failed;
		enum reason reason;
		enum setting_state state;
	} cases[] = {
		{"", "", REASON_CONFIGURED, SETTING_PENDING},
		{"8", "", REASON_CONFIGURED, SETTING_PENDING},
		{"7", "", REASON_DRIFT, SETTING_PENDING},
		{"8", "10", REASON_DID_NOT_COME_BACK, SETTING_FAILED},
		{"8", "11", REASON_CONFIGURED, SETTING_PENDING},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_fixture_ struct fixture fixture;

		fixture_make(&fixture);
		fixture.key_record = (struct key_record){.name = "vm.a",
			.in_force_originally = "3",
			.value_before = "8",
			.wanted = "10"};
		copy_text(fixture.key_record.failed, SETTING_VALUE_MAX, cases[i].failed);
		fixture.decide.keys = &fixture.key_record;
		fixture.decide.n_keys = 1;
		assert_string_equal(poll_file(&fixture, "3", cases[i].on_disk)->original, "3");
		expect(&fixture, cases[i].state, cases[i].reason,
			cases[i].state == SETTING_PENDING);
	}
}

FIXTURE_TEST(the_reason_of_a_choice_is_shown_while_the_node_has_it)
{
	fixture->want.reason = REASON_CHOSEN_ON_NODE;
	poll_to(fixture, "100", SETTING_IN_SYNC, REASON_CHOSEN_ON_NODE, 0);
	fixture->want.reason = REASON_DEFAULT;
	poll_to(fixture, "100", SETTING_IN_SYNC, REASON_IN_SYNC, 0);
}
