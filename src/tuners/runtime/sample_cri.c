/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/runtime/runtime.h"

#include "base/json.h"
#include "runtime/cri_client.h"

/* How long a runtime may take for an answer. */
#define ANSWER_US (5 * USEC_PER_SEC)

#define BEGINNING_EVERY_US (1 * USEC_PER_SEC)

/* Far above what a kubelet runs: what a runtime has beyond that is left out. */
#define PODS_MAX       2048
#define CONTAINERS_MAX 8192

#define LAYERS_MAX 64 /* of a manifest, asked about: images/handlers.go numbers them */

/* Where the CRI keeps its content; it is made with the first pull. */
#define CRI_NAMESPACE "k8s.io"

/* A manifest's labels: all of its layers, and the repositories that it was pulled from. */
#define LAYER_LABEL  "containerd.io/gc.ref.content.l."
#define SOURCE_LABEL "containerd.io/distribution.source."

struct session {
	struct node_runtime *runtime;
	struct runtime_tuner *request;
	struct cri cri;
	struct wait wait;
	struct arena arena; /* of the last answer */
};

/* True for an answer. With a status of the runtime's own it is there; else notes why it is not. */
static bool is_good(struct session *session, int r)
{
	struct node_runtime *runtime = session->runtime;

	if (r == 0) {
		runtime_note(runtime, NULL);
		return true;
	}
	if (r == -ECANCELED)
		session->request->cancelled = true;
	else if (r < 0)
		runtime_note(runtime, session->cri.grpc.error);
	return false;
}

/* The same; it may be starting: "server is not initialized yet". */
static bool is_ready(struct session *session, int r)
{
	if (r > 0)
		session->runtime->due_us = now_us() + BEGINNING_EVERY_US;
	return is_good(session, r);
}

/* What the answer before had is gone. */
static int ask(struct session *session, enum cri_call which, const char *namespace,
	const ProtobufCMessage *message, void *ret)
{
	arena_free(&session->arena);
	return cri_call(
		&session->cri, &session->wait, &session->arena, which, namespace, message, ret);
}

static void ask_version(struct session *session)
{
	struct node_runtime *runtime = session->runtime;
	const Containerd__VersionResponse *own;
	const Cri__VersionResponse *version;
	int r = GRPC_UNIMPLEMENTED;

	if (!runtime->no_cri)
		r = ask(session, CRI_VERSION, NULL, NULL, &version);
	/* containerd without its CRI plugin still is one: Docker's is. */
	runtime->no_cri = r == GRPC_UNIMPLEMENTED && runtime->found.kind == RUNTIME_CONTAINERD;
	if (runtime->no_cri)
		r = ask(session, CONTAINERD_VERSION, NULL, NULL, &own);
	if (!is_ready(session, r))
		return;
	runtime_take_process(runtime, session->request->host, session->cri.grpc.peer);
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
	_cleanup_(cleanup_cJSON_Delete) cJSON *config = NULL;
	const cJSON *downloads;
	unsigned long long us;
	int r = cri_get_config(&session->cri, &session->wait, &config);

	if (!is_ready(session, r))
		return;
	downloads = json_at(config, "maxConcurrentDownloads");
	runtime->reported_downloads[0] = runtime->reported_timeout[0] = '\0';
	if (cJSON_IsNumber(downloads) && downloads->valuedouble >= 0)
		snprintf(runtime->reported_downloads, SETTING_VALUE_MAX, "%d", downloads->valueint);
	if (containerd_duration_parse(json_text_at(config, "imagePullProgressTimeout"), &us) == 0)
		runtime_duration_text(us, runtime->reported_timeout);
	copy_text(
		runtime->directory, SETTING_VALUE_MAX, json_text_at(config, "registry/configPath"));
	copy_text(runtime->store.driver, sizeof(runtime->store.driver),
		json_text_at(config, "containerd/snapshotter"));
}

static void ask_store(struct session *session)
{
	struct node_runtime *runtime = session->runtime;
	struct runtime_store *store = &runtime->store;
	const Cri__ImageFsInfoResponse *found;
	const Cri__FilesystemUsage *usage;

	if (!is_good(session, ask(session, CRI_FILESYSTEMS, NULL, NULL, &found)) ||
		found->n_image_filesystems == 0)
		return;
	usage = found->image_filesystems[0];
	copy_text(
		store->directory, sizeof(store->directory), usage->fs_id ? usage->fs_id->text : "");
	store->image_bytes = usage->used_bytes ? usage->used_bytes->value : 0;
}

/* The address of a pod does not change: it is asked for once. "" when it is not to be had. */
static const char *take_address(
	struct session *session, const char *id, struct runtime_addresses *addresses)
{
	const struct runtime_addresses *before = &session->runtime->addresses;
	const struct runtime_address *known = find_named(before->entries, before->n, id);
	Cri__Text request = CRI__TEXT__INIT;
	const Cri__PodSandboxStatusResponse *m;
	const Cri__LinuxPodSandboxStatus *status;
	struct runtime_address *added;

	request.text = (char *)id;
	if (!known &&
		(!is_good(session, ask(session, CRI_SANDBOX_STATUS, NULL, &request.base, &m)) ||
			!m->status))
		return "";
	added = add_element(&addresses->entries, &addresses->n, &addresses->allocated);
	if (known) {
		*added = *known;
		return added->address;
	}
	copy_text(added->sandbox, sizeof(added->sandbox), id);
	status = m->status->linux_status;
	if (m->status->network &&
		!(status && status->namespaces && status->namespaces->options &&
			status->namespaces->options->network == CRI_NAMESPACE_NODE))
		copy_text(added->address, sizeof(added->address), m->status->network->text);
	return added->address;
}

static void add_name(struct runtime_names *names, const struct workload *workload, const char *id,
	const char *address)
{
	struct name_entry *entry = add_element(&names->entries, &names->n, &names->allocated);

	entry->workload = *workload;
	copy_text(entry->workload.id, sizeof(entry->workload.id), id);
	copy_text(entry->address, sizeof(entry->address), address);
}

static void ask_names(struct session *session)
{
	struct node_runtime *runtime = session->runtime;
	struct runtime_addresses addresses = {0};
	struct runtime_names names = {0};
	_cleanup_arena_ struct arena pods = {0};
	const Cri__ListPodSandboxResponse *sandboxes;
	const Cri__ListContainersResponse *containers;
	size_t n_pods;

	if (!is_good(session, cri_call(&session->cri, &session->wait, &pods, CRI_SANDBOXES, NULL,
				      NULL, &sandboxes)) ||
		!is_good(session, cri_call(&session->cri, &session->wait, &pods, CRI_CONTAINERS,
					  NULL, NULL, &containers)))
		return;
	/* By its uid, and where its cgroup does not have that, by its sandbox's id. */
	for (size_t i = 0; i < MIN(sandboxes->n_items, (size_t)PODS_MAX); i++) {
		const Cri__PodSandbox *sandbox = sandboxes->items[i];
		const Cri__PodSandboxMetadata *pod = sandbox->metadata;
		struct workload workload = {.kind = WORKLOAD_POD};

		if (sandbox->state != CRI_SANDBOX_READY || !pod ||
			runtime->answer != RUNTIME_ANSWERS)
			continue;
		copy_text(workload.name, sizeof(workload.name), pod->name);
		copy_text(workload.namespace, sizeof(workload.namespace), pod->namespace_);
		add_name(&names, &workload, pod->uid,
			take_address(session, sandbox->id, &addresses));
		add_name(&names, &workload, sandbox->id, "");
	}
	if (runtime->answer != RUNTIME_ANSWERS || session->request->cancelled) {
		free(addresses.entries);
		free(names.entries);
		return;
	}
	/* Where a container's cgroup lies outside its pod's, its own id leads to the pod. */
	n_pods = names.n;
	for (size_t i = 0; i < MIN(containers->n_containers, (size_t)CONTAINERS_MAX); i++) {
		const Cri__Container *container = containers->containers[i];
		size_t pod = 0;

		while (pod < n_pods &&
			!streq(names.entries[pod].workload.id, container->pod_sandbox_id))
			pod++;
		if (container->state == CRI_CONTAINER_RUNNING && pod < n_pods) {
			struct workload workload = names.entries[pod].workload;

			add_name(&names, &workload, container->id, "");
		}
	}
	free(runtime->addresses.entries);
	runtime->addresses = addresses;
	runtime_take_names(runtime, &names);
}

static void ask_namespaces(struct session *session)
{
	struct node_runtime *runtime = session->runtime;
	const Containerd__ListNamedResponse *found;

	if (!is_good(session, ask(session, CONTAINERD_NAMESPACES, NULL, NULL, &found)))
		return;
	copy_text(runtime->namespaces[0], sizeof(runtime->namespaces[0]), CRI_NAMESPACE);
	runtime->n_namespaces = 1;
	for (size_t i = 0; i < found->n_items && runtime->n_namespaces < RUNTIME_NAMESPACES_MAX;
		i++)
		if (!streq(found->items[i]->name, CRI_NAMESPACE))
			copy_text(runtime->namespaces[runtime->n_namespaces++],
				sizeof(runtime->namespaces[0]), found->items[i]->name);
}

/* What lies before 1970 or beyond the year 9999 (the format's own bounds) is no time. */
static uint64_t age_of(const Containerd__Timestamp *stamp)
{
	static const int64_t last = INT64_C(253402300799);

	if (!stamp || stamp->seconds <= 0 || stamp->seconds > last || stamp->nanos < 0)
		return 0;
	return pulls_age(realtime_us(),
		(uint64_t)stamp->seconds * USEC_PER_SEC + (uint64_t)stamp->nanos / 1000);
}

/* Namespace by namespace; what is in all of them is one round. */
static void ask_pulls(struct session *session)
{
	struct node_runtime *runtime = session->runtime;
	_cleanup_free_ struct pull_piece *pieces = must(calloc(PULL_LAYERS_MAX, sizeof(*pieces)));
	size_t n = 0;

	for (size_t at = 0; at < runtime->n_namespaces; at++) {
		const Containerd__ListStatusesResponse *found;

		if (!is_good(session, ask(session, CONTAINERD_INGESTS, runtime->namespaces[at],
					      NULL, &found)))
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
	runtime->pulls_at_us = now_us();
	pulls_take(
		&runtime->pulls, &session->request->sample.pulled, pieces, n, runtime->pulls_at_us);
}

/*
 * Whose layers these are, by the manifest of one of them: all layers of the image get its name.
 * Each layer has its turn, because one that no manifest has must not hold up the others.
 */
static void ask_content(struct session *session)
{
	Containerd__FilterRequest message = CONTAINERD__FILTER_REQUEST__INIT;
	char texts[LAYERS_MAX][256], *filters[LAYERS_MAX];
	struct node_runtime *runtime = session->runtime;
	const struct pull_layer *layer = pulls_nameless(&runtime->pulls, runtime->content_turn);
	const char *digest = layer ? strstr(layer->piece.ref, "sha256:") : NULL;
	const Containerd__ListContentResponse *found;
	char image[160];

	if (!digest)
		return;
	runtime->content_turn++;
	/* Filters are alternatives; none is found where more than a hundred have the layer. */
	for (size_t i = 0; i < LAYERS_MAX; i++) {
		snprintf(texts[i], sizeof(texts[i]), "labels.\"" LAYER_LABEL "%zu\"==\"%s\"", i,
			digest);
		filters[i] = texts[i];
	}
	message.filters = filters;
	message.n_filters = LAYERS_MAX;
	if (ask(session, CONTAINERD_CONTENT, layer->piece.namespace, &message.base, &found) != 0)
		return;
	for (size_t m = 0; m < found->n_info; m++) {
		Containerd__Info__LabelsEntry **labels = found->info[m]->labels;
		size_t n = found->info[m]->n_labels, source = 0;

		while (source < n && !starts_with(labels[source]->key, SOURCE_LABEL))
			source++;
		/* docker.io/library/nginx of ...source.docker.io=library/nginx,other/name */
		if (source == n || snprintf(image, sizeof(image), "%s/%.*s",
					   labels[source]->key + strlen(SOURCE_LABEL),
					   (int)strcspn(labels[source]->value, ","),
					   labels[source]->value) >= (int)sizeof(image))
			continue;
		for (size_t i = 0; i < n; i++)
			if (starts_with(labels[i]->key, LAYER_LABEL))
				pulls_name(&runtime->pulls, labels[i]->value, image);
	}
}

/*
 * "127.0.0.1:5000/app" of "127.0.0.1/app": containerd's label lacks the registry's port, which the
 * names of images from there have, and this one's when it has come in.
 */
static bool find_full_name(
	struct session *session, const char *namespace, const char *name, char full[static 160])
{
	Containerd__FilterRequest message = CONTAINERD__FILTER_REQUEST__INIT;
	const Containerd__ListImagesResponse *found;
	size_t host = strcspn(name, "/"), len = strlen(name + host);
	char filter[200], *filters[] = {filter};
	bool any = false, same = false;

	snprintf(filter, sizeof(filter), "name~=\"^%.*s(:[0-9]+)?/\"", (int)host, name);
	message.filters = filters;
	message.n_filters = 1;
	if (ask(session, CONTAINERD_IMAGES, namespace, &message.base, &found) != 0)
		return false;
	/* Of several ports that of the same image. */
	for (size_t i = 0; i < found->n_images && !same; i++) {
		const char *image = found->images[i]->name;
		size_t registry = strcspn(image, "/");

		if (strncmp(image, name, host) != 0 || !strchr(":/", image[host]))
			continue;
		same = strncmp(image + registry, name + host, len) == 0 &&
		       strchr(":@", image[registry + len]);
		any = snprintf(full, 160, "%.*s%s", (int)registry, image, name + host) < 160;
	}
	return any;
}

static void ask_registries(struct session *session)
{
	struct node_runtime *runtime = session->runtime;
	struct pulls *pulls = &runtime->pulls;

	for (size_t i = 0; i < pulls->n_images; i++) {
		const struct pull_image *image = &pulls->images[i];
		char name[160], full[160];

		copy_text(name, sizeof(name), image->name);
		for (size_t at = 0; name[0] && !image->placed && at < runtime->n_namespaces; at++) {
			if (!find_full_name(session, runtime->namespaces[at], name, full))
				continue;
			pulls_place(pulls, name, full);
			break;
		}
	}
}

void runtime_sample_cri(struct node_runtime *runtime, struct runtime_tuner *request,
	const char *socket, bool slow, const struct wait *wait)
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
		{ask_registries, false, false},
	};
	struct session session = {.runtime = runtime, .request = request};

	grpc_open(&session.cri.grpc, socket);
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
	grpc_close(&session.cri.grpc);
}
