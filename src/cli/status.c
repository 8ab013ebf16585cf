/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/util.h"
#include "cli/client.h"
#include "cli/local.h"
#include "cli/screen.h"
#include "report/report.h"

#include <errno.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#define WATCH_SECONDS 2

DEFINE_CLEANUP(cJSON, cJSON_Delete)

/* The agent's document, by the unix socket or, for those who may not open it, by TCP. */
static int ask_agent(const struct cli *cli, char **json)
{
	struct config *config = cli_load_config(cli);
	char socket_path[PATH_MAX];
	long status = 0;
	int r;

	if (!config)
		return -EINVAL;
	core_socket_path(config, socket_path);
	r = client_call(socket_path, NULL, false, "/v1/status", json, &status);
	if (r == -EACCES && config_text(config, "http.listen")[0])
		r = client_call(NULL, config_text(config, "http.listen"), false, "/v1/status", json,
			&status);
	config_free(config);
	if (r == 0 && status != 200) {
		free(*json);
		return -ENOTCONN;
	}
	return r;
}

static int look_locally(const struct cli *cli, char **json)
{
	struct core core = {0};
	int r = local_look(cli, false, &core);

	if (r != EXIT_OK)
		return -EINVAL;
	r = report_status(&core.node, true, json, NULL);
	core_close(&core);
	return r;
}

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

static int show(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	_cleanup_free_ char *json = NULL;
	struct screen screen = screen_of(stdout);
	int r = ask_agent(cli, &json);
	bool alone = r == -ENOTCONN || r == -EACCES;

	if (alone)
		r = look_locally(cli, &json);
	if (r == -EINVAL)
		return EXIT_FAILED; /* said already */
	if (r < 0)
		return cli_fail("agent", "%s", strerror(-r));
	status = cJSON_Parse(json);
	if (!status)
		return cli_fail("agent", "answered in an unknown form");
	if (cli->json) {
		fputs(json, stdout);
		return exit_code(status);
	}
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
