/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/answer.h"

#include "apply/file.h"
#include "base/util.h"
#include "runtime/cri.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

struct answer {
	struct cri_client *client;
	sd_event_source *later; /* says what is known without asking */
	enum answer_level level;
	answer_done done;
	void *userdata;
};

void answer_abandon(struct answer *answer)
{
	if (!answer)
		return;
	sd_event_source_disable_unref(answer->later);
	if (answer->client)
		cri_client_close(answer->client);
	free(answer);
}

static void finish(struct answer *answer)
{
	enum answer_level level = answer->level;
	answer_done done = answer->done;
	void *userdata = answer->userdata;

	answer_abandon(answer);
	done(level, userdata);
}

static int on_later(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	finish(userdata);
	return 0;
}

static void on_version(const struct cri_answer *version, void *userdata)
{
	struct answer *answer = userdata;

	if (version->result.status == GRPC_OK)
		answer->level = ANSWER_CRI;
	else if (!version->result.local)
		answer->level = ANSWER_GRPC;
	finish(answer);
}

/* A stale socket refuses; a daemon that is up accepts, even when it is too busy to. */
static int try_socket(const struct file_at *at)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int file = open(at->full, O_PATH | O_CLOEXEC);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (file < 0 || fd < 0)
		return -errno;
	/* However long the path is below the host's root. */
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", file);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 && errno != EAGAIN)
		return -errno;
	return 0;
}

static int begin(struct answer *answer, sd_event *event, const struct host *host, const char *path,
	uint64_t timeout_us)
{
	struct file_at at;
	int r = file_locate(host, path, &at);

	if (r == 0)
		r = try_socket(&at);
	if (r < 0)
		return sd_event_add_time(
			event, &answer->later, CLOCK_MONOTONIC, now_us(), 1, on_later, answer);
	answer->level = ANSWER_CONNECT;
	r = cri_client_open(event, at.full, timeout_us, &answer->client);
	return r == 0 ? cri_version(answer->client, on_version, answer) : r;
}

int answer_ask(sd_event *event, const struct host *host, const char *socket, uint64_t timeout_us,
	answer_done done, void *userdata, struct answer **ret)
{
	struct answer *answer = calloc(1, sizeof(*answer));
	int r;

	if (!answer)
		return -ENOMEM;
	answer->done = done;
	answer->userdata = userdata;
	r = begin(answer, event, host, socket, timeout_us);
	if (r < 0) {
		answer_abandon(answer);
		return r;
	}
	*ret = answer;
	return 0;
}
