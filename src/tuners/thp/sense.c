/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/thp/thp.h"

#include "base/file.h"
#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* /proc/meminfo is 60 lines of 28 bytes. */
#define MEMINFO_SIZE 8192

static void add_switch(
	struct thp_seen *seen, enum thp_switch_kind kind, const char *name, const char *path)
{
	struct thp_switch *added = &seen->switches[seen->n_switches];

	if (seen->n_switches == THP_SWITCHES_MAX)
		return;
	added->kind = kind;
	added->file.fd = -1;
	if (copy_text(added->name, sizeof(added->name), name) &&
		copy_text(added->file.path, sizeof(added->file.path), path))
		seen->n_switches++;
}

static void add_size_switch(const struct host *host, struct thp_seen *seen,
	enum thp_switch_kind kind, const char *directory, const char *file)
{
	char name[SETTING_NAME_MAX], path[SETTING_PATH_MAX], value[SETTING_VALUE_MAX];

	snprintf(name, sizeof(name), "thp.%.60s.%s", directory, file);
	snprintf(path, sizeof(path), THP_DIRECTORY "/%.60s/%s", directory, file);
	/* Not every size has both: 8 kB is for shared memory alone. */
	if (host_read_value(host, path, value) != -ENOENT)
		add_switch(seen, kind, name, path);
}

static int is_size(const struct dirent *entry)
{
	return starts_with(entry->d_name, "hugepages-");
}

static void find_sizes(const struct host *host, struct thp_seen *seen)
{
	char full[PATH_MAX];
	struct dirent **sizes;
	int n;

	if (!host_path(host, THP_DIRECTORY, full))
		return;
	n = scandir(full, &sizes, is_size, versionsort);
	for (int i = 0; i < n; i++) {
		add_size_switch(host, seen, THP_SIZE_ENABLED, sizes[i]->d_name, "enabled");
		add_size_switch(
			host, seen, THP_SIZE_SHMEM_ENABLED, sizes[i]->d_name, "shmem_enabled");
		free(sizes[i]);
	}
	if (n >= 0)
		free(sizes);
}

void thp_parse_boot_line(const char *line, struct thp_seen *seen)
{
	static const struct {
		const char *parameter;
		enum thp_switch_kind kind;
	} known[] = {
		{"transparent_hugepage=", THP_ENABLED},
		{"transparent_hugepage_shmem=", THP_SHMEM_ENABLED},
		{"thp_anon=", THP_SIZE_ENABLED},
		{"thp_shmem=", THP_SIZE_SHMEM_ENABLED},
	};
	char word[96];
	int used;

	for (; sscanf(line, "%95s%n", word, &used) == 1; line += used) {
		size_t have = strlen(seen->boot_line);

		for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
			if (!starts_with(word, known[i].parameter))
				continue;
			snprintf(seen->boot_line + have, sizeof(seen->boot_line) - have, "%s%s",
				have > 0 ? " " : "", word);
			seen->at_boot[known[i].kind] = true;
		}
	}
}

void thp_sensor_open(struct thp_sensor *sensor, const struct host *host, struct thp_seen *seen)
{
	_cleanup_free_ char *line = NULL;
	char full[PATH_MAX];

	sensor->host = host;
	sensor->meminfo = (struct kept_file){.path = "/proc/meminfo", .fd = -1};
	add_switch(seen, THP_ENABLED, "thp.enabled", THP_DIRECTORY "/enabled");
	add_switch(seen, THP_DEFRAG, "thp.defrag", THP_DIRECTORY "/defrag");
	add_switch(seen, THP_SHMEM_ENABLED, "thp.shmem_enabled", THP_DIRECTORY "/shmem_enabled");
	add_switch(seen, THP_KHUGEPAGED_DEFRAG, "thp.khugepaged.defrag",
		THP_DIRECTORY "/khugepaged/defrag");
	find_sizes(host, seen);
	if (host_path(host, "/proc/cmdline", full) && read_file(full, 65536, &line, NULL) == 0)
		thp_parse_boot_line(line, seen);
}

void thp_sensor_close(struct thp_sensor *sensor, struct thp_seen *seen)
{
	for (unsigned i = 0; i < seen->n_switches; i++)
		kept_close(&seen->switches[i].file);
	kept_close(&sensor->meminfo);
}

/* A line's number; 0 for a line that this kernel does not have. */
static uint64_t meminfo_kb(const char *text, const char *name)
{
	const char *line = strstr(text, name);
	uint64_t kb = 0;

	if (line)
		sscanf(line + strlen(name), " %" SCNu64, &kb);
	return kb;
}

int thp_parse_meminfo(const char *text, struct thp_usage *usage)
{
	if (!strstr(text, "\nAnonHugePages:"))
		return -EBADMSG;
	usage->anon = meminfo_kb(text, "\nAnonHugePages:");
	usage->shmem = meminfo_kb(text, "\nShmemHugePages:");
	usage->file = meminfo_kb(text, "\nFileHugePages:");
	return 0;
}

void thp_sense(struct thp_sensor *sensor, struct thp_seen *seen)
{
	char text[MEMINFO_SIZE];
	int n;

	for (unsigned i = 0; i < seen->n_switches; i++) {
		struct thp_switch *s = &seen->switches[i];

		s->error = kept_read_value(sensor->host, &s->file, s->actual);
	}
	n = kept_read(sensor->host, &sensor->meminfo, text, sizeof(text));
	seen->usage_error = n < 0 ? n : thp_parse_meminfo(text, &seen->usage);
}
