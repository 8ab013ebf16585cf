/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decisions of the runtime tuner, in this order: keys of the configuration; mirrors;
 * findings. Nothing here reads the node or its clock.
 */
#include "tuners/runtime/runtime.h"
#include "tuners/table.h"

#include "base/toml.h"
#include "workload/facts.h"

#include <math.h>

/* An older answer does not tell whether a restart would interrupt a pull. */
#define PULLS_KNOWN_US (4 * USEC_PER_SEC)

/* Longer than a restart takes. */
#define SILENT_AFTER_US (15 * USEC_PER_SEC)

/* The kubelet begins to delete images at 85 %, unless its imageGCHighThresholdPercent differs. */
#define STORE_FULL_PERCENT 85
#define STORE_MOST_PERCENT 95 /* 100 switches it off */
#define STORE_ROOM_PERCENT 5
#define STORE              "images/store"

/* The layers of an image are slow one after the other. */
#define SLOW_HOLD_US (600 * USEC_PER_SEC)

/* Inputs and outputs of one decide(). */
struct runtime_decision {
	const struct runtime_tuner *tuner;
	const struct decide_input *input;
	struct runtime_memory *memory;
	struct proposal *proposal;
};

/*
 * Writes "containerd.KEY": the first runtime of a driver has the driver's name, others their own.
 */
static void name_setting(const struct runtime_sample *sample, const struct node_runtime *runtime,
	enum runtime_setting setting, char name[static SETTING_NAME_MAX])
{
	const struct runtime_driver *driver = runtime->found.driver;
	const struct node_runtime *first = sample->runtimes;

	while (first->found.driver != driver)
		first++;
	snprintf(name, SETTING_NAME_MAX, "%s.%s",
		first == runtime ? driver->name : runtime->found.name, driver->keys[setting].name);
}

/* Sets how a file takes effect: the runtime's daemon reads it. */
static void set_daemon(const struct runtime_decision *decision, const struct node_runtime *runtime,
	enum activation activation, struct file_change *file)
{
	file->activation = activation;
	file->restart = runtime->found.managed_by != RUNTIME_OF_NODE
				? RESTART_NEVER
				: decision->tuner->config.restart;
	file->daemon = runtime->daemon;
	file->daemon.busy =
		runtime->pulls.n > 0 || runtime->pulls.n_images > 0 || runtime->pulls_at_us == 0 ||
		pulls_age(decision->input->now_us, runtime->pulls_at_us) > PULLS_KNOWN_US;
}

/* Proposes a setting of this runtime, with its file and daemon. text is the value in the file. */
static struct want *want_setting(const struct runtime_decision *decision,
	const struct node_runtime *runtime, enum runtime_setting setting, const char *text)
{
	const struct runtime_driver *driver = runtime->found.driver;
	const struct runtime_key *key = &runtime->files.keys[setting];
	struct want *want = proposal_file(decision->proposal, text);
	struct file_change *file = want->file;

	name_setting(&decision->tuner->sample, runtime, setting, want->name);
	file->format = driver->format;
	set_text(file->path, key->path[0] ? key->path : runtime->daemon.config);
	set_text(file->key, key->key ? key->key : driver->keys[setting].name);
	if (key->tables)
		set_text(file->table, key->tables[0]);
	file->tables = key->tables;
	file->base = key->base;
	set_text(file->dump_key, key->dump_key);
	set_daemon(decision, runtime, driver->keys[setting].activation, file);
	want->reason = REASON_CONFIGURED;
	return want;
}

static void leave(struct want *want, enum reason reason)
{
	want->wanted[0] = '\0';
	want->reason = reason;
}

/* The setting is impossible. reconcile() reports it if the configuration asks for it. */
static void __attribute__((format(printf, 3, 4))) refuse(
	struct want *want, enum reason reason, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(want->why, sizeof(want->why), format, args);
	va_end(args);
	want->reason = reason;
	want->error = -EOPNOTSUPP;
}

/* Returns why settings of this runtime cannot be written, or REASON_NONE. */
static enum reason find_obstacle(const struct node_runtime *runtime)
{
	bool hidden = runtime->daemon.pid == 0 ||
		      (runtime->found.driver->needs_program && !runtime->daemon.program[0]);
	enum reason reason = REASON_NONE;

	if (runtime->files.error == -ESTALE)
		reason = REASON_PROGRAM_DIFFERS;
	else if (runtime->files.error == -ETIMEDOUT)
		reason = REASON_FILE_SLOW;
	else if (runtime->files.error < 0 && runtime->files.error != -ESRCH)
		reason = REASON_FILE_UNUSABLE;
	else if (runtime->answer == RUNTIME_SILENT)
		reason = REASON_RUNTIME_SILENT;
	else if (hidden) /* its options or the program that reads the file are unknown */
		reason = REASON_PROCESS_NOT_SEEN;
	return reason;
}

static const struct key_record *record_of(const struct runtime_decision *decision, const char *name)
{
	return find_named(decision->input->keys, decision->input->n_keys, name);
}

static const struct meaning *meanings_of(
	const struct node_runtime *runtime, enum runtime_setting setting)
{
	const char *version = runtime->daemon.version;

	return meanings_since(runtime->found.driver->keys[setting].meanings,
		(unsigned)strtoul(version + (version[0] == 'v'), NULL, 10));
}

/* Returns what a value means; 0: nothing is known. */
static uint64_t number_of(
	const struct node_runtime *runtime, enum runtime_setting setting, const char *value)
{
	unsigned long long us = 0;
	uint64_t number = 0;
	char digits[32];

	if (setting == RUNTIME_PROGRESS_TIMEOUT && value[0]) {
		if (runtime_duration_parse(value, &us) < 0)
			return 0;
		snprintf(digits, sizeof(digits), "%llu", us);
		value = digits;
	}
	(void)number_meant(meanings_of(runtime, setting), value, &number);
	return number;
}

/* A stopped runtime is a choice of the administrator; a socket without a listener is not. */
static bool is_silent(const struct node_runtime *runtime)
{
	return runtime->answer == RUNTIME_SILENT && runtime->found.has_socket;
}

/* Clears the wanted value for a reason or an obstacle. */
static void check_want(const struct runtime_decision *decision, const struct node_runtime *runtime,
	struct want *want, enum reason reason)
{
	enum reason obstacle = find_obstacle(runtime);
	bool kept = reason == REASON_KEPT;

	/* Known without the daemon, which may be down for it. */
	if (reason == REASON_ON_COMMAND_LINE)
		obstacle = REASON_NONE;
	if (obstacle && decision->tuner->once && !kept && is_silent(runtime)) {
		/* A command reports a silent runtime as an error. */
		want->error = -ETIMEDOUT;
		want->reason = REASON_RUNTIME_SILENT;
	} else if (obstacle || reason) {
		leave(want, obstacle ? obstacle : reason);
		/* A file that cannot be used is one fault, and has its own finding. */
		if (obstacle)
			want->error = 0;
		if (runtime->files.error < 0)
			set_text(want->why, runtime->files.why);
	}
}

static struct want *want_key(const struct runtime_decision *decision,
	const struct node_runtime *runtime, enum runtime_setting setting, const char *value)
{
	const struct runtime_key *key = &runtime->files.keys[setting];
	char literal[SETTING_VALUE_MAX];
	struct want *want;

	if (setting == RUNTIME_DOWNLOADS)
		set_text(literal, value);
	else if (!toml_quote(value, literal, sizeof(literal)))
		literal[0] = '\0';
	want = want_setting(decision, runtime, setting, literal);
	copy_text(want->wanted, SETTING_VALUE_MAX, value);
	copy_text(want->actual, SETTING_VALUE_MAX, runtime->in_force[setting]);
	copy_text(want->file->on_disk, SETTING_VALUE_MAX, key->on_disk);
	if (key->refusal != KEY_EDITABLE) {
		refuse(want, REASON_RUNTIME_UNSUPPORTED, "%s", key->why);
		want->error = -ENOENT;
	}
	return want;
}

/* A unit that was never started is no runtime yet, and a nested one has no settings. */
static bool is_in_use(const struct node_runtime *runtime)
{
	return runtime->found.managed_by != RUNTIME_NESTED &&
	       (runtime->found.has_socket || runtime->answered_once);
}

/* Returns whether a runtime other than one without its CRI can have the setting. */
static bool is_possible(const struct runtime_decision *decision, enum runtime_setting setting)
{
	const struct runtime_sample *sample = &decision->tuner->sample;

	for (size_t i = 0; i < sample->n; i++) {
		const struct node_runtime *runtime = &sample->runtimes[i];

		if (is_in_use(runtime) && runtime->found.driver->keys[setting].name &&
			runtime->files.keys[setting].refusal != KEY_CRI_OFF)
			return true;
	}
	return false;
}

/* Less than the program's default in a file was chosen. */
static enum reason choose_number(const struct node_runtime *runtime, enum runtime_setting setting,
	const struct runtime_number *number, const char *in_file, const char *in_force)
{
	uint64_t has = number_of(runtime, setting, in_file[0] ? in_file : in_force);
	char ours[32], node[32], wanted[SETTING_VALUE_MAX];
	struct choice choice = {.ours = ours,
		.reason = number->given ? REASON_CONFIGURED : REASON_DEFAULT,
		.configured = number->given,
		.exact = number->exact,
		.node = node,
		.chosen = in_file[0] && has > 0 && has < runtime->found.driver->keys[setting].usual
				  ? REASON_CHOSEN_ON_NODE
				  : REASON_NONE};

	snprintf(ours, sizeof(ours), "%" PRIu64, number->value);
	snprintf(node, sizeof(node), "%" PRIu64, has);
	return value_choose(&choice, wanted);
}

/* Proposes a number of the configuration; 0: keep. Unless exact, it only raises. */
static void want_number(const struct runtime_decision *decision, const struct node_runtime *runtime,
	enum runtime_setting setting)
{
	const struct runtime_number *number = &decision->tuner->config.numbers[setting];
	const char *in_file, *in_force;
	enum reason reason = REASON_NONE;
	uint64_t has;
	const struct key_record *record;
	struct want *want;
	char text[32];
	bool ours;

	if (setting == RUNTIME_PROGRESS_TIMEOUT)
		runtime_duration_text(number->value, text);
	else
		snprintf(text, sizeof(text), "%llu", (unsigned long long)number->value);
	want = want_key(decision, runtime, setting, text);
	want->requested = number->given && number->value > 0 &&
			  (runtime->files.keys[setting].refusal != KEY_CRI_OFF ||
				  !is_possible(decision, setting));
	/* The administrator's value: in the file, else in force. */
	record = record_of(decision, want->name);
	ours = record && (value_equal(want->file->on_disk, record->wanted) ||
				 value_equal(want->file->on_disk, record->value_before));
	in_file = ours ? record->on_disk_originally : want->file->on_disk;
	in_force = record ? record->in_force_originally : want->actual;
	/* dockerd does not start with both: its option wins, and our value must go. */
	if (runtime->on_command[setting] && ours && want->file->on_disk[0] &&
		!value_equal(want->file->on_disk, record->on_disk_originally)) {
		free(want->file->text);
		want->file->text = record->on_disk_originally[0]
					   ? must(strdup(record->on_disk_originally))
					   : NULL;
		want->file->activation = ACTIVATE_NOTHING;
		copy_text(want->wanted, SETTING_VALUE_MAX,
			record->on_disk_originally[0] ? record->on_disk_originally
						      : record->in_force_originally);
		/* The value before ours was unknown: without the key, it is the default. */
		if (!want->wanted[0])
			snprintf(want->wanted, sizeof(want->wanted), "%" PRIu64,
				runtime->found.driver->keys[setting].usual);
		want->reason = REASON_ON_COMMAND_LINE;
		return;
	}
	if (number->value == 0)
		reason = REASON_KEPT;
	else if (runtime->on_command[setting])
		reason = REASON_ON_COMMAND_LINE;
	else
		reason = choose_number(runtime, setting, number, in_file, in_force);
	if (reason == REASON_CONFIGURED || reason == REASON_DEFAULT) {
		if (want->reason == REASON_CONFIGURED) /* no obstacle */
			want->reason = reason;
		reason = REASON_NONE;
	}
	has = number_of(runtime, setting, want->actual);
	if (reason == REASON_ON_COMMAND_LINE && want->requested && want->actual[0] &&
		(number->exact ? has != number_of(runtime, setting, want->wanted)
			       : has < number_of(runtime, setting, want->wanted)))
		refuse(want, reason,
			"the command line of %s has --%s=%s: change or remove the option there",
			runtime->found.unit, runtime->found.driver->keys[setting].name,
			want->actual);
	else
		check_want(decision, runtime, want, reason);
}

/* No runtime of the node can end pulls without progress: the option has no effect. */
static void want_missing_timeout(const struct runtime_decision *decision)
{
	const struct runtime_number *number =
		&decision->tuner->config.numbers[RUNTIME_PROGRESS_TIMEOUT];
	const struct runtime_sample *sample = &decision->tuner->sample;
	const struct node_runtime *lacks = NULL;
	struct want *want;

	for (size_t i = 0; i < sample->n; i++) {
		const struct node_runtime *runtime = &sample->runtimes[i];

		if (!is_in_use(runtime))
			continue;
		if (runtime->found.driver->keys[RUNTIME_PROGRESS_TIMEOUT].name)
			return;
		if (runtime->files_known)
			lacks = runtime;
	}
	if (!lacks || !number->given || number->value == 0)
		return;
	want = proposal_file(decision->proposal, NULL);
	snprintf(want->name, sizeof(want->name), "%s.image_pull_progress_timeout",
		lacks->found.name);
	runtime_duration_text(number->value, want->wanted);
	want->requested = true;
	refuse(want, REASON_RUNTIME_UNSUPPORTED,
		"%s has no such option: remove runtime.pull_progress_timeout", lacks->found.name);
	want->error = -ENOENT;
}

/* The directory of mirror files is set only if mirrors are configured and no directory is. */
static void want_directory(
	const struct runtime_decision *decision, const struct node_runtime *runtime)
{
	const enum runtime_setting setting = RUNTIME_HOSTS_DIRECTORY;
	const struct key_record *record;
	char name[SETTING_NAME_MAX];

	name_setting(&decision->tuner->sample, runtime, setting, name);
	record = record_of(decision, name);
	if (!record && (decision->tuner->config.n_mirrors == 0 || runtime->in_force[setting][0] ||
			       runtime->files.keys[setting].on_disk[0]))
		return;
	check_want(decision, runtime,
		want_key(decision, runtime, setting,
			record ? record->wanted : runtime->found.driver->mirrors->directory),
		REASON_NONE);
}

/* ---- mirrors ---- */

/* Mirrors are pods too, and a new version of one takes a moment. */
#define MIRROR_PATIENCE_US (30 * USEC_PER_SEC)

/* The configured mirrors of a registry. */
struct mirror_set {
	const char *up[RUNTIME_MIRROR_MAX]; /* answer */
	size_t n_up, n;
	const char *with_path;         /* one whose URL has a path, or NULL */
	bool is_known;                 /* all were checked */
	bool is_down;                  /* all fail, and have failed for long */
	char all[RUNTIME_MIRRORS_MAX]; /* their URLs */
	char why[2 * MIRROR_WHY_MAX];  /* why the first one fails */
};

static bool is_docker_hub(const char *registry)
{
	return streq(registry, REGISTRY_DEFAULT) || streq(registry, "docker.io");
}

/* registry NULL: the mirrors of Docker, which has some for docker.io only. */
static void find_mirrors(
	const struct runtime_decision *decision, const char *registry, struct mirror_set *set)
{
	const struct runtime_tuner *tuner = decision->tuner;

	*set = (struct mirror_set){.is_known = true, .is_down = true};
	for (size_t i = 0; i < tuner->config.n_mirrors; i++) {
		const struct runtime_mirror *configured = &tuner->config.mirrors[i];
		const struct mirror *mirror =
			find_named(tuner->sample.mirrors, tuner->sample.n_mirrors, configured->url);

		if (registry ? !streq(configured->registry, registry)
			     : !is_docker_hub(configured->registry))
			continue;
		set->n++;
		if (strchr(strstr(configured->url, "//") + 2, '/'))
			set->with_path = configured->url;
		registry_list_add(
			set->all, sizeof(set->all), configured->url, strlen(configured->url));
		if (!mirror || mirror->state == MIRROR_UNKNOWN) {
			set->is_known = set->is_down = false;
			continue;
		}
		if (mirror->state == MIRROR_UP) {
			set->up[set->n_up++] = configured->url;
			continue;
		}
		set->is_down &= tuner->once || pulls_age(decision->input->now_us,
						       mirror->since_us) >= MIRROR_PATIENCE_US;
		if (!set->why[0])
			snprintf(set->why, sizeof(set->why), "%s: %s", mirror->url, mirror->why);
	}
}

/* Without a working mirror there is nothing to write. After a while this is a failure. */
static void miss_mirrors(struct want *want, const struct mirror_set *set)
{
	want->requested = true;
	leave(want, REASON_NO_MIRROR_UP);
	set_text(want->why, set->why);
	if (!set->is_down)
		return;
	registry_shorten_list(set->all, want->wanted, SETTING_VALUE_MAX);
	want->error = -EOPNOTSUPP;
}

/* Adds the mirrors on disk that are neither configured nor written by us: they stay. */
static void add_others(const struct mirror_set *set, const char *on_disk,
	const struct key_record *record, char *wanted)
{
	for (const char *at = on_disk; *at; at += strspn(at, " ")) {
		size_t len = strcspn(at, " ");
		bool ours = record && registry_list_has(record->wanted, at, len) &&
			    !registry_list_has(record->on_disk_originally, at, len);

		if (!ours && !registry_list_has(set->all, at, len))
			registry_list_add(wanted, RUNTIME_MIRRORS_MAX, at, len);
		at += len;
	}
}

/* Writes the list in the syntax of JSON, which the caller frees. */
static char *list_literal(const char *wanted)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = must(cJSON_CreateArray());
	char words[RUNTIME_MIRRORS_MAX], *state = NULL;

	set_text(words, wanted);
	for (char *word = strtok_r(words, " ", &state); word; word = strtok_r(NULL, " ", &state))
		json_append_text(list, word);
	return must(cJSON_PrintUnformatted(list));
}

static void want_mirror_list(
	const struct runtime_decision *decision, const struct node_runtime *runtime)
{
	const struct runtime_files *files = &runtime->files;
	enum reason obstacle = find_obstacle(runtime);
	char name[SETTING_NAME_MAX], wanted[RUNTIME_MIRRORS_MAX] = "";
	_cleanup_free_ char *literal = NULL;
	const struct key_record *record;
	struct mirror_set set;
	struct want *want;

	name_setting(&decision->tuner->sample, runtime, RUNTIME_MIRRORS, name);
	record = find_named(decision->input->keys, decision->input->n_keys, name);
	find_mirrors(decision, NULL, &set);
	if (!set.is_known || (set.n == 0 && !record))
		return;
	for (size_t i = 0; i < set.n_up; i++)
		registry_list_add(wanted, sizeof(wanted), set.up[i], strlen(set.up[i]));
	add_others(&set, files->mirrors, record, wanted);
	/* Without the key, a daemon keeps its mirrors. An empty list removes them. */
	literal = list_literal(wanted);
	want = want_setting(decision, runtime, RUNTIME_MIRRORS, literal);
	want->requested = set.n > 0;
	registry_shorten_list(wanted[0] ? wanted : NO_MIRRORS, want->wanted, SETTING_VALUE_MAX);
	copy_text(want->actual, SETTING_VALUE_MAX, runtime->in_force[RUNTIME_MIRRORS]);
	if (files->has_mirrors || streq(runtime->in_force[RUNTIME_MIRRORS], NO_MIRRORS))
		registry_shorten_list(files->mirrors[0] ? files->mirrors : NO_MIRRORS,
			want->file->on_disk, SETTING_VALUE_MAX);
	if (obstacle)
		leave(want, obstacle);
	else if (set.with_path)
		refuse(want, REASON_RUNTIME_UNSUPPORTED,
			"dockerd takes no mirror with a path and would not start with it: remove %s",
			set.with_path);
	else if (runtime->on_command[RUNTIME_MIRRORS])
		refuse(want, REASON_ON_COMMAND_LINE,
			"the command line of %s has --registry-mirror: remove the option, or name "
			"the mirrors there",
			runtime->found.unit);
	else if (set.n > 0 && set.n_up == 0 && (!record || value_equal(want->actual, want->wanted)))
		miss_mirrors(want, &set);
}

/* Says why a mirror file has no effect or cannot be. */
static void check_mirror_file(const struct runtime_decision *decision,
	const struct mirror_file *on_disk, const struct node_runtime *runtime, struct want *want)
{
	const struct runtime_key *directory = &runtime->files.keys[RUNTIME_HOSTS_DIRECTORY];
	bool has_docker = false;

	for (size_t i = 0; i < decision->tuner->sample.n; i++)
		has_docker |= !decision->tuner->sample.runtimes[i].found.driver->mirrors;
	if (on_disk->why[0])
		refuse(want, REASON_FILE_UNUSABLE, "%s", on_disk->why);
	else if (on_disk->exists && !on_disk->ours)
		refuse(want, REASON_FILE_OF_OTHERS,
			"%s is not ours: add the mirrors there, or move it away",
			on_disk->is_taken ? on_disk->taken_by : on_disk->path);
	else if (runtime->daemon.pid == 0)
		leave(want, REASON_PROCESS_NOT_SEEN);
	else if (directory->refusal == KEY_EXCLUDED)
		refuse(want, REASON_MIRRORS_WITHOUT_EFFECT, "%s", directory->why);
	else if (directory->refusal == KEY_CRI_OFF && has_docker &&
		 !is_docker_hub(on_disk->registry))
		refuse(want, REASON_RUNTIME_UNSUPPORTED,
			"Docker asks mirrors for docker.io only, and the CRI of containerd is off: "
			"remove it from runtime.mirrors");
}

static void want_mirror_file(
	const struct runtime_decision *decision, const struct mirror_file *on_disk)
{
	const struct mirror_format *format = on_disk->driver->mirrors;
	const struct node_runtime *runtime = decision->tuner->sample.runtimes;
	bool yields = on_disk->is_taken && on_disk->ours;
	char sum[HASH_TEXT_MAX] = "";
	_cleanup_free_ char *text = NULL;
	struct mirror_set set;
	struct want *want;

	find_mirrors(decision, on_disk->registry, &set);
	/* Mirrors are not checked yet, or nothing has to change. */
	if (!set.is_known || (set.n == 0 && on_disk->error == 0 && !on_disk->exists))
		return;
	while (runtime->found.driver != on_disk->driver ||
		runtime->found.managed_by != RUNTIME_OF_NODE)
		runtime++;
	/* Ours would hide the registry's definition by others, which may block it. */
	if (set.n_up > 0 && !yields)
		text = mirror_file_make(
			format, runtime->daemon.version, on_disk->registry, set.up, set.n_up);
	want = proposal_file(decision->proposal, text);
	snprintf(want->name, sizeof(want->name), "%s%.100s", format->setting, on_disk->registry);
	want->requested = set.n > 0;
	want->file->format = EDIT_OWN;
	set_text(want->file->path, on_disk->path);
	if (format->activation != ACTIVATE_NOTHING)
		set_daemon(decision, runtime, format->activation, want->file);
	if (text)
		hash_bytes(text, strlen(text), sum);
	mirror_file_list(format, text ? text : "", want->wanted);
	copy_text(want->file->on_disk, SETTING_VALUE_MAX,
		!on_disk->exists ? NO_MIRRORS
		: !on_disk->ours ? "of someone else"
				 : on_disk->mirrors);
	/* The same mirrors in another text are replaced. */
	if (on_disk->ours && streq(want->file->on_disk, want->wanted) && !streq(on_disk->sum, sum))
		copy_text(want->file->on_disk, SETTING_VALUE_MAX, "other text");
	set_text(want->file->judged, on_disk->exists ? on_disk->sum : FILE_HASH_NONE);
	copy_text(want->actual, SETTING_VALUE_MAX, want->file->on_disk);
	want->error = on_disk->error;
	want->reason = text     ? REASON_CONFIGURED
		       : yields ? REASON_FILE_OF_OTHERS
				: REASON_NO_MIRROR_UP;
	if (set.n_up > 0 && !text && !yields) {
		refuse(want, REASON_RUNTIME_UNSUPPORTED, "%s cannot have %s as mirrors of %s",
			runtime->found.name, set.all, on_disk->registry);
		want->error = -ENOENT;
		return;
	}
	check_mirror_file(decision, on_disk, runtime, want);
	if (set.n_up == 0 && !on_disk->exists && on_disk->error == 0 && !want->error)
		miss_mirrors(want, &set);
}

/* The mirrors of a registry that no runtime of this node can have. */
static void want_missing_mirrors(const struct runtime_decision *decision, const char *registry)
{
	const struct runtime_sample *sample = &decision->tuner->sample;
	const struct node_runtime *runtime = NULL;
	struct want *want;

	for (size_t i = sample->n; i > 0; i--) {
		const struct node_runtime *other = &sample->runtimes[i - 1];
		bool has_list = other->found.driver->keys[RUNTIME_MIRRORS].name;

		if (!is_in_use(other))
			continue;
		if (!other->files_known || (has_list && is_docker_hub(registry)))
			return;
		runtime = other;
	}
	if (!runtime || find_named(sample->files, sample->n_files, registry))
		return;
	want = proposal_file(decision->proposal, NULL);
	snprintf(want->name, sizeof(want->name), "mirrors.%.100s", registry);
	set_text(want->wanted, "configured");
	want->requested = true;
	if (runtime->found.managed_by == RUNTIME_OF_K8S)
		refuse(want, REASON_RUNTIME_UNSUPPORTED,
			"%s writes the files of its containerd: name the mirrors in its own files "
			"(k3s and RKE2: registries.yaml)",
			runtime->found.name);
	else
		refuse(want, REASON_RUNTIME_UNSUPPORTED,
			"%s asks mirrors for docker.io only: remove it from runtime.mirrors",
			runtime->found.name);
}

static void want_mirrors(const struct runtime_decision *decision)
{
	const struct runtime_config *config = &decision->tuner->config;
	const struct runtime_sample *sample = &decision->tuner->sample;

	for (size_t i = 0; i < sample->n; i++)
		if (sample->runtimes[i].found.driver->keys[RUNTIME_MIRRORS].name &&
			sample->runtimes[i].files_known)
			want_mirror_list(decision, &sample->runtimes[i]);
	for (size_t i = 0; i < sample->n_files; i++)
		want_mirror_file(decision, &sample->files[i]);
	for (size_t i = 0; i < config->n_mirrors; i++)
		if (!find_named(config->mirrors, i, config->mirrors[i].registry))
			want_missing_mirrors(decision, config->mirrors[i].registry);
}

/* ---- findings ---- */

static struct finding *find(const struct runtime_decision *decision, unsigned condition,
	enum reason reason, const char *slug, enum instance_kind kind, const char *name)
{
	const struct condition_type *type = &runtime_conditions[condition];
	struct instance instance = {.kind = kind};
	struct finding *finding;

	set_text(instance.name, name);
	finding = proposal_finding(decision->proposal, decision->input, type, reason, slug,
		&instance, FINDING_HAPPENS);
	if (finding)
		finding->breaks = type->help;
	return finding;
}

/* Whether the program has accepted its files: otherwise a restart may be the end of it. */
static bool would_start(const struct node_runtime *runtime)
{
	return runtime->files_known && runtime->files.error == 0 && !runtime->cannot_start;
}

static void find_silent(const struct runtime_decision *decision, const struct node_runtime *runtime)
{
	struct finding *finding = find(decision, RUNTIME_UNREACHABLE, REASON_RUNTIME_SILENT, NULL,
		INSTANCE_RUNTIME, runtime->found.name);

	if (!finding)
		return;
	finding_message(finding, "%s: %s", runtime->found.socket, runtime->why);
	/* Without its process, its files may be unknown. */
	if (would_start(runtime) || (!runtime->files_known && !runtime->cannot_start))
		finding_now(finding, "systemctl restart %s", runtime->found.unit);
	if (runtime->files.error < 0 && runtime->files.error != -ETIMEDOUT)
		finding_hint(finding, "it would not start: %s", runtime->files.why);
	else
		finding_hint(finding, "journalctl -u %s has its last words", runtime->found.unit);
}

static void judge_reach(const struct runtime_decision *decision)
{
	const struct runtime_sample *sample = &decision->tuner->sample;
	struct condition_reading *reading =
		proposal_condition(decision->proposal, &runtime_conditions[RUNTIME_UNREACHABLE],
			sample->n > 0 ? REASON_RUNTIME_ANSWERS : REASON_NO_RUNTIME);

	for (size_t i = 0; i < sample->n; i++) {
		const struct node_runtime *runtime = &sample->runtimes[i];
		uint64_t silent_us = pulls_age(decision->input->now_us, runtime->since_us);
		bool was_started = runtime->found.has_socket || runtime->answered_once ||
				   runtime->cannot_start;

		if (runtime->answer != RUNTIME_SILENT || !was_started)
			continue;
		if (runtime->is_stopped && !runtime->cannot_start) {
			reading->reason = REASON_RUNTIME_STOPPED;
			condition_append(reading, "%s is stopped", runtime->found.unit);
		} else if (silent_us >= SILENT_AFTER_US || decision->tuner->once) {
			find_silent(decision, runtime);
		}
	}
}

/* The administrator meant to set them, and they have no effect. */
static void find_misplaced_keys(const struct runtime_decision *decision)
{
	const struct condition_type *type = &core_tables.conditions[CORE_SETTING_FAILED];
	const struct runtime_sample *sample = &decision->tuner->sample;

	for (size_t i = 0; i < sample->n; i++)
		for (int k = 0; k < RUNTIME_SETTINGS; k++) {
			const struct runtime_key *key = &sample->runtimes[i].files.keys[k];
			struct instance instance = {.kind = INSTANCE_SETTING};
			struct finding *finding;

			if (!key->misplaced[0])
				continue;
			name_setting(sample, &sample->runtimes[i], (enum runtime_setting)k,
				instance.name);
			finding = proposal_finding(decision->proposal, decision->input, type,
				REASON_KEY_MISPLACED, NULL, &instance, FINDING_HAPPENS);
			if (!finding)
				continue;
			finding->severity = SEVERITY_ADVICE;
			finding_message(finding, "%s", key->misplaced);
			finding_hint(finding, "move it to [%s], or remove it", key->tables[0]);
		}
}

/* The configuration names a runtime that is not installed. */
static void find_missing_runtime(const struct runtime_decision *decision)
{
	const struct runtime_driver *driver = decision->tuner->config.driver;
	const struct runtime_sample *sample = &decision->tuner->sample;
	struct finding *finding;

	if (!driver || sample->now_us == 0 || sample->n > 0)
		return;
	finding = proposal_finding(decision->proposal, decision->input,
		&core_tables.conditions[CORE_SETTING_FAILED], REASON_NO_RUNTIME, NULL,
		&(struct instance){.kind = INSTANCE_SETTING, .name = "runtime.kind"},
		FINDING_HAPPENS);
	if (!finding)
		return;
	finding_message(finding, "%s was not found on this node", driver->name);
	finding_hint(finding, "install it, or remove runtime.kind from the configuration");
}

/* A file that the running program refuses, or files that nothing verifies. */
static void find_refused_files(const struct runtime_decision *decision)
{
	const struct runtime_sample *sample = &decision->tuner->sample;

	for (size_t i = 0; i < sample->n; i++) {
		const struct node_runtime *runtime = &sample->runtimes[i];
		const struct runtime_files *files = &runtime->files;
		bool is_known =
			files->error == 0 || files->error == -EBADMSG || files->error == -EEXIST;
		char what[CONDITION_MESSAGE_MAX];

		if (runtime->files_known && (!is_known || files->is_unverified)) {
			snprintf(what, sizeof(what), "%s: %.300s", runtime->found.name,
				files->why[0] ? files->why
					      : "the program that reads its files is not visible");
			note_unverified(decision->proposal, what);
		}

		if (runtime->files.error == -EBADMSG)
			find_bad_file(decision->proposal, decision->input, REASON_FILE_UNUSABLE,
				&runtime->files.bad, runtime->files.why, runtime->found.unit);
	}
}

/* The program on disk is not the running one, so nobody knows what a restart would do. */
static void find_replaced_program(
	const struct runtime_decision *decision, const struct node_runtime *runtime)
{
	struct finding *finding;

	if (runtime->files.error != -ESTALE)
		return;
	finding = find(decision, RUNTIME_RESTART_PENDING, REASON_PROGRAM_DIFFERS, NULL,
		INSTANCE_RUNTIME, runtime->found.name);
	if (!finding)
		return;
	finding->severity = SEVERITY_ADVICE;
	finding_message(finding, "%s", runtime->files.why);
	finding_hint(finding, "check its files with the new program before %s restarts",
		runtime->found.unit);
}

/* The value is in the file and not in force. */
static void find_pending(const struct runtime_decision *decision, const struct want *want)
{
	const struct decide_input *input = decision->input;
	const struct file_change *file = want->file;
	const struct setting *setting = find_named(input->settings, input->n_settings, want->name);
	/* Obstacles to a restart that an attempt has found. */
	bool is_obstacle = setting && (setting->reason == REASON_NO_SYSTEMD ||
					      setting->reason == REASON_RESTART_REFUSED ||
					      setting->reason == REASON_RESTARTED_TOO_OFTEN ||
					      setting->reason == REASON_DOES_NOT_LOAD ||
					      setting->reason == REASON_NO_EFFECT);
	enum reason reason = is_obstacle ? setting->reason : REASON_RESTART_PENDING;
	const char *unit = file->daemon.unit;
	struct finding *finding;
	uint64_t wait_us;

	(void)may_restart(&file->daemon, find_named(input->restarts, input->n_restarts, unit),
		file->restart, input->realtime_us / USEC_PER_SEC, &wait_us);
	decision->memory->awaits_idle |= wait_us == 0;
	finding = find(decision, RUNTIME_RESTART_PENDING, reason,
		reason_rows[REASON_RESTART_PENDING].slug, INSTANCE_SETTING, want->name);
	if (!finding)
		return;
	/* If only the administrator may restart it, nothing is wrong. */
	if (!is_obstacle && wait_us == UINT64_MAX)
		finding->severity = SEVERITY_ADVICE;
	finding_message(finding, "%s is in %s, and %s is in force%s%s", want->wanted, file->path,
		want->actual[0] ? want->actual : "an unknown value", is_obstacle ? ": " : "",
		is_obstacle ? setting->why : "");
	if (reason == REASON_DOES_NOT_LOAD || reason == REASON_NO_EFFECT ||
		reason == REASON_RESTART_REFUSED) {
		finding_hint(finding,
			reason == REASON_DOES_NOT_LOAD ? "correct the file first: %s would not "
							 "start with it"
			: reason == REASON_NO_EFFECT   ? "find out which file %s reads, then type: "
							 "headroom apply --only runtime"
						       : "restart %s when that does no harm",
			unit);
		return;
	}
	if (would_start(runtime_find(&decision->tuner->sample, file->daemon.socket)))
		finding_now(finding, "systemctl restart %s", unit);
	if (file->restart == RESTART_NEVER && wait_us == UINT64_MAX &&
		runtime_find(&decision->tuner->sample, file->daemon.socket)->found.managed_by ==
			RUNTIME_OF_NODE)
		finding_keep(finding, input, "runtime", "runtime: {restart: when-idle}");
	else if (!is_obstacle && wait_us < UINT64_MAX)
		finding_hint(finding, "%s is restarted %s", unit,
			file->restart == RESTART_NOW
				? "now"
				: "when nothing is being pulled, at most once an hour");
}

static void judge_restart(const struct runtime_decision *decision)
{
	const struct runtime_sample *sample = &decision->tuner->sample;
	const struct proposal *proposal = decision->proposal;

	(void)proposal_condition(decision->proposal, &runtime_conditions[RUNTIME_RESTART_PENDING],
		REASON_NONE_PENDING);
	for (size_t i = 0; i < sample->n; i++)
		find_replaced_program(decision, &sample->runtimes[i]);
	for (size_t i = 0; i < proposal->n_wants; i++) {
		const struct want *want = &proposal->wants[i];

		if (want->file->activation == ACTIVATE_RESTART && want->wanted[0] &&
			want->error == 0 && value_equal(want->file->on_disk, want->wanted) &&
			!value_equal(want->actual, want->wanted))
			find_pending(decision, want);
	}
}

static double percent_used(const struct runtime_store *store)
{
	return 100.0 * (double)store->used / (double)store->size;
}

static void judge_drivers(const struct runtime_decision *decision)
{
	const struct runtime_sample *sample = &decision->tuner->sample;

	(void)proposal_condition(
		decision->proposal, &runtime_conditions[STORAGE_DRIVER_SLOW], REASON_DRIVER_FAST);
	for (size_t i = 0; i < sample->n; i++) {
		const struct runtime_store *store = &sample->runtimes[i].store;
		const struct poor_driver *poor = runtime_poor_driver(store);
		struct finding *finding = NULL;

		if (poor)
			finding = find(decision, STORAGE_DRIVER_SLOW, REASON_DRIVER_SLOW, NULL,
				INSTANCE_RUNTIME, sample->runtimes[i].found.name);
		if (!finding)
			continue;
		finding_message(finding, "%s", poor->why);
		finding_hint(finding,
			"use %s: the images and containers of the old driver are not visible then",
			poor->instead);
	}
}

/* Stores may share a file system: the first runtime counts. */
static void cure_full_store(struct finding *finding, const struct node_runtime *runtime)
{
	bool serves = runtime->found.driver->serves_kubelet;

	if (!runtime->client[0] || runtime->no_cri) {
		finding_hint(finding, "%s, or make the file system larger",
			runtime->no_cri ? "remove images without a container"
			: serves        ? "install crictl (cri-tools): crictl rmi --prune removes "
					  "all images without a container"
					: "install the docker CLI: docker image prune -af removes "
					  "all images without a container");
		return;
	}
	finding_now(finding, "%s %s", runtime->client, serves ? "rmi --prune" : "image prune -af");
	finding_hint(finding,
		"this removes all images without a container, also preloaded images without a pin");
}

static void find_full_store(
	const struct runtime_decision *decision, const struct node_runtime *runtime)
{
	const struct condition_type *type = &runtime_conditions[IMAGE_STORE_FULL];
	const struct runtime_store *store = &runtime->store;
	struct instance instance = {.kind = INSTANCE_FILESYSTEM, .id = store->number};
	const struct facts *facts = decision->tuner->facts;
	double percent = percent_used(store), full = STORE_FULL_PERCENT;
	struct finding *finding;

	if (facts && facts->disks.images_gc_high > 0)
		full = MIN(facts->disks.images_gc_high, (unsigned)STORE_MOST_PERCENT);
	for (const struct node_runtime *other = decision->tuner->sample.runtimes; other < runtime;
		other++)
		if (other->store.known && other->store.number == store->number)
			return;
	set_text(instance.name, store->directory);
	finding = proposal_finding(decision->proposal, decision->input, type,
		REASON_STORE_NEARLY_FULL, STORE, &instance,
		percent >= full                        ? FINDING_HAPPENS
		: percent >= full - STORE_ROOM_PERCENT ? FINDING_LASTS
						       : FINDING_OVER);
	if (!finding)
		return;
	finding->unit = "bytes";
	finding->use = (struct finding_use){.used = store->used, .max = store->size};
	finding->breaks = type->help;
	finding_message(finding, "the images of %s, %s%s%s", runtime->found.name, store->filesystem,
		store->device[0] ? " on " : "", store->device);
	cure_full_store(finding, runtime);
}

static void judge_store(const struct runtime_decision *decision)
{
	const struct runtime_sample *sample = &decision->tuner->sample;
	const struct runtime_store *store = NULL;
	struct condition_reading *reading = proposal_condition(
		decision->proposal, &runtime_conditions[IMAGE_STORE_FULL], REASON_WITHIN_LIMIT);
	struct limit_reading *limit;

	for (size_t i = 0; i < sample->n; i++) {
		const struct runtime_store *other = &sample->runtimes[i].store;

		if (!other->known)
			continue;
		find_full_store(decision, &sample->runtimes[i]);
		if (!store || percent_used(other) > percent_used(store))
			store = other;
	}
	if (!store) {
		condition_unknown(reading, REASON_STORE_UNKNOWN);
		return;
	}
	condition_append(reading, "%.100s (%s%s%s) is %.0f %% full", store->directory,
		store->filesystem, store->device[0] ? " on " : "", store->device,
		percent_used(store));
	limit = proposal_limit(decision->proposal);
	set_text(limit->name, STORE);
	limit->unit = "bytes";
	limit->used = store->used;
	limit->max = store->size;
}

/* A finding of a layer, and who may know more. */
static void describe_layer(struct finding *finding, const struct node_runtime *runtime,
	const struct pull_layer *layer, const char *how)
{
	char total[32] = "an unknown number of";
	const struct pull_image *image =
		find_named(runtime->pulls.images, runtime->pulls.n_images, layer->image);
	const char *registry = finding->instance.name;

	if (layer->piece.total > 0)
		snprintf(total, sizeof(total), "%llu", (unsigned long long)layer->piece.total);
	finding_message(finding,
		"%s: %.90s of %.100s: %llu of %s bytes, %s; %zu other layers are being fetched",
		runtime->found.name, layer->piece.ref,
		layer->image[0] ? layer->image : "an unknown image",
		(unsigned long long)layer->piece.offset, total, how, runtime->pulls.n - 1);
	if (!layer->image[0])
		finding_hint(finding, "check the registry or mirror, then pull again");
	else
		finding_hint(finding,
			"check the registry or mirror, then pull again: curl -v https://%s/v2/%s",
			streq(registry, "docker.io") ? "registry-1.docker.io" : registry,
			image && image->has_port ? "" : " (with its port, if it has one)");
}

/* Returns whether a layer of the same registry is worse. */
static bool is_outdone(const struct runtime_decision *decision, const struct pull_layer *layer,
	double (*badness)(const struct pull_layer *layer, uint64_t now_us))
{
	const struct runtime_sample *sample = &decision->tuner->sample;
	uint64_t now = decision->input->now_us;
	char registry[64], other[64];
	double worst = badness(layer, now);

	pulls_registry_of(layer->image, registry);
	for (size_t i = 0; i < sample->n; i++)
		for (size_t k = 0; k < sample->runtimes[i].pulls.n; k++) {
			const struct pull_layer *rival = &sample->runtimes[i].pulls.layers[k];
			double bad = badness(rival, now);

			pulls_registry_of(rival->image, other);
			if (streq(registry, other) &&
				(bad > worst || (bad == worst && rival < layer)))
				return true;
		}
	return false;
}

/* A load of an archive pauses while etcd needs the disk. Its layers have a name only later. */
static bool has_paused(const struct runtime_decision *decision, const struct pull_layer *layer)
{
	const struct facts *facts = decision->tuner->facts;

	return facts && facts->disks.load_waited_us > 0 &&
	       pulls_age(decision->input->now_us, facts->disks.load_waited_us) <
		       2 * PULL_STUCK_US &&
	       (!layer->image[0] || images_is_ours(layer->image));
}

/* Reports the worst layer of each registry. */
static void find_layers(const struct runtime_decision *decision, unsigned condition,
	enum reason reason, double (*badness)(const struct pull_layer *layer, uint64_t now_us),
	void (*describe)(const struct pull_layer *layer, uint64_t now_us, char *how, size_t size))
{
	const struct runtime_sample *sample = &decision->tuner->sample;
	uint64_t now = decision->input->now_us;
	char how[128], registry[64];

	(void)proposal_condition(
		decision->proposal, &runtime_conditions[condition], REASON_PULLS_MOVE);
	for (size_t i = 0; i < sample->n; i++)
		for (size_t k = 0; k < sample->runtimes[i].pulls.n; k++) {
			const struct node_runtime *runtime = &sample->runtimes[i];
			const struct pull_layer *layer = &runtime->pulls.layers[k];
			struct finding *finding;

			if (badness(layer, now) <= 0 || is_outdone(decision, layer, badness) ||
				has_paused(decision, layer))
				continue;
			pulls_registry_of(layer->image, registry);
			finding = find(
				decision, condition, reason, NULL, INSTANCE_REGISTRY, registry);
			if (!finding)
				return;
			if (condition == PULL_SLOW)
				finding->hold_us = SLOW_HOLD_US;
			describe(layer, now, how, sizeof(how));
			describe_layer(finding, runtime, layer, how);
		}
}

static double seconds_stuck(const struct pull_layer *layer, uint64_t now_us)
{
	return pulls_is_stuck(layer, now_us)
		       ? (double)pulls_age(now_us, layer->moved_us) / USEC_PER_SEC
		       : 0;
}

static void describe_stuck(const struct pull_layer *layer, uint64_t now_us, char *how, size_t size)
{
	snprintf(how, size, "no progress for %.0f s", floor(seconds_stuck(layer, now_us)));
}

static double seconds_slow(const struct pull_layer *layer, uint64_t)
{
	return pulls_is_slow(layer) ? pulls_seconds_left(layer) : 0;
}

static void describe_slow(const struct pull_layer *layer, uint64_t, char *how, size_t size)
{
	char left[TIME_TEXT_MAX], rate[AMOUNT_MAX];

	duration_text(pulls_seconds_left(layer), left);
	snprintf(how, size, "%s/s in the last minute, so %s more",
		amount_text(layer->minute_rate, "bytes", rate), left);
}

/* Reports why the agent cannot read the files. */
static void add_lacks(const struct runtime_decision *decision)
{
	const struct runtime_sample *sample = &decision->tuner->sample;

	for (size_t i = 0; i < sample->n && !decision->proposal->why[0]; i++) {
		const struct runtime_files *files = &sample->runtimes[i].files;

		/* Those have findings of their own; a slow one is read again. */
		if (files->error != -EBADMSG && files->error != -ESTALE &&
			files->error != -ETIMEDOUT)
			proposal_lacks(decision->proposal, files->why);
	}
}

void runtime_decide(
	const void *self, const struct decide_input *input, void *memory, struct proposal *proposal)
{
	const struct runtime_decision decision = {self, input, memory, proposal};
	const struct runtime_sample *sample = &decision.tuner->sample;
	struct runtime_recorded *recorded = &decision.memory->recorded;

	add_lacks(&decision);
	/* A registry with a recorded file stays known until the file is removed. */
	recorded->n = 0;
	decision.memory->awaits_idle = false;
	for (size_t i = 0; i < input->n_keys; i++)
		for (size_t d = 0; runtime_drivers[d]; d++) {
			const struct mirror_format *format = runtime_drivers[d]->mirrors;
			const char *name = input->keys[i].name;

			if (format && starts_with(name, format->setting) &&
				recorded->n < RUNTIME_MIRROR_MAX)
				copy_text(recorded->registries[recorded->n++], REGISTRY_NAME_MAX,
					name + strlen(format->setting));
		}
	for (size_t i = 0; i < sample->n; i++) {
		const struct node_runtime *runtime = &sample->runtimes[i];
		const struct runtime_key_row *keys = runtime->found.driver->keys;

		/* The settings of a runtime are unknown until its files are read, except that a
		 * command also reports a silent runtime. A nested runtime has no settings. */
		if ((!runtime->files_known && !(decision.tuner->once && is_silent(runtime))) ||
			runtime->found.managed_by == RUNTIME_NESTED)
			continue;
		for (int k = RUNTIME_DOWNLOADS; k <= RUNTIME_PROGRESS_TIMEOUT; k++)
			if (keys[k].name)
				want_number(&decision, runtime, (enum runtime_setting)k);
		if (keys[RUNTIME_HOSTS_DIRECTORY].name)
			want_directory(&decision, runtime);
	}
	want_missing_timeout(&decision);
	want_mirrors(&decision);
	judge_reach(&decision);
	find_missing_runtime(&decision);
	find_refused_files(&decision);
	find_misplaced_keys(&decision);
	judge_restart(&decision);
	judge_store(&decision);
	judge_drivers(&decision);
	find_layers(&decision, PULL_STUCK, REASON_NO_PROGRESS, seconds_stuck, describe_stuck);
	find_layers(&decision, PULL_SLOW, REASON_PULL_SLOW, seconds_slow, describe_slow);
}
