/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/thp/thp.h"

#include "base/file.h"

#include <dirent.h>

/* /proc/meminfo is 60 lines of 28 bytes. */
#define MEMINFO_SIZE 8192

static void add_switch(
	struct thp *thp, enum thp_switch_kind kind, const char *name, const char *path)
{
	struct thp_switch *added = &thp->switches[thp->n_switches];

	if (thp->n_switches == THP_SWITCHES_MAX)
		return;
	added->kind = kind;
	added->file.fd = -1;
	if (copy_text(added->name, sizeof(added->name), name) &&
		copy_text(added->file.path, sizeof(added->file.path), path))
		thp->n_switches++;
}

static void add_size_switch(
	struct thp *thp, enum thp_switch_kind kind, const char *directory, const char *file)
{
	char name[SETTING_NAME_MAX], path[SETTING_PATH_MAX], value[SETTING_VALUE_MAX];

	snprintf(name, sizeof(name), "thp.%.60s.%s", directory, file);
	snprintf(path, sizeof(path), THP_DIRECTORY "/%.60s/%s", directory, file);
	/* Not every size has both: 8 kB is for shared memory alone. */
	if (host_read_value(thp->host, path, value) != -ENOENT)
		add_switch(thp, kind, name, path);
}

static int is_size(const struct dirent *entry)
{
	return starts_with(entry->d_name, "hugepages-");
}

static void find_sizes(struct thp *thp)
{
	char full[PATH_MAX];
	struct dirent **sizes;
	int n;

	n = scandir(host_path(thp->host, THP_DIRECTORY, full), &sizes, is_size, versionsort);
	for (int i = 0; i < n; i++) {
		add_size_switch(thp, THP_SIZE_ENABLED, sizes[i]->d_name, "enabled");
		add_size_switch(thp, THP_SIZE_SHMEM_ENABLED, sizes[i]->d_name, "shmem_enabled");
		free(sizes[i]);
	}
	if (n >= 0)
		free(sizes);
}

void thp_parse_boot_line(const char *line, struct thp *thp)
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
		size_t have = strlen(thp->boot_line);

		for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
			if (!starts_with(word, known[i].parameter))
				continue;
			snprintf(thp->boot_line + have, sizeof(thp->boot_line) - have, "%s%s",
				have > 0 ? " " : "", word);
			thp->at_boot[known[i].kind] = true;
		}
	}
}

void *thp_open(const struct host *host, bool watch)
{
	_cleanup_free_ char *line = NULL;
	struct thp *thp = must(calloc(1, sizeof(*thp)));
	char full[PATH_MAX];
	int r;

	(void)watch;
	thp->host = host;
	thp->meminfo = (struct kept_file){.path = "/proc/meminfo", .fd = -1};
	add_switch(thp, THP_ENABLED, "thp.enabled", THP_DIRECTORY "/enabled");
	add_switch(thp, THP_DEFRAG, "thp.defrag", THP_DIRECTORY "/defrag");
	add_switch(thp, THP_SHMEM_ENABLED, "thp.shmem_enabled", THP_DIRECTORY "/shmem_enabled");
	add_switch(thp, THP_KHUGEPAGED_DEFRAG, "thp.khugepaged.defrag",
		THP_DIRECTORY "/khugepaged/defrag");
	find_sizes(thp);
	if (read_file(host_path(host, "/proc/cmdline", full), 65536, &line, NULL) == 0)
		thp_parse_boot_line(line, thp);
	r = host_may_write(host, THP_DIRECTORY "/enabled");
	/* A kernel without huge pages has none to switch off: nothing is missing. */
	if (r < 0 && r != -ENOENT)
		snprintf(thp->write_why, TUNER_WHY_MAX,
			THP_DIRECTORY "/enabled: %s: run as uid 0 with a writable " THP_DIRECTORY
				      " (ProtectKernelTunables=no, or a hostPath)",
			strerror(-r));
	return thp;
}

void thp_close(void *self)
{
	struct thp *thp = self;

	for (unsigned i = 0; i < thp->n_switches; i++)
		kept_close(&thp->switches[i].file);
	kept_close(&thp->meminfo);
	free(thp);
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

void thp_sense(void *self)
{
	struct thp *thp = self;
	char text[MEMINFO_SIZE];
	int n;

	for (unsigned i = 0; i < thp->n_switches; i++) {
		struct thp_switch *s = &thp->switches[i];

		s->error = kept_read_value(thp->host, &s->file, s->actual);
	}
	n = kept_read(thp->host, &thp->meminfo, text, sizeof(text));
	thp->usage_error = n < 0 ? n : thp_parse_meminfo(text, &thp->usage);
}
