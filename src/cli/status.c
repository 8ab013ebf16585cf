/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/util.h"
#include "cli/document.h"
#include "cli/screen.h"

#include <stdio.h>

#define WATCH_SECONDS 2

static bool is_true(const cJSON *condition)
{
	const char *status =
		cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(condition, "status"));

	return status && streq(status, "True");
}

static int exit_code(const cJSON *status)
{
	const cJSON *condition;

	cJSON_ArrayForEach (condition, cJSON_GetObjectItemCaseSensitive(status, "conditions")) {
		if (is_true(condition))
			return EXIT_ATTENTION;
	}
	return EXIT_OK;
}

static int print_json(const cJSON *status)
{
	_cleanup_free_ char *text = cJSON_Print(status);

	if (!text)
		return cli_fail("status", "out of memory");
	puts(text);
	return exit_code(status);
}

static int show(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	struct screen screen = screen_of(stdout);
	bool alone;
	int r = status_document(cli, false, &status, &alone);

	if (r != EXIT_OK)
		return r;
	if (cli->json)
		return print_json(status);
	if (screen.bars && cli->watch)
		fputs("\033[H\033[J", stdout);
	screen_print(&screen, status);
	if (alone)
		puts("\n  No agent is running: this is one look, without what only BPF counts.");
	fflush(stdout);
	return exit_code(status);
}

int cli_status(const struct cli *cli)
{
	int r = show(cli);

	while (cli->watch && r != EXIT_FAILED && !ferror(stdout)) {
		sleep(WATCH_SECONDS);
		r = show(cli);
	}
	return r;
}
