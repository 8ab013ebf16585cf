/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/document.h"

#include "base/util.h"
#include "cli/client.h"
#include "cli/local.h"
#include "report/report.h"

#include <errno.h>

#define STATUS_PATH "/v1/status"

/*
 * By the unix socket or, for those who may not open it, by TCP. -EINVAL: the configuration has a
 * fault, which is reported, and no agent answers.
 */
static int ask_agent(const struct cli *cli, char **json)
{
	bool faulty;
	_cleanup_(cleanup_config_free) struct config *config = cli_any_config(cli, &faulty);
	_cleanup_free_ char *answer = NULL;
	char socket_path[PATH_MAX];
	long status = 0;
	int r;

	if (!config)
		return -EINVAL;
	core_socket_path(config, socket_path);
	r = client_call(socket_path, NULL, false, STATUS_PATH, &answer, &status);
	if (r == -EACCES && config_text(config, "http.listen")[0])
		r = client_call(NULL, config_text(config, "http.listen"), false, STATUS_PATH,
			&answer, &status);
	if (r == 0 && status != 200)
		r = -ENOTCONN;
	if (r < 0 && faulty)
		return -EINVAL;
	if (r == 0)
		*json = steal(answer);
	return r;
}

static int poll_locally(const struct cli *cli, bool watch, char **json)
{
	struct config *config = cli_load_config(cli);
	struct core core = {0};
	int r = config ? local_poll(cli, config, watch, false, &core) : EXIT_FAILED;

	if (r != EXIT_OK)
		return -EINVAL;
	r = report_status(&core.node, true, true, json, NULL);
	core_close(&core);
	return r;
}

int status_document(const struct cli *cli, bool watch, cJSON **status, bool *alone)
{
	_cleanup_free_ char *json = NULL;
	int r = ask_agent(cli, &json);
	bool no_agent = r == -ENOTCONN || r == -EACCES;

	if (no_agent)
		r = poll_locally(cli, watch, &json);
	if (r == -EINVAL)
		return EXIT_FAILED;
	if (r < 0)
		return cli_fail("agent", "%s", strerror(-r));
	*status = cJSON_Parse(json);
	if (!*status)
		return cli_fail("agent", "answered in an unknown form");
	if (alone)
		*alone = no_agent;
	return EXIT_OK;
}
