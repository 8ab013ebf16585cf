/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#define NONE "none"

/* ---- sample: files of registries with mirrors or with a record ---- */

static void read_file_of(
	struct runtime_tuner *request, const struct node_runtime *runtime, const char *registry)
{
	const struct mirror_format *format = runtime->found.driver->mirrors;
	const char *directories = runtime->in_force[RUNTIME_HOSTS_DIRECTORY];
	struct runtime_sample *sample = &request->sample;
	char directory[SETTING_PATH_MAX];
	struct mirror_file *file;

	for (size_t i = 0; i < sample->n_files; i++)
		if (sample->files[i].driver == runtime->found.driver &&
			streq(sample->files[i].registry, registry))
			return;
	if (!directories[0])
		directories = runtime->files.keys[RUNTIME_HOSTS_DIRECTORY].on_disk;
	/* A new file is made in the first directory. */
	set_text(directory, directories[0] ? directories : format->directory);
	directory[strcspn(directory, ":")] = '\0';
	file = &sample->files[sample->n_files++];
	copy_text(file->registry, REGISTRY_NAME_MAX, registry);
	file->driver = runtime->found.driver;
	mirror_file_read(format, request->host, directory, file);
}

void runtime_sample_files(struct runtime_tuner *request)
{
	const struct runtime_config *config = &request->config;
	const struct runtime_recorded *recorded = &request->recorded;
	struct runtime_sample *sample = &request->sample;

	free(sample->files);
	sample->n_files = 0;
	sample->files = must(
		calloc(sample->n * (config->n_mirrors + recorded->n) + 1, sizeof(*sample->files)));
	for (size_t i = 0; i < sample->n; i++) {
		const struct node_runtime *runtime = &sample->runtimes[i];

		/* The location of a file depends on the configuration. */
		if (!runtime->found.driver->mirrors || !runtime->files_known ||
			runtime->found.managed_by != RUNTIME_OF_NODE)
			continue;
		for (size_t k = 0; k < config->n_mirrors; k++)
			read_file_of(request, runtime, config->mirrors[k].registry);
		/* A registry that left the configuration keeps its record. */
		for (size_t k = 0; k < recorded->n; k++)
			read_file_of(request, runtime, recorded->registries[k]);
	}
}

/* ---- decisions ---- */

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
	enum reason obstacle = runtime_obstacle(runtime);
	char name[SETTING_NAME_MAX], wanted[RUNTIME_MIRRORS_MAX] = "", words[RUNTIME_MIRRORS_MAX];
	char *state = NULL;
	int n = find_up(decision->tuner, NULL, up);
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = must(cJSON_CreateArray());
	_cleanup_free_ char *literal = NULL;
	const struct key_record *record;
	struct want *want;

	runtime_name(&decision->tuner->sample, runtime, RUNTIME_MIRRORS, name);
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
	want = runtime_want(decision, runtime, RUNTIME_MIRRORS, literal);
	registry_shorten_list(wanted[0] ? wanted : NONE, want->wanted, SETTING_VALUE_MAX);
	copy_text(want->actual, SETTING_VALUE_MAX, runtime->in_force[RUNTIME_MIRRORS]);
	if (files->has_mirrors || streq(runtime->in_force[RUNTIME_MIRRORS], NONE))
		registry_shorten_list(files->mirrors[0] ? files->mirrors : NONE,
			want->file->on_disk, SETTING_VALUE_MAX);
	if (obstacle)
		runtime_leave(want, obstacle);
	else if (runtime->on_command[RUNTIME_MIRRORS])
		runtime_leave(want, REASON_ON_COMMAND_LINE);
}

static void want_file(const struct runtime_decision *decision, const struct mirror_file *on_disk)
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
		runtime_set_daemon(decision, runtime, format->activation, want->file);
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
		runtime_leave(want, REASON_FILE_OF_OTHERS);
	} else if (runtime->daemon.pid == 0) {
		runtime_leave(want, REASON_PROCESS_NOT_SEEN);
	} else if (runtime->files.keys[RUNTIME_HOSTS_DIRECTORY].refusal == KEY_EXCLUDED) {
		runtime_leave(want, REASON_MIRRORS_WITHOUT_EFFECT);
	}
}

void runtime_decide_mirrors(const struct runtime_decision *decision)
{
	const struct runtime_sample *sample = &decision->tuner->sample;

	for (size_t i = 0; i < sample->n; i++)
		if (sample->runtimes[i].found.driver->keys[RUNTIME_MIRRORS].name &&
			sample->runtimes[i].files_known)
			want_mirror_list(decision, &sample->runtimes[i]);
	for (size_t i = 0; i < sample->n_files; i++)
		want_file(decision, &sample->files[i]);
}
