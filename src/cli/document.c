/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/document.h"

#include "base/util.h"
#include "cli/client.h"
#include "cli/local.h"
#include "report/report.h"

#include <errno.h>

#define STATUS_PATH "/v1/status"

/* By the unix socket or, for those who may not open it, by TCP. -EINVAL has been said. */
static int ask_agent(const struct cli *cli, char **json)
{
	_cleanup_(cleanup_config_free) struct config *config = cli_load_config(cli);
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
	if (r == 0)
		*json = steal(answer);
	return r;
}

static int look_locally(const struct cli *cli, bool watch, char **json)
{
	struct core core = {0};
	int r = local_look(cli, watch, &core);

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
		r = look_locally(cli, watch, &json);
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
