/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/neightbl.h"

#include <sys/socket.h>

#define COLUMNS_MAX 32

const char *neightbl_stat_path(int family)
{
	return family == AF_INET ? "/proc/net/stat/arp_cache" : "/proc/net/stat/ndisc_cache";
}

const char *neightbl_name(int family)
{
	return family == AF_INET ? "arp_cache" : "ndisc_cache";
}

void neightbl_threshold_name(int family, int level, char name[static SETTING_NAME_MAX])
{
	snprintf(name, SETTING_NAME_MAX, "net.%s.neigh.default.gc_thresh%d",
		family == AF_INET ? "ipv4" : "ipv6", level);
}

/* Which statistic a column holds; the header names it, so that a kernel may add columns. */
static uint64_t *column_target(const char *name, struct neightbl_stats *stats)
{
	const struct {
		const char *name;
		uint64_t *target;
	} columns[] = {
		{"entries", &stats->entries},
		{"allocs", &stats->allocs},
		{"forced_gc_runs", &stats->forced_gc},
		{"table_fulls", &stats->table_fulls},
	};

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		if (streq(name, columns[i].name))
			return columns[i].target;
	return NULL;
}

int neightbl_parse_stats(char *text, struct neightbl_stats *ret)
{
	struct neightbl_stats stats = {0};
	uint64_t unknown = 0, *targets[COLUMNS_MAX];
	char *lines = NULL, *names = NULL;
	char *line = strtok_r(text, "\n", &lines);
	size_t columns = 0;

	for (char *name = line ? strtok_r(line, " \t", &names) : NULL;
		name && columns < COLUMNS_MAX; name = strtok_r(NULL, " \t", &names)) {
		uint64_t *target = column_target(name, &stats);

		targets[columns++] = target ? target : &unknown;
	}
	line = strtok_r(NULL, "\n", &lines);
	if (columns == 0 || targets[0] != &stats.entries || !line)
		return -EBADMSG;
	for (; line; line = strtok_r(NULL, "\n", &lines)) {
		/* Every line repeats the table's entries; all else happened on one CPU. */
		stats.entries = 0;
		for (size_t i = 0; i < columns; i++)
			*targets[i] += strtoull(line, &line, 16);
	}
	*ret = stats;
	return 0;
}

int neightbl_read_stats(const struct host *host, struct kept_file *file, char *scratch, size_t size,
	struct neightbl_stats *stats)
{
	size_t have = 0;
	int n;

	/* A seq_file hands out a page at a time: read on until it ends. */
	n = kept_read(host, file, scratch, size);
	while (n > 0) {
		have += (size_t)n;
		if (have + 1 >= size)
			return -EFBIG;
		n = (int)pread(file->fd, scratch + have, size - have - 1, (off_t)have);
	}
	if (n < 0)
		return have > 0 ? -errno : n;
	scratch[have] = '\0';
	return neightbl_parse_stats(scratch, stats);
}
