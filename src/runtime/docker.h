/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_DOCKER_H
#define RUNTIME_DOCKER_H

/*
 * A client of the Docker Engine API over its unix socket. It keeps one picture of the daemon
 * (struct docker_state) by listening to the daemon's events, asks again every 10 s in case a
 * daemon hangs or a socket was replaced, and comes back by itself. It knows, it decides nothing.
 * It connects only while there is a pid file: where systemd listens on the socket, asking would
 * start a daemon that somebody has stopped. Without the file the error is -ESRCH: it does not run.
 * No credentials are read, sent or kept.
 *
 * API: docs.docker.com/engine/api, from 1.41 (Docker 20.10) on; paths without a version, so that
 * the daemon's own applies.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <systemd/sd-event.h>

#include "base/cleanup.h"
#include "base/wait.h"

#define DOCKER_SOCKET   "/run/docker.sock"        /* below the host's root, as all of these */
#define DOCKER_PID_FILE "/run/docker.pid"         /* /var/run is a link to /run */
#define DOCKER_CONFIG   "/etc/docker/daemon.json" /* unless dockerd was told another one */

#define DOCKER_ID_MAX      72  /* "sha256:" and 64 hexadecimal digits, or the digits alone */
#define DOCKER_NAME_MAX    256 /* of containers, labels' values and image references */
#define DOCKER_PATH_MAX    1024
#define DOCKER_WHY_MAX     256
#define DOCKER_MIRRORS_MAX 32
#define DOCKER_VALUE_MAX   128

#define DOCKER_MAX_DOWNLOADS_DEFAULT 3 /* dockerd's own (daemon/config/config.go) */

struct docker;
struct fetcher;

/* How the running max-concurrent-downloads is known: the API does not tell it. */
enum docker_source {
	DOCKER_SOURCE_NONE,    /* not known */
	DOCKER_SOURCE_RELOAD,  /* the daemon said so at its last reload */
	DOCKER_SOURCE_COMMAND, /* an option of the running dockerd: the same key in daemon.json
				  would refuse its next start ("specified both as a flag and in the
				  configuration file") */
	DOCKER_SOURCE_FILE,    /* daemon.json, not changed since the daemon started */
	DOCKER_SOURCE_DEFAULT, /* neither says anything, and did not when the daemon started */
};

struct docker_state {
	int error; /* 0: the daemon answers. Else -errno of why not; -EINPROGRESS before the first
		    */
	char why[DOCKER_WHY_MAX]; /* of an error, in words */
	uint64_t since_us;        /* CLOCK_MONOTONIC: reachable, or not, since then */

	/* All below as last told; kept while the daemon does not answer. */
	char version[64];     /* "20.10.24+dfsg1"; "" before the first answer */
	char api_version[16]; /* "1.41" */
	char storage_driver[64];
	char root_dir[DOCKER_PATH_MAX]; /* as the daemon has it: not below the host's root */
	/* Its containerd, where it tells (Docker 27.1 on) or its command line does; "" else. */
	char containerd[DOCKER_PATH_MAX];
	bool containerd_store; /* images are kept by containerd */
	bool live_restore;
	unsigned int containers, running, images;
	char mirrors[DOCKER_MIRRORS_MAX][DOCKER_NAME_MAX]; /* running; no slash at the end */
	size_t n_mirrors;

	unsigned int max_downloads; /* running; when source is not NONE. 0: no limit */
	enum docker_source source;
	/* What dockerd's command line has must not stand in daemon.json as well: see above. */
	bool max_downloads_on_command, mirrors_on_command;
	uint64_t reloads; /* reload events since docker_open */

	pid_t pid;           /* of dockerd in this process's PID namespace; 0: not known */
	uint64_t started_us; /* CLOCK_REALTIME; 0: not known */
	char config_path[DOCKER_PATH_MAX]; /* its daemon.json, below the host's root */
};

enum docker_event_kind {
	DOCKER_EVENT_RELOAD,            /* state has the new values already */
	DOCKER_EVENT_IMAGE_PULL,        /* a pull has ended well: name is the reference */
	DOCKER_EVENT_IMAGE_LOAD,        /* id */
	DOCKER_EVENT_IMAGE_OTHER,       /* tag, untag, delete, import */
	DOCKER_EVENT_CONTAINER_START,   /* id and name */
	DOCKER_EVENT_CONTAINER_GONE,    /* destroyed */
	DOCKER_EVENT_CONTAINER_RENAMED, /* name is the new one */
};

struct docker_event {
	enum docker_event_kind kind;
	char id[DOCKER_ID_MAX];
	char name[DOCKER_NAME_MAX];
	uint64_t when_us; /* CLOCK_REALTIME, whole seconds */
};

struct docker_options {
	const char *host_root;   /* "" for / */
	const char *socket_path; /* below it, as the next two; NULL: the defaults above */
	const char *pid_file;
	const char *config_path;

	/* Both may be NULL. Called from the loop; must not call docker_close. */
	void (*changed)(void *userdata); /* something in the state has changed */
	void (*event)(const struct docker_event *event, void *userdata);
	void *userdata;
};

/*
 * Starts looking at once. fetcher must outlive the client. 0, -ENAMETOOLONG (a socket's path has at
 * most 107 bytes), or -ENOMEM. That nobody listens is no error: the state tells it.
 */
int docker_open(sd_event *event, struct fetcher *fetcher, const struct docker_options *options,
	struct docker **docker);

void docker_close(struct docker *docker); /* NULL is fine */

const struct docker_state *docker_state(const struct docker *docker);

/* True when the first look is over, well or not: what a one-shot command waits for. */
bool docker_settled(const struct docker *docker);

struct docker_container {
	char id[DOCKER_ID_MAX];
	char name[DOCKER_NAME_MAX]; /* without the slash */
	char image[DOCKER_NAME_MAX];
	bool running;
	/* From its labels; "" without them. cri-dockerd's, then Compose's. */
	char pod_namespace[DOCKER_NAME_MAX], pod_name[DOCKER_NAME_MAX], pod_uid[64];
	char container_name[DOCKER_NAME_MAX]; /* in the pod; "POD" for a sandbox */
	char compose_project[DOCKER_NAME_MAX], compose_service[DOCKER_NAME_MAX];
};

struct docker_image {
	char id[DOCKER_ID_MAX];
	char name[DOCKER_NAME_MAX]; /* the first tag, else the first digest, else "" */
	uint64_t size;              /* bytes */
	uint64_t created_us;        /* CLOCK_REALTIME */
	unsigned int n_names;       /* tags and digests */
};

/*
 * Lists, also of what does not run. done is called once, from the loop; error is 0 or -errno, and
 * the array lasts as long as the call. One call of each kind at a time: -EBUSY. -ESRCH, -ENOMEM.
 */
int docker_list_containers(struct docker *docker,
	void (*done)(int error, const struct docker_container *list, size_t n, void *userdata),
	void *userdata);
int docker_list_images(struct docker *docker,
	void (*done)(int error, const struct docker_image *list, size_t n, void *userdata),
	void *userdata);

struct docker_transfer; /* a pull or a load under way */

/* What the daemon says of a layer (id) now; total 0: not known. */
struct docker_progress {
	char id[DOCKER_ID_MAX];
	char status[64];
	uint64_t current, total; /* bytes */
};

struct docker_transfer_options {
	uint64_t deadline_us; /* for the whole; 0: none */
	unsigned int idle_s;  /* seconds without a byte in either direction; 0: any */
	/* May be NULL. Must not cancel the transfer. */
	void (*progress)(const struct docker_progress *progress, void *userdata);
	/*
	 * Once, from the loop, unless cancelled. error 0: the daemon said at no point that it
	 * failed, although it answers 200 in any case. Else -errno: -ENOENT (no such image),
	 * -EACCES (the registry wants a login), -EDQUOT (the registry's rate limit, 429), -ENOSPC,
	 * -EIO (else), and why in the daemon's words.
	 */
	void (*done)(int error, const char *why, void *userdata);
	void *userdata;
};

/* Pulls by the daemon, without credentials: reference NAME[:TAG][@DIGEST]. 0, -EINVAL, -ESRCH,
 * -ENOMEM. */
int docker_pull(struct docker *docker, const char *reference,
	const struct docker_transfer_options *options, struct docker_transfer **transfer);

/* Loads an archive (docker save) from fd, which the caller keeps open until done. 0, -ESRCH,
 * -ENOMEM.
 */
int docker_load(struct docker *docker, int fd, const struct docker_transfer_options *options,
	struct docker_transfer **transfer);

void docker_transfer_cancel(struct docker_transfer *transfer); /* NULL is fine */

/*
 * Blocking calls. socket is the full path of the daemon's socket. Where systemd listens on it, a
 * connection starts dockerd: call these only when it runs. All: 0, -ETIMEDOUT, -ECANCELED, -EPROTO
 * or -EBADMSG for what is no answer of Docker, or -errno of connecting; why describes it.
 */

/* What dockerd says of itself. */
struct docker_info {
	char version[64]; /* "20.10.24+dfsg1" */
	char storage_driver[64];
	char root_dir[DOCKER_PATH_MAX]; /* as the daemon has it: not below the host's root */
	char mirrors[DOCKER_VALUE_MAX]; /* in force, separated by spaces; "none" */
	/* Of the last reload that it remembers; "" when there was none. */
	char reloaded_downloads[16];
};

int docker_read_info(const char *socket, struct docker_info *info, const struct wait *wait,
	char why[static DOCKER_WHY_MAX]);

/* Whether a dockerd answers, by GET /version. */
int docker_probe(const char *socket, const struct wait *wait);

/*
 * Waits for the `reload` event that dockerd sends when it has read daemon.json again; a reload that
 * it refused sends none. since_us is CLOCK_REALTIME from before the SIGHUP: events after it are
 * found also when they came before this call. value becomes what is in force of a top-level key of
 * daemon.json: "10"; for registry-mirrors as in struct docker_info; "" for a key that the event
 * does not have.
 */
int docker_wait_reload(const char *socket, uint64_t since_us, const char *key,
	char value[static DOCKER_VALUE_MAX], const struct wait *wait);

/* Names of the images that were pulled since then (CLOCK_REALTIME), oldest first; n of at most max.
 */
int docker_read_pulled(const char *socket, uint64_t since_us, char (*names)[DOCKER_NAME_MAX],
	size_t max, size_t *n, const struct wait *wait);

/* All containers, also stopped ones, for the caller to free. */
int docker_read_containers(
	const char *socket, struct docker_container **list, size_t *n, const struct wait *wait);

DEFINE_CLEANUP(struct docker, docker_close)

#endif
