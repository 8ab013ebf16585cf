/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_server.h"

#include "runtime/cri_internal.h"

#include <runtime/cri.pb-c.h>

#define TIMEOUT_US (20 * USEC_PER_SEC)

struct bench {
	struct directory directory;
	sd_event *event;
	struct server server;
	struct cri_client *client;
	const char *knows; /* "v1" or "v1alpha2" */
	unsigned asked[2]; /* in v1, in v1alpha2 */
	unsigned answers;
	enum grpc_status status;
	char text[256];
};

static void serve(struct server_call *call, void *userdata)
{
	struct bench *bench = userdata;
	Cri__VersionResponse version = CRI__VERSION_RESPONSE__INIT;
	_cleanup_free_ uint8_t *data = NULL;
	char prefix[32];
	size_t size;

	if (!call->complete)
		return;
	bench->asked[starts_with(call->path, "/runtime.v1alpha2.")]++;
	snprintf(prefix, sizeof(prefix), "/runtime.%s.", bench->knows);
	if (!starts_with(call->path, prefix)) {
		server_answer_status(call, "12", "unknown service");
		return;
	}
	version.runtime_name = (char *)"test";
	version.runtime_version = (char *)"1.2.3";
	version.runtime_api_version = (char *)bench->knows;
	assert_int_equal(wire_encode(&version.base, &data, &size), 0);
	server_answer(call, data, size);
}

static void bench_begin(struct bench *bench, const char *knows)
{
	memset(bench, 0, sizeof(*bench));
	directory_make(&bench->directory);
	assert_true(sd_event_new(&bench->event) >= 0);
	bench->knows = knows;
	bench->server.event = bench->event;
	bench->server.serve = serve;
	bench->server.userdata = bench;
	directory_path(&bench->directory, "/s.sock", bench->server.path);
	server_listen(&bench->server);
	assert_int_equal(
		cri_client_open(bench->event, bench->server.path, TIMEOUT_US, &bench->client), 0);
}

static void bench_end(struct bench *bench)
{
	if (bench->client)
		cri_client_close(bench->client);
	server_stop(&bench->server);
	sd_event_unref(bench->event);
	directory_remove(&bench->directory);
}

static void on_version(const struct cri_answer *answer, void *userdata)
{
	struct bench *bench = userdata;

	bench->answers++;
	bench->status = answer->result.status;
	copy_text(bench->text, sizeof(bench->text),
		answer->result.status == GRPC_OK ? answer->version.api_version
						 : answer->result.message);
}

static void wait_for(struct bench *bench, unsigned answers)
{
	uint64_t until = now_us() + TIMEOUT_US;

	while (bench->answers < answers && now_us() < until)
		sd_event_run(bench->event, USEC_PER_SEC);
	assert_int_equal(bench->answers, answers);
}

static void ask_version(struct bench *bench, enum grpc_status status, const char *text)
{
	unsigned before = bench->answers;

	assert_int_equal(cri_version(bench->client, on_version, bench), 0);
	wait_for(bench, before + 1);
	assert_int_equal(bench->status, status);
	assert_string_equal(bench->text, text);
}

/* One try with each version until it is known which one is spoken, and again when that changes. */
static void speaks_the_runtimes_version(void **state)
{
	struct bench bench;

	(void)state;
	bench_begin(&bench, "v1alpha2");
	ask_version(&bench, GRPC_OK, "v1alpha2");
	assert_int_equal(bench.asked[0], 1);
	assert_int_equal(bench.asked[1], 1);
	ask_version(&bench, GRPC_OK, "v1alpha2");
	assert_int_equal(bench.asked[0], 1);
	assert_int_equal(bench.asked[1], 2);
	bench.knows = "v1";
	ask_version(&bench, GRPC_OK, "v1");
	assert_int_equal(bench.asked[1], 3);
	ask_version(&bench, GRPC_OK, "v1");
	assert_int_equal(bench.asked[0], 3);
	assert_int_equal(bench.asked[1], 3);
	bench.knows = "none";
	ask_version(&bench, GRPC_UNIMPLEMENTED, "unknown service");
	assert_int_equal(bench.asked[0], 4);
	assert_int_equal(bench.asked[1], 4);
	bench_end(&bench);
}

static void close_inside(const struct cri_answer *answer, void *userdata)
{
	struct bench *bench = userdata;

	assert_string_equal(answer->version.version, "1.2.3");
	cri_client_close(bench->client);
	bench->client = NULL;
	bench->answers++;
}

static void closes_in_a_callback(void **state)
{
	struct bench bench;

	(void)state;
	bench_begin(&bench, "v1");
	assert_int_equal(cri_version(bench.client, close_inside, &bench), 0);
	assert_int_equal(cri_version(bench.client, close_inside, &bench), 0);
	wait_for(&bench, 1);
	bench_end(&bench);
}

static void refuses_empty_names(void **state)
{
	struct bench bench;

	(void)state;
	bench_begin(&bench, "v1");
	assert_int_equal(cri_image_status(bench.client, "", on_version, NULL), -EINVAL);
	assert_int_equal(cri_sandbox_status(bench.client, "", on_version, NULL), -EINVAL);
	assert_int_equal(cri_pull_image(bench.client, "", USEC_PER_SEC, on_version, NULL), -EINVAL);
	bench_end(&bench);
}

/* Encodes a message of the runtime's and reads it as a client does. */
static bool read_back(struct arena *arena, const ProtobufCMessage *message, cri_reader read,
	struct cri_answer *answer)
{
	static uint8_t buffer[65536];

	assert_true(protobuf_c_message_get_packed_size(message) <= sizeof(buffer));
	return read(arena, buffer, protobuf_c_message_pack(message, buffer), answer);
}

static void read_config(const char *json, struct arena *arena, struct cri_status *status)
{
	Cri__StatusResponse response = CRI__STATUS_RESPONSE__INIT;
	Cri__StatusResponse__InfoEntry entry = CRI__STATUS_RESPONSE__INFO_ENTRY__INIT;
	Cri__StatusResponse__InfoEntry *entries[] = {&entry};
	struct cri_answer answer = {0};

	entry.key = (char *)"config";
	entry.value = (char *)json;
	response.info = entries;
	response.n_info = 1;
	assert_true(read_back(arena, &response.base, cri_read_status, &answer));
	*status = answer.status;
}

static void reads_the_running_config(void **state)
{
	_cleanup_arena_ struct arena arena;
	struct cri_status status;

	(void)state;
	arena_init(&arena);
	read_config("{\"containerd\": {\"snapshotter\": \"overlayfs\"}, \"registry\": "
		    "{\"configPath\": \"/etc/containerd/certs.d\", \"configs\": {\"r\": "
		    "{\"auth\": {\"password\": \"secret\"}}}}, \"maxConcurrentDownloads\": 10, "
		    "\"imagePullProgressTimeout\": \"5m0s\", \"sandboxImage\": \"pause:3.9\", "
		    "\"containerdRootDir\": \"/var/lib/containerd\"}",
		&arena, &status);
	assert_true(status.config_told);
	assert_int_equal(status.config.max_concurrent_downloads, 10);
	assert_string_equal(status.config.image_pull_progress_timeout, "5m0s");
	assert_string_equal(status.config.registry_config_path, "/etc/containerd/certs.d");
	assert_string_equal(status.config.sandbox_image, "pause:3.9");
	assert_string_equal(status.config.snapshotter, "overlayfs");
	assert_string_equal(status.config.root, "/var/lib/containerd");
	read_config("{\"registry\": {\"configPath\": \"\"}, \"maxConcurrentDownloads\": \"3\"}",
		&arena, &status);
	assert_true(status.config_told);
	assert_int_equal(status.config.max_concurrent_downloads, -1);
	assert_string_equal(status.config.registry_config_path, "");
	assert_null(status.config.sandbox_image);
	for (size_t i = 0; i < 4; i++) {
		static const char *const odd[] = {"", "[1, 2]", "{", "null"};

		read_config(odd[i], &arena, &status);
		assert_false(status.config_told);
		assert_int_equal(status.config.max_concurrent_downloads, -1);
	}
}

static void reads_addresses(void **state)
{
	_cleanup_arena_ struct arena arena;
	Cri__PodSandboxStatusResponse response = CRI__POD_SANDBOX_STATUS_RESPONSE__INIT;
	Cri__PodSandboxStatus status = CRI__POD_SANDBOX_STATUS__INIT;
	Cri__PodSandboxMetadata metadata = CRI__POD_SANDBOX_METADATA__INIT;
	Cri__PodSandboxNetworkStatus network = CRI__POD_SANDBOX_NETWORK_STATUS__INIT;
	Cri__PodIP second = CRI__POD_IP__INIT, *more[] = {&second};
	struct cri_answer answer = {0};

	(void)state;
	arena_init(&arena);
	assert_false(read_back(&arena, &response.base, cri_read_sandbox, &answer));
	response.status = &status;
	status.id = (char *)"abc";
	status.metadata = &metadata;
	metadata.namespace_ = (char *)"kube-system";
	metadata.name = (char *)"coredns-x";
	assert_true(read_back(&arena, &response.base, cri_read_sandbox, &answer));
	assert_int_equal(answer.sandbox.n_ips, 0);
	assert_true(answer.sandbox.sandbox.ready);
	assert_string_equal(answer.sandbox.sandbox.namespace, "kube-system");
	assert_string_equal(answer.sandbox.sandbox.uid, "");
	status.network = &network;
	status.state = 1;
	network.ip = (char *)"10.0.0.7";
	second.ip = (char *)"fd00::7";
	network.additional_ips = more;
	network.n_additional_ips = 1;
	assert_true(read_back(&arena, &response.base, cri_read_sandbox, &answer));
	assert_false(answer.sandbox.sandbox.ready);
	assert_false(answer.sandbox.host_network);
	assert_int_equal(answer.sandbox.n_ips, 2);
	assert_string_equal(answer.sandbox.ips[0], "10.0.0.7");
	assert_string_equal(answer.sandbox.ips[1], "fd00::7");
}

/* Two bytes each on the wire, over a hundred in memory. */
static void bounds_what_an_answer_becomes(void **state)
{
	_cleanup_free_ uint8_t *data = malloc(GRPC_ANSWER_MAX);
	struct cri_answer answer = {0};
	struct arena arena;

	(void)state;
	assert_non_null(data);
	for (size_t i = 0; i < GRPC_ANSWER_MAX; i += 2) {
		data[i] = 0x0a; /* field 1, length-delimited */
		data[i + 1] = 0;
	}
	arena_init(&arena);
	assert_false(cri_read_images(&arena, data, GRPC_ANSWER_MAX, &answer));
	arena_free(&arena);
	assert_false(cri_read_containers(&arena, data, GRPC_ANSWER_MAX, &answer));
	arena_free(&arena);
	assert_true(cri_read_images(&arena, data, 2000, &answer));
	assert_int_equal(answer.images.n, 1000);
	assert_string_equal(answer.images.list[999].id, "");
	arena_free(&arena);
	assert_false(cri_read_images(&arena, data, 1999, &answer));
	arena_free(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(speaks_the_runtimes_version),
		cmocka_unit_test(closes_in_a_callback),
		cmocka_unit_test(refuses_empty_names),
		cmocka_unit_test(reads_the_running_config),
		cmocka_unit_test(reads_addresses),
		cmocka_unit_test(bounds_what_an_answer_becomes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
