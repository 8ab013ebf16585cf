/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/util.h"
#include "runtime/containerd_client.h"
#include "runtime/cri_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* How long a runtime may take for an answer. */
#define ANSWER_US (5 * USEC_PER_SEC)

/* The paces. A runtime that does not answer is asked for its version alone. */
#define VERSION_EVERY_US    (15 * USEC_PER_SEC)
#define STATUS_EVERY_US     (30 * USEC_PER_SEC)
#define NAMES_EVERY_US      (15 * USEC_PER_SEC)
#define STORE_EVERY_US      (60 * USEC_PER_SEC)
#define NAMESPACES_EVERY_US (60 * USEC_PER_SEC)
#define CONTENT_EVERY_US    (4 * USEC_PER_SEC)
#define SILENT_EVERY_US     (5 * USEC_PER_SEC)
#define BEGINNING_EVERY_US  (1 * USEC_PER_SEC)

/* Far above what a kubelet runs: what a runtime has beyond that is left out. */
#define PODS_MAX       2048
#define CONTAINERS_MAX 8192

/* Where the CRI keeps its content; it is made with the first pull. */
#define CRI_NAMESPACE "k8s.io"

#define LAYER_LABEL  "containerd.io/gc.ref.content.l."
#define SOURCE_LABEL "containerd.io/distribution.source."

struct session {
	struct runtime_one *one;
	struct runtime_round *round;
	struct grpc *grpc;
	struct cri cri;
	struct wait wait;
};

/* True for an answer. Else notes why there is none, or when a runtime that is starting is due. */
static bool is_good(struct session *session, int r, uint64_t *due_us)
{
	struct runtime_one *one = session->one;

	if (r == 0) {
		runtime_answered(one);
		return true;
	}
	if (r == -ECANCELED)
		session->round->cancelled = true;
	/* A status of its own: it is there, and may be starting ("server is not initialized yet").
	 */
	else if (r > 0 && due_us)
		*due_us = now_us() + BEGINNING_EVERY_US;
	else if (r < 0) {
		runtime_silent(one, grpc_error(session->grpc));
		one->version_due_us = now_us() + SILENT_EVERY_US;
	}
	return false;
}

/* Printable, whatever the runtime says. */
static void take_version(struct runtime_one *one, const char *text)
{
	copy_text(one->version, sizeof(one->version), text);
	for (char *c = one->version; *c; c++)
		if (*c <= ' ' || *c > '~')
			*c = '?';
}

static void ask_version(struct session *session)
{
	struct runtime_one *one = session->one;
	_cleanup_arena_ struct arena arena;
	struct containerd_version own;
	struct cri_version version;
	int r = GRPC_UNIMPLEMENTED;

	arena_init(&arena);
	one->version_due_us = now_us() + VERSION_EVERY_US;
	if (!one->no_cri)
		r = cri_get_version(&session->cri, &session->wait, &arena, &version);
	/* containerd without its CRI plugin still is one: Docker's is. */
	one->no_cri = r == GRPC_UNIMPLEMENTED && one->where.kind == RUNTIME_CONTAINERD;
	if (one->no_cri)
		r = containerd_get_version(session->grpc, &session->wait, &arena, &own);
	if (!is_good(session, r, &one->version_due_us))
		return;
	runtime_take_process(one, session->round->host, grpc_peer(session->grpc));
	take_version(one, one->no_cri ? own.version : version.version);
}

static void ask_status(struct session *session)
{
	struct runtime_one *one = session->one;
	_cleanup_arena_ struct arena arena;
	const struct cri_running_config *config;
	struct cri_status status;
	unsigned long long us;
	char text[32] = "";

	arena_init(&arena);
	one->status_due_us = now_us() + STATUS_EVERY_US;
	if (!is_good(session, cri_get_status(&session->cri, &session->wait, &arena, &status),
		    &one->status_due_us))
		return;
	config = &status.config;
	one->told_downloads[0] = '\0';
	if (config->max_concurrent_downloads >= 0)
		snprintf(one->told_downloads, SETTING_VALUE_MAX, "%lld",
			(long long)config->max_concurrent_downloads);
	if (config->image_pull_progress_timeout &&
		containerd_duration_parse(config->image_pull_progress_timeout, &us) == 0)
		runtime_duration_text(us, text);
	copy_text(one->told_timeout, SETTING_VALUE_MAX, text);
	copy_text(one->told_directory, SETTING_VALUE_MAX,
		config->registry_config_path ? config->registry_config_path : "");
	copy_text(one->store.driver, sizeof(one->store.driver),
		config->snapshotter ? config->snapshotter : "");
}

static void ask_store(struct session *session)
{
	struct runtime_one *one = session->one;
	struct runtime_store *store = &one->store;
	_cleanup_arena_ struct arena arena;
	struct cri_filesystems found;

	arena_init(&arena);
	one->store_due_us = now_us() + STORE_EVERY_US;
	if (!is_good(session, cri_get_filesystems(&session->cri, &session->wait, &arena, &found),
		    NULL) ||
		found.n == 0)
		return;
	copy_text(store->directory, sizeof(store->directory), found.list[0].mountpoint);
	store->image_bytes = found.list[0].used_bytes;
}

static int compare_addresses(const void *a, const void *b)
{
	return strcmp(((const struct runtime_address *)a)->sandbox,
		((const struct runtime_address *)b)->sandbox);
}

/* The address of a pod does not change: it is asked for once. */
static void find_address(struct session *session, const char *id, struct runtime_address *address)
{
	struct runtime_one *one = session->one;
	const struct runtime_address *known;
	_cleanup_arena_ struct arena arena;
	struct cri_sandbox_status status;

	copy_text(address->sandbox, sizeof(address->sandbox), id);
	known = one->n_addresses > 0 ? bsearch(address, one->addresses, one->n_addresses,
					       sizeof(*address), compare_addresses)
				     : NULL;
	if (known) {
		*address = *known;
		return;
	}
	arena_init(&arena);
	if (!is_good(session, cri_get_sandbox(&session->cri, &session->wait, &arena, id, &status),
		    NULL)) {
		address->sandbox[0] = '\0';
		return;
	}
	if (!status.host_network && status.n_ips > 0)
		copy_text(address->address, sizeof(address->address), status.ips[0]);
}

/* A pod is found by its uid, and where its cgroup does not have that, by its sandbox's id. */
static size_t name_pods(struct session *session, const struct cri_sandboxes *sandboxes,
	struct runtime_address *addresses, size_t *n_addresses, struct name_entry *names)
{
	size_t n = 0;

	for (size_t i = 0; i < sandboxes->n && n < (size_t)2 * PODS_MAX; i++) {
		const struct cri_sandbox *sandbox = &sandboxes->list[i];
		struct name_entry *entry = &names[n];
		struct workload *workload = &entry->workload;

		if (!sandbox->ready || session->one->answer != RUNTIME_ANSWERS)
			continue;
		find_address(session, sandbox->id, &addresses[*n_addresses]);
		workload->kind = WORKLOAD_POD;
		copy_text(workload->name, sizeof(workload->name), sandbox->name);
		copy_text(workload->namespace, sizeof(workload->namespace), sandbox->namespace);
		copy_text(workload->id, sizeof(workload->id), sandbox->uid);
		names[n + 1] = *entry;
		copy_text(entry->address, sizeof(entry->address), addresses[*n_addresses].address);
		copy_text(names[n + 1].workload.id, sizeof(workload->id), sandbox->id);
		*n_addresses += addresses[*n_addresses].sandbox[0] != '\0';
		n += 2;
	}
	return n;
}

/* Where a container's cgroup lies outside its pod's, its own id leads to the pod. */
static size_t name_containers(
	const struct cri_containers *containers, struct name_entry *names, size_t n)
{
	size_t pods = n;

	for (size_t i = 0; i < containers->n && n - pods < CONTAINERS_MAX; i++) {
		const struct cri_container *container = &containers->list[i];

		for (size_t pod = 0; container->running && pod < pods; pod += 2) {
			if (!streq(names[pod + 1].workload.id, container->sandbox_id))
				continue;
			names[n] = names[pod + 1];
			copy_text(
				names[n].workload.id, sizeof(names[n].workload.id), container->id);
			n++;
			break;
		}
	}
	return n;
}

static void ask_names(struct session *session)
{
	struct runtime_one *one = session->one;
	_cleanup_free_ struct runtime_address *addresses = NULL;
	_cleanup_free_ struct name_entry *names = NULL;
	_cleanup_arena_ struct arena pods, others;
	struct cri_sandboxes sandboxes;
	struct cri_containers containers;
	size_t n_addresses = 0, n;

	arena_init(&pods);
	arena_init(&others);
	one->names_due_us = now_us() + NAMES_EVERY_US;
	if (!is_good(session, cri_get_sandboxes(&session->cri, &session->wait, &pods, &sandboxes),
		    NULL) ||
		!is_good(session,
			cri_get_containers(&session->cri, &session->wait, &others, &containers),
			NULL))
		return;
	addresses = calloc(MIN(sandboxes.n, (size_t)PODS_MAX) + 1, sizeof(*addresses));
	names = calloc(2 * MIN(sandboxes.n, (size_t)PODS_MAX) +
			       MIN(containers.n, (size_t)CONTAINERS_MAX) + 1,
		sizeof(*names));
	if (!addresses || !names)
		return;
	n = name_pods(session, &sandboxes, addresses, &n_addresses, names);
	if (one->answer != RUNTIME_ANSWERS || session->round->cancelled)
		return;
	n = name_containers(&containers, names, n);
	qsort(addresses, n_addresses, sizeof(*addresses), compare_addresses);
	free(one->addresses);
	free(one->names);
	one->addresses = steal(addresses);
	one->n_addresses = n_addresses;
	one->names = steal(names);
	one->n_names = n;
	one->names_new = true;
}

static void ask_namespaces(struct session *session)
{
	struct runtime_one *one = session->one;
	struct containerd_namespaces found;
	_cleanup_arena_ struct arena arena;

	arena_init(&arena);
	one->namespaces_due_us = now_us() + NAMESPACES_EVERY_US;
	if (!is_good(session,
		    containerd_get_namespaces(session->grpc, &session->wait, &arena, &found), NULL))
		return;
	copy_text(one->namespaces[0], sizeof(one->namespaces[0]), CRI_NAMESPACE);
	one->n_namespaces = 1;
	for (size_t i = 0; i < found.n && one->n_namespaces < RUNTIME_NAMESPACES_MAX; i++)
		if (!streq(found.list[i], CRI_NAMESPACE))
			copy_text(one->namespaces[one->n_namespaces++], sizeof(one->namespaces[0]),
				found.list[i]);
}

/* Since a time of the wall clock, which 0 is none of. */
static uint64_t age_of(uint64_t realtime)
{
	return realtime > 0 ? pulls_age(realtime_us(), realtime) : 0;
}

/* Namespace by namespace; what is in all of them is one round. */
static void ask_pulls(struct session *session)
{
	struct runtime_one *one = session->one;
	_cleanup_free_ struct pull_piece *pieces = calloc(PULL_LAYERS_MAX, sizeof(*pieces));
	size_t n = 0;

	one->pulls_due_us = now_us() + runtime_pulls_pace(one, session->round->config);
	for (size_t at = 0; pieces && at < one->n_namespaces; at++) {
		_cleanup_arena_ struct arena arena;
		struct containerd_ingests found;

		arena_init(&arena);
		if (!is_good(session,
			    containerd_get_ingests(session->grpc, &session->wait, &arena,
				    one->namespaces[at], &found),
			    NULL))
			return;
		for (size_t i = 0; i < found.n && n < PULL_LAYERS_MAX; i++) {
			const struct containerd_ingest *ingest = &found.list[i];
			struct pull_piece *piece = &pieces[n++];

			piece->offset = (uint64_t)MAX(ingest->offset, (int64_t)0);
			piece->total = (uint64_t)MAX(ingest->total, (int64_t)0);
			piece->age_us = age_of(ingest->started_us);
			piece->still_us = age_of(ingest->updated_us);
			copy_text(piece->ref, sizeof(piece->ref), ingest->ref);
			copy_text(piece->namespace, sizeof(piece->namespace), one->namespaces[at]);
		}
	}
	if (!pieces)
		return;
	/* The first ones of a pull are asked about at once. */
	if (one->pulls.n == 0)
		one->content_due_us = 0;
	one->pulls_at_us = now_us();
	pulls_take(&one->pulls, pieces, n, one->pulls_at_us);
	one->pulls_due_us = one->pulls_at_us + runtime_pulls_pace(one, session->round->config);
}

/* "docker.io/library/nginx" of a label ...source.docker.io=library/nginx,other/name. */
static bool image_of(const struct containerd_manifest *manifest, char image[static 160])
{
	for (size_t i = 0; i < manifest->n_labels; i++) {
		const struct containerd_label *label = &manifest->labels[i];

		if (starts_with(label->key, SOURCE_LABEL))
			return snprintf(image, 160, "%s/%.*s", label->key + strlen(SOURCE_LABEL),
				       (int)strcspn(label->value, ","), label->value) < 160;
	}
	return false;
}

/*
 * Whose layers these are, by the manifest of one of them: all layers of the image get its name.
 * Each layer has its turn, because one that no manifest has must not hold up the others.
 */
static void ask_content(struct session *session)
{
	struct runtime_one *one = session->one;
	const struct pull_layer *layer = pulls_nameless(&one->pulls, one->content_turn);
	const char *digest = layer ? strstr(layer->piece.ref, "sha256:") : NULL;
	struct containerd_manifests found;
	_cleanup_arena_ struct arena arena;
	char image[160];

	if (!digest)
		return;
	arena_init(&arena);
	one->content_turn++;
	one->content_due_us = now_us() + CONTENT_EVERY_US;
	if (containerd_get_manifests(session->grpc, &session->wait, &arena, layer->piece.namespace,
		    digest, &found) != 0)
		return;
	for (size_t m = 0; m < found.n; m++) {
		const struct containerd_manifest *manifest = &found.list[m];

		if (!image_of(manifest, image))
			continue;
		for (size_t i = 0; i < manifest->n_labels; i++)
			if (starts_with(manifest->labels[i].key, LAYER_LABEL))
				pulls_name(&one->pulls, manifest->labels[i].value, image);
	}
}

void runtime_sample_cri(struct runtime_one *one, struct runtime_round *round)
{
	const struct {
		void (*ask)(struct session *session);
		uint64_t *due_us;
		bool of_cri; /* else of containerd itself */
	} questions[] = {
		{ask_status, &one->status_due_us, true},
		{ask_names, &one->names_due_us, true},
		{ask_store, &one->store_due_us, true},
		{ask_namespaces, &one->namespaces_due_us, false},
		{ask_pulls, &one->pulls_due_us, false},
		{ask_content, &one->content_due_us, false},
	};
	struct session session = {
		.one = one, .round = round, .wait = wait_at_most(round->wait, ANSWER_US)};
	char path[PATH_MAX];

	if (!host_path(round->host, one->where.socket, path) || grpc_open(path, &session.grpc) < 0)
		return;
	session.cri.grpc = session.grpc;
	if (now_us() >= one->version_due_us)
		ask_version(&session);
	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		bool has =
			questions[i].of_cri ? !one->no_cri : one->where.kind == RUNTIME_CONTAINERD;

		if (one->answer != RUNTIME_ANSWERS || round->cancelled || !has ||
			now_us() < *questions[i].due_us)
			continue;
		session.wait = wait_at_most(round->wait, ANSWER_US);
		questions[i].ask(&session);
	}
	grpc_close(session.grpc);
}
