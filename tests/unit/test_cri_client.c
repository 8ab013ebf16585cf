/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_server.h"

#include "runtime/cri_client.h"

struct fixture {
	struct grpc_fixture grpc;
	struct cri cri;
	const char *knows;  /* "v1" or "v1alpha2" */
	unsigned called[2]; /* in v1, in v1alpha2 */
	const uint8_t *data;
	size_t size;
};

static void serve(struct server_call *call, void *userdata)
{
	struct fixture *fixture = userdata;
	char prefix[64];

	if (!call->complete)
		return;
	fixture->called[starts_with(call->path, "/runtime.v1alpha2.")]++;
	snprintf(prefix, sizeof(prefix), "/runtime.%s.", fixture->knows);
	if (starts_with(call->path, prefix))
		server_answer(call, fixture->data, fixture->size);
	else
		server_answer_status(call, "12");
}

static void begin(struct fixture *fixture)
{
	*fixture = (struct fixture){.knows = "v1"};
	grpc_fixture_make(&fixture->grpc, serve, fixture);
	grpc_open(&fixture->cri.grpc, fixture->grpc.server.path);
	server_start(&fixture->grpc.server);
}

static void end(struct fixture *fixture)
{
	grpc_close(&fixture->cri.grpc);
	server_stop(&fixture->grpc.server);
	grpc_fixture_remove(&fixture->grpc);
}

#define FIXTURE_TEST(name) TEST_OF(fixture, fixture, begin, end, name)

/* What the runtime answers from now on. */
static void answer(struct fixture *fixture, const ProtobufCMessage *message)
{
	static uint8_t buffer[65536];

	assert_true(protobuf_c_message_get_packed_size(message) <= sizeof(buffer));
	fixture->data = buffer;
	fixture->size = protobuf_c_message_pack(message, buffer);
}

static int call(struct fixture *fixture, enum cri_call which, void *ret)
{
	return cri_call(
		&fixture->cri, &fixture->grpc.wait, &fixture->grpc.arena, which, NULL, NULL, ret);
}

FIXTURE_TEST(the_runtimes_version_of_the_api_is_spoken)
{
	static const struct {
		const char *knows;
		int expected;
		unsigned called[2]; /* so far */
	} steps[] = {
		{"v1alpha2", 0, {1, 1}},
		{"v1alpha2", 0, {1, 2}},
		{"v1", 0, {2, 3}},
		{"v1", 0, {3, 3}},
		{"none", GRPC_UNIMPLEMENTED, {4, 4}},
	};
	Cri__VersionResponse m = CRI__VERSION_RESPONSE__INIT;
	const Cri__VersionResponse *version;

	m.runtime_version = (char *)"1.2.3";
	answer(fixture, &m.base);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		fixture->knows = steps[i].knows;
		assert_int_equal(call(fixture, CRI_VERSION, &version), steps[i].expected);
		assert_memory_equal(fixture->called, steps[i].called, sizeof(fixture->called));
		if (steps[i].expected == 0)
			assert_string_equal(version->runtime_version, "1.2.3");
	}
}

/* Two bytes each on the wire, over a hundred in memory. */
FIXTURE_TEST(what_an_answer_becomes_is_bounded)
{
	_cleanup_free_ uint8_t *data = malloc(GRPC_ANSWER_MAX);
	const Cri__ListContainersResponse *m;

	for (size_t i = 0; i < GRPC_ANSWER_MAX; i += 2) {
		data[i] = 0x0a; /* field 1, length-delimited */
		data[i + 1] = 0;
	}
	fixture->data = data;
	fixture->size = GRPC_ANSWER_MAX;
	assert_int_equal(call(fixture, CRI_CONTAINERS, &m), -EBADMSG);
	arena_free(&fixture->grpc.arena);
	fixture->size = 2000;
	assert_int_equal(call(fixture, CRI_CONTAINERS, &m), 0);
	assert_int_equal(m->n_containers, 1000);
	assert_string_equal(m->containers[999]->id, "");
	fixture->size = 1999;
	assert_int_equal(call(fixture, CRI_CONTAINERS, &m), -EBADMSG);
}

FIXTURE_TEST(a_probe_tells_how_far_a_runtime_answers)
{
	Cri__VersionResponse m = CRI__VERSION_RESPONSE__INIT;
	struct grpc_server *server = &fixture->grpc.server;
	const struct wait *wait = &fixture->grpc.wait;

	answer(fixture, &m.base);
	assert_int_equal(cri_probe(server->path, wait), CRI_ANSWERS);
	fixture->knows = "none";
	assert_int_equal(cri_probe(server->path, wait), CRI_IS_GRPC);
	server_stop(server);
	assert_int_equal(cri_probe(server->path, wait), CRI_NO_ANSWER);
	directory_put(&fixture->grpc.directory, "/s.sock", "");
	assert_int_equal(cri_probe(server->path, wait), CRI_NO_ANSWER);
	directory_delete(&fixture->grpc.directory, "/s.sock");
	fake_http_start_unix(&server->http, server->path, fake_say, "220 mail\r\n");
	assert_int_equal(cri_probe(server->path, wait), CRI_CONNECTS);
}
