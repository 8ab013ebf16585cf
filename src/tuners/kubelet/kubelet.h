/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_KUBELET_KUBELET_H
#define TUNERS_KUBELET_KUBELET_H

/*
 * What the kubelet's configuration says of pulling and collecting images (kubelet.config.k8s.io,
 * KubeletConfiguration v1beta1). It is the file that --config names, the *.conf below --config-dir
 * in lexical order over it, and flags of the command line over all of them; read at the kubelet's
 * start and never again.
 */

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/host.h"

#include <headroom/tuner.h>

#define KUBELET_VALUE_MAX 32
#define KUBELET_FILES_MAX 64 /* of files and directories; a node has one to five */
#define KUBELET_FEW_PULLS 3  /* below this many at once, pulls wait for each other */
#define KUBELET_OWN_FILE  "99-headroom.conf"
#define KUBELET_SETTING   "kubelet.serializeImagePulls"

enum kubelet_field {
	KUBELET_SERIALIZE_IMAGE_PULLS,
	KUBELET_MAX_PARALLEL_IMAGE_PULLS,
	KUBELET_REGISTRY_PULL_QPS,
	KUBELET_REGISTRY_BURST,
	KUBELET_IMAGE_GC_HIGH,
	KUBELET_IMAGE_GC_LOW,
	KUBELET_IMAGE_MAXIMUM_GC_AGE,
	KUBELET_FIELDS,
};

enum kubelet_origin {
	KUBELET_UNSET,   /* the kubelet's own default */
	KUBELET_CLEARED, /* null in a file: back to the default */
	KUBELET_FILE,
	KUBELET_FLAG, /* of the command line: no file changes it */
};

struct kubelet_value {
	enum kubelet_origin origin;
	char text[KUBELET_VALUE_MAX]; /* "true", "5", "24h"; empty for no limit */
	char file[SETTING_PATH_MAX];  /* KUBELET_FILE: below the host's root */
	unsigned line;                /* from 1 */
};

struct kubelet_values {
	struct kubelet_value field[KUBELET_FIELDS];
};

enum kubelet_presence {
	KUBELET_ABSENT,
	KUBELET_STOPPED, /* its file is there, its process is not to be seen */
	KUBELET_RUNNING,
};

/* What a file of our own name in the drop-in directory is. */
enum kubelet_own {
	KUBELET_OWN_MISSING,
	KUBELET_OWN_WRITTEN, /* just as it is written by us */
	KUBELET_OWN_OTHER,
};

struct kubelet_seen {
	enum kubelet_presence presence;
	bool embedded;                     /* inside k3s, which hides its flags */
	char config[SETTING_PATH_MAX];     /* empty: none */
	char config_dir[SETTING_PATH_MAX]; /* empty: the kubelet reads no drop-ins */
	struct kubelet_values values;      /* what its next start takes */
	struct kubelet_values others;      /* the same without our own file */
	bool values_run, others_run;       /* which of both the running kubelet took, if known */
	bool overridden;                   /* a file after our own sets what ours does */
	enum kubelet_own own;
	char why[TUNER_WHY_MAX]; /* FILE:LINE: what could not be read; empty: all was */
};

struct kubelet_config {
	bool manage;
};

/* A field's name in the file, and its flag (NULL for none). */
const char *kubelet_field_name(enum kubelet_field field);
const char *kubelet_field_flag(enum kubelet_field field);

/* The text of our own drop-in file. */
extern const char kubelet_own_text[];

/* Pure. 0 or -ENOMEM. */
int kubelet_decide(const struct kubelet_seen *seen, const struct kubelet_config *config,
	struct proposal *proposal);

/*
 * The advices that fit what was seen, n of them at most, each one sentence of fewer than
 * CONDITION_MESSAGE_MAX bytes. Returns how many.
 */
size_t kubelet_advise(
	const struct kubelet_seen *seen, char (*advices)[CONDITION_MESSAGE_MAX], size_t n);

/* Why the setting cannot be written, and the cure; NULL when it can. */
const char *kubelet_unmanageable(const struct kubelet_seen *seen);

/* The caller's; NULL without memory. */
struct cJSON *kubelet_document(const struct kubelet_seen *seen);

extern const struct explanation kubelet_explanations[];
extern const struct condition_type kubelet_conditions[];
extern const struct capability_row kubelet_capabilities[];

enum { KUBELET_SERIAL_PULLS };

/*
 * Reads one file, YAML or JSON. 0 with the fields that it gives set in values, of which the others
 * are KUBELET_UNSET; -EBADMSG with why, which begins with path and place; -ENOMEM.
 */
int kubelet_parse(const char *path, const char *text, size_t len, struct kubelet_values *values,
	char why[static TUNER_WHY_MAX]);

/* Takes a value given as text, of a file or a flag. False when the field does not take it. */
bool kubelet_take(struct kubelet_value *value, enum kubelet_field field, const char *text);

/* Lays a drop-in file's values over what came before. */
void kubelet_merge(struct kubelet_values *values, const struct kubelet_values *over);

/* Gives what is unset, or was cleared, the default that the kubelet would. */
void kubelet_fill_defaults(struct kubelet_values *values, bool embedded);

/* The kubelet's process, as its command line tells it. */
struct kubelet_process {
	int pid;           /* 0: none was found */
	uint64_t start_us; /* CLOCK_BOOTTIME */
	bool embedded;
	char config[SETTING_PATH_MAX];
	char config_dir[SETTING_PATH_MAX];
	struct kubelet_values flags;
};

/* A search among all processes, some at a time: each costs 10 us of the loop's time. */
struct kubelet_scan {
	DIR *proc;        /* NULL: none is under way */
	int embedded;     /* the k3s that was met so far; 0: none */
	unsigned at_once; /* processes looked at in one call; 0: all */
};

/* Finds it, first where it was. What cannot be found, or not yet, leaves pid 0. */
void kubelet_process_find(
	const struct host *host, struct kubelet_scan *scan, struct kubelet_process *process);
void kubelet_scan_end(struct kubelet_scan *scan);

/* Takes the words of a command line, each ended by a NUL, len bytes in all. */
void kubelet_parse_command_line(const char *line, size_t len, struct kubelet_process *process);

struct kubelet_paths {
	char *paths[KUBELET_FILES_MAX]; /* below the host's root */
	bool is_file[KUBELET_FILES_MAX];
	size_t n;
};

/* Adds a directory, those in it, and their *.conf, in the kubelet's order. 0, -errno or -E2BIG. */
int kubelet_walk(const struct host *host, const char *directory, struct kubelet_paths *paths);
int kubelet_paths_add(struct kubelet_paths *paths, const char *path, bool is_file);
void kubelet_paths_clear(struct kubelet_paths *paths);

struct kubelet_sensor {
	const struct host *host;
	struct kubelet_process process;
	struct kubelet_scan scan;
	struct kubelet_paths paths;
	uint64_t signature;    /* of paths, when they were read */
	uint64_t next_look_us; /* CLOCK_MONOTONIC */
	bool looked;
};

/* Looks at files and process when one of them changed, and once a minute. */
void kubelet_sense(struct kubelet_sensor *sensor, struct kubelet_seen *seen);
void kubelet_sensor_close(struct kubelet_sensor *sensor);

#endif
