/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_work.h"

#include "base/log.h"
#include "runtime/driver.h"

/* The CRI shows a new label a moment later: as many lists as fit into 2 s. */
#define READ_BACKS   20
#define READ_BACK_US (10 * USEC_PER_MSEC)

struct pin {
	const struct wait *wait;
	struct image_runtime runtime;
	const char *image;
	bool pinned;            /* as last read */
	char why[EDIT_WHY_MAX]; /* of an error */
};

/* An image that the runtime does not have is not pinned. 0 or -errno, with why. */
static int read_pin(struct pin *pin)
{
	_cleanup_free_ struct runtime_image *images = NULL;
	const struct runtime_image *image;
	size_t n = 0;
	int r = pin->runtime.driver->list(&pin->runtime, pin->wait, &images, &n, pin->why);

	image = find_named(images, n, pin->image);
	pin->pinned = image && image->pinned;
	return r;
}

/* 0 or -errno, with why. */
static int open_pin(const struct file_job *job, const struct pin_target *target, struct pin *pin)
{
	char path[PATH_MAX];

	*pin = (struct pin){.wait = job->wait,
		.runtime = {.driver = runtime_driver_find(target->driver)},
		.image = target->image};
	if (!pin->runtime.driver || !pin->runtime.driver->pin)
		return -EOPNOTSUPP;
	copy_text(pin->runtime.socket, sizeof(pin->runtime.socket),
		host_path(&job->host, target->socket, path));
	return read_pin(pin);
}

/* 0; -ERANGE when the runtime accepted it and does not show it; another -errno, with why. */
static int write_pin(struct pin *pin, bool pinned)
{
	int r = pin->runtime.driver->pin(&pin->runtime, pin->image, pinned, pin->wait, pin->why);

	for (int i = 0; r == 0 && i < READ_BACKS && pin->pinned != pinned; i++) {
		const struct wait pause = wait_at_most(pin->wait, (uint64_t)i * READ_BACK_US);

		(void)wait_for(&pause, -1, 0);
		r = read_pin(pin);
	}
	return r == 0 && pin->pinned != pinned ? -ERANGE : r;
}

static int record_pin(struct file_job *job, const struct change *change)
{
	struct file_journal *journal = job->journal;
	struct pin_record *record = find_named(journal->pins, journal->n_pins, change->name);

	if (!record)
		record = add_element(&journal->pins, &journal->n_pins, &journal->pins_allocated);
	copy_text(record->name, sizeof(record->name), change->name);
	copy_text(record->tuner, sizeof(record->tuner), change->tuner);
	record->target = change->pin;
	free(steal(journal->stored)); /* even if someone removed the file */
	return work_store(job);
}

static void forget_pin(struct file_journal *journal, const char *name)
{
	struct pin_record *record = find_named(journal->pins, journal->n_pins, name);

	if (record)
		*record = journal->pins[--journal->n_pins];
}

void pin_apply(struct file_job *job, struct change *change)
{
	bool wanted = streq(change->new, PINNED);
	const char *reason = "unreadable";
	struct pin pin;
	int r = open_pin(job, &change->pin, &pin);

	if (r == 0 && pin.pinned != wanted) {
		reason = "not-recorded";
		if (atomic_load(&job->stale))
			r = -ESTALE;
		else if (wanted)
			r = record_pin(job, change);
	}
	if (r == 0 && pin.pinned != wanted) {
		r = write_pin(&pin, wanted);
		reason = r == -ERANGE ? "not-taken" : "write-refused";
	}
	if (r == 0 && !wanted)
		forget_pin(job->journal, change->name);
	if (r < 0)
		work_fail(change, reason, r, pin.why, now_us() + FILE_RETRY_US);
	copy_text(change->actual, sizeof(change->actual), pin.pinned ? PINNED : NOT_PINNED);
}

void pins_restore(struct file_job *job)
{
	struct file_journal *journal = job->journal;

	for (size_t i = 0; i < journal->n_pins;) {
		const struct pin_record record = journal->pins[i];
		struct change *change;
		struct pin pin;
		int r;

		if (job->only[0] && !streq(job->only, record.tuner)) {
			i++;
			continue;
		}
		r = open_pin(job, &record.target, &pin);
		change = plan_add(&job->plan, NULL, record.name, record.tuner,
			pin.pinned ? PINNED : NOT_PINNED, NOT_PINNED);
		change->kind = SETTING_PIN;
		if (r == 0 && pin.pinned)
			r = write_pin(&pin, false);
		change->reason = "original";
		if (r < 0) {
			log_error(record.name, "not restored: %s",
				pin.why[0] ? pin.why : strerror(-r));
			work_fail(change, "original", r, pin.why, 0);
			i++;
			continue;
		}
		if (streq(change->old, PINNED))
			log_info(record.name, PINNED " -> " NOT_PINNED " (original)");
		forget_pin(journal, record.name);
	}
}
