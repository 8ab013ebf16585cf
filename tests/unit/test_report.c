/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "report/report.h"
#include "tuners/table.h"

#include "fake_node.h"

#define PAGE_MAX 200000
#define EVIL     "<script>\"'&\xff"

enum document { STATUS, METRICS, HEALTH, READY, PAGE };

/* The caller frees the text. */
static char *text_of(enum document which, const struct node *node)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (which == STATUS)
		assert_true(json_put(out, report_status(node, false), false));
	else if (which == METRICS)
		report_metrics(out, node, false);
	else if (which == HEALTH)
		assert_true(json_put(out, report_health(node), false));
	else if (which == READY)
		report_ready(out, node);
	else
		report_page(out, node, false);
	fclose(out);
	return text;
}

/* The document has each part, and lacks each part that begins with '!'. NULL ends the list. */
static void expect(enum document which, const struct node *node, const char *const *parts)
{
	_cleanup_free_ char *text = text_of(which, node);

	assert_true(strlen(text) < PAGE_MAX);
	for (; *parts; parts++) {
		bool there = **parts != '!';

		if (!strstr(text, *parts + !there) == there)
			fail_msg("%s '%s' in:\n%s", there ? "no" : "a", *parts + !there, text);
	}
}

#define EXPECT(which, node, ...) expect(which, node, (const char *const[]){__VA_ARGS__, NULL})
#define NODE_TEST(name)          TEST_OF(fake_node, fake, fake_node_make, (void), name)

NODE_TEST(the_status_document_names_users_and_bounds)
{
	copy_text(fake->limits[0].now.top[1].workload.name, 128, "a\xff\"\n");
	EXPECT(STATUS, &fake->node, "{\"schema\":1,\"node\":{\"name\":\"node-1\",\"version\":\"",
		"\"started\":\"2024-05-01T12:00:00Z\",\"verdict\":\"warning\",\"applied\":true,",
		"\"hits\":7,\"hits_before\":7,\"severity\":\"warning\",\"bound\":\"exact\","
		"\"full_in_seconds\":1876.6,\"history\":[null,",
		"\"name\":\"coredns-x\",\"id\":\"uid\",\"text\":\"pod kube-system/coredns-x\"}",
		/* A cgroup may have any name. */
		"\"name\":\"a\xef\xbf\xbd\\\"\\n\"",
		/* A workload without a name shows its id, as in metrics. */
		"\"name\":\"4026531840\",\"id\":\"4026531840\",\"text\":\"netns 4026531840\"",
		"\"severity\":\"ok\",\"bound\":\"upper\",\"full_in_seconds\":null,",
		"\"state\":\"degraded\",\"why\":\"no /sys/kernel/mm: mount it\"},{",
		"\"dns\":null,\"runtime\":null,\"images\":[],\"kubelet\":null,\"storage\":null}");
}

NODE_TEST(problems_are_the_first_conditions)
{
	fake->conditions[FAKE_ADVICE].status = CONDITION_TRUE;
	fake->conditions[FAKE_PRESSURE].status = CONDITION_UNKNOWN;
	EXPECT(STATUS, &fake->node, "\"conditions\":[{\"type\":\"FakeAdvice\"");
}

NODE_TEST(problems_are_the_first_settings_tuners_and_limits)
{
	fake->settings[2].state = SETTING_FAILED;
	fake->limits[1].now.used = fake->limits[1].now.max;
	EXPECT(STATUS, &fake->node, "\"settings\":[{\"name\":\"thp.enabled\"",
		"\"since\":null},{\"name\":\"vm.max_map_count\"", "\"tuners\":[{\"name\":\"thp\"",
		"\"limits\":[{\"name\":\"neighbor/ipv6\"");
}

/* test_monitoring.py of the root tests has the other metrics. */
NODE_TEST(states_and_counters_of_the_node_are_metrics)
{
	fake->tuners[0].mode = MODE_RELEASED;
	fake->node.config_hash = 0xab;
	fake->node.reload_failed = true;
	fake->node.reloaded_us = fake->node.started_us;
	EXPECT(METRICS, &fake->node, "\nheadroom_limit_peak{limit=\"neighbor/ipv4\"} 90000\n",
		"\nheadroom_limit_hits_total{limit=\"neighbor/ipv4\"} 7\n",
		"\nheadroom_setting_in_sync{setting=\"vm.max_map_count\"} 0\n",
		"\nheadroom_setting_in_sync{setting=\"thp.enabled\"} 0\n",
		"\nheadroom_setting_drift_total{setting=\"vm.max_map_count\"} 3\n",
		"!drift_total{setting=\"thp.enabled\"}",
		"\nheadroom_condition{condition=\"FakePressure\"} 1\n",
		"\nheadroom_condition{condition=\"FakeOverflow\"} 0\n",
		"\nheadroom_tuner_active{tuner=\"thp\"} 0\n",
		"!{tuner=\"neighbor\",mode=\"enforce\"}",
		"\nheadroom_tuner_mode{tuner=\"neighbor\",mode=\"released\"} 1\n",
		"\nheadroom_config_info{hash=\"000000ab\",profile=\"\"} 1\n",
		"\nheadroom_config_last_reload_successful 0\n",
		"\nheadroom_config_last_reload_success_timestamp_seconds 1714564800\n",
		"\nheadroom_fake_entries{family=\"ipv4\"} 42\n", "!# EOF",
		"!headroom_fake_unlisted");
}

NODE_TEST(a_finding_is_a_series_with_its_largest_user)
{
	struct limit_user users[] = {
		{.workload = {WORKLOAD_POD, "shop", "crawler-7", "uid"}, .used = 9},
		{.workload = {WORKLOAD_POD, "shop", "api", "uid2"}, .used = 5}};
	struct finding findings[5] = {
		{.slug = "conntrack", .who = users, .n_who = 2, .severity = SEVERITY_CRITICAL},
		{.slug = "conntrack", .who = users, .n_who = 1, .severity = SEVERITY_CRITICAL},
		{.slug = "pids", .severity = SEVERITY_WARNING},
		{.slug = "ptys", .ignored = true},
		{.slug = "pids/cgroup", .instance.owner = {WORKLOAD_POD, "shop", "fork", "uid3"}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(findings); i++)
		findings[i].condition = &fake_conditions[FAKE_PRESSURE];
	fake->node.findings = (struct finding_list){.findings = findings, .n = 5};
	EXPECT(METRICS, &fake->node,
		"headroom_finding{condition=\"FakePressure\",object=\"conntrack\",severity="
		"\"critical\",kind=\"pod\",namespace=\"shop\",name=\"crawler-7\"} 1\n"
		"headroom_finding{condition=\"FakePressure\",object=\"pids\",severity=\"warning\","
		"kind=\"\",namespace=\"\",name=\"\"} 1\n"
		"headroom_finding{condition=\"FakePressure\",object=\"pids/cgroup\",severity=\"advice\","
		"kind=\"pod\",namespace=\"shop\",name=\"fork\"} 1\n",
		"!ptys");
}

NODE_TEST(workloads_beyond_the_top_are_summed)
{
	EXPECT(METRICS, &fake->node,
		"{limit=\"neighbor/ipv4\",kind=\"pod\",namespace=\"kube-system\",name=\"coredns-x\"} 50000\n",
		"kind=\"container\",namespace=\"\",name=\"twin\"} 30000\n",
		"!name=\"twin\"} 10000\n",
		"kind=\"netns\",namespace=\"\",name=\"4026531840\"} 1000\n",
		"kind=\"other\",namespace=\"\",name=\"other\"} 234\n",
		"!workload{limit=\"neighbor/ipv6\"");
}

NODE_TEST(the_verdict_is_the_worst_condition)
{
	EXPECT(HEALTH, &fake->node, "{\"status\":\"warning\",\"checks\":[",
		"{\"type\":\"FakePressure\",\"status\":\"warning\",\"reason\":"
		"\"near-full\",\"message\":\"81 % full\"}");
	fake->conditions[FAKE_OVERFLOW].status = CONDITION_TRUE;
	EXPECT(HEALTH, &fake->node, "{\"status\":\"critical\"");
	fake->conditions[FAKE_OVERFLOW].status = CONDITION_FALSE;
	fake->conditions[FAKE_PRESSURE].status = CONDITION_UNKNOWN;
	EXPECT(HEALTH, &fake->node, "{\"status\":\"ok\"",
		"\"type\":\"FakePressure\",\"status\":\"ok\"");
}

NODE_TEST(readiness_lists_every_tuner)
{
	EXPECT(READY, &fake->node, "[+] neighbor: active\n",
		"[~] thp: degraded: no /sys/kernel/mm: mount it\nready\n");
	fake->node.applied = false;
	EXPECT(READY, &fake->node, "[-] applied", "not ready\n");
	fake->node.applied = true;
	fake->tuners[1].mode = MODE_OFF;
	EXPECT(READY, &fake->node, "[+] thp: off\nready\n");
}

TEST(an_empty_node_has_every_document)
{
	static const struct node node;

	EXPECT(METRICS, &node, "headroom_build_info");
	EXPECT(PAGE, &node, "</html>\n");
	EXPECT(STATUS, &node, "\"limits\":[]");
}

/* test_page.py of the root tests shows the page in a browser. */
NODE_TEST(the_page_shows_bounds_and_reasons_without_other_documents)
{
	fake_node_find(fake, &fake_conditions[FAKE_PRESSURE], "neighbor/ipv4")->message =
		fake_message;
	EXPECT(PAGE, &fake->node, "<h1>node-1</h1>", "width:81.2%", "at most 5 of", "81 % full",
		"no /sys/kernel/mm: mount it", "role=\"meter\"", "!src=", "!@import", "!<script");
}

/* Hits from before the start of the agent need no action. */
NODE_TEST(a_limit_has_the_colour_of_its_finding_and_counts_old_hits_separately)
{
	fake->limits[0].now.used = 10;
	EXPECT(PAGE, &fake->node, "0 times, 7 since boot", "!<td class=\"num critical\">");
	fake_node_find(fake, &fake_conditions[FAKE_OVERFLOW], "neighbor/ipv4");
	EXPECT(PAGE, &fake->node, "<td class=\"num critical\">&lt;1 %");
}

NODE_TEST(every_foreign_text_is_escaped)
{
	static const char evil[] = EVIL;
	static const char good[] = "&lt;script&gt;&quot;&#39;&amp;\xef\xbf\xbd";
	_cleanup_free_ char *text = NULL;
	size_t found = 0;

	set_text(fake->node.name, evil);
	fake->limits[0].now.top[0] = (struct limit_user){{WORKLOAD_POD, EVIL, EVIL, EVIL}, 1};
	copy_text(fake->settings[0].name, SETTING_NAME_MAX, evil);
	copy_text(fake->settings[0].wanted, SETTING_VALUE_MAX, evil);
	copy_text(fake->settings[0].actual, SETTING_VALUE_MAX, evil);
	copy_text(fake->settings[0].original, SETTING_VALUE_MAX, evil);
	set_text(fake_message, evil);
	fake_node_find(fake, &fake_conditions[FAKE_PRESSURE], "neighbor/ipv4")->message =
		fake_message;
	copy_text(fake->tuners[1].why, TUNER_WHY_MAX, evil);
	text = text_of(PAGE, &fake->node);
	assert_null(strstr(text, "<script>"));
	for (const char *p = text; (p = strstr(p, good)); p++)
		found++;
	assert_int_equal(found, 2 + 4 + 7 + 1 + 1);
}

/* A busy node of this many limits and findings, with long names. The caller frees its arrays. */
static void make_busy(struct fake_node *fake, size_t n_limits, size_t n_findings)
{
	static const struct limit_user user = {
		{WORKLOAD_POD, "production-eu-west", "checkout-frontend-7d9f8b6c5d-x2x7k", "uid"},
		123456};
	struct limit *limits = calloc(n_limits, sizeof(*limits));
	struct finding *findings = calloc(n_findings, sizeof(*findings));

	assert_non_null(limits);
	assert_non_null(findings);
	for (size_t i = 0; i < n_limits; i++) {
		struct limit_reading reading = {.unit = "connections",
			.used = 262144 - i * 6000,
			.max = 262144,
			.n_top = LIMIT_TOP_MAX};

		snprintf(reading.name, sizeof(reading.name), "conntrack/namespace-%zu", i);
		reading.top = calloc(LIMIT_TOP_MAX, sizeof(user));
		assert_non_null(reading.top);
		for (size_t k = 0; k < LIMIT_TOP_MAX; k++)
			reading.top[k] = user;
		for (uint64_t minute = 1; minute <= HISTORY_MINUTES; minute++) {
			reading.used -= i * minute % 7;
			limit_observe(&limits[i], &reading, minute * 60 * USEC_PER_SEC);
		}
		free(reading.top);
	}
	for (size_t i = 0; i < n_findings; i++) {
		struct finding *finding = &findings[i];

		*finding = (struct finding){.condition = &fake_conditions[i % FAKE_CONDITIONS],
			.severity = fake_conditions[i % FAKE_CONDITIONS].severity,
			.unit = "connections",
			.worst = {.used = 262144, .max = 262144},
			.since_us = realtime_us(),
			.breaks =
				"new connections time out: nf_conntrack: table full, dropping packet",
			.knows = WHO_KNOWN,
			.who = (struct limit_user *)&user,
			.n_who = 1,
			.now = "sysctl -w net.netfilter.nf_conntrack_max=1048576",
			.keep = "limits: {raise: [conntrack]}",
			.keep_in = "/etc/headroom/headroom.yaml",
			.tuner = "limits"};
		snprintf(finding->slug, sizeof(finding->slug), "conntrack/namespace-%zu", i);
	}
	fake->node.limits = limits;
	fake->node.n_limits = n_limits;
	fake->node.findings = (struct finding_list){.findings = findings, .n = n_findings};
}

static void free_busy(struct fake_node *fake)
{
	for (size_t i = 0; i < fake->node.n_limits; i++)
		limit_release(&fake->node.limits[i]);
	free(fake->node.limits);
	free(fake->node.findings.findings);
}

NODE_TEST(the_page_of_a_busy_node_is_whole)
{
	make_busy(fake, 40, 12);
	EXPECT(PAGE, &fake->node, "conntrack/namespace-39</a>", "findings/conntrack/namespace-11",
		"<title>node-1: 4 critical, 4 warnings - Headroom</title>", "Limits 40",
		"id=\"settings/vm.max_map_count\"", "!more: see /v1/status");
	free_busy(fake);
}

static const char dns[] =
	"{\"servers\": [{\"server\": \"10.0.0.2\", \"role\": \"upstream\", \"queries_per_second\": 12,"
	" \"minute_queries\": 9, \"history\": [0, null, 5, 10], \"peak\": 1500, \"pending\": 3, \"unanswered\": 2,"
	" \"budget\": {\"qps\": 0, \"pps\": 1024, \"pending\": 0}, \"latency\": {\"p50\": 0.0004, \"p99\": 0.021},"
	" \"top\": [{\"workload\": {\"kind\": \"pod\", \"namespace\": \"shop\","
	" \"text\": \"pod shop/<b>cart\\u001b\"}, \"in_second\": 700}],"
	" \"second\": {\"counts\": \"queries\", \"queries\": 1500, \"end\": \"14:03:07\"}, \"names\": [{\"name\": \"secret.example\"}]},"
	" {\"server\": \"10.0.0.3\", \"role\": \"upstream\", \"minute_queries\": 0},"
	" {\"server\": \"other\", \"budget\": null, \"latency\": null, \"top\": []}]}";

static const char runtime[] =
	"{\"found\": [{\"name\": \"containerd\", \"version\": \"1.6.20\", \"state\": \"answers\","
	" \"max_concurrent_downloads\": \"10\", \"pulls\": [{\"bytes_per_second\": 2500000}],"
	" \"store\": {\"directory\": \"/var/lib/c\", \"driver\": \"vfs\", \"filesystem\": \"ext4\","
	" \"size\": 1000, \"used\": 900, \"warnings\": [\"copies <every> layer\"]}},"
	" {\"name\": \"cri-o\", \"state\": \"answers\", \"store\": {\"directory\": \"/var/lib/d\", \"driver\": \"\","
	" \"filesystem\": \"xfs\", \"size\": 1000, \"used\": 500}},"
	" {\"name\": \"docker\", \"state\": \"asked\"}]}";

static bool asked_trusted;

static struct cJSON *dns_document(const void *self, const void *, bool trusted)
{
	asked_trusted = asked_trusted || trusted;
	return cJSON_Parse(self);
}

static const struct tuner_ops dns_ops = {
	.name = "dns", .tables = &dns_tables, .document = dns_document};
static const struct tuner_ops runtime_ops = {
	.name = "runtime", .tables = &runtime_tables, .document = dns_document};

/* Expects parts of the page of a node with these two documents. */
static void expect_views(const char *dns_text, const char *runtime_text, const char *const *parts)
{
	struct tuner_status tuners[] = {
		{.ops = &dns_ops, .self = (void *)dns_text},
		{.ops = &runtime_ops, .self = (void *)runtime_text},
	};
	const struct node node = {.tuners = tuners, .n_tuners = ARRAY_SIZE(tuners)};

	expect(PAGE, &node, parts);
}

#define EXPECT_VIEWS(dns, runtime, ...) \
	expect_views(dns, runtime, (const char *const[]){__VA_ARGS__, NULL})

TEST(resolvers_and_runtimes_have_tables_without_query_names)
{
	EXPECT_VIEWS(dns, runtime, "10.0.0.2", "upstream", "1024 packets/s", "400 µs", "21 ms",
		"pod shop/&lt;b&gt;cart? 700 of 1500", "containerd", "1.6.20", "1 layer, 2.5 MB/s",
		"/var/lib/c (vfs, ext4) 90 % full", "/var/lib/d (xfs) 50 % full",
		"copies &lt;every&gt; layer", "!>docker<", "!secret.example",
		/* Resolvers without queries are in a closed section. */
		"<a href=\"/?paused#servers\">1 idle</a>",
		"<polyline points=\"0,19.0 2,10.0 3,1.0 \"/>");
	assert_false(asked_trusted);
}

TEST(rows_beyond_the_limit_of_the_page_are_counted)
{
	size_t size = 400 * 1000, used;
	_cleanup_free_ char *many = malloc(size);

	assert_non_null(many);
	used = (size_t)snprintf(many, size, "{\"found\": [{}");
	while (used < size - 300)
		used += (size_t)snprintf(many + used, size - used,
			", {\"name\": \"%0200d\", \"state\": \"answers\"}", 7);
	snprintf(many + used, size - used, "]}");
	EXPECT_VIEWS("{}", many, " more: see /v1/status.");
}

TEST(documents_of_another_shape_do_no_harm)
{
	static const char *const odd[] = {"null", "{}", "[]", "7",
		"{\"servers\": 1, \"found\": {}}",
		"{\"servers\": [1, null, {\"top\": 2, \"latency\": []}], \"found\": [null, 3]}"};

	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		EXPECT_VIEWS(odd[i], odd[i], "</html>\n");
}
