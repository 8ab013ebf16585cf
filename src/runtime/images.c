/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Loads images of archives: the registry on 127.0.0.1 from which the runtime pulls them, then the
 * loads and what they may leave behind.
 *
 * Why a registry: a pull is the one call with which every runtime checks digests, skips layers that
 * it has, unpacks, and stops when it is cancelled. containerd 1.6 has no service for imports (its
 * clients write content and snapshots themselves), and docker load takes one format only and reads
 * layers again that Docker has. The registry answers only requests with the secret name of the
 * repository, and reads only the archive.
 */

#include "runtime/images.h"

#include "runtime/driver.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <microhttpd.h>

/* ---- the registry ---- */

#define CONNECTIONS_MAX   256
#define IDLE_S            30
#define CONNECTION_MEMORY ((size_t)4 * 1024)
#define TLS_HANDSHAKE     0x16
#define PIECE             ((size_t)32 * 1024) /* a part of a blob, for each connection */

/* While a load waits: each connection sends this much in a window. */
#define HOLD_BYTES     ((size_t)1024)
#define HOLD_US        (8 * USEC_PER_SEC)
#define HOLD_WINDOW_US (USEC_PER_SEC / 2)
#define HOLD_STEP_US   (USEC_PER_SEC / 10)

struct image_server {
	struct MHD_Daemon *daemon;
	const struct archive *archive;
	_Atomic uint64_t *sent;
	const _Atomic bool *waits; /* NULL: it never does */
	uint64_t window_us;        /* while it waits: when little is sent again */
	_Atomic bool asked, closes;
	char prefix[IMAGE_NAME_MAX]; /* "/v2/NAME/" */
};

/* A blob that is being sent. */
struct sent_blob {
	struct image_server *server;
	const struct archive_blob *blob;
	uint64_t from;
	uint64_t window_us; /* the last in which it was sent */
	char *text;         /* a made manifest; NULL: fd */
	int fd;
};

static bool waits(const struct image_server *server)
{
	return server->waits && *server->waits && !server->closes;
}

/*
 * Waits for the next window, and returns how much may be sent. A runtime ends a pull that gets
 * nothing for a minute, and a handshake without an answer after 10 s, which this thread also gives.
 * In a window each connection sends once.
 */
static size_t hold_back(struct sent_blob *sending, size_t size)
{
	struct image_server *server = sending->server;

	if (!waits(server))
		return size;
	if (server->window_us <= sending->window_us ||
		now_us() > server->window_us + HOLD_WINDOW_US)
		server->window_us = now_us() + HOLD_US;
	while (waits(server) && now_us() < server->window_us) {
		const struct wait step = {.deadline_us = now_us() + HOLD_STEP_US, .cancel_fd = -1};

		(void)wait_for(&step, -1, 0);
	}
	sending->window_us = server->window_us;
	return waits(server) ? MIN(size, HOLD_BYTES) : size;
}

static ssize_t read_blob(void *userdata, uint64_t at, char *data, size_t size)
{
	struct sent_blob *sending = userdata;
	const struct archive_blob *blob = sending->blob;
	ssize_t n;

	if (!sending->text)
		size = hold_back(sending, size);
	at += sending->from;
	n = (ssize_t)MIN(blob->size - at, size);
	if (sending->text)
		memcpy(data, sending->text + at, (size_t)n);
	else
		n = pread(sending->fd, data, (size_t)n, (off_t)(blob->offset + at));
	if (n <= 0)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	*sending->server->sent += (uint64_t)n;
	return n;
}

static void free_sent_blob(void *userdata)
{
	struct sent_blob *sending = userdata;

	cleanup_close(&sending->fd);
	free(sending->text);
	free(sending);
}

static enum MHD_Result answer(
	struct MHD_Connection *mhd, unsigned int status, struct MHD_Response *response)
{
	enum MHD_Result r;

	MHD_add_response_header(response, "Docker-Distribution-Api-Version", "registry/2.0");
	MHD_add_response_header(response, "Allow", "GET, HEAD");
	r = MHD_queue_response(mhd, status, response);
	MHD_destroy_response(response);
	return r;
}

static enum MHD_Result answer_empty(struct MHD_Connection *mhd, unsigned int status)
{
	return answer(mhd, status,
		must(MHD_create_response_from_buffer(2, (char[]){"{}"}, MHD_RESPMEM_MUST_COPY)));
}

static enum MHD_Result answer_blob(
	struct image_server *server, struct MHD_Connection *mhd, const struct archive_blob *blob)
{
	const char *wanted = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, "Range");
	int end = 0, fd = blob->made ? -1 : archive_blob_open(server->archive, blob);
	struct MHD_Response *response;
	struct sent_blob *sending;
	char range[80], number[24];
	uint64_t from = 0;

	if (!blob->made && fd < 0)
		return MHD_NO;
	/* containerd resumes an interrupted download with "bytes=N-". */
	if (!wanted || sscanf(wanted, "bytes=%23[0-9]-%n", number, &end) != 1 || end == 0 ||
		wanted[end] || parse_count(number, &from) < 0 || from >= blob->size)
		from = 0;
	sending = must(malloc(sizeof(*sending)));
	*sending = (struct sent_blob){.server = server,
		.blob = blob,
		.from = from,
		.text = blob->made ? archive_manifest_text(server->archive, blob) : NULL,
		.fd = fd};
	response = must(MHD_create_response_from_callback(
		blob->size - from, PIECE, read_blob, sending, free_sent_blob));
	MHD_add_response_header(response, "Content-Type", blob->media_type);
	MHD_add_response_header(response, "Docker-Content-Digest", blob->digest);
	MHD_add_response_header(response, "Accept-Ranges", "bytes");
	if (from == 0)
		return answer(mhd, MHD_HTTP_OK, response);
	snprintf(range, sizeof(range), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from,
		blob->size - 1, blob->size);
	MHD_add_response_header(response, "Content-Range", range);
	return answer(mhd, MHD_HTTP_PARTIAL_CONTENT, response);
}

static enum MHD_Result route(void *userdata, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *, const char *, size_t *size, void **)
{
	struct image_server *server = userdata;
	const struct archive_blob *blob = NULL;

	if (!streq(method, MHD_HTTP_METHOD_GET) && !streq(method, MHD_HTTP_METHOD_HEAD))
		return answer_empty(mhd, MHD_HTTP_METHOD_NOT_ALLOWED);
	*size = 0;
	if (streq(url, "/v2/"))
		return answer_empty(mhd, MHD_HTTP_OK);
	if (starts_with(url, server->prefix)) {
		const char *rest = url + strlen(server->prefix), *digest = strchr(rest, '/');

		server->asked = true;
		if (starts_with(rest, "manifests/") || starts_with(rest, "blobs/"))
			blob = find_named(
				server->archive->blobs, server->archive->n_blobs, digest + 1);
	}
	if (!blob)
		return answer_empty(mhd, MHD_HTTP_NOT_FOUND);
	return answer_blob(server, mhd, blob);
}

/*
 * A runtime tries TLS first, and falls back only if the answer is HTTP. libmicrohttpd may close
 * such a connection without an answer.
 */
static void answer_tls(
	void *, struct MHD_Connection *mhd, void **, enum MHD_ConnectionNotificationCode what)
{
	static const char refusal[] = "HTTP/1.0 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
	int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	char first;

	if (what != MHD_CONNECTION_NOTIFY_STARTED ||
		recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) != 1 || first != TLS_HANDSHAKE)
		return;
	/* Data that nobody has read would reset the connection. */
	(void)recv(fd, NULL, PIECE, MSG_TRUNC | MSG_DONTWAIT);
	(void)send(fd, refusal, sizeof(refusal) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)shutdown(fd, SHUT_RDWR);
}

int image_server_open(const struct archive *archive, const char *name, _Atomic uint64_t *sent,
	struct image_server **ret, uint16_t *port)
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct image_server *server = must(calloc(1, sizeof(*server)));

	server->archive = archive;
	server->sent = sent;
	snprintf(server->prefix, sizeof(server->prefix), "/v2/%s/", name);
	errno = 0;
	/* Clients above the limit wait in the listen backlog until idle connections time out. */
	server->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, route,
		server, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_LISTEN_BACKLOG_SIZE,
		(unsigned int)INT_MAX, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
		MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION,
		answer_tls, NULL, MHD_OPTION_END);
	if (!server->daemon) {
		free(server);
		return errno > 0 ? -errno : -ENOMEM;
	}
	/* answer_tls() sees the first byte of a connection. */
	(void)setsockopt(MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_LISTEN_FD)->listen_fd,
		IPPROTO_TCP, TCP_DEFER_ACCEPT, &(int){IDLE_S}, sizeof(int));
	*port = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
	*ret = server;
	return 0;
}

void image_server_hold(struct image_server *server, const _Atomic bool *waits)
{
	server->waits = waits;
}

bool image_server_was_asked(const struct image_server *server)
{
	return server->asked;
}

void image_server_close(struct image_server *server)
{
	server->closes = true;
	MHD_stop_daemon(server->daemon);
	free(server);
}

/* ---- loads ---- */

void images_remove_file(const struct host *host)
{
	if (host->put_load_file)
		(void)host->put_load_file(host, NULL, NULL);
}

bool images_is_ours(const char *name)
{
	return (starts_with(name, "127.0.0.1:") || starts_with(name, IMAGES_REGISTRY "/")) &&
	       strstr(name, "/" IMAGES_REPOSITORY "/");
}

int images_load(const struct image_runtime *runtime, const struct host *host,
	const struct archive *archive, const struct archive_image *image, const struct wait *wait,
	_Atomic uint64_t *done, const _Atomic bool *waits, char why[static IMAGES_WHY_MAX])
{
	_cleanup_(cleanup_image_server_close) struct image_server *server = NULL;
	char hash[HASH_TEXT_MAX], secret[HASH_TEXT_MAX], repository[NAME_MAX];
	char random[16], reference[2 * IMAGE_NAME_MAX];
	uint16_t port;
	int r;

	if (!runtime->driver->load) {
		snprintf(why, IMAGES_WHY_MAX, "%s cannot load archives: pull the image instead",
			runtime->driver->name);
		return -EOPNOTSUPP;
	}
	r = getrandom(random, sizeof(random), 0) < 0 ? -errno : 0;
	hash_bytes(random, sizeof(random), secret);
	hash_bytes(image->name, strlen(image->name), hash);
	snprintf(repository, sizeof(repository), IMAGES_REPOSITORY "/%s-%.32s", hash, secret);
	if (r == 0)
		r = image_server_open(archive, repository, done, &server, &port);
	if (r < 0) {
		snprintf(why, IMAGES_WHY_MAX, "no server on 127.0.0.1: %s", strerror(-r));
		return r;
	}
	image_server_hold(server, waits);
	/* Only the runtime knows the repository: others must not read an archive of root. */
	snprintf(reference, sizeof(reference), "127.0.0.1:%u/%s@%s", port, repository,
		runtime->driver->loads_manifests ? image->manifest : image->top);
	return runtime->driver->load(runtime, host, image, reference, wait, server, why);
}

int images_moved(const char *name, char why[static IMAGES_WHY_MAX])
{
	snprintf(why, IMAGES_WHY_MAX, "others gave %s to another image during the load", name);
	return -EREMCHG;
}

int images_clean(const struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, char why[static IMAGES_WHY_MAX])
{
	images_remove_file(host);
	return runtime->driver->clean ? runtime->driver->clean(runtime, wait, why) : 0;
}

bool images_has_leftovers(const struct image_runtime *runtime, const struct wait *wait,
	const struct runtime_image *images, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (images_is_ours(images[i].name))
			return true;
	return runtime->driver->has_leftovers && runtime->driver->has_leftovers(runtime, wait);
}
