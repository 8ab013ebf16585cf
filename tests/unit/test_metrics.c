/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <time.h>

#include "base/cleanup.h"
#include "report/report.h"

#include "fake_node.h"

static void has(const char *text, const char *line)
{
	if (!strstr(text, line))
		fail_msg("no '%s' in:\n%s", line, text);
}

static void hasnt(const char *text, const char *line)
{
	if (strstr(text, line))
		fail_msg("'%s' in:\n%s", line, text);
}

static char *metrics_of(const struct node *node, bool openmetrics)
{
	char *text;
	size_t len;

	assert_int_equal(report_metrics(node, openmetrics, &text, &len), 0);
	assert_int_equal(strlen(text), len);
	return text;
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
	text = metrics_of(&fake->node, false);
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		has(text, lines[i]);
	hasnt(text, "# EOF");
	hasnt(text, "headroom_fake_unlisted");
}

NODE_TEST(workloads_beyond_the_top_are_summed)
{
	_cleanup_free_ char *text = NULL;

	text = metrics_of(&fake->node, false);
	has(text, "{limit=\"neighbor/"
		  "ipv4\",kind=\"pod\",namespace=\"kube-system\",name=\"coredns-x\"} "
		  "50000\n");
	has(text, "kind=\"container\",namespace=\"\",name=\"twin\"} 30000\n");
	hasnt(text, "name=\"twin\"} 10000\n");
	has(text, "kind=\"netns\",namespace=\"\",name=\"4026531840\"} 1000\n");
	has(text, "kind=\"other\",namespace=\"\",name=\"other\"} 234\n");
	hasnt(text, "workload{limit=\"neighbor/ipv6\"");
}

NODE_TEST(openmetrics_is_written)
{
	_cleanup_free_ char *text = NULL;

	text = metrics_of(&fake->node, true);
	has(text, "# TYPE headroom_limit_hits counter\nheadroom_limit_hits_total{");
	has(text, "# TYPE process_cpu_seconds counter\nprocess_cpu_seconds_total ");
	assert_string_equal(text + strlen(text) - strlen("# EOF\n"), "# EOF\n");
}

TEST(an_empty_node_has_metrics)
{
	struct node node = {0};
	_cleanup_free_ char *text = NULL;

	text = metrics_of(&node, false);
	has(text, "headroom_build_info");
}

/* promtool lints text 0.0.4; it comes with Prometheus. */
TEST(promtool_finds_no_fault)
{
	struct fake_node fake;
	_cleanup_free_ char *text = NULL;
	FILE *tool;

	if (system("command -v promtool >/dev/null 2>&1") != 0)
		skip();
	fake_node_make(&fake);
	text = metrics_of(&fake.node, false);
	tool = popen("out=$(promtool check metrics 2>&1) && test -z \"$out\" || "
		     "{ echo \"$out\" >&2; exit 1; }",
		"w");
	assert_non_null(tool);
	fputs(text, tool);
	assert_int_equal(pclose(tool), 0);
}

/* 500 us of CPU are allowed; ten times that catches a scan of something large, also below ASan. */
NODE_TEST(a_scrape_is_cheap)
{
	enum { ROUNDS = 200 };
	clock_t before = clock();

	for (int i = 0; i < ROUNDS; i++)
		free(metrics_of(&fake->node, false));
	assert_true((double)(clock() - before) / CLOCKS_PER_SEC / ROUNDS < 0.005);
}
