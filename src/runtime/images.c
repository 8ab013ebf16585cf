/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/images.h"

#include "runtime/driver.h"

#include <sys/random.h>

void images_remove_file(const struct host *host)
{
	if (host->put_load_file)
		(void)host->put_load_file(host, NULL, NULL);
}

bool images_is_ours(const char *name)
{
	return (starts_with(name, "127.0.0.1:") || starts_with(name, IMAGES_REGISTRY "/")) &&
	       strstr(name, "/" IMAGES_REPOSITORY "/");
}

int images_load(const struct image_runtime *runtime, const struct host *host,
	const struct archive *archive, const struct archive_image *image, const struct wait *wait,
	_Atomic uint64_t *done, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(cleanup_image_server_close) struct image_server *server = NULL;
	char hash[HASH_TEXT_MAX], secret[HASH_TEXT_MAX], repository[NAME_MAX];
	char random[16], reference[2 * IMAGE_NAME_MAX];
	uint16_t port;
	int r;

	if (!runtime->driver->load) {
		snprintf(why, IMAGES_WHY_MAX, "%s cannot load archives: pull the image instead",
			runtime->driver->name);
		return -EOPNOTSUPP;
	}
	r = getrandom(random, sizeof(random), 0) < 0 ? -errno : 0;
	hash_bytes(random, sizeof(random), secret);
	hash_bytes(image->name, strlen(image->name), hash);
	snprintf(repository, sizeof(repository), IMAGES_REPOSITORY "/%s-%.32s", hash, secret);
	if (r == 0)
		r = image_server_open(archive, repository, done, &server, &port);
	if (r < 0) {
		snprintf(why, IMAGES_WHY_MAX, "no server on 127.0.0.1: %s", strerror(-r));
		return r;
	}
	/* Only the runtime knows the repository: others must not read an archive of root. */
	snprintf(reference, sizeof(reference), "127.0.0.1:%u/%s@%s", port, repository,
		runtime->driver->loads_manifests ? image->manifest : image->top);
	return runtime->driver->load(runtime, host, image, reference, wait, server, why);
}

int images_clean(const struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, char why[static IMAGES_WHY_MAX])
{
	images_remove_file(host);
	return runtime->driver->clean ? runtime->driver->clean(runtime, wait, why) : 0;
}

bool images_has_leftovers(const struct image_runtime *runtime, const struct wait *wait,
	const struct runtime_image *images, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (images_is_ours(images[i].name))
			return true;
	return runtime->driver->has_leftovers && runtime->driver->has_leftovers(runtime, wait);
}
