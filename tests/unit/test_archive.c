/* SPDX-License-Identifier: Apache-2.0 */
#include "image_archive.h"

/* ---- content of archives ---- */

static const struct archive_blob *blob_of(const struct archive *archive, const char *digest)
{
	return find_named(archive->blobs, archive->n_blobs, digest);
}

static void assert_content(
	const struct archive *archive, const char *digest, const char *type, const char *content)
{
	const struct archive_blob *blob = blob_of(archive, digest);
	_cleanup_close_ int fd = -1;
	char bytes[4096];

	if (!blob)
		fail_msg("no blob %s", digest);
	assert_string_equal(blob->media_type, type);
	assert_int_equal(blob->size, strlen(content));
	assert_false(blob->made);
	fd = archive_blob_open(archive, blob);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, bytes, blob->size, (off_t)blob->offset), blob->size);
	assert_memory_equal(bytes, content, blob->size);
}

static void assert_sample(const struct archive_fixture *fixture)
{
	const struct archive *archive = fixture->archive;
	const struct sample *sample = &fixture->sample;

	assert_int_equal(archive->n_images, 1);
	assert_string_equal(archive->images[0].name, NAME);
	assert_string_equal(archive->images[0].id, sample->id);
	assert_int_equal(archive->images[0].size, sample->size);
	assert_content(archive, sample->id, CONFIG_TYPE, sample->config);
	assert_content(archive, sample->layers[0], LAYER_TYPE, LAYER_0);
	assert_content(archive, sample->layers[1], LAYER_TYPE, LAYER_1);
}

ARCHIVE_TEST(docker_save_is_read_and_links_to_layers_are_followed)
{
	_cleanup_bytes_ struct bytes tar = make_docker_save(&fixture->sample), indexed = {0};
	const struct archive_blob *manifest;
	_cleanup_free_ char *text = NULL;
	char digest[DIGEST_MAX];

	assert_opens(fixture, &tar);
	assert_sample(fixture);
	manifest = blob_of(fixture->archive, fixture->archive->images[0].top);
	assert_non_null(manifest);
	assert_string_equal(manifest->media_type, MANIFEST_TYPE);
	text = archive_manifest_text(fixture->archive, manifest);
	assert_string_equal(manifest->digest, digest_of(text, manifest->size, digest));
	assert_non_null(strstr(text, fixture->sample.layers[1]));
	tar_put(&indexed, "index.json", "{\"manifests\":[]}");
	bytes_add(&indexed, tar.data, tar.len);
	assert_opens(fixture, &indexed);
	assert_sample(fixture);
}

/* An index of an image for two machines: the image for `other` is missing. */
static void put_platforms(struct bytes *tar, struct sample *sample, const char *mine,
	const char *other, char descriptor[static 512])
{
	char child[512], index[2048], hash[HASH_TEXT_MAX];

	hash_bytes(other, strlen(other), hash);
	put_manifest(tar, sample, mine, child);
	snprintf(index, sizeof(index),
		"{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"" MANIFEST_TYPE
		"\",\"digest\":\"sha256:%s\",\"size\":5,\"platform\":{\"os\":\"linux\","
		"\"architecture\":\"%s\"}},{%s,\"platform\":{\"os\":\"linux\","
		"\"architecture\":\"%s\"}}]}",
		hash, other, child, mine);
	put_blob(tar, INDEX_TYPE, index, strlen(index), descriptor);
}

ARCHIVE_TEST(an_image_for_other_machines_only_is_refused)
{
	_cleanup_bytes_ struct bytes tar = {0}, plain = {0};
	char descriptor[512];

	put_platforms(&tar, &fixture->sample, FOREIGN, "riscv64", descriptor);
	put_index(&tar, descriptor, NAME);
	assert_int_equal(open_bytes(fixture, &tar), -ENOEXEC);
	assert_string_equal(fixture->why, NAME ": not for linux/" MACHINE);
	put_manifest(&plain, &fixture->sample, FOREIGN, descriptor);
	put_index(&plain, descriptor, NAME);
	assert_int_equal(open_bytes(fixture, &plain), -ENOEXEC);
	assert_string_equal(fixture->why, NAME ": not for linux/" MACHINE);
}

ARCHIVE_TEST(every_image_with_a_name_in_a_layout_is_read)
{
	_cleanup_bytes_ struct bytes tar = {0};
	char descriptor[512], index[4096];

	put_manifest(&tar, &fixture->sample, MACHINE, descriptor);
	snprintf(index, sizeof(index),
		"{\"manifests\":[{%s,\"annotations\":{\"io.containerd.image.name\":\"a:1\"}},"
		"{%s,\"annotations\":{\"org.opencontainers.image.ref.name\":\"b.example/c:2\"}},"
		"{%s,\"annotations\":{\"org.opencontainers.image.ref.name\":\"latest\"}},{%s}]}",
		descriptor, descriptor, descriptor, descriptor);
	tar_put(&tar, "index.json", index);
	assert_opens(fixture, &tar);
	assert_int_equal(fixture->archive->n_images, 2);
	assert_string_equal(fixture->archive->images[0].name, "docker.io/library/a:1");
	assert_string_equal(fixture->archive->images[1].name, "b.example/c:2");
	assert_int_equal(fixture->archive->n_blobs, 4);
}

ARCHIVE_TEST(long_names_of_gnu_and_pax_are_read)
{
	_cleanup_bytes_ struct bytes tar = {0};
	char name[300], record[400], manifest[2000];

	sample_make(&fixture->sample, MACHINE);
	memset(name, 'n', 299);
	name[299] = '\0';
	tar_put(&tar, "config", fixture->sample.config);
	tar_add(&tar, 'L', "././@LongLink", "", name, 300);
	tar_put(&tar, "cut", LAYER_0);
	snprintf(record, sizeof(record), "309 path=m%s\n11 size=14\n", name + 1);
	tar_add(&tar, 'x', "pax", "", record, strlen(record));
	tar_add(&tar, '0', "cut", "", LAYER_1, strlen(LAYER_1));
	snprintf(manifest, sizeof(manifest),
		"[{\"Config\":\"config\",\"RepoTags\":[\"busybox:1.36\"],\"Layers\":[\"%s\",\"m%s\"]"
		"}]",
		name, name + 1);
	tar_put(&tar, "manifest.json", manifest);
	assert_opens(fixture, &tar);
	assert_sample(fixture);
}

ARCHIVE_TEST(several_members_of_gzip_and_zstd_are_one_archive)
{
	for (int i = 0; i < 2; i++) {
		const char *cut = fixture->tar.data + 1000;
		_cleanup_bytes_ struct bytes first =
			i ? zstd_of(fixture->tar.data, 1000, 0) : gzip_of(fixture->tar.data, 1000);
		_cleanup_bytes_ struct bytes rest = i ? zstd_of(cut, fixture->tar.len - 1000, 0)
						      : gzip_of(cut, fixture->tar.len - 1000);

		bytes_add(&first, rest.data, rest.len);
		assert_opens(fixture, &first);
		assert_sample(fixture);
	}
}

/* ---- directories ---- */

/* Unpacks a tar that has only files. */
static void put_directory(struct archive_fixture *fixture, const struct bytes *tar)
{
	for (size_t at = 0; at + 512 <= tar->len && tar->data[at];) {
		const char *header = tar->data + at;
		size_t size = strtoul(header + 124, NULL, 8);
		char name[160];

		snprintf(name, sizeof(name), "/layout/%.100s", header);
		directory_put_bytes(&fixture->root, name, header + 512, size);
		at += 512 + (size + 511) / 512 * 512;
	}
}

ARCHIVE_TEST(symbolic_links_in_a_directory_are_refused)
{
	static const char *const names[] = {"/layout/index.json", "/layout/blobs/sha256"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[PATH_MAX], moved[PATH_MAX + 8];

		remove_tree(fixture->root.path);
		assert_int_equal(make_directories(fixture->root.path, 0700), 0);
		put_directory(fixture, &fixture->tar);
		directory_path(&fixture->root, names[i], path);
		snprintf(moved, sizeof(moved), "%s.moved", path);
		assert_int_equal(rename(path, moved), 0);
		assert_int_equal(symlink(moved, path), 0);
		assert_int_equal(open_path(fixture, "/layout"), -EBADMSG);
		assert_true(fixture->why[0]);
	}
}

ARCHIVE_TEST(a_changed_file_of_a_layout_in_a_directory_is_refused)
{
	const struct archive_blob *blob;
	char name[160];

	put_directory(fixture, &fixture->tar);
	if (open_path(fixture, "/layout") != 0)
		fail_msg("refused: %s", fixture->why);
	assert_sample(fixture);
	snprintf(name, sizeof(name), "/layout/blobs/sha256/%s", fixture->sample.layers[0] + 7);
	directory_put(&fixture->root, name, "short");
	blob = blob_of(fixture->archive, fixture->sample.layers[0]);
	assert_int_equal(archive_blob_open(fixture->archive, blob), -ESTALE);
	directory_delete(&fixture->root, name);
	assert_int_equal(archive_blob_open(fixture->archive, blob), -ENOENT);
}

/* ---- names ---- */

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(names_are_completed_as_by_docker)
{
	static const char *const cases[][2] = {
		{"busybox:1.36@sha256:" HEX, "docker.io/library/busybox@sha256:" HEX},
		{"busybox", "docker.io/library/busybox:latest"},
		{"busybox:1.36", NAME},
		{"library/busybox:1.36", NAME},
		{"docker.io/busybox:1.36", NAME},
		{"index.docker.io/busybox:1.36", NAME},
		{"prom/prometheus", "docker.io/prom/prometheus:latest"},
		{"localhost/a", "localhost/a:latest"},
		{"localhost:5000/a", "localhost:5000/a:latest"},
		{"127.0.0.1:5000/a/b:c", "127.0.0.1:5000/a/b:c"},
		{"registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.9"},
		{"[::1]:5000/a:b", "[::1]:5000/a:b"},
	};
	char name[IMAGE_NAME_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(image_normalize(cases[i][0], name), 0);
		assert_string_equal(name, cases[i][1]);
	}
}

TEST(invalid_references_are_refused)
{
	static const char *const cases[] = {"", ":", "/", "a:", ":a", "@", "A", "a/B", "a//b",
		"a/../b", "../a", "a b", "a:b c", "a@sha256:00", "a@md5:00", "a:b:c", "-a",
		"a.example:port/b", "a.example/", "a\n", "a:\x80", HEX};
	char name[IMAGE_NAME_MAX] = "kept";

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (image_normalize(cases[i], name) != -EINVAL)
			fail_msg("'%s' is %s", cases[i], name);
	assert_string_equal(name, "kept");
}
