/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses that the CNI plugin host-local has given out: the size of a network from its
 * configuration, the files that hold its addresses, and which of them containers have left behind.
 */
#include "tuners/limits/limits.h"

#include "base/environment.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "workload/cgroup.h"

#include <arpa/inet.h>
#include <glob.h>

#define NETWORKS  "/var/lib/cni/networks"
#define CNI_FILES "/etc/cni/net.d"

/* ---- the size ---- */

/* Parses an IPv4 address to a number; false for IPv6, whose ranges never fill. */
static bool parse_address(const char *text, uint32_t *address)
{
	struct in_addr in;

	if (inet_pton(AF_INET, text, &in) != 1)
		return false;
	*address = ntohl(in.s_addr);
	return true;
}

/* Counts the addresses of a range without the network, the broadcast address and the gateway. */
static uint64_t count_range(const char *subnet, const cJSON *range)
{
	char text[INET_ADDRSTRLEN];
	const char *slash = strchr(subnet, '/');
	uint32_t base, first, last, gateway;
	int bits = slash ? atoi(slash + 1) : 0;

	snprintf(text, sizeof(text), "%.*s", (int)(slash ? slash - subnet : 0), subnet);
	if (!parse_address(text, &base) || bits < 8 || bits > 30)
		return 0;
	base &= ~UINT32_C(0) << (32 - bits);
	first = gateway = base + 1;
	last = base + (UINT32_C(1) << (32 - bits)) - 2;
	(void)parse_address(json_text_at(range, "rangeStart"), &first);
	(void)parse_address(json_text_at(range, "rangeEnd"), &last);
	(void)parse_address(json_text_at(range, "gateway"), &gateway);
	return last < first ? 0 : last - first + 1 - (gateway >= first && gateway <= last);
}

static uint64_t count_ranges(const cJSON *ipam)
{
	const cJSON *set, *range;
	uint64_t n = count_range(json_text_at(ipam, "subnet"), ipam);

	cJSON_ArrayForEach (set, json_at(ipam, "ranges"))
		cJSON_ArrayForEach (range, set)
			n += count_range(json_text_at(range, "subnet"), range);
	return n;
}

/* Flannel's range is not in the configuration: it hands it over with each container. */
static uint64_t size_of_flannel(const struct host *host)
{
	_cleanup_free_ char *text = NULL;
	char subnet[64];

	return host_read_file(host, "/run/flannel/subnet.env", 4096, &text) == 0 &&
			       environment_get(text, "FLANNEL_SUBNET", subnet, sizeof(subnet))
		       ? count_range(subnet, NULL)
		       : 0;
}

static uint64_t size_of_plugin(const struct host *host, const cJSON *plugin)
{
	if (streq(json_text_at(plugin, "type"), "flannel"))
		return size_of_flannel(host);
	return streq(json_text_at(plugin, "ipam/type"), "host-local")
		       ? count_ranges(json_at(plugin, "ipam"))
		       : 0;
}

/* Returns the size of a network in a configuration of CNI; 0 if it is not that network's. */
static uint64_t size_in_file(const struct host *host, const char *path, const char *network)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = NULL;
	const cJSON *plugin;
	uint64_t n;

	if (read_file(path, 256 * 1024, &text, NULL) == 0)
		root = cJSON_Parse(text);
	if (!root || !streq(json_text_at(root, "name"), network))
		return 0;
	n = size_of_plugin(host, root);
	cJSON_ArrayForEach (plugin, json_at(root, "plugins"))
		n += size_of_plugin(host, plugin);
	return n;
}

/* 0: unknown, as with the files that an earlier network has left. */
static uint64_t size_of_network(const struct host *host, const char *network)
{
	static const char *const directories[] = {
		CNI_FILES, ("/var/lib/rancher/k3s/agent" CNI_FILES), "/etc/cni/multus/net.d"};
	uint64_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(directories) && n == 0; i++) {
		char full[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
		_cleanup_(cleanup_closedir) DIR *directory =
			opendir(host_path(host, directories[i], full));
		const struct dirent *entry;

		while (n == 0 && directory && (entry = readdir(directory))) {
			snprintf(path, sizeof(path), "%s/%s", full, entry->d_name);
			n = size_in_file(host, path, network);
		}
	}
	return n;
}

/* ---- the files ---- */

#define ID_LEN 64 /* hexadecimal digits of the containers of CRI, Docker and Podman */

/* A container exists before its runtime lists it, and its address is free a little after it. */
#define LEAKED_AFTER_US (600 * USEC_PER_SEC)

#define OLD_MAX    4096 /* files of a network that are looked at */
#define LEAKED_MAX 256  /* files in a command */

/* A file of an address, which is its name, and the container that it contains. */
struct old_file {
	uint32_t address; /* the first member, for the order */
	char id[ID_LEN + 1];
};

static int by_address(const void *a, const void *b)
{
	const struct old_file *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

/*
 * Reads "ID\r\nINTERFACE". Returns false for a young file, and for the id of a program such as
 * nerdctl, which no runtime here lists. Podman and CRI-O have a directory for a container.
 */
static bool read_old(const struct host *host, const char *path, struct old_file *file)
{
	char pattern[128], full[PATH_MAX];
	_cleanup_free_ char *text = NULL;
	glob_t found = {0};
	struct stat st;
	bool is_stored;

	if (stat(path, &st) < 0 || us_of(st.st_mtim) + LEAKED_AFTER_US > realtime_us() ||
		read_file(path, 4096, &text, NULL) < 0 ||
		strspn(text, "0123456789abcdef") != ID_LEN)
		return false;
	copy_text(file->id, sizeof(file->id), text);
	snprintf(pattern, sizeof(pattern), "/var/lib/containers/storage/*-containers/%s", file->id);
	is_stored = glob(host_path(host, pattern, full), 0, NULL, &found) == 0;
	globfree(&found);
	return !is_stored;
}

/* Writes a line for each old file: "10.88.0.2 ID". */
static char *list_old(const struct host *host, const char *path)
{
	_cleanup_(cleanup_closedir) DIR *directory = opendir(path);
	_cleanup_free_ struct old_file *files = NULL;
	char file[PATH_MAX + 2 * NAME_MAX + 4], *text = NULL;
	size_t n = 0, allocated = 0, len = 0;
	const struct dirent *entry;
	struct old_file old;
	FILE *out;

	while (directory && n < OLD_MAX && (entry = readdir(directory))) {
		snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
		if (parse_address(entry->d_name, &old.address) && read_old(host, file, &old))
			*add_element(&files, &n, &allocated) = old;
	}
	if (n > 0)
		qsort(files, n, sizeof(*files), by_address);
	out = must(open_memstream(&text, &len));
	for (size_t i = 0; i < n; i++) {
		struct in_addr in = {htonl(files[i].address)};
		char address[INET_ADDRSTRLEN];

		inet_ntop(AF_INET, &in, address, sizeof(address));
		fprintf(out, "%s %s\n", address, files[i].id);
	}
	fclose(out);
	return must(text);
}

static uint64_t count_addresses(const char *path)
{
	_cleanup_(cleanup_closedir) DIR *directory = opendir(path);
	const struct dirent *entry;
	uint32_t address;
	uint64_t n = 0;

	while (directory && (entry = readdir(directory)))
		n += parse_address(entry->d_name, &address);
	return n;
}

int limits_sample_addresses(const struct limit_source *source, struct limit_reading *reading)
{
	char full[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
	_cleanup_(cleanup_closedir) DIR *networks =
		opendir(host_path(source->host, NETWORKS, full));
	const struct dirent *entry;
	int r = networks ? -ENOENT : -errno;

	while (networks && (entry = readdir(networks))) {
		struct limit_instance network = {.instance.kind = INSTANCE_FILE};
		struct limit_user user = {{WORKLOAD_HOST, .name = "host"}};

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", full, entry->d_name);
		user.used = network.used = count_addresses(path);
		if (network.used > 0)
			user.max = network.max = size_of_network(source->host, entry->d_name);
		if (network.max == 0)
			continue;
		set_text(user.detail, entry->d_name);
		limit_keep_user(reading, &user);
		limit_keep_fuller(reading, network.used, network.max);
		snprintf(network.instance.name, sizeof(network.instance.name), NETWORKS "/%.200s",
			entry->d_name);
		if (network.used * 5 > network.max * 4)
			network.cure = list_old(source->host, path);
		limit_instance_add(source->instances, &network);
		r = 0;
	}
	return r;
}

/* ---- what helps ---- */

/* Appends the files whose container no runtime has. Returns how many there are. */
static unsigned list_leaked(const struct names *names, const char *old, FILE *out)
{
	unsigned n = 0;

	for (; *old; old += strcspn(old, "\n") + 1) {
		struct workload workload = {.kind = WORKLOAD_CONTAINER};
		char address[INET_ADDRSTRLEN], id[ID_LEN + 1];

		if (sscanf(old, "%15s %64s", address, id) != 2)
			break;
		set_text(workload.id, id);
		if (!names_apply(names, &workload) && n++ < LEAKED_MAX)
			fprintf(out, " %s", address);
	}
	return n;
}

void limits_cure_addresses(struct finding *finding, const struct limit_row *,
	const struct limit_instance *instance, const struct decide_input *,
	const struct limits *limits)
{
	const char *directory = instance->instance.name;
	_cleanup_free_ char *files = NULL;
	char word[SHELL_WORD_MAX];
	unsigned n = 0;
	size_t len;
	FILE *out;

	if (!limits->facts->names_complete) {
		finding_hint(finding,
			"no runtime lists its containers to the agent, so leaked files in %s are not "
			"known: compare the ids in them with those of the "
			"runtime's sandboxes",
			directory);
		return;
	}
	out = must(open_memstream(&files, &len));
	if (instance->cure)
		n = list_leaked(&limits->facts->names, instance->cure, out);
	fclose(out);
	if (n > 0)
		finding_now(finding, "(cd %s && rm%s)", shell_word(word, directory), files);
	if (n > LEAKED_MAX)
		finding_hint(finding, "%u of %u leaked addresses: more follow", LEAKED_MAX, n);
	if (n == 0)
		finding_hint(finding,
			"no address is leaked: the network needs a larger range, or the node fewer "
			"pods (maxPods of the kubelet)");
}
