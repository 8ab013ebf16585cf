/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/watch.h"

#include "base/util.h"

/* Where the CRI keeps its content; it comes into being with the first pull. */
#define CRI_NAMESPACE "k8s.io"

static void add_namespace(struct watched *watched, const char *name)
{
	for (size_t i = 0; i < watched->n_namespaces; i++)
		if (streq(watched->namespaces[i], name))
			return;
	if (watched->n_namespaces < WATCH_NAMESPACES_MAX)
		copy_text(watched->namespaces[watched->n_namespaces++],
			sizeof(watched->namespaces[0]), name);
}

static void on_namespaces(const struct containerd_answer *answer, void *userdata)
{
	struct watched *watched = userdata;

	watched->open[ASK_NAMESPACES] = false;
	if (answer->result.status != GRPC_OK)
		return;
	watched->n_namespaces = 0;
	add_namespace(watched, CRI_NAMESPACE);
	for (size_t i = 0; i < answer->namespaces.n; i++)
		add_namespace(watched, answer->namespaces.list[i]);
	watched->due_us[ASK_INGESTS] = 0;
}

void watched_ask_namespaces(struct watched *watched)
{
	if (watched->containerd)
		watched->open[ASK_NAMESPACES] =
			containerd_namespaces(watched->containerd, on_namespaces, watched) == 0;
}

static void on_ingests(const struct containerd_answer *answer, void *userdata);

static bool ask_next(struct watched *watched)
{
	return watched->at_namespace < watched->n_namespaces &&
	       containerd_ingests(watched->containerd, watched->namespaces[watched->at_namespace++],
		       on_ingests, watched) == 0;
}

/* Namespace by namespace; what all of them told is one round. */
static void on_ingests(const struct containerd_answer *answer, void *userdata)
{
	struct watched *watched = userdata;
	bool whole = answer->result.status == GRPC_OK;

	for (size_t i = 0; whole && i < answer->ingests.n; i++) {
		const struct containerd_ingest *ingest = &answer->ingests.list[i];
		struct pull_piece *piece = &watched->pieces[watched->n_pieces];

		if (watched->n_pieces == PULL_LAYERS_MAX)
			break;
		watched->n_pieces++;
		piece->offset = (uint64_t)MAX(ingest->offset, (int64_t)0);
		piece->total = (uint64_t)MAX(ingest->total, (int64_t)0);
		copy_text(piece->ref, sizeof(piece->ref), ingest->ref);
	}
	if (whole && ask_next(watched))
		return;
	watched->open[ASK_INGESTS] = false;
	if (whole) {
		watched->one->pulls_at_us = now_us();
		pulls_take(&watched->one->pulls, watched->pieces, watched->n_pieces,
			watched->one->pulls_at_us);
	}
	if (watched->one->pulls.n > 0)
		watched->due_us[ASK_CONTENT] = 0;
}

void watched_ask_ingests(struct watched *watched)
{
	watched->at_namespace = watched->n_pieces = 0;
	if (watched->containerd)
		watched->open[ASK_INGESTS] = ask_next(watched);
}

void watched_ask_content(struct watched *watched)
{
	(void)watched;
}
