/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/images/images.h"

#include "runtime/mirror_ask.h"

#define QUESTIONS_MAX ((size_t)128) /* of one job: the next one asks the rest */
#define URLS_MAX      2048

static void list_urls(const struct transfer *transfer, const char *image, char urls[URLS_MAX])
{
	const struct mirror_format *format = transfer->runtime.driver->mirrors;
	char registry[IMAGE_NAME_MAX];
	bool named = false;

	urls[0] = '\0';
	snprintf(registry, sizeof(registry), "%.*s", (int)strcspn(image, "/"), image);
	for (size_t i = 0; i < transfer->n_mirrors; i++)
		named |= streq(transfer->mirrors[i].registry, registry);
	for (size_t i = 0; i < transfer->n_mirrors; i++)
		if (streq(transfer->mirrors[i].registry, named ? registry : REGISTRY_DEFAULT))
			registry_list_add(urls, URLS_MAX, transfer->mirrors[i].url,
				strlen(transfer->mirrors[i].url));
	if (format)
		mirror_file_find(format, transfer->host, registry, urls, URLS_MAX);
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
	copy_text(image->why, sizeof(image->why), question->why);
}

void peers_ask(struct transfer *transfer, const struct wait *wait)
{
	_cleanup_free_ struct mirror_question *questions =
		must(calloc(QUESTIONS_MAX, sizeof(*questions)));
	char urls[URLS_MAX];
	size_t n = 0;

	transfer->error = 0;
	for (size_t i = 0; i < transfer->asked.n; i++) {
		struct preload *image = &transfer->asked.entries[i];

		list_urls(transfer, image->name, urls);
		image->peers.state = PEERS_UNKNOWN;
		image->peers.asked_us = realtime_us();
		for (const char *at = urls; *at && n < QUESTIONS_MAX; at += strspn(at, " ")) {
			size_t len = strcspn(at, " ");

			if (len < sizeof(questions[n].url)) {
				memcpy(questions[n].image, image->name, IMAGE_NAME_MAX);
				memcpy(questions[n++].url, at, len);
			}
			at += len;
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
