/* SPDX-License-Identifier: Apache-2.0 */
#include "image_archive.h"

/* ---- what is in an archive ---- */

static void assert_content(
	const struct archive *archive, const char *digest, const char *type, const char *content)
{
	const struct archive_blob *blob = archive_find_blob(archive, digest);
	_cleanup_close_ int fd = -1;
	char bytes[4096];

	if (!blob)
		fail_msg("no blob %s", digest);
	assert_string_equal(blob->media_type, type);
	assert_int_equal(blob->size, strlen(content));
	if (blob->text) {
		assert_string_equal(blob->text, content);
		return;
	}
	fd = archive_blob_open(archive, blob);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, bytes, blob->size, (off_t)blob->offset), blob->size);
	assert_memory_equal(bytes, content, blob->size);
}

static void assert_sample(const struct archive *archive, const struct sample *sample)
{
	assert_int_equal(archive->n_images, 1);
	assert_string_equal(archive->images[0].name, NAME);
	assert_string_equal(archive->images[0].id, sample->id);
	assert_int_equal(archive->images[0].size, sample->size);
	assert_content(archive, sample->id, CONFIG_TYPE, sample->config);
	assert_content(archive, sample->layers[0], LAYER_TYPE, LAYER_0);
	assert_content(archive, sample->layers[1], LAYER_TYPE, LAYER_1);
}

ARCHIVE_TEST(an_oci_layout_in_a_tar_is_read)
{
	struct sample sample;
	_cleanup_bytes_ struct bytes tar = make_oci(&sample);

	assert_opens(fixture, &tar);
	assert_sample(fixture->archive, &sample);
	assert_string_equal(fixture->archive->images[0].top, sample.manifest);
}

ARCHIVE_TEST(docker_save_is_read_and_its_links_between_layers_are_followed)
{
	struct sample sample;
	_cleanup_bytes_ struct bytes tar = make_docker_save(&sample);
	const struct archive_blob *manifest;
	char digest[DIGEST_MAX];

	assert_opens(fixture, &tar);
	assert_sample(fixture->archive, &sample);
	manifest = archive_find_blob(fixture->archive, fixture->archive->images[0].top);
	assert_non_null(manifest);
	assert_string_equal(manifest->media_type, MANIFEST_TYPE);
	assert_string_equal(manifest->digest, digest_of(manifest->text, manifest->size, digest));
	assert_non_null(strstr(manifest->text, sample.layers[1]));
}

ARCHIVE_TEST(archives_compressed_by_gzip_and_zstd_are_read)
{
	struct sample sample;
	_cleanup_bytes_ struct bytes oci = make_oci(&sample), docker = make_docker_save(&sample);
	const struct bytes *tars[] = {&oci, &docker};

	for (size_t i = 0; i < ARRAY_SIZE(tars); i++) {
		_cleanup_bytes_ struct bytes gzip = gzip_of(tars[i]->data, tars[i]->len);
		_cleanup_bytes_ struct bytes zstd = zstd_of(tars[i]->data, tars[i]->len, 0);

		assert_opens(fixture, &gzip);
		assert_sample(fixture->archive, &sample);
		assert_opens(fixture, &zstd);
		assert_sample(fixture->archive, &sample);
	}
}

/* ---- names ---- */

TEST(names_are_completed_as_docker_does)
{
	static const char digest[] =
		"@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	static const char *const cases[][2] = {
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
	char name[IMAGE_NAME_MAX], text[128], expected[128];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(image_normalize(cases[i][0], name), 0);
		assert_string_equal(name, cases[i][1]);
	}
	snprintf(text, sizeof(text), "busybox:1.36%s", digest);
	snprintf(expected, sizeof(expected), "docker.io/library/busybox%s", digest);
	assert_int_equal(image_normalize(text, name), 0);
	assert_string_equal(name, expected);
	assert_int_equal(image_normalize(digest + 8, name), -EINVAL);
}

TEST(what_is_no_reference_is_refused)
{
	static const char *const cases[] = {"", ":", "/", "a:", ":a", "@", "A", "a/B", "a//b",
		"a/../b", "../a", "a b", "a:b c", "a@sha256:00", "a@md5:00", "a:b:c", "-a",
		"a.example:port/b", "a.example/", "a\n", "a:\x80"};
	char name[IMAGE_NAME_MAX] = "kept";

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (image_normalize(cases[i], name) != -EINVAL)
			fail_msg("'%s' is %s", cases[i], name);
	assert_string_equal(name, "kept");
}
