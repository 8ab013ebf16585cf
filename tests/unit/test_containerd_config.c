/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "base/toml.h"
#include "runtime/containerd.h"

#define MAIN     "/etc/containerd/config.toml"
#define CONF_D   "/etc/containerd/conf.d/"
#define DROP_IN  CONF_D "99-headroom.toml"
#define GRPC     "plugins.\"io.containerd.grpc.v1.cri\""
#define IMAGES   "plugins.\"io.containerd.cri.v1.images\""
#define TRANSFER "plugins.\"io.containerd.transfer.v1.local\""

/* The relevant parts of the dumps of all versions. */
#define DUMP_16    "version = 2\n[" GRPC "]\n max_concurrent_downloads = 3\n"
#define REGISTRY_1 "[" GRPC ".registry]\n config_path = \"\"\n [" GRPC ".registry.mirrors]\n"
#define DUMP_17    DUMP_16 " image_pull_progress_timeout = \"5m0s\"\n" REGISTRY_1
#define DUMP_20                                                             \
	"version = 3\n[" IMAGES "]\nimage_pull_progress_timeout = '5m0s'\n" \
	"disable_snapshot_annotations = true\nmax_concurrent_downloads = 3\n"
#define REGISTRY_2    "[" IMAGES ".registry]\nconfig_path = ''\n"
#define TRANSFER_DUMP "[" TRANSFER "]\nmax_concurrent_downloads = 3\n"
#define DUMP_21       DUMP_20 "use_local_image_pull = false\n" REGISTRY_2 TRANSFER_DUMP

struct file {
	const char *path, *text;
};

struct decision {
	const char *what, *version, *dump;
	struct file files[3];
	enum runtime_setting setting;
	enum runtime_refusal refusal;
	const char *path, *table, *on_disk;
};

/* Writes a text and replaces @ by the root. */
static void put(const struct directory *root, const char *name, const char *text)
{
	char out[4096];
	size_t n = 0;

	for (const char *p = text; *p; p++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%.*s", *p == '@' ? 64 : 1,
			*p == '@' ? root->path : p);
	directory_put_bytes(root, name, out, n);
}

/* Creates a containerd that prints this dump. */
static void make_program(const struct directory *root, const char *dump, int status)
{
	put(root, "/dump", dump);
	put(root, "/containerd",
		status == 0
			? "#!/bin/sh\n[ $1 = --version ] && exec cat @/version\nexec cat @/dump\n"
			: "#!/bin/sh\n[ $1 = --version ] && exec cat @/version\n"
			  "echo 'level=error no' >&2\nexit 1\n");
	assert_int_equal(chmod(directory_at(root, "/containerd").text, 0700), 0);
}

static void read_config(const struct directory *root, const char *version, const struct file *files,
	size_t n, struct runtime_files *config)
{
	const struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1};
	struct path program = directory_at(root, "/containerd");
	struct path main = directory_at(root, n > 0 && files[0].path ? files[0].path : MAIN);
	struct host host = {0};
	char text[100];
	struct daemon daemon = {0};

	set_text(daemon.version, version);
	set_text(daemon.program, program.text);
	set_text(daemon.config, main.text);
	snprintf(text, sizeof(text), "containerd github.com/containerd/containerd %s x\n", version);
	put(root, "/version", text);
	for (size_t i = 0; i < n && files[i].path; i++)
		put(root, files[i].path, files[i].text);
	containerd_config_read(&host, &daemon, &wait, config);
}

static void check(const struct decision *d)
{
	_cleanup_directory_ struct directory root;
	struct runtime_files config = {0};
	const struct runtime_key *key = &config.keys[d->setting];

	print_message("%s\n", d->what);
	directory_make(&root);
	make_program(&root, d->dump, 0);
	read_config(&root, d->version, d->files, ARRAY_SIZE(d->files), &config);
	if (config.error < 0)
		fail_msg("%s", config.why);
	if (key->refusal != d->refusal)
		fail_msg("refusal %d: %s", key->refusal, key->why);
	assert_int_equal(key->why[0] != '\0', d->refusal != KEY_EDITABLE);
	if (d->path)
		assert_string_equal(key->path, directory_at(&root, d->path).text);
	if (d->table)
		assert_string_equal(key->tables[0], d->table);
	if (d->on_disk)
		assert_string_equal(key->on_disk, d->on_disk);
}

/* test_containerd_config.py of the root tests has more shapes of files. */
TEST(each_key_has_its_file_and_table)
{
	static const char import[] = "imports = ['@" CONF_D "*.toml']\n";
	static const struct decision decisions[] = {
		{"1.6", "1.6.20~ds1", DUMP_16, {{MAIN, "version = 2\n"}}, RUNTIME_DOWNLOADS,
			KEY_EDITABLE, MAIN, GRPC, "3"},
		{"1.7, the registry", "1.7.27", DUMP_17, {{MAIN, "version = 2\n"}},
			RUNTIME_HOSTS_DIRECTORY, KEY_EDITABLE, MAIN, GRPC ".registry", ""},
		{"1.7: an import of something else does not", "1.7.20", DUMP_17,
			{{MAIN, import}, {CONF_D "99-n.toml", "[metrics]\n"}}, RUNTIME_DOWNLOADS,
			KEY_EDITABLE, MAIN, GRPC, "3"},
		{"2.0", "2.0.5", DUMP_20 REGISTRY_2 TRANSFER_DUMP, {{MAIN, "version = 3\n"}},
			RUNTIME_DOWNLOADS, KEY_EDITABLE, MAIN, IMAGES, "3"},
		{"2.1 pulls by the transfer service", "v2.1.4", DUMP_21, {{MAIN, "version = 3\n"}},
			RUNTIME_DOWNLOADS, KEY_EDITABLE, MAIN, TRANSFER, "3"},
		{"2.1, imports", "v2.1.4", DUMP_21, {{MAIN, import}}, RUNTIME_DOWNLOADS,
			KEY_EDITABLE, DROP_IN, TRANSFER, "3"},
		{"2.1: an earlier file sets the key", "v2.1.4", DUMP_21,
			{{MAIN, import}, {CONF_D "10-a.toml",
						 "[" TRANSFER "]\nmax_concurrent_downloads = 3\n"}},
			RUNTIME_DOWNLOADS, KEY_EDITABLE, DROP_IN, TRANSFER, "3"},
		{"2.1: two patterns, the last one counts", "v2.1.4", DUMP_21,
			{{MAIN, "imports = ['@/etc/containerd/config.d/*.toml',\n"
				"  '@" CONF_D "*.toml']\n"}},
			RUNTIME_DOWNLOADS, KEY_EDITABLE, DROP_IN, TRANSFER, "3"},
		{"2.1: our file of the first pattern stays ours", "v2.1.4", DUMP_21,
			{{MAIN, "imports = ['@/etc/containerd/a.d/*', '@" CONF_D "*.toml']\n"},
				{"/etc/containerd/a.d/99-headroom.toml", "# ours\n"}},
			RUNTIME_DOWNLOADS, KEY_EDITABLE, "/etc/containerd/a.d/99-headroom.toml",
			TRANSFER, "3"},
		{"2.1: an imported file imports the directory", "v2.1.4", DUMP_21,
			{{MAIN, "imports = ['base.toml']\n"},
				{"/etc/containerd/base.toml", "imports = ['conf.d/*.toml']\n"}},
			RUNTIME_DOWNLOADS, KEY_EDITABLE, DROP_IN, TRANSFER, "3"},
		{"2.1: a pattern of directories", "v2.1.4", DUMP_21,
			{{MAIN, "imports = ['*.d/*/[0-9]*.toml']\n"},
				{"/etc/containerd/x.d/y/10-a.toml",
					"[" TRANSFER "]\nmax_concurrent_downloads = 3\n"},
				{"/etc/containerd/x.d/y/z.toml", "no TOML"}},
			RUNTIME_DOWNLOADS, KEY_EDITABLE, "/etc/containerd/x.d/y/10-a.toml",
			TRANSFER, "3"},
		{"2.1: an import of one file leaves no place for a drop-in", "v2.1.4", DUMP_21,
			{{MAIN, "imports = ['extra.toml']\n"},
				{"/etc/containerd/extra.toml",
					"[" TRANSFER "]\nmax_concurrent_downloads = 3\n"}},
			RUNTIME_DOWNLOADS, KEY_EDITABLE, "/etc/containerd/extra.toml", TRANSFER,
			"3"},
		{"2.2: an empty path means a list", "2.2.0",
			DUMP_20 "use_local_image_pull = true\n" REGISTRY_2,
			{{MAIN, "version = 3\n"}}, RUNTIME_HOSTS_DIRECTORY, KEY_EDITABLE, MAIN,
			IMAGES ".registry", "/etc/containerd/certs.d:/etc/docker/certs.d"},
		{"the transfer service ignores a list", "2.2.0", DUMP_21, {{MAIN, "version = 3\n"}},
			RUNTIME_HOSTS_DIRECTORY, KEY_EDITABLE, MAIN, IMAGES ".registry", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(decisions); i++)
		check(&decisions[i]);
}

/* With each of these options 2.1 and later use the key of the CRI plugin. */
TEST(the_cri_plugin_pulls_with_its_own_key)
{
	static const char *const dumps[] = {
		"[" IMAGES "]\nmax_concurrent_downloads = 3\nuse_local_image_pull = true\n",
		"[" IMAGES "]\nmax_concurrent_downloads = 5\nuse_local_image_pull = false\n",
		"[" IMAGES "]\nmax_concurrent_downloads = 3\nuse_local_image_pull = false\n"
		"discard_unpacked_layers = true\n",
		"[" IMAGES "]\nmax_concurrent_downloads = 3\nuse_local_image_pull = false\n"
		"disable_snapshot_annotations = false\n",
		"[" IMAGES "]\nmax_concurrent_downloads = 3\nuse_local_image_pull = false\n"
		"[" IMAGES ".registry.mirrors.'docker.io']\nendpoint = []\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(dumps); i++)
		check(&(struct decision){dumps[i], "2.4.2", dumps[i], {{MAIN, "version = 3\n"}},
			RUNTIME_DOWNLOADS, KEY_EDITABLE, MAIN, IMAGES, NULL});
}

TEST(a_key_that_cannot_be_edited_has_a_reason)
{
	static const struct decision decisions[] = {
		{"1.6 has no timeout", "1.6.36", DUMP_16, {{MAIN, "version = 2\n"}},
			RUNTIME_PROGRESS_TIMEOUT, KEY_UNKNOWN, NULL, NULL, ""},
		{"k3s by its version", "v2.1.5-k3s1", DUMP_21, {{MAIN, "version = 3\n"}},
			RUNTIME_DOWNLOADS, KEY_GENERATED, NULL, NULL, "3"},
		{"a comment that says so", "1.7.11", DUMP_17,
			{{MAIN, "# Made by x.\n# DO NOT EDIT\nversion = 2\n"}}, RUNTIME_DOWNLOADS,
			KEY_GENERATED, NULL, NULL, "3"},
		{"deprecated mirrors", "1.7.11",
			DUMP_17 "[" GRPC ".registry.mirrors.\"docker.io\"]\nendpoint = []\n",
			{{MAIN, "version = 2\n"}}, RUNTIME_HOSTS_DIRECTORY, KEY_EXCLUDED, NULL,
			NULL, ""},
		{"credentials exclude nothing", "1.7.11",
			DUMP_17 "[" GRPC ".registry.configs.\"r.example\".auth]\nusername = 'x'\n",
			{{MAIN, "version = 2\n"}}, RUNTIME_HOSTS_DIRECTORY, KEY_EDITABLE, MAIN,
			NULL, ""},
		{"a version that no test has shown to ask mirrors", "2.5.0", DUMP_21,
			{{MAIN, "version = 3\n"}}, RUNTIME_HOSTS_DIRECTORY, KEY_EXCLUDED, NULL,
			NULL, ""},
		{"no CRI plugin", "1.6.36", "disabled_plugins = [\"x\", \"cri\"]\n" DUMP_16,
			{{MAIN, "version = 2\n"}}, RUNTIME_DOWNLOADS, KEY_CRI_OFF, NULL, NULL,
			NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(decisions); i++)
		check(&decisions[i]);
}

DIRECTORY_TEST(the_cure_for_a_generated_file_is_one_that_its_program_reads)
{
	static const struct {
		const char *what, *version, *dump;
		struct file files[2];
		const char *why;
	} rows[] = {
		{"k3s with the directory", "v2.1.5-k3s1", DUMP_21,
			{{"/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
				"version = 3\nimports = "
				"['@/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/*.toml']\n"}},
			"config.toml: k3s and RKE2 write it: write the key into a file of your own in "
			"@/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d, which it imports"},
		{"an older k3s", "v2.0.2-k3s1", DUMP_20, {{MAIN, "version = 3\n"}},
			"config.toml: k3s and RKE2 write it: use config-v3.toml.tmpl beside it"},
		{"k3s with containerd 1.7", "v1.7.23-k3s2", DUMP_17, {{MAIN, "version = 2\n"}},
			"config.toml: k3s and RKE2 write it: use config.toml.tmpl beside it"},
		{"k0s", "2.1.4", DUMP_21, {{MAIN, "# k0s_managed=true\nversion = 3\n"}},
			"k0s writes it: use /etc/k0s/containerd.d, in a file with version = 3"},
		{"k0s with containerd 1.7", "1.7.27", DUMP_17,
			{{MAIN, "# k0s_managed=true\nversion = 2\n"}},
			"k0s writes it: use /etc/k0s/containerd.d, in a file with version = 2"},
		{"puppet", "1.7.27", DUMP_17, {{MAIN, "# Managed by Puppet\nversion = 2\n"}},
			"another program manages it"},
		{"a generated drop-in with the key", "2.1.4", DUMP_21,
			{{MAIN, "imports = ['x.toml']\n"},
				{"/etc/containerd/x.toml", "# Generated by nvidia-ctk\n[" TRANSFER
							   "]\nmax_concurrent_downloads = 3\n"}},
			"/etc/containerd/x.toml: it is generated: change its source"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct runtime_files config = {0};
		const struct runtime_key *key = &config.keys[RUNTIME_DOWNLOADS];
		char wanted[512] = "", *at;
		const char *rest = rows[i].why;

		print_message("%s\n", rows[i].what);
		make_program(directory, rows[i].dump, 0);
		read_config(directory, rows[i].version, rows[i].files, 2, &config);
		assert_int_equal(key->refusal, KEY_GENERATED);
		if ((at = strchr(rest, '@'))) {
			snprintf(wanted, sizeof(wanted), "%.*s%s", (int)(at - rest), rest,
				directory->path);
			rest = at + 1;
		}
		text_append(wanted, sizeof(wanted), "%s", rest);
		if (!strstr(key->why, wanted))
			fail_msg("%s", key->why);
		assert_null(strstr(key->path, "99-headroom.toml"));
	}
}

TEST(unreadable_files_are_reported_and_left_alone)
{
	static const struct {
		const char *what, *dump, *text;
		int status, error;
		const char *why;
	} cases[] = {
		{"broken TOML", "", "version = 2\n[plugins\n", 1, -EBADMSG, MAIN ":2:9: "},
		{"only the agent does not understand it", DUMP_16, "version = 2\n[plugins\n", 0,
			-EEXIST, MAIN ":2:9: "},
		{"too new a version", "version = 3\n", "version = 3\n", 0, -EEXIST, "newer than"},
		{"the program refuses it", "", "root = 1\n", 1, -EBADMSG,
			"refuses it: level=error no"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_directory_ struct directory root;
		const struct file file = {MAIN, cases[i].text};
		struct runtime_files config = {0};

		print_message("%s\n", cases[i].what);
		directory_make(&root);
		make_program(&root, cases[i].dump, cases[i].status);
		read_config(&root, "1.6.20", &file, 1, &config);
		assert_int_equal(config.error, cases[i].error);
		if (!strstr(config.why, cases[i].why) || !strstr(config.why, "left alone"))
			fail_msg("%s", config.why);
		assert_non_null(strstr(config.bad.path, MAIN));
	}
}

/* The program refuses the files with these words, and each file of its own that has REFUSE. */
static void make_refusing_program(const struct directory *root, const char *words)
{
	char text[1024];

	snprintf(text, sizeof(text),
		"#!/bin/sh\n[ $1 = --version ] && exec cat @/version\n"
		"case $2 in *config.toml) ;; *) grep -q REFUSE $2 || exit 0;; esac\n"
		"echo \"containerd: %s\" >&2\nexit 1\n",
		words);
	put(root, "/containerd", text);
	assert_int_equal(chmod(directory_at(root, "/containerd").text, 0700), 0);
}

DIRECTORY_TEST(the_file_that_containerd_refuses_is_named_with_line_writer_and_repair)
{
	static const char import[] = "version = 2\nimports = ['@" CONF_D "*.toml']\n";
	static const struct {
		const char *words;
		struct file files[2];
		const char *path, *repair, *writer;
		unsigned line;
	} rows[] = {
		{"drop-in config version 4 higher than root config version 2",
			{{MAIN, import}, {CONF_D "a.toml", "# x\nversion = 4\n"}}, CONF_D "a.toml",
			"version = 2", "it belongs to uid", 2},
		{"expected containerd config version equal to or less than 2, got 4",
			{{MAIN, import}, {CONF_D "99-nvidia.toml", "\nversion = 4\n"}},
			CONF_D "99-nvidia.toml", "version = 2", "the NVIDIA container toolkit", 2},
		{"open @/etc/containerd/gone.toml: no such file",
			{{MAIN, "imports = ['a.toml', 'gone.toml']\n"},
				{"/etc/containerd/a.toml", ""}},
			MAIN, "imports = [\"a.toml\"]", "", 1},
		{"open @/etc/containerd/gone.toml: no such file",
			{{MAIN, "imports = [\n'gone.toml']\n"}}, MAIN, "", "", 1},
		{"toml: cannot decode a string",
			{{MAIN, import}, {CONF_D "b.toml", "x = 'REFUSE'\n"}}, CONF_D "b.toml", "",
			"", 0},
		{"(3, 1): Can't convert many(string) to int",
			{{MAIN, "# Managed by puppet\nversion = 2\noom_score = 'many'\n"}}, MAIN,
			"", "# Managed by puppet", 3},
		{"failed at row 2 column 13: toml: what", {{MAIN, "version = 2\nx = 'y'\n"}}, MAIN,
			"", "", 2},
		{"failed", {{MAIN, import}, {CONF_D "c.toml", "a = 1\na = 2\n"}}, CONF_D "c.toml",
			"", "", 2},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct runtime_files config = {0};
		const struct bad_file *bad = &config.bad;

		make_refusing_program(directory, rows[i].words);
		read_config(directory, "2.3.4", rows[i].files, 2, &config);
		assert_int_equal(config.error, -EBADMSG);
		assert_string_equal(bad->path, directory_at(directory, rows[i].path).text);
		assert_int_equal(bad->line, rows[i].line);
		assert_string_equal(bad->repair, rows[i].repair);
		if (!strstr(bad->writer, rows[i].writer))
			fail_msg("%s", bad->writer);
		assert_int_equal(remove_tree(directory_at(directory, "/etc/containerd").text), 0);
	}
}

DIRECTORY_TEST(a_key_in_a_wrong_table_is_named_with_its_line)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{"version = 3\n[plugins.'io.containerd.cri.v1.runtime']\n"
		 "  max_concurrent_downloads = 20\n",
			MAIN ":3: max_concurrent_downloads has no effect in "
			     "[plugins.\"io.containerd.cri.v1.runtime\"]"},
		{"version = 3\nplugins.'io.containerd.grpc.v1.cri'.containerd.max_concurrent_downloads "
		 "= 20\n",
			MAIN ":2: max_concurrent_downloads has no effect in "
			     "[plugins.\"io.containerd.grpc.v1.cri\".containerd]"},
		{"version = 3\n[" IMAGES "]\nmax_concurrent_downloads = 20\n", NULL},
		{"version = 3\n[" TRANSFER "]\nmax_concurrent_downloads = 20\n", NULL},
		{"version = 3\n[plugins.'io.containerd.x.v1.y']\nmax_concurrent_downloads = 20\n",
			NULL},
	};

	make_program(directory, DUMP_21, 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct file file = {MAIN, rows[i].text};
		struct runtime_files config = {0};
		const char *why = config.keys[RUNTIME_DOWNLOADS].misplaced;

		read_config(directory, "2.1.4", &file, 1, &config);
		assert_int_equal(config.error, 0);
		assert_string_equal(rows[i].why ? why + strlen(directory->path) : why,
			rows[i].why ? rows[i].why : "");
	}
}

DIRECTORY_TEST(an_unchanged_configuration_is_not_dumped_again)
{
	const struct file file = {MAIN, "version = 2\n"}, changed = {MAIN, "version = 2\n#\n"};
	struct runtime_files config = {0};

	make_program(directory, DUMP_16, 0);
	read_config(directory, "1.6.20", &file, 1, &config);
	assert_string_equal(config.keys[RUNTIME_DOWNLOADS].on_disk, "3");
	directory_put(directory, "/dump", "[" GRPC "]\nmax_concurrent_downloads = 4\n");
	read_config(directory, "1.6.20", &file, 1, &config);
	assert_string_equal(config.keys[RUNTIME_DOWNLOADS].on_disk, "3");
	read_config(directory, "1.6.20", &changed, 1, &config);
	assert_string_equal(config.keys[RUNTIME_DOWNLOADS].on_disk, "4");
}

TEST(versions_are_compared)
{
	static const char *const yes[] = {
		"2.1.0", "v2.1.4", "2.4.2", "2.10.0", "3.0.0", "2.1.0-beta.0", "v2.2.1+k3s1"};
	static const char *const no[] = {"1.6.20~ds1", "v1.7.2", "2.0.5", "2.0", "", "v", "x", "2"};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		if (!containerd_is_at_least(yes[i], 2, 1))
			fail_msg("%s", yes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		if (containerd_is_at_least(no[i], 2, 1))
			fail_msg("%s", no[i]);
}

TEST(a_value_is_quoted_or_refused)
{
	static const char *const cases[][2] = {{"30m0s", "\"30m0s\""}, {"/a:/b", "\"/a:/b\""},
		{"/a\"b", NULL}, {"a\\b", NULL}, {"a\n", NULL}};
	char literal[SETTING_VALUE_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool quoted = toml_quote(cases[i][0], literal, sizeof(literal));

		assert_int_equal(quoted, cases[i][1] != NULL);
		if (quoted)
			assert_string_equal(literal, cases[i][1]);
	}
}
