/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/json.h"
#include "base/log.h"
#include "report/report.h"
#include "tuners/dns/dns.h"
#include "tuners/runtime/runtime.h"

#include "fake_node.h"

#define PAGE_MAX 200000

static void live_page(FILE *out, const struct node *node)
{
	report_page(out, node, false);
}

static void paused_page(FILE *out, const struct node *node)
{
	report_page(out, node, true);
}

static char *page_of(const struct node *node)
{
	char *text = written_by(live_page, node);

	assert_true(strlen(text) < PAGE_MAX);
	assert_non_null(strstr(text, "</html>\n"));
	return text;
}

TEST(the_page_shows_the_node)
{
	/* In two parts, as \xaf000 would be one number. */
	static const char thousands[] = "peak 90\xe2\x80\xaf"
					"000";
	static const char *const parts[] = {
		"<!doctype html>",
		"<h1>node-1</h1>",
		">warning</span>",
		"width:81.2%",
		thousands,
		"at most 5 of",
		"kube-system/coredns-x",
		"net.ipv4.neigh.default.gc_thresh3",
		">in-sync</span>",
		">drifted</span>",
		"81 % full",
		"no /sys/kernel/mm: mount it",
		"http-equiv=\"refresh\" content=\"5\"",
		"role=\"meter\"",
	};
	struct fake_node fake;
	_cleanup_free_ char *text = NULL;

	fake_node_make(&fake);
	text = page_of(&fake.node);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (!strstr(text, parts[i]))
			fail_msg("no '%s' in:\n%s", parts[i], text);
	/* Nothing from elsewhere: the icon's namespace is a name, not an address that is asked. */
	assert_null(strstr(text, "src="));
	assert_null(strstr(text, "@import"));
	assert_null(strstr(text, "<script"));
}

/* Of what the table reached before the agent started, nobody has to do anything now. */
TEST(a_card_has_the_colour_of_its_condition_and_says_which_hits_are_old)
{
	struct fake_node fake;
	_cleanup_free_ char *calm = NULL, *full = NULL;

	fake_node_make(&fake);
	fake.limits[0].now.used = 10;
	calm = page_of(&fake.node);
	assert_non_null(strstr(calm, "reached 0 times, 7 since boot"));
	assert_null(strstr(calm, "<b class=\"num critical\">"));
	fake.limits[0].now.condition = &fake_conditions[FAKE_OVERFLOW];
	full = page_of(&fake.node);
	assert_non_null(strstr(full, "<b class=\"num critical\">0 %"));
}

#define EVIL "<script>\"'&\xff"

TEST(every_foreign_text_is_escaped)
{
	static const char evil[] = EVIL;
	static const char good[] = "&lt;script&gt;&quot;&#39;&amp;\xef\xbf\xbd";
	struct fake_node fake;
	_cleanup_free_ char *text = NULL;
	size_t found = 0;

	fake_node_make(&fake);
	copy_text(fake.node.name, sizeof(fake.node.name), evil);
	fake.limits[0].now.top[0] = (struct limit_user){{WORKLOAD_POD, EVIL, EVIL, EVIL}, 1};
	copy_text(fake.settings[0].name, SETTING_NAME_MAX, evil);
	copy_text(fake.settings[0].wanted, SETTING_VALUE_MAX, evil);
	copy_text(fake.settings[0].actual, SETTING_VALUE_MAX, evil);
	copy_text(fake.settings[0].original, SETTING_VALUE_MAX, evil);
	fake.settings[0].reason = evil;
	copy_text(fake.node.conditions[0].now.message, CONDITION_MESSAGE_MAX, evil);
	copy_text(fake.tuners[1].why, TUNER_WHY_MAX, evil);
	text = page_of(&fake.node);
	assert_null(strstr(text, "<script>"));
	for (const char *p = text; (p = strstr(p, good)); p++)
		found++;
	assert_int_equal(found, 2 + 2 + 5 + 1 + 1);
}

TEST(an_empty_node_has_a_page)
{
	struct node node = {0};

	free(page_of(&node));
}

static const char dns[] =
	"{\"servers\": [{\"server\": \"10.0.0.2\", \"role\": \"upstream\", \"queries_per_second\": 12,"
	" \"minute_queries\": 9, \"history\": [0, null, 5, 10], \"peak\": 1500, \"pending\": 3, \"unanswered\": 2,"
	" \"budget\": {\"qps\": 0, \"pps\": 1024, \"pending\": 0}, \"latency\": {\"p50\": 0.0004, \"p99\": 0.021},"
	" \"top\": [{\"workload\": {\"kind\": \"pod\", \"namespace\": \"shop\","
	" \"text\": \"pod shop/<b>cart\"}}], \"names\": [{\"name\": \"secret.example\"}]},"
	" {\"server\": \"10.0.0.3\", \"role\": \"upstream\", \"minute_queries\": 0},"
	" {\"server\": \"other\", \"budget\": null, \"latency\": null, \"top\": []}]}";

static const char runtime[] =
	"{\"found\": [{\"name\": \"containerd\", \"version\": \"1.6.20\", \"state\": \"answers\","
	" \"max_concurrent_downloads\": \"10\", \"pulls\": [{\"bytes_per_second\": 2500000}],"
	" \"store\": {\"directory\": \"/var/lib/c\", \"driver\": \"vfs\", \"filesystem\": \"ext4\","
	" \"size\": 1000, \"used\": 900, \"warnings\": [\"copies <every> layer\"]}},"
	" {\"name\": \"docker\", \"state\": \"asked\"}]}";

static bool asked_trusted;

static struct cJSON *dns_document(const void *self, const void *memory, bool trusted)
{
	(void)memory;
	asked_trusted = asked_trusted || trusted;
	return cJSON_Parse(self);
}

static const struct tuner_ops dns_ops = {
	.name = "dns", .document_name = "dns", .document = dns_document, .view = &dns_view};
static const struct tuner_ops runtime_ops = {.name = "runtime",
	.document_name = "runtime",
	.document = dns_document,
	.view = &runtime_view};

static char *view_page_of(const char *dns_text, const char *runtime_text)
{
	struct tuner_status tuners[] = {
		{.ops = &dns_ops, .self = (void *)dns_text},
		{.ops = &runtime_ops, .self = (void *)runtime_text},
	};
	struct node node = {.name = "n", .tuners = tuners, .n_tuners = ARRAY_SIZE(tuners)};

	return page_of(&node);
}

TEST(resolvers_and_runtimes_have_tables_without_query_names)
{
	static const char *const shown[] = {"10.0.0.2", "upstream", "1024 packets/s", "400 us",
		"21 ms", "pod shop/&lt;b&gt;cart", "containerd", "1.6.20", "1 layer, 2.5 MB/s",
		"90 % full", "copies &lt;every&gt; layer"};
	_cleanup_free_ char *page = view_page_of(dns, runtime);

	for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
		if (!strstr(page, shown[i]))
			fail_msg("not on the page: %s", shown[i]);
	assert_null(strstr(page, ">docker<"));
	/* A resolver without queries is folded away; what explains a row needs no hovering. */
	assert_non_null(strstr(page, "<summary>1 idle</summary>"));
	assert_non_null(strstr(page, "<polyline points=\"0,19.0 2,10.0 3,1.0 \"/>"));
	assert_false(asked_trusted);
	assert_null(strstr(page, "secret.example"));
}

TEST(what_was_logged_last_is_an_event)
{
	struct node node = {0};
	char *text;

	for (int i = 0; i < LOG_EVENTS + 1; i++)
		log_info("<object>", "number %d", i);
	text = page_of(&node);
	assert_non_null(strstr(text, "&lt;object&gt;: number 20</td>"));
	assert_non_null(strstr(text, "number 1</td>"));
	assert_null(strstr(text, "number 0</span>"));
	assert_true(strstr(text, "number 20") < strstr(text, "number 19"));
	assert_non_null(strstr(text, "<span class=\"badge dim\">info</span>"));
	free(text);
}

TEST(a_paused_page_does_not_renew_itself)
{
	struct node node = {0};
	_cleanup_free_ char *live = page_of(&node), *still = written_by(paused_page, &node);

	assert_non_null(strstr(live, "http-equiv=\"refresh\""));
	assert_non_null(strstr(live, "href=\"/?paused\""));
	assert_null(strstr(still, "http-equiv"));
	assert_non_null(strstr(still, "href=\"/\""));
}

TEST(what_is_left_out_is_counted)
{
	size_t size = 400 * 1000, used;
	_cleanup_free_ char *many = malloc(size), *page = NULL;

	assert_non_null(many);
	used = (size_t)snprintf(many, size, "{\"found\": [{}");
	while (used < size - 300)
		used += (size_t)snprintf(many + used, size - used,
			", {\"name\": \"%0200d\", \"state\": \"answers\"}", 7);
	snprintf(many + used, size - used, "]}");
	page = view_page_of("{}", many);
	assert_non_null(strstr(page, " more: see /v1/status."));
}

TEST(documents_of_another_shape_do_no_harm)
{
	static const char *const odd[] = {"null", "{}", "[]", "7",
		"{\"servers\": 1, \"found\": {}}",
		"{\"servers\": [1, null, {\"top\": 2, \"latency\": []}], \"found\": [null, 3]}"};

	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		free(view_page_of(odd[i], odd[i]));
}
