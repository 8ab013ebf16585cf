/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The Container Runtime Interface, which the kubelet uses with containerd, CRI-O and cri-dockerd:
 * k8s.io/cri-api/pkg/apis/runtime/v1/api.proto. And containerd's own services:
 * github.com/containerd/containerd/api/services; its namespaces separate users: "moby" is
 * Docker's.
 *
 * All calls block and return the result of grpc_unary(): 0, a status of the runtime, or -errno. An
 * answer is in the caller's arena. Its strings are never NULL, its messages may be.
 */

#include <cjson/cJSON.h>
#include <runtime/containerd.pb-c.h>
#include <runtime/cri.pb-c.h>

#include "runtime/driver.h"
#include "runtime/grpc_client.h"

#define CRI_NAMESPACE "k8s.io" /* the CRI's in containerd */

/* Open it with grpc_open(). */
struct cri {
	struct grpc grpc;
	const char
		*lease; /* keeps content that a call fetches in containerd; NULL: its own lease */
};

/* Each with the message of its answer. */
enum cri_call {
	CRI_VERSION,           /* Cri__VersionResponse */
	CRI_STATUS,            /* Cri__StatusResponse */
	CRI_FILESYSTEMS,       /* Cri__ImageFsInfoResponse */
	CRI_SANDBOXES,         /* Cri__ListPodSandboxResponse */
	CRI_SANDBOX_STATUS,    /* Cri__PodSandboxStatusResponse */
	CRI_CONTAINERS,        /* Cri__ListContainersResponse */
	CRI_IMAGES,            /* Cri__ListImagesResponse */
	CRI_IMAGE,             /* Cri__ImageStatusResponse; its image is NULL if not found */
	CRI_PULL,              /* Cri__Text, the image's ID, after unpacking */
	CONTAINERD_VERSION,    /* Containerd__VersionResponse */
	CONTAINERD_NAMESPACES, /* Containerd__ListNamedResponse */
	CONTAINERD_INGESTS,    /* Containerd__ListStatusesResponse: downloads of a namespace */
	CONTAINERD_CONTENT,    /* Containerd__ListContentResponse: the first of a stream */
	CONTAINERD_READ,       /* Containerd__ReadContentResponse: the first MiB */
	CONTAINERD_IMAGES,     /* Containerd__ListImagesResponse */
	CONTAINERD_GET_IMAGE,  /* Containerd__ImageResponse, as of the next two */
	CONTAINERD_CREATE_IMAGE,
	CONTAINERD_UPDATE_IMAGE, /* containerd 1.7 and 2.x panic on an image without a target */
	CONTAINERD_DELETE_IMAGE, /* Containerd__Empty */
	CONTAINERD_LEASES,       /* Containerd__ListNamedResponse */
	CONTAINERD_CREATE_LEASE, /* Containerd__Empty: fields of the answer are ignored */
	CONTAINERD_DELETE_LEASE, /* Containerd__Empty */
};

/* Numbers of the API's enumerations. */
enum { CRI_SANDBOX_READY = 0, CRI_CONTAINER_RUNNING = 1, CRI_NAMESPACE_NODE = 2 };

/*
 * message NULL sends an empty one; namespace is for containerd's own services. ret points to a
 * pointer to the answer's message. -EBADMSG for an answer of another type or above ARENA_MAX.
 */
int cri_call(struct cri *cri, const struct wait *wait, struct arena *arena, enum cri_call which,
	const char *namespace, const ProtobufCMessage *message, void *ret);

/*
 * Gets the configuration in force, info.config of Status(verbose), with names as in containerd's
 * pkg/cri/config/config.go; NULL if the runtime does not show it. The caller deletes it. It may
 * contain registry credentials.
 */
int cri_get_config(struct cri *cri, const struct wait *wait, cJSON **config);

/* How a program behind a socket responds to a connection and one call of Version. */
enum cri_answers {
	CRI_NO_ANSWER,
	CRI_CONNECTS, /* accepts connections, without a valid gRPC answer */
	CRI_IS_GRPC,  /* the CRI is off or not ready */
	CRI_ANSWERS,
};

enum cri_answers cri_probe(const char *path, const struct wait *wait);

/* ---- read() ---- */

struct cri_reading {
	struct runtime_reading *reading;
	struct node_runtime *runtime; /* reading->runtime */
	struct cri cri;
	struct wait wait;   /* bounds the current question */
	struct arena arena; /* holds the last answer */
};

/* of_cri: skipped if the CRI is off; slow: asked in slow readings only. */
struct cri_question {
	void (*ask)(struct cri_reading *session);
	bool of_cri, slow;
};

/*
 * Asks the questions, ended by {0}, until a call fails. The first question decides whether the
 * runtime answers.
 */
void cri_read(struct runtime_reading *reading, const struct cri_question *questions);

/* Frees the previous answer, then as cri_call(). */
int cri_ask(struct cri_reading *session, enum cri_call which, const char *namespace,
	const ProtobufCMessage *message, void *ret);

/* Notes an answer (true) or an error. A gRPC status is neither of both. */
bool cri_is_good(struct cri_reading *session, int r);

/* The same for a runtime that may be starting: a gRPC status is asked again soon. */
bool cri_is_ready(struct cri_reading *session, int r);

/* Notes version and process. */
void cri_set_version(struct cri_reading *session, const char *version);

void cri_ask_version(struct cri_reading *session);
void cri_ask_store(struct cri_reading *session); /* the store's directory and size */
void cri_ask_names(struct cri_reading *session); /* asks for those of pods and containers */

/* ---- images ---- */

/* Lasts for one call of a driver. */
struct image_session {
	struct cri cri;
	struct arena arena;
	const struct image_runtime *runtime;
	struct wait wait;
	char *why;
	char hash[HASH_TEXT_MAX]; /* identifies names and lease of a transfer */
};

struct image_session image_session_open(
	const struct image_runtime *runtime, const struct wait *wait, char *why);
void image_session_end(struct image_session *session);

/* The answer lives as long as the session. 0, or -errno with why. */
int image_call(struct image_session *session, enum cri_call which, const ProtobufCMessage *message,
	void *ret);

/* Members of struct runtime_driver. */
int cri_read_images_info(struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, struct image_info *info, char why[static IMAGES_WHY_MAX]);
int cri_list_images(const struct image_runtime *runtime, const struct wait *wait,
	struct runtime_image **ret, size_t *n, char why[static IMAGES_WHY_MAX]);
int cri_find_image(const struct image_runtime *runtime, const char *name, const struct wait *wait,
	struct runtime_image *image, char why[static IMAGES_WHY_MAX]);
int cri_pull_image(const struct image_runtime *runtime, const char *name, const struct wait *wait,
	_Atomic uint64_t *progress, char why[static IMAGES_WHY_MAX]);

/* Returns the image of a name within a session; NULL: there is none. */
int cri_image_status(struct image_session *session, const char *name, const Cri__Image **image);

/* Pulls an image within a session, under the lease of the session. */
int cri_pull(struct image_session *session, const char *reference);
