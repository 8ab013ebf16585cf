/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/loader.h"

#include "base/cleanup.h"
#include "base/job.h"

#include <errno.h>
#include <stdlib.h>

struct dns_loader {
	const struct host *host;
	struct job *job;
	struct dns_bpf *bpf; /* both the thread's, until it has ended */
	char why[TUNER_WHY_MAX];
	dns_loaded_fn *done;
	void *userdata;
};

static int load(void *argument)
{
	struct dns_loader *loader = argument;

	loader->bpf = dns_bpf_open(loader->host, loader->why);
	/* What was tried before it worked is no reason. */
	if (loader->bpf)
		loader->why[0] = '\0';
	return 0;
}

static void on_loaded(int result, void *userdata)
{
	struct dns_loader *loader = userdata;

	(void)result;
	loader->done(steal(loader->bpf), loader->why, loader->userdata);
}

int dns_loader_start(sd_event *event, const struct host *host, dns_loaded_fn *done, void *userdata,
	struct dns_loader **ret)
{
	struct dns_loader *loader = calloc(1, sizeof(*loader));
	int r;

	if (!loader)
		return -ENOMEM;
	*loader = (struct dns_loader){.host = host, .done = done, .userdata = userdata};
	r = job_start(event, &loader->job, load, loader, on_loaded, loader);
	if (r < 0) {
		free(loader);
		return r;
	}
	*ret = loader;
	return 0;
}

void dns_loader_close(struct dns_loader *loader)
{
	if (!loader)
		return;
	job_finish(&loader->job);
	dns_bpf_close(loader->bpf);
	free(loader);
}
