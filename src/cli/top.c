/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/util.h"
#include "cli/document.h"
#include "cli/screen.h"

#include <stdio.h>

#define REFRESH_SECONDS 2

/* topic: neighbor, dns, or empty for all. */
static void print_topic(const struct screen *screen, const cJSON *status, const char *topic)
{
	char prefix[64] = "";

	if (topic[0])
		snprintf(prefix, sizeof(prefix), "%s/", topic);
	if (!streq(topic, "dns"))
		screen_print_top(screen, status, prefix);
	if (!topic[0])
		fputc('\n', screen->out);
	if (!streq(topic, "neighbor"))
		screen_print_dns(screen, status);
}

static int show(const struct cli *cli, const char *topic)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	struct screen screen = screen_of(stdout);
	int r = status_document(cli, true, &status, NULL);

	if (r != EXIT_OK)
		return r;
	if (screen.bars)
		fputs("\033[H\033[J", stdout);
	print_topic(&screen, status, topic);
	fflush(stdout);
	return EXIT_OK;
}

/* Live on a terminal, until interrupted; once for anything that reads it. */
int cli_top(const struct cli *cli)
{
	const char *topic = cli->n_names > 0 ? cli->names[0] : "";
	struct screen screen = screen_of(stdout);
	int r;

	if (cli->n_names > 1 || (topic[0] && !streq(topic, "neighbor") && !streq(topic, "dns"))) {
		cli_fail(topic, "not known to top: usage: headroom top [dns|neighbor]");
		return EXIT_USAGE;
	}
	r = show(cli, topic);
	while (screen.bars && r == EXIT_OK && !ferror(stdout)) {
		sleep(REFRESH_SECONDS);
		r = show(cli, topic);
	}
	return r;
}
