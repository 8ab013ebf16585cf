/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/edit.h"
#include "apply/file_transaction.h"

#include "base/log.h"
#include "runtime/driver.h"

/* The CRI shows a new label a moment later: the lists are read for 2 s in all. */
#define READ_BACKS   20
#define READ_BACK_US (10 * USEC_PER_MSEC)

#define RELOAD_US (3 * USEC_PER_SEC)

struct pin {
	struct file_job *job;
	struct pin_record record;
	struct image_runtime runtime;
	bool was, is; /* pinned: before, and as last read */
	enum reason reason;
	char why[EDIT_WHY_MAX];
};

/* If the runtime lacks the image, it counts as not pinned. */
static int read_pin(struct pin *pin)
{
	_cleanup_free_ struct runtime_image *images = NULL;
	const struct runtime_image *image;
	size_t n = 0;
	int r = pin->runtime.driver->list(&pin->runtime, pin->job->wait, &images, &n, pin->why);

	image = find_named(images, n, pin->record.target.image);
	pin->is = image && image->pinned;
	return r;
}

static int store_record(const struct pin *pin)
{
	struct file_journal *journal = pin->job->journal;

	if (!find_named(journal->pins, journal->n_pins, pin->record.name))
		*add_element(&journal->pins, &journal->n_pins, &journal->pins_allocated) =
			pin->record;
	free(steal(journal->stored)); /* someone may have removed the file */
	return file_store(pin->job);
}

/* Pins or unpins the image by the file of pins that the runtime reads. */
static int write_file(struct pin *pin, bool pinned)
{
	const struct wait answer = wait_at_most(pin->job->wait, RELOAD_US);
	_cleanup_(file_bytes_clear) struct file_bytes old = {0}, new = {0};
	const struct runtime_driver *driver = pin->runtime.driver;
	const struct pin_target *target = &pin->record.target;
	int r = file_read(&pin->job->host, driver->pins_path, &old);

	if (r == 0)
		r = driver->edit_pins(
			&pin->job->host, old.bytes, target->image, pinned, &new.bytes, pin->why);
	if (r == 0 && new.bytes && old.missing > 0) {
		r = -ENOENT;
		snprintf(pin->why, sizeof(pin->why), "%s: its directory is missing: create it",
			driver->pins_path);
	}
	if (r < 0)
		return r;
	new.len = new.bytes ? strlen(new.bytes) : 0;
	if (!new.bytes)
		r = file_remove(&old, 0);
	else if (!old.bytes || !streq(old.bytes, new.bytes))
		r = file_put(&old, &new);
	/* Also for an unchanged file: an earlier reload may have failed. */
	return r < 0 ? r : runtime_reload(&pin->job->host, driver, target->socket, 0, &answer);
}

/* Reads, records, writes and reads back. 0 or -errno, with reason and why. */
static int set_pin(struct pin *pin, bool pinned)
{
	const struct pin_target *target = &pin->record.target;
	char path[PATH_MAX];
	int r;

	pin->reason = REASON_UNREADABLE;
	pin->runtime.driver = runtime_driver_find(target->driver);
	if (!pin->runtime.driver || !pin->runtime.driver->honours_pins)
		return -EOPNOTSUPP;
	set_text(pin->runtime.daemon.socket, target->socket);
	set_text(pin->runtime.socket, host_path(&pin->job->host, target->socket, path));
	r = read_pin(pin);
	pin->was = pin->is;
	/* An image that is gone may still be in a file of pins. */
	if (r < 0 || (pinned && pin->is) || pin->job->task == FILE_PLAN_RESTORE)
		return r;
	pin->reason = REASON_NOT_RECORDED;
	if (pin->job->task == FILE_APPLY && atomic_load(&pin->job->stale)) {
		set_text(pin->why, FILE_STALE);
		return -ESTALE;
	}
	r = pinned ? store_record(pin) : 0;
	if (r < 0)
		return r;
	pin->reason = REASON_WRITE_REFUSED;
	r = pin->runtime.driver->pin ? pin->runtime.driver->pin(&pin->runtime, target->image,
					       pinned, pin->job->wait, pin->why)
				     : write_file(pin, pinned);
	if (r == -ENOENT && !pinned)
		r = 0;
	for (unsigned i = 0; r == 0 && i < READ_BACKS && pin->is != pinned; i++) {
		const struct wait pause = wait_at_most(pin->job->wait, i * READ_BACK_US);

		(void)wait_for(&pause, -1, 0);
		r = read_pin(pin);
	}
	if (r < 0 || pin->is == pinned)
		return r;
	pin->reason = REASON_NOT_TAKEN;
	return -ERANGE;
}

static void forget_record(const struct pin *pin)
{
	struct file_journal *journal = pin->job->journal;
	struct pin_record *record = find_named(journal->pins, journal->n_pins, pin->record.name);

	if (record)
		*record = journal->pins[--journal->n_pins];
}

void pin_apply(struct file_job *job, struct change *change)
{
	bool pinned = streq(change->new, PINNED);
	struct pin pin = {.job = job, .record.target = change->pin};
	int r;

	set_text(pin.record.name, change->name);
	set_text(pin.record.tuner, change->tuner);
	r = set_pin(&pin, pinned);
	set_text(change->actual, pin.is ? PINNED : NOT_PINNED);
	if (r < 0)
		file_result(change, pin.reason, r, pin.why,
			r == -ESTALE ? 0 : now_us() + FILE_RETRY_US);
	else if (!pinned)
		forget_record(&pin);
}

void pins_restore(struct file_job *job)
{
	for (size_t i = job->journal->n_pins; i-- > 0;) {
		struct pin pin = {.job = job, .record = job->journal->pins[i]};
		struct change *change;
		int r;

		if (!file_is_chosen(job, pin.record.tuner))
			continue;
		r = set_pin(&pin, false);
		change = plan_add(&job->plan, NULL, pin.record.name, pin.record.tuner,
			pin.was ? PINNED : NOT_PINNED, NOT_PINNED);
		change->kind = SETTING_PIN;
		file_result(change, REASON_ORIGINAL, r, pin.why, 0);
		if (job->task == FILE_PLAN_RESTORE)
			continue;
		if (r == 0)
			forget_record(&pin);
		if (r < 0)
			log_as(LOG_SETTING_CHANGED, LOG_ERR, change->name, "not restored: %s",
				pin.why[0] ? pin.why : strerror(-r));
		else if (pin.was)
			log_as(LOG_SETTING_CHANGED, LOG_INFO, change->name,
				PINNED " -> " NOT_PINNED " (original)");
	}
}
