/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_DOCKER_INTERNAL_H
#define RUNTIME_DOCKER_INTERNAL_H

/* Shared by docker.c (the picture of the daemon), docker_list.c and docker_transfer.c. */

#include "runtime/docker.h"
#include "runtime/docker_process.h"
#include "runtime/fetch.h"
#include "runtime/json_stream.h"

#define DOCKER_OBJECT_MAX 262144 /* bytes of one object of a list or stream */

/* One list that is being asked for. */
struct listing {
	struct docker *docker;
	struct fetch *fetch; /* NULL: none under way */
	struct json_stream stream;
	void *items;
	size_t n, allocated;
	union {
		void (*containers)(
			int error, const struct docker_container *list, size_t n, void *userdata);
		void (*images)(
			int error, const struct docker_image *list, size_t n, void *userdata);
	} done;
	void *userdata;
};

struct docker {
	sd_event *event;
	struct fetcher *fetcher;
	void (*changed)(void *userdata);
	void (*on_event)(const struct docker_event *event, void *userdata);
	void *userdata;
	struct docker_paths paths;

	struct docker_state state, told; /* now, and as changed() was last called for */
	bool settled, info_due;
	unsigned int looks;
	uint64_t retry_us; /* until the next look after a failure */
	sd_event_source *timer;
	struct fetch *look; /* the question of the look that is under way */
	struct json_stream past;
	uint64_t asked_us; /* CLOCK_REALTIME: events before are asked for, later ones listened to */

	struct fetch *listening; /* GET /events, for as long as it lasts */
	struct json_stream events;
	uint64_t listening_since_us;
	dev_t socket_dev; /* of the socket that is listened to */
	ino_t socket_ino;

	struct listing containers, images;
	struct docker_transfer *transfers;
};

/* Begins a request to the daemon; url_path is trusted. As fetch_start, request's socket and URL are
 * set here.
 */
int docker_request(struct docker *docker, const char *url_path, struct fetch_request *request,
	struct fetch **fetch);

void listing_clear(struct listing *listing);

/* Abandons all transfers. */
void docker_transfers_clear(struct docker *docker);

#endif
