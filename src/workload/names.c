/* SPDX-License-Identifier: Apache-2.0 */
#include "workload/names.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>

struct source {
	char name[108]; /* a socket's path, mostly */
	struct name_entry *entries;
	size_t n;
};

struct names {
	struct source sources[NAMES_SOURCES_MAX];
};

struct names *names_open(void)
{
	return calloc(1, sizeof(struct names));
}

void names_close(struct names *names)
{
	for (size_t i = 0; i < NAMES_SOURCES_MAX; i++)
		free(names->sources[i].entries);
	free(names);
}

static int by_id(const void *a, const void *b)
{
	const struct name_entry *left = a, *right = b;

	return strcmp(left->workload.id, right->workload.id);
}

/* The source of that name, or a free element for it. */
static struct source *find_source(struct names *names, const char *name)
{
	struct source *free_one = NULL;

	for (size_t i = 0; i < NAMES_SOURCES_MAX; i++) {
		struct source *source = &names->sources[i];

		if (source->entries && streq(source->name, name))
			return source;
		if (!source->entries && !free_one)
			free_one = source;
	}
	return free_one;
}

int names_replace(struct names *names, const char *name, struct name_entry *entries, size_t n)
{
	struct source *source = find_source(names, name);

	if (!source || strlen(name) >= sizeof(source->name)) {
		free(entries);
		return source ? -ENAMETOOLONG : -ENOSPC;
	}
	free(source->entries);
	*source = (struct source){.entries = entries, .n = n};
	copy_text(source->name, sizeof(source->name), name);
	if (n > 0)
		qsort(entries, n, sizeof(*entries), by_id);
	return 0;
}

bool names_apply(const struct names *names, struct workload *workload)
{
	struct name_entry key = {.workload = *workload};

	for (size_t i = 0; names && workload->id[0] && i < NAMES_SOURCES_MAX; i++) {
		const struct source *source = &names->sources[i];
		const struct name_entry *found = source->n == 0
							 ? NULL
							 : bsearch(&key, source->entries, source->n,
								   sizeof(*source->entries), by_id);

		if (!found)
			continue;
		*workload = found->workload;
		return true;
	}
	return false;
}

bool names_at_address(const struct names *names, const char *address, struct workload *workload)
{
	for (size_t i = 0; names && address[0] && i < NAMES_SOURCES_MAX; i++) {
		const struct source *source = &names->sources[i];

		for (size_t e = 0; e < source->n; e++) {
			if (!streq(source->entries[e].address, address))
				continue;
			*workload = source->entries[e].workload;
			return true;
		}
	}
	return false;
}
