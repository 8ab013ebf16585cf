/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/file_work.h"

#include "runtime/images.h"

/* 2 s in all. */
#define SEEN_TRIES 20
#define SEEN_US    (10 * USEC_PER_MSEC)

static struct image_runtime runtime_of(const struct file_job *job, const struct file_note *note)
{
	struct image_runtime runtime = {.kind = RUNTIME_CONTAINERD};
	char full[PATH_MAX];

	copy_text(runtime.socket, sizeof(runtime.socket),
		host_path(&job->host, note->service.socket, full));
	return runtime;
}

int pin_take(const struct file_job *job, struct work_file *file)
{
	const struct image_runtime runtime = runtime_of(job, &file->note);
	_cleanup_free_ struct runtime_image *images = NULL;
	char why[IMAGES_WHY_MAX] = "";
	bool pinned = false;
	size_t n = 0;
	int r = images_list(&runtime, job->wait, &images, &n, why);

	copy_text(file->why, sizeof(file->why), why);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		pinned = pinned || (streq(images[i].name, file->note.path) && images[i].pinned);
	copy_text(file->old.hash, sizeof(file->old.hash), FILE_HASH_NONE);
	if (!pinned)
		return 0;
	text_copy(&file->old, PINNED, strlen(PINNED));
	hash_bytes(file->old.bytes, file->old.len, file->old.hash);
	return 0;
}

int pin_put(const struct file_job *job, struct work_file *file, const struct file_bytes *new)
{
	const struct image_runtime runtime = runtime_of(job, &file->note);
	char why[IMAGES_WHY_MAX] = "";
	int r = images_pin(&runtime, file->note.path, new->bytes != NULL, job->wait, why);

	copy_text(file->why, sizeof(file->why), why);
	/* The CRI hears of it a moment later, and must not pass for someone else until then. */
	for (int i = 0; r == 0 && i < SEEN_TRIES && !file->old.bytes != !new->bytes; i++) {
		const struct wait pause = wait_at_most(job->wait, i * SEEN_US);

		(void)wait_for(&pause, -1, 0);
		file_bytes_clear(&file->old);
		(void)pin_take(job, file);
	}
	return r;
}
