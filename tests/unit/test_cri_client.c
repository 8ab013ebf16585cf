/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_server.h"

#include "base/json.h"
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
	if (starts_with(call->path, prefix) || streq(call->path + 1, fixture->knows))
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
		assert_int_equal(cri_call(&fixture->cri, &fixture->grpc.wait, &fixture->grpc.arena,
					 CRI_VERSION, NULL, NULL, &version),
			steps[i].expected);
		assert_memory_equal(fixture->called, steps[i].called, sizeof(fixture->called));
		if (steps[i].expected == 0)
			assert_string_equal(version->runtime_version, "1.2.3");
	}
}

FIXTURE_TEST(the_running_config_is_read)
{
	static const struct {
		const char *text;
		double downloads;
	} cases[] = {{"{\"maxConcurrentDownloads\": 10}", 10}, {"{", 0}, {"", 0}};
	Cri__StatusResponse response = CRI__STATUS_RESPONSE__INIT;
	Cri__StatusResponse__InfoEntry entry = CRI__STATUS_RESPONSE__INFO_ENTRY__INIT;
	Cri__StatusResponse__InfoEntry *entries[] = {&entry};

	entry.key = (char *)"config";
	response.info = entries;
	response.n_info = 1;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(cleanup_cJSON_Delete) cJSON *config = NULL;

		entry.value = (char *)cases[i].text;
		answer(fixture, &response.base);
		assert_int_equal(cri_get_config(&fixture->cri, &fixture->grpc.wait,
					 &fixture->grpc.arena, &config),
			0);
		assert_true(json_number_at(config, "maxConcurrentDownloads") == cases[i].downloads);
	}
}

/* containerd's own services have no other version to be asked for. */
FIXTURE_TEST(manifests_of_a_layer_have_their_labels)
{
	Containerd__ListContentResponse message = CONTAINERD__LIST_CONTENT_RESPONSE__INIT;
	Containerd__Info info = CONTAINERD__INFO__INIT, *list[] = {&info};
	Containerd__Info__LabelsEntry label = CONTAINERD__INFO__LABELS_ENTRY__INIT;
	Containerd__Info__LabelsEntry *labels[] = {&label};
	const Containerd__ListContentResponse *found;

	label.key = (char *)"containerd.io/gc.ref.content.l.0";
	label.value = (char *)"sha256:01";
	info.labels = labels;
	info.n_labels = 1;
	message.info = list;
	message.n_info = 1;
	answer(fixture, &message.base);
	assert_int_equal(containerd_get_manifests(&fixture->cri, &fixture->grpc.wait,
				 &fixture->grpc.arena, "k8s.io", "sha256:01", &found),
		GRPC_UNIMPLEMENTED);
	assert_int_equal(fixture->called[0] + fixture->called[1], 1);
	fixture->knows = "containerd.services.content.v1.Content/List";
	assert_int_equal(containerd_get_manifests(&fixture->cri, &fixture->grpc.wait,
				 &fixture->grpc.arena, "k8s.io", "sha256:01", &found),
		0);
	assert_string_equal(found->info[0]->labels[0]->value, "sha256:01");
}

/* Two bytes each on the wire, over a hundred in memory. */
TEST(what_an_answer_becomes_is_bounded)
{
	_cleanup_free_ uint8_t *data = malloc(GRPC_ANSWER_MAX);
	const Cri__ListContainersResponse *m;
	struct fixture f;

	begin(&f);
	for (size_t i = 0; i < GRPC_ANSWER_MAX; i += 2) {
		data[i] = 0x0a; /* field 1, length-delimited */
		data[i + 1] = 0;
	}
	f.data = data;
	f.size = GRPC_ANSWER_MAX;
	assert_int_equal(
		cri_call(&f.cri, &f.grpc.wait, &f.grpc.arena, CRI_CONTAINERS, NULL, NULL, &m),
		-EBADMSG);
	arena_free(&f.grpc.arena);
	f.size = 2000;
	assert_int_equal(
		cri_call(&f.cri, &f.grpc.wait, &f.grpc.arena, CRI_CONTAINERS, NULL, NULL, &m), 0);
	assert_int_equal(m->n_containers, 1000);
	assert_string_equal(m->containers[999]->id, "");
	f.size = 1999;
	assert_int_equal(
		cri_call(&f.cri, &f.grpc.wait, &f.grpc.arena, CRI_CONTAINERS, NULL, NULL, &m),
		-EBADMSG);
	end(&f);
}

TEST(a_probe_tells_how_far_a_runtime_answers)
{
	Cri__VersionResponse m = CRI__VERSION_RESPONSE__INIT;
	struct fixture f;

	begin(&f);
	answer(&f, &m.base);
	assert_int_equal(cri_probe(f.grpc.server.path, &f.grpc.wait), CRI_ANSWERS);
	f.knows = "none";
	assert_int_equal(cri_probe(f.grpc.server.path, &f.grpc.wait), CRI_IS_GRPC);
	server_stop(&f.grpc.server);
	assert_int_equal(cri_probe(f.grpc.server.path, &f.grpc.wait), CRI_NO_ANSWER);
	directory_put(&f.grpc.directory, "/s.sock", "");
	assert_int_equal(cri_probe(f.grpc.server.path, &f.grpc.wait), CRI_NO_ANSWER);
	directory_delete(&f.grpc.directory, "/s.sock");
	fake_http_start_unix(&f.grpc.server.http, f.grpc.server.path, fake_say, "220 mail\r\n");
	assert_int_equal(cri_probe(f.grpc.server.path, &f.grpc.wait), CRI_CONNECTS);
	end(&f);
}
