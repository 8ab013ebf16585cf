/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/images/images.h"

#include "runtime/mirror_ask.h"

#define QUESTIONS_MAX ((size_t)128) /* of one job: the next one asks the rest */
#define MIRRORS_MAX   8             /* of one registry */

static size_t list_mirrors(const struct transfer *transfer, const char *image,
	struct mirror_access mirrors[static MIRRORS_MAX])
{
	const struct image_runtime *runtime = &transfer->runtime;
	char registry[IMAGE_NAME_MAX];
	bool named = false;
	size_t n = 0;

	snprintf(registry, sizeof(registry), "%.*s", (int)strcspn(image, "/"), image);
	if (!runtime->driver->mirrors && !streq(registry, "docker.io"))
		return 0;
	if (runtime->driver->find_mirrors)
		n = runtime->driver->find_mirrors(
			runtime, transfer->host, registry, mirrors, MIRRORS_MAX);
	for (size_t i = 0; i < transfer->n_mirrors; i++)
		named |= streq(transfer->mirrors[i].registry, registry);
	for (size_t i = 0; i < transfer->n_mirrors && n < MIRRORS_MAX; i++) {
		const struct runtime_mirror *mirror = &transfer->mirrors[i];
		bool known = !streq(mirror->registry, named ? registry : REGISTRY_DEFAULT);

		for (size_t k = 0; k < n; k++)
			known |= streq(mirrors[k].url, mirror->url);
		if (known)
			continue;
		mirrors[n] = (struct mirror_access){0};
		memcpy(mirrors[n++].url, mirror->url, REGISTRY_URL_MAX);
	}
	return n;
}

/* The best answer counts: one mirror with the image is enough. */
static void adopt_answer(struct preload *image, const struct mirror_question *question)
{
	enum peers_state state = question->answer < 0    ? PEERS_SILENT
				 : question->answer == 0 ? PEERS_LACK
							 : PEERS_HAVE;

	if (state <= image->peers.state)
		return;
	image->peers.state = state;
	set_text(image->why, question->why);
}

void peers_ask(struct transfer *transfer, const struct wait *wait)
{
	_cleanup_free_ struct mirror_question *questions =
		must(calloc(QUESTIONS_MAX, sizeof(*questions)));
	struct mirror_access mirrors[MIRRORS_MAX];
	size_t n = 0;

	transfer->error = 0;
	for (size_t i = 0; i < transfer->asked.n; i++) {
		struct preload *image = &transfer->asked.entries[i];
		size_t n_mirrors = list_mirrors(transfer, image->name, mirrors);

		image->peers.state = PEERS_UNKNOWN;
		image->peers.asked_us = realtime_us();
		for (size_t k = 0; k < n_mirrors && n < QUESTIONS_MAX; k++) {
			if (mirrors[k].useless)
				continue;
			memcpy(questions[n].image, image->name, IMAGE_NAME_MAX);
			questions[n].names_registry = transfer->runtime.driver->names_registry;
			questions[n++].mirror = mirrors[k];
		}
		if (n == QUESTIONS_MAX && i + 1 < transfer->asked.n)
			transfer->asked.n = i; /* it may be incomplete */
	}
	mirrors_ask(questions, n, transfer->host->root, wait);
	for (size_t i = 0; i < n; i++) {
		struct preload *image = preload_find(&transfer->asked, "", questions[i].image);

		if (questions[i].answer == -ECANCELED)
			transfer->error = -ECANCELED;
		if (image)
			adopt_answer(image, &questions[i]);
	}
}
