/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd.h"

#include "base/file.h"
#include "base/toml.h"
#include "runtime/containerd.h"
#include "runtime/cri.h"

/* Labels of images (pkg/cri/labels): managed by the CRI; exempt from garbage collection. */
#define MANAGED_LABEL "io.cri-containerd.image"
#define MANAGED       "managed"
#define PIN_LABEL     "io.cri-containerd.pinned"
#define PIN_VALUE     "pinned"

#define SANDBOX_KEY "plugins.\"io.containerd.cri.v1.images\".pinned_images.sandbox"

#define CLEAN_US (USEC_PER_SEC / 2)         /* for calls after a cancellation */
#define KNOWN_US (30 * USEC_PER_SEC)        /* until events tell the CRI a new name */
#define POLL_US  (50 * USEC_PER_MSEC)       /* between checks of that */
#define LEASE_US (24 * 3600 * USEC_PER_SEC) /* longer than any transfer */

#define REFERENCE_MAX (2 * IMAGE_NAME_MAX)
#define LEASES        "id~=\"^" IMAGES_REPOSITORY "-" /* the beginning of a filter */

#define _cleanup_session_ _cleanup_(image_session_end)

/* Asks containerd's own image service. */
static int get_image(struct image_session *session, const char *name, Containerd__Image **image)
{
	Containerd__NameRequest request = CONTAINERD__NAME_REQUEST__INIT;
	const Containerd__ImageResponse *answer;
	int r;

	request.name = (char *)name;
	r = image_call(session, CONTAINERD_GET_IMAGE, &request.base, &answer);
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
 * Creates a name with n_paths 0. 1 changes one label of it, which the value "" removes, 2 changes
 * its target as well.
 */
static int write_image(struct image_session *session, const char *name,
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
	/* CreateImageRequest uses the number of this field for something else. */
	request.update_mask = n_paths > 0 ? &mask : NULL;
	return image_call(session, n_paths > 0 ? CONTAINERD_UPDATE_IMAGE : CONTAINERD_CREATE_IMAGE,
		&request.base, &answer);
}

/* ---- what the daemon is configured for ---- */

/* Finds the daemon of the images. False: its program or its version is not known. */
static bool find_daemon(const struct image_runtime *runtime, const struct host *host, pid_t pid,
	const struct wait *wait, struct daemon *daemon)
{
	char why[RUNTIME_WHY_MAX];

	*daemon = runtime->daemon;
	if (runtime_process_read(host, runtime->driver, pid, daemon) < 0 || !daemon->program[0])
		return false;
	if (!daemon->config[0])
		set_text(daemon->config, CONTAINERD_MAIN_FILE);
	return containerd_check_program(host, daemon, wait, why) == 0;
}

/* containerd 2.x reports its sandbox image in a dump of its configuration alone. */
static void read_sandbox(const struct host *host, const struct daemon *daemon,
	const struct wait *wait, struct image_info *info)
{
	char reference[IMAGE_NAME_MAX], path[PATH_MAX], why[RUNTIME_WHY_MAX];
	_cleanup_free_ char *dump = NULL;
	/* Without a file it runs with its defaults. */
	bool exists = access(host_path(host, daemon->config, path), F_OK) == 0;

	if (containerd_dump(host, daemon, exists ? daemon->config : NULL, wait, &dump, why) == 0 &&
		toml_lookup(dump, SANDBOX_KEY, reference, sizeof(reference)))
		(void)image_normalize(reference, info->sandbox);
}

/* containerd 2.x has mirrors in its files. Files that changed after its start are not in force. */
static void read_mirrors(struct image_runtime *runtime, const struct host *host,
	const struct daemon *daemon, const struct wait *wait)
{
	struct runtime_files files = {0};
	const char *list = files.keys[RUNTIME_HOSTS_DIRECTORY].on_disk;

	containerd_config_read(host, daemon, wait, &files);
	if (files.error < 0 || runtime_changed_since(daemon, files.changed_us))
		return;
	/* The transfer service uses a list as one name, which no directory has. */
	runtime->knows_mirrors =
		set_text(runtime->mirrors, files.transfer && strchr(list, ':') ? "" : list);
}

/* containerd 1.6 lacks image_pull_progress_timeout: its pulls wait for ever. */
static void read_downloads(
	const struct image_runtime *runtime, const struct wait *wait, struct image_info *info)
{
	char why[IMAGES_WHY_MAX];
	_cleanup_session_ struct image_session session = image_session_open(runtime, wait, why);
	const Containerd__ListStatusesResponse *found;

	if (image_call(&session, CONTAINERD_INGESTS, NULL, &found) < 0)
		return;
	info->fetching = 1 + found->n_statuses;
	for (size_t i = 0; i < found->n_statuses; i++)
		info->fetching += (uint64_t)found->statuses[i]->offset;
}

int containerd_read_images_info(struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, struct image_info *info, char why[static IMAGES_WHY_MAX])
{
	struct daemon daemon;
	int r = cri_read_images_info(runtime, host, wait, info, why);
	bool sandbox = info->wants_sandbox && !info->sandbox[0];
	bool mirrors = info->wants_mirrors && containerd_is_at_least(runtime->daemon.version, 2, 0);

	if (r == 0 && !containerd_is_at_least(runtime->daemon.version, 1, 7))
		read_downloads(runtime, wait, info);
	if (r < 0 || info->pid <= 0 || (!sandbox && !mirrors) ||
		!find_daemon(runtime, host, info->pid, wait, &daemon))
		return r;
	if (sandbox)
		read_sandbox(host, &daemon, wait, info);
	if (mirrors)
		read_mirrors(runtime, host, &daemon, wait);
	return r;
}

/* ---- pins ---- */

/*
 * Sets a label that the CRI reads, at this name of the image: a pull replaces it by one without,
 * and the old image is not kept.
 */
int containerd_pin(const struct image_runtime *runtime, const char *name, bool pinned,
	const struct wait *wait, char why[static IMAGES_WHY_MAX])
{
	_cleanup_session_ struct image_session session = image_session_open(runtime, wait, why);
	Containerd__Image *image;
	int r = get_image(&session, name, &image);
	bool is = false;

	for (size_t i = 0; r == 0 && i < image->n_labels; i++)
		is = is || (streq(image->labels[i]->key, PIN_LABEL) &&
				   streq(image->labels[i]->value, PIN_VALUE));
	if (r == 0 && is != pinned)
		r = write_image(
			&session, name, image->target, PIN_LABEL, pinned ? PIN_VALUE : "", 1);
	return r;
}

/* ---- leftovers of transfers ---- */

/* Returns 0 also if it does not exist. */
static int delete(
	struct image_session *session, enum cri_call which, const char *name, bool collect)
{
	Containerd__NameRequest request = CONTAINERD__NAME_REQUEST__INIT;
	const Containerd__Empty *answer;
	int r;

	request.name = (char *)name;
	request.sync = collect;
	r = image_call(session, which, &request.base, &answer);
	return r == -ENOENT ? 0 : r;
}

/* Lists the images or leases that match a filter. */
static int list(struct image_session *session, enum cri_call which, const char *filter, void *ret)
{
	Containerd__FilterRequest request = CONTAINERD__FILTER_REQUEST__INIT;
	char *filters[] = {(char *)filter};

	request.filters = filters;
	request.n_filters = ARRAY_SIZE(filters);
	return image_call(session, which, &request.base, ret);
}

/*
 * `server` in certs.d/_default/hosts.toml leads pulls from 127.0.0.1 to another server, but not
 * those from a registry that has a directory of its own.
 */
static bool put_hosts(const struct host *host, const char *reference)
{
	int server = (int)strcspn(reference, "/"); /* 127.0.0.1:PORT */
	char path[PATH_MAX], text[128];

	if (!host->put_load_file ||
		path_in_root(host->root, CONTAINERD_CERTS "/_default/hosts.toml", path) < 0)
		return false;
	/* containerd 1.6 also needs a [host] table. */
	snprintf(text, sizeof(text), "server = \"http://%.*s\"\n[host.\"http://%.*s\"]\n", server,
		reference, server, reference);
	return host->put_load_file(
		       host, CONTAINERD_CERTS "/" IMAGES_REGISTRY "/hosts.toml", text) == 0;
}

/* The CRI also gives a pulled image the name `sha256:...`, its ID. */
static bool is_id_of(const Containerd__Image *image, const Containerd__Image *ours)
{
	const Containerd__Timestamp *id = image->created_at, *our = ours->created_at;

	return starts_with(image->name, "sha256:") && id && our &&
	       (id->seconds > our->seconds ||
		       (id->seconds == our->seconds && id->nanos >= our->nanos));
}

/* Removes a name of ours, and its image's ID unless others have named the image. */
static int delete_image(struct image_session *session, const Containerd__Image *ours)
{
	const Containerd__ListImagesResponse *same = NULL;
	const char *id = NULL;
	bool foreign = false;
	char filter[128];
	int r = 0;

	if (ours->target) {
		snprintf(filter, sizeof(filter), "target.digest==\"%.100s\"", ours->target->digest);
		r = list(session, CONTAINERD_IMAGES, filter, &same);
	}
	for (size_t i = 0; r == 0 && same && i < same->n_images; i++) {
		const Containerd__Image *image = same->images[i];

		if (is_id_of(image, ours))
			id = image->name;
		else
			foreign = foreign || !images_is_ours(image->name);
	}
	if (r == 0 && id && !foreign)
		r = delete (session, CONTAINERD_DELETE_IMAGE, id, false);
	return r == 0 ? delete (session, CONTAINERD_DELETE_IMAGE, ours->name, false) : r;
}

/*
 * Removes our names and leases of this transfer (also of an earlier attempt), or of all
 * transfers if the hash is empty. collect: containerd collects the garbage at once.
 */
static int clean(struct image_session *session, bool collect)
{
	const Containerd__ListImagesResponse *images;
	const Containerd__ListNamedResponse *leases;
	char filter[128];
	int r;

	snprintf(filter, sizeof(filter), "name~=\"^(127.0.0.1:[0-9]+|" IMAGES_REGISTRY ")/%s/%s\"",
		IMAGES_REPOSITORY, session->hash);
	r = list(session, CONTAINERD_IMAGES, filter, &images);
	for (size_t i = 0; r == 0 && i < images->n_images; i++)
		r = delete_image(session, images->images[i]);
	snprintf(filter, sizeof(filter), LEASES "%s\"", session->hash);
	if (r == 0)
		r = list(session, CONTAINERD_LEASES, filter, &leases);
	for (size_t i = 0; r == 0 && i < leases->n_items; i++)
		r = delete (session, CONTAINERD_DELETE_LEASE, leases->items[i]->name, collect);
	return r;
}

/*
 * Ends a transfer and its session, also after a cancellation. The error of the transfer stays.
 */
static void tidy(struct image_session *session, bool failed)
{
	char ignored[IMAGES_WHY_MAX];

	arena_free(&session->arena);
	session->wait = (struct wait){now_us() + CLEAN_US, -1};
	session->why = ignored;
	(void)clean(session, failed);
}

/* ---- pulling ---- */

/*
 * containerd protects fetched content by a lease with a random name for a day, even if it is killed
 * meanwhile. With a lease of ours, the next attempt or clean() removes the content.
 */
static int pull(struct image_session *session, const char *reference)
{
	Containerd__CreateLeaseRequest creation = CONTAINERD__CREATE_LEASE_REQUEST__INIT;
	Containerd__CreateLeaseRequest__LabelsEntry expire =
		CONTAINERD__CREATE_LEASE_REQUEST__LABELS_ENTRY__INIT;
	Containerd__CreateLeaseRequest__LabelsEntry *labels[] = {&expire};
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
	r = image_call(session, CONTAINERD_CREATE_LEASE, &creation.base, &answer);
	if (r < 0 && r != -EEXIST)
		return r;
	session->cri.lease = lease;
	r = cri_pull(session, reference);
	session->cri.lease = NULL;
	return r;
}

/* ---- loading ---- */

/* Adds a name for a target, or moves the name from another image to it. */
static int add_name(struct image_session *session, const char *name, Containerd__Descriptor *target)
{
	int r = write_image(session, name, target, MANAGED_LABEL, MANAGED, 0);

	if (r == -EEXIST)
		r = write_image(session, name, target, MANAGED_LABEL, MANAGED, 2);
	return r;
}

/* Reads which image has a name now; "": none. */
static int read_holder(
	struct image_session *session, const char *name, char digest[static REFERENCE_MAX])
{
	Containerd__Image *image;
	int r = get_image(session, name, &image);

	copy_text(digest, REFERENCE_MAX, r == 0 ? image->target->digest : "");
	return r == -ENOENT ? 0 : r;
}

/* Waits until the CRI, and so the kubelet, knows the image by its name. */
static int wait_for_name(struct image_session *session, const struct archive_image *wanted)
{
	struct wait limit = wait_at_most(&session->wait, KNOWN_US);
	const Cri__Image *image;

	for (;;) {
		struct wait pause = wait_at_most(&limit, POLL_US);
		int r = cri_image_status(session, wanted->name, &image);

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

/* Returns whether it is an error of a registry, and nobody asked our server. */
static bool is_from_elsewhere(int r, const struct image_server *server)
{
	return !image_server_was_asked(server) && (r == -ENOENT || r == -EACCES || r == -EPROTO);
}

static int load_image(struct image_session *session, const struct host *host,
	const struct archive_image *image, const char *reference, const struct image_server *server)
{
	char other[REFERENCE_MAX], digest[REFERENCE_MAX];
	char before[REFERENCE_MAX], now[REFERENCE_MAX];
	Containerd__Image *pulled;
	const char *name = reference;
	/* By a name for which there is a directory: a mirror of _default may never answer. */
	bool own = put_hosts(host, reference);
	int r = read_holder(session, image->name, before);

	if (r < 0)
		return r;
	if (own) {
		snprintf(other, sizeof(other), IMAGES_REGISTRY "%s", strchr(reference, '/'));
		name = other;
	}
	r = pull(session, name);
	if (own && is_from_elsewhere(r, server)) { /* config_path names another directory */
		name = reference;
		r = pull(session, name);
	}
	if (is_from_elsewhere(r, server) && (r == -ENOENT || own))
		copy_text(session->why, IMAGES_WHY_MAX,
			"containerd asks another server for images of 127.0.0.1: take `server` out "
			"of _default/hosts.toml, or let config_path begin with " CONTAINERD_CERTS);
	if (r == 0)
		r = read_holder(session, image->name, now);
	if (r == 0 && !streq(before, now))
		r = images_moved(image->name, session->why);
	/* The names that a pull would have given it: also NAME@DIGEST. */
	if (r == 0)
		r = get_image(session, name, &pulled);
	if (r == 0)
		r = add_name(session, image->name, pulled->target);
	if (r == 0 && !strchr(image->name, '@')) {
		snprintf(digest, sizeof(digest), "%.*s@%s",
			(int)(strrchr(image->name, ':') - image->name), image->name, image->top);
		r = add_name(session, digest, pulled->target);
	}
	return r == 0 ? wait_for_name(session, image) : r;
}

int containerd_load(const struct image_runtime *runtime, const struct host *host,
	const struct archive_image *image, const char *reference, const struct wait *wait,
	const struct image_server *server, char why[static IMAGES_WHY_MAX])
{
	_cleanup_session_ struct image_session session = image_session_open(runtime, wait, why);
	int r;

	hash_bytes(image->name, strlen(image->name), session.hash);
	r = load_image(&session, host, image, reference, server);
	images_remove_file(host);
	tidy(&session, r < 0);
	return r;
}

int containerd_pull(const struct image_runtime *runtime, const char *name, const struct wait *wait,
	_Atomic uint64_t *, char why[static IMAGES_WHY_MAX])
{
	_cleanup_session_ struct image_session session = image_session_open(runtime, wait, why);
	int r;

	hash_bytes(name, strlen(name), session.hash);
	r = pull(&session, name);
	tidy(&session, r < 0);
	return r;
}

int containerd_clean(const struct image_runtime *runtime, const struct wait *wait,
	char why[static IMAGES_WHY_MAX])
{
	_cleanup_session_ struct image_session session = image_session_open(runtime, wait, why);

	return clean(&session, true);
}

bool containerd_has_leftovers(const struct image_runtime *runtime, const struct wait *wait)
{
	char why[IMAGES_WHY_MAX];
	_cleanup_session_ struct image_session session = image_session_open(runtime, wait, why);
	const Containerd__ListNamedResponse *leases;

	return list(&session, CONTAINERD_LEASES, LEASES "\"", &leases) == 0 && leases->n_items > 0;
}
