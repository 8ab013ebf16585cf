/* SPDX-License-Identifier: Apache-2.0 */
#include "config/internal.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#define FNV_OFFSET UINT64_C(14695981039346656037)
#define FNV_PRIME  UINT64_C(1099511628211)

struct loading {
	struct config *config;
	struct config_fault_list *faults, *notices;
};

struct node *node_child(const struct node *map, const char *key)
{
	for (struct node *child = map->kind == NODE_MAP ? map->children : NULL; child;
		child = child->next)
		if (streq(child->key, key))
			return child;
	return NULL;
}

/* Lays one file's tree over another: maps merge, everything else replaces. Takes the nodes over. */
static void merge(struct node *into, struct node *from)
{
	for (struct node *child = steal(from->children), *next; child; child = next) {
		struct node **at = &into->children;

		next = child->next;
		while (*at && !streq((*at)->key, child->key))
			at = &(*at)->next;
		if (*at && (*at)->kind == NODE_MAP && child->kind == NODE_MAP && !child->whole) {
			merge(*at, child);
			node_free(child);
			continue;
		}
		child->next = NULL;
		if (*at) {
			child->cleared = true;
			child->next = (*at)->next;
			node_free(*at);
		}
		*at = child;
	}
}

static int take_text(const struct loading *loading, const char *file, const char *text, size_t len)
{
	_cleanup_(cleanup_node_free) struct node *root = NULL;
	struct config *config = loading->config;
	const char *name = config_keep_name(config, "", file);
	int r = name ? document_parse(name, text, len, &root, loading->faults) : -ENOMEM;

	if (r < 0 || !root)
		return r;
	check_document(config->tables, config->root, root, loading->faults, loading->notices);
	if (!config->root)
		config->root = steal(root);
	else
		merge(config->root, root);
	return 0;
}

static int file_fault(const struct loading *loading, const char *path, int error)
{
	static const struct {
		int error;
		const char *message;
	} messages[] = {
		{-ENOENT, "no such file: make it, or name another one"},
		{-EFBIG, "the file is larger than 256 kB: this is no configuration of headroom"},
		{-EISDIR, "a directory, not a file: remove or rename it"},
		{-EINVAL, "neither a file nor a link to one: put a plain file here"},
		{-ENXIO, "neither a file nor a link to one: put a plain file here"}, /* a socket */
	};
	struct config_place place = {.file = path, .line = 1, .column = 1};

	if (error == -ENOMEM)
		return error;
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
		if (messages[i].error != error)
			continue;
		config_fault_add(loading->faults, &place, "%s", messages[i].message);
		return -EINVAL;
	}
	config_fault_add(loading->faults, &place,
		"cannot be read: %s: check the path and give read access to it", strerror(-error));
	return -EINVAL;
}

static int take_file(const struct loading *loading, const char *path, bool optional)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int r = read_file(path, CONFIG_FILE_MAX, &text, &len);

	if (r == -ENOENT && optional)
		return 0;
	return r < 0 ? file_fault(loading, path, r) : take_text(loading, path, text, len);
}

/* Hidden names are not files of a person's: editors' backups, and a ConfigMap's ..data. */
static int is_source(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);

	return entry->d_name[0] != '.' && len > strlen(".yaml") &&
	       streq(entry->d_name + len - strlen(".yaml"), ".yaml");
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/*
 * Calls take for the *.yaml of a directory in name order; a missing directory has none. All are
 * taken, so that all faults are reported at once: the first result that is no 0, or -errno.
 */
static int for_each_source(
	const char *directory, int (*take)(const char *path, void *userdata), void *userdata)
{
	struct dirent **entries = NULL;
	int n = scandir(directory, &entries, is_source, by_bytes), result = 0;

	if (n < 0)
		return errno == ENOENT ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];
		int r;

		snprintf(path, sizeof(path), "%s/%s", directory, entries[i]->d_name);
		free(entries[i]);
		r = take(path, userdata);
		result = result == 0 ? r : result;
	}
	free(entries);
	return result;
}

static int take_source(const char *path, void *userdata)
{
	int r = take_file(userdata, path, false);

	return r == -EINVAL ? 0 : r; /* told as a fault */
}

/* Hands the configuration out if nothing was found wrong with it. r: of reading the files. */
static int finish(struct config **config, int r, size_t faults_before,
	struct config_fault_list *faults, struct config **ret)
{
	if (r == 0 && faults->n == faults_before)
		r = config_settle(*config, faults);
	if (r == 0 && faults->n > faults_before)
		r = -EINVAL;
	if (r == 0)
		*ret = steal(*config);
	return r;
}

int config_load_text(const char *name, const char *text, size_t len,
	const struct config_option *const *tables, struct config **ret,
	struct config_fault_list *faults, struct config_fault_list *notices)
{
	_cleanup_(cleanup_config_free) struct config *config = NULL;
	size_t before = faults->n;
	int r = config_new(tables, &config);

	if (r == 0)
		r = take_text(&(struct loading){config, faults, notices}, name, text, len);
	return finish(&config, r, before, faults, ret);
}

int config_load(const struct config_source *source, const struct config_option *const *tables,
	struct config **ret, struct config_fault_list *faults, struct config_fault_list *notices)
{
	_cleanup_(cleanup_config_free) struct config *config = NULL;
	struct loading loading = {.faults = faults, .notices = notices};
	size_t before = faults->n;
	int of_directory = 0, r = config_new(tables, &config);

	loading.config = config;
	if (r == 0 && source->file)
		r = take_file(&loading, source->file, source->optional);
	/* A fault of one does not keep the others' from being reported. */
	if ((r == 0 || r == -EINVAL) && source->directory) {
		of_directory = for_each_source(source->directory, take_source, &loading);
		if (of_directory < 0 && of_directory != -ENOMEM)
			of_directory = file_fault(&loading, source->directory, of_directory);
	}
	return finish(&config,
		r == -ENOMEM       ? r
		: of_directory < 0 ? of_directory
				   : r,
		before, faults, ret);
}

/* ---- has it changed? ---- */

static uint64_t mix(uint64_t hash, const void *data, size_t len)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ bytes[i]) * FNV_PRIME;
	return hash;
}

/* What cannot be read has a signature too: its errno. */
static int mix_file(const char *path, void *userdata)
{
	uint64_t *hash = userdata;
	struct stat st = {0};
	int error = stat(path, &st) < 0 ? errno : 0;

	*hash = mix(*hash, path, strlen(path) + 1);
	*hash = mix(*hash, &error, sizeof(error));
	*hash = mix(*hash, &st.st_dev, sizeof(st.st_dev));
	*hash = mix(*hash, &st.st_ino, sizeof(st.st_ino));
	*hash = mix(*hash, &st.st_size, sizeof(st.st_size));
	*hash = mix(*hash, &st.st_mtim, sizeof(st.st_mtim));
	*hash = mix(*hash, &st.st_ctim, sizeof(st.st_ctim));
	return 0;
}

int config_source_each(const struct config_source *source,
	int (*take)(const char *path, void *userdata), void *userdata)
{
	int r = source->file ? take(source->file, userdata) : 0;

	return r == 0 && source->directory ? for_each_source(source->directory, take, userdata) : r;
}

uint64_t config_source_signature(const struct config_source *source)
{
	uint64_t hash = FNV_OFFSET;

	if (source->directory)
		mix_file(source->directory, &hash);
	/* A directory that cannot be read has no files to read; loading says why. */
	(void)config_source_each(source, mix_file, &hash);
	return hash;
}
