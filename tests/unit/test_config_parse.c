/* SPDX-License-Identifier: Apache-2.0 */
#include "config_fixture.h"

#include "config/document.h"

struct fault_case {
	const char *text;
	unsigned line, column;
	const char *words;
};

static const struct fault_case fault_cases[] = {
	/* Types. */
	{"neighbor: 3\n", 1, 11, "write its keys below it"},
	{"neighbor: [ipv4]\n", 1, 11, "cannot be a list"},
	{"mode: [enforce]\n", 1, 7, "mode cannot be a list: write enforce or observe"},
	{"mode: {a: 1}\n", 1, 7, "mode cannot be a map"},
	{"mode: enforced\n", 1, 7, "\"enforced\" is not known here: write enforce or observe"},
	{"mode: \"\"\n", 1, 7, "write enforce or observe"},
	{"neighbor:\n  grow: yes\n", 2, 9, "\"yes\" is neither true nor false"},
	{"neighbor:\n  grow: True\n", 2, 9, "neither true nor false"},
	{"sysctl: 1\n", 1, 9, "map of sysctl names"},
	{"sysctl: [a.b]\n", 1, 9, "map of sysctl names"},
	{"node_name: \"a\\tb\"\n", 1, 12, "control characters"},
	{"node_name: \"a\\u009bb\"\n", 1, 12, "control characters"},
	{"node_name: |\n  two\n  lines\n", 1, 12, "line breaks"},
	{"mode: enforce\n  indented: 1\n", 2, 11, "where no key can stand"},
	/* Counts. */
	{"neighbor:\n  ipv4:\n    gc_thresh1: 80k\n", 3, 17,
		"neighbor.ipv4.gc_thresh1: \"80k\" is no whole number: write digits alone, from 1 "
		"to "
		"2147483647 entries"},
	{"neighbor: {ipv4: {gc_thresh1: 0x10}}\n", 1, 31, "\"0x10\""},
	{"neighbor: {ipv4: {gc_thresh1: 1e3}}\n", 1, 31, "\"1e3\""},
	{"neighbor: {ipv4: {gc_thresh1: 080}}\n", 1, 31, "\"080\""},
	{"neighbor: {ipv4: {gc_thresh1: -1}}\n", 1, 31, "\"-1\""},
	{"neighbor: {ipv4: {gc_thresh1: 1_000}}\n", 1, 31, "\"1_000\""},
	{"neighbor: {ipv4: {gc_thresh1: 1.0}}\n", 1, 31, "\"1.0\""},
	{"neighbor: {ipv4: {gc_thresh1: \"\"}}\n", 1, 31, "no whole number"},
	{"neighbor: {ipv4: {gc_thresh1: 0}}\n", 1, 31, "out of range"},
	{"neighbor: {ipv4: {gc_thresh1: 2147483648}}\n", 1, 31, "out of range"},
	{"neighbor: {ipv4: {gc_thresh1: 99999999999999999999999}}\n", 1, 31, "out of range"},
	{"neighbor: {ceiling: atuo}\n", 1, 21, "entries, or auto"},
	/* Keys. */
	{"neighbour:\n  grow: true\n", 1, 1, "unknown key \"neighbour\": did you mean neighbor?"},
	{"neighbor:\n  gorw: true\n", 2, 3, "unknown key \"gorw\" in neighbor: did you mean grow?"},
	{"gc_thresh1: 1\n", 1, 1, "did you mean neighbor.ipv4.gc_thresh1?"},
	{"zebra: {a: {b: c}}\n", 1, 1, "known here are mode, profile"},
	{"neighbor.grow: true\n", 1, 1, "each part of the name"},
	{"<<: {mode: enforce}\n", 1, 1, "unknown key \"<<\""},
	{"? [a]\n: b\n", 1, 3, "a key must be a word"},
	{"\"mo\\u0007de\": 1\n", 1, 1, "unknown key \"mo?de\""},
	{"mode: enforce\nprofile: etcd\nmode: observe\n", 3, 1, "twice, first in line 1"},
	{"neighbor: {grow: true, grow: false}\n", 1, 24, "twice, first in line 1"},
	{"later:\n  a: 1\n  a: 2\n", 3, 3, "twice, first in line 2"},
	{"later: [{a: 1, a: 2}]\n", 1, 16, "twice"},
	/* Text. */
	{"neighbor:\n\tgrow: true\n", 2, 1, "a tab cannot indent YAML: use spaces"},
	{"neighbor:\n  \tgrow: true\n", 2, 3, "a tab cannot indent YAML"},
	{"mode: enforce\n\tprofile: etcd\n", 2, 1, "a tab cannot indent YAML"},
	{"mode: enforce\n  \tprofile: etcd\n", 2, 3, "a tab cannot indent YAML"},
	{"mode: \"enforce\nprofile: etcd\n", 1, 7, "this quote is never closed"},
	{"mode: 'enforce\n", 1, 7, "this quote is never closed"},
	{"neighbor: {grow: true\nmode: enforce\n", 1, 11, "this map is not closed"},
	{"later: [a, b\n", 1, 8, "this list is not closed"},
	{"mode enforce\nprofile: etcd\n", 1, 1, "\"key: value\""},
	{"neighbor:\n    grow: true\n  ceiling: auto\n", 3, 3,
		"indent keys of one section equally"},
	{"mode: enforce\n- a\n", 2, 1, "indent keys of one section equally"},
	{"mode: @x\n", 1, 7, "put the text in quotes"},
	{"node_name: a: b\n", 1, 13, "put a text with ': ' in quotes"},
	{"mode: enforce\xff\n", 1, 14, "byte 0xff is not UTF-8"},
	{"\xff\xfem", 1, 1, "not UTF-8"},
	{"mode: \xc0\x80\n", 1, 7, "not UTF-8"},
	{"mode: \xed\xa0\x80\n", 1, 7, "not UTF-8"},
	{"\x7f"
	 "ELF\x02\x01\x01",
		1, 1, "control character (byte 0x7f)"},
	{"\x1f\x8b\x08", 1, 1, "control character"},
	{"a: \x1b[31m\n", 1, 4, "control character"},
	{"node_name: \"\xc3\xa4\" x\n", 1, 16, "nothing after a closing quote"},
	/* What YAML has and a configuration does not. */
	{"mode: &a enforce\n", 1, 7, "anchors"},
	{"neighbor: &a {grow: true}\n", 1, 11, "anchors"},
	{"later: &a [1]\n", 1, 8, "anchors"},
	{"mode: *a\n", 1, 7, "aliases"},
	{"*a : b\n", 1, 1, "aliases"},
	{"mode: !!str enforce\n", 1, 7, "tags"},
	{"mode: !x enforce\n", 1, 7, "tags"},
	{"later: !!python/object {a: 1}\n", 1, 8, "tags"},
	{"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", 1, 4, "anchors"},
	{"node_name: \"a\\0b\"\n", 1, 12, "NUL"},
	{"mode: enforce\n---\nmode: observe\n", 2, 1, "second document"},
	{"---\n---\n", 2, 1, "second document"},
	{"mode: enforce\n...\nmode: observe\n", 3, 1, "nothing may follow"},
	{"- mode\n", 1, 1, "not a list"},
	{"[mode]\n", 1, 1, "not a list"},
	{"enforce\n", 1, 1, "not one text"},
	{"\"\"\n", 1, 1, "not one text"},
	{"later: [[[[[[[[1]]]]]]]]\n", 1, 15, "nested deeper than 8"},
	/* Sysctls. */
	{"sysctl: {vm.max_map_count: 80k}\n", 1, 28, "\"80k\" is no whole number"},
	{"sysctl: {vm.max_map_count: 0x10}\n", 1, 28, "{value: ..., exact: true}"},
	{"sysctl: {kernel.core_pattern: core}\n", 1, 31, "{value: ..., exact: true}"},
	{"sysctl: {kernel.core_pattern: {value: core}}\n", 1, 39, "{value: ..., exact: true}"},
	{"sysctl: {vm.a: {exact: true}}\n", 1, 16, "has no value"},
	{"sysctl: {vm.a: {value: 1, exact: yes}}\n", 1, 27, "\"exact\" does not fit"},
	{"sysctl: {vm.a: {value: 1, extra: 1}}\n", 1, 27, "\"extra\" does not fit"},
	{"sysctl: {vm.a: {value: }}\n", 1, 17, "\"value\" does not fit"},
	{"sysctl: {vm.a: [1, 2]}\n", 1, 16, "several numbers as one text"},
	{"sysctl: {vm.a: \"\"}\n", 1, 16, "empty"},
	{"sysctl: {vm.a: \" \"}\n", 1, 16, "empty"},
	{"sysctl: {vm.a: {value: \"a\\nb\", exact: true}}\n", 1, 24, "line breaks"},
	{"sysctl: {maxmap: 1}\n", 1, 10, "at least two parts"},
	{"sysctl: {vm..a: 1}\n", 1, 10, "empty part"},
	{"sysctl: {.vm.a: 1}\n", 1, 10, "empty part"},
	{"sysctl: {vm.a.: 1}\n", 1, 10, "empty part"},
	{"sysctl: {vm/../a: 1}\n", 1, 10, "empty part"},
	{"sysctl: {vm.//.a: 1}\n", 1, 10, "empty part"},
	{"sysctl: {/vm/a: 1}\n", 1, 10, "empty part"},
	{"sysctl: {vm.a b: 1}\n", 1, 10, "character"},
	{"sysctl: {vm.\xc3\xa4: 1}\n", 1, 10, "character"},
	{"sysctl: {vm.a: 1, vm/a: 2}\n", 1, 19, "twice"},
	{"sysctl: {mode: on}\n", 1, 16, "sysctl.mode: \"on\" is not known here"},
	/* Rules of single options. */
	{"http: {web_config: /etc/web.yaml}\n", 1, 20, "neither TLS nor authentication"},
	{"http: {listen: \"localhost:80\"}\n", 1, 16, "ADDRESS:PORT"},
	{"http: {listen: \"127.0.0.1:0\"}\n", 1, 16, "ADDRESS:PORT"},
	{"http: {listen: \"127.0.0.1:65536\"}\n", 1, 16, "ADDRESS:PORT"},
	{"http: {listen: \"[::1:80\"}\n", 1, 16, "ADDRESS:PORT"},
	{"http: {listen: \":80\"}\n", 1, 16, "ADDRESS:PORT"},
	{"http: {listen: \"[]:80\"}\n", 1, 16, "ADDRESS:PORT"},
	{"http: {socket: headroom.sock}\n", 1, 16, "absolute path"},
};

static void each_fault_is_told_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fault_cases); i++) {
		const struct fault_case *want = &fault_cases[i];
		_cleanup_loaded_ struct loaded loaded = load_text(want->text);

		print_message("%s", want->text);
		assert_one_fault(&loaded, want->line, want->column, want->words);
	}
}

static void nul_byte(void **state)
{
	static const char text[] = "mode: enforce\nprofile: e\0tcd\n";
	_cleanup_loaded_ struct loaded loaded = load_bytes(text, sizeof(text) - 1);

	(void)state;
	assert_one_fault(&loaded, 2, 11, "a NUL byte");
}

static void long_texts(void **state)
{
	char text[1024], key[300];

	(void)state;
	memset(key, 'k', sizeof(key));
	key[sizeof(key) - 1] = '\0';
	snprintf(text, sizeof(text), "%s: 1\n", key);
	{
		_cleanup_loaded_ struct loaded loaded = load_text(text);
		assert_one_fault(&loaded, 1, 1, "unknown key \"kkk");
	}
	snprintf(text, sizeof(text), "sysctl: {vm.%s: 1}\n", key);
	{
		_cleanup_loaded_ struct loaded loaded = load_text(text);
		assert_one_fault(&loaded, 1, 10, "is too long");
	}
	snprintf(text, sizeof(text), "sysctl: {vm.a: {value: %s, exact: true}}\n", key);
	{
		_cleanup_loaded_ struct loaded loaded = load_text(text);
		assert_one_fault(&loaded, 1, 24, "too long");
	}
	snprintf(text, sizeof(text), "node_name: %s\n", key);
	{
		_cleanup_loaded_ struct loaded loaded = load_text(text);
		assert_one_fault(&loaded, 1, 12, "at most 253 bytes");
	}
}

static void independent_faults_are_all_told(void **state)
{
	_cleanup_loaded_ struct loaded loaded =
		load_text("mode: on\n"
			  "nieghbor: {grow: yes}\n"
			  "neighbor:\n"
			  "  grow: no\n"
			  "  ipv4: {gc_thresh1: 80k, gc_thresh3: 1}\n");

	(void)state;
	print_faults(&loaded);
	assert_int_equal(loaded.faults.n, 4);
	assert_int_equal(loaded.faults.faults[0].line, 1);
	assert_int_equal(loaded.faults.faults[1].line, 2);
	assert_int_equal(loaded.faults.faults[2].line, 4);
	assert_int_equal(loaded.faults.faults[3].line, 5);
}

static void faults_are_bounded(void **state)
{
	char text[4096] = "";

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "unknown%u: 1\n", i);
	_cleanup_loaded_ struct loaded loaded = load_text(text);
	assert_int_equal(loaded.result, -22);
	assert_int_equal(loaded.faults.n, CONFIG_FAULTS_MAX);
}

static void too_many_values(void **state)
{
	size_t size = 256 * 1024;
	_cleanup_free_ char *text = calloc(1, size);
	size_t used = 0;

	(void)state;
	assert_non_null(text);
	for (unsigned i = 0; i <= DOCUMENT_NODES_MAX; i++)
		used += (size_t)snprintf(text + used, size - used, "k%u: 1\n", i);
	_cleanup_loaded_ struct loaded loaded = load_text(text);
	assert_one_fault(&loaded, DOCUMENT_NODES_MAX, 8, "more than 4096 values");
}

static const char *const good_texts[] = {
	"",
	"\n\n",
	"# nothing but a comment\n",
	"---\n",
	"---\n...\n",
	"~\n",
	"{}\n",
	"%YAML 1.1\n---\nmode: enforce\n",
	"\xef\xbb\xbfmode: enforce\n",
	"mode: enforce\r\nprofile: etcd\r\n",
	"mode: enforce", /* no line end */
	"mode: \"enforce\"\n",
	"neighbor: {grow: 'true'}\n",
	"neighbor:\n",
	"neighbor: {}\n",
	"neighbor:\t{grow: true}\n",
	"node_name: \"\"\n",
	"node_name: n\xc3\xb6rdlich\n",
	"http: {listen: \"\", socket: \"\", web_config: \"\"}\n",
	"http: {listen: \"[::1]:80\"}\n",
	"http: {listen: 0.0.0.0:65535}\n",
	"sysctl: {}\n",
	"later: {anything: [goes, {here: 1}], x: 80k}\nmuch_later: []\n",
	"later: [[[[[[[1]]]]]]]\n",
};

static void good_files_have_no_fault(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good_texts); i++) {
		_cleanup_loaded_ struct loaded loaded = load_text(good_texts[i]);

		print_message("%s\n", good_texts[i]);
		assert_loaded(&loaded);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_fault_is_told_once),
		cmocka_unit_test(nul_byte),
		cmocka_unit_test(long_texts),
		cmocka_unit_test(independent_faults_are_all_told),
		cmocka_unit_test(faults_are_bounded),
		cmocka_unit_test(too_many_values),
		cmocka_unit_test(good_files_have_no_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
