/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include "tuners/runtime/runtime.h"
#include "workload/facts.h"

#define ITEMS_MAX 8
#define MAIN_FILE "/etc/containerd/config.toml"

static const char *const cri_tables[] = {"plugins.\"io.containerd.grpc.v1.cri\"", NULL};

/* The runtimes of a fresh node. */
static const struct node_runtime fresh_containerd = {
	.found = {.name = "containerd",
		.driver = &containerd_driver,
		.socket = "/run/containerd/containerd.sock",
		.config = MAIN_FILE,
		.unit = "containerd.service",
		.has_socket = true},
	.daemon = {.driver = "containerd",
		.unit = "containerd.service",
		.socket = "/run/containerd/containerd.sock",
		.version = "1.6.20",
		.program = "/usr/bin/containerd",
		.config = MAIN_FILE},
	.client = "crictl -r unix:///run/containerd/containerd.sock",
	.in_force[RUNTIME_PROGRESS_TIMEOUT] = "5m0s",
	.files.keys = {{.path = MAIN_FILE, .tables = cri_tables, .key = "max_concurrent_downloads"},
		{.path = MAIN_FILE, .tables = cri_tables, .key = "image_pull_progress_timeout"},
		{.path = MAIN_FILE, .tables = cri_tables, .key = "config_path"}}};

static const struct node_runtime fresh_docker = {.found = {.name = "docker",
							 .driver = &docker_driver,
							 .socket = "/run/docker.sock",
							 .config = "/etc/docker/daemon.json",
							 .unit = "docker.service",
							 .has_socket = true},
	.daemon = {.driver = "docker",
		.unit = "docker.service",
		.socket = "/run/docker.sock",
		.version = "20.10.24",
		.config = "/etc/docker/daemon.json"},
	.client = "docker",
	.in_force[RUNTIME_MIRRORS] = "none"};

static struct facts facts;

static void open_node(void *self)
{
	struct runtime_tuner *tuner = self;

	tuner->facts = &facts;
	tuner->sample.runtimes = calloc(RUNTIME_MAX, sizeof(*tuner->sample.runtimes));
	tuner->sample.files = calloc(ITEMS_MAX, sizeof(*tuner->sample.files));
	tuner->config.numbers[RUNTIME_DOWNLOADS].value = 10;
	tuner->config.numbers[RUNTIME_PROGRESS_TIMEOUT].value = 30 * 60 * USEC_PER_SEC;
}

static void close_node(void *self, void *)
{
	runtime_sample_clear(&((struct runtime_tuner *)self)->sample);
}

/* ---- the state of a runtime ---- */

static bool parse_silent(struct scenario *scenario, void *base)
{
	struct node_runtime *runtime = base;

	runtime->answer = RUNTIME_SILENT;
	runtime->since_us = scenario->now_us;
	return scenario_value(scenario, runtime->why, sizeof(runtime->why));
}

static bool parse_answers(struct scenario *scenario, void *base)
{
	struct node_runtime *runtime = base;

	runtime->answer = RUNTIME_ANSWERS;
	runtime->since_us = scenario->now_us;
	return true;
}

static bool parse_broken(struct scenario *scenario, void *base)
{
	struct node_runtime *runtime = base;
	char why[RUNTIME_WHY_MAX];

	if (!scenario_value(scenario, why, sizeof(why)))
		return false;
	runtime->files.error = why[0] ? -EBADMSG : 0;
	for (int i = 0; i < RUNTIME_SETTINGS && runtime->found.driver == &containerd_driver; i++)
		runtime->files.keys[i].tables = why[0] ? NULL : cri_tables;
	set_text(runtime->files.why, why);
	set_text(runtime->files.bad.path, runtime->daemon.config);
	return true;
}

/* `misplaced WHY`: a file has the number of downloads in a wrong table. */
static bool parse_misplaced(struct scenario *scenario, void *base)
{
	struct node_runtime *runtime = base;
	struct runtime_key *key = &runtime->files.keys[RUNTIME_DOWNLOADS];

	key->tables = cri_tables;
	return scenario_value(scenario, key->misplaced, sizeof(key->misplaced));
}

/* `replaced WHY`: the program on disk is not the running one. */
static bool parse_replaced(struct scenario *scenario, void *base)
{
	struct node_runtime *runtime = base;

	runtime->files.error = -ESTALE;
	return scenario_value(scenario, runtime->files.why, sizeof(runtime->files.why));
}

/* `slow WHY`: its program does not print the configuration in time. */
static bool parse_slow(struct scenario *scenario, void *base)
{
	struct node_runtime *runtime = base;

	runtime->files.error = -ETIMEDOUT;
	return scenario_value(scenario, runtime->files.why, sizeof(runtime->files.why));
}

static bool parse_refused(struct scenario *scenario, void *base)
{
	static const char *const words[] = {
		"-", "no-key", "generated", "read-only", "excluded", "cri-off"};
	struct node_runtime *runtime = base;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!scenario_is(scenario, words[i]))
			continue;
		for (int key = 0; key < RUNTIME_SETTINGS; key++) {
			runtime->files.keys[key].refusal = (enum runtime_refusal)i;
			set_text(runtime->files.keys[key].why, words[i]);
		}
		return true;
	}
	return false;
}

static bool parse_layer(struct scenario *scenario, void *base)
{
	struct node_runtime *runtime = base;
	struct pull_piece piece = {0};

	if (!scenario_value(scenario, piece.ref, sizeof(piece.ref)) ||
		!scenario_number(scenario, &piece.offset) ||
		!scenario_number(scenario, &piece.total))
		return false;
	runtime->pulls_at_us = scenario->now_us;
	pulls_update(&runtime->pulls, &(struct pull_counts){0}, &piece, piece.ref[0] ? 1 : 0,
		scenario->now_us);
	return true;
}

/* `named DIGEST IMAGE`: the image of a layer. */
static bool parse_name(struct scenario *scenario, void *base)
{
	struct node_runtime *runtime = base;
	char digest[128], image[160];

	if (!scenario_value(scenario, digest, sizeof(digest)) ||
		!scenario_value(scenario, image, sizeof(image)))
		return false;
	pulls_name(&runtime->pulls, digest, image);
	return true;
}

static bool parse_store(struct scenario *scenario, void *base)
{
	struct runtime_store *store = &((struct node_runtime *)base)->store;

	store->known = true;
	set_text(store->directory, "/var/lib/images");
	set_text(store->filesystem, "ext4");
	return scenario_number(scenario, &store->used) && scenario_number(scenario, &store->size);
}

#define ONE    struct node_runtime
#define KEY(i) files.keys[i].on_disk

static const struct scenario_word runtime_words[] = {
	WORD_TEXT("version", ONE, daemon.version),
	WORD_TEXT("downloads", ONE, in_force[RUNTIME_DOWNLOADS]),
	WORD_TEXT("timeout", ONE, in_force[RUNTIME_PROGRESS_TIMEOUT]),
	WORD_TEXT("directory", ONE, in_force[RUNTIME_HOSTS_DIRECTORY]),
	WORD_TEXT("mirrors", ONE, in_force[RUNTIME_MIRRORS]),
	WORD_TEXT("file-downloads", ONE, KEY(RUNTIME_DOWNLOADS)),
	WORD_TEXT("file-timeout", ONE, KEY(RUNTIME_PROGRESS_TIMEOUT)),
	WORD_TEXT("file-directory", ONE, KEY(RUNTIME_HOSTS_DIRECTORY)),
	WORD_TEXT("json-downloads", ONE, KEY(RUNTIME_DOWNLOADS)),
	WORD_TEXT("json-mirrors", ONE, files.mirrors),
	WORD_CONST("has-mirrors", ONE, files.has_mirrors, true),
	WORD_CONST("on-command", ONE, on_command[RUNTIME_DOWNLOADS], true),
	WORD_CONST("mirrors-on-command", ONE, on_command[RUNTIME_MIRRORS], true),
	WORD_CONST("not-seen", ONE, daemon.pid, 0),
	WORD_CONST("seen", ONE, daemon.pid, 100),
	WORD_CONST("no-socket", ONE, found.has_socket, false),
	WORD_CONST("with-socket", ONE, found.has_socket, true),
	WORD_CONST("never-answered", ONE, answered_once, false),
	WORD_CONST("stopped", ONE, is_stopped, true),
	WORD_CONST("running", ONE, is_stopped, false),
	WORD_CONST("cannot-start", ONE, cannot_start, true),
	WORD_TEXT("driver", ONE, store.driver),
	WORD_TEXT("client", ONE, client),
	WORD_CONST("no-cri", ONE, no_cri, true),
	WORD_CONST("of-k3s", ONE, found.managed_by, RUNTIME_OF_K8S),
	WORD_CALL("silent", parse_silent),
	WORD_CALL("answers", parse_answers),
	WORD_CALL("broken", parse_broken),
	WORD_CALL("replaced", parse_replaced),
	WORD_CALL("slow", parse_slow),
	WORD_CALL("misplaced", parse_misplaced),
	WORD_CALL("refused", parse_refused),
	WORD_CALL("layer", parse_layer),
	WORD_CALL("named", parse_name),
	WORD_CALL("store", parse_store),
	{0},
};

/* The first line that names a runtime adds it: its process is visible, and it answers. */
static bool parse_runtime(
	struct scenario *scenario, struct runtime_sample *sample, const struct node_runtime *fresh)
{
	struct node_runtime *runtime = sample->runtimes;

	while (runtime < sample->runtimes + sample->n &&
		runtime->found.driver != fresh->found.driver)
		runtime++;
	if (runtime == sample->runtimes + sample->n) {
		sample->n++;
		*runtime = *fresh;
		runtime->daemon.pid = 100;
		runtime->answer = RUNTIME_ANSWERS;
		runtime->answered_once = runtime->files_known = true;
		runtime->since_us = runtime->pulls_at_us = 1;
		copy_text(runtime->in_force[RUNTIME_DOWNLOADS], SETTING_VALUE_MAX, "3");
	}
	return scenario_parse(scenario, runtime_words, runtime);
}

static bool parse_containerd(struct scenario *scenario, void *base)
{
	return parse_runtime(scenario, &((struct runtime_tuner *)base)->sample, &fresh_containerd);
}

static bool parse_docker(struct scenario *scenario, void *base)
{
	return parse_runtime(scenario, &((struct runtime_tuner *)base)->sample, &fresh_docker);
}

/* ---- mirrors and their files ---- */

static bool parse_mirror(struct scenario *scenario, void *base)
{
	static const char *const states[] = {"unknown", "up", "down"};
	static const char *const words_of[] = {"", "", "no answer within 2 s"};
	struct runtime_sample *sample = &((struct runtime_tuner *)base)->sample;
	char url[REGISTRY_URL_MAX];
	struct mirror *mirror;

	if (!scenario_value(scenario, url, sizeof(url)))
		return false;
	mirror = find_named(sample->mirrors, sample->n_mirrors, url);
	if (!mirror)
		mirror = &sample->mirrors[sample->n_mirrors++];
	copy_text(mirror->url, REGISTRY_URL_MAX, url);
	for (size_t state = 0; state < ARRAY_SIZE(states); state++)
		if (scenario_is(scenario, states[state])) {
			if (mirror->state != (enum mirror_state)state)
				mirror->since_us = scenario->now_us;
			mirror->state = (enum mirror_state)state;
			set_text(mirror->why, words_of[state]);
			return true;
		}
	return false;
}

/* `hosts REGISTRY absent|others|URL...`: the content of its hosts.toml. */
static bool parse_hosts(struct scenario *scenario, void *base)
{
	struct runtime_sample *sample = &((struct runtime_tuner *)base)->sample;
	const char *urls[ITEMS_MAX];
	char registry[REGISTRY_NAME_MAX], *text;
	struct mirror_file *hosts;
	size_t n = 0;

	if (!scenario_value(scenario, registry, sizeof(registry)))
		return false;
	hosts = find_named(sample->files, sample->n_files, registry);
	if (!hosts)
		hosts = &sample->files[sample->n_files++];
	*hosts = (struct mirror_file){.driver = &containerd_driver};
	set_text(hosts->registry, registry);
	snprintf(hosts->path, sizeof(hosts->path), "/etc/containerd/certs.d/%.100s/hosts.toml",
		registry);
	if (scenario_is(scenario, "absent"))
		return true;
	hosts->exists = true;
	if (scenario_is(scenario, "others"))
		return true;
	hosts->ours = true;
	hosts->is_taken = scenario_is(scenario, "taken");
	while (n < ITEMS_MAX && (urls[n] = scenario_word(scenario)))
		n++;
	text = mirror_file_make(
		containerd_driver.mirrors, sample->runtimes[0].daemon.version, registry, urls, n);
	hash_bytes(text, strlen(text), hosts->sum);
	mirror_file_list(containerd_driver.mirrors, text, hosts->mirrors);
	free(text);
	return true;
}

/* `gc-high N`: the kubelet's imageGCHighThresholdPercent. */
static bool parse_gc_high(struct scenario *scenario, void *)
{
	uint64_t percent;

	if (!scenario_number(scenario, &percent))
		return false;
	facts.disks.images_gc_high = (unsigned)percent;
	return true;
}

static const struct scenario_word at[] = {
	WORD_CALL("gc-high", parse_gc_high),
	WORD_CALL("containerd", parse_containerd),
	WORD_CALL("docker", parse_docker),
	WORD_CALL("mirror", parse_mirror),
	WORD_CALL("hosts", parse_hosts),
	{0},
};

/* ---- configuration ---- */

static bool parse_configured_mirror(struct scenario *scenario, void *base)
{
	struct runtime_config *config = &((struct runtime_tuner *)base)->config;
	struct runtime_mirror *mirror = &config->mirrors[config->n_mirrors++];

	return scenario_value(scenario, mirror->registry, sizeof(mirror->registry)) &&
	       scenario_value(scenario, mirror->url, sizeof(mirror->url));
}

static const struct scenario_word config[] = {
	WORD_NUMBER("downloads", struct runtime_tuner, config.numbers[RUNTIME_DOWNLOADS].value),
	WORD_CONST("given", struct runtime_tuner, config.numbers[RUNTIME_DOWNLOADS].given, true),
	WORD_CONST("exact", struct runtime_tuner, config.numbers[RUNTIME_DOWNLOADS].exact, true),
	WORD_CONST("timeout-given", struct runtime_tuner,
		config.numbers[RUNTIME_PROGRESS_TIMEOUT].given, true),
	WORD_NUMBER(
		"timeout-us", struct runtime_tuner, config.numbers[RUNTIME_PROGRESS_TIMEOUT].value),
	WORD_CONST("restart-now", struct runtime_tuner, config.restart, RESTART_NOW),
	WORD_CONST("restart-when-idle", struct runtime_tuner, config.restart, RESTART_WHEN_IDLE),
	WORD_CONST("command", struct runtime_tuner, once, true),
	WORD_CALL("mirror", parse_configured_mirror),
	{0},
};

const struct scenario_tuner runtime_scenario = {
	.ops = &runtime_tuner,
	.size = sizeof(struct runtime_tuner),
	.at = at,
	.config = config,
	.open = open_node,
	.close = close_node,
};
