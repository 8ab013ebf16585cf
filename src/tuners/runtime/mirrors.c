/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/util.h"
#include "runtime/docker_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS_MAX 32
#define NONE      "none"

/* A list of addresses, each without slashes at its end. */
struct words {
	char list[WORDS_MAX][REGISTRY_URL_MAX / 4];
	size_t n;
};

static bool has_word(const struct words *words, const char *word)
{
	for (size_t i = 0; i < words->n; i++)
		if (streq(words->list[i], word))
			return true;
	return false;
}

static void add_word(struct words *words, const char *word)
{
	char plain[sizeof(words->list[0])];

	if (words->n < WORDS_MAX && registry_copy_url(plain, sizeof(plain), word) &&
		!has_word(words, plain))
		copy_text(words->list[words->n++], sizeof(plain), plain);
}

static void split_words(const char *text, struct words *words)
{
	char copy[SETTING_VALUE_MAX], *state = NULL;

	words->n = 0;
	if (streq(text, NONE))
		return;
	copy_text(copy, sizeof(copy), text);
	for (char *word = strtok_r(copy, " ", &state); word; word = strtok_r(NULL, " ", &state))
		add_word(words, word);
}

static void join_words(const struct words *words, char text[static SETTING_VALUE_MAX])
{
	size_t used = 0;

	copy_text(text, SETTING_VALUE_MAX, NONE);
	for (size_t i = 0; i < words->n && used < SETTING_VALUE_MAX - 1; i++)
		used += (size_t)snprintf(text + used, SETTING_VALUE_MAX - used, "%s%s",
			i > 0 ? " " : "", words->list[i]);
}

static void normalize(const char *text, char out[static SETTING_VALUE_MAX])
{
	struct words words;

	split_words(text, &words);
	join_words(&words, out);
}

/* Somebody else's mirrors in Docker's file: neither configured here nor ever written by us. */
static void add_foreign(const struct runtime_one *one, const struct runtime_config *config,
	const struct file_record *record, struct words *wanted)
{
	struct words in_file, written = {0}, original = {0};

	split_words(one->on_disk_mirrors, &in_file);
	if (record) {
		split_words(record->wanted, &written);
		split_words(record->on_disk, &original);
	}
	for (size_t i = 0; i < in_file.n; i++) {
		const char *word = in_file.list[i];
		bool ours = has_word(&written, word) && !has_word(&original, word);

		for (size_t m = 0; m < config->n_mirrors && !ours; m++)
			ours = streq(config->mirrors[m].url, word);
		if (!ours)
			add_word(wanted, word);
	}
}

static int want_docker_mirrors(const struct runtime_seen *seen, const struct runtime_one *one,
	const struct runtime_config *config, struct runtime_memory *memory,
	const struct decide_input *input, struct proposal *proposal)
{
	struct file_target target = {.format = EDIT_JSON, .key = "registry-mirrors"};
	const struct file_record *record;
	struct words wanted = {0};
	const char *list[WORDS_MAX];
	_cleanup_free_ char *literal = NULL;
	char name[SETTING_NAME_MAX];
	struct file_want *want;
	bool unchecked = false;

	snprintf(name, sizeof(name), "%s.registry-mirrors", runtime_prefix(seen, one));
	record = file_record_find(input->files, input->n_files, name);
	for (size_t i = 0; i < config->n_mirrors; i++) {
		if (!runtime_mirror_is_dockers(&config->mirrors[i]))
			continue;
		unchecked = unchecked || seen->mirror_states[i] == MIRROR_UNKNOWN;
		if (seen->mirror_states[i] == MIRROR_UP)
			add_word(&wanted, config->mirrors[i].url);
	}
	if (unchecked || (wanted.n == 0 && !record))
		return 0;
	add_foreign(one, config, record, &wanted);
	for (size_t i = 0; i < wanted.n; i++)
		list[i] = wanted.list[i];
	/* dockerd keeps the mirrors that it has when the key is gone: an empty list takes them. */
	literal = docker_config_list(list, wanted.n);
	copy_text(target.path, sizeof(target.path), one->config_path);
	if (!literal || !(want = runtime_want(memory, proposal, name, &target, literal)))
		return -ENOMEM;
	memory->edits[memory->n_edits - 1].service = runtime_service(seen, one, config);
	join_words(&wanted, want->wanted);
	normalize(one->mirrors, want->actual);
	if (one->mirrors_in_file || one->mirrors[0] == '\0')
		normalize(one->on_disk_mirrors, want->on_disk);
	want->reason = "configured";
	if (one->file_error < 0 || one->answer != RUNTIME_ANSWERS || one->mirrors_on_command) {
		want->wanted[0] = '\0';
		want->edit = NULL;
		want->reason = one->file_error < 0              ? "file-unusable"
			       : one->answer != RUNTIME_ANSWERS ? "runtime-silent"
								: "on-command-line";
	}
	return 0;
}

static int want_hosts(
	const struct runtime_hosts *hosts, struct runtime_memory *memory, struct proposal *proposal)
{
	struct file_target target = {.format = EDIT_OWN};
	bool others = hosts->exists && !hosts->ours;
	char name[SETTING_NAME_MAX];
	struct file_want *want;

	/* Nothing is there, and nothing should be; or it is not known yet whether anything should.
	 */
	if (hosts->unchecked || (hosts->error == 0 && !hosts->exists && !hosts->text))
		return 0;
	snprintf(name, sizeof(name), "mirrors.%.100s", hosts->registry);
	copy_text(target.path, sizeof(target.path), hosts->path);
	want = runtime_want(memory, proposal, name, &target, hosts->text);
	if (!want)
		return -ENOMEM;
	copy_text(want->wanted, SETTING_VALUE_MAX, hosts->wanted);
	copy_text(want->on_disk, SETTING_VALUE_MAX,
		hosts->matches   ? hosts->wanted
		: !hosts->exists ? NONE
		: others         ? "of someone else"
				 : "other text");
	copy_text(want->actual, SETTING_VALUE_MAX, want->on_disk);
	want->error = hosts->error;
	want->reason = hosts->text ? "configured" : "no-mirror-up";
	if (others && !hosts->matches) {
		want->wanted[0] = '\0';
		want->edit = NULL;
		want->reason = "file-of-others";
	}
	return 0;
}

/* A hosts.toml outlives the configuration that asked for it: the journal knows which there are. */
static void remember_recorded(const struct decide_input *input, struct runtime_memory *memory)
{
	memory->n_recorded = 0;
	for (size_t i = 0; i < input->n_files && memory->n_recorded < RUNTIME_MIRROR_MAX; i++) {
		const char *name = input->files[i].name;

		if (streq(input->files[i].tuner, "runtime") && starts_with(name, "mirrors."))
			copy_text(memory->recorded[memory->n_recorded++], REGISTRY_NAME_MAX,
				name + strlen("mirrors."));
	}
}

int runtime_decide_mirrors(const struct runtime_seen *seen, const struct runtime_config *config,
	struct runtime_memory *memory, const struct decide_input *input, struct proposal *proposal)
{
	int r = 0;

	remember_recorded(input, memory);
	for (size_t i = 0; r == 0 && i < seen->n; i++) {
		const struct runtime_one *one = &seen->ones[i];

		if (one->where.socket && one->where.kind == RUNTIME_DOCKER &&
			one->file_signature != 0)
			r = want_docker_mirrors(seen, one, config, memory, input, proposal);
	}
	for (size_t i = 0; r == 0 && i < seen->n_hosts; i++)
		r = want_hosts(&seen->hosts[i], memory, proposal);
	return r;
}
