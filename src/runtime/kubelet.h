/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the parts of the kubelet's configuration (kubelet.config.k8s.io, KubeletConfiguration
 * v1beta1) that tuners need: the file of --config, overridden by the *.conf files below
 * --config-dir in lexical order, overridden by flags. The kubelet reads it once, at its start.
 */

#include <sys/types.h>

#include "base/text.h"
#include "runtime/bad_file.h"

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
	KUBELET_FAIL_SWAP_ON,
	KUBELET_PULL_VERIFICATION,
	KUBELET_FIELDS,
};

enum kubelet_origin {
	KUBELET_UNSET,   /* the kubelet's own default */
	KUBELET_CLEARED, /* null in a file: the default again */
	KUBELET_FILE,
	KUBELET_FLAG, /* overrides all files */
};

struct kubelet_value {
	enum kubelet_origin origin;
	char text[KUBELET_VALUE_MAX]; /* "true", "5", "24h"; empty: no limit */
	char file[SETTING_PATH_MAX];  /* with KUBELET_FILE: its path below the host's root */
	unsigned line;                /* from 1 */
};

/* A path, which may be empty, of resolvConf. */
struct kubelet_path {
	enum kubelet_origin origin;
	char path[SETTING_PATH_MAX];
	char file[SETTING_PATH_MAX]; /* with KUBELET_FILE, as in struct kubelet_value */
	unsigned line;
};

struct kubelet_values {
	struct kubelet_value field[KUBELET_FIELDS];
	char cluster_dns[KUBELET_SERVERS_MAX][KUBELET_ADDRESS_MAX]; /* clusterDNS */
	size_t n_cluster_dns;
	struct kubelet_path resolv_conf; /* of pods that use the node's resolvers */
	char unknown[SETTING_PATH_MAX +
		     96]; /* the last file with a key of unknown type; "": none */
};

enum kubelet_presence {
	KUBELET_ABSENT,
	KUBELET_STOPPED, /* it has a file and no visible process */
	KUBELET_RUNNING,
};

/* State of KUBELET_OWN_FILE in the drop-in directory. */
enum kubelet_own {
	KUBELET_OWN_MISSING,
	KUBELET_OWN_WRITTEN, /* has our text */
	KUBELET_OWN_OTHER,   /* has another text of ours */
	KUBELET_OWN_FOREIGN, /* someone else has written it */
};

struct kubelet_seen {
	enum kubelet_presence presence;
	pid_t pid;                         /* KUBELET_RUNNING */
	uint64_t start_us;                 /* when that process started, CLOCK_BOOTTIME */
	bool embedded;                     /* inside k3s, which hides its flags */
	char config[SETTING_PATH_MAX];     /* empty: none */
	char config_dir[SETTING_PATH_MAX]; /* empty: the kubelet reads no drop-ins */
	struct kubelet_values values;      /* in force after the next start */
	struct kubelet_values others;      /* the same without our own file */
	bool values_run, others_run;       /* the running kubelet has these, if known */
	bool overridden;                   /* a file after our own sets the same key */
	enum kubelet_own own;
	char own_hash[HASH_TEXT_MAX]; /* of that file */
	char why[KUBELET_WHY_MAX];    /* "FILE:LINE:COLUMN: what"; empty: all files were read */
	/* With why: the file, and -errno; -EBADMSG: the kubelet would not start with it. */
	struct bad_file bad;
	int error;
};

/* The text of our own drop-in file. */
extern const char kubelet_own_text[];

/*
 * Finds the kubelet and reads its files. seen is zeroed or the result of the last call: a process
 * that still runs is not searched again. Blocks for about 100 us; a search of all processes, only
 * where a kubelet's directories exist, adds 10 us for each.
 */
void kubelet_read(const struct host *host, struct kubelet_seen *seen);

struct kubelet_row {
	const char *name, *flag, *def; /* flag NULL: none */
	enum { KUBELET_BOOL, KUBELET_NUMBER, KUBELET_AGE, KUBELET_WORD } kind;
};

extern const struct kubelet_row kubelet_fields[KUBELET_FIELDS];

/*
 * Parses one file, YAML or JSON. Fields that it does not set are KUBELET_UNSET. 0, or -EBADMSG with
 * why: "PATH:LINE:COLUMN: what".
 */
int kubelet_parse(const char *path, const char *text, size_t len, struct kubelet_values *values,
	char why[static KUBELET_WHY_MAX]);
