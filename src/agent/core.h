/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AGENT_CORE_H
#define AGENT_CORE_H

/*
 * One look at the node and what follows from it, without a loop: the agent does this every second,
 * and the commands that work without an agent do it once.
 */

#include <limits.h>
#include <stdbool.h>

#include "apply/journal.h"
#include "apply/reconcile.h"
#include "config/config.h"
#include "kernel/host.h"
#include "model/node.h"

#include <headroom/plan.h>

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
	struct sd_event *event; /* in which tuners wait for answers; NULL before core_attach */
	struct config_source source;
	struct config *config;
	uint32_t checksum; /* of config */
	struct node node;
	struct proposal *proposals; /* one for each tuner */
	struct journal *journal;    /* NULL: journal_error says why */
	int journal_error;
	int lock;                  /* -1: this process may not write */
	uint64_t journal_retry_us; /* after a failure to store it: when to try again */
	struct want *wants;        /* of one tuner, in one list */
	size_t n_wants, wants_allocated;
	struct value_record *value_records; /* of the journal */
	struct file_record *file_records;
	size_t n_value_records, n_file_records;
	struct plan plan;                         /* what the last look found to be written */
	char config_fault[CONDITION_MESSAGE_MAX]; /* of the last reload; empty when it was good */
	char trouble[CONDITION_MESSAGE_MAX]; /* the agent's own, e.g. no HTTP; empty for none */
};

const char *core_state_directory(void); /* HEADROOM_STATE_DIR or /var/lib/headroom */

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

/*
 * Opens the tuners under a configuration, of which it takes ownership.
 * core must be zeroed; core_close releases, also after an error. 0 or -ENOMEM.
 */
int core_open(struct core *core, const struct core_options *options, struct config *config);
void core_close(struct core *core);

/* Lets the tuners wait in this loop, those of later configurations too. 0 or -errno. */
int core_attach(struct core *core, struct sd_event *event);

/*
 * For commands that work without an agent: a loop of their own, run until the tuners have the
 * answers that they need, or three seconds. 0 or -errno.
 */
int core_settle(struct core *core);

/* True when some tuner is to enforce and the command line does not forbid it. */
bool core_wants_to_write(const struct core *core);

/* Reads the journal without the right to write it: for originals and what was restored. */
void core_read_journal(struct core *core);

/*
 * Becomes the one writer: makes the state directory, takes the lock, loads the journal. 0; -EBUSY
 * with holder when another process is it; any other error is kept in journal_error and what cannot
 * be journaled will not be written.
 */
int core_become_writer(struct core *core, const char *who, char *holder, size_t size);

/* Puts another configuration in place of the current one, and tries everything again under it. */
int core_reconfigure(struct core *core, struct config *config);

/* Senses, decides, reconciles: node is then up to date, plan what to write. 0 or -ENOMEM. */
int core_poll(struct core *core);

/* The same with one tuner alone, for what cannot wait until the next look at everything. */
int core_poll_tuner(struct core *core, size_t i);

/* Only the conditions that follow from the settings: after something was written. */
void core_judge(struct core *core);

/* Forgets drift, failure and release, of one tuner or (NULL) of all, for an explicit apply. */
void core_reset(struct core *core, const char *only);

/*
 * Takes out of the plan what belongs to other tuners than only (NULL: nothing), and what is only to
 * be recorded: what is left is what people should see.
 */
void core_plan_only(struct core *core, const char *only);

/*
 * Sees to restarts under way when the last writer ended: waits for what they come to, as
 * pipeline_resume() says. For commands, before they look. May block. 0; -ETIMEDOUT when something
 * did not come back and was given up, or another -errno.
 */
int core_resume(struct core *core);

/*
 * Carries the plan out at once: journal, write, read back. May block. What failed is in the plan's
 * changes. 0 or -ENOMEM.
 */
int core_apply(struct core *core);

/*
 * Puts originals back but for files, of one tuner or (NULL) of all; plan is then what was done. The
 * journal is changed and not yet stored. 0 or -errno.
 */
int core_restore(struct core *core, const char *only);

/*
 * The same for files; the plan gets what was done, and the journal is stored. May block. 0, or
 * -errno when it could not be noted.
 */
int core_restore_files(struct core *core, const char *only);

#endif
