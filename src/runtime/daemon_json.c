/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/daemon_json.h"

#include "base/file.h"
#include "base/json.h"

/* ---- the members of an object ---- */

int json_parse(const char *text, size_t len, cJSON **object, char why[static JSON_WHY_MAX])
{
	size_t start = text_mark(text, len);
	const char *end = text, *key, *before;
	const char *zero = memchr(text, '\0', len), *what = NULL;
	struct text_position at;

	*object = NULL;
	start += strspn(text + start, " \t\r\n");
	if (start == len)
		return 0;
	if (zero) {
		end = zero;
		what = "a zero byte";
	} else if (text[start] != '{') {
		end = text + start;
		what = "expected { in UTF-8";
	} else {
		*object = cJSON_ParseWithLengthOpts(text, len + 1, &end, 1);
		if (*object)
			return 0;
		what = "invalid JSON";
		/* cJSON stops after the first byte of a key without quotes: point at it. */
		key = before = end - 1;
		while (before > text && strchr(" \t\r\n", before[-1]))
			before--;
		if (before > text && strchr("{,", before[-1]) && !strchr("\" \t\r\n", *key))
			end = key;
	}
	at = text_position(text, MIN((size_t)(end - text), len));
	snprintf(why, JSON_WHY_MAX, "%zu:%zu: %s", at.line, at.column, what);
	return -EBADMSG;
}

/* cJSON treats all control characters as blanks. */
static size_t skip_blanks(const char *text, size_t at)
{
	while (text[at] && (unsigned char)text[at] <= ' ')
		at++;
	return at;
}

static size_t skip_value(const char *text, size_t at)
{
	const char *end = text + at;

	cJSON_Delete(cJSON_ParseWithOpts(text + at, &end, 0));
	return (size_t)(end - text);
}

bool json_next(const char *text, struct json_member *member)
{
	size_t at = member->value_end > 0 ? member->value_end : strcspn(text, "{");

	at = skip_blanks(text, at);
	if (text[at])
		at = skip_blanks(text, at + 1); /* past the brace or the comma */
	if (text[at] != '"')
		return false;
	member->key = at;
	member->key_end = skip_value(text, at);
	at = skip_blanks(text, member->key_end);
	member->value = skip_blanks(text, at + (text[at] == ':'));
	member->value_end = skip_value(text, member->value);
	return true;
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

int docker_config_check(const struct host *host, const struct daemon *daemon, const char *text,
	size_t len, const char *path, const struct wait *wait, char why[static RUNTIME_WHY_MAX])
{
	const char *const arguments[] = {
		daemon->program, "--validate", "--config-file", path, NULL};
	struct child child = {.arguments = arguments, .root = host->root, .output_max = OUTPUT_MAX};
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = NULL;
	char fault[JSON_WHY_MAX], fault_text[CHILD_WHY_MAX];
	int r, major = atoi(daemon->version);

	if (json_parse(text, len, &object, fault) < 0) {
		snprintf(why, RUNTIME_WHY_MAX, "%.160s:%s: correct it", daemon->config, fault);
		return -EBADMSG;
	}
	if (!object || major < VALIDATES_SINCE || !daemon->program[0])
		return object && major == 20 ? check_keys(daemon, text, object, why) : 0;
	r = child_ask(&child, wait, NULL, fault_text);
	if (r < 0)
		snprintf(why, RUNTIME_WHY_MAX, "%.100s: %.210s", daemon->config, fault_text);
	return r == -EINVAL ? -EBADMSG : r;
}

/* dockerd uses the last of duplicate keys. */
static const cJSON *last_of(const cJSON *object, const char *key)
{
	const cJSON *item, *last = NULL;

	cJSON_ArrayForEach (item, object)
		if (streq(item->string, key))
			last = item;
	return last;
}

void docker_config_read(const struct host *host, const struct daemon *daemon,
	const struct wait *wait, struct runtime_files *config)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = NULL;
	const cJSON *downloads, *mirrors, *item;
	_cleanup_free_ char *text = NULL, *all = NULL;
	char full[PATH_MAX], hash[HASH_TEXT_MAX], fault[JSON_WHY_MAX];
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
		return;
	}
	if (stat(full, &st) == 0)
		config->changed_us = us_of(st.st_ctim);
	n = asprintf(&all, "%s %s %s\n%s", daemon->program, daemon->version, daemon->config, text);
	must_do(n >= 0);
	hash_bytes(all, (size_t)n, hash);
	if (streq(hash, config->hash))
		return;
	*config = (struct runtime_files){.changed_us = config->changed_us};
	config->error =
		docker_config_check(host, daemon, text, len, daemon->config, wait, config->why);
	if (config->error == 0)
		config->error = json_parse(text, len, &object, fault);
	downloads = last_of(object, "max-concurrent-downloads");
	if (cJSON_IsNumber(downloads) && downloads->valuedouble >= 0 &&
		downloads->valuedouble <= INT_MAX)
		snprintf(config->keys[RUNTIME_DOWNLOADS].on_disk, SETTING_VALUE_MAX, "%d",
			downloads->valueint);
	mirrors = last_of(object, "registry-mirrors");
	config->has_mirrors = mirrors != NULL;
	cJSON_ArrayForEach (item, mirrors) {
		const char *url = cJSON_IsString(item) ? item->valuestring : "";

		if (strlen(config->mirrors) + strlen(url) + 2 >= sizeof(config->mirrors)) {
			snprintf(config->why, sizeof(config->why),
				"%.160s: registry-mirrors is too long: left alone", daemon->config);
			config->error = -E2BIG;
			break;
		}
		registry_list_add(config->mirrors, sizeof(config->mirrors), url, strlen(url));
	}
	if (config->error == 0 || config->error == -EBADMSG)
		memcpy(config->hash, hash, sizeof(hash));
}
