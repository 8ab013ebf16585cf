/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/storage/storage.h"

#include "base/file.h"
#include "base/text.h"

#include <fnmatch.h>
#include <sys/sysmacros.h>

/* Finds the kind of a disk through partitions, dm, md and loop devices. */

const char *const storage_kind_names[STORAGE_KINDS] = {
	[STORAGE_UNKNOWN] = "unknown",
	[STORAGE_LOCAL] = "local",
	[STORAGE_ROTATING] = "rotating",
	[STORAGE_LOOP] = "loop",
	[STORAGE_NETWORK] = "network",
	[STORAGE_OVERLAY] = "overlay",
};

#define DEPTH_MAX 8 /* devices may be on devices this deep */

/*
 * The first row with a pattern that matches counts. `fact` says what to compare: the name, the
 * model, the SCSI vendor, the transport of NVMe, or the path in sysfs. A disk without a row is
 * local if its bus is that of a machine, and unknown elsewhere: a hypervisor's disk says nothing.
 */
enum fact { NAME, MODEL, VENDOR, TRANSPORT, PATH, FACTS };

static const struct {
	enum fact fact;
	const char *pattern; /* fnmatch(3) */
	enum storage_kind kind;
} rules[] = {
	{NAME, "rbd*", STORAGE_NETWORK},
	{NAME, "nbd*", STORAGE_NETWORK},
	{NAME, "drbd*", STORAGE_NETWORK},
	{TRANSPORT, "tcp", STORAGE_NETWORK},
	{TRANSPORT, "rdma", STORAGE_NETWORK},
	{TRANSPORT, "fc", STORAGE_NETWORK},
	{MODEL, "Amazon Elastic Block Store", STORAGE_NETWORK},
	{MODEL, "Amazon EC2 NVMe Instance Storage", STORAGE_LOCAL},
	{MODEL, "nvme_card-pd", STORAGE_NETWORK},
	{MODEL, "nvme_card*", STORAGE_LOCAL},
	{MODEL, "MSFT NVMe Accelerator v1.0", STORAGE_NETWORK},
	{MODEL, "Microsoft NVMe Direct Disk*", STORAGE_LOCAL},
	{MODEL, "Alibaba Cloud Elastic Block Storage", STORAGE_NETWORK},
	{MODEL, "PersistentDisk", STORAGE_NETWORK}, /* vendor Google */
	{MODEL, "EphemeralDisk", STORAGE_LOCAL},
	{PATH, "*/session[0-9]*", STORAGE_NETWORK}, /* iSCSI */
	{PATH, "*/rport-[0-9]*", STORAGE_NETWORK},  /* Fibre Channel */
	{PATH, "*/virtio[0-9]*", STORAGE_UNKNOWN},
	{VENDOR, "Msft", STORAGE_UNKNOWN}, /* remote and local alike */
	{VENDOR, "VMware*", STORAGE_UNKNOWN},
	{VENDOR, "QEMU", STORAGE_UNKNOWN},
	{MODEL, "QEMU *", STORAGE_UNKNOWN},
	{MODEL, "VBOX *", STORAGE_UNKNOWN},
	{NAME, "nvme*", STORAGE_LOCAL},
	{NAME, "mmcblk*", STORAGE_LOCAL},
	{NAME, "pmem*", STORAGE_LOCAL},
	{PATH, "*/ata[0-9]*", STORAGE_LOCAL},
	{PATH, "*/end_device-[0-9]*", STORAGE_LOCAL}, /* SAS */
	{PATH, "*/usb[0-9]*", STORAGE_LOCAL},
};

/* Types in mountinfo of file systems without a disk of this machine. */
static const struct {
	const char *type;
	enum storage_kind kind;
} types[] = {
	{"nfs", STORAGE_NETWORK},
	{"nfs4", STORAGE_NETWORK},
	{"cifs", STORAGE_NETWORK},
	{"smb3", STORAGE_NETWORK},
	{"ceph", STORAGE_NETWORK},
	{"9p", STORAGE_NETWORK},
	{"glusterfs", STORAGE_NETWORK},
	{"fuse.glusterfs", STORAGE_NETWORK},
	{"lustre", STORAGE_NETWORK},
	{"overlay", STORAGE_OVERLAY},
};

/* ---- mounts ---- */

bool storage_mount_find(const struct host *host, uint32_t number, struct mount *mount)
{
	_cleanup_fclose_ FILE *mounts = mounts_open(host->root);
	struct mount *next = must(malloc(sizeof(*next)));
	bool found = false, whole = false;

	/* Another mount may show a part of the file system only: prefer its root. */
	while (!whole && mounts_next(mounts, next)) {
		if (next->device != STORAGE_DEVICE(number))
			continue;
		whole = streq(next->root, "/");
		if (!found || whole)
			*mount = *next;
		found = true;
	}
	free(next);
	return found;
}

void storage_mount_types(const struct host *host, char *text, size_t size)
{
	/* The ext4 driver serves ext2 and ext3, too. Network file systems are seen by the calls. */
	static const char *const others[] = {"xfs", "btrfs", "f2fs", "bcachefs", "zfs"};
	_cleanup_fclose_ FILE *mounts = mounts_open(host->root);
	struct mount *mount = must(malloc(sizeof(*mount)));
	bool mounted[ARRAY_SIZE(others)] = {0};

	text[0] = '\0';
	while (mounts_next(mounts, mount))
		for (size_t i = 0; i < ARRAY_SIZE(others); i++)
			mounted[i] |= streq(mount->type, others[i]);
	free(mount);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (mounted[i])
			text_append(text, size, "%s%s", text[0] ? ", " : "", others[i]);
}

/* ---- disks ---- */

/* Reads a line below a directory of sysfs; empty without the file. */
static void read_line(const char *directory, const char *name, char *text, size_t size)
{
	_cleanup_free_ char *read = NULL;
	char path[PATH_MAX + 64];

	text[0] = '\0';
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (read_file(path, 4096, &read, NULL) < 0)
		return;
	text_fold_blanks(read);
	copy_text(text, size, read);
	text_make_printable(text);
}

/* Reads the selected word of "mq-deadline kyber [none]". */
static void read_scheduler(const char *directory, char *scheduler, size_t size)
{
	char text[128], *open, *close;

	read_line(directory, "queue/scheduler", text, sizeof(text));
	open = strchr(text, '[');
	close = open ? strchr(open, ']') : NULL;
	if (close)
		*close = '\0';
	copy_text(scheduler, size, open ? open + 1 : text);
}

static enum storage_kind kind_of(const char *directory, const char *name, const char *model)
{
	char vendor[32], transport[16], rotational[8];
	const char *facts[FACTS] = {name, model, vendor, transport, directory};
	enum storage_kind kind = STORAGE_UNKNOWN;

	read_line(directory, "device/vendor", vendor, sizeof(vendor));
	read_line(directory, "device/transport", transport, sizeof(transport));
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (fnmatch(rules[i].pattern, facts[rules[i].fact], 0) == 0) {
			kind = rules[i].kind;
			break;
		}
	read_line(directory, "queue/rotational", rotational, sizeof(rotational));
	/* One SSD of a hypervisor calls itself rotating. */
	return kind == STORAGE_LOCAL && streq(rotational, "1") ? STORAGE_ROTATING : kind;
}

/*
 * The head of NVMe multipath lacks a transport. Its controllers, in the same subsystem, have one.
 */
static enum storage_kind kind_of_paths(const char *directory)
{
	_cleanup_(cleanup_closedir) DIR *paths = NULL;
	const struct dirent *entry;
	char parent[PATH_MAX], path[2 * PATH_MAX], transport[16];

	snprintf(parent, sizeof(parent), "%s/device", directory);
	paths = opendir(parent);
	while (paths && (entry = readdir(paths))) {
		if (fnmatch("nvme[0-9]*", entry->d_name, 0) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", parent, entry->d_name);
		read_line(path, "transport", transport, sizeof(transport));
		if (transport[0] && !streq(transport, "pcie"))
			return STORAGE_NETWORK;
	}
	return STORAGE_UNKNOWN;
}

static void read_disk(char *directory, unsigned depth, struct storage_disk *disk);

/* Reads the disks below a device of dm or md. False for a disk. */
static bool read_slaves(const char *directory, unsigned depth, struct storage_disk *disk)
{
	_cleanup_(cleanup_closedir) DIR *slaves = NULL;
	struct storage_disk *first = must(calloc(2, sizeof(*first))), *slave = first + 1;
	const struct dirent *entry;
	char path[PATH_MAX + NAME_MAX], real[PATH_MAX];
	unsigned n = 0;

	snprintf(path, sizeof(path), "%s/slaves", directory);
	slaves = opendir(path);
	while (slaves && depth > 0 && (entry = readdir(slaves))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/slaves/%s", directory, entry->d_name);
		*slave = (struct storage_disk){0};
		if (!realpath(path, real))
			continue;
		read_disk(real, depth - 1, slave);
		if (n++ == 0) {
			*first = *slave;
			continue;
		}
		/* The sync waits for the slowest of several; they share the name of the whole. */
		for (unsigned i = 0; i < slave->n_below && first->n_below < STORAGE_BELOW_MAX; i++)
			first->below[first->n_below++] = slave->below[i];
		first->kind = MIN(first->kind, slave->kind) == STORAGE_UNKNOWN &&
					      MAX(first->kind, slave->kind) == STORAGE_LOCAL
				      ? STORAGE_UNKNOWN
				      : MAX(first->kind, slave->kind);
		set_text(first->name, disk->name);
	}
	if (n > 0)
		*disk = *first;
	free(first);
	return n > 0;
}

/* Reads the device of a directory in sysfs, whose path it changes. */
static void read_disk(char *directory, unsigned depth, struct storage_disk *disk)
{
	char path[PATH_MAX + 32], sectors[8], number[32], *last;
	unsigned major_number = 0, minor_number = 0;

	snprintf(path, sizeof(path), "%s/partition", directory);
	if (access(path, F_OK) == 0)
		*strrchr(directory, '/') = '\0';
	last = strrchr(directory, '/');
	set_text(disk->name, last ? last + 1 : directory);
	/* A detached loop device stays, with a size of 0. */
	read_line(directory, "size", sectors, sizeof(sectors));
	disk->exists = !streq(sectors, "0");
	if (read_slaves(directory, depth, disk))
		return;
	read_line(directory, "dev", number, sizeof(number));
	(void)sscanf(number, "%u:%u", &major_number, &minor_number);
	disk->below[0] = STORAGE_NUMBER(makedev(major_number, minor_number));
	disk->n_below = 1;
	read_line(directory, "device/model", disk->model, sizeof(disk->model));
	read_scheduler(directory, disk->scheduler, sizeof(disk->scheduler));
	snprintf(path, sizeof(path), "%s/loop/backing_file", directory);
	if (access(path, F_OK) == 0) {
		disk->kind = STORAGE_LOOP;
		return;
	}
	disk->kind = kind_of(directory, disk->name, disk->model);
	if (disk->kind == STORAGE_LOCAL && starts_with(disk->name, "nvme"))
		disk->kind = MAX(disk->kind, kind_of_paths(directory));
}

/* Reads a file system that is not on one block device: btrfs, overlay, NFS. */
static void read_filesystem(const struct host *host, uint32_t number, struct storage_disk *disk)
{
	struct mount *mount = must(calloc(1, sizeof(*mount)));
	char path[PATH_MAX], full[PATH_MAX], real[PATH_MAX];

	disk->exists = storage_mount_find(host, number, mount);
	set_text(disk->name, mount->type);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (streq(types[i].type, mount->type))
			disk->kind = types[i].kind;
	disk->memory = !disk->exists || streq(mount->type, "tmpfs") ||
		       streq(mount->type, "ramfs") || streq(mount->type, "devtmpfs");
	/* btrfs: the first of its devices. */
	snprintf(path, sizeof(path), "/sys/class/block/%s",
		strrchr(mount->source, '/') ? strrchr(mount->source, '/') + 1 : "");
	if (starts_with(mount->source, "/dev/") && realpath(host_path(host, path, full), real))
		read_disk(real, DEPTH_MAX, disk);
	free(mount);
}

void storage_disk_read(
	const struct host *host, uint32_t number, const char *name, struct storage_disk *disk)
{
	char path[64], full[PATH_MAX], real[PATH_MAX];

	*disk = (struct storage_disk){0};
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(STORAGE_DEVICE(number)),
		minor(STORAGE_DEVICE(number)));
	if (realpath(host_path(host, path, full), real)) {
		read_disk(real, DEPTH_MAX, disk);
		return;
	}
	/* The paths of NVMe multipath have a name only. In sysfs, a slash is '!'. */
	snprintf(path, sizeof(path), "/sys/block/%s", name);
	for (char *p = path + strlen("/sys/block/"); *p; p++)
		*p = *p == '/' ? '!' : *p;
	if (name[0] && realpath(host_path(host, path, full), real)) {
		read_disk(real, DEPTH_MAX, disk);
		disk->below[0] = number;
	} else if (name[0]) {
		set_text(disk->name, name);
	} else if (number >> 20 == 0) {
		read_filesystem(host, number, disk);
	}
}
