/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/image_server.h"

#include "base/json.h"
#include "base/util.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <microhttpd.h>

#define CONNECTIONS_MAX   64
#define IDLE_S            30
#define CONNECTION_MEMORY ((size_t)8 * 1024)

struct image_server {
	struct MHD_Daemon *daemon;
	const struct archive *archive;
	_Atomic uint64_t *sent;
	char prefix[IMAGE_NAME_MAX]; /* "/v2/NAME/" */
};

/* What is to be counted when it was sent: the request's state. */
struct transfer {
	uint64_t size;
};

static enum MHD_Result answer(
	struct MHD_Connection *mhd, unsigned int status, struct MHD_Response *response)
{
	enum MHD_Result r;

	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, "Docker-Distribution-Api-Version", "registry/2.0");
	r = MHD_queue_response(mhd, status, response);
	MHD_destroy_response(response);
	return r;
}

static enum MHD_Result answer_text(
	struct MHD_Connection *mhd, unsigned int status, const char *code)
{
	struct MHD_Response *response;
	char text[64] = "{}";

	if (code)
		snprintf(text, sizeof(text), "{\"errors\":[{\"code\":\"%s\"}]}", code);
	response = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_COPY);
	if (response)
		MHD_add_response_header(response, "Content-Type", "application/json");
	return answer(mhd, status, response);
}

/* "bytes=N-" within the blob, which is how containerd goes on after an interruption; else 0. */
static uint64_t range_start(struct MHD_Connection *mhd, uint64_t size)
{
	const char *range = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, "Range");
	char number[24];
	uint64_t from;

	if (!range || !starts_with(range, "bytes=") ||
		!copy_text(number, sizeof(number), range + strlen("bytes=")) ||
		strcspn(number, "-") + 1 != strlen(number))
		return 0;
	number[strlen(number) - 1] = '\0';
	return parse_count(number, &from) == 0 && from < size ? from : 0;
}

static enum MHD_Result answer_blob(struct image_server *server, struct MHD_Connection *mhd,
	const struct archive_blob *blob, struct transfer *transfer)
{
	uint64_t from = range_start(mhd, blob->size);
	struct MHD_Response *response;
	char range[80];
	int fd = -1;

	if (!blob->text) {
		fd = archive_blob_open(server->archive, blob);
		if (fd < 0)
			return answer_text(mhd, MHD_HTTP_NOT_FOUND, "BLOB_UNKNOWN");
	}
	if (blob->text)
		response = MHD_create_response_from_buffer(
			(size_t)(blob->size - from), blob->text + from, MHD_RESPMEM_PERSISTENT);
	else /* closes the descriptor */
		response = MHD_create_response_from_fd_at_offset64(
			blob->size - from, fd, blob->offset + from);
	if (!response) {
		cleanup_close(&fd);
		return MHD_NO;
	}
	transfer->size = blob->size - from;
	MHD_add_response_header(response, "Content-Type", blob->media_type);
	MHD_add_response_header(response, "Docker-Content-Digest", blob->digest);
	MHD_add_response_header(response, "Accept-Ranges", "bytes");
	snprintf(range, sizeof(range), "bytes %llu-%llu/%llu", (unsigned long long)from,
		(unsigned long long)blob->size - 1, (unsigned long long)blob->size);
	if (from > 0)
		MHD_add_response_header(response, "Content-Range", range);
	return answer(mhd, from > 0 ? MHD_HTTP_PARTIAL_CONTENT : MHD_HTTP_OK, response);
}

static enum MHD_Result route(void *userdata, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *data, size_t *size, void **state)
{
	struct image_server *server = userdata;
	const struct archive_blob *blob = NULL;
	bool get = streq(method, MHD_HTTP_METHOD_GET);

	(void)version, (void)data;
	if (!get && !streq(method, MHD_HTTP_METHOD_HEAD)) {
		struct MHD_Response *response =
			MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);

		if (response)
			MHD_add_response_header(response, "Allow", "GET, HEAD");
		return answer(mhd, MHD_HTTP_METHOD_NOT_ALLOWED, response);
	}
	*size = 0;
	if (streq(url, "/v2/"))
		return answer_text(mhd, MHD_HTTP_OK, NULL);
	if (starts_with(url, server->prefix)) {
		const char *rest = url + strlen(server->prefix);

		if (starts_with(rest, "manifests/"))
			blob = archive_find_blob(server->archive, rest + strlen("manifests/"));
		else if (starts_with(rest, "blobs/"))
			blob = archive_find_blob(server->archive, rest + strlen("blobs/"));
	}
	if (!blob)
		return answer_text(mhd, MHD_HTTP_NOT_FOUND, "NAME_UNKNOWN");
	*state = must(calloc(1, sizeof(struct transfer)));
	if (!get) {
		struct transfer nothing;

		return answer_blob(server, mhd, blob, &nothing);
	}
	return answer_blob(server, mhd, blob, *state);
}

static void on_completed(void *userdata, struct MHD_Connection *mhd, void **state,
	enum MHD_RequestTerminationCode code)
{
	struct image_server *server = userdata;
	const struct transfer *transfer = *state;

	(void)mhd;
	if (transfer && code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
		*server->sent += transfer->size;
	free(*state);
	*state = NULL;
}

static int listen_loopback(uint16_t *port)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);

	/* The kernel cuts the backlog to net.core.somaxconn: a crowd waits there. */
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) < 0 || listen(fd, INT_MAX) < 0 ||
		getsockname(fd, (struct sockaddr *)&address, &len) < 0)
		return -errno;
	*port = ntohs(address.sin_port);
	return steal_fd(&fd);
}

int image_server_open(const struct archive *archive, const char *name, _Atomic uint64_t *sent,
	struct image_server **ret, uint16_t *port)
{
	struct image_server *server;
	int fd = listen_loopback(port);

	if (fd < 0)
		return fd;
	server = must(calloc(1, sizeof(*server)));
	server->archive = archive;
	server->sent = sent;
	snprintf(server->prefix, sizeof(server->prefix), "/v2/%s/", name);
	server->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, route,
		server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
		MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		CONNECTION_MEMORY, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	if (!server->daemon) {
		close(fd);
		free(server);
		return -ENOMEM;
	}
	*ret = server;
	return 0;
}

void image_server_close(struct image_server *server)
{
	MHD_stop_daemon(server->daemon);
	free(server);
}
