/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/limits/limits.h"

#define FILE_SIZE_MAX (256 * 1024) /* of a file with a line for each CPU or user */

/* The kernel's largest number of memory cgroups. */
#define MEMORY_CGROUPS_MAX 65535

/* ---- numbers in files ---- */

/* Copies a word, counted from 0. False after the last. */
static bool word_at(const char *text, unsigned index, char *word, size_t size)
{
	size_t len;

	for (text += strspn(text, " \t"); index > 0; index--) {
		text += strcspn(text, " \t\n");
		text += strspn(text, " \t");
	}
	len = strcspn(text, " \t\n");
	snprintf(word, size, "%.*s", (int)len, text);
	return len > 0;
}

static const char *next_line(const char *text)
{
	text += strcspn(text, "\n");
	return text + (*text == '\n');
}

/*
 * "TCP: inuse 4 mem 1": the word after the name. "TcpExt: A B" and below "TcpExt: 1 2": the word at
 * the same position of the next line.
 */
static int find_by_name(const char *text, const struct number_in_file *from, uint64_t *number)
{
	char word[64];
	unsigned index = 0;

	while (*text && !starts_with(text, from->line))
		text = next_line(text);
	while (word_at(text, index, word, sizeof(word)) && !streq(word, from->name))
		index++;
	if (!word[0])
		return -EBADMSG;
	if (word_at(text, index + 1, word, sizeof(word)) && parse_count(word, number) == 0)
		return 0;
	text = next_line(text);
	if (!starts_with(text, from->line) || !word_at(text, index, word, sizeof(word)))
		return -EBADMSG;
	return parse_count(word, number);
}

static int read_number(const struct host *host, const struct number_in_file *from, uint64_t *number)
{
	_cleanup_free_ char *text = NULL;
	char value[SETTING_VALUE_MAX], word[32];
	int r;

	if (!from->name) {
		r = host_read_value(host, from->path, value);
		if (r < 0)
			return r;
		if (!word_at(value, from->field - 1, word, sizeof(word)))
			return -EBADMSG;
		return parse_count(word, number) < 0 ? -EBADMSG : 0;
	}
	r = host_read_file(host, from->path, FILE_SIZE_MAX, &text);
	return r < 0 ? r : find_by_name(text, from, number);
}

int limits_read_numbers(
	const struct host *host, const struct explanation *row, struct limit_reading *reading)
{
	int r = read_number(host, &row->used, &reading->used);

	if (r == 0)
		r = read_number(host, &row->max, &reading->max);
	/* An older kernel may lack the counter. */
	if (r == 0 && row->hits.path)
		(void)read_number(host, &row->hits, &reading->hits);
	return r;
}

int limits_read_max(const struct host *host, const struct explanation *row, uint64_t *max)
{
	return row->max.path ? read_number(host, &row->max, max) : 0;
}

static int read_value(const struct host *host, const char *path, uint64_t *number)
{
	return read_number(host, &(const struct number_in_file){path, 1, NULL, NULL}, number);
}

/* ---- other limits ---- */

/* Adds up a column of numbers in hexadecimal digits, a line for each CPU. */
static uint64_t sum_column(const char *text, const char *name)
{
	char word[64];
	unsigned index = 0;
	uint64_t sum = 0;

	while (word_at(text, index, word, sizeof(word)) && !streq(word, name))
		index++;
	if (!word[0])
		return 0;
	for (text = next_line(text); *text; text = next_line(text))
		if (word_at(text, index, word, sizeof(word)))
			sum += strtoull(word, NULL, 16);
	return sum;
}

int limits_read_conntrack(const struct limit_source *source, struct limit_reading *reading)
{
	_cleanup_free_ char *text = NULL;
	int r = read_value(
		source->host, "/proc/sys/net/netfilter/nf_conntrack_count", &reading->used);

	if (r == 0)
		r = read_value(
			source->host, "/proc/sys/net/netfilter/nf_conntrack_max", &reading->max);
	/* Kernels without CONFIG_NF_CONNTRACK_PROCFS lack the file. */
	if (r == 0 && host_read_file(source->host, "/proc/net/stat/nf_conntrack", FILE_SIZE_MAX,
			      &text) == 0)
		reading->hits = sum_column(text, "drop") + sum_column(text, "early_drop");
	return r;
}

bool limits_keep_fuller(struct limit_reading *reading, uint64_t used, uint64_t max)
{
	if (max == 0 || (reading->max > 0 && (double)used / (double)max <=
						     (double)reading->used / (double)reading->max))
		return false;
	reading->used = used;
	reading->max = max;
	return true;
}

int limits_read_pids(const struct limit_source *source, struct limit_reading *reading)
{
	static const char *const kubepods[] = {"/sys/fs/cgroup/kubepods.slice/pids.",
		"/sys/fs/cgroup/kubepods/pids.", "/sys/fs/cgroup/pids/kubepods.slice/pids.",
		"/sys/fs/cgroup/pids/kubepods/pids."};
	char value[SETTING_VALUE_MAX], path[64];
	uint64_t tasks, used, max;
	/* "0.20 0.18 0.12 1/80 11206": runnable and all tasks, proc_loadavg(5). */
	int r = host_read_value(source->host, "/proc/loadavg", value);

	if (r < 0)
		return r;
	if (sscanf(value, "%*s %*s %*s %*[0-9]/%" SCNu64, &tasks) != 1)
		return -EBADMSG;
	r = read_value(source->host, "/proc/sys/kernel/pid_max", &max);
	if (r < 0)
		return r;
	limits_keep_fuller(reading, tasks, max);
	if (read_value(source->host, "/proc/sys/kernel/threads-max", &max) == 0)
		limits_keep_fuller(reading, tasks, max);
	for (size_t i = 0; i < ARRAY_SIZE(kubepods); i++) {
		snprintf(path, sizeof(path), "%scurrent", kubepods[i]);
		if (read_value(source->host, path, &used) < 0)
			continue;
		snprintf(path, sizeof(path), "%smax", kubepods[i]);
		if (read_value(source->host, path, &max) == 0) /* not "max" */
			limits_keep_fuller(reading, used, max);
	}
	return 0;
}

/* A hierarchy of cgroup v1 counts its removed cgroups too, in /proc/cgroups. */
int limits_read_memory_cgroups(const struct limit_source *source, struct limit_reading *reading)
{
	/* Before Linux 6.12 only the cgroups of all controllers are counted. */
	static const char *const names[][2] = {{"nr_subsys_memory", "nr_dying_subsys_memory"},
		{"nr_descendants", "nr_dying_descendants"}};
	_cleanup_free_ char *text = NULL;
	uint64_t hierarchy = 0, removed;
	char *line;
	int r = host_read_file(source->host, "/proc/cgroups", FILE_SIZE_MAX, &text);

	reading->max = MEMORY_CGROUPS_MAX;
	line = r == 0 ? strstr(text, "\nmemory\t") : NULL;
	if (line && sscanf(line, " memory %" SCNu64 " %" SCNu64, &hierarchy, &reading->used) == 2 &&
		hierarchy > 0)
		return 0;
	r = -EBADMSG;
	for (size_t i = 0; i < ARRAY_SIZE(names) && r == -EBADMSG; i++) {
		struct number_in_file from = {
			"/sys/fs/cgroup/cgroup.stat", 0, names[i][0], names[i][0]};

		r = read_number(source->host, &from, &reading->used);
		from.line = from.name = names[i][1];
		if (r == 0)
			r = read_number(source->host, &from, &removed);
	}
	reading->used += r == 0 ? removed : 0;
	return r;
}

int limits_read_ptys(const struct limit_source *source, struct limit_reading *reading)
{
	uint64_t reserve = 0;
	int r = read_value(source->host, "/proc/sys/kernel/pty/nr", &reading->used);

	if (r == 0)
		r = read_value(source->host, "/proc/sys/kernel/pty/max", &reading->max);
	if (r == 0)
		r = read_value(source->host, "/proc/sys/kernel/pty/reserve", &reserve);
	reading->max -= MIN(reserve, reading->max);
	return r;
}

/* "    0:     9 8/8 3/1000000 40/25000000": user, references, keys, quotas of keys and bytes. */
int limits_read_keys(const struct limit_source *source, struct limit_reading *reading)
{
	_cleanup_free_ char *text = NULL;
	int r = host_read_file(source->host, "/proc/key-users", FILE_SIZE_MAX, &text);

	if (r < 0)
		return r;
	for (const char *line = text; *line; line = next_line(line)) {
		uint64_t keys, keys_max, used, max;
		struct limit_user user = {.workload.kind = WORKLOAD_UID};
		unsigned uid;

		if (sscanf(line, " %u: %*u %*u/%*u %" SCNu64 "/%" SCNu64 " %" SCNu64 "/%" SCNu64,
			    &uid, &keys, &keys_max, &used, &max) != 5)
			return -EBADMSG;
		if (!source->reader->key_bytes) {
			used = keys;
			max = keys_max;
		}
		limits_keep_fuller(reading, used, max);
		user.used = used;
		snprintf(user.workload.name, sizeof(user.workload.name), "%u", uid);
		limit_keep_user(reading, &user);
	}
	return 0;
}

/* Columns of /proc/net/softnet_stat, from 0: net/core/net-procfs.c, softnet_seq_show(). */
#define SOFTNET_DROPPED 1
#define SOFTNET_BACKLOG 11 /* from Linux 5.10 */

int limits_read_softnet(const struct limit_source *source, struct limit_reading *reading)
{
	_cleanup_free_ char *text = NULL;
	char word[32];
	int r = read_value(source->host, "/proc/sys/net/core/netdev_max_backlog", &reading->max);

	if (r == 0)
		r = host_read_file(source->host, "/proc/net/softnet_stat", FILE_SIZE_MAX, &text);
	for (const char *line = text; r == 0 && *line; line = next_line(line)) {
		if (!word_at(line, SOFTNET_BACKLOG, word, sizeof(word)))
			return -EBADMSG;
		reading->used = MAX(reading->used, strtoull(word, NULL, 16));
		word_at(line, SOFTNET_DROPPED, word, sizeof(word));
		reading->hits += strtoull(word, NULL, 16);
	}
	return r;
}
