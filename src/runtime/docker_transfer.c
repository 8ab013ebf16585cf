/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/docker_internal.h"

#include "base/util.h"
#include "runtime/docker_parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

struct docker_transfer {
	struct docker_transfer *next, **owner;
	struct docker_transfer_options options;
	struct fetch *fetch;
	struct json_stream stream;
	/* What the daemon said: it answers 200 before it knows how it will end. */
	int error;
	char why[DOCKER_WHY_MAX];
};

void docker_transfer_cancel(struct docker_transfer *transfer)
{
	if (!transfer)
		return;
	fetch_cancel(transfer->fetch);
	json_stream_clear(&transfer->stream);
	*transfer->owner = transfer->next;
	if (transfer->next)
		transfer->next->owner = transfer->owner;
	free(transfer);
}

void docker_transfers_clear(struct docker *docker)
{
	while (docker->transfers)
		docker_transfer_cancel(docker->transfers);
}

/* The first error is the cause; the stream is read to its end all the same. */
static int on_message(const char *text, size_t len, void *userdata)
{
	struct docker_transfer *transfer = userdata;
	struct docker_progress progress;
	char why[DOCKER_WHY_MAX] = "";
	int r = docker_parse_progress(text, len, &progress, why);

	if (r == -EBADMSG || r == -ENOMEM)
		return r;
	if (r < 0 && transfer->error == 0) {
		transfer->error = r;
		copy_text(transfer->why, sizeof(transfer->why), why);
	}
	if (r == 0 && transfer->options.progress)
		transfer->options.progress(&progress, transfer->options.userdata);
	return 0;
}

static int on_data(const char *data, size_t len, void *userdata)
{
	struct docker_transfer *transfer = userdata;

	return json_stream_feed(&transfer->stream, data, len, on_message, transfer);
}

static void take_end(struct docker_transfer *transfer, const struct fetch_result *result)
{
	if (transfer->error < 0)
		return;
	if (result->error < 0) {
		transfer->error = result->error;
		copy_text(transfer->why, sizeof(transfer->why), result->message);
	} else if (result->status != 200) {
		transfer->error = docker_parse_refusal(result->body, transfer->why);
	} else if (!json_stream_is_whole(&transfer->stream)) {
		transfer->error = -ECONNRESET;
		copy_text(transfer->why, sizeof(transfer->why), "the daemon stopped in a message");
	}
}

static void on_end(const struct fetch_result *result, void *userdata)
{
	struct docker_transfer *transfer = userdata;

	transfer->fetch = NULL;
	take_end(transfer, result);
	transfer->options.done(transfer->error, transfer->why, transfer->options.userdata);
	docker_transfer_cancel(transfer);
}

static int begin(struct docker *docker, const char *path, int fd,
	const struct docker_transfer_options *options, struct docker_transfer **ret)
{
	struct docker_transfer *transfer = calloc(1, sizeof(*transfer));
	struct fetch_request request = {.method = "POST",
		.body_fd = fd,
		.deadline_us = options->deadline_us,
		.idle_s = options->idle_s,
		.data = on_data,
		.done = on_end,
		.userdata = transfer};
	int r;

	if (!transfer)
		return -ENOMEM;
	*transfer = (struct docker_transfer){.next = docker->transfers,
		.owner = &docker->transfers,
		.options = *options,
		.stream = {.max = DOCKER_OBJECT_MAX}};
	if (transfer->next)
		transfer->next->owner = &transfer->next;
	docker->transfers = transfer;
	r = docker_request(docker, path, &request, &transfer->fetch);
	if (r < 0) {
		docker_transfer_cancel(transfer);
		return r;
	}
	*ret = transfer;
	return 0;
}

/* Characters of references (distribution/reference): none of them needs an escape in a query. */
static bool is_reference(const char *text)
{
	for (const char *p = text; *p; p++)
		if (!isascii(*p) || (!isalnum((unsigned char)*p) && !strchr("._-/:@", *p)))
			return false;
	return *text != '\0' && strlen(text) < DOCKER_NAME_MAX;
}

int docker_pull(struct docker *docker, const char *reference,
	const struct docker_transfer_options *options, struct docker_transfer **transfer)
{
	const char *slash = strrchr(reference, '/');
	bool tagged = strpbrk(slash ? slash : reference, ":@") != NULL;
	char path[512];

	if (!is_reference(reference))
		return -EINVAL;
	/* Without a tag the daemon would pull all there are. */
	snprintf(path, sizeof(path), "/images/create?fromImage=%s%s", reference,
		tagged ? "" : ":latest");
	return begin(docker, path, 0, options, transfer);
}

int docker_load(struct docker *docker, int fd, const struct docker_transfer_options *options,
	struct docker_transfer **transfer)
{
	return begin(docker, "/images/load?quiet=0", fd, options, transfer);
}
