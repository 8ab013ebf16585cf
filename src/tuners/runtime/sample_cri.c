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

/* What changes slowly. A runtime that does not answer is asked for its version alone. */
#define SLOW_EVERY_US      (15 * USEC_PER_SEC)
#define SILENT_EVERY_US    (5 * USEC_PER_SEC)
#define BEGINNING_EVERY_US (1 * USEC_PER_SEC)

/* Far above what a kubelet runs: what a runtime has beyond that is left out. */
#define PODS_MAX       2048
#define CONTAINERS_MAX 8192

/* Where the CRI keeps its content; it is made with the first pull. */
#define CRI_NAMESPACE "k8s.io"

#define LAYER_LABEL  "containerd.io/gc.ref.content.l."
#define SOURCE_LABEL "containerd.io/distribution.source."

struct session {
	struct node_runtime *runtime;
	struct runtime_request *request;
	struct grpc *grpc;
	struct cri cri;
	struct wait wait;
	struct arena arena; /* of the last answer */
};

/* Emptied: what the answer before had in it is gone. */
static struct arena *next_arena(struct session *session)
{
	arena_free(&session->arena);
	return &session->arena;
}

/* True for an answer. With a status of the runtime's own it is there; else notes why it is not. */
static bool is_good(struct session *session, int r)
{
	struct node_runtime *runtime = session->runtime;

	if (r == 0) {
		runtime_answered(runtime);
		return true;
	}
	if (r == -ECANCELED) {
		session->request->cancelled = true;
	} else if (r < 0) {
		runtime_silent(runtime, grpc_error(session->grpc));
		runtime->due_us = now_us() + SILENT_EVERY_US;
	}
	return false;
}

/* A call without parameters. */
static int ask(struct session *session, enum cri_call which, void *ret)
{
	return cri_call(&session->cri, &session->wait, next_arena(session), which, NULL, ret);
}

static void ask_version(struct session *session)
{
	struct node_runtime *runtime = session->runtime;
	const Containerd__VersionResponse *own;
	const Cri__VersionResponse *version;
	int r = GRPC_UNIMPLEMENTED;

	if (!runtime->no_cri)
		r = ask(session, CRI_VERSION, &version);
	/* containerd without its CRI plugin still is one: Docker's is. */
	runtime->no_cri = r == GRPC_UNIMPLEMENTED && runtime->found.kind == RUNTIME_CONTAINERD;
	if (runtime->no_cri)
		r = containerd_call(session->grpc, &session->wait, next_arena(session),
			CONTAINERD_VERSION, NULL, NULL, &own);
	/* It may be starting: "server is not initialized yet". */
	if (r > 0)
		runtime->due_us = now_us() + BEGINNING_EVERY_US;
	if (!is_good(session, r))
		return;
	runtime_take_process(runtime, session->request->host, grpc_peer(session->grpc));
	copy_text(runtime->version, sizeof(runtime->version),
		runtime->no_cri ? own->version : version->runtime_version);
	/* Printable, whatever the runtime says. */
	for (char *c = runtime->version; *c; c++)
		if (*c <= ' ' || *c > '~')
			*c = '?';
}

static void ask_status(struct session *session)
{
	struct node_runtime *runtime = session->runtime;
	struct cri_running_config config;
	unsigned long long us;
	int r;
	char text[32] = "";

	r = cri_get_config(&session->cri, &session->wait, next_arena(session), &config);
	if (r > 0)
		runtime->due_us = now_us() + BEGINNING_EVERY_US;
	if (!is_good(session, r))
		return;
	runtime->reported_downloads[0] = '\0';
	if (config.max_concurrent_downloads >= 0)
		snprintf(runtime->reported_downloads, SETTING_VALUE_MAX, "%lld",
			(long long)config.max_concurrent_downloads);
	if (config.image_pull_progress_timeout &&
		containerd_duration_parse(config.image_pull_progress_timeout, &us) == 0)
		runtime_duration_text(us, text);
	copy_text(runtime->reported_timeout, SETTING_VALUE_MAX, text);
	copy_text(runtime->reported_directory, SETTING_VALUE_MAX,
		config.registry_config_path ? config.registry_config_path : "");
	copy_text(runtime->store.driver, sizeof(runtime->store.driver),
		config.snapshotter ? config.snapshotter : "");
}

static void ask_store(struct session *session)
{
	struct node_runtime *runtime = session->runtime;
	struct runtime_store *store = &runtime->store;
	const Cri__ImageFsInfoResponse *found;
	const Cri__FilesystemUsage *usage;

	if (!is_good(session, ask(session, CRI_FILESYSTEMS, &found)) ||
		found->n_image_filesystems == 0)
		return;
	usage = found->image_filesystems[0];
	copy_text(store->directory, sizeof(store->directory),
		usage->fs_id ? usage->fs_id->mountpoint : "");
	store->image_bytes = usage->used_bytes ? usage->used_bytes->value : 0;
}

static int compare_addresses(const void *a, const void *b)
{
	return strcmp(((const struct runtime_address *)a)->sandbox,
		((const struct runtime_address *)b)->sandbox);
}

/* The address of a pod does not change: it is asked for once. */
static void find_address(struct session *session, const char *id, struct runtime_address *address)
{
	struct node_runtime *runtime = session->runtime;
	const struct runtime_address *known;
	Cri__PodSandboxStatusRequest request = CRI__POD_SANDBOX_STATUS_REQUEST__INIT;
	const Cri__PodSandboxStatusResponse *m;
	const Cri__LinuxPodSandboxStatus *status;

	copy_text(address->sandbox, sizeof(address->sandbox), id);
	known = runtime->n_addresses > 0
			? bsearch(address, runtime->addresses, runtime->n_addresses,
				  sizeof(*address), compare_addresses)
			: NULL;
	if (known) {
		*address = *known;
		return;
	}
	request.pod_sandbox_id = (char *)id;
	if (!is_good(session, cri_call(&session->cri, &session->wait, next_arena(session),
				      CRI_SANDBOX_STATUS, &request.base, &m)) ||
		!m->status) {
		address->sandbox[0] = '\0';
		return;
	}
	status = m->status->linux_status;
	if (m->status->network &&
		!(status && status->namespaces && status->namespaces->options &&
			status->namespaces->options->network == CRI_NAMESPACE_NODE))
		copy_text(address->address, sizeof(address->address), m->status->network->ip);
}

/* A pod is found by its uid, and where its cgroup does not have that, by its sandbox's id. */
static size_t name_pods(struct session *session, const Cri__ListPodSandboxResponse *sandboxes,
	struct runtime_address *addresses, size_t *n_addresses, struct name_entry *names)
{
	size_t n = 0;

	for (size_t i = 0; i < sandboxes->n_items && n < (size_t)2 * PODS_MAX; i++) {
		const Cri__PodSandbox *sandbox = sandboxes->items[i];
		const Cri__PodSandboxMetadata *pod = sandbox->metadata;
		struct name_entry *entry = &names[n];
		struct workload *workload = &entry->workload;

		if (sandbox->state != CRI_SANDBOX_READY || !pod ||
			session->runtime->answer != RUNTIME_ANSWERS)
			continue;
		find_address(session, sandbox->id, &addresses[*n_addresses]);
		workload->kind = WORKLOAD_POD;
		copy_text(workload->name, sizeof(workload->name), pod->name);
		copy_text(workload->namespace, sizeof(workload->namespace), pod->namespace_);
		copy_text(workload->id, sizeof(workload->id), pod->uid);
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
	const Cri__ListContainersResponse *found, struct name_entry *names, size_t n)
{
	size_t pods = n;

	for (size_t i = 0; i < found->n_containers && n - pods < CONTAINERS_MAX; i++) {
		const Cri__Container *container = found->containers[i];

		for (size_t pod = 0; container->state == CRI_CONTAINER_RUNNING && pod < pods;
			pod += 2) {
			if (!streq(names[pod + 1].workload.id, container->pod_sandbox_id))
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
	struct node_runtime *runtime = session->runtime;
	_cleanup_free_ struct runtime_address *addresses = NULL;
	_cleanup_free_ struct name_entry *names = NULL;
	_cleanup_arena_ struct arena pods;
	const Cri__ListPodSandboxResponse *sandboxes;
	const Cri__ListContainersResponse *containers;
	size_t n_addresses = 0, n;

	arena_init(&pods);
	if (!is_good(session, cri_call(&session->cri, &session->wait, &pods, CRI_SANDBOXES, NULL,
				      &sandboxes)) ||
		!is_good(session, cri_call(&session->cri, &session->wait, &pods, CRI_CONTAINERS,
					  NULL, &containers)))
		return;
	addresses = calloc(MIN(sandboxes->n_items, (size_t)PODS_MAX) + 1, sizeof(*addresses));
	names = calloc(2 * MIN(sandboxes->n_items, (size_t)PODS_MAX) +
			       MIN(containers->n_containers, (size_t)CONTAINERS_MAX) + 1,
		sizeof(*names));
	if (!addresses || !names)
		return;
	n = name_pods(session, sandboxes, addresses, &n_addresses, names);
	if (runtime->answer != RUNTIME_ANSWERS || session->request->cancelled)
		return;
	n = name_containers(containers, names, n);
	qsort(addresses, n_addresses, sizeof(*addresses), compare_addresses);
	free(runtime->addresses);
	free(runtime->names);
	runtime->addresses = steal(addresses);
	runtime->n_addresses = n_addresses;
	runtime->names = steal(names);
	runtime->n_names = n;
	runtime->names_new = true;
}

static void ask_namespaces(struct session *session)
{
	struct node_runtime *runtime = session->runtime;
	const Containerd__ListNamespacesResponse *found;

	if (!is_good(session, containerd_call(session->grpc, &session->wait, next_arena(session),
				      CONTAINERD_NAMESPACES, NULL, NULL, &found)))
		return;
	copy_text(runtime->namespaces[0], sizeof(runtime->namespaces[0]), CRI_NAMESPACE);
	runtime->n_namespaces = 1;
	for (size_t i = 0;
		i < found->n_namespaces && runtime->n_namespaces < RUNTIME_NAMESPACES_MAX; i++)
		if (!streq(found->namespaces[i]->name, CRI_NAMESPACE))
			copy_text(runtime->namespaces[runtime->n_namespaces++],
				sizeof(runtime->namespaces[0]), found->namespaces[i]->name);
}

static uint64_t age_of(const Containerd__Timestamp *stamp)
{
	uint64_t realtime = containerd_time_us(stamp);

	return realtime > 0 ? pulls_age(realtime_us(), realtime) : 0;
}

/* Namespace by namespace; what is in all of them is one round. */
static void ask_pulls(struct session *session)
{
	struct node_runtime *runtime = session->runtime;
	_cleanup_free_ struct pull_piece *pieces = calloc(PULL_LAYERS_MAX, sizeof(*pieces));
	size_t n = 0;

	for (size_t at = 0; pieces && at < runtime->n_namespaces; at++) {
		const Containerd__ListStatusesResponse *found;

		if (!is_good(session,
			    containerd_call(session->grpc, &session->wait, next_arena(session),
				    CONTAINERD_INGESTS, runtime->namespaces[at], NULL, &found)))
			return;
		for (size_t i = 0; i < found->n_statuses && n < PULL_LAYERS_MAX; i++) {
			const Containerd__IngestStatus *ingest = found->statuses[i];
			struct pull_piece *piece = &pieces[n++];

			piece->offset = (uint64_t)MAX(ingest->offset, (int64_t)0);
			piece->total = (uint64_t)MAX(ingest->total, (int64_t)0);
			piece->age_us = age_of(ingest->started_at);
			piece->still_us = age_of(ingest->updated_at);
			copy_text(piece->ref, sizeof(piece->ref), ingest->ref);
			copy_text(piece->namespace, sizeof(piece->namespace),
				runtime->namespaces[at]);
		}
	}
	if (!pieces)
		return;
	runtime->pulls_at_us = now_us();
	pulls_take(&runtime->pulls, pieces, n, runtime->pulls_at_us);
}

/* "docker.io/library/nginx" of a label ...source.docker.io=library/nginx,other/name. */
static bool image_of(const Containerd__Info *manifest, char image[static 160])
{
	for (size_t i = 0; i < manifest->n_labels; i++) {
		const Containerd__Info__LabelsEntry *label = manifest->labels[i];

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
	struct node_runtime *runtime = session->runtime;
	const struct pull_layer *layer = pulls_nameless(&runtime->pulls, runtime->content_turn);
	const char *digest = layer ? strstr(layer->piece.ref, "sha256:") : NULL;
	const Containerd__ListContentResponse *found;
	char image[160];

	if (!digest)
		return;
	runtime->content_turn++;
	if (containerd_get_manifests(session->grpc, &session->wait, next_arena(session),
		    layer->piece.namespace, digest, &found) != 0)
		return;
	for (size_t m = 0; m < found->n_info; m++) {
		const Containerd__Info *manifest = found->info[m];

		if (!image_of(manifest, image))
			continue;
		for (size_t i = 0; i < manifest->n_labels; i++)
			if (starts_with(manifest->labels[i]->key, LAYER_LABEL))
				pulls_name(&runtime->pulls, manifest->labels[i]->value, image);
	}
}

void runtime_sample_cri(
	struct node_runtime *runtime, struct runtime_request *request, const struct wait *wait)
{
	static const struct {
		void (*ask)(struct session *session);
		bool of_cri, slow;
	} questions[] = {
		{ask_version, false, true},
		{ask_status, true, true},
		{ask_names, true, true},
		{ask_store, true, true},
		{ask_namespaces, false, true},
		{ask_pulls, false, false},
		{ask_content, false, false},
	};
	struct session session = {.runtime = runtime, .request = request};
	bool slow = request->sample.now_us >= runtime->due_us;
	char path[PATH_MAX];

	if (!host_path(request->host, runtime->found.socket, path) ||
		grpc_open(path, &session.grpc) < 0)
		return;
	session.cri.grpc = session.grpc;
	arena_init(&session.arena);
	if (slow)
		runtime->due_us = request->sample.now_us + SLOW_EVERY_US;
	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		bool has =
			i == 0 || (questions[i].of_cri ? !runtime->no_cri
						       : runtime->found.kind == RUNTIME_CONTAINERD);

		if (!has || (questions[i].slow && !slow) || request->cancelled ||
			(i > 0 && runtime->answer != RUNTIME_ANSWERS))
			continue;
		session.wait = wait_at_most(wait, ANSWER_US);
		questions[i].ask(&session);
	}
	arena_free(&session.arena);
	grpc_close(session.grpc);
}
