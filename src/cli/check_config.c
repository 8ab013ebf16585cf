/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/file.h"

#include "config/web.h"

/* Returns whether the node has the sysctl. If not, nearest is a similar name that exists, or empty.
 */
static bool sysctl_exists(
	const struct host *host, const char *name, char nearest[static SETTING_NAME_MAX])
{
	char path[SETTING_PATH_MAX], full[PATH_MAX], part[NAME_MAX + 1];
	size_t root, used;
	bool exists = true;

	nearest[0] = '\0';
	if (!sysctl_path(name, path))
		return false;
	root = used = strlen(host_path(host, "/proc/sys", full));
	for (const char *p = path + strlen("/proc/sys"); *p;) {
		size_t n = strcspn(++p, "/");

		snprintf(part, sizeof(part), "%.*s", (int)n, p);
		p += n;
		snprintf(full + used, sizeof(full) - used, "/%s", part);
		if (access(full, F_OK) < 0) {
			_cleanup_(cleanup_closedir) DIR *directory = NULL;
			struct suggestion found = {0};
			const struct dirent *entry;

			exists = false;
			full[used] = '\0';
			directory = opendir(full);
			while (directory && (entry = readdir(directory)))
				suggest_offer(&found, part, entry->d_name);
			if (!found.word[0])
				return false;
			snprintf(full + used, sizeof(full) - used, "/%s", found.word);
		}
		used += strlen(full + used);
	}
	copy_text(nearest, SETTING_NAME_MAX, full + root + 1);
	for (char *p = nearest; *p; p++)
		*p = *p == '/' ? '.' : *p == '.' ? '/' : *p;
	return exists;
}

/*
 * Prints faults to stderr, warnings to stdout. A sysctl that this node lacks is a
 * warning if a file sets it; profiles also list sysctls of other kernels.
 */
static int check_file(const struct host *host, const char *file, bool draft)
{
	struct config_source source = core_source(file);
	_cleanup_(config_faults_clear) struct config_fault_list faults = {0}, missing = {0};
	_cleanup_(cleanup_config_free) struct config *config = NULL;
	_cleanup_(cleanup_web_config_unref) struct web_config *web = NULL;
	const struct config_sysctl *sysctls;
	struct stat st;
	size_t n = 0;
	int r;

	source.draft = draft;
	r = core_load_config(&source, &config, &faults);
	if (r == 0 && config_text(config, "http.web_config")[0])
		r = web_config_load(config_text(config, "http.web_config"), &faults, &web);
	sysctls = config ? config_sysctls(config, &n) : NULL;
	for (size_t i = 0; i < n; i++) {
		char nearest[SETTING_NAME_MAX];

		if (sysctls[i].position.line > 0 && !sysctl_exists(host, sysctls[i].name, nearest))
			config_fault_add(&missing, &sysctls[i].position,
				"sysctl.%s: this node lacks the key%s%s%s", sysctls[i].name,
				nearest[0] ? ": did you mean " : "", nearest,
				nearest[0] ? "?" : "");
	}
	/* A running agent must not fall back to the defaults because a file was being written. */
	if (r == 0 && file && stat(file, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
		config_fault_add(&missing, &(struct config_position){file, 1, 1},
			"the file is empty: a running agent keeps what it loaded before, and an "
			"agent that starts uses the defaults");
	config_faults_print(stderr, &faults, "");
	config_faults_print(stdout, &missing, "warning: ");
	if (web)
		config_faults_print(stdout, &web->warnings, "warning: ");
	return r == 0 ? EXIT_OK : EXIT_FAILED;
}

int cli_check_config(const struct cli *cli)
{
	struct host host;
	int r = EXIT_OK;

	if (!host_init(&host, cli->core.host_root))
		return cli_fail(cli->core.host_root, "the path is too long");
	if (cli->n_names == 0)
		return check_file(&host, cli->core.config_file, false);
	for (int i = 0; i < cli->n_names; i++)
		r |= check_file(&host, cli->names[i], true);
	return r;
}
