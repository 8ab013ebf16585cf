/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decisions of the runtime tuner, in this order: keys of the configuration; mirrors;
 * conditions. Nothing here reads the node or its clock.
 */
#include "tuners/runtime/runtime.h"

#include "base/toml.h"

#define NONE "none" /* no mirrors */

/* An older answer does not tell whether a restart would interrupt a pull. */
#define PULLS_KNOWN_US (4 * USEC_PER_SEC)

/* Longer than a restart takes. */
#define SILENT_AFTER_US (3 * USEC_PER_SEC)

/* The kubelet begins to delete images at 85 %: imageGCHighThresholdPercent. */
#define STORE_FULL_PERCENT  85
#define STORE_ROOMY_PERCENT 80

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

/* Returns why settings of this runtime cannot be written, or REASON_NONE. */
static enum reason find_obstacle(const struct node_runtime *runtime)
{
	bool hidden = runtime->daemon.pid == 0 ||
		      (runtime->found.driver->needs_program && !runtime->daemon.program[0]);
	enum reason reason = REASON_NONE;

	if (runtime->files.error == -ESTALE)
		reason = REASON_PROGRAM_DIFFERS;
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

static uint64_t number_of(
	const struct node_runtime *runtime, enum runtime_setting setting, const char *value)
{
	unsigned long long number = 0;

	if (!value[0])
		return 0;
	if (setting != RUNTIME_PROGRESS_TIMEOUT)
		number = strtoull(value, NULL, 10);
	else if (runtime_duration_parse(value, &number) < 0)
		return 0;
	return number > 0 ? number : runtime->found.driver->keys[setting].zero;
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
		want->error = -ENOENT;
		want->reason = REASON_RUNTIME_UNSUPPORTED;
	}
	return want;
}

/* Proposes a number of the configuration; 0: keep. Unless exact, it only raises. */
static void want_number(const struct runtime_decision *decision, const struct node_runtime *runtime,
	enum runtime_setting setting)
{
	const struct runtime_number *number = &decision->tuner->config.numbers[setting];
	const char *in_file, *in_force;
	enum reason reason = REASON_NONE;
	const struct key_record *record;
	struct want *want;
	char text[32];
	bool ours;

	if (setting == RUNTIME_PROGRESS_TIMEOUT)
		runtime_duration_text(number->value, text);
	else
		snprintf(text, sizeof(text), "%llu", (unsigned long long)number->value);
	want = want_key(decision, runtime, setting, text);
	want->requested = number->given && number->value > 0;
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
				runtime->found.driver->keys[setting].zero);
		want->reason = REASON_ON_COMMAND_LINE;
		return;
	}
	if (number->value == 0)
		reason = REASON_KEPT;
	else if (runtime->on_command[setting])
		reason = REASON_ON_COMMAND_LINE;
	else if (!number->exact && number_of(runtime, setting, in_file[0] ? in_file : in_force) >
					   number_of(runtime, setting, want->wanted))
		reason = REASON_ADMINISTRATOR_HIGHER;
	check_want(decision, runtime, want, reason);
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

/*
 * Finds the working mirrors of a registry. NULL: those of a list, which serves docker.io only.
 * Returns their number; -EAGAIN: a mirror was not checked yet.
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
			     : !streq(configured->registry, REGISTRY_DEFAULT) &&
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
	const char *up[RUNTIME_MIRROR_MAX];
	enum reason obstacle = find_obstacle(runtime);
	char name[SETTING_NAME_MAX], wanted[RUNTIME_MIRRORS_MAX] = "", words[RUNTIME_MIRRORS_MAX];
	char *state = NULL;
	int n = find_up(decision->tuner, NULL, up);
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = must(cJSON_CreateArray());
	_cleanup_free_ char *literal = NULL;
	const struct key_record *record;
	struct want *want;

	name_setting(&decision->tuner->sample, runtime, RUNTIME_MIRRORS, name);
	record = find_named(decision->input->keys, decision->input->n_keys, name);
	if (n < 0 || (n == 0 && !record))
		return;
	for (int i = 0; i < n; i++)
		registry_list_add(wanted, sizeof(wanted), up[i], strlen(up[i]));
	/* Mirrors that are neither configured nor written by us stay. */
	for (const char *at = files->mirrors; *at; at += strspn(at, " ")) {
		size_t len = strcspn(at, " ");
		bool ours = record && registry_list_has(record->wanted, at, len) &&
			    !registry_list_has(record->on_disk_originally, at, len);

		for (size_t i = 0; i < config->n_mirrors && !ours; i++)
			ours = strlen(config->mirrors[i].url) == len &&
			       strncmp(config->mirrors[i].url, at, len) == 0;
		if (!ours)
			registry_list_add(wanted, RUNTIME_MIRRORS_MAX, at, len);
		at += len;
	}
	/* Without the key, a daemon keeps its mirrors. An empty list removes them. */
	set_text(words, wanted);
	for (char *word = strtok_r(words, " ", &state); word; word = strtok_r(NULL, " ", &state))
		json_append_text(list, word);
	literal = must(cJSON_PrintUnformatted(list));
	want = want_setting(decision, runtime, RUNTIME_MIRRORS, literal);
	registry_shorten_list(wanted[0] ? wanted : NONE, want->wanted, SETTING_VALUE_MAX);
	copy_text(want->actual, SETTING_VALUE_MAX, runtime->in_force[RUNTIME_MIRRORS]);
	if (files->has_mirrors || streq(runtime->in_force[RUNTIME_MIRRORS], NONE))
		registry_shorten_list(files->mirrors[0] ? files->mirrors : NONE,
			want->file->on_disk, SETTING_VALUE_MAX);
	if (obstacle)
		leave(want, obstacle);
	else if (runtime->on_command[RUNTIME_MIRRORS])
		leave(want, REASON_ON_COMMAND_LINE);
}

static void want_mirror_file(
	const struct runtime_decision *decision, const struct mirror_file *on_disk)
{
	const struct mirror_format *format = on_disk->driver->mirrors;
	const struct runtime_sample *sample = &decision->tuner->sample;
	const struct node_runtime *runtime = sample->runtimes;
	const char *up[RUNTIME_MIRROR_MAX];
	char sum[HASH_TEXT_MAX] = "";
	_cleanup_free_ char *text = NULL;
	struct want *want;
	int n = find_up(decision->tuner, on_disk->registry, up);

	/* Mirrors are not checked yet, or nothing has to change. */
	if (n < 0 || (n == 0 && on_disk->error == 0 && !on_disk->exists))
		return;
	while (runtime->found.driver != on_disk->driver ||
		runtime->found.managed_by != RUNTIME_OF_NODE)
		runtime++;
	if (n > 0)
		text = mirror_file_make(
			format, runtime->daemon.version, on_disk->registry, up, (size_t)n);
	want = proposal_file(decision->proposal, text);
	snprintf(want->name, sizeof(want->name), "%s%.100s", format->setting, on_disk->registry);
	want->file->format = EDIT_OWN;
	set_text(want->file->path, on_disk->path);
	if (format->activation != ACTIVATE_NOTHING)
		set_daemon(decision, runtime, format->activation, want->file);
	if (text)
		hash_bytes(text, strlen(text), sum);
	mirror_file_list(format, text ? text : "", want->wanted);
	copy_text(want->file->on_disk, SETTING_VALUE_MAX,
		!on_disk->exists ? NONE
		: !on_disk->ours ? "of someone else"
				 : on_disk->mirrors);
	/* The same mirrors in another text are replaced. */
	if (on_disk->ours && streq(want->file->on_disk, want->wanted) && !streq(on_disk->sum, sum))
		copy_text(want->file->on_disk, SETTING_VALUE_MAX, "other text");
	copy_text(want->actual, SETTING_VALUE_MAX, want->file->on_disk);
	want->error = on_disk->error;
	want->reason = text ? REASON_CONFIGURED : REASON_NO_MIRROR_UP;
	if (n > 0 && !text) {
		want->error = -ENOENT;
		want->reason = REASON_RUNTIME_UNSUPPORTED;
	} else if (on_disk->exists && !on_disk->ours) {
		leave(want, REASON_FILE_OF_OTHERS);
	} else if (runtime->daemon.pid == 0) {
		leave(want, REASON_PROCESS_NOT_SEEN);
	} else if (runtime->files.keys[RUNTIME_HOSTS_DIRECTORY].refusal == KEY_EXCLUDED) {
		leave(want, REASON_MIRRORS_WITHOUT_EFFECT);
	}
}

static void want_mirrors(const struct runtime_decision *decision)
{
	const struct runtime_sample *sample = &decision->tuner->sample;

	for (size_t i = 0; i < sample->n; i++)
		if (sample->runtimes[i].found.driver->keys[RUNTIME_MIRRORS].name &&
			sample->runtimes[i].files_known)
			want_mirror_list(decision, &sample->runtimes[i]);
	for (size_t i = 0; i < sample->n_files; i++)
		want_mirror_file(decision, &sample->files[i]);
}

/* ---- conditions ---- */

static void judge_reach(const struct runtime_decision *decision)
{
	const struct runtime_sample *sample = &decision->tuner->sample;
	struct condition_reading *reading =
		proposal_condition(decision->proposal, &runtime_conditions[RUNTIME_UNREACHABLE],
			sample->n > 0 ? REASON_RUNTIME_ANSWERS : REASON_NO_RUNTIME);

	for (size_t i = 0; i < sample->n; i++) {
		const struct node_runtime *runtime = &sample->runtimes[i];
		uint64_t silent_us = pulls_age(decision->input->now_us, runtime->since_us);

		if (runtime->answer != RUNTIME_SILENT ||
			(silent_us < SILENT_AFTER_US && !decision->tuner->once) ||
			(!runtime->found.has_socket && !runtime->answered_once &&
				!runtime->cannot_start))
			continue;
		condition_raise(reading, REASON_RUNTIME_SILENT,
			"%s: %s: %.150s: see systemctl status %s", runtime->found.name,
			runtime->found.socket, runtime->why, runtime->found.unit);
	}
}

static void judge_restart(const struct runtime_decision *decision)
{
	/* Cures for known obstacles to the restart. */
	static const char *const cures[REASONS] = {
		[REASON_NO_SYSTEMD] = ": restart it by hand",
		[REASON_RESTART_REFUSED] = ": restart it by hand",
		[REASON_RESTARTED_TOO_OFTEN] = ": restart it by hand",
		[REASON_DOES_NOT_LOAD] = ": mend the file",
		[REASON_NO_EFFECT] = "",
	};
	const struct decide_input *input = decision->input;
	const struct proposal *proposal = decision->proposal;
	struct condition_reading *reading = proposal_condition(decision->proposal,
		&runtime_conditions[RUNTIME_RESTART_PENDING], REASON_NONE_PENDING);

	for (size_t i = 0; i < proposal->n_wants && reading->status != CONDITION_TRUE; i++) {
		const struct want *want = &proposal->wants[i];
		const struct file_change *file = want->file;
		const struct setting *setting =
			find_named(input->settings, input->n_settings, want->name);
		const struct key_record *record = record_of(decision, want->name);
		const char *cure = setting ? cures[setting->reason] : NULL;
		uint64_t wait_us;

		/* The file broke after our write. Its values are unknown. */
		if (file->activation == ACTIVATE_RESTART && record &&
			want->reason == REASON_FILE_UNUSABLE &&
			!value_equal(want->actual, record->wanted))
			condition_raise(reading, REASON_FILE_UNUSABLE,
				"%s was set to %s, and %s cannot be restarted with a broken file: %s",
				want->name, record->wanted, file->daemon.unit,
				runtime_find(&decision->tuner->sample, file->daemon.socket)
					->files.why);
		if (file->activation != ACTIVATE_RESTART || !want->wanted[0] || want->error < 0 ||
			!value_equal(want->file->on_disk, want->wanted) ||
			value_equal(want->actual, want->wanted))
			continue;
		(void)may_restart(&file->daemon,
			find_named(input->restarts, input->n_restarts, file->daemon.unit),
			file->restart, input->realtime_us / USEC_PER_SEC, &wait_us);
		decision->memory->awaits_idle |= wait_us == 0;
		condition_raise(reading, cure ? setting->reason : REASON_RESTART_PENDING,
			"%s is %s in %.80s, and %s is in force: ", want->name, want->wanted,
			want->file->path, want->actual[0] ? want->actual : "an unknown value");
		/* Then the administrator restarts it: no fault. */
		reading->milder = !cure && wait_us == UINT64_MAX;
		if (cure)
			condition_append(reading, "%s%s", setting->why, cure);
		else if (wait_us == UINT64_MAX)
			condition_append(reading, "restart %s%s", file->daemon.unit,
				decision->tuner->config.restart == RESTART_NEVER
					? ", or set runtime.restart"
					: "");
		else
			condition_append(reading, "%s is restarted %s", file->daemon.unit,
				file->restart == RESTART_NOW
					? "now"
					: "when nothing is being pulled, at most once an hour");
	}
}

static double percent_used(const struct runtime_store *store)
{
	return 100.0 * (double)store->used / (double)store->size;
}

static void judge_drivers(const struct runtime_decision *decision)
{
	const struct runtime_sample *sample = &decision->tuner->sample;
	struct condition_reading *reading = proposal_condition(
		decision->proposal, &runtime_conditions[STORAGE_DRIVER_SLOW], REASON_DRIVER_FAST);

	for (size_t i = 0; i < sample->n; i++) {
		const char *why = runtime_poor_driver(&sample->runtimes[i].store);

		if (why)
			condition_raise(reading, REASON_DRIVER_SLOW, "%s: %s",
				sample->runtimes[i].found.name, why);
	}
}

static void judge_store(const struct runtime_decision *decision)
{
	const struct runtime_sample *sample = &decision->tuner->sample;
	const struct runtime_store *store = NULL;
	struct condition_reading *reading = proposal_condition(
		decision->proposal, &runtime_conditions[IMAGE_STORE_FULL], REASON_WITHIN_LIMIT);
	bool *full = &decision->memory->store_full;
	struct limit_reading *limit;
	double percent;

	/* The fullest one: stores may share a file system. */
	for (size_t i = 0; i < sample->n; i++) {
		const struct runtime_store *other = &sample->runtimes[i].store;

		if (other->known && (!store || percent_used(other) > percent_used(store)))
			store = other;
	}
	if (!store) {
		condition_unknown(reading, REASON_STORE_UNKNOWN);
		return;
	}
	percent = percent_used(store);
	*full = percent >= (*full ? STORE_ROOMY_PERCENT : STORE_FULL_PERCENT);
	condition_append(reading, "%.100s (%s%s%s) is %.0f %% full%s", store->directory,
		store->filesystem, store->device[0] ? " on " : "", store->device, percent,
		*full ? ": remove images that are not in use, or give it more room" : "");
	if (*full) {
		reading->status = CONDITION_TRUE;
		reading->reason = REASON_STORE_NEARLY_FULL;
	}
	limit = proposal_limit(decision->proposal);
	set_text(limit->name, "images/store");
	limit->unit = "bytes";
	limit->used = store->used;
	limit->max = store->size;
}

/* The first layer that is raised counts. */
static void raise_layer(struct condition_reading *reading, enum reason reason,
	const struct node_runtime *runtime, const struct pull_layer *layer, const char *how)
{
	char registry[64], total[32] = "an unknown number of";

	if (reading->status == CONDITION_TRUE)
		return;
	pulls_registry_of(layer->image, registry);
	if (layer->piece.total > 0)
		snprintf(total, sizeof(total), "%llu", (unsigned long long)layer->piece.total);
	condition_raise(reading, reason,
		"%s: %.90s of %.100s from %s: %llu of %s bytes, %s; %zu other layers are being "
		"fetched: check the registry or mirror, then pull again",
		runtime->found.name, layer->piece.ref,
		layer->image[0] ? layer->image : "an unknown image", registry,
		(unsigned long long)layer->piece.offset, total, how, runtime->pulls.n - 1);
}

static void judge_pulls(const struct runtime_decision *decision)
{
	const struct runtime_sample *sample = &decision->tuner->sample;
	uint64_t now = decision->input->now_us;
	struct condition_reading *reading = proposal_condition(
		decision->proposal, &runtime_conditions[PULL_STUCK], REASON_PULLS_MOVE);
	char how[128], left[TIME_TEXT_MAX], rate[AMOUNT_MAX];

	for (size_t i = 0; i < sample->n; i++) {
		const struct node_runtime *runtime = &sample->runtimes[i];
		const struct pull_layer *stuck = pulls_stuck(&runtime->pulls, now);

		if (!stuck)
			continue;
		snprintf(how, sizeof(how), "no progress for %llu s",
			(unsigned long long)(pulls_age(now, stuck->moved_us) / USEC_PER_SEC));
		raise_layer(reading, REASON_NO_PROGRESS, runtime, stuck, how);
	}
	reading = proposal_condition(
		decision->proposal, &runtime_conditions[PULL_SLOW], REASON_PULLS_MOVE);
	for (size_t i = 0; i < sample->n; i++) {
		const struct node_runtime *runtime = &sample->runtimes[i];
		const struct pull_layer *slow = pulls_slow(&runtime->pulls);

		if (!slow)
			continue;
		duration_text(pulls_seconds_left(slow), left);
		snprintf(how, sizeof(how), "%s/s in the last minute, so %s more",
			amount_text(slow->minute_rate, "bytes", rate), left);
		raise_layer(reading, REASON_PULL_SLOW, runtime, slow, how);
	}
}

/*
 * Explains why downloads are not set: a broken file, or a key that cannot be edited. A silent
 * runtime has a condition.
 */
static void add_lacks(const struct runtime_tuner *tuner, char why[static TUNER_WHY_MAX])
{
	uint64_t wanted = tuner->config.numbers[RUNTIME_DOWNLOADS].value;

	for (size_t i = 0; i < tuner->sample.n && !why[0]; i++) {
		const struct node_runtime *runtime = &tuner->sample.runtimes[i];
		const struct runtime_key *key = &runtime->files.keys[RUNTIME_DOWNLOADS];
		const char *downloads = runtime->in_force[RUNTIME_DOWNLOADS];

		copy_text(why, TUNER_WHY_MAX, runtime->files.why);
		if (!why[0] && runtime->files_known &&
			runtime->found.managed_by != RUNTIME_NESTED && wanted > 0 && downloads[0] &&
			!streq(downloads, "0") && strtoull(downloads, NULL, 10) < wanted &&
			key->refusal != KEY_EDITABLE && key->refusal != KEY_CRI_OFF)
			copy_text(why, TUNER_WHY_MAX, key->why);
	}
}

void runtime_decide(
	const void *self, const struct decide_input *input, void *memory, struct proposal *proposal)
{
	const struct runtime_decision decision = {self, input, memory, proposal};
	const struct runtime_sample *sample = &decision.tuner->sample;
	struct runtime_recorded *recorded = &decision.memory->recorded;

	add_lacks(decision.tuner, proposal->why);
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
	want_mirrors(&decision);
	judge_reach(&decision);
	judge_restart(&decision);
	judge_store(&decision);
	judge_drivers(&decision);
	judge_pulls(&decision);
}
