/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client.h"

#include "base/json.h"
#include "base/util.h"
#include "cli/local.h"
#include "report/report.h"

#include <errno.h>
#include <stdio.h>

#include <curl/curl.h>

/* A local agent answers at once; an apply may restart a runtime twice, which is slow to answer. */
#define CONNECT_TIMEOUT_MS 1000L
#define TIMEOUT_MS         30000L
#define CHANGE_TIMEOUT_MS  180000L

DEFINE_CLEANUP(CURL, curl_easy_cleanup)

static size_t take_body(char *data, size_t size, size_t n, void *userdata)
{
	return fwrite(data, size, n, userdata);
}

/* socket_path is NULL for TCP, and then address is not. */
static int perform(CURL *curl, const char *socket_path, const char *address, bool post,
	const char *path, FILE *out)
{
	char url[512];
	CURLcode code;

	snprintf(url, sizeof(url), "http://%s%s", socket_path ? "localhost" : address, path);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	if (socket_path)
		curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket_path);
	curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* not for a request to this machine */
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, post ? CHANGE_TIMEOUT_MS : TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, out);
	if (post)
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
	code = curl_easy_perform(curl);
	if (code == CURLE_OK)
		return 0;
	if (code == CURLE_OPERATION_TIMEDOUT)
		return -ETIMEDOUT;
	if (code == CURLE_OUT_OF_MEMORY)
		return -ENOMEM;
	if (socket_path && access(socket_path, F_OK) == 0 && access(socket_path, W_OK) < 0)
		return -EACCES;
	return -ENOTCONN;
}

int client_call(const char *socket_path, const char *address, bool post, const char *path,
	char **body, long *status)
{
	_cleanup_(cleanup_curl_easy_cleanup) CURL *curl = curl_easy_init();
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int r = curl && out ? 0 : -ENOMEM;

	if (r == 0)
		r = perform(curl, socket_path, address, post, path, out);
	if (out && fclose(out) != 0)
		r = -ENOMEM;
	if (r < 0)
		return r;
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
	*body = steal(text);
	return 0;
}

/* The agent's document or, without one, what this process reads itself. -EINVAL: reported. */
static int get_document(const struct cli *cli, bool watch, char **json, bool *alone)
{
	static const char path[] = "/v1/status";
	bool faulty;
	_cleanup_(cleanup_config_free) struct config *config = cli_any_config(cli, &faulty);
	_cleanup_free_ char *answer = NULL;
	char socket_path[PATH_MAX];
	struct core core = {0};
	long status = 0;
	int r;

	if (!config)
		return -ENOMEM;
	core_socket_path(config, socket_path);
	r = client_call(socket_path, NULL, false, path, &answer, &status);
	if (r == -EACCES && config_text(config, "http.listen")[0])
		r = client_call(
			NULL, config_text(config, "http.listen"), false, path, &answer, &status);
	*alone = r == -ENOTCONN || r == -EACCES || (r == 0 && status != 200);
	if (!*alone) {
		*json = r == 0 ? steal(answer) : NULL;
		return r;
	}
	if (faulty || local_poll(cli, steal(config), watch, false, &core) != EXIT_OK)
		return -EINVAL;
	r = report_status(&core.node, true, true, json, NULL);
	core_close(&core);
	return r;
}

int status_document(const struct cli *cli, bool watch, cJSON **status, bool *alone)
{
	_cleanup_free_ char *json = NULL;
	bool no_agent;
	int r = get_document(cli, watch, &json, &no_agent);

	if (r == -EINVAL)
		return EXIT_FAILED;
	if (r < 0)
		return cli_fail("agent", "%s", strerror(-r));
	*status = cJSON_Parse(json);
	if (!*status)
		return cli_fail("agent", "answered in an unknown form");
	json_make_printable(*status);
	if (alone)
		*alone = no_agent;
	return EXIT_OK;
}
