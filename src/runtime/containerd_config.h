/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RUNTIME_CONTAINERD_CONFIG_H
#define RUNTIME_CONTAINERD_CONFIG_H

/*
 * Where containerd keeps what this program sets, for each generation of it: which file, table and
 * key, and whether a file of our own beside the main one would do. Texts in, a decision out; only
 * containerd_files_read() looks at files, and nothing here changes one.
 *
 * From containerd's own source, cmd/containerd/server/config/config.go (1.x:
 * services/server/config) and its plugins' configurations, and tried out with 1.6.20 and 2.4.2:
 * - 1.x: a section of a file that `imports` names replaces that section of the main file whole.
 *   So the key has to go where the section is that counts.
 * - 2.x: sections merge key by key, the file read last wins. Only an `imports` that stands in a
 * file is followed: the /etc/containerd/conf.d that 2.2 and later print as their default is not
 * read unless the main file names it.
 * - 2.0 to 2.2 take the whole configuration to have the version of the file read last: a version 3
 *   beside a main file of version 2 would leave that file's CRI section unread. So our own file has
 *   no version: it takes that of the files before it. 2.3 and later migrate each file by itself.
 * - A version above the daemon's own prevents its start.
 */

#include <stdbool.h>
#include <stddef.h>

#include <headroom/setting.h>

#define CONTAINERD_MAIN_FILE "/etc/containerd/config.toml"
#define CONTAINERD_DROP_IN   "99-headroom.toml"

#define CONTAINERD_FILES_MAX 32                /* of one configuration */
#define CONTAINERD_FILE_MAX  ((size_t)1 << 20) /* bytes */

/* A file of the configuration. */
struct containerd_file {
	char path[SETTING_PATH_MAX]; /* as containerd names it, without the host's root */
	char *text;                  /* terminated */
	size_t len;
	bool read_only; /* of a read-only file system */
};

/* All of them in the order that containerd reads them, the main file first. */
struct containerd_files {
	struct containerd_file *files;
	size_t n;
};

/*
 * Reads the main file (an absolute path, below root) and all that it imports, as containerd would.
 * 0, with n = 0 when there is no main file. -EBADMSG when one is no TOML: culprit, which may be
 * NULL, has its path, line and column. -E2BIG for more than CONTAINERD_FILES_MAX; -EFBIG; -errno of
 * reading the one in culprit. Freed with containerd_files_clear().
 */
#define CONTAINERD_CULPRIT_MAX (SETTING_PATH_MAX + 128)
int containerd_files_read(const char *root, const char *main_path, struct containerd_files *files,
	char culprit[static CONTAINERD_CULPRIT_MAX]);
void containerd_files_clear(struct containerd_files *files);

enum containerd_setting {
	CONTAINERD_DOWNLOADS,          /* layers at once; a count */
	CONTAINERD_PROGRESS_TIMEOUT,   /* a pull without progress for so long fails; 30m */
	CONTAINERD_REGISTRY_DIRECTORY, /* where hosts.toml files are; /etc/containerd/certs.d */
	CONTAINERD_SETTINGS,
};

/* Where a setting goes, and how. */
enum containerd_method {
	CONTAINERD_IN_PLACE,    /* one key of a file that someone else keeps */
	CONTAINERD_OWN_FILE,    /* a key of a file of our own, which the main file imports */
	CONTAINERD_UNSUPPORTED, /* why says why not */
};

/* Why not. Each has a sentence with the file's name in struct containerd_edit. */
enum containerd_refusal {
	CONTAINERD_FINE,
	CONTAINERD_UNKNOWN_VERSION, /* older than 1.6, or no version at all */
	CONTAINERD_NO_SUCH_KEY,     /* this version does not know the key */
	CONTAINERD_GENERATED, /* another program writes this file anew: k3s, RKE2, dockerd, ... */
	CONTAINERD_READ_ONLY, /* the file is on a read-only file system */
	CONTAINERD_EXCLUDED,  /* other keys of the configuration forbid it: registry.mirrors */
	CONTAINERD_CRI_OFF,   /* disabled_plugins has the CRI plugin: nobody reads the key */
	CONTAINERD_NOT_TOML,  /* the file cannot be understood, or is of a version that is none */
};

struct containerd_edit {
	enum containerd_method method;
	enum containerd_refusal refusal;
	char why[SETTING_PATH_MAX + 160]; /* the sentence, empty when supported */

	char path[SETTING_PATH_MAX]; /* the file; without the host's root */
	char table[128];             /* for toml_set() and its like */
	char key[64];
	char literal[SETTING_VALUE_MAX]; /* the wanted value as TOML spells it */
	char begin[160]; /* what a file that is to be made begins with; empty when it is there */

	char on_disk[SETTING_VALUE_MAX];   /* what stands in that file; empty for nothing */
	char effective[SETTING_VALUE_MAX]; /* what the dump has; empty without a dump */
	char effective_path[200]; /* the key's full name in the dump: to be allowed to differ */
};

/* What is known of a containerd. */
struct containerd_config {
	const char *version;   /* as it tells it: "1.6.20~ds1", "v2.1.4" */
	const char *main_path; /* absolute: CONTAINERD_MAIN_FILE, or what it was started with */
	struct containerd_files files;
	const char *dump; /* what `containerd -c main_path config dump` says; NULL when not known */
	bool read_only;   /* the main file's directory is of a read-only file system */
};

/*
 * Decides where a setting goes. 0 with edit written, also for what is unsupported; -EINVAL for a
 * value that is none, -ENAMETOOLONG, -ENOMEM. The value is text as in the configuration: 10, 30m, a
 * path. The directory of a file that is to be made may be missing too.
 */
int containerd_config_plan(const struct containerd_config *config, enum containerd_setting setting,
	const char *value, struct containerd_edit *edit);

/*
 * The main file's text for a dry run of a drop-in: as it is, but importing that path last. To be
 * put beside the main file, because relative imports are relative to it. Freed by the caller.
 */
int containerd_trial_main(const char *main_text, size_t len, const char *drop_in_path, char **text);

/*
 * Compares two texts of `containerd config dump`, key by key, whatever their order and spelling.
 * 0 when they differ in the allowed keys (full names as edit->effective_path) at most, 1 with
 * difference: "plugins....key would go", which tells no values; -EBADMSG when one is no TOML,
 * -ENOMEM. `imports` may differ: 1.x puts the names of all files that it read there, in no order.
 */
#define CONTAINERD_DIFFERENCE_MAX 512
int containerd_dump_differs(const char *old_dump, const char *new_dump, const char *const *allowed,
	size_t n_allowed, char difference[static CONTAINERD_DIFFERENCE_MAX]);

/* Duration as Go prints and reads it, "30m0s", "1h30m", as microseconds. -EINVAL, -ERANGE. */
int containerd_duration_parse(const char *text, unsigned long long *us);

#endif
