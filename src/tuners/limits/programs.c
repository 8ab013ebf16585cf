/* SPDX-License-Identifier: Apache-2.0 */
/* The BPF programs that list what processes, open files and BPF maps use: loads and runs them. */
#include "tuners/limits/limits.h"

#include "base/file.h"
#include "kernel/bpf.h"
#include "kernel/host.h"

#include <sys/inotify.h>
#include <sys/socket.h>

#include <bpf/bpf.h>
#include <headroom/bpf/census.h>

#include "census.skel.h"
#include "maps.skel.h"

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
	object->bss->examples[CENSUS_SOCKET] = any;
	return bpf_prog_test_run_opts(bpf_program__fd(object->progs.learn), &options);
}

/* Keeps a descriptor when the object is closed, which saves its memory. */
static int keep(int descriptor, int *fd)
{
	*fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
	return *fd < 0 ? -errno : 0;
}

static int keep_link(struct bpf_program *program, int *fd)
{
	struct bpf_link *link = bpf_program__attach_iter(program, NULL);
	int r = link ? keep(bpf_link__fd(link), fd) : -errno;

	bpf_link__destroy(link);
	return r;
}

void census_close(struct census *census)
{
	for (int kind = 0; kind < PASSES; kind++)
		cleanup_close(&census->passes[kind]);
	cleanup_close(&census->lister);
	cleanup_close(&census->connections);
}

static void census_unload(void *programs)
{
	census_close(programs);
	free(programs);
}

static int load_maps(struct census *census)
{
	struct maps_bpf_object *object = maps_bpf_object__open_and_load();
	int r = object ? keep_link(object->progs.count_maps, &census->passes[OF_BPF]) : -errno;

	maps_bpf_object__destroy(object);
	return r;
}

static int census_load(const struct host *, void **programs, char[static TUNER_WHY_MAX])
{
	struct census_bpf_object *object = census_bpf_object__open();
	struct census *census = must(malloc(sizeof(*census)));
	bool counts_maps = bpf_kernel_has_function("bpf_map_sum_elem_count");
	int r = object ? 0 : -errno;

	*census = NO_CENSUS;
	if (r == 0)
		bpf_program__set_autoload(object->progs.list_maps, !counts_maps);
	if (r == 0)
		r = census_bpf_object__load(object);
	if (r == 0)
		r = keep_link(object->progs.census, &census->passes[OF_PROCESSES]);
	if (r == 0)
		r = learn_operations(object);
	if (r == 0)
		r = keep_link(object->progs.list_files, &census->passes[OF_FILES]);
	if (r == 0)
		r = keep(bpf_program__fd(object->progs.list_connections), &census->lister);
	if (r == 0)
		r = keep(bpf_map__fd(object->maps.connections), &census->connections);
	if (r == 0)
		census->maps_error =
			counts_maps ? load_maps(census)
				    : keep_link(object->progs.list_maps, &census->passes[OF_BPF]);
	census_bpf_object__destroy(object);
	*programs = census;
	if (r < 0)
		census_unload(steal(*programs));
	return r;
}

static void adopt_census(void *self, void *programs, const char *why)
{
	struct limits *limits = self;

	copy_text(limits->census_why, TUNER_WHY_MAX, why);
	if (programs)
		limits->census = *(struct census *)programs;
	if (limits->census.maps_error < 0)
		bpf_explain_failure(limits->census.maps_error, limits->maps_why, TUNER_WHY_MAX);
	free(programs);
}

const struct bpf_ops limits_census = {
	.load = census_load, .adopt = adopt_census, .unload = census_unload};

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

int census_each_connection(const struct census *census, census_visit *visit, void *userdata)
{
	_cleanup_free_ struct census_connections *list = must(calloc(1, sizeof(*list)));
	LIBBPF_OPTS(bpf_test_run_opts, options);
	const uint32_t only = 0;
	/* A pass that was cancelled can have left its place. */
	int r = bpf_map_update_elem(census->connections, &only, list, BPF_ANY);

	do {
		if (r == 0)
			r = bpf_prog_test_run_opts(census->lister, &options);
		if (r == 0)
			r = bpf_map_lookup_elem(census->connections, &only, list);
		for (uint32_t i = 0; r == 0 && i < list->n; i++)
			visit(userdata, &list->connections[i]);
	} while (r == 0 && list->next > 0);
	return r;
}
