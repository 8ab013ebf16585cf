/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/build.h"
#include "base/json.h"
#include "base/util.h"
#include "cli/local.h"

#include <stdio.h>

#include <cjson/cJSON.h>

static int print_json(const struct node *node)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = cJSON_CreateObject();
	_cleanup_free_ char *text = NULL;
	cJSON *tuners;

	cJSON_AddStringToObject(root, "version", HEADROOM_VERSION);
	cJSON_AddStringToObject(root, "commit", HEADROOM_COMMIT);
	tuners = cJSON_AddArrayToObject(root, "tuners");
	for (size_t i = 0; i < node->n_tuners; i++) {
		cJSON *tuner = cJSON_CreateObject();

		cJSON_AddStringToObject(tuner, "name", node->tuners[i].ops->name);
		cJSON_AddStringToObject(tuner, "state", tuner_state_name(node->tuners[i].state));
		cJSON_AddStringToObject(tuner, "why", node->tuners[i].why);
		cJSON_AddItemToArray(tuners, tuner);
	}
	text = cJSON_Print(root);
	return text && puts(text) >= 0 ? EXIT_OK : EXIT_FAILED;
}

static int print_text(const struct node *node)
{
	printf("headroom %s (%s)\n", HEADROOM_VERSION, HEADROOM_COMMIT);
	for (size_t i = 0; i < node->n_tuners; i++) {
		const struct tuner_status *tuner = &node->tuners[i];

		printf("  %-10s %-9s %s\n", tuner->ops->name, tuner_state_name(tuner->state),
			tuner->why);
	}
	return EXIT_OK;
}

/* Probes as the agent would, BPF included: what is loaded for it is gone when this ends. */
int cli_version(const struct cli *cli)
{
	struct config *config = cli_load_config(cli);
	struct core core = {0};
	int r = config ? local_poll(cli, config, true, false, &core) : EXIT_FAILED;

	if (r != EXIT_OK) {
		printf("headroom %s (%s)\n", HEADROOM_VERSION, HEADROOM_COMMIT);
		return r;
	}
	r = cli->json ? print_json(&core.node) : print_text(&core.node);
	core_close(&core);
	return r;
}
