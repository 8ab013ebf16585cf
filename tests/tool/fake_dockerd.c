/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake dockerd for tests/chaos: 26.1 if the file /mnt/docker26 exists, else 20.10.
 *
 * dockerd SOCKET CONFIG STATE [--max-concurrent-downloads=N]
 * dockerd --validate --config-file CONFIG
 *
 * It serves the few requests of headroom's samples, and reloads CONFIG on SIGHUP. A pull that it
 * was asked for does not end. STATE is a directory: "hangs" there makes it silent, it writes its
 * value of max-concurrent-downloads to "value", and "pulling" is there during pulls. With a key
 * both in CONFIG and on the command line it does not start.
 */
#include "base/file.h"
#include "base/json.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CLIENTS_MAX 32
#define KEY         "max-concurrent-downloads"

struct client {
	int fd;
	bool waits; /* for an event */
	bool pulls;
	char request[2048];
	size_t len;
};

struct daemon {
	const char *config, *state;
	bool is_26;
	int flag, value; /* 0: no flag */
	uint64_t reloaded_us;
	struct client clients[CLIENTS_MAX];
	size_t n;
};

/* The value of the file, 0 without one, or -1 for a file that it refuses. */
static int load(const char *config)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = NULL;
	_cleanup_free_ char *text = NULL;

	if (read_file(config, 65536, &text, NULL) < 0)
		return 0;
	object = cJSON_Parse(text);
	return object ? (int)json_number_at(object, KEY) : -1;
}

static void put_value(const struct daemon *daemon)
{
	char path[PATH_MAX];
	_cleanup_fclose_ FILE *out = NULL;

	snprintf(path, sizeof(path), "%s/value", daemon->state);
	out = fopen(path, "we");
	if (out)
		fprintf(out, "%d", daemon->value);
}

static void answer(struct client *client, const char *body)
{
	char text[1024];
	int n = snprintf(text, sizeof(text),
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
		"Connection: close\r\n\r\n%s",
		strlen(body), body);

	(void)!write(client->fd, text, (size_t)n);
	client->waits = false;
	client->len = 0;
	shutdown(client->fd, SHUT_WR);
}

/* The reload since the time that the client names, or nothing; or the client waits for one. */
static void answer_events(const struct daemon *daemon, struct client *client)
{
	const char *since = strstr(client->request, "since=");
	char body[512] = "";
	uint64_t since_us = since ? (uint64_t)(atof(since + 6) * 1e6) : 0;

	if (strstr(client->request, "reload") && daemon->reloaded_us > 0 &&
		daemon->reloaded_us + 1 >= since_us)
		snprintf(body, sizeof(body),
			"{\"Type\":\"daemon\",\"Action\":\"reload\",\"Actor\":{\"ID\":\"fake\","
			"\"Attributes\":{\"" KEY "\":\"%d\"}},\"timeNano\":%" PRIu64 "}\n",
			daemon->value, daemon->reloaded_us * 1000);
	client->waits = !body[0] && !strstr(client->request, "until=");
	if (!client->waits)
		answer(client, body);
}

static void begin_pull(struct client *client)
{
	static const char text[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
				   "Connection: close\r\n\r\n{\"status\":\"Pulling\"}\n";

	(void)!write(client->fd, text, strlen(text));
	client->pulls = true;
}

static void serve(const struct daemon *daemon, struct client *client)
{
	if (strstr(client->request, "/events"))
		answer_events(daemon, client);
	else if (strstr(client->request, "/images/create"))
		begin_pull(client);
	else if (strstr(client->request, "/version"))
		answer(client, daemon->is_26
				       ? "{\"Version\":\"26.1.5\",\"ApiVersion\":\"1.45\"}"
				       : "{\"Version\":\"20.10.24\",\"ApiVersion\":\"1.41\"}");
	else if (strstr(client->request, "/info"))
		answer(client, "{\"Driver\":\"overlay2\",\"DockerRootDir\":\"/var/lib/docker\","
			       "\"RegistryConfig\":{\"Mirrors\":[]}}");
	else
		answer(client, "[]");
}

static void note_pulls(const struct daemon *daemon)
{
	char path[PATH_MAX];
	bool pulls = false;

	snprintf(path, sizeof(path), "%s/pulling", daemon->state);
	for (size_t i = 0; i < daemon->n; i++)
		pulls |= daemon->clients[i].pulls;
	if (pulls)
		close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	else
		unlink(path);
}

/* False when the client is gone. */
static bool read_client(const struct daemon *daemon, struct client *client)
{
	ssize_t n = read(client->fd, client->request + client->len,
		sizeof(client->request) - 1 - client->len);

	if (n <= 0)
		return false;
	client->len += (size_t)n;
	client->request[client->len] = '\0';
	if (!client->waits && !client->pulls && strstr(client->request, "\r\n\r\n"))
		serve(daemon, client);
	return true;
}

static void reload(struct daemon *daemon)
{
	int value = load(daemon->config);

	if (value < 0 || (value > 0 && daemon->flag > 0))
		return;
	daemon->value = value > 0 ? value : daemon->flag > 0 ? daemon->flag : 3;
	daemon->reloaded_us = realtime_us();
	put_value(daemon);
	for (size_t i = 0; i < daemon->n; i++)
		if (daemon->clients[i].waits)
			answer_events(daemon, &daemon->clients[i]);
}

static void run(struct daemon *daemon, int listening, int signals)
{
	char hangs[PATH_MAX];

	snprintf(hangs, sizeof(hangs), "%s/hangs", daemon->state);
	for (;;) {
		struct pollfd fds[CLIENTS_MAX + 2];
		struct signalfd_siginfo info;
		bool silent = access(hangs, F_OK) == 0;
		size_t n = daemon->n;

		fds[0] = (struct pollfd){n < CLIENTS_MAX ? listening : -1, POLLIN, 0};
		fds[1] = (struct pollfd){silent ? -1 : signals, POLLIN, 0};
		for (size_t i = 0; i < n; i++)
			fds[i + 2] =
				(struct pollfd){silent ? -1 : daemon->clients[i].fd, POLLIN, 0};
		if (poll(fds, n + 2, -1) < 0)
			return;
		if (fds[1].revents && read(signals, &info, sizeof(info)) > 0)
			reload(daemon);
		for (size_t i = n; i-- > 0;) {
			if (!fds[i + 2].revents || read_client(daemon, &daemon->clients[i]))
				continue;
			close(daemon->clients[i].fd);
			daemon->clients[i] = daemon->clients[--daemon->n];
		}
		note_pulls(daemon);
		if (fds[0].revents)
			daemon->clients[daemon->n++] =
				(struct client){.fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC)};
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct daemon *daemon = must(calloc(1, sizeof(*daemon)));
	int listening, signals;
	sigset_t mask;

	if (argc < 4)
		return 64;
	if (streq(argv[1], "--validate"))
		return load(argv[3]) < 0;
	daemon->is_26 = access("/mnt/docker26", F_OK) == 0;
	daemon->config = argv[2];
	daemon->state = argv[3];
	if (argc > 4)
		daemon->flag = atoi(strchr(argv[4], '=') + 1);
	daemon->value = load(daemon->config);
	if (daemon->value < 0 || (daemon->value > 0 && daemon->flag > 0))
		return 1;
	if (daemon->value == 0)
		daemon->value = daemon->flag > 0 ? daemon->flag : 3;
	put_value(daemon);
	sigemptyset(&mask);
	sigaddset(&mask, SIGHUP);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	signals = signalfd(-1, &mask, SFD_CLOEXEC);
	listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	set_text(address.sun_path, argv[1]);
	unlink(argv[1]);
	if (signals < 0 || bind(listening, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(listening, 64) < 0)
		return 1;
	run(daemon, listening, signals);
	return 1;
}
