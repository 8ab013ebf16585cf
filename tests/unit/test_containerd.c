/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_server.h"

#include "runtime/containerd_internal.h"

#define TIMEOUT_US (20 * USEC_PER_SEC)

struct bench {
	struct directory directory;
	sd_event *event;
	struct server server;
	struct containerd_client *client;
	bool without_target;
	unsigned gets, updates, answers;
	enum grpc_status status;
};

static void answer_image(struct server_call *call, const Containerd__Image *image)
{
	Containerd__ImageMessage message = CONTAINERD__IMAGE_MESSAGE__INIT;
	_cleanup_free_ uint8_t *data = NULL;
	size_t size;

	message.image = (Containerd__Image *)image;
	assert_int_equal(wire_encode(&message.base, &data, &size), 0);
	server_answer(call, data, size);
}

static void serve_get(struct server_call *call, bool without_target)
{
	Containerd__Image image = CONTAINERD__IMAGE__INIT;
	Containerd__Descriptor target = CONTAINERD__DESCRIPTOR__INIT;

	image.name = (char *)"a:1";
	target.digest = (char *)"sha256:0123";
	target.media_type = (char *)"type";
	target.size = 42;
	image.target = without_target ? NULL : &target;
	answer_image(call, &image);
}

/* What would have panicked a real one fails here. */
static void serve_update(struct server_call *call)
{
	_cleanup_arena_ struct arena arena;
	const Containerd__UpdateImageRequest *request;

	arena_init(&arena);
	request = wire_decode(&arena, &containerd__update_image_request__descriptor, call->body + 5,
		call->body_len - 5);
	assert_non_null(request);
	assert_non_null(request->image->target);
	assert_string_equal(request->image->name, "a:1");
	assert_string_equal(request->image->target->digest, "sha256:0123");
	assert_int_equal(request->image->target->size, 42);
	assert_int_equal(request->update_mask->n_paths, 1);
	assert_string_equal(request->update_mask->paths[0], "labels.io.cri-containerd.pinned");
	assert_int_equal(request->image->n_labels, 1);
	assert_string_equal(request->image->labels[0]->value, "pinned");
	assert_string_equal(call->namespace, "k8s.io");
	answer_image(call, request->image);
}

static void serve(struct server_call *call, void *userdata)
{
	struct bench *bench = userdata;

	if (!call->complete)
		return;
	if (streq(call->path, "/containerd.services.images.v1.Images/Get")) {
		bench->gets++;
		serve_get(call, bench->without_target);
	} else if (streq(call->path, "/containerd.services.images.v1.Images/Update")) {
		bench->updates++;
		serve_update(call);
	} else {
		server_answer(call, "", 0);
	}
}

static void bench_begin(struct bench *bench)
{
	memset(bench, 0, sizeof(*bench));
	directory_make(&bench->directory);
	assert_true(sd_event_new(&bench->event) >= 0);
	bench->server.event = bench->event;
	bench->server.serve = serve;
	bench->server.userdata = bench;
	directory_path(&bench->directory, "/s.sock", bench->server.path);
	server_listen(&bench->server);
	assert_int_equal(containerd_client_open(
				 bench->event, bench->server.path, TIMEOUT_US, &bench->client),
		0);
}

static void bench_end(struct bench *bench)
{
	containerd_client_close(bench->client);
	server_stop(&bench->server);
	sd_event_unref(bench->event);
	directory_remove(&bench->directory);
}

static void on_answer(const struct containerd_answer *answer, void *userdata)
{
	struct bench *bench = userdata;

	bench->answers++;
	bench->status = answer->result.status;
	if (bench->status == GRPC_OK && bench->updates > 0) {
		assert_string_equal(answer->image->name, "a:1");
		assert_int_equal(answer->image->n_labels, 1);
		assert_string_equal(answer->image->labels[0].key, "io.cri-containerd.pinned");
	}
}

static void wait_for_answer(struct bench *bench)
{
	uint64_t until = now_us() + TIMEOUT_US;

	while (bench->answers == 0 && now_us() < until)
		sd_event_run(bench->event, USEC_PER_SEC);
	assert_int_equal(bench->answers, 1);
}

static void sends_the_target_back(void **state)
{
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	assert_int_equal(containerd_image_label(bench.client, "k8s.io", "a:1",
				 "io.cri-containerd.pinned", "pinned", on_answer, &bench),
		0);
	wait_for_answer(&bench);
	assert_int_equal(bench.status, GRPC_OK);
	assert_int_equal(bench.gets, 1);
	assert_int_equal(bench.updates, 1);
	bench_end(&bench);
}

static void updates_nothing_without_a_target(void **state)
{
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	bench.without_target = true;
	assert_int_equal(containerd_image_label(
				 bench.client, "k8s.io", "a:1", "key", "value", on_answer, &bench),
		0);
	wait_for_answer(&bench);
	assert_int_equal(bench.status, GRPC_INTERNAL);
	assert_int_equal(bench.updates, 0);
	bench_end(&bench);
}

/* An image's place in the answer that is none. */
static void knows_an_answer_without_an_image(void **state)
{
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	assert_int_equal(containerd_image_create(bench.client, "k8s.io",
				 &(struct containerd_image){
					 .name = "b:1", .target = {"type", "sha256:0123", 42}},
				 on_answer, &bench),
		0);
	wait_for_answer(&bench);
	assert_int_equal(bench.status, GRPC_INTERNAL);
	bench_end(&bench);
}

static void refuses_half_images(void **state)
{
	struct bench bench;
	struct containerd_image image = {.name = "b:1", .target = {"type", "", 42}};

	(void)state;
	bench_begin(&bench);
	assert_int_equal(
		containerd_image_create(bench.client, "k8s.io", &image, on_answer, NULL), -EINVAL);
	image.target = (struct containerd_target){"type", "sha256:0123", 0};
	assert_int_equal(
		containerd_image_create(bench.client, "k8s.io", &image, on_answer, NULL), -EINVAL);
	assert_int_equal(
		containerd_image_label(bench.client, "k8s.io", "a:1", "", "value", on_answer, NULL),
		-EINVAL);
	assert_int_equal(
		containerd_image_get(bench.client, "k8s.io", "", on_answer, NULL), -EINVAL);
	assert_int_equal(
		containerd_image_get(bench.client, "two words", "a:1", on_answer, NULL), -EINVAL);
	bench_end(&bench);
}

static void reads_times(void **state)
{
	static const struct {
		int64_t seconds;
		int32_t nanos;
		uint64_t us;
	} cases[] = {
		{1700000000, 250000000, 1700000000250000},
		{0, 0, 0},
		{-1, 0, 0},
		{-62135596800, 0, 0}, /* Go's zero time */
		{INT64_MAX, 0, 0},
		{1, -1, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_arena_ struct arena arena;
		Containerd__ListStatusesResponse response =
			CONTAINERD__LIST_STATUSES_RESPONSE__INIT;
		Containerd__IngestStatus status = CONTAINERD__INGEST_STATUS__INIT,
					 *list[] = {&status};
		Containerd__Timestamp stamp = CONTAINERD__TIMESTAMP__INIT;
		struct containerd_answer answer = {0};
		uint8_t buffer[256];

		arena_init(&arena);
		stamp.seconds = cases[i].seconds;
		stamp.nanos = cases[i].nanos;
		status.updated_at = &stamp;
		response.statuses = list;
		response.n_statuses = 1;
		assert_true(containerd_read_ingests(
			&arena, buffer, protobuf_c_message_pack(&response.base, buffer), &answer));
		assert_int_equal(answer.ingests.n, 1);
		assert_int_equal(answer.ingests.list[0].updated_us, cases[i].us);
		assert_int_equal(answer.ingests.list[0].started_us, 0);
	}
}

static void asks_for_digests_alone(void **state)
{
	static const char *const bad[] = {"", "sha256", "sha256:0\"", "sha256:0==", "a b:c"};
	struct bench bench;

	(void)state;
	bench_begin(&bench);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(
			containerd_manifests_of(bench.client, "k8s.io", bad[i], on_answer, &bench),
			-EINVAL);
	assert_int_equal(
		containerd_manifests_of(bench.client, "k8s.io", "sha256:01", on_answer, &bench), 0);
	wait_for_answer(&bench);
	assert_int_equal(bench.status, GRPC_OK);
	bench_end(&bench);
}

static void reads_labels_of_content(void **state)
{
	Containerd__ListContentResponse message = CONTAINERD__LIST_CONTENT_RESPONSE__INIT;
	Containerd__Info info = CONTAINERD__INFO__INIT, *list[] = {&info};
	Containerd__Info__LabelsEntry label = CONTAINERD__INFO__LABELS_ENTRY__INIT;
	Containerd__Info__LabelsEntry *labels[] = {&label};
	struct containerd_answer answer = {0};
	_cleanup_free_ uint8_t *data = NULL;
	_cleanup_arena_ struct arena arena;
	size_t size;

	(void)state;
	arena_init(&arena);
	label.key = (char *)"containerd.io/gc.ref.content.l.0";
	label.value = (char *)"sha256:01";
	info.digest = (char *)"sha256:02";
	info.labels = labels;
	info.n_labels = 1;
	message.info = list;
	message.n_info = 1;
	assert_int_equal(wire_encode(&message.base, &data, &size), 0);
	assert_true(containerd_read_contents(&arena, data, size, &answer));
	assert_int_equal(answer.contents.n, 1);
	assert_string_equal(answer.contents.list[0].digest, "sha256:02");
	assert_int_equal(answer.contents.list[0].n_labels, 1);
	assert_string_equal(answer.contents.list[0].labels[0].value, "sha256:01");
	assert_false(containerd_read_contents(&arena, data, size - 1, &answer));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sends_the_target_back),
		cmocka_unit_test(updates_nothing_without_a_target),
		cmocka_unit_test(knows_an_answer_without_an_image),
		cmocka_unit_test(refuses_half_images),
		cmocka_unit_test(reads_times),
		cmocka_unit_test(asks_for_digests_alone),
		cmocka_unit_test(reads_labels_of_content),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
