/* SPDX-License-Identifier: Apache-2.0 */
#include "made_up_node.h"

#include "apply/apply.h"
#include "base/log.h"
#include "tuners/table.h"

static void assert_all_original(const struct made_up_node *node)
{
	for (size_t i = 0; i < ARRAY_SIZE(made_up_files); i++)
		if (!made_up_file_is_original(node, i))
			fail_msg("%s differs", made_up_files[i].path);
}

static void apply(const struct made_up_node *node, struct core *core)
{
	assert_true(made_up_node_open(node, core));
	core_reset(core, NULL);
	assert_int_equal(core_poll(core), 0);
	assert_int_equal(core_apply(core), 0);
	assert_int_equal(plan_failures(&core->plan), 0);
}

static void restore(const struct made_up_node *node, struct core *core, const char *only)
{
	assert_true(made_up_node_open(node, core));
	assert_int_equal(core_restore(core, only), 0);
	assert_int_equal(plan_failures(&core->plan), 0);
	assert_int_equal(journal_store(core->journal), 0);
}

static void looking_changes_nothing(void **state)
{
	_cleanup_made_up_node_ struct made_up_node node;
	struct core core;

	(void)state;
	made_up_node_make(&node);
	made_up_node_config(&node, made_up_a);
	assert_true(made_up_node_open(&node, &core));
	assert_int_equal(core_poll(&core), 0);
	assert_int_equal(core.plan.n, 10);
	assert_int_equal(node_setting(&core.node, "vm.max_map_count")->state, SETTING_PENDING);
	assert_int_equal(node_limit(&core.node, "neighbor/ipv4")->now.max, 30000);
	core_close(&core);
	assert_all_original(&node);
}

static void applied_and_restored_byte_for_byte(void **state)
{
	_cleanup_made_up_node_ struct made_up_node node;
	struct core core;

	(void)state;
	made_up_node_make(&node);
	made_up_node_config(&node, made_up_a);
	apply(&node, &core);
	assert_int_equal(core.plan.n, 10);
	assert_int_equal(node_setting(&core.node, "vm.max_map_count")->state, SETTING_IN_SYNC);
	core_close(&core);
	assert_node_file(&node, "/proc/sys/vm/max_map_count", "262144\n");
	assert_node_file(&node, NEIGH("ipv6") "3", "60000\n");
	assert_node_file(&node, "/sys/kernel/mm/transparent_hugepage/defrag", "never\n");

	apply(&node, &core); /* once more: nothing to do */
	assert_int_equal(core.plan.n, 0);
	core_close(&core);

	made_up_node_config(&node, made_up_b);
	apply(&node, &core);
	core_close(&core);
	assert_node_file(&node, NEIGH("ipv6") "3", "10003\n");

	restore(&node, &core, NULL);
	core_close(&core);
	assert_all_original(&node);
}

static void after_a_restore_it_only_observes(void **state)
{
	_cleanup_made_up_node_ struct made_up_node node;
	struct core core;

	(void)state;
	made_up_node_make(&node);
	made_up_node_config(&node, made_up_a);
	apply(&node, &core);
	core_close(&core);
	restore(&node, &core, "sysctl");
	assert_int_equal(core_poll(&core), 0);
	assert_int_equal(core.plan.n, 0);
	assert_string_equal(node_setting(&core.node, "vm.max_map_count")->reason, "restored");
	core_close(&core);
	assert_node_file(&node, "/proc/sys/vm/max_map_count", "100000\n");
	assert_node_file(&node, NEIGH("ipv4") "1", "40000\n");
	/* Another configuration, or an explicit apply, ends that. */
	assert_true(made_up_node_open(&node, &core));
	assert_int_equal(core_poll(&core), 0);
	assert_int_equal(core.plan.n, 0);
	core_close(&core);
	made_up_node_config(&node, made_up_b);
	assert_true(made_up_node_open(&node, &core));
	assert_int_equal(core_poll(&core), 0);
	assert_true(core.plan.n > 0);
	core_close(&core);
	made_up_node_config(&node, made_up_a);
	apply(&node, &core);
	assert_int_equal(core.plan.n, 2);
	core_close(&core);
}

static void there_is_one_writer(void **state)
{
	_cleanup_made_up_node_ struct made_up_node node;
	struct core first, second;

	(void)state;
	made_up_node_make(&node);
	made_up_node_config(&node, made_up_a);
	assert_true(made_up_node_open(&node, &first));
	assert_false(made_up_node_open(&node, &second));
	assert_int_equal(second.lock, -1);
	core_close(&second);
	core_close(&first);
}

static void without_a_state_directory_nothing_is_written(void **state)
{
	_cleanup_made_up_node_ struct made_up_node node;
	const struct setting *setting;
	char path[PATH_MAX];
	struct core core;

	(void)state;
	made_up_node_make(&node);
	made_up_node_config(&node, made_up_a);
	directory_path(&node.directory, "/config.yaml/state", path);
	assert_int_equal(setenv("HEADROOM_STATE_DIR", path, 1), 0);
	assert_false(made_up_node_open(&node, &core));
	assert_int_equal(core_poll(&core), 0);
	assert_int_equal(core_apply(&core), 0);
	assert_int_equal(plan_failures(&core.plan), core.plan.n);
	setting = node_setting(&core.node, "vm.max_map_count");
	assert_int_equal(setting->state, SETTING_FAILED);
	assert_string_equal(setting->reason, "not-recorded");
	assert_int_equal(node_condition(&core.node, &core_tables.conditions[CORE_SETTING_FAILED])
				 ->now.status,
		CONDITION_TRUE);
	core_close(&core);
	assert_all_original(&node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(looking_changes_nothing),
		cmocka_unit_test(applied_and_restored_byte_for_byte),
		cmocka_unit_test(after_a_restore_it_only_observes),
		cmocka_unit_test(there_is_one_writer),
		cmocka_unit_test(without_a_state_directory_nothing_is_written),
	};

	log_init(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
