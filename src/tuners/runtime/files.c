/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/file.h"
#include "base/util.h"
#include "runtime/docker_config.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/* Files beside the main one are looked at this often; the main one at each look. */
#define FILES_EVERY_US (10 * USEC_PER_SEC)

DEFINE_CLEANUP(cJSON, cJSON_Delete)

/*
 * Differs when the file was written, replaced or taken away. By ctime: a package, cp -p and rsync
 * give a new file an old mtime.
 */
static uint64_t signature_of(const struct host *host, const char *path, uint64_t *changed_us)
{
	char full[PATH_MAX];
	struct stat st;

	if (path_in_root(host->root, path, full) < 0 || stat(full, &st) < 0)
		return 1;
	*changed_us = MAX(*changed_us,
		(uint64_t)st.st_ctim.tv_sec * USEC_PER_SEC + (uint64_t)st.st_ctim.tv_nsec / 1000);
	return (uint64_t)st.st_ino * 31 + (uint64_t)st.st_size * 7 + (uint64_t)st.st_ctim.tv_nsec +
	       (uint64_t)st.st_ctim.tv_sec * 1000003 + 2;
}

/* The durations of all generations in one form, so that 30m is 30m0s. */
static void canonical_duration(char value[static SETTING_VALUE_MAX])
{
	unsigned long long us;
	char text[32];

	if (!value[0] || containerd_duration_parse(value, &us) < 0)
		return;
	runtime_duration_text(us, text);
	copy_text(value, SETTING_VALUE_MAX, text);
}

static void plan_edits(const struct runtime_config *config, struct runtime_one *one,
	const struct containerd_config *containerd)
{
	char values[CONTAINERD_SETTINGS][32] = {"", "", "/etc/containerd/certs.d"};

	snprintf(values[CONTAINERD_DOWNLOADS], 32, "%u",
		(unsigned)(config->downloads ? config->downloads : 3));
	runtime_duration_text(config->timeout_us ? config->timeout_us : 30 * 60 * USEC_PER_SEC,
		values[CONTAINERD_PROGRESS_TIMEOUT]);
	for (int i = 0; i < CONTAINERD_SETTINGS && one->file_error == 0; i++)
		one->file_error = containerd_config_plan(
			containerd, (enum containerd_setting)i, values[i], &one->edits[i]);
	copy_text(one->on_disk_downloads, SETTING_VALUE_MAX,
		one->edits[CONTAINERD_DOWNLOADS].on_disk);
	copy_text(one->on_disk_timeout, SETTING_VALUE_MAX,
		one->edits[CONTAINERD_PROGRESS_TIMEOUT].on_disk);
	canonical_duration(one->on_disk_timeout);
}

static void read_containerd(
	const struct host *host, const struct runtime_config *config, struct runtime_one *one)
{
	struct containerd_config containerd = {
		.version = one->version, .main_path = one->config_path};
	char culprit[CONTAINERD_CULPRIT_MAX] = "";
	char directory[PATH_MAX];
	int r = containerd_files_read(host->root, one->config_path, &containerd.files, culprit);

	one->file_error = r;
	if (r < 0) {
		snprintf(one->file_why, sizeof(one->file_why), "%s: %s: mend it: it is left alone",
			culprit[0] ? culprit : one->config_path,
			r == -EBADMSG ? "no TOML" : strerror(-r));
		return;
	}
	for (size_t i = 0; i < containerd.files.n; i++)
		signature_of(host, containerd.files.files[i].path, &one->file_changed_us);
	containerd.read_only = host_path(host, one->config_path, directory) &&
			       host_may_write(host, one->config_path) == -EROFS;
	plan_edits(config, one, &containerd);
	containerd_files_clear(&containerd.files);
}

/* ["a", "b"] as words. False when they do not fit: what is cut off must not look like a list. */
static bool words_of_array(const char *json, char words[static SETTING_VALUE_MAX])
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *array = cJSON_Parse(json);
	const cJSON *item;
	size_t used = 0;

	words[0] = '\0';
	cJSON_ArrayForEach (item, array) {
		if (!cJSON_IsString(item))
			continue;
		used += (size_t)snprintf(words + used, SETTING_VALUE_MAX - used, "%s%s",
			used > 0 ? " " : "", item->valuestring);
		if (used >= SETTING_VALUE_MAX)
			return false;
	}
	return true;
}

/* What would make dockerd refuse the file whole is told with its place. */
static int check_docker(struct runtime_one *one, const char *text, size_t len)
{
	struct docker_config_fault fault = {0};
	char key[DOCKER_CONFIG_KEY_MAX];
	int r = docker_config_unknown_key(text, len, one->version, key, &fault);

	if (r == 0)
		return 0;
	if (r == 1)
		snprintf(one->file_why, sizeof(one->file_why),
			"%s:%u:%u: dockerd %s does not know \"%.64s\" and refuses the whole file: "
			"take it out",
			one->config_path, fault.line, fault.column, one->version, key);
	else
		snprintf(one->file_why, sizeof(one->file_why), "%s:%u:%u: %s: mend it",
			one->config_path, fault.line, fault.column,
			fault.message[0] ? fault.message : strerror(-r));
	return r == 1 ? -EBADMSG : r;
}

static void read_docker(const struct host *host, struct runtime_one *one)
{
	_cleanup_free_ char *text = NULL, *mirrors = NULL;
	char full[PATH_MAX];
	size_t len = 0;
	unsigned count;
	int r = path_in_root(host->root, one->config_path, full);

	if (r == 0)
		r = read_file(full, DOCKER_CONFIG_MAX, &text, &len);

	one->on_disk_downloads[0] = one->on_disk_mirrors[0] = '\0';
	one->mirrors_in_file = false;
	one->file_error = r == -ENOENT ? 0 : r;
	if (r < 0 && r != -ENOENT)
		snprintf(one->file_why, sizeof(one->file_why), "%s: %s", one->config_path,
			strerror(-r));
	if (r < 0)
		return;
	one->file_error = check_docker(one, text, len);
	if (one->file_error < 0)
		return;
	if (docker_config_get_count(text, len, "max-concurrent-downloads", &count, NULL) == 0)
		snprintf(one->on_disk_downloads, SETTING_VALUE_MAX, "%u", count);
	one->mirrors_in_file =
		docker_config_get(text, len, "registry-mirrors", &mirrors, NULL) == 0;
	if (one->mirrors_in_file && !words_of_array(mirrors, one->on_disk_mirrors)) {
		one->file_error = -E2BIG;
		snprintf(one->file_why, sizeof(one->file_why),
			"%s: registry-mirrors: more than can be looked at: it is left alone",
			one->config_path);
	}
}

/* Of the main file, and of those that a setting would go to. */
static uint64_t signature_of_all(
	const struct host *host, const struct runtime_one *one, uint64_t *changed_us)
{
	uint64_t signature = signature_of(host, one->config_path, changed_us);

	for (int i = 0; i < CONTAINERD_SETTINGS; i++)
		if (one->edits[i].path[0] && !streq(one->edits[i].path, one->config_path))
			signature =
				signature * 31 + signature_of(host, one->edits[i].path, changed_us);
	return signature;
}

void runtime_files_read(const struct host *host, const struct runtime_config *config,
	struct runtime_one *one, uint64_t now)
{
	uint64_t changed = 0, signature;
	bool restarted = one->inferred_of_us != one->started_us;

	/* Where a key goes depends on the version: without one nothing is decided yet. */
	if (!one->version[0] || !one->config_path[0])
		return;
	signature = signature_of_all(host, one, &changed);
	if (signature == one->file_signature && now < one->file_due_us && !restarted)
		return;
	one->file_due_us = now + FILES_EVERY_US;
	one->file_changed_us = changed;
	one->file_why[0] = '\0';
	if (one->where.kind == RUNTIME_DOCKER)
		read_docker(host, one);
	else if (one->where.kind == RUNTIME_CONTAINERD)
		read_containerd(host, config, one);
	/* Reading may have named further files. */
	one->file_signature = signature_of_all(host, one, &changed);
}
