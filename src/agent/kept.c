/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps data across restarts of the agent, besides the records of originals: arrays in the runtime
 * directory (peaks and histories of limits, warnings of the log, changes by others, memory of
 * tuners), and the last configuration without a fault in the state directory. Losing it costs no
 * value of the node, so errors are ignored or only logged.
 */
#include "agent/core.h"

#include "base/file.h"
#include "base/log.h"

#include <zlib.h>

#define PEAKS_FILE   "peaks"
#define EVENTS_FILE  "events"
#define HISTORY_FILE "history"

/* DNS servers come and go, and each has a limit. */
#define PEAKS_MAX 64

#define KEPT_MAX ((size_t)1024 * 1024)

/* A file is ignored if it is damaged, or if its boot or the layout of its version differs. */
struct kept_header {
	char boot[SETTING_VALUE_MAX - sizeof(uint32_t)];
	uint32_t checksum; /* of the elements */
	uint64_t size;     /* an element's size */
};

struct peaks {
	size_t n;
	struct limit_peak peaks[PEAKS_MAX];
};

/* The last hour of a limit. */
struct kept_history {
	char name[LIMIT_NAME_MAX];
	struct history history;
};

struct histories {
	uint64_t minute; /* when they were written */
	size_t n;
	struct kept_history histories[PEAKS_MAX];
};

static void make_header(const struct core *core, const void *elements, size_t size, size_t n,
	struct kept_header *header)
{
	*header = (struct kept_header){
		.size = size, .checksum = (uint32_t)crc32(0, elements, (uInt)(n * size))};
	set_text(header->boot, core->boot);
}

/* Returns an array of n elements of this size, for the caller to free. */
static void *read_kept(const struct core *core, const char *name, size_t size, size_t *n)
{
	char path[PATH_MAX], *data = NULL;
	struct kept_header header;
	size_t len = 0;

	*n = 0;
	if (core_directory(core->host, CORE_RUNTIME, path) < 0)
		return NULL;
	text_append(path, sizeof(path), "/%s", name);
	if (read_file(path, KEPT_MAX, &data, &len) < 0)
		return NULL;
	if (len < sizeof(header) || (len - sizeof(header)) % size != 0)
		return data;
	make_header(core, data + sizeof(header), size, (len - sizeof(header)) / size, &header);
	if (memcmp(data, &header, sizeof(header)) == 0) {
		*n = (len - sizeof(header)) / size;
		memmove(data, data + sizeof(header), *n * size);
	}
	return data;
}

static void write_kept(
	const struct core *core, const char *name, const void *elements, size_t size, size_t n)
{
	_cleanup_free_ char *data = must(malloc(sizeof(struct kept_header) + n * size + 1));
	struct kept_header header;
	char path[PATH_MAX];

	if (n > 0)
		memcpy(data + sizeof(header), elements, n * size);
	make_header(core, data + sizeof(header), size, n, &header);
	memcpy(data, &header, sizeof(header));
	if (core_directory(core->host, CORE_RUNTIME, path) < 0)
		return;
	text_append(path, sizeof(path), "/%s", name);
	(void)replace_path(path, data, sizeof(header) + n * size, false);
}

/* ---- peaks of limits ---- */

/* Another version may have more kinds of workloads. */
static bool is_peak(const struct limit_peak *peak)
{
	bool good = peak->at_us <= now_us() && peak->n_top <= LIMIT_PEAK_TOP &&
		    memchr(peak->name, 0, LIMIT_NAME_MAX);

	for (size_t i = 0; i < LIMIT_PEAK_TOP; i++)
		good &= peak->top[i].workload.kind <= WORKLOAD_UID;
	return good;
}

void core_load_peaks(struct core *core)
{
	struct peaks *peaks = core->peaks = must(calloc(1, sizeof(*peaks)));
	size_t n;
	_cleanup_free_ struct limit_peak *old = read_kept(core, PEAKS_FILE, sizeof(*old), &n);

	for (size_t i = 0; i < MIN(n, (size_t)PEAKS_MAX); i++)
		if (is_peak(&old[i]))
			peaks->peaks[peaks->n++] = old[i];
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
	if (changed)
		write_kept(core, PEAKS_FILE, peaks->peaks, sizeof(peaks->peaks[0]), peaks->n);
}

/* ---- histories of limits ---- */

void core_load_histories(struct core *core)
{
	struct histories *histories = core->histories = must(calloc(1, sizeof(*histories)));
	size_t n;
	_cleanup_free_ struct kept_history *old = read_kept(core, HISTORY_FILE, sizeof(*old), &n);

	histories->minute = history_minute(now_us());
	for (size_t i = 0; i < MIN(n, (size_t)PEAKS_MAX); i++)
		if (old[i].history.minute <= histories->minute &&
			memchr(old[i].name, 0, LIMIT_NAME_MAX))
			histories->histories[histories->n++] = old[i];
}

void core_recall_history(const struct core *core, struct limit *limit, const char *name)
{
	const struct histories *histories = core->histories;
	const struct kept_history *kept =
		histories ? find_named(histories->histories, histories->n, name) : NULL;

	if (kept)
		limit->history = kept->history;
}

/* Returns the element of a limit. It may reuse one that was last seen an hour ago. */
static struct kept_history *history_for(struct histories *histories, const char *name)
{
	struct kept_history *kept = find_named(histories->histories, histories->n, name);

	for (size_t i = 0; i < histories->n && !kept; i++)
		if (histories->histories[i].history.minute + HISTORY_MINUTES <= histories->minute)
			kept = &histories->histories[i];
	if (!kept && histories->n < PEAKS_MAX)
		kept = &histories->histories[histories->n++];
	return kept;
}

void core_keep_histories(struct core *core, bool now)
{
	struct histories *histories = core->histories;
	const uint64_t minute = history_minute(now_us());

	if (!histories || (!now && minute == histories->minute))
		return;
	histories->minute = minute;
	for (size_t i = 0; i < core->node.n_limits; i++) {
		const struct limit *limit = &core->node.limits[i];
		struct kept_history *kept = history_for(histories, limit->now.name);

		if (!kept)
			continue;
		set_text(kept->name, limit->now.name);
		kept->history = limit->history;
	}
	write_kept(core, HISTORY_FILE, histories->histories, sizeof(histories->histories[0]),
		histories->n);
}

/* ---- warnings of the log ---- */

void core_load_events(struct core *core)
{
	size_t n;
	_cleanup_free_ struct log_event *old = read_kept(core, EVENTS_FILE, sizeof(*old), &n);

	for (size_t i = 0; i < n; i++)
		if (memchr(old[i].text, 0, sizeof(old[i].text)) && text_is_printable(old[i].text) &&
			old[i].level >= LOG_CRIT && old[i].level <= LOG_WARNING)
			log_recall(&old[i]);
}

void core_keep_events(struct core *core)
{
	struct log_event events[LOG_EVENTS];
	size_t kept = 0, n = log_recent(events);

	for (size_t i = 0; i < n; i++)
		if (events[i].level <= LOG_WARNING)
			events[kept++] = events[i];
	/* A command keeps none. */
	if (!core->peaks || kept == 0 || events[0].at_us == core->event_kept_us)
		return;
	write_kept(core, EVENTS_FILE, events, sizeof(events[0]), kept);
	core->event_kept_us = events[0].at_us;
}

/* ---- changes by others ---- */

void core_load_drifts(struct core *core)
{
	size_t n, kept = 0;

	free(core->drifts);
	core->drifts = read_kept(core, DRIFTS_FILE, sizeof(*core->drifts), &n);
	for (size_t i = 0; i < n; i++) {
		const struct drift *drift = &core->drifts[i];
		bool good = memchr(drift->name, 0, SETTING_NAME_MAX) &&
			    memchr(drift->wanted, 0, SETTING_VALUE_MAX) &&
			    memchr(drift->confirmed, 0, SETTING_VALUE_MAX);

		for (size_t t = 0; t < ARRAY_SIZE(drift->at_us); t++)
			good &= drift->at_us[t] <= now_us();
		if (good)
			core->drifts[kept++] = *drift;
	}
	core->n_drifts = kept;
}

void core_keep_drifts(struct core *core)
{
	struct node *node = &core->node;
	_cleanup_free_ struct drift *drifts = NULL;
	size_t n = 0;

	if (!core_may_write(core) || !node->drifts_changed)
		return;
	node->drifts_changed = false;
	drifts = must(calloc(core->n_drifts + node->n_settings + 1, sizeof(*drifts)));
	for (size_t i = 0; i < node->n_settings; i++)
		if (node->settings[i].drift.name[0])
			drifts[n++] = node->settings[i].drift;
	/* Settings of a program that was not asked yet. */
	for (size_t i = 0; i < core->n_drifts; i++)
		if (!node_setting(node, core->drifts[i].name))
			drifts[n++] = core->drifts[i];
	write_kept(core, DRIFTS_FILE, drifts, sizeof(*drifts), n);
}

/* ---- memory of tuners ---- */

void core_load_memory(const struct core *core, struct tuner_status *tuner)
{
	size_t size = tuner->ops->kept_size, n;
	_cleanup_free_ void *old = size ? read_kept(core, tuner->ops->name, size, &n) : NULL;

	tuner->kept = size ? must(calloc(1, size)) : NULL;
	if (!old || n != 1)
		return;
	memcpy(tuner->memory, old, size);
	memcpy(tuner->kept, old, size);
}

void core_keep_memory(const struct core *core, struct tuner_status *tuner)
{
	size_t size = tuner->ops->kept_size;

	if (!size || !core_may_write(core) || memcmp(tuner->kept, tuner->memory, size) == 0)
		return;
	memcpy(tuner->kept, tuner->memory, size);
	write_kept(core, tuner->ops->name, tuner->kept, size, 1);
}

/* ---- the last configuration without a fault ---- */

/* {"owner": OWNER, "config": FILE, "files": config_texts()} */
#define LAST_GOOD     "config.json"
#define LAST_GOOD_MAX (4 * CONFIG_FILE_MAX) /* a larger one is not used */

struct config_save {
	char directory[PATH_MAX];
	char *text;
	int error;
};

static void run_save(void *data, const struct wait *)
{
	struct config_save *save = data;
	char path[PATH_MAX + sizeof(LAST_GOOD)];

	snprintf(path, sizeof(path), "%s/" LAST_GOOD, save->directory);
	save->error = replace_path(path, save->text, strlen(save->text), true);
}

static void adopt_save(void *data, void *)
{
	struct config_save *save = data;

	if (save->error < 0)
		log_warning(LAST_GOOD, "not written: %s: %s %s", strerror(-save->error),
			write_cure(save->error), save->directory);
	free(save->text);
	free(save);
}

int last_good_save(struct core *core)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = cJSON_CreateObject();
	struct config_save *save = must(calloc(1, sizeof(*save)));
	int r;

	json_text(document, "owner", core_owner());
	json_text(document, "config", core->options.config_file);
	json_adopt(document, "files", cJSON_Duplicate(config_texts(core->config), true));
	save->text = must(cJSON_Print(document));
	set_text(save->directory, core->state);
	r = task_start(&core->save_task, core->event,
		&(struct task){run_save, adopt_save, save, NULL, UINT64_MAX});
	if (r < 0)
		adopt_save(save, NULL);
	return r;
}

/* Reads the document of last_good_save(). Returns 0, or -errno. */
static int read_last_good(const struct host *host, const struct core_options *options, cJSON **ret)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	_cleanup_free_ char *text = NULL;
	const char *config = options->config_file ? options->config_file : "";
	char path[PATH_MAX + sizeof(LAST_GOOD)] = "";
	int r = core_directory(host, CORE_STATE, path);

	text_append(path, sizeof(path), "/" LAST_GOOD);
	if (r == 0)
		r = read_file(path, LAST_GOOD_MAX, &text, NULL);
	if (r < 0)
		return r;
	document = cJSON_Parse(text);
	if (!streq(json_text_at(document, "owner"), core_owner()) ||
		!streq(json_text_at(document, "config"), config))
		return -ENOENT;
	*ret = steal(document);
	return 0;
}

int last_good_lost_file(const struct host *host, const struct core_options *options,
	const struct config *config, char **file)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	const char *lost;
	int r = read_last_good(host, options, &document);

	*file = NULL;
	if (r < 0)
		return r;
	lost = config_lost_file(config, json_at(document, "files"));
	*file = lost ? must(strdup(lost)) : NULL;
	return 0;
}

int last_good_load(const struct core_options *options, struct config **ret)
{
	_cleanup_(config_faults_clear) struct config_fault_list faults = {0};
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	struct host host;
	int r = host_init(&host, options->host_root) ? 0 : -ENAMETOOLONG;

	if (r == 0)
		r = read_last_good(&host, options, &document);
	if (r < 0)
		return r;
	return core_load_config(
		&(struct config_source){.texts = json_at(document, "files")}, ret, &faults);
}
