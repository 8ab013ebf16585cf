/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/limits/census.h"

#include "base/file.h"
#include "kernel/bpf.h"

#include <sys/inotify.h>
#include <sys/socket.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "census.skel.h"

/* ---- the programs ---- */

/* Shows the program a file of each kind. A container may lack /dev/ptmx. */
static int learn_operations(struct census_bpf_object *object)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);
	_cleanup_close_ int inotify = inotify_init1(IN_CLOEXEC);
	_cleanup_close_ int terminal = open("/dev/ptmx", O_RDONLY | O_NOCTTY | O_CLOEXEC);
	_cleanup_close_ int any = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	object->bss->examples[CENSUS_INOTIFY] = inotify;
	object->bss->examples[CENSUS_PTY] = terminal;
	object->bss->examples[CENSUS_LISTENER] = any;
	object->bss->examples[CENSUS_CONNECTED] = any;
	return bpf_prog_test_run_opts(bpf_program__fd(object->progs.learn), &options);
}

/* The iterators stay after the object is closed, which saves its memory. */
static int keep_link(struct bpf_program *program, int map, int *fd)
{
	union bpf_iter_link_info over = {.map.map_fd = (__u32)map};
	LIBBPF_OPTS(
		bpf_iter_attach_opts, options, .link_info = &over, .link_info_len = sizeof(over));
	struct bpf_link *link = bpf_program__attach_iter(program, map < 0 ? NULL : &options);

	if (!link)
		return -errno;
	*fd = fcntl(bpf_link__fd(link), F_DUPFD_CLOEXEC, 3);
	bpf_link__destroy(link);
	return *fd < 0 ? -errno : 0;
}

void census_load(struct census *census)
{
	struct census_bpf_object *object;
	int r = 0;

	census->processes = census->files = census->connections = -1;
	bpf_quiet_libbpf();
	object = census_bpf_object__open_and_load();
	if (!object)
		r = -errno;
	if (r == 0)
		r = keep_link(object->progs.census, -1, &census->processes);
	if (r == 0)
		r = learn_operations(object);
	if (r == 0)
		r = keep_link(object->progs.list_files, -1, &census->files);
	if (r == 0)
		r = keep_link(object->progs.list_connections, bpf_map__fd(object->maps.slices),
			&census->connections);
	if (r < 0)
		bpf_explain_failure(r, census->why, sizeof(census->why));
	census_bpf_object__destroy(object);
}

int census_each(int link, size_t size, census_visit *visit, void *userdata)
{
	_cleanup_close_ int fd = bpf_iter_create(link);
	_Alignas(8) char buffer[8192];
	size_t whole = sizeof(buffer) / size * size;
	ssize_t n;

	if (fd < 0)
		return -errno;
	/* EAGAIN: the iterator has passed a million files without a record. */
	while ((n = read(fd, buffer, whole)) != 0) {
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		for (ssize_t at = 0; at + (ssize_t)size <= n; at += (ssize_t)size)
			visit(userdata, buffer + at);
	}
	return 0;
}

/* ---- what a process says of each row ---- */

static bool of_uid(const struct census_record *record, struct limit_use *use, uint64_t used)
{
	*use = (struct limit_use){.key = {1, record->uid},
		.used = used,
		.pid = record->pid,
		.uid = record->uid,
		.by_uid = true};
	return record->uid_counts;
}

static bool of_process(
	const struct census_record *record, struct limit_use *use, uint64_t used, uint64_t max)
{
	*use = (struct limit_use){.used = used, .max = max, .pid = record->pid};
	memcpy(use->comm, record->comm, sizeof(use->comm));
	return used > 0;
}

static bool of_cgroup(const struct census_record *record, struct limit_use *use, uint64_t used)
{
	*use = (struct limit_use){.key = {record->cgroup, record->pids_cgroup},
		.used = used,
		.adds = true,
		.pid = record->pid};
	return record->cgroup || record->pids_cgroup;
}

bool count_inotify_instances(const struct census_record *record, struct limit_use *use)
{
	return of_uid(record, use, record->inotify_instances);
}

bool count_inotify_watches(const struct census_record *record, struct limit_use *use)
{
	return of_uid(record, use, record->inotify_watches);
}

bool count_threads(const struct census_record *record, struct limit_use *use)
{
	return of_cgroup(record, use, record->threads);
}

bool count_open_files(const struct census_record *record, struct limit_use *use)
{
	return of_cgroup(record, use, record->files);
}

bool count_pids(const struct census_record *record, struct limit_use *use)
{
	*use = (struct limit_use){.key = {2, record->pids_limited},
		.used = record->pids_used,
		.max = record->pids_max,
		.pid = record->pid};
	return record->pids_max > 0;
}

bool count_process_files(const struct census_record *record, struct limit_use *use)
{
	return of_process(record, use, record->files, MAX(record->files_max, (__u64)1));
}

bool count_maps(const struct census_record *record, struct limit_use *use)
{
	return of_process(record, use, record->maps, 0);
}

bool count_mounts(const struct census_record *record, struct limit_use *use)
{
	*use = (struct limit_use){
		.key = {3, record->mntns}, .used = record->mounts, .pid = record->pid};
	memcpy(use->comm, record->comm, sizeof(use->comm));
	return record->mntns > 0;
}

/* ---- what an open file says of each row ---- */

static bool of_file(
	const struct census_file *file, uint16_t kind, struct limit_use *use, uint64_t used)
{
	*use = (struct limit_use){.key = {file->cgroup, file->pids_cgroup},
		.used = used,
		.adds = true,
		.pid = file->pid};
	return file->kind == kind && used > 0;
}

bool file_instances(const struct census_file *file, struct limit_use *use)
{
	return of_file(file, CENSUS_INOTIFY, use, 1);
}

bool file_watches(const struct census_file *file, struct limit_use *use)
{
	return of_file(file, CENSUS_INOTIFY, use, file->used);
}

bool file_ptys(const struct census_file *file, struct limit_use *use)
{
	return of_file(file, CENSUS_PTY, use, 1);
}

bool file_listeners(const struct census_file *file, struct limit_use *use)
{
	*use = (struct limit_use){.key = {4, file->file},
		.used = file->used,
		.max = MAX(file->max, 1U),
		.pid = file->pid,
		.port = file->port};
	return file->kind == CENSUS_LISTENER;
}

bool file_ports(const struct census_file *file, struct limit_use *use)
{
	uint64_t high, low;

	memcpy(&high, file->address, sizeof(high));
	memcpy(&low, file->address + sizeof(high), sizeof(low));
	*use = (struct limit_use){
		.key = {high ^ file->netns, low ^ ((uint64_t)file->port << 32 | 5)},
		.used = 1,
		.max = file->max,
		.adds = true,
		.is_remote = true,
		.by_netns = !file->cgroup,
		.pid = file->pid,
		.family = file->family,
		.port = file->port};
	memcpy(use->address, file->address, sizeof(use->address));
	return file->kind == CENSUS_CONNECTED;
}
