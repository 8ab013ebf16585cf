/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads and edits containerd's configuration for the root tests.
 *
 * containerd_tool apply MAIN PROGRAM VERSION SETTING VALUE   edits after a trial; prints the edit
 * containerd_tool undo FILE ORIGINAL TABLE KEY               sets the key as in ORIGINAL
 *
 * Exit status: 0; 1 for a refused edit (prints why); 2 for a failure (message on stderr).
 */

#include "apply/edit.h"
#include "base/file.h"
#include "base/toml.h"
#include "runtime/containerd.h"

static int fail(const char *what, int error, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", what, strerror(-error), why);
	return 2;
}

static int read_text(const char *path, struct file_bytes *text)
{
	return read_file(path, 1 << 20, &text->bytes, &text->len);
}

static int undo(char **args)
{
	_cleanup_(file_bytes_clear) struct file_bytes text = {0}, original = {0};
	_cleanup_free_ char *literal = NULL;
	_cleanup_fclose_ FILE *file = NULL;
	char why[EDIT_WHY_MAX] = "";
	int r = read_text(args[0], &text);

	if (r == 0)
		r = read_text(args[1], &original);
	if (r == 0)
		r = edit_get(EDIT_TOML, &original, args[2], args[3], &literal, why);
	if (r == 0)
		r = edit_set(EDIT_TOML, &text, args[2], args[3], literal, why);
	if (r < 0)
		return fail(args[0], r, why);
	file = fopen(args[0], "we");
	if (!file || fwrite(text.bytes, 1, text.len, file) != text.len || fflush(file) != 0)
		return fail(args[0], -errno, "");
	return 0;
}

static int setting_of(const char *name)
{
	static const char *const names[RUNTIME_SETTINGS] = {
		[RUNTIME_DOWNLOADS] = "containerd.max_concurrent_downloads",
		[RUNTIME_PROGRESS_TIMEOUT] = "containerd.image_pull_progress_timeout",
		[RUNTIME_HOSTS_DIRECTORY] = "containerd.registry.config_path",
	};

	for (int i = 0; i < RUNTIME_SETTINGS; i++)
		if (streq(names[i], name))
			return i;
	return -EINVAL;
}

/* Edits the file as the agent does, but does not keep the original. */
static int write_edit(
	const struct daemon *daemon, const struct runtime_key *key, const char *literal)
{
	const struct host host = {0};
	const struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1};
	struct file_change change = {.text = (char *)literal,
		.tables = key->tables,
		.base = key->base,
		.daemon = *daemon};
	_cleanup_(file_bytes_clear) struct file_bytes text = {0};
	char state[] = "/tmp/containerd-tool-XXXXXX", why[EDIT_WHY_MAX] = "";
	_cleanup_(file_bytes_clear) struct file_bytes old = {0};
	struct editor editor = {.host = &host,
		.daemon = &change.daemon,
		.path = key->path,
		.real = &old,
		.wait = &wait};
	int r = file_read(&host, key->path, &old);

	set_text(change.key, key->key);
	set_text(change.on_disk, key->on_disk);
	set_text(change.dump_key, key->dump_key);
	set_text(change.daemon.driver, "containerd");
	if (!mkdtemp(state))
		return fail(state, -errno, "");
	editor.state = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (old.bytes)
		text_copy(&text, old.bytes, old.len);
	if (r == 0)
		r = edit_make(&editor, &(struct change *){&(struct change){.file = &change}}, 1,
			&text, why);
	if (r == 0)
		r = file_put(&old, &text);
	(void)unlinkat(editor.state, "files", AT_REMOVEDIR);
	close(editor.state);
	(void)rmdir(state);
	if (r < 0) {
		printf("why %s\n", why);
		return 1;
	}
	printf("path %s\ntable %s\nkey %s\nmade %d\n", key->path, change.table, key->key,
		!old.bytes);
	return 0;
}

static int apply(char **args)
{
	const struct host host = {0};
	struct daemon daemon = {0};
	const struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1};
	struct runtime_files config = {0};
	const struct runtime_key *key;
	char literal[SETTING_VALUE_MAX];
	int setting = setting_of(args[3]);

	if (setting < 0 ||
		!(setting == RUNTIME_DOWNLOADS ? set_text(literal, args[4])
					       : toml_quote(args[4], literal, sizeof(literal))))
		return fail(args[3], -EINVAL, args[4]);
	set_text(daemon.config, args[0]);
	set_text(daemon.program, args[1]);
	set_text(daemon.version, args[2]);
	containerd_config_read(&host, &daemon, &wait, &config);
	key = &config.keys[setting];
	printf("dump_key %s\non_disk %s\n", key->dump_key, key->on_disk);
	if (config.error == 0 && key->refusal == KEY_EDITABLE)
		return write_edit(&daemon, key, literal);
	printf("why %s\n", config.error < 0 ? config.why : key->why);
	return 1;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	char **args = argv + 2;
	int n = argc - 2;

	if (streq(verb, "apply") && n == 5)
		return apply(args);
	if (streq(verb, "undo") && n == 4)
		return undo(args);
	return 64;
}
