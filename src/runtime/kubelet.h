/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's configuration (kubelet.config.k8s.io, KubeletConfiguration v1beta1), as far as
 * tuners need it. It is the file that --config names, the *.conf below --config-dir in lexical
 * order over it, and flags of the command line over all of them; read at the kubelet's start and
 * never again.
 */

#include <sys/types.h>

#include "kernel/host.h"

#define KUBELET_VALUE_MAX   32
#define KUBELET_ADDRESS_MAX 46 /* INET6_ADDRSTRLEN */
#define KUBELET_SERVERS_MAX 8
#define KUBELET_WHY_MAX     320
#define KUBELET_OWN_FILE    "99-headroom.conf"

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
	char cluster_dns[KUBELET_SERVERS_MAX][KUBELET_ADDRESS_MAX]; /* clusterDNS */
	size_t n_cluster_dns;
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
	pid_t pid;                         /* KUBELET_RUNNING */
	uint64_t start_us;                 /* CLOCK_BOOTTIME, of that process */
	bool embedded;                     /* inside k3s, which hides its flags */
	char config[SETTING_PATH_MAX];     /* empty: none */
	char config_dir[SETTING_PATH_MAX]; /* empty: the kubelet reads no drop-ins */
	struct kubelet_values values;      /* what its next start takes */
	struct kubelet_values others;      /* the same without our own file */
	bool values_run, others_run;       /* which of both the running kubelet took, if known */
	bool overridden;                   /* a file after our own sets what ours does */
	enum kubelet_own own;
	char why[KUBELET_WHY_MAX]; /* FILE:LINE: what could not be read; empty: all was */
};

/* The text of our own drop-in file. */
extern const char kubelet_own_text[];

/*
 * Finds the kubelet and reads its files: blocking, some 100 us, and 10 us for each process of the
 * node where a kubelet's directories are and no kubelet runs. seen is zeroed or what was seen
 * before; a process that still runs is not searched again.
 */
void kubelet_read(const struct host *host, struct kubelet_seen *seen);

struct kubelet_row {
	const char *name, *flag, *def; /* flag NULL: none */
	enum { KUBELET_BOOL, KUBELET_NUMBER, KUBELET_AGE } kind;
};

extern const struct kubelet_row kubelet_fields[KUBELET_FIELDS];

/*
 * Parses one file, YAML or JSON. 0 with what it gives in values, all else KUBELET_UNSET; -EBADMSG
 * with why, which begins with path and position.
 */
int kubelet_parse(const char *path, const char *text, size_t len, struct kubelet_values *values,
	char why[static KUBELET_WHY_MAX]);

/* Takes a value given as text, of a file or a flag. False when the field does not take it. */
bool kubelet_take(struct kubelet_value *value, enum kubelet_field field, const char *text);

/* Adds an address of clusterDNS; what is no address, or too many of them, is left out. */
void kubelet_add_cluster_dns(struct kubelet_values *values, const char *address);

/* Gives what is unset, or was cleared, the default that the kubelet would. */
void kubelet_fill_defaults(struct kubelet_values *values, bool embedded);
