/* SPDX-License-Identifier: Apache-2.0 */
#include "config_fixture.h"

#include "config/internal.h"

struct fault_case {
	const char *text;
	unsigned line, column;
	const char *words;
};

static const struct fault_case fault_cases[] = {
	/* Types. */
	{"neighbor: 3\n", 1, 11, "write its keys below it"},
	{"mode: {a: 1}\n", 1, 7, "mode cannot be a map: write enforce or observe"},
	{"mode: enforced\n", 1, 7, "\"enforced\" is not a valid choice: write enforce or observe"},
	{"neighbor:\n  grow: yes\n", 2, 9, "\"yes\" is neither true nor false"},
	{"sysctl: 1\n", 1, 9, "map of sysctl names"},
	{"node_name: \"a\\tb\"\n", 1, 12, "control characters"},
	{"node_name: |\n  two\n  lines\n", 1, 12, "line breaks"},
	{"mode: enforce\n  indented: 1\n", 2, 11, "is not allowed here"},
	/* Counts. */
	{"neighbor: {ceiling: atuo}\n", 1, 21,
		"neighbor.ceiling: \"atuo\" is not a whole number: write digits alone, from 1 to "
		"1048576 entries, or auto"},
	/* Keys. */
	{"neighbor:\n  gorw: true\n", 2, 3, "unknown key \"gorw\" in neighbor: did you mean grow?"},
	{"gc_thresh1: 1\n", 1, 1, "did you mean neighbor.ipv4.gc_thresh1?"},
	{"zebra: {a: {b: c}}\n", 1, 1, "valid keys are mode, profile"},
	{"neighbor.grow: true\n", 1, 1, "each part of the name"},
	{"? [a]\n: b\n", 1, 3, "a key must be a word"},
	/* Text. */
	{"mode: enforce\n  \tprofile: etcd\n", 2, 3, "a tab cannot indent YAML"},
	{"mode: \"enforce\nprofile: etcd\n", 1, 7, "the quote is not closed"},
	{"later: [a, b\n", 1, 8, "this list is not closed"},
	{"mode enforce\nprofile: etcd\n", 1, 1, "\"key: value\""},
	{"neighbor:\n    grow: true\n  ceiling: auto\n", 3, 3,
		"indent keys of one section equally"},
	{"mode: @x\n", 1, 7, "put the text in quotes"},
	{"node_name: a: b\n", 1, 13, "put a text with ': ' in quotes"},
	{"mode: enforce\xff\n", 1, 14, "byte 0xff is not UTF-8"},
	{"a: \x1b[31m\n", 1, 4, "control character"},
	{"node_name: \"\xc3\xa4\" x\n", 1, 16, "nothing after a closing quote"},
	/* The parser notices these at the end of the file; the bracket or quote is where to edit.
	 */
	{"a: 1\nlater: [", 2, 8, "this list is not closed"},
	{"later: {\n\n\n", 1, 8, "this map is not closed"},
	{"later: {a: [1], b: ", 1, 8, "this map is not closed"},
	{"later: {a: [b: \n", 1, 12, "this list is not closed"},
	{"later: [a, }\n", 1, 8, "this list is not closed"},
	{"later: {a: 1 b: 2}\n", 1, 8, "or lacks a comma"},
	{"later: 'a\nb: c\n", 1, 8, "the quote is not closed"},
	{"later: \"a\n...\n", 1, 8, "the quote is not closed"},
	/* Items and their keys. */
	{"watch:\n  budgets:\n    - server: a\n     qps: 5\n", 4, 6,
		"does not match the list that began in line 3"},
	{"watch:\n  domains:\n  - a\n  -b\n", 4, 3, "write a blank after the -"},
	{"watch:\n  domains:\n  -a\n  - b\n", 3, 3, "write a blank after the -"},
	{"watch:\n  domains:\n  - a\n  -b", 4, 3, "write a blank after the -"},
	{"mode: enforce\nprofile", 2, 1, "this line is not \"key: value\""},
	/* Characters with a meaning. */
	{"later: ]\n", 1, 8, "put the text in quotes"},
	{"later: ,a\n", 1, 8, "put the text in quotes"},
	{"later: *\n", 1, 9, "put the text in quotes"},
	{"later: &\n", 1, 9, "put the text in quotes"},
	{"later: !<a\n", 1, 11, "put the text in quotes"},
	{"later: \"\\q\"\n", 1, 9, "write \\\\ for one \\"},
	{"later: \"\\xZZ\"\n", 1, 11, "write \\\\ for one \\"},
	{"later: >x\n b\n", 1, 9, "nothing may follow | or >"},
	{"%later\n", 1, 7, "a line must not begin with %"},
	{"%YAML 3.0\n---\nmode: enforce\n", 1, 1, "put a text with special characters in quotes"},
	{"later: 1\n%b: 1\n", 2, 1, "a line must not begin with %"},
	{": a\n", 1, 1, "does not fit here"},
	/* Templates. */
	{"node_name: {{ .Values.x }}\n", 1, 12, "a template that was not rendered"},
	{"node_name: {{ .Values.x }}-a\n", 1, 12, "a template that was not rendered"},
	{"mode: {{- .Values.x }}\n", 1, 7, "a template that was not rendered"},
	{"http: {listen: {{ .Values.x }}}\n", 1, 16, "a template that was not rendered"},
	{"watch:\n  domains:\n  - {{ .Values.x }}\n", 3, 5, "a template that was not rendered"},
	{"{{ include \"x\" . }}\n", 1, 1, "a template that was not rendered"},
	{"{{x}}: 1\n", 1, 1, "a template that was not rendered"},
	{"{{- if .Values.x }}\nmode: enforce\n{{- end }}\n", 1, 1,
		"a template that was not rendered"},
	{"mode: enforce\n{{/* a */}}\nhttp: {}\n", 2, 1, "a template that was not rendered"},
	{"mode: enforce\n{% if x %}\n", 2, 1, "a template that was not rendered"},
	{"\xc3\xa4: {% if x %}\n", 1, 4, "a template that was not rendered"},
	{"later: {a: [{{ .Values.x }}\n", 1, 13, "a template that was not rendered"},
	{"later: ] # {{ x }}\n", 1, 8, "put the text in quotes"},
	/* YAML features that a configuration does not support. */
	{"*a : b\n", 1, 1, "aliases"},
	{"later: !!python/object {a: 1}\n", 1, 8, "tags"},
	{"node_name: \"a\\0b\"\n", 1, 12, "NUL"},
	{"mode: enforce\n...\nmode: observe\n", 3, 1, "nothing may follow"},
	{"- mode\n", 1, 1, "not a list"},
	{"enforce\n", 1, 1, "not one text"},
	{"later: [[[[[[[[1]]]]]]]]\n", 1, 15, "nested deeper than 8"},
	/* Sysctls. */
	{"sysctl: {kernel.core_pattern: {value: core}}\n", 1, 39, "{value: ..., exact: true}"},
	{"sysctl: {vm.a: {exact: true}}\n", 1, 16, "lacks a value"},
	{"sysctl: {vm.a: {value: 1, exact: yes}}\n", 1, 27, "\"exact\" is not allowed"},
	{"sysctl: {vm.a: [1, 2]}\n", 1, 16, "several numbers as one text"},
	{"sysctl: {maxmap: 1}\n", 1, 10, "has only one part"},
	{"sysctl: {vm.a: 1, vm/a: 2}\n", 1, 19, "twice"},
	/* Rules of single options. */
	{"http: {socket: headroom.sock}\n", 1, 16, "absolute path"},
	/* Another value than a list. */
	{"watch: {domains: cluster.local}\n", 1, 18,
		"watch.domains: \"cluster.local\" is not a list: write a list, such as [a, b]"},
	{"watch: {servers: Auto}\n", 1, 18,
		"\"Auto\" is not a list: write a list, such as [a, b], or auto"},
	{"watch: {budgets: 10.0.0.2}\n", 1, 18,
		"is not a list: write a list of maps, such as [{server: ..., qps: ..., tcp: ..."},
	/* Items. */
	{"watch: {domains: [a, {b: c}]}\n", 1, 22,
		"watch.domains, item 2 cannot be a map: write one line of text"},
	{"watch:\n  domains:\n  - a\n  -\n  - b\n", 4, 4,
		"item 2 is empty: remove it, or write its value"},
	{"watch: {domains: [\"\"]}\n", 1, 19, "item 1: the text is too short"},
	{"watch: {domains: [a234567890b234567890c]}\n", 1, 19, "too long: write at most 20 bytes"},
	{"watch: {domains: [a, b, c, d, e]}\n", 1, 28,
		"watch.domains has more than 3 items: remove this and the following items"},
	{"watch: {ports: [53, 65536]}\n", 1, 21, "watch.ports, item 2: \"65536\" is out of range"},
	{"watch: {budgets: [auto]}\n", 1, 19,
		"watch.budgets, item 1 cannot be one value: write a map, such as {server: ...}"},
	/* Fields of items. */
	{"watch: {budgets: [{server: a, zebra: 1}]}\n", 1, 31,
		"unknown key \"zebra\": valid keys are server, qps, tcp, every, kind"},
	{"watch: {budgets: [{server: a}, {qps: 5}]}\n", 1, 32,
		"watch.budgets, item 2 lacks the key server: add \"server: ...\""},
	{"watch: {budgets: [{server: [a]}]}\n", 1, 28, "item 1: server cannot be a list"},
	/* Durations. */
	{"watch: {timeout: 30}\n", 1, 18,
		"\"30\" is not a time with a unit: write a whole number with its unit, as in 500ms, "
		"20s, 30m or 2h, from 1s to 24h, or off"},
};

/* test_config.py of the root tests has more faults. */
TEST(each_fault_is_reported_once_with_its_position)
{
	for (size_t i = 0; i < ARRAY_SIZE(fault_cases); i++) {
		const struct fault_case *want = &fault_cases[i];
		_cleanup_loaded_ struct loaded loaded = load_text(want->text);

		print_message("%s", want->text);
		assert_one_fault(&loaded, want->line, want->column, want->words);
	}
}

TEST(each_template_is_a_fault_and_nothing_else_is)
{
	_cleanup_loaded_ struct loaded loaded = load_text(
		"node_name: {{ .Values.x }}\nzebra: 1\nhttp: {listen: {{ .a }}, socket: {{ "
		".b }}}\n");
	static const unsigned positions[][2] = {{1, 12}, {3, 16}, {3, 34}};

	print_faults(&loaded);
	assert_int_equal(loaded.faults.n, ARRAY_SIZE(positions));
	for (size_t i = 0; i < ARRAY_SIZE(positions); i++) {
		const struct config_fault *fault = &loaded.faults.faults[i];

		assert_int_equal(fault->line, positions[i][0]);
		assert_int_equal(fault->column, positions[i][1]);
		assert_non_null(strstr(fault->message, "a template that was not rendered"));
	}
}

/* A file that was cut while it was copied, and one with a character too many. */
TEST(a_position_is_within_the_file_and_each_message_has_a_cure)
{
	static const char whole[] = "# comment\nmode: enforce\nnode_name: \"a\\tb\"\nhttp:\n"
				    "  listen: '127.0.0.1:1'\nwatch:\n  domains: [a, \"b\"]\n"
				    "  budgets:\n    - server: a\n      qps: 5\n    - {server: b, "
				    "qps: 6}\nsysctl: {vm.a: {value: 1, exact: true}}\n";
	static const char extra[] = "{}[]\"',:-?|>%@&*!# \n\t";
	char text[sizeof(whole) + 1];

	for (size_t at = 0; at < sizeof(whole); at++)
		for (size_t i = 0; i < sizeof(extra); i++) {
			bool cut = !extra[i];

			snprintf(text, sizeof(text), "%.*s%s%s", (int)at, whole,
				cut ? "" : (char[]){extra[i], '\0'}, cut ? "" : whole + at);
			_cleanup_loaded_ struct loaded loaded = load_text(text);
			unsigned lines = 0;

			for (const char *p = text; *p; p++)
				lines += p == text || p[-1] == '\n';
			for (size_t k = 0; k < loaded.faults.n; k++) {
				const struct config_fault *fault = &loaded.faults.faults[k];

				if (fault->line > lines || strstr(fault->message, "invalid YAML"))
					fail_msg("%s%u:%u: %s", text, fault->line, fault->column,
						fault->message);
			}
		}
}

static const char *const good_texts[] = {
	"",
	"~\n",
	"%YAML 1.1\n---\nmode: enforce\n",
	"\xef\xbb\xbfmode: enforce\n",
	"mode: enforce\r\nprofile: etcd\r\n",
	"mode: enforce", /* no line end */
	"neighbor: {grow: 'true'}\n",
	"neighbor:\t{grow: true}\n",
	"node_name: \"\"\n",
	"node_name: n\xc3\xb6rdlich\n",
	"http: {listen: \"\", socket: \"\"}\n",
	"http: {listen: \"[::1]:80\"}\n",
	"http: {listen: 0.0.0.0:65535}\n",
};

TEST(good_files_have_no_fault)
{
	for (size_t i = 0; i < ARRAY_SIZE(good_texts); i++) {
		_cleanup_loaded_ struct loaded loaded = load_text(good_texts[i]);

		print_message("%s\n", good_texts[i]);
		assert_loaded(&loaded);
	}
}

TEST(a_nul_byte_is_a_fault)
{
	static const char text[] = "mode: enforce\nprofile: e\0tcd\n";
	_cleanup_loaded_ struct loaded loaded = load_bytes(fixture_tables, text, sizeof(text) - 1);

	assert_one_fault(&loaded, 2, 11, "a NUL byte");
}

static char long_word[300];

/* Each value takes the place of %s and causes the same fault at the same position. */
TEST(values_of_one_kind_have_the_same_fault)
{
	static const struct {
		const char *text;
		unsigned column;
		const char *words, *values[17];
	} cases[] = {
		{"neighbor: {ipv4: {gc_thresh1: %s}}\n", 31, "out of range",
			{"0", "2147483648", "99999999999999999999999"}},
		{"watch: {timeout: %s}\n", 18, "out of range",
			{"999ms", "25h", "99999999999999999999h"}},
		{"mode: %s\n", 7, "not UTF-8", {"\xc0\x80", "\xed\xa0\x80"}},
		{"mode: %s\n", 7, "tags", {"!!str enforce", "!x enforce"}},
		{"sysctl: {%s: 1}\n", 10, "empty part",
			{"vm..a", ".vm.a", "vm.a.", "vm/../a", "vm.//.a", "/vm/a"}},
		{"sysctl: {%s: 1}\n", 10, "character", {"vm.a b", "vm.\xc3\xa4"}},
		{"sysctl: {vm.a: %s}\n", 16, "empty", {"\"\"", "\" \""}},
		{"http: {listen: \"%s\"}\n", 16, "ADDRESS:PORT",
			{"localhost:80", "127.0.0.1:0", "127.0.0.1:65536", "[::1:80", ":80",
				"127.0.0.1", "127.0.0.1:x", "::1:80", "[::1]"}},
		{"%s: 1\n", 1, "unknown key \"kkk", {long_word}},
		{"sysctl: {vm.%s: 1}\n", 10, "is too long", {long_word}},
		{"sysctl: {vm.a: {value: %s, exact: true}}\n", 24, "too long", {long_word}},
		{"node_name: %s\n", 12, "at most 253 bytes", {long_word}},
	};
	char text[1024];

	memset(long_word, 'k', sizeof(long_word) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int before = (int)strcspn(cases[i].text, "%");

		for (size_t v = 0; cases[i].values[v]; v++) {
			snprintf(text, sizeof(text), "%.*s%s%s", before, cases[i].text,
				cases[i].values[v], cases[i].text + before + 2);
			_cleanup_loaded_ struct loaded loaded = load_text(text);
			print_message("%s", text);
			assert_one_fault(&loaded, 1, cases[i].column, cases[i].words);
		}
	}
}

/* Repeats item and a number n times, each with end; begin opens a list. */
static struct loaded load_many(const char *begin, const char *item, unsigned n, const char *end)
{
	size_t size = 256 * 1024, used;
	_cleanup_free_ char *text = calloc(1, size);

	assert_non_null(text);
	used = (size_t)snprintf(text, size, "%s", begin);
	for (unsigned i = 0; i < n; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%u%s", item, i, end);
	snprintf(text + used, size - used, "%s", begin[0] ? "]}\n" : "");
	return load_text(text);
}

TEST(faults_values_and_items_are_bounded)
{
	_cleanup_loaded_ struct loaded faults = load_many("", "unknown", 100, ": 1\n");
	_cleanup_loaded_ struct loaded values = load_many("", "k", DOCUMENT_NODES_MAX / 2, ": 1\n");
	_cleanup_loaded_ struct loaded full =
		load_many("watch: {servers: [", "a", OPTION_ITEMS_MAX, ",");
	_cleanup_loaded_ struct loaded items =
		load_many("watch: {servers: [", "a", OPTION_ITEMS_MAX + 1, ",");

	assert_int_equal(faults.result, -22);
	assert_int_equal(faults.faults.n, CONFIG_FAULTS_MAX);
	assert_one_fault(&values, DOCUMENT_NODES_MAX / 2, 8, "more than 8192");
	assert_loaded(&full);
	assert_int_equal(config_list(full.config, "watch.servers"), OPTION_ITEMS_MAX);
	assert_one_fault(
		&items, 1, 19 + 3 * 10 + 4 * (OPTION_ITEMS_MAX - 10), "more than 64 items");
}

DIRECTORY_TEST(faults_name_their_file)
{
	static const char *const files[][2] = {
		{"/F", "mode: on\n"}, {"/d/1.yaml", "\tx\n"}, {"/d/2.yaml", "zebra: 1\n"}};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		directory_put(directory, files[i][0], files[i][1]);
	_cleanup_loaded_ struct loaded loaded = load_directory(directory);
	assert_int_equal(loaded.faults.n, ARRAY_SIZE(files));
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		assert_non_null(strstr(loaded.faults.faults[i].file, files[i][0]));
}
