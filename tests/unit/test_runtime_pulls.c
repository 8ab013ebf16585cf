/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/runtime/pulls.h"

#define SECOND USEC_PER_SEC
#define START  (1000 * SECOND)

struct fixture {
	struct pulls pulls;
	struct pull_counts counts;
};

static struct pull_piece piece(const char *ref, uint64_t offset, uint64_t total)
{
	struct pull_piece made = {.offset = offset, .total = total};

	copy_text(made.ref, sizeof(made.ref), ref);
	return made;
}

static void take(
	struct fixture *fixture, uint64_t second, const struct pull_piece *pieces, size_t n)
{
	pulls_take(&fixture->pulls, &fixture->counts, pieces, n, START + second * SECOND);
}

static const struct pull_registry *registry(const struct fixture *fixture, const char *name)
{
	for (size_t i = 0; i < fixture->counts.n; i++)
		if (streq(fixture->counts.registries[i].name, name))
			return &fixture->counts.registries[i];
	return NULL;
}

#define PULLS_TEST(name) TEST_OF(fixture, fixture, (void), (void), name)

PULLS_TEST(bytes_are_counted_to_the_end)
{
	take(fixture, 0, (struct pull_piece[]){piece("layer-sha256:aa", 0, 1000)}, 1);
	pulls_name(&fixture->pulls, &fixture->counts, "sha256:aa", "docker.io/library/nginx");
	pulls_place(&fixture->pulls, &fixture->counts, "docker.io/library/nginx",
		"docker.io/library/nginx");
	take(fixture, 1, (struct pull_piece[]){piece("layer-sha256:aa", 400, 1000)}, 1);
	assert_int_equal(registry(fixture, "docker.io")->bytes, 400);
	assert_true(fixture->pulls.layers[0].rate > 0);
	take(fixture, 2, NULL, 0);
	assert_int_equal(registry(fixture, "docker.io")->bytes, 1000);
	assert_int_equal(fixture->pulls.n, 0);
}

PULLS_TEST(a_layer_that_begins_again_takes_nothing_back)
{
	take(fixture, 0, (struct pull_piece[]){piece("layer-sha256:aa", 800, 1000)}, 1);
	take(fixture, 1, (struct pull_piece[]){piece("layer-sha256:aa", 100, 1000)}, 1);
	take(fixture, 2, (struct pull_piece[]){piece("layer-sha256:aa", 300, 1000)}, 1);
	take(fixture, 20, (struct pull_piece[]){piece("layer-sha256:aa", 300, 300)}, 1);
	take(fixture, 30, NULL, 0);
	assert_int_equal(registry(fixture, "unknown")->bytes, 200);
}

/* What was there before the agent is not; where the name comes late, no byte goes astray. */
PULLS_TEST(a_layer_is_counted_from_its_first_byte)
{
	take(fixture, 0, (struct pull_piece[]){piece("layer-sha256:aa", 500, 1000)}, 1);
	take(fixture, 10, NULL, 0);
	assert_int_equal(registry(fixture, "unknown")->bytes, 500);
	take(fixture, 20, (struct pull_piece[]){piece("layer-sha256:bb", 700, 1000)}, 1);
	take(fixture, 21, (struct pull_piece[]){piece("layer-sha256:bb", 800, 1000)}, 1);
	assert_null(registry(fixture, "quay.io"));
	pulls_name(&fixture->pulls, &fixture->counts, "sha256:bb", "quay.io/a/b");
	take(fixture, 22, NULL, 0);
	take(fixture, 30, NULL, 0);
	assert_int_equal(registry(fixture, "quay.io")->bytes, 1000);
	assert_int_equal(registry(fixture, "unknown")->bytes, 500);
	/* Docker's layers have no size, and the name comes last. */
	take(fixture, 40, (struct pull_piece[]){piece("GetImageBlob1", 300, 0)}, 1);
	take(fixture, 42, NULL, 0);
	pulls_end(&fixture->pulls, &fixture->counts, "127.0.0.1:5000/a:1", START + 42 * SECOND);
	assert_int_equal(registry(fixture, "127.0.0.1:5000")->bytes, 300);
}

PULLS_TEST(bytes_wait_for_the_port_of_their_registry)
{
	const char *name = "10.0.0.1/a", *full = "10.0.0.1:5000/a";
	struct pull_piece pieces[] = {
		piece("layer-sha256:aa", 0, 1000), piece("layer-sha256:bb", 0, 1000)};

	take(fixture, 0, pieces, 1);
	pulls_name(&fixture->pulls, &fixture->counts, "sha256:aa", name);
	pieces[0].offset = 600;
	take(fixture, 1, pieces, 2);
	assert_int_equal(registry(fixture, "10.0.0.1")->bytes, 0);
	pulls_place(&fixture->pulls, &fixture->counts, name, full);
	assert_int_equal(registry(fixture, "10.0.0.1:5000")->bytes, 600);
	/* Another layer of it is named as the runtime names it. */
	pulls_name(&fixture->pulls, &fixture->counts, "sha256:bb", name);
	pulls_place(&fixture->pulls, &fixture->counts, name, full);
	assert_int_equal(fixture->pulls.n_images, 1);
	take(fixture, 2, NULL, 0);
	take(fixture, 10, NULL, 0);
	assert_int_equal(registry(fixture, "10.0.0.1:5000")->bytes, 2000);
	assert_int_equal(registry(fixture, "10.0.0.1")->bytes, 0);
}

PULLS_TEST(a_pull_lasts_from_its_first_layer_to_its_last)
{
	uint64_t ended = 0;

	for (uint64_t t = 0; t < 20; t += 2) {
		const char *ref = t < 10 ? "layer-sha256:aa" : "layer-sha256:bb";

		take(fixture, t, (struct pull_piece[]){piece(ref, t * 10, 1000)}, 1);
		pulls_name(&fixture->pulls, &fixture->counts, t < 10 ? "sha256:aa" : "sha256:bb",
			"quay.io/a/b");
		assert_int_equal(fixture->pulls.n_images, 1);
		assert_string_equal(fixture->pulls.images[0].name, "quay.io/a/b");
	}
	take(fixture, 20, NULL, 0);
	assert_int_equal(fixture->pulls.n_images, 1);
	take(fixture, 30, NULL, 0);
	assert_int_equal(fixture->pulls.n_images, 0);
	for (size_t i = 0; i <= PULL_BOUNDS; i++)
		ended += registry(fixture, "quay.io")->buckets[i];
	assert_int_equal(ended, 1);
	assert_float_equal(registry(fixture, "quay.io")->seconds, 18, 0.01);
}

PULLS_TEST(what_stands_still_for_a_minute_is_stuck)
{
	const struct pull_piece pieces[] = {
		piece("layer-sha256:aa", 5, 10), piece("layer-sha256:bb", 0, 10)};
	struct pull_piece moving[] = {pieces[0], pieces[1]};

	for (uint64_t t = 0; t <= 70; t += 2) {
		moving[1].offset = t;
		take(fixture, t, moving, 2);
		if (t < 60)
			assert_null(pulls_stuck(&fixture->pulls, START + t * SECOND));
	}
	assert_string_equal(
		pulls_stuck(&fixture->pulls, START + 70 * SECOND)->piece.ref, "layer-sha256:aa");
	moving[0].offset++;
	take(fixture, 72, moving, 2);
	assert_null(pulls_stuck(&fixture->pulls, START + 72 * SECOND));
}

/* Complete, or of unknown size: it may wait to be unpacked, behind others. */
PULLS_TEST(what_may_be_complete_is_not_stuck)
{
	const struct pull_piece pieces[] = {
		piece("layer-sha256:aa", 10, 10), piece("GetImageBlob1", 7, 0)};

	for (uint64_t t = 0; t <= 200; t += 2)
		take(fixture, t, pieces, 2);
	assert_null(pulls_stuck(&fixture->pulls, START + 200 * SECOND));
}

PULLS_TEST(a_pull_may_get_its_name_at_its_end)
{
	take(fixture, 0, (struct pull_piece[]){piece("GetImageBlob1", 7, 0)}, 1);
	pulls_end(&fixture->pulls, &fixture->counts, "docker.io/library/a", START + 4 * SECOND);
	assert_string_equal(fixture->pulls.images[0].name, "");
	take(fixture, 6, NULL, 0);
	take(fixture, 7, (struct pull_piece[]){piece("GetImageBlob2", 7, 0)}, 1);
	take(fixture, 9, NULL, 0);
	pulls_end(&fixture->pulls, &fixture->counts, "docker.io/library/a", START + 9 * SECOND);
	take(fixture, 20, NULL, 0);
	assert_int_equal(fixture->pulls.n_images, 0);
	assert_int_equal(registry(fixture, "docker.io")->buckets[1], 1);
	assert_true(registry(fixture, "docker.io")->seconds == 2);
}

PULLS_TEST(nameless_layers_have_their_turns)
{
	assert_null(pulls_nameless(&fixture->pulls, 3));
	take(fixture, 0,
		(struct pull_piece[]){
			piece("layer-sha256:aa", 0, 1), piece("layer-sha256:bb", 0, 1)},
		2);
	assert_string_equal(pulls_nameless(&fixture->pulls, 0)->piece.ref, "layer-sha256:aa");
	assert_string_equal(pulls_nameless(&fixture->pulls, 1)->piece.ref, "layer-sha256:bb");
	pulls_name(&fixture->pulls, &fixture->counts, "sha256:bb", "docker.io/library/a");
	assert_string_equal(pulls_nameless(&fixture->pulls, 1)->piece.ref, "layer-sha256:aa");
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
	take(fixture, 0, pieces, ARRAY_SIZE(pieces));
	assert_int_equal(fixture->pulls.n, PULL_LAYERS_MAX);
	assert_int_equal(fixture->pulls.more, 5);
	for (size_t i = 0; i < PULL_LAYERS_MAX; i++) {
		snprintf(image, sizeof(image), "registry%zu.example/a", i);
		pulls_name(
			&fixture->pulls, &fixture->counts, pieces[i].ref + strlen("layer-"), image);
		pieces[i].offset += 10;
	}
	take(fixture, 1, pieces, ARRAY_SIZE(pieces));
	assert_int_equal(fixture->counts.n, PULL_REGISTRIES_MAX);
	assert_int_equal(registry(fixture, "other")->bytes,
		(PULL_LAYERS_MAX - PULL_IMAGES_MAX - PULL_REGISTRIES_MAX + 1) * 10);
	assert_true(fixture->pulls.n_images <= PULL_IMAGES_MAX);
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
