/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/kubelet/kubelet.h"
#include "tuners/table.h"

#define MAIN_FILE "/var/lib/kubelet/config.yaml"
/* Start times in ticks since boot: before or after the times of all files here. */
#define EARLY "0"
#define LATE  "100000000000"

/* A fake node and the result of reading it. */
struct fixture {
	struct directory directory;
	struct kubelet_seen seen;
};

static void fixture_make(struct fixture *fixture)
{
	*fixture = (struct fixture){0};
	directory_make(&fixture->directory);
}

static void fixture_remove(struct fixture *fixture)
{
	directory_remove(&fixture->directory);
}

#define FIXTURE_TEST(name) TEST_OF(fixture, fixture, fixture_make, fixture_remove, name)

/* line is the command line with spaces between its words. */
static void put_process(const struct fixture *fixture, int pid, const char *name, const char *start,
	const char *line)
{
	static const char *const names[] = {"comm", "status", "stat", "cgroup", "cmdline"};
	char texts[ARRAY_SIZE(names)][256], path[64];
	size_t len = strlen(line) + 1;

	snprintf(texts[0], 256, "%s\n", name);
	snprintf(
		texts[1], 256, "Name:\t%s\nUid:\t0\t0\t0\t0\nNSpid:\t%d\nThreads:\t1\n", name, pid);
	snprintf(texts[2], 256, "%d (a) b) S 1 2 3 0 -1 4 5 6 7 8 9 10 11 12 20 0 1 0 %s 99 100\n",
		pid, start);
	strcpy(texts[3], "0::/../system.slice/kubelet.service\n");
	strcpy(texts[4], line);
	for (char *blank = texts[4]; (blank = strchr(blank, ' '));)
		*blank++ = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, names[i]);
		directory_put_bytes(
			&fixture->directory, path, texts[i], i == 4 ? len : strlen(texts[i]));
	}
}

static void put_kubelet(const struct fixture *fixture, const char *start, const char *line)
{
	directory_put(&fixture->directory, "/var/lib/kubelet/cpu_manager_state", "");
	put_process(fixture, 5, "kubelet", start, line);
}

static const struct kubelet_seen *read_node(struct fixture *fixture)
{
	kubelet_read(&fixture->directory.host, &fixture->seen);
	return &fixture->seen;
}

static const char *seen_value(const struct kubelet_seen *seen, enum kubelet_field field)
{
	return seen->values.field[field].text;
}

FIXTURE_TEST(a_node_without_a_kubelet_has_at_most_its_file)
{
	assert_int_equal(read_node(fixture)->presence, KUBELET_ABSENT);
	assert_string_equal(fixture->seen.why, "");
	/* A file is read, but it does not show the values that run. */
	directory_put(&fixture->directory, "/etc/kubernetes/kubelet/config.json",
		"{\"clusterDNS\": [\"172.20.0.10\"]}");
	assert_int_equal(read_node(fixture)->presence, KUBELET_STOPPED);
	assert_string_equal(fixture->seen.values.cluster_dns[0], "172.20.0.10");
	directory_put(&fixture->directory, MAIN_FILE, "serializeImagePulls: false\n");
	assert_int_equal(read_node(fixture)->presence, KUBELET_STOPPED);
	assert_string_equal(seen_value(&fixture->seen, KUBELET_SERIALIZE_IMAGE_PULLS), "false");
	assert_false(fixture->seen.values_run);
}

FIXTURE_TEST(the_process_names_the_file)
{
	put_process(fixture, 41, "sh", LATE, "sh -c kubelet");
	put_kubelet(fixture, LATE, "/usr/bin/kubelet --config=/etc/k.json");
	directory_put(&fixture->directory, "/etc/k.json", "{\"maxParallelImagePulls\": 4}");
	assert_int_equal(read_node(fixture)->presence, KUBELET_RUNNING);
	assert_string_equal(fixture->seen.config, "/etc/k.json");
	assert_string_equal(fixture->seen.config_dir, "");
	assert_string_equal(seen_value(&fixture->seen, KUBELET_SERIALIZE_IMAGE_PULLS), "false");
	assert_string_equal(seen_value(&fixture->seen, KUBELET_MAX_PARALLEL_IMAGE_PULLS), "4");
	assert_true(fixture->seen.values_run);
}

FIXTURE_TEST(only_a_process_of_root_and_of_the_node_counts)
{
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	static const char *const containers[] = {"0::/../" ID "\n",
		"0::/system.slice/web.service/libpod-payload-" ID "\n",
		"1:name=systemd:/\n0::/kubepods.slice/x\n", "0::/lxc.payload.web/x\n"};
	char path[64];

	put_process(fixture, 6, "kubelet", LATE, "kubelet --config=/etc/a");
	put_process(fixture, 7, "kubelet", LATE, "kubelet --config=/etc/a");
	put_process(fixture, 8, "kubelet", LATE, "kubelet --config=/etc/b");
	for (int i = 0; i < 4; i++) {
		put_process(fixture, 10 + i, "kubelet", LATE, "kubelet --config=/etc/a");
		snprintf(path, sizeof(path), "/proc/%d/cgroup", 10 + i);
		directory_put(&fixture->directory, path, containers[i]);
	}
	directory_put(&fixture->directory, "/proc/6/status",
		"Name:\tkubelet\nUid:\t1000\t0\t0\t0\nNSpid:\t6\nThreads:\t1\n");
	directory_put(&fixture->directory, "/proc/7/status",
		"Name:\tkubelet\nUid:\t0\t0\t0\t0\nNSpid:\t7\t1\nThreads:\t1\n");
	directory_put(&fixture->directory, "/etc/a", "");
	directory_put(&fixture->directory, "/etc/b", "");
	/* Without a directory of a kubelet the processes are not searched. */
	assert_int_equal(read_node(fixture)->presence, KUBELET_ABSENT);
	directory_put(&fixture->directory, "/var/lib/kubelet/cpu_manager_state", "");
	assert_int_equal(read_node(fixture)->presence, KUBELET_RUNNING);
	assert_string_equal(fixture->seen.config, "/etc/b");
}

FIXTURE_TEST(k3s_pulls_in_parallel)
{
	static const char drop_in[] =
		"/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf";

	put_process(fixture, 9, "k3s-server", LATE, "/usr/local/bin/k3s server");
	directory_put(&fixture->directory, "/var/lib/rancher/k3s/a", "");
	assert_true(read_node(fixture)->embedded);
	assert_string_equal(seen_value(&fixture->seen, KUBELET_SERIALIZE_IMAGE_PULLS), "false");
	assert_string_equal(fixture->seen.config_dir, "");
	directory_put(&fixture->directory, drop_in, "registryBurst: 50\n");
	assert_string_equal(seen_value(read_node(fixture), KUBELET_REGISTRY_BURST), "50");
}

FIXTURE_TEST(drop_ins_apply_in_order_and_flags_last)
{
	const struct directory *directory = &fixture->directory;

	put_kubelet(fixture, LATE,
		"kubelet --config " MAIN_FILE " --config-dir=/k.d --registry-burst=99");
	directory_put(directory, MAIN_FILE,
		"registryPullQPS: 1\nregistryBurst: 1\n"
		"imageGCHighThresholdPercent: 1\nmaxParallelImagePulls: 5\n");
	directory_put(directory, "/k.d/10-a.conf", "registryPullQPS: 2\nregistryBurst: 2\n");
	directory_put(directory, "/k.d/20-b/x.conf", "registryPullQPS: 3\n");
	directory_put(
		directory, "/k.d/9-c.conf", "registryPullQPS: 4\nimageGCHighThresholdPercent: ~\n");
	directory_put(directory, "/k.d/zz.yaml", "registryPullQPS: 5\n");
	read_node(fixture);
	assert_string_equal(fixture->seen.why, "");
	assert_string_equal(seen_value(&fixture->seen, KUBELET_REGISTRY_PULL_QPS), "4");
	assert_string_equal(
		fixture->seen.values.field[KUBELET_REGISTRY_PULL_QPS].file, "/k.d/9-c.conf");
	assert_string_equal(seen_value(&fixture->seen, KUBELET_REGISTRY_BURST), "99");
	assert_string_equal(seen_value(&fixture->seen, KUBELET_IMAGE_GC_HIGH), "85");
	assert_string_equal(seen_value(&fixture->seen, KUBELET_SERIALIZE_IMAGE_PULLS), "false");
	assert_false(fixture->seen.overridden);
	directory_put(directory, "/k.d/999.conf", "serializeImagePulls: true\n");
	assert_true(read_node(fixture)->overridden);
}

/* An absolute link of the host starts at the root of the host. */
FIXTURE_TEST(links_are_resolved_below_the_hosts_root)
{
	put_process(fixture, 5, "kubelet", LATE,
		"kubelet --config=/var/lib/kubelet/k --config-dir=/k.d");
	directory_put(&fixture->directory, "/mnt/kubelet/k", "registryBurst: 20\n");
	directory_put(&fixture->directory, "/mnt/k.d/a.conf", "registryPullQPS: 30\n");
	directory_put(&fixture->directory, "/var/lib/a", "");
	directory_link(&fixture->directory, "/var/lib/kubelet", "/mnt/kubelet");
	directory_link(&fixture->directory, "/k.d", "/mnt/k.d");
	assert_int_equal(read_node(fixture)->presence, KUBELET_RUNNING);
	assert_string_equal(fixture->seen.why, "");
	assert_string_equal(seen_value(&fixture->seen, KUBELET_REGISTRY_BURST), "20");
	assert_string_equal(seen_value(&fixture->seen, KUBELET_REGISTRY_PULL_QPS), "30");
	assert_string_equal(
		fixture->seen.values.field[KUBELET_REGISTRY_PULL_QPS].file, "/k.d/a.conf");
}

FIXTURE_TEST(our_own_file_is_distinguished_from_others)
{
	const struct directory *directory = &fixture->directory;

	put_kubelet(fixture, LATE, "kubelet --config-dir=/k.d");
	directory_put(directory, "/k.d/" KUBELET_OWN_FILE, kubelet_own_text);
	assert_int_equal(read_node(fixture)->own, KUBELET_OWN_WRITTEN);
	assert_string_equal(seen_value(&fixture->seen, KUBELET_SERIALIZE_IMAGE_PULLS), "false");
	assert_string_equal(fixture->seen.others.field[KUBELET_SERIALIZE_IMAGE_PULLS].text, "true");
	assert_true(fixture->seen.values_run);
	/* A kubelet that started before our file runs without it. */
	put_kubelet(fixture, EARLY, "kubelet --config-dir=/k.d");
	read_node(fixture);
	assert_false(fixture->seen.values_run);
	assert_true(fixture->seen.others_run);
	/* If it started before another file too, the values that run are unknown. */
	directory_put(directory, "/k.d/a.conf", "");
	read_node(fixture);
	assert_false(fixture->seen.others_run);
	directory_put(directory, "/k.d/" KUBELET_OWN_FILE,
		"# Written by headroom, in an earlier version\nserializeImagePulls: true\n");
	assert_int_equal(read_node(fixture)->own, KUBELET_OWN_OTHER);
	directory_put(directory, "/k.d/" KUBELET_OWN_FILE, "serializeImagePulls: true\n");
	assert_int_equal(read_node(fixture)->own, KUBELET_OWN_FOREIGN);
	assert_string_equal(fixture->seen.others.field[KUBELET_SERIALIZE_IMAGE_PULLS].text, "true");
}

FIXTURE_TEST(unreadable_files_are_reported)
{
	put_kubelet(fixture, LATE, "kubelet --config=/etc/k --config-dir=/k.d");
	read_node(fixture);
	assert_non_null(strstr(fixture->seen.why, "/etc/k: No such file"));
	directory_put(&fixture->directory, "/etc/k", "");
	read_node(fixture);
	assert_non_null(strstr(fixture->seen.why, "/k.d: No such file"));
	directory_put(&fixture->directory, "/k.d/a.conf", "a: b: c\n");
	read_node(fixture);
	assert_non_null(strstr(fixture->seen.why, "/k.d/a.conf:1:5: neither YAML nor JSON"));
	assert_false(fixture->seen.values_run);
	assert_int_equal(
		truncate(directory_at(&fixture->directory, "/k.d/a.conf").text, 300 * 1024), 0);
	read_node(fixture);
	assert_non_null(strstr(fixture->seen.why, "too large for a kubelet configuration"));
	directory_delete(&fixture->directory, "/k.d/a.conf");
	assert_string_equal(read_node(fixture)->why, "");
}

FIXTURE_TEST(too_many_files_are_reported)
{
	put_kubelet(fixture, LATE, "kubelet --config-dir=/k.d");
	for (int i = 0; i < 64; i++) {
		char path[32];

		snprintf(path, sizeof(path), "/k.d/%d.conf", i);
		directory_put(&fixture->directory, path, "");
	}
	read_node(fixture);
	assert_non_null(strstr(fixture->seen.why, "64 files and directories are the limit"));
}

FIXTURE_TEST(flags_of_the_command_line_are_read)
{
	static const struct {
		const char *line, *config, *serial, *burst, *servers;
	} cases[] = {
		{"kubelet --serialize-image-pulls=false --config k.yaml", "/k.yaml", "false", "",
			""},
		{"kubelet --registry_burst 20", "", "", "20", ""},
		{"kubelet --registry-burst=x --config", "", "", "", ""},
		{"kubelet --cluster-dns=10.0.0.10,fd00::a,nonsense", "", "", "",
			"10.0.0.10 fd00::a"},
		{"kubelet --cluster-dns=10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5,10.0.0.6,"
		 "10.0.0.7,10.0.0.8,10.0.0.9",
			"", "", "", "10.0.0.1 10.0.0.2"}, /* more than are kept */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct kubelet_seen *seen;
		const struct kubelet_value *serial, *burst;
		char servers[128];

		put_kubelet(fixture, LATE, cases[i].line);
		seen = read_node(fixture);
		assert_int_equal(seen->presence, KUBELET_RUNNING);
		assert_string_equal(seen->config, cases[i].config);
		serial = &seen->values.field[KUBELET_SERIALIZE_IMAGE_PULLS];
		burst = &seen->values.field[KUBELET_REGISTRY_BURST];
		assert_string_equal(
			serial->origin == KUBELET_FLAG ? serial->text : "", cases[i].serial);
		assert_string_equal(
			burst->origin == KUBELET_FLAG ? burst->text : "", cases[i].burst);
		snprintf(servers, sizeof(servers), "%s%s%s", seen->values.cluster_dns[0],
			seen->values.n_cluster_dns > 1 ? " " : "", seen->values.cluster_dns[1]);
		assert_string_equal(servers, cases[i].servers);
	}
}

struct parsed {
	struct kubelet_values values;
	char why[KUBELET_WHY_MAX];
};

#define PARSE_TEST(name) TEST_OF(parsed, parsed, (void), (void), name)

static int parse(struct parsed *parsed, const char *text)
{
	*parsed = (struct parsed){0};
	return kubelet_parse("/k.yaml", text, strlen(text), &parsed->values, parsed->why);
}

static void assert_value(
	const struct parsed *parsed, enum kubelet_field field, const char *text, unsigned line)
{
	const struct kubelet_value *value = &parsed->values.field[field];

	assert_int_equal(value->origin, KUBELET_FILE);
	assert_string_equal(value->text, text);
	assert_string_equal(value->file, "/k.yaml");
	assert_int_equal(value->line, line);
}

PARSE_TEST(a_file_of_kubeadm_is_read)
{
	static const char text[] = "apiVersion: kubelet.config.k8s.io/v1beta1\n"
				   "authentication:\n"
				   "  anonymous:\n"
				   "    enabled: false\n"
				   "  serializeImagePulls: true\n"
				   "clusterDNS:\n"
				   "- 10.96.0.10\n"
				   "imageMaximumGCAge: 24h\n"
				   "kind: KubeletConfiguration\n"
				   "nodeLabels: {a: [b, {c: d}]}\n"
				   "registryPullQPS: 0\n"
				   "serializeImagePulls: false\n"
				   "maxParallelImagePulls: 8\n"
				   "registryBurst: null\n";

	assert_int_equal(parse(parsed, text), 0);
	assert_value(parsed, KUBELET_IMAGE_MAXIMUM_GC_AGE, "24h", 8);
	assert_value(parsed, KUBELET_REGISTRY_PULL_QPS, "0", 11);
	assert_value(parsed, KUBELET_SERIALIZE_IMAGE_PULLS, "false", 12);
	assert_value(parsed, KUBELET_MAX_PARALLEL_IMAGE_PULLS, "8", 13);
	assert_int_equal(parsed->values.field[KUBELET_REGISTRY_BURST].origin, KUBELET_CLEARED);
	assert_int_equal(parsed->values.field[KUBELET_IMAGE_GC_HIGH].origin, KUBELET_UNSET);
	assert_int_equal(parsed->values.n_cluster_dns, 1);
	assert_string_equal(parsed->values.cluster_dns[0], "10.96.0.10");
}

PARSE_TEST(a_file_may_set_nothing)
{
	static const char *const texts[] = {"", "\n# a comment\n", "---\n...\n", "{}", "~\n",
		"serializeImagePulls: ~\n", "? [serializeImagePulls]\n: true\n",
		"a: &serial {serializeImagePulls: false}\nb: *serial\n",
		"--- {}\n--- {serializeImagePulls: false}\n"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		print_message("%s\n", texts[i]);
		assert_int_equal(parse(parsed, texts[i]), 0);
		assert_int_not_equal(
			parsed->values.field[KUBELET_SERIALIZE_IMAGE_PULLS].origin, KUBELET_FILE);
	}
}

PARSE_TEST(a_fault_has_its_position)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"a: b: c\n", "/k.yaml:1:5: neither YAML nor JSON"},
		{"- a\n", "/k.yaml:1:1: not a map of options"},
		{"kind: Pod\n", "/k.yaml:1:7: not of kind KubeletConfiguration but \"Pod\""},
		{"a: 1\nserializeImagePulls: maybe\n",
			"/k.yaml:2:22: serializeImagePulls cannot be \"maybe\""},
		{"maxParallelImagePulls: -1\n", "maxParallelImagePulls cannot be \"-1\""},
		{"maxParallelImagePulls: 2147483648\n", "cannot be \"2147483648\""},
		{"imageMaximumGCAge: 1234567890123456789012345678901234567890h\n", "cannot be"},
		{"imageMaximumGCAge: \"a\\nb\"\n", "cannot be \"a?b\""},
		{"registryPullQPS: [5]\n", "/k.yaml:1:18: expected one plain value"},
		{"maxPods: \"110\"\n",
			"/k.yaml:1:10: maxPods must be a whole number below 2^31 and is \"110\""},
		{"rotateCertificates: maybe\n", "1:21: rotateCertificates must be true or false"},
		{"clusterDomain: 12\n", "clusterDomain must be a text and is \"12\""},
		{"runtimeRequestTimeout: 10\n", "runtimeRequestTimeout must be a time such as 10s"},
		{"syncFrequency: 10 s\n", "syncFrequency must be a time such as 10s"},
		{"evictionHard: 10%\n",
			"evictionHard must be a map of texts (numbers in quotes) and is \"10%\""},
		{"clusterDNS: 10.0.0.10\n",
			"clusterDNS must be a list of texts and is \"10.0.0.10\""},
		{"{\"kubeReserved\": [1]}\n", "1:18: kubeReserved must be a map"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(parse(parsed, cases[i].text), -EBADMSG);
		print_message("%s\n", parsed->why);
		assert_non_null(strstr(parsed->why, cases[i].why));
		for (int field = 0; field < KUBELET_FIELDS; field++)
			assert_int_equal(parsed->values.field[field].origin, KUBELET_UNSET);
	}
}

PARSE_TEST(values_that_the_kubelet_takes_have_no_fault)
{
	static const char text[] =
		"maxPods: 110\noomScoreAdj: -999\nregisterNode: yes\n"
		"clusterDomain: \"12\"\nclusterDNS: []\nevictionHard: {}\n"
		"syncFrequency: 1h0m0.5s\nvolumeStatsAggPeriod: \"0\"\n"
		"cpuCFSQuotaPeriod: 100ms\nmaxOpenFiles: null\nproviderID: 1.2.3\n"
		"cgroupRoot: /\nunknownKey: 5\nstaticPodPath: ''\n";

	assert_int_equal(parse(parsed, text), 0);
}

FIXTURE_TEST(a_value_in_quotes_has_the_line_that_repairs_it)
{
	static const struct {
		const char *text, *repair;
		unsigned line;
	} rows[] = {
		{"a: b\n  maxPods: 1\n", "", 2},
		{"kind: KubeletConfiguration\nmaxPods: \"110\" # as text\n",
			"maxPods: 110 # as text", 2},
		{"{\n \"serializeImagePulls\": \"true\",\n \"a\": 1\n}\n",
			"\"serializeImagePulls\": true,", 2},
		{"rotateCertificates: 'maybe'\n", "", 1},
	};

	put_kubelet(fixture, LATE, "kubelet --config=/etc/k");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		directory_put(&fixture->directory, "/etc/k", rows[i].text);
		read_node(fixture);
		assert_int_equal(fixture->seen.error, -EBADMSG);
		assert_string_equal(fixture->seen.bad.path, "/etc/k");
		assert_int_equal(fixture->seen.bad.line, rows[i].line);
		assert_string_equal(fixture->seen.bad.repair, rows[i].repair);
		assert_non_null(strstr(fixture->seen.bad.writer, "it belongs to uid"));
	}
}

DIRECTORY_TEST(advice_depends_on_the_values)
{
	static const struct {
		enum kubelet_field field;
		const char *value;
		int n;             /* with the changes of earlier steps */
		const char *first; /* the first advice begins so */
	} steps[] = {
		{KUBELET_IMAGE_GC_LOW, "80", 2,
			"registryPullQPS is 5 with registryBurst 10: of 60 images that a node "
			"needs at once, the last starts 10 s"},
		{KUBELET_REGISTRY_PULL_QPS, "0", 1, "Above 85 %"},
		{KUBELET_IMAGE_GC_HIGH, "100", 0, ""},
		{KUBELET_IMAGE_MAXIMUM_GC_AGE, "24h", 1, "imageMaximumGCAge is 24h"},
		{KUBELET_IMAGE_MAXIMUM_GC_AGE, "0h0m", 0, ""},
	};
	struct kubelet kubelet = {0};

	kubelet_read(&directory->host, &kubelet.seen); /* the defaults */
	kubelet.seen.presence = KUBELET_RUNNING;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
		const cJSON *advice;

		strcpy(kubelet.seen.values.field[steps[i].field].text, steps[i].value);
		document = kubelet_tuner.document(&kubelet, NULL, false);
		assert_string_equal(json_text_at(document, "kubelet"), "running");
		assert_int_equal(cJSON_GetArraySize(json_at(document, "advice")), steps[i].n);
		assert_true(starts_with(json_text_at(document, "advice/0"), steps[i].first));
		cJSON_ArrayForEach (advice, json_at(document, "advice"))
			assert_true(strlen(json_text_at(advice, "")) < CONDITION_MESSAGE_MAX - 1);
	}
}
