/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/limits/census.h"

#include "base/file.h"
#include "kernel/bpf.h"

#include <sys/inotify.h>
#include <sys/socket.h>

#include <bpf/bpf.h>

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

void census_load(void *request, const struct wait *)
{
	struct census_bpf_object *object;
	struct census *census = request;
	int r = 0;

	census->why[0] = '\0';
	bpf_quiet_libbpf();
	object = census_bpf_object__open_and_load();
	if (!object)
		r = -errno;
	if (r == 0)
		r = keep_link(object->progs.census, -1, &census->passes[OF_PROCESSES]);
	if (r == 0)
		r = learn_operations(object);
	if (r == 0)
		r = keep_link(object->progs.list_files, -1, &census->passes[OF_FILES]);
	if (r == 0)
		r = keep_link(object->progs.list_connections, bpf_map__fd(object->maps.slices),
			&census->connections);
	if (r < 0)
		bpf_explain_failure(r, census->why, sizeof(census->why));
	census_bpf_object__destroy(object);
}

void census_close(struct census *census)
{
	cleanup_close(&census->passes[OF_PROCESSES]);
	cleanup_close(&census->passes[OF_FILES]);
	cleanup_close(&census->connections);
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

/* ---- what a process or an open file adds to a row ---- */

bool census_count(
	const struct census_record *record, enum census_count count, struct limit_use *use)
{
	*use = (struct limit_use){.pid = record->pid};
	switch (count) {
	case COUNT_INOTIFY_INSTANCES:
	case COUNT_INOTIFY_WATCHES:
		use->key[0] = 1;
		use->key[1] = use->uid = record->uid;
		use->by_uid = true;
		use->used = count == COUNT_INOTIFY_WATCHES ? record->inotify_watches
							   : record->inotify_instances;
		return record->uid_counts;
	case COUNT_THREADS:
	case COUNT_OPEN_FILES:
		use->key[0] = record->cgroup;
		use->key[1] = record->pids_cgroup;
		use->adds = true;
		use->used = count == COUNT_THREADS ? record->threads : record->files;
		return record->cgroup || record->pids_cgroup;
	case COUNT_PIDS:
		use->key[0] = 2;
		use->key[1] = record->pids_limited;
		use->used = record->pids_used;
		use->max = record->pids_max;
		return record->pids_max > 0;
	case COUNT_MOUNTS:
		use->key[0] = 3;
		use->key[1] = record->mntns;
		use->used = record->mounts;
		break;
	case COUNT_MAPS:
		use->used = record->maps;
		break;
	case COUNT_PROCESS_FILES:
		use->used = record->files;
		use->max = MAX(record->files_max, (__u64)1);
		break;
	case COUNT_NOTHING:
		return false;
	}
	memcpy(use->comm, record->comm, sizeof(use->comm));
	return count == COUNT_MOUNTS ? record->mntns > 0 : use->used > 0;
}

bool census_count_file(
	const struct census_file *file, enum census_count_file count, struct limit_use *use)
{
	*use = (struct limit_use){.used = file->used, .pid = file->pid};
	switch (count) {
	case COUNT_FILE_INSTANCES:
	case COUNT_FILE_WATCHES:
	case COUNT_FILE_PTYS:
		use->key[0] = file->cgroup;
		use->key[1] = file->pids_cgroup;
		use->adds = true;
		use->used = count == COUNT_FILE_WATCHES ? file->used : 1;
		return file->kind == (count == COUNT_FILE_PTYS ? CENSUS_PTY : CENSUS_INOTIFY) &&
		       use->used > 0;
	case COUNT_FILE_LISTENERS:
		use->key[0] = 4;
		use->key[1] = file->file;
		use->max = MAX(file->max, 1U);
		use->port = file->port;
		return file->kind == CENSUS_LISTENER;
	case COUNT_FILE_PORTS:
		memcpy(use->key, file->address, sizeof(use->key));
		use->key[0] ^= file->netns;
		use->key[1] ^= (uint64_t)file->port << 32 | 5;
		use->used = 1;
		use->max = file->max;
		use->adds = use->is_remote = true;
		use->by_netns = !file->cgroup;
		use->family = file->family;
		use->port = file->port;
		memcpy(use->address, file->address, sizeof(use->address));
		return file->kind == CENSUS_CONNECTED;
	case COUNT_NO_FILES:
		break;
	}
	return false;
}
