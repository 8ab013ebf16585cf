/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/images.h"

#include "base/file.h"
#include "base/text.h"
#include "runtime/cri_client.h"
#include "runtime/docker.h"
#include "runtime/image_server.h"

#include <fcntl.h>
#include <sys/stat.h>

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
};

static struct session session_of(
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

	if (path_in_root(host->root, CERTS, certs) < 0)
		return false;
	snprintf(path, sizeof(path), "%s/_default/hosts.toml", certs);
	if (access(path, F_OK) < 0)
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

static void remove_hosts(const struct host *host)
{
	char path[PATH_MAX];

	if (path_in_root(host->root, CERTS "/" REGISTRY, path) == 0)
		(void)remove_tree(path);
}

/*
 * Removes our names and leases with this hash; "" for all. collect: what they kept goes at once,
 * else when containerd next collects garbage. Also those of a transfer before, whose runtime died.
 */
static int clean_containerd(struct session *session, const char *hash, bool collect)
{
	const Containerd__ListImagesResponse *images;
	const Containerd__ListLeasesResponse *leases;
	char filter[128];
	int r;

	snprintf(filter, sizeof(filter), "name~=\"/" IMAGES_REPOSITORY "/%s\"", hash);
	r = list(session, CONTAINERD_IMAGES, filter, &images);
	for (size_t i = 0; r == 0 && i < images->n_images; i++)
		r = delete (session, CONTAINERD_DELETE_IMAGE, images->images[i]->name, false);
	snprintf(filter, sizeof(filter), LEASES "%s\"", hash);
	if (r == 0)
		r = list(session, CONTAINERD_LEASES, filter, &leases);
	for (size_t i = 0; r == 0 && i < leases->n_leases; i++)
		r = delete (session, CONTAINERD_DELETE_LEASE, leases->leases[i]->id, collect);
	return r;
}

/* What Docker has half it removes by itself. */
static int clean_docker(struct session *session)
{
	const char *socket = session->runtime->socket;
	_cleanup_free_ struct runtime_image *images = NULL;
	size_t n = 0;
	int r = docker_read_images(socket, &images, &n, &session->wait, session->why);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (strstr(images[i].name, "/" IMAGES_REPOSITORY "/"))
			r = docker_remove_name(
				socket, images[i].name, &session->wait, session->why);
	return r;
}

static int clean(struct session *session, const struct host *host, const char *hash, bool collect)
{
	remove_hosts(host);
	return session->runtime->kind == RUNTIME_DOCKER ? clean_docker(session)
							: clean_containerd(session, hash, collect);
}

/* At the end of a transfer, even when it was cancelled. Its own error is the one that counts. */
static void tidy(
	const struct image_runtime *runtime, const struct host *host, const char *hash, bool failed)
{
	const struct wait wait = {now_us() + CLEAN_US, -1};
	char ignored[IMAGES_WHY_MAX];
	_cleanup_(session_end) struct session session = session_of(runtime, &wait, ignored);

	(void)clean(&session, host, hash, failed);
}

/*
 * What containerd fetched it keeps for a day where it dies meanwhile, by a lease of a random name.
 * With one of ours it is gone once we have tried again, or cleaned up.
 */
static int create_lease(struct session *session, const char *lease)
{
	Containerd__CreateLeaseRequest request = CONTAINERD__CREATE_LEASE_REQUEST__INIT;
	Containerd__CreateLeaseRequest__LabelsEntry expire =
		CONTAINERD__CREATE_LEASE_REQUEST__LABELS_ENTRY__INIT;
	Containerd__CreateLeaseRequest__LabelsEntry *labels[] = {&expire};
	const Containerd__Empty *answer;
	char time[TIME_TEXT_MAX];
	int r;

	time_text(realtime_us() + LEASE_US, time);
	expire.key = (char *)"containerd.io/gc.expire";
	expire.value = time;
	request.id = (char *)lease;
	request.labels = labels;
	request.n_labels = ARRAY_SIZE(labels);
	r = call(session, CONTAINERD_CREATE_LEASE, &request.base, &answer);
	return r == -EEXIST ? 0 : r;
}

/* What the name becomes known as is the runtime's affair, or the caller's. */
static int pull(struct session *session, const char *hash, const char *reference)
{
	Cri__PullImageRequest request = CRI__PULL_IMAGE_REQUEST__INIT;
	Cri__ImageSpec spec = CRI__IMAGE_SPEC__INIT;
	const Cri__PullImageResponse *answer;
	char lease[NAME_MAX];
	int r;

	snprintf(lease, sizeof(lease), IMAGES_REPOSITORY "-%s", hash);
	r = create_lease(session, lease);
	if (r < 0)
		return r;
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

/* Of our server; port 0: by the name for which there is a directory. */
static void reference_of(const struct archive_image *image, const char *hash, uint16_t port,
	char reference[static REFERENCE_MAX])
{
	char registry[32] = REGISTRY;

	if (port > 0)
		snprintf(registry, sizeof(registry), "127.0.0.1:%u", port);
	snprintf(reference, REFERENCE_MAX, "%s/" IMAGES_REPOSITORY "/%s@%s", registry, hash,
		image->top);
}

static int load_to_containerd(struct session *session, const struct host *host,
	const struct archive_image *image, const char *hash, uint16_t port,
	const _Atomic uint64_t *done)
{
	const uint64_t before = atomic_load(done);
	char reference[REFERENCE_MAX];
	bool retry = false;
	int r;

	reference_of(image, hash, port, reference);
	r = pull(session, hash, reference);
	/* Nobody asked our server. */
	if (atomic_load(done) == before && (r == -ENOENT || r == -EACCES || r == -EPROTO))
		retry = write_hosts(host, port);
	if (retry) {
		reference_of(image, hash, 0, reference);
		r = pull(session, hash, reference);
	}
	if (r == 0)
		return take_names(session, reference, image);
	if (atomic_load(done) == before && (r == -ENOENT || retry))
		copy_text(session->why, IMAGES_WHY_MAX,
			"containerd asks another server for images of 127.0.0.1: take `server` out "
			"of _default/hosts.toml, or let config_path begin with " CERTS);
	return r;
}

static int load_to_docker(
	struct session *session, const struct archive_image *image, const char *hash, uint16_t port)
{
	const char *socket = session->runtime->socket;
	char reference[REFERENCE_MAX];
	int r;

	reference_of(image, hash, port, reference);
	r = docker_pull(socket, reference, &session->wait, session->why);
	if (r == 0)
		r = docker_add_name(socket, image->id, image->name, &session->wait, session->why);
	return r;
}

int images_load(const struct image_runtime *runtime, const struct host *host,
	const struct archive *archive, const struct archive_image *image, const struct wait *wait,
	_Atomic uint64_t *done, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_of(runtime, wait, why);
	_cleanup_(cleanup_image_server_close) struct image_server *server = NULL;
	char hash[HASH_TEXT_MAX], repository[NAME_MAX];
	uint16_t port;
	int r;

	hash_bytes(image->name, strlen(image->name), hash);
	snprintf(repository, sizeof(repository), IMAGES_REPOSITORY "/%s", hash);
	r = image_server_open(archive, repository, done, &server, &port);
	if (r < 0) {
		snprintf(why, IMAGES_WHY_MAX, "no server on 127.0.0.1: %s", strerror(-r));
		return r;
	}
	r = runtime->kind == RUNTIME_DOCKER
		    ? load_to_docker(&session, image, hash, port)
		    : load_to_containerd(&session, host, image, hash, port, done);
	tidy(runtime, host, hash, r < 0);
	return r;
}

int images_pull(const struct image_runtime *runtime, const struct host *host, const char *name,
	const struct wait *wait, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_of(runtime, wait, why);
	char hash[HASH_TEXT_MAX];
	int r;

	if (runtime->kind == RUNTIME_DOCKER)
		return docker_pull(runtime->socket, name, wait, why);
	hash_bytes(name, strlen(name), hash);
	r = pull(&session, hash, name);
	tidy(runtime, host, hash, r < 0);
	return r;
}

int images_clean(const struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(session_end) struct session session = session_of(runtime, wait, why);

	return clean(&session, host, "", true);
}

bool images_has_leases(const struct image_runtime *runtime, const struct wait *wait)
{
	char why[IMAGES_WHY_MAX];
	_cleanup_(session_end) struct session session = session_of(runtime, wait, why);
	const Containerd__ListLeasesResponse *leases;

	return runtime->kind == RUNTIME_CONTAINERD &&
	       list(&session, CONTAINERD_LEASES, LEASES "\"", &leases) == 0 && leases->n_leases > 0;
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
		copy_text(why, IMAGES_WHY_MAX, "Docker has no pins");
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
