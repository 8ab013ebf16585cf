/* SPDX-License-Identifier: Apache-2.0 */
#include "workload/cgroup.h"

#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <sys/stat.h>

#define HEX              "0123456789abcdefABCDEF"
#define LXD              "lxc.payload."
#define CONTAINER_ID_LEN 64
#define SHORT_ID_LEN     12
#define UID_LEN          36
#define STATIC_UID_LEN   32

static void set_workload(
	struct workload *workload, enum workload_kind kind, const char *name, const char *id)
{
	*workload = (struct workload){.kind = kind};
	copy_text(workload->name, sizeof(workload->name), name);
	copy_text(workload->id, sizeof(workload->id), id);
}

/*
 * "podUID" below kubepods, or "kubepods-burstable-podUID.slice" with '_' for '-'. A static pod's
 * uid is 32 hexadecimal digits without dashes.
 */
static bool take_pod(const char *component, struct workload *workload)
{
	const char *pod = strstr(component, "pod");
	char uid[UID_LEN + 1];
	size_t n;

	/* The pod of "kubepods" is not followed by a uid. */
	while (pod && !isxdigit((unsigned char)pod[3]))
		pod = strstr(pod + 3, "pod");
	if (!pod || (pod != component && pod[-1] != '-'))
		return false;
	n = strspn(pod + 3, HEX "-_");
	if ((n != STATIC_UID_LEN && n != UID_LEN) || (pod[3 + n] && pod[3 + n] != '.'))
		return false;
	copy_text(uid, n + 1, pod + 3);
	for (char *p = uid; *p; p++)
		*p = *p == '_' ? '-' : *p;
	set_workload(workload, WORKLOAD_POD, uid, uid);
	return true;
}

/* "docker-<64 hex>.scope", "cri-containerd-<64 hex>.scope", or the digits alone. */
static bool take_container(const char *component, struct workload *workload)
{
	const char *dash = strrchr(component, '-');
	const char *id = dash ? dash + 1 : component;
	char full[CONTAINER_ID_LEN + 1], brief[SHORT_ID_LEN + 1];

	if (strspn(id, HEX) != CONTAINER_ID_LEN || starts_with(component, "crio-conmon-") ||
		(id[CONTAINER_ID_LEN] && id[CONTAINER_ID_LEN] != '.'))
		return false;
	copy_text(full, sizeof(full), id);
	copy_text(brief, sizeof(brief), id);
	set_workload(workload, WORKLOAD_CONTAINER, brief, full);
	return true;
}

bool cgroup_workload(const char *path, struct workload *workload)
{
	bool in_kubepods = strstr(path, "kubepods") != NULL, found = false;
	char copy[PATH_MAX], *state = NULL;

	copy_text(copy, sizeof(copy), path);
	/* From the root down: the outermost owner is the one that people know. */
	for (char *part = strtok_r(copy, "/", &state); part && !found;
		part = strtok_r(NULL, "/", &state)) {
		size_t len = strlen(part);

		found = in_kubepods ? take_pod(part, workload) : take_container(part, workload);
		if (!found && starts_with(part, LXD) && part[strlen(LXD)]) {
			set_workload(workload, WORKLOAD_LXD, part + strlen(LXD), "");
			found = true;
		} else if (!found && len > 8 && streq(part + len - 8, ".service")) {
			set_workload(workload, WORKLOAD_UNIT, part, "");
			found = true;
		}
	}
	return found;
}

bool cgroup_file_workload(const char *text, struct workload *workload)
{
	bool found = false;

	/* hierarchy-ID:controllers:path, a line each: cgroups(7). */
	for (size_t len; *text; text += len + (text[len] == '\n')) {
		struct workload candidate;
		char line[PATH_MAX];
		const char *path;

		len = strcspn(text, "\n");
		snprintf(line, sizeof(line), "%.*s", (int)len, text);
		path = strchr(line, ':');
		path = path ? strchr(path + 1, ':') : NULL;
		/* A container's cgroup may lie below its runtime's unit. */
		if (!path || !cgroup_workload(path + 1, &candidate) ||
			(found && (workload->kind != WORKLOAD_UNIT ||
					  candidate.kind == WORKLOAD_UNIT)))
			continue;
		*workload = candidate;
		found = true;
	}
	return found;
}

/* The descriptor of a directory that is the host's root of cgroup2; else -1, and why. */
static int open_if_root(const struct host *host, const char *directory, char *why, size_t size)
{
	_cleanup_close_ int fd = -1;
	char full[PATH_MAX];
	struct stat st;

	if (!host_path(host, directory, full))
		return -1;
	fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		snprintf(why, size, "%.200s: %s: let the agent read the host's cgroup2", full,
			strerror(errno));
		return -1;
	}
	if (st.st_ino == CGROUP_ROOT_INODE)
		return steal_fd(&fd);
	snprintf(why, size,
		"%.180s is not the host's root of cgroup2 but a container's: mount the host's "
		"/sys/fs/cgroup, and give the agent the host's cgroup namespace",
		full);
	return -1;
}

int cgroup_root_open(const struct host *host, char *why, size_t size)
{
	/* With a host's root of its own the mounts are those of the host's first process. */
	const char *mounts = host->root[0] ? "/proc/1/mounts" : "/proc/self/mounts";
	const struct mntent *mount;
	char full[PATH_MAX];
	FILE *file;
	int fd = -1;

	snprintf(why, size, "no cgroup2 is mounted: mount -t cgroup2 none /sys/fs/cgroup/unified");
	if (!host_path(host, mounts, full))
		return -1;
	file = setmntent(full, "re");
	if (!file) {
		snprintf(why, size,
			"%.200s: %s: it tells where cgroup2 is mounted; mount the host's /proc",
			full, strerror(errno));
		return -1;
	}
	while (fd < 0 && (mount = getmntent(file)))
		if (streq(mount->mnt_type, "cgroup2"))
			fd = open_if_root(host, mount->mnt_dir, why, size);
	endmntent(file);
	return fd;
}
