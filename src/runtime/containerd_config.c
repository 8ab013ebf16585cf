/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd_config.h"

#include "base/toml.h"

#define OURS "# Added by headroom; \"headroom restore\" removes it.\n"

#define CRI_1    "plugins.cri"
#define CRI_2    "plugins.\"io.containerd.grpc.v1.cri\""
#define IMAGES   "plugins.\"io.containerd.cri.v1.images\""
#define TRANSFER "plugins.\"io.containerd.transfer.v1.local\""

/*
 * An empty config_path of 2.2 and later: plugins/cri/images/plugin.go. The transfer service uses it
 * as the name of one directory (tried with 2.4.2).
 */
#define DEFAULT_DIRECTORIES "/etc/containerd/certs.d:/etc/docker/certs.d"

/* Tables of each key: 1.x does not know the first, 2.x still reads the others. */
static const struct {
	const char *sub, *key;
	const char *const tables[4];
} settings[] = {
	[RUNTIME_DOWNLOADS] = {"", "max_concurrent_downloads", {IMAGES, CRI_2, CRI_1}},
	[RUNTIME_PROGRESS_TIMEOUT] = {"", "image_pull_progress_timeout", {IMAGES, CRI_2, CRI_1}},
	[RUNTIME_HOSTS_DIRECTORY] = {".registry", "config_path",
		{IMAGES ".registry", CRI_2 ".registry", CRI_1 ".registry"}},
};
static const char *const transfer_tables[] = {TRANSFER, NULL};

/* Versions that a test (a_mirror_in_sync_is_asked) has shown to ask the mirrors of hosts.toml. */
static const unsigned mirrors_shown[][2] = {{1, 6}, {1, 7}, {2, 0}, {2, 1}, {2, 2}, {2, 3}, {2, 4}};

/* Files that another program writes again at each start. */
static const struct {
	const char *path; /* a part of it */
	const char *text; /* in a comment at the file's start */
	const char *cure;
} generated[] = {
	{"/rancher/", NULL, "k3s and RKE2 write it: use config.toml.tmpl beside it"},
	{"/snap.docker/", NULL, "dockerd writes it: use Docker's daemon.json"},
	{"/docker/containerd/", NULL, "dockerd writes it: use Docker's daemon.json"},
	{"/microk8s/", NULL, "MicroK8s writes it: use containerd-template.toml beside it"},
	{"/run/k0s/", NULL, "k0s writes it: use /etc/k0s/containerd.d"},
	{NULL, "k0s_managed=true", "k0s writes it: use /etc/k0s/containerd.d"},
	{NULL, "DO NOT EDIT", "it is generated: change its source"},
};

#define COMMENT_MAX 512 /* bytes */

struct containerd_reading {
	const struct host *host;
	const struct daemon *daemon;
	struct containerd_files files;
	char *dump;
	const char *cri; /* the dump's table for images */
	bool merges;     /* 2.x */
	struct runtime_files *config;
};

static void reading_clear(struct containerd_reading *reading)
{
	containerd_files_clear(&reading->files);
	free(reading->dump);
}

/* ---- the dump ---- */

static bool dump_is(const struct containerd_reading *reading, const char *key, const char *wanted)
{
	char name[TOML_NAME_MAX], value[SETTING_VALUE_MAX];

	snprintf(name, sizeof(name), "%s.%s", reading->cri, key);
	return toml_lookup(reading->dump, name, value, sizeof(value)) && streq(value, wanted);
}

/* Whether the table cri + sub of the dump has an item with `part` in its name. */
static bool has_below(const struct containerd_reading *reading, const char *sub, const char *part)
{
	struct toml_scan scan = {.text = reading->dump, .len = strlen(reading->dump)};
	struct toml_item item;
	char table[TOML_NAME_MAX];
	size_t n = (size_t)snprintf(table, sizeof(table), "%s%s", reading->cri, sub);

	while (toml_next(&scan, &item) > 0)
		if (strncmp(item.table, table, n) == 0 &&
			(item.table[n] == '.' || (item.table[n] == '\0' && !item.header)) &&
			(strstr(item.table + n, part) || streq(item.key, part + (part[0] == '.'))))
			return true;
	return false;
}

static bool has_old_registries(const struct containerd_reading *reading)
{
	return has_below(reading, ".registry.mirrors", "") ||
	       has_below(reading, ".registry.configs", "") ||
	       has_below(reading, ".registry.auths", "");
}

static bool cri_is_off(const struct containerd_reading *reading)
{
	static const char *const names[] = {
		"cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images"};
	const char *dump = reading->dump;
	char plugin[128];
	struct toml_item item;
	size_t at = 0;

	if (toml_find(dump, strlen(dump), "", "disabled_plugins", &item, NULL) < 0)
		return false;
	while (toml_next_string(dump, &item, &at, plugin, sizeof(plugin)))
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (streq(plugin, names[i]))
				return true;
	return false;
}

bool containerd_is_at_least(const char *version, unsigned major, unsigned minor)
{
	unsigned is_major, is_minor;

	return sscanf(version, version[0] == 'v' ? "v%3u.%3u" : "%3u.%3u", &is_major, &is_minor) ==
		       2 &&
	       (is_major > major || (is_major == major && is_minor >= minor));
}

static bool is_shown_to_ask_mirrors(const char *version)
{
	for (size_t i = 0; i < ARRAY_SIZE(mirrors_shown); i++)
		if (containerd_is_at_least(version, mirrors_shown[i][0], mirrors_shown[i][1]) &&
			!containerd_is_at_least(
				version, mirrors_shown[i][0], mirrors_shown[i][1] + 1))
			return true;
	return false;
}

/* ---- keys ---- */

/* In 2.x the last file with a key sets it, in 1.x the last file with the plugin's section. */
static bool sets_key(const struct containerd_reading *reading, const struct containerd_file *file,
	const struct runtime_key *key)
{
	struct toml_scan scan = {.text = file->text, .len = file->len};
	struct toml_item item;

	if (!file->text)
		return false;
	for (const char *const *table = key->tables; reading->merges && *table; table++)
		if (toml_find(file->text, file->len, *table, key->key, &item, NULL) != -ENOENT)
			return true;
	while (!reading->merges && toml_next(&scan, &item) > 0)
		if (starts_with(item.table, CRI_1 ".") || streq(item.table, CRI_1) ||
			starts_with(item.table, CRI_2) || streq(item.key, "cri") ||
			streq(item.key, "\"io.containerd.grpc.v1.cri\""))
			return true;
	return false;
}

/* The first refusal counts. */
static void PRINTF_LIKE(3, 4)
	refuse(struct runtime_key *key, enum runtime_refusal refusal, const char *format, ...)
{
	va_list args;

	if (key->refusal != KEY_EDITABLE)
		return;
	key->refusal = refusal;
	va_start(args, format);
	vsnprintf(key->why, sizeof(key->why), format, args);
	va_end(args);
}

static void read_key(const struct containerd_reading *reading, enum runtime_setting setting)
{
	const struct daemon *daemon = reading->daemon;
	struct runtime_key *key = &reading->config->keys[setting];
	const struct containerd_file *file = &reading->files.files[reading->files.n - 1];
	const struct containerd_file *own = &reading->files.files[0];
	bool transfer = setting == RUNTIME_DOWNLOADS && reading->config->transfer;
	bool directory = setting == RUNTIME_HOSTS_DIRECTORY;
	const char *cure, *excluding = NULL;

	*key = (struct runtime_key){.key = settings[setting].key,
		.tables = transfer ? transfer_tables
				   : settings[setting].tables + (reading->merges ? 0 : 1)};
	snprintf(key->dump_key, sizeof(key->dump_key), "%s%s.%s",
		transfer ? TRANSFER : reading->cri, settings[setting].sub, key->key);
	if (cri_is_off(reading))
		refuse(key, KEY_CRI_OFF, "%s: disabled_plugins has the CRI plugin", daemon->config);
	else if (!toml_lookup(reading->dump, key->dump_key, key->on_disk, sizeof(key->on_disk)))
		refuse(key, KEY_UNKNOWN, "containerd %s has no %s", daemon->version, key->key);
	if (directory && has_below(reading, ".registry.mirrors", ""))
		excluding = "registry.mirrors";
	else if (directory && !reading->merges && has_below(reading, ".registry.configs", ".tls"))
		excluding = "tls in registry.configs";
	if (directory && reading->config->transfer && strchr(key->on_disk, ':'))
		refuse(key, KEY_EXCLUDED,
			"%s: pulls use a list of directories in config_path as one name: name one "
			"directory, or set use_local_image_pull = true",
			daemon->config);
	if (directory && !is_shown_to_ask_mirrors(daemon->version))
		refuse(key, KEY_EXCLUDED,
			"no test has shown that containerd %s asks mirrors: write its hosts.toml "
			"yourself, or see if a newer Headroom knows this version",
			daemon->version);
	if (excluding)
		refuse(key, KEY_EXCLUDED,
			"%s: %s excludes config_path: move it to hosts.toml files", daemon->config,
			excluding);
	if (directory && !key->on_disk[0] && containerd_is_at_least(daemon->version, 2, 2) &&
		!reading->config->transfer && !has_old_registries(reading))
		set_text(key->on_disk, DEFAULT_DIRECTORIES);
	/* Edit our own file or the main file, unless a later file sets the key. */
	if (reading->merges)
		own += reading->files.own;
	while (file > own && !sets_key(reading, file, key))
		file--;
	key->base = own > reading->files.files ? OURS
		    : reading->merges          ? OURS "version = 3\n"
					       : OURS "version = 2\n";
	set_text(key->path, file->path);
	cure = strstr(daemon->version, "-k3s") ? generated[0].cure : NULL;
	if (reading->merges && (cure || strstr(file->path, generated[0].path)))
		cure = "k3s and RKE2 write it: add a file to config-v3.toml.d beside it";
	for (size_t i = 0; !cure && i < ARRAY_SIZE(generated); i++)
		if ((generated[i].path && strstr(file->path, generated[i].path)) ||
			(generated[i].text && file->text && file->text[0] == '#' &&
				memmem(file->text, MIN(file->len, (size_t)COMMENT_MAX),
					generated[i].text, strlen(generated[i].text))))
			cure = generated[i].cure;
	if (cure)
		refuse(key, KEY_GENERATED, "%s: %s", key->path, cure);
	else if (host_may_write(reading->host, key->path) == -EROFS)
		refuse(key, KEY_READ_ONLY, "%s is on a read-only file system", key->path);
}

/* Without a main file containerd uses its defaults. */
static int read_dump(struct containerd_reading *reading, const struct wait *wait)
{
	const struct daemon *daemon = reading->daemon;
	struct runtime_files *config = reading->config;
	char why[RUNTIME_WHY_MAX], version[SETTING_VALUE_MAX];
	int r;

	if (!daemon->program[0]) {
		set_text(config->why, "containerd's process is not visible: left alone");
		return -ESRCH;
	}
	r = containerd_check_program(reading->host, daemon, wait, why);
	if (r == 0)
		r = containerd_dump(reading->host, daemon,
			reading->files.files[0].text ? daemon->config : NULL, wait, &reading->dump,
			why);
	if (r < 0) {
		snprintf(config->why, sizeof(config->why),
			r == -EINVAL ? "%s: %.200s: left alone" : "%s: %.260s", daemon->config,
			why);
		return r == -EINVAL ? -EBADMSG : r;
	}
	containerd_files_filter(&reading->files, daemon, reading->dump);
	reading->cri = IMAGES;
	reading->merges = has_below(reading, "", "");
	reading->cri = reading->merges ? IMAGES : CRI_2;
	/* 1.x ignores parts of a file for 2.x. */
	for (size_t i = 0; !reading->merges && i < reading->files.n; i++) {
		const struct containerd_file *file = &reading->files.files[i];

		if (!file->text || !toml_lookup(file->text, "version", version, sizeof(version)) ||
			atoi(version) <= 2)
			continue;
		snprintf(config->why, sizeof(config->why),
			"%.160s: version %.16s is newer than containerd %.32s reads: left alone",
			file->path, version, daemon->version);
		return -EBADMSG;
	}
	return 0;
}

void containerd_config_read(const struct host *host, const struct daemon *daemon,
	const struct wait *wait, struct runtime_files *config)
{
	_cleanup_(reading_clear) struct containerd_reading reading = {
		.host = host, .daemon = daemon, .config = config};
	char hash[HASH_TEXT_MAX] = "", why[RUNTIME_WHY_MAX] = "";
	_cleanup_free_ char *all = NULL;
	size_t len = 0;
	FILE *out;
	int r = containerd_files_read(host, daemon, &reading.files, why);

	config->changed_us = reading.files.changed_us;
	if (r < 0) {
		snprintf(config->why, sizeof(config->why), "%.300s: left alone", why);
		config->error = r;
		config->hash[0] = '\0';
		return;
	}
	out = must(open_memstream(&all, &len));
	fprintf(out, "%s %s %s", daemon->program, daemon->version, daemon->directory);
	for (size_t i = 0; i < reading.files.n; i++) {
		const struct containerd_file *file = &reading.files.files[i];

		fprintf(out, "\n%s %zu\n", file->path, file->len);
		fwrite(file->text ? file->text : "", 1, file->len, out);
	}
	fclose(out);
	hash_bytes(must(all), len, hash);
	if (streq(hash, config->hash))
		return;
	*config = (struct runtime_files){.changed_us = reading.files.changed_us};
	config->error = read_dump(&reading, wait);
	/* Keep the result, even a refusal, until a file changes, unless containerd did not run. */
	if (config->error == 0 || config->error == -EBADMSG)
		memcpy(config->hash, hash, sizeof(hash));
	if (config->error < 0)
		return;
	/*
	 * 2.1 and later pull with the transfer service and its key, unless an option needs the CRI
	 * plugin: CheckLocalImagePullConfigs in internal/cri/config/config.go.
	 */
	config->transfer = reading.merges && dump_is(&reading, "use_local_image_pull", "false") &&
			   dump_is(&reading, "max_concurrent_downloads", "3") &&
			   !dump_is(&reading, "disable_snapshot_annotations", "false") &&
			   !dump_is(&reading, "discard_unpacked_layers", "true") &&
			   !dump_is(&reading, "image_pull_with_sync_fs", "true") &&
			   !has_old_registries(&reading);
	for (int i = 0; i <= RUNTIME_HOSTS_DIRECTORY; i++) {
		read_key(&reading, (enum runtime_setting)i);
		/* The file system may become writable without a change of the files. */
		if (config->keys[i].refusal == KEY_READ_ONLY)
			config->hash[0] = '\0';
	}
}
