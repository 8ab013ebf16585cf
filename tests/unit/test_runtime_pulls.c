/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/runtime/pulls.h"

#define SECOND USEC_PER_SEC
#define START  (1000 * SECOND)

static struct pull_piece piece(const char *ref, uint64_t offset, uint64_t total)
{
	struct pull_piece made = {.offset = offset, .total = total};

	copy_text(made.ref, sizeof(made.ref), ref);
	return made;
}

static void take(struct pulls *pulls, uint64_t second, const struct pull_piece *pieces, size_t n)
{
	pulls_take(pulls, pieces, n, START + second * SECOND);
}

static const struct pull_registry *registry(const struct pulls *pulls, const char *name)
{
	for (size_t i = 0; i < pulls->n_registries; i++)
		if (streq(pulls->registries[i].name, name))
			return &pulls->registries[i];
	return NULL;
}

#define PULLS_TEST(name) TEST_OF(pulls, pulls, (void), (void), name)

PULLS_TEST(bytes_are_counted_to_the_end)
{
	take(pulls, 0, (struct pull_piece[]){piece("layer-sha256:aa", 0, 1000)}, 1);
	pulls_name(pulls, "sha256:aa", "docker.io/library/nginx");
	take(pulls, 1, (struct pull_piece[]){piece("layer-sha256:aa", 400, 1000)}, 1);
	assert_int_equal(registry(pulls, "docker.io")->bytes, 400);
	assert_true(pulls->layers[0].rate > 0);
	take(pulls, 2, NULL, 0);
	assert_int_equal(registry(pulls, "docker.io")->bytes, 1000);
	assert_int_equal(pulls->n, 0);
}

PULLS_TEST(a_layer_that_begins_again_takes_nothing_back)
{
	take(pulls, 0, (struct pull_piece[]){piece("layer-sha256:aa", 800, 1000)}, 1);
	take(pulls, 1, (struct pull_piece[]){piece("layer-sha256:aa", 100, 1000)}, 1);
	take(pulls, 2, (struct pull_piece[]){piece("layer-sha256:aa", 300, 1000)}, 1);
	take(pulls, 20, (struct pull_piece[]){piece("layer-sha256:aa", 300, 300)}, 1);
	take(pulls, 30, NULL, 0);
	assert_int_equal(registry(pulls, "unknown")->bytes, 200);
}

/* What was there before the agent is not; where the name comes late, no byte goes astray. */
PULLS_TEST(a_layer_is_counted_from_its_first_byte)
{
	take(pulls, 0, (struct pull_piece[]){piece("layer-sha256:aa", 500, 1000)}, 1);
	take(pulls, 10, NULL, 0);
	assert_int_equal(registry(pulls, "unknown")->bytes, 500);
	take(pulls, 20, (struct pull_piece[]){piece("layer-sha256:bb", 700, 1000)}, 1);
	take(pulls, 21, (struct pull_piece[]){piece("layer-sha256:bb", 800, 1000)}, 1);
	assert_null(registry(pulls, "quay.io"));
	pulls_name(pulls, "sha256:bb", "quay.io/a/b");
	take(pulls, 22, NULL, 0);
	assert_int_equal(registry(pulls, "quay.io")->bytes, 1000);
	assert_int_equal(registry(pulls, "unknown")->bytes, 500);
	/* Docker's layers have no size, and the name comes last. */
	take(pulls, 40, (struct pull_piece[]){piece("GetImageBlob1", 300, 0)}, 1);
	take(pulls, 42, NULL, 0);
	pulls_end(pulls, "127.0.0.1:5000/a:1", START + 42 * SECOND);
	assert_int_equal(registry(pulls, "127.0.0.1:5000")->bytes, 300);
}

PULLS_TEST(a_pull_lasts_from_its_first_layer_to_its_last)
{
	uint64_t ended = 0;

	for (uint64_t t = 0; t < 20; t += 2) {
		const char *ref = t < 10 ? "layer-sha256:aa" : "layer-sha256:bb";

		take(pulls, t, (struct pull_piece[]){piece(ref, t * 10, 1000)}, 1);
		pulls_name(pulls, t < 10 ? "sha256:aa" : "sha256:bb", "quay.io/a/b");
		assert_int_equal(pulls->n_images, 1);
		assert_string_equal(pulls->images[0].name, "quay.io/a/b");
	}
	take(pulls, 20, NULL, 0);
	assert_int_equal(pulls->n_images, 1);
	take(pulls, 30, NULL, 0);
	assert_int_equal(pulls->n_images, 0);
	for (size_t i = 0; i <= PULL_BOUNDS; i++)
		ended += registry(pulls, "quay.io")->buckets[i];
	assert_int_equal(ended, 1);
	assert_float_equal(registry(pulls, "quay.io")->seconds, 18, 0.01);
}

PULLS_TEST(what_stands_still_for_a_minute_is_stuck)
{
	const struct pull_piece pieces[] = {
		piece("layer-sha256:aa", 5, 10), piece("layer-sha256:bb", 0, 10)};
	struct pull_piece moving[] = {pieces[0], pieces[1]};

	for (uint64_t t = 0; t <= 70; t += 2) {
		moving[1].offset = t;
		take(pulls, t, moving, 2);
		if (t < 60)
			assert_null(pulls_stuck(pulls, START + t * SECOND));
	}
	assert_string_equal(pulls_stuck(pulls, START + 70 * SECOND)->piece.ref, "layer-sha256:aa");
	moving[0].offset++;
	take(pulls, 72, moving, 2);
	assert_null(pulls_stuck(pulls, START + 72 * SECOND));
}

/* Complete, or of a size that nobody told: it may wait to be unpacked, behind others. */
PULLS_TEST(what_may_be_complete_is_not_stuck)
{
	const struct pull_piece pieces[] = {
		piece("layer-sha256:aa", 10, 10), piece("GetImageBlob1", 7, 0)};

	for (uint64_t t = 0; t <= 200; t += 2)
		take(pulls, t, pieces, 2);
	assert_null(pulls_stuck(pulls, START + 200 * SECOND));
}

PULLS_TEST(a_pull_may_get_its_name_at_its_end)
{
	take(pulls, 0, (struct pull_piece[]){piece("GetImageBlob1", 7, 0)}, 1);
	pulls_end(pulls, "docker.io/library/a", START + 4 * SECOND);
	assert_string_equal(pulls->images[0].name, "");
	take(pulls, 6, NULL, 0);
	take(pulls, 7, (struct pull_piece[]){piece("GetImageBlob2", 7, 0)}, 1);
	take(pulls, 9, NULL, 0);
	pulls_end(pulls, "docker.io/library/a", START + 9 * SECOND);
	take(pulls, 20, NULL, 0);
	assert_int_equal(pulls->n_images, 0);
	assert_int_equal(registry(pulls, "docker.io")->buckets[1], 1);
	assert_true(registry(pulls, "docker.io")->seconds == 2);
}

PULLS_TEST(nameless_layers_have_their_turns)
{
	assert_null(pulls_nameless(pulls, 3));
	take(pulls, 0,
		(struct pull_piece[]){
			piece("layer-sha256:aa", 0, 1), piece("layer-sha256:bb", 0, 1)},
		2);
	assert_string_equal(pulls_nameless(pulls, 0)->piece.ref, "layer-sha256:aa");
	assert_string_equal(pulls_nameless(pulls, 1)->piece.ref, "layer-sha256:bb");
	pulls_name(pulls, "sha256:bb", "docker.io/library/a");
	assert_string_equal(pulls_nameless(pulls, 1)->piece.ref, "layer-sha256:aa");
	assert_int_equal(pulls_age(5, 3), 2);
	assert_int_equal(pulls_age(3, 5), 0);
}

PULLS_TEST(everything_is_bounded)
{
	struct pull_piece pieces[PULL_LAYERS_MAX + 5];
	char image[64];

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		pieces[i] = piece("", i, 100);
		snprintf(pieces[i].ref, sizeof(pieces[i].ref), "layer-sha256:%03zu", i);
	}
	take(pulls, 0, pieces, ARRAY_SIZE(pieces));
	assert_int_equal(pulls->n, PULL_LAYERS_MAX);
	assert_int_equal(pulls->more, 5);
	for (size_t i = 0; i < PULL_LAYERS_MAX; i++) {
		snprintf(image, sizeof(image), "registry%zu.example/a", i);
		pulls_name(pulls, pieces[i].ref + strlen("layer-"), image);
		pieces[i].offset += 10;
	}
	take(pulls, 1, pieces, ARRAY_SIZE(pieces));
	assert_int_equal(pulls->n_registries, PULL_REGISTRIES_MAX);
	assert_int_equal(
		registry(pulls, "other")->bytes, (PULL_LAYERS_MAX - PULL_REGISTRIES_MAX + 1) * 10);
	assert_true(pulls->n_images <= PULL_IMAGES_MAX);
}

TEST(names_of_registries)
{
	static const char *const cases[][2] = {
		{"docker.io/library/nginx", "docker.io"},
		{"registry.example:5000/a", "registry.example:5000"},
		{"", "unknown"},
		{"nginx", "unknown"},
		{"/nginx", "unknown"},
	};
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		pulls_registry_of(cases[i][0], name);
		assert_string_equal(name, cases[i][1]);
	}
}
