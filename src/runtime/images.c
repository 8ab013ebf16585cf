/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/images.h"

#include "base/text.h"
#include "runtime/cri_client.h"
#include "runtime/docker.h"
#include "runtime/image_server.h"

#define NAMESPACE "k8s.io" /* of the CRI in containerd */

/* Both from containerd's pkg/cri/labels: what the CRI looks after, and what it does not collect. */
#define MANAGED_LABEL "io.cri-containerd.image"
#define MANAGED       "managed"
#define PIN_LABEL     "io.cri-containerd.pinned"
#define PINNED        "pinned"

#define CALL_US  (10 * USEC_PER_SEC)  /* of any call but a pull */
#define CLEAN_US (USEC_PER_SEC / 2)   /* of those that go on after a cancellation */
#define KNOWN_US (30 * USEC_PER_SEC)  /* until the CRI knows a new name: it gets events */
#define POLL_US  (50 * USEC_PER_MSEC) /* asking for that */

#define LEASE_US (24 * 3600 * USEC_PER_SEC) /* longer than any transfer */

#define REFERENCE_MAX (2 * IMAGE_NAME_MAX)
#define LEASE_MAX     (sizeof(IMAGES_REPOSITORY) + HASH_TEXT_MAX)

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
	Containerd__NameRequest request = CONTAINERD__NAME_REQUEST__INIT;
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

/*
 * Creates a name, or changes one label of it (value "" removes that) and, with n_paths 2, what it
 * is a name of.
 */
static int write_image(struct session *session, enum cri_call which, const char *name,
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
	return call(session, which, &request.base, &answer);
}

/* A status of the runtime's, or -errno; 0 also for what is not there. */
static int delete (struct session *session, const struct wait *wait, enum cri_call which,
	const char *name, bool collect)
{
	Containerd__NameRequest request = CONTAINERD__NAME_REQUEST__INIT;
	const Containerd__Empty *answer;
	int r;

	request.name = (char *)name;
	request.sync = collect;
	r = cri_call(
		&session->cri, wait, &session->arena, which, NAMESPACE, &request.base, &answer);
	return r == GRPC_NOT_FOUND ? 0 : r;
}

/*
 * Removes our names and leases with this hash; "" for all. collect: what they kept goes at once,
 * else when containerd next collects garbage. Also those of a load before, whose runtime died.
 * Returns as delete() does.
 */
static int clean(struct session *session, const struct wait *wait, const char *hash, bool collect)
{
	char name_text[128], lease_text[128];
	char *name_filter = name_text, *lease_filter = lease_text;
	Containerd__FilterRequest names = CONTAINERD__FILTER_REQUEST__INIT;
	Containerd__FilterRequest leases = CONTAINERD__FILTER_REQUEST__INIT;
	const Containerd__ListImagesResponse *images;
	const Containerd__ListLeasesResponse *left;
	struct cri *cri = &session->cri;
	struct arena *arena = &session->arena;
	int r;

	snprintf(name_text, sizeof(name_text), "name~=\"/" IMAGES_REPOSITORY "/%s\"", hash);
	snprintf(lease_text, sizeof(lease_text), "id~=\"^" IMAGES_REPOSITORY "-%s\"", hash);
	names.filters = &name_filter;
	leases.filters = &lease_filter;
	names.n_filters = leases.n_filters = 1;
	r = cri_call(cri, wait, arena, CONTAINERD_IMAGES, NAMESPACE, &names.base, &images);
	if (r == 0)
		r = cri_call(cri, wait, arena, CONTAINERD_LEASES, NAMESPACE, &leases.base, &left);
	if (r != 0)
		return r;
	for (size_t i = 0; i < images->n_images && r == 0; i++)
		r = delete (session, wait, CONTAINERD_DELETE_IMAGE, images->images[i]->name, false);
	for (size_t i = 0; i < left->n_leases && r == 0; i++)
		r = delete (session, wait, CONTAINERD_DELETE_LEASE, left->leases[i]->id, collect);
	return r;
}

/* At the end of a transfer, even when it was cancelled. Its own error is the one that counts. */
static void tidy(struct session *session, const char *hash, bool failed)
{
	const struct wait wait = {now_us() + CLEAN_US, -1};

	(void)clean(session, &wait, hash, failed);
}

/*
 * What containerd fetched it keeps for a day where it dies meanwhile, by a lease of a random name.
 * With one of ours it is gone once we have tried again, or cleaned up.
 */
static int create_lease(struct session *session, const char *hash, char lease[static LEASE_MAX])
{
	Containerd__CreateLeaseRequest request = CONTAINERD__CREATE_LEASE_REQUEST__INIT;
	Containerd__CreateLeaseRequest__LabelsEntry expire =
		CONTAINERD__CREATE_LEASE_REQUEST__LABELS_ENTRY__INIT;
	Containerd__CreateLeaseRequest__LabelsEntry *labels[] = {&expire};
	const Containerd__Empty *answer;
	char time[TIME_TEXT_MAX];
	int r;

	snprintf(lease, LEASE_MAX, IMAGES_REPOSITORY "-%s", hash);
	time_text(realtime_us() + LEASE_US, time);
	expire.key = (char *)"containerd.io/gc.expire";
	expire.value = time;
	request.id = lease;
	request.labels = labels;
	request.n_labels = ARRAY_SIZE(labels);
	r = call(session, CONTAINERD_CREATE_LEASE, &request.base, &answer);
	return r == -EEXIST ? 0 : r;
}

/* What the name becomes known as is the runtime's affair, or the caller's. */
static int pull(struct session *session, const char *reference, const char *lease)
{
	Cri__PullImageRequest request = CRI__PULL_IMAGE_REQUEST__INIT;
	Cri__ImageSpec spec = CRI__IMAGE_SPEC__INIT;
	const Cri__PullImageResponse *answer;
	int r;

	spec.image = (char *)reference;
	request.image = &spec;
	session->cri.lease = lease;
	r = call_for(session, UINT64_MAX, CRI_PULL, &request.base, &answer);
	session->cri.lease = NULL;
	return r;
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

			/* No name of an archive is longer. */
			if (!copy_text(entry.name, sizeof(entry.name), name) ||
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
	return pull(&session, name, NULL);
}

/* Another name for what one name is; or that of another image so far, or of this one. */
static int add_name(struct session *session, const char *name, Containerd__Descriptor *target)
{
	int r = write_image(
		session, CONTAINERD_CREATE_IMAGE, name, target, MANAGED_LABEL, MANAGED, 0);

	if (r == -EEXIST)
		r = write_image(
			session, CONTAINERD_UPDATE_IMAGE, name, target, MANAGED_LABEL, MANAGED, 2);
	return r;
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
		r = add_name(session, image->name, pulled->target);
	if (r == 0 && digest[0])
		r = add_name(session, digest, pulled->target);
	return r == 0 ? wait_for_name(session, image) : r;
}

static int load_to_containerd(const struct image_runtime *runtime, const struct archive *archive,
	const struct archive_image *image, const struct wait *wait, _Atomic uint64_t *done,
	char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_of(runtime, wait, why);
	_cleanup_(cleanup_image_server_close) struct image_server *server = NULL;
	char hash[HASH_TEXT_MAX], lease[LEASE_MAX], repository[LEASE_MAX];
	char reference[REFERENCE_MAX];
	uint16_t port;
	int r;

	hash_bytes(image->name, strlen(image->name), hash);
	snprintf(repository, sizeof(repository), IMAGES_REPOSITORY "/%s", hash);
	r = image_server_open(archive, repository, done, &server, &port);
	if (r < 0) {
		snprintf(why, IMAGES_WHY_MAX, "no server on 127.0.0.1: %s", strerror(-r));
		return r;
	}
	snprintf(reference, sizeof(reference), "127.0.0.1:%u/%s@%s", port, repository, image->top);
	r = create_lease(&session, hash, lease);
	if (r == 0)
		r = pull(&session, reference, lease);
	if (r == -ENOENT) /* not by our server: it has what it is asked for */
		copy_text(why, IMAGES_WHY_MAX,
			"containerd asks another server for images of 127.0.0.1: take `server` out "
			"of certs.d/_default/hosts.toml");
	if (r == 0)
		r = take_names(&session, reference, image);
	tidy(&session, hash, r < 0);
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
	struct wait bounded = wait_at_most(wait, CALL_US);
	int r = runtime->kind == RUNTIME_CONTAINERD ? clean(&session, &bounded, "", true) : 0;

	return r == 0 ? 0 : explain(&session, r);
}

/* ---- pins ---- */

int images_pin(const struct image_runtime *runtime, const char *name, bool pinned,
	const struct wait *wait, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_of(runtime, wait, why);
	Containerd__Image *image;
	bool is = false;
	int r;

	if (runtime->kind != RUNTIME_CONTAINERD) {
		copy_text(why, IMAGES_WHY_MAX,
			runtime->kind == RUNTIME_DOCKER
				? "Docker has no pins"
				: "CRI-O pins what pinned_images in its configuration names");
		return -EOPNOTSUPP;
	}
	r = get_image(&session, name, &image);
	for (size_t i = 0; r == 0 && i < image->n_labels; i++)
		is = is || (streq(image->labels[i]->key, PIN_LABEL) &&
				   streq(image->labels[i]->value, PINNED));
	if (r == 0 && is != pinned)
		r = write_image(&session, CONTAINERD_UPDATE_IMAGE, name, image->target, PIN_LABEL,
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
