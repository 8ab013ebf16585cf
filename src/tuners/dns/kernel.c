/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/dns.h"

#include "kernel/bpf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <bpf/bpf.h>

#include "dns.skel.h"

/* Copies of the skeleton's descriptors: the skeleton itself needs 250 kB of memory. */
enum kept {
	PAIRS,
	BUCKETS,
	CONTROL,
	INGRESS,
	EGRESS,
	INGRESS_LINK,
	EGRESS_LINK,
	KEPT,
};

struct dns_kernel {
	int fds[KEPT];
	struct dns_control *control; /* mapped */
	struct ring_buffer *ring;
	/* While dns_kernel_each_sample() runs. */
	dns_visit_sample *visit_sample;
	void *userdata;
};

static const struct dns_counts no_counts;

struct dns_control *dns_kernel_control(struct dns_kernel *kernel)
{
	return kernel->control;
}

static int on_sample(void *userdata, void *data, size_t size)
{
	const struct dns_kernel *kernel = userdata;

	if (size >= sizeof(struct dns_sample))
		kernel->visit_sample(kernel->userdata, data);
	return 0;
}

DEFINE_CLEANUP(struct dns_bpf_object, dns_bpf_object__destroy)

static int load_programs(struct dns_kernel *kernel)
{
	static const struct dns_pair other;
	_cleanup_(cleanup_dns_bpf_object__destroy) struct dns_bpf_object *object =
		dns_bpf_object__open_and_load();
	int *fds = kernel->fds;
	void *control;

	if (!object)
		return -errno;
	const int known[INGRESS_LINK] = {
		[PAIRS] = bpf_map__fd(object->maps.headroom_pairs),
		[BUCKETS] = bpf_map__fd(object->maps.buckets),
		[CONTROL] = bpf_map__fd(object->maps.bss),
		[INGRESS] = bpf_program__fd(object->progs.dns_ingress),
		[EGRESS] = bpf_program__fd(object->progs.dns_egress),
	};
	for (int i = 0; i < INGRESS_LINK; i++) {
		fds[i] = fcntl(known[i], F_DUPFD_CLOEXEC, 0);
		if (fds[i] < 0)
			return -errno;
	}
	control = mmap(NULL, sizeof(*kernel->control), PROT_READ | PROT_WRITE, MAP_SHARED,
		fds[CONTROL], 0);
	if (control == MAP_FAILED)
		return -errno;
	kernel->control = control;
	if (getrandom(&kernel->control->seed, sizeof(kernel->control->seed), 0) < 0)
		return -errno;
	if (bpf_map_update_elem(fds[PAIRS], &other, &no_counts, BPF_NOEXIST) < 0)
		return -errno;
	kernel->ring = ring_buffer__new(bpf_map__fd(object->maps.samples), on_sample, kernel, NULL);
	return kernel->ring ? 0 : -errno;
}

int dns_kernel_attach(
	struct dns_kernel *kernel, const struct host *host, char why[static TUNER_WHY_MAX])
{
	_cleanup_close_ int cgroup = cgroup_root_open(host, NULL, why, TUNER_WHY_MAX);
	int *links = &kernel->fds[INGRESS_LINK], r = 0;

	if (cgroup < 0)
		return -ENOENT;
	/* Answers first: a query that is counted must find its answer counted, too. */
	for (int i = 0; r >= 0 && i < 2; i++)
		if (links[i] < 0)
			r = links[i] = bpf_link_create(kernel->fds[INGRESS + i], cgroup,
				i == 0 ? BPF_CGROUP_INET_INGRESS : BPF_CGROUP_INET_EGRESS, NULL);
	r = MIN(r, 0);
	why[0] = '\0';
	if (r == -EPERM && capability_have(CAP_NET_ADMIN))
		snprintf(why, TUNER_WHY_MAX,
			"BPF: another program holds the root of the cgroups exclusively; "
			"`bpftool cgroup tree` shows it: attach it with the flag multi, or detach "
			"it, and counting begins");
	else if (r < 0)
		bpf_explain_failure(r, why, TUNER_WHY_MAX);
	return r;
}

struct dns_kernel *dns_kernel_load(char why[static TUNER_WHY_MAX])
{
	struct dns_kernel *kernel = must(calloc(1, sizeof(*kernel)));
	int r;

	memset(kernel->fds, 0xff, sizeof(kernel->fds));
	bpf_quiet_libbpf();
	r = load_programs(kernel);
	if (r == 0)
		return kernel;
	bpf_explain_failure(r, why, TUNER_WHY_MAX);
	dns_kernel_close(kernel);
	return NULL;
}

void dns_kernel_detach(struct dns_kernel *kernel)
{
	_cleanup_free_ void *empty = NULL;
	struct bpf_map_info info = {0};
	uint32_t size = sizeof(info);

	for (int *link = &kernel->fds[INGRESS_LINK]; link < &kernel->fds[KEPT]; link++)
		if (*link >= 0)
			close(steal_fd(link));
	if (bpf_obj_get_info_by_fd(kernel->fds[BUCKETS], &info, &size) < 0)
		return;
	empty = must(calloc(1, info.value_size));
	for (uint32_t i = 0; i < info.max_entries; i++)
		(void)bpf_map_update_elem(kernel->fds[BUCKETS], &i, empty, BPF_ANY);
}

void dns_kernel_close(struct dns_kernel *kernel)
{
	if (!kernel)
		return;
	ring_buffer__free(kernel->ring);
	if (kernel->control)
		munmap(kernel->control, sizeof(*kernel->control));
	for (int i = 0; i < KEPT; i++)
		if (kernel->fds[i] >= 0)
			close(kernel->fds[i]);
	free(kernel);
}

int dns_kernel_each_pair(struct dns_kernel *kernel, dns_visit_pair *visit, void *userdata)
{
	return bpf_each(kernel->fds[PAIRS], sizeof(struct dns_pair), sizeof(struct dns_counts),
		visit, userdata);
}

void dns_kernel_add_server(struct dns_kernel *kernel, const struct dns_address *server)
{
	struct dns_pair pair = {.server = *server};

	(void)bpf_map_update_elem(kernel->fds[PAIRS], &pair, &no_counts, BPF_NOEXIST);
}

bool dns_kernel_remove_pair(struct dns_kernel *kernel, const struct dns_pair *pair)
{
	return bpf_map_delete_elem(kernel->fds[PAIRS], pair) == 0;
}

void dns_kernel_each_sample(struct dns_kernel *kernel, dns_visit_sample *visit, void *userdata)
{
	kernel->visit_sample = visit;
	kernel->userdata = userdata;
	ring_buffer__consume(kernel->ring);
}
