/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd_client.h"

#include "base/util.h"
#include "runtime/wire.h"

#include <ctype.h>
#include <errno.h>
#include <runtime/containerd.pb-c.h>
#include <stdio.h>

#define SMALL_MAX ((size_t)64 * 1024)
#define LIST_MAX  ((size_t)1024 * 1024)

int containerd_get_version(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	struct containerd_version *version)
{
	static const struct grpc_request request = {
		.method = "/containerd.services.version.v1.Version/Version",
		.answer_max = SMALL_MAX,
	};
	const Containerd__VersionResponse *m;
	int r = wire_call(
		grpc, wait, arena, &request, NULL, &containerd__version_response__descriptor, &m);

	if (r == 0)
		*version = (struct containerd_version){m->version, m->revision};
	return r;
}

int containerd_get_namespaces(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	struct containerd_namespaces *namespaces)
{
	static const struct grpc_request request = {
		.method = "/containerd.services.namespaces.v1.Namespaces/List",
		.answer_max = LIST_MAX,
	};
	const Containerd__ListNamespacesResponse *m;
	const char **list;
	int r = wire_call(grpc, wait, arena, &request, NULL,
		&containerd__list_namespaces_response__descriptor, &m);

	if (r != 0)
		return r;
	list = arena_array(arena, m->n_namespaces, sizeof(*list));
	if (!list)
		return grpc_refuse_answer(grpc);
	for (size_t i = 0; i < m->n_namespaces; i++)
		list[i] = m->namespaces[i]->name;
	*namespaces = (struct containerd_namespaces){list, m->n_namespaces};
	return 0;
}

/* What lies before 1970 or beyond the year 9999 (the format's own bounds) is no time. */
static uint64_t time_us(const Containerd__Timestamp *stamp)
{
	static const int64_t last = INT64_C(253402300799);

	if (!stamp || stamp->seconds < 0 || stamp->seconds > last || stamp->nanos < 0)
		return 0;
	return (uint64_t)stamp->seconds * USEC_PER_SEC + (uint64_t)stamp->nanos / 1000;
}

int containerd_get_ingests(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	const char *namespace, struct containerd_ingests *ingests)
{
	const struct grpc_request request = {
		.method = "/containerd.services.content.v1.Content/ListStatuses",
		.containerd_namespace = namespace,
		.answer_max = LIST_MAX,
	};
	const Containerd__ListStatusesResponse *m;
	struct containerd_ingest *list;
	int r = wire_call(grpc, wait, arena, &request, NULL,
		&containerd__list_statuses_response__descriptor, &m);

	if (r != 0)
		return r;
	list = arena_array(arena, m->n_statuses, sizeof(*list));
	if (!list)
		return grpc_refuse_answer(grpc);
	for (size_t i = 0; i < m->n_statuses; i++) {
		const Containerd__IngestStatus *status = m->statuses[i];

		list[i].ref = status->ref;
		list[i].offset = status->offset;
		list[i].total = status->total;
		list[i].started_us = time_us(status->started_at);
		list[i].updated_us = time_us(status->updated_at);
	}
	*ingests = (struct containerd_ingests){list, m->n_statuses};
	return 0;
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

static const struct containerd_label *read_labels(struct arena *arena, const Containerd__Info *info)
{
	struct containerd_label *labels = arena_array(arena, info->n_labels, sizeof(*labels));

	for (size_t i = 0; labels && i < info->n_labels; i++) {
		labels[i].key = info->labels[i]->key;
		labels[i].value = info->labels[i]->value;
	}
	return labels;
}

/* containerd's filters are alternatives: images/handlers.go numbers a manifest's layers. */
int containerd_get_manifests(struct grpc *grpc, const struct wait *wait, struct arena *arena,
	const char *namespace, const char *layer, struct containerd_manifests *manifests)
{
	const struct grpc_request request = {
		.method = "/containerd.services.content.v1.Content/List",
		.containerd_namespace = namespace,
		.answer_max = LIST_MAX,
	};
	Containerd__ListContentRequest message = CONTAINERD__LIST_CONTENT_REQUEST__INIT;
	char texts[CONTAINERD_LAYERS_MAX][256], *filters[CONTAINERD_LAYERS_MAX];
	const Containerd__ListContentResponse *m;
	struct containerd_manifest *list;
	int r;

	if (!is_digest(layer))
		return -EINVAL;
	for (size_t i = 0; i < CONTAINERD_LAYERS_MAX; i++) {
		snprintf(texts[i], sizeof(texts[i]),
			"labels.\"containerd.io/gc.ref.content.l.%zu\"==\"%s\"", i, layer);
		filters[i] = texts[i];
	}
	message.filters = filters;
	message.n_filters = ARRAY_SIZE(filters);
	r = wire_call(grpc, wait, arena, &request, &message.base,
		&containerd__list_content_response__descriptor, &m);
	*manifests = (struct containerd_manifests){0};
	/* A stream of messages, of which one is taken: none where there is no manifest. */
	if (r != 0)
		return r == -EBADMSG ? 0 : r;
	list = arena_array(arena, m->n_info, sizeof(*list));
	for (size_t i = 0; list && i < m->n_info; i++) {
		list[i].digest = m->info[i]->digest;
		list[i].labels = read_labels(arena, m->info[i]);
		list[i].n_labels = m->info[i]->n_labels;
		if (!list[i].labels)
			list = NULL;
	}
	if (!list)
		return grpc_refuse_answer(grpc);
	*manifests = (struct containerd_manifests){list, m->n_info};
	return 0;
}
