/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/pressure.h"

#include "base/file.h"

#define FILE_MAX 4096

/* Takes avg10 of the line "some avg10=1.23 avg60=0.50 avg300=0.10 total=12345". */
static void parse(char *text, enum pressure_kind kind, struct pressure *pressure)
{
	for (char *rest = text, *line; rest && (line = strsep(&rest, "\n"));) {
		const char *word = strsep(&line, " ");
		char *end;
		double percent;

		if (!streq(word, "some") || !line || !starts_with(line, "avg10="))
			continue;
		percent = strtod(line + strlen("avg10="), &end);
		if (*end != ' ' || !(percent >= 0 && percent <= 100))
			continue;
		pressure->is_known[kind] = true;
		pressure->some[kind] = percent / 100;
	}
}

void pressure_read(const struct host *host, struct pressure *pressure)
{
	*pressure = (struct pressure){0};
	for (enum pressure_kind i = 0; i < PRESSURES; i++) {
		_cleanup_free_ char *text = NULL;
		char path[64];

		snprintf(path, sizeof(path), "/proc/pressure/%s", pressure_names[i]);
		if (host_read_file(host, path, FILE_MAX, &text) == 0)
			parse(text, i, pressure);
	}
}

void pressure_read_cgroup(int root, const char *path, struct pressure *pressure)
{
	*pressure = (struct pressure){0};
	for (enum pressure_kind i = 0; i < PRESSURES; i++) {
		_cleanup_free_ char *text = NULL;
		char full[PATH_MAX];

		snprintf(full, sizeof(full), "/proc/self/fd/%d%s/%s.pressure", root, path,
			pressure_names[i]);
		if (read_file(full, FILE_MAX, &text, NULL) == 0)
			parse(text, i, pressure);
	}
}
