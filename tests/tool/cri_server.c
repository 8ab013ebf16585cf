/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cri_server SOCKET PODS: a runtime that only lists, for benchmarks: that many pods and twice as
 * many containers, as large as in reality. One connection after another.
 */

#include "base/cleanup.h"
#include "base/util.h"
#include "runtime/wire.h"

#include <nghttp2/nghttp2.h>
#include <runtime/cri.pb-c.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PREFIX_LEN 5

struct answer {
	const char *method;
	uint8_t *data;
	size_t size;
};

struct session {
	const struct answer *answers; /* ended by one without a method */
	nghttp2_session *http;
	const struct answer *current; /* of the stream being answered */
	size_t sent;
};

static char *format(const char *text, ...) PRINTF_LIKE(1, 2);

static char *format(const char *text, ...)
{
	va_list args;
	char *made;

	va_start(args, text);
	if (vasprintf(&made, text, args) < 0)
		abort();
	va_end(args);
	return made;
}

static void *make(size_t n, size_t size)
{
	void *made = calloc(n + 1, size);

	if (!made)
		abort();
	return made;
}

static struct answer encode(const char *method, const ProtobufCMessage *message)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	struct answer answer = {method, make(PREFIX_LEN + size, 1), PREFIX_LEN + size};

	for (int i = 0; i < 4; i++)
		answer.data[1 + i] = (uint8_t)(size >> (24 - 8 * i));
	protobuf_c_message_pack(message, answer.data + PREFIX_LEN);
	return answer;
}

static struct answer make_version(void)
{
	Cri__VersionResponse m = CRI__VERSION_RESPONSE__INIT;

	m.runtime_name = (char *)"test";
	m.runtime_version = (char *)"1.0.0";
	m.runtime_api_version = (char *)"v1";
	return encode("/runtime.v1.RuntimeService/Version", &m.base);
}

static struct answer make_pods(size_t n)
{
	Cri__ListPodSandboxResponse m = CRI__LIST_POD_SANDBOX_RESPONSE__INIT;
	Cri__PodSandbox *pods = make(n, sizeof(*pods));

	m.items = make(n, sizeof(*m.items));
	m.n_items = n;
	for (size_t i = 0; i < n; i++) {
		Cri__PodSandbox *pod = m.items[i] = &pods[i];

		cri__pod_sandbox__init(pod);
		pod->id = format("%064zx", i);
		pod->metadata = make(1, sizeof(*pod->metadata));
		cri__pod_sandbox_metadata__init(pod->metadata);
		pod->metadata->name = format("service-%zu-5f7c9d8b6f-abcde", i);
		pod->metadata->namespace_ = format("team-%zu", i % 20);
		pod->metadata->uid = format("%08zx-0000-4000-8000-000000000000", i);
	}
	return encode("/runtime.v1.RuntimeService/ListPodSandbox", &m.base);
}

static struct answer make_containers(size_t n)
{
	Cri__ListContainersResponse m = CRI__LIST_CONTAINERS_RESPONSE__INIT;
	Cri__Container *containers = make(n, sizeof(*containers));

	m.containers = make(n, sizeof(*m.containers));
	m.n_containers = n;
	for (size_t i = 0; i < n; i++) {
		Cri__Container *container = m.containers[i] = &containers[i];

		cri__container__init(container);
		container->id = format("%064zx", i);
		container->pod_sandbox_id = format("%064zx", i / 2);
		container->metadata = make(1, sizeof(*container->metadata));
		cri__container_metadata__init(container->metadata);
		container->metadata->name = format("container-%zu", i % 2);
		container->state = 1;
	}
	return encode("/runtime.v1.RuntimeService/ListContainers", &m.base);
}

static nghttp2_nv header(const char *name, const char *value)
{
	return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0};
}

static ssize_t read_answer(nghttp2_session *http, int32_t stream, uint8_t *buffer, size_t length,
	uint32_t *flags, nghttp2_data_source *source, void *userdata)
{
	const nghttp2_nv trailer = header("grpc-status", "0");
	struct session *session = userdata;
	size_t n = MIN(length, session->current->size - session->sent);

	(void)source;
	memcpy(buffer, session->current->data + session->sent, n);
	session->sent += n;
	if (session->sent == session->current->size) {
		*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		nghttp2_submit_trailer(http, stream, &trailer, 1);
	}
	return (ssize_t)n;
}

static int on_header(nghttp2_session *http, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *userdata)
{
	struct session *session = userdata;

	(void)http, (void)frame, (void)name_len, (void)len, (void)flags;
	if (!streq((const char *)name, ":path"))
		return 0;
	for (session->current = session->answers; session->current->method; session->current++)
		if (streq(session->current->method, (const char *)value))
			break;
	return 0;
}

static int on_frame(nghttp2_session *http, const nghttp2_frame *frame, void *userdata)
{
	const nghttp2_nv headers[] = {header(":status", "200"),
		header("content-type", "application/grpc"), header("grpc-status", "12")};
	nghttp2_data_provider body = {.read_callback = read_answer};
	struct session *session = userdata;

	if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) || frame->hd.stream_id == 0)
		return 0;
	session->sent = 0;
	if (session->current->method)
		return nghttp2_submit_response(http, frame->hd.stream_id, headers, 2, &body);
	return nghttp2_submit_response(http, frame->hd.stream_id, headers, 3, NULL);
}

static void serve(int fd, const struct answer *answers)
{
	struct session session = {.answers = answers};
	nghttp2_session_callbacks *callbacks;
	uint8_t buffer[16384];
	ssize_t n;

	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_server_new(&session.http, callbacks, &session);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_submit_settings(session.http, 0, NULL, 0);
	do {
		const uint8_t *data;

		while ((n = nghttp2_session_mem_send(session.http, &data)) > 0)
			if (send(fd, data, (size_t)n, MSG_NOSIGNAL) != n)
				break;
		n = recv(fd, buffer, sizeof(buffer), 0);
	} while (n > 0 && nghttp2_session_mem_recv(session.http, buffer, (size_t)n) == n);
	nghttp2_session_del(session.http);
	close(fd);
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct answer answers[4] = {0};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (argc != 3 || !copy_text(address.sun_path, sizeof(address.sun_path), argv[1]))
		return 64;
	answers[0] = make_version();
	answers[1] = make_pods((size_t)atoi(argv[2]));
	answers[2] = make_containers((size_t)atoi(argv[2]) * 2);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(listener, 8) < 0)
		return 1;
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0)
			serve(fd, answers);
	}
}
