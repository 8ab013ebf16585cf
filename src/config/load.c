/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "base/file.h"

#include <fnmatch.h>
#include <libgen.h>
#include <sys/statvfs.h>
#include <zlib.h>

static void file_fault(struct config *config, const char *path, int error)
{
	static const struct {
		int error;
		const char *message;
	} messages[] = {
		{-ENOENT, "no such file: create it, or name another file"},
		{-EFBIG, "the file is larger than 256 kB: this is not a configuration of headroom"},
		{-EISDIR, "a directory, not a file: remove or rename it"},
		{-EINVAL, "not a regular file: put a plain file here"},
		{-ENXIO, "not a regular file: put a plain file here"}, /* a socket */
	};
	struct config_position position = {.file = path, .line = 1, .column = 1};

	for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
		if (messages[i].error == error) {
			config_fault_add(config->faults, &position, "%s", messages[i].message);
			return;
		}
	config_fault_add(config->faults, &position,
		"cannot be read: %s: check the path and give read access to it", strerror(-error));
}

void config_check_writers(struct config *config, const char *path, mode_t allowed)
{
	const struct config_position position = {.file = path, .line = 1, .column = 1};
	struct statvfs mount;
	struct stat st;

	/* Other users may read their own files: the commands of other users change nothing. */
	if (config->draft || geteuid() != 0 || stat(path, &st) < 0 || statvfs(path, &mount) < 0 ||
		mount.f_flag & ST_RDONLY || st.st_mode & allowed)
		return;
	if (st.st_uid != 0 || st.st_mode & (S_IWGRP | S_IWOTH))
		config_fault_add(config->faults, &position,
			"users other than root can write this %s: run chown root and chmod go-w on it",
			S_ISDIR(st.st_mode) ? "directory" : "file");
}

static void load_text(struct config *config, const char *path, const char *text, size_t len)
{
	cJSON *file = json_append(config->files);
	struct tree *root;

	json_text(file, "name", path);
	json_text(file, "text", text);
	root = document_load(config, json_text_at(file, "name"), text, len);
	if (root)
		document_merge(config, root);
}

static void load_file(const char *path, bool optional, void *userdata)
{
	struct config *config = userdata;
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int r = read_file(path, CONFIG_FILE_MAX, &text, &len);

	if (r < 0 && !(r == -ENOENT && optional))
		file_fault(config, path, r);
	if (r == 0)
		config_check_writers(config, path, 0);
	if (r == 0 && len > 0)
		load_text(config, path, text, len);
}

/* Names with a leading dot are backups of editors, or ..data of a ConfigMap. */
static int is_source(const struct dirent *entry)
{
	return fnmatch("*.yaml", entry->d_name, FNM_PERIOD) == 0;
}

/* Calls visit for the main file, then for the files of the directory in name order. Returns 0, or
 * -errno if the directory exists but cannot be read. */
static int for_each_source(const struct config_source *source,
	void (*visit)(const char *path, bool optional, void *userdata), void *userdata)
{
	struct dirent **entries = NULL;
	int n;

	if (source->file)
		visit(source->file, source->optional, userdata);
	n = source->directory ? scandir(source->directory, &entries, is_source, alphasort) : 0;
	if (n < 0)
		return errno == ENOENT ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", source->directory, entries[i]->d_name);
		free(entries[i]);
		visit(path, false, userdata);
	}
	free(entries);
	return 0;
}

void config_free(struct config *config)
{
	for (struct tree *tree = config->trees, *next; tree; tree = next) {
		next = tree->allocated;
		free(tree);
	}
	cJSON_Delete(config->files);
	free(config->rows);
	free(config->sysctls);
	free(config);
}

/* Sets the default if neither a file nor the profile sets a value. */
static void apply_default(struct config *config, struct row *row)
{
	const struct config_option *option = row->option;
	const char *text = option->def ? option->def : option->type == OPTION_LIST ? "[]" : "";

	if (row->tree && (row->tree->kind == TREE_TEXT || row->tree->kind == TREE_LIST))
		return;
	if (option->type == OPTION_LIST && word_index(option->choices, text) < 0)
		row->tree = must(document_load(config, NULL, text, strlen(text)));
	else
		row->tree = tree_new(
			config, TREE_TEXT, (struct config_position){.file = "default"}, text);
}

struct config_sysctl *config_sysctl(struct config *config, const char *name)
{
	struct config_sysctl *sysctl = find_named(config->sysctls, config->n_sysctls, name);

	if (sysctl)
		return sysctl;
	sysctl = add_element(&config->sysctls, &config->n_sysctls, &config->sysctls_allocated);
	set_text(sysctl->name, name);
	return sysctl;
}

static int by_name(const void *a, const void *b)
{
	const struct config_sysctl *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Adds the values of the profile that no file overrides, and drops the removed sysctls. */
static void apply_profile(struct config *config, const char *profile)
{
	const struct config_position position = {.file = config->profile};
	bool no_sysctls = config_row(config, "sysctl")->tree != NULL;
	size_t kept = 0;

	snprintf(config->profile, sizeof(config->profile), "profile %s", profile);
	for (const struct profile_row *given = profile_rows; given->name; given++) {
		bool is_sysctl = starts_with(given->name, "sysctl.");
		struct row *row = is_sysctl ? NULL : config_row(config, given->name);
		struct config_sysctl *sysctl;

		if (!streq(given->profile, profile))
			continue;
		if (row && !row->tree)
			row->tree = tree_new(config, TREE_TEXT, position, given->value);
		if (!is_sysctl || no_sysctls)
			continue;
		sysctl = config_sysctl(config, given->name + strlen("sysctl."));
		if (sysctl->position.file)
			continue;
		sysctl->position = position;
		set_text(sysctl->value, given->value);
	}
	for (size_t i = 0; i < config->n_sysctls; i++)
		if (config->sysctls[i].value[0])
			config->sysctls[kept++] = config->sysctls[i];
	config->n_sysctls = kept;
	if (kept > 1)
		qsort(config->sysctls, kept, sizeof(*config->sysctls), by_name);
}

int config_load(const struct config_source *source, const struct config_option *const *tables,
	struct config **ret, struct config_fault_list *faults)
{
	_cleanup_(cleanup_config_free) struct config *config = must(calloc(1, sizeof(*config)));
	_cleanup_free_ char *parent = must(strdup(source->file ? source->file : ""));
	size_t before = faults->n;
	const cJSON *file;
	struct row *profile;
	int r;

	*config = (struct config){.tables = tables, .faults = faults, .draft = source->draft};
	config->files = must(cJSON_CreateArray());
	for (; *tables; tables++)
		for (const struct config_option *option = *tables; option->name; option++) {
			struct row *row = add_element(
				&config->rows, &config->n_rows, &config->rows_allocated);

			row->option = option;
		}
	if (source->file)
		config_check_writers(config, dirname(parent), S_ISVTX); /* as /tmp */
	if (source->directory)
		config_check_writers(config, source->directory, 0);
	cJSON_ArrayForEach (file, source->texts) {
		const char *text = json_text_at(file, "text");

		load_text(config, json_text_at(file, "name"), text, strlen(text));
	}
	r = for_each_source(source, load_file, config);
	if (r < 0)
		file_fault(config, source->directory, r);
	if (faults->n > before)
		return -EINVAL;
	profile = config_row(config, "profile");
	apply_default(config, profile);
	apply_profile(config, profile->tree->text);
	for (size_t i = 0; i < config->n_rows; i++)
		apply_default(config, &config->rows[i]);
	config->faults = NULL;
	*ret = steal(config);
	return 0;
}

void config_mix_file(const char *path, bool, void *userdata)
{
	uLong *sum = userdata;
	struct stat st = {0};

	if (stat(path, &st) < 0)
		st.st_dev = (dev_t)errno;
	/* These change without a change of the content. */
	st.st_atim = (struct timespec){0};
	st.st_blocks = 0;
	*sum = crc32(*sum, (const Bytef *)path, (uInt)strlen(path) + 1);
	*sum = crc32(*sum, (const Bytef *)&st, sizeof(st));
}

uint64_t config_source_signature(const struct config_source *source)
{
	uLong sum = 0;

	if (source->directory)
		config_mix_file(source->directory, true, &sum);
	/* config_load() reports a directory that cannot be read. */
	(void)for_each_source(source, config_mix_file, &sum);
	return sum;
}
