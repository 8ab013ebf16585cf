/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd_client.h"

#include "base/util.h"
#include "runtime/wire.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#define SMALL_MAX ((size_t)64 * 1024)
#define LIST_MAX  ((size_t)1024 * 1024)

static const struct {
	const char *method;
	size_t answer_max;
	const ProtobufCMessageDescriptor *answer;
} calls[] = {
	[CONTAINERD_VERSION] = {"version.v1.Version/Version", SMALL_MAX,
		&containerd__version_response__descriptor},
	[CONTAINERD_NAMESPACES] = {"namespaces.v1.Namespaces/List", LIST_MAX,
		&containerd__list_namespaces_response__descriptor},
	[CONTAINERD_INGESTS] = {"content.v1.Content/ListStatuses", LIST_MAX,
		&containerd__list_statuses_response__descriptor},
	[CONTAINERD_CONTENT] = {"content.v1.Content/List", LIST_MAX,
		&containerd__list_content_response__descriptor},
};

int containerd_call(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	enum containerd_call which, const char *namespace, const ProtobufCMessage *message,
	void *ret)
{
	char method[128];
	const struct grpc_request request = {.method = method,
		.containerd_namespace = namespace,
		.answer_max = calls[which].answer_max};

	snprintf(method, sizeof(method), "/containerd.services.%s", calls[which].method);
	return wire_call(grpc, wait, arena, &request, message, calls[which].answer, ret);
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
	return containerd_call(
		grpc, wait, arena, CONTAINERD_CONTENT, namespace, &message.base, manifests);
}
