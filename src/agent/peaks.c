/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/core.h"

#include "base/file.h"

#define PEAKS_FILE "peaks"

/* DNS servers come and go, and each has a limit. */
#define PEAKS_MAX 64

/* The file. One of another boot or of a version with another layout is ignored. */
struct peaks {
	char boot[SETTING_VALUE_MAX];
	uint32_t layout; /* size of this struct */
	uint32_t n;
	struct limit_peak peaks[PEAKS_MAX];
};

void core_load_peaks(struct core *core)
{
	struct peaks *peaks = must(calloc(1, sizeof(*peaks)));
	_cleanup_free_ char *data = NULL;
	const struct peaks *old;
	char path[PATH_MAX];
	size_t len;

	core->peaks = peaks;
	peaks->layout = sizeof(*peaks);
	(void)host_read_value(&core->host, "/proc/sys/kernel/random/boot_id", peaks->boot);
	if (core_directory(&core->host, CORE_RUNTIME, path) < 0)
		return;
	text_append(path, sizeof(path), "/" PEAKS_FILE);
	if (read_file(path, sizeof(*peaks), &data, &len) < 0 ||
		len < offsetof(struct peaks, peaks) ||
		memcmp(data, peaks, offsetof(struct peaks, n)) != 0)
		return;
	old = (const struct peaks *)data;
	for (size_t i = 0; i < (len - offsetof(struct peaks, peaks)) / sizeof(old->peaks[0]); i++)
		if (old->peaks[i].at_us <= now_us() && old->peaks[i].n_top <= LIMIT_PEAK_TOP &&
			memchr(old->peaks[i].name, 0, LIMIT_NAME_MAX))
			peaks->peaks[peaks->n++] = old->peaks[i];
}

void core_recall_peak(const struct core *core, struct limit *limit, const char *name)
{
	const struct limit_peak *peak =
		core->peaks ? find_named(core->peaks->peaks, core->peaks->n, name) : NULL;

	if (peak)
		limit->peak = *peak;
}

void core_keep_peaks(struct core *core)
{
	struct peaks *peaks = core->peaks;
	_cleanup_close_ int dir = -1;
	char path[PATH_MAX];
	bool changed = false;

	for (size_t i = 0; peaks && i < core->node.n_limits; i++) {
		const struct limit_peak *now = &core->node.limits[i].peak;
		struct limit_peak *kept = find_named(peaks->peaks, peaks->n, now->name);

		if (!kept && peaks->n < PEAKS_MAX)
			kept = &peaks->peaks[peaks->n++];
		if (!kept || memcmp(kept, now, sizeof(*now)) == 0)
			continue;
		memcpy(kept, now, sizeof(*now)); /* with its padding, for the comparison */
		changed = true;
	}
	if (!changed || core_directory(&core->host, CORE_RUNTIME, path) < 0)
		return;
	/* Losing it costs no value of the node, so an error is ignored. */
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		(void)replace_file(
			dir, PEAKS_FILE, peaks, offsetof(struct peaks, peaks[peaks->n]), false);
}
