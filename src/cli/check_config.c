/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <stdio.h>

static void print_places(FILE *out, const struct config_fault_list *list, const char *kind)
{
	for (size_t i = 0; i < list->n; i++)
		fprintf(out, "%s:%u:%u: %s%s\n", list->faults[i].file, list->faults[i].line,
			list->faults[i].column, kind, list->faults[i].message);
}

/* Faults to stderr, one a line; what is merely worth knowing to stdout. */
static int check(const struct config_source *source)
{
	struct config_fault_list faults = {0}, notices = {0};
	struct config *config = NULL;
	int r = core_load_config(source, &config, &faults, &notices);

	print_places(stderr, &faults, "");
	if (r == 0)
		print_places(stdout, &notices, "notice: ");
	else if (faults.n == 0)
		cli_fail(source->file, "%s", strerror(-r));
	if (config)
		config_free(config);
	config_faults_clear(&faults);
	config_faults_clear(&notices);
	return r == 0 ? EXIT_OK : EXIT_FAILED;
}

int cli_check_config(const struct cli *cli)
{
	struct config_source source = core_source(cli->core.config_file);
	int worst = EXIT_OK;

	if (cli->n_names == 0)
		return check(&source);
	for (int i = 0; i < cli->n_names; i++) {
		source = core_source(cli->names[i]);
		if (check(&source) != EXIT_OK)
			worst = EXIT_FAILED;
	}
	return worst;
}
