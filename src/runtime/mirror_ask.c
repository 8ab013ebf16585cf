/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/mirror_ask.h"

#include "base/json.h"
#include "base/text.h"
#include "runtime/http_client.h"

#define DEADLINE_US (2 * USEC_PER_SEC)
#define STEPS_MAX   4 /* index, index within it, manifest, layer */

/* Bytes of all documents that are under way, and of each at least. */
#define TEXTS_MAX    ((size_t)512 * 1024)
#define DOCUMENT_MAX ((size_t)32 * 1024)
#define MEMORY_MAX   ((size_t)1 << 20) /* of a parsed one */

#define ACCEPT                                                        \
	"Accept: application/vnd.oci.image.index.v1+json, "           \
	"application/vnd.oci.image.manifest.v1+json, "                \
	"application/vnd.docker.distribution.manifest.list.v2+json, " \
	"application/vnd.docker.distribution.manifest.v2+json, */*"

struct request {
	char url[1024];
	char headers[2 * sizeof(((struct mirror_access *)0)->headers)];
	char cert[MIRROR_PATH_MAX], key[MIRROR_PATH_MAX];
};

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
	size_t len = strlen(question->mirror.url), name = repository ? strcspn(repository, "@") : 0;
	/* As in containerd, a path that ends in /v2 is already the API's root. */
	bool is_root = question->mirror.is_root ||
		       (len > 3 && streq(question->mirror.url + len - 3, "/v2"));

	/* The tag, but not a port: it is after the last slash. */
	for (size_t i = name; i > 0 && repository[i] != '/'; i--)
		if (repository[i] == ':')
			name = i;
	snprintf(url, size, "%s%s%.*s/%s%s%.*s", question->mirror.url, is_root ? "" : "/v2",
		(int)name, repository ? repository : "", question->path,
		question->names_registry ? "?ns=" : "",
		question->names_registry ? (int)strcspn(question->image, "/") : 0, question->image);
}

/* Sets the path to the manifest for this machine of an index, or to a manifest's largest layer. */
static bool set_next_path(struct mirror_question *question, const char *text, size_t len)
{
	_cleanup_(json_compact_clear) struct json_compact compact = {0};
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	const cJSON *children, *item;
	const char *digest = "";
	double largest = -1;

	json_compact_add(&compact, text, len, DIGEST_MAX);
	if (compact.memory < MEMORY_MAX)
		document = cJSON_Parse(compact.text);
	children = json_at(document, "manifests");
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

/* Not a registry's answer, but a page of something else. */
static bool is_foreign(const struct mirror_question *question, const struct http_get *get)
{
	char digest[DIGEST_MAX];

	archive_digest(get->body ? get->body : "", get->len, digest);
	return starts_with(get->type, "text/") ||
	       (!is_last(question) && !streq(question->path + strlen("manifests/"), digest));
}

/* The next certificate of the client, as its first may be for another server. */
static bool select_next_client(struct mirror_question *question)
{
	const char *clients = question->mirror.clients, *at = clients + question->client;

	for (int lines = 0; lines < 2 && *at; lines++)
		at += strcspn(at, "\n") + 1;
	question->client = (size_t)(at - clients);
	return *at;
}

/* Whether the question is to be asked again. */
static bool judge(struct mirror_question *question, const struct http_get *get)
{
	bool refused = get->error < 0 && get->error != -ETIMEDOUT && get->error != -ECANCELED;
	bool foreign;

	if (refused && !question->mirror.insecure && question->mirror.networks &&
		registry_list_covers(question->mirror.networks, get->address))
		return question->mirror.insecure = true;
	if (refused && select_next_client(question))
		return true;
	foreign = get->error == 0 && get->status == 200 && is_foreign(question, get);
	if (get->error == 0 && get->status == 200 && !foreign && !is_last(question) &&
		++question->steps < STEPS_MAX && set_next_path(question, get->body, get->len))
		return true;
	/* Its search for a peer may have been too slow. */
	if (get->error == 0 && get->status == 404 && !question->repeated)
		return question->repeated = true;
	/* An image without layers cannot be judged by them. */
	question->answer = get->error < 0                   ? get->error
			   : get->status == 404             ? 0
			   : get->status == 200 && !foreign ? 1
							    : -EPROTO;
	if (get->error < 0)
		snprintf(question->why, sizeof(question->why), "%.90s: %.90s", question->mirror.url,
			get->error == -ETIMEDOUT ? "no answer within 2 s" : get->why);
	else if (foreign)
		snprintf(question->why, sizeof(question->why), "%.90s answers with %s",
			question->mirror.url,
			starts_with(get->type, "text/") ? get->type : "other content");
	else if (question->answer < 0)
		snprintf(question->why, sizeof(question->why), "%.90s answers %ld",
			question->mirror.url, get->status);
	return false;
}

void mirrors_ask(
	struct mirror_question *questions, size_t n, const char *host_root, const struct wait *wait)
{
	_cleanup_free_ struct http_get *gets = must(calloc(n + 1, sizeof(*gets)));
	_cleanup_free_ struct request *requests = must(calloc(n + 1, sizeof(*requests)));
	struct mirror_question **asked = must(calloc(n + 1, sizeof(struct mirror_question *)));
	struct wait bounded = wait_at_most(wait, DEADLINE_US);
	char ca_file[PATH_MAX];
	size_t left = 0;

	registry_find_ca(host_root, ca_file);
	for (size_t i = 0; i < n; i++) {
		const struct mirror_access *mirror = &questions[i].mirror;

		set_path(&questions[i]);
		asked[left++] = &questions[i];
		if (!mirror->unsupported && strlen(mirror->cas) + 1 < sizeof(mirror->cas) &&
			strlen(mirror->clients) + 1 < sizeof(mirror->clients))
			continue;
		left--;
		questions[i].answer = -EOPNOTSUPP;
		snprintf(questions[i].why, sizeof(questions[i].why),
			"%.90s cannot be asked: it has too many certificates, CAs or headers",
			mirror->url);
	}
	while (left > 0) {
		size_t more = 0;

		for (size_t i = 0; i < left; i++) {
			const struct mirror_access *mirror = &asked[i]->mirror;

			write_url(asked[i], requests[i].url, sizeof(requests[i].url));
			snprintf(requests[i].headers, sizeof(requests[i].headers), ACCEPT "\n%s",
				mirror->headers);
			(void)sscanf(mirror->clients + asked[i]->client, "%511[^\n]\n%511[^\n]",
				requests[i].cert, requests[i].key);
			gets[i] = (struct http_get){.url = requests[i].url,
				.ca_files = mirror->cas[0] ? mirror->cas
					    : ca_file[0]   ? ca_file
							   : NULL,
				.cert_file = mirror->clients[0] ? requests[i].cert : NULL,
				.key_file = requests[i].key,
				.insecure = mirror->insecure,
				.headers = requests[i].headers,
				.limit = MAX(DOCUMENT_MAX, TEXTS_MAX / left),
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
