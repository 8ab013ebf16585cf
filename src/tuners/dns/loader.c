/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/loader.h"

#include "base/cleanup.h"
#include "base/util.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>

struct dns_loader {
	const struct host *host;
	pthread_t thread;
	bool running;
	int fd; /* written by the thread when it is done */
	sd_event_source *source;
	struct dns_bpf *bpf; /* both the thread's, until it has ended */
	char why[TUNER_WHY_MAX];
	dns_loaded_fn *done;
	void *userdata;
};

static void *load(void *userdata)
{
	struct dns_loader *loader = userdata;
	uint64_t one = 1;

	loader->bpf = dns_bpf_open(loader->host, loader->why);
	/* What was tried before it worked is no reason. */
	if (loader->bpf)
		loader->why[0] = '\0';
	/* An eventfd that was never written before cannot be full. */
	(void)!write(loader->fd, &one, sizeof(one));
	return NULL;
}

static void join(struct dns_loader *loader)
{
	if (loader->running)
		pthread_join(loader->thread, NULL);
	loader->running = false;
}

static int on_loaded(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct dns_loader *loader = userdata;

	(void)source;
	(void)fd;
	(void)events;
	join(loader);
	sd_event_source_set_enabled(loader->source, SD_EVENT_OFF);
	loader->done(steal(loader->bpf), loader->why, loader->userdata);
	return 0;
}

int dns_loader_start(sd_event *event, const struct host *host, dns_loaded_fn *done, void *userdata,
	struct dns_loader **ret)
{
	struct dns_loader *loader = calloc(1, sizeof(*loader));
	int r;

	if (!loader)
		return -ENOMEM;
	*loader = (struct dns_loader){.host = host, .done = done, .userdata = userdata};
	loader->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = loader->fd < 0 ? -errno
			   : sd_event_add_io(event, &loader->source, loader->fd, EPOLLIN, on_loaded,
				     loader);
	if (r >= 0)
		r = -pthread_create(&loader->thread, NULL, load, loader);
	loader->running = r == 0;
	if (r < 0) {
		dns_loader_close(loader);
		return r;
	}
	*ret = loader;
	return 0;
}

void dns_loader_close(struct dns_loader *loader)
{
	if (!loader)
		return;
	join(loader);
	sd_event_source_disable_unref(loader->source);
	cleanup_close(&loader->fd);
	dns_bpf_close(loader->bpf);
	free(loader);
}
