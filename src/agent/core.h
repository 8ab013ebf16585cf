/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One poll of the node and what follows from it, without a loop: the agent does this every second,
 * and the commands that work without an agent do it once.
 */

#include "apply/file_transaction.h"
#include "apply/values.h"
#include "config/config.h"
#include "model/node.h"
#include "workload/cgroup.h"

/* How long a command waits for the programs that one tuner asks. */
#define CORE_JOB_US (3 * USEC_PER_SEC)

/* As given on the command line and in the environment. */
struct core_options {
	const char *config_file; /* NULL: /etc/headroom/headroom.yaml and conf.d, both optional */
	const char *host_root;   /* "" for / */
	bool observe;            /* write nothing, whatever the configuration says */
};

struct core {
	struct core_options options;
	struct tuner_loop loop; /* what each tuner gets; event NULL: a command */
	struct host host;
	struct names names;   /* of host */
	char state[PATH_MAX]; /* of CORE_STATE, or "" */
	struct config_source source;
	struct config *config;
	struct node node;

	int lock;                   /* -1: this process may not write */
	char holder[64];            /* of the lock, when another process is the writer */
	struct value_store *values; /* NULL: values_error says why */
	int values_error;
	struct file_journal *journal; /* NULL: journal_error says why. A file job owns it */
	int journal_error;
	struct file_record *files; /* what the journal had when it was last looked at */
	size_t n_files;
	struct pin_record *pins;
	size_t n_pins;
	struct release_list released;
	struct file_job *job;     /* of core_file_job(), under way; NULL for none */
	uint64_t writer_retry_us; /* when to try again to become the writer */

	bool as_apply;    /* judge as if everything enforced: headroom plan */
	struct plan plan; /* what the last poll found to be written */
	char config_fault[CONDITION_MESSAGE_MAX]; /* of the last reload; empty when it was good */
	char agent_error[CONDITION_MESSAGE_MAX];  /* the agent's own, e.g. no HTTP; or empty */
};

enum core_directory {
	CORE_STATE,   /* HEADROOM_STATE_DIR or the host's /var/lib/headroom: records of files */
	CORE_RUNTIME, /* HEADROOM_RUNTIME_DIR or its /run/headroom: the lock, records of values */
};

/* 0 with the path here; -ENODEV in a container that has not the host's. */
int core_directory(const struct host *host, enum core_directory which, char path[static PATH_MAX]);

/* For messages: the state directory, and what is wrong with the records of values. */
const char *core_state_name(void);
const char *core_describe_values_error(int error);

/* The configured unix socket; HEADROOM_RUNTIME_DIR moves the default one. */
void core_socket_path(const struct config *config, char path[static PATH_MAX]);

struct config_source core_source(const char *config_file);

/* Loads and validates everything. 0, or -EINVAL with faults. notices may be NULL. */
int core_load_config(const struct config_source *source, struct config **ret,
	struct config_fault_list *faults, struct config_fault_list *notices);

/*
 * Opens the tuners under a configuration, of which it takes ownership. core must be zeroed;
 * core_close releases, also after an error. loop is NULL for a command without an agent. 0, or
 * -ENAMETOOLONG for the host's root.
 */
int core_open(struct core *core, const struct core_options *options, const struct tuner_loop *loop,
	struct config *config);
void core_close(struct core *core);

/* Replaces the configuration, of which it takes ownership, and tries everything again under it. */
void core_reconfigure(struct core *core, struct config *config);

/* For commands without an agent: runs the samples of all tuners; load: loads BPF programs before.
 */
void core_sample(struct core *core, bool load);

/* Some tuner is to enforce, and the command line does not forbid it. */
bool core_wants_to_write(const struct core *core);

/* Reads the records without the right to write them: for originals and what is released. */
void core_read_records(struct core *core);

/*
 * Becomes the one writer: makes the runtime directory, takes the lock, loads what is recorded. 0;
 * -EBUSY when another process, the holder, is it; any other error is kept in values_error. Without
 * records of values no value is written, without the journal no file.
 */
int core_become_writer(struct core *core, const char *who);

/* Senses, decides, reconciles, all tuners or one: node is up to date then, plan what to write. */
void core_poll(struct core *core);
void core_poll_tuner(struct core *core, struct tuner_status *tuner);

/* In all that follows only is a tuner's name, or NULL for all tuners; done may be NULL. */

/* Forgets drift, failure and release, for an explicit apply. */
void core_reset(struct core *core, const char *only);

/* Takes out of the plan what belongs to other tuners. */
void core_plan_only(struct core *core, const char *only);

/*
 * Writes the values of the plan at once; the settings follow. done gets the changes; those of files
 * stay in the plan. How many there were.
 */
size_t core_apply_values(struct core *core, struct plan *done);

/* Restores values at once, and releases tuners until apply. */
void core_restore_values(struct core *core, const char *only, struct plan *done);

/*
 * A job for the changes of files in the plan, which it takes over, or for restoring files. Until
 * core_adopt_files the settings of files stay as they are. NULL when this process may not write
 * files, or a job is under way.
 */
struct file_job *core_file_job(
	struct core *core, enum file_task task, const char *only, bool forced);

/* The job is done: settings follow, done gets the changes. 0 or the job's error. */
int core_adopt_files(struct core *core, struct file_job *job, struct plan *done);

/* Adds to done what is not set as it should be, beside what was tried. */
void core_add_unset(const struct core *core, const char *only, struct plan *done);

/* Adds to done the tuners whose settings are not known because a condition hides them. */
void core_add_hidden(const struct core *core, const char *only, struct plan *done);

/* The daemon: runs until SIGTERM or SIGINT. The exit code of the program. */
int agent_run(const struct core_options *options);
