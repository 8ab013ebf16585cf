/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

#include "kernel/bpf.h"

#include <errno.h>
#include <stdlib.h>

#include <bpf/bpf.h>

#include "neighbor.skel.h"

struct neighbor_bpf {
	struct neighbor_bpf_object *object;
};

struct neighbor_bpf *neighbor_bpf_open(char why[static TUNER_WHY_MAX])
{
	struct neighbor_bpf *bpf = calloc(1, sizeof(*bpf));
	int r = -ENOMEM;

	bpf_quiet_libbpf();
	if (bpf)
		bpf->object = neighbor_bpf_object__open_and_load();
	if (bpf && bpf->object)
		r = neighbor_bpf_object__attach(bpf->object);
	else if (bpf)
		r = -errno;
	if (r == 0)
		return bpf;
	bpf_explain_failure(r, why, TUNER_WHY_MAX);
	neighbor_bpf_close(bpf);
	return NULL;
}

const struct neighbor_record *neighbor_bpf_read(struct neighbor_bpf *bpf)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);

	/* Without a sample the records still count; only collectable is then not fresh. */
	if (bpf_prog_test_run_opts(bpf_program__fd(bpf->object->progs.sample), &options) < 0)
		bpf->object->bss->records[NEIGHBOR_IPV4].sampled =
			bpf->object->bss->records[NEIGHBOR_IPV6].sampled = 0;
	return bpf->object->bss->records;
}

void neighbor_bpf_close(struct neighbor_bpf *bpf)
{
	if (!bpf)
		return;
	neighbor_bpf_object__destroy(bpf->object);
	free(bpf);
}
