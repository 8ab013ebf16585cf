/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/json.h"
#include "report/report.h"

#include <curl/curl.h>

/* A local agent answers at once; an apply may restart a runtime twice, which is slow to answer. */
#define CONNECT_TIMEOUT_MS 1000L
#define TIMEOUT_MS         30000L
#define CHANGE_TIMEOUT_MS  180000L

DEFINE_CLEANUP(CURL, curl_easy_cleanup)

int client_call(const char *socket_path, const char *address, bool post, const char *path,
	cJSON **body, long *status)
{
	_cleanup_(cleanup_curl_easy_cleanup) CURL *curl = must(curl_easy_init());
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *out = must(open_memstream(&text, &len));
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
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, out); /* written by fwrite(3) */
	if (post)
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
	code = curl_easy_perform(curl);
	fclose(out);
	if (code == CURLE_OPERATION_TIMEDOUT)
		return -ETIMEDOUT;
	if (code != CURLE_OK)
		return socket_path && access(socket_path, F_OK) == 0 &&
				       access(socket_path, W_OK) < 0
			       ? -EACCES
			       : -ENOTCONN;
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
	*body = cJSON_Parse(text);
	return 0;
}

int local_poll(
	const struct cli *cli, struct config *config, bool watch, bool as_apply, struct core *core)
{
	struct core_options options = cli->core;
	int r;

	options.watch = watch;
	r = core_open(core, &options, config);
	if (r < 0) {
		core_close(core);
		return cli_fail("node", "%s", strerror(-r));
	}
	core->as_apply = as_apply;
	core_read_records(core);
	if (as_apply)
		core_reset(core, cli->only);
	core_sample(core);
	core_poll(core);
	return EXIT_OK;
}

int status_document(const struct cli *cli, bool watch, cJSON **status, bool *alone)
{
	static const char path[] = "/v1/status";
	bool faulty;
	_cleanup_(cleanup_config_free) struct config *config = cli_any_config(cli, &faulty);
	_cleanup_(cleanup_cJSON_Delete) cJSON *answer = NULL;
	const char *address = config_text(config, "http.listen");
	char socket_path[PATH_MAX];
	struct core core = {0};
	long code = 0;
	int r;

	core_socket_path(config, socket_path);
	r = client_call(socket_path, NULL, false, path, &answer, &code);
	if (r == -EACCES && address[0])
		r = client_call(NULL, address, false, path, &answer, &code);
	*alone = r == -ENOTCONN || r == -EACCES || (r == 0 && code != 200);
	if (r < 0 && !*alone)
		return cli_fail("agent", "%s", strerror(-r));
	if (*alone) {
		if (faulty || local_poll(cli, steal(config), watch, false, &core) != EXIT_OK)
			return EXIT_FAILED;
		cJSON_Delete(answer);
		answer = report_status(&core.node, true);
		core_close(&core);
	}
	if (!answer)
		return cli_fail("agent", "answered in an unknown form");
	json_make_printable(answer);
	*status = steal(answer);
	return EXIT_OK;
}
