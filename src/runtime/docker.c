/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of Docker. In this order: the process of dockerd; requests to its Engine API
 * (docs.docker.com/engine/api, from 1.41 (Docker 20.10) on, with paths without a version); what it
 * reports, and its images; daemon.json; the members of struct runtime_driver. Nothing here writes
 * files of the node, sends or reads credentials, or connects before a dockerd was found: with
 * socket activation a connection starts a stopped one.
 */
#include "base/file.h"
#include "base/json.h"
#include "runtime/driver.h"
#include "runtime/http_client.h"
#include "runtime/systemd.h"
#include "workload/process.h"

#include <glob.h>

#define VERSION_US  (5 * USEC_PER_SEC / 2) /* a daemon that needs longer for /version hangs */
#define ANSWER_US   (10 * USEC_PER_SEC)    /* for /info and lists of thousands of containers */
#define ANSWER_MAX  ((size_t)64 << 20)
#define OBJECT_MAX  262144 /* bytes of one object of a list or stream, without its long texts */
#define TEXT_MAX    131072 /* bytes: a longer text, such as a label, is left out */
#define NAMES_MAX   10000
#define REFUSAL_MAX 8192 /* bytes */

/* The tag of an archive's image whose name has a digest instead: see add_name(). */
#define DIGEST_TAG ":sha256-"

#define DOWNLOADS "max-concurrent-downloads"
#define MIRRORS   "registry-mirrors"
#define RELOADS   "{\"type\":[\"daemon\"],\"event\":[\"reload\"]}"
#define PULLS     "{\"type\":[\"image\"],\"event\":[\"pull\"]}"

#define COPY(member, object, path) utf8_copy(member, sizeof(member), json_text_at(object, path))
#define DEFAULT_DOWNLOADS          "3"
#define LAYER_FILE                 "GetImageBlob" /* the beginning of its name */
#define PULLED_MAX                 16             /* names of one round */
#define SLOW_EVERY_US              (15 * USEC_PER_SEC)

/* ---- the process ---- */

/* Excludes a dockerd in a container, as in a nested cluster. A pid file may be stale. */
static bool is_dockerd(const char *root, pid_t pid)
{
	return process_is_named(root, pid, "dockerd") && process_is_of_host(root, pid);
}

/* Connects to the socket only if a dockerd runs: a connection starts a stopped one. */
static bool listens(const char *root, pid_t pid, void *socket)
{
	return is_dockerd(root, pid) && process_of_socket(socket) == pid;
}

struct docker_process {
	pid_t pid; /* 0: it runs outside of our PID namespace, with an unknown command line */
	/* dockerd refuses a key that is both on its command line and in daemon.json. */
	bool downloads_on_command, mirrors_on_command;
	char downloads[24]; /* on the command line; "" without the option */
};

/*
 * Reads the command line. known: the process of an earlier call, if it still runs; or 0. -ESRCH
 * when dockerd does not run: it has neither a pid file nor a process on the host that listens, or
 * that systemd started.
 */
static int read_process(
	const struct host *host, const char *socket, pid_t known, struct docker_process *ret)
{
	struct docker_process process = {.pid = known};
	char path[PATH_MAX], value[PATH_MAX];
	bool has_file = access(host_path(host, DOCKER_PID_FILE, path), F_OK) == 0;
	int r;

	if (known == 0 && (!has_file || process_of_pid_file(path, &process.pid) < 0 ||
				  !is_dockerd("", process.pid)))
		process.pid = process_find("", listens, (char *)socket);
	/* With a socket unit systemd itself listens. */
	if (process.pid == 0)
		process.pid = systemd_main_pid(host, "docker.service");
	if (process.pid > 0 && !is_dockerd("", process.pid))
		process.pid = 0;
	if (!has_file && process.pid == 0)
		return -ESRCH;
	r = process_option("", process.pid, DOWNLOADS, false, value, sizeof(value));
	process.downloads_on_command = r > 0;
	if (r > 0)
		set_text(process.downloads, value);
	/* A process whose command line cannot be read counts as not visible. */
	if (r < 0)
		process.pid = 0;
	process.mirrors_on_command =
		process_option("", process.pid, "registry-mirror", false, value, sizeof(value)) > 0;
	*ret = process;
	return 0;
}

/* ---- requests ---- */

struct docker_request;

/* Reads one object of an answer. Returns 0, 1 to end the request, or -errno; -EBADMSG: invalid. */
typedef int object_fn(const cJSON *object, struct docker_request *request);

struct docker_request {
	object_fn *read;
	void *userdata; /* for read() */
	size_t n;       /* objects read */
	struct json_compact rest;
	char refusal[DOCKER_ERROR_MAX];
};

/* Parses the objects of a list or stream one by one, so that a long answer needs little memory. */
static int on_data(const char *text, size_t len, size_t *used, void *userdata)
{
	struct docker_request *request = userdata;
	struct json_compact *rest = &request->rest;
	int r = 0;

	json_compact_add(rest, text, *used = len, TEXT_MAX);
	while (r == 0) {
		_cleanup_(cleanup_cJSON_Delete) cJSON *object = NULL;

		r = json_compact_next(rest, &object);
		if (r <= 0)
			return r == 0 && rest->len > OBJECT_MAX ? -EFBIG : r;
		request->n++;
		json_make_printable(object);
		r = request->read(object, request);
	}
	return r;
}

/* Copies the text of {"message": "..."}, or of any other body. Hides secrets before cutting it. */
static void describe_refusal(const char *body, char why[static DOCKER_ERROR_MAX])
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = cJSON_Parse(body);
	const char *message = json_text_at(object, "message");
	_cleanup_free_ char *text = must(strndup(*message ? message : body, REFUSAL_MAX));

	hide_secrets(text);
	text_make_printable(text);
	utf8_copy(why, DOCKER_ERROR_MAX, text);
}

/* Calls read() for each object of the answer, which needs at least `least`. method NULL: GET. */
static int ask(const char *socket, const char *method, const char *path, uint64_t timeout_us,
	size_t least, object_fn *read, void *userdata, const struct wait *wait,
	char why[static DOCKER_ERROR_MAX])
{
	struct docker_request request = {.read = read, .userdata = userdata};
	char url[1024];
	struct http_get http = {.url = url,
		.unix_socket = socket,
		.limit = method ? 0 : ANSWER_MAX,
		.method = method,
		.data = on_data,
		.userdata = &request};
	struct wait bounded = wait_at_most(wait, timeout_us);
	const char *text = NULL;
	int r;

	snprintf(url, sizeof(url), "http://docker%s", path);
	http_get_all(&http, 1, &bounded);
	r = http.error;
	/* An answer that ended within an object, or too early. */
	if (r == 0 && http.status / 100 == 2 && http.ended == 0 &&
		(request.rest.len > 0 || request.n < least))
		r = -EBADMSG;
	if (request.refusal[0]) {
		text = request.refusal;
	} else if (r == -ETIMEDOUT) {
		text = "no answer in time";
	} else if (r == -EBADMSG) {
		text = "the answer is not from a Docker daemon";
	} else if (r < 0) {
		text = http.why;
	} else if (http.status / 100 != 2) {
		describe_refusal(http.body ? http.body : "", request.refusal);
		text = request.refusal;
		r = http.status == 404 ? -ENOENT : -EPROTO;
	}
	why[0] = '\0';
	if (text)
		snprintf(why, DOCKER_ERROR_MAX, "%.100s: %s %.*s: %.120s", socket,
			method ? method : "GET", (int)strcspn(path, "?"), path, text);
	free(request.rest.text);
	free(http.body);
	return r;
}

/* Sends GET /events with a filter, from since_us until now or for ever. */
static int ask_events(const char *socket, const char *filter, uint64_t since_us, bool for_ever,
	object_fn *read, void *userdata, const struct wait *wait, char why[static DOCKER_ERROR_MAX])
{
	char *escaped = must(curl_easy_escape(NULL, filter, 0)), path[512];
	uint64_t until_us = realtime_us();

	since_us = MAX(since_us, USEC_PER_SEC); /* Docker ignores 0 */
	snprintf(path, sizeof(path), "/events?filters=%s&since=%" PRIu64 ".%06" PRIu64, escaped,
		since_us / USEC_PER_SEC, since_us % USEC_PER_SEC);
	curl_free(escaped);
	if (!for_ever)
		text_append(path, sizeof(path), "&until=%" PRIu64 ".%06" PRIu64,
			until_us / USEC_PER_SEC, until_us % USEC_PER_SEC);
	return ask(socket, NULL, path, for_ever ? UINT64_MAX : VERSION_US, 0, read, userdata, wait,
		why);
}

static bool is_event(const cJSON *object, const char *type, const char *action)
{
	return streq(json_text_at(object, "Type"), type) &&
	       streq(json_text_at(object, "Action"), action);
}

/* ---- version, settings, reloads ---- */

static void join_mirrors(const cJSON *list, char words[static DOCKER_LIST_MAX])
{
	(void)registry_list_read(list, words, DOCKER_LIST_MAX);
	if (!words[0])
		copy_text(words, DOCKER_LIST_MAX, "none");
}

static int read_version(const cJSON *object, struct docker_request *request)
{
	struct docker_info *info = request->userdata;

	COPY(info->version, object, "Version");
	return info->version[0] && *json_text_at(object, "ApiVersion") ? 0 : -EBADMSG;
}

static int read_info(const cJSON *object, struct docker_request *request)
{
	struct docker_info *info = request->userdata;
	const cJSON *item;

	COPY(info->storage_driver, object, "Driver");
	COPY(info->root_dir, object, "DockerRootDir");
	join_mirrors(json_at(object, "RegistryConfig/Mirrors"), info->mirrors);
	join_mirrors(json_at(object, "RegistryConfig/InsecureRegistryCIDRs"), info->insecure);
	cJSON_ArrayForEach (item, json_at(object, "RegistryConfig/IndexConfigs"))
		if (cJSON_IsFalse(json_at(item, "Secure")))
			registry_list_add(info->insecure, DOCKER_LIST_MAX, item->string,
				strlen(item->string));
	return info->storage_driver[0] && info->root_dir[0] ? 0 : -EBADMSG;
}

/* A reload of daemon.json, and the value of key that it put in force. */
struct reload {
	const char *key;
	bool awaited; /* the first event ends the request; else the last one counts */
	bool seen;
	uint64_t at_us; /* CLOCK_REALTIME */
	char value[DOCKER_VALUE_MAX];
};

/* All attributes of a reload are strings, even numbers and lists. */
static int read_reload(const cJSON *object, struct docker_request *request)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = NULL;
	const cJSON *attributes = json_at(object, "Actor/Attributes");
	struct reload *reload = request->userdata;
	char mirrors[DOCKER_LIST_MAX];

	if (!is_event(object, "daemon", "reload"))
		return 0;
	reload->seen = true;
	reload->at_us = (uint64_t)MAX(json_number_at(object, "timeNano") / 1000, 0.0);
	COPY(reload->value, attributes, reload->key);
	if (streq(reload->key, MIRRORS)) {
		list = cJSON_Parse(json_text_at(attributes, MIRRORS));
		join_mirrors(list, mirrors);
		registry_shorten_list(mirrors, reload->value, DOCKER_VALUE_MAX);
	}
	return reload->awaited;
}

int docker_read_info(const char *socket, struct docker_info *ret, const struct wait *wait,
	char why[static DOCKER_ERROR_MAX])
{
	struct reload reload = {.key = DOWNLOADS};
	struct docker_info info = *ret;
	int r = ask(socket, NULL, "/version", VERSION_US, 1, read_version, &info, wait, why);

	/* The daemon keeps its last 256 events. */
	if (r == 0)
		r = ask_events(socket, RELOADS, 0, false, read_reload, &reload, wait, why);
	info.reloaded_us = reload.at_us;
	set_text(info.reloaded_downloads, reload.value);
	if (r == 0 && (!info.root_dir[0] || info.reloaded_us != ret->reloaded_us))
		r = ask(socket, NULL, "/info", ANSWER_US, 1, read_info, &info, wait, why);
	if (r == 0)
		*ret = info;
	return r;
}

/*
 * Waits for the `reload` event that dockerd sends after it has read daemon.json again; it sends
 * none for a file that it refuses. An event before this call is found too. A list is in force as
 * registry_shorten_list() shows it.
 */
static int wait_reload(const char *socket, uint64_t since_us, const char *key,
	char value[static DOCKER_VALUE_MAX], const struct wait *wait)
{
	struct reload reload = {.key = key, .awaited = true};
	char why[DOCKER_ERROR_MAX];
	int r = ask_events(socket, RELOADS, since_us, true, read_reload, &reload, wait, why);

	if (r == 0)
		memcpy(value, reload.value, sizeof(reload.value));
	return r == 0 && !reload.seen ? -ECONNRESET : r;
}

/* ---- lists ---- */

struct docker_list {
	void *items;
	size_t n, allocated;
};

/* The actor's ID is the whole reference; its name attribute lacks the tag. */
static int read_pull(const cJSON *object, struct docker_request *request)
{
	struct docker_list *pulled = request->userdata;
	char(*names)[DOCKER_NAME_MAX] = pulled->items;

	if (is_event(object, "image", "pull") && pulled->n < pulled->allocated)
		COPY(names[pulled->n++], object, "Actor/ID");
	return 0;
}

int docker_read_pulled(const char *socket, uint64_t since_us, char (*names)[DOCKER_NAME_MAX],
	size_t max, size_t *n, const struct wait *wait)
{
	struct docker_list pulled = {.items = names, .allocated = max};
	char why[DOCKER_ERROR_MAX];
	int r = ask_events(socket, PULLS, since_us, false, read_pull, &pulled, wait, why);

	if (r == 0)
		*n = pulled.n;
	return r;
}

/* Asks for a list of objects; the caller frees the items. */
static int ask_list(const char *socket, const char *path, object_fn *read, void *items, size_t *n,
	const struct wait *wait, char why[static DOCKER_ERROR_MAX])
{
	struct docker_list list = {0};
	int r = ask(socket, NULL, path, ANSWER_US, 0, read, &list, wait, why);

	if (r < 0) {
		free(list.items);
		return r;
	}
	*(void **)items = list.items;
	*n = list.n;
	return 0;
}

static int add_entry(struct docker_list *list, const struct workload *workload, const char *address)
{
	struct name_entry *entry;

	if (list->n == NAMES_MAX)
		return -E2BIG;
	entry = add_bytes(&list->items, &list->n, &list->allocated, sizeof(*entry));
	entry->workload = *workload;
	set_text(entry->address, address);
	return 0;
}

/* Adds an entry without an address, and one for each address that it has in a network. */
static int add_entries(
	struct docker_list *list, const cJSON *object, const struct workload *workload)
{
	static const char *const members[] = {"IPAddress", "GlobalIPv6Address"};
	int r = add_entry(list, workload, "");
	const cJSON *network;

	cJSON_ArrayForEach (network, json_at(object, "NetworkSettings/Networks"))
		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(members); i++)
			if (json_text_at(network, members[i])[0])
				r = add_entry(list, workload, json_text_at(network, members[i]));
	return r;
}

static int read_container(const cJSON *object, struct docker_request *request)
{
	const char *pod = json_text_at(object, "Labels/io.kubernetes.pod.name");
	const char *name = json_text_at(object, "Names/0"); /* with a slash before it */
	const char *uid = json_text_at(object, "Labels/io.kubernetes.pod.uid");
	struct workload workload = {.kind = *pod ? WORKLOAD_POD : WORKLOAD_CONTAINER};
	int r;

	COPY(workload.namespace, object, "Labels/io.kubernetes.pod.namespace");
	utf8_copy(workload.name, sizeof(workload.name), *pod ? pod : name + (*name == '/'));
	COPY(workload.id, object, "Id");
	if (!workload.id[0])
		return -EBADMSG;
	r = add_entries(request->userdata, object, &workload);
	if (r == 0 && uid[0]) {
		set_text(workload.id, uid);
		r = add_entry(request->userdata, &workload, "");
	}
	return r;
}

int docker_read_names(
	const char *socket, struct name_entry **names, size_t *n, const struct wait *wait)
{
	char why[DOCKER_ERROR_MAX];

	return ask_list(socket, "/containers/json", read_container, names, n, wait, why);
}

static int add_image(struct docker_list *list, const struct runtime_image *image)
{
	if (list->n == NAMES_MAX)
		return -E2BIG;
	*(struct runtime_image *)add_bytes(
		&list->items, &list->n, &list->allocated, sizeof(*image)) = *image;
	return 0;
}

static int read_image(const cJSON *object, struct docker_request *request)
{
	const cJSON *name;
	int r = 0;

	for (int digests = 0; digests < 2; digests++)
		cJSON_ArrayForEach (name, json_at(object, digests ? "RepoDigests" : "RepoTags")) {
			struct runtime_image image = {
				.size = (uint64_t)MAX(json_number_at(object, "Size"), 0.0)};
			char *tag;

			COPY(image.id, object, "Id");
			/* also skips "<none>:<none>" */
			if (image_normalize(json_text_at(name, ""), image.name) < 0)
				continue;
			r = add_image(request->userdata, &image);
			tag = strstr(image.name, DIGEST_TAG);
			if (r == 0 && tag && strlen(tag) == DIGEST_MAX) {
				memcpy(tag, "@sha256:", strlen(DIGEST_TAG));
				r = add_image(request->userdata, &image);
			}
			if (r < 0)
				return r;
		}
	return 0;
}

int docker_list_images(const struct image_runtime *runtime, const struct wait *wait,
	struct runtime_image **images, size_t *n, char why[static DOCKER_ERROR_MAX])
{
	return ask_list(runtime->socket, "/images/json", read_image, images, n, wait, why);
}

static int read_found(const cJSON *object, struct docker_request *request)
{
	struct runtime_image *image = request->userdata;

	COPY(image->id, object, "Id");
	image->size = (uint64_t)MAX(json_number_at(object, "Size"), 0.0);
	return image->id[0] ? 0 : -EBADMSG;
}

static int find_image(const struct image_runtime *runtime, const char *name,
	const struct wait *wait, struct runtime_image *ret, char why[static DOCKER_ERROR_MAX])
{
	struct runtime_image image = {0};
	char path[DOCKER_NAME_MAX + 64], tag[IMAGE_NAME_MAX];
	char *digest;
	int r;

	set_text(image.name, name);
	set_text(tag, name);
	digest = strstr(tag, "@sha256:");
	snprintf(path, sizeof(path), "/images/%s/json", name);
	r = ask(runtime->socket, NULL, path, ANSWER_US, 1, read_found, &image, wait, why);
	if (r == -ENOENT && digest) {
		memcpy(digest, DIGEST_TAG, strlen(DIGEST_TAG));
		snprintf(path, sizeof(path), "/images/%s/json", tag);
		r = ask(runtime->socket, NULL, path, ANSWER_US, 1, read_found, &image, wait, why);
	}
	if (r == 0)
		*ret = image;
	return r;
}

/* ---- changes ---- */

/* An answer with status 200 may still report an error. */
static int read_progress(const cJSON *object, struct docker_request *request)
{
	const char *error = json_text_at(object, "error");
	_Atomic uint64_t *progress = request->userdata;

	if (progress)
		atomic_fetch_add(progress, 1);
	if (!*error)
		return 0;
	describe_refusal(error, request->refusal);
	return -EPROTO;
}

/* Counts in progress (or NULL) what the daemon reports. */
static int post_pull(const char *socket, const char *name, const struct wait *wait,
	_Atomic uint64_t *progress, char why[static DOCKER_ERROR_MAX])
{
	char path[DOCKER_NAME_MAX + 64];

	/* References need no URL escapes. */
	snprintf(path, sizeof(path), "/images/create?fromImage=%s", name);
	return ask(socket, "POST", path, UINT64_MAX, 1, read_progress, progress, wait, why);
}

/*
 * Gives an image one more name. Only a pull from its registry makes a name with a digest:
 * NAME@sha256:HEX becomes NAME:sha256-HEX, and is listed as both.
 */
static int add_name(const char *socket, const char *image, const char *name,
	const struct wait *wait, char why[static DOCKER_ERROR_MAX])
{
	char path[2 * DOCKER_NAME_MAX];
	const char *digest = strchr(name, '@'), *tag = strrchr(name, ':');

	snprintf(path, sizeof(path), "/images/%s/tag?repo=%.*s&tag=%s%s", image,
		(int)((digest ? digest : tag) - name), name, digest ? "sha256-" : "", tag + 1);
	return ask(socket, "POST", path, ANSWER_US, 0, read_progress, NULL, wait, why);
}

static int remove_name(const char *socket, const char *name, const struct wait *wait,
	char why[static DOCKER_ERROR_MAX])
{
	char path[DOCKER_NAME_MAX + 64];

	snprintf(path, sizeof(path), "/images/%s", name);
	return ask(socket, "DELETE", path, ANSWER_US, 0, read_progress, NULL, wait, why);
}

/* ---- daemon.json ---- */

#define CONFIG_MAX      262144 /* bytes */
#define OUTPUT_MAX      65536
#define VALIDATES_SINCE 23 /* dockerd --validate */

/* Docker 20.10.27, cmd/dockerd: it refuses a file with any other key. */
static const char *const known_keys[] = {"add-runtime", "allow-nondistributable-artifacts",
	"api-cors-header", "authorization-plugin", "authorization-plugins", "bip", "bridge",
	"builder", "cgroup-parent", "cluster-advertise", "cluster-store", "cluster-store-opt",
	"cluster-store-opts", "config-file", "containerd", "containerd-namespace",
	"containerd-plugins-namespace", "cpu-rt-period", "cpu-rt-runtime", "cri-containerd",
	"data-root", "debug", "default-address-pool", "default-address-pools",
	"default-cgroupns-mode", "default-gateway", "default-gateway-v6", "default-ipc-mode",
	"default-runtime", "default-shm-size", "default-ulimit", "default-ulimits",
	"deprecated-key-path", "dns", "dns-opt", "dns-opts", "dns-search", "exec-opt", "exec-opts",
	"exec-root", "experimental", "features", "fixed-cidr", "fixed-cidr-v6", "graph", "group",
	"help", "host", "host-gateway-ip", "hosts", "icc", "init", "init-path",
	"insecure-registries", "insecure-registry", "ip", "ip-forward", "ip-masq", "ip6tables",
	"iptables", "ipv6", "label", "labels", "live-restore", "log-driver", "log-level", "log-opt",
	"log-opts", "max-concurrent-downloads", "max-concurrent-uploads", "max-download-attempts",
	"metrics-addr", "mtu", "network-control-plane-mtu", "network-diagnostic-port",
	"no-new-privileges", "node-generic-resource", "node-generic-resources", "oom-score-adjust",
	"pidfile", "raw-logs", "registry-mirror", "registry-mirrors", "restart", "rootless",
	"runtimes", "seccomp-profile", "selinux-enabled", "shutdown-timeout", "storage-driver",
	"storage-opt", "storage-opts", "swarm-default-advertise-addr", "tls", "tlscacert",
	"tlscert", "tlskey", "tlsverify", "userland-proxy", "userland-proxy-path", "userns-remap",
	"version"};

/* Keys whose value may be an object: flatOptions in daemon/config/config.go. */
static const char *const flat_keys[] = {
	"builder", "cluster-store-opts", "default-ulimits", "features", "log-opts", "runtimes"};

static bool is_in(const char *const *keys, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (streq(keys[i], key))
			return true;
	return false;
}

/* 20.10 treats the keys of any other object as top-level keys. */
static int check_keys(const struct daemon *daemon, const char *text, const cJSON *object,
	char why[static RUNTIME_WHY_MAX])
{
	struct json_member member = {0};

	for (const cJSON *item = object->child; item && json_next(text, &member);
		item = item->next) {
		bool nested = cJSON_IsObject(item) &&
			      !is_in(flat_keys, ARRAY_SIZE(flat_keys), item->string);
		const cJSON *key = nested ? item->child : item;
		struct text_position position = text_position(text, member.key);

		while (nested && key && is_in(known_keys, ARRAY_SIZE(known_keys), key->string))
			key = key->next;
		if (!key || is_in(known_keys, ARRAY_SIZE(known_keys), key->string))
			continue;
		snprintf(why, RUNTIME_WHY_MAX,
			"%s:%zu:%zu: dockerd %.32s does not know \"%.64s\" and refuses the whole "
			"file: remove it",
			daemon->config, position.line, position.column, daemon->version,
			key->string);
		return -EBADMSG;
	}
	return 0;
}

#define TYPE_BOOL (cJSON_True | cJSON_False)

/* Keys of every version, and the types that they and their items must have. */
static const struct {
	int type, items; /* items 0: any */
	bool only_20;
	long long least; /* of a number */
	const char *what, *keys;
} typed_keys[] = {
	{TYPE_BOOL, 0, false, 0, "true or false",
		" debug live-restore ipv6 iptables ip6tables ip-forward ip-masq icc userland-proxy "
		"selinux-enabled experimental init no-new-privileges raw-logs tls tlsverify "},
	{cJSON_Number, 0, false, 0, "a whole number from 0 on",
		" max-concurrent-downloads max-concurrent-uploads "},
	{cJSON_Number, 0, true, 1, "a whole number from 1 on", " max-download-attempts "},
	{cJSON_Number, 0, false, LLONG_MIN, "a whole number",
		" max-download-attempts mtu shutdown-timeout oom-score-adjust "
		"network-control-plane-mtu network-diagnostic-port "},
	{cJSON_String, 0, false, 0, "a string",
		" log-level log-driver storage-driver data-root exec-root bridge bip fixed-cidr "
		"pidfile group cgroup-parent default-runtime seccomp-profile userns-remap "
		"metrics-addr containerd default-gateway default-shm-size "},
	{cJSON_Array, cJSON_String, false, 0, "a list of strings",
		" hosts registry-mirrors insecure-registries dns dns-search dns-opts exec-opts "
		"storage-opts labels authorization-plugins "},
	{cJSON_Object, cJSON_String, false, 0, "an object of strings", " log-opts "},
	{cJSON_Object, TYPE_BOOL, false, 0, "an object with true and false", " features "},
	{cJSON_Object, cJSON_Object, false, 0, "an object of objects",
		" default-ulimits runtimes "},
	{cJSON_Object, 0, false, 0, "an object", " builder "},
};

/* Returns whether Go reads a number as an int: it has neither a fraction nor an exponent. */
static bool is_int(const char *literal, size_t n, long long least)
{
	char text[32], *end;
	long long number;

	snprintf(text, sizeof(text), "%.*s", (int)MIN(n, sizeof(text) - 1), literal);
	errno = 0;
	number = strtoll(text, &end, 10);
	return n < sizeof(text) && !*end && errno == 0 && number >= least;
}

static bool has_type(const cJSON *item, const char *literal, size_t n, size_t row)
{
	const cJSON *part = typed_keys[row].items ? item->child : NULL;

	while (part && (part->type & (typed_keys[row].items | cJSON_NULL)))
		part = part->next;
	return (item->type & typed_keys[row].type) && !part &&
	       (!cJSON_IsNumber(item) || is_int(literal, n, typed_keys[row].least));
}

/* For a dockerd that cannot say it, or not where: other values keep it from starting. */
static int check_types(const struct daemon *daemon, const char *text, const cJSON *object,
	char why[static RUNTIME_WHY_MAX])
{
	struct json_member member = {0};
	char word[80];

	for (const cJSON *item = object->child; item && json_next(text, &member);
		item = item->next) {
		struct text_position position = text_position(text, member.value);
		size_t i = 0;

		snprintf(word, sizeof(word), " %.70s ", item->string);
		while (i < ARRAY_SIZE(typed_keys) &&
			(!strstr(typed_keys[i].keys, word) ||
				(typed_keys[i].only_20 && atoi(daemon->version) != 20)))
			i++;
		if (i == ARRAY_SIZE(typed_keys) || cJSON_IsNull(item) ||
			has_type(item, text + member.value, member.value_end - member.value, i))
			continue;
		snprintf(why, RUNTIME_WHY_MAX,
			"%s:%zu:%zu: %.64s must be %s: dockerd %.32s refuses the whole file",
			daemon->config, position.line, position.column, item->string,
			typed_keys[i].what, daemon->version);
		return -EBADMSG;
	}
	return 0;
}

/* 20.10 ignores what follows the object, and refuses what later versions take. */
static int check_syntax(const struct daemon *daemon, const char *text, size_t len, cJSON **object,
	char why[static RUNTIME_WHY_MAX])
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *begin = NULL;
	_cleanup_free_ char *alone = NULL;
	bool is_20 = atoi(daemon->version) == 20;
	const char *end = text, *what = NULL;
	char fault[JSON_WHY_MAX];

	if (json_parse(text, len, object, fault) < 0) {
		snprintf(why, RUNTIME_WHY_MAX, "%.160s:%s: correct it", daemon->config, fault);
		cJSON_Delete(is_20 ? cJSON_ParseWithOpts(text, &end, 0) : NULL);
		alone = must(strndup(text, (size_t)(end - text)));
		return json_parse(alone, strlen(alone), &begin, fault) == 0 && begin ? -EEXIST
										     : -EBADMSG;
	}
	if (is_20 && (!*object || text_mark(text, len) > 0))
		what = *object ? "a byte order mark: remove it" : "an empty file: write {}";
	if (what)
		snprintf(why, RUNTIME_WHY_MAX, "%.160s:1:1: dockerd %.32s does not start with %s",
			daemon->config, daemon->version, what);
	return what ? -EBADMSG : 0;
}

/* The next start may run another version than this one: an upgrade replaces the file. */
static void read_next_version(
	const struct host *host, const struct wait *wait, struct daemon *daemon)
{
	const char *const arguments[] = {daemon->program, "--version", NULL};
	const struct child child = {
		.arguments = arguments, .root = host->root, .output_max = OUTPUT_MAX};
	_cleanup_free_ char *output = NULL;
	char version[64], why[CHILD_WHY_MAX];

	/* Docker version 20.10.24+dfsg1, build 5d6db84 */
	if (daemon->program[0] && child_ask(&child, wait, &output, why) == 0 &&
		sscanf(output, "Docker version %63[^,\n]", version) == 1)
		set_text(daemon->version, version);
}

int docker_config_check(const struct host *host, const struct daemon *running, const char *text,
	size_t len, const char *path, const struct wait *wait, char why[static RUNTIME_WHY_MAX])
{
	struct daemon next = *running, *daemon = &next;
	const char *const arguments[] = {
		daemon->program, "--validate", "--config-file", path, NULL};
	char skip[PATH_MAX + 16];
	struct child child = {
		.arguments = arguments, .root = host->root, .skip = skip, .output_max = OUTPUT_MAX};
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = NULL;
	char fault[CHILD_WHY_MAX], where[48] = "";
	struct text_position position;
	struct json_place named;
	bool validates;
	int r, major;

	read_next_version(host, wait, &next);
	r = check_syntax(daemon, text, len, &object, why);
	major = atoi(daemon->version);
	validates = major >= VALIDATES_SINCE && daemon->program[0];
	snprintf(skip, sizeof(skip), "with file %s: ", path);
	/* Such as UTF-16: it is not edited. */
	if (r == -EBADMSG && validates && child_ask(&child, wait, NULL, fault) == 0)
		return -EEXIST;
	if (r < 0 || !object)
		return r;
	r = validates ? child_ask(&child, wait, NULL, fault) : -EINVAL;
	if (r == -EINVAL && check_types(daemon, text, object, why) < 0)
		return -EBADMSG;
	if (!validates)
		return major == 20 ? check_keys(daemon, text, object, why) : 0;
	if (r == 0)
		return 0;
	/* "... don't match any configuration option: KEY" */
	named = json_find(
		text, object, fault + (strrchr(fault, ' ') ? strrchr(fault, ' ') - fault + 1 : 0));
	position = text_position(text, named.key.key);
	if (named.item)
		snprintf(where, sizeof(where), ":%zu:%zu", position.line, position.column);
	snprintf(why, RUNTIME_WHY_MAX, "%.100s%s: %.210s", daemon->config, where, fault);
	return r == -EINVAL ? -EBADMSG : r;
}

/* A key whose option has another name: NamedOption in dockerd's opts. */
static const struct {
	const char *key, *flag;
} plurals[] = {
	{"hosts", "host"},
	{"registry-mirrors", "registry-mirror"},
	{"insecure-registries", "insecure-registry"},
	{"labels", "label"},
	{"exec-opts", "exec-opt"},
	{"storage-opts", "storage-opt"},
	{"log-opts", "log-opt"},
	{"dns-opts", "dns-opt"},
	{"default-ulimits", "default-ulimit"},
	{"authorization-plugins", "authorization-plugin"},
	{"runtimes", "add-runtime"},
	{"node-generic-resources", "node-generic-resource"},
	{"default-address-pools", "default-address-pool"},
};

/* dockerd does not start with a key that an option sets too: findConfigurationConflicts(). */
static int check_flags(const struct daemon *daemon, const char *text, const char *flags,
	char why[static RUNTIME_WHY_MAX])
{
	struct json_member member = {0};

	while (json_next(text, &member)) {
		size_t n = member.key_end - member.key - 2, i = 0;
		struct text_position position = text_position(text, member.key);
		char key[64], word[80];

		snprintf(key, sizeof(key), "%.*s", (int)n, text + member.key + 1);
		while (i < ARRAY_SIZE(plurals) && !streq(key, plurals[i].key))
			i++;
		snprintf(word, sizeof(word), " %s ",
			i < ARRAY_SIZE(plurals) ? plurals[i].flag : key);
		if (!strstr(flags, word))
			continue;
		word[strlen(word) - 1] = '\0';
		snprintf(why, RUNTIME_WHY_MAX,
			"%.100s:%zu:%zu: \"%s\" is also an option of docker.service, --%s: dockerd "
			"does not start with both: remove one of them",
			daemon->config, position.line, position.column, key, word + 1);
		return -EBADMSG;
	}
	return 0;
}

/*
 * Finds the line of a fault and its writer. A member that has to go is a whole line, and not the
 * last one, if its line alone may be removed.
 */
static void describe_bad(
	const struct host *host, const char *text, const char *why, struct bad_file *bad)
{
	const char *line = text, *fault = text_after_path(why, bad->path);
	size_t n;

	bad->line = bad_file_line(fault);
	bad_file_find_writer(host, bad);
	for (unsigned i = 1; i < bad->line && line; i++)
		line = (line = strchr(line, '\n')) ? line + 1 : NULL;
	if (bad->line == 0 || !line || !strstr(fault, "remove"))
		return;
	line += strspn(line, " \t");
	n = strcspn(line, "\r\n");
	if (n < 3 || n >= BAD_REPAIR_MAX || line[0] != '"' || line[n - 1] != ',' ||
		strpbrk(line, "{[") < line + n)
		return;
	bad->removes = true;
	snprintf(bad->repair, BAD_REPAIR_MAX, "%.*s", (int)n, line);
}

/* Reads daemon.json, which may be missing. config is zeroed or the last result. */
static void read_config(const struct host *host, const struct daemon *daemon, const char *flags,
	const struct wait *wait, struct runtime_files *config)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = NULL;
	const cJSON *mirrors;
	struct json_place downloads;
	_cleanup_free_ char *text = NULL, *all = NULL;
	char full[PATH_MAX], hash[HASH_TEXT_MAX], fault[JSON_WHY_MAX];
	uint64_t replaced_us = 0;
	struct stat st = {0};
	size_t len = 0;
	int n, r = path_in_root(host->root, daemon->config, full);

	if (r == 0)
		r = read_file(full, CONFIG_MAX, &text, &len);
	if (r == -ENOENT && host_is_dangling(host, daemon->config))
		r = -ELOOP;
	if (r < 0) {
		*config = (struct runtime_files){.error = r == -ENOENT ? 0 : r};
		if (config->error < 0)
			snprintf(config->why, sizeof(config->why), "%s: %s", daemon->config,
				r == -ELOOP ? "a dangling link" : strerror(-r));
		set_text(config->bad.path, daemon->config);
		return;
	}
	if (stat(full, &st) == 0)
		config->changed_us = us_of(st.st_ctim);
	if (path_in_root(host->root, daemon->program, full) == 0 && stat(full, &st) == 0)
		replaced_us = us_of(st.st_ctim);
	n = asprintf(&all, "%s %" PRIu64 " %s %s%s\n%s", daemon->program, replaced_us,
		daemon->version, daemon->config, flags, text);
	must_do(n >= 0);
	hash_bytes(all, (size_t)n, hash);
	if (streq(hash, config->hash))
		return;
	*config = (struct runtime_files){.changed_us = config->changed_us};
	set_text(config->bad.path, daemon->config);
	config->error =
		docker_config_check(host, daemon, text, len, daemon->config, wait, config->why);
	if (config->error == 0)
		config->error = json_parse(text, len, &object, fault);
	if (config->error == 0 && object)
		config->error = check_flags(daemon, text, flags, config->why);
	config->is_unverified = config->error == 0 && atoi(daemon->version) >= VALIDATES_SINCE &&
				!daemon->program[0];
	if (config->error == -EBADMSG)
		describe_bad(host, text, config->why, &config->bad);
	downloads = json_find(text, object, DOWNLOADS);
	/* As it is written: a double does not have all numbers of 64 bits. */
	n = (int)(downloads.key.value_end - downloads.key.value);
	if (cJSON_IsNumber(downloads.item) && is_int(text + downloads.key.value, (size_t)n, 0))
		snprintf(config->keys[RUNTIME_DOWNLOADS].on_disk, SETTING_VALUE_MAX, "%.*s", n,
			text + downloads.key.value);
	mirrors = json_find(text, object, MIRRORS).item;
	config->has_mirrors = mirrors != NULL;
	if (!registry_list_read(mirrors, config->mirrors, sizeof(config->mirrors))) {
		snprintf(config->why, sizeof(config->why),
			"%.160s: registry-mirrors is too long: left alone", daemon->config);
		config->error = -E2BIG;
	}
	if (config->error == 0 || config->error == -EBADMSG)
		memcpy(config->hash, hash, sizeof(hash));
}

/* ---- the driver ---- */

static const struct runtime_location locations[] = {
	{.runtime = {.name = "docker",
		 .managed_by = RUNTIME_OF_NODE,
		 .socket = "/run/docker.sock",
		 .config = "/etc/docker/daemon.json",
		 .unit = "docker.service"}},
	{.runtime = {0}},
};

/* ---- read ---- */

/*
 * The Engine API does not report layers in flight. Until it is unpacked, each layer is a file below
 * the daemon's root that grows with its download (distribution/pull_v2.go). A complete one waits
 * while dockerd unpacks another, with a transaction in layer/filestore.go.
 */
static void read_layers(struct runtime_reading *reading)
{
	struct node_runtime *runtime = reading->runtime;
	_cleanup_free_ struct pull_piece *pieces = must(calloc(PULL_LAYERS_MAX, sizeof(*pieces)));
	char full[PATH_MAX], pattern[PATH_MAX + 64];
	glob_t found = {0};
	int r;
	struct stat st;
	size_t n = 0;
	bool unpacks;

	if (!runtime->store.directory[0] ||
		path_in_root(reading->host->root, runtime->store.directory, full) < 0)
		return;
	if (snprintf(runtime->watch, sizeof(runtime->watch), "%s/tmp", full) >=
		(int)sizeof(runtime->watch))
		runtime->watch[0] = '\0';
	runtime->watch_prefix = LAYER_FILE;
	snprintf(pattern, sizeof(pattern), "%s/image/*/layerdb/tmp/write-set-*", full);
	unpacks = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
	globfree(&found);
	snprintf(pattern, sizeof(pattern), "%s/tmp/" LAYER_FILE "*", full);
	r = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found);
	for (size_t i = 0; r == 0 && i < found.gl_pathc && n < PULL_LAYERS_MAX; i++) {
		if (lstat(found.gl_pathv[i], &st) < 0)
			continue;
		set_text(pieces[n].ref, strrchr(found.gl_pathv[i], '/') + 1);
		pieces[n].awaited = !unpacks;
		pieces[n++].offset = (uint64_t)st.st_size;
	}
	globfree(&found);
	if (r != 0 && r != GLOB_NOMATCH)
		return;
	/* dockerd deletes the file of a layer that it has unpacked. */
	for (size_t i = 0; i < reading->n_opened && n < PULL_LAYERS_MAX; i++) {
		struct runtime_opened *opened = &reading->opened[i];

		if (opened->fd < 0 || fstat(opened->fd, &st) < 0 || st.st_nlink > 0)
			continue;
		set_text(pieces[n].ref, opened->name);
		pieces[n].total = pieces[n].offset = (uint64_t)st.st_size;
		n++;
		close(opened->fd);
		opened->fd = -1;
	}
	runtime->pulls_at_us = now_us();
	pulls_update(&runtime->pulls, reading->pulled, pieces, n, runtime->pulls_at_us);
}

/* Reads completed pulls, and adds the registry that Docker omits: splitDockerDomain() of
 * distribution. */
static void read_ended(struct runtime_reading *reading)
{
	struct node_runtime *runtime = reading->runtime;
	char pulled[PULLED_MAX][DOCKER_NAME_MAX];
	uint64_t since_us = runtime->docker.events_us;
	size_t n = 0;

	runtime->docker.events_us = realtime_us();
	if (since_us > 0 && runtime->pulls.n_images > 0)
		(void)docker_read_pulled(
			reading->socket, since_us, pulled, PULLED_MAX, &n, reading->wait);
	for (size_t i = 0; i < n; i++) {
		size_t host = strcspn(pulled[i], "/");
		bool is_host =
			pulled[i][host] == '/' &&
			(strcspn(pulled[i], ".:") < host || starts_with(pulled[i], "localhost/"));
		char image[160];

		snprintf(image, sizeof(image), "%s%.140s", is_host ? "" : "docker.io/", pulled[i]);
		pulls_end(&runtime->pulls, image, now_us());
	}
}

/* Reads the names of the options with which dockerd will start. */
static void read_flags(const struct host *host, struct node_runtime *runtime)
{
	static const char letters[] = "HDlpGbg";
	static const char *const names[] = {
		"host", "debug", "log-level", "pidfile", "group", "bridge", "data-root"};
	char *flags = runtime->docker.flags;
	size_t len = 0, size = sizeof(runtime->docker.flags);
	_cleanup_free_ char *words = systemd_words(host, "docker.service", &len);

	strcpy(flags, " ");
	for (const char *word = words; word && word < words + len; word += strlen(word) + 1) {
		const char *letter = word[0] == '-' && word[1] ? strchr(letters, word[1]) : NULL;

		if (starts_with(word, "--") && word[2])
			text_append(flags, size, "%.*s ", (int)strcspn(word + 2, "="), word + 2);
		else if (letter)
			text_append(flags, size, "%s ", names[letter - letters]);
	}
}

static void read_docker(struct runtime_reading *reading)
{
	struct node_runtime *runtime = reading->runtime;
	struct docker_process process;
	struct docker_info *info = &runtime->docker.info;
	struct runtime_store *store = &runtime->store;
	struct runtime_names names = {0};
	bool known = process_is("", runtime->daemon.pid, runtime->daemon.start_us), is_in_unit;
	char why[DOCKER_ERROR_MAX];
	int r;

	runtime->watch[0] = '\0';
	if (reading->slow)
		read_flags(reading->host, runtime);
	is_in_unit = strstr(runtime->docker.flags, " " DOWNLOADS " ");
	runtime->on_command[RUNTIME_DOWNLOADS] = is_in_unit;
	/* With a socket unit, a connection would start a stopped dockerd. */
	if (read_process(reading->host, reading->socket, known ? runtime->daemon.pid : 0,
		    &process) < 0) {
		/* A dockerd that was never started is no concern, unless it could not start. */
		if (!runtime->found.has_socket && !runtime->answered_once && !is_in_unit)
			return;
		runtime->cannot_start =
			is_in_unit && runtime->files.keys[RUNTIME_DOWNLOADS].on_disk[0];
		runtime_note(runtime,
			runtime->cannot_start
				? "dockerd does not start with --max-concurrent-downloads and "
				  "the same key in daemon.json: remove one of them"
				: "dockerd does not run: no " DOCKER_PID_FILE);
		runtime->due_us = next_turn_us(now_us(), SLOW_EVERY_US);
		return;
	}
	runtime->cannot_start = false;
	if (runtime_set_process(runtime, reading->host, process.pid))
		*info = (struct docker_info){0};
	runtime->on_command[RUNTIME_DOWNLOADS] |= process.downloads_on_command;
	runtime->on_command[RUNTIME_MIRRORS] = process.mirrors_on_command;
	if (reading->slow || runtime->answer != RUNTIME_ANSWERS) {
		r = docker_read_info(reading->socket, info, reading->wait, why);
		reading->cancelled |= r == -ECANCELED;
		if (r < 0 && r != -ECANCELED)
			runtime_note(runtime, why);
		if (r < 0)
			return;
		runtime_note(runtime, NULL);
		set_text(runtime->daemon.version, info->version);
		set_text(store->driver, info->storage_driver);
		set_text(store->directory, info->root_dir);
	}
	copy_text(runtime->reported[RUNTIME_DOWNLOADS], SETTING_VALUE_MAX,
		info->reloaded_downloads[0] ? info->reloaded_downloads : process.downloads);
	registry_shorten_list(info->mirrors, runtime->in_force[RUNTIME_MIRRORS], SETTING_VALUE_MAX);
	read_layers(reading);
	read_ended(reading);
	if (reading->slow &&
		docker_read_names(reading->socket, &names.entries, &names.n, reading->wait) == 0)
		runtime_set_names(runtime, &names);
}

/*
 * Returns the latest time at which a missing file was removed: the last change of its directory,
 * unless this was the key file of Docker 20.10's first start. CLOCK_REALTIME; 0: unknown.
 */
static uint64_t removed_us(const struct host *host, const struct daemon *daemon)
{
	char directory[SETTING_PATH_MAX], path[PATH_MAX], key[PATH_MAX + 16];
	struct stat st, key_st;

	set_text(directory, daemon->config);
	*strrchr(directory, '/') = '\0';
	if (path_in_root(host->root, directory[0] ? directory : "/", path) < 0 ||
		stat(path, &st) < 0)
		return 0;
	snprintf(key, sizeof(key), "%s/key.json", path);
	return stat(key, &key_st) < 0 || us_of(st.st_mtim) > us_of(key_st.st_ctim)
		       ? us_of(st.st_mtim)
		       : 0;
}

static void read_files(
	struct node_runtime *runtime, const struct host *host, const struct wait *wait)
{
	const struct daemon *daemon = &runtime->daemon;
	struct runtime_files *files = &runtime->files;
	const char *reported = runtime->reported[RUNTIME_DOWNLOADS];
	char *downloads = runtime->in_force[RUNTIME_DOWNLOADS];

	read_config(host, daemon, runtime->docker.flags, wait, files);
	if (files->error < 0 && !reported[0])
		return;
	runtime_infer(runtime, RUNTIME_DOWNLOADS,
		files->changed_us > 0 ? files->changed_us : removed_us(host, daemon), reported,
		DEFAULT_DOWNLOADS);
	if (streq(downloads, "0"))
		copy_text(downloads, SETTING_VALUE_MAX, DEFAULT_DOWNLOADS);
}

static int find_process(
	const struct host *host, const char *socket, const struct wait *, pid_t *pid)
{
	struct docker_process process = {0};
	int r = read_process(host, socket, 0, &process);

	if (r == 0 && process.pid == 0)
		r = -ESRCH;
	if (r == 0)
		*pid = process.pid;
	return r;
}

/* ---- images ---- */

static int read_images_info(struct image_runtime *runtime, const struct host *host,
	const struct wait *wait, struct image_info *ret, char why[static IMAGES_WHY_MAX])
{
	struct docker_process process = {0};
	struct docker_info info = {0};
	/* With a socket unit, a connection would start a stopped dockerd. */
	int r = read_process(host, runtime->socket, 0, &process);

	if (r == 0)
		r = docker_read_info(runtime->socket, &info, wait, why);
	runtime->knows_mirrors = set_text(runtime->mirrors, info.mirrors);
	(void)set_text(runtime->insecure, info.insecure);
	set_text(runtime->daemon.version, info.version);
	set_text(ret->store, info.root_dir);
	return r;
}

/* Finds CAs, certificates of the client and their keys, as in registry/registry.go. */
static void find_certificates(const struct host *host, struct mirror_access *mirror)
{
	const char *name = strstr(mirror->url, "//") + 2, *file, *end;
	char path[SETTING_PATH_MAX + 32], pattern[PATH_MAX + 8];
	glob_t found = {0};

	snprintf(path, sizeof(path), "/etc/docker/certs.d/%.*s", (int)strcspn(name, "/"), name);
	if (path_in_root(host->root, path, pattern) < 0)
		return;
	text_append(pattern, sizeof(pattern), "/*.c*rt");
	(void)glob(pattern, 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		file = found.gl_pathv[i];
		end = strrchr(file, '.');
		if (streq(end, ".crt")) {
			text_append(mirror->cas, sizeof(mirror->cas), "%s\n", file);
		} else if (streq(end, ".cert")) {
			text_append(mirror->clients, sizeof(mirror->clients), "%s\n%.*s.key\n",
				file, (int)(end - file), file);
		}
	}
	globfree(&found);
}

/* dockerd asks its list for docker.io only. */
static size_t find_mirrors(const struct image_runtime *runtime, const struct host *host,
	const char *registry, struct mirror_access *mirrors, size_t max)
{
	size_t n = 0;

	for (const char *at = streq(registry, "docker.io") ? runtime->mirrors : ""; *at && n < max;
		at += strspn(at, " ")) {
		struct mirror_access mirror = {0};
		const char *name;

		snprintf(mirror.url, sizeof(mirror.url), "%.*s", (int)strcspn(at, " "), at);
		at += strcspn(at, " ");
		if (registry_check_url(mirror.url) < 0)
			continue;
		name = strstr(mirror.url, "//") + 2;
		mirror.insecure = registry_list_has(runtime->insecure, name, strcspn(name, "/"));
		mirror.networks = runtime->insecure;
		find_certificates(host, &mirror);
		mirrors[n++] = mirror;
	}
	return n;
}

static int pull_image(const struct image_runtime *runtime, const char *name,
	const struct wait *wait, _Atomic uint64_t *progress, char why[static IMAGES_WHY_MAX])
{
	atomic_store(progress, 1);
	return post_pull(runtime->socket, name, wait, progress, why);
}

/* Removes our names. dockerd itself removes layers of incomplete pulls. */
static int remove_leftovers(const struct image_runtime *runtime, const struct wait *wait,
	char why[static IMAGES_WHY_MAX])
{
	_cleanup_free_ struct runtime_image *names = NULL;
	size_t n = 0;
	int r = docker_list_images(runtime, wait, &names, &n, why);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (images_is_ours(names[i].name))
			r = remove_name(runtime->socket, names[i].name, wait, why);
	return r;
}

/* Reads which image has a name now; id "": none. */
static int read_holder(const struct image_runtime *runtime, const char *name,
	const struct wait *wait, struct runtime_image *ret, char why[static IMAGES_WHY_MAX])
{
	int r;

	*ret = (struct runtime_image){0};
	r = find_image(runtime, name, wait, ret, why);
	return r == -ENOENT ? 0 : r;
}

static int load_image(const struct image_runtime *runtime, const struct host *,
	const struct archive_image *image, const char *reference, const struct wait *wait,
	const struct image_server *, char why[static IMAGES_WHY_MAX])
{
	/* Used after a cancellation, too. */
	const struct wait tidy = {now_us() + USEC_PER_SEC / 2, -1};
	char ignored[IMAGES_WHY_MAX];
	struct runtime_image before, now;
	int r = read_holder(runtime, image->name, wait, &before, why);

	if (r == 0)
		r = post_pull(runtime->socket, reference, wait, NULL, why);
	if (r == 0)
		r = read_holder(runtime, image->name, wait, &now, why);
	if (r == 0 && !streq(before.id, now.id))
		r = images_moved(image->name, why);
	if (r == 0)
		r = add_name(runtime->socket, reference, image->name, wait, why);
	(void)remove_leftovers(runtime, &tidy, ignored);
	return r;
}

/*
 * Up to 28, 0 was the default. From 29 on, with the image store of containerd, it means no bound:
 * pulls ignored the key at first (moby issue 46610), and honour it since moby pull request 53081.
 */
static const struct meaning downloads_meant[] = {{"0", NO_BOUND, 29}, {"0", 3}, {0}};

const struct runtime_driver docker_driver = {
	.name = "docker",
	.locations = locations,
	.options = {"config-file"},
	.read = read_docker,
	.read_files = read_files,
	.format = EDIT_JSON,
	.has_constant_keys = true,
	.keys =
		{
			[RUNTIME_DOWNLOADS] = {"max-concurrent-downloads", ACTIVATE_RELOAD,
				downloads_meant, 3},
			[RUNTIME_MIRRORS] = {"registry-mirrors", ACTIVATE_RELOAD},
		},
	.verify = docker_config_check,
	.program = "dockerd",
	.find_process = find_process,
	.await_reload = wait_reload,
	.copies_per_image = 1,
	.loads_manifests = true,
	.read_images_info = read_images_info,
	.find_mirrors = find_mirrors,
	.list = docker_list_images,
	.find = find_image,
	.pull = pull_image,
	.load = load_image,
	.clean = remove_leftovers,
};
