/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_server.h"

#include "runtime/cri.h"

struct fixture {
	struct grpc_fixture grpc;
	struct cri cri;
	bool without_cri;
	const uint8_t *data;
	size_t size;
};

static void serve(struct server_call *call, void *userdata)
{
	struct fixture *fixture = userdata;

	if (call->complete && !fixture->without_cri && starts_with(call->path, "/runtime.v1."))
		server_answer(call, fixture->data, fixture->size);
	else if (call->complete)
		server_answer_status(call, "200", "12");
}

static void begin(struct fixture *fixture)
{
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

static int call(struct fixture *fixture, const Cri__ListContainersResponse **ret)
{
	return cri_call(&fixture->cri, &fixture->grpc.wait, &fixture->grpc.arena, CRI_CONTAINERS,
		NULL, NULL, ret);
}

/* Each container has two bytes on the wire and more than a hundred in memory. */
FIXTURE_TEST(the_memory_of_an_answer_is_bounded)
{
	_cleanup_free_ uint8_t *data = malloc(GRPC_ANSWER_MAX);
	const Cri__ListContainersResponse *m;

	for (size_t i = 0; i < GRPC_ANSWER_MAX; i += 2) {
		data[i] = 0x0a; /* field 1, length-delimited */
		data[i + 1] = 0;
	}
	fixture->data = data;
	fixture->size = GRPC_ANSWER_MAX;
	assert_int_equal(call(fixture, &m), -EBADMSG);
	arena_free(&fixture->grpc.arena);
	fixture->size = 2000;
	assert_int_equal(call(fixture, &m), 0);
	assert_int_equal(m->n_containers, 1000);
	assert_string_equal(m->containers[999]->id, "");
	fixture->size = 1999;
	assert_int_equal(call(fixture, &m), -EBADMSG);
}

FIXTURE_TEST(a_probe_finds_the_protocol_of_a_socket)
{
	struct grpc_server *server = &fixture->grpc.server;
	const struct wait *wait = &fixture->grpc.wait;

	assert_int_equal(cri_probe(server->path, wait), CRI_ANSWERS);
	fixture->without_cri = true;
	assert_int_equal(cri_probe(server->path, wait), CRI_IS_GRPC);
	server_stop(server);
	assert_int_equal(cri_probe(server->path, wait), CRI_NO_ANSWER);
	directory_put(&fixture->grpc.directory, "/s.sock", "");
	assert_int_equal(cri_probe(server->path, wait), CRI_NO_ANSWER);
	directory_delete(&fixture->grpc.directory, "/s.sock");
	fake_http_start_unix(&server->http, server->path, fake_say, "220 mail\r\n");
	assert_int_equal(cri_probe(server->path, wait), CRI_CONNECTS);
}
