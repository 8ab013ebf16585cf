/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "report/report.h"
#include "tuners/dns/dns.h"
#include "tuners/runtime/runtime.h"

#include "fake_node.h"

#define PAGE_MAX 200000

static char *page_of(const struct node *node)
{
	char *text;
	size_t len;

	assert_int_equal(report_page(node, &text, &len), 0);
	assert_int_equal(strlen(text), len);
	assert_true(len < PAGE_MAX);
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

TEST(every_foreign_text_is_escaped)
{
	static const char evil[] = "<script>\"'&\xff";
	static const char good[] = "&lt;script&gt;&quot;&#39;&amp;\xef\xbf\xbd";
	struct fake_node fake;
	_cleanup_free_ char *text = NULL;
	size_t found = 0;

	fake_node_make(&fake);
	copy_text(fake.node.name, sizeof(fake.node.name), evil);
	fake_workload(&fake.limits[0].now.top[0], WORKLOAD_POD, evil, evil, evil, 1);
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

TEST(the_page_stays_below_200_kb)
{
	enum { SETTINGS = 1000 };
	struct fake_node fake;
	_cleanup_free_ struct setting *settings = calloc(SETTINGS, sizeof(*settings));
	_cleanup_free_ char *text = NULL;
	char quotes[SETTING_VALUE_MAX];

	assert_non_null(settings);
	memset(quotes, '"', sizeof(quotes));
	quotes[sizeof(quotes) - 1] = '\0';
	for (int i = 0; i < SETTINGS; i++)
		fake_setting(&settings[i], quotes, quotes, quotes, SETTING_FAILED);
	fake_node_make(&fake);
	fake.node.settings = settings;
	fake.node.n_settings = SETTINGS;
	text = page_of(&fake.node);
	assert_non_null(strstr(text, " more: see /v1/status."));
}

TEST(an_empty_node_has_a_page)
{
	struct node node = {0};

	free(page_of(&node));
}

static const char dns[] =
	"{\"servers\": [{\"server\": \"10.0.0.2\", \"role\": \"upstream\", \"queries_per_second\": 12,"
	" \"peak\": 1500, \"pending\": 3, \"unanswered\": 2,"
	" \"budget\": {\"qps\": 0, \"pps\": 1024, \"pending\": 0}, \"latency\": {\"p50\": 0.0004, \"p99\": 0.021},"
	" \"top\": [{\"workload\": {\"kind\": \"pod\", \"namespace\": \"shop\","
	" \"name\": \"<b>cart\"}}], \"names\": [{\"name\": \"secret.example\"}]},"
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
	char *page = NULL;

	assert_int_equal(report_page(&node, &page, NULL), 0);
	return page;
}

TEST(resolvers_and_runtimes_have_tables)
{
	static const char *const shown[] = {"10.0.0.2", "upstream", "1024 packets/s", "400 us",
		"21 ms", "shop/&lt;b&gt;cart", "containerd", "1.6.20", "1 layer, 2.5 MB/s",
		"90 % full", "copies &lt;every&gt; layer"};
	_cleanup_free_ char *page = view_page_of(dns, runtime);

	for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
		if (!strstr(page, shown[i]))
			fail_msg("not on the page: %s", shown[i]);
	assert_null(strstr(page, ">docker<"));
}

TEST(query_names_are_not_on_the_page)
{
	_cleanup_free_ char *page = view_page_of(dns, runtime);

	assert_false(asked_trusted);
	assert_null(strstr(page, "secret.example"));
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
	assert_true(strlen(page) < 200 * 1000);
	assert_non_null(strstr(page, " more: see /v1/status."));
}

TEST(documents_of_another_shape_do_no_harm)
{
	static const char *const odd[] = {"null", "{}", "[]", "7",
		"{\"servers\": 1, \"found\": {}}",
		"{\"servers\": [1, null, {\"top\": 2, \"latency\": []}], \"found\": [null, 3]}"};

	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		_cleanup_free_ char *page = view_page_of(odd[i], odd[i]);

		assert_non_null(strstr(page, "</html>"));
	}
}
