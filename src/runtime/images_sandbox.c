/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/images.h"

#include "base/json.h"
#include "runtime/containerd_config.h"
#include "runtime/cri_client.h"

#define CALL_US        (10 * USEC_PER_SEC)
#define DEFAULT_CONFIG "/etc/containerd/config.toml"
#define KEY            "plugins.\"io.containerd.cri.v1.images\".pinned_images.sandbox"

/* As the configuration of the process that listens has it. */
static int ask_config(const struct host *host, pid_t pid, const struct wait *wait,
	char name[static IMAGE_NAME_MAX], char why[static IMAGES_WHY_MAX])
{
	struct runtime_process process = {0};
	const struct runtime_daemon daemon = {
		.host = host, .binary = process.program, .directory = process.directory};
	const char *config = process.config;
	char path[PATH_MAX], dump_why[CONTAINERD_WHY_MAX] = "";
	_cleanup_free_ char *dump = NULL;
	int r = pid > 0 ? runtime_process_read(host->root, RUNTIME_CONTAINERD, pid, &process)
			: -ESRCH;

	if (r < 0 || !process.program[0]) {
		copy_text(why, IMAGES_WHY_MAX, "containerd's process is not seen");
		return -ENODATA;
	}
	if (!config[0])
		config = DEFAULT_CONFIG;
	/* Without a file it runs with its defaults. */
	if (access(host_path(host, config, path), F_OK) < 0)
		config = NULL;
	r = containerd_dump(&daemon, config, wait, &dump, dump_why);
	copy_text(why, IMAGES_WHY_MAX, dump_why);
	if (r < 0)
		return r;
	return containerd_dump_value(dump, KEY, name, IMAGE_NAME_MAX) ? 0 : -ENODATA;
}

int images_sandbox(const struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, char name[static IMAGE_NAME_MAX], char why[static IMAGES_WHY_MAX])
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *config = NULL;
	struct wait bounded = wait_at_most(wait, CALL_US);
	char reference[IMAGE_NAME_MAX] = "";
	_cleanup_arena_ struct arena arena = {0};
	struct cri cri = {0};
	int r;

	why[0] = '\0';
	if (runtime->kind == RUNTIME_DOCKER)
		return -ENODATA;
	grpc_open(&cri.grpc, runtime->socket);
	r = cri_get_config(&cri, &bounded, &arena, &config);
	if (r != 0)
		copy_text(why, IMAGES_WHY_MAX, cri.grpc.error);
	grpc_close(&cri.grpc);
	/* CRI-O shows the same key. */
	copy_text(reference, sizeof(reference), json_text_at(config, "sandboxImage"));
	if (r == 0 && !reference[0] && runtime->kind == RUNTIME_CONTAINERD)
		r = ask_config(host, cri.grpc.peer, &bounded, reference, why);
	if (r != 0)
		return r < 0 ? r : -EPROTO;
	return reference[0] && image_normalize(reference, name) == 0 ? 0 : -ENODATA;
}
