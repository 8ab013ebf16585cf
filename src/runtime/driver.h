/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A driver is all that this program knows of one container runtime: a const struct of facts and
 * functions. To add a runtime, write one file with its struct and add it to runtime_drivers[] in
 * drivers.c.
 *
 * Rules for all members:
 *  - A feature that a runtime lacks is NULL or zero. A key that only some versions have is a row of
 *    `keys` whose struct runtime_key gets a refusal; the setting then shows as unsupported.
 *  - Functions that get a struct wait block, end at its deadline or when it is cancelled, and run
 * on a worker or in a command. All others are pure and fast: the main loop calls them.
 *  - Functions return 0 or -errno, -ECANCELED when the wait was cancelled. An error has a text in
 *    why: what failed and, where there is one, the cure. Secrets are hidden and control characters
 *    replaced (hide_secrets(), text_make_printable()). Out-parameters change on success only.
 *  - Times are microseconds, of CLOCK_MONOTONIC unless a member says otherwise; sizes are bytes.
 *  - Paths are below the host's root, as the daemon itself sees them; a parameter named socket is a
 *    full path. Path and text members are empty when they are not known.
 *  - A driver has no state. What it has to remember between two readings is in struct node_runtime,
 *    which is plain data: the loop and the worker copy it.
 */

#include "base/child.h"
#include "base/text.h"
#include "runtime/docker_client.h"
#include "runtime/images.h"
#include "runtime/mirror_file.h"
#include "runtime/pulls.h"

#define RUNTIME_MAX            8 /* found at once */
#define RUNTIME_WHY_MAX        CHILD_WHY_MAX
#define RUNTIME_MIRRORS_MAX    2048
#define RUNTIME_NAMESPACES_MAX 8 /* of containerd, searched for pulls */

/* ---- what a node has ---- */

/* Who writes the configuration and restarts the daemon. */
enum runtime_managed_by {
	RUNTIME_OF_NODE, /* a unit of its own: the administrator's */
	RUNTIME_OF_K8S,  /* part of k3s, RKE2, k0s or MicroK8s, which writes it from a template */
	RUNTIME_NESTED,  /* another runtime starts it for itself */
};

/* Where a runtime may be, and which of them is here. */
struct runtime {
	const char *name; /* "containerd", "docker", "crio", "k3s", "rke2", "k0s", "microk8s",
			     "docker-containerd" */
	const struct runtime_driver *driver; /* runtime_discover() sets it */
	enum runtime_managed_by managed_by;
	const char *socket;
	const char *config; /* unless its command line names another; may not exist */
	const char *unit; /* "containerd.service": the one that is installed, else the usual one */
	bool has_socket;  /* the socket exists; nobody may listen on it */
};

struct runtime_location {
	struct runtime runtime;
	const char *other_unit; /* servers and agents have different ones; or NULL */
	const char *needs; /* a path that must exist; NULL: none. Two rows can share a socket */
};

/* The process of a daemon, by this PID namespace's number. */
struct runtime_process {
	uint64_t start_us; /* CLOCK_BOOTTIME: with the pid it tells processes apart */
	/* CLOCK_REALTIME to within 10 ms: a file changed later is not what it runs with. */
	uint64_t started_us;
	char program[SETTING_PATH_MAX];   /* as its next start will find it */
	char config[SETTING_PATH_MAX];    /* of the driver's options */
	char directory[SETTING_PATH_MAX]; /* its working directory */
};

/* A daemon whose configuration is read or verified. */
struct runtime_daemon {
	const struct host *host;
	const char *binary;
	const char *version;   /* as the daemon itself says: "1.6.20~ds1", "v2.1.4" */
	const char *config;    /* its main file */
	const char *directory; /* its working directory; unknown counts as / */
};

/* ---- settings ---- */

enum runtime_setting {
	RUNTIME_DOWNLOADS,        /* layers fetched at once: a count */
	RUNTIME_PROGRESS_TIMEOUT, /* a pull without progress for so long fails: "30m0s" */
	RUNTIME_HOSTS_DIRECTORY,  /* where mirror files are: directories, separated by colons */
	RUNTIME_MIRRORS,          /* URLs, separated by spaces */
	RUNTIME_SETTINGS,
};

/* A setting that a driver has, by its key in the configuration. */
struct runtime_key_row {
	const char *name; /* "max_concurrent_downloads"; NULL: there is no such setting */
	enum activation activation;
	uint64_t zero; /* what the value 0 means to the daemon */
};

/* Why a key cannot be edited; struct runtime_key has the text. */
enum runtime_refusal {
	KEY_EDITABLE,
	KEY_UNKNOWN,   /* this version does not know the key */
	KEY_GENERATED, /* another program writes the file: k3s, RKE2, dockerd, ... */
	KEY_READ_ONLY, /* the file is on a read-only file system */
	KEY_EXCLUDED,  /* other keys forbid it: registry.mirrors */
	KEY_CRI_OFF,   /* the plugin that reads the key is disabled */
};

/* What the configuration files say of one key, and where it is edited. */
struct runtime_key {
	char on_disk[SETTING_VALUE_MAX]; /* what the files come to, defaults included */
	enum runtime_refusal refusal;
	char why[RUNTIME_WHY_MAX]; /* empty when it can be edited */

	/* The edit, as in struct file_target and struct file_edit. Without a path the key is in the
	 * daemon's main file, under the name of its row. */
	char path[SETTING_PATH_MAX];
	const char *const *tables; /* one of these, ended by NULL: the dump shows which */
	const char *key;
	char dump_key[200];
	const char *base; /* what a new file begins with */
};

struct runtime_files {
	int error;                 /* 0 or -errno, with why: the files say nothing of any key */
	char why[RUNTIME_WHY_MAX]; /* "PATH:LINE:COLUMN: what: cure" */
	uint64_t changed_us;       /* CLOCK_REALTIME of the newest file; 0: there is none */
	char hash[HASH_TEXT_MAX];  /* of all that was read: an equal one saves the verification */
	bool transfer;             /* containerd pulls by its transfer service, whose key counts */
	char mirrors[RUNTIME_MIRRORS_MAX]; /* RUNTIME_MIRRORS in full */
	bool has_mirrors;                  /* the key exists, possibly with an empty list */
	struct runtime_key keys[RUNTIME_SETTINGS];
};

/* ---- what is known of one runtime, from reading to reading ---- */

enum runtime_answer {
	RUNTIME_ASKED,   /* no answer yet */
	RUNTIME_ANSWERS, /* the last one came */
	RUNTIME_SILENT,  /* why says why */
};

/* The file system that images are unpacked to. The driver fills directory, driver, image_bytes. */
struct runtime_store {
	bool known;
	char directory[SETTING_PATH_MAX];
	char driver[64];     /* Docker's storage driver or containerd's snapshotter */
	dev_t number;        /* that filesystem and device are of */
	char filesystem[32]; /* "ext4" */
	char device[64];     /* "sda1"; empty for a file system without one */
	bool rotational, network;
	uint64_t size, used;  /* of the file system; used is what root cannot write any more */
	uint64_t image_bytes; /* what the runtime says its images take */
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
	uint64_t since_us; /* of answer */
	char version[64];
	pid_t pid;                      /* of the daemon; 0: not known */
	struct runtime_process process; /* with the usual configuration, if it names none */

	char reported[RUNTIME_SETTINGS][SETTING_VALUE_MAX]; /* in force, as the runtime says */
	char in_force[RUNTIME_SETTINGS][SETTING_VALUE_MAX]; /* also where only files say so */
	bool on_command[RUNTIME_SETTINGS]; /* an option of the command line sets it */

	bool files_known; /* files were read at least once */
	struct runtime_files files;

	struct runtime_store store;
	struct pulls pulls;
	uint64_t pulls_at_us; /* of the last answer; 0: not known */
	uint64_t due_us;      /* when what changes slowly is asked for again */

	/* What single drivers remember. */
	struct {
		struct docker_process process;
		struct docker_info info;
		uint64_t events_us; /* CLOCK_REALTIME: pulls that ended before are counted */
	} docker;
	struct {
		char namespaces[RUNTIME_NAMESPACES_MAX][64];
		size_t n_namespaces;
		size_t content_turn; /* which layer without a name is asked about next */
	} containerd;

	/* Moved with a request, not copied: the loop does not need the addresses, and passes the
	 * names on. */
	struct runtime_addresses {
		struct runtime_address *entries;
		size_t n, allocated;
	} addresses;
	struct runtime_names {
		struct name_entry *entries;
		size_t n, allocated;
		bool fresh; /* of this sample; else as before, and entries is NULL */
	} names;
};

/* What one call of read() gets, and gives back. */
struct runtime_reading {
	const struct host *host;
	struct node_runtime *runtime;
	struct pull_counts *pulled; /* of all runtimes */
	const char *socket;
	const struct wait *wait;
	bool slow;      /* also read what changes slowly */
	bool cancelled; /* set by the driver: the reading is incomplete */
};

/* ---- the driver ---- */

struct runtime_driver {
	const char *name; /* "containerd": in settings, messages, and records on disk */

	/* Find. */
	const struct runtime_location
		*locations;     /* ended by {0}; the first one of a socket counts */
	const char *options[3]; /* of the command line, that name the main file; ended by NULL */

	/*
	 * Reads version, process, values in force, store, pulls and names into reading->runtime.
	 * Begins with runtime_note(), NULL for an answer; runtime_set_process() when the daemon's
	 * process is known.
	 */
	void (*read)(struct runtime_reading *reading);

	/*
	 * Reads the configuration files into runtime->files, and values in force where the daemon
	 * does not report them (runtime_infer()). Called when version and main file are known;
	 * NULL: no setting is read or written.
	 */
	void (*read_files)(struct node_runtime *runtime, const struct runtime_daemon *daemon,
		const struct wait *wait);

	/* Keys of the configuration, by enum runtime_setting. */
	struct runtime_key_row keys[RUNTIME_SETTINGS];
	enum edit_format format; /* of the files that have them */
	bool needs_program;      /* nothing is edited unless the daemon's program is known */
	const struct mirror_format *mirrors; /* NULL: mirrors are a key, or there are none */

	/*
	 * Verify. Whether the daemon accepts its configuration as it is on disk: asked before every
	 * restart and reload. -EINVAL or -EBADMSG when it refuses. NULL: nothing is verified.
	 */
	int (*check)(const struct runtime_daemon *daemon, const struct wait *wait,
		char why[static RUNTIME_WHY_MAX]);

	/* Whether it accepts this terminated text, which is also in the file path. Or NULL. */
	int (*verify)(const struct runtime_daemon *daemon, const char *text, size_t len,
		const char *path, const struct wait *wait, char why[static RUNTIME_WHY_MAX]);

	/*
	 * What the program makes of its configuration with `path` as its main file, as TOML; the
	 * caller frees it. An edit is verified by comparing two dumps: only its own key may differ.
	 * -EINVAL when the program refuses the files. NULL: it cannot tell, verify() alone counts.
	 */
	int (*dump)(const struct runtime_daemon *daemon, const char *path, const struct wait *wait,
		char **dump, char why[static RUNTIME_WHY_MAX]);

	/*
	 * Activate: ACTIVATE_RELOAD sends SIGHUP to the daemon's process, if it has the name
	 * program; find_process gives it where no sample did. await_reload, if there is one, waits
	 * until the daemon has read its files again and gives the value of a key that is then in
	 * force. since_us is CLOCK_REALTIME from before the signal. ACTIVATE_RESTART restarts the
	 * unit.
	 */
	const char *program;
	int (*find_process)(
		const struct host *host, const char *socket, const struct wait *wait, pid_t *pid);
	int (*await_reload)(const char *socket, uint64_t since_us, const char *key,
		char value[static SETTING_VALUE_MAX], const struct wait *wait);

	/* Images; all NULL when the runtime's images are not managed. */
	bool serves_kubelet;       /* by the CRI: preferred where there is a kubelet */
	unsigned copies_per_image; /* in its store: 2 when layers stay compressed, too */
	bool (*honours_pins)(const char *version);

	/*
	 * Version, store and sandbox image. -EOPNOTSUPP when it serves no images: the next runtime
	 * is tried.
	 */
	int (*read_images_info)(struct image_runtime *runtime, const struct host *host,
		const struct wait *wait, struct image_info *info, char why[static IMAGES_WHY_MAX]);

	/* All names of all images, for the caller to free. */
	int (*list)(const struct image_runtime *runtime, const struct wait *wait,
		struct runtime_image **images, size_t *n, char why[static IMAGES_WHY_MAX]);

	/* Pulls by name, with the credentials that the runtime itself has. */
	int (*pull)(const struct image_runtime *runtime, const char *name, const struct wait *wait,
		char why[static IMAGES_WHY_MAX]);

	/*
	 * Makes an image of an archive one of the runtime's, unpacked, under the archive's name for
	 * it. reference is where an image_server on 127.0.0.1 serves it until the call returns.
	 * done counts bytes that the server gave. What a killed agent leaves is removed by clean().
	 * NULL: archives cannot be loaded.
	 */
	int (*load)(const struct image_runtime *runtime, const struct host *host,
		const struct archive_image *image, const char *reference, const struct wait *wait,
		const _Atomic uint64_t *done, char why[static IMAGES_WHY_MAX]);

	/* Removes what transfers left: not while one is under way. Or NULL. */
	int (*clean)(const struct image_runtime *runtime, const struct wait *wait,
		char why[static IMAGES_WHY_MAX]);

	/* Removes files that a load of a killed agent left. Or NULL. */
	void (*remove_files)(const struct host *host);

	/* Whether there is anything for clean(), besides names of ours in the list. Or NULL. */
	bool (*has_leftovers)(const struct image_runtime *runtime, const struct wait *wait);

	/*
	 * Keeps an image from the kubelet's garbage collection, or stops keeping it. 0 also when
	 * nothing had to change; -ENOENT without such an image. NULL: there are no pins.
	 */
	int (*pin)(const struct image_runtime *runtime, const char *name, bool pinned,
		const struct wait *wait, char why[static IMAGES_WHY_MAX]);
};

/* All drivers, ended by NULL. */
extern const struct runtime_driver *const runtime_drivers[];

/* What runtime.kind can be: "auto", then the drivers' names in their order. NULL for auto. */
extern const char *const runtime_choices[];
const struct runtime_driver *runtime_driver_choose(int choice);

/* By its name, which a record may have; NULL: there is none. */
const struct runtime_driver *runtime_driver_find(const char *name);

/* ---- for drivers and their users ---- */

/*
 * Fills in what is here: everything with a socket, and what is installed without one, which is down
 * or not started yet. Two names for one socket count once. host_root: "" for /, as in struct host.
 * Returns how many.
 */
size_t runtime_discover(const char *host_root, struct runtime found[static RUNTIME_MAX]);

/* 0, -ESRCH or -errno of /proc/PID/stat. */
int runtime_process_read(const char *host_root, const struct runtime_driver *driver, pid_t pid,
	struct runtime_process *process);

/* Notes an answer, or why there is none. */
void runtime_note(struct node_runtime *runtime, const char *why);

/* Sets the daemon's process: a new one has read its files again, and forgets what was in force. */
void runtime_set_process(struct node_runtime *runtime, const struct host *host, pid_t pid);

/* Replaces all names that the runtime has; the entries become the runtime's. */
void runtime_set_names(struct node_runtime *runtime, struct runtime_names *names);

/*
 * Sets the value in force of a setting: as reported, else as the files say, if they have not
 * changed since the daemon started. What is known of a process stays, whatever is written while it
 * runs. otherwise is the default of a key that is in no file.
 */
void runtime_infer(struct node_runtime *runtime, enum runtime_setting setting, uint64_t changed_us,
	const char *reported, const char *otherwise);

/* "30m0s" of microseconds, as Go prints it. */
void runtime_duration_text(uint64_t us, char text[static 32]);

/* The drivers: each in a file of its own. */
extern const struct runtime_driver containerd_driver, docker_driver, crio_driver;
