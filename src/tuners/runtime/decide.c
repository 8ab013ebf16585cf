/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* What was told longer ago says nothing of whether a restart would cut off a pull. */
#define PULLS_KNOWN_US (3 * USEC_PER_SEC)

/* The three settings of a containerd, as its configuration spells them. */
static const char *const suffixes[CONTAINERD_SETTINGS] = {
	[CONTAINERD_DOWNLOADS] = "max_concurrent_downloads",
	[CONTAINERD_PROGRESS_TIMEOUT] = "image_pull_progress_timeout",
	[CONTAINERD_REGISTRY_DIRECTORY] = "config_path",
};

const char *runtime_prefix(const struct runtime_seen *seen, const struct runtime_one *one)
{
	const struct runtime_one *plain = NULL;

	/* The node's own one is what people mean, wherever it was found. */
	for (size_t i = 0; i < seen->n; i++) {
		const struct runtime_one *other = &seen->ones[i];

		if (!other->where.socket || other->where.kind != one->where.kind)
			continue;
		if (!plain || (plain->where.managed_by != RUNTIME_OF_NODE &&
				      other->where.managed_by == RUNTIME_OF_NODE))
			plain = other;
	}
	return plain == one ? runtime_kind_name(one->where.kind) : one->where.name;
}

/* Something is being pulled, for all that is known. */
static bool is_busy(const struct runtime_seen *seen, const struct runtime_one *one)
{
	return one->pulls.n > 0 || one->pulls.n_images > 0 || one->pulls_at_us == 0 ||
	       pulls_age(seen->now_us, one->pulls_at_us) > PULLS_KNOWN_US;
}

struct service runtime_service(const struct runtime_seen *seen, const struct runtime_one *one,
	const struct runtime_config *config)
{
	struct service service = {.restart = config->restart, .busy = is_busy(seen, one)};

	copy_text(service.binary, sizeof(service.binary), one->binary);
	copy_text(service.version, sizeof(service.version), one->version);
	if (one->where.kind == RUNTIME_DOCKER) {
		service.activation = ACTIVATE_RELOAD;
		service.verifier = VERIFY_DOCKERD;
		service.pid = (int)one->pid;
		copy_text(service.program, sizeof(service.program), "dockerd");
		copy_text(service.pid_file, sizeof(service.pid_file), "/run/docker.pid");
		return service;
	}
	service.activation = ACTIVATE_RESTART;
	service.verifier = VERIFY_CONTAINERD_DUMP;
	if (one->where.managed_by != RUNTIME_OF_NODE)
		service.restart = RESTART_NEVER;
	copy_text(service.unit, sizeof(service.unit), one->where.unit ? one->where.unit : "");
	copy_text(service.socket, sizeof(service.socket), one->where.socket);
	return service;
}

void runtime_memory_clear(struct runtime_memory *memory)
{
	for (size_t i = 0; i < memory->n_edits; i++)
		free(memory->literals[i]);
	memory->n_edits = 0;
}

struct file_want *runtime_want(struct runtime_memory *memory, struct proposal *proposal,
	const char *name, const struct file_target *target, const char *literal)
{
	struct file_want *want;
	char *copy = literal ? strdup(literal) : NULL;
	size_t i = memory->n_edits;

	if ((literal && !copy) || i == RUNTIME_EDITS_MAX || !(want = proposal_file(proposal))) {
		free(copy);
		return NULL;
	}
	memory->n_edits++;
	memory->literals[i] = copy;
	memory->edits[i] = (struct file_edit){.text = copy};
	copy_text(want->name, sizeof(want->name), name);
	want->target = *target;
	want->edit = &memory->edits[i];
	return want;
}

static uint64_t number_of(const char *value, bool duration)
{
	unsigned long long us;

	if (!duration)
		return strtoull(value, NULL, 10);
	return value[0] && containerd_duration_parse(value, &us) == 0 ? us : 0;
}

/*
 * As a default it only raises: what the administrator had, in the file or in force, is a floor.
 * True when that is more than what is configured.
 */
static bool had_more(const struct decide_input *input, const struct file_want *want, bool duration)
{
	const struct file_record *record =
		file_record_find(input->files, input->n_files, want->name);
	uint64_t wanted = number_of(want->wanted, duration);
	uint64_t in_force = number_of(record ? record->original : want->actual, duration);
	uint64_t in_file = number_of(record ? record->on_disk : want->on_disk, duration);

	return in_file > 0 ? in_file > wanted : in_force > wanted;
}

static void leave_alone(struct file_want *want, const char *reason)
{
	want->wanted[0] = '\0';
	want->reason = reason;
	want->edit = NULL;
}

static struct file_target target_of(const struct containerd_edit *edit)
{
	struct file_target target = {.format = EDIT_TOML};

	copy_text(target.path, sizeof(target.path), edit->path);
	copy_text(target.table, sizeof(target.table), edit->table);
	copy_text(target.key, sizeof(target.key), edit->key);
	return target;
}

/* What stands in the way of writing this one; NULL for nothing. */
static const char *obstacle(const struct runtime_one *one)
{
	bool answers = one->answer == RUNTIME_ANSWERS;
	const char *reason = NULL;

	if (one->file_error < 0)
		reason = "file-unusable";
	else if (one->answer == RUNTIME_SILENT)
		reason = "runtime-silent";
	/* Without the program that reads it, nothing can be tried out. */
	else if (one->where.kind == RUNTIME_CONTAINERD && answers && !one->binary[0])
		reason = "process-not-seen";
	return reason;
}

static int want_key(const struct runtime_seen *seen, const struct runtime_one *one,
	const struct runtime_config *config, struct runtime_memory *memory,
	struct proposal *proposal, enum containerd_setting setting, struct file_want **ret)
{
	const struct containerd_edit *edit = &one->edits[setting];
	struct file_target target = target_of(edit);
	struct service service = runtime_service(seen, one, config);
	char name[SETTING_NAME_MAX];
	struct file_want *want;

	snprintf(name, sizeof(name), "%s.%s", runtime_prefix(seen, one), suffixes[setting]);
	want = runtime_want(memory, proposal, name, &target, edit->literal);
	if (!want)
		return -ENOMEM;
	/* A drop-in is tried out through the file that imports it. */
	if (edit->method == CONTAINERD_OWN_FILE)
		copy_text(service.config, sizeof(service.config), one->config_path);
	memory->edits[memory->n_edits - 1].service = service;
	memory->edits[memory->n_edits - 1].base = edit->begin[0] ? edit->begin : NULL;
	memory->edits[memory->n_edits - 1].dump_key = edit->effective_path;
	if (edit->method == CONTAINERD_UNSUPPORTED)
		want->error = -ENOENT;
	want->reason =
		edit->method == CONTAINERD_UNSUPPORTED ? "runtime-unsupported" : "configured";
	*ret = want;
	return 0;
}

static int want_number(const struct runtime_seen *seen, const struct runtime_one *one,
	const struct runtime_config *config, struct runtime_memory *memory,
	const struct decide_input *input, struct proposal *proposal,
	enum containerd_setting setting)
{
	bool duration = setting == CONTAINERD_PROGRESS_TIMEOUT;
	bool kept = duration ? config->timeout_us == 0 : config->downloads == 0;
	bool exact = duration ? config->timeout_exact : config->downloads_exact;
	struct file_want *want;
	char text[32];
	int r = want_key(seen, one, config, memory, proposal, setting, &want);

	if (r < 0)
		return r;
	copy_text(want->actual, SETTING_VALUE_MAX, duration ? one->timeout : one->downloads);
	copy_text(want->on_disk, SETTING_VALUE_MAX,
		duration ? one->on_disk_timeout : one->on_disk_downloads);
	if (duration)
		runtime_duration_text(config->timeout_us, text);
	else
		snprintf(text, sizeof(text), "%llu", (unsigned long long)config->downloads);
	copy_text(want->wanted, SETTING_VALUE_MAX, text);
	if (obstacle(one))
		leave_alone(want, obstacle(one));
	else if (kept)
		leave_alone(want, "kept");
	else if (!exact && had_more(input, want, duration))
		leave_alone(want, "administrator-higher");
	return 0;
}

/* The directory of hosts.toml files is set only where mirrors need it and nobody has set one. */
static int want_directory(const struct runtime_seen *seen, const struct runtime_one *one,
	const struct runtime_config *config, struct runtime_memory *memory,
	const struct decide_input *input, struct proposal *proposal)
{
	const struct containerd_edit *edit = &one->edits[CONTAINERD_REGISTRY_DIRECTORY];
	char name[SETTING_NAME_MAX];
	bool recorded;
	struct file_want *want;
	int r;

	snprintf(name, sizeof(name), "%s.%s", runtime_prefix(seen, one),
		suffixes[CONTAINERD_REGISTRY_DIRECTORY]);
	recorded = file_record_find(input->files, input->n_files, name) != NULL;
	if (!recorded && (config->n_mirrors == 0 || one->directory[0] || edit->on_disk[0]))
		return 0;
	r = want_key(seen, one, config, memory, proposal, CONTAINERD_REGISTRY_DIRECTORY, &want);
	if (r < 0)
		return r;
	copy_text(want->actual, SETTING_VALUE_MAX, one->directory);
	copy_text(want->on_disk, SETTING_VALUE_MAX, edit->on_disk);
	copy_text(want->wanted, SETTING_VALUE_MAX, "/etc/containerd/certs.d");
	if (obstacle(one))
		leave_alone(want, obstacle(one));
	return 0;
}

static int want_docker(const struct runtime_seen *seen, const struct runtime_one *one,
	const struct runtime_config *config, struct runtime_memory *memory,
	const struct decide_input *input, struct proposal *proposal)
{
	struct file_target target = {.format = EDIT_JSON, .key = "max-concurrent-downloads"};
	char name[SETTING_NAME_MAX], text[32];
	struct file_want *want;

	copy_text(target.path, sizeof(target.path), one->config_path);
	snprintf(name, sizeof(name), "%s.max-concurrent-downloads", runtime_prefix(seen, one));
	snprintf(text, sizeof(text), "%llu", (unsigned long long)config->downloads);
	want = runtime_want(memory, proposal, name, &target, text);
	if (!want)
		return -ENOMEM;
	memory->edits[memory->n_edits - 1].service = runtime_service(seen, one, config);
	copy_text(want->actual, SETTING_VALUE_MAX, one->downloads);
	copy_text(want->on_disk, SETTING_VALUE_MAX, one->on_disk_downloads);
	copy_text(want->wanted, SETTING_VALUE_MAX, text);
	want->reason = "configured";
	if (obstacle(one))
		leave_alone(want, obstacle(one));
	else if (one->downloads_on_command)
		leave_alone(want, "on-command-line");
	else if (config->downloads == 0)
		leave_alone(want, "kept");
	else if (!config->downloads_exact && had_more(input, want, false))
		leave_alone(want, "administrator-higher");
	return 0;
}

static int want_containerd(const struct runtime_seen *seen, const struct runtime_one *one,
	const struct runtime_config *config, struct runtime_memory *memory,
	const struct decide_input *input, struct proposal *proposal)
{
	int r = want_number(seen, one, config, memory, input, proposal, CONTAINERD_DOWNLOADS);

	if (r == 0)
		r = want_number(
			seen, one, config, memory, input, proposal, CONTAINERD_PROGRESS_TIMEOUT);
	if (r == 0)
		r = want_directory(seen, one, config, memory, input, proposal);
	return r;
}

/* What is written and waits for a start, in words. */
static void note_pending(const struct proposal *proposal, struct runtime_memory *memory)
{
	memory->restart_pending = false;
	for (size_t i = 0; i < proposal->n_files; i++) {
		const struct file_want *want = &proposal->files[i];

		if (!want->edit || want->edit->service.activation != ACTIVATE_RESTART ||
			!want->wanted[0] || want->error < 0 ||
			!value_equal(want->on_disk, want->wanted) ||
			value_equal(want->actual, want->wanted))
			continue;
		memory->restart_pending = true;
		snprintf(memory->restart_why, sizeof(memory->restart_why),
			"%s is %s in %.80s, and %s in force: restart %s, or set runtime.restart",
			want->name, want->wanted, want->target.path,
			want->actual[0] ? want->actual : "not known what",
			want->edit->service.unit);
		return;
	}
}

int runtime_decide(const struct runtime_seen *seen, const struct runtime_config *config,
	struct runtime_memory *memory, const struct decide_input *input, struct proposal *proposal)
{
	int r = 0;

	runtime_memory_clear(memory);
	for (size_t i = 0; r == 0 && i < seen->n; i++) {
		const struct runtime_one *one = &seen->ones[i];

		/* Until its files were looked at, nothing is known that could be wanted. The one
		 * that dockerd runs pulls nothing. */
		if (!one->where.socket || one->file_signature == 0 ||
			one->where.managed_by == RUNTIME_OF_DOCKER)
			continue;
		if (one->where.kind == RUNTIME_CONTAINERD)
			r = want_containerd(seen, one, config, memory, input, proposal);
		else if (one->where.kind == RUNTIME_DOCKER)
			r = want_docker(seen, one, config, memory, input, proposal);
	}
	if (r == 0)
		r = runtime_decide_mirrors(seen, config, memory, input, proposal);
	note_pending(proposal, memory);
	if (r == 0)
		r = runtime_decide_limits(seen, proposal);
	return r < 0 ? r : runtime_decide_conditions(seen, memory, proposal);
}
