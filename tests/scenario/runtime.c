/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "tuners/runtime/runtime.h"

#include <errno.h>
#include <stdlib.h>

enum { CONTAINERD, DOCKER, RUNTIMES };

#define RECORDS_MAX 8
#define ITEMS_MAX   8

struct replay {
	struct node_runtime runtimes[RUNTIMES];
	bool found[RUNTIMES];
	struct mirror mirrors[ITEMS_MAX];
	struct runtime_hosts hosts[ITEMS_MAX];
	size_t n_mirrors, n_hosts;
	struct runtime_config config;
	bool once;
	struct runtime_memory memory;
	struct file_record records[RECORDS_MAX];
	size_t n_records;
};

static const char *const cri_tables[] = {"plugins.\"io.containerd.grpc.v1.cri\"", NULL};

static void init_containerd(struct node_runtime *runtime)
{
	static const char *const keys[CONTAINERD_SETTINGS] = {
		"max_concurrent_downloads", "image_pull_progress_timeout", "config_path"};

	runtime->found = (struct runtime){.name = "containerd",
		.kind = RUNTIME_CONTAINERD,
		.socket = "/run/containerd/containerd.sock",
		.unit = "containerd.service",
		.has_socket = true};
	copy_text(runtime->version, sizeof(runtime->version), "1.6.20");
	copy_text(runtime->binary, sizeof(runtime->binary), "/usr/bin/containerd");
	copy_text(
		runtime->config_path, sizeof(runtime->config_path), "/etc/containerd/config.toml");
	copy_text(runtime->downloads, SETTING_VALUE_MAX, "3");
	copy_text(runtime->timeout, SETTING_VALUE_MAX, "5m0s");
	for (int i = 0; i < CONTAINERD_SETTINGS; i++) {
		struct containerd_key *key = &runtime->containerd.keys[i];

		copy_text(key->path, sizeof(key->path), runtime->config_path);
		key->tables = cri_tables;
		key->key = keys[i];
	}
}

static void open_node(void *self)
{
	struct replay *replay = self;

	init_containerd(&replay->runtimes[CONTAINERD]);
	replay->runtimes[DOCKER].found = (struct runtime){.name = "docker",
		.kind = RUNTIME_DOCKER,
		.socket = "/run/docker.sock",
		.unit = "docker.service",
		.has_socket = true};
	copy_text(replay->runtimes[DOCKER].version, 64, "20.10.24");
	copy_text(
		replay->runtimes[DOCKER].config_path, SETTING_PATH_MAX, "/etc/docker/daemon.json");
	copy_text(replay->runtimes[DOCKER].downloads, SETTING_VALUE_MAX, "3");
	copy_text(replay->runtimes[DOCKER].docker_info.mirrors, SETTING_VALUE_MAX, "none");
	for (int i = 0; i < RUNTIMES; i++) {
		replay->runtimes[i].pid = 100 + i;
		replay->runtimes[i].answer = RUNTIME_ANSWERS;
		replay->runtimes[i].answered_once = replay->runtimes[i].files_known = true;
		replay->runtimes[i].since_us = replay->runtimes[i].pulls_at_us = 1;
	}
	replay->config = (struct runtime_config){
		.downloads = 10, .timeout_us = 30 * 60 * USEC_PER_SEC, .restart = RESTART_NEVER};
}

static void close_node(void *self)
{
	runtime_memory_clear(&((struct replay *)self)->memory);
}

/* ---- what a runtime is like ---- */

static bool take_silent(struct scenario *scenario, void *base)
{
	struct node_runtime *runtime = base;

	runtime->answer = RUNTIME_SILENT;
	runtime->since_us = scenario->now_us;
	return scenario_value(scenario, runtime->why, sizeof(runtime->why));
}

static bool take_answers(struct scenario *scenario, void *base)
{
	struct node_runtime *runtime = base;

	runtime->answer = RUNTIME_ANSWERS;
	runtime->since_us = scenario->now_us;
	return true;
}

static bool take_broken(struct scenario *scenario, void *base)
{
	struct node_runtime *runtime = base;
	char why[RUNTIME_WHY_MAX];

	if (!scenario_value(scenario, why, sizeof(why)))
		return false;
	runtime->containerd.error = runtime->docker.error = why[0] ? -EBADMSG : 0;
	copy_text(runtime->containerd.why, sizeof(runtime->containerd.why), why);
	copy_text(runtime->docker.why, sizeof(runtime->docker.why), why);
	return true;
}

static bool take_refused(struct scenario *scenario, void *base)
{
	static const char *const words[] = {
		"-", "no-key", "generated", "read-only", "excluded", "cri-off"};
	struct node_runtime *runtime = base;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!scenario_is(scenario, words[i]))
			continue;
		for (int key = 0; key < CONTAINERD_SETTINGS; key++)
			runtime->containerd.keys[key].refusal = (enum containerd_refusal)i;
		return true;
	}
	return false;
}

static bool take_layer(struct scenario *scenario, void *base)
{
	struct node_runtime *runtime = base;
	struct pull_piece piece = {0};

	if (!scenario_value(scenario, piece.ref, sizeof(piece.ref)) ||
		!scenario_number(scenario, &piece.offset) ||
		!scenario_number(scenario, &piece.total))
		return false;
	runtime->pulls_at_us = scenario->now_us;
	pulls_take(&runtime->pulls, &piece, piece.ref[0] ? 1 : 0, scenario->now_us);
	return true;
}

static bool take_store(struct scenario *scenario, void *base)
{
	struct runtime_store *store = &((struct node_runtime *)base)->store;

	store->known = true;
	copy_text(store->directory, sizeof(store->directory), "/var/lib/images");
	copy_text(store->filesystem, sizeof(store->filesystem), "ext4");
	return scenario_number(scenario, &store->used) && scenario_number(scenario, &store->size);
}

#define ONE    struct node_runtime
#define KEY(i) containerd.keys[i].on_disk

static const struct scenario_word runtime_words[] = {
	WORD_TEXT("version", ONE, version),
	WORD_TEXT("downloads", ONE, downloads),
	WORD_TEXT("timeout", ONE, timeout),
	WORD_TEXT("directory", ONE, directory),
	WORD_TEXT("mirrors", ONE, docker_info.mirrors),
	WORD_TEXT("file-downloads", ONE, KEY(CONTAINERD_DOWNLOADS)),
	WORD_TEXT("file-timeout", ONE, KEY(CONTAINERD_PROGRESS_TIMEOUT)),
	WORD_TEXT("file-directory", ONE, KEY(CONTAINERD_REGISTRY_DIRECTORY)),
	WORD_TEXT("json-downloads", ONE, docker.downloads),
	WORD_TEXT("json-mirrors", ONE, docker.mirrors),
	WORD_CONST("has-mirrors", ONE, docker.has_mirrors, true),
	WORD_CONST("on-command", ONE, downloads_on_command, true),
	WORD_CONST("mirrors-on-command", ONE, mirrors_on_command, true),
	WORD_CONST("not-seen", ONE, pid, 0),
	WORD_CONST("seen", ONE, pid, 100),
	WORD_CONST("no-socket", ONE, found.has_socket, false),
	WORD_CONST("never-answered", ONE, answered_once, false),
	WORD_CONST("of-k3s", ONE, found.managed_by, RUNTIME_OF_K8S),
	WORD_CALL("silent", take_silent),
	WORD_CALL("answers", take_answers),
	WORD_CALL("broken", take_broken),
	WORD_CALL("refused", take_refused),
	WORD_CALL("layer", take_layer),
	WORD_CALL("store", take_store),
	{0},
};

static bool take_containerd(struct scenario *scenario, void *base)
{
	struct replay *replay = base;

	replay->found[CONTAINERD] = true;
	return scenario_take(scenario, runtime_words, &replay->runtimes[CONTAINERD]);
}

static bool take_docker(struct scenario *scenario, void *base)
{
	struct replay *replay = base;

	replay->found[DOCKER] = true;
	return scenario_take(scenario, runtime_words, &replay->runtimes[DOCKER]);
}

/* ---- mirrors and their files ---- */

static bool take_mirror(struct scenario *scenario, void *base)
{
	static const char *const states[] = {"unknown", "up", "down"};
	struct replay *replay = base;
	char url[REGISTRY_URL_MAX];
	size_t i = 0;

	if (!scenario_value(scenario, url, sizeof(url)))
		return false;
	while (i < replay->n_mirrors && !streq(replay->mirrors[i].url, url))
		i++;
	replay->n_mirrors = MAX(replay->n_mirrors, i + 1);
	copy_text(replay->mirrors[i].url, REGISTRY_URL_MAX, url);
	for (size_t state = 0; state < ARRAY_SIZE(states); state++)
		if (scenario_is(scenario, states[state])) {
			replay->mirrors[i].state = (enum mirror_state)state;
			return true;
		}
	return false;
}

/* `hosts REGISTRY absent|others|URL...`: what its hosts.toml is. */
static bool take_hosts(struct scenario *scenario, void *base)
{
	struct replay *replay = base;
	const char *urls[ITEMS_MAX];
	char registry[REGISTRY_NAME_MAX], *text;
	struct runtime_hosts *hosts;
	size_t i = 0, n = 0;

	if (!scenario_value(scenario, registry, sizeof(registry)))
		return false;
	while (i < replay->n_hosts && !streq(replay->hosts[i].registry, registry))
		i++;
	replay->n_hosts = MAX(replay->n_hosts, i + 1);
	hosts = &replay->hosts[i];
	*hosts = (struct runtime_hosts){0};
	copy_text(hosts->registry, sizeof(hosts->registry), registry);
	snprintf(hosts->path, sizeof(hosts->path), "/etc/containerd/certs.d/%.100s/hosts.toml",
		registry);
	if (scenario_is(scenario, "absent"))
		return true;
	hosts->exists = true;
	if (scenario_is(scenario, "others"))
		return true;
	hosts->ours = true;
	while (n < ITEMS_MAX && (urls[n] = scenario_word(scenario)))
		n++;
	if (hosts_toml_write(urls, n, 0, &text) < 0)
		return false;
	hash_bytes(text, strlen(text), hosts->sum);
	hosts_toml_mirrors(text, hosts->mirrors, sizeof(hosts->mirrors));
	free(text);
	return true;
}

static const struct scenario_word at[] = {
	WORD_CALL("containerd", take_containerd),
	WORD_CALL("docker", take_docker),
	WORD_CALL("mirror", take_mirror),
	WORD_CALL("hosts", take_hosts),
	{0},
};

/* ---- configuration and records ---- */

static bool take_configured_mirror(struct scenario *scenario, void *base)
{
	struct runtime_config *config = &((struct replay *)base)->config;
	struct runtime_mirror *mirror = &config->mirrors[config->n_mirrors++];

	return scenario_value(scenario, mirror->registry, sizeof(mirror->registry)) &&
	       scenario_value(scenario, mirror->url, sizeof(mirror->url));
}

static const struct scenario_word config[] = {
	WORD_NUMBER("downloads", struct replay, config.downloads),
	WORD_CONST("exact", struct replay, config.downloads_exact, true),
	WORD_NUMBER("timeout-us", struct replay, config.timeout_us),
	WORD_CONST("restart-now", struct replay, config.restart, RESTART_NOW),
	WORD_CONST("command", struct replay, once, true),
	WORD_CALL("mirror", take_configured_mirror),
	{0},
};

/* `file-record NAME ORIGINAL ON-DISK BEFORE WANTED` replaces one of that name. */
static bool take_record(struct scenario *scenario, void *base)
{
	struct replay *replay = base;
	struct file_record record = {.tuner = "runtime"};
	size_t i = 0;

	if (!scenario_value(scenario, record.name, sizeof(record.name)) ||
		!scenario_value(scenario, record.original, SETTING_VALUE_MAX) ||
		!scenario_value(scenario, record.on_disk, SETTING_VALUE_MAX) ||
		!scenario_value(scenario, record.before, SETTING_VALUE_MAX) ||
		!scenario_value(scenario, record.wanted, SETTING_VALUE_MAX))
		return false;
	while (i < replay->n_records && !streq(replay->records[i].name, record.name))
		i++;
	if (i == RECORDS_MAX)
		return false;
	replay->n_records = MAX(replay->n_records, i + 1);
	replay->records[i] = record;
	return true;
}

static const struct scenario_word lines[] = {WORD_CALL("file-record", take_record), {0}};

static int decide(void *self, const struct decide_input *given, struct proposal *proposal)
{
	struct replay *replay = self;
	struct decide_input input = *given;
	struct node_runtime runtimes[RUNTIMES];
	struct runtime_sample sample = {.runtimes = runtimes,
		.mirrors = replay->mirrors,
		.n_mirrors = replay->n_mirrors,
		.hosts = replay->hosts,
		.n_hosts = replay->n_hosts,
		.now_us = given->now_us};
	struct runtime_decision decision = {.sample = &sample,
		.config = &replay->config,
		.once = replay->once,
		.input = &input,
		.memory = &replay->memory,
		.proposal = proposal};

	input.files = replay->records;
	input.n_files = replay->n_records;
	for (int i = 0; i < RUNTIMES; i++)
		if (replay->found[i])
			runtimes[sample.n++] = replay->runtimes[i];
	return runtime_decide(&decision);
}

const struct scenario_tuner runtime_scenario = {
	.name = "runtime",
	.size = sizeof(struct replay),
	.at = at,
	.config = config,
	.line = lines,
	.open = open_node,
	.close = close_node,
	.decide = decide,
};
