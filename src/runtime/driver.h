/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A driver is a const struct with everything that is specific to one container runtime. To add a
 * runtime, write a file with its struct and add its name to RUNTIME_DRIVERS below.
 *
 * Rules for all members:
 *  - A member is NULL or zero if the runtime lacks the feature. read_files() sets a refusal for a
 *    row of `keys` that the running version does not have: its setting is unsupported.
 *  - Functions with a struct wait block until its deadline or its cancellation. A task or a
 *    command calls them. The main loop calls the others, which are pure and fast.
 *  - Functions return 0 or -errno; -ECANCELED if the wait was cancelled. why is set on an error to
 *    the cause and the cure, without secrets (hide_secrets()) and control characters
 *    (text_make_printable()). Out-parameters change on success only.
 *  - Times are microseconds, of CLOCK_MONOTONIC unless a member says otherwise; sizes are bytes.
 *  - Paths are relative to the host's root, as the daemon sees them; a parameter named socket is a
 *    full path. Unknown paths and texts are empty.
 *  - State of a driver is in struct node_runtime. This is plain data: the loop and tasks copy it.
 */

#include <headroom/file.h>

#include "base/child.h"
#include "runtime/bad_file.h"
#include "runtime/docker.h"
#include "runtime/images.h"
#include "runtime/pulls.h"
#include "runtime/registry.h"

#define RUNTIME_MAX            8 /* on one node */
#define RUNTIME_WHY_MAX        CHILD_WHY_MAX
#define RUNTIME_MIRRORS_MAX    2048
#define NO_MIRRORS             "none" /* an empty list, as a value */
#define RUNTIME_CLIENT_MAX     512    /* the beginning of a command: runtime_client() */
#define RUNTIME_NAMESPACES_MAX 8      /* containerd's */
#define RUNTIME_WAITING_MAX    8

/* ---- what a node has ---- */

/* The program that writes the configuration and restarts the daemon. */
enum runtime_managed_by {
	RUNTIME_OF_NODE, /* the administrator: the runtime has its own unit */
	RUNTIME_OF_K8S,  /* k3s, RKE2, k0s or MicroK8s, from a template */
	RUNTIME_NESTED,  /* another runtime, which starts it for itself */
};

/* A runtime that is found, or that a location can have. */
struct runtime {
	const char *name; /* "containerd", "docker", "crio", "k3s", "rke2", "k0s", "microk8s",
			     "docker-containerd" */
	const struct runtime_driver *driver; /* runtime_discover() sets it */
	enum runtime_managed_by managed_by;
	const char *socket;
	const char *config; /* the default main file, which may not exist */
	const char *unit;   /* "containerd.service": the installed unit or the default one */
	bool has_socket;    /* the socket exists, possibly without a listener */
};

struct runtime_location {
	struct runtime runtime;
	const char *other_unit; /* the agents' unit, if servers have another; or NULL */
	const char *needs;      /* a path that must exist, for rows that share a socket; or NULL */
};

/* ---- settings ---- */

enum runtime_setting {
	RUNTIME_DOWNLOADS,        /* layers fetched at once: a count */
	RUNTIME_PROGRESS_TIMEOUT, /* for a pull without progress: "30m0s" */
	RUNTIME_HOSTS_DIRECTORY,  /* with the mirror files: paths, separated by colons */
	RUNTIME_MIRRORS,          /* URLs, separated by spaces */
	RUNTIME_SETTINGS,
};

/* A setting of a driver: a key of the configuration. */
struct runtime_key_row {
	const char *name; /* "max_concurrent_downloads"; NULL: not supported */
	enum activation activation;
	const struct meaning *meanings; /* numbers that do not mean themselves; NULL: none */
	uint64_t usual;                 /* the program's default: less was chosen. 0: not known */
};

/* The reason why a key cannot be edited. */
enum runtime_refusal {
	KEY_EDITABLE,
	KEY_UNKNOWN,   /* this version does not know the key */
	KEY_GENERATED, /* another program writes the file: k3s, RKE2, dockerd, ... */
	KEY_READ_ONLY, /* the file is on a read-only file system */
	KEY_EXCLUDED,  /* other keys forbid it: registry.mirrors */
	KEY_CRI_OFF,   /* the plugin that reads the key is disabled */
};

/* A key of the configuration files. */
struct runtime_key {
	char on_disk[SETTING_VALUE_MAX]; /* its value, also a default */
	enum runtime_refusal refusal;
	char why[RUNTIME_WHY_MAX];       /* why it is refused */
	char misplaced[RUNTIME_WHY_MAX]; /* "PATH:LINE: what": it is where nothing reads it */

	/* The edit, as in struct file_target and struct file_edit. The default of path is the main
	 * file, the default of key is the name in the key's row. */
	char path[SETTING_PATH_MAX];
	const char *const *tables; /* candidates, ended by NULL: the dump shows the right one */
	const char *key;
	char dump_key[200];
	const char *base; /* the beginning of a new file */
};

struct runtime_files {
	/* 0 or -errno, with why: no key is known. -EBADMSG: the daemon would not start with it. */
	int error;
	char why[RUNTIME_WHY_MAX]; /* "PATH:LINE:COLUMN: what: cure" */
	struct bad_file bad;       /* with an error: the file, as far as it is known */
	uint64_t changed_us;       /* CLOCK_REALTIME of the newest file; 0: without files */
	char hash[HASH_TEXT_MAX];  /* covers all files: an equal hash needs no new verification */
	bool is_unverified;        /* no fault was found, and no program has accepted them all */
	bool transfer;             /* containerd pulls by its transfer service */
	char mirrors[RUNTIME_MIRRORS_MAX]; /* RUNTIME_MIRRORS in full */
	bool has_mirrors;                  /* the key exists, possibly with an empty list */
	struct runtime_key keys[RUNTIME_SETTINGS];
};

/* ---- the state of one runtime ---- */

enum runtime_answer {
	RUNTIME_ASKED,   /* no answer yet */
	RUNTIME_ANSWERS, /* the last call was answered */
	RUNTIME_SILENT,  /* the last call failed, with why */
};

/* The file system of the images. The driver sets directory, driver and image_bytes. */
struct runtime_store {
	bool known;
	char directory[SETTING_PATH_MAX];
	char driver[64];      /* Docker's storage driver or containerd's snapshotter */
	dev_t number;         /* identifies filesystem and device */
	char filesystem[32];  /* "ext4" */
	char device[64];      /* "sda1"; empty: without a device */
	uint64_t size, used;  /* the file system's; used includes space reserved for root */
	uint64_t image_bytes; /* all images together, as the runtime reports it */
};

/* The network address of a pod, which does not change. */
struct runtime_address {
	char sandbox[72];
	char address[NAMES_ADDRESS_MAX]; /* empty: the host's */
};

struct node_runtime {
	struct runtime found;
	enum runtime_answer answer;
	bool answered_once; /* since the agent started */
	bool no_cri;        /* its CRI plugin is off */
	bool cannot_start;  /* its configuration forbids it; why names the cure */
	char why[RUNTIME_WHY_MAX];
	bool is_stopped;      /* silent, because someone has stopped its unit */
	uint64_t since_us;    /* since when the answer is the same */
	struct daemon daemon; /* config: the default, unless an option names another */

	char reported[RUNTIME_SETTINGS][SETTING_VALUE_MAX]; /* in force, as the runtime reports */
	char in_force[RUNTIME_SETTINGS][SETTING_VALUE_MAX]; /* also inferred from files */
	bool on_command[RUNTIME_SETTINGS]; /* an option of the command line sets it */

	bool files_known; /* files were read at least once */
	/* CLOCK_MONOTONIC: not read before, because they were read too slowly so many times. */
	uint64_t files_due_us;
	unsigned files_slow;
	struct runtime_files files;

	struct runtime_store store;
	char client[RUNTIME_CLIENT_MAX]; /* of runtime_client(): crictl or docker */
	struct pulls pulls;
	uint64_t pulls_at_us; /* when the last answer came; 0: not known */
	uint64_t due_us;      /* when the next slow reading is due */
	/* Pods that run no container: the CRI does not tell which image a pod waits for. */
	struct workload waiting[RUNTIME_WAITING_MAX];
	size_t n_waiting; /* may be more than the array holds */

	/* The agent opens new files of this directory (a full path) for read(). */
	char watch[SETTING_PATH_MAX];
	const char *watch_prefix; /* how their names begin */

	/* State of the driver. */
	union {
		struct {
			struct docker_info info;
			char flags[1024];   /* of the unit's next start: " host log-level " */
			uint64_t events_us; /* CLOCK_REALTIME: earlier ends of pulls are counted */
		} docker;
		struct {
			char namespaces[RUNTIME_NAMESPACES_MAX][64];
			size_t n_namespaces;
			size_t content_turn; /* the next layer without a name to ask for */
			uint64_t blobs_us;   /* CLOCK_REALTIME: earlier blobs are counted */
		} containerd;
	};

	/* A request takes these from the loop, which needs no addresses and passes the names on. */
	struct runtime_addresses {
		struct runtime_address *entries;
		size_t n, allocated;
	} addresses;
	struct runtime_names {
		struct name_entry *entries;
		size_t n, allocated;
		bool fresh; /* this sample has read them; false: unchanged, entries is NULL */
		bool known; /* some sample has */
	} names;
};

/* A file that may be deleted before the next sample: the descriptor still tells its size. */
struct runtime_opened {
	char name[32];
	int fd; /* -1: read() has closed it */
};

/* Parameters and results of read(). */
struct runtime_reading {
	const struct host *host;
	struct node_runtime *runtime;
	struct pull_counts *pulled;    /* all runtimes together */
	struct runtime_opened *opened; /* in the watched directory */
	size_t n_opened;
	const char *socket;
	const struct wait *wait;
	bool slow;      /* also read what rarely changes */
	bool cancelled; /* set by the driver: the reading is incomplete */
};

/* ---- the driver ---- */

struct runtime_driver {
	const char *name; /* "containerd": in settings, messages, and records on disk */

	/* Find. */
	const struct runtime_location
		*locations;     /* ended by {0}; the first row with a socket counts */
	const char *options[3]; /* command-line options that name the main file; ended by NULL */

	/*
	 * Reads version, process, values in force, store, pulls and names into reading->runtime.
	 * Calls runtime_note() first, and runtime_set_process() when it knows the process. Without
	 * a socket it is called only if has_constant_keys is set.
	 */
	void (*read)(struct runtime_reading *reading);

	/*
	 * Reads the configuration files into runtime->files, and values in force where the daemon
	 * does not report them (runtime_infer()). Version and main file are known then. NULL:
	 * settings are unsupported.
	 */
	void (*read_files)(
		struct node_runtime *runtime, const struct host *host, const struct wait *wait);

	/* Keys of the configuration, by enum runtime_setting. */
	struct runtime_key_row keys[RUNTIME_SETTINGS];
	enum edit_format format; /* the files with keys have it */
	bool needs_program;      /* an edit needs the daemon's program */
	bool has_constant_keys;  /* all versions have these keys, even if read() finds no process */
	const struct mirror_format *mirrors; /* NULL: a key holds the mirrors of docker.io */

	/* Verify. Checks that the daemon accepts this terminated text, which is also in the file
	 * path. -EINVAL or -EBADMSG: it refuses. NULL: dump() alone counts. */
	int (*verify)(const struct host *host, const struct daemon *daemon, const char *text,
		size_t len, const char *path, const struct wait *wait,
		char why[static RUNTIME_WHY_MAX]);

	/*
	 * Dumps the effective configuration with `path` as the main file, as TOML; the caller frees
	 * it. Dumps before and after an edit may differ in the edited key only. -EINVAL: the
	 * program refuses the files. NULL: verify() alone counts.
	 */
	int (*dump)(const struct host *host, const struct daemon *daemon, const char *path,
		const struct wait *wait, char **dump, char why[static RUNTIME_WHY_MAX]);

	/*
	 * Makes a main file for dump(): it imports `trial` in place of `path`, which the real one
	 * imports. The caller frees the text.
	 */
	int (*main_file)(const struct host *host, const struct daemon *daemon, const char *path,
		const char *trial, const struct wait *wait, char **text,
		char why[static RUNTIME_WHY_MAX]);

	/*
	 * Finds a value of ours that another program has copied to a file of its own, so that it
	 * stays in force when our file is restored. -EEXIST with why: the file and its line; else
	 * 0. Or NULL.
	 */
	int (*find_copy)(const struct host *host, const struct daemon *daemon, const char *path,
		const char *key, const char *value, const struct wait *wait,
		char why[static RUNTIME_WHY_MAX]);

	/*
	 * Activate. ACTIVATE_RELOAD sends SIGHUP to the daemon's process, if its name is program.
	 * find_process finds the process when no sample has it. await_reload (or NULL) waits until
	 * the daemon has read its files and returns the value of a key that is then in force;
	 * since_us is CLOCK_REALTIME from before the signal. ACTIVATE_RESTART restarts the unit.
	 */
	const char *program;
	int (*find_process)(
		const struct host *host, const char *socket, const struct wait *wait, pid_t *pid);
	int (*await_reload)(const char *socket, uint64_t since_us, const char *key,
		char value[static SETTING_VALUE_MAX], const struct wait *wait);

	/* Images; all NULL: the images are not managed. */
	bool serves_kubelet;       /* by the CRI: preferred on nodes with a kubelet */
	unsigned copies_per_image; /* in its store: 2 if it keeps the compressed layers */
	bool names_registry;       /* tells a mirror the registry: ?ns=REGISTRY */
	bool loads_manifests;      /* load() needs a manifest: a pull follows no nested index */
	bool (*honours_pins)(const char *version); /* NULL: pins are unsupported */

	/*
	 * Reads version, store and sandbox image. -EOPNOTSUPP: it serves no images, the caller
	 * tries the next runtime.
	 */
	int (*read_images_info)(struct image_runtime *runtime, const struct host *host,
		const struct wait *wait, struct image_info *info, char why[static IMAGES_WHY_MAX]);

	/* Finds the mirrors that pulls of a registry ask. Returns their number. NULL: not known. */
	size_t (*find_mirrors)(const struct image_runtime *runtime, const struct host *host,
		const char *registry, struct mirror_access *mirrors, size_t max);

	/* Lists all names of all images; the caller frees the list. */
	int (*list)(const struct image_runtime *runtime, const struct wait *wait,
		struct runtime_image **images, size_t *n, char why[static IMAGES_WHY_MAX]);

	/* Finds an image by its name; pinned is unknown. -ENOENT: there is none. */
	int (*find)(const struct image_runtime *runtime, const char *name, const struct wait *wait,
		struct runtime_image *image, char why[static IMAGES_WHY_MAX]);

	/* Pulls by name, with the runtime's own credentials. progress grows while data arrives. It
	 * stays 0 if the runtime itself ends a pull that makes no progress. */
	int (*pull)(const struct image_runtime *runtime, const char *name, const struct wait *wait,
		_Atomic uint64_t *progress, char why[static IMAGES_WHY_MAX]);

	/*
	 * Loads and unpacks an image of an archive under the archive's name. An image_server on
	 * 127.0.0.1 serves it at reference until the call returns.
	 * clean() removes leftovers of a killed agent. NULL: archives cannot be loaded.
	 */
	int (*load)(const struct image_runtime *runtime, const struct host *host,
		const struct archive_image *image, const char *reference, const struct wait *wait,
		const struct image_server *server, char why[static IMAGES_WHY_MAX]);

	/* Removes leftovers of transfers; not to be called during one. Or NULL. */
	int (*clean)(const struct image_runtime *runtime, const struct wait *wait,
		char why[static IMAGES_WHY_MAX]);

	/* Whether clean() has more to remove than our names in the list. Or NULL. */
	bool (*has_leftovers)(const struct image_runtime *runtime, const struct wait *wait);

	/*
	 * Pins an image against the kubelet's garbage collection, or unpins it. Returns 0 also if
	 * nothing had to change, -ENOENT without such an image. NULL: edit_pins().
	 */
	int (*pin)(const struct image_runtime *runtime, const char *name, bool pinned,
		const struct wait *wait, char why[static IMAGES_WHY_MAX]);

	/*
	 * Makes the text of the file of pins with or without an image, from the text before (NULL:
	 * no file). The caller frees it; NULL: no image is left. -EEXIST: others have changed the
	 * file, or have such a list elsewhere. src/apply/pin.c writes the file and sends a reload.
	 */
	const char *pins_path;
	int (*edit_pins)(const struct host *host, const char *old, const char *name, bool pinned,
		char **text, char why[static IMAGES_WHY_MAX]);
};

/* The names of all drivers, in the order in which they are asked. */
#define RUNTIME_DRIVERS(X) \
	X(containerd)      \
	X(docker)          \
	X(crio)

#define DECLARE_DRIVER(name) extern const struct runtime_driver name##_driver;
RUNTIME_DRIVERS(DECLARE_DRIVER)

/* All drivers, ended by NULL. */
extern const struct runtime_driver *const runtime_drivers[];

/* The choices of runtime.kind: "auto", then the names of runtime_drivers. */
extern const char *const runtime_choices[];

const struct runtime_driver *runtime_driver_find(const char *name);

/* ---- for drivers and their users ---- */

/*
 * Finds the runtimes of the node: those with a socket, and installed units without one. Two names
 * of one socket count once. host_root is "" for /. Returns the number.
 */
size_t runtime_discover(const char *host_root, struct runtime found[static RUNTIME_MAX]);

/*
 * Writes the beginning of a command to type that asks a runtime: program is "crictl", "ctr" or
 * "docker". socket "": that of the program's configuration. False, with an empty text: the node
 * lacks the program, and k3s, which has the first two inside.
 */
bool runtime_client(const struct host *host, const char *program, const char *socket,
	char client[static RUNTIME_CLIENT_MAX]);

/*
 * Reads what the process of a daemon tells: all members of daemon from program on, empty on an
 * error. 0, -ESRCH also for a process in a container and for systemd, or -errno of /proc/PID/stat.
 */
int runtime_process_read(const struct host *host, const struct runtime_driver *driver, pid_t pid,
	struct daemon *daemon);

/*
 * Sends SIGHUP to the daemon's process, unless the pid is now that of another program. pid 0: the
 * driver finds the process. socket is below the host's root. 0, -ESRCH or -errno.
 */
int runtime_reload(const struct host *host, const struct runtime_driver *driver, const char *socket,
	pid_t pid, const struct wait *wait);

/* Notes an answer (NULL), or why the call failed. */
void runtime_note(struct node_runtime *runtime, const char *why);

/*
 * Sets the daemon's process. True for a new process: the values in force of the earlier one are
 * forgotten.
 */
bool runtime_set_process(struct node_runtime *runtime, const struct host *host, pid_t pid);

/* Replaces the names of the runtime, which owns the entries from then on. */
void runtime_set_names(struct node_runtime *runtime, struct runtime_names *names);

/* Returns whether a file changed after the start of the process, which the kernel rounds. */
bool runtime_changed_since(const struct daemon *daemon, uint64_t changed_us);

/*
 * Sets the value in force of a setting to the reported one, or to that of the files if they have
 * not changed since the daemon started. A known value stays until the process ends. otherwise is
 * the default of a key without a value in files.
 */
void runtime_infer(struct node_runtime *runtime, enum runtime_setting setting, uint64_t changed_us,
	const char *reported, const char *otherwise);

/* Formats microseconds as Go does: "30m0s". */
void runtime_duration_text(uint64_t us, char text[static 32]);

/* Parses a Go duration, "30m0s" or "1h30m", as microseconds. 0, -EINVAL or -ERANGE. */
int runtime_duration_parse(const char *text, unsigned long long *us);
