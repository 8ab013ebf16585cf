/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/util.h"
#include "runtime/docker_process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* An older answer does not say whether a restart would cut off a pull. */
#define PULLS_KNOWN_US (4 * USEC_PER_SEC)

#define DOCKER_DOWNLOADS 3 /* of a dockerd that is given 0 */

struct runtime_edit {
	struct runtime_edit *next;
	struct file_edit edit;
	char text[];
};

/* What a setting's numbers mean. */
enum unit {
	LAYERS_OF_CONTAINERD, /* 0: unlimited */
	LAYERS_OF_DOCKER,     /* 0: the default */
	DURATION,             /* 0: unlimited */
};

const char *runtime_prefix(const struct runtime_sample *sample, const struct node_runtime *runtime)
{
	const struct node_runtime *plain = NULL;

	/* The node's own one is what people mean, wherever it was found. */
	for (size_t i = 0; i < sample->n; i++) {
		const struct node_runtime *other = &sample->runtimes[i];

		if (other->found.kind != runtime->found.kind)
			continue;
		if (!plain || (plain->found.managed_by != RUNTIME_OF_NODE &&
				      other->found.managed_by == RUNTIME_OF_NODE))
			plain = other;
	}
	return plain == runtime ? runtime_kind_names[runtime->found.kind] : runtime->found.name;
}

/* What makes a changed file of this runtime take effect. */
static struct service service_of(
	const struct runtime_decision *decision, const struct node_runtime *runtime)
{
	uint64_t now = decision->input->now_us;
	struct service service = {
		.restart = decision->config->restart,
		.busy = runtime->pulls.n > 0 || runtime->pulls.n_images > 0 ||
			runtime->pulls_at_us == 0 ||
			pulls_age(now, runtime->pulls_at_us) > PULLS_KNOWN_US,
		.pid = (int)runtime->pid,
	};

	copy_text(service.binary, sizeof(service.binary), runtime->binary);
	copy_text(service.version, sizeof(service.version), runtime->version);
	copy_text(service.config, sizeof(service.config), runtime->config_path);
	copy_text(service.directory, sizeof(service.directory), runtime->working_directory);
	copy_text(service.socket, sizeof(service.socket), runtime->found.socket);
	if (runtime->found.kind == RUNTIME_DOCKER) {
		service.activation = ACTIVATE_RELOAD;
		service.verifier = VERIFY_DOCKERD;
		copy_text(service.program, sizeof(service.program), "dockerd");
		copy_text(service.pid_file, sizeof(service.pid_file), DOCKER_PID_FILE);
		return service;
	}
	service.activation = ACTIVATE_RESTART;
	service.verifier = VERIFY_CONTAINERD_DUMP;
	if (runtime->found.managed_by != RUNTIME_OF_NODE)
		service.restart = RESTART_NEVER;
	copy_text(
		service.unit, sizeof(service.unit), runtime->found.unit ? runtime->found.unit : "");
	return service;
}

void runtime_memory_clear(struct runtime_memory *memory)
{
	while (memory->edits) {
		struct runtime_edit *edit = memory->edits;

		memory->edits = edit->next;
		free(edit);
	}
}

struct file_want *runtime_want(const struct runtime_decision *decision,
	const struct node_runtime *runtime, const char *name, const struct file_target *target,
	const char *text)
{
	size_t len = text ? strlen(text) + 1 : 0;
	struct runtime_edit *edit = calloc(1, sizeof(*edit) + len);
	struct file_want *want = edit ? proposal_file(decision->proposal) : NULL;

	if (!want) {
		free(edit);
		return NULL;
	}
	if (text)
		memcpy(edit->text, text, len);
	edit->edit.text = text ? edit->text : NULL;
	if (runtime)
		edit->edit.service = service_of(decision, runtime);
	edit->next = decision->memory->edits;
	decision->memory->edits = edit;
	copy_text(want->name, sizeof(want->name), name);
	want->target = *target;
	want->edit = &edit->edit;
	want->reason = "configured";
	return want;
}

void runtime_leave(struct file_want *want, const char *reason)
{
	want->wanted[0] = '\0';
	want->reason = reason;
	want->edit = NULL;
}

const char *runtime_obstacle(const struct node_runtime *runtime)
{
	bool docker = runtime->found.kind == RUNTIME_DOCKER;
	const char *reason = NULL;

	if ((docker ? runtime->docker.error : runtime->containerd.error) < 0)
		reason = "file-unusable";
	else if (runtime->answer == RUNTIME_SILENT)
		reason = "runtime-silent";
	/* Its options are not known, or not the program that reads the file. */
	else if (runtime->pid == 0 || (!docker && !runtime->binary[0]))
		reason = "process-not-seen";
	return reason;
}

static uint64_t number_of(const char *value, enum unit unit)
{
	unsigned long long number = 0;

	if (!value[0] || (unit == DURATION && containerd_duration_parse(value, &number) < 0))
		return 0;
	if (unit != DURATION)
		number = strtoull(value, NULL, 10);
	if (number > 0)
		return number;
	return unit == LAYERS_OF_DOCKER ? DOCKER_DOWNLOADS : UINT64_MAX;
}

/*
 * As a default a number is only raised: what the administrator had, or has set since, is a floor.
 * In the file, else in force. True when that is more than what is wanted.
 */
static bool had_more(
	const struct runtime_decision *decision, const struct file_want *want, enum unit unit)
{
	const struct file_record *record =
		file_record_find(decision->input->files, decision->input->n_files, want->name);
	bool ours = record && (value_equal(want->on_disk, record->wanted) ||
				      value_equal(want->on_disk, record->before));
	const char *in_file = ours ? record->on_disk : want->on_disk;
	const char *in_force = record ? record->original : want->actual;

	return number_of(in_file[0] ? in_file : in_force, unit) > number_of(want->wanted, unit);
}

/* Installed and not running is a choice; a socket that nobody serves is not. */
static bool is_silent(const struct node_runtime *runtime)
{
	return runtime->answer == RUNTIME_SILENT && runtime->found.has_socket;
}

/* Leaves alone what cannot be written now, and what is kept. */
static void check_want(const struct runtime_decision *decision, const struct node_runtime *runtime,
	struct file_want *want, bool kept)
{
	const char *obstacle = runtime_obstacle(runtime);

	if (kept && !obstacle)
		obstacle = "kept";
	if (obstacle && decision->once && !kept && is_silent(runtime)) {
		/* A command must not take silence for agreement. */
		want->error = -ETIMEDOUT;
		want->reason = "runtime-silent";
	} else if (obstacle) {
		runtime_leave(want, obstacle);
	}
}

/* A number of the configuration, 0 for keep; one that is not exact only rises. */
static void check_number(const struct runtime_decision *decision,
	const struct node_runtime *runtime, struct file_want *want, const char *actual,
	uint64_t number, bool exact, enum unit unit)
{
	copy_text(want->actual, SETTING_VALUE_MAX, actual);
	if (!exact && had_more(decision, want, unit))
		runtime_leave(want, "administrator-higher");
	if (unit == LAYERS_OF_DOCKER && runtime->downloads_on_command)
		runtime_leave(want, "on-command-line");
	check_want(decision, runtime, want, number == 0);
}

static struct file_want *want_key(const struct runtime_decision *decision,
	const struct node_runtime *runtime, enum containerd_setting setting, const char *value)
{
	static const char *const suffixes[CONTAINERD_SETTINGS] = {
		[CONTAINERD_DOWNLOADS] = "max_concurrent_downloads",
		[CONTAINERD_PROGRESS_TIMEOUT] = "image_pull_progress_timeout",
		[CONTAINERD_REGISTRY_DIRECTORY] = "config_path",
	};
	const struct containerd_key *key = &runtime->containerd.keys[setting];
	struct file_target target = {.format = EDIT_TOML};
	char name[SETTING_NAME_MAX], literal[SETTING_VALUE_MAX];
	struct file_edit *edit;
	struct file_want *want;

	copy_text(target.path, sizeof(target.path), key->path);
	copy_text(target.table, sizeof(target.table), key->tables ? key->tables[0] : "");
	copy_text(target.key, sizeof(target.key), key->key ? key->key : "");
	snprintf(name, sizeof(name), "%s.%s", runtime_prefix(decision->sample, runtime),
		suffixes[setting]);
	want = runtime_want(decision, runtime, name, &target,
		containerd_literal(setting, value, literal) ? literal : "");
	if (!want)
		return NULL;
	edit = &decision->memory->edits->edit; /* of the want just made */
	edit->tables = key->tables;
	edit->base = key->base;
	edit->dump_key = key->dump_key;
	copy_text(want->wanted, SETTING_VALUE_MAX, value);
	copy_text(want->on_disk, SETTING_VALUE_MAX, key->on_disk);
	if (key->refusal != CONTAINERD_FINE) {
		want->error = -ENOENT;
		want->reason = "runtime-unsupported";
	}
	return want;
}

static int want_containerd(
	const struct runtime_decision *decision, const struct node_runtime *runtime)
{
	const struct runtime_config *config = decision->config;
	struct file_want *want;
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)config->downloads);
	want = want_key(decision, runtime, CONTAINERD_DOWNLOADS, text);
	if (!want)
		return -ENOMEM;
	check_number(decision, runtime, want, runtime->downloads, config->downloads,
		config->downloads_exact, LAYERS_OF_CONTAINERD);
	runtime_duration_text(config->timeout_us, text);
	want = want_key(decision, runtime, CONTAINERD_PROGRESS_TIMEOUT, text);
	if (!want)
		return -ENOMEM;
	check_number(decision, runtime, want, runtime->timeout, config->timeout_us,
		config->timeout_exact, DURATION);
	return 0;
}

/* The directory of hosts.toml files is set only where mirrors need it and nobody has set one. */
static int want_directory(
	const struct runtime_decision *decision, const struct node_runtime *runtime)
{
	const struct containerd_key *key = &runtime->containerd.keys[CONTAINERD_REGISTRY_DIRECTORY];
	const struct file_record *record;
	char name[SETTING_NAME_MAX];
	struct file_want *want;

	snprintf(name, sizeof(name), "%s.config_path", runtime_prefix(decision->sample, runtime));
	record = file_record_find(decision->input->files, decision->input->n_files, name);
	if (!record &&
		(decision->config->n_mirrors == 0 || runtime->directory[0] || key->on_disk[0]))
		return 0;
	want = want_key(decision, runtime, CONTAINERD_REGISTRY_DIRECTORY,
		record ? record->wanted : "/etc/containerd/certs.d");
	if (!want)
		return -ENOMEM;
	copy_text(want->actual, SETTING_VALUE_MAX, runtime->directory);
	check_want(decision, runtime, want, false);
	return 0;
}

static int want_docker(const struct runtime_decision *decision, const struct node_runtime *runtime)
{
	struct file_target target = {.format = EDIT_JSON, .key = "max-concurrent-downloads"};
	const struct runtime_config *config = decision->config;
	char name[SETTING_NAME_MAX], text[32];
	struct file_want *want;

	copy_text(target.path, sizeof(target.path), runtime->config_path);
	snprintf(
		name, sizeof(name), "%s.%s", runtime_prefix(decision->sample, runtime), target.key);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)config->downloads);
	want = runtime_want(decision, runtime, name, &target, text);
	if (!want)
		return -ENOMEM;
	copy_text(want->wanted, SETTING_VALUE_MAX, text);
	copy_text(want->on_disk, SETTING_VALUE_MAX, runtime->docker.downloads);
	check_number(decision, runtime, want, runtime->downloads, config->downloads,
		config->downloads_exact, LAYERS_OF_DOCKER);
	return 0;
}

/* This tuner's records: the hosts.toml files among them outlive the configuration that asked for
 * them, and a change of any says that something was written.
 */
static void take_records(const struct decide_input *input, struct runtime_memory *memory)
{
	uint64_t tag = 0;

	memory->recorded.n = 0;
	for (size_t i = 0; i < input->n_files; i++) {
		const struct file_record *record = &input->files[i];
		const char *texts[] = {record->name, record->wanted, record->before};

		if (!streq(record->tuner, "runtime"))
			continue;
		for (size_t t = 0; t < ARRAY_SIZE(texts); t++)
			for (const char *c = texts[t]; *c; c++)
				tag = tag * 1099511628211u + (unsigned char)*c + 1;
		if (starts_with(record->name, "mirrors.") &&
			memory->recorded.n < RUNTIME_MIRROR_MAX)
			copy_text(memory->recorded.registries[memory->recorded.n++],
				REGISTRY_NAME_MAX, record->name + strlen("mirrors."));
	}
	memory->records_tag = tag;
}

int runtime_decide(const struct runtime_decision *decision)
{
	int r = 0;

	runtime_memory_clear(decision->memory);
	take_records(decision->input, decision->memory);
	for (size_t i = 0; r == 0 && i < decision->sample->n; i++) {
		const struct node_runtime *runtime = &decision->sample->runtimes[i];

		/* Before its files were read nothing is known that could be wanted, but a command
		 * says of a silent one that it cannot be set. The containerd that dockerd runs
		 * pulls nothing. */
		if ((!runtime->files_known && !(decision->once && is_silent(runtime))) ||
			runtime->found.managed_by == RUNTIME_OF_DOCKER)
			continue;
		if (runtime->found.kind == RUNTIME_DOCKER)
			r = want_docker(decision, runtime);
		if (runtime->found.kind == RUNTIME_CONTAINERD)
			r = want_containerd(decision, runtime);
		if (r == 0 && runtime->found.kind == RUNTIME_CONTAINERD)
			r = want_directory(decision, runtime);
	}
	if (r == 0)
		r = runtime_decide_mirrors(decision);
	return r < 0 ? r : runtime_decide_health(decision);
}
