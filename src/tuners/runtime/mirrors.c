/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/file.h"
#include "base/json.h"
#include "runtime/containerd_config.h"

#include <dirent.h>
#include <libgen.h>

#define NONE "none"

/* Until connected to a mirror, before the next one gets its turn. */
#define DIAL_TIMEOUT_MS 3000

/* ---- sample: the hosts.toml of each registry that has mirrors, or is recorded to ---- */

static void read_hosts(const struct host *host, const char *certs, struct runtime_hosts *hosts)
{
	char directories[2][REGISTRY_NAME_MAX], directory[SETTING_PATH_MAX], full[PATH_MAX];
	const struct dirent *entry;
	DIR *entries = NULL;
	_cleanup_free_ char *text = NULL;
	int n = hosts_toml_directories(hosts->registry, directories);
	int r = n < 0 ? n : -ENOENT;
	size_t len = 0;

	/* The first file that is there counts, else the first that would. */
	for (int i = 0; i < n && r == -ENOENT; i++) {
		if (snprintf(hosts->path, SETTING_PATH_MAX, "%s/%s/hosts.toml", certs,
			    directories[i]) >= SETTING_PATH_MAX)
			r = -ENAMETOOLONG;
		else
			r = path_in_root(host->root, hosts->path, full);
		if (r == -ENOTDIR)
			r = -ENOENT;
	}
	if (r == -ENOENT)
		snprintf(hosts->path, SETTING_PATH_MAX, "%s/%s/hosts.toml", certs, directories[0]);
	if (r == 0)
		r = read_file(full, HOSTS_TOML_FILE_MAX, &text, &len);
	hosts->exists = r != -ENOENT && r != -ENAMETOOLONG && r != -EINVAL;
	/* A directory that has certificates is another's: a hosts.toml would switch them off. */
	copy_text(directory, sizeof(directory), hosts->path);
	if (r == -ENOENT && path_in_root(host->root, dirname(directory), full) == 0)
		entries = opendir(full);
	while (entries && !hosts->exists && (entry = readdir(entries)))
		hosts->exists = entry->d_name[0] != '.';
	if (entries)
		closedir(entries);
	hosts->error = r == -ENOENT ? 0 : r;
	hosts->ours = r == 0 && hosts_toml_is_ours(text, len);
	if (!hosts->ours)
		return;
	hash_bytes(text, len, hosts->sum);
	hosts_toml_mirrors(text, hosts->mirrors, sizeof(hosts->mirrors));
}

/* The runtime that reads hosts.toml files; NULL without one. */
static const struct node_runtime *find_reader(const struct runtime_sample *sample)
{
	for (size_t i = 0; i < sample->n; i++)
		if (sample->runtimes[i].found.driver->keys[RUNTIME_HOSTS_DIRECTORY].name &&
			sample->runtimes[i].found.managed_by == RUNTIME_OF_NODE)
			return &sample->runtimes[i];
	return NULL;
}

static void add_registry(struct runtime_sample *sample, const char *registry)
{
	if (!find_named(sample->hosts, sample->n_hosts, registry))
		copy_text(sample->hosts[sample->n_hosts++].registry, REGISTRY_NAME_MAX, registry);
}

void runtime_sample_hosts(struct runtime_tuner *request)
{
	const struct runtime_config *config = &request->config;
	struct runtime_sample *sample = &request->sample;
	const struct node_runtime *runtime = find_reader(sample);
	const char *directories;
	char certs[SETTING_PATH_MAX];

	free(sample->hosts);
	sample->n_hosts = 0;
	sample->hosts =
		must(calloc(config->n_mirrors + request->recorded.n + 1, sizeof(*sample->hosts)));
	/* Where a file goes depends on the configuration: without it nothing is decided yet. */
	if (!runtime || !runtime->files_known)
		return;
	directories = runtime->files.keys[RUNTIME_HOSTS_DIRECTORY].on_disk;
	if (runtime->in_force[RUNTIME_HOSTS_DIRECTORY][0])
		directories = runtime->in_force[RUNTIME_HOSTS_DIRECTORY];
	/* Of several the first. */
	copy_text(
		certs, sizeof(certs), directories[0] ? directories : RUNTIME_HOSTS_DIRECTORY_PATH);
	certs[strcspn(certs, ":")] = '\0';
	for (size_t i = 0; i < config->n_mirrors; i++)
		add_registry(sample, config->mirrors[i].registry);
	/* A registry whose mirrors were taken out of the configuration keeps its record. */
	for (size_t i = 0; i < request->recorded.n; i++)
		add_registry(sample, request->recorded.registries[i]);
	for (size_t i = 0; i < sample->n_hosts; i++)
		read_hosts(request->host, certs, &sample->hosts[i]);
}

/* ---- decisions ---- */

/*
 * The mirrors of a registry that work, or with NULL those that Docker knows: of docker.io and of
 * everything. How many; -EAGAIN when one has not been checked yet.
 */
static int find_up(const struct runtime_tuner *tuner, const char *registry,
	const char *up[static RUNTIME_MIRROR_MAX])
{
	int n = 0;

	for (size_t i = 0; i < tuner->config.n_mirrors; i++) {
		const struct runtime_mirror *configured = &tuner->config.mirrors[i];
		const struct mirror *mirror =
			find_named(tuner->sample.mirrors, tuner->sample.n_mirrors, configured->url);

		if (registry ? !streq(configured->registry, registry)
			     : !streq(configured->registry, HOSTS_TOML_DEFAULT) &&
					!streq(configured->registry, "docker.io"))
			continue;
		if (!mirror || mirror->state == MIRROR_UNKNOWN)
			return -EAGAIN;
		if (mirror->state == MIRROR_UP)
			up[n++] = configured->url;
	}
	return n;
}

static void want_mirror_list(
	const struct runtime_decision *decision, const struct node_runtime *runtime)
{
	const struct runtime_config *config = &decision->tuner->config;
	const struct runtime_files *files = &runtime->files;
	const char *up[RUNTIME_MIRROR_MAX], *obstacle = runtime_obstacle(runtime);
	char name[SETTING_NAME_MAX], wanted[RUNTIME_MIRRORS_MAX] = "", words[RUNTIME_MIRRORS_MAX];
	char *state = NULL;
	int n = find_up(decision->tuner, NULL, up);
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = must(cJSON_CreateArray());
	_cleanup_free_ char *literal = NULL;
	const struct file_record *record;
	struct want *want;

	runtime_name(&decision->tuner->sample, runtime, RUNTIME_MIRRORS, name);
	record = find_named(decision->input->files, decision->input->n_files, name);
	if (n < 0 || (n == 0 && !record))
		return;
	for (int i = 0; i < n; i++)
		registry_list_add(wanted, sizeof(wanted), up[i], strlen(up[i]));
	/*
	 * Mirrors of others stay: neither configured here nor ever written by us. What was written
	 * is known as far as it was shown.
	 */
	for (const char *at = files->mirrors; *at; at += strspn(at, " ")) {
		size_t len = strcspn(at, " ");
		bool ours = record && registry_list_has(record->wanted, at, len) &&
			    !registry_list_has(record->on_disk, at, len);

		for (size_t i = 0; i < config->n_mirrors && !ours; i++)
			ours = strlen(config->mirrors[i].url) == len &&
			       strncmp(config->mirrors[i].url, at, len) == 0;
		if (!ours)
			registry_list_add(wanted, RUNTIME_MIRRORS_MAX, at, len);
		at += len;
	}
	/* dockerd keeps its mirrors when the key is gone: an empty list takes them away. */
	copy_text(words, sizeof(words), wanted);
	for (char *word = strtok_r(words, " ", &state); word; word = strtok_r(NULL, " ", &state))
		json_append_text(list, word);
	literal = must(cJSON_PrintUnformatted(list));
	want = runtime_want(decision, runtime, RUNTIME_MIRRORS, literal);
	registry_shorten_list(wanted[0] ? wanted : NONE, want->wanted, SETTING_VALUE_MAX);
	copy_text(want->actual, SETTING_VALUE_MAX, runtime->in_force[RUNTIME_MIRRORS]);
	if (files->has_mirrors || streq(runtime->in_force[RUNTIME_MIRRORS], NONE))
		registry_shorten_list(files->mirrors[0] ? files->mirrors : NONE,
			want->file->on_disk, SETTING_VALUE_MAX);
	if (obstacle)
		runtime_leave(want, obstacle);
	else if (runtime->on_command[RUNTIME_MIRRORS])
		runtime_leave(want, "on-command-line");
}

static void want_hosts(const struct runtime_decision *decision, const struct node_runtime *runtime,
	const struct runtime_hosts *hosts)
{
	const struct runtime_key *key = &runtime->files.keys[RUNTIME_HOSTS_DIRECTORY];
	const char *up[RUNTIME_MIRROR_MAX];
	char sum[HASH_TEXT_MAX] = "";
	_cleanup_free_ char *text = NULL;
	struct want *want;
	int n = find_up(decision->tuner, hosts->registry, up);

	/* It is not known yet what should be there, or nothing is there and nothing should be. */
	if (n < 0 || (n == 0 && hosts->error == 0 && !hosts->exists))
		return;
	if (n > 0)
		text = hosts_toml_make(up, (size_t)n,
			containerd_is_at_least(runtime->version, 2, 1) ? DIAL_TIMEOUT_MS : 0);
	want = proposal_file(decision->proposal, text);
	snprintf(want->name, sizeof(want->name), "mirrors.%.100s", hosts->registry);
	want->file->target.format = EDIT_OWN;
	copy_text(want->file->target.path, sizeof(want->file->target.path), hosts->path);
	if (text)
		hash_bytes(text, strlen(text), sum);
	hosts_toml_mirrors(text ? text : "", want->wanted, SETTING_VALUE_MAX);
	copy_text(want->file->on_disk, SETTING_VALUE_MAX,
		!hosts->exists ? NONE
		: !hosts->ours ? "of someone else"
			       : hosts->mirrors);
	/* The same mirrors in another text are not what is wanted. */
	if (hosts->ours && streq(want->file->on_disk, want->wanted) && !streq(hosts->sum, sum))
		copy_text(want->file->on_disk, SETTING_VALUE_MAX, "other text");
	copy_text(want->actual, SETTING_VALUE_MAX, want->file->on_disk);
	want->error = hosts->error;
	want->reason = text ? "configured" : "no-mirror-up";
	if (hosts->exists && !hosts->ours)
		runtime_leave(want, "file-of-others");
	else if (runtime->pid == 0)
		runtime_leave(want, "process-not-seen");
	else if (key->refusal == KEY_EXCLUDED)
		runtime_leave(want, "mirrors-without-effect");
}

void runtime_decide_mirrors(const struct runtime_decision *decision)
{
	const struct runtime_sample *sample = &decision->tuner->sample;
	const struct node_runtime *containerd = find_reader(sample);

	for (size_t i = 0; i < sample->n; i++)
		if (sample->runtimes[i].found.driver->keys[RUNTIME_MIRRORS].name &&
			sample->runtimes[i].files_known)
			want_mirror_list(decision, &sample->runtimes[i]);
	for (size_t i = 0; containerd && i < sample->n_hosts; i++)
		want_hosts(decision, containerd, &sample->hosts[i]);
}
