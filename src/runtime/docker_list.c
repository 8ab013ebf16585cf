/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/docker_internal.h"

#include "base/util.h"
#include "runtime/docker_parse.h"

#include <errno.h>

#define LIST_US   (10 * USEC_PER_SEC) /* a daemon with thousands of containers takes seconds */
#define LIST_MAX  (64u * 1024 * 1024) /* bytes */
#define ITEMS_MAX 5000

void listing_clear(struct listing *listing)
{
	fetch_cancel(listing->fetch);
	json_stream_clear(&listing->stream);
	free(listing->items);
	*listing = (struct listing){0};
}

static int begin(struct docker *docker, struct listing *listing, const char *path,
	fetch_data_fn *data, fetch_done_fn *done)
{
	struct fetch_request request = {.deadline_us = LIST_US,
		.limit = LIST_MAX,
		.data = data,
		.done = done,
		.userdata = listing};

	listing->docker = docker;
	listing->stream = (struct json_stream){.list = true, .max = DOCKER_OBJECT_MAX};
	return docker_request(docker, path, &request, &listing->fetch);
}

static int on_container(const char *text, size_t len, void *userdata)
{
	struct listing *listing = userdata;
	struct docker_container *list;
	int r;

	if (listing->n == ITEMS_MAX)
		return -E2BIG;
	r = grow_array(
		&listing->items, listing->n, &listing->allocated, sizeof(struct docker_container));
	if (r < 0)
		return r;
	list = listing->items;
	r = docker_parse_container(text, len, &list[listing->n]);
	if (r == 0)
		listing->n++;
	return r;
}

static int on_image(const char *text, size_t len, void *userdata)
{
	struct listing *listing = userdata;
	struct docker_image *list;
	int r;

	if (listing->n == ITEMS_MAX)
		return -E2BIG;
	r = grow_array(
		&listing->items, listing->n, &listing->allocated, sizeof(struct docker_image));
	if (r < 0)
		return r;
	list = listing->items;
	r = docker_parse_image(text, len, &list[listing->n]);
	if (r == 0)
		listing->n++;
	return r;
}

static int on_container_data(const char *data, size_t len, void *userdata)
{
	struct listing *listing = userdata;

	return json_stream_feed(&listing->stream, data, len, on_container, listing);
}

static int on_image_data(const char *data, size_t len, void *userdata)
{
	struct listing *listing = userdata;

	return json_stream_feed(&listing->stream, data, len, on_image, listing);
}

static int error_of(const struct listing *listing, const struct fetch_result *result)
{
	if (result->error < 0)
		return result->error;
	if (result->status != 200)
		return -EPROTO;
	return json_stream_is_whole(&listing->stream) ? 0 : -EBADMSG;
}

/* The listing is free again before its owner is called: so it may ask anew. */
static struct listing finish(struct listing *listing)
{
	struct listing finished = *listing;

	finished.fetch = NULL;
	*listing = (struct listing){0};
	return finished;
}

static void on_containers(const struct fetch_result *result, void *userdata)
{
	int error = error_of(userdata, result);
	struct listing listing = finish(userdata);

	listing.done.containers(error, listing.items, error < 0 ? 0 : listing.n, listing.userdata);
	listing_clear(&listing);
}

static void on_images(const struct fetch_result *result, void *userdata)
{
	int error = error_of(userdata, result);
	struct listing listing = finish(userdata);

	listing.done.images(error, listing.items, error < 0 ? 0 : listing.n, listing.userdata);
	listing_clear(&listing);
}

int docker_list_containers(struct docker *docker,
	void (*done)(int error, const struct docker_container *list, size_t n, void *userdata),
	void *userdata)
{
	if (docker->containers.fetch)
		return -EBUSY;
	docker->containers.done.containers = done;
	docker->containers.userdata = userdata;
	return begin(docker, &docker->containers, "/containers/json?all=1", on_container_data,
		on_containers);
}

int docker_list_images(struct docker *docker,
	void (*done)(int error, const struct docker_image *list, size_t n, void *userdata),
	void *userdata)
{
	if (docker->images.fetch)
		return -EBUSY;
	docker->images.done.images = done;
	docker->images.userdata = userdata;
	return begin(docker, &docker->images, "/images/json", on_image_data, on_images);
}
