/* SPDX-License-Identifier: Apache-2.0 */
#include "config_fixture.h"

#include "config/internal.h"

#define TEXT_MAX 512

static const struct config_sysctl *find_sysctl(const struct config *config, const char *name)
{
	size_t n;
	const struct config_sysctl *sysctls = config_sysctls(config, &n);

	return find_named(sysctls, n, name);
}

static void add_item(
	const struct config *config, const struct config_option *row, size_t i, char *text)
{
	for (const struct config_option *field = row->items; field->name; field++)
		snprintf(text + strlen(text), TEXT_MAX - strlen(text), "%s%s",
			field == row->items ? (i > 0 ? ", " : "") : " ",
			config_item(config, row->name, i, field->name));
}

/*
 * Writes a value as the cases below do. "@NAME" is its position, "@.FIELD" that of a field of the
 * first budget, and "@." that of the budget itself.
 */
static void show(const struct config *config, const char *name, char text[static TEXT_MAX])
{
	const struct config_option *row = option_find(fixture_tables, name);

	text[0] = '\0';
	if (name[0] == '@') {
		const struct config_sysctl *sysctl = find_sysctl(config, name + 1);
		const char *field = name[2] ? name + 2 : NULL;
		struct config_position position =
			sysctl           ? sysctl->position
			: name[1] == '.' ? config_item_where(config, "watch.budgets", 0, field)
					 : config_where(config, name + 1);
		const char *file = strrchr(position.file, '/');

		snprintf(text, TEXT_MAX, "%s %u %u", file ? file + 1 : position.file, position.line,
			position.column);
	} else if (!row) {
		const struct config_sysctl *sysctl = find_sysctl(config, name);

		snprintf(text, TEXT_MAX, "%s%s", sysctl ? sysctl->value : "absent",
			sysctl && sysctl->exact ? " exactly" : "");
	} else if (row->type == OPTION_BOOL) {
		strcpy(text, config_bool(config, name) ? "true" : "false");
	} else if (row->type != OPTION_LIST) {
		copy_text(text, TEXT_MAX, config_text(config, name));
	} else if (config_choice(config, name) >= 0) {
		copy_text(text, TEXT_MAX, row->choices[config_choice(config, name)]);
	} else {
		strcpy(text, "[");
		for (size_t i = 0; i < config_list(config, name); i++)
			add_item(config, row, i, text);
		strcat(text, "]");
	}
}

/* Up to three files and the values after merging them. */
static const struct {
	const char *files[3];
	const char *values[14][2];
} merge_cases[] = {
	{{""}, {{"mode", "enforce"}, {"neighbor.ipv4", ""}, {"neighbor.ipv4.gc_thresh1", "80000"},
		       {"neighbor.ceiling", "auto"}, {"neighbor.grow", "true"}, {"node_name", ""},
		       {"http.listen", "127.0.0.1:19810"}, {"@mode", "default 0 0"},
		       {"vm.max_map_count", "262144"},
		       {"@vm.max_map_count", "profile kubernetes-node 0 0"},
		       {"watch.domains", "[cluster.local]"}, {"watch.servers", "auto"},
		       {"watch.ports", "[]"}, {"watch.budgets", "[auto  true 1s upstream]"}}},
	/* A later file wins, key by key. */
	{{"mode: observe\nneighbor: {grow: false, ceiling: 5}\nsysctl: {vm.a: 1, vm.b: 1}\n",
		 "neighbor:\n  ceiling: 6\nsysctl: {vm.b: 2, vm.c: 2}\n",
		 "neighbor: {ceiling: 7}\nsysctl: {vm.c: {value: 3, exact: true}}\n"},
		{{"mode", "observe"}, {"neighbor.grow", "false"}, {"neighbor.ceiling", "7"},
			{"vm.a", "1"}, {"vm.b", "2"}, {"vm.c", "3 exactly"},
			{"@neighbor.ceiling", "2.yaml 1 21"}}},
	/* null removes a key, of the profile too. */
	{{"mode: observe\nprofile: lxd-host\nneighbor: {grow: false, ceiling: 5}\n"
	  "sysctl: {vm.a: 1}\n",
		 "mode: null\nneighbor: {grow: ~, ipv4: {gc_thresh3: }}\n",
		 "sysctl: {vm.a: , vm.max_map_count: null}\n"},
		{{"mode", "enforce"}, {"neighbor.grow", "true"}, {"neighbor.ceiling", "5"},
			{"@neighbor.ipv4.gc_thresh3", "default 0 0"}, {"vm.a", "absent"},
			{"vm.max_map_count", "absent"}, {"fs.aio-max-nr", "524288"}}},
	/* null removes a whole map. */
	{{"neighbor: {grow: false, ipv4: {gc_thresh1: 5}}\nsysctl: {mode: off, vm.a: 1}\n",
		 "neighbor:\nsysctl:\n", "sysctl: {vm.b: 1}\n"},
		{{"neighbor.grow", "true"}, {"neighbor.ipv4.gc_thresh1", "80000"},
			{"sysctl.mode", "enforce"}, {"vm.b", "1"}, {"vm.a", "absent"},
			{"vm.max_map_count", "absent"}}},
	/* A word replaces a map, and a map replaces a word. */
	{{"neighbor: {ipv4: {gc_thresh1: 5}}\n", "neighbor: {ipv4: keep}\n"},
		{{"neighbor.ipv4", "keep"}, {"neighbor.ipv4.gc_thresh1", "80000"}}},
	{{"neighbor: {ipv4: keep}\n", "neighbor: {ipv4: {gc_thresh1: 5}}\n"},
		{{"neighbor.ipv4", ""}, {"neighbor.ipv4.gc_thresh1", "5"}}},
	/* Sysctls are written as sysctl(8) prints them. */
	{{"profile: minimal\n"
	  "sysctl:\n"
	  "  mode: observe\n"
	  "  net.ipv4.tcp_rmem: \" 4096\\t87380   6291456 \"\n"
	  "  net/ipv4/conf/eth0.100/rp_filter: 1\n"
	  "  net.ipv4.conf.eth1/2.rp_filter: 2\n"
	  "  kernel.core_pattern: {exact: true, value: \"|/bin/core %p\"}\n"
	  "  kernel.sched_rt_runtime_us: -1\n"
	  "  vm.swappiness: {value: 10}\n"},
		{{"sysctl.mode", "observe"}, {"net.ipv4.tcp_rmem", "4096 87380 6291456"},
			{"net.ipv4.conf.eth0/100.rp_filter", "1"},
			{"net.ipv4.conf.eth1/2.rp_filter", "2"},
			{"kernel.core_pattern", "|/bin/core %p exactly"},
			{"kernel.sched_rt_runtime_us", "-1"}, {"vm.swappiness", "10"},
			{"@vm.swappiness", "F 9 26"}, {"vm.max_map_count", "absent"}}},
	/* A file wins over the profile. */
	{{"profile: lxd-host\nneighbor: {ipv4: {gc_thresh3: 9000}}\n"
	  "sysctl: {fs.aio-max-nr: 1000000}\n"},
		{{"neighbor.ipv4.gc_thresh3", "9000"}, {"fs.aio-max-nr", "1000000"}}},
	{{"profile: lxd-host\n"}, {{"neighbor.ipv4.gc_thresh3", "100000"},
					  {"@neighbor.ipv4.gc_thresh3", "profile lxd-host 0 0"}}},
	{{"watch: {timeout: 90s}\n"}, {{"watch.timeout", "90s"}}},
	/* A later list replaces an earlier one. */
	{{"watch:\n"
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
	  "  - {server: x, every: off, qps: null}\n"},
		{{"watch.domains", "[a.example, b.example]"},
			{"watch.servers", "[10.0.0.10, fd00::10]"},
			{"watch.ports", "[53, auto, 5353]"},
			{"watch.budgets",
				"[10.0.0.2 200 false 1s upstream, auto auto true 250ms cluster, "
				"x  true off upstream]"},
			{"@.", "F 8 5"}, {"@.qps", "F 9 10"}, {"@.every", "F 8 5"}}},
	{{"watch: {servers: [a, b], domains: [x, y]}\n", "watch: {servers: [c], domains: []}\n"},
		{{"watch.servers", "[c]"}, {"watch.domains", "[]"}}},
	{{"watch: {servers: [a, b]}\n", "watch: {servers: auto}\n"}, {{"watch.servers", "auto"}}},
	{{"watch: {servers: [a], domains: [x, y]}\n", "watch: {servers: , domains: null}\n"},
		{{"watch.servers", "auto"}, {"watch.domains", "[cluster.local]"}}},
	{{"watch: {budgets: [{server: x}, {server: y}]}\n", "watch:\n"},
		{{"watch.budgets", "[auto  true 1s upstream]"}}},
};

static struct loaded load_files(const char *const files[static 3])
{
	static const char *const names[] = {"/F", "/d/1.yaml", "/d/2.yaml"};
	_cleanup_directory_ struct directory directory;

	directory_make(&directory);
	for (size_t i = 0; i < ARRAY_SIZE(names) && files[i]; i++)
		directory_put(&directory, names[i], files[i]);
	return load_directory(&directory);
}

TEST(files_are_merged_key_by_key)
{
	for (size_t i = 0; i < ARRAY_SIZE(merge_cases); i++) {
		_cleanup_loaded_ struct loaded loaded = load_files(merge_cases[i].files);
		char text[TEXT_MAX];

		assert_loaded(&loaded);
		for (size_t v = 0; v < 14 && merge_cases[i].values[v][0]; v++) {
			show(loaded.config, merge_cases[i].values[v][0], text);
			if (!streq(text, merge_cases[i].values[v][1]))
				fail_msg("%s %s is %s", merge_cases[i].files[0],
					merge_cases[i].values[v][0], text);
		}
	}
}

TEST(a_word_replaces_a_number_or_duration)
{
	_cleanup_loaded_ struct loaded plain = load_text("");
	_cleanup_loaded_ struct loaded given = load_text("watch: {timeout: off}\n");
	const struct config *config = given.config;

	assert_loaded(&given);
	assert_int_equal(config_count(plain.config, "neighbor.ipv4.gc_thresh1", 7), 80000);
	assert_int_equal(config_count(plain.config, "neighbor.ceiling", 7), 7);
	assert_int_equal(config_choice(plain.config, "neighbor.ipv4"), -1);
	assert_true(config_duration(plain.config, "watch.timeout") == 1800000000);
	assert_true(config_duration(config, "watch.timeout") == 0);
}

static void check_row(const struct config_option *row)
{
	struct config_option rows[] = {*row, {"sysctl", .type = OPTION_SYSCTLS}, {0}};
	const struct config_option *const tables[] = {core_options, rows, NULL};
	const char *quote = row->type == OPTION_LIST ? "" : "'";
	char text[TEXT_MAX];

	assert_true(row->name[0] == '\0' || row->help);
	assert_true(strlen(row->name) < OPTION_NAME_MAX);
	assert_true(row->type != OPTION_LIST || row->items);
	rows[0].name = "x";
	snprintf(text, sizeof(text), "x: %s%s%s", quote, row->def ? row->def : "", quote);
	_cleanup_loaded_ struct loaded loaded =
		load_bytes(tables, text, row->def ? strlen(text) : 0);
	assert_loaded(&loaded);
}

TEST(every_option_has_help_and_a_default_that_fits)
{
	for (size_t i = 0; option_tables[i]; i++)
		for (const struct config_option *row = option_tables[i]; row->name; row++) {
			check_row(row);
			for (const struct config_option *item = row->items; item && item->name;
				item++)
				check_row(item);
		}
}

TEST(differences_are_listed_and_change_the_checksum)
{
	static const char *const cases[][3] = {
		{"", "# the same\nneighbor:\n  grow: true\nsysctl: {vm.max_map_count: 262144}\n",
			""},
		{"", "watch: {domains: [cluster.local], servers: auto, ports: []}\n", ""},
		{"", "watch: {budgets: [{server: auto, tcp: true, qps: null}]}\n", ""},
		{"", "profile: etcd\nsysctl: {vm.max_map_count: 262145, net.core.somaxconn: 4096}\n",
			"profile, vm.max_map_count, fs.inotify.max_user_instances, "
			"fs.inotify.max_user_watches, kernel.keys.maxbytes, kernel.keys.maxkeys, "
			"kernel.keys.root_maxbytes, kernel.keys.root_maxkeys, kernel.pid_max"},
		{"", "neighbor: {ipv4: keep}\n", "neighbor.ipv4"},
		{"", "sysctl: {vm.max_map_count: {value: 262144, exact: true}}\n",
			"vm.max_map_count"},
		{"", "watch: {domains: []}\n", "watch.domains"},
		{"", "watch: {domains: [cluster.local, cluster.local]}\n", "watch.domains"},
		{"", "watch: {servers: [auto]}\n", "watch.servers"},
		{"", "watch: {budgets: [{server: auto, qps: 5}]}\n", "watch.budgets"},
		{"mode: observe\n", "sysctl: {vm.max_map_count: 262145}\nmode: enforce\n",
			"mode, vm.max_map_count"},
		{"sysctl: {kernel.pid_max: 99999}\nwatch: {timeout: 90s}\n", "{}\n",
			"watch.timeout, kernel.pid_max"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_loaded_ struct loaded before = load_text(cases[i][0]);
		_cleanup_loaded_ struct loaded after = load_text(cases[i][1]);
		char text[512];

		assert_loaded(&before);
		assert_loaded(&after);
		config_changes(before.config, after.config, text, sizeof(text));
		assert_string_equal(text, cases[i][2]);
		assert_int_equal(text[0] == '\0',
			config_checksum(before.config) == config_checksum(after.config));
	}
}

TEST(a_duration_is_a_number_and_a_unit)
{
	static const struct {
		const char *text;
		uint64_t us;
	} good[] = {{"500ms", 500000}, {"20s", 20000000}, {"30m", 1800000000}, {"0s", 0},
		{"2h", UINT64_C(7200000000)}, {"5124095576h", UINT64_C(5124095576) * 3600000000},
		{"90s", 90000000}};
	static const char *const bad[] = {"", "s", "30", "30 m", " 30m", "30m ", "1h30m", "1.5h",
		"-1s", "+1s", "01s", "1S", "1min", "1us", "1d", "0x1s", "1e3s", "ms", "5124095577h",
		"18446744073709551616ms", "100000000000000000000000000s"};
	uint64_t us = 7;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(duration_parse(bad[i], &us), i < 18 ? -EINVAL : -ERANGE);
	assert_int_equal(us, 7);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(duration_parse(good[i].text, &us), 0);
		assert_true(us == good[i].us);
	}
}

TEST(every_profile_loads_and_has_sources)
{
	size_t n_profiles = 0;

	for (const struct profile *profile = profile_table; profile->name; profile++) {
		char text[64];

		assert_non_null(profile->help);
		assert_string_equal(profile->name, profile_choices[n_profiles++]);
		snprintf(text, sizeof(text), "profile: %s\n", profile->name);
		_cleanup_loaded_ struct loaded loaded = load_text(text);
		assert_loaded(&loaded);
	}
	assert_null(profile_choices[n_profiles]);
	for (const struct profile_row *row = profile_rows; row->name; row++) {
		_cleanup_loaded_ struct loaded loaded = {0};
		char text[TEXT_MAX];

		assert_true(strlen(row->source) > 20);
		if (!starts_with(row->name, "sysctl."))
			continue;
		/* The value of a file is the same: it has the form of sysctl(8). */
		snprintf(text, sizeof(text), "profile: minimal\nsysctl: {%s: %s}\n",
			row->name + strlen("sysctl."), row->value);
		loaded = load_text(text);
		assert_loaded(&loaded);
		show(loaded.config, row->name + strlen("sysctl."), text);
		assert_string_equal(text, row->value);
	}
}
