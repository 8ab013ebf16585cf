/* SPDX-License-Identifier: Apache-2.0 */

/* How runtimes get images. */

#include "base/file.h"
#include "base/text.h"
#include "runtime/docker.h"
#include "runtime/image_server.h"
#include "runtime/images_internal.h"

/* From containerd's pkg/cri/labels: what the CRI looks after. */
#define MANAGED_LABEL "io.cri-containerd.image"
#define MANAGED       "managed"

#define CLEAN_US (USEC_PER_SEC / 2)   /* of calls that go on after a cancellation */
#define KNOWN_US (30 * USEC_PER_SEC)  /* until the CRI knows a new name: it gets events */
#define POLL_US  (50 * USEC_PER_MSEC) /* asking for that */

#define LEASE_US (24 * 3600 * USEC_PER_SEC) /* longer than any transfer */

#define REFERENCE_MAX (2 * IMAGE_NAME_MAX)
#define LEASES        "id~=\"^" IMAGES_REPOSITORY "-" /* a filter's begin */

/* Where containerd finds a registry's server, and a registry that is none. */
#define CERTS    "/etc/containerd/certs.d"
#define REGISTRY "headroom.invalid"

/* ---- what a transfer leaves ---- */

/* 0 also for what is not there. */
static int delete (struct session *session, enum cri_call which, const char *name, bool collect)
{
	Containerd__NameRequest request = CONTAINERD__NAME_REQUEST__INIT;
	const Containerd__Empty *answer;
	int r;

	request.name = (char *)name;
	request.sync = collect;
	r = images_call(session, which, &request.base, &answer);
	return r == -ENOENT ? 0 : r;
}

/* The images or leases that match a filter. */
static int list(struct session *session, enum cri_call which, const char *filter, void *ret)
{
	Containerd__FilterRequest request = CONTAINERD__FILTER_REQUEST__INIT;
	char *filters[] = {(char *)filter};

	request.filters = filters;
	request.n_filters = ARRAY_SIZE(filters);
	return images_call(session, which, &request.base, ret);
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

void images_remove_hosts(const struct host *host)
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
	const Containerd__ListNamedResponse *leases;
	char filter[128];
	int r;

	snprintf(filter, sizeof(filter), "name~=\"^(127.0.0.1:[0-9]+|" REGISTRY ")/%s/%s\"",
		IMAGES_REPOSITORY, hash);
	r = list(session, CONTAINERD_IMAGES, filter, &images);
	for (size_t i = 0; r == 0 && i < images->n_images; i++)
		r = delete (session, CONTAINERD_DELETE_IMAGE, images->images[i]->name, false);
	snprintf(filter, sizeof(filter), LEASES "%s\"", hash);
	if (r == 0)
		r = list(session, CONTAINERD_LEASES, filter, &leases);
	for (size_t i = 0; r == 0 && i < leases->n_items; i++)
		r = delete (session, CONTAINERD_DELETE_LEASE, leases->items[i]->name, collect);
	return r;
}

bool images_is_ours(const char *name)
{
	return (starts_with(name, "127.0.0.1:") || starts_with(name, REGISTRY "/")) &&
	       strstr(name, "/" IMAGES_REPOSITORY "/");
}

/* What Docker has half it removes by itself. */
static int clean_docker(struct session *session)
{
	const char *socket = session->runtime->socket;
	_cleanup_free_ struct runtime_image *images = NULL;
	size_t n = 0;
	int r = docker_read_images(socket, &images, &n, &session->wait, session->why);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (images_is_ours(images[i].name))
			r = docker_remove_name(
				socket, images[i].name, &session->wait, session->why);
	return r;
}

static int clean(struct session *session, const char *hash, bool collect)
{
	return session->runtime->kind == RUNTIME_DOCKER ? clean_docker(session)
							: clean_containerd(session, hash, collect);
}

/* At the end of a transfer, even when it was cancelled. Its own error is the one that counts. */
static void tidy(const struct image_runtime *runtime, const char *hash, bool failed)
{
	const struct wait wait = {now_us() + CLEAN_US, -1};
	char ignored[IMAGES_WHY_MAX];
	_cleanup_(images_session_end) struct session session =
		images_session(runtime, &wait, ignored);

	(void)clean(&session, hash, failed);
}

/* ---- pulling ---- */

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
	r = images_call(session, CONTAINERD_CREATE_LEASE, &request.base, &answer);
	return r == -EEXIST ? 0 : r;
}

/* What the name becomes known as is the runtime's affair, or the caller's. */
static int pull(struct session *session, const char *hash, const char *reference)
{
	Cri__ImageRequest request = CRI__IMAGE_REQUEST__INIT;
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
	r = images_call(session, CRI_PULL, &request.base, &answer);
	session->cri.lease = NULL;
	return r;
}

/* ---- loading ---- */

/* Another name for what one name is; or that of another image so far, or of this one. */
static int add_name(struct session *session, const char *name, Containerd__Descriptor *target)
{
	int r = images_write(
		session, CONTAINERD_CREATE_IMAGE, name, target, MANAGED_LABEL, MANAGED, 0);

	if (r == -EEXIST)
		r = images_write(
			session, CONTAINERD_UPDATE_IMAGE, name, target, MANAGED_LABEL, MANAGED, 2);
	return r;
}

/* What the CRI has by this name; NULL for nothing. */
static int get_status(struct session *session, const char *name, const Cri__Image **image)
{
	Cri__ImageRequest request = CRI__IMAGE_REQUEST__INIT;
	Cri__ImageSpec spec = CRI__IMAGE_SPEC__INIT;
	const Cri__ImageStatusResponse *status;
	int r;

	spec.image = (char *)name;
	request.image = &spec;
	r = images_call(session, CRI_IMAGE, &request.base, &status);
	if (r == 0)
		*image = status->image;
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

/* The names that a pull would have given it: also NAME@DIGEST. */
static int take_names(
	struct session *session, const char *reference, const struct archive_image *image)
{
	int len = (int)(strrchr(image->name, ':') - image->name);
	char digest[REFERENCE_MAX];
	Containerd__Image *pulled;
	int r = images_get(session, reference, &pulled);

	snprintf(digest, sizeof(digest), "%.*s@%s", len, image->name, image->top);
	if (r == 0)
		r = add_name(session, image->name, pulled->target);
	if (r == 0 && !strchr(image->name, '@'))
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

/* An error of a registry's, and nobody asked our server. */
static bool is_from_elsewhere(int r, const _Atomic uint64_t *done, uint64_t before)
{
	return atomic_load(done) == before && (r == -ENOENT || r == -EACCES || r == -EPROTO);
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
	if (is_from_elsewhere(r, done, before))
		retry = write_hosts(host, port);
	if (retry) {
		reference_of(image, hash, 0, reference);
		r = pull(session, hash, reference);
	}
	if (r == 0)
		return take_names(session, reference, image);
	if (is_from_elsewhere(r, done, before) && (r == -ENOENT || retry))
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
		r = docker_add_name(socket, reference, image->name, &session->wait, session->why);
	return r;
}

int images_load(const struct image_runtime *runtime, const struct host *host,
	const struct archive *archive, const struct archive_image *image, const struct wait *wait,
	_Atomic uint64_t *done, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(images_session_end) struct session session = images_session(runtime, wait, why);
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
	images_remove_hosts(host);
	tidy(runtime, hash, r < 0);
	return r;
}

int images_pull(const struct image_runtime *runtime, const char *name, const struct wait *wait,
	char why[static IMAGES_WHY_MAX])
{
	_cleanup_(images_session_end) struct session session = images_session(runtime, wait, why);
	char hash[HASH_TEXT_MAX];
	int r;

	if (runtime->kind == RUNTIME_DOCKER)
		return docker_pull(runtime->socket, name, wait, why);
	hash_bytes(name, strlen(name), hash);
	r = pull(&session, hash, name);
	tidy(runtime, hash, r < 0);
	return r;
}

int images_clean(const struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(images_session_end) struct session session = images_session(runtime, wait, why);

	images_remove_hosts(host);
	return clean(&session, "", true);
}

bool images_has_leases(const struct image_runtime *runtime, const struct wait *wait)
{
	char why[IMAGES_WHY_MAX];
	_cleanup_(images_session_end) struct session session = images_session(runtime, wait, why);
	const Containerd__ListNamedResponse *leases;

	return runtime->kind == RUNTIME_CONTAINERD &&
	       list(&session, CONTAINERD_LEASES, LEASES "\"", &leases) == 0 && leases->n_items > 0;
}
