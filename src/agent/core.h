/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent without its loop: the agent polls every second, commands without an agent poll once.
 */

#include "apply/file_transaction.h"
#include "apply/values.h"
#include "base/task.h"
#include "config/config.h"
#include "model/node.h"
#include "workload/cgroup.h"
#include "workload/facts.h"

#include <pthread.h>

/* Deadlines of a task that loads BPF programs or takes a sample, in an agent and in a command. */
#define CORE_TASK_US         (10 * USEC_PER_SEC)
#define CORE_COMMAND_TASK_US (3 * USEC_PER_SEC)

/* Tasks of tuners under way at once. */
#define TASKS_MAX 64

/* From the command line and the environment. */
struct core_options {
	const char *config_file; /* NULL: /etc/headroom/headroom.yaml and conf.d, both optional */
	const char *host_root;   /* "" for / */
	bool observe;            /* no tuner enforces, whatever the configuration says */
};

/* A task of a tuner. */
struct tuner_task {
	struct task *task; /* NULL: the slot is free */
	const struct task_ops *ops;
	void *request;
	struct tuner_status *tuner;
	enum task_kind kind;
	unsigned generation; /* the tuner's at the request */
	bool is_after_files; /* a sample: no files were being changed at the request */
};

struct core {
	struct core_options options;
	sd_event *event;   /* NULL: a command */
	struct host *host; /* allocated, as is state: a task that hangs may use them to the end */
	struct facts facts;
	char *state;                  /* path of CORE_STATE, or "" */
	char boot[SETTING_VALUE_MAX]; /* the boot id, or "" */
	struct config_source source;
	struct config *config;
	char config_place[PATH_MAX]; /* where the cure of a finding is to be added */
	const char *config_file;     /* the same; NULL: the values of the chart */
	struct node node;

	int lock;                   /* -1: this process may not write */
	char holder[64];            /* holds the lock, if another process has it */
	struct value_store *values; /* NULL: see values_error */
	int values_error;
	struct file_journal *journal; /* NULL: see journal_error. A file job owns it */
	int journal_error;
	struct key_record *keys; /* copies from the journal */
	size_t n_keys;
	struct restart_history restarts[JOURNAL_UNITS_MAX];
	size_t n_restarts;
	struct pin_record *pins;
	size_t n_pins;
	struct release_list released;
	struct drift *drifts; /* seen by an earlier process, for settings that are new */
	size_t n_drifts;
	uint64_t event_kept_us;      /* when the newest warning that was kept was logged */
	struct peaks *peaks;         /* NULL: a command, which keeps none */
	struct histories *histories; /* the same */
	struct file_job *job;        /* under way, of core_file_job(); or NULL */
	uint64_t writer_retry_us;    /* when to retry core_become_writer() */

	struct tuner_task tasks[TASKS_MAX];
	struct task *file_task, *save_task; /* runs job; runs last_good_save() */
	uint64_t task_us;                   /* timeout of samples and loads */
	pthread_mutex_t one_load;           /* held by the thread that loads BPF programs */
	bool watch_requested;               /* a load has the programs of facts.cgroups */
	bool poll_due;                      /* an adopted result is to be shown now */
	bool config_is_faulty;              /* a command uses the defaults instead */
	uint64_t memory_limit; /* of the agent's cgroup at its start, in bytes; 0: not known */
	bool files_lost;       /* of the last good configuration: their values stay in force */
	bool as_apply;         /* decide as if all tuners enforced: headroom plan */
	struct plan plan;      /* changes to make, of the last poll */
	struct config_fault config_fault;        /* of the last reload; message empty: none */
	char agent_error[CONDITION_MESSAGE_MAX]; /* such as a port in use; or empty */
};

enum core_directory {
	CORE_STATE,   /* HEADROOM_STATE_DIR or the host's /var/lib/headroom: records of files */
	CORE_RUNTIME, /* HEADROOM_RUNTIME_DIR or its /run/headroom: the lock, records of values */
};

/* Returns 0 with the path for this process, or -ENODEV if it does not see the host's directory. */
int core_directory(const struct host *host, enum core_directory which, char path[static PATH_MAX]);

/*
 * Returns the installation to which this process belongs: HEADROOM_OWNER or "unit". A node can have
 * two, such as a unit and a DaemonSet: the records belong to the last writer.
 */
const char *core_owner(void);

/* Returns the owner of the records if it is another installation; else NULL. */
const char *core_other_owner(const struct core *core);

/* Return words for messages: the state directory, and causes of values_error, journal_error. */
const char *core_state_name(void);
const char *core_describe_values_error(const struct core *core);
const char *core_values_cure(const struct core *core);
const char *core_describe_journal_error(const struct core *core);

/* Reads the peaks of limits since boot, so that they survive a restart of the agent. */
void core_load_peaks(struct core *core);

void core_recall_peak(const struct core *core, struct limit *limit, const char *name);

/* Writes the peaks to the runtime directory if one has changed. */
void core_keep_peaks(struct core *core);

/* The same for the last hour of each limit, written once a minute and (now) at the end. */
void core_load_histories(struct core *core);
void core_recall_history(const struct core *core, struct limit *limit, const char *name);
void core_keep_histories(struct core *core, bool now);

/* The same for changes by others. Only the writer keeps them. */
#define DRIFTS_FILE "drifts"
void core_load_drifts(struct core *core);
void core_keep_drifts(struct core *core);
void core_load_memory(const struct core *core, struct tuner_status *tuner);
void core_keep_memory(const struct core *core, struct tuner_status *tuner);

/* Recalls the warnings of the log at the start, and writes them if there are new ones. */
void core_load_events(struct core *core);
void core_keep_events(struct core *core);

/*
 * Keeps the last configuration without a fault in the state directory, so that a faulty one does
 * not leave the node unprotected after a restart. Returns 0 after starting the task, or -errno.
 */
int last_good_save(struct core *core);

/* Returns 0, or -errno: -ENOENT if this installation and source have kept none. */
int last_good_load(const struct core_options *options, struct config **ret);

/*
 * Gets the name of a file of the kept configuration that config lacks, or NULL. The caller frees
 * it. Returns 0, or -errno without a kept configuration.
 */
int last_good_lost_file(const struct host *host, const struct core_options *options,
	const struct config *config, char **file);

/* Sets files_lost. Without a kept configuration nobody knows which files there were. */
void core_find_lost_files(struct core *core);

/* Writes the path of the unix socket. HEADROOM_RUNTIME_DIR changes its default. */
void core_socket_path(const struct config *config, char path[static PATH_MAX]);

struct config_source core_source(const char *config_file);

/* Loads and validates. Returns 0, or -EINVAL with faults. */
int core_load_config(
	const struct config_source *source, struct config **ret, struct config_fault_list *faults);

/*
 * Opens the tuners with a configuration, which then belongs to core. core must be zeroed, and
 * core_close() is needed after an error too. event is NULL for a command. Returns 0, or
 * -ENAMETOOLONG for the host's root.
 */
int core_open(struct core *core, const struct core_options *options, sd_event *event,
	struct config *config);
void core_close(struct core *core);

/* Replaces the configuration, which then belongs to core, and retries failed settings. */
void core_reconfigure(struct core *core, struct config *config);

/*
 * Begins a task of a tuner, unless none is due. Its end sets poll_due, except that of a sample,
 * which waits for the tick. Returns whether it began.
 */
bool core_begin_task(struct core *core, struct tuner_status *tuner, enum task_kind kind);

/* Returns whether a task of this kind hangs. */
bool core_task_hangs(const struct tuner_status *tuner, enum task_kind kind, uint64_t now);

/* Returns whether the last sample is too old: a new one hangs, or could not begin. */
bool core_lacks_sample(const struct tuner_status *tuner, uint64_t now);

/* Takes the samples of all tuners in a command, and waits; load: loads BPF programs before. */
void core_sample(struct core *core, bool load);

/* Adopts the results of tasks that have ended. */
void core_finish_tasks(struct core *core);

/*
 * Cancels all tasks and waits. Returns false if one hangs: it uses its request, the host and the
 * state to the end.
 */
bool core_end_tasks(struct core *core, uint64_t deadline_us);

/* Returns whether a tuner may enforce. */
bool core_wants_to_write(const struct core *core);

/* Returns what changes with the files of the records. */
uint64_t core_records_signature(const struct core *core);

/* Reads the records of originals and of released tuners without the lock. */
void core_read_records(struct core *core);

/*
 * Makes this process the only writer: creates the runtime directory, gets the lock and loads the
 * records. They then belong to core_owner(); releases of another owner end. Returns 0, -EBUSY if
 * another process holds the lock, or any other error, also in values_error. Without records of
 * values no value is written; without the journal no file. waits: see lock_acquire().
 */
int core_become_writer(struct core *core, const char *who, bool waits);

/* Returns whether another process holds the lock, and sets holder. */
bool core_other_writer(struct core *core);

/* Senses, decides and reconciles all tuners or one: updates node and plan. */
void core_poll(struct core *core);
void core_poll_tuner(struct core *core, struct tuner_status *tuner, uint64_t now);

/* findings.c: adds what a tuner has found to the list, and logs what is new. */
void core_take_findings(
	struct core *core, struct tuner_status *tuner, const struct decide_input *input);

/* Adds what the agent itself has found, and sets the conditions. */
void core_judge(struct core *core);

/* removed.c: adds what the tuner has set and is no longer configured to its proposal. */
void core_add_removed(struct core *core, struct tuner_status *tuner);

/* Records which values a configuration file asks for. */
void core_mark_configured(struct core *core, const struct tuner_status *tuner);

/* Returns whether on_removed: restore applies to a value; else writes why it does not. */
bool core_may_restore(const struct core *core, const struct value_record *record,
	const char *actual, char why[static SETTING_WHY_MAX]);

/* Returns whether the original is well above what is in use; else writes why. */
bool core_leaves_room(const struct core *core, const struct value_record *record,
	const char *actual, char why[static SETTING_WHY_MAX]);

/* Sets config_file. */
void core_place_cures(struct core *core);

/* Below, only is the name of a tuner, or NULL for all tuners; done may be NULL. */

/* Returns whether this process has the lock, and can read the records. */
static inline bool core_may_write(const struct core *core)
{
	return core->lock >= 0 && !core->node.newer[0];
}

/* Forgets drift, failures and releases, for `headroom apply`. */
void core_reset(struct core *core, const char *only);

/* Removes the changes of other tuners from the plan. */
void core_plan_only(struct core *core, const char *only);

/*
 * Writes the values of the plan now, updates the settings and moves the changes to done. Changes of
 * files stay in the plan. If someone else has written a value since it was judged, polls and plans
 * again. Returns the number of values.
 */
size_t core_apply_values(struct core *core, const char *only, struct plan *done);

/* Makes the plan of a restore from the records, and changes nothing. */
void core_plan_restore(struct core *core, const char *only, struct plan *plan);

/* Restores values now, and releases the tuners until apply. */
void core_restore_values(struct core *core, const char *only, struct plan *done);

/*
 * Makes a job of the changes of files, which leave the plan, or of restoring files. Settings of
 * files do not change until core_adopt_files(). Returns NULL if this process may not write files,
 * or a job is under way.
 */
struct file_job *core_file_job(
	struct core *core, enum file_task task, const char *only, bool forced);

/* Updates the settings after the job and moves its changes to done. Returns its error, or 0. */
int core_adopt_files(struct core *core, struct file_job *job, struct plan *done);

/* Extends done by the settings that lack their wanted value and are not in done yet. */
void core_add_unset(const struct core *core, const char *only, struct plan *done);

/* Extends done by the tuners whose settings are hidden by a True condition. */
void core_add_hidden(const struct core *core, const char *only, struct plan *done);

/*
 * Runs the daemon until SIGTERM or SIGINT. Returns the exit code of the program: EX_TEMPFAIL if
 * another agent holds the lock.
 */
int agent_run(const struct core_options *options);
