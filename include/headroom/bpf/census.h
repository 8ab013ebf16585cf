/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#pragma once

/* The records that bpf/census.bpf.c and bpf/maps.bpf.c write. */

#include <linux/types.h>

#define CENSUS_COMM 16

/* census() writes one for each process. */
struct census_record {
	__u32 pid; /* in the first pid namespace */
	__u32 threads;
	__u32 netns; /* inodes of its namespaces; 0: it is exiting */
	__u32 mntns;
	__u32 mounts;                /* in its mount namespace */
	__u32 maps;                  /* memory maps */
	__u64 aio;                   /* requests of its contexts for asynchronous I/O */
	__u64 files;                 /* open descriptors */
	__u64 files_max, files_hard; /* soft and hard RLIMIT_NOFILE */
	/* Inodes of its cgroup in the hierarchy of cgroup2 and in that of the pids controller. */
	__u64 cgroup, pids_cgroup;
	/* The fullest pids cgroup above it with a limit; pids_max 0: none. */
	__u64 pids_limited, pids_used, pids_max;
	__u64 pids_first;   /* the pids cgroup above it that is a child of the root; 0: none */
	__u64 forks_failed; /* in pids_cgroup */
	/* Its user's, in the first user namespace; the kernel counts them from Linux 5.14. */
	__u32 uid;
	__u32 uid_counts; /* 1: the kernel has the next two */
	__u64 inotify_instances, inotify_watches;
	/* 1: pids_limited is below pids_first, which is nearly full and so may refuse forks. */
	__u32 pids_first_refuses, unused;
	char comm[CENSUS_COMM];
};

/* count_maps(), or list_maps() before Linux 6.6, writes one for each BPF map that can fill. */
struct census_map {
	__u32 id;
	__u32 type;        /* enum bpf_map_type */
	__u32 max;         /* elements */
	__u32 is_estimate; /* set by user space */
	__s64 used;        /* elements; CENSUS_UNCOUNTED: this kernel does not tell */
	__u64 cgroup; /* inode of its creator's memory cgroup, later of that one's parent; 0: not
			 known */
	char name[CENSUS_COMM];
};

#define CENSUS_UNCOUNTED -1

enum census_kind {
	CENSUS_INOTIFY,
	CENSUS_PTY,       /* the side of the terminal emulator */
	CENSUS_LISTENER,  /* TCP */
	CENSUS_CONNECTED, /* TCP, from an ephemeral port */
	CENSUS_SOCKET,    /* another one of TCP or UDP whose buffers are not empty */
	CENSUS_KINDS,
};

/*
 * list_files() writes one for each open file of these kinds, once for each process that has it.
 * list_connections() writes one for each TCP connection from an ephemeral port. A connection that
 * no process has open has neither a pid nor cgroups. A connection in TIME_WAIT is left out if a new
 * one may take its port.
 */
struct census_file {
	__u64 file; /* the same for all processes that share it; of a socket its struct sock */
	__u64 cgroup, pids_cgroup;
	__u64 inode; /* a listener's */
	__u32 pid;
	__u32 netns;
	__u32 used, max; /* inotify: watches; listener: connections that wait, and their maximum;
			    connected: the number of ephemeral ports is the maximum */
	__u32 uid;       /* inotify: of the user for whom the kernel counts it */
	__u32 drops;     /* listener: connections that it refused */
	__u32 somaxconn; /* listener: of its namespace */
	__u16 kind;
	__u16 port;                   /* the listener's, or the remote end's */
	__u16 family;                 /* the address family */
	__u16 is_udp;                 /* or TCP */
	__u32 pages;                  /* of a socket's buffers */
	__u8 source[16], address[16]; /* the local and the remote end's */
};

#define CENSUS_CONNECTIONS 256 /* that one run of list_connections() lists */

struct census_connections {
	__u32 next; /* the first bucket of the kernel's table for the next run; 0: all are listed */
	__u32 n;
	struct census_file connections[CENSUS_CONNECTIONS];
};
