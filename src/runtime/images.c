/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/images.h"

#include "runtime/driver.h"

#include <regex.h>
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

/* ---- names ---- */

#define DOMAIN    "([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]+])(:[0-9]+)?"
#define COMPONENT "[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*"
#define WHOLE_NAME \
	"^" DOMAIN "(/" COMPONENT ")+(:[A-Za-z0-9_][A-Za-z0-9_.-]*|@sha256:[0-9a-f]{64})$"
#define TAG_MAX 128

int image_normalize(const char *reference, char name[static IMAGE_NAME_MAX])
{
	char copy[IMAGE_NAME_MAX], whole[IMAGE_NAME_MAX], *rest = copy, *slash, *tag, *digest;
	const char *domain = "docker.io";
	regex_t regex;
	int n, r;

	if (!set_text(copy, reference))
		return -EINVAL;
	slash = strchr(copy, '/');
	n = slash ? (int)(slash - copy) : 0;
	if (strcspn(copy, ".:") < (size_t)n || (n == 9 && starts_with(copy, "localhost"))) {
		domain = copy;
		rest = slash + 1;
		*slash = '\0';
	}
	digest = strchr(rest, '@');
	if (digest)
		*digest++ = '\0';
	tag = strrchr(rest, ':');
	if (tag)
		*tag++ = '\0';
	if (streq(domain, "index.docker.io"))
		domain = "docker.io";
	/* A digest overrides the tag. */
	n = snprintf(whole, sizeof(whole), "%s/%s%s%c%s", domain,
		streq(domain, "docker.io") && !strchr(rest, '/') ? "library/" : "", rest,
		digest ? '@' : ':',
		digest ? digest
		: tag  ? tag
		       : "latest");
	/* 64 hexadecimal digits are an image ID. */
	if (n >= (int)sizeof(whole) || (tag && strlen(tag) > TAG_MAX) ||
		(strlen(reference) == 64 && strspn(reference, "0123456789abcdef") == 64))
		return -EINVAL;
	if (regcomp(&regex, WHOLE_NAME, REG_EXTENDED | REG_NOSUB) != 0)
		return -EINVAL;
	r = regexec(&regex, whole, 0, NULL, 0);
	regfree(&regex);
	if (r != 0)
		return -EINVAL;
	copy_text(name, IMAGE_NAME_MAX, whole);
	return 0;
}
