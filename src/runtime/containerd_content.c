/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd_internal.h"

#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#define CONTENTS_MAX ((size_t)1024 * 1024)

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
int containerd_manifests_of(struct containerd_client *client, const char *namespace,
	const char *layer, containerd_callback done, void *userdata)
{
	const struct grpc_call call = {
		.method = "/containerd.services.content.v1.Content/List",
		.containerd_namespace = namespace,
		.limit = CONTENTS_MAX,
	};
	Containerd__ListContentRequest request = CONTAINERD__LIST_CONTENT_REQUEST__INIT;
	char texts[CONTAINERD_LAYERS_MAX][256], *filters[CONTAINERD_LAYERS_MAX];

	if (!is_digest(layer))
		return -EINVAL;
	for (size_t i = 0; i < CONTAINERD_LAYERS_MAX; i++) {
		snprintf(texts[i], sizeof(texts[i]),
			"labels.\"containerd.io/gc.ref.content.l.%zu\"==\"%s\"", i, layer);
		filters[i] = texts[i];
	}
	request.filters = filters;
	request.n_filters = ARRAY_SIZE(filters);
	return containerd_begin(
		client, &call, &request.base, containerd_read_contents, done, userdata);
}
