/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Container Runtime Interface: calls and their messages; the questions that the drivers of
 * containerd and CRI-O ask for a sample; the images of both. It changes nothing on the node but
 * for pulls of images.
 */
#include "runtime/cri.h"

#include "base/json.h"

#define CONFIG_MAX ((size_t)128 * 1024) /* containerd's info.config has 4 to 20 KB */

#define CRI(method, answer) {"/runtime.v1." method, &cri__##answer##__descriptor}
#define CONTAINERD(method, answer) \
	{"/containerd.services." method, &containerd__##answer##__descriptor}

static const struct {
	const char *method;
	const ProtobufCMessageDescriptor *answer;
} calls[] = {
	[CRI_VERSION] = CRI("RuntimeService/Version", version_response),
	[CRI_STATUS] = CRI("RuntimeService/Status", status_response),
	[CRI_FILESYSTEMS] = CRI("ImageService/ImageFsInfo", image_fs_info_response),
	[CRI_SANDBOXES] = CRI("RuntimeService/ListPodSandbox", list_pod_sandbox_response),
	[CRI_SANDBOX_STATUS] = CRI("RuntimeService/PodSandboxStatus", pod_sandbox_status_response),
	[CRI_CONTAINERS] = CRI("RuntimeService/ListContainers", list_containers_response),
	[CRI_IMAGES] = CRI("ImageService/ListImages", list_images_response),
	[CRI_IMAGE] = CRI("ImageService/ImageStatus", image_status_response),
	[CRI_PULL] = CRI("ImageService/PullImage", text),
	[CONTAINERD_VERSION] = CONTAINERD("version.v1.Version/Version", version_response),
	[CONTAINERD_NAMESPACES] = CONTAINERD("namespaces.v1.Namespaces/List", list_named_response),
	[CONTAINERD_INGESTS] =
		CONTAINERD("content.v1.Content/ListStatuses", list_statuses_response),
	[CONTAINERD_CONTENT] = CONTAINERD("content.v1.Content/List", list_content_response),
	[CONTAINERD_READ] = CONTAINERD("content.v1.Content/Read", read_content_response),
	[CONTAINERD_IMAGES] = CONTAINERD("images.v1.Images/List", list_images_response),
	[CONTAINERD_GET_IMAGE] = CONTAINERD("images.v1.Images/Get", image_response),
	[CONTAINERD_CREATE_IMAGE] = CONTAINERD("images.v1.Images/Create", image_response),
	[CONTAINERD_UPDATE_IMAGE] = CONTAINERD("images.v1.Images/Update", image_response),
	[CONTAINERD_DELETE_IMAGE] = CONTAINERD("images.v1.Images/Delete", empty),
	[CONTAINERD_LEASES] = CONTAINERD("leases.v1.Leases/List", list_named_response),
	[CONTAINERD_CREATE_LEASE] = CONTAINERD("leases.v1.Leases/Create", empty),
	[CONTAINERD_DELETE_LEASE] = CONTAINERD("leases.v1.Leases/Delete", empty),
};

/* arena_free() releases all of it. */
static void release(void *, void *)
{
}

/* Decodes into the bounded arena: a small answer can contain millions of empty messages. */
int cri_call(struct cri *cri, const struct wait *wait, struct arena *arena, enum cri_call which,
	const char *namespace, const ProtobufCMessage *message, void *ret)
{
	ProtobufCAllocator allocator = {arena_alloc, release, arena};
	size_t size = message ? protobuf_c_message_get_packed_size(message) : 0;
	_cleanup_free_ uint8_t *data = must(malloc(size + 1));
	const struct grpc_request request = {
		calls[which].method, namespace, cri->lease, data, size};
	struct grpc_answer answer;
	void *decoded;
	int r;

	if (message)
		protobuf_c_message_pack(message, data);
	r = grpc_unary(&cri->grpc, wait, &request, arena, &answer);
	if (r != 0)
		return r;
	decoded = protobuf_c_message_unpack(
		calls[which].answer, &allocator, answer.size, answer.data);
	if (!decoded) {
		set_text(cri->grpc.error, "the answer is invalid or too large");
		return -EBADMSG;
	}
	*(void **)ret = decoded;
	return 0;
}

int cri_get_config(struct cri *cri, const struct wait *wait, cJSON **config)
{
	Cri__StatusRequest request = CRI__STATUS_REQUEST__INIT;
	_cleanup_arena_ struct arena arena = {0};
	const Cri__StatusResponse *m;
	int r;

	request.verbose = true;
	r = cri_call(cri, wait, &arena, CRI_STATUS, NULL, &request.base, &m);
	for (size_t i = 0; r == 0 && i < m->n_info && !*config; i++)
		if (streq(m->info[i]->key, "config") &&
			strnlen(m->info[i]->value, CONFIG_MAX) < CONFIG_MAX)
			*config = cJSON_Parse(m->info[i]->value);
	return r;
}

enum cri_answers cri_probe(const char *path, const struct wait *wait)
{
	_cleanup_arena_ struct arena arena = {0};
	const Cri__VersionResponse *version;
	struct cri cri = {0};
	int r;

	grpc_open(&cri.grpc, path);
	r = cri_call(&cri, wait, &arena, CRI_VERSION, NULL, NULL, &version);
	grpc_close(&cri.grpc);
	switch (r) {
	case 0:
		return CRI_ANSWERS;
	case -ETIMEDOUT: /* or too busy to accept */
	case -ECONNRESET:
	case -EPROTO:
	case -EBADMSG:
	case -EFBIG:
		return CRI_CONNECTS;
	default:
		return r > 0 ? CRI_IS_GRPC : CRI_NO_ANSWER;
	}
}

/* The deadline of an answer. */
#define ANSWER_US (5 * USEC_PER_SEC)

#define BEGINNING_EVERY_US (1 * USEC_PER_SEC)

/* Far more than a kubelet runs. Further pods and containers are ignored. */
#define PODS_MAX       2048
#define CONTAINERS_MAX 8192

/* ---- read() ---- */

bool cri_is_good(struct cri_reading *session, int r)
{
	struct node_runtime *runtime = session->runtime;

	if (r == 0) {
		runtime_note(runtime, NULL);
		return true;
	}
	if (r == -ECANCELED)
		session->reading->cancelled = true;
	else if (r < 0)
		runtime_note(runtime, session->cri.grpc.error);
	return false;
}

bool cri_is_ready(struct cri_reading *session, int r)
{
	if (r > 0)
		session->runtime->due_us = now_us() + BEGINNING_EVERY_US;
	return cri_is_good(session, r);
}

int cri_ask(struct cri_reading *session, enum cri_call which, const char *namespace,
	const ProtobufCMessage *message, void *ret)
{
	arena_free(&session->arena);
	return cri_call(
		&session->cri, &session->wait, &session->arena, which, namespace, message, ret);
}

void cri_set_version(struct cri_reading *session, const char *version)
{
	struct node_runtime *runtime = session->runtime;

	runtime_set_process(runtime, session->reading->host, session->cri.grpc.peer);
	set_text(runtime->daemon.version, version);
	for (char *c = runtime->daemon.version; *c; c++)
		if (*c <= ' ' || *c > '~')
			*c = '?';
}

void cri_ask_version(struct cri_reading *session)
{
	const Cri__VersionResponse *version;

	if (cri_is_ready(session, cri_ask(session, CRI_VERSION, NULL, NULL, &version)))
		cri_set_version(session, version->runtime_version);
}

void cri_ask_store(struct cri_reading *session)
{
	struct node_runtime *runtime = session->runtime;
	struct runtime_store *store = &runtime->store;
	const Cri__ImageFsInfoResponse *found;
	const Cri__FilesystemUsage *usage;

	if (!cri_is_good(session, cri_ask(session, CRI_FILESYSTEMS, NULL, NULL, &found)) ||
		found->n_image_filesystems == 0)
		return;
	usage = found->image_filesystems[0];
	set_text(store->directory, usage->fs_id ? usage->fs_id->text : "");
	store->image_bytes = usage->used_bytes ? usage->used_bytes->value : 0;
}

/* Asks for the address of a pod once, because it does not change. "" if it is unknown. */
static const char *find_address(
	struct cri_reading *session, const char *id, struct runtime_addresses *addresses)
{
	const struct runtime_addresses *before = &session->runtime->addresses;
	const struct runtime_address *known = find_named(before->entries, before->n, id);
	Cri__Text request = CRI__TEXT__INIT;
	const Cri__PodSandboxStatusResponse *m;
	const Cri__LinuxPodSandboxStatus *status;
	struct runtime_address *added;

	request.text = (char *)id;
	if (!known && (!cri_is_good(session,
			       cri_ask(session, CRI_SANDBOX_STATUS, NULL, &request.base, &m)) ||
			      !m->status))
		return "";
	added = add_element(&addresses->entries, &addresses->n, &addresses->allocated);
	if (known) {
		*added = *known;
		return added->address;
	}
	set_text(added->sandbox, id);
	status = m->status->linux_status;
	if (m->status->network &&
		!(status && status->namespaces && status->namespaces->options &&
			status->namespaces->options->network == CRI_NAMESPACE_NODE))
		set_text(added->address, m->status->network->text);
	return added->address;
}

static void add_name(struct runtime_names *names, const struct workload *workload, const char *id,
	const char *address)
{
	struct name_entry *entry = add_element(&names->entries, &names->n, &names->allocated);

	entry->workload = *workload;
	set_text(entry->workload.id, id);
	set_text(entry->address, address);
}

/* Finds the pods that run no container; CRI_CONTAINER_RUNNING and less are created or run. */
static void find_waiting(struct node_runtime *runtime, const Cri__ListPodSandboxResponse *sandboxes,
	const Cri__ListContainersResponse *containers)
{
	size_t n_pods = MIN(sandboxes->n_items, (size_t)PODS_MAX);
	size_t n_containers = MIN(containers->n_containers, (size_t)CONTAINERS_MAX);

	runtime->n_waiting = 0;
	for (size_t i = 0; i < n_pods; i++) {
		const Cri__PodSandbox *sandbox = sandboxes->items[i];
		struct workload workload = {.kind = WORKLOAD_POD};
		size_t k = 0;

		if (sandbox->state != CRI_SANDBOX_READY || !sandbox->metadata)
			continue;
		while (k < n_containers &&
			(containers->containers[k]->state > CRI_CONTAINER_RUNNING ||
				!streq(containers->containers[k]->pod_sandbox_id, sandbox->id)))
			k++;
		if (k < n_containers)
			continue;
		set_text(workload.name, sandbox->metadata->name);
		set_text(workload.namespace, sandbox->metadata->namespace_);
		if (runtime->n_waiting++ < RUNTIME_WAITING_MAX)
			runtime->waiting[runtime->n_waiting - 1] = workload;
	}
}

void cri_ask_names(struct cri_reading *session)
{
	struct node_runtime *runtime = session->runtime;
	struct runtime_addresses addresses = {0};
	struct runtime_names names = {0};
	_cleanup_arena_ struct arena pods = {0};
	const Cri__ListPodSandboxResponse *sandboxes;
	const Cri__ListContainersResponse *containers;
	size_t n_pods;

	if (!cri_is_good(session, cri_call(&session->cri, &session->wait, &pods, CRI_SANDBOXES,
					  NULL, NULL, &sandboxes)) ||
		!cri_is_good(session, cri_call(&session->cri, &session->wait, &pods, CRI_CONTAINERS,
					      NULL, NULL, &containers)))
		return;
	/* A cgroup has the uid of the pod or the id of its sandbox. */
	for (size_t i = 0; i < MIN(sandboxes->n_items, (size_t)PODS_MAX); i++) {
		const Cri__PodSandbox *sandbox = sandboxes->items[i];
		const Cri__PodSandboxMetadata *pod = sandbox->metadata;
		struct workload workload = {.kind = WORKLOAD_POD};

		if (sandbox->state != CRI_SANDBOX_READY || !pod ||
			runtime->answer != RUNTIME_ANSWERS)
			continue;
		set_text(workload.name, pod->name);
		set_text(workload.namespace, pod->namespace_);
		add_name(&names, &workload, pod->uid,
			find_address(session, sandbox->id, &addresses));
		add_name(&names, &workload, sandbox->id, "");
	}
	if (runtime->answer != RUNTIME_ANSWERS || session->reading->cancelled) {
		free(addresses.entries);
		free(names.entries);
		return;
	}
	find_waiting(runtime, sandboxes, containers);
	/* A container whose cgroup is outside its pod's is found by its own id. */
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
	runtime_set_names(runtime, &names);
}

void cri_read(struct runtime_reading *reading, const struct cri_question *questions)
{
	struct cri_reading session = {.reading = reading, .runtime = reading->runtime};

	grpc_open(&session.cri.grpc, reading->socket);
	for (const struct cri_question *question = questions; question->ask; question++) {
		if ((question->of_cri && reading->runtime->no_cri) ||
			(question->slow && !reading->slow) || reading->cancelled ||
			(question > questions && reading->runtime->answer != RUNTIME_ANSWERS))
			continue;
		session.wait = wait_at_most(reading->wait, ANSWER_US);
		question->ask(&session);
	}
	arena_free(&session.arena);
	grpc_close(&session.cri.grpc);
}

/* ---- images ---- */

#define CALL_US (10 * USEC_PER_SEC) /* for any call but a pull */

struct image_session image_session_open(
	const struct image_runtime *runtime, const struct wait *wait, char *why)
{
	struct image_session session = {.runtime = runtime, .wait = *wait, .why = why};

	grpc_open(&session.cri.grpc, runtime->socket);
	why[0] = '\0';
	return session;
}

void image_session_end(struct image_session *session)
{
	grpc_close(&session->cri.grpc);
	arena_free(&session->arena);
}

/* google.golang.org/grpc/codes. Most errors of registries are GRPC_UNKNOWN. */
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

/* A pull takes as long as the session waits. */
int image_call(struct image_session *session, enum cri_call which, const ProtobufCMessage *message,
	void *ret)
{
	struct wait wait = wait_at_most(&session->wait, which == CRI_PULL ? UINT64_MAX : CALL_US);
	int r = cri_call(&session->cri, &wait, &session->arena, which, CRI_NAMESPACE, message, ret);
	char *text = session->cri.grpc.error, *next;

	if (r == 0)
		return 0;
	/* Causes are nested. Keep the innermost cause of a long text. */
	hide_secrets(text);
	text_make_printable(text);
	while (strlen(text) >= IMAGES_WHY_MAX && (next = strstr(text, ": ")))
		text = next + 2;
	if (r == GRPC_UNIMPLEMENTED)
		copy_text(session->why, IMAGES_WHY_MAX,
			"the runtime does not serve images: its CRI plugin is disabled");
	else if (r < 0)
		snprintf(session->why, IMAGES_WHY_MAX, "%s: %s", session->runtime->driver->name,
			text);
	else if (text[0])
		utf8_copy(session->why, IMAGES_WHY_MAX, text);
	else
		snprintf(session->why, IMAGES_WHY_MAX, "gRPC status %d", r);
	if (strstr(text, "no space left on device"))
		return -ENOSPC;
	return r < 0 ? r : -(errors[r] ? errors[r] : EPROTO);
}

int cri_list_images(const struct image_runtime *runtime, const struct wait *wait,
	struct runtime_image **ret, size_t *n, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(image_session_end) struct image_session session =
		image_session_open(runtime, wait, why);
	const Cri__ListImagesResponse *list;
	struct runtime_image *images = NULL;
	size_t n_images = 0, allocated = 0;
	int r;

	r = image_call(&session, CRI_IMAGES, NULL, &list);
	if (r < 0)
		return r;
	for (size_t i = 0; i < list->n_images; i++) {
		const Cri__Image *image = list->images[i];

		for (size_t k = 0; k < image->n_repo_tags + image->n_repo_digests; k++) {
			const char *name = k < image->n_repo_tags
						   ? image->repo_tags[k]
						   : image->repo_digests[k - image->n_repo_tags];
			struct runtime_image entry = {.size = image->size, .pinned = image->pinned};

			/* Names of archives are never longer. */
			if (!set_text(entry.name, name) || !set_text(entry.id, image->id))
				continue;
			text_make_printable(entry.name);
			*add_element(&images, &n_images, &allocated) = entry;
		}
	}
	*ret = images;
	*n = n_images;
	return 0;
}

/* Sends the name of an image alone. */
static int ask_image(
	struct image_session *session, enum cri_call which, const char *name, void *ret)
{
	Cri__ImageRequest request = CRI__IMAGE_REQUEST__INIT;
	Cri__ImageSpec spec = CRI__IMAGE_SPEC__INIT;

	spec.image = (char *)name;
	request.image = &spec;
	return image_call(session, which, &request.base, ret);
}

int cri_image_status(struct image_session *session, const char *name, const Cri__Image **image)
{
	const Cri__ImageStatusResponse *status;
	int r = ask_image(session, CRI_IMAGE, name, &status);

	if (r == 0)
		*image = status->image;
	return r;
}

int cri_find_image(const struct image_runtime *runtime, const char *name, const struct wait *wait,
	struct runtime_image *ret, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(image_session_end) struct image_session session =
		image_session_open(runtime, wait, why);
	struct runtime_image image = {0};
	const Cri__Image *found = NULL;
	int r = cri_image_status(&session, name, &found);

	if (r < 0 || !found)
		return r < 0 ? r : -ENOENT;
	set_text(image.name, name);
	set_text(image.id, found->id);
	image.size = found->size;
	*ret = image;
	return 0;
}

int cri_read_images_info(struct image_runtime *runtime, const struct host *,
	const struct wait *wait, struct image_info *info, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *config = NULL;
	_cleanup_arena_ struct arena arena = {0};
	const Cri__ImageFsInfoResponse *found;
	const Cri__VersionResponse *version;
	struct cri cri = {0};
	int r;

	grpc_open(&cri.grpc, runtime->socket);
	r = cri_call(&cri, wait, &arena, CRI_VERSION, NULL, NULL, &version);
	info->pid = cri.grpc.peer;
	if (r == 0)
		set_text(runtime->daemon.version, version->runtime_version);
	if (r == 0 && cri_call(&cri, wait, &arena, CRI_FILESYSTEMS, NULL, NULL, &found) == 0 &&
		found->n_image_filesystems > 0 && found->image_filesystems[0]->fs_id)
		set_text(info->store, found->image_filesystems[0]->fs_id->text);
	if (r == 0 && (info->wants_sandbox || info->wants_mirrors) &&
		cri_get_config(&cri, wait, &config) == 0) {
		(void)image_normalize(json_text_at(config, "sandboxImage"), info->sandbox);
		/* containerd 1.x; an empty one: no mirrors. */
		if (json_at(config, "registry/configPath"))
			runtime->knows_mirrors = set_text(
				runtime->mirrors, json_text_at(config, "registry/configPath"));
	}
	copy_text(why, IMAGES_WHY_MAX,
		r == GRPC_UNIMPLEMENTED ? "its CRI plugin is switched off" : cri.grpc.error);
	grpc_close(&cri.grpc);
	return r > 0 ? -EOPNOTSUPP : r;
}

int cri_pull(struct image_session *session, const char *reference)
{
	const ProtobufCMessage *answer;

	return ask_image(session, CRI_PULL, reference, &answer);
}

int cri_pull_image(const struct image_runtime *runtime, const char *name, const struct wait *wait,
	_Atomic uint64_t *, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(image_session_end) struct image_session session =
		image_session_open(runtime, wait, why);

	return cri_pull(&session, name);
}
