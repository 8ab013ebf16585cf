/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/storage/storage.h"

#include "base/text.h"

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

static void add_holder(struct condition_reading *condition, const struct storage *storage,
	const struct storage_process *process)
{
	char holder[WORKLOAD_TEXT_MAX], share[SHARE_MAX], rate[AMOUNT_MAX];

	if (!storage->attributed) {
		condition_append(condition, ": who else writes is unknown: echo +io > "
					    "/sys/fs/cgroup/cgroup.subtree_control");
		return;
	}
	if (process->holder_share <= 0)
		return;
	workload_describe(&process->holder, holder, sizeof(holder));
	condition_append(condition, "; %s holds %s of its queue and writes %s/s", holder,
		share_text(process->holder_share, share),
		amount_text(process->holder_rate, "bytes", rate));
	if (!workload_equal(&process->holder, &process->workload))
		condition_append(condition,
			": limit it with io.max (a unit: IOWriteBandwidthMax=, a pod: a blockio "
			"class of containerd)");
}

static void judge_slow(const struct storage *storage, struct proposal *proposal)
{
	const struct condition_type *type = &storage_conditions[STORAGE_SLOW];
	struct condition_reading *condition = proposal_condition(proposal, type, REASON_SYNCS_FAST);
	enum severity severity = SEVERITY_ADVICE;

	if (!storage->bpf) {
		condition_unknown(condition, REASON_SYNCS_UNKNOWN);
		return;
	}
	for (unsigned i = 0; i < storage->n_seen; i++) {
		const struct storage_process *process = &storage->seen[i];
		const struct storage_summary *summary = &process->summary;
		uint64_t lost = slower_than(summary, ELECTION_NS);
		char workload[WORKLOAD_TEXT_MAX], p99[TIME_TEXT_MAX];

		if ((summary->syncs < SYNCS_MIN &&
			    summary->took_us < STORAGE_SLICES * STORAGE_SLICE_US / TOOK_SHARE) ||
			(lost == 0 && summary->p99 * 1e6 <= (double)storage->sync_p99_us))
			continue;
		severity = MAX(severity, lost > 0                     ? SEVERITY_CRITICAL
					 : summary->p99 > HEARTBEAT_S ? SEVERITY_WARNING
								      : SEVERITY_ADVICE);
		workload_describe(&process->workload, workload, sizeof(workload));
		latency_text(summary->p99, p99);
		condition_raise(condition,
			lost > 0 ? REASON_SYNCS_OVER_ELECTION : REASON_SYNCS_SLOW,
			"%s of %s: p99 of %" PRIu64 " syncs to %s (%s) in five minutes is %s",
			process->name, workload, summary->syncs, process->disk.name,
			storage_kind_names[process->disk.kind], p99);
		if (lost > 0)
			condition_append(condition, ", %" PRIu64 " took over 1 s", lost);
		add_holder(condition, storage, process);
	}
	condition->milder = type->severity - severity;
}

static bool is_unsuited(const struct storage_disk *disk)
{
	return disk->kind > STORAGE_LOCAL;
}

static void judge_suited(const struct storage *storage, struct proposal *proposal)
{
	struct condition_reading *condition = proposal_condition(
		proposal, &storage_conditions[STORAGE_UNSUITED], REASON_DISKS_SUITED);

	for (unsigned i = 0; i < storage->n_images; i++) {
		const struct storage_disk *disk = &storage->images[i].disk;

		if (is_unsuited(disk))
			condition_raise(condition, REASON_IMAGES_UNSUITED,
				"images in %s are on %s, kind %s%s%s: move them to a local SSD",
				storage->images[i].path, disk->name, storage_kind_names[disk->kind],
				disk->model[0] ? ", " : "", disk->model);
	}
	if (!storage->bpf && condition->status != CONDITION_TRUE)
		condition_unknown(condition, REASON_SYNCS_UNKNOWN);
	for (unsigned i = 0; i < storage->n_seen; i++) {
		const struct storage_process *process = &storage->seen[i];
		const struct storage_disk *disk = &process->disk;
		char workload[WORKLOAD_TEXT_MAX];

		if (!is_unsuited(disk))
			continue;
		workload_describe(&process->workload, workload, sizeof(workload));
		condition_raise(condition, REASON_DISK_UNSUITED,
			"%s of %s syncs to %s, kind %s%s%s: move its data to a local SSD",
			process->name, workload, disk->name, storage_kind_names[disk->kind],
			disk->model[0] ? ", " : "", disk->model);
	}
}

static void add_lacks(const struct storage *storage, struct proposal *proposal)
{
	char why[TUNER_WHY_MAX];

	proposal_lacks(proposal, storage->why);
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
		proposal_lacks(proposal, why);
	}
}

void storage_decide(
	const void *self, const struct decide_input *, void *, struct proposal *proposal)
{
	add_lacks(self, proposal);
	judge_slow(self, proposal);
	judge_suited(self, proposal);
}
