/* SPDX-License-Identifier: Apache-2.0 */
#include "file_fixture.h"

#include "runtime/driver.h"

#define IMAGE "registry.k8s.io/pause:3.9"
#define OTHER "docker.io/library/busybox:1.36"
#define NAME  "pin." IMAGE

/* A runtime with two images. */
static struct {
	bool pinned[2], gone, down;
	unsigned lag, shown; /* lists that still show the old state; number of requests */
	unsigned writes;
	char socket[128];
} containerd;

static int list(const struct image_runtime *runtime, const struct wait *,
	struct runtime_image **ret, size_t *n, char why[static IMAGES_WHY_MAX])
{
	bool late;

	set_text(containerd.socket, runtime->socket);
	if (containerd.down) {
		strcpy(why, "connection refused");
		return -ECONNREFUSED;
	}
	*ret = must(calloc(2, sizeof(**ret)));
	containerd.shown++;
	late = containerd.writes > 0 && containerd.lag > 0;
	(*ret)[0] = (struct runtime_image){.name = OTHER, .pinned = containerd.pinned[1]};
	(*ret)[1] = (struct runtime_image){.name = IMAGE, .pinned = containerd.pinned[0] != late};
	*n = containerd.gone ? 1 : 2;
	containerd.lag -= late;
	return 0;
}

static int pin(const struct image_runtime *, const char *name, bool pinned, const struct wait *,
	char why[static IMAGES_WHY_MAX])
{
	bool *is = &containerd.pinned[streq(name, OTHER)];

	if (containerd.down || containerd.gone) {
		strcpy(why, "no such image");
		return containerd.down ? -ECONNREFUSED : -ENOENT;
	}
	containerd.writes += *is != pinned;
	*is = pinned;
	return 0;
}

static bool honours_pins(const char *)
{
	return true;
}

static int edit_pins(const struct host *, const char *, const char *name, bool, char **text,
	char[static IMAGES_WHY_MAX])
{
	*text = must(strdup(name));
	return 0;
}

static const struct runtime_driver drivers[] = {
	{.name = "fake", .list = list, .pin = pin, .honours_pins = honours_pins},
	{.name = "with a file",
		.list = list,
		.honours_pins = honours_pins,
		.pins_path = "/etc/runtime/pins.conf",
		.edit_pins = edit_pins},
};

/* Replaces src/runtime/drivers.c. */
const struct runtime_driver *const runtime_drivers[] = {&drivers[0], &drivers[1], NULL};

const struct runtime_driver *runtime_driver_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++)
		if (streq(drivers[i].name, name))
			return &drivers[i];
	return NULL;
}

static void make(struct file_fixture *fixture)
{
	memset(&containerd, 0, sizeof(containerd));
	fixture_make(fixture);
}

#define PIN_TEST(name) TEST_OF(file_fixture, fixture, make, fixture_clear, name)

static int apply_pin_of(struct file_fixture *fixture, const char *runtime, const char *wanted)
{
	struct change *change;

	plan_clear(&fixture->job.plan);
	change = plan_add(&fixture->job.plan, NULL, NAME, "images", NOT_PINNED, wanted);
	change->kind = SETTING_PIN;
	change->pin = (struct pin_target){.image = IMAGE, .socket = "/run/containerd.sock"};
	set_text(change->pin.driver, runtime);
	return run_job(fixture, FILE_APPLY);
}

static int apply_pin(struct file_fixture *fixture, const char *wanted)
{
	return apply_pin_of(fixture, "fake", wanted);
}

/* A pull drops the label. */
TEST(a_dropped_pin_needs_no_restore)
{
	for (int gone = 0; gone < 2; gone++) {
		_cleanup_fixture_ struct file_fixture fixture;

		make(&fixture);
		assert_int_equal(apply_pin(&fixture, PINNED), 0);
		containerd.pinned[0] = false;
		containerd.gone = gone;
		assert_int_equal(restore_all(&fixture)->error, 0);
		assert_int_equal(containerd.writes, 1);
		assert_forgotten(&fixture);
	}
}

/* Otherwise the next sample would report drift. */
PIN_TEST(a_pin_is_complete_when_the_list_shows_it)
{
	containerd.lag = 3;
	assert_int_equal(apply_pin(fixture, PINNED), 0);
	assert_int_equal(containerd.writes, 1);
	assert_int_equal(containerd.lag, 0);
	assert_int_equal(containerd.shown, 1 + 3 + 1);
}

PIN_TEST(a_missing_image_is_not_pinned)
{
	containerd.gone = true;
	assert_int_equal(apply_pin(fixture, PINNED), -ENOENT);
	assert_int_equal(fixture->job.plan.changes[0].reason, REASON_WRITE_REFUSED);
	assert_string_equal(fixture->job.plan.changes[0].why, "no such image");
}

PIN_TEST(a_missing_directory_of_the_file_of_pins_is_named)
{
	assert_int_equal(apply_pin_of(fixture, "with a file", PINNED), -ENOENT);
	assert_string_equal(fixture->job.plan.changes[0].why,
		"/etc/runtime/pins.conf: its directory is missing: create it");
}

PIN_TEST(a_pin_of_others_after_ours_was_removed_is_left_by_restore)
{
	assert_int_equal(apply_pin(fixture, PINNED), 0);
	assert_int_equal(apply_pin(fixture, NOT_PINNED), 0);
	assert_forgotten(fixture);
	containerd.pinned[0] = true;
	(void)restore_all(fixture);
	assert_true(containerd.pinned[0]);
}

PIN_TEST(a_runtime_that_does_not_answer_keeps_the_record)
{
	const struct change *change;

	assert_int_equal(apply_pin(fixture, PINNED), 0);
	containerd.down = true;
	change = restore_all(fixture);
	assert_int_equal(change->error, -ECONNREFUSED);
	assert_string_equal(change->why, "connection refused");
	containerd.down = false;
	assert_int_equal(restore_all(fixture)->error, 0);
	assert_false(containerd.pinned[0]);
	assert_forgotten(fixture);
}

/* The configuration changed while the job waited. */
PIN_TEST(a_stale_job_pins_nothing_and_a_restore_is_never_stale)
{
	assert_int_equal(apply_pin(fixture, PINNED), 0);
	fixture->job.stale = true;
	assert_int_equal(apply_pin(fixture, NOT_PINNED), -ESTALE);
	assert_true(containerd.pinned[0]);
	assert_int_equal(restore_all(fixture)->error, 0);
	assert_false(containerd.pinned[0]);
	assert_forgotten(fixture);
}

PIN_TEST(a_pin_that_is_set_already_is_not_recorded)
{
	containerd.pinned[0] = true;
	assert_int_equal(apply_pin(fixture, PINNED), 0);
	assert_int_equal(containerd.writes, 0);
	assert_forgotten(fixture);
}
