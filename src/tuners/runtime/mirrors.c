/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/util.h"
#include "runtime/daemon_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define NONE "none"

/* Until connected to a mirror, before the next one gets its turn. */
#define DIAL_TIMEOUT_MS 3000

/* A list of addresses, separated by spaces. */
struct words {
	char text[RUNTIME_LIST_MAX];
};

/* As it is shown; two lists look the same only if they are. */
static void show_words(const struct words *words, char value[static SETTING_VALUE_MAX])
{
	registry_shorten_list(words->text[0] ? words->text : NONE, value, SETTING_VALUE_MAX);
}

/*
 * Mirrors of others in daemon.json: neither configured here nor ever written by us. What was
 * written is known as far as it was shown.
 */
static void add_foreign(const struct runtime_decision *decision, const struct node_runtime *runtime,
	const struct file_record *record, struct words *wanted)
{
	const struct runtime_config *config = decision->config;

	for (const char *at = runtime->docker.mirrors; *at; at += strspn(at, " ")) {
		size_t len = strcspn(at, " ");
		bool ours = record && registry_list_has(record->wanted, at, len) &&
			    !registry_list_has(record->on_disk, at, len);

		for (size_t i = 0; i < config->n_mirrors && !ours; i++)
			ours = strlen(config->mirrors[i].url) == len &&
			       strncmp(config->mirrors[i].url, at, len) == 0;
		if (!ours)
			registry_list_add(wanted->text, sizeof(wanted->text), at, len);
		at += len;
	}
}

/* The list in JSON, for the caller to free. */
static char *json_of(const struct words *words)
{
	struct words copy = *words;
	const char *list[RUNTIME_LIST_MAX / 8];
	char *state = NULL;
	size_t n = 0;

	for (char *word = strtok_r(copy.text, " ", &state); word && n < ARRAY_SIZE(list);
		word = strtok_r(NULL, " ", &state))
		list[n++] = word;
	return docker_config_list(list, n);
}

static int want_docker_mirrors(
	const struct runtime_decision *decision, const struct node_runtime *runtime)
{
	struct file_target target = {.format = EDIT_JSON, .key = "registry-mirrors"};
	const struct runtime_config *config = decision->config;
	_cleanup_free_ char *literal = NULL;
	const struct file_record *record;
	struct words wanted = {0}, on_disk = {0};
	char name[SETTING_NAME_MAX];
	struct file_want *want;
	const char *obstacle;

	snprintf(
		name, sizeof(name), "%s.%s", runtime_prefix(decision->sample, runtime), target.key);
	record = file_record_find(decision->input->files, decision->input->n_files, name);
	for (size_t i = 0; i < config->n_mirrors; i++) {
		const char *url = config->mirrors[i].url;
		const struct mirror *mirror = runtime_find_mirror(decision->sample, url);

		if (!runtime_mirror_is_dockers(&config->mirrors[i]))
			continue;
		if (!mirror || mirror->state == MIRROR_UNKNOWN)
			return 0;
		if (mirror->state == MIRROR_UP)
			registry_list_add(wanted.text, sizeof(wanted.text), url, strlen(url));
	}
	if (!wanted.text[0] && !record)
		return 0;
	add_foreign(decision, runtime, record, &wanted);
	/* dockerd keeps its mirrors when the key is gone: an empty list takes them away. */
	literal = json_of(&wanted);
	copy_text(target.path, sizeof(target.path), runtime->config_path);
	if (!literal || !(want = runtime_want(decision, runtime, name, &target, literal)))
		return -ENOMEM;
	show_words(&wanted, want->wanted);
	copy_text(want->actual, SETTING_VALUE_MAX, runtime->docker_info.mirrors);
	for (const char *at = runtime->docker.mirrors; *at; at += strspn(at, " ")) {
		registry_list_add(on_disk.text, sizeof(on_disk.text), at, strcspn(at, " "));
		at += strcspn(at, " ");
	}
	if (runtime->docker.has_mirrors || streq(runtime->docker_info.mirrors, NONE))
		show_words(&on_disk, want->on_disk);
	obstacle = runtime_obstacle(runtime);
	if (!obstacle && runtime->mirrors_on_command)
		obstacle = "on-command-line";
	if (obstacle)
		runtime_leave(want, obstacle);
	return 0;
}

/*
 * The text of a hosts.toml with the mirrors that work; NULL without one. 1: a mirror has not been
 * checked yet.
 */
static int hosts_text(const struct runtime_decision *decision, const struct node_runtime *runtime,
	const struct runtime_hosts *hosts, char **text)
{
	const struct runtime_config *config = decision->config;
	const char *up[RUNTIME_MIRROR_MAX];
	size_t n = 0;

	for (size_t i = 0; i < config->n_mirrors; i++) {
		const char *url = config->mirrors[i].url;
		const struct mirror *mirror = runtime_find_mirror(decision->sample, url);

		if (!streq(config->mirrors[i].registry, hosts->registry))
			continue;
		if (!mirror || mirror->state == MIRROR_UNKNOWN)
			return 1;
		if (mirror->state == MIRROR_UP)
			up[n++] = url;
	}
	*text = NULL;
	if (n == 0)
		return 0;
	return hosts_toml_write(
		up, n, hosts_toml_knows_dial_timeout(runtime->version) ? DIAL_TIMEOUT_MS : 0, text);
}

/* Why nothing is written to a hosts.toml; NULL: it may be. */
static const char *hosts_obstacle(
	const struct node_runtime *runtime, const struct runtime_hosts *hosts)
{
	const struct containerd_key *key = &runtime->containerd.keys[CONTAINERD_REGISTRY_DIRECTORY];
	const char *reason = NULL;

	if (hosts->exists && !hosts->ours)
		reason = "file-of-others";
	else if (runtime->pid == 0)
		reason = "process-not-seen";
	else if (key->refusal == CONTAINERD_EXCLUDED)
		reason = "mirrors-without-effect";
	return reason;
}

static int want_hosts(const struct runtime_decision *decision, const struct node_runtime *runtime,
	const struct runtime_hosts *hosts)
{
	struct file_target target = {.format = EDIT_OWN};
	_cleanup_free_ char *text = NULL;
	char name[SETTING_NAME_MAX], sum[HASH_TEXT_MAX] = "";
	const char *obstacle = hosts_obstacle(runtime, hosts);
	struct file_want *want;
	int r = hosts_text(decision, runtime, hosts, &text);

	if (r == -ENOMEM)
		return r;
	/* It is not known yet what should be there, or nothing is there and nothing should be. */
	if (r == 1 || (hosts->error == 0 && !hosts->exists && !text))
		return 0;
	snprintf(name, sizeof(name), "mirrors.%.100s", hosts->registry);
	copy_text(target.path, sizeof(target.path), hosts->path);
	want = runtime_want(decision, NULL, name, &target, text);
	if (!want)
		return -ENOMEM;
	if (text)
		hash_bytes(text, strlen(text), sum);
	hosts_toml_mirrors(text ? text : "", want->wanted, SETTING_VALUE_MAX);
	copy_text(want->on_disk, SETTING_VALUE_MAX,
		!hosts->exists ? NONE
		: !hosts->ours ? "of someone else"
			       : hosts->mirrors);
	/* The same mirrors in another text are not what is wanted. */
	if (hosts->ours && streq(want->on_disk, want->wanted) && !streq(hosts->sum, sum))
		copy_text(want->on_disk, SETTING_VALUE_MAX, "other text");
	copy_text(want->actual, SETTING_VALUE_MAX, want->on_disk);
	want->error = hosts->error < 0 ? hosts->error : r;
	want->reason = text ? "configured" : "no-mirror-up";
	if (obstacle)
		runtime_leave(want, obstacle);
	return 0;
}

int runtime_decide_mirrors(const struct runtime_decision *decision)
{
	const struct runtime_sample *sample = decision->sample;
	const struct node_runtime *containerd = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < sample->n; i++) {
		const struct node_runtime *runtime = &sample->runtimes[i];

		if (runtime->found.kind == RUNTIME_DOCKER && runtime->files_known)
			r = want_docker_mirrors(decision, runtime);
		if (runtime->found.kind == RUNTIME_CONTAINERD &&
			runtime->found.managed_by == RUNTIME_OF_NODE && !containerd)
			containerd = runtime;
	}
	for (size_t i = 0; r == 0 && containerd && i < sample->n_hosts; i++)
		r = want_hosts(decision, containerd, &sample->hosts[i]);
	return r;
}
