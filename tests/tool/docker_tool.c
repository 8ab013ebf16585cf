/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What src/runtime/docker.h reads of a daemon, for the root tests: JSON, one object a line.
 *
 * docker_tool ROOT info
 * docker_tool ROOT containers
 * docker_tool ROOT pulled SINCE-US
 * docker_tool ROOT reload KEY    sends SIGHUP, and waits 10 s for what is in force of the key then
 */

#include "base/cleanup.h"
#include "base/util.h"
#include "runtime/docker.h"
#include "runtime/docker_process.h"

#include <errno.h>
#include <signal.h>

#include <cjson/cJSON.h>

static void print(cJSON *object)
{
	_cleanup_free_ char *text = cJSON_PrintUnformatted(object);

	puts(text ? text : "null");
	cJSON_Delete(object);
}

static int print_info(const struct host *host, const char *socket, const struct wait *wait)
{
	struct docker_process process = {0};
	struct docker_info info = {0};
	char why[DOCKER_ERROR_MAX] = "dockerd does not run";
	cJSON *object = cJSON_CreateObject();
	int r = docker_process_read(host, socket, &process);

	if (r == 0)
		r = docker_read_info(socket, &info, wait, why);
	cJSON_AddNumberToObject(object, "error", r);
	cJSON_AddStringToObject(object, "why", why);
	cJSON_AddStringToObject(object, "version", info.version);
	cJSON_AddStringToObject(object, "storage_driver", info.storage_driver);
	cJSON_AddStringToObject(object, "root_dir", info.root_dir);
	cJSON_AddStringToObject(object, "mirrors", info.mirrors);
	cJSON_AddStringToObject(object, "reloaded_downloads", info.reloaded_downloads);
	cJSON_AddNumberToObject(object, "pid", process.pid);
	cJSON_AddBoolToObject(object, "on_command", process.downloads_on_command);
	cJSON_AddStringToObject(object, "command_downloads", process.downloads);
	print(object);
	return 0;
}

static int print_containers(const char *socket, const struct wait *wait)
{
	_cleanup_free_ struct docker_container *list = NULL;
	size_t n = 0;
	int r = docker_read_containers(socket, &list, &n, wait);

	for (size_t i = 0; i < n; i++) {
		cJSON *object = cJSON_CreateObject();

		cJSON_AddStringToObject(object, "id", list[i].id);
		cJSON_AddStringToObject(object, "name", list[i].name);
		cJSON_AddBoolToObject(object, "running", list[i].running);
		print(object);
	}
	return r;
}

static int print_pulled(const char *socket, const char *since, const struct wait *wait)
{
	char names[16][DOCKER_NAME_MAX];
	size_t n = 0;
	int r = docker_read_pulled(socket, strtoull(since, NULL, 10), names, 16, &n, wait);

	for (size_t i = 0; i < n; i++) {
		cJSON *object = cJSON_CreateObject();

		cJSON_AddStringToObject(object, "name", names[i]);
		print(object);
	}
	return r;
}

static int reload(
	const struct host *host, const char *socket, const char *key, const struct wait *wait)
{
	char value[DOCKER_VALUE_MAX] = "";
	struct docker_process process;
	uint64_t since_us = realtime_us();
	cJSON *object;
	int r = docker_process_read(host, socket, &process);

	if (r < 0 || process.pid <= 0 || kill(process.pid, SIGHUP) < 0)
		return r < 0 ? r : -ESRCH;
	object = cJSON_CreateObject();
	cJSON_AddNumberToObject(
		object, "error", docker_wait_reload(socket, since_us, key, value, wait));
	cJSON_AddStringToObject(object, "value", value);
	print(object);
	return 0;
}

int main(int argc, char **argv)
{
	struct wait wait = {.deadline_us = now_us() + 10 * USEC_PER_SEC, .cancel_fd = -1};
	struct host host = {0};
	char socket[PATH_MAX];
	int r = -EINVAL;

	if (argc < 3 || !host_init(&host, argv[1]) || !host_path(&host, "/run/docker.sock", socket))
		return 64;
	if (streq(argv[2], "info"))
		r = print_info(&host, socket, &wait);
	else if (streq(argv[2], "containers"))
		r = print_containers(socket, &wait);
	else if (streq(argv[2], "pulled") && argc > 3)
		r = print_pulled(socket, argv[3], &wait);
	else if (streq(argv[2], "reload") && argc > 3)
		r = reload(&host, socket, argv[3], &wait);
	return r < 0;
}
