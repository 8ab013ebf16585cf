/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "tuners/table.h"

/* What a file sets that this node does not have as a sysctl; a profile's may be another kernel's.
 */
static void print_missing_sysctls(const struct host *host, const struct config *config)
{
	struct config_fault_list missing = {0};
	size_t n;
	const struct config_sysctl *sysctls = config_sysctls(config, &n);

	for (size_t i = 0; i < n; i++) {
		char nearest[SETTING_NAME_MAX];

		if (sysctls[i].place.line > 0 && !sysctl_exists(host, sysctls[i].name, nearest))
			config_fault_add(&missing, &sysctls[i].place,
				"sysctl.%s: this node has no such key%s%s%s", sysctls[i].name,
				nearest[0] ? ": did you mean " : "", nearest,
				nearest[0] ? "?" : "");
	}
	config_faults_print(stdout, &missing, "warning: ");
	config_faults_clear(&missing);
}

/* Faults to stderr, one a line; what is merely worth knowing to stdout. */
static int check(const struct host *host, const struct config_source *source)
{
	struct config_fault_list faults = {0}, notices = {0};
	struct config *config = NULL;
	int r = core_load_config(source, &config, &faults, &notices);

	config_faults_print(stderr, &faults, "");
	if (r == 0) {
		config_faults_print(stdout, &notices, "notice: ");
		print_missing_sysctls(host, config);
	}
	if (config)
		config_free(config);
	config_faults_clear(&faults);
	config_faults_clear(&notices);
	return r == 0 ? EXIT_OK : EXIT_FAILED;
}

int cli_check_config(const struct cli *cli)
{
	struct config_source source = core_source(cli->core.config_file);
	struct host host;
	int r;

	if (!host_init(&host, cli->core.host_root))
		return cli_fail(cli->core.host_root, "the path is too long");
	r = cli->n_names == 0 ? check(&host, &source) : EXIT_OK;
	for (int i = 0; i < cli->n_names; i++) {
		source = core_source(cli->names[i]);
		r |= check(&host, &source);
	}
	return r;
}
