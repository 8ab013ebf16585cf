/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client.h"

#include "base/cleanup.h"
#include "base/util.h"

#include <errno.h>
#include <stdio.h>

#include <curl/curl.h>

/* A local agent answers at once; applying waits for a disk. */
#define CONNECT_TIMEOUT_MS 1000L
#define TIMEOUT_MS         30000L
#define CHANGE_TIMEOUT_MS  180000L /* a runtime may be restarted twice, and be slow to answer */

DEFINE_CLEANUP(CURL, curl_easy_cleanup)

static size_t take_body(char *data, size_t size, size_t n, void *userdata)
{
	return fwrite(data, size, n, userdata);
}

static int result_of(CURLcode code, const char *socket_path)
{
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

static int perform(CURL *curl, const char *socket_path, const char *url, bool post, FILE *out)
{
	curl_easy_setopt(curl, CURLOPT_URL, url);
	if (socket_path)
		curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket_path);
	/* Nobody's proxy settings concern a request to this machine. */
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, post ? CHANGE_TIMEOUT_MS : TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, out);
	if (post)
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
	return result_of(curl_easy_perform(curl), socket_path);
}

int client_call(const char *socket_path, const char *address, bool post, const char *path,
	char **body, long *status)
{
	_cleanup_(cleanup_curl_easy_cleanup) CURL *curl = curl_easy_init();
	_cleanup_free_ char *text = NULL;
	char url[512];
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int r = curl && out ? 0 : -ENOMEM;

	snprintf(url, sizeof(url), "http://%s%s", address ? address : "localhost", path);
	if (r == 0)
		r = perform(curl, socket_path, url, post, out);
	if (out && fclose(out) != 0)
		r = -ENOMEM;
	if (r < 0)
		return r;
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
	*body = steal(text);
	return 0;
}
