/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/mirror_ask.h"

#include "base/file.h"
#include "runtime/archive_internal.h"
#include "runtime/http_client.h"

#define DEADLINE_US (2 * USEC_PER_SEC)
#define FILE_MAX    65536
#define STEPS_MAX   4 /* index, index within it, manifest, layer */

#define ACCEPT                                                        \
	"Accept: application/vnd.oci.image.index.v1+json, "           \
	"application/vnd.oci.image.manifest.v1+json, "                \
	"application/vnd.docker.distribution.manifest.list.v2+json, " \
	"application/vnd.docker.distribution.manifest.v2+json, */*"

/* Splits REGISTRY/REPOSITORY[:TAG][@DIGEST]. A digest counts more than a tag. */
static void set_path(struct mirror_question *question)
{
	const char *digest = strchr(question->image, '@'), *slash = strrchr(question->image, '/');
	const char *tag = strchr(slash ? slash : question->image, ':');

	snprintf(question->path, sizeof(question->path), "manifests/%s",
		digest ? digest + 1
		: tag  ? tag + 1
		       : "latest");
}

static void write_url(const struct mirror_question *question, char *url, size_t size)
{
	const char *repository = strchr(question->image, '/');
	size_t len = strlen(question->url), name = repository ? strcspn(repository, "@") : 0;
	/* As in containerd, a path that ends in /v2 is already the API's root. */
	bool is_root = len > 3 && streq(question->url + len - 3, "/v2");

	/* The tag, but not a port: it is after the last slash. */
	for (size_t i = name; i > 0 && repository[i] != '/'; i--)
		if (repository[i] == ':')
			name = i;
	snprintf(url, size, "%s%s%.*s/%s?ns=%.*s", question->url, is_root ? "" : "/v2", (int)name,
		repository ? repository : "", question->path, (int)strcspn(question->image, "/"),
		question->image);
}

/* Sets the path to the manifest for this machine of an index, or to a manifest's largest layer. */
static bool set_next_path(struct mirror_question *question, const char *text)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = cJSON_Parse(text ? text : "");
	const cJSON *children = json_at(document, "manifests"), *item;
	const char *digest = "";
	double largest = -1;

	cJSON_ArrayForEach (item, children)
		if (!digest[0] && archive_fits_machine(json_at(item, "platform")))
			digest = json_text_at(item, "digest");
	cJSON_ArrayForEach (item, json_at(document, "layers"))
		if (!children && json_number_at(item, "size") > largest) {
			largest = json_number_at(item, "size");
			digest = json_text_at(item, "digest");
		}
	if (!archive_is_digest(digest))
		return false;
	snprintf(question->path, sizeof(question->path), "%s/%s", children ? "manifests" : "blobs",
		digest);
	return true;
}

static bool is_last(const struct mirror_question *question)
{
	return !strchr(question->image, '@') || starts_with(question->path, "blobs/");
}

static bool judge(struct mirror_question *question, const struct http_get *get)
{
	if (get->error == 0 && get->status == 200 && !is_last(question) &&
		++question->steps < STEPS_MAX && set_next_path(question, get->body))
		return true;
	/* Its search for a peer may have been too slow. */
	if (get->error == 0 && get->status == 404 && !question->repeated)
		return question->repeated = true;
	/* An image without layers cannot be judged by them. */
	question->answer = get->error < 0       ? get->error
			   : get->status == 404 ? 0
			   : get->status == 200 ? 1
						: -EPROTO;
	if (get->error < 0)
		snprintf(question->why, sizeof(question->why), "%.90s: %.90s", question->url,
			get->error == -ETIMEDOUT ? "no answer within 2 s" : get->why);
	else if (question->answer < 0)
		snprintf(question->why, sizeof(question->why), "%.90s answers %ld", question->url,
			get->status);
	return false;
}

void mirrors_ask(
	struct mirror_question *questions, size_t n, const char *host_root, const struct wait *wait)
{
	_cleanup_free_ struct http_get *gets = must(calloc(n + 1, sizeof(*gets)));
	_cleanup_free_ char(*urls)[1024] = must(calloc(n + 1, sizeof(*urls)));
	struct mirror_question **asked = must(calloc(n + 1, sizeof(struct mirror_question *)));
	struct wait bounded = wait_at_most(wait, DEADLINE_US);
	char ca_file[PATH_MAX];
	size_t left = n;

	registry_find_ca(host_root, ca_file);
	for (size_t i = 0; i < n; i++) {
		set_path(&questions[i]);
		asked[i] = &questions[i];
	}
	while (left > 0) {
		size_t more = 0;

		for (size_t i = 0; i < left; i++) {
			write_url(asked[i], urls[i], sizeof(urls[i]));
			gets[i] = (struct http_get){.url = urls[i],
				.ca_file = ca_file[0] ? ca_file : NULL,
				.header = ACCEPT,
				.limit = ARCHIVE_TEXT_MAX / 4,
				.method = is_last(asked[i]) ? "HEAD" : NULL};
		}
		http_get_all(gets, left, &bounded);
		for (size_t i = 0; i < left; i++) {
			if (judge(asked[i], &gets[i]))
				asked[more++] = asked[i];
			free(gets[i].body);
		}
		left = more;
	}
	free(asked);
}

void mirror_file_find(const struct mirror_format *format, const struct host *host,
	const char *registry, char *urls, size_t size)
{
	char path[SETTING_PATH_MAX], full[PATH_MAX];
	_cleanup_free_ char *text = NULL;
	int r = format->locate(host, format->directory, registry, path, full);

	if (r == -ENOENT)
		r = format->locate(host, format->directory, REGISTRY_DEFAULT, path, full);
	if (r < 0 || read_file(full, FILE_MAX, &text, NULL) < 0)
		return;
	/* Other programs also write [host.'URL'], and indent it. */
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += strspn(line, " \t\r\n");
		if (!starts_with(line, "[host.\"") && !starts_with(line, "[host.'"))
			continue;
		line += strlen("[host.'");
		registry_list_add(urls, size, line, strcspn(line, "\"'\n"));
	}
}
