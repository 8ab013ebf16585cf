/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "report/report.h"

#include <cjson/cJSON.h>

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
	.name = "dns", .document_name = "dns", .document = dns_document};
static const struct tuner_ops runtime_ops = {
	.name = "runtime", .document_name = "runtime", .document = dns_document};

static char *page_of(const char *dns_text, const char *runtime_text)
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

static void resolvers_and_runtimes_have_tables(void **state)
{
	static const char *const shown[] = {"10.0.0.2", "upstream", "packets/s", "0.4, 21.0 ms",
		"shop/&lt;b&gt;cart", "containerd", "1.6.20", "1 layer, 2.5 MB/s", "90 % full",
		"copies &lt;every&gt; layer"};
	_cleanup_free_ char *page = page_of(dns, runtime);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
		if (!strstr(page, shown[i]))
			fail_msg("not on the page: %s", shown[i]);
	assert_null(strstr(page, ">docker<"));
}

static void names_are_never_asked_for(void **state)
{
	_cleanup_free_ char *page = page_of(dns, runtime);

	(void)state;
	assert_false(asked_trusted);
	assert_null(strstr(page, "secret.example"));
}

static void what_is_left_out_is_counted(void **state)
{
	size_t size = 400 * 1000, used;
	_cleanup_free_ char *many = malloc(size), *page = NULL;

	(void)state;
	assert_non_null(many);
	used = (size_t)snprintf(many, size, "{\"found\": [{}");
	while (used < size - 300)
		used += (size_t)snprintf(many + used, size - used,
			", {\"name\": \"%0200d\", \"state\": \"answers\"}", 7);
	snprintf(many + used, size - used, "]}");
	page = page_of("{}", many);
	assert_true(strlen(page) < 200 * 1000);
	assert_non_null(strstr(page, " more: see /v1/status."));
}

static void documents_of_another_shape_do_no_harm(void **state)
{
	static const char *const odd[] = {"null", "{}", "[]", "7",
		"{\"servers\": 1, \"found\": {}}",
		"{\"servers\": [1, null, {\"top\": 2, \"latency\": []}], \"found\": [null, 3]}"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		_cleanup_free_ char *page = page_of(odd[i], odd[i]);

		assert_non_null(strstr(page, "</html>"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resolvers_and_runtimes_have_tables),
		cmocka_unit_test(names_are_never_asked_for),
		cmocka_unit_test(what_is_left_out_is_counted),
		cmocka_unit_test(documents_of_another_shape_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
