/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/text.h"
#include "runtime/pulls.h"

#define SECOND USEC_PER_SEC
#define START  (1000 * SECOND)

struct fixture {
	struct pulls pulls;
	struct pull_counts counts;
};

#define PULLS_TEST(name) TEST_OF(fixture, fixture, (void), (void), name)

/* The layers under way at this second: {ref, offset, total, awaited}, ... */
#define POLL(second, ...) \
	poll(fixture, second, (const struct piece[]){__VA_ARGS__ __VA_OPT__(, ){NULL, 0, 0}})

struct piece {
	const char *ref;
	uint64_t offset, total;
	bool awaited;
};

static void poll(struct fixture *fixture, uint64_t second, const struct piece *pieces)
{
	struct pull_piece made[PULL_LAYERS_MAX + 5] = {0};
	size_t n = 0;

	for (; pieces[n].ref; n++) {
		made[n].offset = pieces[n].offset;
		made[n].total = pieces[n].total;
		made[n].awaited = pieces[n].awaited;
		set_text(made[n].ref, pieces[n].ref);
	}
	pulls_update(&fixture->pulls, &fixture->counts, made, n, START + second * SECOND);
}

/* Returns zeros for an unknown registry. */
static struct pull_registry registry(const struct fixture *fixture, const char *name)
{
	for (size_t i = 0; i < fixture->counts.n; i++)
		if (streq(fixture->counts.registries[i].name, name))
			return fixture->counts.registries[i];
	return (struct pull_registry){0};
}

PULLS_TEST(bytes_are_counted_to_the_end)
{
	const char *image = "docker.io/library/nginx";

	POLL(0, {"layer-sha256:aa", 0, 1000});
	pulls_name(&fixture->pulls, "sha256:aa", image);
	pulls_set_full_name(&fixture->pulls, image, image);
	POLL(1, {"layer-sha256:aa", 400, 1000});
	assert_int_equal(registry(fixture, "docker.io").bytes, 400);
	assert_true(fixture->pulls.layers[0].rate > 0);
	POLL(2);
	assert_int_equal(registry(fixture, "docker.io").bytes, 1000);
	assert_int_equal(fixture->pulls.n, 0);
}

PULLS_TEST(a_restarted_layer_does_not_lower_the_count)
{
	POLL(0, {"layer-sha256:aa", 800, 1000});
	POLL(1, {"layer-sha256:aa", 100, 1000});
	POLL(2, {"layer-sha256:aa", 300, 1000});
	POLL(20, {"layer-sha256:aa", 300, 300});
	POLL(30);
	assert_int_equal(registry(fixture, "unknown").bytes, 200);
}

/* The first poll counts nothing. A layer whose name is late keeps its bytes. */
PULLS_TEST(a_layer_is_counted_from_its_first_byte)
{
	POLL(0, {"layer-sha256:aa", 500, 1000});
	POLL(10);
	assert_int_equal(registry(fixture, "unknown").bytes, 500);
	POLL(20, {"layer-sha256:bb", 700, 1000});
	POLL(21, {"layer-sha256:bb", 800, 1000});
	pulls_name(&fixture->pulls, "sha256:bb", "quay.io/a/b");
	POLL(22);
	POLL(30);
	assert_int_equal(registry(fixture, "quay.io").bytes, 1000);
	assert_int_equal(registry(fixture, "unknown").bytes, 500);
	/* Docker reports layers without sizes, and the name at the end. */
	POLL(40, {"GetImageBlob1", 300, 0});
	POLL(42);
	pulls_end(&fixture->pulls, "127.0.0.1:5000/a:1", START + 42 * SECOND);
	POLL(43);
	assert_int_equal(registry(fixture, "127.0.0.1:5000").bytes, 300);
}

PULLS_TEST(bytes_wait_for_the_port_of_their_registry)
{
	const char *name = "10.0.0.1/a", *full = "10.0.0.1:5000/a";

	POLL(0, {"layer-sha256:aa", 0, 1000});
	pulls_name(&fixture->pulls, "sha256:aa", name);
	POLL(1, {"layer-sha256:aa", 600, 1000}, {"layer-sha256:bb", 0, 1000});
	assert_int_equal(registry(fixture, "10.0.0.1").bytes, 0);
	pulls_set_full_name(&fixture->pulls, name, full);
	/* The runtime reports another layer under the short name. */
	pulls_name(&fixture->pulls, "sha256:bb", name);
	pulls_set_full_name(&fixture->pulls, name, full);
	assert_int_equal(fixture->pulls.n_images, 1);
	POLL(2);
	assert_int_equal(registry(fixture, "10.0.0.1:5000").bytes, 2000);
	POLL(10);
	assert_int_equal(registry(fixture, "10.0.0.1").bytes, 0);
}

PULLS_TEST(a_pull_lasts_from_its_first_layer_to_its_last)
{
	uint64_t ended = 0;

	for (uint64_t t = 0; t < 20; t += 2) {
		POLL(t, {t < 10 ? "layer-sha256:aa" : "layer-sha256:bb", t * 10, 1000});
		pulls_name(&fixture->pulls, t < 10 ? "sha256:aa" : "sha256:bb", "quay.io/a/b");
		assert_int_equal(fixture->pulls.n_images, 1);
		assert_string_equal(fixture->pulls.images[0].name, "quay.io/a/b");
	}
	POLL(20);
	assert_int_equal(fixture->pulls.n_images, 1);
	POLL(30);
	assert_int_equal(fixture->pulls.n_images, 0);
	for (size_t i = 0; i <= PULL_BOUNDS; i++)
		ended += registry(fixture, "quay.io").buckets[i];
	assert_int_equal(ended, 1);
	assert_float_equal(registry(fixture, "quay.io").seconds, 18, 0.01);
}

static const struct pull_layer *find_stuck(const struct fixture *fixture, uint64_t now_s)
{
	for (size_t i = 0; i < fixture->pulls.n; i++)
		if (pulls_is_stuck(&fixture->pulls.layers[i], START + now_s * SECOND))
			return &fixture->pulls.layers[i];
	return NULL;
}

/* A complete layer, or one without a size, may wait to be unpacked. */
PULLS_TEST(a_layer_without_progress_for_a_minute_is_stuck)
{
	for (uint64_t t = 0; t <= 70; t += 2) {
		POLL(t, {"layer-sha256:aa", 5, 10}, {"layer-sha256:bb", t, 10},
			{"layer-sha256:cc", 10, 10}, {"GetImageBlob1", 7, 0});
		if (t < 60)
			assert_null(find_stuck(fixture, t));
	}
	assert_string_equal(find_stuck(fixture, 70)->piece.ref, "layer-sha256:aa");
	POLL(72, {"layer-sha256:aa", 6, 10}, {"layer-sha256:cc", 10, 10}, {"GetImageBlob1", 7, 0});
	assert_null(find_stuck(fixture, 72));
	/* Docker unpacks nothing, and waits for this layer. */
	POLL(100, {"GetImageBlob1", 7, 0, true});
	assert_null(find_stuck(fixture, 131));
	assert_non_null(find_stuck(fixture, 132));
}

PULLS_TEST(a_pull_may_get_its_name_at_its_end)
{
	POLL(0, {"GetImageBlob1", 7, 0});
	pulls_end(&fixture->pulls, "docker.io/library/a", START + 4 * SECOND);
	assert_string_equal(fixture->pulls.images[0].name, "");
	POLL(6);
	POLL(7, {"GetImageBlob2", 7, 0});
	POLL(9);
	pulls_end(&fixture->pulls, "docker.io/library/a", START + 9 * SECOND);
	POLL(20);
	assert_int_equal(fixture->pulls.n_images, 0);
	assert_int_equal(registry(fixture, "docker.io").buckets[1], 1);
	assert_true(registry(fixture, "docker.io").seconds == 2);
}

/* Layers of 100 bytes each: 0 is unpacked already, 1 and 2 come in, 3 waits. */
PULLS_TEST(progress_is_that_of_the_manifest)
{
	struct pull_part parts[] = {{"sha256:aa", 100, false}, {"sha256:bb", 100, false},
		{"sha256:cc", 100, false}, {"sha256:dd", 100, false}};
	const struct pull_progress *progress = fixture->pulls.progress;

	for (uint64_t t = 0; t <= 50; t += 2) {
		if (t < 50)
			POLL(t, {"layer-sha256:bb", 2 * t, 100}, {"layer-sha256:cc", 2 * t, 100});
		else
			POLL(t, {"layer-sha256:dd", 1, 100});
		if (t == 0)
			assert_true(pulls_name(&fixture->pulls, "sha256:cc", "quay.io/a/b"));
		parts[1].exists = parts[2].exists = t == 50;
		pulls_add_manifest(
			&fixture->pulls, "sha256:ee", "k8s.io", "quay.io/a/b", START + t * SECOND);
		pulls_measure(&fixture->pulls, &fixture->pulls.progress[0], parts,
			ARRAY_SIZE(parts), START + t * SECOND);
		assert_int_equal(fixture->pulls.n_progress, 1);
		assert_int_equal(progress->total, 300);
		assert_int_equal(progress->done, t == 50 ? 201 : 4 * t);
		assert_string_equal(fixture->pulls.layers[0].image, "quay.io/a/b");
		if (t >= 4 && t < 50)
			assert_float_equal(progress->seconds_left, (300.0 - 4.0 * (double)t) / 4,
				0.2 * (300.0 - 4.0 * (double)t) / 4);
	}
	POLL(54);
	assert_int_equal(fixture->pulls.n_progress, 1);
	POLL(56);
	assert_int_equal(fixture->pulls.n_progress, 0);
}

/* A registry that limits each connection: the large layer is the last one. */
PULLS_TEST(the_time_left_is_that_of_the_slowest_layer)
{
	const struct pull_part parts[] = {{"sha256:aa", 100, false}, {"sha256:bb", 1000, false}};

	pulls_add_manifest(&fixture->pulls, "sha256:ee", "k8s.io", "quay.io/a/b", START);
	for (uint64_t t = 0; t <= 20; t += 2) {
		POLL(t, {"layer-sha256:aa", 5 * t, 100}, {"layer-sha256:bb", 5 * t, 1000});
		pulls_measure(&fixture->pulls, &fixture->pulls.progress[0], parts,
			ARRAY_SIZE(parts), START + t * SECOND);
	}
	assert_float_equal(fixture->pulls.progress[0].seconds_left, 180, 1);
	assert_float_equal(fixture->pulls.progress[0].rate, 10, 0.5);
}

/* The rate follows a registry that becomes slower, and the time left is not known without one. */
PULLS_TEST(the_rate_of_a_pull_follows_the_registry)
{
	const struct pull_part parts[] = {{"sha256:aa", 100000, false}};
	uint64_t offset = 0;

	pulls_add_manifest(&fixture->pulls, "sha256:ee", "k8s.io", "quay.io/a/b", START);
	for (uint64_t t = 0; t <= 160; t += 2) {
		POLL(t, {"layer-sha256:aa", offset, 100000});
		pulls_measure(
			&fixture->pulls, &fixture->pulls.progress[0], parts, 1, START + t * SECOND);
		if (t == 0)
			assert_true(fixture->pulls.progress[0].seconds_left == 0);
		offset += t < 60 ? 2000 : 200;
	}
	assert_float_equal(fixture->pulls.progress[0].rate, 100, 5);
}

PULLS_TEST(layers_without_a_name_take_turns)
{
	assert_null(pulls_nameless(&fixture->pulls, 3));
	POLL(0, {"layer-sha256:aa", 0, 1}, {"layer-sha256:bb", 0, 1});
	assert_string_equal(pulls_nameless(&fixture->pulls, 0)->piece.ref, "layer-sha256:aa");
	assert_string_equal(pulls_nameless(&fixture->pulls, 1)->piece.ref, "layer-sha256:bb");
	pulls_name(&fixture->pulls, "sha256:bb", "docker.io/library/a");
	assert_string_equal(pulls_nameless(&fixture->pulls, 1)->piece.ref, "layer-sha256:aa");
}

PULLS_TEST(layers_images_and_registries_are_bounded)
{
	struct piece pieces[PULL_LAYERS_MAX + 6] = {0};
	char refs[PULL_LAYERS_MAX + 5][32], image[64];

	for (size_t i = 0; i < ARRAY_SIZE(refs); i++) {
		snprintf(refs[i], sizeof(refs[i]), "layer-sha256:%03zu", i);
		pieces[i] = (struct piece){refs[i], i, 100};
	}
	poll(fixture, 0, pieces);
	assert_int_equal(fixture->pulls.n, PULL_LAYERS_MAX);
	for (size_t i = 0; i < PULL_LAYERS_MAX; i++) {
		snprintf(image, sizeof(image), "registry%zu.example/a", i);
		pulls_name(&fixture->pulls, refs[i] + strlen("layer-"), image);
		pieces[i].offset += 10;
	}
	poll(fixture, 1, pieces);
	assert_int_equal(fixture->counts.n, PULL_REGISTRIES_MAX);
	/* Layers beyond the limit of images are counted at once. */
	assert_int_equal(registry(fixture, "other").bytes,
		(PULL_LAYERS_MAX - PULL_IMAGES_MAX - PULL_REGISTRIES_MAX + 2) * 10);
	assert_true(fixture->pulls.n_images <= PULL_IMAGES_MAX);
}
