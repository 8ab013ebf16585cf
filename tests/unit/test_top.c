/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "cli/screen.h"

#define SERVER                                                                                                              \
	"{\"server\":\"10.0.0.2\",\"role\":\"upstream\",\"queries_per_second\":12,\"peak\":1500,"                           \
	"\"budget\":{\"qps\":1024,\"pps\":60},\"pending\":4,\"unanswered\":2,"                                              \
	"\"latency\":{\"p50\":0.00038,\"p99\":0.021},\"top\":["                                                             \
	"{\"workload\":{\"kind\":\"pod\",\"namespace\":\"shop\",\"name\":\"cart\",\"text\":\"pod shop/cart\"},\"queries\":" \
	"700,\"queries_per_second\":8}],\"other\":{\"queries\":320,\"queries_per_second\":4},"                              \
	"\"names\":[{\"name\":\"ab.example\",\"type\":\"A\",\"share\":0.4}]}"
#define SILENT                                                                               \
	"{\"server\":\"2001:db8::1\",\"role\":\"cluster\",\"budget\":null,\"latency\":null," \
	"\"other\":{\"queries\":0}}"

/* What is drawn of this document, on a number of lines, with or without colours. The caller's. */
static char *drawn_in_turn(const char *document, int height, bool color, unsigned turn)
{
	cJSON *status = cJSON_Parse(document);
	struct screen screen = {.color = color, .width = 80, .height = height};
	char *text = NULL;
	size_t len = 0;

	assert_non_null(status);
	screen.out = open_memstream(&text, &len);
	assert_non_null(screen.out);
	print_dns(&screen, status, turn);
	fclose(screen.out);
	cJSON_Delete(status);
	return text;
}

static char *drawn(const char *document, int height, bool color)
{
	return drawn_in_turn(document, height, color, 0);
}

TEST(servers_users_and_names_are_listed)
{
	_cleanup_free_ char *text = drawn("{\"dns\":{\"lost\":{\"servers\":0,\"rows\":7,\"looks\":"
					  "1},\"expansions\":[{\"role\":\"local\"},{\"role\":"
					  "\"cluster\",\"failed_per_second\":40,"
					  "\"queries_per_second\":50}],"
					  "\"servers\":[" SERVER "," SILENT "]}}",
		INT_MAX, false);

	assert_string_equal(text,
		"DNS\n"
		"  server          role       q/s  peak/s   budget pending unanswered    p50    p99\n"
		"  10.0.0.2        upstream    12    1500     1024       4          2 380 us  21 ms\n"
		"           8/s          700  pod shop/cart\n"
		"           4/s          320  other\n"
		"          40 %               ab.example  A\n"
		"  2001:db8::1     cluster      0       0        -       0          0      -      -\n"
		"  failed search-list expansions: cluster 40 of 50/s\n"
		"  not counted in full: rows 7, looks 1\n");
}

TEST(a_small_screen_keeps_every_server)
{
	_cleanup_free_ char *text =
		drawn("{\"dns\":{\"servers\":[" SERVER "," SILENT "]}}", 9, false);

	assert_non_null(strstr(text, "shop/cart"));
	assert_null(strstr(text, "other"));
	assert_null(strstr(text, "example"));
	assert_non_null(strstr(text, "2001:db8::1"));
}

TEST(over_the_budget_is_red)
{
	_cleanup_free_ char *text = drawn("{\"dns\":{\"servers\":[" SERVER "]}}", INT_MAX, true);

	assert_non_null(strstr(text, "\033[31m    1500\033[0m"));
	assert_non_null(strstr(text, "\033[32m    12\033[0m"));
}

TEST(live_rows_come_first_and_s_sorts_by_the_next_column)
{
	static const char servers[] =
		"{\"dns\":{\"servers\":[{\"server\":\"idle\",\"queries_per_second\":0,\"peak\":9},"
		"{\"server\":\"busy\",\"queries_per_second\":5,\"peak\":7}]}}";
	_cleanup_free_ char *first = drawn(servers, INT_MAX, false);
	_cleanup_free_ char *second = drawn_in_turn(servers, INT_MAX, false, 1);
	_cleanup_free_ char *around = drawn_in_turn(servers, INT_MAX, false, 4);

	assert_true(strstr(first, "busy") < strstr(first, "idle"));
	assert_true(strstr(second, "idle") < strstr(second, "busy"));
	assert_string_equal(around, first);
}

TEST(an_empty_list_says_why)
{
	_cleanup_free_ char *none = drawn("{\"dns\":{\"servers\":[]}}", INT_MAX, false);
	_cleanup_free_ char *off = drawn("{\"dns\":null,\"tuners\":[{\"name\":\"thp\",\"state\":"
					 "\"active\",\"why\":\"\"},{\"name\":\"dns\",\"state\":"
					 "\"degraded\",\"why\":\"no cgroup2\"}]}",
		INT_MAX, false);

	assert_non_null(strstr(none, "no query has left this node yet"));
	assert_string_equal(off, "DNS\n  degraded: no cgroup2\n");
}
