/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "kernel/sysctl.h"

#include <stdio.h>

static void print_places(FILE *out, const struct config_fault_list *list, const char *kind)
{
	for (size_t i = 0; i < list->n; i++)
		fprintf(out, "%s:%u:%u: %s%s\n", list->faults[i].file, list->faults[i].line,
			list->faults[i].column, kind, list->faults[i].message);
}

/* What a file wants of a sysctl that this node does not have; a profile's may be another kernel's.
 */
static void print_missing_sysctls(const struct host *host, const struct config *config)
{
	size_t n;
	const struct config_sysctl *sysctls = config_sysctls(config, &n);

	for (size_t i = 0; i < n; i++) {
		const struct config_place *place = &sysctls[i].place;
		char nearest[SETTING_NAME_MAX];

		if (place->line == 0 || sysctl_exists(host, sysctls[i].name, nearest))
			continue;
		printf("%s:%u:%u: warning: sysctl.%s: this node has no such key%s%s%s\n",
			place->file, place->line, place->column, sysctls[i].name,
			nearest[0] ? ": did you mean " : "", nearest, nearest[0] ? "?" : "");
	}
}

/* Faults to stderr, one a line; what is merely worth knowing to stdout. */
static int check(const struct host *host, const struct config_source *source)
{
	struct config_fault_list faults = {0}, notices = {0};
	struct config *config = NULL;
	int r = core_load_config(source, &config, &faults, &notices);

	print_places(stderr, &faults, "");
	if (r == 0) {
		print_places(stdout, &notices, "notice: ");
		print_missing_sysctls(host, config);
	}
	if (r < 0 && faults.n == 0)
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
	struct host host;

	if (!host_init(&host, cli->core.host_root))
		return cli_fail(cli->core.host_root, "the path is too long");
	if (cli->n_names == 0)
		return check(&host, &source);
	for (int i = 0; i < cli->n_names; i++) {
		source = core_source(cli->names[i]);
		if (check(&host, &source) != EXIT_OK)
			worst = EXIT_FAILED;
	}
	return worst;
}
