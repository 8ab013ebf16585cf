/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd_internal.h"

#include "base/util.h"

bool containerd_read_nothing(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer)
{
	(void)arena, (void)data, (void)size, (void)answer;
	return true;
}

bool containerd_read_version(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer)
{
	const Containerd__VersionResponse *m =
		wire_decode(arena, &containerd__version_response__descriptor, data, size);

	if (!m)
		return false;
	answer->version.version = m->version;
	answer->version.revision = m->revision;
	return true;
}

bool containerd_read_namespaces(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer)
{
	const Containerd__ListNamespacesResponse *m =
		wire_decode(arena, &containerd__list_namespaces_response__descriptor, data, size);
	const char **list = m ? arena_array(arena, m->n_namespaces, sizeof(*list)) : NULL;

	if (!list)
		return false;
	for (size_t i = 0; i < m->n_namespaces; i++)
		list[i] = m->namespaces[i]->name;
	answer->namespaces.list = list;
	answer->namespaces.n = m->n_namespaces;
	return true;
}

/* What lies before 1970 or beyond the year 9999 (the format's own bounds) is no time. */
static uint64_t time_us(const Containerd__Timestamp *stamp)
{
	static const int64_t last = INT64_C(253402300799);

	if (!stamp || stamp->seconds < 0 || stamp->seconds > last || stamp->nanos < 0)
		return 0;
	return (uint64_t)stamp->seconds * USEC_PER_SEC + (uint64_t)stamp->nanos / 1000;
}

bool containerd_read_ingests(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer)
{
	const Containerd__ListStatusesResponse *m =
		wire_decode(arena, &containerd__list_statuses_response__descriptor, data, size);
	struct containerd_ingest *list =
		m ? arena_array(arena, m->n_statuses, sizeof(*list)) : NULL;

	if (!list)
		return false;
	for (size_t i = 0; i < m->n_statuses; i++) {
		const Containerd__IngestStatus *status = m->statuses[i];

		list[i].ref = status->ref;
		list[i].expected = status->expected;
		list[i].offset = status->offset;
		list[i].total = status->total;
		list[i].started_us = time_us(status->started_at);
		list[i].updated_us = time_us(status->updated_at);
	}
	answer->ingests.list = list;
	answer->ingests.n = m->n_statuses;
	return true;
}

bool containerd_read_contents(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer)
{
	const Containerd__ListContentResponse *m =
		wire_decode(arena, &containerd__list_content_response__descriptor, data, size);
	struct containerd_content *list = m ? arena_array(arena, m->n_info, sizeof(*list)) : NULL;

	for (size_t i = 0; list && i < m->n_info; i++) {
		const Containerd__Info *info = m->info[i];
		struct containerd_label *labels =
			arena_array(arena, info->n_labels, sizeof(*labels));

		if (!labels)
			return false;
		for (size_t l = 0; l < info->n_labels; l++) {
			labels[l].key = info->labels[l]->key;
			labels[l].value = info->labels[l]->value;
		}
		list[i].digest = info->digest;
		list[i].labels = labels;
		list[i].n_labels = info->n_labels;
	}
	if (!list)
		return false;
	answer->contents.list = list;
	answer->contents.n = m->n_info;
	return true;
}

static bool read_image(
	struct arena *arena, const Containerd__Image *m, struct containerd_image *image)
{
	struct containerd_label *labels = arena_array(arena, m->n_labels, sizeof(*labels));

	if (!labels)
		return false;
	for (size_t i = 0; i < m->n_labels; i++) {
		labels[i].key = m->labels[i]->key;
		labels[i].value = m->labels[i]->value;
	}
	image->name = m->name;
	image->labels = labels;
	image->n_labels = m->n_labels;
	image->target.media_type = m->target ? m->target->media_type : "";
	image->target.digest = m->target ? m->target->digest : "";
	image->target.size = m->target ? m->target->size : 0;
	return true;
}

bool containerd_read_images(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer)
{
	const Containerd__ListImagesResponse *m =
		wire_decode(arena, &containerd__list_images_response__descriptor, data, size);
	struct containerd_image *list = m ? arena_array(arena, m->n_images, sizeof(*list)) : NULL;

	if (!list)
		return false;
	for (size_t i = 0; i < m->n_images; i++)
		if (!read_image(arena, m->images[i], &list[i]))
			return false;
	answer->images.list = list;
	answer->images.n = m->n_images;
	return true;
}

bool containerd_read_image(
	struct arena *arena, const uint8_t *data, size_t size, struct containerd_answer *answer)
{
	const Containerd__ImageMessage *m =
		wire_decode(arena, &containerd__image_message__descriptor, data, size);
	struct containerd_image *image =
		m && m->image ? arena_array(arena, 1, sizeof(*image)) : NULL;

	if (!image || !read_image(arena, m->image, image))
		return false;
	answer->image = image;
	return true;
}
