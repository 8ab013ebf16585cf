/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "runtime/driver.h"

#define FIRST_LINE \
	"# Written by headroom. It replaces and removes this file, unless this line is gone.\n"

#define TABLE(url) "\n[host.\"" url "\"]\n  capabilities = [\"pull\", \"resolve\"]\n"

static const char *const urls[] = {
	"https://far.example", "http://127.0.0.1:30020", "https://far.example", "http://localhost"};

TEST(a_file_of_containerd_lists_each_mirror_once_and_loopback_first)
{
	const struct mirror_format *format = containerd_driver.mirrors;
	_cleanup_free_ char *text = NULL, *timed = NULL;
	char list[SETTING_VALUE_MAX];

	text = mirror_file_make(format, "1.6.20", "docker.io", urls, ARRAY_SIZE(urls));
	assert_string_equal(text, FIRST_LINE TABLE("http://127.0.0.1:30020")
					  TABLE("http://localhost") TABLE("https://far.example"));
	mirror_file_list(format, text, list);
	assert_string_equal(list, "http://127.0.0.1:30020 http://localhost https://far.example");
	timed = mirror_file_make(format, "v2.1.0", "docker.io", urls, 1);
	assert_string_equal(
		timed, FIRST_LINE TABLE("https://far.example") "  dial_timeout = \"3000ms\"\n");
	mirror_file_list(format, FIRST_LINE, list);
	assert_string_equal(list, "none");
}

TEST(a_namespace_behind_the_api_is_written_as_the_runtime_needs_it)
{
	static const char *const url[] = {"https://harbor.example/v2/hub"};
	static const char *const deeper[] = {"https://harbor.example/x/v2/hub"};
	_cleanup_free_ char *text =
		mirror_file_make(containerd_driver.mirrors, "1.7.2", "docker.io", url, 1);

	assert_string_equal(
		text, FIRST_LINE TABLE("https://harbor.example/v2/hub") "  override_path = true\n");
	free(text);
	text = mirror_file_make(crio_driver.mirrors, "1.34.0", "docker.io", url, 1);
	assert_non_null(strstr(text, "\n[[registry.mirror]]\nlocation = \"harbor.example/hub\"\n"));
	assert_null(mirror_file_make(crio_driver.mirrors, "1.34.0", "docker.io", deeper, 1));
}

TEST(a_file_of_crio_is_a_registry_with_its_mirrors)
{
	static const char *const with_path[] = {"http://m.example/proxy"};
	const struct mirror_format *format = crio_driver.mirrors;
	_cleanup_free_ char *text = NULL;
	char list[SETTING_VALUE_MAX];

	text = mirror_file_make(format, "1.34.0", "docker.io", urls, 2);
	assert_string_equal(text, FIRST_LINE "[[registry]]\nlocation = \"docker.io\"\n"
					     "\n# \"http://127.0.0.1:30020\"\n[[registry.mirror]]\n"
					     "location = \"127.0.0.1:30020\"\ninsecure = true\n"
					     "\n# \"https://far.example\"\n[[registry.mirror]]\n"
					     "location = \"far.example\"\n");
	mirror_file_list(format, text, list);
	assert_string_equal(list, "http://127.0.0.1:30020 https://far.example");
	assert_null(mirror_file_make(format, "1.34.0", REGISTRY_DEFAULT, urls, 1));
	assert_null(mirror_file_make(format, "1.34.0", "docker.io", with_path, 1));
}

TEST(crio_leaves_registries_that_other_files_define)
{
	const struct mirror_format *format = crio_driver.mirrors;
	struct mirror_file file = {.registry = "r.example:5000"};
	struct directory directory;

	directory_make(&directory);
	directory_put(&directory, "/etc/containers/registries.conf",
		"unqualified-search-registries = [\"r.example:5000\"]\n");
	mirror_file_read(format, &directory.host, format->directory, &file);
	assert_false(file.exists);
	directory_put(&directory, "/etc/containers/registries.conf.d/a.conf",
		"[[registry]]\n  prefix = \"r.example:5000\"\n");
	mirror_file_read(format, &directory.host, format->directory, &file);
	assert_true(file.exists && !file.ours && file.error == 0);
	set_text(file.registry, "../x");
	mirror_file_read(format, &directory.host, format->directory, &file);
	assert_int_equal(file.error, -EINVAL);
	directory_remove(&directory);
}

/* Writes a file of others and reads ours for the registry. */
static struct mirror_file read_beside(
	const struct directory *directory, const char *name, const char *text, const char *registry)
{
	const struct mirror_format *format = crio_driver.mirrors;
	struct mirror_file file = {0};

	set_text(file.registry, registry);
	directory_put(directory, name, text);
	mirror_file_read(format, &directory->host, format->directory, &file);
	return file;
}

DIRECTORY_TEST(each_spelling_of_a_registry_of_others_is_seen)
{
	static const struct {
		const char *text, *registry;
		bool is_taken;
	} rows[] = {
		{"[[registry]]\nlocation = 'quay.io'\nblocked = true\n", "quay.io", true},
		{"registry = [{location = \"quay.io\", blocked = true}]\n", "quay.io", true},
		{"[[\"registry\"]]\n\"prefix\" = 'quay.io/'\n'location' = 'm.example'\n", "quay.io",
			true},
		{"[[registry]]\nlocation = 'quay\\u002eio'\n", "quay.io", false},
		{"[[registry]]\nlocation = \"quay\\u002eio\"\n", "quay.io", true},
		{"[[registry]]\nprefix = '*.io'\nlocation = 'm.example'\nblocked = true\n",
			"quay.io", true},
		{"[[registry]]\nprefix = '*.QUAY.io'\n", "cdn.quay.io:443", true},
		{"[[registry]]\nprefix = '*.quay.io'\n", "quay.io", false},
		{"[[registry]]\nprefix = 'r.example'\n", "r.example:5000", true},
		{"[[registry]]\nprefix = 'r.example:5000'\n", "r.example", false},
		{"[[registry]]\nprefix = 'quay.io/team'\nblocked = true\n", "quay.io", false},
		{"[[registry]]\nprefix = 'x.example'\nlocation = 'quay.io'\n", "quay.io", false},
		{"[registries.block]\nregistries = [ # none of these\n 'a.example', 'quay.io' ]\n",
			"quay.io", true},
		{"registries.insecure.registries = ['quay.io']\n", "quay.io", true},
		{"[registries.search]\nregistries = ['quay.io']\n", "quay.io", false},
		{"# location = 'quay.io'\n[[registry]]\nlocation = 'gcr.io' # 'quay.io'\n",
			"quay.io", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct mirror_file file = read_beside(directory, "/etc/containers/registries.conf",
			rows[i].text, rows[i].registry);

		assert_int_equal(file.error, 0);
		assert_true(file.exists == rows[i].is_taken && file.is_taken == rows[i].is_taken);
	}
}

DIRECTORY_TEST(a_file_of_others_that_is_not_understood_is_refused_with_the_position)
{
	static const char name[] = "/etc/containers/registries.conf.d/50.conf";
	struct mirror_file file =
		read_beside(directory, name, "[[registry]]\nlocation = quay.io\n", "quay.io");

	assert_int_equal(file.error, -EBADMSG);
	assert_string_equal(file.why, "/etc/containers/registries.conf.d/50.conf:2:12: a value is "
				      "expected here: correct it");
	file = read_beside(directory, name, "[[registry]]\nlocation = 'gcr.io'\n", "quay.io");
	assert_int_equal(file.error, 0);
	assert_string_equal(file.why, "");
}

/* It must go: it would hide their file about the registry. */
DIRECTORY_TEST(our_file_is_known_beside_a_later_one_of_others)
{
	struct mirror_file file;

	directory_put(
		directory, "/etc/containers/registries.conf.d/headroom-quay.io.conf", FIRST_LINE);
	file = read_beside(directory, "/etc/containers/registries.conf.d/a.conf",
		"registry = [{prefix = 'quay.io', blocked = true}]\n", "quay.io");
	assert_true(file.exists && file.ours && file.is_taken && file.error == 0);
}

DIRECTORY_TEST(a_list_of_pins_in_any_spelling_is_that_of_others)
{
	static const char *const taken[] = {"[crio.image]\npinned_images = []\n",
		"[crio]\nimage.pinned_images = ['x']\n", "crio = {image = {pinned_images = []}}\n",
		"[ crio . \"image\" ]\n'pinned_images' = [\n]\n", "[crio.image\n"};
	static const char *const not_taken[] = {"# pinned_images = []\n", "[crio.image]\n",
		"[crio.other]\npinned_images = []\n",
		"[crio.image]\nx = '''\npinned_images = []\n'''\n"};

	for (size_t i = 0; i < ARRAY_SIZE(taken) + ARRAY_SIZE(not_taken); i++) {
		bool is_taken = i < ARRAY_SIZE(taken);
		_cleanup_free_ char *text = NULL;
		char why[IMAGES_WHY_MAX];

		directory_put(directory, "/etc/crio/crio.conf",
			is_taken ? taken[i] : not_taken[i - ARRAY_SIZE(taken)]);
		assert_int_equal(crio_driver.edit_pins(
					 &directory->host, NULL, "r.example/a:1", true, &text, why),
			is_taken ? -EEXIST : 0);
	}
}

DIRECTORY_TEST(a_file_with_which_crio_would_not_start_is_named)
{
	static const struct {
		const char *name, *text, *path;
		unsigned line;
	} rows[] = {
		{"/etc/crio/crio.conf", "[crio]\n", "", 0},
		{"/etc/crio/crio.conf.d/10-a.conf", "[crio.runtime]\nx = yes\n",
			"/etc/crio/crio.conf.d/10-a.conf", 2},
		{"/etc/crio/crio.conf.d/10-a.conf", "[crio.runtime]\nx = true\n", "", 0},
		{"/etc/crio/crio.conf", "[crio]\n[crio]\n", "/etc/crio/crio.conf", 2},
	};
	struct node_runtime runtime = {0};

	set_text(runtime.daemon.config, "/etc/crio/crio.conf");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct runtime_files *files = &runtime.files;

		directory_put(directory, rows[i].name, rows[i].text);
		crio_driver.read_files(&runtime, &directory->host, NULL);
		assert_int_equal(files->error, rows[i].line > 0 ? -EBADMSG : 0);
		if (rows[i].line > 0) {
			assert_string_equal(files->bad.path, rows[i].path);
			assert_int_equal(files->bad.line, rows[i].line);
			assert_non_null(strstr(files->bad.writer, "it belongs to uid"));
		} else {
			assert_string_equal(files->why, "");
		}
	}
}

TEST(only_files_with_the_mark_are_ours)
{
	static const char *const ours[] = {"# Written by headroom.", "# Written by headroom.\n",
		"# Written by headroom.\r\nserver = \"x\"\n", FIRST_LINE,
		"# Written by headroom. x"};
	static const char *const others[] = {"", "#", "server = \"https://x\"\n",
		"\n# Written by headroom.\n", " # Written by headroom.\n",
		"# Written by headroom.x\n", "# written by headroom.\n",
		"# Kept by hand\n# Written by headroom.\n"};

	const struct mirror_format *format = crio_driver.mirrors;
	struct mirror_file file = {.registry = "r.example"};
	struct directory directory;

	directory_make(&directory);
	for (size_t i = 0; i < ARRAY_SIZE(ours) + ARRAY_SIZE(others); i++) {
		bool is_ours = i < ARRAY_SIZE(ours);

		directory_put(&directory,
			"/etc/containers/registries.conf.d/headroom-r.example.conf",
			is_ours ? ours[i] : others[i - ARRAY_SIZE(ours)]);
		mirror_file_read(format, &directory.host, format->directory, &file);
		assert_true(file.exists && file.ours == is_ours);
	}
	directory_remove(&directory);
}
