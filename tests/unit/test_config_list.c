/* SPDX-License-Identifier: Apache-2.0 */
#include "config_fixture.h"

#include "base/cleanup.h"
#include "config/list.h"

#include <errno.h>

static void defaults(void **state)
{
	_cleanup_loaded_ struct loaded loaded = load_text("");
	const struct config *config = loaded.config;

	(void)state;
	assert_loaded(&loaded);
	assert_int_equal(config_list(config, "watch.domains"), 1);
	assert_string_equal(config_item(config, "watch.domains", 0, ""), "cluster.local");
	assert_string_equal(config_item_where(config, "watch.domains", 0, "").file, "default");
	assert_int_equal(config_item_where(config, "watch.domains", 0, NULL).line, 0);
	assert_int_equal(config_choice(config, "watch.domains"), -1);
	assert_int_equal(config_list(config, "watch.servers"), 0);
	assert_int_equal(config_choice(config, "watch.servers"), 0);
	assert_int_equal(config_list(config, "watch.ports"), 0);
	assert_int_equal(config_choice(config, "watch.ports"), -1);
	assert_int_equal(config_list(config, "watch.budgets"), 1);
	assert_string_equal(config_item(config, "watch.budgets", 0, "server"), "auto");
	assert_string_equal(config_item(config, "watch.budgets", 0, "qps"), "");
	assert_int_equal(config_item_count(config, "watch.budgets", 0, "qps", 7), 7);
	assert_int_equal(config_item_choice(config, "watch.budgets", 0, "qps"), -1);
	assert_true(config_item_bool(config, "watch.budgets", 0, "tcp"));
	assert_int_equal(config_item_duration(config, "watch.budgets", 0, "every", 7), 1000000);
	assert_int_equal(config_item_choice(config, "watch.budgets", 0, "kind"), 0);
}

static void items_are_read(void **state)
{
	_cleanup_loaded_ struct loaded loaded =
		load_text("watch:\n"
			  "  domains: [a.example, b.example]\n"
			  "  servers:\n"
			  "  - 10.0.0.10\n"
			  "  - \"fd00::10\"\n"
			  "  ports: [53, auto, 5353]\n"
			  "  budgets:\n"
			  "  - server: 10.0.0.2\n"
			  "    qps: 200\n"
			  "    tcp: false\n"
			  "  - {server: auto, every: 250ms, kind: cluster, qps: auto}\n"
			  "  - {server: x, every: off, qps: null}\n");
	const struct config *config = loaded.config;

	(void)state;
	assert_loaded(&loaded);
	assert_int_equal(config_list(config, "watch.domains"), 2);
	assert_string_equal(config_item(config, "watch.domains", 1, ""), "b.example");
	assert_int_equal(config_list(config, "watch.servers"), 2);
	assert_int_equal(config_choice(config, "watch.servers"), -1);
	assert_string_equal(config_item(config, "watch.servers", 1, ""), "fd00::10");
	assert_int_equal(config_item_count(config, "watch.ports", 0, "", 7), 53);
	assert_int_equal(config_item_count(config, "watch.ports", 1, "", 7), 7);
	assert_int_equal(config_item_choice(config, "watch.ports", 1, ""), 0);
	assert_int_equal(config_list(config, "watch.budgets"), 3);
	assert_string_equal(config_item(config, "watch.budgets", 0, "server"), "10.0.0.2");
	assert_int_equal(config_item_count(config, "watch.budgets", 0, "qps", 7), 200);
	assert_false(config_item_bool(config, "watch.budgets", 0, "tcp"));
	assert_int_equal(config_item_duration(config, "watch.budgets", 1, "every", 7), 250000);
	assert_int_equal(config_item_choice(config, "watch.budgets", 1, "kind"), 1);
	assert_int_equal(config_item_choice(config, "watch.budgets", 1, "qps"), 0);
	assert_true(config_item_bool(config, "watch.budgets", 1, "tcp"));
	assert_int_equal(config_item_duration(config, "watch.budgets", 2, "every", 7), 7);
	assert_int_equal(config_item_count(config, "watch.budgets", 2, "qps", 7), 7);
}

static void places_of_items(void **state)
{
	_cleanup_loaded_ struct loaded loaded = load_text("watch:\n"
							  "  budgets:\n"
							  "  - server: a\n"
							  "    qps: 3\n");
	struct config_place item, field, absent;

	(void)state;
	assert_loaded(&loaded);
	item = config_item_where(loaded.config, "watch.budgets", 0, NULL);
	field = config_item_where(loaded.config, "watch.budgets", 0, "qps");
	absent = config_item_where(loaded.config, "watch.budgets", 0, "tcp");
	assert_string_equal(item.file, "F");
	assert_int_equal(item.line, 3);
	assert_int_equal(item.column, 5);
	assert_int_equal(field.line, 4);
	assert_int_equal(field.column, 10);
	assert_int_equal(absent.line, 3);
	assert_int_equal(absent.column, 5);
}

static const struct {
	const char *text;
	unsigned line, column;
	const char *words;
} fault_cases[] = {
	/* In place of the list. */
	{"watch: {domains: cluster.local}\n", 1, 18,
		"watch.domains: \"cluster.local\" is no list: write a list, such as [a, b]"},
	{"watch: {servers: Auto}\n", 1, 18,
		"\"Auto\" is no list: write a list, such as [a, b], or "
		"auto"},
	{"watch: {servers: {a: b}}\n", 1, 18, "watch.servers cannot be a map: write a list"},
	{"watch: {budgets: 10.0.0.2}\n", 1, 18,
		"is no list: write a list of maps, such as [{server: ..., qps: ..., tcp: ..."},
	{"watch: {budgets: {server: a}}\n", 1, 18,
		"watch.budgets cannot be a map: write a list of"},
	/* Items. */
	{"watch: {domains: [a, {b: c}]}\n", 1, 22,
		"watch.domains, item 2 cannot be a map: write one line of text"},
	{"watch: {domains: [[a]]}\n", 1, 19, "item 1 cannot be a list"},
	{"watch: {domains: [a, null]}\n", 1, 22, "item 2 is empty: remove it, or write its value"},
	{"watch:\n  domains:\n  - a\n  -\n  - b\n", 4, 4, "item 2 is empty"},
	{"watch: {domains: [\"\"]}\n", 1, 19, "item 1: the text is too short"},
	{"watch: {domains: [a234567890b234567890c]}\n", 1, 19, "too long: write at most 20 bytes"},
	{"watch: {domains: [\"a\\tb\"]}\n", 1, 19, "control characters"},
	{"watch: {domains: [a, b, c, d, e]}\n", 1, 28,
		"watch.domains takes at most 3 items: remove this one and those after it"},
	{"watch: {ports: [53, 65536]}\n", 1, 21, "watch.ports, item 2: \"65536\" is out of range"},
	{"watch: {ports: [5e1]}\n", 1, 17, "no whole number"},
	{"watch: {budgets: [auto]}\n", 1, 19,
		"watch.budgets, item 1 cannot be one value: write a map, such as {server: ...}"},
	{"watch: {budgets: [[server]]}\n", 1, 19, "item 1 cannot be a list: write a map"},
	{"watch: {budgets: [null]}\n", 1, 19, "item 1 is empty"},
	/* Fields of items. */
	{"watch: {budgets: [{sever: a}]}\n", 1, 20, "unknown key \"sever\": did you mean server?"},
	{"watch: {budgets: [{server: a, zebra: 1}]}\n", 1, 31,
		"unknown key \"zebra\": known here are server, qps, tcp, every, kind"},
	{"watch: {budgets: [{server: a, server: b}]}\n", 1, 31, "twice, first in line 1"},
	{"watch: {budgets: [{server: a}, {qps: 5}]}\n", 1, 32,
		"watch.budgets, item 2 has no server: add \"server: ...\""},
	{"watch: {budgets: [{server: null}]}\n", 1, 19, "has no server"},
	{"watch: {budgets: [{server: \"\"}]}\n", 1, 28, "too short"},
	{"watch: {budgets: [{server: [a]}]}\n", 1, 28, "item 1: server cannot be a list"},
	{"watch: {budgets: [{server: a, qps: 10k}]}\n", 1, 36,
		"watch.budgets, item 1: qps: \"10k\" is no whole number: write digits alone, from 1 "
		"to 9999, or auto"},
	{"watch: {budgets: [{server: a, qps: 0}]}\n", 1, 36, "out of range"},
	{"watch: {budgets: [{server: a, tcp: yes}]}\n", 1, 36, "neither true nor false"},
	{"watch: {budgets: [{server: a, every: 5}]}\n", 1, 38, "no time with a unit"},
	{"watch: {budgets: [{server: a, kind: up}]}\n", 1, 37, "write upstream or cluster"},
};

static void each_fault_is_told_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fault_cases); i++) {
		_cleanup_loaded_ struct loaded loaded = load_text(fault_cases[i].text);

		print_message("%s", fault_cases[i].text);
		assert_one_fault(
			&loaded, fault_cases[i].line, fault_cases[i].column, fault_cases[i].words);
	}
}

static void faults_of_several_items_are_all_told(void **state)
{
	_cleanup_loaded_ struct loaded loaded =
		load_text("watch:\n  budgets:\n  - {qps: 0, tcp: no}\n  - {server: a, x: 1}\n");

	(void)state;
	print_faults(&loaded);
	assert_int_equal(loaded.faults.n, 3);
	assert_int_equal(loaded.faults.faults[0].column, 11);
	assert_int_equal(loaded.faults.faults[1].column, 19);
	assert_int_equal(loaded.faults.faults[2].line, 4);
}

static void more_items_than_any_list_takes(void **state)
{
	char text[1024] = "watch: {servers: [";

	(void)state;
	for (unsigned i = 0; i < OPTION_ITEMS_MAX; i++)
		strcat(text, "a,");
	{
		char full[1024];

		snprintf(full, sizeof(full), "%s]}\n", text);
		_cleanup_loaded_ struct loaded loaded = load_text(full);
		assert_loaded(&loaded);
		assert_int_equal(config_list(loaded.config, "watch.servers"), OPTION_ITEMS_MAX);
	}
	strcat(text, "b]}\n");
	_cleanup_loaded_ struct loaded loaded = load_text(text);
	assert_one_fault(&loaded, 1, 19 + 2 * OPTION_ITEMS_MAX, "at most 64 items");
}

/* Texts in memory are one file each: several are merged from files. */
static struct loaded load_two(const char *first, const char *second)
{
	char root[] = "/tmp/headroom-test-XXXXXX", path[80];
	struct loaded loaded;
	const char *const texts[] = {first, second};

	assert_non_null(mkdtemp(root));
	for (size_t i = 0; i < 2; i++) {
		_cleanup_fclose_ FILE *file = NULL;

		snprintf(path, sizeof(path), "%s/%zu.yaml", root, i);
		file = fopen(path, "we");
		assert_non_null(file);
		assert_true(fputs(texts[i], file) >= 0);
	}
	loaded = load_source(NULL, true, root);
	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%zu.yaml", root, i);
		assert_int_equal(unlink(path), 0);
	}
	assert_int_equal(rmdir(root), 0);
	return loaded;
}

static void a_later_list_replaces(void **state)
{
	_cleanup_loaded_ struct loaded list =
		load_two("watch: {servers: [a, b], domains: [x, y]}\n",
			"watch: {servers: [c], domains: []}\n");
	_cleanup_loaded_ struct loaded word =
		load_two("watch: {servers: [a, b]}\n", "watch: {servers: auto}\n");
	_cleanup_loaded_ struct loaded back =
		load_two("watch: {servers: auto}\n", "watch: {servers: [a]}\n");

	(void)state;
	assert_loaded(&list);
	assert_int_equal(config_list(list.config, "watch.servers"), 1);
	assert_string_equal(config_item(list.config, "watch.servers", 0, ""), "c");
	assert_int_equal(config_list(list.config, "watch.domains"), 0);
	assert_loaded(&word);
	assert_int_equal(config_list(word.config, "watch.servers"), 0);
	assert_int_equal(config_choice(word.config, "watch.servers"), 0);
	assert_loaded(&back);
	assert_int_equal(config_list(back.config, "watch.servers"), 1);
	assert_int_equal(config_choice(back.config, "watch.servers"), -1);
}

static void null_takes_a_list_away(void **state)
{
	_cleanup_loaded_ struct loaded key = load_two(
		"watch: {servers: [a], domains: [x, y]}\n", "watch: {servers: , domains: null}\n");
	_cleanup_loaded_ struct loaded section =
		load_two("watch: {budgets: [{server: x}, {server: y}]}\n", "watch:\n");

	(void)state;
	assert_loaded(&key);
	assert_int_equal(config_choice(key.config, "watch.servers"), 0);
	assert_int_equal(config_list(key.config, "watch.domains"), 1);
	assert_string_equal(config_item(key.config, "watch.domains", 0, ""), "cluster.local");
	assert_loaded(&section);
	assert_int_equal(config_list(section.config, "watch.budgets"), 1);
	assert_string_equal(config_item(section.config, "watch.budgets", 0, "server"), "auto");
}

static void checksum_is_of_items(void **state)
{
	static const char *const same[] = {
		"watch: {domains: [cluster.local], servers: auto, budgets: [{server: auto}]}\n",
		"watch: {budgets: [{server: auto, tcp: true}], ports: []}\n",
		"watch: {budgets: [{server: auto, qps: null}]}\n",
	};
	static const char *const different[] = {
		"watch: {domains: []}\n",
		"watch: {domains: [cluster.local, cluster.local]}\n",
		"watch: {servers: []}\n",
		"watch: {servers: [auto]}\n",
		"watch: {budgets: [{server: auto, qps: 5}]}\n",
		"watch: {budgets: [{server: auto}, {server: auto}]}\n",
	};
	_cleanup_loaded_ struct loaded plain = load_text("");
	uint32_t sum = config_checksum(plain.config);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		_cleanup_loaded_ struct loaded other = load_text(same[i]);

		assert_loaded(&other);
		assert_int_equal(sum, config_checksum(other.config));
	}
	for (size_t i = 0; i < ARRAY_SIZE(different); i++) {
		_cleanup_loaded_ struct loaded other = load_text(different[i]);

		assert_loaded(&other);
		assert_int_not_equal(sum, config_checksum(other.config));
	}
}

static void a_default_that_its_row_refuses(void **state)
{
	const struct config_option rows[] = {
		{.name = "a", .type = OPTION_LIST, .def = "word", .items = fixture_text_item},
		{.name = "a", .type = OPTION_LIST, .def = "[", .items = fixture_text_item},
		{.name = "a", .type = OPTION_LIST, .def = "[{b: c}]", .items = fixture_text_item},
		{.name = "a", .type = OPTION_LIST, .def = "[{}]", .items = fixture_budget},
	};
	struct list *list = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(list_default(&rows[i], &list), -EINVAL);
	assert_null(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(items_are_read),
		cmocka_unit_test(places_of_items),
		cmocka_unit_test(each_fault_is_told_once),
		cmocka_unit_test(faults_of_several_items_are_all_told),
		cmocka_unit_test(more_items_than_any_list_takes),
		cmocka_unit_test(a_later_list_replaces),
		cmocka_unit_test(null_takes_a_list_away),
		cmocka_unit_test(checksum_is_of_items),
		cmocka_unit_test(a_default_that_its_row_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
