/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "report/report.h"

#include "fake_node.h"

static void expect(const char *text, const char *part, bool there)
{
	if (!strstr(text, part) == there)
		fail_msg("%s '%s' in:\n%s", there ? "no" : "a", part, text);
}

static void put_text(FILE *out, const struct node *node)
{
	report_metrics(out, node, false);
}

#define NODE_TEST(name) TEST_OF(fake_node, fake, fake_node_make, (void), name)

NODE_TEST(every_part_of_the_node_is_a_metric)
{
	static const char *const lines[] = {
		"\nheadroom_build_info{version=\"",
		"\nheadroom_limit_used{limit=\"neighbor/ipv4\"} 81234\n",
		"\nheadroom_limit_max{limit=\"neighbor/ipv4\"} 100000\n",
		"\nheadroom_limit_peak{limit=\"neighbor/ipv4\"} 90000\n",
		"\nheadroom_limit_hits_total{limit=\"neighbor/ipv4\"} 7\n",
		"\nheadroom_setting_in_sync{setting=\"net.ipv4.neigh.default.gc_thresh3\"} 1\n",
		"\nheadroom_setting_in_sync{setting=\"vm.max_map_count\"} 0\n",
		"\nheadroom_setting_in_sync{setting=\"thp.enabled\"} 0\n",
		"\nheadroom_setting_drift_total{setting=\"vm.max_map_count\"} 3\n",
		"\nheadroom_condition{condition=\"FakePressure\",status=\"true\"} 1\n",
		"\nheadroom_condition{condition=\"FakePressure\",status=\"false\"} 0\n",
		"\nheadroom_condition{condition=\"FakeOverflow\",status=\"false\"} 1\n",
		"\nheadroom_condition{condition=\"FakeOverflow\",status=\"unknown\"} 0\n",
		"\nheadroom_condition_severity{condition=\"FakePressure\"} 2\n",
		"\nheadroom_condition_severity{condition=\"FakeOverflow\"} 0\n",
		"\nheadroom_tuner_active{tuner=\"neighbor\"} 1\n",
		"\nheadroom_tuner_active{tuner=\"thp\"} 0\n",
		"\nheadroom_tuner_mode{tuner=\"neighbor\",mode=\"enforce\"} 0\n",
		"\nheadroom_tuner_mode{tuner=\"neighbor\",mode=\"released\"} 1\n",
		"\nheadroom_limit_info{limit=\"neighbor/ipv4\",unit=\"entries\"} 1\n",
		"\nheadroom_config_info{hash=\"000000ab\"} 1\n",
		"\nheadroom_config_last_reload_successful 0\n",
		"\nheadroom_config_last_reload_success_timestamp_seconds 1714564800\n",
		"\nheadroom_fake_entries{family=\"ipv4\"} 42\n",
		"\nprocess_cpu_seconds_total ",
		"\nprocess_resident_memory_bytes ",
		"\nprocess_virtual_memory_bytes ",
		"\nprocess_open_fds ",
		"\nprocess_max_fds ",
		"\nprocess_start_time_seconds 1714564800\n",
	};
	_cleanup_free_ char *text = NULL;

	fake->tuners[0].mode = MODE_RELEASED;
	fake->node.config_hash = 0xab;
	fake->node.reload_failed = true;
	fake->node.reloaded_us = fake->node.started_us;
	text = written_by(put_text, &fake->node);
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		expect(text, lines[i], true);
	expect(text, "# EOF", false);
	expect(text, "headroom_fake_unlisted", false);
}

NODE_TEST(a_warning_that_is_only_advice_now_has_its_severity)
{
	_cleanup_free_ char *text = NULL;

	fake->conditions[FAKE_PRESSURE].now.advice = true;
	text = written_by(put_text, &fake->node);
	expect(text, "\nheadroom_condition_severity{condition=\"FakePressure\"} 1\n", true);
	expect(text, "\nheadroom_condition{condition=\"FakePressure\",status=\"true\"} 1\n", true);
}

NODE_TEST(workloads_beyond_the_top_are_summed)
{
	_cleanup_free_ char *text = written_by(put_text, &fake->node);
	expect(text,
		"{limit=\"neighbor/"
		"ipv4\",kind=\"pod\",namespace=\"kube-system\",name=\"coredns-x\"} "
		"50000\n",
		true);
	expect(text, "kind=\"container\",namespace=\"\",name=\"twin\"} 30000\n", true);
	expect(text, "name=\"twin\"} 10000\n", false);
	expect(text, "kind=\"netns\",namespace=\"\",name=\"4026531840\"} 1000\n", true);
	expect(text, "kind=\"other\",namespace=\"\",name=\"other\"} 234\n", true);
	expect(text, "workload{limit=\"neighbor/ipv6\"", false);
}

TEST(an_empty_node_has_metrics)
{
	static const struct node node;
	_cleanup_free_ char *text = written_by(put_text, &node);

	expect(text, "headroom_build_info", true);
}
