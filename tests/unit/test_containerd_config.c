/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "base/toml.h"
#include "runtime/containerd_config.h"

#include <errno.h>

#define MAIN     "/etc/containerd/config.toml"
#define DROP_IN  "/etc/containerd/conf.d/99-headroom.toml"
#define IMPORTS  "imports = ['/etc/containerd/conf.d/*.toml']\n"
#define GRPC     "plugins.\"io.containerd.grpc.v1.cri\""
#define IMAGES   "plugins.\"io.containerd.cri.v1.images\""
#define TRANSFER "plugins.\"io.containerd.transfer.v1.local\""

#define MANY_MAX 4

struct file {
	const char *path, *text;
	bool read_only;
};

struct decision {
	const char *what;
	const char *version;
	enum containerd_setting setting;
	struct file files[MANY_MAX];
	const char *dump;
	enum containerd_method method;
	enum containerd_refusal refusal;
	const char *path, *table;
	bool made; /* the file is to be made */
};

static int plan(const struct decision *decision, const char *value, struct containerd_edit *edit)
{
	struct containerd_file files[MANY_MAX] = {0};
	struct containerd_config config = {
		.version = decision->version,
		.main_path = MAIN,
		.files.files = files,
		.dump = decision->dump,
	};

	for (size_t i = 0; i < MANY_MAX && decision->files[i].path; i++) {
		copy_text(files[i].path, sizeof(files[i].path), decision->files[i].path);
		files[i].text = (char *)decision->files[i].text;
		files[i].len = strlen(files[i].text);
		files[i].read_only = decision->files[i].read_only;
		config.files.n++;
	}
	if (config.files.n > 0)
		config.main_path = files[0].path;
	return containerd_config_plan(&config, decision->setting, value, edit);
}

static const char *a_value(enum containerd_setting setting)
{
	static const char *const values[] = {"10", "30m", "/etc/containerd/certs.d"};

	return values[setting];
}

static void check(const struct decision *decisions, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct decision *d = &decisions[i];
		struct containerd_edit edit;

		assert_int_equal(plan(d, a_value(d->setting), &edit), 0);
		if (edit.method != d->method || edit.refusal != d->refusal)
			fail_msg("%s: method %d, refusal %d: %s", d->what, edit.method,
				edit.refusal, edit.why);
		assert_int_equal(edit.why[0] != '\0', d->refusal != CONTAINERD_FINE);
		if (d->path && !streq(edit.path, d->path))
			fail_msg("%s: %s", d->what, edit.path);
		if (d->table && !streq(edit.table, d->table))
			fail_msg("%s: %s", d->what, edit.table);
		assert_int_equal(edit.begin[0] != '\0', d->made);
	}
}

TEST(each_generation_has_its_place)
{
	static const struct decision decisions[] = {
		{"1.6", "1.6.20~ds1", CONTAINERD_DOWNLOADS, {{MAIN, "version = 2\n", 0}}, NULL,
			CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, GRPC, 0},
		{"1.7", "v1.7.27", CONTAINERD_DOWNLOADS, {{MAIN, "version = 2\n" IMPORTS, 0}}, NULL,
			CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, GRPC, 0},
		{"1.7 timeout", "1.7.0", CONTAINERD_PROGRESS_TIMEOUT, {{MAIN, "version = 2\n", 0}},
			NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, GRPC, 0},
		{"1.7 registry", "1.7.0", CONTAINERD_REGISTRY_DIRECTORY,
			{{MAIN, "version = 2\n", 0}}, NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE,
			MAIN, GRPC ".registry", 0},
		{"1.6, version 1", "1.6.36", CONTAINERD_REGISTRY_DIRECTORY,
			{{MAIN, "root = '/r'\n", 0}}, NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE,
			MAIN, "plugins.cri.registry", 0},
		{"2.0", "2.0.5", CONTAINERD_DOWNLOADS, {{MAIN, "version = 3\n", 0}}, NULL,
			CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, IMAGES, 0},
		{"2.0, version 2", "2.0.5", CONTAINERD_DOWNLOADS, {{MAIN, "version = 2\n", 0}},
			NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, GRPC, 0},
		{"2.0, imports", "2.0.5", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 3\n" IMPORTS, 0}}, NULL, CONTAINERD_OWN_FILE,
			CONTAINERD_FINE, DROP_IN, IMAGES, 1},
		{"2.0, imports, version 2", "2.0.5", CONTAINERD_REGISTRY_DIRECTORY,
			{{MAIN, "version = 2\n" IMPORTS, 0}}, NULL, CONTAINERD_OWN_FILE,
			CONTAINERD_FINE, DROP_IN, GRPC ".registry", 1},
		{"2.1", "v2.1.4", CONTAINERD_DOWNLOADS, {{MAIN, "version = 3\n", 0}}, NULL,
			CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, TRANSFER, 0},
		{"2.1 timeout", "v2.1.4", CONTAINERD_PROGRESS_TIMEOUT, {{MAIN, "version = 3\n", 0}},
			NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, IMAGES, 0},
		{"2.2, imports", "2.2.1", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 3\n" IMPORTS, 0}}, NULL, CONTAINERD_OWN_FILE,
			CONTAINERD_FINE, DROP_IN, TRANSFER, 1},
		{"2.2 reads no conf.d that the main file does not name", "2.2.1",
			CONTAINERD_DOWNLOADS, {{MAIN, "version = 3\n", 0}}, NULL,
			CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, TRANSFER, 0},
		{"2.3, version 4", "2.3.0", CONTAINERD_REGISTRY_DIRECTORY,
			{{MAIN, "version = 4\n" IMPORTS, 0}}, NULL, CONTAINERD_OWN_FILE,
			CONTAINERD_FINE, DROP_IN, IMAGES ".registry", 1},
		{"2.4, version 2: each file has its own", "2.4.2", CONTAINERD_REGISTRY_DIRECTORY,
			{{MAIN, "version = 2\n" IMPORTS, 0}}, NULL, CONTAINERD_OWN_FILE,
			CONTAINERD_FINE, DROP_IN, IMAGES ".registry", 1},
		{"2.4, version 1", "2.4.2", CONTAINERD_REGISTRY_DIRECTORY,
			{{MAIN, "[plugins.cri]\n", 0}}, NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE,
			MAIN, "plugins.cri.registry", 0},
		{"2.9, not yet known", "2.9.0", CONTAINERD_DOWNLOADS, {{MAIN, "version = 4\n", 0}},
			NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, TRANSFER, 0},
		{"1.7, no main file", "1.7.0", CONTAINERD_DOWNLOADS, {{0}}, NULL,
			CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, GRPC, 1},
		{"2.0, no main file", "2.0.0", CONTAINERD_DOWNLOADS, {{0}}, NULL,
			CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, IMAGES, 1},
		{"2.4, no main file", "2.4.2", CONTAINERD_DOWNLOADS, {{0}}, NULL,
			CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, TRANSFER, 1},
	};

	check(decisions, ARRAY_SIZE(decisions));
}

TEST(other_files_count)
{
	static const char nvidia[] = "/etc/containerd/conf.d/99-nvidia.toml";
	static const char early[] = "/etc/containerd/conf.d/10-site.toml";
	static const struct decision decisions[] = {
		{"1.7: the section of an import replaces the main file's", "1.7.20",
			CONTAINERD_DOWNLOADS,
			{{MAIN,
				 "version = 2\n" IMPORTS "[" GRPC
				 "]\nmax_concurrent_downloads = 5\n",
				 0},
				{nvidia, "version = 2\n[" GRPC ".containerd]\n", 0}},
			NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE, nvidia, GRPC, 0},
		{"1.7: an import of something else does not", "1.7.20", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 2\n" IMPORTS "[" GRPC "]\n", 0},
				{nvidia, "version = 2\n[metrics]\n", 0}},
			NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, GRPC, 0},
		{"2.1: a later file sets the key", "2.1.0", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 3\n" IMPORTS, 0},
				{nvidia, "[" TRANSFER "]\nmax_concurrent_downloads = 4\n", 0}},
			NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE, nvidia, TRANSFER, 0},
		{"2.1: a later file sets something else", "2.1.0", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 3\n" IMPORTS, 0},
				{nvidia, "[" TRANSFER "]\nx = 4\n", 0}},
			NULL, CONTAINERD_OWN_FILE, CONTAINERD_FINE, DROP_IN, TRANSFER, 1},
		{"2.1: an earlier file sets the key", "2.1.0", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 3\n" IMPORTS, 0},
				{early, "[" TRANSFER "]\nmax_concurrent_downloads = 4\n", 0}},
			NULL, CONTAINERD_OWN_FILE, CONTAINERD_FINE, DROP_IN, TRANSFER, 1},
		{"2.1: ours is there", "2.1.0", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 3\n" IMPORTS, 0},
				{DROP_IN, "[" TRANSFER "]\nmax_concurrent_downloads = 4\n", 0}},
			NULL, CONTAINERD_OWN_FILE, CONTAINERD_FINE, DROP_IN, TRANSFER, 0},
		{"2.1: the main file sets the key, ours is read after it", "2.1.0",
			CONTAINERD_REGISTRY_DIRECTORY,
			{{MAIN,
				"version = 3\n" IMPORTS "[" IMAGES
				".registry]\nconfig_path = '/x'\n",
				0}},
			NULL, CONTAINERD_OWN_FILE, CONTAINERD_FINE, DROP_IN, IMAGES ".registry", 1},
		{"2.0: the version is the last file's", "2.0.0", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 3\n" IMPORTS, 0}, {early, "version = 2\n", 0}}, NULL,
			CONTAINERD_OWN_FILE, CONTAINERD_FINE, DROP_IN, GRPC, 1},
		{"2.1: one file by name is no directory for ours", "2.1.0", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 3\nimports = ['extra.toml']\n", 0},
				{"/etc/containerd/extra.toml",
					"[" TRANSFER "]\nmax_concurrent_downloads = 4\n", 0}},
			NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE, "/etc/containerd/extra.toml",
			TRANSFER, 0},
		{"2.1: a relative import", "2.1.0", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 3\nimports = ['./x/../conf.d//*.toml']\n", 0}}, NULL,
			CONTAINERD_OWN_FILE, CONTAINERD_FINE, DROP_IN, TRANSFER, 1},
		{"2.1: imports that are no files", "2.1.0", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 3\nimports = ['/', '', '.', '/../..']\n", 0}}, NULL,
			CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, TRANSFER, 0},
		{"2.1: a pattern that ours does not match", "2.1.0", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 3\nimports = ['conf.d/a*.toml', '/x/*/y.toml']\n", 0}},
			NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, TRANSFER, 0},
	};

	check(decisions, ARRAY_SIZE(decisions));
}

/* What makes 2.1 and later pull by the CRI plugin's own key. */
TEST(the_key_follows_the_way_of_pulling)
{
	static const struct decision decisions[] = {
		{"by the dump", "2.1.0", CONTAINERD_DOWNLOADS, {{MAIN, "version = 3\n", 0}},
			"[" IMAGES "]\nmax_concurrent_downloads = 3\nuse_local_image_pull = true\n",
			CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, IMAGES, 0},
		{"the dump's defaults", "2.1.0", CONTAINERD_DOWNLOADS, {{MAIN, "version = 3\n", 0}},
			"[" IMAGES "]\nmax_concurrent_downloads = 3\nuse_local_image_pull = false\n"
			"disable_snapshot_annotations = true\n",
			CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, TRANSFER, 0},
		{"a CRI key other than 3", "2.4.2", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 2\n[" GRPC "]\nmax_concurrent_downloads = 5\n", 0}},
			NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, GRPC, 0},
		{"a CRI key of 3", "2.4.2", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 2\n[" GRPC "]\nmax_concurrent_downloads = 3\n", 0}},
			NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, TRANSFER, 0},
		{"discarded layers, version 2", "2.1.0", CONTAINERD_DOWNLOADS,
			{{MAIN,
				"version = 2\n[" GRPC
				".containerd]\ndiscard_unpacked_layers = true\n",
				0}},
			NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, GRPC, 0},
		{"mirrors", "2.1.0", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 3\n[" IMAGES ".registry.mirrors.'docker.io']\n", 0}},
			NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, IMAGES, 0},
		{"an empty table of mirrors", "2.1.0", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 3\n[" IMAGES ".registry.mirrors]\n", 0}}, NULL,
			CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, TRANSFER, 0},
		{"2.0 knows no other way", "2.0.0", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 3\n", 0}}, NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE,
			MAIN, IMAGES, 0},
	};

	check(decisions, ARRAY_SIZE(decisions));
}

TEST(what_cannot_be_has_a_reason)
{
	static const struct decision decisions[] = {
		{"old", "1.5.11", CONTAINERD_DOWNLOADS, {{MAIN, "version = 2\n", 0}}, NULL,
			CONTAINERD_UNSUPPORTED, CONTAINERD_UNKNOWN_VERSION, NULL, NULL, 0},
		{"no version", "unknown", CONTAINERD_DOWNLOADS, {{MAIN, "version = 2\n", 0}}, NULL,
			CONTAINERD_UNSUPPORTED, CONTAINERD_UNKNOWN_VERSION, NULL, NULL, 0},
		{"3.0", "3.0.0", CONTAINERD_DOWNLOADS, {{MAIN, "version = 2\n", 0}}, NULL,
			CONTAINERD_UNSUPPORTED, CONTAINERD_UNKNOWN_VERSION, NULL, NULL, 0},
		{"1.6 has no timeout", "1.6.36", CONTAINERD_PROGRESS_TIMEOUT,
			{{MAIN, "version = 2\n", 0}}, NULL, CONTAINERD_UNSUPPORTED,
			CONTAINERD_NO_SUCH_KEY, NULL, NULL, 0},
		{"k3s by its version", "v2.1.5-k3s1", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 3\n", 0}}, NULL, CONTAINERD_UNSUPPORTED,
			CONTAINERD_GENERATED, NULL, NULL, 0},
		{"k3s by its file", "1.7.11", CONTAINERD_DOWNLOADS,
			{{"/var/lib/rancher/k3s/agent/etc/containerd/config.toml", "version = 2\n",
				0}},
			NULL, CONTAINERD_UNSUPPORTED, CONTAINERD_GENERATED, NULL, NULL, 0},
		{"a file that says so", "1.7.11", CONTAINERD_DOWNLOADS,
			{{MAIN, "\n# generated by x.\r\n# DO NOT EDIT\nversion = 2\n", 0}}, NULL,
			CONTAINERD_UNSUPPORTED, CONTAINERD_GENERATED, NULL, NULL, 0},
		{"a text in it that says so", "1.7.11", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 2\n# DO NOT EDIT\n", 0}}, NULL, CONTAINERD_IN_PLACE,
			CONTAINERD_FINE, MAIN, GRPC, 0},
		{"Docker's own", "1.7.11", CONTAINERD_DOWNLOADS,
			{{"/run/docker/containerd/containerd.toml", "version = 2\n", 0}}, NULL,
			CONTAINERD_UNSUPPORTED, CONTAINERD_GENERATED, NULL, NULL, 0},
		{"k0s", "1.7.11", CONTAINERD_DOWNLOADS,
			{{"/etc/k0s/containerd.toml", "# k0s_managed=true\nversion = 2\n", 0}},
			NULL, CONTAINERD_UNSUPPORTED, CONTAINERD_GENERATED, NULL, NULL, 0},
		{"read-only", "1.7.11", CONTAINERD_DOWNLOADS, {{MAIN, "version = 2\n", true}}, NULL,
			CONTAINERD_UNSUPPORTED, CONTAINERD_READ_ONLY, MAIN, NULL, 0},
		{"mirrors", "1.7.11", CONTAINERD_REGISTRY_DIRECTORY,
			{{MAIN,
				"version = 2\n[" GRPC
				".registry.mirrors.'docker.io']\nendpoint = []\n",
				0}},
			NULL, CONTAINERD_UNSUPPORTED, CONTAINERD_EXCLUDED, NULL, NULL, 0},
		{"certificates", "1.7.11", CONTAINERD_REGISTRY_DIRECTORY,
			{{MAIN,
				"version = 2\n[" GRPC ".registry.configs.'r.example'.tls]\n"
				"ca_file = '/x'\n",
				0}},
			NULL, CONTAINERD_UNSUPPORTED, CONTAINERD_EXCLUDED, NULL, NULL, 0},
		{"credentials do not", "1.7.11", CONTAINERD_REGISTRY_DIRECTORY,
			{{MAIN, "version = 2\n[" GRPC ".registry.configs.'r.example'.auth]\n", 0}},
			NULL, CONTAINERD_IN_PLACE, CONTAINERD_FINE, MAIN, GRPC ".registry", 0},
		{"no CRI", "1.6.36", CONTAINERD_DOWNLOADS,
			{{MAIN, "disabled_plugins = ['x', 'cri']\n", 0}}, NULL,
			CONTAINERD_UNSUPPORTED, CONTAINERD_CRI_OFF, NULL, NULL, 0},
		{"too new a file", "2.2.0", CONTAINERD_DOWNLOADS, {{MAIN, "version = 4\n", 0}},
			NULL, CONTAINERD_UNSUPPORTED, CONTAINERD_NOT_TOML, NULL, NULL, 0},
		{"no version of a file", "2.2.0", CONTAINERD_DOWNLOADS,
			{{MAIN, "version = 'two'\n", 0}}, NULL, CONTAINERD_UNSUPPORTED,
			CONTAINERD_NOT_TOML, NULL, NULL, 0},
	};

	check(decisions, ARRAY_SIZE(decisions));
}

TEST(values_are_checked_and_spelled)
{
	static const struct {
		enum containerd_setting setting;
		const char *value, *literal;
	} cases[] = {
		{CONTAINERD_DOWNLOADS, "10", "10"},
		{CONTAINERD_DOWNLOADS, "0", NULL},
		{CONTAINERD_DOWNLOADS, "-1", NULL},
		{CONTAINERD_DOWNLOADS, "ten", NULL},
		{CONTAINERD_DOWNLOADS, "99999999999", NULL},
		{CONTAINERD_PROGRESS_TIMEOUT, "30m", "\"30m\""},
		{CONTAINERD_PROGRESS_TIMEOUT, "30", NULL},
		{CONTAINERD_REGISTRY_DIRECTORY, "/a\"b:/c", "\"/a\\\"b:/c\""},
		{CONTAINERD_REGISTRY_DIRECTORY, "a", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct decision decision = {
			.version = "2.0.0",
			.setting = cases[i].setting,
			.files = {{MAIN, "version = 3\n", 0}},
		};
		struct containerd_edit edit;
		int r = plan(&decision, cases[i].value, &edit);

		assert_int_equal(r, cases[i].literal ? 0 : -EINVAL);
		if (cases[i].literal)
			assert_string_equal(edit.literal, cases[i].literal);
	}
}

/* The text with the edit in it. */
static char *edited(const struct containerd_edit *edit, const char *old)
{
	char *text;

	assert_int_equal(toml_set(old, strlen(old), edit->table, edit->key, edit->literal, &text,
				 NULL, NULL),
		0);
	return text;
}

TEST(an_edit_knows_what_stands_and_what_counts)
{
	struct decision decision = {
		.version = "2.2.0",
		.setting = CONTAINERD_REGISTRY_DIRECTORY,
		.files = {{MAIN, "version = 3\n[" IMAGES ".registry]\nconfig_path = '/x' # c\n",
			0}},
		.dump = "version = 3\n[" IMAGES ".registry]\nconfig_path = '/x'\n",
	};
	_cleanup_free_ char *text = NULL;
	struct containerd_edit edit;

	assert_int_equal(plan(&decision, "/y", &edit), 0);
	assert_string_equal(edit.on_disk, "/x");
	assert_string_equal(edit.effective, "/x");
	assert_string_equal(edit.effective_path, IMAGES ".registry.config_path");
	text = edited(&edit, decision.files[0].text);
	assert_string_equal(text, "version = 3\n[" IMAGES ".registry]\nconfig_path = \"/y\" # c\n");
	/* An empty value means a default from 2.2 on. */
	decision.files[0].text = "version = 3\n";
	decision.dump = "[" IMAGES ".registry]\nconfig_path = ''\n";
	assert_int_equal(plan(&decision, "/y", &edit), 0);
	assert_string_equal(edit.on_disk, "");
	assert_string_equal(edit.effective, "/etc/containerd/certs.d:/etc/docker/certs.d");
	decision.version = "2.1.0";
	assert_int_equal(plan(&decision, "/y", &edit), 0);
	assert_string_equal(edit.effective, "");
}

TEST(a_file_that_is_made_has_a_version_only_as_main_file)
{
	struct decision decision = {.version = "2.4.2", .setting = CONTAINERD_DOWNLOADS};
	_cleanup_free_ char *main_text = NULL, *drop_in = NULL;
	struct containerd_edit edit;

	assert_int_equal(plan(&decision, "10", &edit), 0);
	main_text = edited(&edit, edit.begin);
	assert_non_null(strstr(main_text, "\nversion = 3\n"));
	assert_non_null(strstr(main_text, "\nmax_concurrent_downloads = 10\n"));
	decision.files[0] = (struct file){MAIN, "version = 3\n" IMPORTS, false};
	assert_int_equal(plan(&decision, "10", &edit), 0);
	drop_in = edited(&edit, edit.begin);
	assert_null(strstr(drop_in, "version ="));
	assert_non_null(strstr(drop_in, "\nmax_concurrent_downloads = 10\n"));
	assert_int_equal(toml_check(drop_in, strlen(drop_in), NULL), 0);
}

TEST(dumps_are_compared_by_key)
{
	static const char *const allowed[] = {"a.x", "b.\"y.z\""};
	static const struct {
		const char *old, *new;
		int result;
		const char *difference;
	} cases[] = {
		{"[a]\nx = 1\ny = 2\n", "[a]\n  y = 2\n  x = 0x01 # c\n", 0, ""},
		{"[a]\nx = 1\n", "[a]\nx = 2\n", 0, ""},
		{"[a]\nx = 1\n", "[a]\n[b]\n'y.z' = 2\n", 1, "b would be new"},
		{"[a]\nx = 1\n[b]\n", "[a]\n[b]\n'y.z' = 2\n", 0, ""},
		{"[a]\ny = 1\n", "[a]\ny = 2\n", 1, "a.y would have another value"},
		{"[a]\ny = 1\n", "[a]\ny = '1'\n", 1, "a.y would have another value"},
		{"[a]\ny = 1\n", "[a]\n", 1, "a.y would go"},
		{"y = [1, 2]", "y = [2, 1]", 1, "y[0] would have another value"},
		{"y = [1, 2]", "y = [1]", 1, "y[1] would go"},
		{"imports = ['a', 'b']", "imports = ['b']", 0, ""},
		{"[[t]]\na = 1\n[[t]]\na = 2\n", "[[t]]\na = 1\n[[t]]\na = 3\n", 1,
			"t[1].a would have another value"},
		{"x = 1", "x =", -EBADMSG, ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char difference[CONTAINERD_DIFFERENCE_MAX] = "";

		assert_int_equal(containerd_dump_differs(cases[i].old, cases[i].new, allowed,
					 ARRAY_SIZE(allowed), difference),
			cases[i].result);
		assert_string_equal(difference, cases[i].difference);
	}
}

TEST(a_trial_imports_one_file_more)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
		{"version = 3\n", "version = 3\nimports = [\"/x/new.toml\"]\n"},
		{"imports = [ '/a/*.toml', # c\n]\n",
			"imports = [\"/a/*.toml\", \"/x/new.toml\"]\n"},
		{"imports = []\n", "imports = [\"/x/new.toml\"]\n"},
	};
	char *text = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *out = NULL;

		assert_int_equal(containerd_trial_main(
					 cases[i].text, strlen(cases[i].text), "/x/new.toml", &out),
			0);
		assert_string_equal(out, cases[i].expected);
	}
	assert_int_equal(containerd_trial_main("imports = 1", 11, "/x", &text), -EINVAL);
}
