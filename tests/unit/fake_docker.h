/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_FAKE_DOCKER_H
#define TESTS_UNIT_FAKE_DOCKER_H

/* A made-up Docker daemon on a unix socket, and a client of it, below a directory as the host's
 * root.
 */

#include "fake_http.h"

#include "runtime/docker_internal.h"
#include "runtime/fetch.h"

#define VERSION "{\"Version\":\"20.10.24+dfsg1\",\"ApiVersion\":\"1.41\",\"Os\":\"linux\"}"
#define INFO                                                                              \
	"{\"Driver\":\"overlay2\",\"DriverStatus\":[[\"Backing Filesystem\",\"extfs\"]]," \
	"\"DockerRootDir\":\"/var/lib/docker\",\"LiveRestoreEnabled\":true,"              \
	"\"Containers\":5,\"ContainersRunning\":3,\"Images\":7,"                          \
	"\"RegistryConfig\":{\"Mirrors\":[\"https://mirror.example/\"]}}"
#define RELOAD(n)                                                                               \
	"{\"Type\":\"daemon\",\"Action\":\"reload\",\"time\":1700000000,\"Actor\":{"            \
	"\"ID\":\"ABC\",\"Attributes\":{\"max-concurrent-downloads\":\"" #n "\","               \
	"\"live-restore\":\"false\",\"registry-mirrors\":\"[\\\"http://127.0.0.1:30020/\\\"]\"" \
	"}}}\n"

struct fake_docker {
	struct directory directory;
	struct fake_http http;
	sd_event *event;
	struct fetcher *fetcher;
	struct docker *docker;
	unsigned int changes, events;
	struct docker_event last;

	/* What it answers; NULL: as it should. Read by the server's threads. */
	_Atomic(const char *) version, info, past, live, containers, images, transfer;
	_Atomic(fake_http_fn *) misbehave; /* instead of all that */
	atomic_int live_fd;                /* of who listens now; -1: nobody */
};

static inline const char *or_else(const char *text, const char *otherwise)
{
	return text ? text : otherwise;
}

/* The live events' connection stays until either side has had enough. */
static inline void fake_docker_listen(struct fake_docker *fake, int fd)
{
	const char *live = atomic_load(&fake->live);

	fake_begin_chunks(fd);
	if (live)
		fake_chunk(fd, live);
	atomic_store(&fake->live_fd, fd);
	fake_wait(fd);
	atomic_store(&fake->live_fd, -1);
}

/* The body is read first: who closes a socket with unread bytes resets the other side. */
static inline void fake_docker_transfer(struct fake_docker *fake, int fd, const char *head)
{
	const char *length = strstr(head, "Content-Length: ");
	long left = length ? atol(length + strlen("Content-Length: ")) : 0;
	char bytes[4096];

	while (left > 0) {
		ssize_t n = recv(fd, bytes, (size_t)MIN(left, (long)sizeof(bytes)), 0);

		if (n <= 0)
			return;
		left -= n;
	}
	fake_reply(fd, 200, or_else(atomic_load(&fake->transfer), ""));
}

static inline void fake_docker_serve(int fd, const char *head, void *userdata)
{
	struct fake_docker *fake = userdata;
	fake_http_fn *misbehave = atomic_load(&fake->misbehave);

	if (misbehave)
		misbehave(fd, head, userdata);
	else if (starts_with(head, "GET /version "))
		fake_reply(fd, 200, or_else(atomic_load(&fake->version), VERSION));
	else if (starts_with(head, "GET /info "))
		fake_reply(fd, 200, or_else(atomic_load(&fake->info), INFO));
	else if (starts_with(head, "GET /events?") && strstr(head, "&until="))
		fake_reply(fd, 200, or_else(atomic_load(&fake->past), ""));
	else if (starts_with(head, "GET /events?"))
		fake_docker_listen(fake, fd);
	else if (starts_with(head, "GET /containers/json?all=1 "))
		fake_reply(fd, 200, or_else(atomic_load(&fake->containers), "[]\n"));
	else if (starts_with(head, "GET /images/json "))
		fake_reply(fd, 200, or_else(atomic_load(&fake->images), "[]\n"));
	else if (starts_with(head, "POST /images/"))
		fake_docker_transfer(fake, fd, head);
	else
		fake_reply(fd, 404, "{\"message\":\"page not found\"}");
}

static inline void fake_docker_changed(void *userdata)
{
	((struct fake_docker *)userdata)->changes++;
}

static inline void fake_docker_event(const struct docker_event *event, void *userdata)
{
	struct fake_docker *fake = userdata;

	fake->events++;
	fake->last = *event;
}

static inline void fake_docker_begin(struct fake_docker *fake)
{
	char path[PATH_MAX];

	directory_path(&fake->directory, "/run/docker.sock", path);
	unlink(path);
	directory_put(&fake->directory, "/run/docker.pid", "999999999"); /* of nobody here */
	fake_http_start_unix(&fake->http, path, fake_docker_serve, fake);
}

static inline void fake_docker_open_client(struct fake_docker *fake)
{
	const struct docker_options options = {.host_root = fake->directory.path,
		.changed = fake_docker_changed,
		.event = fake_docker_event,
		.userdata = fake};

	assert_int_equal(docker_open(fake->event, fake->fetcher, &options, &fake->docker), 0);
}

/* Without a socket so far: fake_docker_begin makes it. */
static inline void fake_docker_open(struct fake_docker *fake)
{
	memset(fake, 0, sizeof(*fake));
	fake->http.fd = -1;
	atomic_store(&fake->live_fd, -1);
	directory_make(&fake->directory);
	directory_put(&fake->directory, "/run/keep", "");
	assert_int_equal(sd_event_new(&fake->event), 0);
	assert_int_equal(fetcher_open(fake->event, &fake->fetcher), 0);
}

/* Has the client look now, not at its next turn. */
static inline void fake_docker_look(struct fake_docker *fake)
{
	fake->docker->info_due = true;
	if (fake->docker->look)
		return;
	assert_true(sd_event_source_set_time_relative(fake->docker->timer, 0) >= 0);
	assert_true(sd_event_source_set_enabled(fake->docker->timer, SD_EVENT_ONESHOT) >= 0);
}

/* Both running, and the first look over. */
static inline void fake_docker_start(struct fake_docker *fake)
{
	fake_docker_open(fake);
	fake_docker_begin(fake);
	fake_docker_open_client(fake);
	run_until(fake->event, docker_settled(fake->docker));
}

static inline void fake_docker_close(struct fake_docker *fake)
{
	docker_close(fake->docker);
	fetcher_close(fake->fetcher);
	sd_event_unref(fake->event);
	fake_http_stop(&fake->http);
	directory_remove(&fake->directory);
}

#define _cleanup_fake_docker_ __attribute__((cleanup(fake_docker_close)))

#endif
