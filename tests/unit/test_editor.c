/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "apply/edit.h"

#define DUMP_KEY "plugins.new.downloads"

/* Prints the last value of [plugins.old] under its new name. */
#define DUMP                                                                                    \
	"files=\"$2 $(sed -n \"s/^imports = //p\" \"$2\" | tr -d '[],\"')\"\n"                  \
	"value=$(cat $files | sed -n '/^.plugins.old/,/^$/s/^ *downloads = //p' | tail -n 1)\n" \
	"printf 'imports = [\"%s\"]\\n[plugins.\"new\"]\\n' \"$2\"\n"

struct trial {
	const char *what;
	const char *program; /* for /bin/sh; $2 is the file */
	const char *text;    /* NULL: the file is missing */
	const char *expected;
	int error;
	const char *why;
};

static const struct trial trials[] = {
	{"the value is replaced", DUMP "echo \"downloads = ${value:-3}\"",
		"[plugins.old]\ndownloads = 3\n", "[plugins.old]\ndownloads = 10\n", 0, ""},
	{"the table with an effect is added", DUMP "echo \"downloads = ${value:-3}\"",
		"version = 2\n",
		"version = 2\n\n# Added by headroom\n[plugins.old]\ndownloads = 10\n", 0, ""},
	{"the file is created", DUMP "echo \"downloads = ${value:-3}\"", NULL,
		"# base\n\n# Added by headroom\n[plugins.old]\ndownloads = 10\n", 0, ""},
	{"the edit changes another key too",
		DUMP "echo \"downloads = ${value:-3}\"; echo \"x = '$value'\"", "[plugins.old]\n",
		NULL, -EINVAL, "it would also change plugins.new.x"},
	{"the edit adds a table", DUMP "echo \"downloads = ${value:-3}\"; echo \"${value:+[y]}\"",
		"[plugins.old]\n", NULL, -EINVAL, "it would also change y"},
	{"the edit has no effect", DUMP "echo 'downloads = 3'", "[plugins.old]\n", NULL, -EINVAL,
		"no effect: " DUMP_KEY " stays 3"},
	{"refused", DUMP "[ -z \"$value\" ] || { echo bad >&2; exit 1; }; echo 'downloads = 3'",
		"[plugins.old]\n", NULL, -EINVAL, "refuses it: bad"},
	{"the file was broken before", "echo bad >&2; exit 1", "version = 2\n", NULL, -EINVAL,
		"before any change, "},
	{"an unusual shape", DUMP "echo 'downloads = 3'", "plugins = {}\n", NULL, -EEXIST,
		"1:1: an inline table"},
};

struct bench {
	struct directory root;
	struct host host;
	struct file_bytes real;
	struct file_change change;
	struct editor editor;
	char path[PATH_MAX], why[EDIT_WHY_MAX];
};

static const struct wait no_limit = {.deadline_us = UINT64_MAX, .cancel_fd = -1};

static void bench_make(
	struct bench *bench, const char *program, const char *edited, const char *main)
{
	static const char *const tables[] = {"plugins.new", "plugins.old", NULL};
	struct daemon *daemon = &bench->change.daemon;
	char script[2048];

	*bench = (struct bench){.change = {.key = "downloads",
					.on_disk = "3",
					.text = (char *)"10",
					.tables = tables,
					.base = "# base\n",
					.dump_key = DUMP_KEY,
					.daemon = {.driver = "containerd", .version = "2.0.0"}}};
	directory_make(&bench->root);
	snprintf(script, sizeof(script), "#!/bin/sh\n%s\n", program);
	directory_put(&bench->root, "/program", script);
	strcpy(daemon->program, directory_at(&bench->root, "/program").text);
	assert_int_equal(chmod(daemon->program, 0700), 0);
	strcpy(daemon->config, directory_at(&bench->root, main).text);
	directory_path(&bench->root, edited, bench->path);
	bench->editor = (struct editor){.host = &bench->host,
		.daemon = daemon,
		.path = bench->path,
		.real = &bench->real,
		.wait = &no_limit,
		.state = open(bench->root.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
}

static void bench_clear(struct bench *bench)
{
	close(bench->editor.state);
	directory_remove(&bench->root);
}

/* Returns the new text, or NULL and a reason in why. No trial is left. */
static char *make(struct bench *bench, const char *text, int error)
{
	struct file_bytes bytes = {0};
	char trial[PATH_MAX];
	int r;

	if (text)
		text_copy(&bytes, text, strlen(text));
	assert_int_equal(file_locate(&bench->host, bench->path, &bench->real), 0);
	r = edit_make(&bench->editor, &(struct change *){&(struct change){.file = &bench->change}},
		1, &bytes, bench->why);
	if (r != error)
		fail_msg("%d: %s", r, bench->why);
	snprintf(trial, sizeof(trial), "%s" FILE_NEW, bench->path);
	assert_int_equal(access(trial, F_OK), -1);
	if (r < 0)
		file_bytes_clear(&bytes);
	return bytes.bytes;
}

TEST(an_edit_is_verified_by_the_program)
{
	for (size_t i = 0; i < ARRAY_SIZE(trials); i++) {
		_cleanup_(bench_clear) struct bench bench;
		_cleanup_free_ char *new = NULL;

		print_message("%s\n", trials[i].what);
		bench_make(&bench, trials[i].program, "/config.toml", "/config.toml");
		if (trials[i].text)
			directory_put(&bench.root, "/config.toml", trials[i].text);
		new = make(&bench, trials[i].text, trials[i].error);
		if (!strstr(bench.why, trials[i].why))
			fail_msg("%s", bench.why);
		if (trials[i].expected) {
			assert_string_equal(new, trials[i].expected);
			assert_string_equal(bench.change.table, "plugins.old");
		}
	}
}

/* The trial of an imported file has a main file that imports it. */
TEST(an_imported_file_is_tried_through_its_main_file)
{
	_cleanup_(bench_clear) struct bench bench;
	_cleanup_free_ char *new = NULL;
	char text[PATH_MAX + 64];

	bench_make(&bench, DUMP "echo \"downloads = ${value:-3}\"", "/conf.d/99-headroom.toml",
		"/config.toml");
	snprintf(text, sizeof(text), "imports = [\"%s/conf.d/*.toml\"]\n", bench.root.path);
	directory_put(&bench.root, "/config.toml", text);
	directory_put(&bench.root, "/conf.d/10.toml", "[plugins.old]\ndownloads = 3\n");
	new = make(&bench, NULL, 0);
	assert_non_null(strstr(new, "[plugins.old]\ndownloads = 10\n"));
	/* A later file overrides the edit, which then has no effect. */
	directory_put(&bench.root, "/conf.d/99-z.toml", "[plugins.old]\ndownloads = 3\n");
	assert_null(make(&bench, NULL, -EINVAL));
	assert_non_null(strstr(bench.why, "no effect"));
	assert_int_equal(edit_check(&bench.host, bench.editor.daemon, &no_limit, bench.why), 0);
}

TEST(dockerd_verifies_daemon_json)
{
	static const struct {
		const char *version, *program, *text;
		int error;
		const char *why;
	} cases[] = {
		{"20.10.24", "exit 1", "{\"debug\": true, \"max-concurrent-uploads\": 1}", -EBADMSG,
			":1:46: dockerd 20.10.24 does not know \"downloads\""},
		{"23.0.1", "grep -q '\"downloads\": 10' \"$3\"", "{\"x\": 1}", 0, ""},
		{"23.0.1", "echo bad >&2; exit 1", "{\"x\": 1}", -EBADMSG, "refuses it: bad"},
		{"23.0.1", "exit 0", "{\"x\": }", -EBADMSG, "1:7: invalid JSON"},
		{"23.0.1", "exit 0", "{\"x\": 1,, \"y\": 2}", -EBADMSG, "1:9: invalid JSON"},
		{"23.0.1", "exit 0", "{\"x\": [1,, 2]}", -EBADMSG, "1:10: invalid JSON"},
		{"23.0.1", "exit 0", "{\"x\": 1 \"y\": 2}", -EBADMSG, "1:9: invalid JSON"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(bench_clear) struct bench bench;
		_cleanup_free_ char *new = NULL;
		struct daemon *daemon = &bench.change.daemon;

		bench_make(&bench, cases[i].program, "/daemon.json", "/daemon.json");
		bench.change.format = EDIT_JSON;
		strcpy(daemon->driver, "docker");
		set_text(daemon->version, cases[i].version);
		directory_put(&bench.root, "/daemon.json", cases[i].text);
		new = make(&bench, cases[i].text, cases[i].error);
		if (!strstr(bench.why, cases[i].why))
			fail_msg("%s", bench.why);
	}
}
