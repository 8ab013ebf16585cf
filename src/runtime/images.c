/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/images.h"

#include "base/json.h"
#include "base/text.h"
#include "base/util.h"
#include "runtime/containerd_config.h"
#include "runtime/cri_client.h"
#include "runtime/docker.h"
#include "runtime/image_server.h"

#include <errno.h>
#include <inttypes.h>

#define NAMESPACE  "k8s.io"           /* of the CRI in containerd */
#define REPOSITORY "headroom-preload" /* what we serve archives as */

/* Both from containerd's pkg/cri/labels: what the CRI looks after, and what it does not collect. */
#define MANAGED_LABEL "io.cri-containerd.image"
#define MANAGED       "managed"
#define PIN_LABEL     "io.cri-containerd.pinned"
#define PINNED        "pinned"

#define CALL_US  (10 * USEC_PER_SEC)  /* of any call but a pull */
#define CLEAN_US (USEC_PER_SEC / 2)   /* of one that goes on after a cancellation */
#define KNOWN_US (30 * USEC_PER_SEC)  /* until the CRI knows a new name: it gets events */
#define POLL_US  (50 * USEC_PER_MSEC) /* asking for that */

#define REFERENCE_MAX (2 * IMAGE_NAME_MAX)

/* With the runtime, from one call of images.h to its return. */
struct session {
	struct cri cri;
	struct arena arena;
	struct wait wait;
	char *why;
};

static struct session session_of(
	const struct image_runtime *runtime, const struct wait *wait, char *why)
{
	struct session session = {.wait = *wait, .why = why};

	grpc_open(&session.cri.grpc, runtime->socket);
	why[0] = '\0';
	return session;
}

static void session_end(struct session *session)
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
	[5] = ENOENT,
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

/* The answer lives as long as the session. 0, or -errno with why. */
static int call_for(struct session *session, uint64_t timeout_us, enum cri_call which,
	const ProtobufCMessage *message, void *ret)
{
	struct wait wait = wait_at_most(&session->wait, timeout_us);
	int r = cri_call(&session->cri, &wait, &session->arena, which, NAMESPACE, message, ret);

	return r == 0 ? 0 : explain(session, r);
}

static int call(
	struct session *session, enum cri_call which, const ProtobufCMessage *message, void *ret)
{
	return call_for(session, CALL_US, which, message, ret);
}

/* What the CRI has by this name; NULL for nothing. */
static int get_status(struct session *session, const char *name, const Cri__Image **image)
{
	Cri__ImageStatusRequest request = CRI__IMAGE_STATUS_REQUEST__INIT;
	Cri__ImageSpec spec = CRI__IMAGE_SPEC__INIT;
	const Cri__ImageStatusResponse *status;
	int r;

	spec.image = (char *)name;
	request.image = &spec;
	r = call(session, CRI_IMAGE, &request.base, &status);
	if (r == 0)
		*image = status->image;
	return r;
}

/* Of containerd's own service. */
static int get_image(struct session *session, const char *name, Containerd__Image **image)
{
	Containerd__GetImageRequest request = CONTAINERD__GET_IMAGE_REQUEST__INIT;
	const Containerd__ImageResponse *answer;
	int r;

	request.name = (char *)name;
	r = call(session, CONTAINERD_GET_IMAGE, &request.base, &answer);
	if (r == 0 && (!answer->image || !answer->image->target)) {
		copy_text(session->why, IMAGES_WHY_MAX, "containerd shows an image without target");
		return -EBADMSG;
	}
	if (r == 0)
		*image = answer->image;
	return r;
}

static int update_image(struct session *session, Containerd__Image *image, char **paths, size_t n)
{
	Containerd__UpdateImageRequest request = CONTAINERD__UPDATE_IMAGE_REQUEST__INIT;
	Containerd__FieldMask mask = CONTAINERD__FIELD_MASK__INIT;
	const Containerd__ImageResponse *answer;

	mask.paths = paths;
	mask.n_paths = n;
	request.image = image;
	request.update_mask = &mask;
	return call(session, CONTAINERD_UPDATE_IMAGE, &request.base, &answer);
}

static int delete_image(struct session *session, const char *name)
{
	Containerd__DeleteImageRequest request = CONTAINERD__DELETE_IMAGE_REQUEST__INIT;
	const Containerd__ImageResponse *answer;
	int r;

	request.name = (char *)name;
	r = call(session, CONTAINERD_DELETE_IMAGE, &request.base, &answer);
	return r == -ENOENT ? 0 : r;
}

static int pull(struct session *session, const char *name)
{
	Cri__PullImageRequest request = CRI__PULL_IMAGE_REQUEST__INIT;
	Cri__ImageSpec spec = CRI__IMAGE_SPEC__INIT;
	const Cri__PullImageResponse *answer;

	spec.image = (char *)name;
	request.image = &spec;
	return call_for(session, UINT64_MAX, CRI_PULL, &request.base, &answer);
}

/* ---- the list ---- */

int images_list(const struct image_runtime *runtime, const struct wait *wait,
	struct runtime_image **ret, size_t *n, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_of(runtime, wait, why);
	const Cri__ListImagesResponse *list;
	struct runtime_image *images = NULL;
	size_t n_images = 0, allocated = 0;
	int r;

	if (runtime->kind == RUNTIME_DOCKER)
		return docker_read_images(runtime->socket, ret, n, wait, why);
	r = call(&session, CRI_IMAGES, NULL, &list);
	if (r < 0)
		return r;
	for (size_t i = 0; i < list->n_images; i++) {
		const Cri__Image *image = list->images[i];

		for (size_t k = 0; k < image->n_repo_tags + image->n_repo_digests; k++) {
			const char *name = k < image->n_repo_tags
						   ? image->repo_tags[k]
						   : image->repo_digests[k - image->n_repo_tags];
			struct runtime_image entry = {.size = image->size, .pinned = image->pinned};

			/* Ours are on their way to another name, and none of an archive is longer.
			 */
			if (strstr(name, "/" REPOSITORY "/") ||
				!copy_text(entry.name, sizeof(entry.name), name) ||
				!copy_text(entry.id, sizeof(entry.id), image->id))
				continue;
			text_make_printable(entry.name);
			*(struct runtime_image *)add_element(
				&images, &n_images, &allocated, sizeof(entry)) = entry;
		}
	}
	*ret = images;
	*n = n_images;
	return 0;
}

/* ---- pulling and loading ---- */

int images_pull(const struct image_runtime *runtime, const char *name, const struct wait *wait,
	char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_of(runtime, wait, why);

	if (runtime->kind == RUNTIME_DOCKER)
		return docker_pull(runtime->socket, name, wait, why);
	return pull(&session, name);
}

/* Another name for what one name is. */
static int add_name(struct session *session, const Containerd__Image *image, const char *name)
{
	Containerd__CreateImageRequest request = CONTAINERD__CREATE_IMAGE_REQUEST__INIT;
	Containerd__Image__LabelsEntry label = CONTAINERD__IMAGE__LABELS_ENTRY__INIT, *labels[1];
	Containerd__Image copy = CONTAINERD__IMAGE__INIT;
	char *paths[] = {(char *)"target", (char *)"labels." MANAGED_LABEL};
	const Containerd__ImageResponse *answer;
	int r;

	label.key = (char *)MANAGED_LABEL;
	label.value = (char *)MANAGED;
	labels[0] = &label;
	copy.name = (char *)name;
	copy.target = image->target;
	copy.labels = labels;
	copy.n_labels = 1;
	request.image = &copy;
	r = call(session, CONTAINERD_CREATE_IMAGE, &request.base, &answer);
	/* The name of another image so far, or of this one. */
	return r == -EEXIST ? update_image(session, &copy, paths, ARRAY_SIZE(paths)) : r;
}

/* Until the CRI, and so the kubelet, knows the image by its name. */
static int wait_for_name(struct session *session, const struct archive_image *wanted)
{
	struct wait limit = wait_at_most(&session->wait, KNOWN_US);
	const Cri__Image *image = NULL;

	for (;;) {
		struct wait pause = wait_at_most(&limit, POLL_US);
		int r = get_status(session, wanted->name, &image);

		if (r < 0 || (image && streq(image->id, wanted->id)))
			return r;
		r = wait_for(&pause, -1, 0);
		if (r == -ETIMEDOUT && pause.deadline_us < limit.deadline_us)
			continue;
		snprintf(session->why, IMAGES_WHY_MAX, "%s",
			r != -ETIMEDOUT ? strerror(-r)
			: image         ? "the runtime has another image of this name"
					: "it was loaded, and the CRI does not see it");
		return r;
	}
}

/* NAME:TAG as NAME@DIGEST. "" where that is what it is. */
static void digest_name(const struct archive_image *image, char name[static REFERENCE_MAX])
{
	const char *slash = strrchr(image->name, '/');
	const char *colon = strchr(slash ? slash : image->name, ':');
	int len = colon ? (int)(colon - image->name) : (int)strlen(image->name);

	name[0] = '\0';
	if (!strchr(image->name, '@'))
		snprintf(name, REFERENCE_MAX, "%.*s@%s", len, image->name, image->top);
}

/* The names that a pull would have given it. */
static int take_names(
	struct session *session, const char *reference, const struct archive_image *image)
{
	char digest[REFERENCE_MAX];
	Containerd__Image *pulled;
	int r = get_image(session, reference, &pulled);

	digest_name(image, digest);
	if (r == 0)
		r = add_name(session, pulled, image->name);
	if (r == 0 && digest[0])
		r = add_name(session, pulled, digest);
	return r == 0 ? wait_for_name(session, image) : r;
}

static int load_to_containerd(const struct image_runtime *runtime, const struct archive *archive,
	const struct archive_image *image, const struct wait *wait, _Atomic uint64_t *done,
	char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_of(runtime, wait, why);
	_cleanup_(cleanup_image_server_close) struct image_server *server = NULL;
	char hash[HASH_TEXT_MAX], repository[sizeof(REPOSITORY) + HASH_TEXT_MAX];
	char reference[REFERENCE_MAX], ignored[IMAGES_WHY_MAX];
	uint16_t port;
	int r;

	hash_bytes(image->name, strlen(image->name), hash);
	snprintf(repository, sizeof(repository), REPOSITORY "/%s", hash);
	r = image_server_open(archive, repository, done, &server, &port);
	if (r < 0) {
		snprintf(why, IMAGES_WHY_MAX, "no server on 127.0.0.1: %s", strerror(-r));
		return r;
	}
	snprintf(reference, sizeof(reference), "127.0.0.1:%u/%s@%s", port, repository, image->top);
	r = pull(&session, reference);
	if (r == 0)
		r = take_names(&session, reference, image);
	/* Whatever became of it, also when it was cancelled. */
	session.wait = (struct wait){now_us() + CLEAN_US, -1};
	session.why = ignored;
	delete_image(&session, reference);
	return r;
}

int images_load(const struct image_runtime *runtime, const struct archive *archive,
	const struct archive_image *image, const struct wait *wait, _Atomic uint64_t *done,
	char why[static IMAGES_WHY_MAX])
{
	_cleanup_(cleanup_archive_stream_close) struct archive_stream *stream = NULL;
	int r;

	switch (runtime->kind) {
	case RUNTIME_CONTAINERD:
		return load_to_containerd(runtime, archive, image, wait, done, why);
	case RUNTIME_DOCKER:
		r = archive_stream_open(archive, image, &stream, why);
		return r < 0 ? r : docker_load(runtime->socket, stream, done, wait, why);
	default:
		copy_text(why, IMAGES_WHY_MAX,
			"CRI-O takes no archives: push them to a registry, and list them in "
			"images.pull");
		return -EOPNOTSUPP;
	}
}

int images_clean(const struct image_runtime *runtime, const struct wait *wait,
	char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_of(runtime, wait, why);
	Containerd__ListImagesRequest request = CONTAINERD__LIST_IMAGES_REQUEST__INIT;
	char *filters[] = {(char *)"name~=\"/" REPOSITORY "/\""};
	const Containerd__ListImagesResponse *list;
	int r;

	if (runtime->kind != RUNTIME_CONTAINERD)
		return 0;
	request.filters = filters;
	request.n_filters = ARRAY_SIZE(filters);
	r = call(&session, CONTAINERD_IMAGES, &request.base, &list);
	for (size_t i = 0; r == 0 && i < list->n_images; i++)
		if (strstr(list->images[i]->name, "/" REPOSITORY "/"))
			r = delete_image(&session, list->images[i]->name);
	return r;
}

/* ---- pins ---- */

/* The labels as they are wanted; false where they are that. labels has room for one more. */
static bool change_pin(Containerd__Image *image, bool pinned, Containerd__Image__LabelsEntry *pin,
	Containerd__Image__LabelsEntry **labels)
{
	size_t n = 0;
	bool was = false;

	for (size_t i = 0; i < image->n_labels; i++) {
		if (!streq(image->labels[i]->key, PIN_LABEL))
			labels[n++] = image->labels[i];
		else
			was = streq(image->labels[i]->value, PINNED);
	}
	if (pinned)
		labels[n++] = pin;
	image->labels = labels;
	image->n_labels = n;
	return was != pinned;
}

static int pin_name(struct session *session, const char *name, bool pinned)
{
	Containerd__Image__LabelsEntry pin = CONTAINERD__IMAGE__LABELS_ENTRY__INIT;
	_cleanup_free_ Containerd__Image__LabelsEntry **labels = NULL;
	char *paths[] = {(char *)"labels"};
	Containerd__Image *image;
	int r = get_image(session, name, &image);

	if (r < 0)
		return r == -ENOENT ? 0 : r; /* removed meanwhile */
	pin.key = (char *)PIN_LABEL;
	pin.value = (char *)PINNED;
	labels = must(calloc(image->n_labels + 1, sizeof(*labels)));
	return change_pin(image, pinned, &pin, labels) ? update_image(session, image, paths, 1) : 0;
}

int images_pin(const struct image_runtime *runtime, const char *name, bool pinned,
	const struct wait *wait, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_of(runtime, wait, why);
	const Cri__Image *image;
	int r;

	if (runtime->kind != RUNTIME_CONTAINERD) {
		copy_text(why, IMAGES_WHY_MAX,
			runtime->kind == RUNTIME_DOCKER
				? "Docker has no pins"
				: "CRI-O pins what pinned_images in its configuration names");
		return -EOPNOTSUPP;
	}
	r = get_status(&session, name, &image);
	if (r == 0 && !image) {
		copy_text(why, IMAGES_WHY_MAX, "there is no such image");
		return -ENOENT;
	}
	if (r == 0)
		r = pin_name(&session, image->id, pinned);
	for (size_t i = 0; r == 0 && i < image->n_repo_tags; i++)
		r = pin_name(&session, image->repo_tags[i], pinned);
	for (size_t i = 0; r == 0 && i < image->n_repo_digests; i++)
		r = pin_name(&session, image->repo_digests[i], pinned);
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

/* ---- the image of sandboxes ---- */

int images_sandbox(const struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, char name[static IMAGE_NAME_MAX], char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_of(runtime, wait, why);
	_cleanup_(cleanup_cJSON_Delete) cJSON *config = NULL;
	struct wait bounded = wait_at_most(wait, CALL_US);
	char reference[IMAGE_NAME_MAX] = "", dump_why[CONTAINERD_WHY_MAX] = "";
	int r;

	if (runtime->kind == RUNTIME_DOCKER)
		return -ENODATA;
	r = cri_get_config(&session.cri, &bounded, &session.arena, &config);
	if (r != 0)
		return explain(&session, r);
	/* Also what CRI-O shows. */
	copy_text(reference, sizeof(reference), json_text_at(config, "sandboxImage"));
	if (!reference[0] && runtime->kind == RUNTIME_CONTAINERD)
		r = containerd_sandbox(host, session.cri.grpc.peer, &bounded, reference,
			sizeof(reference), dump_why);
	if (r < 0) {
		copy_text(why, IMAGES_WHY_MAX, dump_why);
		return r;
	}
	return reference[0] && image_normalize(reference, name) == 0 ? 0 : -ENODATA;
}
