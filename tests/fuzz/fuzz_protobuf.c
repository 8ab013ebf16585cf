/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Any bytes at all as the answer to each call of the CRI and of containerd: the first byte chooses
 * which. What is read must be readable to its end.
 */

#include "base/util.h"
#include "runtime/containerd_internal.h"
#include "runtime/cri_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const char *text)
{
	if (text && strlen(text) > ARENA_MAX)
		abort();
}

static void use_list(const char *const *texts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		use(texts[i]);
}

static void use_image(const struct cri_image *image)
{
	use(image->id);
	use_list(image->tags, image->n_tags);
	use_list(image->digests, image->n_digests);
}

static void use_sandbox(const struct cri_sandbox *sandbox)
{
	use(sandbox->id);
	use(sandbox->name);
	use(sandbox->namespace);
	use(sandbox->uid);
}

static void use_config(const struct cri_running_config *config)
{
	if (config->max_concurrent_downloads < -1)
		abort();
	use(config->image_pull_progress_timeout);
	use(config->registry_config_path);
	use(config->sandbox_image);
	use(config->snapshotter);
	use(config->root);
}

static void read_cri(unsigned which, struct arena *arena, const uint8_t *data, size_t size)
{
	struct cri_answer answer = {0};

	if (which == 0 && cri_read_version(arena, data, size, &answer))
		use(answer.version.version);
	if (which == 1 && cri_read_status(arena, data, size, &answer)) {
		use(answer.status.runtime_message);
		use(answer.status.network_message);
		use_config(&answer.status.config);
	}
	if (which == 2 && cri_read_images(arena, data, size, &answer))
		for (size_t i = 0; i < answer.images.n; i++)
			use_image(&answer.images.list[i]);
	if (which == 3 && cri_read_image(arena, data, size, &answer) && answer.image)
		use_image(answer.image);
	if (which == 4 && cri_read_pull(arena, data, size, &answer))
		use(answer.image_ref);
	if (which == 5 && cri_read_filesystems(arena, data, size, &answer))
		for (size_t i = 0; i < answer.filesystems.n; i++)
			use(answer.filesystems.list[i].mountpoint);
	if (which == 6 && cri_read_sandboxes(arena, data, size, &answer))
		for (size_t i = 0; i < answer.sandboxes.n; i++)
			use_sandbox(&answer.sandboxes.list[i]);
	if (which == 7 && cri_read_containers(arena, data, size, &answer))
		for (size_t i = 0; i < answer.containers.n; i++)
			use(answer.containers.list[i].image);
	if (which == 8 && cri_read_sandbox(arena, data, size, &answer)) {
		use_sandbox(&answer.sandbox.sandbox);
		use_list(answer.sandbox.ips, answer.sandbox.n_ips);
	}
}

static void use_containerd_image(const struct containerd_image *image)
{
	use(image->name);
	use(image->target.media_type);
	use(image->target.digest);
	for (size_t i = 0; i < image->n_labels; i++) {
		use(image->labels[i].key);
		use(image->labels[i].value);
	}
}

static void read_containerd(unsigned which, struct arena *arena, const uint8_t *data, size_t size)
{
	struct containerd_answer answer = {0};

	if (which == 9 && containerd_read_version(arena, data, size, &answer))
		use(answer.version.revision);
	if (which == 10 && containerd_read_namespaces(arena, data, size, &answer))
		use_list(answer.namespaces.list, answer.namespaces.n);
	if (which == 11 && containerd_read_ingests(arena, data, size, &answer))
		for (size_t i = 0; i < answer.ingests.n; i++)
			use(answer.ingests.list[i].ref);
	if (which == 12 && containerd_read_images(arena, data, size, &answer))
		for (size_t i = 0; i < answer.images.n; i++)
			use_containerd_image(&answer.images.list[i]);
	if (which == 13 && containerd_read_image(arena, data, size, &answer))
		use_containerd_image(answer.image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_arena_ struct arena arena;

	arena_init(&arena);
	if (size == 0)
		return -1;
	read_cri(data[0], &arena, data + 1, size - 1);
	read_containerd(data[0], &arena, data + 1, size - 1);
	return 0;
}
