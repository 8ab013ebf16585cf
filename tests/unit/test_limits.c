/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "base/wait.h"
#include "tuners/limits/limits.h"
#include "tuners/table.h"

struct lab {
	struct directory directory;
	void *self, *memory;
	struct decide_input input;
	struct proposal proposal;
	struct finding_list findings;
};

static void lab_make(struct lab *lab)
{
	directory_make(&lab->directory);
	lab->self = limits_tuner.open(&lab->directory.host, &lab->directory.facts, NULL);
	lab->memory = must(calloc(1, limits_tuner.memory_size));
	lab->input.now_us = 1000 * USEC_PER_SEC;
}

static void lab_remove(struct lab *lab)
{
	proposal_clear(&lab->proposal);
	findings_clear(&lab->findings);
	limits_tuner.close(lab->self, lab->memory);
	free(lab->memory);
	directory_remove(&lab->directory);
}

#define LAB_TEST(name) TEST_OF(lab, lab, lab_make, lab_remove, name)

static void ignore_news(void *, const struct finding *, enum finding_news)
{
}

static void decide_again(struct lab *lab)
{
	const struct finding_clock clock = {lab->input.now_us, lab->input.now_us, false};

	proposal_clear(&lab->proposal);
	lab->input.findings = lab->findings.findings;
	lab->input.n_findings = lab->findings.n;
	limits_tuner.decide(lab->self, &lab->input, lab->memory, &lab->proposal);
	limits_tuner.arm(lab->self, lab->memory);
	findings_observe(&lab->findings, "limits", &lab->proposal, &clock, ignore_news, NULL);
	findings_sort(&lab->findings);
	lab->input.now_us += USEC_PER_SEC;
}

static void poll_node(struct lab *lab)
{
	const struct task_ops *job = &limits_tuner.tasks[TASK_SAMPLE];
	struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1};
	void *request = job->request(lab->self, lab->memory, true);

	job->run(request, &wait);
	job->adopt(lab->self, request);
	limits_tuner.sense(lab->self, now_us());
	decide_again(lab);
}

LAB_TEST(maps_of_bpf_that_are_not_watched_are_named)
{
	struct limits *limits = lab->self;

	set_text(limits->maps_why, "not permitted");
	decide_again(lab);
	if (!strstr(lab->proposal.why, "BPF maps are not watched: not permitted"))
		fail_msg("%s", lab->proposal.why);
}

/* The pass found the cgroup, and then its processes ended. */
LAB_TEST(a_user_whose_processes_have_ended_is_named_by_its_cgroup)
{
	struct path root = directory_at(&lab->directory, "/cgroup");
	struct path pod = directory_at(
		&lab->directory, "/cgroup/kubepods/pod0f5c9a1e-7b3d-4c8a-9e2f-1a2b3c4d5e6f");
	struct limits *limits = lab->self;
	struct limit_user *user = limit_add_user(&limits->rows[0].users[OF_PROCESSES]);
	struct stat st;

	assert_int_equal(make_directories(pod.text, 0755), 0);
	assert_int_equal(stat(pod.text, &st), 0);
	user->id = cgroup_key(CGROUP_PIDS, st.st_ino);
	user->workload = cgroup_unknown(user->id);
	cgroups_set_root(lab->directory.facts.cgroups, CGROUP_PIDS,
		open(root.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	limits_tuner.sense(lab->self, lab->input.now_us);
	assert_int_equal(user->workload.kind, WORKLOAD_POD);
	assert_string_equal(user->workload.id, "0f5c9a1e-7b3d-4c8a-9e2f-1a2b3c4d5e6f");
}

static const struct limit_reading *limit_of(struct lab *lab, const char *name)
{
	return find_named(lab->proposal.limits, lab->proposal.n_limits, name);
}

static void expect(struct lab *lab, const char *name, uint64_t used, uint64_t max)
{
	const struct limit_reading *limit = limit_of(lab, name);

	if (!limit)
		fail_msg("no limit %s", name);
	else if (limit->used != used || limit->max != max)
		fail_msg("%s: %" PRIu64 " of %" PRIu64, name, limit->used, limit->max);
}

static void poll_to(struct lab *lab, const char *name, uint64_t used, uint64_t max)
{
	poll_node(lab);
	expect(lab, name, used, max);
}

static void put(struct lab *lab, const char *path, const char *text)
{
	directory_put(&lab->directory, path, text);
}

/* '!' ends a word. */
static void put_words(struct lab *lab, const char *path, const char *words)
{
	char text[256];
	size_t len = strlen(words);

	set_text(text, words);
	for (size_t i = 0; i < len; i++)
		text[i] = text[i] == '!' ? '\0' : text[i];
	directory_put_bytes(&lab->directory, path, text, len);
}

static bool is_degraded(struct lab *lab)
{
	return lab->proposal.why[0];
}

LAB_TEST(a_row_is_shown_where_the_node_has_it_and_an_unreadable_file_is_reported)
{
	static const struct {
		const char *text; /* of /proc/sys/fs/file-nr */
		bool shown, degraded;
	} steps[] = {
		{"1046\t0\t2466177\n", true, false},
		{"1046\t0\t9223372036854775807\n", false, false}, /* unlimited */
		{"1046\t0\n", false, true},
		{"max\n", false, true},
		{"7\t0\t7\n", true, false},
	};

	poll_node(lab);
	assert_null(limit_of(lab, "file-handles"));
	assert_null(limit_of(lab, "conntrack"));
	assert_false(is_degraded(lab));
	assert_int_equal(lab->proposal.n_conditions, 2);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		put(lab, "/proc/sys/fs/file-nr", steps[i].text);
		poll_node(lab);
		assert_int_equal(limit_of(lab, "file-handles") != NULL, steps[i].shown);
		assert_int_equal(is_degraded(lab), steps[i].degraded);
	}
	expect(lab, "file-handles", 7, 7);
	put(lab, "/proc/sys/net/netfilter/nf_conntrack_count", "12\n"); /* the module was loaded */
	put(lab, "/proc/sys/net/netfilter/nf_conntrack_max", "262144\n");
	poll_to(lab, "conntrack", 12, 262144);
	assert_int_equal(lab->proposal.conditions[1].status, CONDITION_FALSE);
}

LAB_TEST(numbers_are_found_by_name_in_both_forms_of_files)
{
	put(lab, "/proc/net/sockstat",
		"sockets: used 19\nTCP: inuse 4 orphan 0 tw 23 alloc 4 mem 77\nUDP: inuse 0 mem 5\n");
	put(lab, "/proc/sys/net/ipv4/tcp_mem", "100 200\t300\n");
	put(lab, "/proc/net/netstat",
		"TcpExt: SyncookiesSent TCPMemoryPressures ListenOverflows\nTcpExt: 1 42 3\n"
		"IpExt: InNoRoutes\nIpExt: 0\n");
	poll_to(lab, "tcp-memory", 77, 300);
	assert_int_equal(limit_of(lab, "tcp-memory")->hits, 42);
}

LAB_TEST(pids_shows_the_fullest_of_three_limits)
{
	put(lab, "/proc/loadavg", "0.20 0.18 0.12 1/800 11206\n");
	put(lab, "/proc/sys/kernel/pid_max", "32768\n");
	poll_to(lab, "pids", 800, 32768);
	put(lab, "/proc/sys/kernel/threads-max", "1000\n");
	poll_to(lab, "pids", 800, 1000);
	put(lab, "/sys/fs/cgroup/kubepods.slice/pids.current", "90\n");
	put(lab, "/sys/fs/cgroup/kubepods.slice/pids.max", "max\n");
	poll_to(lab, "pids", 800, 1000);
	put(lab, "/sys/fs/cgroup/kubepods.slice/pids.max", "100\n");
	poll_to(lab, "pids", 90, 100);
}

/* A removed cgroup has no id. /proc/cgroups counts removed ones, and so does not tell. */
LAB_TEST(memory_cgroups_counts_those_that_have_an_id)
{
	put(lab, "/sys/fs/cgroup/cgroup.stat", "nr_descendants 50\nnr_dying_descendants 1000\n");
	put(lab, "/proc/cgroups",
		"#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t4\t67164\t1\n");
	poll_node(lab);
	assert_null(limit_of(lab, "memory-cgroups"));
	assert_false(is_degraded(lab));
	put(lab, "/proc/cgroups",
		"#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t0\t1050\t1\n");
	poll_to(lab, "memory-cgroups", 50, 65535);
	assert_true(limit_of(lab, "memory-cgroups")->upper_bound);
	put(lab, "/sys/fs/cgroup/cgroup.stat",
		"nr_descendants 65000\nnr_subsys_cpu 9\nnr_subsys_memory 64000\nnr_dying_descendants "
		"1000\nnr_dying_subsys_memory 900\n");
	poll_to(lab, "memory-cgroups", 64000, 65535);
	assert_false(limit_of(lab, "memory-cgroups")->upper_bound);
}

LAB_TEST(the_fullest_cpu_and_the_fullest_user_are_shown)
{
	put(lab, "/proc/sys/net/core/netdev_max_backlog", "1000\n");
	put(lab, "/proc/net/softnet_stat",
		"0d 00000002 00 0 0 0 0 0 0 0 0 00000010 0 0 0\n"
		"7c 00000001 00 0 0 0 0 0 0 0 0 00000003 1 0 0\n");
	put(lab, "/proc/key-users",
		"    0:     9 8/8 300/1000000 40/25000000\n 1000:     9 8/8 150/200 19000/20000\n");
	put(lab, "/proc/sys/kernel/pty/nr", "3000\n");
	put(lab, "/proc/sys/kernel/pty/max", "4096\n");
	put(lab, "/proc/sys/kernel/pty/reserve", "1024\n");
	poll_to(lab, "softnet", 16, 1000);
	assert_int_equal(limit_of(lab, "softnet")->hits, 3);
	expect(lab, "keys", 150, 200);
	expect(lab, "keys/bytes", 19000, 20000);
	assert_string_equal(limit_of(lab, "keys")->top[0].workload.name, "1000");
	expect(lab, "ptys", 3000, 3072);
}

LAB_TEST(addresses_of_host_local_count_against_the_ranges)
{
	put(lab, "/etc/cni/net.d/10-pods.conflist",
		"{\"name\": \"pods\", \"plugins\": [{\"type\": \"bridge\", \"ipam\": {\"type\": "
		"\"host-local\", \"ranges\": [[{\"subnet\": \"10.88.0.0/24\"}]]}}]}");
	put(lab, "/var/lib/cni/networks/pods/10.88.0.2", "c1\r\neth0");
	put(lab, "/var/lib/cni/networks/pods/10.88.0.3", "c2\r\neth0");
	put(lab, "/var/lib/cni/networks/pods/last_reserved_ip.0", "10.88.0.3");
	put(lab, "/var/lib/cni/networks/pods/lock", "");
	poll_to(lab, "pod-addresses", 2, 253);
	put(lab, "/etc/cni/net.d/10-pods.conflist",
		"{\"name\": \"pods\", \"ipam\": {\"type\": \"host-local\", \"subnet\": \"10.88.0.0/24\", "
		"\"rangeStart\": \"10.88.0.10\", \"rangeEnd\": \"10.88.0.12\"}}");
	poll_to(lab, "pod-addresses", 2, 3);
	put(lab, "/var/lib/cni/networks/cbr0/10.42.0.5", "c3");
	put(lab, "/run/flannel/subnet.env",
		"FLANNEL_NETWORK=10.42.0.0/16\nFLANNEL_SUBNET=10.42.0.1/29\n");
	put(lab, "/etc/cni/net.d/10-flannel.conflist",
		"{\"name\": \"cbr0\", \"plugins\": [{\"type\": \"flannel\", \"delegate\": {}}, "
		"{\"type\": \"portmap\"}]}");
	/* An earlier network has no configuration any more. */
	for (int i = 2; i < 7; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/var/lib/cni/networks/old/10.42.0.%d", i);
		put(lab, path, "c4");
	}
	directory_delete(&lab->directory, "/var/lib/cni/networks/pods/10.88.0.2");
	directory_delete(&lab->directory, "/var/lib/cni/networks/pods/10.88.0.3");
	poll_to(lab, "pod-addresses", 1, 5);
}

LAB_TEST(the_fullest_bridge_is_shown_by_name)
{
	poll_node(lab);
	assert_null(limit_of(lab, "bridge-ports"));
	put(lab, "/sys/class/net/br0/brif/veth0", "");
	put(lab, "/sys/class/net/br1/brif/veth1", "");
	put(lab, "/sys/class/net/br1/brif/veth2", "");
	put(lab, "/sys/class/net/eth0/mtu", "1500");
	poll_to(lab, "bridge-ports", 2, 1023);
	assert_int_equal(limit_of(lab, "bridge-ports")->n_top, 2);
}

static const struct finding *finding_of(struct lab *lab, const char *slug)
{
	for (size_t i = 0; i < lab->findings.n; i++)
		if (streq(lab->findings.findings[i].slug, slug))
			return &lab->findings.findings[i];
	return NULL;
}

/* Compares the condition and the text of a finding. */
static void expect_finding(struct lab *lab, const char *slug, int condition, const char *text)
{
	const struct finding *finding = finding_of(lab, slug);
	char found[FINDING_TEXT_MAX];

	if (!finding)
		fail_msg("no finding %s", slug);
	else if (finding->condition != &limits_conditions[condition])
		fail_msg("%s: %s", slug, finding->condition->name);
	finding_text(finding, found, sizeof(found));
	if (!strstr(found, text))
		fail_msg("%s", found);
}

/* Compares what the finding says to type; NULL: nothing. */
static void expect_cure(struct lab *lab, const char *slug, const char *now, const char *keep)
{
	const struct finding *finding = finding_of(lab, slug);

	if (!finding)
		fail_msg("no finding %s", slug);
	else if (!now)
		assert_true(!finding->now && finding->hint);
	else
		assert_string_equal(finding->now ? finding->now : "", now);
	if (finding && keep && (!finding->keep || !strstr(finding->keep, keep)))
		fail_msg("%s: keep %s", slug, finding->keep ? finding->keep : "nothing");
}

/* Root has more keys, of a larger maximum. */
LAB_TEST(the_user_with_the_largest_share_of_its_keys_is_the_instance)
{
	put(lab, "/proc/key-users",
		"    0:     9 8/8 304/1000000 40/25000000\n 1007:     9 8/8 3/200 19/20000\n");
	poll_node(lab);
	assert_int_equal(lab->findings.n, 0);
	put(lab, "/proc/key-users",
		"    0:     9 8/8 304/1000000 40/25000000\n 1007:     9 8/8 200/200 19/20000\n");
	poll_node(lab);
	assert_int_equal(lab->findings.n, 1);
	expect_finding(lab, "keys", LIMITS_REACHED, "keys: uid 1007: 200 of 200 keys");
	expect_cure(lab, "keys", "sysctl -w kernel.keys.maxkeys=2000", "kernel.keys.maxkeys: 2000");
	put(lab, "/proc/key-users",
		"    0:     9 8/8 999999/1000000 40/25000000\n 1007:     9 8/8 1800/2000 39/20000\n");
	poll_node(lab);
	expect_cure(lab, "keys", "sysctl -w kernel.keys.root_maxkeys=2000000",
		"sysctl: {kernel.keys.root_maxkeys: 2000000}");
}

LAB_TEST(the_buffers_of_sockets_get_three_larger_numbers)
{
	static const char *const netstat[] = {
		"TcpExt: SyncookiesSent TCPMemoryPressures\nTcpExt: 1 42\n",
		"TcpExt: SyncookiesSent TCPMemoryPressures\nTcpExt: 1 43\n"};

	put(lab, "/proc/net/sockstat",
		"sockets: used 19\nTCP: inuse 4 orphan 0 tw 2 alloc 4 mem 700\nUDP: inuse 2 mem 90\n");
	put(lab, "/proc/sys/net/ipv4/tcp_mem", "600\t650\t1000\n");
	put(lab, "/proc/sys/net/ipv4/udp_mem", "60\t80\t91\n");
	for (int i = 0; i < 2; i++) {
		put(lab, "/proc/net/netstat", netstat[i]);
		poll_node(lab);
		assert_int_equal(finding_of(lab, "tcp-memory") != NULL, i);
	}
	expect_finding(
		lab, "tcp-memory", LIMITS_PRESSURE, "700 of 1000 pages, under pressure 1 time");
	expect_cure(lab, "tcp-memory", "sysctl -w net.ipv4.tcp_mem='1200 1300 2000'",
		"sysctl: {net.ipv4.tcp_mem: \"1200 1300 2000\"}");
	expect_finding(lab, "udp-memory", LIMITS_PRESSURE, "90 of 91 pages");
	expect_cure(lab, "udp-memory", "sysctl -w net.ipv4.udp_mem='120 160 182'", "udp_mem");
	put(lab, "/proc/sys/net/ipv4/udp_mem", "60 80 1000000000\n");
	put(lab, "/proc/net/sockstat", "TCP: inuse 4 mem 1\nUDP: inuse 2 mem 900000000\n");
	poll_node(lab);
	expect_cure(lab, "udp-memory", NULL, NULL); /* more than the memory */
}

/* A burst between two polls leaves only its drops; some are ordinary. */
LAB_TEST(a_hundred_dropped_packets_in_five_minutes_are_a_finding)
{
	static const struct {
		const char *file, *before, *after, *slug;
	} rows[] = {
		{"/proc/net/softnet_stat", "0d ", " 00 0 0 0 0 0 0 0 0 000003e8 0 0 0\n",
			"softnet"},
		{"/proc/net/stat/nf_conntrack", "entries insert_failed drop\n0 ", " 0\n",
			"conntrack/races"},
	};
	static const int drops[] = {5000, 5099, 5100};

	put(lab, "/proc/sys/net/core/netdev_max_backlog", "1000\n");
	for (size_t i = 0; i < ARRAY_SIZE(drops); i++)
		for (size_t k = 0; k < ARRAY_SIZE(rows); k++) {
			char text[128];

			snprintf(text, sizeof(text), "%s%08x%s", rows[k].before, (unsigned)drops[i],
				rows[k].after);
			put(lab, rows[k].file, text);
			poll_node(lab);
			if (i < 2)
				assert_null(finding_of(lab, rows[k].slug));
			else
				expect_finding(
					lab, rows[k].slug, LIMITS_REACHED, "dropped 100 times");
		}
	expect_cure(
		lab, "softnet", "sysctl -w net.core.netdev_max_backlog=5000", "netdev_max_backlog");
	expect_cure(lab, "conntrack/races", NULL, NULL);
}

LAB_TEST(cures_raise_what_is_in_force)
{
	put(lab, "/proc/sys/fs/aio-nr", "65000\n");
	put(lab, "/proc/sys/fs/aio-max-nr", "65536\n");
	put(lab, "/proc/sys/kernel/pty/nr", "6990\n");
	put(lab, "/proc/sys/kernel/pty/max", "8192\n");
	put(lab, "/proc/sys/kernel/pty/reserve", "1024\n");
	put(lab, "/proc/sys/fs/file-nr", "5000000000000000 0 5000000000000000\n");
	poll_node(lab);
	expect_cure(lab, "aio", "sysctl -w fs.aio-max-nr=1048576", "fs.aio-max-nr: 1048576");
	expect_finding(lab, "ptys", LIMITS_PRESSURE, "6990 of 7168");
	expect_cure(lab, "ptys", "sysctl -w kernel.pty.max=16384", "kernel.pty.max: 16384");
	expect_cure(lab, "file-handles", "sysctl -w fs.file-max=9007199254740992", "fs.file-max");
	put(lab, "/proc/sys/fs/aio-nr", "9000000\n");
	put(lab, "/proc/sys/fs/aio-max-nr", "9000000\n");
	poll_node(lab);
	expect_cure(lab, "aio", "sysctl -w fs.aio-max-nr=18000000", NULL);
}

/* Makes an address, given out that many seconds ago. */
static void put_address(struct lab *lab, const char *file, const char *id, time_t age)
{
	const struct timespec at[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
	char text[128];

	snprintf(text, sizeof(text), "%.64s\r\neth0", id);
	put(lab, file, text);
	assert_int_equal(utimensat(AT_FDCWD, directory_at(&lab->directory, file).text, at, 0), 0);
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"

/* The wide network has more addresses, but also more room. */
LAB_TEST(addresses_of_containers_that_do_not_exist_are_deleted)
{
	struct facts *facts = &lab->directory.facts;
	struct name_entry *live = must(calloc(1, sizeof(*live)));
	char path[96];

	put(lab, "/etc/cni/net.d/10-near.conflist",
		"{\"name\": \"near\", \"ipam\": {\"type\": \"host-local\", \"subnet\": "
		"\"10.7.0.0/29\"}}");
	put(lab, "/etc/cni/net.d/20-wide.conflist",
		"{\"name\": \"wide\", \"ipam\": {\"type\": \"host-local\", \"subnet\": "
		"\"10.8.0.0/16\"}}");
	for (int i = 2; i < 40; i++) {
		snprintf(path, sizeof(path), "/var/lib/cni/networks/wide/10.8.0.%d", i);
		put_address(lab, path, ID "f", 5000);
	}
	put_address(lab, "/var/lib/cni/networks/near/10.7.0.2", ID "1", 700);
	put_address(lab, "/var/lib/cni/networks/near/10.7.0.3", ID "2", 700);
	put_address(lab, "/var/lib/cni/networks/near/10.7.0.4", ID "3", 500);        /* too young */
	put_address(lab, "/var/lib/cni/networks/near/10.7.0.5", "default-" ID, 700); /* nerdctl's */
	put_address(lab, "/var/lib/cni/networks/near/10.7.0.6", ID "4", 700);
	put(lab, "/var/lib/containers/storage/overlay-containers/" ID "4/userdata/config.json",
		"{}");
	poll_to(lab, "pod-addresses", 5, 5);
	assert_int_equal(lab->findings.n, 1);
	expect_finding(lab, "pod-addresses", LIMITS_REACHED, "/var/lib/cni/networks/near: 5 of 5");
	expect_cure(lab, "pod-addresses", NULL, NULL); /* no runtime tells what exists */
	set_text(live->workload.id, ID "1");
	names_replace(&facts->names, "runtime", live, 1);
	facts->names_complete = true;
	poll_node(lab);
	expect_cure(lab, "pod-addresses", "(cd /var/lib/cni/networks/near && rm 10.7.0.3)", NULL);
	directory_delete(&lab->directory, "/var/lib/cni/networks/near/10.7.0.3");
	directory_delete(&lab->directory, "/var/lib/cni/networks/near/10.7.0.4");
	poll_node(lab);
	expect_cure(lab, "pod-addresses", NULL, NULL);
	names_replace(&facts->names, "runtime", NULL, 0);
	free(facts->names.entries);
}

LAB_TEST(pressure_begins_above_80_percent_and_ends_below_70)
{
	static const struct {
		const char *text;
		bool found;
	} steps[] = {
		{"80 0 100\n", false},
		{"81 0 100\n", true},
		{"71 0 100\n", true},
		{"70 0 100\n", false},
		{"80 0 100\n", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		put(lab, "/proc/sys/fs/file-nr", steps[i].text);
		poll_node(lab);
		if (steps[i].found)
			expect_finding(lab, "file-handles", LIMITS_PRESSURE, "of 100 files");
		else
			assert_int_equal(lab->findings.n, 0);
	}
}

LAB_TEST(a_limit_without_a_count_of_hits_counts_the_time_at_its_maximum)
{
	put(lab, "/proc/sys/fs/file-nr", "99 0 100\n");
	poll_node(lab);
	expect_finding(lab, "file-handles", LIMITS_PRESSURE, "99 of 100 files");
	put(lab, "/proc/sys/fs/file-nr", "100 0 100\n");
	for (int i = 0; i < 3; i++)
		poll_node(lab);
	assert_int_equal(limit_of(lab, "file-handles")->hits, 3);
	expect_finding(lab, "file-handles", LIMITS_REACHED, "100 of 100 files, full for 2 s");
	assert_int_equal(finding_of(lab, "file-handles")->severity, SEVERITY_CRITICAL);
	put(lab, "/proc/sys/fs/file-nr", "85 0 100\n");
	lab->input.now_us += 298 * USEC_PER_SEC;
	poll_node(lab);
	expect_finding(lab, "file-handles", LIMITS_REACHED, "full for 2 s, until");
	expect_finding(lab, "file-handles", LIMITS_REACHED, "; now 85");
	lab->input.now_us += 2 * USEC_PER_SEC;
	poll_node(lab);
	poll_node(lab);
	expect_finding(lab, "file-handles", LIMITS_PRESSURE, "85 of 100 files");
	put(lab, "/proc/sys/fs/file-nr", "10 0 100\n");
	poll_node(lab);
	assert_int_equal(lab->findings.n, 0);
}

/* A burst between two polls leaves only its hits. */
LAB_TEST(hits_are_counted_once_and_from_the_first_poll_on)
{
	put(lab, "/proc/sys/net/netfilter/nf_conntrack_max", "1000\n");
	put(lab, "/proc/sys/net/netfilter/nf_conntrack_count", "999\n");
	put(lab, "/proc/net/stat/nf_conntrack", "entries drop early_drop\n0 2 1\n");
	poll_node(lab);
	expect_finding(lab, "conntrack", LIMITS_PRESSURE, "999 of 1000 connections");
	put(lab, "/proc/net/stat/nf_conntrack", "entries drop early_drop\n0 6 2\n");
	poll_node(lab);
	put(lab, "/proc/sys/net/netfilter/nf_conntrack_count", "1000\n");
	for (int i = 0; i < 3; i++)
		poll_node(lab);
	expect_finding(lab, "conntrack", LIMITS_REACHED, "1000 of 1000 connections");
	assert_int_equal(finding_of(lab, "conntrack")->times, 5);
	put(lab, "/proc/sys/net/netfilter/nf_conntrack_count", "10\n");
	poll_node(lab);
	expect_finding(lab, "conntrack", LIMITS_REACHED, "; now 10");
	assert_int_equal(finding_of(lab, "conntrack")->times, 5);
}

static const struct finding *now_of(struct lab *lab, const char *slug, const char *now)
{
	const struct finding *finding = finding_of(lab, slug);

	if (!finding)
		fail_msg("no finding %s", slug);
	assert_string_equal(finding->now ? finding->now : "", now);
	return finding;
}

LAB_TEST(the_cure_of_pids_raises_what_is_full_and_what_would_be_full_then)
{
	put(lab, "/proc/loadavg", "0.20 0.18 0.12 1/900 11206\n");
	put(lab, "/proc/sys/kernel/pid_max", "1000\n");
	put(lab, "/proc/sys/kernel/threads-max", "5000\n");
	poll_node(lab);
	(void)now_of(lab, "pids", "sysctl -w kernel.pid_max=2000");
	put(lab, "/proc/sys/kernel/threads-max", "1100\n");
	poll_node(lab);
	(void)now_of(lab, "pids", "sysctl -w kernel.pid_max=2000 kernel.threads-max=2000");
	put(lab, "/proc/sys/kernel/threads-max", "990\n");
	poll_node(lab);
	(void)now_of(lab, "pids", "sysctl -w kernel.threads-max=1980 kernel.pid_max=1980");
	put(lab, "/proc/sys/kernel/pid_max", "4194304\n");
	poll_node(lab);
	(void)now_of(lab, "pids", "sysctl -w kernel.threads-max=1980");
}

LAB_TEST(the_limit_of_all_pods_is_an_instance_of_pids)
{
	const struct finding *finding;

	put(lab, "/proc/loadavg", "0.20 0.18 0.12 1/900 11206\n");
	put(lab, "/proc/sys/kernel/pid_max", "32768\n");
	put(lab, "/sys/fs/cgroup/kubepods.slice/pids.current", "290\n");
	put(lab, "/sys/fs/cgroup/kubepods.slice/pids.max", "300\n");
	poll_node(lab);
	finding = now_of(lab, "pids", "echo 600 > /sys/fs/cgroup/kubepods.slice/pids.max");
	assert_int_equal(finding->instance.kind, INSTANCE_CGROUP);
	assert_int_equal(lab->findings.n, 1);
	put(lab, "/sys/fs/cgroup/kubepods.slice/pids.max", "600\n");
	poll_node(lab);
	assert_int_equal(lab->findings.n, 0);
}

LAB_TEST(the_cure_of_conntrack_never_lowers_a_value_and_costs_little_memory)
{
	put(lab, "/proc/sys/net/netfilter/nf_conntrack_count", "900\n");
	put(lab, "/proc/sys/net/netfilter/nf_conntrack_max", "1000\n");
	put(lab, "/proc/sys/net/netfilter/nf_conntrack_buckets", "262144\n");
	poll_node(lab);
	(void)now_of(lab, "conntrack",
		"sysctl -w net.netfilter.nf_conntrack_max=262144 "
		"net.netfilter.nf_conntrack_buckets=262144");
	put(lab, "/proc/sys/net/netfilter/nf_conntrack_count", "4000000000\n");
	put(lab, "/proc/sys/net/netfilter/nf_conntrack_max", "4100000000\n");
	poll_node(lab);
	assert_non_null(strstr(now_of(lab, "conntrack", "")->hint, "of memory"));
}

/* etcd looks for its quota in this order: option, environment, default. Later processes of the pid
 * do not count. */
LAB_TEST(the_database_of_a_listed_process_is_compared_with_its_quota)
{
	static const struct {
		const char *comm, *cmdline, *environ; /* words end with '!' */
		uint64_t max;                         /* 0: no limit */
	} cases[] = {
		{"etcd\n", "etcd!", NULL, 2147483648},
		{"etcd\n", "etcd!--quota-backend-bytes=0!", NULL, 2147483648},
		{"etcd\n", "etcd!--quota-backend-bytes!8589934592!", NULL, 8589934592},
		{"etcd\n", "etcd!", "A=1!ETCD_QUOTA_BACKEND_BYTES=4294967296!", 4294967296},
		{"etcd\n", "etcd!--quota-backend-bytes=5000000000!",
			"ETCD_QUOTA_BACKEND_BYTES=4294967296!", 5000000000},
		{"etcd\n", "etcd!--quota-backend-bytes=-1!", NULL, 0},
		{"etcd\n", "etcd!--config-file!/etc/etcd/conf.yml!--quota-backend-bytes=9!",
			"ETCD_QUOTA_BACKEND_BYTES=9!", 7000000000},
		{"etcd\n", "etcd!--config-file=/etc/etcd/missing.yml!", NULL, 0},
		{"etcd\n", "etcd!", "ETCD_CONFIG_FILE=/etc/etcd/conf.json!", 6000000000},
		{"etcd\n", "etcd!--config-file=/etc/etcd/comment.yml!", NULL, 2147483648},
		{"etcd\n", "etcd!--config-file=/etc/etcd/broken.yml!", NULL, 0},
		{"etcd\n", "etcd!--quota-backend-bytes=much!", NULL, 0},
		{"etcd\n", "etcd!--quota-backend-bytes=0x180000000!", NULL, 6442450944},
		{"etcd\n", "etcd!--config-file=/etc/etcd/quoted.yml!", NULL, 6500000000},
		{"etcd\n", "etcd!--config-file=/etc/etcd/tabs.json!", NULL, 6600000000},
		{"etcd\n", "etcd!--config-file=/etc/../tmp/conf.yml!", NULL, 0},
		{"bash\n", "bash!", NULL, 0},
	};
	struct node_disks *disks = &lab->directory.facts.disks;
	struct node_database *database = &disks->databases[0];

	*database = (struct node_database){7, "etcd", {.kind = WORKLOAD_UNIT}, 1000000000};
	disks->n_databases = 1;
	put(lab, "/etc/etcd/conf.yml", "name: a\nquota-backend-bytes: 7000000000\n");
	put(lab, "/etc/etcd/conf.json",
		"{\"name\": \"quota-backend-bytes: 9\",\n \"quota-backend-bytes\": 6000000000}\n");
	put(lab, "/etc/etcd/quoted.yml",
		"? 'quota-backend-bytes'\n: 6500000000 # 9\ntext: |\n  quota-backend-bytes: 9\n");
	put(lab, "/etc/etcd/tabs.json",
		"{\n\t\"name\":\t\"a\",\n\t\"quota-backend-bytes\":6600000000\n}\n");
	put(lab, "/etc/etcd/comment.yml", "name: a # quota-backend-bytes: 9\n");
	put(lab, "/etc/etcd/broken.yml", "name: [a\nquota-backend-bytes: 9\n");
	put(lab, "/tmp/conf.yml", "quota-backend-bytes: 7000000000\n");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		put(lab, "/proc/7/comm", cases[i].comm);
		put_words(lab, "/proc/7/cmdline", cases[i].cmdline);
		put_words(lab, "/proc/7/environ", cases[i].environ ? cases[i].environ : "");
		poll_node(lab);
		if (cases[i].max == 0)
			assert_null(limit_of(lab, "etcd/db"));
		else
			expect(lab, "etcd/db", 1000000000, cases[i].max);
	}
}

/* Its command line is hidden. In a container it has other files. */
LAB_TEST(the_server_of_k3s_has_the_quota_of_its_configuration)
{
	struct node_disks *disks = &lab->directory.facts.disks;
	struct node_database *database = &disks->databases[0];

	*database = (struct node_database){7, "k3s-server", {.kind = WORKLOAD_UNIT}, 1000000000};
	disks->n_databases = 1;
	put(lab, "/proc/7/comm", "k3s-server\n");
	put_words(lab, "/proc/7/cmdline", "/usr/local/bin/k3s server!");
	put_words(lab, "/proc/7/environ", "");
	for (int i = 0; i < 9; i++) {
		static const uint64_t max[] = {2147483648, 4000000000, 6000000000, 6000000000,
			3000000000, 3500000000, 5000000000, 2147483648, 3500000000};

		if (i == 1)
			put(lab, "/etc/rancher/k3s/config.yaml",
				"# quota-backend-bytes=1\netcd-arg:\n  - \"quota-backend-bytes=4000000000\"\n");
		if (i == 2)
			put(lab, "/etc/rancher/k3s/config.yaml.d/a.yaml",
				"etcd-arg: [quota-backend-bytes=6000000000]\n");
		if (i == 3)
			put(lab, "/etc/rancher/k3s/config.yaml.d/b.txt",
				"etcd-arg: quota-backend-bytes=9\n");
		if (i == 4)
			put_words(lab, "/proc/7/cmdline",
				"k3s!server!--etcd-arg=heartbeat-interval=9!--etcd-arg=quota-backend-bytes=1!--etcd-arg=quota-backend-bytes=3000000000!");
		if (i == 5)
			put_words(lab, "/proc/7/cmdline",
				"k3s!server!--etcd-arg!--quota-backend-bytes=3500000000!--etcd-arg!heartbeat-interval=9!");
		if (i == 6) /* what k3s wrote for etcd */
			put(lab, "/var/lib/rancher/k3s/server/db/etcd/config",
				"name: a\nquota-backend-bytes: 5000000000\nsnapshot-count: 10000\n");
		if (i == 7)
			put(lab, "/var/lib/rancher/k3s/server/db/etcd/config", "name: a\n");
		if (i == 8)
			database->workload.kind = WORKLOAD_POD;
		poll_to(lab, "etcd/db", 1000000000, max[i]);
	}
}

LAB_TEST(the_database_with_the_least_room_is_shown_and_named_first)
{
	struct node_disks *disks = &lab->directory.facts.disks;
	static const uint64_t used[] = {1000000000, 1900000000, 3000000000};

	for (size_t i = 0; i < ARRAY_SIZE(used); i++) {
		char path[64];

		int pid = 10 + (int)i;

		disks->databases[disks->n_databases++] =
			(struct node_database){pid, "etcd", {0}, used[i]};
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		put(lab, path, "etcd\n");
		snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
		put_words(lab, path, i == 2 ? "etcd!--quota-backend-bytes=8000000000!" : "etcd!");
	}
	poll_to(lab, "etcd/db", 1900000000, 2147483648);
	assert_string_equal(limit_of(lab, "etcd/db")->top[0].detail, "process 11 (etcd)");
	assert_int_equal(limit_of(lab, "etcd/db")->n_top, 3);
	expect_finding(lab, "etcd/db", LIMITS_PRESSURE, "process 11 (etcd)");
}

LAB_TEST(the_command_for_a_full_database_has_its_address_and_certificates)
{
	static const struct {
		enum workload_kind kind;
		const char *process, *cmdline, *environ, *program; /* NULL: a hint */
		const char *file; /* a program of the node; NULL: crictl */
	} cases[] = {
		{WORKLOAD_UNIT, "etcd", "etcd!", "",
			"ETCDCTL_API=3 etcdctl --endpoints=http://127.0.0.1:2379"},
		{WORKLOAD_UNIT, "etcd", "etcd!",
			"ETCD_LISTEN_CLIENT_URLS=https://10.0.0.4:2379,https://127.0.0.1:2379!"
			"ETCD_CERT_FILE=/etc/ssl/my etcd.crt!ETCD_KEY_FILE=/k!ETCD_TRUSTED_CA_FILE=/ca!",
			"ETCDCTL_API=3 etcdctl --endpoints=https://127.0.0.1:2379 "
			"--cert='/etc/ssl/my etcd.crt' --key=/k --cacert=/ca"},
		{WORKLOAD_POD, "etcd",
			"etcd!--listen-client-urls=https://10.0.0.4:2379!--cert-file=/c!--key-file=/k!",
			"",
			"crictl -r unix:///run/c.sock exec \"$(crictl -r unix:///run/c.sock ps -q "
			"--label io.kubernetes.pod.uid=u-1)\" etcdctl "
			"--endpoints=https://10.0.0.4:2379 --cert=/c --key=/k "
			"--insecure-skip-tls-verify"},
		{WORKLOAD_POD, "etcd", "etcd!", "",
			"nsenter -t 7 -m -n etcdctl --endpoints=http://127.0.0.1:2379",
			"/usr/bin/nsenter"},
		{WORKLOAD_POD, "etcd", "etcd!", "", NULL, "/usr/bin/podman"},
		{WORKLOAD_CONTAINER, "etcd", "etcd!", "",
			"docker exec u-1 etcdctl --endpoints=http://127.0.0.1:2379",
			"/usr/bin/docker"},
		{WORKLOAD_CONTAINER, "etcd", "etcd!", "", NULL},
		{WORKLOAD_UNIT, "etcd", "etcd!--listen-client-urls=http://a;reboot;'b!", "",
			"ETCDCTL_API=3 etcdctl --endpoints='http://a;reboot;'\\''b'"},
		{WORKLOAD_UNIT, "etcd", "etcd!--config-file=/etc/etcd/tls.yaml!", "",
			"ETCDCTL_API=3 etcdctl --endpoints=https://localhost:4001 --cert=/c --key=/k "
			"--cacert=/ca"},
		{WORKLOAD_LXD, "etcd", "etcd!", "", NULL},
		{WORKLOAD_UNIT, "k3s-server", "k3s server!", "", NULL},
	};
	struct node_disks *disks = &lab->directory.facts.disks;
	struct node_database *database = &disks->databases[0];

	disks->n_databases = disks->n_images = 1;
	disks->images[0] = (struct node_images){
		.path = "/none", .runtime = "containerd", .socket = "/run/c.sock"};
	put(lab, "/etc/etcd/tls.yaml",
		"listen-client-urls: https://localhost:4001\n\"client-transport-security\": "
		"{\"cert-file\": /c, key-file: /k, trusted-ca-file: /ca}\n");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *file = cases[i].file ? cases[i].file : "/usr/bin/crictl";
		char comm[32], command[1024];

		put(lab, file, "");
		assert_int_equal(chmod(directory_at(&lab->directory, file).text, 0755), 0);
		*database = (struct node_database){
			7, "", {.kind = cases[i].kind, .id = "u-1"}, 2147483648};
		set_text(database->process, cases[i].process);
		snprintf(comm, sizeof(comm), "%s\n", cases[i].process);
		put(lab, "/proc/7/comm", comm);
		put_words(lab, "/proc/7/cmdline", cases[i].cmdline);
		put_words(lab, "/proc/7/environ", cases[i].environ);
		poll_node(lab);
		snprintf(command, sizeof(command),
			"(e() { %s \"$@\"; }; e compact \"$(e endpoint status -w json | grep -o "
			"'\"revision\":[0-9]*' | tr -dc 0-9)\"; e defrag && e alarm disarm)",
			cases[i].program ? cases[i].program : "");
		expect_finding(lab, "etcd/db", LIMITS_REACHED, "etcd/db: ");
		expect_cure(lab, "etcd/db", cases[i].program ? command : NULL, NULL);
		directory_delete(&lab->directory, file);
	}
}

LAB_TEST(cures_are_of_the_nodes_services_and_leave_sessions_and_units_of_others)
{
	static const struct {
		limit_cure *cure;
		const char *row, *path, *owner, *now, *hint;
	} cases[] = {
		{limits_cure_cgroup, "pids/cgroup", "/sys/fs/cgroup/system.slice/a.service",
			"a.service", "systemctl set-property --runtime a.service TasksMax=80",
			"keeps it"},
		{limits_cure_cgroup, "pids/cgroup",
			"/sys/fs/cgroup/user.slice/user-7.slice/user@7.service/app.slice/a.service",
			"user@7.service",
			"echo 80 > /sys/fs/cgroup/user.slice/user-7.slice/user@7.service/app.slice/"
			"a.service/pids.max",
			NULL},
		{limits_cure_cgroup, "pids/cgroup",
			"/sys/fs/cgroup/machine.slice/machine-m.scope/payload/system.slice/ssh.service",
			"ssh.service",
			"echo 80 > "
			"/sys/fs/cgroup/machine.slice/machine-m.scope/payload/system.slice/"
			"ssh.service/pids.max",
			NULL},
		{limits_cure_listener, "listen", "", "a.service",
			"sysctl -w net.core.somaxconn=4096 && systemctl restart a.service", NULL},
		{limits_cure_listener, "listen", "", "session-3.scope",
			"sysctl -w net.core.somaxconn=4096", "restart the program"},
		{limits_cure_listener, "listen", "", "user@7.service",
			"sysctl -w net.core.somaxconn=4096", "restart the program"},
		{limits_cure_listener, "listen", "", "docker.service",
			"sysctl -w net.core.somaxconn=4096", "restart the program"},
		{limits_cure_files, "files/process", "", "a.service",
			"prlimit --pid 7 --nofile=65536:65536", "LimitNOFILE=65536 in a.service"},
		{limits_cure_files, "files/process", "", "session-3.scope",
			"prlimit --pid 7 --nofile=65536:65536", "limits.conf"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct limit_row *row = limits_rows;
		struct limit_instance instance = {
			.instance = {.kind = INSTANCE_CGROUP, .owner.kind = WORKLOAD_UNIT},
			.used = 40,
			.max = 40,
			.pid = 7,
			.of_agent = true,
			.sysctl =
				cases[i].cure == limits_cure_listener ? "net.core.somaxconn" : NULL,
		};
		struct finding finding = {0};

		while (!streq(row->name, cases[i].row))
			row++;
		set_text(instance.instance.name, cases[i].path);
		set_text(instance.instance.owner.name, cases[i].owner);
		cases[i].cure(&finding, row, &instance, &lab->input, lab->self);
		assert_string_equal(finding.now, cases[i].now);
		if (cases[i].hint && (!finding.hint || !strstr(finding.hint, cases[i].hint)))
			fail_msg("%s: %s", cases[i].now, finding.hint);
		finding_release(&finding);
	}
}

/* The one who has typed the command needs to know what keeps its effect. */
LAB_TEST(after_a_raise_the_finding_says_what_keeps_it)
{
	struct limits *limits = lab->self;
	struct limit_seen *seen = limits->rows;
	const struct finding *finding;

	while (!streq(seen->row->name, "pids/cgroup"))
		seen++;
	poll_node(lab);
	for (uint64_t max = 40; max <= 80; max += 40) {
		struct limit_instance instance = {
			.instance = {.kind = INSTANCE_CGROUP, .id = 9, .owner.kind = WORKLOAD_UNIT},
			.used = max / 2 + 20,
			.max = max};

		set_text(instance.instance.name, "/sys/fs/cgroup/system.slice/a.service");
		set_text(instance.instance.owner.name, "a.service");
		seen->error = 0;
		seen->reading.used = instance.used;
		seen->reading.max = max;
		limit_instances_clear(&seen->instances[OF_PROCESSES]);
		limit_instance_add(&seen->instances[OF_PROCESSES], &instance);
		decide_again(lab);
	}
	finding = now_of(lab, "pids/cgroup", "");
	assert_string_equal(finding->hint, "its maximum is larger now; systemctl set-property "
					   "a.service TasksMax=80 keeps it");
	limit_instances_clear(&seen->instances[OF_PROCESSES]);
}

/* setrlimit(2) fails with EPERM above fs.nr_open. */
LAB_TEST(the_cure_of_open_files_stays_below_what_the_kernel_takes)
{
	static const struct {
		uint64_t max, hard, nr_open;
		const char *now;
	} cases[] = {
		{1000, 4096, 1048576, "prlimit --pid 7 --nofile=4096:4096"},
		{1000, 1073741816, 1048576, "prlimit --pid 7 --nofile=65536:1048576"},
		{1000, 1073741816, 20000, "prlimit --pid 7 --nofile=20000:20000"},
		{20000, 1073741816, 20000, NULL},
	};
	struct limits *limits = lab->self;
	const struct limit_row *row = limits_rows;

	while (!streq(row->name, "files/process"))
		row++;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct limit_instance instance = {.instance.kind = INSTANCE_PROCESS,
			.used = cases[i].max,
			.max = cases[i].max,
			.beside = cases[i].hard,
			.pid = 7};
		struct finding finding = {0};

		limits->nr_open = cases[i].nr_open;
		limits_cure_files(&finding, row, &instance, &lab->input, limits);
		if (cases[i].now)
			assert_string_equal(finding.now, cases[i].now);
		else
			assert_true(!finding.now && finding.hint);
		finding_release(&finding);
	}
}

static void add_filled(struct limit_instances *instances, uint64_t id, uint64_t used)
{
	struct limit_instance instance = {
		.instance = {.kind = INSTANCE_CGROUP, .id = id}, .used = used, .max = 100};

	limit_instance_add(instances, &instance);
}

TEST(instances_whose_findings_are_over_hide_none_that_is_full)
{
	uint64_t open[LIMIT_INSTANCES_MAX];
	struct limit_instances instances = {.open = open, .n_open = LIMIT_INSTANCES_MAX};

	for (uint64_t id = 0; id < LIMIT_INSTANCES_MAX; id++)
		open[id] = limit_instance_hash(
			&(const struct instance){.kind = INSTANCE_CGROUP, .id = id + 1});
	for (uint64_t id = 1; id <= LIMIT_INSTANCES_MAX; id++)
		add_filled(&instances, id, id == 3 ? 82 : 10);
	add_filled(&instances, 50, 100);
	add_filled(&instances, 51, 60);
	assert_int_equal(instances.n, LIMIT_INSTANCES_MAX);
	assert_int_equal(instances.list[0].instance.id, 3);
	assert_int_equal(instances.list[1].instance.id, 50);
	assert_int_equal(instances.n_left_out, 0);
	limit_instances_clear(&instances);
}

LAB_TEST(full_instances_without_a_place_are_counted)
{
	struct limits *limits = lab->self;
	struct limit_seen *seen = limits->rows;

	poll_node(lab);
	while (!streq(seen->row->name, "pids/cgroup"))
		seen++;
	seen->error = 0;
	seen->reading.used = seen->reading.max = 100;
	for (uint64_t id = 1; id <= LIMIT_INSTANCES_MAX + 5; id++)
		add_filled(&seen->instances[OF_PROCESSES], id, 100);
	decide_again(lab);
	assert_int_equal(lab->findings.n, LIMIT_INSTANCES_MAX);
	assert_int_equal(lab->findings.n_left_out, 5);
	limit_instances_clear(&seen->instances[OF_PROCESSES]);
}

/* Workers of one program have one key. */
LAB_TEST(the_cure_of_open_files_is_for_all_full_processes_of_a_program)
{
	static const struct {
		uint64_t used, max, hard;
	} workers[] = {{401, 500, 800}, {500, 500, 800}, {300, 500, 800}, {480, 500, 800},
		{700, 700, 800}, {499, 500, 500}, {500, 500, 800}};
	struct limit_instances instances = {0};
	struct limits *limits = lab->self;
	const struct limit_row *row = limits_rows;
	struct finding finding = {0};

	while (!streq(row->name, "files/process"))
		row++;
	for (size_t i = 0; i < ARRAY_SIZE(workers); i++) {
		struct limit_instance instance = {
			.instance = {.kind = INSTANCE_PROCESS, .id = 5, .name = "worker"},
			.used = workers[i].used,
			.max = workers[i].max,
			.beside = workers[i].hard,
			.pid = 10 + (pid_t)i};

		limit_instance_add(&instances, &instance);
	}
	assert_int_equal(instances.n, 1);
	limits_cure_files(&finding, row, &instances.list[0], &lab->input, limits);
	assert_string_equal(finding.now,
		"for pid in 11 10 13 16; do prlimit --pid $pid --nofile=65536:65536; done");
	finding_release(&finding);
	limit_instances_clear(&instances);
}

LAB_TEST(the_cure_of_a_cgroup_whose_path_is_too_long_finds_it_by_its_inode)
{
	const struct limit_row *row = limits_rows;
	struct limit_instance instance = {
		.instance = {.kind = INSTANCE_CGROUP, .id = 4711}, .used = 70, .max = 70};
	struct finding finding = {0};

	while (!streq(row->name, "pids/cgroup"))
		row++;
	memset(instance.instance.name, 'a', sizeof(instance.instance.name) - 1);
	memcpy(instance.instance.name, "/sys/fs/cgroup/", 15);
	limits_cure_cgroup(&finding, row, &instance, &lab->input, lab->self);
	assert_string_equal(finding.now,
		"echo 140 > \"$(find /sys/fs/cgroup -xdev -type d -inum 4711)/pids.max\"");
	finding_release(&finding);
	memcpy(instance.instance.name, "/sys/fs/cgroup/pids/", 20);
	limits_cure_cgroup(&finding, row, &instance, &lab->input, lab->self);
	assert_string_equal(finding.now,
		"echo 140 > \"$(find /sys/fs/cgroup/pids -xdev -type d -inum 4711)/pids.max\"");
	finding_release(&finding);
}
