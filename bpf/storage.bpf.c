// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts requests to disks, and calls of fsync(2) and the like. A sync is seen by the system call,
 * and by ext4, also for O_SYNC writes and below an overlay. The innermost of a thread counts.
 */
#include "kernel_types.h"
#include "map.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include <headroom/bpf/storage.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";
struct storage_control control;
/* Preallocated: before 6.1 a tracing program must not allocate memory. */
MAP(headroom_ios, HASH, 0, STORAGE_ROWS_MAX, struct storage_io_key, struct storage_io);
MAP(headroom_syncs, HASH, 0, STORAGE_ROWS_MAX, struct storage_sync_key, struct storage_sync);
MAP(headroom_threads, HASH, 0, STORAGE_ROWS_MAX, __u64, struct storage_start);
/* By device and inode: which listed process synced a file or a directory. */
MAP(headroom_owners, LRU_HASH, 0, 1024, __u64, struct storage_sync_key);
static const struct storage_sync zero; /* long enough for both */

/* Fires when a request, rarely a part of it, is complete: block/blk-mq.c. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(io_complete, struct request *rq, int error, unsigned int bytes)
{
	__u32 op = rq->cmd_flags & REQ_OP_MASK;
	struct gendisk *disk = bpf_core_field_exists(rq->rq_disk) ? rq->rq_disk : rq->q->disk;
	struct storage_io_key key = {0};
	struct storage_io *row;
	struct bio *bio = rq->bio;

	if (op == REQ_OP_FLUSH || op >= REQ_OP_PRIVATE || !disk || !rq->start_time_ns)
		return 0;
	key.disk = (__u32)disk->major << 20 | disk->first_minor;
	if (bpf_core_field_exists(bio->bi_blkg) && bio && bio->bi_blkg)
		key.cgroup = bio->bi_blkg->blkcg->css.cgroup->kn->id;
	row = element_of(&headroom_ios, &key, &zero);
	if (!row) {
		__sync_fetch_and_add(&control.lost_ios, 1);
		return 0;
	}
	if (!row->name[0])
		bpf_probe_read_kernel_str(row->name, sizeof(row->name), disk->disk_name);
	if (op != REQ_OP_DISCARD)
		__sync_fetch_and_add(&row->bytes[op & 1], bytes);
	if (bytes != rq->__data_len)
		return 0;
	__sync_fetch_and_add(&row->requests[op & 1], op != REQ_OP_DISCARD);
	__sync_fetch_and_add(&row->queue_ns, bpf_ktime_get_ns() - rq->start_time_ns);
	return 0;
}

#define KWORKER 0x2f72656b726f776b /* "kworker/" */

/* Its file and owner are known at the begin of a sync: user space also counts an open sync. */
static __always_inline int begin(struct file *file)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct storage_start start = {0};
	__u64 thread = bpf_get_current_pid_tgid(), name[2] = {0};

	start.device = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
	if (!start.device)
		return 0; /* no such descriptor */
	start.cgroup = bpf_get_current_cgroup_id();
	BPF_CORE_READ_STR_INTO(&name, task, group_leader, comm);
	start.listed = name[0] == KWORKER ? STORAGE_KWORKER : 0;
	for (int i = 0; i < STORAGE_PROCESSES_MAX && control.processes[i][0]; i++)
		if (control.processes[i][0] == name[0] && control.processes[i][1] == name[1])
			start.listed = i + 1;
	start.file = (__u64)file;
	start.ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&headroom_threads, &thread, &start, BPF_ANY) < 0)
		__sync_fetch_and_add(&control.lost_threads, 1);
	return 0;
}

static __always_inline int end(void)
{
	__u64 thread = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns(), ns, longest;
	__u64 file_name = 0, second = now / 1000000000, *worst, id;
	struct storage_sync_key key = {0}, *owner;
	struct storage_start *start = bpf_map_lookup_elem(&headroom_threads, &thread);
	struct storage_sync *row;
	struct file *file;
	__u32 listed, by_worker;

	if (!start)
		return 0;
	ns = now - start->ns;
	file = (struct file *)start->file;
	key.device = start->device;
	key.cgroup = start->cgroup;
	by_worker = start->listed == STORAGE_KWORKER;
	listed = start->listed - 1;
	if (listed < STORAGE_PROCESSES_MAX)
		__builtin_memcpy(key.process, control.processes[listed], sizeof(key.process));
	bpf_map_delete_elem(&headroom_threads, &thread);
	/* Kernel workers sync asynchronous writes to a known file, or in a known directory. */
	id = (__u64)key.device << 32 ^ BPF_CORE_READ(file, f_inode, i_ino);
	owner = bpf_map_lookup_elem(&headroom_owners, &id);
	if (key.process[0] && (!owner || owner->cgroup != key.cgroup))
		bpf_map_update_elem(&headroom_owners, &id, &key, BPF_ANY);
	if (!owner && by_worker) {
		id = (__u64)key.device << 32 ^
		     BPF_CORE_READ(file, f_path.dentry, d_parent, d_inode, i_ino);
		owner = bpf_map_lookup_elem(&headroom_owners, &id);
	}
	if (owner && by_worker)
		key = *owner;
	row = element_of(&headroom_syncs, &key, &zero);
	if (!row) {
		__sync_fetch_and_add(&control.lost_syncs, 1);
		return 0;
	}
	__sync_fetch_and_add(&row->ns, ns);
	__sync_fetch_and_add(&row->counts[storage_bucket(ns) % STORAGE_BUCKETS], 1);
	worst = &row->worst[second % STORAGE_SECONDS];
	longest = second << 32 | ns >> 10;
	*worst = longest > *worst ? longest : *worst;
	row->pid = by_worker ? row->pid : thread >> 32;
	if (key.process[0])
		bpf_probe_read_kernel_str(&file_name, sizeof(file_name),
			BPF_CORE_READ(file, f_path.dentry, d_name.name));
	if (file_name == STORAGE_DATABASE)
		row->database = BPF_CORE_READ(file, f_inode, i_size);
	return 0;
}

SEC("raw_tp/ext4_sync_file_enter")
int ext4_enter(struct bpf_raw_tracepoint_args *ctx)
{
	return begin((struct file *)ctx->args[0]);
}

SEC("raw_tp/ext4_sync_file_exit")
int ext4_exit(void *ctx)
{
	return end();
}

static __always_inline struct file *file_of(__u32 descriptor)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct fdtable *fds = BPF_CORE_READ(task, files, fdt);
	struct file *file = NULL;

	if (fds && descriptor < BPF_CORE_READ(fds, max_fds))
		bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(fds, fd) + descriptor);
	return file;
}

/* On processors other than x86-64, user space sets the targets. */
#define SYSTEM_CALL(name)                                      \
	SEC("fentry/__x64_sys_" #name)                         \
	int BPF_PROG(name##_enter, struct pt_regs___x86 *regs) \
	{                                                      \
		return begin(file_of(FIRST_ARGUMENT(regs)));   \
	}                                                      \
	SEC("fexit/__x64_sys_" #name)                          \
	int BPF_PROG(name##_exit)                              \
	{                                                      \
		return end();                                  \
	}

SYSTEM_CALL(fsync)
SYSTEM_CALL(fdatasync)
