/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "tuners/storage/storage.h"

static bool parse_disk(struct scenario *scenario, struct storage_disk *disk)
{
	int kind = 0;

	if (!scenario_value(scenario, disk->name, sizeof(disk->name)))
		return false;
	while (kind < STORAGE_KINDS && !scenario_is(scenario, storage_kind_names[kind]))
		kind++;
	disk->kind = (enum storage_kind)kind;
	return kind < STORAGE_KINDS;
}

static bool add_process(struct scenario *scenario, void *base)
{
	struct storage *storage = base;
	struct storage_process *process = &storage->seen[storage->n_seen++];

	*process = (struct storage_process){.workload = {WORKLOAD_UNIT, .name = "etcd.service"}};
	process->disk.n_below = 1;
	return scenario_value(scenario, process->name, sizeof(process->name)) &&
	       parse_disk(scenario, &process->disk);
}

/* The last process is in a pod. */
static bool set_pod(struct scenario *scenario, void *base)
{
	struct storage *storage = base;
	struct workload *workload = &storage->seen[storage->n_seen - 1].workload;

	*workload = (struct workload){WORKLOAD_POD, .namespace = "kube-system"};
	return scenario_value(scenario, workload->name, sizeof(workload->name)) &&
	       scenario_value(scenario, workload->id, sizeof(workload->id));
}

static bool add_images(struct scenario *scenario, void *base)
{
	struct storage *storage = base;
	struct storage_images *images = &storage->images[storage->n_images++];

	return scenario_value(scenario, images->path, sizeof(images->path)) &&
	       parse_disk(scenario, &images->disk);
}

/* Sets a number in the summary of the last process. */
static bool set_number(struct scenario *scenario, void *base, const char *word)
{
	struct storage *storage = base;
	struct storage_summary *summary = &storage->seen[storage->n_seen - 1].summary;
	uint64_t number;

	if (storage->n_seen == 0 || !scenario_number(scenario, &number))
		return false;
	if (streq(word, "syncs"))
		summary->syncs = number;
	else if (streq(word, "took"))
		summary->took_us = number;
	else if (streq(word, "now_syncs"))
		summary->now_syncs = number;
	else if (streq(word, "now_took"))
		summary->now_took_us = number;
	else if (streq(word, "p99"))
		summary->p99 = (double)number / 1e6;
	else if (streq(word, "worst"))
		summary->worst_us = number;
	else
		summary->counts[STORAGE_BUCKETS - 1] = number;
	return true;
}

#define NUMBER(name)                                                     \
	static bool set_##name(struct scenario *scenario, void *storage) \
	{                                                                \
		return set_number(scenario, storage, #name);             \
	}

NUMBER(syncs)
NUMBER(took)
NUMBER(p99)
NUMBER(worst)
NUMBER(over)
NUMBER(now_syncs)
NUMBER(now_took)

static bool set_holder(struct scenario *scenario, void *base)
{
	struct storage *storage = base;
	struct storage_process *process = &storage->seen[storage->n_seen - 1];
	uint64_t percent, rate;

	process->holders[0].workload.kind = WORKLOAD_UNIT;
	process->n_holders = 1;
	if (storage->n_seen == 0 ||
		!scenario_value(scenario, process->holders[0].workload.name,
			sizeof(process->holders[0].workload.name)) ||
		!scenario_number(scenario, &percent) || !scenario_number(scenario, &rate))
		return false;
	process->holders[0].share = (double)percent / 100;
	process->holders[0].rate = (double)rate * 1e6;
	return true;
}

/* The writers beside the last process. */
static struct storage_writers writers;

/* writer WORKLOAD PERCENT MB/S: a unit, or a pod if it has no dot. */
static bool add_writer(struct scenario *scenario, void *base)
{
	struct storage *storage = base;
	struct storage_writer *writer = &writers.list[writers.n];
	struct workload *workload = &writer->workload;
	uint64_t percent, rate;

	if (storage->n_seen == 0 ||
		!scenario_value(scenario, workload->name, sizeof(workload->name)) ||
		!scenario_number(scenario, &percent) || !scenario_number(scenario, &rate))
		return false;
	storage->seen[storage->n_seen - 1].writers = &writers;
	set_text(writers.mount, "/sys/fs/cgroup");
	writer->is_unit = strchr(workload->name, '.');
	workload->kind = writer->is_unit ? WORKLOAD_UNIT : WORKLOAD_POD;
	snprintf(writer->path, sizeof(writer->path),
		writer->is_unit ? "/system.slice/%.60s" : "/kubepods.slice/kubepods-pod%.60s.slice",
		workload->name);
	writer->share = (double)percent / 100;
	writer->rate = writer->first = (double)rate * 1e6;
	writer->size = 512 * 1024;
	writers.n++;
	return true;
}

static bool add_disk(struct scenario *scenario, void *)
{
	uint64_t number;

	writers.disks[writers.n_disks].number = 8 << 20;
	if (!scenario_value(scenario, writers.disks[writers.n_disks].name, STORAGE_DISK_NAME_MAX) ||
		!scenario_number(scenario, &number))
		return false;
	writers.disks[writers.n_disks++].number |= (uint32_t)number;
	return true;
}

static bool set_writer(struct scenario *scenario, const char *word)
{
	struct storage_writer *last = &writers.list[MAX(writers.n, 1U) - 1];
	uint64_t number;

	if (!scenario_number(scenario, &number))
		return false;
	if (streq(word, "size"))
		last->size = (double)number * 1024;
	else if (streq(word, "first"))
		last->first = (double)number * 1e6;
	else if (streq(word, "backlog"))
		last->backlog = number * 1000000;
	else if (streq(word, "limit"))
		last->limit = number * 1000000;
	else if (streq(word, "held"))
		last->held = (enum storage_held)number;
	else
		writers.has_swap = number;
	return true;
}

#define WRITER(name)                                                            \
	static bool set_writer_##name(struct scenario *scenario, void *storage) \
	{                                                                       \
		(void)storage;                                                  \
		return set_writer(scenario, #name);                             \
	}

WRITER(size)
WRITER(first)
WRITER(backlog)
WRITER(limit)
WRITER(held)
WRITER(swap)

static bool set_ext4(struct scenario *, void *base)
{
	struct storage *storage = base;

	storage->seen[storage->n_seen - 1].shares_journal = true;
	return true;
}

static bool remove_all(struct scenario *, void *base)
{
	struct storage *storage = base;

	storage->n_seen = storage->n_images = 0;
	writers = (struct storage_writers){0};
	return true;
}

static struct storage_bpf programs;

static bool set_counted(struct scenario *, void *base)
{
	((struct storage *)base)->bpf = &programs;
	return true;
}

static const struct scenario_word at[] = {
	WORD_CALL("counted", set_counted),
	WORD_CONST("uncounted", struct storage, bpf, 0),
	WORD_TEXT("runs", struct storage, uncounted),
	WORD_CONST("attributed", struct storage, attributed, true),
	WORD_CONST("unattributed", struct storage, attributed, false),
	WORD_CALL("process", add_process),
	WORD_CALL("pod", set_pod),
	WORD_CALL("syncs", set_syncs),
	WORD_CALL("took-us", set_took),
	WORD_CALL("p99-us", set_p99),
	WORD_CALL("worst-us", set_worst),
	WORD_CALL("over-1s", set_over),
	WORD_CALL("now-syncs", set_now_syncs),
	WORD_CALL("now-took-us", set_now_took),
	WORD_CALL("holder", set_holder),
	WORD_CALL("disk", add_disk),
	WORD_CALL("writer", add_writer),
	WORD_CALL("size-kib", set_writer_size),
	WORD_CALL("first-mb", set_writer_first),
	WORD_CALL("backlog-mb", set_writer_backlog),
	WORD_CALL("limit-mb", set_writer_limit),
	WORD_CALL("held", set_writer_held),
	WORD_CALL("swap", set_writer_swap),
	WORD_CALL("ext4", set_ext4),
	WORD_CONST("v1", struct storage, is_v1, true),
	WORD_CONST("v2", struct storage, is_v1, false),
	WORD_CONST("iocost", struct storage, has_iocost, true),
	WORD_CALL("gone", remove_all),
	WORD_CALL("images", add_images),
	{0},
};

static const struct scenario_word config[] = {WORD_NUMBER("p99", struct storage, sync_p99_us), {0}};

const struct scenario_tuner storage_scenario = {
	.ops = &storage_tuner, .size = sizeof(struct storage), .at = at, .config = config};
