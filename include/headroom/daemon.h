/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A daemon is a long-running program of the node that reads configuration files: a container
 * runtime or the kubelet. Its record in the journal lets a restore put the old file in force.
 */

#include <headroom/setting.h>

/* How a changed file takes effect. */
enum activation {
	ACTIVATE_NOTHING, /* by itself: the daemon reads it on use or at its next start */
	ACTIVATE_RELOAD,  /* SIGHUP */
	ACTIVATE_RESTART, /* a restart of the unit, according to restart_policy */
};

enum restart_policy {
	RESTART_NEVER,
	RESTART_WHEN_IDLE, /* while no pull is in flight, at most once an hour */
	RESTART_NOW,
};

/* Paths are below the host's root. Unknown members are empty. */
struct daemon {
	char driver[16];                  /* name of its struct runtime_driver */
	char unit[64];                    /* "containerd.service" */
	char socket[108];                 /* where it accepts requests */
	char version[64];                 /* as it reports it: "20.10.24+dfsg1", "v2.1.4" */
	char program[SETTING_PATH_MAX];   /* its executable, which the next start runs */
	char config[SETTING_PATH_MAX];    /* its main file; an edited one may be a drop-in */
	char directory[SETTING_PATH_MAX]; /* its working directory, the base of relative imports */

	/* Not in the journal: */
	int pid;           /* in this process's namespace; 0: not known */
	uint64_t start_us; /* CLOCK_BOOTTIME: identifies the process together with its pid */
	/* CLOCK_REALTIME, +-10 ms. The process has not read files that changed later. */
	uint64_t started_us;
	bool busy; /* it pulls an image, or that is not known: a restart would interrupt it */
};
