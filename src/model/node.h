/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The state of the node. The agent updates it, and the report reads it. */

#include <headroom/tuner.h>

/* What keeps a tuner from writing: all of it must go before a cure in the configuration works. */
enum held_by {
	HELD_BY_MODE = 1 << 0,     /* mode: observe */
	HELD_BY_OWN_MODE = 1 << 1, /* TUNER.mode: observe, or off */
	HELD_BY_OPTION = 1 << 2,   /* --observe */
	HELD_BY_RELEASE = 1 << 3,  /* headroom restore */
	HELD_BY_END = 1 << 4,
};

/* Returns "mode", "own-mode", "option" or "restore". */
const char *held_by_name(enum held_by held);

struct tuner_status {
	const struct tuner_ops *ops;
	void *self;                     /* what ops->open returned; NULL: off */
	void *memory;                   /* what its decide() keeps from call to call */
	void *kept;                     /* its begin as last written: kept_size of ops */
	unsigned generation;            /* changes when self is closed */
	bool bpf_requested;             /* its BPF programs are loaded or being loaded */
	unsigned under_way[TASK_KINDS]; /* tasks */
	uint64_t
		requested_us[TASK_KINDS]; /* CLOCK_MONOTONIC: when the last of them was requested */
	enum mode mode;                   /* as configured, or MODE_RELEASED */
	unsigned held_by;                 /* of enum held_by */
	uint64_t since_us;                /* CLOCK_REALTIME: when it came to be in that mode */
	bool force;   /* the next poll sets again what on_drift left to others: headroom apply */
	bool sampled; /* a first sample was adopted, or none was due */
	int sample_error;         /* of the start of its last sample; 0: none */
	bool files_stale;         /* its files were changed, and not sampled since */
	struct proposal proposal; /* from the last poll */
	enum tuner_state state;
	char why[TUNER_WHY_MAX]; /* empty when active */
};

struct recorder;

struct node {
	char name[256];
	bool applied;          /* the first reconcile is done */
	char newer[200];       /* a newer version wrote the records: which; or empty */
	uint64_t started_us;   /* CLOCK_REALTIME */
	uint64_t heartbeat_us; /* CLOCK_MONOTONIC of the last tick */
	uint64_t revision;     /* changes when the reported data changes; 0 before the first tick */
	const struct config *config; /* in use; NULL: none */
	uint32_t config_hash;        /* its checksum */
	bool reload_failed;          /* the configuration on disk is faulty and not in use */
	bool is_last_good;           /* the configuration in use is of an earlier start */
	uint64_t reloaded_us;        /* CLOCK_REALTIME of the last successful load */
	struct tuner_status *tuners;
	size_t n_tuners;
	struct setting *settings;
	size_t n_settings, settings_allocated;
	bool drifts_changed; /* the drift of a setting, or the list of settings */
	struct limit *limits;
	size_t n_limits, limits_allocated;
	struct finding_list findings; /* the worst first */
	struct condition *conditions; /* one for each type, in the order of the tables */
	size_t n_conditions;
	struct recorder *recorder;     /* NULL: nothing is recorded */
	const struct cJSON *incidents; /* the last ones, as in the status; NULL: none */
};

/* Returns NULL if the name is unknown. */
struct setting *node_setting(const struct node *node, const char *name);

/* Return whether a transfer is under way, and whether the program of a setting is about to be
 * restarted. */
bool node_transfers(const struct node *node);
bool node_restart_due(const struct node *node);

/* Returns the answer of /readyz: a rollout of a faulty configuration must stop. */
static inline bool node_is_ready(const struct node *node)
{
	return node->applied && !node->is_last_good && !node->newer[0];
}

/* Counts the settings that observing and released tuners would change in enforce mode. */
size_t node_would_change(const struct node *node);

/* The worst severity of the True conditions, in the order of enum severity. */
enum verdict {
	VERDICT_OK = SEVERITY_ADVICE,
	VERDICT_WARNING = SEVERITY_WARNING,
	VERDICT_CRITICAL = SEVERITY_CRITICAL,
};

enum verdict node_verdict(const struct node *node);
enum verdict condition_verdict(const struct condition *condition);
/* Returns the severity of its worst finding, else how full it is. It selects the colour. */
enum verdict limit_verdict(const struct node *node, const struct limit *limit);
extern const char *const verdict_names[];
