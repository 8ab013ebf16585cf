/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Facts about the node that one tuner finds and others use. The agent owns them and passes them to
 * open(). Beside each member stands who writes it and who reads it: no tuner writes a member of
 * another. Cgroups are learned from all readers. A task gets a copy.
 */

#include "workload/cgroup.h"

#define NODE_IMAGES_MAX 8
#define NODE_SYNCED_MAX 16
#define NODE_NAME_MAX   16 /* TASK_COMM_LEN */

/* A database of etcd and the process that syncs it. */
struct node_database {
	pid_t pid;
	char process[NODE_NAME_MAX];
	struct workload workload;
	uint64_t bytes;
};

struct node_disks {
	/* The directories of the runtimes' images: runtime; limits, storage. */
	struct node_images {
		char path[SETTING_PATH_MAX]; /* below the host's root */
		dev_t device;
		const char *runtime; /* static: "containerd"; NULL: it serves no pods */
		char socket[SETTING_PATH_MAX];
	} images[NODE_IMAGES_MAX];
	unsigned n_images;

	/* Above this share, in percent, the kubelet deletes images: kubelet; limits, runtime. 0:
	 * unknown */
	unsigned images_gc_high;

	/* The file systems that processes of storage.processes sync: storage; limits. */
	struct node_synced {
		char path[SETTING_PATH_MAX]; /* below the host's root */
		dev_t device;
	} synced[NODE_SYNCED_MAX];
	unsigned n_synced;

	struct node_database databases[NODE_SYNCED_MAX]; /* storage; limits */
	unsigned n_databases;

	/* The file system of the store that images are loaded into; 0: not known: images; storage
	 */
	dev_t store;
	/* A listed process on the disk of that store that is slow now: storage; images */
	struct node_slow {
		char process[NODE_NAME_MAX]; /* "": none */
		double p99;                  /* of its last syncs, in seconds */
	} slow;
	/* When a load of an archive last waited for it, CLOCK_MONOTONIC: images; runtime */
	uint64_t load_waited_us;
};

struct facts {
	struct names names;      /* runtime; dns, limits, neighbor, storage */
	bool names_complete;     /* all runtimes of the node answer: runtime; limits */
	bool names_wanted;       /* a finding has a pod without its name: the core; runtime */
	struct cgroups *cgroups; /* the core; dns, limits, storage */
	struct node_disks disks;
};
