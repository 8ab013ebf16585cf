/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Registries and their mirrors. In order: names of registries and images; lists of URLs; the health
 * of mirrors; whether they have an image; the files by which a runtime knows them. Requests go to
 * mirrors only: the runtimes pull, with their own credentials. Files are read and made here, and
 * src/apply writes them.
 */

#include "runtime/registry.h"

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "config/config.h"
#include "runtime/http_client.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <regex.h>

#define DEADLINE_US (2 * USEC_PER_SEC) /* for all requests to mirrors */

/* ---- names ---- */

#define HOST_MAX 253 /* characters of a DNS name: RFC 1035, 2.3.4 */

/*
 * A name or IPv4 address, or an IPv6 address in brackets without a zone. Container names may have
 * underscores; a leading one is reserved for "_default".
 */
#define HOST "([A-Za-z0-9][A-Za-z0-9_-]*(\\.[A-Za-z0-9_-]+)*|\\[[0-9A-Fa-f:.]+])"

/* 1 to 65535. */
#define PORT                                                                             \
	"(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|" \
	"6553[0-5]))?"

/* Unreserved characters of RFC 3986 and a few more; no segment starts with a dot. */
#define PATH "(/([A-Za-z0-9_~+:-][A-Za-z0-9._~+:-]*)?)*"

static bool matches(const char *text, const char *pattern, regmatch_t groups[static 2])
{
	regex_t regex;
	int r = regcomp(&regex, pattern, REG_EXTENDED);

	if (r != 0)
		return false;
	r = regexec(&regex, text, 2, groups, 0);
	regfree(&regex);
	return r == 0;
}

/* The first group of the pattern is the host. */
static int check_text(const char *text, size_t size, const char *pattern)
{
	struct in6_addr address;
	char host[HOST_MAX + 1];
	regmatch_t groups[2];
	size_t len;

	if (strlen(text) >= size || !matches(text, pattern, groups))
		return -EINVAL;
	len = (size_t)(groups[1].rm_eo - groups[1].rm_so);
	if (len > HOST_MAX)
		return -EINVAL;
	memcpy(host, text + groups[1].rm_so, len);
	if (host[0] != '[')
		return 0;
	host[len - 1] = '\0';
	return inet_pton(AF_INET6, host + 1, &address) == 1 ? 0 : -EINVAL;
}

int registry_check_name(const char *name)
{
	return check_text(name, REGISTRY_NAME_MAX, "^" HOST PORT "$");
}

int registry_check_url(const char *url)
{
	return check_text(url, REGISTRY_URL_MAX, "^https?://" HOST PORT PATH "$");
}

const char *registry_canonical(const char *name, char canonical[static REGISTRY_NAME_MAX])
{
	static const char *const others[] = {"index.docker.io", "registry-1.docker.io"};

	(void)copy_text(canonical, REGISTRY_NAME_MAX, name);
	for (char *c = canonical; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (streq(canonical, others[i]))
			strcpy(canonical, "docker.io");
	return streq(canonical, name) ? NULL : canonical;
}

size_t registry_api_length(const char *url)
{
	const char *host = strstr(url, "://"), *path = host ? strchr(host + 3, '/') : NULL;
	const char *api = path ? strstr(path, "/v2/") : NULL;

	return api && api[strspn(api, "/v2")] ? (size_t)(api - url) + strlen("/v2") : 0;
}

bool registry_copy_url(char *dst, size_t size, const char *url)
{
	size_t len = strlen(url);

	while (len > 0 && url[len - 1] == '/')
		len--;
	if (len >= size)
		return false;
	memcpy(dst, url, len);
	dst[len] = '\0';
	return true;
}

#define DOMAIN    "([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]+])(:[0-9]+)?"
#define COMPONENT "[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*"
#define WHOLE_NAME \
	"^" DOMAIN "(/" COMPONENT ")+(:[A-Za-z0-9_][A-Za-z0-9_.-]*|@sha256:[0-9a-f]{64})$"
#define TAG_MAX 128

int image_normalize(const char *reference, char name[static IMAGE_NAME_MAX])
{
	char copy[IMAGE_NAME_MAX], whole[IMAGE_NAME_MAX], *rest = copy, *slash, *tag, *digest;
	const char *domain = "docker.io";
	regmatch_t groups[2];
	int n;

	if (!set_text(copy, reference))
		return -EINVAL;
	slash = strchr(copy, '/');
	n = slash ? (int)(slash - copy) : 0;
	if (strcspn(copy, ".:") < (size_t)n || (n == 9 && starts_with(copy, "localhost"))) {
		domain = copy;
		rest = slash + 1;
		*slash = '\0';
	}
	digest = strchr(rest, '@');
	if (digest)
		*digest++ = '\0';
	tag = strrchr(rest, ':');
	if (tag)
		*tag++ = '\0';
	if (streq(domain, "index.docker.io"))
		domain = "docker.io";
	/* A digest overrides the tag. */
	n = snprintf(whole, sizeof(whole), "%s/%s%s%c%s", domain,
		streq(domain, "docker.io") && !strchr(rest, '/') ? "library/" : "", rest,
		digest ? '@' : ':',
		digest ? digest
		: tag  ? tag
		       : "latest");
	/* 64 hexadecimal digits are an image ID. */
	if (n >= (int)sizeof(whole) || (tag && strlen(tag) > TAG_MAX) ||
		(strlen(reference) == 64 && strspn(reference, "0123456789abcdef") == 64) ||
		!matches(whole, WHOLE_NAME, groups))
		return -EINVAL;
	copy_text(name, IMAGE_NAME_MAX, whole);
	return 0;
}

/* ---- lists ---- */

size_t registry_read_mirrors(
	const struct config *config, struct runtime_mirror mirrors[static RUNTIME_MIRROR_MAX])
{
	size_t n = config_list(config, "runtime.mirrors");

	for (size_t i = 0; i < n; i++) {
		copy_text(mirrors[i].registry, REGISTRY_NAME_MAX,
			config_item(config, "runtime.mirrors", i, "registry"));
		(void)registry_copy_url(mirrors[i].url, REGISTRY_URL_MAX,
			config_item(config, "runtime.mirrors", i, "url"));
	}
	return n;
}

bool registry_list_has(const char *list, const char *url, size_t len)
{
	for (const char *at = list; *at; at += strspn(at, " ")) {
		size_t n = strcspn(at, " ");

		if (n == len && memcmp(at, url, len) == 0)
			return true;
		at += n;
	}
	return false;
}

void registry_list_add(char *list, size_t size, const char *url, size_t len)
{
	size_t used = strlen(list);

	while (len > 0 && url[len - 1] == '/')
		len--;
	if (len > 0 && used + len + 2 < size && !registry_list_has(list, url, len))
		snprintf(list + used, size - used, "%s%.*s", used > 0 ? " " : "", (int)len, url);
}

bool registry_list_read(const cJSON *json, char *list, size_t size)
{
	const cJSON *item;

	list[0] = '\0';
	cJSON_ArrayForEach (item, json) {
		const char *url = cJSON_IsString(item) ? item->valuestring : "";

		if (strlen(list) + strlen(url) + 2 >= size)
			return false;
		registry_list_add(list, size, url, strlen(url));
	}
	return true;
}

void registry_shorten_list(const char *list, char *out, size_t size)
{
	char sum[HASH_TEXT_MAX];

	if (copy_text(out, size, list))
		return;
	hash_bytes(list, strlen(list), sum);
	snprintf(out + size - 11, 11, " ~%.8s", sum);
}

bool registry_is_loopback(const char *url)
{
	const char *host = strchr(url, '/') + 2;
	size_t len = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
	char text[HOST_MAX + 1];
	struct in_addr address;

	snprintf(text, sizeof(text), "%.*s", (int)len, host);
	return strcasecmp(text, "localhost") == 0 || streq(text, "[::1]") ||
	       (inet_pton(AF_INET, text, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

bool registry_list_covers(const char *list, const char *address)
{
	int family = strchr(address, ':') ? AF_INET6 : AF_INET;
	uint8_t wanted[16] = {0}, network[16] = {0};
	char text[INET6_ADDRSTRLEN];
	unsigned bits = 0, same = 0;

	for (; *list && inet_pton(family, address, wanted) == 1; list += strspn(list, " ")) {
		if (sscanf(list, "%45[0-9a-fA-F:.]/%3u", text, &bits) == 2 &&
			inet_pton(family, text, network) == 1) {
			for (same = 0; same < MIN(bits, 128U); same++)
				if ((wanted[same / 8] ^ network[same / 8]) & 0x80 >> same % 8)
					break;
			if (same == bits)
				return true;
		}
		list += strcspn(list, " ");
	}
	return false;
}

/* ---- health of mirrors ---- */

#define CHECK_US   (10 * USEC_PER_SEC) /* between two checks */
#define DOUBT_US   (1 * USEC_PER_SEC)  /* until an unexpected answer is checked again */
#define AGREE      2                   /* answers in a row that change a state */
#define ANSWER_MAX 65536               /* bytes */

/* As Go's crypto/x509: Debian, Red Hat, SUSE, Alpine. */
static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/cert.pem",
};

static void find_ca(const char *host_root, char path[static PATH_MAX])
{
	path[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(bundles) && !path[0]; i++)
		if (path_in_root(host_root, bundles[i], path) < 0)
			path[0] = '\0';
}

/* As in containerd, a path that ends in /v2 is already the API's root. */
static const char *api_path(const char *url)
{
	size_t len = strlen(url);

	return len > 3 && streq(url + len - 3, "/v2") ? "" : "/v2";
}

static void update_state(struct mirror *mirror, bool healthy, uint64_t checked_us)
{
	enum mirror_state seen = healthy ? MIRROR_UP : MIRROR_DOWN;

	mirror->against = seen == mirror->state ? 0 : mirror->against + 1;
	if (mirror->against >= (mirror->state == MIRROR_UNKNOWN ? 1 : AGREE)) {
		mirror->state = seen;
		mirror->since_us = checked_us;
		mirror->against = 0;
	}
	mirror->due_us = checked_us + (mirror->against > 0 ? DOUBT_US : CHECK_US);
}

/* No registry answers with a page for people, such as that of a login. */
static bool is_page(const struct http_get *get)
{
	return get->status == 200 && get->body && get->body[strspn(get->body, " \t\r\n")] == '<';
}

void mirrors_check(struct mirror *mirrors, size_t n, const char *host_root, const struct wait *wait)
{
	_cleanup_free_ struct http_get *gets = must(calloc(n + 1, sizeof(*gets)));
	_cleanup_free_ char(*urls)[REGISTRY_URL_MAX + 8] = must(calloc(n + 1, sizeof(*urls)));
	struct wait bounded = wait_at_most(wait, DEADLINE_US);
	uint64_t now = now_us();
	char ca_file[PATH_MAX];
	size_t due = 0, length;

	find_ca(host_root, ca_file);
	for (size_t i = 0; i < n; i++) {
		struct mirror *mirror = &mirrors[i];

		if (mirror->due_us > now)
			continue;
		if (starts_with(mirror->url, "https:") && !ca_file[0]) {
			copy_text(mirror->why, MIRROR_WHY_MAX,
				"no CA certificates found on this node");
			update_state(mirror, false, now);
			continue;
		}
		length = registry_api_length(mirror->url);
		snprintf(urls[due], sizeof(urls[due]), "%.*s%s/",
			length > 0 ? (int)length : REGISTRY_URL_MAX, mirror->url,
			length > 0 ? "" : api_path(mirror->url));
		gets[due] = (struct http_get){.url = urls[due],
			.ca_files = ca_file,
			.follows = true,
			.limit = ANSWER_MAX,
			.userdata = mirror};
		due++;
	}
	if (due > 0)
		http_get_all(gets, due, &bounded);
	for (size_t i = 0; i < due; i++) {
		const struct http_get *get = &gets[i];
		bool page = is_page(get);
		bool healthy =
			get->error == 0 && !page && (get->status == 200 || get->status == 401);
		struct mirror *mirror = get->userdata;

		free(get->body);
		if (get->error == -ECANCELED)
			continue;
		mirror->took_us = get->took_us;
		copy_text(mirror->why, MIRROR_WHY_MAX, get->why);
		if (get->error == -EKEYREJECTED)
			copy_text(mirror->why, MIRROR_WHY_MAX,
				"this node does not trust its certificate");
		else if (get->error == -ETIMEDOUT)
			copy_text(mirror->why, MIRROR_WHY_MAX, "no answer within 2 s");
		else if (get->error == 0 && page)
			copy_text(mirror->why, MIRROR_WHY_MAX, "GET /v2/ answers with a web page");
		else if (get->error == 0 && !healthy)
			snprintf(mirror->why, MIRROR_WHY_MAX, "GET /v2/ answers %ld", get->status);
		update_state(mirror, healthy, now_us());
	}
}

/* ---- questions ---- */

#define STEPS_MAX 4 /* index, index within it, manifest, layer */

/* Bytes of all documents that are under way, and of each at least. */
#define TEXTS_MAX    ((size_t)512 * 1024)
#define DOCUMENT_MAX ((size_t)32 * 1024)
#define MEMORY_MAX   ((size_t)1 << 20) /* for a parsed one */

#define ACCEPT                                                        \
	"Accept: application/vnd.oci.image.index.v1+json, "           \
	"application/vnd.oci.image.manifest.v1+json, "                \
	"application/vnd.docker.distribution.manifest.list.v2+json, " \
	"application/vnd.docker.distribution.manifest.v2+json, */*"

/* A question that is being asked. */
struct mirror_request {
	struct mirror_question *question;
	bool insecure, repeated;
	unsigned steps;
	size_t client; /* where in mirror.clients the certificate is */
	char path[IMAGE_NAME_MAX + DIGEST_MAX];
	char url[1024];
	char headers[2 * sizeof(((struct mirror_access *)0)->headers)];
	char cert[MIRROR_PATH_MAX], key[MIRROR_PATH_MAX];
};

/* Splits REGISTRY/REPOSITORY[:TAG][@DIGEST]. A digest counts more than a tag. */
static void set_path(struct mirror_request *request)
{
	const char *image = request->question->image, *digest = strchr(image, '@');
	const char *slash = strrchr(image, '/'), *tag = strchr(slash ? slash : image, ':');

	snprintf(request->path, sizeof(request->path), "manifests/%s",
		digest ? digest + 1
		: tag  ? tag + 1
		       : "latest");
}

static void write_url(struct mirror_request *request)
{
	const struct mirror_question *question = request->question;
	const char *repository = strchr(question->image, '/');
	size_t name = repository ? strcspn(repository, "@") : 0;

	/* The tag, but not a port: it is after the last slash. */
	for (size_t i = name; i > 0 && repository[i] != '/'; i--)
		if (repository[i] == ':')
			name = i;
	snprintf(request->url, sizeof(request->url), "%s%s%.*s/%s%s%.*s", question->mirror.url,
		question->mirror.is_root ? "" : api_path(question->mirror.url), (int)name,
		repository ? repository : "", request->path, question->names_registry ? "?ns=" : "",
		question->names_registry ? (int)strcspn(question->image, "/") : 0, question->image);
}

/* Sets the path to the manifest for this machine of an index, or to a manifest's largest layer. */
static bool set_next_path(struct mirror_request *request, const char *text, size_t len)
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
	snprintf(request->path, sizeof(request->path), "%s/%s", children ? "manifests" : "blobs",
		digest);
	return true;
}

static bool is_last(const struct mirror_request *request)
{
	return !strchr(request->question->image, '@') || starts_with(request->path, "blobs/");
}

/* Returns whether it is a page of something else, and no answer of a registry. */
static bool is_foreign(const struct mirror_request *request, const struct http_get *get)
{
	char digest[DIGEST_MAX];

	archive_digest(get->body ? get->body : "", get->len, digest);
	return starts_with(get->type, "text/") ||
	       (!is_last(request) && !streq(request->path + strlen("manifests/"), digest));
}

/* Selects the next certificate of the client, as its first may be for another server. */
static bool select_next_client(struct mirror_request *request)
{
	const char *clients = request->question->mirror.clients, *at = clients + request->client;

	for (int lines = 0; lines < 2 && *at; lines++)
		at += strcspn(at, "\n") + 1;
	request->client = (size_t)(at - clients);
	return *at;
}

static void prepare_get(
	struct mirror_request *request, const char *ca_file, size_t limit, struct http_get *get)
{
	const struct mirror_access *mirror = &request->question->mirror;

	write_url(request);
	snprintf(request->headers, sizeof(request->headers), ACCEPT "\n%s", mirror->headers);
	(void)sscanf(mirror->clients + request->client, "%511[^\n]\n%511[^\n]", request->cert,
		request->key);
	*get = (struct http_get){.url = request->url,
		.ca_files = mirror->cas[0] ? mirror->cas
			    : ca_file[0]   ? ca_file
					   : NULL,
		.cert_file = mirror->clients[0] ? request->cert : NULL,
		.key_file = request->key,
		.insecure = mirror->insecure || request->insecure,
		.headers = request->headers,
		.limit = limit,
		.method = is_last(request) ? "HEAD" : NULL};
}

/* Returns whether the question is to be asked again. */
static bool take_answer(struct mirror_request *request, const struct http_get *get)
{
	struct mirror_question *question = request->question;
	const struct mirror_access *mirror = &question->mirror;
	bool refused = get->error < 0 && get->error != -ETIMEDOUT && get->error != -ECANCELED;
	bool answered = get->error == 0 && get->status == 200;
	bool foreign = answered && is_foreign(request, get);

	if (refused && !mirror->insecure && !request->insecure && mirror->networks &&
		registry_list_covers(mirror->networks, get->address))
		return request->insecure = true;
	if (refused && select_next_client(request))
		return true;
	if (answered && !foreign && !is_last(request) && ++request->steps < STEPS_MAX &&
		set_next_path(request, get->body, get->len))
		return true;
	/* Its search for a peer may have been too slow. */
	if (get->error == 0 && get->status == 404 && !request->repeated)
		return request->repeated = true;
	/* An image without layers cannot be judged by them. */
	question->answer = get->error < 0         ? get->error
			   : get->status == 404   ? 0
			   : answered && !foreign ? 1
						  : -EPROTO;
	if (get->error < 0)
		snprintf(question->why, sizeof(question->why), "%.90s: %.90s", mirror->url,
			get->error == -ETIMEDOUT ? "no answer within 2 s" : get->why);
	else if (foreign)
		snprintf(question->why, sizeof(question->why), "%.90s answers with %s", mirror->url,
			starts_with(get->type, "text/") ? get->type : "other content");
	else if (question->answer < 0)
		snprintf(question->why, sizeof(question->why), "%.90s answers %ld", mirror->url,
			get->status);
	return false;
}

void mirrors_ask(
	struct mirror_question *questions, size_t n, const char *host_root, const struct wait *wait)
{
	_cleanup_free_ struct http_get *gets = must(calloc(n + 1, sizeof(*gets)));
	_cleanup_free_ struct mirror_request *requests = must(calloc(n + 1, sizeof(*requests)));
	struct wait bounded = wait_at_most(wait, DEADLINE_US);
	char ca_file[PATH_MAX];
	size_t left = 0;

	find_ca(host_root, ca_file);
	for (size_t i = 0; i < n; i++) {
		const struct mirror_access *mirror = &questions[i].mirror;

		if (!mirror->unsupported && strlen(mirror->cas) + 1 < sizeof(mirror->cas) &&
			strlen(mirror->clients) + 1 < sizeof(mirror->clients)) {
			requests[left].question = &questions[i];
			set_path(&requests[left++]);
			continue;
		}
		questions[i].answer = -EOPNOTSUPP;
		snprintf(questions[i].why, sizeof(questions[i].why),
			"%.90s cannot be asked: it has too many certificates, CAs or headers",
			mirror->url);
	}
	while (left > 0) {
		size_t more = 0;

		for (size_t i = 0; i < left; i++)
			prepare_get(&requests[i], ca_file, MAX(DOCUMENT_MAX, TEXTS_MAX / left),
				&gets[i]);
		http_get_all(gets, left, &bounded);
		for (size_t i = 0; i < left; i++) {
			if (take_answer(&requests[i], &gets[i]))
				requests[more++] = requests[i];
			free(gets[i].body);
		}
		left = more;
	}
}

/* ---- files ---- */

#define MIRROR_FILE_MAX 65536 /* bytes; no mirror file is larger */
#define URLS_MAX        32

/* The rest of the line may change in later versions: it is not part of the mark. */
#define MARK      "# Written by headroom."
#define MARK_REST " It replaces and removes this file, unless this line is gone.\n"

char *mirror_file_make(const struct mirror_format *format, const char *version,
	const char *registry, const char *const *urls, size_t n)
{
	const char *ordered[URLS_MAX];
	_cleanup_free_ char *text = NULL;
	size_t size = 0, n_ordered = 0;
	FILE *out = must(open_memstream(&text, &size));
	bool written;

	for (int same_node = 1; same_node >= 0; same_node--)
		for (size_t i = 0; i < n && n_ordered < URLS_MAX; i++) {
			size_t k = 0;

			/* A table that is defined twice makes the file invalid. */
			while (k < i && !streq(urls[k], urls[i]))
				k++;
			if (k == i && registry_is_loopback(urls[i]) == (bool)same_node)
				ordered[n_ordered++] = urls[i];
		}
	fputs(MARK MARK_REST, out);
	written = format->write(out, version, registry, ordered, n_ordered);
	fclose(out);
	must(text);
	return written ? steal(text) : NULL;
}

void mirror_file_list(
	const struct mirror_format *format, const char *text, char list[static SETTING_VALUE_MAX])
{
	char all[URLS_MAX * REGISTRY_URL_MAX] = "";

	while ((text = strstr(text, format->url_mark))) {
		text += strlen(format->url_mark);
		registry_list_add(all, sizeof(all), text, strcspn(text, "\"\n"));
	}
	registry_shorten_list(all[0] ? all : "none", list, SETTING_VALUE_MAX);
}

void mirror_file_read(const struct mirror_format *format, const struct host *host,
	const char *directory, struct mirror_file *file)
{
	_cleanup_free_ char *text = NULL;
	char full[PATH_MAX];
	size_t len = 0;
	int r = streq(file->registry, REGISTRY_DEFAULT) ? 0 : registry_check_name(file->registry);

	if (r == 0)
		r = format->locate(host, directory, file->registry, file->path, full, file->why);
	file->is_taken = r == -EEXIST;
	if (file->is_taken) {
		set_text(file->taken_by, file->why[0] ? file->why : file->path);
		file->why[0] = '\0';
	}
	if (file->is_taken && path_in_root(host->root, file->path, full) == 0)
		r = 0;
	if (r == 0)
		r = read_file(full, MIRROR_FILE_MAX, &text, &len);
	file->exists = r != -ENOENT && r != -ENAMETOOLONG && r != -EINVAL;
	file->error = r == -ENOENT || r == -EEXIST ? 0 : r;
	/* Such a file may be replaced and removed. */
	file->ours = r == 0 && starts_with(text, MARK) && strchr(" \r\n", text[strlen(MARK)]);
	if (!file->ours)
		return;
	hash_bytes(text, len, file->sum);
	mirror_file_list(format, text, file->mirrors);
}
