/* SPDX-License-Identifier: Apache-2.0 */
#include "config/source.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#define FNV_OFFSET UINT64_C(14695981039346656037)
#define FNV_PRIME  UINT64_C(1099511628211)

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

static int add_path(struct source_list *list, const char *directory, const char *name)
{
	char *path;

	if (grow_array(&list->paths, list->n, &list->allocated, sizeof(*list->paths)) < 0)
		return -ENOMEM;
	if (asprintf(&path, "%s/%s", directory, name) < 0)
		return -ENOMEM;
	list->paths[list->n++] = path;
	return 0;
}

void source_list_clear(struct source_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->paths[i]);
	free(list->paths);
	*list = (struct source_list){0};
}

int source_list_read(const char *directory, struct source_list *list)
{
	_cleanup_free_ struct dirent **entries = NULL;
	_cleanup_(source_list_clear) struct source_list found = {0};
	int n = scandir(directory, &entries, is_source, by_bytes);
	int r = 0;

	if (n < 0)
		return errno == ENOENT ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = add_path(&found, directory, entries[i]->d_name);
		free(entries[i]);
	}
	if (r < 0)
		return r;
	*list = found;
	found = (struct source_list){0};
	return 0;
}

static uint64_t mix(uint64_t hash, const void *data, size_t len)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ bytes[i]) * FNV_PRIME;
	return hash;
}

/* What cannot be looked at has a signature too: its errno. */
static uint64_t mix_file(uint64_t hash, const char *path)
{
	struct stat st;
	int error = stat(path, &st) < 0 ? errno : 0;

	hash = mix(hash, path, strlen(path) + 1);
	hash = mix(hash, &error, sizeof(error));
	if (error != 0)
		return hash;
	hash = mix(hash, &st.st_dev, sizeof(st.st_dev));
	hash = mix(hash, &st.st_ino, sizeof(st.st_ino));
	hash = mix(hash, &st.st_size, sizeof(st.st_size));
	hash = mix(hash, &st.st_mtim, sizeof(st.st_mtim));
	return mix(hash, &st.st_ctim, sizeof(st.st_ctim));
}

uint64_t config_source_signature(const struct config_source *source)
{
	_cleanup_(source_list_clear) struct source_list list = {0};
	uint64_t hash = FNV_OFFSET;

	if (source->file)
		hash = mix_file(hash, source->file);
	if (!source->directory)
		return hash;
	hash = mix_file(hash, source->directory);
	/* A directory that cannot be read has no files to look at; loading tells why. */
	(void)source_list_read(source->directory, &list);
	for (size_t i = 0; i < list.n; i++)
		hash = mix_file(hash, list.paths[i]);
	return hash;
}
