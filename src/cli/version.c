/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/build.h"
#include "base/json.h"
#include "base/util.h"
#include "cli/local.h"
#include "cli/screen.h"

#include <limits.h>

static int print_json(const struct node *node)
{
	_cleanup_free_ char *text = NULL;
	struct json json;
	cJSON *tuners;

	json_begin(&json);
	json_text(&json, json.root, "version", HEADROOM_VERSION);
	json_text(&json, json.root, "commit", HEADROOM_COMMIT);
	tuners = json_array(&json, json.root, "tuners");
	for (size_t i = 0; i < node->n_tuners; i++) {
		cJSON *tuner = json_append(&json, tuners);

		json_text(&json, tuner, "name", node->tuners[i].ops->name);
		json_text(&json, tuner, "state", tuner_state_names[node->tuners[i].state]);
		json_text(&json, tuner, "why", node->tuners[i].why);
	}
	return json_end(&json, true, &text, NULL) == 0 && fputs(text, stdout) >= 0 ? EXIT_OK
										   : EXIT_FAILED;
}

/* Probes as the agent would, BPF included: what is loaded for it is gone when this ends. */
int cli_version(const struct cli *cli)
{
	struct config *config = cli_load_config(cli);
	struct screen screen = screen_of(stdout);
	struct core core = {0};
	int r = config ? local_poll(cli, config, true, false, &core) : EXIT_FAILED;

	if (!screen.bars) /* a script finds the reason on the line of its tuner */
		screen.width = INT_MAX;
	if (!cli->json || r != EXIT_OK)
		printf("headroom %s (%s)\n", HEADROOM_VERSION, HEADROOM_COMMIT);
	if (r != EXIT_OK)
		return r;
	if (cli->json)
		r = print_json(&core.node);
	for (size_t i = 0; !cli->json && i < core.node.n_tuners; i++) {
		const struct tuner_status *tuner = &core.node.tuners[i];
		const char *state = tuner_state_names[tuner->state];
		int column = printf("  %-10s ", tuner->ops->name);

		column += printf("%-*s", tuner->why[0] ? 10 : 0, state);
		draw_wrapped(&screen, column, 23, tuner->why);
	}
	core_close(&core);
	return r;
}
