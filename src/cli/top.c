/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/util.h"
#include "cli/document.h"
#include "cli/screen.h"

#include <stdio.h>

#define REFRESH_SECONDS 2

static int show(const struct cli *cli, const char *prefix)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	struct screen screen = screen_of(stdout);
	int r = status_document(cli, true, &status, NULL);

	if (r != EXIT_OK)
		return r;
	if (screen.bars)
		fputs("\033[H\033[J", stdout);
	screen_print_top(&screen, status, prefix);
	fflush(stdout);
	return EXIT_OK;
}

/* Live on a terminal, until interrupted; once for anything that reads it. */
int cli_top(const struct cli *cli)
{
	const char *tuner = cli->n_names > 0 ? cli->names[0] : "";
	struct screen screen = screen_of(stdout);
	char prefix[64] = "";
	int r;

	if (cli->n_names > 1 || (tuner[0] && !streq(tuner, "neighbor"))) {
		cli_fail(tuner, "not known to top: usage: headroom top [neighbor]");
		return EXIT_USAGE;
	}
	if (tuner[0])
		snprintf(prefix, sizeof(prefix), "%s/", tuner);
	r = show(cli, prefix);
	while (screen.bars && r == EXIT_OK && !ferror(stdout)) {
		sleep(REFRESH_SECONDS);
		r = show(cli, prefix);
	}
	return r;
}
