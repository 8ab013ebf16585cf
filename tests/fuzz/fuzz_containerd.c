/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Any bytes at all as containerd's main file, and behind a NUL as one that it imports: each setting
 * is placed or refused with a reason, and once it is set there, that is where it is found.
 */

#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/toml.h"
#include "base/util.h"
#include "runtime/containerd_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const versions[] = {"1.6.20~ds1", "1.7.27", "2.0.5", "2.1.4", "2.2.1", "2.4.2"};
static const char *const values[] = {"10", "30m", "/srv/certs.d"};

static void must(bool holds)
{
	if (!holds)
		abort();
}

static struct containerd_file *find(struct containerd_config *config, const char *path)
{
	for (size_t i = 0; i < config->files.n; i++)
		if (streq(config->files.files[i].path, path))
			return &config->files.files[i];
	return NULL;
}

static void check_refusal(const struct containerd_edit *edit)
{
	must((edit->method == CONTAINERD_UNSUPPORTED) == (edit->refusal != CONTAINERD_FINE));
	must((edit->why[0] != '\0') == (edit->refusal != CONTAINERD_FINE));
}

/* Plans, writes and plans again. Another file that was the last may be read anew in between. */
static void try_setting(struct containerd_config *config, enum containerd_setting setting)
{
	struct containerd_edit edit, again;
	struct containerd_file *file, old;

	if (containerd_config_plan(config, setting, values[setting], &edit) < 0)
		abort();
	check_refusal(&edit);
	file = find(config, edit.path);
	must(edit.method == CONTAINERD_UNSUPPORTED || (edit.begin[0] == '\0') == (file != NULL));
	if (edit.method == CONTAINERD_UNSUPPORTED || !file)
		return;
	old = *file;
	if (toml_set(old.text, old.len, edit.table, edit.key, edit.literal, &file->text, &file->len,
		    NULL) < 0)
		return; /* what the table or the key is called is something else here */
	must(containerd_config_plan(config, setting, values[setting], &again) == 0);
	check_refusal(&again);
	must(streq(again.path, edit.path) && streq(again.table, edit.table));
	must(streq(again.on_disk, values[setting]));
	free(file->text);
	*file = old;
}

static void compare_dumps(const struct containerd_file *a, const struct containerd_file *b)
{
	char difference[CONTAINERD_DIFFERENCE_MAX] = "";
	const char *allowed[] = {"version"};
	int r = containerd_dump_differs(a->text, b->text, allowed, 1, difference);

	must((r > 0) == (difference[0] != '\0'));
	must(containerd_dump_differs(a->text, a->text, NULL, 0, difference) <= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = calloc(1, size + 2);
	struct containerd_file files[2] = {
		{.path = "/etc/containerd/config.toml"},
		{.path = "/etc/containerd/conf.d/99-site.toml"},
	};
	struct containerd_config config = {
		.main_path = files[0].path,
		.files.files = files,
		.files.n = 2,
	};

	if (!text)
		return -1;
	if (size > 0)
		memcpy(text, data, size);
	files[0].text = text;
	files[0].len = strlen(text);
	files[1].text = text + files[0].len + (files[0].len < size ? 1 : 0);
	files[1].len = strlen(files[1].text);
	compare_dumps(&files[0], &files[1]);
	if (toml_check(files[0].text, files[0].len, NULL) < 0 ||
		toml_check(files[1].text, files[1].len, NULL) < 0)
		return 0; /* reading the files has refused them */
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		for (int setting = 0; setting < CONTAINERD_SETTINGS; setting++) {
			config.version = versions[i];
			config.files.n = files[0].len < size ? 2 : 1;
			try_setting(&config, (enum containerd_setting)setting);
		}
	return 0;
}
