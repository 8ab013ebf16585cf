/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/containerd.h"

#include "base/util.h"
#include "runtime/containerd_internal.h"

#include <errno.h>
#include <stdio.h>

/* containerd itself takes keys and values of labels of 4096 bytes together, and names up to that.
 */
#define TEXT_LEN_MAX 4096

#define SMALL_MAX ((size_t)64 * 1024)
#define IMAGE_MAX ((size_t)1024 * 1024)

#define IMAGES "/containerd.services.images.v1.Images/"

struct containerd_client {
	struct grpc_client *grpc;
	uint64_t timeout_us;
};

struct containerd_call {
	struct containerd_client *client;
	containerd_reader read;
	containerd_callback done;
	void *userdata;
};

/* containerd_image_label(): between its two steps. */
struct label_call {
	struct containerd_client *client;
	char *namespace, *key, *value;
	uint64_t deadline_us;
	containerd_callback done;
	void *userdata;
};

static void on_result(const struct grpc_result *result, void *userdata)
{
	const struct containerd_call *call = userdata;
	struct containerd_answer answer = {.result = *result};
	_cleanup_arena_ struct arena arena;

	arena_init(&arena);
	answer.result.data = NULL;
	answer.result.size = 0;
	if (result->status == GRPC_OK && !call->read(&arena, result->data, result->size, &answer)) {
		answer.result.status = GRPC_INTERNAL;
		answer.result.local = true;
		answer.result.message = "the answer is not what the API says, or far too large";
	}
	call->done(&answer, call->userdata); /* may close the client */
}

int containerd_begin(struct containerd_client *client, const struct grpc_call *grpc,
	const ProtobufCMessage *request, containerd_reader read, containerd_callback done,
	void *userdata)
{
	struct containerd_call *call = malloc(sizeof(*call));
	_cleanup_free_ uint8_t *message = NULL;
	struct grpc_call complete = *grpc;
	int r;

	if (!call)
		return -ENOMEM;
	*call = (struct containerd_call){client, read, done, userdata};
	complete.release = free;
	if (complete.timeout_us == 0)
		complete.timeout_us = client->timeout_us;
	r = request ? wire_encode(request, &message, &complete.size) : 0;
	complete.message = message;
	if (r == 0)
		r = grpc_call(client->grpc, &complete, on_result, call);
	if (r < 0)
		free(call);
	return r;
}

int containerd_client_open(
	sd_event *event, const char *path, uint64_t timeout_us, struct containerd_client **ret)
{
	struct containerd_client *client = calloc(1, sizeof(*client));
	int r;

	if (!client)
		return -ENOMEM;
	client->timeout_us = timeout_us;
	r = grpc_client_open(event, path, &client->grpc);
	if (r < 0) {
		free(client);
		return r;
	}
	*ret = client;
	return 0;
}

void containerd_client_close(struct containerd_client *client)
{
	grpc_client_close(client->grpc);
	free(client);
}

pid_t containerd_client_peer(const struct containerd_client *client)
{
	return grpc_client_peer(client->grpc);
}

int containerd_version(struct containerd_client *client, containerd_callback done, void *userdata)
{
	const struct grpc_call call = {
		.method = "/containerd.services.version.v1.Version/Version",
		.limit = SMALL_MAX,
	};

	return containerd_begin(client, &call, NULL, containerd_read_version, done, userdata);
}

int containerd_namespaces(
	struct containerd_client *client, containerd_callback done, void *userdata)
{
	const struct grpc_call call = {
		.method = "/containerd.services.namespaces.v1.Namespaces/List",
		.limit = IMAGE_MAX,
	};

	return containerd_begin(client, &call, NULL, containerd_read_namespaces, done, userdata);
}

int containerd_ingests(struct containerd_client *client, const char *namespace,
	containerd_callback done, void *userdata)
{
	const struct grpc_call call = {
		.method = "/containerd.services.content.v1.Content/ListStatuses",
		.containerd_namespace = namespace,
		.limit = IMAGE_MAX,
	};

	return containerd_begin(client, &call, NULL, containerd_read_ingests, done, userdata);
}

int containerd_images(struct containerd_client *client, const char *namespace,
	containerd_callback done, void *userdata)
{
	const struct grpc_call call = {
		.method = IMAGES "List",
		.containerd_namespace = namespace,
		.limit = WIRE_LIST_MAX,
	};

	return containerd_begin(client, &call, NULL, containerd_read_images, done, userdata);
}

static bool fits(const char *text)
{
	return text[0] != '\0' && strnlen(text, TEXT_LEN_MAX + 1) <= TEXT_LEN_MAX;
}

static int begin_named(struct containerd_client *client, const struct grpc_call *call,
	const char *name, containerd_reader read, containerd_callback done, void *userdata)
{
	Containerd__ImageNameRequest request = CONTAINERD__IMAGE_NAME_REQUEST__INIT;

	if (!fits(name))
		return -EINVAL;
	request.name = (char *)name;
	return containerd_begin(client, call, &request.base, read, done, userdata);
}

int containerd_image_get(struct containerd_client *client, const char *namespace, const char *name,
	containerd_callback done, void *userdata)
{
	const struct grpc_call call = {
		.method = IMAGES "Get",
		.containerd_namespace = namespace,
		.limit = IMAGE_MAX,
	};

	return begin_named(client, &call, name, containerd_read_image, done, userdata);
}

int containerd_image_delete(struct containerd_client *client, const char *namespace,
	const char *name, containerd_callback done, void *userdata)
{
	const struct grpc_call call = {
		.method = IMAGES "Delete",
		.containerd_namespace = namespace,
		.limit = SMALL_MAX,
	};

	return begin_named(client, &call, name, containerd_read_nothing, done, userdata);
}

static int fill_labels(
	struct arena *arena, const struct containerd_image *image, Containerd__Image *message)
{
	Containerd__Image__LabelsEntry *entries =
		arena_array(arena, image->n_labels, sizeof(*entries));

	message->labels = arena_array(arena, image->n_labels, sizeof(*message->labels));
	if (!entries || !message->labels)
		return -ENOMEM;
	for (size_t i = 0; i < image->n_labels; i++) {
		containerd__image__labels_entry__init(&entries[i]);
		entries[i].key = (char *)image->labels[i].key;
		entries[i].value = (char *)image->labels[i].value;
		message->labels[i] = &entries[i];
	}
	message->n_labels = image->n_labels;
	return 0;
}

int containerd_image_create(struct containerd_client *client, const char *namespace,
	const struct containerd_image *image, containerd_callback done, void *userdata)
{
	const struct grpc_call call = {
		.method = IMAGES "Create",
		.containerd_namespace = namespace,
		.limit = IMAGE_MAX,
	};
	Containerd__ImageMessage request = CONTAINERD__IMAGE_MESSAGE__INIT;
	Containerd__Image message = CONTAINERD__IMAGE__INIT;
	Containerd__Descriptor target = CONTAINERD__DESCRIPTOR__INIT;
	_cleanup_arena_ struct arena arena;
	int r;

	arena_init(&arena);
	if (!fits(image->name) || !fits(image->target.digest) || image->target.size <= 0)
		return -EINVAL;
	r = fill_labels(&arena, image, &message);
	if (r < 0)
		return r;
	target.media_type = (char *)image->target.media_type;
	target.digest = (char *)image->target.digest;
	target.size = image->target.size;
	message.name = (char *)image->name;
	message.target = &target;
	request.image = &message;
	return containerd_begin(
		client, &call, &request.base, containerd_read_image, done, userdata);
}

static void label_call_free(void *userdata)
{
	struct label_call *call = userdata;

	free(call->namespace);
	free(call->key);
	free(call->value);
	free(call);
}

/* The second step: the image as it was told, with one label of ours and a mask that names it. */
static int send_label(const struct label_call *call, Containerd__Image *image)
{
	Containerd__UpdateImageRequest request = CONTAINERD__UPDATE_IMAGE_REQUEST__INIT;
	Containerd__Image__LabelsEntry label = CONTAINERD__IMAGE__LABELS_ENTRY__INIT;
	Containerd__Image__LabelsEntry *labels[] = {&label};
	Containerd__FieldMask mask = CONTAINERD__FIELD_MASK__INIT;
	char path[sizeof("labels.") + TEXT_LEN_MAX];
	char *paths[] = {path};
	uint64_t now = now_us();
	const struct grpc_call grpc = {
		.method = IMAGES "Update",
		.containerd_namespace = call->namespace,
		.limit = IMAGE_MAX,
		.timeout_us = call->deadline_us > now ? call->deadline_us - now : 1,
	};

	snprintf(path, sizeof(path), "labels.%s", call->key);
	label.key = call->key;
	label.value = call->value;
	image->labels = labels;
	image->n_labels = ARRAY_SIZE(labels);
	mask.paths = paths;
	mask.n_paths = ARRAY_SIZE(paths);
	request.image = image;
	request.update_mask = &mask;
	return containerd_begin(call->client, &grpc, &request.base, containerd_read_image,
		call->done, call->userdata);
}

static void on_label_image(const struct grpc_result *result, void *userdata)
{
	const struct label_call *call = userdata;
	struct containerd_answer answer = {.result = *result};
	Containerd__ImageMessage *m = NULL;
	_cleanup_arena_ struct arena arena;

	arena_init(&arena);
	answer.result.data = NULL;
	answer.result.size = 0;
	if (result->status == GRPC_OK) {
		m = wire_decode(
			&arena, &containerd__image_message__descriptor, result->data, result->size);
		/* Without a target the update would panic containerd. */
		if (!m || !m->image || !m->image->target)
			answer.result.message = "the image is told without its target";
		else if (send_label(call, m->image) == 0)
			return;
		else
			answer.result.message = "the update cannot be sent";
		answer.result.status = GRPC_INTERNAL;
		answer.result.local = true;
	}
	call->done(&answer, call->userdata); /* may close the client */
}

static struct label_call *label_call_new(const char *namespace, const char *key, const char *value)
{
	struct label_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->namespace = strdup(namespace);
	call->key = strdup(key);
	call->value = strdup(value ? value : "");
	if (call->namespace && call->key && call->value)
		return call;
	label_call_free(call);
	return NULL;
}

int containerd_image_label(struct containerd_client *client, const char *namespace,
	const char *name, const char *key, const char *value, containerd_callback done,
	void *userdata)
{
	Containerd__ImageNameRequest request = CONTAINERD__IMAGE_NAME_REQUEST__INIT;
	_cleanup_free_ uint8_t *message = NULL;
	struct grpc_call grpc = {
		.method = IMAGES "Get",
		.containerd_namespace = namespace,
		.limit = IMAGE_MAX,
		.timeout_us = client->timeout_us,
		.release = label_call_free,
	};
	struct label_call *call;
	int r;

	if (!fits(name) || !fits(key) || (value && value[0] && !fits(value)))
		return -EINVAL;
	request.name = (char *)name;
	r = wire_encode(&request.base, &message, &grpc.size);
	if (r < 0)
		return r;
	grpc.message = message;
	call = label_call_new(namespace, key, value);
	if (!call)
		return -ENOMEM;
	call->client = client;
	call->deadline_us = now_us() + client->timeout_us;
	call->done = done;
	call->userdata = userdata;
	r = grpc_call(client->grpc, &grpc, on_label_image, call);
	if (r < 0)
		label_call_free(call);
	return r;
}
