/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/storage/storage.h"

#include "base/text.h"
#include "config/config.h"

#include <math.h>
#include <sys/sysmacros.h>

/* etcd's heartbeat. */
#define HEARTBEAT_S 0.1

static void add_holders(struct finding *finding, const struct storage_process *process)
{
	const struct storage_holder *holders = process->holders;

	finding->knows = WHO_UNKNOWN;
	for (unsigned i = 0; i < process->n_holders; i++) {
		struct limit_user user = {.workload = holders[i].workload,
			.used = (uint64_t)(holders[i].share * 100 + 0.5),
			.max = 100,
			.id = holders[i].cgroup};
		char rate[AMOUNT_MAX], share[SHARE_MAX];

		snprintf(user.detail, sizeof(user.detail), "%s of the queue, %s/s",
			share_text(holders[i].share, share),
			amount_text(holders[i].rate, "bytes", rate));
		finding_user_add(finding, &user);
	}
}

/* ---- advice: see TROUBLESHOOTING.md, StorageSlow ---- */

/*
 * Measured with two writers beside a process that syncs 200 times a second. All at half of their
 * rate in one step: p99 falls from 320 to 2,800 ms to 35 ms. A limit for one of two gains nothing.
 * Below the floor, dirty pages only take longer to leave. Many small writes on ext4:
 * a writer that is limited holds journal credits, and p99 grows from 25 to 126 ms.
 */
#define LIMITED_MAX 4
#define LEAST_RATE  5e6
#define LEAST_SHARE 0.25 /* of the first rate */
#define DRAINED_S   15.0
#define SMALL_WRITE (128 * 1024)
#define LIMITS_HELP 0.5 /* the share of the bytes that limited writers must have */

/* How a writer counts: enum storage_held, and these. */
enum { WRITER_SMALL = HELD_ESSENTIAL + 1, WRITER_LIMITED, WRITER_AT_FLOOR, WRITER_NEW };

/* Returns the bytes a second that a writer with this rate is to have. */
static uint64_t step_of(const struct storage_writer *writer, double rate)
{
	double least = MAX(
		MAX(LEAST_RATE, writer->first * LEAST_SHARE), (double)writer->backlog / DRAINED_S);

	return (uint64_t)ceil(MAX(rate / 2, least) / 1e6) * 1000000;
}

static int judge_writer(const struct storage_process *process, const struct storage_writer *writer)
{
	if (writer->held != HELD_NOT)
		return (int)writer->held;
	if (writer->limit > 0 && (writer->limit <= step_of(writer, writer->first) ||
					 (double)writer->limit <= writer->rate))
		return WRITER_LIMITED;
	if (process->shares_journal && writer->size < SMALL_WRITE)
		return writer->size > 0 ? WRITER_SMALL : WRITER_NEW;
	return (double)step_of(writer, writer->rate) >= writer->rate ? WRITER_AT_FLOOR : HELD_NOT;
}

/* Appends the command that limits a writer. */
static void add_command(char *text, size_t size, const struct storage_writers *writers,
	const struct storage_writer *writer)
{
	uint64_t step = step_of(writer, writer->rate);
	char path[2 * SETTING_PATH_MAX], word[SHELL_WORD_MAX];

	if (writer->is_unit)
		text_append(text, size, "%ssystemctl set-property --runtime %s",
			text[0] ? "; " : "", shell_word(word, strrchr(writer->path, '/') + 1));
	snprintf(path, sizeof(path), "%s%s/io.max", writers->mount, writer->path);
	shell_word(word, path);
	for (unsigned i = 0; i < writers->n_disks; i++)
		if (writer->is_unit)
			text_append(text, size, " 'IOWriteBandwidthMax=/dev/%s %" PRIu64 "'",
				writers->disks[i].name, step);
		else
			text_append(text, size, "%secho '%u:%u wbps=%" PRIu64 "' > %s",
				text[0] ? "; " : "",
				major(STORAGE_DEVICE(writers->disks[i].number)),
				minor(STORAGE_DEVICE(writers->disks[i].number)), step, word);
}

/* Explains why no limit is advised, by the writer that writes most of those without. */
static void explain_held(struct finding *finding, const struct storage *storage,
	const struct storage_process *process, const struct storage_writer *writer, int verdict)
{
	char who[WORKLOAD_TEXT_MAX], amount[AMOUNT_MAX];

	workload_describe(&writer->workload, who, sizeof(who));
	if (verdict == WRITER_SMALL)
		finding_hint(finding,
			"no limit: %s writes small files, and a limited writer holds the journal "
			"of ext4, for which %s waits, too: give %s a file system of its own%s",
			who, process->name, process->name,
			storage->has_iocost ? ", or most of the weight by io.cost" : "");
	else if (verdict == WRITER_LIMITED)
		finding_hint(finding,
			"%s is limited to %s/s already: if %s stays slow, give it a disk of its "
			"own",
			who, amount_text((double)writer->limit, "bytes", amount), process->name);
	else if (verdict == WRITER_AT_FLOOR)
		finding_hint(finding,
			"no limit: %s writes only %s/s, and less would not help: %s needs a faster "
			"disk, or one of its own",
			who, amount_text(writer->rate, "bytes", amount), process->name);
	else if (verdict == WRITER_NEW)
		finding_hint(
			finding, "%s writes: whether a limit helps is known in some seconds", who);
	else if (verdict == HELD_OWN)
		finding_hint(finding, "no limit: %s holds %s itself: it needs a faster disk", who,
			process->name);
	else
		finding_hint(finding,
			"no limit: %s writes most, and the node needs it: give %s a "
			"disk of its own",
			verdict == HELD_ESSENTIAL ? who : "the node itself", process->name);
}

static void add_limits(struct finding *finding, const struct storage *storage,
	const struct storage_process *process)
{
	const struct storage_writers *writers = process->writers;
	const struct storage_writer *held = NULL;
	_cleanup_free_ char *commands = must(calloc(LIMITED_MAX, SHELL_WORD_MAX));
	int verdict, why = HELD_NOT;
	unsigned n = 0;
	double share = 0;

	for (unsigned i = 0; i < writers->n; i++) {
		const struct storage_writer *writer = &writers->list[i];

		verdict = judge_writer(process, writer);
		if ((verdict == HELD_NOT && n < LIMITED_MAX) || verdict == WRITER_LIMITED)
			share += writer->share;
		if (verdict == HELD_NOT && n < LIMITED_MAX) {
			add_command(
				commands, (size_t)LIMITED_MAX * SHELL_WORD_MAX, writers, writer);
			n++;
		} else if (!held) {
			held = writer;
			why = verdict;
		}
	}
	if (n > 0 && share > LIMITS_HELP) {
		finding_now(finding, "%s", commands);
		finding_hint(finding,
			"%sa reboot, wbps=max or an empty IOWriteBandwidthMax= ends %s; better: "
			"give %s a disk of its own",
			n > 1 ? "type all of it, one limit alone gains nothing; " : "",
			n > 1 ? "them" : "it", process->name);
	} else if (held) {
		explain_held(finding, storage, process, held, why);
	}
}

static void add_advice(struct finding *finding, const struct storage *storage,
	const struct storage_process *process)
{
	const struct storage_holder *holders = process->holders;
	const char *name = process->name, *disk = process->disk.name;

	finding_hint(finding, "nobody else writes much to %s: %s needs a faster disk", disk, name);
	if (process->disk.n_below == 0)
		finding_hint(finding, "the disks below %s are not known: give %s a local disk",
			disk, name);
	else if (!storage->attributed)
		finding_hint(finding,
			"who else writes is not known: echo +io > "
			"/sys/fs/cgroup/cgroup.subtree_control; or give %s a disk of its own",
			name);
	else if (process->n_holders > 0 && workload_equal(&holders[0].workload, &process->workload))
		finding_hint(finding, "it holds the queue itself: it needs a faster disk");
	else if (storage->is_v1)
		finding_hint(finding,
			"no limit: cgroup v1 cannot limit buffered writes: boot with cgroup2 "
			"(systemd.unified_cgroup_hierarchy=1), or give %s a disk of its own",
			name);
	else if (process->writers && process->writers->has_swap)
		finding_hint(finding,
			"no limit: swap is on %s, and who is limited swaps slowly: give %s a disk "
			"of its own",
			disk, name);
	else if (process->writers)
		add_limits(finding, storage, process);
}

/*
 * The instance of a process that syncs: its name, its disk and its workload, by what is known of it
 * from the begin and stays with a restart.
 */
static struct instance instance_of(const struct storage_process *process)
{
	const struct workload *workload = &process->workload;
	struct instance instance = {.kind = INSTANCE_DEVICE, .owner = *workload};

	if (workload->kind != WORKLOAD_HOST)
		instance.id =
			hash_text(HASH_START, workload->id[0] ? workload->id : workload->name);

	snprintf(instance.name, sizeof(instance.name), "%s, process %s", process->disk.name,
		process->name);
	return instance;
}

/* Returns the mean of the last half minute, in seconds. */
static double mean_now(const struct storage_summary *summary)
{
	return (double)summary->now_took_us / 1e6 / (double)MAX(summary->now_syncs, UINT64_C(1));
}

/* The summary covers five minutes; of a process that starves, the last half minute comes first. */
static void describe_syncs(struct finding *finding, const struct storage *storage,
	const struct storage_process *process, uint64_t lost)
{
	const struct storage_summary *summary = &process->summary;
	char p99[TIME_TEXT_MAX], worst[TIME_TEXT_MAX], mean[TIME_TEXT_MAX], share[SHARE_MAX];
	char now[160] = "", over[64] = "";

	if (storage_is_starved(summary, storage->sync_p99_us)) {
		latency_text(mean_now(summary), mean);
		snprintf(now, sizeof(now), "%s of the last %d s in %" PRIu64 " syncs of %s; ",
			share_text(MIN((double)summary->now_took_us / (double)STORAGE_NOW_US, 1.0),
				share),
			(int)(STORAGE_NOW_US / USEC_PER_SEC), summary->now_syncs, mean);
	}
	latency_text(summary->p99, p99);
	latency_text((double)summary->worst_us / 1e6, worst);
	if (lost > 0)
		snprintf(over, sizeof(over), ", %" PRIu64 " took over 1 s", lost);
	finding_message(finding,
		"%sp99 of %" PRIu64 " syncs in five minutes is %s, the longest %s%s (%s disk)", now,
		summary->syncs, p99, worst, over, storage_kind_names[process->disk.kind]);
}

static void find_slow(const struct storage *storage, const struct storage_process *process,
	struct proposal *proposal, const struct decide_input *input)
{
	const struct storage_summary *summary = &process->summary;
	uint64_t lost = storage_slower_than(summary, STORAGE_ELECTION_NS);
	struct instance instance = instance_of(process);
	double typical = storage_is_starved(summary, storage->sync_p99_us) ? mean_now(summary)
									   : summary->p99;
	struct finding *finding;

	if (!storage_is_slow(summary, storage->sync_p99_us))
		return;
	finding = proposal_finding(proposal, input, &storage_conditions[STORAGE_SLOW],
		lost > 0 ? REASON_SYNCS_OVER_ELECTION : REASON_SYNCS_SLOW, "syncs-slow", &instance,
		FINDING_HAPPENS);
	if (!finding)
		return;
	finding->severity = lost > 0                ? SEVERITY_CRITICAL
			    : typical > HEARTBEAT_S ? SEVERITY_WARNING
						    : SEVERITY_ADVICE;
	finding->breaks = "etcd loses its leader, and the API server answers late or not at all";
	finding->use.used = summary->recent_us; /* the users are of the moment that was slowest */
	finding->node_pressure = process->node_pressure;
	finding->own_pressure = process->pressure;
	describe_syncs(finding, storage, process, lost);
	add_holders(finding, process);
	add_advice(finding, storage, process);
	if (!input->config || !config_bool(input->config, "storage.bound_writeback"))
		finding_keep(finding, input, "sysctl", "storage: {bound_writeback: true}");
}

static void judge_slow(
	const struct storage *storage, const struct decide_input *input, struct proposal *proposal)
{
	struct condition_reading *condition =
		proposal_condition(proposal, &storage_conditions[STORAGE_SLOW], REASON_SYNCS_FAST);

	if (!storage->bpf)
		condition_unknown(condition, REASON_SYNCS_UNKNOWN);
	for (unsigned i = 0; storage->bpf && i < storage->n_seen; i++)
		find_slow(storage, &storage->seen[i], proposal, input);
	if (!storage->bpf || storage->n_seen > 0 || !storage->uncounted[0])
		return;
	condition_unknown(condition, REASON_SYNCS_UNKNOWN);
	condition_append(condition,
		"no sync of %s is counted, and those of %s cannot be: use a kernel with BPF "
		"trampolines (CONFIG_FUNCTION_TRACER)",
		storage->uncounted, storage->unseen);
}

static bool is_unsuited(const struct storage_disk *disk)
{
	return disk->kind > STORAGE_LOCAL;
}

static void find_unsuited(const struct storage_disk *disk, const struct instance *instance,
	enum reason reason, const char *what, struct proposal *proposal,
	const struct decide_input *input)
{
	struct finding *finding =
		is_unsuited(disk)
			? proposal_finding(proposal, input, &storage_conditions[STORAGE_UNSUITED],
				  reason, NULL, instance, FINDING_HAPPENS)
			: NULL;

	if (!finding)
		return;
	finding_message(finding, "%s %s, kind %s%s%s", what, disk->name,
		storage_kind_names[disk->kind], disk->model[0] ? ", " : "", disk->model);
	finding_hint(finding, "move it to a local SSD");
}

static void judge_suited(
	const struct storage *storage, const struct decide_input *input, struct proposal *proposal)
{
	struct condition_reading *condition = proposal_condition(
		proposal, &storage_conditions[STORAGE_UNSUITED], REASON_DISKS_SUITED);

	if (!storage->bpf)
		condition_unknown(condition, REASON_SYNCS_UNKNOWN);
	for (unsigned i = 0; i < storage->n_images; i++) {
		struct instance instance = {.kind = INSTANCE_FILE};

		set_text(instance.name, storage->images[i].path);
		find_unsuited(&storage->images[i].disk, &instance, REASON_IMAGES_UNSUITED,
			"images are on", proposal, input);
	}
	for (unsigned i = 0; i < storage->n_seen; i++) {
		struct instance instance = instance_of(&storage->seen[i]);

		find_unsuited(&storage->seen[i].disk, &instance, REASON_DISK_UNSUITED,
			"syncs go to", proposal, input);
	}
}

static void add_lacks(const struct storage *storage, struct proposal *proposal)
{
	char why[TUNER_WHY_MAX];

	proposal_lack(proposal, LACK_BPF, storage->why);
	if (!storage->bpf || storage->bpf->calls_error >= 0)
		return;
	if (storage->bpf->ext4_error < 0) {
		snprintf(why, sizeof(why),
			"BPF: syncs of ext4 are not counted: %s: mount an ext4 file system and "
			"restart the agent",
			strerror(-storage->bpf->ext4_error));
		proposal_lacks(proposal, why);
	}
	if (storage->unseen[0]) {
		snprintf(why, sizeof(why),
			"BPF: fentry: %s: syncs of %s are not counted: use a kernel with BPF "
			"trampolines (CONFIG_FUNCTION_TRACER)",
			strerror(-storage->bpf->calls_error), storage->unseen);
		proposal_lack(proposal, LACK_KERNEL, why);
	}
}

void storage_decide(
	const void *self, const struct decide_input *input, void *, struct proposal *proposal)
{
	add_lacks(self, proposal);
	judge_slow(self, input, proposal);
	judge_suited(self, input, proposal);
}
