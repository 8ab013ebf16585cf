/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/storage/storage.h"

#include "kernel/bpf.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "storage.skel.h"

/* The job that loads the BPF programs. The skeleton is closed: only descriptors stay. */

struct load {
	struct storage_bpf *bpf;
	char why[TUNER_WHY_MAX];
};

DEFINE_CLEANUP(struct storage_bpf_object, storage_bpf_object__destroy)

/* The order of storage_bpf.links. */
enum program { IO_COMPLETE, EXT4_ENTER, EXT4_EXIT, CALLS, PROGRAMS = CALLS + 4 };

static void list_programs(
	const struct storage_bpf_object *object, struct bpf_program *programs[static PROGRAMS])
{
	struct bpf_program *list[PROGRAMS] = {object->progs.io_complete, object->progs.ext4_enter,
		object->progs.ext4_exit, object->progs.fsync_enter, object->progs.fsync_exit,
		object->progs.fdatasync_enter, object->progs.fdatasync_exit};

	memcpy(programs, list, sizeof(list));
}

/* Returns 0 or -errno, and the object only if it was loaded. */
static int open_object(bool calls, struct storage_bpf_object **ret)
{
	_cleanup_(cleanup_storage_bpf_object__destroy) struct storage_bpf_object *object =
		storage_bpf_object__open();
	struct bpf_program *programs[PROGRAMS];
	int r = object ? 0 : -errno;

	if (object)
		list_programs(object, programs);
	for (int i = CALLS; i < PROGRAMS && r == 0; i++) {
#ifdef __aarch64__
		r = bpf_program__set_attach_target(programs[i], 0,
			i < CALLS + 2 ? "__arm64_sys_fsync" : "__arm64_sys_fdatasync");
#endif
		(void)bpf_program__set_autoload(programs[i], calls);
	}
	if (r == 0)
		r = storage_bpf_object__load(object);
	if (r == 0)
		*ret = steal(object);
	return r;
}

/* Attaches the programs from first to end, or none. */
static int attach(struct storage_bpf *bpf, struct bpf_program *const *programs, int first, int end)
{
	int r = 0;

	for (int i = first; i < end && r == 0; i++) {
		struct bpf_link *link = bpf_program__attach(programs[i]);

		r = link ? 0 : -errno;
		if (link)
			bpf->links[i] = fcntl(bpf_link__fd(link), F_DUPFD_CLOEXEC, 0);
		bpf_link__destroy(link);
	}
	for (int i = first; i < end && r < 0; i++)
		if (bpf->links[i] >= 0)
			close(steal_fd(&bpf->links[i]));
	return r;
}

static int load(struct storage_bpf *bpf)
{
	_cleanup_(cleanup_storage_bpf_object__destroy) struct storage_bpf_object *object = NULL;
	struct bpf_program *programs[PROGRAMS];
	int r;

	bpf->calls_error = open_object(true, &object);
	r = bpf->calls_error < 0 ? open_object(false, &object) : 0;
	if (r < 0)
		return r;
	bpf->ios = fcntl(bpf_map__fd(object->maps.ios), F_DUPFD_CLOEXEC, 0);
	bpf->syncs = fcntl(bpf_map__fd(object->maps.syncs), F_DUPFD_CLOEXEC, 0);
	bpf->control = mmap(NULL, sizeof(*bpf->control), PROT_READ | PROT_WRITE, MAP_SHARED,
		bpf_map__fd(object->maps.bss), 0);
	if (bpf->ios < 0 || bpf->syncs < 0 || bpf->control == MAP_FAILED)
		return -errno;
	list_programs(object, programs);
	r = attach(bpf, programs, IO_COMPLETE, EXT4_ENTER);
	bpf->ext4_error = attach(bpf, programs, EXT4_ENTER, CALLS);
	if (bpf->calls_error == 0)
		bpf->calls_error = attach(bpf, programs, CALLS, PROGRAMS);
	return r;
}

void storage_bpf_close(struct storage_bpf *bpf)
{
	if (!bpf)
		return;
	for (int i = 0; i < PROGRAMS; i++)
		cleanup_close(&bpf->links[i]);
	cleanup_close(&bpf->ios);
	cleanup_close(&bpf->syncs);
	if (bpf->control != MAP_FAILED)
		munmap(bpf->control, sizeof(*bpf->control));
	free(bpf);
}

void *storage_load_request(void *self, const void *, bool)
{
	struct storage *storage = self;
	struct load *load;

	if (storage->bpf || storage->why[0])
		return NULL;
	load = must(calloc(1, sizeof(*load)));
	strcpy(load->why, "no thread to load BPF programs");
	return load;
}

void storage_load(void *request, const struct wait *)
{
	struct storage_bpf *bpf = must(malloc(sizeof(*bpf)));
	struct load *job = request;
	int r;

	job->why[0] = '\0';
	*bpf = (struct storage_bpf){.ios = -1, .syncs = -1, .control = MAP_FAILED};
	memset(bpf->links, 0xff, sizeof(bpf->links));
	bpf_quiet_libbpf();
	r = load(bpf);
	if (r == 0) {
		job->bpf = bpf;
		return;
	}
	bpf_explain_failure(r, job->why, sizeof(job->why));
	storage_bpf_close(bpf);
}

void storage_load_adopt(void *self, void *request)
{
	struct storage *storage = self;
	struct load *load = request;

	if (storage) {
		storage->bpf = steal(load->bpf);
		set_text(storage->why, load->why);
	}
	storage_bpf_close(load->bpf);
	free(load);
}
