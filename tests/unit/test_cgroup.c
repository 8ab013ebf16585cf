/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "workload/cgroup.h"

#define UID    "0f5c9a1e-7b3d-4c8a-9e2f-1a2b3c4d5e6f"
#define UID_   "0f5c9a1e_7b3d_4c8a_9e2f_1a2b3c4d5e6f"
#define STATIC "8b6c1f0e4d3a29785766554433221100" /* of a static pod: 32 digits without dashes */
#define ID12   "3f4e5d6c7b8a"
#define ID     ID12 "9900aabbccddeeff00112233445566778899aabbccddeeff0011"

struct example {
	enum workload_kind kind;
	const char *name, *id;
	const char *paths[20];
};

/* Each path of a row has its name and id; a row without a name has paths without a workload. */
static const struct example examples[] = {
	{WORKLOAD_POD, UID, UID,
		{/* The cgroupfs driver of Kubernetes: Guaranteed pods lack the level of their
		    class. */
			"/kubepods/besteffort/pod" UID "/" ID, "/kubepods/burstable/pod" UID "/" ID,
			"/kubepods/pod" UID "/" ID, "/kubepods/pod" UID,
			"/k8s.io/kubepods/burstable/pod" UID "/" ID,
			/* The systemd driver. */
			"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
			".slice/cri-containerd-" ID ".scope",
			"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
			".slice/docker-" ID ".scope",
			"/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope",
			"/kubepods.slice/kubepods-pod" UID_ ".slice",
			/* kind, and the kubelet's --cgroup-root. */
			"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
			"kubelet-kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope",
			"/docker/" ID "/kubelet/kubepods/besteffort/pod" UID "/" ID,
			/* A process of the pod created a cgroup below its own. */
			"/kubepods/burstable/pod" UID "/" ID "/init.scope/cron.service",
			/* A cgroup namespace shows higher levels as "..". */
			"/../../burstable/kubepods/pod" UID "/" ID}},
	{WORKLOAD_POD, STATIC, STATIC,
		{"/kubepods/burstable/pod" STATIC "/" ID,
			"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" STATIC
			".slice/cri-containerd-" ID ".scope"}},
	/* Containers without Kubernetes. */
	{WORKLOAD_CONTAINER, ID12, ID,
		{"/docker/" ID, "/system.slice/docker-" ID ".scope",
			"/system.slice/cri-containerd-" ID ".scope", "/default/" ID,
			"/machine.slice/libpod-" ID ".scope/container",
			"/docker/" ID "/system.slice/nginx.service"}},
	/* LXD, and units and pods inside a container. */
	{WORKLOAD_LXD, "web-1", "",
		{"/lxc.payload.web-1", "/lxc.payload.web-1/system.slice/nginx.service",
			"/lxc.payload.web-1/kubepods/besteffort/pod" UID "/" ID}},
	/* systemd. */
	{WORKLOAD_UNIT, "ssh.service", "", {"/system.slice/ssh.service"}},
	{WORKLOAD_UNIT, "getty@tty1.service", "",
		{"/system.slice/system-getty.slice/getty@tty1.service"}},
	{WORKLOAD_UNIT, "user@1000.service", "",
		{"/user.slice/user-1000.slice/user@1000.service/app.slice/x.service"}},
	{WORKLOAD_CONTAINER, ID12, ID,
		{"/user.slice/user-7.slice/user@7.service/user.slice/libpod-" ID ".scope/container",
			"/user.slice/user-7.slice/user@7.service/app.slice/docker.service/" ID}},
	{WORKLOAD_LXD, "web-1", "",
		{"/user.slice/user-7.slice/user@7.service/lxc.payload.web-1/init.scope"}},
	/* Similar paths; the monitor of a container is not part of it. */
	{0, NULL, NULL,
		{"/kubepods", "/kubepods.slice/kubepods-burstable.slice", "/kubepods/pod",
			"/kubepods/pod1234", "/kubepods/tripod" UID, "/kubepods/pod" ID,
			"/kubepods/podzzzzzzzz-7b3d-4c8a-9e2f-1a2b3c4d5e6f",
			"/kubepods/pod0f5c9a1e-7b3d-4c8a-9e2f-1a2b3c4\"}<b>",
			"/kubepods/pod" UID "-and-more", "/pod" UID "/x",
			"/machine.slice/crio-conmon-" ID ".scope", "/docker/" ID "00",
			"/docker/" ID12, "/docker-" ID "evil"}},
	{0, NULL, NULL,
		{"", "/", "////", "/lxc.payload.", "/lxc.monitor.web-1", "/init.scope",
			"/user.slice/user-0.slice/session-1.scope", "/system.slice/.service"}},
};

/* Texts of /proc/PID/cgroup. */
static const struct example several[] = {
	/* cgroups v1 has a line for each hierarchy, and not every line has a pod. */
	{WORKLOAD_POD, UID, UID,
		{"12:pids:/\n11:cpu,cpuacct:/kubepods/burstable/pod" UID "/" ID
		 "\n1:name=systemd:/\n0::/\n"}},
	/* A unit is the weakest answer, in any line. */
	{WORKLOAD_CONTAINER, ID12, ID,
		{"2:pids:/system.slice/containerd.service\n1:cpu:/docker/" ID "\n",
			"2:cpu:/docker/" ID "\n1:pids:/system.slice/containerd.service\n"}},
	/* The first unit counts; a line without colons is skipped. */
	{WORKLOAD_UNIT, "a.service", "",
		{"1:pids:/a.service\n0::/b.service\n", "x\n0::/a.service\n"}},
	/* A colon may be in the path; the last line may lack its end. */
	{WORKLOAD_UNIT, "a:b.service", "", {"0::/system.slice/a:b.service"}},
	{WORKLOAD_LXD, "c1", "", {"1:name=systemd:/lxc.payload.c1\n0::/\n"}},
	{0, NULL, NULL,
		{"", "\n\n\n", "0:", "0::", "0::\n", ":::", "no colons at all\n",
			"0:\n/a.service:/b.service\n"}},
};

static void check_examples(const struct example *rows, size_t n, const char *before)
{
	for (size_t i = 0; i < n; i++)
		for (const char *const *path = rows[i].paths; *path; path++) {
			struct workload found = {.name = "untouched"};
			char text[1024];

			snprintf(text, sizeof(text), "%s%s", before, *path);
			if (cgroup_file_workload(text, &found) != (rows[i].name != NULL) ||
				!streq(found.name, rows[i].name ? rows[i].name : "untouched"))
				fail_msg("%s: '%s'", *path, found.name);
			assert_int_equal(found.kind, rows[i].kind);
			assert_string_equal(found.id, rows[i].id ? rows[i].id : "");
			assert_string_equal(found.namespace, "");
		}
}

TEST(cgroup_paths_name_workloads)
{
	check_examples(examples, ARRAY_SIZE(examples), "0::");
}

TEST(the_most_specific_line_counts)
{
	check_examples(several, ARRAY_SIZE(several), "");
}

/* Random pieces of all forms: the parser stays within the text. */
TEST(garbage_names_no_workload)
{
	static const char *const pieces[] = {"/", "kubepods", "pod", "-", "_", ".slice", ".scope",
		".service", "lxc.payload.", "docker-", "crio-conmon-", "0", "abcdef", UID, UID_, ID,
		":", "\n", "0::/", ".", "\x80"};
	uint64_t seed = 42;

	for (unsigned round = 0; round < 20000; round++) {
		struct workload workload = {0};
		char text[2048] = "";
		size_t n = 0;

		for (unsigned i = 0; i < round % 20; i++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
			n += (size_t)sprintf(
				text + n, "%s", pieces[(seed >> 33) % ARRAY_SIZE(pieces)]);
		}
		if (cgroup_file_workload(text, &workload))
			assert_true(workload.name[0] != '\0');
		if (workload.kind == WORKLOAD_POD)
			assert_int_equal(strspn(workload.id, "0123456789abcdefABCDEF-"),
				strlen(workload.id));
	}
}

#define POD "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice"

/* A directory replaces the cgroup. Returns its inode. */
static uint64_t make_cgroup(const struct directory *directory, const char *path)
{
	struct path full = directory_at(directory, path);
	struct stat st;

	assert_int_equal(make_directories(full.text, 0755), 0);
	assert_int_equal(stat(full.text, &st), 0);
	return st.st_ino;
}

struct node {
	struct directory directory;
	struct cgroups *cgroups;
};

static void begin(struct node *node)
{
	directory_make(&node->directory);
	node->cgroups = node->directory.facts.cgroups;
	cgroups_set_root(node->cgroups, CGROUP_UNIFIED,
		open(node->directory.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static void end(struct node *node)
{
	directory_remove(&node->directory);
}

#define NODE_TEST(name) TEST_OF(node, node, begin, end, name)

NODE_TEST(paths_of_cgroups_are_workloads)
{
	static const struct {
		const char *path;
		enum workload_kind kind;
		const char *name, *id;
	} table[] = {
		{POD "/cri-containerd-aa.scope", WORKLOAD_POD, UID},
		{"/system.slice/ssh.service", WORKLOAD_UNIT, "ssh.service"},
		{"/user.slice/user-0.slice/session-3.scope", WORKLOAD_UNIT, "session-3.scope",
			"user-0.slice"},
		{"/lxc.payload.web/init.scope", WORKLOAD_LXD, "web"},
		{"/made/by/hand", WORKLOAD_UNIT, "/made/by/hand"},
	};
	uint64_t inodes[ARRAY_SIZE(table)];

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		inodes[i] = make_cgroup(&node->directory, table[i].path);
	assert_int_equal(cgroups_find(node->cgroups, inodes[0]).kind, WORKLOAD_UNIT);
	cgroups_learn(node->cgroups, inodes, ARRAY_SIZE(table), 1000);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct workload workload = cgroups_find(node->cgroups, inodes[i]);

		assert_int_equal(workload.kind, table[i].kind);
		assert_string_equal(workload.name, table[i].name);
		if (table[i].id)
			assert_string_equal(workload.id, table[i].id);
	}
}

NODE_TEST(a_cgroup_that_comes_later_is_found)
{
	uint64_t gone = 123456789, later, wanted[3];

	for (uint64_t now = 1; now < 20; now++)
		cgroups_learn(node->cgroups, &gone, 1, now * 100 * USEC_PER_SEC);
	assert_string_equal(cgroups_find(node->cgroups, gone).name, "cgroup 123456789");
	later = make_cgroup(&node->directory, "/system.slice/later.service");
	wanted[0] = wanted[1] = later; /* twice, and known once */
	wanted[2] = gone;
	cgroups_learn(node->cgroups, wanted, 3, 3000 * USEC_PER_SEC);
	assert_string_equal(cgroups_find(node->cgroups, later).name, "later.service");
}

static void put_stat(const struct directory *directory, unsigned start)
{
	char text[128];

	snprintf(text, sizeof(text),
		"77 (a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 %u 23", start);
	directory_put(directory, "/proc/77/stat", text);
}

NODE_TEST(a_process_counts_until_its_pid_is_reused)
{
	uint64_t inode = make_cgroup(&node->directory, POD);

	directory_put(&node->directory, POD "/cgroup.procs", "77\n78\n");
	put_stat(&node->directory, 300);
	assert_int_equal(cgroups_process(node->cgroups, inode), 0);
	cgroups_learn(node->cgroups, &inode, 1, USEC_PER_SEC);
	assert_int_equal(cgroups_process(node->cgroups, inode), 77);
	put_stat(&node->directory, 400);
	assert_int_equal(cgroups_process(node->cgroups, inode), 0);
}

/* A finding does not wait for the next walk, but a cgroup that no walk finds gets no second one. */
NODE_TEST(the_cgroup_of_a_finding_is_walked_for_at_once)
{
	uint64_t gone = 123456789, later, now = 3000 * USEC_PER_SEC;
	struct workload workload = cgroup_unknown(gone);

	cgroups_learn(node->cgroups, &gone, 1, now);
	later = make_cgroup(&node->directory, "/system.slice/later.service");
	cgroups_learn(node->cgroups, &gone, 1, now + 1);
	assert_false(names_of_cgroup(node->cgroups, gone, now + USEC_PER_SEC, &workload));
	assert_string_equal(workload.name, "cgroup 123456789");
	workload = cgroup_unknown(later);
	assert_true(names_of_cgroup(node->cgroups, later, now + USEC_PER_SEC, &workload));
	assert_string_equal(workload.name, "later.service");
	/* A name that is known stays. */
	assert_false(names_of_cgroup(node->cgroups, CGROUP_ROOT_INODE, now, &workload));
	workload = cgroup_unknown(CGROUP_ROOT_INODE);
	assert_true(names_of_cgroup(node->cgroups, CGROUP_ROOT_INODE, now, &workload));
	assert_int_equal(workload.kind, WORKLOAD_HOST);
}

/* The same inode is another cgroup in another hierarchy. */
NODE_TEST(hierarchies_have_cgroups_of_their_own)
{
	uint64_t unified = make_cgroup(&node->directory, "/unified/one.service"), wanted[2];
	struct path both = directory_at(&node->directory, "/unified/one.service");
	struct path pids = directory_at(&node->directory, "/pids");

	/* Without one, the cgroup is in cgroup2. */
	wanted[0] = unified;
	wanted[1] = cgroup_key(CGROUP_PIDS, unified);
	cgroups_learn(node->cgroups, wanted, 2, USEC_PER_SEC);
	assert_string_equal(cgroups_find(node->cgroups, wanted[1]).name, "one.service");
	/* A rename keeps the inode. */
	make_cgroup(&node->directory, "/pids");
	snprintf(pids.text, sizeof(pids.text), "%s/pids/two.service", node->directory.path);
	assert_int_equal(rename(both.text, pids.text), 0);
	pids = directory_at(&node->directory, "/pids");
	cgroups_set_root(
		node->cgroups, CGROUP_PIDS, open(pids.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	cgroups_learn(node->cgroups, wanted, 2, 100 * USEC_PER_SEC);
	assert_string_equal(cgroups_find(node->cgroups, wanted[0]).name, "one.service");
	assert_string_equal(cgroups_find(node->cgroups, wanted[1]).name, "two.service");
}

static struct name_entry entry(const char *id, const char *name, const char *address)
{
	struct name_entry made = {.workload = {.kind = WORKLOAD_POD, .namespace = "default"}};

	set_text(made.workload.id, id);
	set_text(made.workload.name, name);
	set_text(made.address, address);
	return made;
}

/* A source names ids of one letter. names_replace() owns the buffer afterwards. */
static void report_names(struct names *names, const char *source, const char *ids)
{
	struct name_entry *entries = calloc(strlen(ids), sizeof(*entries));
	char name[64];

	for (size_t i = 0; ids[i]; i++) {
		snprintf(name, sizeof(name), "%c-of-%s", ids[i], source);
		entries[i] = entry((const char[]){ids[i], '\0'}, name, "");
	}
	names_replace(names, source, entries, strlen(ids));
}

static void expect_name(const struct names *names, const char *id, const char *name)
{
	struct workload workload = entry(id, "unnamed", "").workload;

	assert_int_equal(names_apply(names, &workload), name != NULL);
	assert_string_equal(workload.name, name ? name : "unnamed");
}

TEST(a_source_replaces_only_its_own_names)
{
	struct names made = {0}, *names = &made;

	report_names(names, "one", "cab");
	report_names(names, "two", "z");
	expect_name(names, "a", "a-of-one");
	expect_name(names, "c", "c-of-one");
	expect_name(names, "z", "z-of-two");
	expect_name(names, "d", NULL);
	expect_name(names, "", NULL);
	expect_name(NULL, "a", NULL);
	report_names(names, "one", "e");
	expect_name(names, "e", "e-of-one");
	expect_name(names, "z", "z-of-two");
	free(made.entries);
}

/* Rows of pods that have ended are still shown. */
TEST(a_name_stays_when_its_source_forgets_it)
{
	struct names made = {0}, *names = &made;
	struct name_entry *one = calloc(1, sizeof(*one));
	struct workload workload;

	*one = entry("a", "a-of-one", "10.0.0.5");
	names_replace(names, "one", one, 1);
	report_names(names, "one", "b");
	expect_name(names, "a", "a-of-one");
	/* Another pod may have its address now. */
	assert_false(names_at_address(names, "10.0.0.5", &workload));
	names_replace(names, "one", NULL, 0);
	expect_name(names, "b", "b-of-one");
	/* Another runtime lists it. */
	report_names(names, "two", "ab");
	expect_name(names, "a", "a-of-two");
	assert_int_equal(names->n, 2);
	/* Memory is bounded: the oldest are forgotten. */
	for (unsigned i = 0; i < 1000; i++) {
		char id[16];

		one = calloc(1, sizeof(*one));
		snprintf(id, sizeof(id), "pod-%u", i);
		*one = entry(id, "web", "");
		names_replace(names, "one", one, 1);
	}
	assert_in_range(names->n, 100, 300);
	expect_name(names, "pod-998", "web");
	expect_name(names, "pod-1", NULL);
	expect_name(names, "a", "a-of-two");
	free(made.entries);
}

TEST(an_address_has_one_owner)
{
	struct names made = {0}, *names = &made;
	struct name_entry *entries = calloc(2, sizeof(*entries));
	struct workload workload;

	entries[0] = entry("uid-1", "coredns", "10.0.0.5");
	entries[1] = entry("uid-2", "on-the-host", "");
	names_replace(names, "one", entries, 2);
	assert_true(names_at_address(names, "10.0.0.5", &workload));
	assert_string_equal(workload.name, "coredns");
	assert_false(names_at_address(names, "10.0.0.6", &workload));
	assert_false(names_at_address(names, "", &workload));
	free(made.entries);
}
