/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The Container Runtime Interface: what the kubelet asks containerd, CRI-O and cri-dockerd. Source:
 * k8s.io/cri-api/pkg/apis/runtime/v1/api.proto. And containerd's own services, below the CRI and
 * beside it: github.com/containerd/containerd/api/services. Its namespaces keep users apart:
 * "k8s.io" is the CRI's, "moby" Docker's.
 *
 * All calls block, and return what grpc_unary() returns: 0, a status of the runtime's, or -errno.
 * An answer is in the caller's arena, its strings are never NULL, and messages in it may be.
 */

#include <cjson/cJSON.h>
#include <runtime/containerd.pb-c.h>
#include <runtime/cri.pb-c.h>

#include "runtime/grpc_client.h"

/* To be opened with grpc_open(). */
struct cri {
	struct grpc grpc;
	const char *lease; /* that keeps what a call fetches in containerd; NULL: its own one */
};

/* Each with the message of its answer. */
enum cri_call {
	CRI_VERSION,           /* Cri__VersionResponse */
	CRI_STATUS,            /* Cri__StatusResponse */
	CRI_FILESYSTEMS,       /* Cri__ImageFsInfoResponse: of the images */
	CRI_SANDBOXES,         /* Cri__ListPodSandboxResponse */
	CRI_SANDBOX_STATUS,    /* Cri__PodSandboxStatusResponse */
	CRI_CONTAINERS,        /* Cri__ListContainersResponse */
	CRI_IMAGES,            /* Cri__ListImagesResponse */
	CRI_IMAGE,             /* Cri__ImageStatusResponse: without an image where there is none */
	CRI_PULL,              /* Cri__Text, the image's id, once it is unpacked */
	CONTAINERD_VERSION,    /* Containerd__VersionResponse */
	CONTAINERD_NAMESPACES, /* Containerd__ListNamedResponse */
	CONTAINERD_INGESTS,    /* Containerd__ListStatusesResponse: what a namespace fetches now */
	CONTAINERD_CONTENT,    /* Containerd__ListContentResponse: the first of a stream */
	CONTAINERD_IMAGES,     /* Containerd__ListImagesResponse */
	CONTAINERD_GET_IMAGE,  /* Containerd__ImageResponse, as of the next two */
	CONTAINERD_CREATE_IMAGE,
	CONTAINERD_UPDATE_IMAGE, /* with an image without a target containerd 1.7 and 2.x panic */
	CONTAINERD_DELETE_IMAGE, /* Containerd__Empty */
	CONTAINERD_LEASES,       /* Containerd__ListNamedResponse */
	CONTAINERD_CREATE_LEASE, /* Containerd__Empty, for all that is left out */
	CONTAINERD_DELETE_LEASE, /* Containerd__Empty */
};

/* Numbers of the API's enumerations. */
enum { CRI_SANDBOX_READY = 0, CRI_CONTAINER_RUNNING = 1, CRI_NAMESPACE_NODE = 2 };

/*
 * message NULL: an empty one; namespace: of containerd's own services. ret is a pointer to a
 * pointer to the answer's message. -EBADMSG also for an answer that is not of its type, or larger
 * than the arena may become.
 */
int cri_call(struct cri *cri, const struct wait *wait, struct arena *arena, enum cri_call which,
	const char *namespace, const ProtobufCMessage *message, void *ret);

/*
 * What the runtime runs with, as Status(verbose) shows it: containerd's info.config, for the caller
 * to delete; NULL where it shows none. Names as in containerd's pkg/cri/config/config.go. It holds
 * the registries' credentials, where someone wrote them there.
 */
int cri_get_config(struct cri *cri, const struct wait *wait, cJSON **config);

/*
 * How far a program behind a socket answers, from nothing at all to the CRI: one connection and one
 * call of Version.
 */
enum cri_answers {
	CRI_NO_ANSWER,
	CRI_CONNECTS, /* connections are accepted, and nothing is said, or nothing of gRPC */
	CRI_IS_GRPC,  /* a runtime without the CRI, or one that is not ready */
	CRI_ANSWERS,
};

enum cri_answers cri_probe(const char *path, const struct wait *wait);
