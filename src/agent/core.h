/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AGENT_CORE_H
#define AGENT_CORE_H

/*
 * One poll of the node and what follows from it, without a loop: the agent does this every second,
 * and the commands that work without an agent do it once.
 */

#include <limits.h>
#include <stdbool.h>

#include "apply/file_transaction.h"
#include "apply/value_store.h"
#include "config/config.h"
#include "kernel/host.h"
#include "model/node.h"

#include <headroom/plan.h>

/* How long a command waits for the programs that one tuner asks. */
#define CORE_SAMPLE_US (3 * USEC_PER_SEC)

/* As given on the command line and in the environment. */
struct core_options {
	const char *config_file; /* NULL: /etc/headroom/headroom.yaml and conf.d, both optional */
	const char *host_root;   /* "" for / */
	bool observe;            /* write nothing, whatever the configuration says */
	bool watch;              /* also what only a running agent needs: BPF */
};

struct core {
	struct core_options options;
	struct host host;
	struct config_source source;
	struct config *config;
	struct node node;
	struct proposal *proposals; /* one for each tuner */
	const char **tuner_names;   /* of all, ended by NULL */
	struct sd_event *event;     /* the agent's; NULL in a command */

	int lock;                   /* -1: this process may not write */
	struct value_store *values; /* NULL: values_error says why */
	int values_error;
	struct file_journal *journal; /* NULL: journal_error says why. A file job owns it */
	int journal_error;
	bool journal_lost; /* originals of files from before are lost: journal_note has why */
	char journal_note[256];
	struct file_record *files; /* what the journal had when it was last looked at */
	size_t n_files;
	struct release released[JOURNAL_RELEASED_MAX];
	size_t n_released;
	bool files_busy;          /* a file job is under way */
	uint64_t writer_retry_us; /* when to try again to become the writer */

	bool as_apply;    /* judge as if everything enforced: headroom plan */
	struct plan plan; /* what the last poll found to be written */
	char config_fault[CONDITION_MESSAGE_MAX]; /* of the last reload; empty when it was good */
	char agent_error[CONDITION_MESSAGE_MAX];  /* the agent's own, e.g. no HTTP; or empty */
};

/* HEADROOM_STATE_DIR or /var/lib/headroom: records of files. */
const char *core_state_directory(void);

/* HEADROOM_RUNTIME_DIR, or /run/headroom below the host's root: the lock, records of values. */
int core_runtime_directory(const struct host *host, char path[static PATH_MAX]);

/* The configured unix socket; HEADROOM_RUNTIME_DIR moves the default one. */
void core_socket_path(const struct config *config, char path[static PATH_MAX]);

/* Where the configuration is, by the command line. */
struct config_source core_source(const char *config_file);

/*
 * Loads and validates everything, relations between options too. 0 with *ret, or -EINVAL with
 * faults, or -ENOMEM. notices may be NULL.
 */
int core_load_config(const struct config_source *source, struct config **ret,
	struct config_fault_list *faults, struct config_fault_list *notices);

/* The defaults alone: for commands that must work whatever the files say. NULL without memory. */
struct config *core_default_config(void);

/*
 * Opens the tuners under a configuration, of which it takes ownership.
 * core must be zeroed; core_close releases, also after an error. 0 or -ENOMEM.
 */
int core_open(struct core *core, const struct core_options *options, struct config *config);
void core_close(struct core *core);

/* Gives tuners the agent's loop, those of later configurations too. 0 or -errno. */
int core_attach(struct core *core, struct sd_event *event);

/* For commands without an agent: asks what tuners sample, at most three seconds each. */
void core_sample(struct core *core);

/* True when some tuner is to enforce and the command line does not forbid it. */
bool core_wants_to_write(const struct core *core);

/* Reads the records without the right to write them: for originals and what is released. */
void core_read_records(struct core *core);

/*
 * Becomes the one writer: makes the runtime directory, takes the lock, loads what is recorded. 0;
 * -EBUSY with holder when another process is it; any other error is kept in values_error. Without
 * records of values no value is written, without the journal no file.
 */
int core_become_writer(struct core *core, const char *who, char *holder, size_t size);

/* Replaces the configuration, and tries everything again under it. 0 or -ENOMEM. */
int core_reconfigure(struct core *core, struct config *config);

/* Senses, decides, reconciles: node is then up to date, plan what to write. 0 or -ENOMEM. */
int core_poll(struct core *core);

/* The same with one tuner alone, for what cannot wait until the next poll of everything. */
int core_poll_tuner(struct core *core, size_t i);

/* Only the conditions that follow from the settings: after something was written. */
void core_judge(struct core *core);

/* Forgets drift, failure and release, of one tuner or (NULL) of all, for an explicit apply. */
void core_reset(struct core *core, const char *only);

/* True when the tuner is released: restored, and not applied since. */
const struct release *core_released(const struct core *core, const char *tuner);

/* Takes out of the plan what belongs to other tuners than only (NULL: nothing). */
void core_plan_only(struct core *core, const char *only);

/*
 * Writes the values of the plan at once; the settings follow. The changes go to done, or (NULL) are
 * dropped; those of files stay in the plan. How many there were.
 */
size_t core_apply_values(struct core *core, struct plan *done);

/*
 * Restores values at once and releases tuners, of one name or (NULL) all, until apply. done gets
 * what was done. 0 or -ENOMEM.
 */
int core_restore_values(struct core *core, const char *only, struct plan *done);

/*
 * A job for the changes of files in the plan, which it takes over, or for restoring files. only and
 * forced as in struct file_job. Until core_take_files the settings of files stay as they are. NULL
 * without memory, or when this process may not write files.
 */
struct file_job *core_file_job(
	struct core *core, enum file_task task, const char *only, bool forced);

/* The job is done: settings follow, done (may be NULL) gets the changes. 0 or the job's error. */
int core_take_files(struct core *core, struct file_job *job, struct plan *done);

/* A runtime that does not answer, whose settings are therefore not known; NULL for none. */
const struct condition *core_unreachable(const struct core *core);

/*
 * Adds to done what should be set and is not, beside what was tried: unreadable, refused, not
 * supported.
 */
void core_add_unset(const struct core *core, const char *only, struct plan *done);

#endif
