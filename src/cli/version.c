/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/build.h"
#include "report/report.h"

/* Probes like the agent and loads BPF programs too: the kernel frees them with the process. */
int cli_version(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	struct config *config = cli_load_config(cli, NULL);
	struct screen screen = screen_open();
	struct core core = {0};
	const cJSON *tuner;
	int r = config ? local_poll(cli, config, true, false, &core) : EXIT_FAILED;

	if (!screen.bars) /* a script finds the reason on the line of its tuner */
		screen.width = INT_MAX;
	if (!cli->json || r != EXIT_OK)
		printf("headroom %s (%s)\n", HEADROOM_VERSION, HEADROOM_COMMIT);
	if (r != EXIT_OK)
		return r;
	status = report_status(&core.node, false);
	core_close(&core);
	if (cli->json) {
		cJSON *root = cJSON_CreateObject();

		json_text(root, "version", HEADROOM_VERSION);
		json_text(root, "commit", HEADROOM_COMMIT);
		json_adopt(root, "tuners", cJSON_DetachItemFromObject(status, "tuners"));
		return json_put(stdout, root, true) ? EXIT_OK : EXIT_FAILED;
	}
	cJSON_ArrayForEach (tuner, json_at(status, "tuners")) {
		const char *why = json_text_at(tuner, "why");

		draw(&screen, COLOR_NONE, "  %-10s %-*s", json_text_at(tuner, "name"),
			why[0] ? 10 : 0, json_text_at(tuner, "state"));
		draw_wrapped(&screen, 23, "%s", why);
	}
	return EXIT_OK;
}
