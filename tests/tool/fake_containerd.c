/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake containerd for tests/chaos: 2.0 if the file /mnt/containerd2 exists, else 1.6.
 *
 * fake_containerd SOCKET CONFIG STATE IMAGES
 *     serves the calls of headroom's samples and loads. STATE is a directory: "hangs" there makes
 *     it silent, "pulls" shows a pull, "slow" lets no pull end, it writes its value of
 *     max_concurrent_downloads to "value", and "pulling" is there during pulls.
 *     IMAGES has its images: see fake_images.h.
 * fake_containerd -c CONFIG config dump  prints the configuration. It refuses a file with the word
 *                                        "refused"
 * fake_containerd config default         prints its defaults
 * fake_containerd --version              prints its version
 */
#include "fake_images.h"

#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CLIENTS_MAX 32
#define KEY         "max_concurrent_downloads"
#define CRI         "io.containerd.grpc.v1.cri\""
#define IMAGES      "io.containerd.cri.v1.images\""

struct call {
	const char *state, *images, *certs, *version;
	int value;
	bool pulls;                /* and gets no answer */
	char path[128], status[4]; /* of gRPC */
	uint8_t in[4096], out[32768];
	size_t in_len, out_len, out_sent;
};

struct client {
	int fd;
	nghttp2_session *session;
	struct call call;
};

static bool exists(const char *directory, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return access(path, F_OK) == 0;
}

static bool is_2(void)
{
	return exists("/mnt", "containerd2");
}

/* The value of a configuration file, the default 3, or -1 for a refused file. */
static int load(const char *config)
{
	_cleanup_free_ char *text = NULL;
	const char *key;

	if (read_file(config, 65536, &text, NULL) < 0)
		return 3;
	if (strstr(text, "refused"))
		return -1;
	/* Only 2.x knows version 3 of the file. */
	key = strstr(text, is_2() && strstr(text, "version = 3") ? IMAGES : CRI);
	key = key ? strstr(key, KEY " = ") : NULL;
	return key ? atoi(key + strlen(KEY " = ")) : 3;
}

static const char *certs_of(const char *config)
{
	_cleanup_free_ char *text = NULL;
	bool set = read_file(config, 65536, &text, NULL) == 0 && strstr(text, "config_path");

	return set ? "/etc/containerd/certs.d" : "";
}

static int dump(const char *config)
{
	_cleanup_free_ char *text = NULL;
	int value = load(config);

	if (read_file(config, 65536, &text, NULL) == 0 && strstr(text, "stuck"))
		(void)poll(NULL, 0, -1);
	if (value < 0) {
		fprintf(stderr, "containerd: failed to load TOML: %s: refused\n", config);
		return 1;
	}
	printf("version = %d\n\n[plugins]\n\n  [plugins.\"%s]\n    " KEY
	       " = %d\n    sandbox_image = \"registry.k8s.io/pause:3.6\"\n\n"
	       "    [plugins.\"%s.registry]\n      config_path = \"%s\"\n",
		is_2() ? 3 : 2, is_2() ? IMAGES : CRI, value, is_2() ? IMAGES : CRI,
		certs_of(config));
	return 0;
}

static size_t answer_of(struct call *call, uint8_t *out, int *status)
{
	char config[256];
	uint8_t entry[512], inner[512];
	size_t n;

	if (strstr(call->path, "RuntimeService/Version"))
		return text_field(out, 3, call->version);
	if (strstr(call->path, "Version/Version"))
		return text_field(out, 1, call->version);
	if (strstr(call->path, "RuntimeService/Status")) {
		snprintf(config, sizeof(config),
			"{\"maxConcurrentDownloads\":%d,\"registry\":{\"configPath\":\"%s\"},"
			"\"containerd\":{\"snapshotter\":\"overlayfs\"}}",
			call->value, call->certs);
		n = text_field(entry, 1, "config");
		n += text_field(entry + n, 2, config);
		return field(out, 2, entry, n);
	}
	if (strstr(call->path, "Namespaces/List"))
		return field(out, 1, entry, text_field(entry, 1, "k8s.io"));
	if (strstr(call->path, "ListStatuses") && exists(call->state, "pulls")) {
		static const char ref[] =
			"layer-sha256:0000000000000000000000000000000000000000000000000000000000000001";
		static const uint8_t stamp[] = {8, 1};

		n = field(inner, 1, stamp, sizeof(stamp));
		n += text_field(inner + n, 3, ref);
		inner[n++] = 4 << 3; /* the offset */
		inner[n++] = 100;
		inner[n++] = 5 << 3; /* the total */
		inner[n++] = 120;
		return field(out, 1, inner, n);
	}
	if (strstr(call->path, "Image") || strstr(call->path, "Leases"))
		return serve_images(call->images, call->path,
			(struct slice){call->in, call->in_len}, out, status);
	return 0;
}

static int on_header(nghttp2_session *, const nghttp2_frame *, const uint8_t *name, size_t,
	const uint8_t *value, size_t, uint8_t, void *userdata)
{
	struct call *call = userdata;

	if (streq((const char *)name, ":path"))
		set_text(call->path, (const char *)value);
	return 0;
}

static nghttp2_nv header(const char *name, const char *value)
{
	return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0};
}

static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *buffer, size_t length,
	uint32_t *flags, nghttp2_data_source *, void *userdata)
{
	struct call *call = userdata;
	size_t n = MIN(length, call->out_len - call->out_sent);
	const nghttp2_nv trailers[] = {header("grpc-status", call->status),
		header("grpc-message",
			streq(call->status, "8") ? "no space left on device" : "fake")};

	memcpy(buffer, call->out + call->out_sent, n);
	call->out_sent += n;
	if (call->out_sent < call->out_len)
		return (ssize_t)n;
	*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
	nghttp2_submit_trailer(session, stream, trailers, 2);
	return (ssize_t)n;
}

static int on_data(
	nghttp2_session *, uint8_t, int32_t, const uint8_t *data, size_t len, void *userdata)
{
	struct call *call = userdata;

	len = MIN(len, sizeof(call->in) - call->in_len);
	memcpy(call->in + call->in_len, data, len);
	call->in_len += len;
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *userdata)
{
	const nghttp2_nv headers[] = {
		header(":status", "200"), header("content-type", "application/grpc")};
	nghttp2_data_provider body = {.read_callback = on_read};
	struct call *call = userdata;
	int status = OK;
	size_t len;

	if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
		!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	/* After the prefix of the message. */
	call->in_len -= MIN(call->in_len, (size_t)5);
	memmove(call->in, call->in + 5, call->in_len);
	len = answer_of(call, call->out + 5, &status);
	call->in_len = 0;
	call->pulls =
		strstr(call->path, "PullImage") && status == OK && exists(call->state, "slow");
	if (call->pulls)
		return 0;
	snprintf(call->status, sizeof(call->status), "%d", status);
	memset(call->out, 0, 3);
	call->out[3] = (uint8_t)(len >> 8);
	call->out[4] = (uint8_t)len;
	call->out_len = 5 + len;
	call->out_sent = 0;
	return nghttp2_submit_response(session, frame->hd.stream_id, headers, 2, &body);
}

static void open_client(struct client *client, int fd, const struct call *call)
{
	nghttp2_session_callbacks *callbacks;

	*client = (struct client){.fd = fd, .call = *call};
	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_server_new(&client->session, callbacks, &client->call);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_submit_settings(client->session, 0, NULL, 0);
}

/* False when the client has gone. */
static bool serve(struct client *client)
{
	const uint8_t *data;
	uint8_t buffer[16384];
	ssize_t n = recv(client->fd, buffer, sizeof(buffer), 0);

	if (n <= 0 || nghttp2_session_mem_recv(client->session, buffer, (size_t)n) != n)
		return false;
	while ((n = nghttp2_session_mem_send(client->session, &data)) > 0)
		if (send(client->fd, data, (size_t)n, MSG_NOSIGNAL) != n)
			return false;
	return true;
}

/* A file that exists or not. */
static void put_file(const char *state, const char *name, const char *text)
{
	char path[PATH_MAX];
	_cleanup_fclose_ FILE *out = NULL;

	snprintf(path, sizeof(path), "%s/%s", state, name);
	out = text ? fopen(path, "we") : NULL;
	if (out)
		fputs(text, out);
	else
		unlink(path);
}

static int run(const char *path, const char *config, const char *state, const char *images)
{
	const struct call call = {.state = state,
		.images = images,
		.certs = certs_of(config),
		.value = load(config),
		.version = is_2() ? "2.0.5" : "1.6.26"};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	static struct client clients[CLIENTS_MAX];
	struct pollfd fds[CLIENTS_MAX + 1];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[16];
	size_t n = 0;

	if (call.value < 0)
		return 1;
	snprintf(text, sizeof(text), "%d", call.value);
	set_text(address.sun_path, path);
	(void)unlink(path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 64) < 0)
		return 1;
	put_file(state, "value", text);
	for (;;) {
		bool hangs = exists(state, "hangs"), pulls = false;

		fds[0] = (struct pollfd){.fd = n < CLIENTS_MAX ? fd : -1, .events = POLLIN};
		for (size_t i = 0; i < n; i++) {
			fds[i + 1] =
				(struct pollfd){.fd = hangs ? -1 : clients[i].fd, .events = POLLIN};
			pulls |= clients[i].call.pulls;
		}
		put_file(state, "pulling", pulls ? "" : NULL);
		/* A silent one does not look again: only a restart helps. */
		if (poll(fds, n + 1, -1) < 0)
			return 1;
		for (size_t i = n; i-- > 0;) {
			if (!fds[i + 1].revents || serve(&clients[i]))
				continue;
			close(clients[i].fd);
			nghttp2_session_del(clients[i].session);
			clients[i] = clients[--n];
		}
		if (fds[0].revents)
			open_client(&clients[n++], accept4(fd, NULL, NULL, SOCK_CLOEXEC), &call);
	}
}

int main(int argc, char **argv)
{
	if (argc == 5 && streq(argv[1], "-c"))
		return dump(argv[2]);
	if (argc == 2)
		return printf("containerd github.com/containerd/containerd %s fake\n",
			       is_2() ? "2.0.5" : "1.6.26") < 0;
	if (argc == 3 && streq(argv[2], "default"))
		return dump("/nonexistent");
	return argc == 5 ? run(argv[1], argv[2], argv[3], argv[4]) : 64;
}
