/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BPF_KERNEL_TYPES_H
#define BPF_KERNEL_TYPES_H

/*
 * The kernel structures that the programs read, with only the fields they read: CO-RE finds the
 * offsets on the running kernel. Structures without a source are in include/net/neighbour.h or in
 * the file of the structure before.
 */

#include <linux/bpf.h>
#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct list_head {
	struct list_head *next;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct neighbour;

struct neigh_hash_table {
	struct hlist_head *hash_heads;   /* from 6.13 */
	struct neighbour **hash_buckets; /* before */
	unsigned int hash_shift;
};

struct neigh_table {
	int family;
	atomic_t gc_entries; /* collectable entries: what gc_thresh3 is compared with; from 5.0 */
	struct neigh_hash_table *nht;
};

struct net_device;

struct neighbour {
	struct hlist_node hash; /* from 6.13 */
	struct neighbour *next; /* before */
	struct neigh_table *tbl;
	unsigned long confirmed, used; /* jiffies */
	__u8 nud_state;
	__u32 flags;              /* __u8 before 5.16: the load is adapted */
	struct list_head gc_list; /* linked while the entry is collectable */
	__u8 ha[32];              /* the link address */
	struct net_device *dev;
	__u8 primary_key[]; /* the network address */
};

struct neigh_parms {
	struct neigh_table *tbl;
};

struct in_device { /* include/linux/inetdevice.h */
	struct neigh_parms *arp_parms;
};

struct inet6_dev { /* include/net/if_inet6.h */
	struct neigh_parms *nd_parms;
};

struct ns_common { /* include/linux/ns_common.h */
	unsigned int inum;
};

struct net;

typedef struct { /* include/net/net_namespace.h */
	struct net *net;
} possible_net_t;

struct net_device { /* include/linux/netdevice.h */
	char name[16];
	int ifindex;
	unsigned char addr_len;
	possible_net_t nd_net;
	struct in_device *ip_ptr;
	struct inet6_dev *ip6_ptr;
};

struct local_ports { /* include/net/netns/ipv4.h */
	__u32 range; /* low and high in 16 bits each */
};

struct local_ports___before_6_8 {
	__u32 range[2];
};

struct hlist_nulls_node { /* include/linux/list_nulls.h */
	struct hlist_nulls_node *next;
};

struct inet_ehash_bucket { /* include/net/inet_hashtables.h */
	struct hlist_nulls_node *chain;
};

struct inet_hashinfo {
	struct inet_ehash_bucket *ehash;
	unsigned int ehash_mask;
};

struct inet_timewait_death_row { /* include/net/netns/ipv4.h */
	struct inet_hashinfo *hashinfo;
};

struct netns_ipv4 {
	__u8 sysctl_tcp_tw_reuse; /* int before 5.13: its first byte */
	struct local_ports ip_local_ports;
	struct inet_timewait_death_row tcp_death_row;
};

struct netns_ipv4___before_6_1 { /* from 5.18 */
	struct inet_timewait_death_row *tcp_death_row;
};

struct netns_core { /* include/net/netns/core.h */
	int sysctl_somaxconn;
};

struct net {
	struct ns_common ns;
	struct netns_core core;
	struct net_device *loopback_dev;
	struct netns_ipv4 ipv4;
};

struct sock_common { /* include/net/sock.h */
	__u32 skc_daddr, skc_rcv_saddr;
	__u16 skc_dport; /* network order */
	__u16 skc_num;
	unsigned short skc_family;
	unsigned char skc_state;
	possible_net_t skc_net;
	struct hlist_nulls_node skc_nulls_node;
	struct {
		__u8 bytes[16];
	} skc_v6_daddr, skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	struct {
		atomic_t rmem_alloc;
	} sk_backlog;
	int sk_forward_alloc;
	int sk_wmem_queued;
	__u32 sk_ack_backlog;
	__u32 sk_max_ack_backlog;
	atomic_t sk_drops;
};

struct socket {
	short type;
	struct sock *sk;
};

struct ucounts;

struct inotify_group_private_data { /* include/linux/fsnotify_backend.h */
	struct ucounts *ucounts;
};

struct fsnotify_group {
	struct list_head marks_list;
	struct inotify_group_private_data inotify_data;
};

struct super_block { /* include/linux/fs.h */
	__u32 s_dev;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	__s64 i_size;
};

struct qstr { /* include/linux/dcache.h */
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
};

struct path {
	struct dentry *dentry;
};

struct file { /* include/linux/fs.h */
	const void *f_op;
	void *private_data;
	struct path f_path;
	struct inode *f_inode;
};

struct mnt_namespace { /* fs/mount.h */
	struct ns_common ns;
	unsigned int nr_mounts; /* from 6.8 */
	unsigned int mounts;    /* before; later a struct */
};

struct sk_buff {
	unsigned long _nfct; /* connection tracking: a pointer and three bits */
};

struct nf_conntrack_tuple { /* include/net/netfilter/nf_conntrack_tuple.h */
	struct {
		struct {
			__u32 all[4];
		} u3;
	} dst;
};

struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
};

struct nf_conn { /* include/net/netfilter/nf_conntrack.h; in a module its type can be missing */
	struct nf_conntrack_tuple_hash tuplehash[2]; /* the original direction, the reply */
};

struct nsproxy {
	struct mnt_namespace *mnt_ns;
	struct net *net_ns;
};

typedef struct {
	__s64 counter;
} atomic64_t;

typedef struct {
	unsigned int val;
} kuid_t;

struct user_namespace;

struct ucounts { /* include/linux/user_namespace.h */
	struct user_namespace *ns;
	kuid_t uid;
	atomic64_t ucount[16]; /* atomic_t before 5.14; fewer */
};

struct user_namespace {
	struct ucounts *ucounts; /* in the parent namespace; NULL in the first */
};

struct cred {
	struct ucounts *ucounts; /* from 5.14 */
};

struct kernfs_node {
	__u64 id;
};

struct cgroup_root {
	int hierarchy_id; /* 0: cgroup2 */
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct cgroup_subsys_state { /* include/linux/cgroup-defs.h */
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct blkcg { /* block/blk-cgroup.h */
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct bio { /* include/linux/blk_types.h */
	struct blkcg_gq *bi_blkg;
};

struct gendisk { /* include/linux/blkdev.h */
	int major, first_minor;
	char disk_name[32];
};

struct request_queue {
	struct gendisk *disk; /* from 5.17 */
};

/* enum req_op, include/linux/blk_types.h. */
#define REQ_OP_MASK    0xff
#define REQ_OP_FLUSH   2 /* the kernel's own: the empty write that waits for it has another */
#define REQ_OP_DISCARD 3
#define REQ_OP_PRIVATE 32 /* from here on: commands of drivers and SG_IO */

struct request { /* include/linux/blk-mq.h */
	struct request_queue *q;
	struct gendisk *rq_disk; /* before 5.17 */
	unsigned int cmd_flags;
	unsigned int __data_len; /* left to complete */
	struct bio *bio;         /* NULL: the kernel's own */
	__u64 start_time_ns;
};

struct css_set {                                /* include/linux/cgroup-defs.h */
	struct cgroup_subsys_state *subsys[16]; /* fewer */
	struct cgroup *dfl_cgrp;
};

struct pids_cgroup { /* kernel/cgroup/pids.c */
	struct cgroup_subsys_state css;
	atomic64_t counter;
	atomic64_t limit;
	atomic64_t events_limit;    /* before 6.11 */
	atomic64_t events_local[2]; /* from 6.11; [1]: forks that failed in this cgroup */
};

struct rlimit {
	unsigned long rlim_cur, rlim_max;
};

struct signal_struct {
	int nr_threads;
	struct rlimit rlim[16];
};

struct kioctx { /* fs/aio.c */
	unsigned int max_reqs;
};

struct kioctx_table {
	unsigned int nr;
	struct kioctx *table[];
};

struct mm_struct {
	int map_count;
	struct kioctx_table *ioctx_table;
};

struct fdtable { /* include/linux/fdtable.h */
	unsigned int max_fds;
	struct file **fd;
	unsigned long *open_fds;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	int pid; /* the thread's, in the first pid namespace */
	int tgid;
	struct task_struct *group_leader;
	char comm[16];
	struct nsproxy *nsproxy;
	const struct cred *cred;
	struct css_set *cgroups;
	struct signal_struct *signal;
	struct mm_struct *mm;
	struct files_struct *files;
};

enum ucount_type { /* include/linux/user_namespace.h */
	UCOUNT_INOTIFY_INSTANCES,
	UCOUNT_INOTIFY_WATCHES,
};

enum cgroup_subsys_id {
	pids_cgrp_id,
};

struct seq_file;

struct bpf_iter_meta { /* include/linux/bpf.h */
	struct seq_file *seq;
};

struct bpf_iter__task { /* kernel/bpf/task_iter.c */
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

struct mem_cgroup { /* include/linux/memcontrol.h */
	struct cgroup_subsys_state css;
};

struct obj_cgroup {
	struct mem_cgroup *memcg;
};

struct bpf_map { /* include/linux/bpf.h */
	enum bpf_map_type map_type;
	__u32 max_entries;
	__u32 id;
	char name[16];
	struct obj_cgroup *objcg; /* from 6.0 */
};

struct bpf_map___before_6_0 { /* from 5.11 */
	struct mem_cgroup *memcg;
};

struct lpm_trie { /* kernel/bpf/lpm_trie.c */
	unsigned long n_entries;
};

struct bpf_iter__bpf_map { /* kernel/bpf/map_iter.c */
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
};

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	void *key;
};

/* The kernel's type of x86-64 and of arm64, and the first argument of a system call. */
struct pt_regs___x86 {
	unsigned long di;
};

struct pt_regs___arm64 {
	__u64 regs[31];
};

#define FIRST_ARGUMENT(x86)                      \
	(bpf_core_field_exists((x86)->di)        \
			? BPF_CORE_READ(x86, di) \
			: BPF_CORE_READ((struct pt_regs___arm64 *)(x86), regs[0]))

#pragma clang attribute pop

#endif
