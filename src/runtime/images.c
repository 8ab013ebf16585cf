/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/images_internal.h"

#include "base/json.h"
#include "runtime/containerd_config.h"
#include "runtime/docker.h"

#define NAMESPACE "k8s.io" /* of the CRI in containerd */

/* From containerd's pkg/cri/labels: what the CRI does not collect. */
#define PIN_LABEL "io.cri-containerd.pinned"
#define PINNED    "pinned"

#define SANDBOX_KEY "plugins.\"io.containerd.cri.v1.images\".pinned_images.sandbox"

#define CALL_US (10 * USEC_PER_SEC) /* of any call but a pull */

struct session images_session(
	const struct image_runtime *runtime, const struct wait *wait, char *why)
{
	struct session session = {.runtime = runtime, .wait = *wait, .why = why};

	grpc_open(&session.cri.grpc, runtime->socket);
	why[0] = '\0';
	return session;
}

void images_session_end(struct session *session)
{
	grpc_close(&session->cri.grpc);
	arena_free(&session->arena);
}

/* ---- calls and their errors ---- */

/* google.golang.org/grpc/codes. containerd has most errors of a registry as GRPC_UNKNOWN. */
static const int errors[GRPC_STATUS_MAX + 1] = {
	[1] = ECANCELED,
	[3] = EINVAL,
	[4] = ETIMEDOUT,
	[GRPC_NOT_FOUND] = ENOENT,
	[6] = EEXIST,
	[7] = EACCES,
	[8] = ENOSPC,
	[GRPC_UNIMPLEMENTED] = EOPNOTSUPP,
	[14] = ECONNREFUSED,
	[16] = EACCES,
};

/* What the runtime says has one cause in another: where it is too long, the innermost tells most.
 */
static int explain(struct session *session, int r)
{
	char *text = session->cri.grpc.error, *next;

	hide_secrets(text);
	text_make_printable(text);
	while (strlen(text) >= IMAGES_WHY_MAX && (next = strstr(text, ": ")))
		text = next + 2;
	if (r == GRPC_UNIMPLEMENTED)
		copy_text(session->why, IMAGES_WHY_MAX,
			"the runtime has no CRI for images: its CRI plugin is disabled");
	else if (text[0])
		utf8_copy(session->why, IMAGES_WHY_MAX, text);
	else
		snprintf(session->why, IMAGES_WHY_MAX, "gRPC status %d", r);
	if (strstr(text, "no space left on device"))
		return -ENOSPC;
	return r < 0 ? r : -(errors[r] ? errors[r] : EPROTO);
}

int images_call(
	struct session *session, enum cri_call which, const ProtobufCMessage *message, void *ret)
{
	struct wait wait = wait_at_most(&session->wait, which == CRI_PULL ? UINT64_MAX : CALL_US);
	int r = cri_call(&session->cri, &wait, &session->arena, which, NAMESPACE, message, ret);

	return r == 0 ? 0 : explain(session, r);
}

int images_get(struct session *session, const char *name, Containerd__Image **image)
{
	Containerd__NameRequest request = CONTAINERD__NAME_REQUEST__INIT;
	const Containerd__ImageResponse *answer;
	int r;

	request.name = (char *)name;
	r = images_call(session, CONTAINERD_GET_IMAGE, &request.base, &answer);
	if (r == 0 && (!answer->image || !answer->image->target)) {
		copy_text(session->why, IMAGES_WHY_MAX, "containerd shows an image without target");
		return -EBADMSG;
	}
	if (r == 0)
		*image = answer->image;
	return r;
}

int images_write(struct session *session, enum cri_call which, const char *name,
	Containerd__Descriptor *target, const char *key, const char *value, size_t n_paths)
{
	Containerd__Image__LabelsEntry label = CONTAINERD__IMAGE__LABELS_ENTRY__INIT;
	Containerd__Image__LabelsEntry *labels[] = {&label};
	Containerd__WriteImageRequest request = CONTAINERD__WRITE_IMAGE_REQUEST__INIT;
	Containerd__FieldMask mask = CONTAINERD__FIELD_MASK__INIT;
	Containerd__Image image = CONTAINERD__IMAGE__INIT;
	char path[64], *paths[] = {path, (char *)"target"};
	const Containerd__ImageResponse *answer;

	label.key = (char *)key;
	label.value = (char *)value;
	image.name = (char *)name;
	image.target = target;
	image.labels = labels;
	image.n_labels = ARRAY_SIZE(labels);
	snprintf(path, sizeof(path), "labels.%s", key);
	mask.paths = paths;
	mask.n_paths = n_paths;
	request.image = &image;
	/* In Create this field is something else. */
	request.update_mask = which == CONTAINERD_UPDATE_IMAGE ? &mask : NULL;
	return images_call(session, which, &request.base, &answer);
}

/* ---- the list ---- */

int images_list(const struct image_runtime *runtime, const struct wait *wait,
	struct runtime_image **ret, size_t *n, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(images_session_end) struct session session = images_session(runtime, wait, why);
	const Cri__ListImagesResponse *list;
	struct runtime_image *images = NULL;
	size_t n_images = 0, allocated = 0;
	int r;

	if (runtime->kind == RUNTIME_DOCKER)
		return docker_read_images(runtime->socket, ret, n, wait, why);
	r = images_call(&session, CRI_IMAGES, NULL, &list);
	if (r < 0)
		return r;
	for (size_t i = 0; i < list->n_images; i++) {
		const Cri__Image *image = list->images[i];

		for (size_t k = 0; k < image->n_repo_tags + image->n_repo_digests; k++) {
			const char *name = k < image->n_repo_tags
						   ? image->repo_tags[k]
						   : image->repo_digests[k - image->n_repo_tags];
			struct runtime_image entry = {.size = image->size, .pinned = image->pinned};

			/* No name of an archive is longer. */
			if (!copy_text(entry.name, sizeof(entry.name), name) ||
				!copy_text(entry.id, sizeof(entry.id), image->id))
				continue;
			text_make_printable(entry.name);
			*add_element(&images, &n_images, &allocated) = entry;
		}
	}
	*ret = images;
	*n = n_images;
	return 0;
}

/* ---- pins ---- */

int images_pin(const struct image_runtime *runtime, const char *name, bool pinned,
	const struct wait *wait, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(images_session_end) struct session session = images_session(runtime, wait, why);
	Containerd__Image *image;
	bool is = false;
	int r;

	r = images_get(&session, name, &image);
	for (size_t i = 0; r == 0 && i < image->n_labels; i++)
		is = is || (streq(image->labels[i]->key, PIN_LABEL) &&
				   streq(image->labels[i]->value, PINNED));
	if (r == 0 && is != pinned)
		r = images_write(&session, CONTAINERD_UPDATE_IMAGE, name, image->target, PIN_LABEL,
			pinned ? PINNED : "", 1);
	return r;
}

bool images_honours_pins(const struct image_runtime *runtime)
{
	const char *version = runtime->version + (runtime->version[0] == 'v');
	unsigned major = 0, minor = 0, patch = 0;

	if (runtime->kind != RUNTIME_CONTAINERD ||
		sscanf(version, "%3u.%3u.%3u", &major, &minor, &patch) < 2)
		return false;
	return major > 1 || (major == 1 && (minor > 7 || (minor == 7 && patch >= 10) ||
						   (minor == 6 && patch >= 25)));
}

/* ---- the sandbox image ---- */

/* As the configuration of the process that listens has it, if that is seen. */
static void ask_config(const struct host *host, pid_t pid, const struct wait *wait,
	char name[static IMAGE_NAME_MAX])
{
	struct runtime_process process = {0};
	const struct runtime_daemon daemon = {
		.host = host, .binary = process.program, .directory = process.directory};
	const char *config = process.config;
	char path[PATH_MAX], why[CONTAINERD_WHY_MAX];
	_cleanup_free_ char *dump = NULL;

	if (pid <= 0 || runtime_process_read(host->root, RUNTIME_CONTAINERD, pid, &process) < 0 ||
		!process.program[0])
		return;
	if (!config[0])
		config = "/etc/containerd/config.toml";
	/* Without a file it runs with its defaults. */
	if (access(host_path(host, config, path), F_OK) < 0)
		config = NULL;
	if (containerd_dump(&daemon, config, wait, &dump, why) == 0)
		(void)containerd_dump_value(dump, SANDBOX_KEY, name, IMAGE_NAME_MAX);
}

bool images_sandbox(const struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, char name[static IMAGE_NAME_MAX])
{
	struct wait bounded = wait_at_most(wait, CALL_US);
	char reference[IMAGE_NAME_MAX] = "", why[IMAGES_WHY_MAX];
	_cleanup_(images_session_end) struct session session =
		images_session(runtime, &bounded, why);
	_cleanup_(cleanup_cJSON_Delete) cJSON *config = NULL;

	if (runtime->kind == RUNTIME_DOCKER ||
		cri_get_config(&session.cri, &bounded, &session.arena, &config) != 0)
		return false;
	copy_text(reference, sizeof(reference), json_text_at(config, "sandboxImage"));
	if (!reference[0])
		ask_config(host, session.cri.grpc.peer, &bounded, reference);
	return image_normalize(reference, name) == 0;
}
