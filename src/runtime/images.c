/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/images.h"

#include "base/file.h"
#include "base/text.h"
#include "runtime/cri_client.h"
#include "runtime/docker.h"

#define NAMESPACE "k8s.io" /* of the CRI in containerd */

/* From containerd's pkg/cri/labels: what the CRI looks after, and what it does not collect. */
#define MANAGED_LABEL "io.cri-containerd.image"
#define MANAGED       "managed"
#define PIN_LABEL     "io.cri-containerd.pinned"

#define CALL_US  (10 * USEC_PER_SEC)        /* of any call but a pull */
#define CLEAN_US (USEC_PER_SEC / 2)         /* of calls that go on after a cancellation */
#define KNOWN_US (30 * USEC_PER_SEC)        /* until the CRI knows a new name: it gets events */
#define POLL_US  (50 * USEC_PER_MSEC)       /* asking for that */
#define LEASE_US (24 * 3600 * USEC_PER_SEC) /* longer than any transfer */

#define REFERENCE_MAX (2 * IMAGE_NAME_MAX)
#define LEASES        "id~=\"^" IMAGES_REPOSITORY "-" /* a filter's begin */

/* Where containerd finds a registry's server, and a registry that is none. */
#define CERTS    "/etc/containerd/certs.d"
#define REGISTRY "headroom.invalid"

/* With the runtime, from one call of images.h to its return. */
struct session {
	struct cri cri;
	struct arena arena;
	const struct image_runtime *runtime;
	struct wait wait;
	char *why;
	char hash[HASH_TEXT_MAX]; /* of a transfer: in its names and lease */
};

static struct session session_open(
	const struct image_runtime *runtime, const struct wait *wait, char *why)
{
	struct session session = {.runtime = runtime, .wait = *wait, .why = why};

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

/*
 * A pull takes as long as the session waits. The answer lives as long as the session. 0, or -errno
 * with why.
 */
static int call(
	struct session *session, enum cri_call which, const ProtobufCMessage *message, void *ret)
{
	struct wait wait = wait_at_most(&session->wait, which == CRI_PULL ? UINT64_MAX : CALL_US);
	int r = cri_call(&session->cri, &wait, &session->arena, which, NAMESPACE, message, ret);
	char *text = session->cri.grpc.error, *next;

	if (r == 0)
		return 0;
	/* One cause in another: where it is too long, the innermost tells most. */
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

/* Of containerd's own service. */
static int get_image(struct session *session, const char *name, Containerd__Image **image)
{
	Containerd__NameRequest request = CONTAINERD__NAME_REQUEST__INIT;
	const Containerd__ImageResponse *answer;
	int r;

	request.name = (char *)name;
	r = call(session, CONTAINERD_GET_IMAGE, &request.base, &answer);
	if (r < 0)
		return r;
	if (!answer->image || !answer->image->target) {
		copy_text(session->why, IMAGES_WHY_MAX, "containerd shows an image without target");
		return -EBADMSG;
	}
	*image = answer->image;
	return 0;
}

/*
 * With n_paths 0 creates a name, with 1 changes one label of it (value "" removes that), with 2
 * also what it is a name of.
 */
static int write_image(struct session *session, const char *name, Containerd__Descriptor *target,
	const char *key, const char *value, size_t n_paths)
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
	request.update_mask = n_paths > 0 ? &mask : NULL;
	return call(session, n_paths > 0 ? CONTAINERD_UPDATE_IMAGE : CONTAINERD_CREATE_IMAGE,
		&request.base, &answer);
}

/* ---- the list, and pins ---- */

int images_list(const struct image_runtime *runtime, const struct wait *wait,
	struct runtime_image **ret, size_t *n, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_open(runtime, wait, why);
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
			*add_element(&images, &n_images, &allocated) = entry;
		}
	}
	*ret = images;
	*n = n_images;
	return 0;
}

int images_pin(const struct image_runtime *runtime, const char *name, bool pinned,
	const struct wait *wait, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_open(runtime, wait, why);
	Containerd__Image *image;
	int r = get_image(&session, name, &image);
	bool is = false;

	for (size_t i = 0; r == 0 && i < image->n_labels; i++)
		is = is || (streq(image->labels[i]->key, PIN_LABEL) &&
				   streq(image->labels[i]->value, PINNED));
	if (r == 0 && is != pinned)
		r = write_image(&session, name, image->target, PIN_LABEL, pinned ? PINNED : "", 1);
	return r;
}

/* ---- what a transfer leaves ---- */

/* 0 also for what is not there. */
static int delete (struct session *session, enum cri_call which, const char *name, bool collect)
{
	Containerd__NameRequest request = CONTAINERD__NAME_REQUEST__INIT;
	const Containerd__Empty *answer;
	int r;

	request.name = (char *)name;
	request.sync = collect;
	r = call(session, which, &request.base, &answer);
	return r == -ENOENT ? 0 : r;
}

/* The images or leases that match a filter. */
static int list(struct session *session, enum cri_call which, const char *filter, void *ret)
{
	Containerd__FilterRequest request = CONTAINERD__FILTER_REQUEST__INIT;
	char *filters[] = {(char *)filter};

	request.filters = filters;
	request.n_filters = ARRAY_SIZE(filters);
	return call(session, which, &request.base, ret);
}

/*
 * `server` in certs.d/_default/hosts.toml leads pulls from 127.0.0.1 to another server, but not
 * those from a registry that has a directory of its own.
 */
static bool write_hosts(const struct host *host, uint16_t port)
{
	char certs[PATH_MAX], path[PATH_MAX + NAME_MAX], text[128];
	_cleanup_close_ int fd = -1;

	if (path_in_root(host->root, CERTS "/_default/hosts.toml", certs) < 0 ||
		path_in_root(host->root, CERTS, certs) < 0)
		return false;
	snprintf(path, sizeof(path), "%s/" REGISTRY, certs);
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return false;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* containerd 1.6 wants a host besides. */
	snprintf(text, sizeof(text),
		"server = \"http://127.0.0.1:%u\"\n[host.\"http://127.0.0.1:%u\"]\n", port, port);
	return fd >= 0 && write_file_atomic(fd, "hosts.toml", text, strlen(text)) == 0;
}

void images_remove_hosts(const struct host *host)
{
	char path[PATH_MAX];

	if (path_in_root(host->root, CERTS "/" REGISTRY, path) == 0)
		(void)remove_tree(path);
}

/* Whether a name is one of ours that a load gives for a while. */
static bool is_ours(const char *name)
{
	return (starts_with(name, "127.0.0.1:") || starts_with(name, REGISTRY "/")) &&
	       strstr(name, "/" IMAGES_REPOSITORY "/");
}

/*
 * Removes our names and leases of this transfer, or all. collect: what they kept goes at once, else
 * when containerd next collects garbage. Also those of a transfer before, whose runtime died.
 */
static int clean(struct session *session, bool collect)
{
	const char *socket = session->runtime->socket;
	_cleanup_free_ struct runtime_image *names = NULL;
	const Containerd__ListImagesResponse *images;
	const Containerd__ListNamedResponse *leases;
	char filter[128];
	size_t n = 0;
	int r;

	if (session->runtime->kind == RUNTIME_DOCKER) {
		/* What it has half it removes by itself. */
		r = docker_read_images(socket, &names, &n, &session->wait, session->why);
		for (size_t i = 0; r == 0 && i < n; i++)
			if (is_ours(names[i].name))
				r = docker_remove_name(
					socket, names[i].name, &session->wait, session->why);
		return r;
	}
	snprintf(filter, sizeof(filter), "name~=\"^(127.0.0.1:[0-9]+|" REGISTRY ")/%s/%s\"",
		IMAGES_REPOSITORY, session->hash);
	r = list(session, CONTAINERD_IMAGES, filter, &images);
	for (size_t i = 0; r == 0 && i < images->n_images; i++)
		r = delete (session, CONTAINERD_DELETE_IMAGE, images->images[i]->name, false);
	snprintf(filter, sizeof(filter), LEASES "%s\"", session->hash);
	if (r == 0)
		r = list(session, CONTAINERD_LEASES, filter, &leases);
	for (size_t i = 0; r == 0 && i < leases->n_items; i++)
		r = delete (session, CONTAINERD_DELETE_LEASE, leases->items[i]->name, collect);
	return r;
}

/*
 * The end of a transfer and of its session, even when it was cancelled. Its own error is the one
 * that counts.
 */
static void tidy(struct session *session, bool failed)
{
	char ignored[IMAGES_WHY_MAX];

	arena_free(&session->arena);
	session->wait = (struct wait){now_us() + CLEAN_US, -1};
	session->why = ignored;
	(void)clean(session, failed);
}

/* ---- pulling ---- */

/*
 * What the name becomes known as is the runtime's affair, or the caller's. What containerd fetched
 * it keeps for a day where it dies meanwhile, by a lease of a random name. With one of ours it is
 * gone once we have tried again, or cleaned up.
 */
static int pull(struct session *session, const char *reference)
{
	Containerd__CreateLeaseRequest creation = CONTAINERD__CREATE_LEASE_REQUEST__INIT;
	Containerd__CreateLeaseRequest__LabelsEntry expire =
		CONTAINERD__CREATE_LEASE_REQUEST__LABELS_ENTRY__INIT;
	Containerd__CreateLeaseRequest__LabelsEntry *labels[] = {&expire};
	Cri__ImageRequest request = CRI__IMAGE_REQUEST__INIT;
	Cri__ImageSpec spec = CRI__IMAGE_SPEC__INIT;
	char lease[NAME_MAX], time[TIME_TEXT_MAX];
	const ProtobufCMessage *answer;
	int r;

	snprintf(lease, sizeof(lease), IMAGES_REPOSITORY "-%s", session->hash);
	time_text(realtime_us() + LEASE_US, time);
	expire.key = (char *)"containerd.io/gc.expire";
	expire.value = time;
	creation.id = lease;
	creation.labels = labels;
	creation.n_labels = ARRAY_SIZE(labels);
	r = call(session, CONTAINERD_CREATE_LEASE, &creation.base, &answer);
	if (r < 0 && r != -EEXIST)
		return r;
	spec.image = (char *)reference;
	request.image = &spec;
	session->cri.lease = lease;
	r = call(session, CRI_PULL, &request.base, &answer);
	session->cri.lease = NULL;
	return r;
}

/* ---- loading ---- */

/* Another name for what one name is; or that of another image so far, or of this one. */
static int add_name(struct session *session, const char *name, Containerd__Descriptor *target)
{
	int r = write_image(session, name, target, MANAGED_LABEL, MANAGED, 0);

	if (r == -EEXIST)
		r = write_image(session, name, target, MANAGED_LABEL, MANAGED, 2);
	return r;
}

/* Until the CRI, and so the kubelet, knows the image by its name. */
static int wait_for_name(struct session *session, const struct archive_image *wanted)
{
	struct wait limit = wait_at_most(&session->wait, KNOWN_US);
	Cri__ImageRequest request = CRI__IMAGE_REQUEST__INIT;
	Cri__ImageSpec spec = CRI__IMAGE_SPEC__INIT;
	const Cri__ImageStatusResponse *status;

	spec.image = (char *)wanted->name;
	request.image = &spec;
	for (;;) {
		struct wait pause = wait_at_most(&limit, POLL_US);
		int r = call(session, CRI_IMAGE, &request.base, &status);

		if (r < 0 || (status->image && streq(status->image->id, wanted->id)))
			return r;
		r = wait_for(&pause, -1, 0);
		if (r == -ETIMEDOUT && pause.deadline_us < limit.deadline_us)
			continue;
		snprintf(session->why, IMAGES_WHY_MAX, "%s",
			r != -ETIMEDOUT ? strerror(-r)
			: status->image ? "the runtime has another image of this name"
					: "it was loaded, and the CRI does not see it");
		return r;
	}
}

/* An error of a registry's, and nobody asked our server. */
static bool is_from_elsewhere(int r, const _Atomic uint64_t *done, uint64_t before)
{
	return atomic_load(done) == before && (r == -ENOENT || r == -EACCES || r == -EPROTO);
}

static int load_to_containerd(struct session *session, const struct host *host,
	const struct archive_image *image, const char *reference, uint16_t port,
	const _Atomic uint64_t *done)
{
	const uint64_t before = atomic_load(done);
	char other[REFERENCE_MAX], digest[REFERENCE_MAX];
	Containerd__Image *pulled;
	int r = pull(session, reference);
	bool retry = is_from_elsewhere(r, done, before) && write_hosts(host, port);

	if (retry) {
		/* By the name for which there is a directory. */
		snprintf(other, sizeof(other), REGISTRY "%s", strchr(reference, '/'));
		reference = other;
		r = pull(session, reference);
	}
	if (is_from_elsewhere(r, done, before) && (r == -ENOENT || retry))
		copy_text(session->why, IMAGES_WHY_MAX,
			"containerd asks another server for images of 127.0.0.1: take `server` out "
			"of _default/hosts.toml, or let config_path begin with " CERTS);
	/* The names that a pull would have given it: also NAME@DIGEST. */
	if (r == 0)
		r = get_image(session, reference, &pulled);
	if (r == 0)
		r = add_name(session, image->name, pulled->target);
	if (r == 0 && !strchr(image->name, '@')) {
		snprintf(digest, sizeof(digest), "%.*s@%s",
			(int)(strrchr(image->name, ':') - image->name), image->name, image->top);
		r = add_name(session, digest, pulled->target);
	}
	return r == 0 ? wait_for_name(session, image) : r;
}

int images_load(const struct image_runtime *runtime, const struct host *host,
	const struct archive *archive, const struct archive_image *image, const struct wait *wait,
	_Atomic uint64_t *done, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_open(runtime, wait, why);
	_cleanup_(cleanup_image_server_close) struct image_server *server = NULL;
	char repository[NAME_MAX], reference[REFERENCE_MAX];
	uint16_t port;
	int r;

	hash_bytes(image->name, strlen(image->name), session.hash);
	snprintf(repository, sizeof(repository), IMAGES_REPOSITORY "/%s", session.hash);
	r = image_server_open(archive, repository, done, &server, &port);
	if (r < 0) {
		snprintf(why, IMAGES_WHY_MAX, "no server on 127.0.0.1: %s", strerror(-r));
		return r;
	}
	snprintf(reference, sizeof(reference), "127.0.0.1:%u/%s@%s", port, repository, image->top);
	if (runtime->kind == RUNTIME_DOCKER) {
		r = docker_pull(runtime->socket, reference, wait, why);
		if (r == 0)
			r = docker_add_name(runtime->socket, reference, image->name, wait, why);
	} else {
		r = load_to_containerd(&session, host, image, reference, port, done);
	}
	images_remove_hosts(host);
	tidy(&session, r < 0);
	return r;
}

int images_pull(const struct image_runtime *runtime, const char *name, const struct wait *wait,
	char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_open(runtime, wait, why);
	int r;

	if (runtime->kind == RUNTIME_DOCKER)
		return docker_pull(runtime->socket, name, wait, why);
	hash_bytes(name, strlen(name), session.hash);
	r = pull(&session, name);
	tidy(&session, r < 0);
	return r;
}

int images_clean(const struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_open(runtime, wait, why);

	images_remove_hosts(host);
	return clean(&session, true);
}

bool images_has_leftovers(const struct image_runtime *runtime, const struct wait *wait,
	const struct runtime_image *images, size_t n)
{
	char why[IMAGES_WHY_MAX];
	_cleanup_(session_end) struct session session = session_open(runtime, wait, why);
	const Containerd__ListNamedResponse *leases;

	for (size_t i = 0; i < n; i++)
		if (is_ours(images[i].name))
			return true;
	return runtime->kind == RUNTIME_CONTAINERD &&
	       list(&session, CONTAINERD_LEASES, LEASES "\"", &leases) == 0 && leases->n_items > 0;
}
