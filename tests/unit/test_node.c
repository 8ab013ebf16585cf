/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "fake_node.h"

TEST(finds_by_name)
{
	struct fake_node fake;

	fake_node_make(&fake);
	assert_ptr_equal(node_setting(&fake.node, "vm.max_map_count"), &fake.settings[1]);
	assert_null(node_setting(&fake.node, "vm.max_map"));
	assert_ptr_equal(node_limit(&fake.node, "neighbor/ipv6"), &fake.limits[1]);
	assert_null(node_limit(&fake.node, ""));
}

TEST(the_worst_true_condition_is_the_verdict)
{
	static const struct {
		enum condition_status pressure, overflow;
		enum verdict verdict;
	} cases[] = {
		{CONDITION_FALSE, CONDITION_FALSE, VERDICT_OK},
		{CONDITION_UNKNOWN, CONDITION_UNKNOWN, VERDICT_OK},
		{CONDITION_TRUE, CONDITION_FALSE, VERDICT_WARNING},
		{CONDITION_FALSE, CONDITION_TRUE, VERDICT_CRITICAL},
		{CONDITION_TRUE, CONDITION_TRUE, VERDICT_CRITICAL},
	};
	struct fake_node fake;

	fake_node_make(&fake);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct condition *conditions = fake.node.conditions;

		conditions[FAKE_PRESSURE].now.status = cases[i].pressure;
		conditions[FAKE_OVERFLOW].now.status = cases[i].overflow;
		assert_int_equal(node_verdict(&fake.node), cases[i].verdict);
	}
}
