/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_RUNTIME_RUNTIME_H
#define TUNERS_RUNTIME_RUNTIME_H

/*
 * What the parts of this tuner share. watch.c asks each runtime and fills runtime_one; files.c adds
 * what its configuration says; decide.c, mirrors.c and conditions.c judge that and nothing else.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/option.h"
#include "kernel/host.h"
#include "runtime/containerd_config.h"
#include "runtime/discover.h"
#include "runtime/hosts_toml.h"
#include "runtime/mirror.h"
#include "runtime/registry.h"
#include "tuners/runtime/pulls.h"

#include <headroom/tuner.h>

#define RUNTIME_MIRROR_MAX 32  /* configured in all */
#define RUNTIME_EDITS_MAX  96  /* wants of one look */
#define RUNTIME_WHY_MAX    256 /* a sentence */

/* ---- configuration ---- */

struct runtime_mirror {
	char registry[REGISTRY_NAME_MAX]; /* HOSTS_TOML_DEFAULT for all without one of their own */
	char url[REGISTRY_URL_MAX];
};

struct runtime_config {
	int kind;             /* index of runtime_kind_words */
	uint64_t downloads;   /* layers at once; 0: keep */
	bool downloads_exact; /* from a file of the administrator: also where that is less */
	uint64_t timeout_us;  /* 0: keep */
	bool timeout_exact;
	enum restart_policy restart;
	struct runtime_mirror mirrors[RUNTIME_MIRROR_MAX];
	size_t n_mirrors;
};

extern const char *const runtime_kind_words[];
void runtime_validate(const struct config *config, struct config_fault_list *faults);
void runtime_read_config(const struct config *config, struct runtime_config *ret);

/* True when the configuration wants this runtime looked at. */
bool runtime_is_wanted(const struct runtime_config *config, const struct runtime *runtime);

/* ---- what was seen ---- */

enum runtime_answer {
	RUNTIME_ASKED,   /* no answer yet */
	RUNTIME_ANSWERS, /* the last one came */
	RUNTIME_SILENT,  /* why says why */
};

/* The file system that images are unpacked to. */
struct runtime_store {
	bool known;
	char directory[SETTING_PATH_MAX]; /* below the host's root */
	char driver[64];                  /* Docker's storage driver or containerd's snapshotter */
	char filesystem[32];              /* "ext4"; empty when not known */
	char device[64];                  /* "sda1"; empty for a file system without one */
	bool rotational, network;
	uint64_t size, used; /* bytes of the file system; used is what root cannot write any more */
	uint64_t image_bytes; /* of it, what the runtime says its images take */
};

struct runtime_one {
	struct runtime where;
	enum runtime_answer answer;
	bool answered_once; /* in this agent's life */
	char why[RUNTIME_WHY_MAX];
	uint64_t since_us; /* CLOCK_MONOTONIC: of answer */
	char version[64];
	pid_t pid;           /* of the daemon; 0: not known */
	uint64_t started_us; /* CLOCK_REALTIME; 0: not known */
	char binary[SETTING_PATH_MAX];
	char config_path[SETTING_PATH_MAX]; /* its main file or daemon.json */

	/* What it told of its configuration in force; empty where it did not. */
	char told_downloads[SETTING_VALUE_MAX], told_timeout[SETTING_VALUE_MAX];
	char told_directory[SETTING_VALUE_MAX];

	/* In force now; empty: not known. Durations as Go prints them. */
	char downloads[SETTING_VALUE_MAX], timeout[SETTING_VALUE_MAX], directory[SETTING_VALUE_MAX];
	char mirrors[SETTING_VALUE_MAX]; /* Docker's, by spaces */
	/* What dockerd's command line has must not stand in its file too: it would not start. */
	bool downloads_on_command, mirrors_on_command;

	/* Its configuration, as it stands on disk. */
	uint64_t file_due_us, file_signature;
	uint64_t file_changed_us;       /* CLOCK_REALTIME of the newest of its files */
	uint64_t inferred_of_us;        /* started_us of the daemon whose values were inferred */
	int file_error;                 /* 0 or -errno: file_why says what and where */
	char file_why[RUNTIME_WHY_MAX]; /* with place and cure */
	struct containerd_edit edits[CONTAINERD_SETTINGS];
	char on_disk_downloads[SETTING_VALUE_MAX]; /* what the file says; empty: nothing */
	char on_disk_timeout[SETTING_VALUE_MAX];
	char on_disk_mirrors[SETTING_VALUE_MAX];
	bool mirrors_in_file; /* the key is there, be it an empty list */

	struct runtime_store store;
	struct pulls pulls;
	uint64_t pulls_at_us; /* CLOCK_MONOTONIC of when all of them were last told; 0: never */
};

/* A registry that has mirrors configured, or had: what stands in its hosts.toml. */
struct runtime_hosts {
	char registry[REGISTRY_NAME_MAX];
	char path[SETTING_PATH_MAX]; /* of hosts.toml */
	bool exists, ours, matches;  /* matches: the text is the one wanted now */
	char *text;                  /* wanted; NULL: no file */
	char wanted[SETTING_VALUE_MAX];
	bool unchecked; /* a mirror of it has not been asked yet */
	int error;      /* of reading it */
};

struct runtime_seen {
	struct runtime_one ones[RUNTIME_MAX];
	size_t n;
	struct runtime_hosts hosts[RUNTIME_MIRROR_MAX];
	size_t n_hosts;
	enum mirror_state mirror_states[RUNTIME_MIRROR_MAX]; /* as in the configuration */
	uint64_t now_us;                                     /* CLOCK_MONOTONIC of this look */
	uint64_t realtime_us;                                /* and CLOCK_REALTIME */
};

/* What decide() keeps from one look to the next. */
struct runtime_memory {
	struct file_edit edits[RUNTIME_EDITS_MAX]; /* of the wants of this look */
	char *literals[RUNTIME_EDITS_MAX];         /* texts of these that have no other owner */
	size_t n_edits;
	bool store_full; /* hysteresis */
	/* Registries that the journal has a hosts.toml of. */
	char recorded[RUNTIME_MIRROR_MAX][REGISTRY_NAME_MAX];
	size_t n_recorded;
	bool restart_pending;
	char restart_why[RUNTIME_WHY_MAX];
};

/* ---- decisions: pure ---- */

int runtime_decide(const struct runtime_seen *seen, const struct runtime_config *config,
	struct runtime_memory *memory, const struct decide_input *input, struct proposal *proposal);
int runtime_decide_mirrors(const struct runtime_seen *seen, const struct runtime_config *config,
	struct runtime_memory *memory, const struct decide_input *input, struct proposal *proposal);
int runtime_decide_conditions(
	const struct runtime_seen *seen, struct runtime_memory *memory, struct proposal *proposal);
int runtime_decide_limits(const struct runtime_seen *seen, struct proposal *proposal);
void runtime_memory_clear(struct runtime_memory *memory);

/* A want in a file, with its edit; NULL without memory or room. literal is copied. */
struct file_want *runtime_want(struct runtime_memory *memory, struct proposal *proposal,
	const char *name, const struct file_target *target, const char *literal);

/* What makes a changed file of this runtime take effect. */
struct service runtime_service(const struct runtime_seen *seen, const struct runtime_one *one,
	const struct runtime_config *config);

/* Which runtime's settings carry its kind's plain name: the first of that kind. */
const char *runtime_prefix(const struct runtime_seen *seen, const struct runtime_one *one);

/* "30m0s" of microseconds, as Go prints it. */
void runtime_duration_text(uint64_t us, char text[static 32]);

/* The first mirror of Docker's that serves this registry's purpose: docker.io or all. */
bool runtime_mirror_is_dockers(const struct runtime_mirror *mirror);

/* ---- sensing ---- */

/* files.c: what the configuration of a runtime says, read again when it has changed. */
void runtime_files_read(const struct host *host, const struct runtime_config *config,
	struct runtime_one *one, uint64_t now_us);

/* running.c: what is in force, as told, else from files that the daemon has read as they are. */
void runtime_infer_running(struct runtime_one *one);

/*
 * hosts.c: the hosts.toml of every registry that has mirrors, and of those that are recorded to
 * have had some.
 */
void runtime_hosts_read(const struct host *host, const struct runtime_config *config,
	const struct runtime_memory *memory, struct runtime_seen *seen);
void runtime_hosts_clear(struct runtime_seen *seen);

/* store.c: the file system below a directory. Keeps driver and image_bytes. */
void runtime_store_read(const struct host *host, struct runtime_store *store);

/* watch.c: the running clients. They keep seen->ones up to date, and host->names. */
struct runtime_watch;
struct runtime_watch *runtime_watch_open(const struct host *host, struct runtime_seen *seen);
void runtime_watch_close(struct runtime_watch *watch);
int runtime_watch_attach(struct runtime_watch *watch, sd_event *event);
void runtime_watch_configure(struct runtime_watch *watch, const struct runtime_config *config);
void runtime_watch_turn(struct runtime_watch *watch, uint64_t now_us);
bool runtime_watch_settled(const struct runtime_watch *watch);
const struct mirrors *runtime_watch_mirrors(const struct runtime_watch *watch);

/* ---- reporting ---- */

struct metric_sink;
void runtime_metrics_write(const struct runtime_seen *seen, struct metric_sink *sink);
struct cJSON *runtime_document_make(const struct runtime_seen *seen, const struct mirrors *mirrors);
extern const struct limit_row runtime_limits[];
extern const struct explanation runtime_explanations[];
extern const struct condition_type runtime_conditions[];
extern const struct reason runtime_reasons[];
extern const struct metric_row runtime_metric_rows[];
extern const struct table_view runtime_view;
extern const struct capability_row runtime_capabilities[];

enum { RUNTIME_UNREACHABLE, RUNTIME_RESTART_PENDING, IMAGE_STORE_FULL, PULL_STUCK };

#endif
