/* SPDX-License-Identifier: Apache-2.0 */
#include "config_fixture.h"

#include "base/file.h"
#include "config/value.h"
#include "tuners/table.h"

#include <fcntl.h>
#include <sys/stat.h>

/* A directory with F and d/1.yaml, d/2.yaml of the given texts; NULL leaves one out. */
struct files {
	char root[64], main[96], directory[96];
};

static void write_text(const char *path, const char *text)
{
	_cleanup_fclose_ FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
}

static void files_make(
	struct files *files, const char *first, const char *second, const char *third)
{
	char path[128];

	strcpy(files->root, "/tmp/headroom-test-XXXXXX");
	assert_non_null(mkdtemp(files->root));
	snprintf(files->main, sizeof(files->main), "%s/F", files->root);
	snprintf(files->directory, sizeof(files->directory), "%s/d", files->root);
	assert_int_equal(mkdir(files->directory, 0700), 0);
	if (first)
		write_text(files->main, first);
	snprintf(path, sizeof(path), "%s/1.yaml", files->directory);
	if (second)
		write_text(path, second);
	snprintf(path, sizeof(path), "%s/2.yaml", files->directory);
	if (third)
		write_text(path, third);
}

static void files_remove(struct files *files)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", files->root);
	assert_int_equal(system(command), 0);
}

static struct loaded load_three(const char *first, const char *second, const char *third)
{
	struct files files;
	struct loaded loaded;

	files_make(&files, first, second, third);
	loaded = load_source(files.main, false, files.directory);
	files_remove(&files);
	return loaded;
}

static const struct config_sysctl *find_sysctl(const struct config *config, const char *name)
{
	size_t n;
	const struct config_sysctl *sysctls = config_sysctls(config, &n);

	for (size_t i = 0; i < n; i++)
		if (streq(sysctls[i].name, name))
			return &sysctls[i];
	return NULL;
}

static void assert_sysctl(const struct config *config, const char *name, const char *value)
{
	const struct config_sysctl *sysctl = find_sysctl(config, name);

	if (!value) {
		assert_null(sysctl);
		return;
	}
	assert_non_null(sysctl);
	assert_string_equal(sysctl->value, value);
}

static void defaults(void **state)
{
	_cleanup_loaded_ struct loaded loaded = load_text("");
	const struct config *config = loaded.config;

	(void)state;
	assert_loaded(&loaded);
	assert_string_equal(config_text(config, "mode"), "enforce");
	assert_int_equal(config_choice(config, "mode"), 0);
	assert_int_equal(config_choice(config, "neighbor.ipv4"), -1);
	assert_string_equal(config_text(config, "neighbor.ipv4"), "");
	assert_int_equal(config_count(config, "neighbor.ipv4.gc_thresh1", 7), 80000);
	assert_int_equal(config_count(config, "neighbor.ceiling", 7), 7);
	assert_int_equal(config_choice(config, "neighbor.ceiling"), 0);
	assert_true(config_bool(config, "neighbor.grow"));
	assert_string_equal(config_text(config, "node_name"), "");
	assert_string_equal(config_text(config, "http.listen"), "127.0.0.1:19810");
	assert_string_equal(config_where(config, "mode").file, "default");
	assert_int_equal(config_where(config, "mode").line, 0);
	assert_sysctl(config, "vm.max_map_count", "262144");
	assert_string_equal(
		find_sysctl(config, "vm.max_map_count")->place.file, "profile kubernetes-node");
}

static void assert_default_fits(const struct config_option *option)
{
	struct option_value value;
	char why[VALUE_WHY_MAX];

	print_message("%s\n", option->name);
	if (option->def)
		assert_int_equal(value_parse(option, option->def, &value, why), 0);
}

static void every_default_fits_its_row(void **state)
{
	(void)state;
	for (size_t i = 0; option_tables[i]; i++) {
		for (const struct config_option *row = option_tables[i]; row->name; row++) {
			assert_non_null(row->sentence);
			assert_true(strlen(row->name) < OPTION_NAME_MAX);
			if (row->type != OPTION_LIST) {
				assert_default_fits(row);
				continue;
			}
			assert_non_null(row->items);
			for (const struct config_option *item = row->items; item->name; item++) {
				assert_true(item->name[0] == '\0' || item->sentence);
				assert_default_fits(item);
			}
		}
	}
}

/* Lists that are defaults are parsed at the first load: it aborts when one does not fit. */
static void every_table_loads(void **state)
{
	_cleanup_loaded_ struct loaded loaded = {0};

	(void)state;
	loaded.result = config_load_text(
		"F", "", 0, option_tables, &loaded.config, &loaded.faults, &loaded.notices);
	assert_loaded(&loaded);
}

static void later_files_win(void **state)
{
	_cleanup_loaded_ struct loaded loaded = load_three(
		"mode: observe\nneighbor: {grow: false, ceiling: 5}\nsysctl: {vm.a: 1, vm.b: 1}\n",
		"neighbor:\n  ceiling: 6\nsysctl: {vm.b: 2, vm.c: 2}\n",
		"neighbor: {ceiling: 7}\nsysctl: {vm.c: {value: 3, exact: true}}\n");
	struct config_place place;

	(void)state;
	assert_loaded(&loaded);
	assert_string_equal(config_text(loaded.config, "mode"), "observe");
	assert_false(config_bool(loaded.config, "neighbor.grow"));
	assert_int_equal(config_count(loaded.config, "neighbor.ceiling", 0), 7);
	assert_sysctl(loaded.config, "vm.a", "1");
	assert_sysctl(loaded.config, "vm.b", "2");
	assert_sysctl(loaded.config, "vm.c", "3");
	assert_false(find_sysctl(loaded.config, "vm.b")->exact);
	assert_true(find_sysctl(loaded.config, "vm.c")->exact);
	place = config_where(loaded.config, "neighbor.ceiling");
	assert_non_null(strstr(place.file, "/d/2.yaml"));
	assert_int_equal(place.line, 1);
	assert_int_equal(place.column, 21);
}

static void null_takes_a_key_away(void **state)
{
	_cleanup_loaded_ struct loaded loaded =
		load_three("mode: observe\nprofile: lxd-host\nneighbor: {grow: false, ceiling: 5}\n"
			   "sysctl: {vm.a: 1}\n",
			"mode: null\nneighbor: {grow: ~, ipv4: {gc_thresh3: }}\n",
			"sysctl: {vm.a: , vm.max_map_count: null}\n");

	(void)state;
	assert_loaded(&loaded);
	assert_string_equal(config_text(loaded.config, "mode"), "enforce");
	assert_true(config_bool(loaded.config, "neighbor.grow"));
	assert_int_equal(config_count(loaded.config, "neighbor.ceiling", 0), 5);
	assert_string_equal(
		config_where(loaded.config, "neighbor.ipv4.gc_thresh3").file, "default");
	assert_sysctl(loaded.config, "vm.a", NULL);
	assert_sysctl(loaded.config, "vm.max_map_count", NULL);
	assert_sysctl(loaded.config, "fs.aio-max-nr", "524288");
}

static void null_takes_a_map_away(void **state)
{
	_cleanup_loaded_ struct loaded loaded = load_three(
		"neighbor: {grow: false, ipv4: {gc_thresh1: 5}}\nsysctl: {mode: off, vm.a: 1}\n",
		"neighbor:\nsysctl:\n", "sysctl: {vm.b: 1}\n");
	size_t n;

	(void)state;
	assert_loaded(&loaded);
	assert_true(config_bool(loaded.config, "neighbor.grow"));
	assert_int_equal(config_count(loaded.config, "neighbor.ipv4.gc_thresh1", 0), 80000);
	assert_string_equal(config_text(loaded.config, "sysctl.mode"), "enforce");
	assert_sysctl(loaded.config, "vm.b", "1");
	config_sysctls(loaded.config, &n);
	assert_int_equal(n, 1);
}

static void word_and_map_replace_each_other(void **state)
{
	_cleanup_loaded_ struct loaded word =
		load_three("neighbor: {ipv4: {gc_thresh1: 5}}\n", "neighbor: {ipv4: keep}\n", NULL);
	_cleanup_loaded_ struct loaded map =
		load_three("neighbor: {ipv4: keep}\n", "neighbor: {ipv4: {gc_thresh1: 5}}\n", NULL);
	_cleanup_loaded_ struct loaded again = load_three("neighbor: {ipv4: keep}\n",
		"neighbor: {ipv4: {gc_thresh1: 5}}\n", "neighbor: {ipv4: keep}\n");

	(void)state;
	assert_loaded(&word);
	assert_int_equal(config_choice(word.config, "neighbor.ipv4"), 0);
	assert_int_equal(config_count(word.config, "neighbor.ipv4.gc_thresh1", 0), 80000);
	assert_loaded(&map);
	assert_int_equal(config_choice(map.config, "neighbor.ipv4"), -1);
	assert_string_equal(config_text(map.config, "neighbor.ipv4"), "");
	assert_int_equal(config_count(map.config, "neighbor.ipv4.gc_thresh1", 0), 5);
	assert_loaded(&again);
	assert_int_equal(config_choice(again.config, "neighbor.ipv4"), 0);
}

static void sysctl_values(void **state)
{
	_cleanup_loaded_ struct loaded loaded =
		load_text("profile: minimal\n"
			  "sysctl:\n"
			  "  mode: observe\n"
			  "  net.ipv4.tcp_rmem: \" 4096\\t87380   6291456 \"\n"
			  "  net/ipv4/conf/eth0.100/rp_filter: 1\n"
			  "  net.ipv4.conf.eth1/2.rp_filter: 2\n"
			  "  kernel.core_pattern: {exact: true, value: \"|/bin/core %p\"}\n"
			  "  kernel.sched_rt_runtime_us: -1\n"
			  "  vm.swappiness: {value: 10}\n");
	size_t n;

	(void)state;
	assert_loaded(&loaded);
	assert_string_equal(config_text(loaded.config, "sysctl.mode"), "observe");
	assert_sysctl(loaded.config, "net.ipv4.tcp_rmem", "4096 87380 6291456");
	assert_sysctl(loaded.config, "net.ipv4.conf.eth0/100.rp_filter", "1");
	assert_sysctl(loaded.config, "net.ipv4.conf.eth1/2.rp_filter", "2");
	assert_sysctl(loaded.config, "kernel.core_pattern", "|/bin/core %p");
	assert_true(find_sysctl(loaded.config, "kernel.core_pattern")->exact);
	assert_sysctl(loaded.config, "kernel.sched_rt_runtime_us", "-1");
	assert_false(find_sysctl(loaded.config, "vm.swappiness")->exact);
	assert_int_equal(find_sysctl(loaded.config, "vm.swappiness")->place.line, 9);
	assert_int_equal(find_sysctl(loaded.config, "vm.swappiness")->place.column, 26);
	config_sysctls(loaded.config, &n);
	assert_int_equal(n, 6);
}

static void reserved_sections_are_noticed_once(void **state)
{
	_cleanup_loaded_ struct loaded loaded =
		load_three("mode: enforce\nlater: {budgets: [{server: auto}]}\n",
			"later: {names: off}\nmuch_later:\n", NULL);

	(void)state;
	assert_loaded(&loaded);
	assert_int_equal(loaded.notices.n, 1);
	assert_int_equal(loaded.notices.faults[0].line, 2);
	assert_int_equal(loaded.notices.faults[0].column, 1);
	assert_non_null(strstr(loaded.notices.faults[0].message, "later"));
}

static void a_rule_is_checked_after_merging(void **state)
{
	_cleanup_loaded_ struct loaded taken_back =
		load_three("http: {web_config: /etc/web.yaml}\n", "http: {web_config: }\n", NULL);
	_cleanup_loaded_ struct loaded kept =
		load_three("http:\n  web_config: /etc/web.yaml\n", "mode: observe\n", NULL);

	(void)state;
	assert_loaded(&taken_back);
	assert_one_fault(&kept, 2, 15, "neither TLS nor authentication");
	assert_non_null(strstr(kept.faults.faults[0].file, "/F"));
}

static void faults_of_several_files(void **state)
{
	_cleanup_loaded_ struct loaded loaded = load_three("mode: on\n", "\tx\n", "zebra: 1\n");

	(void)state;
	print_faults(&loaded);
	assert_int_equal(loaded.faults.n, 3);
	assert_non_null(strstr(loaded.faults.faults[0].file, "/F"));
	assert_non_null(strstr(loaded.faults.faults[1].file, "/d/1.yaml"));
	assert_non_null(strstr(loaded.faults.faults[2].file, "/d/2.yaml"));
}

static void checksum_is_of_values(void **state)
{
	static const char *const different[] = {
		"mode: observe\n",
		"profile: minimal\n",
		"neighbor: {ipv4: keep}\n",
		"sysctl: {vm.max_map_count: 262145}\n",
		"sysctl: {vm.max_map_count: {value: 262144, exact: true}}\n",
		"sysctl: {vm.max_map_count: }\n",
	};
	_cleanup_loaded_ struct loaded plain = load_text("");
	_cleanup_loaded_ struct loaded same =
		load_text("# the same\nneighbor:\n  grow: true\nsysctl: {vm.max_map_count: "
			  "262144}\nlater: 1\n");
	uint32_t sum;

	(void)state;
	assert_loaded(&same);
	sum = config_checksum(plain.config);
	assert_int_equal(sum, config_checksum(same.config));
	for (size_t i = 0; i < ARRAY_SIZE(different); i++) {
		_cleanup_loaded_ struct loaded other = load_text(different[i]);

		assert_loaded(&other);
		assert_int_not_equal(sum, config_checksum(other.config));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(every_default_fits_its_row),
		cmocka_unit_test(every_table_loads),
		cmocka_unit_test(later_files_win),
		cmocka_unit_test(null_takes_a_key_away),
		cmocka_unit_test(null_takes_a_map_away),
		cmocka_unit_test(word_and_map_replace_each_other),
		cmocka_unit_test(sysctl_values),
		cmocka_unit_test(reserved_sections_are_noticed_once),
		cmocka_unit_test(a_rule_is_checked_after_merging),
		cmocka_unit_test(faults_of_several_files),
		cmocka_unit_test(checksum_is_of_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
