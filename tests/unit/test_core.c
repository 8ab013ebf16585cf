/* SPDX-License-Identifier: Apache-2.0 */
#include "made_up_node.h"

#include "base/log.h"
#include "tuners/table.h"

static void assert_all_original(const struct made_up_node *node)
{
	for (size_t i = 0; i < ARRAY_SIZE(made_up_files); i++)
		if (!made_up_file_is_original(node, i))
			fail_msg("%s differs", made_up_files[i].path);
}

/* What was changed. */
static size_t apply(const struct made_up_node *node, struct core *core)
{
	struct plan done = {0};
	size_t n;

	assert_true(made_up_node_open(node, core));
	core_reset(core, NULL);
	assert_int_equal(core_poll(core), 0);
	made_up_node_apply(core, FILE_APPLY, &done);
	assert_int_equal(plan_failures(&done), 0);
	n = done.n;
	plan_clear(&done);
	return n;
}

static void restore(const struct made_up_node *node, struct core *core)
{
	struct plan done = {0};

	assert_true(made_up_node_open(node, core));
	made_up_node_apply(core, FILE_RESTORE, &done);
	assert_int_equal(plan_failures(&done), 0);
	plan_clear(&done);
}

NODE_TEST(polling_changes_nothing)
{
	struct core core;

	made_up_node_config(node, made_up_a);
	assert_true(made_up_node_open(node, &core));
	assert_int_equal(core_poll(&core), 0);
	assert_int_equal(core.plan.n, 10);
	assert_int_equal(node_setting(&core.node, "vm.max_map_count")->state, SETTING_PENDING);
	assert_int_equal(node_limit(&core.node, "neighbor/ipv4")->now.max, 30000);
	core_close(&core);
	assert_all_original(node);
}

NODE_TEST(applied_and_restored_byte_for_byte)
{
	struct core core;

	made_up_node_config(node, made_up_a);
	assert_int_equal(apply(node, &core), 10);
	assert_int_equal(node_setting(&core.node, "vm.max_map_count")->state, SETTING_IN_SYNC);
	core_close(&core);
	assert_node_file(node, "/proc/sys/vm/max_map_count", "262144\n");
	assert_node_file(node, NEIGH("ipv6") "3", "60000\n");
	assert_node_file(node, "/sys/kernel/mm/transparent_hugepage/defrag", "never\n");

	assert_int_equal(apply(node, &core), 0); /* once more: nothing to do */
	core_close(&core);

	made_up_node_config(node, made_up_b);
	apply(node, &core);
	core_close(&core);
	assert_node_file(node, NEIGH("ipv6") "3", "10003\n");

	restore(node, &core);
	core_close(&core);
	assert_all_original(node);
}

/* Whatever changes: only an apply ends it. */
NODE_TEST(a_restored_node_is_released_until_apply)
{
	const struct tuner_status *tuner;
	struct core core;

	made_up_node_config(node, made_up_a);
	apply(node, &core);
	core_close(&core);
	restore(node, &core);
	assert_int_equal(core_poll(&core), 0);
	assert_int_equal(core.plan.n, 0);
	assert_string_equal(node_setting(&core.node, "vm.max_map_count")->reason, "restored");
	assert_int_equal(node_would_change(&core.node), 10);
	core_close(&core);
	assert_all_original(node);
	made_up_node_config(node, made_up_b);
	assert_true(made_up_node_open(node, &core));
	assert_int_equal(core_poll(&core), 0);
	assert_int_equal(core.plan.n, 0);
	tuner = &core.node.tuners[0];
	assert_int_equal(tuner->mode, MODE_RELEASED);
	assert_in_range(tuner->since_us, 1, realtime_us());
	core_close(&core);
	assert_int_equal(apply(node, &core), 10);
	core_close(&core);
	assert_true(made_up_node_open(node, &core));
	assert_int_equal(core_poll(&core), 0);
	assert_int_equal(core.node.tuners[0].mode, MODE_ENFORCE);
	core_close(&core);
}

NODE_TEST(there_is_one_writer)
{
	struct core first, second;

	made_up_node_config(node, made_up_a);
	assert_true(made_up_node_open(node, &first));
	assert_false(made_up_node_open(node, &second));
	assert_int_equal(second.lock, -1);
	core_close(&second);
	core_close(&first);
}

NODE_TEST(without_a_runtime_directory_values_are_only_observed)
{
	const struct condition *condition;
	const struct setting *setting;
	char path[PATH_MAX];
	struct core core;

	made_up_node_config(node, made_up_a);
	directory_path(&node->directory, "/config.yaml/run", path);
	assert_int_equal(setenv("HEADROOM_RUNTIME_DIR", path, 1), 0);
	assert_false(made_up_node_open(node, &core));
	core.options.watch = true; /* as the agent does */
	assert_int_equal(core_poll(&core), 0);
	assert_int_equal(core.plan.n, 0);
	setting = node_setting(&core.node, "vm.max_map_count");
	assert_int_equal(setting->state, SETTING_OBSERVED);
	assert_string_equal(setting->reason, "not-recorded");
	condition = node_condition(&core.node, &core_tables.conditions[CORE_AGENT_DEGRADED]);
	assert_int_equal(condition->now.status, CONDITION_TRUE);
	assert_non_null(strstr(condition->now.message, strerror(ENOTDIR)));
	core_close(&core);
	assert_all_original(node);
}
