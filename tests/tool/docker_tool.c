/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What src/runtime/docker.h makes of a daemon, for the root tests: one line of JSON for each
 * answer.
 *
 * docker_tool ROOT state                the picture after the first look
 * docker_tool ROOT watch                the picture at each change, until SIGTERM
 * docker_tool ROOT containers | images
 * docker_tool ROOT pull REFERENCE
 * docker_tool ROOT load FILE
 *
 * At the end the most processor time that one turn of the loop took goes to stderr, but for what
 * this program's own callbacks took.
 */

#include "base/cleanup.h"
#include "base/util.h"
#include "runtime/docker.h"
#include "runtime/fetch.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include <cjson/cJSON.h>

struct tool {
	sd_event *event;
	struct docker *docker;
	bool done;
	int result;
	uint64_t longest_us, own_us;
};

/* What this thread took: a busy machine is not the loop's fault. */
static uint64_t cpu_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000;
}

static void print(cJSON *object)
{
	_cleanup_free_ char *text = cJSON_PrintUnformatted(object);

	puts(text ? text : "null");
	fflush(stdout);
	cJSON_Delete(object);
}

static const char *source_text(enum docker_source source)
{
	static const char *const texts[] = {
		[DOCKER_SOURCE_NONE] = "not known",
		[DOCKER_SOURCE_RELOAD] = "the daemon's last reload",
		[DOCKER_SOURCE_COMMAND] = "dockerd's command line",
		[DOCKER_SOURCE_FILE] = "daemon.json, unchanged since dockerd started",
		[DOCKER_SOURCE_DEFAULT] = "dockerd's default",
	};

	return texts[source];
}

static void print_state(void *userdata)
{
	const struct tool *tool = userdata;
	const struct docker_state *state = docker_state(tool->docker);
	cJSON *object = cJSON_CreateObject();
	cJSON *mirrors = cJSON_AddArrayToObject(object, "mirrors");

	cJSON_AddNumberToObject(object, "error", state->error);
	cJSON_AddStringToObject(object, "why", state->why);
	cJSON_AddStringToObject(object, "version", state->version);
	cJSON_AddStringToObject(object, "api_version", state->api_version);
	cJSON_AddStringToObject(object, "storage_driver", state->storage_driver);
	cJSON_AddStringToObject(object, "root_dir", state->root_dir);
	cJSON_AddStringToObject(object, "config_path", state->config_path);
	cJSON_AddStringToObject(object, "containerd", state->containerd);
	cJSON_AddBoolToObject(object, "live_restore", state->live_restore);
	cJSON_AddNumberToObject(object, "max_downloads", state->max_downloads);
	cJSON_AddStringToObject(object, "source", source_text(state->source));
	cJSON_AddBoolToObject(object, "on_command", state->max_downloads_on_command);
	cJSON_AddNumberToObject(object, "reloads", (double)state->reloads);
	cJSON_AddNumberToObject(object, "pid", state->pid);
	for (size_t i = 0; i < state->n_mirrors; i++)
		cJSON_AddItemToArray(mirrors, cJSON_CreateString(state->mirrors[i]));
	print(object);
}

static void print_event(const struct docker_event *event, void *userdata)
{
	cJSON *object = cJSON_CreateObject();

	(void)userdata;
	cJSON_AddNumberToObject(object, "event", event->kind);
	cJSON_AddStringToObject(object, "name", event->name);
	cJSON_AddStringToObject(object, "id", event->id);
	print(object);
}

static void print_containers(
	int error, const struct docker_container *list, size_t n, void *userdata)
{
	struct tool *tool = userdata;
	uint64_t start_us = cpu_us();

	for (size_t i = 0; i < n; i++) {
		cJSON *object = cJSON_CreateObject();

		cJSON_AddStringToObject(object, "id", list[i].id);
		cJSON_AddStringToObject(object, "name", list[i].name);
		cJSON_AddStringToObject(object, "pod_name", list[i].pod_name);
		cJSON_AddBoolToObject(object, "running", list[i].running);
		print(object);
	}
	tool->done = true;
	tool->result = error;
	tool->own_us += cpu_us() - start_us;
}

static void print_images(int error, const struct docker_image *list, size_t n, void *userdata)
{
	struct tool *tool = userdata;
	uint64_t start_us = cpu_us();

	for (size_t i = 0; i < n; i++) {
		cJSON *object = cJSON_CreateObject();

		cJSON_AddStringToObject(object, "id", list[i].id);
		cJSON_AddStringToObject(object, "name", list[i].name);
		cJSON_AddNumberToObject(object, "size", (double)list[i].size);
		print(object);
	}
	tool->done = true;
	tool->result = error;
	tool->own_us += cpu_us() - start_us;
}

static void print_end(int error, const char *why, void *userdata)
{
	struct tool *tool = userdata;
	cJSON *object = cJSON_CreateObject();

	cJSON_AddNumberToObject(object, "error", error);
	cJSON_AddStringToObject(object, "why", why);
	print(object);
	tool->done = true;
}

/* One turn of the loop, timed without its waiting. */
static int turn(struct tool *tool)
{
	uint64_t start_us, own_us = tool->own_us, took_us;
	int r = sd_event_prepare(tool->event);

	if (r == 0)
		r = sd_event_wait(tool->event, UINT64_MAX);
	start_us = cpu_us();
	if (r > 0)
		r = sd_event_dispatch(tool->event);
	took_us = cpu_us() - start_us - (tool->own_us - own_us);
	tool->longest_us = MAX(tool->longest_us, took_us);
	return r;
}

static int begin(struct tool *tool, const char *what, const char *argument)
{
	struct docker_transfer_options options = {
		.deadline_us = 60 * USEC_PER_SEC, .done = print_end, .userdata = tool};
	struct docker_transfer *transfer;

	if (streq(what, "containers"))
		return docker_list_containers(tool->docker, print_containers, tool);
	if (streq(what, "images"))
		return docker_list_images(tool->docker, print_images, tool);
	if (streq(what, "pull"))
		return docker_pull(tool->docker, argument, &options, &transfer);
	if (streq(what, "load"))
		return docker_load(
			tool->docker, open(argument, O_RDONLY | O_CLOEXEC), &options, &transfer);
	if (streq(what, "state")) {
		print_state(tool);
		tool->done = true;
	}
	return 0;
}

static int run(struct tool *tool, struct fetcher *fetcher, char **argv)
{
	struct docker_options options = {.host_root = argv[1], .userdata = tool};
	int r;

	if (streq(argv[2], "watch")) {
		options.changed = print_state;
		options.event = print_event;
	}
	r = docker_open(tool->event, fetcher, &options, &tool->docker);
	while (r >= 0 && !docker_settled(tool->docker))
		r = turn(tool);
	if (r >= 0)
		r = begin(tool, argv[2], argv[3]);
	while (r >= 0 && !tool->done && sd_event_get_state(tool->event) != SD_EVENT_FINISHED)
		r = turn(tool);
	docker_close(tool->docker);
	return r < 0 ? r : tool->result;
}

int main(int argc, char **argv)
{
	struct tool tool = {0};
	struct fetcher *fetcher;
	sigset_t signals;
	int r;

	if (argc < 3)
		return 64;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	if (sd_event_new(&tool.event) < 0 || fetcher_open(tool.event, &fetcher) < 0)
		return 1;
	sd_event_add_signal(tool.event, NULL, SIGTERM, NULL, NULL);
	r = run(&tool, fetcher, argv);
	fetcher_close(fetcher);
	sd_event_unref(tool.event);
	fprintf(stderr, "longest turn of the loop: %llu us\n", (unsigned long long)tool.longest_us);
	return r < 0;
}
