/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/storage/storage.h"

#include "base/exposition.h"
#include "base/json.h"
#include "base/text.h"

/* The document, its view, and the metrics. */

static const char *label_name(const struct storage *storage, unsigned label)
{
	return label < STORAGE_LABELS ? storage->labels[label].disk.name : "other";
}

static void add_summary(cJSON *object, const struct storage_summary *summary)
{
	JSON_NUMBERS(object, {"window_syncs", (double)summary->syncs},
		{"busiest_second", (double)summary->busiest});
	if (summary->syncs == 0)
		return;
	JSON_NUMBERS(object, {"p50", summary->p50}, {"p99", summary->p99},
		{"worst", (double)summary->worst_us / 1e6});
}

static void add_user(cJSON *array, const struct storage *storage, const struct storage_user *user)
{
	cJSON *object = json_append(array);
	char who[WORKLOAD_TEXT_MAX], text[WORKLOAD_TEXT_MAX + STORAGE_NAME_MAX + 4];

	workload_json(object, &user->workload);
	workload_describe(&user->workload, who, sizeof(who));
	if (user->process[0])
		snprintf(text, sizeof(text), "%s (%s)", user->process, who);
	json_text(object, "text", user->process[0] ? text : who);
	json_text(object, "device", label_name(storage, user->label));
	json_text(object, "kind", storage_kind_names[storage->labels[user->label].disk.kind]);
	JSON_NUMBERS(object, {"syncs_per_second", user->sync_rate}, {"syncs", (double)user->syncs});
	if (!user->process[0]) /* the kernel counts requests by cgroup */
		JSON_NUMBERS(object, {"queue_share", user->share},
			{"queue_seconds", (double)user->queue_ns / 1e9},
			{"read_bytes_per_second", user->rate[STORAGE_READ]},
			{"write_bytes_per_second", user->rate[STORAGE_WRITE]},
			{"read_bytes", (double)user->bytes[STORAGE_READ]},
			{"write_bytes", (double)user->bytes[STORAGE_WRITE]},
			{"read_requests", (double)user->requests[STORAGE_READ]},
			{"write_requests", (double)user->requests[STORAGE_WRITE]});
	add_summary(object, &user->summary);
	if (user->summary.syncs > 0)
		history_json(object, &user->history);
}

static void add_disk(cJSON *object, const struct storage_disk *disk)
{
	json_text(object, "device", disk->name);
	json_text(object, "kind", storage_kind_names[disk->kind]);
	json_text(object, "model", disk->model);
	json_text(object, "scheduler", disk->scheduler);
}

/* Incomplete counts since the start; a row without a key ends them. */
struct storage_losses {
	struct json_number rows[4];
};

static struct storage_losses losses_of(const struct storage *storage)
{
	const struct storage_control *control = storage->bpf->control;

	return (struct storage_losses){{
		{"requests", (double)control->lost_ios},
		{"syncs", (double)control->lost_syncs},
		{"threads", (double)control->lost_threads},
	}};
}

struct cJSON *storage_document(const void *self, const void *, bool)
{
	const struct storage *storage = self;
	_cleanup_free_ struct storage_user *users = NULL;
	struct storage_losses losses;
	cJSON *root, *array;
	unsigned n;

	if (!storage->bpf)
		return cJSON_CreateNull();
	root = cJSON_CreateObject();
	losses = losses_of(storage);
	json_bool(root, "attributed", storage->attributed);
	json_numbers(json_object(root, "lost"), losses.rows);
	array = json_array(root, "users");
	users = storage_users(storage, &n);
	for (unsigned i = 0; i < n; i++)
		add_user(array, storage, &users[i]);
	array = json_array(root, "devices");
	for (unsigned i = 0; i <= STORAGE_LABELS; i++) {
		const struct storage_label *label = &storage->labels[i];
		cJSON *object;

		if (label->used_us == 0)
			continue;
		object = json_append(array);
		add_disk(object, &label->disk);
		json_text(object, "device", label_name(storage, i));
		JSON_NUMBERS(object, {"read_bytes", (double)label->bytes[STORAGE_READ]},
			{"write_bytes", (double)label->bytes[STORAGE_WRITE]},
			{"queue_seconds", (double)label->queue_ns / 1e9});
	}
	array = json_array(root, "processes");
	for (unsigned i = 0; i < storage->n_seen; i++) {
		const struct storage_process *process = &storage->seen[i];
		cJSON *object = json_append(array);

		json_text(object, "process", process->name);
		workload_json(object, &process->workload);
		add_disk(object, &process->disk);
		add_summary(object, &process->summary);
	}
	return root;
}

/* ---- the view ---- */

static void write_share(const cJSON *row, char *text, size_t size)
{
	const cJSON *queue = json_at(row, "queue_share");
	char share[SHARE_MAX];

	copy_text(text, size, queue ? share_text(queue->valuedouble, share) : "-");
}

static void write_rate(const cJSON *row, char *text, size_t size)
{
	const cJSON *rate = json_at(row, "write_bytes_per_second");
	char amount[AMOUNT_MAX];

	snprintf(text, size, "%s%s", rate ? amount_text(rate->valuedouble, "bytes", amount) : "-",
		rate ? "/s" : "");
}

static const struct column columns[] = {
	{.title = "Workload", .heading = "workload", .key = "text", .width = -24},
	{.title = "Device", .heading = "device", .key = "device", .width = -9},
	{.title = "Kind", .heading = "kind", .key = "kind", .width = -8, .rank = 4},
	{"Share of the queue", "queue", "queue_share", COLUMN_NUMBER, 6, .write = write_share},
	{"Syncs a second", "syncs/s", "syncs_per_second", COLUMN_NUMBER, 8},
	{"Sync p50", "p50", "p50", .format = COLUMN_SECONDS, .width = 8, .rank = 3},
	{"p99", "p99", "p99", .format = COLUMN_SECONDS, .width = 8},
	{"Longest", "worst", "worst", .format = COLUMN_SECONDS, .width = 8, .rank = 2},
	{"Written", "written", "write_bytes_per_second", COLUMN_NUMBER, 11, .write = write_rate},
	{.title = "Worst of the last hour",
		.key = "history",
		.format = COLUMN_HISTORY,
		.unit = "us"},
	{0},
};

static void write_notes(const cJSON *document, char *text, size_t size)
{
	if (cJSON_IsFalse(json_at(document, "attributed")))
		text_append(text, size,
			"  the io controller is off below the root cgroup, so most requests are "
			"the host's: echo +io > /sys/fs/cgroup/cgroup.subtree_control\n");
	json_append_losses(json_at(document, "lost"), text, size);
}

const struct table_view storage_view = {.title = "Storage",
	.times = "p99 and worst of 5 min",
	.rank = 2,
	.rows = "users",
	.columns = columns,
	.empty = "no request to a disk and no sync yet",
	.write_notes = write_notes};

/* ---- metrics ---- */

static void put_latency(struct metric_sink *sink, const struct storage *storage)
{
	double bounds[STORAGE_BUCKETS - 1];

	for (int i = 0; i < STORAGE_BUCKETS - 1; i++)
		bounds[i] = (double)storage_bounds[i] / 1e9;
	metric_family(sink, "headroom_storage_sync_latency_seconds");
	for (unsigned i = 0; i <= STORAGE_PAIRS; i++) {
		const struct storage_pair *pair = &storage->pairs[i];
		bool is_other = i == STORAGE_PAIRS;

		if (pair->used_us > 0)
			metric_histogram(sink, bounds, pair->counts, STORAGE_BUCKETS - 1,
				(double)pair->ns / 1e9,
				is_other ? "other" : label_name(storage, pair->label),
				is_other || !pair->process[0] ? "other" : pair->process, NULL);
	}
}

void storage_metrics(const void *self, const void *, struct metric_sink *sink)
{
	static const char *const directions[] = {
		[STORAGE_READ] = "read", [STORAGE_WRITE] = "write"};
	const struct storage *storage = self;
	struct storage_losses losses;

	if (!storage->bpf)
		return;
	put_latency(sink, storage);
	metric_family(sink, "headroom_storage_io_bytes_total");
	for (unsigned i = 0; i <= STORAGE_LABELS; i++)
		for (int direction = 0; direction < STORAGE_DIRECTIONS; direction++)
			if (storage->labels[i].used_us > 0)
				metric_sample(sink, (double)storage->labels[i].bytes[direction],
					label_name(storage, i), directions[direction], NULL);
	metric_family(sink, "headroom_storage_queue_seconds_total");
	for (unsigned i = 0; i <= STORAGE_LABELS; i++)
		if (storage->labels[i].used_us > 0)
			metric_sample(sink, (double)storage->labels[i].queue_ns / 1e9,
				label_name(storage, i), NULL);
	metric_family(sink, "headroom_storage_device_info");
	for (unsigned i = 0; i < STORAGE_LABELS; i++) {
		const struct storage_disk *disk = &storage->labels[i].disk;

		if (storage->labels[i].used_us > 0)
			metric_sample(sink, 1, disk->name, storage_kind_names[disk->kind],
				disk->model, disk->scheduler, NULL);
	}
	metric_family(sink, "headroom_storage_lost_total");
	losses = losses_of(storage);
	for (const struct json_number *loss = losses.rows; loss->key; loss++)
		metric_sample(sink, loss->number, loss->key, NULL);
}
