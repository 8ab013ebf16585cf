/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "workload/cgroup.h"

#define UID    "0f5c9a1e-7b3d-4c8a-9e2f-1a2b3c4d5e6f"
#define UID_   "0f5c9a1e_7b3d_4c8a_9e2f_1a2b3c4d5e6f"
#define STATIC "8b6c1f0e4d3a29785766554433221100" /* a static pod's: 32 digits, no dashes */
#define ID12   "3f4e5d6c7b8a"
#define ID     ID12 "9900aabbccddeeff00112233445566778899aabbccddeeff0011"

/* Fits no workload: what was not written must stay. */
#define UNTOUCHED ((enum workload_kind)77)

struct example {
	const char *path;
	enum workload_kind kind; /* UNTOUCHED: tells nothing */
	const char *name, *id;
};

static const struct example examples[] = {
	/* Kubernetes with the cgroupfs driver: Guaranteed pods lack the level of their class. */
	{"/kubepods/besteffort/pod" UID "/" ID, WORKLOAD_POD, UID, UID},
	{"/kubepods/burstable/pod" UID "/" ID, WORKLOAD_POD, UID, UID},
	{"/kubepods/pod" UID "/" ID, WORKLOAD_POD, UID, UID},
	{"/kubepods/pod" UID, WORKLOAD_POD, UID, UID},
	{"/kubepods/burstable/pod" STATIC "/" ID, WORKLOAD_POD, STATIC, STATIC},
	{"/k8s.io/kubepods/burstable/pod" UID "/" ID, WORKLOAD_POD, UID, UID},
	/* With the systemd driver. */
	{"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
	 ".slice/cri-containerd-" ID ".scope",
		WORKLOAD_POD, UID, UID},
	{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/docker-" ID
	 ".scope",
		WORKLOAD_POD, UID, UID},
	{"/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope", WORKLOAD_POD, UID, UID},
	{"/kubepods.slice/kubepods-pod" UID_ ".slice", WORKLOAD_POD, UID, UID},
	{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" STATIC
	 ".slice/cri-containerd-" ID ".scope",
		WORKLOAD_POD, STATIC, STATIC},
	/* kind, and the kubelet's --cgroup-root. */
	{"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
	 "kubelet-kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope",
		WORKLOAD_POD, UID, UID},
	{"/docker/" ID "/kubelet/kubepods/besteffort/pod" UID "/" ID, WORKLOAD_POD, UID, UID},
	/* What a process of the pod made below. */
	{"/kubepods/burstable/pod" UID "/" ID "/init.scope/cron.service", WORKLOAD_POD, UID, UID},
	/* A cgroup namespace shows what lies above as "..". */
	{"/../../burstable/kubepods/pod" UID "/" ID, WORKLOAD_POD, UID, UID},
	{"/kubepods", UNTOUCHED, NULL, NULL},
	{"/kubepods.slice/kubepods-burstable.slice", UNTOUCHED, NULL, NULL},

	/* Containers without Kubernetes. */
	{"/docker/" ID, WORKLOAD_CONTAINER, ID12, ID},
	{"/system.slice/docker-" ID ".scope", WORKLOAD_CONTAINER, ID12, ID},
	{"/system.slice/cri-containerd-" ID ".scope", WORKLOAD_CONTAINER, ID12, ID},
	{"/default/" ID, WORKLOAD_CONTAINER, ID12, ID},
	{"/machine.slice/libpod-" ID ".scope/container", WORKLOAD_CONTAINER, ID12, ID},
	{"/docker/" ID "/system.slice/nginx.service", WORKLOAD_CONTAINER, ID12, ID},
	/* The monitor of a container is no container. */
	{"/machine.slice/crio-conmon-" ID ".scope", UNTOUCHED, NULL, NULL},

	/* LXD, and what runs inside of it. */
	{"/lxc.payload.web-1", WORKLOAD_LXD, "web-1", ""},
	{"/lxc.payload.web-1/system.slice/nginx.service", WORKLOAD_LXD, "web-1", ""},
	{"/lxc.payload.node/kubepods/besteffort/pod" UID "/" ID, WORKLOAD_LXD, "node", ""},
	{"/lxc.payload.", UNTOUCHED, NULL, NULL},
	{"/lxc.monitor.web-1", UNTOUCHED, NULL, NULL},

	/* systemd. */
	{"/system.slice/ssh.service", WORKLOAD_UNIT, "ssh.service", ""},
	{"/system.slice/system-getty.slice/getty@tty1.service", WORKLOAD_UNIT, "getty@tty1.service",
		""},
	{"/system.slice/containerd.service", WORKLOAD_UNIT, "containerd.service", ""},
	{"/user.slice/user-1000.slice/user@1000.service/app.slice/x.service", WORKLOAD_UNIT,
		"user@1000.service", ""},
	{"/user.slice/user-0.slice/session-1.scope", UNTOUCHED, NULL, NULL},
	{"/init.scope", UNTOUCHED, NULL, NULL},
	{"/system.slice/.service", UNTOUCHED, NULL, NULL},

	/* What looks like a pod or a container and is none. */
	{"", UNTOUCHED, NULL, NULL},
	{"/", UNTOUCHED, NULL, NULL},
	{"////", UNTOUCHED, NULL, NULL},
	{"/kubepods/pod", UNTOUCHED, NULL, NULL},
	{"/kubepods/pod1234", UNTOUCHED, NULL, NULL},
	{"/kubepods/tripod" UID, UNTOUCHED, NULL, NULL},
	{"/kubepods/podzzzzzzzz-7b3d-4c8a-9e2f-1a2b3c4d5e6f", UNTOUCHED, NULL, NULL},
	{"/kubepods/pod0f5c9a1e-7b3d-4c8a-9e2f-1a2b3c4\"}\n<b>", UNTOUCHED, NULL, NULL},
	{"/kubepods/pod" UID "-and-more", UNTOUCHED, NULL, NULL},
	{"/kubepods/pod" ID, UNTOUCHED, NULL, NULL},
	{"/pod" UID "/x", UNTOUCHED, NULL, NULL},
	{"/docker/" ID "00", UNTOUCHED, NULL, NULL},
	{"/docker/" ID12, UNTOUCHED, NULL, NULL},
	{"/docker-" ID "evil", UNTOUCHED, NULL, NULL},
};

static void check(bool found, const struct workload *workload, const struct example *example)
{
	if (found != (example->kind != UNTOUCHED) || workload->kind != example->kind)
		fail_msg("%s: %d, %s '%s'", example->path, found,
			found ? workload_kind_names[workload->kind] : "nothing", workload->name);
	if (!found) {
		assert_string_equal(workload->name, "untouched");
		return;
	}
	assert_string_equal(workload->name, example->name);
	assert_string_equal(workload->id, example->id);
	assert_string_equal(workload->namespace, "");
}

TEST(cgroup_paths_name_workloads)
{
	for (size_t i = 0; i < ARRAY_SIZE(examples); i++) {
		struct workload workload = {.kind = UNTOUCHED, .name = "untouched"};

		check(cgroup_workload(examples[i].path, &workload), &workload, &examples[i]);
	}
}

/* The same, as the only line of a process's file. */
TEST(lines_of_the_unified_hierarchy_name_workloads)
{
	for (size_t i = 0; i < ARRAY_SIZE(examples); i++) {
		struct workload workload = {.kind = UNTOUCHED, .name = "untouched"};
		char text[1024];

		if (strchr(examples[i].path, '\n'))
			continue;
		snprintf(text, sizeof(text), "0::%s\n", examples[i].path);
		check(cgroup_file_workload(text, &workload), &workload, &examples[i]);
	}
}

static const struct example several[] = {
	/* The first version of cgroups: a line for each hierarchy, and not all of them tell. */
	{"12:pids:/\n11:cpu,cpuacct:/kubepods/burstable/pod" UID "/" ID
	 "\n1:name=systemd:/\n0::/\n",
		WORKLOAD_POD, UID, UID},
	/* A unit is the weakest answer, wherever it stands. */
	{"2:pids:/system.slice/containerd.service\n1:cpu:/docker/" ID "\n", WORKLOAD_CONTAINER,
		ID12, ID},
	{"2:cpu:/docker/" ID "\n1:pids:/system.slice/containerd.service\n", WORKLOAD_CONTAINER,
		ID12, ID},
	{"1:pids:/a.service\n0::/b.service\n", WORKLOAD_UNIT, "a.service", ""},
	/* A colon may be in the path; the last line may lack its end. */
	{"0::/system.slice/a:b.service", WORKLOAD_UNIT, "a:b.service", ""},
	{"1:name=systemd:/lxc.payload.c1\n0::/\n", WORKLOAD_LXD, "c1", ""},
	{"", UNTOUCHED, NULL, NULL},
	{"\n\n\n", UNTOUCHED, NULL, NULL},
	{"0:", UNTOUCHED, NULL, NULL},
	{"0::", UNTOUCHED, NULL, NULL},
	{"0::\n", UNTOUCHED, NULL, NULL},
	{":::", UNTOUCHED, NULL, NULL},
	{"no colons at all\n", UNTOUCHED, NULL, NULL},
	/* The colons of one line are not those of the line before. */
	{"x\n0::/a.service\n", WORKLOAD_UNIT, "a.service", ""},
	{"0:\n/a.service:/b.service\n", UNTOUCHED, NULL, NULL},
};

TEST(the_most_specific_line_counts)
{
	for (size_t i = 0; i < ARRAY_SIZE(several); i++) {
		struct workload workload = {.kind = UNTOUCHED, .name = "untouched"};

		check(cgroup_file_workload(several[i].path, &workload), &workload, &several[i]);
	}
}

/* Anyone may make cgroups below his own, with names of up to 255 bytes. */
TEST(overlong_names_are_cut)
{
	static const char *const parts[] = {"/", "pod", "/pod", "-pod", "a", "/lxc.payload.",
		"x.service", "/" ID, "/kubepods-pod", "\xff\x01", "/podkubepods", "-"};
	size_t size = 100000;
	_cleanup_free_ char *text = malloc(size + 64);

	assert_non_null(text);
	for (size_t p = 0; p < ARRAY_SIZE(parts); p++) {
		struct workload workload = {0};
		size_t n = (size_t)sprintf(text, "0::/kubepods");

		while (n + strlen(parts[p]) < size)
			n += (size_t)sprintf(text + n, "%s", parts[p]);
		/* Whatever they say of it, their names end within their room. */
		cgroup_file_workload(text, &workload);
		cgroup_workload(text + 3, &workload);
		assert_true(memchr(workload.name, '\0', sizeof(workload.name)) != NULL);
		assert_true(memchr(workload.id, '\0', sizeof(workload.id)) != NULL);
	}
}

/* Pieces of all forms in any order, with all lengths of the digits: nothing is read or written
 * beyond. */
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
		if (cgroup_workload(text, &workload) && workload.kind == WORKLOAD_POD)
			assert_int_equal(strspn(workload.id, "0123456789abcdefABCDEF-"),
				strlen(workload.id));
	}
}
