/* SPDX-License-Identifier: Apache-2.0 */
#include "report/http_internal.h"

#include "base/file.h"
#include "base/parse.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

/*
 * Taken at once before libmicrohttpd looks at them: fewer than the connections that may be open, so
 * that a crowd of newcomers cannot evict one of them before its request was read.
 */
#define ACCEPT_BATCH 16

DEFINE_CLEANUP(struct addrinfo, freeaddrinfo)

static bool descriptors_short(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static int on_listener(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct http_listener *listener = userdata;

	(void)source, (void)events;
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		struct sockaddr_storage address = {0};
		socklen_t length = sizeof(address);
		int client = accept4(
			fd, (struct sockaddr *)&address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (client >= 0) {
			http_connection_add(
				listener, client, (const struct sockaddr *)&address, length);
			continue;
		}
		/* The waiting client would wake the loop again at once, and without end. */
		if (descriptors_short(errno))
			http_listen_pause(listener->server);
		break; /* all taken, or that client has gone: the loop comes back for the next */
	}
	http_server_turn(listener->server);
	return 0;
}

static void set_accepting(struct http_server *server, int enabled)
{
	if (server->tcp.source)
		sd_event_source_set_enabled(server->tcp.source, enabled);
	if (server->local.source)
		sd_event_source_set_enabled(server->local.source, enabled);
}

void http_listen_pause(struct http_server *server)
{
	server->paused_until_us = now_us() + HTTP_PAUSE_US;
	set_accepting(server, SD_EVENT_OFF);
}

void http_listen_resume(struct http_server *server)
{
	if (!server->paused_until_us || server->closing)
		return;
	server->paused_until_us = 0;
	set_accepting(server, SD_EVENT_ON);
}

static int listen_and_watch(struct http_listener *listener)
{
	/* The kernel cuts it to net.core.somaxconn; a crowd must not cost others a SYN retry of 1
	 * s. */
	if (listen(listener->fd, INT_MAX) < 0)
		return -errno;
	return sd_event_add_io(listener->server->event, &listener->source, listener->fd, EPOLLIN,
		on_listener, listener);
}

/* "ADDRESS:PORT" and nothing that would have to be resolved. */
static int parse_listen(const char *listen_on, struct addrinfo **ret)
{
	static const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
		.ai_socktype = SOCK_STREAM,
	};
	const char *colon = strrchr(listen_on, ':');
	char host[128];
	size_t len = colon ? (size_t)(colon - listen_on) : 0;
	uint64_t port;
	int r;

	/* getaddrinfo would cut a port of 65536 to 0. */
	if (len == 0 || len >= sizeof(host) || parse_count(colon + 1, &port) < 0 ||
		port > UINT16_MAX)
		return -EINVAL;
	if (listen_on[0] == '[' && listen_on[len - 1] == ']')
		copy_text(host, len - 1, listen_on + 1);
	else if (memchr(listen_on, ':', len))
		return -EINVAL;
	else
		copy_text(host, len + 1, listen_on);
	r = getaddrinfo(host, colon + 1, &hints, ret);
	if (r == EAI_MEMORY)
		return -ENOMEM;
	return r == 0 ? 0 : -EINVAL;
}

int http_listen_tcp(struct http_server *server, const char *listen_on)
{
	_cleanup_(cleanup_freeaddrinfo) struct addrinfo *info = NULL;
	static const int one = 1;
	int r = parse_listen(listen_on, &info);
	int fd;

	if (r < 0)
		return r;
	fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	server->tcp.fd = fd;
	/* A restart finds connections of the last run in TIME_WAIT. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
		return -errno;
	if (bind(fd, info->ai_addr, info->ai_addrlen) < 0)
		return -errno;
	return listen_and_watch(&server->tcp);
}

/* Whether the path is a socket that nobody serves any more: left by a process that was killed. */
static bool socket_is_dead(const struct sockaddr_un *address)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0 || lstat(address->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	return connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
	       errno == ECONNREFUSED;
}

static int bind_unix(int fd, const struct sockaddr_un *address)
{
	if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
		return 0;
	if (errno != EADDRINUSE)
		return -errno;
	if (!socket_is_dead(address))
		return -EADDRINUSE;
	if (unlink(address->sun_path) < 0 ||
		bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		return -errno;
	return 0;
}

static int make_parent(const char *path)
{
	char copy[sizeof(((struct sockaddr_un *)NULL)->sun_path)];

	copy_text(copy, sizeof(copy), path);
	return make_directories(dirname(copy), 0755);
}

int http_listen_unix(struct http_server *server, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int r, fd;

	if (!copy_text(address.sun_path, sizeof(address.sun_path), path))
		return -ENAMETOOLONG;
	r = make_parent(path);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	server->local.fd = fd;
	/*
	 * Linux gives the path the socket's own mode: it is never wider, not even for a moment, and
	 * the umask, which all threads share, stays as it is.
	 */
	if (fchmod(fd, 0600) < 0)
		return -errno;
	r = bind_unix(fd, &address);
	if (r < 0)
		return r;
	if (stat(path, &server->socket_stat) < 0)
		return -errno;
	server->socket_path = strdup(path);
	if (!server->socket_path)
		return -ENOMEM;
	return listen_and_watch(&server->local);
}

static void listener_close(struct http_listener *listener)
{
	sd_event_source_disable_unref(listener->source);
	listener->source = NULL;
	cleanup_close(&listener->fd);
	listener->fd = -1;
}

void http_listen_close(struct http_server *server)
{
	struct stat st;

	/* Another agent may have replaced it meanwhile. */
	if (server->socket_path && lstat(server->socket_path, &st) == 0 &&
		st.st_dev == server->socket_stat.st_dev && st.st_ino == server->socket_stat.st_ino)
		unlink(server->socket_path);
	listener_close(&server->tcp);
	listener_close(&server->local);
}
