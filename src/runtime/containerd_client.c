/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd_client.h"

#include "base/util.h"
#include "runtime/wire.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#define SMALL_MAX ((size_t)64 * 1024)
#define LIST_MAX  ((size_t)1024 * 1024)

int containerd_get_version(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	const Containerd__VersionResponse **version)
{
	static const struct grpc_request request = {
		.method = "/containerd.services.version.v1.Version/Version",
		.answer_max = SMALL_MAX,
	};

	return wire_call(grpc, wait, arena, &request, NULL,
		&containerd__version_response__descriptor, version);
}

int containerd_get_namespaces(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	const Containerd__ListNamespacesResponse **namespaces)
{
	static const struct grpc_request request = {
		.method = "/containerd.services.namespaces.v1.Namespaces/List",
		.answer_max = LIST_MAX,
	};

	return wire_call(grpc, wait, arena, &request, NULL,
		&containerd__list_namespaces_response__descriptor, namespaces);
}

int containerd_get_ingests(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	const char *namespace, const Containerd__ListStatusesResponse **ingests)
{
	const struct grpc_request request = {
		.method = "/containerd.services.content.v1.Content/ListStatuses",
		.containerd_namespace = namespace,
		.answer_max = LIST_MAX,
	};

	return wire_call(grpc, wait, arena, &request, NULL,
		&containerd__list_statuses_response__descriptor, ingests);
}

/* What lies before 1970 or beyond the year 9999 (the format's own bounds) is no time. */
uint64_t containerd_time_us(const Containerd__Timestamp *stamp)
{
	static const int64_t last = INT64_C(253402300799);

	if (!stamp || stamp->seconds < 0 || stamp->seconds > last || stamp->nanos < 0)
		return 0;
	return (uint64_t)stamp->seconds * USEC_PER_SEC + (uint64_t)stamp->nanos / 1000;
}

/* "sha256:" and what fits into a filter without being quoted. */
static bool is_digest(const char *text)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != ':')
			return false;
	return len > 0 && len <= 160 && strchr(text, ':');
}

/* containerd's filters are alternatives: images/handlers.go numbers a manifest's layers. */
int containerd_get_manifests(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	const char *namespace, const char *layer, const Containerd__ListContentResponse **manifests)
{
	const struct grpc_request request = {
		.method = "/containerd.services.content.v1.Content/List",
		.containerd_namespace = namespace,
		.answer_max = LIST_MAX,
	};
	Containerd__ListContentRequest message = CONTAINERD__LIST_CONTENT_REQUEST__INIT;
	char texts[CONTAINERD_LAYERS_MAX][256], *filters[CONTAINERD_LAYERS_MAX];

	if (!is_digest(layer))
		return -EINVAL;
	for (size_t i = 0; i < CONTAINERD_LAYERS_MAX; i++) {
		snprintf(texts[i], sizeof(texts[i]),
			"labels.\"containerd.io/gc.ref.content.l.%zu\"==\"%s\"", i, layer);
		filters[i] = texts[i];
	}
	message.filters = filters;
	message.n_filters = ARRAY_SIZE(filters);
	/* The answer is a stream of messages, of which one is taken. */
	return wire_call(grpc, wait, arena, &request, &message.base,
		&containerd__list_content_response__descriptor, manifests);
}
