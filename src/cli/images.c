/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/json.h"

/* "ready  12.3 MB  in 1.2 s  docker.io/library/busybox:1.36  from PATH  pinned", and why not. */
void print_image(struct screen *screen, const cJSON *image)
{
	const char *state = json_text_at(image, "state"), *why = json_text_at(image, "why");
	const char *source = json_text_at(image, "source"), *name = json_text_at(image, "name");
	double size = json_number_at(image, "size_bytes"), next;
	const cJSON *done = json_at(image, "bytes_done");
	char amount[AMOUNT_MAX], part[AMOUNT_MAX], took[TIME_TEXT_MAX], text[1024] = "";

	draw(screen, COLOR_NONE, "  ");
	draw(screen, color_of(state), "%-8s ", state);
	amount_text(size, "bytes", amount);
	if (cJSON_IsNumber(done)) {
		draw_bar(screen, COLOR_GOOD, done->valuedouble / MAX(size, 1.0));
		text_append(text, sizeof(text), "%s of %s  ",
			amount_text(done->valuedouble, "bytes", part), amount);
	} else if (size > 0) {
		text_append(text, sizeof(text), "%s  ", amount);
	}
	if (json_number_at(image, "seconds") > 0) {
		latency_text(json_number_at(image, "seconds"), took);
		text_append(text, sizeof(text), "%s  ", took);
	}
	text_append(text, sizeof(text), "%s", name);
	if (!streq(source, name))
		text_append(text, sizeof(text), "  from %s", source);
	if (cJSON_IsTrue(json_at(image, "pinned")))
		text_append(text, sizeof(text), "  pinned");
	if (!streq(state, "ready") && !why[0])
		text_append(text, sizeof(text), "  (%s)", json_text_at(image, "reason"));
	draw_wrapped(screen, 11, "%s", text);
	if (!why[0])
		return;
	next = json_number_at(image, "next_in_seconds");
	duration_text(next, took);
	draw(screen, COLOR_NONE, "%11s", "");
	draw_wrapped(screen, 11, "%s: %s%s%s", json_text_at(image, "reason"), why,
		next > 0 ? "; again in " : "", next > 0 ? took : "");
}

int cli_images(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	struct screen screen = screen_open();
	const cJSON *images, *image;
	bool alone;
	int r = status_document(cli, false, &status, &alone);

	if (r != EXIT_OK)
		return r;
	images = json_at(status, "images");
	if (cli->json)
		return json_put(stdout, cJSON_Duplicate(images, true), true) ? EXIT_OK
									     : EXIT_FAILED;
	if (alone)
		draw(&screen, COLOR_WARNING, "No agent is running: nothing is loaded.\n");
	cJSON_ArrayForEach (image, images)
		print_image(&screen, image);
	if (cJSON_GetArraySize(images) == 0)
		puts("No images are configured: see images.archives and images.pull in "
		     "headroom.yaml(5).");
	return EXIT_OK;
}
