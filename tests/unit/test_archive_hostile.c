/* SPDX-License-Identifier: Apache-2.0 */

/* Archives that are torn, damaged or hostile. */

#include "image_archive.h"

#include <sys/resource.h>

ARCHIVE_TEST(torn_archives_and_other_files_are_refused)
{
	static const char layer[600];
	_cleanup_bytes_ struct bytes text = {0}, empty = {0}, torn = {0};

	tar_add(&torn, '0', "layer.tar", "", layer, sizeof(layer));
	torn.len = 612;
	assert_refused(fixture, &torn, "truncated: 600 bytes of layer.tar expected, 100 there");
	bytes_add(&text, "hello", 5);
	assert_refused(fixture, &text, "not a tar file");
	bytes_add(&empty, "", 0);
	assert_refused(fixture, &empty, "empty");
	fixture->tar.data[0] ^= 1;
	assert_refused(fixture, &fixture->tar, "not a tar file");
	fixture->tar.data[0] ^= 1;
	fixture->tar.data[1024] ^= 1;
	assert_refused(fixture, &fixture->tar, "the header at byte 1024 is damaged");
	assert_int_equal(open_path(fixture, "/images/none"), -ENOENT);
}

ARCHIVE_TEST(invalid_sizes_foreign_paths_and_sparse_files_are_refused)
{
	static const struct {
		size_t at, len;
		const char *bytes, *why;
	} cases[] = {
		{124, 12, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "not a tar file"},
		{124, 12, "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
			"truncated: 9223372036854775807 bytes"},
		{124, 12, "\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", "not a tar file"},
		{124, 12, "77777777777", "truncated: 8589934591 bytes"},
		{124, 12, "00000000x07", "not a tar file"},
		{0, 12, "/etc/passwd", "/etc/passwd leads out"},
		{0, 5, "../x", "../x leads out"},
		{0, 10, "a/../../x", "a/../../x leads out"},
		{0, 11, "..\033x/../..", "leads out"},
		{156, 1, "S", "sparse"},
	};
	_cleanup_bytes_ struct bytes pax = {0};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes tar = {0};

		tar_put(&tar, "a", "content");
		tar_end(&tar);
		memcpy(tar.data + cases[i].at, cases[i].bytes, cases[i].len);
		tar_seal(tar.data);
		assert_refused(fixture, &tar, cases[i].why);
		assert_null(strchr(fixture->why, '\033'));
	}
	tar_add(&pax, 'x', "pax", "", "22 GNU.sparse.major=1\n", 22);
	tar_put(&pax, "a", "b");
	assert_refused(fixture, &pax, "sparse");
}

/* Creates a manifest.json whose second layer is a link. */
static struct bytes make_link(char type, const char *name, const char *target)
{
	struct bytes tar = {0};
	struct sample sample;
	char manifest[512];

	sample_make(&sample, MACHINE);
	tar_put(&tar, "config", sample.config);
	tar_put(&tar, "0.tar", LAYER_0);
	tar_add(&tar, type, name, target, "", 0);
	snprintf(manifest, sizeof(manifest),
		"[{\"Config\":\"config\",\"RepoTags\":[\"a\"],\"Layers\":[\"0.tar\",\"%s\"]}]",
		name);
	tar_put(&tar, "manifest.json", manifest);
	return tar;
}

ARCHIVE_TEST(circular_and_foreign_links_are_refused)
{
	static const char *const cases[][3] = {
		{"l", "l", "more than 8 links"},
		{"d/l", "../d/l", "more than 8 links"},
		{"l", "/etc/passwd", "links out of the archive"},
		{"d/l", "../../etc/passwd", "links out of the archive"},
		{"l", "none", "l is missing in the archive"},
		{"l", "", "links out of the archive"},
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		const char *const *c = cases[i / 2];
		_cleanup_bytes_ struct bytes tar =
			make_link(i % 2 && !strchr(c[0], '/') ? '1' : '2', c[0], c[1]);

		assert_refused(fixture, &tar, c[2]);
	}
}

ARCHIVE_TEST(the_number_of_files_is_limited)
{
	_cleanup_bytes_ struct bytes tar = {0};
	char name[16];

	for (int i = 0; i < 4097; i++) {
		snprintf(name, sizeof(name), "%d", i);
		tar_put(&tar, name, "");
	}
	assert_refused(fixture, &tar, "more than 4096 files");
}

ARCHIVE_TEST(damaged_pax_headers_are_refused)
{
	static const char *const records[] = {"5 a=b\n", "999999999999999999999 a=b\n", "-6 a=b\n",
		"6 path\n", "0 a=b\n", "12 size=-100\n", "7 path=a"};

	for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
		_cleanup_bytes_ struct bytes tar = {0};

		tar_add(&tar, 'x', "pax", "", records[i], strlen(records[i]));
		tar_put(&tar, "a", "b");
		assert_refused(fixture, &tar, "extended header");
	}
}

ARCHIVE_TEST(wrong_digests_and_sizes_are_refused)
{
	static const char *const parts[] = {"\"schemaVersion\"", "\"architecture\"", LAYER_0};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		struct sample sample;
		_cleanup_bytes_ struct bytes tar = make_oci(&sample), docker = {0};
		char *at = memmem(tar.data, tar.len, parts[i], strlen(parts[i]));

		at[1] ^= 0x20;
		if (i == 2) /* the runtime verifies layers */
			assert_opens(fixture, &tar);
		else
			assert_refused(fixture, &tar, "wrong digest");
		docker = make_docker_save(&sample);
		at = memmem(docker.data, docker.len, "\"linux\"", 7);
		at[1] = 'L';
		assert_refused(fixture, &docker, "wrong digest");
		if (i < 2)
			continue;
		at = (char *)memmem(tar.data, tar.len, LAYER_1, strlen(LAYER_1)) - 512;
		snprintf(at + 124, 12, "%011zo", strlen(LAYER_1) - 1);
		tar_seal(at);
		assert_refused(fixture, &tar, "bytes, expected");
	}
}

#define WITH_SIZE(size)                                                                \
	"{\"manifests\":[{\"annotations\":{\"io.containerd.image.name\":\"a:1\"},"     \
	"\"digest\":"                                                                  \
	"\"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"," \
	"\"size\":" size ",\"mediaType\":\"a\"}]}"

ARCHIVE_TEST(inconsistent_documents_are_refused)
{
	static const char *const cases[][3] = {
		{"index.json", "{", "invalid JSON"},
		{"index.json", "{}", "it lists no images"},
		{"index.json", "[1,2,3]", "it lists no images"},
		{"index.json",
			"{\"manifests\":[{\"annotations\":{\"io.containerd.image.name\":\"a:1\"}}]}",
			"descriptor without a valid digest"},
		{"index.json", WITH_SIZE("1e98"), "descriptor without a valid digest"},
		{"index.json", WITH_SIZE("-1"), "descriptor without a valid digest"},
		{"index.json", WITH_SIZE("9007199254740992"), "descriptor without a valid digest"},
		{"index.json", WITH_SIZE("9007199254740991"), " is missing in the archive"},
		{"index.json", WITH_SIZE("1,\"mediaType\":\"\""),
			"descriptor without a valid digest"},
		{"manifest.json", "[]", "it lists no images"},
		{"manifest.json", "[{\"RepoTags\":[\"a\"]}]", "without a file name"},
		{"manifest.json", "[{\"Config\":\"../../etc/passwd\",\"RepoTags\":[\"a\"]}]",
			"../../etc/passwd is missing in the archive"},
		{"manifest.json",
			"[{\"Config\":\"manifest.json\",\"RepoTags\":[\"a\"],\"Layers\":[1]}]",
			"configuration and layers do not agree"},
		{"hello.txt", "hello", "neither manifest.json nor index.json"},
	};
	static char values[2 * 60000 + 3] = "[";
	_cleanup_bytes_ struct bytes many = {0};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_bytes_ struct bytes tar = {0};

		tar_put(&tar, cases[i][0], cases[i][1]);
		assert_refused(fixture, &tar, cases[i][2]);
	}
	for (size_t at = 1; at + 4 < sizeof(values); at += 2)
		memcpy(values + at, "0,", 2);
	tar_put(&many, "index.json", strcat(values, "0]"));
	assert_refused(fixture, &many, "too large");
}

ARCHIVE_TEST(the_depth_of_indexes_is_limited)
{
	_cleanup_bytes_ struct bytes tar = {0};
	char descriptor[512], index[600];

	put_manifest(&tar, &fixture->sample, MACHINE, descriptor);
	for (int depth = 0; depth < 5; depth++) {
		snprintf(index, sizeof(index), "{\"manifests\":[{%s}]}", descriptor);
		put_blob(&tar, INDEX_TYPE, index, strlen(index), descriptor);
	}
	put_index(&tar, descriptor, NAME);
	assert_refused(fixture, &tar, "indexes too deep");
}

/* A runtime asks the servers of a descriptor first: an archive must not send it to any. */
ARCHIVE_TEST(content_from_urls_is_refused)
{
	static const char *const keys[] = {"urls", "URLs", "url\xc5\xbf"};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		_cleanup_bytes_ struct bytes tar = {0};
		char descriptor[512], index[800];

		put_manifest(&tar, &fixture->sample, MACHINE, descriptor);
		snprintf(index, sizeof(index),
			"{\"manifests\":[{%s,\"%s\":[\"http://127.0.0.1/\"]}]}", descriptor,
			keys[i]);
		put_blob(&tar, INDEX_TYPE, index, strlen(index), descriptor);
		put_index(&tar, descriptor, NAME);
		assert_refused(fixture, &tar, "to be fetched from URLs");
	}
}

/* ---- compressed archives ---- */

ARCHIVE_TEST(a_bomb_stops_at_the_reserve_of_free_space_and_leaves_nothing)
{
	_cleanup_bytes_ struct bytes zeros = {.data = must(calloc(1, 32 << 20)), .len = 32 << 20};
	_cleanup_bytes_ struct bytes gzip = gzip_of(zeros.data, zeros.len);

	fixture->percent_free = 100;
	assert_int_equal(open_bytes(fixture, &gzip), -ENOSPC);
	assert_string_equal(fixture->why, "no room to unpack it");
	fixture->percent_free = 0;
	assert_refused(fixture, &gzip, "not a tar file");
}

extern void __asan_init(void) __attribute__((weak));

ARCHIVE_TEST(a_large_zstd_window_needs_no_private_memory)
{
	_cleanup_bytes_ struct bytes largest = zstd_of(fixture->tar.data, fixture->tar.len, 29);
	_cleanup_free_ char *status = NULL;
	struct rlimit old, few;
	size_t len = 0, used = 0;

	assert_int_equal(read_file("/proc/self/status", 65536, &status, &len), 0);
	assert_int_equal(sscanf(strstr(status, "VmData:"), "VmData: %zu", &used), 1);
	assert_int_equal(getrlimit(RLIMIT_DATA, &old), 0);
	few = (struct rlimit){used * 1024 + (4 << 20), old.rlim_max};
	/* Sanitizers need memory of their own. */
	if (!__asan_init)
		assert_int_equal(setrlimit(RLIMIT_DATA, &few), 0);
	assert_opens(fixture, &largest);
	assert_int_equal(setrlimit(RLIMIT_DATA, &old), 0);
}
