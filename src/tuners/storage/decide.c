/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/storage/storage.h"

#include "base/text.h"
#include "config/config.h"

/* StorageSlow needs this many syncs, or syncs that took this share of the five minutes. */
#define SYNCS_MIN  100
#define TOOK_SHARE 10

/* etcd's heartbeat and election timeout. */
#define HEARTBEAT_S 0.1
#define ELECTION_NS UINT64_C(1000000000)

static uint64_t slower_than(const struct storage_summary *summary, uint64_t ns)
{
	uint64_t syncs = 0;

	for (int i = 0; i < STORAGE_BUCKETS; i++)
		if (i > 0 && storage_bounds[i - 1] >= ns)
			syncs += summary->counts[i];
	return syncs;
}

static void add_holders(struct finding *finding, const struct storage *storage,
	const struct storage_process *process)
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
	if (!storage->attributed)
		finding_hint(finding, "who else writes is not known: echo +io > "
				      "/sys/fs/cgroup/cgroup.subtree_control");
	else if (process->n_holders > 0 && workload_equal(&holders[0].workload, &process->workload))
		finding_hint(finding, "it holds the queue itself: it needs a faster disk");
	else
		finding_hint(finding,
			"limit all that write much to %s together (io.max; a unit: "
			"IOWriteBandwidthMax=), or give %s a disk of its own",
			process->disk.name, process->name);
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

/* A share of long syncs, of a process that syncs often or that does little else. */
static bool is_slow(const struct storage *storage, const struct storage_summary *summary)
{
	bool enough = summary->syncs >= SYNCS_MIN ||
		      summary->took_us >= STORAGE_SLICES * STORAGE_SLICE_US / TOOK_SHARE;

	return enough && (slower_than(summary, ELECTION_NS) > 0 ||
				 summary->p99 * 1e6 > (double)storage->sync_p99_us);
}

static void find_slow(const struct storage *storage, const struct storage_process *process,
	struct proposal *proposal, const struct decide_input *input)
{
	const struct storage_summary *summary = &process->summary;
	uint64_t lost = slower_than(summary, ELECTION_NS);
	struct instance instance = instance_of(process);
	char p99[TIME_TEXT_MAX], worst[TIME_TEXT_MAX], over[64] = "";
	struct finding *finding;

	if (!is_slow(storage, summary))
		return;
	finding = proposal_finding(proposal, input, &storage_conditions[STORAGE_SLOW],
		lost > 0 ? REASON_SYNCS_OVER_ELECTION : REASON_SYNCS_SLOW, "syncs-slow", &instance,
		FINDING_HAPPENS);
	if (!finding)
		return;
	finding->severity = lost > 0                     ? SEVERITY_CRITICAL
			    : summary->p99 > HEARTBEAT_S ? SEVERITY_WARNING
							 : SEVERITY_ADVICE;
	finding->breaks = "etcd loses its leader, and the API server answers late or not at all";
	finding->use.used = summary->recent_us; /* the users are of the moment that was slowest */
	latency_text(summary->p99, p99);
	latency_text((double)summary->worst_us / 1e6, worst);
	if (lost > 0)
		snprintf(over, sizeof(over), ", %" PRIu64 " took over 1 s", lost);
	finding_message(finding,
		"p99 of %" PRIu64 " syncs in five minutes is %s, the longest %s%s (%s disk)",
		summary->syncs, p99, worst, over, storage_kind_names[process->disk.kind]);
	add_holders(finding, storage, process);
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
