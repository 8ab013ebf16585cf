/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/file.h"
#include "base/util.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MOUNTINFO_MAX (4 * 1024 * 1024)

/* By the field that mountinfo has for it: file systems whose blocks are elsewhere. */
static const char *const network_filesystems[] = {
	"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "glusterfs", "fuse.glusterfs", "lustre", NULL};

/* The type that /proc/self/mountinfo has for a device: proc_pid_mountinfo(5). */
static void find_filesystem(struct runtime_store *store)
{
	_cleanup_free_ char *text = NULL;
	char wanted[32], *state = NULL;

	store->filesystem[0] = '\0';
	store->network = false;
	if (read_file("/proc/self/mountinfo", MOUNTINFO_MAX, &text, NULL) < 0)
		return;
	snprintf(wanted, sizeof(wanted), "%u:%u", major(store->number), minor(store->number));
	for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
		const char *separator = strstr(line, " - ");
		char number[32];

		if (!separator || sscanf(line, "%*d %*d %31s", number) != 1 ||
			!streq(number, wanted))
			continue;
		(void)sscanf(separator + 3, "%31s", store->filesystem);
		break;
	}
	for (const char *const *name = network_filesystems; *name; name++)
		store->network = store->network || streq(*name, store->filesystem);
}

/* A partition has no queue of its own: its disk's counts. */
static void find_device(const struct host *host, struct runtime_store *store)
{
	char link[64], full[PATH_MAX], real[PATH_MAX], path[PATH_MAX + 32];
	_cleanup_free_ char *text = NULL;

	store->device[0] = '\0';
	store->rotational = false;
	snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(store->number),
		minor(store->number));
	if (!host_path(host, link, full) || !realpath(full, real))
		return;
	snprintf(path, sizeof(path), "%s/partition", real);
	copy_text(store->device, sizeof(store->device), strrchr(real, '/') + 1);
	if (access(path, F_OK) == 0)
		*strrchr(real, '/') = '\0';
	snprintf(path, sizeof(path), "%s/queue/rotational", real);
	if (read_file(path, 16, &text, NULL) == 0)
		store->rotational = text[0] == '1';
}

void runtime_sample_store(const struct host *host, struct runtime_store *store)
{
	char full[PATH_MAX];
	struct statvfs fs;
	struct stat st;

	store->known = store->directory[0] &&
		       path_in_root(host->root, store->directory, full) == 0 &&
		       stat(full, &st) == 0 && statvfs(full, &fs) == 0 && fs.f_blocks > 0;
	if (!store->known)
		return;
	store->size = (uint64_t)fs.f_blocks * fs.f_frsize;
	store->used = store->size - (uint64_t)fs.f_bavail * fs.f_frsize;
	/* mountinfo has thousands of lines on some nodes, and the device rarely changes. */
	if (store->number == st.st_dev && store->filesystem[0])
		return;
	store->number = st.st_dev;
	find_filesystem(store);
	find_device(host, store);
}
