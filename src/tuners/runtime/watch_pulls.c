/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/watch.h"

#include "base/util.h"

#include <stdio.h>

#define PULLS_EVERY_US   (5 * USEC_PER_SEC)
#define PULLING_EVERY_US (2 * USEC_PER_SEC)

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

/* Since a time of the wall clock, which 0 is none of. */
static uint64_t age_of(uint64_t realtime)
{
	return realtime > 0 ? pulls_age(realtime_us(), realtime) : 0;
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
		piece->age_us = age_of(ingest->started_us);
		piece->still_us = age_of(ingest->updated_us);
		copy_text(piece->ref, sizeof(piece->ref), ingest->ref);
		copy_text(piece->namespace, sizeof(piece->namespace),
			watched->namespaces[watched->at_namespace - 1]);
	}
	if (whole && ask_next(watched))
		return;
	watched->open[ASK_INGESTS] = false;
	if (whole) {
		/* The first ones of a pull are asked about at once. */
		if (watched->one->pulls.n == 0)
			watched->due_us[ASK_CONTENT] = 0;
		watched->one->pulls_at_us = now_us();
		pulls_take(&watched->one->pulls, watched->pieces, watched->n_pieces,
			watched->one->pulls_at_us);
		watched->due_us[ASK_INGESTS] =
			watched->one->pulls_at_us + watched_pulls_pace(watched);
	}
}

uint64_t watched_pulls_pace(const struct watched *watched)
{
	const struct pulls *pulls = &watched->one->pulls;

	/* Before a restart it must be known that there is none. */
	return pulls->n > 0 || pulls->n_images > 0 ||
			       watched->watch->config->restart == RESTART_WHEN_IDLE
		       ? PULLING_EVERY_US
		       : PULLS_EVERY_US;
}

void watched_ask_ingests(struct watched *watched)
{
	watched->at_namespace = watched->n_pieces = 0;
	if (watched->containerd)
		watched->open[ASK_INGESTS] = ask_next(watched);
}

#define LAYER_LABEL  "containerd.io/gc.ref.content.l."
#define SOURCE_LABEL "containerd.io/distribution.source."

/* "docker.io/library/nginx" of a label ...source.docker.io=library/nginx,other/name. */
static bool image_of(const struct containerd_content *manifest, char image[static 160])
{
	for (size_t i = 0; i < manifest->n_labels; i++) {
		const struct containerd_label *label = &manifest->labels[i];

		if (starts_with(label->key, SOURCE_LABEL))
			return snprintf(image, 160, "%s/%.*s", label->key + strlen(SOURCE_LABEL),
				       (int)strcspn(label->value, ","), label->value) < 160;
	}
	return false;
}

/* All layers of the image at once: the others need not be asked for. */
static void on_manifests(const struct containerd_answer *answer, void *userdata)
{
	struct watched *watched = userdata;
	char image[160];

	watched->open[ASK_CONTENT] = false;
	if (answer->result.status != GRPC_OK)
		return;
	for (size_t m = 0; m < answer->contents.n; m++) {
		const struct containerd_content *manifest = &answer->contents.list[m];

		if (!image_of(manifest, image))
			continue;
		for (size_t i = 0; i < manifest->n_labels; i++)
			if (starts_with(manifest->labels[i].key, LAYER_LABEL))
				(void)pulls_name(
					&watched->one->pulls, manifest->labels[i].value, image);
	}
}

/* Each layer in its turn: one that no manifest has must not hold up the others. */
void watched_ask_content(struct watched *watched)
{
	const struct pull_layer *layer =
		pulls_nameless(&watched->one->pulls, watched->content_turn++);
	const char *digest = layer ? strstr(layer->piece.ref, "sha256:") : NULL;

	if (!digest || !watched->containerd)
		return;
	watched->open[ASK_CONTENT] =
		containerd_manifests_of(watched->containerd, layer->piece.namespace, digest,
			on_manifests, watched) == 0;
}
