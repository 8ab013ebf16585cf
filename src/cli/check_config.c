/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "config/web.h"
#include "tuners/table.h"

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

/* Prints "OK: FILE, FILE". */
static void print_fine(const struct config *config)
{
	const char *file;

	printf("OK: ");
	for (size_t i = 0; (file = config_file(config, i)); i++)
		printf("%s%s", i > 0 ? ", " : "", file);
	puts(config_file(config, 0) ? "" : "no file sets anything: the defaults are used");
}

/*
 * Prints faults to stderr, warnings to stdout. A sysctl that this node lacks is a
 * warning if a file sets it; profiles also list sysctls of other kernels.
 */
static int check_file(const struct host *host, const struct core_options *options, bool draft)
{
	struct config_source source = core_source(options->config_file);
	_cleanup_(config_faults_clear) struct config_fault_list faults = {0}, missing = {0};
	_cleanup_(cleanup_config_free) struct config *config = NULL;
	_cleanup_(cleanup_web_config_unref) struct web_config *web = NULL;
	struct config_position option;
	const struct config_sysctl *sysctls;
	_cleanup_free_ char *lost = NULL;
	size_t n = 0;
	int r;

	source.draft = draft;
	r = core_load_config(&source, &config, &faults);
	if (r == 0 && config_text(config, "http.web_config")[0]) {
		option = config_where(config, "http.web_config");
		r = web_config_load(config_text(config, "http.web_config"), &option, &faults, &web);
	}
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
	if (r == 0 && !draft)
		(void)last_good_lost_file(host, options, config, &lost);
	else if (r == 0 && !config_file(config, 0))
		lost = must(strdup(options->config_file));
	if (lost)
		config_fault_add(&missing, &(struct config_position){lost, 1, 1},
			"the file is empty or gone: a running agent keeps what it loaded before, "
			"and an agent that starts uses the defaults");
	config_faults_print(stderr, &faults, "");
	if (config)
		config_faults_print(stdout, config_warnings(config), "warning: ");
	config_faults_print(stdout, &missing, "warning: ");
	if (web)
		config_faults_print(stdout, &web->warnings, "warning: ");
	if (r == 0)
		print_fine(config);
	return r == 0 ? EXIT_OK : EXIT_FAILED;
}

/* ---- headroom config ---- */

/* Writes "  # FILE:LINE", or the profile, or default. */
static void print_from(int column, struct config_position from)
{
	printf("%*s# %s", column < 40 ? 40 - column : 2, "", from.file);
	if (from.line > 0)
		printf(":%u", from.line);
	putchar('\n');
}

/* Writes a text as YAML reads it back, without the secrets of URLs. Returns the columns. */
static int print_text(const char *text)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *value = NULL;
	_cleanup_free_ char *quoted = NULL, *clean = must(strdup(text));

	hide_secrets(clean);
	if (clean[0] && !strpbrk(clean, "!&*:#,[]{}|>@`\"'%\\ \t\n?~") && clean[0] != '-' &&
		strcasecmp(clean, "null") != 0)
		return printf("%s", clean);
	value = must(cJSON_CreateString(clean));
	quoted = must(cJSON_PrintUnformatted(value));
	return printf("%s", quoted);
}

/* Writes an item: a text, or {KEY: TEXT, ...}. */
static int print_item(const struct config *config, const struct config_option *option, size_t i)
{
	int columns = 0;

	if (!option->items->name[0])
		return print_text(config_item(config, option->name, i, ""));
	columns += printf("{");
	for (const struct config_option *field = option->items; field->name; field++) {
		const char *text = config_item(config, option->name, i, field->name);

		if (!text[0])
			continue;
		columns += printf("%s%s: ", columns > 1 ? ", " : "", field->name);
		columns += print_text(text);
	}
	return columns + printf("}");
}

static void print_value(const struct config *config, const struct config_option *option, int column)
{
	const char *text = config_text(config, option->name);
	const size_t n = config_list(config, option->name);

	if (option->type == OPTION_LIST && !text[0]) {
		column += printf("[");
		for (size_t i = 0; i < n; i++) {
			column += printf("%s", i > 0 ? ", " : "");
			column += print_item(config, option, i);
		}
		column += printf("]");
	} else if (text[0] || config_is_given(config, option->name)) {
		column += print_text(text);
	} /* else null: "" is another value where the default is not empty */
	print_from(column, config_where(config, option->name));
}

static void print_sysctls(const struct config_sysctl *sysctls, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int column = printf("  ");

		column += print_text(sysctls[i].name);
		column += printf(": %s", sysctls[i].exact ? "{value: " : "");
		column += sysctls[i].value[0] ? print_text(sysctls[i].value) : printf("null");
		column += sysctls[i].exact ? printf(", exact: true}") : 0;
		print_from(column, sysctls[i].position);
	}
}

/* Without the null of a removed one the profile would set it again. */
static void print_all_sysctls(const struct config *config)
{
	const struct config_sysctl *sysctls;
	size_t n;

	sysctls = config_sysctls(config, &n);
	print_sysctls(sysctls, n);
	sysctls = config_removed_sysctls(config, &n);
	print_sysctls(sysctls, n);
}

/* Writes the sections of a name that the name before it does not have. Returns the indent. */
static int print_sections(const char *name, const char *before)
{
	int indent = 0;

	for (const char *at = name, *dot; (dot = strchr(at, '.')); at = dot + 1) {
		char section[OPTION_NAME_MAX];

		snprintf(section, sizeof(section), "%.*s", (int)(dot + 1 - name), name);
		if (!starts_with(before, section))
			printf("%*s%.*s:\n", indent, "", (int)(dot - at), at);
		indent += 2;
	}
	return indent;
}

/* Returns whether a section has one value, such as keep, and not its keys. */
static bool is_one_value(const struct config *config, const char *section)
{
	for (size_t i = 0; option_tables[i]; i++)
		for (const struct config_option *row = option_tables[i]; row->name; row++)
			if (option_is_below(row->name, section) && !streq(row->name, section) &&
				config_is_given(config, row->name))
				return false;
	return config_text(config, section)[0];
}

/* A section that may have one value shows it, or its keys. */
static bool is_shown(const struct config *config, const struct config_option *option)
{
	char name[OPTION_NAME_MAX];

	set_text(name, option->name);
	if (option_is_section(option_tables, name) && option->type != OPTION_SYSCTLS)
		return is_one_value(config, name);
	for (char *dot; (dot = strrchr(name, '.'));) {
		*dot = '\0';
		if (option_find(option_tables, name) && is_one_value(config, name))
			return false;
	}
	return true;
}

static void print_config(const struct config *config)
{
	char before[OPTION_NAME_MAX] = "";

	for (size_t i = 0; option_tables[i]; i++)
		for (const struct config_option *row = option_tables[i]; row->name; row++) {
			const char *last = strrchr(row->name, '.');

			if (!is_shown(config, row))
				continue;
			if (row->type == OPTION_SYSCTLS) {
				printf("%s:\n", row->name);
				print_all_sysctls(config);
				snprintf(before, sizeof(before), "%s.", row->name);
				continue;
			}
			int indent = print_sections(row->name, before);

			print_value(config, row,
				printf("%*s%s: ", indent, "", last ? last + 1 : row->name));
			set_text(before, row->name);
		}
}

int cli_config(const struct cli *cli)
{
	_cleanup_(cleanup_config_free) struct config *config = cli_load_config(cli, NULL);
	cJSON *document;

	if (!config)
		return EXIT_FAILED;
	if (!cli->json) {
		print_config(config);
		return EXIT_OK;
	}
	document = cJSON_CreateObject();
	json_number(document, "schema", 1);
	json_adopt(document, "config", config_json(config));
	return json_put(stdout, document, true) ? EXIT_OK : EXIT_FAILED;
}

/* ---- headroom check-config ---- */

int cli_check_config(const struct cli *cli)
{
	struct host host;
	int r = EXIT_OK;

	if (!host_init(&host, cli->core.host_root))
		return cli_fail(cli->core.host_root, "the path is too long");
	if (cli->n_names == 0)
		return check_file(&host, &cli->core, false);
	for (int i = 0; i < cli->n_names; i++)
		r |= check_file(&host, &(struct core_options){.config_file = cli->names[i]}, true);
	return r;
}
