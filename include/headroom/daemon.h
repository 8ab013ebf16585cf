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
	RESTART_TO_UNDO, /* not configured: a roll-back or restore */
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

/* ---- restarts ---- */

/*
 * These bound restarts of one unit for any reason. One restart is kept for RESTART_TO_UNDO.
 */
#define RESTARTS_AN_HOUR 3
#define RESTARTS_A_DAY   5

#define RESTART_TRIED_MAX 8

/* When to ask again after a refusal, and while the result of the last restart is not known. */
#define RESTART_REFUSED_US (3600 * UINT64_C(1000000))
#define RESTART_OPEN_US    (60 * UINT64_C(1000000))

/* A setting and the value that a restart was to put in force. */
struct restart_value {
	char name[SETTING_NAME_MAX], value[SETTING_VALUE_MAX];
	bool last; /* in the last restart: rolled back if that fails */
};

/* Durable, in the journal: our restarts of a unit. */
struct restart_history {
	char unit[64];
	struct {
		uint64_t at_s;   /* CLOCK_REALTIME */
	} times[RESTARTS_A_DAY]; /* the newest last */
	size_t n_times;
	bool open;         /* the result of the last one is not known */
	unsigned answered; /* enum cri_answers, from before the last one */
	struct restart_value tried[RESTART_TRIED_MAX]; /* not tried again */
	size_t n_tried;
};

/*
 * Decides whether the agent may restart a daemon now, and returns REASON_NONE or why not. Everyone
 * asks this function: a plan before it lists a restart, a transaction before it asks systemd,
 * conditions and transfers. history may be NULL: no restart so far. now_s is CLOCK_REALTIME.
 * *wait_us is the time after which the answer may change; 0: as soon as the daemon is idle;
 * UINT64_MAX: the agent never restarts it.
 */
enum reason may_restart(const struct daemon *daemon, const struct restart_history *history,
	enum restart_policy policy, uint64_t now_s, uint64_t *wait_us);

/* Counts the restarts within the last day. */
size_t restarts_today(const struct restart_history *history, uint64_t now_s);

/* Writes the details of a reason of may_restart(), or nothing. */
void restart_describe(const struct restart_history *history, uint64_t now_s, enum reason reason,
	char why[static SETTING_WHY_MAX]);

/* Adds a restart. After the clock was set back, earlier restarts count from now on. */
void restart_add(struct restart_history *history, uint64_t now_s);
void restart_set_clock(struct restart_history *history, uint64_t now_s);
