/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_CRI_H
#define RUNTIME_CRI_H

/*
 * The Container Runtime Interface: what the kubelet asks containerd, CRI-O and cri-dockerd. Source:
 * k8s.io/cri-api/pkg/apis/runtime/v1/api.proto. Where a runtime knows only v1alpha2 (containerd
 * before 1.6), that is spoken; its messages are the same.
 *
 * Each call ends in one callback from the loop, never from inside the call that starts it. Strings
 * and arrays of an answer are valid while the callback runs, and never NULL except where said.
 * Registry credentials are neither sent nor taken.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <systemd/sd-event.h>

#include "base/cleanup.h"
#include "runtime/grpc.h"

struct cri_version {
	const char *runtime;     /* "containerd", "cri-o" */
	const char *version;     /* the runtime's own, such as "1.6.20~ds1" or "v2.4.2" */
	const char *api_version; /* "v1", "v1alpha2" */
};

/*
 * What the runtime runs with, as Status(verbose) tells it: containerd's info.config. A field that
 * the runtime's version leaves out is -1 or NULL.
 */
struct cri_running_config {
	int64_t max_concurrent_downloads;
	const char *image_pull_progress_timeout; /* a Go duration: "5m0s" */
	const char *registry_config_path;        /* "" is told, and means that none is set */
	const char *sandbox_image;
	const char *snapshotter;
	const char *root; /* containerd's root directory */
};

struct cri_status {
	bool runtime_ready, network_ready;
	const char *runtime_message, *network_message; /* why not */
	bool config_told;                              /* there was an info.config */
	struct cri_running_config config;
};

struct cri_image {
	const char *id; /* "sha256:..." */
	const char *const *tags;
	size_t n_tags;
	const char *const *digests;
	size_t n_digests;
	uint64_t size; /* bytes */
	bool pinned;
};

struct cri_filesystem {
	const char *mountpoint;
	uint64_t used_bytes, used_inodes;
	uint64_t measured_ns; /* CLOCK_REALTIME */
};

struct cri_sandbox {
	const char *id;
	const char *name, *namespace, *uid; /* of the pod */
	bool ready;
	uint64_t created_ns; /* CLOCK_REALTIME */
};

struct cri_container {
	const char *id;
	const char *sandbox_id;
	const char *name;
	const char *image;     /* as the pod names it, or its id */
	const char *image_ref; /* what was resolved */
	bool running;
	uint64_t created_ns; /* CLOCK_REALTIME */
};

struct cri_sandbox_status {
	struct cri_sandbox sandbox;
	const char *const *ips; /* the primary one first; none for a pod on the host's network */
	size_t n_ips;
	bool host_network;
};

/* Which member holds depends on the call, and only when result.status is GRPC_OK. */
struct cri_answer {
	struct grpc_result result; /* without its data */
	union {
		struct cri_version version;
		struct cri_status status;
		struct {
			const struct cri_image *list;
			size_t n;
		} images;
		const struct cri_image *image; /* cri_image_status(): NULL when it is not there */
		const char *image_ref;         /* cri_pull_image() */
		struct {
			const struct cri_filesystem *list;
			size_t n;
		} filesystems;
		struct {
			const struct cri_sandbox *list;
			size_t n;
		} sandboxes;
		struct {
			const struct cri_container *list;
			size_t n;
		} containers;
		struct cri_sandbox_status sandbox;
	};
};

/* May start further calls, and close the client. */
typedef void (*cri_callback)(const struct cri_answer *answer, void *userdata);

struct cri_client;

/* timeout_us is that of every call but cri_pull_image(). 0 or -errno. */
int cri_client_open(
	sd_event *event, const char *path, uint64_t timeout_us, struct cri_client **ret);

/* Ends the calls that are open; their callbacks are not called. */
void cri_client_close(struct cri_client *client);
DEFINE_CLEANUP(struct cri_client, cri_client_close)

/* grpc_client_peer() of its connection. */
pid_t cri_client_peer(const struct cri_client *client);

/* All: 0, or what grpc_call() returns, and then no callback comes. */
int cri_version(struct cri_client *client, cri_callback done, void *userdata);
int cri_status(struct cri_client *client, cri_callback done, void *userdata);
int cri_list_images(struct cri_client *client, cri_callback done, void *userdata);
int cri_image_status(
	struct cri_client *client, const char *image, cri_callback done, void *userdata);
int cri_remove_image(
	struct cri_client *client, const char *image, cri_callback done, void *userdata);
int cri_image_fs_info(struct cri_client *client, cri_callback done, void *userdata);
int cri_list_sandboxes(struct cri_client *client, cri_callback done, void *userdata);
int cri_list_containers(struct cri_client *client, cri_callback done, void *userdata);
int cri_sandbox_status(
	struct cri_client *client, const char *id, cri_callback done, void *userdata);

/* Without credentials. Closing the client, or the timeout, ends the pull in the runtime too. */
int cri_pull_image(struct cri_client *client, const char *image, uint64_t timeout_us,
	cri_callback done, void *userdata);

#endif
