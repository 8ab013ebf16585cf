/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/daemon_json.h"

#include "base/child.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/util.h"
#include "runtime/json_scan.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define OUTPUT_MAX 65536

/* dockerd --validate came with 23.0: before that, one key that it does not know makes dockerd
 * refuse its whole file, and nothing but its log says so. */
#define VALIDATES_SINCE 23

DEFINE_CLEANUP(cJSON, cJSON_Delete)

/* Docker 20.10.27, cmd/dockerd: names of options, and of those whose lists have another one. */
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

/* Those whose value may be an object of its own: flatOptions in daemon/config/config.go. */
static const char *const flat_keys[] = {
	"builder", "cluster-store-opts", "default-ulimits", "features", "log-opts", "runtimes"};

static bool is_in(const char *const *keys, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (streq(keys[i], key))
			return true;
	return false;
}

/* The first key that 20.10 does not know, or NULL; it takes the keys in an object as if they were
 * outside. index is that of the topmost member. */
static const char *unknown_key(const cJSON *object, size_t *index)
{
	const cJSON *item, *inner, *children;

	*index = 0;
	cJSON_ArrayForEach (item, object) {
		bool nested = cJSON_IsObject(item) &&
			      !is_in(flat_keys, ARRAY_SIZE(flat_keys), item->string);

		if (!nested && !is_in(known_keys, ARRAY_SIZE(known_keys), item->string))
			return item->string;
		children = nested ? item : NULL;
		cJSON_ArrayForEach (inner, children)
			if (!is_in(known_keys, ARRAY_SIZE(known_keys), inner->string))
				return inner->string;
		(*index)++;
	}
	return NULL;
}

static int check_keys(const struct docker_daemon *daemon, const char *text, size_t len,
	const cJSON *object, char why[static DOCKER_WHY_MAX])
{
	struct json_scan scan = {.text = text, .len = len};
	struct json_member member = {0};
	struct text_position position;
	size_t index;
	const char *key = unknown_key(object, &index);

	if (!key)
		return 0;
	for (size_t i = 0; i <= index && json_next(&scan, &member) > 0; i++)
		;
	position = text_position(text, member.key);
	snprintf(why, DOCKER_WHY_MAX,
		"%s:%zu:%zu: dockerd %.32s does not know \"%.64s\" and refuses the whole file: "
		"remove it",
		daemon->config, position.line, position.column, daemon->version, key);
	return -EBADMSG;
}

static int validate(const struct docker_daemon *daemon, const char *path, const struct wait *wait,
	char why[static DOCKER_WHY_MAX])
{
	const char *const arguments[] = {daemon->binary, "--validate", "--config-file", path, NULL};
	struct child child = {
		.arguments = arguments, .root = daemon->host->root, .output_max = OUTPUT_MAX};
	char said[CHILD_WHY_MAX];
	int r = child_ask(&child, wait, NULL, said);

	if (r < 0)
		snprintf(why, DOCKER_WHY_MAX, "%.100s: %.210s", daemon->config, said);
	return r == -EINVAL ? -EBADMSG : r;
}

/* 0 with the object, NULL for a blank text; -EBADMSG with why. */
static int parse(const struct docker_daemon *daemon, const char *text, size_t len, cJSON **object,
	char why[static DOCKER_WHY_MAX])
{
	struct json_scan scan = {.text = text, .len = len};
	size_t mark = text_mark(text, len);
	struct json_member member;
	const char *end = NULL;
	int r;

	while ((r = json_next(&scan, &member)) > 0)
		;
	if (r == 0 && scan.close > 0) {
		*object = cJSON_ParseWithLengthOpts(text + mark, len - mark + 1, &end, 1);
		if (!*object) {
			struct text_position position =
				text_position(text, end ? (size_t)(end - text) : len);

			snprintf(scan.why, sizeof(scan.why), "%zu:%zu: no JSON", position.line,
				position.column);
			r = -EBADMSG;
		}
	}
	if (r < 0)
		snprintf(why, DOCKER_WHY_MAX, "%.160s:%s: mend it", daemon->config, scan.why);
	return r;
}

static int check(const struct docker_daemon *daemon, const char *text, size_t len,
	const cJSON *object, const char *path, const struct wait *wait,
	char why[static DOCKER_WHY_MAX])
{
	int major = atoi(daemon->version);

	if (!object)
		return 0;
	if (major >= VALIDATES_SINCE && daemon->binary[0])
		return validate(daemon, path, wait, why);
	return major == 20 ? check_keys(daemon, text, len, object, why) : 0;
}

int docker_config_check(const struct docker_daemon *daemon, const char *text, size_t len,
	const char *path, const struct wait *wait, char why[static DOCKER_WHY_MAX])
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = NULL;
	int r = parse(daemon, text, len, &object, why);

	return r < 0 ? r : check(daemon, text, len, object, path, wait, why);
}

/* Of doubles the last one, as dockerd takes it. */
static const cJSON *last_of(const cJSON *object, const char *key)
{
	const cJSON *item, *last = NULL;

	cJSON_ArrayForEach (item, object)
		if (streq(item->string, key))
			last = item;
	return last;
}

/* False when the list does not fit: what is cut off must not look like a list. */
static bool take_mirrors(const cJSON *list, struct docker_config *config)
{
	const cJSON *item;
	size_t used = 0;

	config->has_mirrors = list != NULL;
	cJSON_ArrayForEach (item, list) {
		if (!cJSON_IsString(item))
			continue;
		used += (size_t)snprintf(config->mirrors + used, sizeof(config->mirrors) - used,
			"%s%s", used > 0 ? " " : "", item->valuestring);
		if (used >= sizeof(config->mirrors))
			return false;
	}
	return true;
}

static int take_values(
	const struct docker_daemon *daemon, const cJSON *object, struct docker_config *config)
{
	const cJSON *downloads = last_of(object, "max-concurrent-downloads");

	if (cJSON_IsNumber(downloads) && downloads->valuedouble >= 0 &&
		downloads->valuedouble <= INT_MAX)
		snprintf(config->downloads, sizeof(config->downloads), "%d", downloads->valueint);
	if (take_mirrors(last_of(object, "registry-mirrors"), config))
		return 0;
	snprintf(config->why, sizeof(config->why),
		"%.160s: registry-mirrors: more than can be read: left alone", daemon->config);
	return -E2BIG;
}

void docker_config_read(
	const struct docker_daemon *daemon, const struct wait *wait, struct docker_config *config)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *object = NULL;
	_cleanup_free_ char *text = NULL, *all = NULL;
	char full[PATH_MAX], hash[HASH_TEXT_MAX];
	struct stat st;
	size_t len = 0;
	int n, r = path_in_root(daemon->host->root, daemon->config, full);

	if (r == 0)
		r = read_file(full, DOCKER_CONFIG_MAX, &text, &len);
	if (r == -ENOENT && host_is_dangling(daemon->host, daemon->config))
		r = -ELOOP;
	if (r < 0) {
		*config = (struct docker_config){.error = r == -ENOENT ? 0 : r};
		if (config->error < 0)
			snprintf(config->why, sizeof(config->why), "%s: %s", daemon->config,
				r == -ELOOP ? "a link that points nowhere" : strerror(-r));
		return;
	}
	n = asprintf(&all, "%s %s %s\n%s", daemon->binary, daemon->version, daemon->config, text);
	if (n < 0) {
		*config = (struct docker_config){.error = -ENOMEM};
		return;
	}
	hash_bytes(all, (size_t)n, hash);
	if (stat(full, &st) == 0)
		config->changed_us = (uint64_t)st.st_ctim.tv_sec * USEC_PER_SEC +
				     (uint64_t)st.st_ctim.tv_nsec / 1000;
	if (streq(hash, config->hash))
		return;
	*config = (struct docker_config){.changed_us = config->changed_us};
	config->error = parse(daemon, text, len, &object, config->why);
	if (config->error == 0)
		config->error = check(daemon, text, len, object, daemon->config, wait, config->why);
	if (config->error == 0)
		config->error = take_values(daemon, object, config);
	if (config->error == 0 || config->error == -EBADMSG)
		memcpy(config->hash, hash, sizeof(hash));
}

char *docker_config_list(const char *const *strings, size_t n)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = cJSON_CreateStringArray(strings, (int)n);

	return list ? cJSON_PrintUnformatted(list) : NULL;
}
