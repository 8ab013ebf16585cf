/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_server.h"

#include "runtime/containerd_client.h"

struct fixture {
	struct grpc_fixture grpc;
	uint8_t data[1024]; /* of each answer */
	size_t size;
	bool no_message; /* a stream of none */
};

static void serve(struct server_call *call, void *userdata)
{
	struct fixture *fixture = userdata;

	if (call->complete && fixture->no_message)
		server_answer_raw(call, "", 0, "0");
	else if (call->complete && streq(call->namespace, "k8s.io"))
		server_answer(call, fixture->data, fixture->size);
	else if (call->complete)
		server_answer_status(call, "9", "namespace is required");
}

static void begin(struct fixture *fixture)
{
	*fixture = (struct fixture){0};
	grpc_fixture_make(&fixture->grpc, serve, fixture);
	server_start(&fixture->grpc.server);
}

static void end(struct fixture *fixture)
{
	server_stop(&fixture->grpc.server);
	grpc_fixture_remove(&fixture->grpc);
}

#define FIXTURE_TEST(name) TEST_OF(fixture, f, begin, end, name)

FIXTURE_TEST(times_of_ingests_are_read)
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
	const Containerd__ListStatusesResponse *ingests;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Containerd__ListStatusesResponse response =
			CONTAINERD__LIST_STATUSES_RESPONSE__INIT;
		Containerd__IngestStatus status = CONTAINERD__INGEST_STATUS__INIT;
		Containerd__IngestStatus *list[] = {&status};
		Containerd__Timestamp stamp = CONTAINERD__TIMESTAMP__INIT;

		stamp.seconds = cases[i].seconds;
		stamp.nanos = cases[i].nanos;
		status.updated_at = &stamp;
		response.statuses = list;
		response.n_statuses = 1;
		f->size = protobuf_c_message_pack(&response.base, f->data);
		assert_int_equal(containerd_call(f->grpc.grpc, &f->grpc.wait, &f->grpc.arena,
					 CONTAINERD_INGESTS, "k8s.io", NULL, &ingests),
			0);
		assert_int_equal(ingests->n_statuses, 1);
		assert_int_equal(containerd_time_us(ingests->statuses[0]->updated_at), cases[i].us);
		assert_int_equal(containerd_time_us(ingests->statuses[0]->started_at), 0);
	}
	assert_int_equal(containerd_call(f->grpc.grpc, &f->grpc.wait, &f->grpc.arena,
				 CONTAINERD_INGESTS, "moby", NULL, &ingests),
		GRPC_FAILED_PRECONDITION);
	assert_int_equal(containerd_call(f->grpc.grpc, &f->grpc.wait, &f->grpc.arena,
				 CONTAINERD_INGESTS, "two words", NULL, &ingests),
		-EINVAL);
}

FIXTURE_TEST(manifests_of_a_layer_have_their_labels)
{
	static const char *const bad[] = {"", "sha256", "sha256:0\"", "sha256:0==", "a b:c"};
	Containerd__ListContentResponse message = CONTAINERD__LIST_CONTENT_RESPONSE__INIT;
	Containerd__Info info = CONTAINERD__INFO__INIT, *list[] = {&info};
	Containerd__Info__LabelsEntry label = CONTAINERD__INFO__LABELS_ENTRY__INIT;
	Containerd__Info__LabelsEntry *labels[] = {&label};
	const Containerd__ListContentResponse *manifests;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(containerd_get_manifests(f->grpc.grpc, &f->grpc.wait,
					 &f->grpc.arena, "k8s.io", bad[i], &manifests),
			-EINVAL);
	label.key = (char *)"containerd.io/gc.ref.content.l.0";
	label.value = (char *)"sha256:01";
	info.labels = labels;
	info.n_labels = 1;
	message.info = list;
	message.n_info = 1;
	f->size = protobuf_c_message_pack(&message.base, f->data);
	assert_int_equal(containerd_get_manifests(f->grpc.grpc, &f->grpc.wait, &f->grpc.arena,
				 "k8s.io", "sha256:01", &manifests),
		0);
	assert_int_equal(manifests->n_info, 1);
	assert_string_equal(manifests->info[0]->labels[0]->value, "sha256:01");
	f->no_message = true;
	assert_int_equal(containerd_get_manifests(f->grpc.grpc, &f->grpc.wait, &f->grpc.arena,
				 "k8s.io", "sha256:01", &manifests),
		-EBADMSG);
	assert_int_equal(f->grpc.server.accepted, 1);
}
