/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_RUNTIME_RUNTIME_H
#define TUNERS_RUNTIME_RUNTIME_H

/*
 * What the parts of this tuner share. A sample is plain data: the worker gets a copy, brings it up
 * to date by asking the runtimes, and the loop takes the copy over whole.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/hash.h"
#include "config/option.h"
#include "kernel/host.h"
#include "runtime/containerd_config.h"
#include "runtime/daemon_json.h"
#include "runtime/discover.h"
#include "runtime/docker.h"
#include "runtime/hosts_toml.h"
#include "runtime/mirror.h"
#include "runtime/registry.h"
#include "tuners/runtime/pulls.h"
#include "workload/names.h"

#include <headroom/tuner.h>

#define RUNTIME_MIRROR_MAX     32 /* configured in all */
#define RUNTIME_NAMESPACES_MAX 8  /* of containerd, looked at for pulls */
#define RUNTIME_WHY_MAX        256
#define RUNTIME_LIST_MAX       2048 /* of mirrors */

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

void runtime_validate(const struct config *config, struct config_fault_list *faults);
void runtime_read_config(const struct config *config, struct runtime_config *ret);

/* True when the configuration wants this runtime watched. */
bool runtime_is_wanted(const struct runtime_config *config, const struct runtime *runtime);

/* True for a mirror of docker.io or of everything: Docker knows no others. */
bool runtime_mirror_is_dockers(const struct runtime_mirror *mirror);

/* ---- the sample ---- */

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
	dev_t number;                     /* that filesystem and device are of */
	char filesystem[32];              /* "ext4"; empty when not known */
	char device[64];                  /* "sda1"; empty for a file system without one */
	bool rotational, network;
	uint64_t size, used; /* bytes of the file system; used is what root cannot write any more */
	uint64_t image_bytes; /* of it, what the runtime says its images take */
};

/* The network address of a pod, asked for once. */
struct runtime_address {
	char sandbox[72];
	char address[NAMES_ADDRESS_MAX]; /* empty: none of its own */
};

struct node_runtime {
	struct runtime found;
	enum runtime_answer answer;
	bool answered_once; /* since the agent started */
	bool no_cri;        /* a containerd whose CRI plugin is off */
	char why[RUNTIME_WHY_MAX];
	uint64_t since_us; /* CLOCK_MONOTONIC: of answer */
	char version[64];
	pid_t pid;           /* of the daemon; 0: not known */
	uint64_t started_us; /* CLOCK_REALTIME; 0: not known */
	char binary[SETTING_PATH_MAX];
	char working_directory[SETTING_PATH_MAX]; /* empty: not known */
	char config_path[SETTING_PATH_MAX];       /* its main file or daemon.json */

	/* In force, as the runtime says; empty: it does not. Durations as Go prints them. */
	char reported_downloads[SETTING_VALUE_MAX], reported_timeout[SETTING_VALUE_MAX];
	char reported_directory[SETTING_VALUE_MAX];
	/* In force, also where only unchanged files say so; empty: not known. */
	char downloads[SETTING_VALUE_MAX], timeout[SETTING_VALUE_MAX], directory[SETTING_VALUE_MAX];
	/* dockerd refuses to start when a key is an option and in daemon.json too. */
	bool downloads_on_command, mirrors_on_command;
	char command_downloads[24];

	/* Its files. */
	bool files_known;        /* were read at least once */
	uint64_t inferred_of_us; /* started_us of the daemon whose values were inferred */
	struct containerd_config containerd;
	struct docker_config docker;

	struct runtime_store store;
	struct pulls pulls;
	uint64_t pulls_at_us; /* CLOCK_MONOTONIC of the last answer; 0: not known */
	struct docker_info docker_info;
	uint64_t docker_events_us; /* CLOCK_REALTIME: pulls that ended before are counted */
	char namespaces[RUNTIME_NAMESPACES_MAX][64];
	size_t n_namespaces;

	uint64_t due_us;     /* CLOCK_MONOTONIC: when what changes slowly is asked for again */
	size_t content_turn; /* which layer without a name is asked about next */

	/* Not copied but moved with a request: the loop has no use for the addresses, and gives the
	 * names on. */
	struct runtime_address *addresses; /* sorted by sandbox */
	size_t n_addresses;
	struct name_entry *names; /* of this sample; NULL and names_new false: as before */
	size_t n_names;
	bool names_new;
};

/* A registry that has mirrors configured, or had: what its hosts.toml is. */
struct runtime_hosts {
	char registry[REGISTRY_NAME_MAX];
	char path[SETTING_PATH_MAX]; /* of hosts.toml */
	bool exists, ours;
	char sum[HASH_TEXT_MAX];         /* of its text, when it is ours */
	char mirrors[SETTING_VALUE_MAX]; /* that it has, when it is ours */
	int error;                       /* of reading it */
};

struct runtime_sample {
	struct node_runtime *runtimes;
	size_t n;
	struct mirror *mirrors; /* each URL once */
	size_t n_mirrors;
	struct runtime_hosts *hosts;
	size_t n_hosts;
	uint64_t now_us;      /* CLOCK_MONOTONIC of its beginning */
	uint64_t realtime_us; /* and CLOCK_REALTIME */
	uint64_t discover_due_us;
	uint64_t next_us; /* CLOCK_MONOTONIC: when the next one is due */
};

/* Registries that the journal has a hosts.toml of. */
struct runtime_recorded {
	char registries[RUNTIME_MIRROR_MAX][REGISTRY_NAME_MAX];
	size_t n;
};

/* Self-contained: what the worker needs, and what it makes of it. */
struct runtime_request {
	const struct host *host; /* constant */
	struct runtime_config config;
	struct runtime_recorded recorded;
	bool cancelled; /* the sample is incomplete: to be dropped */
	struct runtime_sample sample;
};

/* sample.c: everything that is due, blocking. */
void runtime_sample_update(struct runtime_request *request, const struct wait *wait);
/* The copy takes the addresses away from the original. 0 or -ENOMEM. */
int runtime_sample_copy(struct runtime_sample *sample, struct runtime_sample *ret);
void runtime_sample_clear(struct runtime_sample *sample);
struct node_runtime *runtime_find(const struct runtime_sample *sample, const char *socket);
const struct mirror *runtime_find_mirror(const struct runtime_sample *sample, const char *url);

/* Notes an answer, or why there is none. */
void runtime_answered(struct node_runtime *runtime);
void runtime_silent(struct node_runtime *runtime, const char *why);

/* Takes the daemon's process: a new one has read its files anew, and forgets what was in force. */
void runtime_take_process(struct node_runtime *runtime, const struct host *host, pid_t pid);

void runtime_sample_cri(
	struct node_runtime *runtime, struct runtime_request *request, const struct wait *wait);
void runtime_sample_docker(
	struct node_runtime *runtime, struct runtime_request *request, const struct wait *wait);

/* files.c: what the files say, and what is in force by them where the runtime does not say. */
void runtime_sample_files(struct node_runtime *runtime, const struct runtime_request *request,
	const struct wait *wait);

/* hosts.c: the hosts.toml of every registry that has mirrors, or is recorded to have some. */
int runtime_sample_hosts(struct runtime_request *request);

/* store.c: the file system below the store's directory. */
void runtime_sample_store(const struct host *host, struct runtime_store *store);

/* Why its configuration cannot be used, "" when it can. */
const char *runtime_file_why(const struct node_runtime *runtime);

/* "30m0s" of microseconds, as Go prints it. */
void runtime_duration_text(uint64_t us, char text[static 32]);

/* ---- decisions: pure ---- */

struct runtime_edit;

struct runtime_memory {
	struct runtime_edit *edits; /* of the wants of the last decide() */
	bool store_full;            /* hysteresis */
	struct runtime_recorded recorded;
	uint64_t records_tag; /* of this tuner's records: another value means that something was
				 written */
};

/* What the parts of one decide() share: what goes in, and where the result goes. */
struct runtime_decision {
	const struct runtime_sample *sample;
	const struct runtime_config *config;
	bool once; /* for a command without an agent: a silent runtime is not given time */
	const struct decide_input *input;
	struct runtime_memory *memory;
	struct proposal *proposal;
};

int runtime_decide(const struct runtime_decision *decision);
int runtime_decide_mirrors(const struct runtime_decision *decision);
int runtime_decide_health(const struct runtime_decision *decision);
void runtime_memory_clear(struct runtime_memory *memory);

/*
 * A want in a file and its edit; one: whose service is activated, NULL for none. text is copied;
 * NULL removes the key or the file. NULL without memory.
 */
struct file_want *runtime_want(const struct runtime_decision *decision,
	const struct node_runtime *runtime, const char *name, const struct file_target *target,
	const char *text);

/* The setting is reported and not written, for this reason. */
void runtime_leave(struct file_want *want, const char *reason);

/* The reason why nothing of this runtime's can be written now; NULL: it can. */
const char *runtime_obstacle(const struct node_runtime *runtime);

/* What the names of its settings begin with: the kind for the node's own runtime, else its name. */
const char *runtime_prefix(const struct runtime_sample *sample, const struct node_runtime *runtime);

/* ---- reporting ---- */

struct metric_sink;
void runtime_metrics_write(const struct runtime_sample *sample, struct metric_sink *sink);
struct cJSON *runtime_document_make(const struct runtime_sample *sample);
extern const struct limit_row runtime_limits[];
extern const struct explanation runtime_explanations[];
extern const struct condition_type runtime_conditions[];
extern const struct reason runtime_reasons[];
extern const struct metric_row runtime_metric_rows[];
extern const struct table_view runtime_view;
extern const struct capability_row runtime_capabilities[];

enum { RUNTIME_UNREACHABLE, RUNTIME_RESTART_PENDING, IMAGE_STORE_FULL, PULL_STUCK };

#endif
