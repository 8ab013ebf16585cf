/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kubelet.h"

#include "base/file.h"
#include "base/text.h"
#include "workload/process.h"

#include <arpa/inet.h>
#include <fts.h>
#include <yaml.h>

#define FILE_MAX    (256 * 1024) /* bytes; a full configuration has 2 to 3 KB */
#define FILES_MAX   64           /* and directories */
#define KIND        "KubeletConfiguration"
#define RESOLV_CONF "/etc/resolv.conf"
#define K3S_DROP_IN "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d"

#define MARK "# Written by headroom,"

const char kubelet_own_text[] = MARK " because its configuration says kubelet.manage: true.\n"
				     "# headroom restore removes this file.\n"
				     "apiVersion: kubelet.config.k8s.io/v1beta1\n"
				     "kind: KubeletConfiguration\n"
				     "serializeImagePulls: false\n";

/*
 * Files, and directories of drop-ins, of kubeadm, k3s, RKE2, EKS, GKE and AKS: for a kubelet
 * without a visible process.
 */
static const char *const known_files[] = {
	"/var/lib/kubelet/config.yaml",
	K3S_DROP_IN,
	"/var/lib/rancher/rke2/agent/etc/kubelet.conf.d",
	"/etc/kubernetes/kubelet/config.json",
	"/etc/kubernetes/kubelet/kubelet-config.json",
	"/home/kubernetes/kubelet-config.yaml",
	"/etc/default/kubeletconfig.json",
};

/* From KubeletConfiguration v1beta1 and cmd/kubelet/app/options. */
const struct kubelet_row kubelet_fields[KUBELET_FIELDS] = {
	[KUBELET_SERIALIZE_IMAGE_PULLS] = {"serializeImagePulls", "serialize-image-pulls", "true",
		KUBELET_BOOL},
	[KUBELET_MAX_PARALLEL_IMAGE_PULLS] = {"maxParallelImagePulls", NULL, "", KUBELET_NUMBER},
	[KUBELET_REGISTRY_PULL_QPS] = {"registryPullQPS", "registry-qps", "5", KUBELET_NUMBER},
	[KUBELET_REGISTRY_BURST] = {"registryBurst", "registry-burst", "10", KUBELET_NUMBER},
	[KUBELET_IMAGE_GC_HIGH] = {"imageGCHighThresholdPercent", "image-gc-high-threshold", "85",
		KUBELET_NUMBER},
	[KUBELET_IMAGE_GC_LOW] = {"imageGCLowThresholdPercent", "image-gc-low-threshold", "80",
		KUBELET_NUMBER},
	[KUBELET_IMAGE_MAXIMUM_GC_AGE] = {"imageMaximumGCAge", NULL, "0s", KUBELET_AGE},
	[KUBELET_FAIL_SWAP_ON] = {"failSwapOn", "fail-swap-on", "true", KUBELET_BOOL},
	[KUBELET_PULL_VERIFICATION] = {"imagePullCredentialsVerificationPolicy", NULL,
		"NeverVerifyPreloadedImages", KUBELET_WORD},
};

/* ---- values ---- */

/*
 * Parses a number of YAML 1.1 as the kubelet's decoder: 1_000, 0x10, 0o17, 0b1, 1e3 and 3.0 are
 * whole numbers. JSON has digits only.
 */
static bool parse_whole(const char *text, bool is_json, long long *number)
{
	char plain[64], *end;
	size_t n = 0, sign;
	double real;

	for (const char *c = text; *c && n < sizeof(plain) - 1; c++)
		if (*c != '_' || is_json)
			plain[n++] = *c;
	plain[n] = '\0';
	sign = plain[0] == '-' || plain[0] == '+';
	if (n == sign || !strchr("0123456789.", plain[sign]))
		return false;
	errno = 0;
	if (starts_with(plain + sign, "0b") || starts_with(plain + sign, "0o")) {
		*number = strtoll(plain + sign + 2, &end, plain[sign + 1] == 'b' ? 2 : 8);
		*number = plain[0] == '-' ? -*number : *number;
	} else {
		*number = strtoll(plain, &end, is_json ? 10 : 0);
	}
	if (!*end && end > plain)
		return errno == 0 && n < sizeof(plain) - 1;
	real = strtod(plain, &end);
	/* The range is first: a larger number has no whole number to compare with. */
	if (is_json || *end || strspn(plain, "+-.0123456789eE") != n || real < -1e15 ||
		real > 1e15 || real != (double)(long long)real)
		return false;
	*number = (long long)real;
	return true;
}

/* Parses a value of a file or flag. False when it is invalid for the field. */
static bool parse_value(struct kubelet_value *value, enum kubelet_field field, const char *text)
{
	/* Booleans of YAML 1.1, and of Go's flags. */
	static const char *const words[] = {
		"true", "false", "t", "f", "1", "0", "yes", "no", "on", "off"};
	uint64_t number;
	size_t i = 0;

	if (kubelet_fields[field].kind == KUBELET_BOOL) {
		while (i < ARRAY_SIZE(words) && strcasecmp(text, words[i]) != 0)
			i++;
		if (i == ARRAY_SIZE(words))
			return false;
		text = words[i % 2];
	} else if (kubelet_fields[field].kind == KUBELET_NUMBER &&
		   (parse_count(text, &number) < 0 || number > INT32_MAX)) {
		return false;
	}
	return text_is_printable(text) && set_text(value->text, text);
}

/* Ignores words that are not addresses, and all above the maximum. */
static void add_cluster_dns(struct kubelet_values *values, const char *address)
{
	uint8_t binary[16];

	if (values->n_cluster_dns < KUBELET_SERVERS_MAX &&
		(inet_pton(AF_INET, address, binary) == 1 ||
			inet_pton(AF_INET6, address, binary) == 1))
		copy_text(
			values->cluster_dns[values->n_cluster_dns++], KUBELET_ADDRESS_MAX, address);
}

/* A drop-in file, or flags, override values. */
static void merge_values(struct kubelet_values *values, const struct kubelet_values *over)
{
	if (over->unknown[0])
		set_text(values->unknown, over->unknown);
	for (int i = 0; i < KUBELET_FIELDS; i++)
		if (over->field[i].origin != KUBELET_UNSET)
			values->field[i] = over->field[i];
	if (over->resolv_conf.origin != KUBELET_UNSET)
		values->resolv_conf = over->resolv_conf;
	if (over->n_cluster_dns > 0) {
		memcpy(values->cluster_dns, over->cluster_dns, sizeof(values->cluster_dns));
		values->n_cluster_dns = over->n_cluster_dns;
	}
}

/*
 * From 1.32 on, a limit above 1 makes pulls parallel by default; older kubelets refuse it. k3s
 * starts its kubelet with --serialize-image-pulls=false and --fail-swap-on=false.
 */
static void fill_defaults(struct kubelet_values *values, bool embedded)
{
	const struct kubelet_value *most = &values->field[KUBELET_MAX_PARALLEL_IMAGE_PULLS];
	uint64_t number = 0;
	bool parallel = embedded || (most->origin >= KUBELET_FILE &&
					    parse_count(most->text, &number) == 0 && number >= 2);

	for (int i = 0; i < KUBELET_FIELDS; i++) {
		struct kubelet_value *value = &values->field[i];

		if (value->origin >= KUBELET_FILE)
			continue;
		*value = (struct kubelet_value){.origin = KUBELET_UNSET};
		set_text(value->text, (i == KUBELET_SERIALIZE_IMAGE_PULLS && parallel) ||
						      (i == KUBELET_FAIL_SWAP_ON && embedded)
					      ? "false"
					      : kubelet_fields[i].def);
	}
	if (values->resolv_conf.origin < KUBELET_FILE)
		set_text(values->resolv_conf.path, RESOLV_CONF);
}

/* ---- parser ---- */

/* Other keys of KubeletConfiguration v1beta1, whose values must have these types. */
static const struct {
	enum {
		TYPE_BOOL,
		TYPE_INTEGER,
		TYPE_LONG,
		TYPE_TEXT,
		TYPE_TIME,
		TYPE_MAP,
		TYPE_TEXTS, /* a map of them */
		TYPE_BOOLS,
		TYPE_LIST,
		TYPE_WORDS, /* a list of texts */
	} type;
	const char *what, *keys;
} types[] = {
	{TYPE_BOOL, "true or false",
		" enableServer enableDebuggingHandlers enableContentionProfiling "
		"rotateCertificates serverTLSBootstrap enableSystemLogHandler enableSystemLogQuery "
		"enableProfilingHandler enableDebugFlagsHandler cgroupsPerQOS cpuCFSQuota "
		"makeIPTablesUtilChains protectKernelDefaults localStorageCapacityIsolation "
		"registerNode seccompDefault failCgroupV1 enableControllerAttachDetach "
		"kernelMemcgNotification mergeDefaultEvictionSettings singleProcessOOMKill "},
	{TYPE_LONG, "a whole number", " podPidsLimit maxOpenFiles "},
	{TYPE_INTEGER, "a whole number below 2^31",
		" port readOnlyPort healthzPort eventRecordQPS eventBurst oomScoreAdj "
		"nodeStatusMaxImages maxPods kubeAPIQPS kubeAPIBurst "
		"evictionMaxPodGracePeriod podsPerCore containerLogMaxFiles containerLogMaxWorkers "
		"iptablesMasqueradeBit iptablesDropBit nodeLeaseDurationSeconds "},
	{TYPE_TEXT, "a text",
		" staticPodPath staticPodURL address healthzBindAddress tlsCertFile "
		"tlsPrivateKeyFile tlsMinVersion clusterDomain kubeletCgroups systemCgroups "
		"cgroupRoot cgroupDriver cpuManagerPolicy memoryManagerPolicy topologyManagerPolicy "
		"topologyManagerScope hairpinMode containerLogMaxSize volumePluginDir providerID "
		"systemReservedCgroup kubeReservedCgroup podCIDR podLogsDir containerRuntimeEndpoint "
		"imageServiceEndpoint configMapAndSecretChangeDetectionStrategy "},
	{TYPE_TIME, "a time such as 10s",
		" syncFrequency fileCheckFrequency httpCheckFrequency "
		"streamingConnectionIdleTimeout nodeStatusUpdateFrequency nodeStatusReportFrequency "
		"imageMinimumGCAge imageMaximumGCAge volumeStatsAggPeriod cpuManagerReconcilePeriod "
		"runtimeRequestTimeout evictionPressureTransitionPeriod shutdownGracePeriod "
		"shutdownGracePeriodCriticalPods containerLogMonitorInterval cpuCFSQuotaPeriod "},
	{TYPE_MAP, "a map",
		" authentication authorization logging memorySwap tracing crashLoopBackOff "
		"userNamespaces staticPodURLHeader "},
	{TYPE_TEXTS, "a map of texts (numbers in quotes)",
		" evictionHard evictionSoft evictionSoftGracePeriod evictionMinimumReclaim "
		"systemReserved kubeReserved qosReserved cpuManagerPolicyOptions "
		"topologyManagerPolicyOptions "},
	{TYPE_BOOLS, "a map with true and false", " featureGates "},
	{TYPE_WORDS, "a list of texts",
		" clusterDNS tlsCipherSuites allowedUnsafeSysctls enforceNodeAllocatable "
		"preloadedImagesVerificationAllowlist "},
	{TYPE_LIST, "a list",
		" reservedMemory registerWithTaints shutdownGracePeriodByPodPriority "},
};

struct parser {
	const char *path;
	yaml_document_t document;
	bool is_json; /* the kubelet reads it as such */
	struct kubelet_values values;
	char *why;
};

static int refuse(struct parser *parser, yaml_mark_t mark, const char *what, const char *text)
{
	char quoted[TEXT_QUOTE_MAX];

	snprintf(parser->why, KUBELET_WHY_MAX, "%s:%zu:%zu: %s%s%s", parser->path, mark.line + 1,
		mark.column + 1, what, text ? " " : "", text ? text_quote(quoted, text) : "");
	return -EBADMSG;
}

static const char *scalar_of(const yaml_node_t *node)
{
	return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value
						      : NULL;
}

static bool is_null(const yaml_node_t *node)
{
	const char *value = (const char *)node->data.scalar.value;

	return node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (!value[0] || streq(value, "~") || strcasecmp(value, "null") == 0);
}

static int parse_field(struct parser *parser, enum kubelet_field field, const yaml_node_t *node)
{
	struct kubelet_value *value = &parser->values.field[field];
	const char *text = scalar_of(node), *given = text;
	char what[64], digits[24];
	long long number;

	if (!text)
		return refuse(parser, node->start_mark, "expected one plain value", NULL);
	if (kubelet_fields[field].kind == KUBELET_NUMBER &&
		parse_whole(text, parser->is_json, &number)) {
		snprintf(digits, sizeof(digits), "%lld", number);
		given = digits;
	}
	*value = (struct kubelet_value){.origin = KUBELET_CLEARED};
	if (is_null(node))
		return 0;
	/* The kubelet refuses a quoted number or bool. */
	if ((kubelet_fields[field].kind < KUBELET_AGE &&
		    node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) ||
		!parse_value(value, field, given)) {
		snprintf(what, sizeof(what), "%s cannot be", kubelet_fields[field].name);
		return refuse(parser, node->start_mark, what, text);
	}
	value->origin = KUBELET_FILE;
	value->line = (unsigned)node->start_mark.line + 1;
	set_text(value->file, parser->path);
	return 0;
}

static void parse_cluster_dns(struct parser *parser, const yaml_node_t *node)
{
	if (node->type != YAML_SEQUENCE_NODE)
		return;
	parser->values.n_cluster_dns = 0;
	for (const yaml_node_item_t *item = node->data.sequence.items.start;
		item < node->data.sequence.items.top; item++) {
		const char *text = scalar_of(yaml_document_get_node(&parser->document, *item));

		if (text)
			add_cluster_dns(&parser->values, text);
	}
}

static int parse_resolv_conf(struct parser *parser, const yaml_node_t *node)
{
	struct kubelet_path *value = &parser->values.resolv_conf;
	const char *text = scalar_of(node);

	if (!text)
		return refuse(parser, node->start_mark, "expected one plain value", NULL);
	*value = (struct kubelet_path){.origin = KUBELET_CLEARED};
	if (is_null(node))
		return 0;
	if (!text_is_printable(text) || !set_text(value->path, text))
		return refuse(parser, node->start_mark, "resolvConf cannot be", text);
	value->origin = KUBELET_FILE;
	value->line = (unsigned)node->start_mark.line + 1;
	set_text(value->file, parser->path);
	return 0;
}

/* A duration of Go; "0" alone needs no unit. */
static bool is_time(const char *text)
{
	static const char *const units[] = {"ns", "us", "\xc2\xb5s", "ms", "s", "m", "h"};
	size_t n, unit;

	text += *text == '-' || *text == '+';
	if (streq(text, "0"))
		return true;
	do {
		n = strspn(text, "0123456789.");
		for (unit = 0; unit < ARRAY_SIZE(units); unit++)
			if (starts_with(text + n, units[unit]))
				break;
		if (n == 0 || unit == ARRAY_SIZE(units))
			return false;
		text += n + strlen(units[unit]);
	} while (*text);
	return true;
}

/* Whether a plain scalar is a number or a bool, which the kubelet does not take for a text. */
static bool is_other(const char *text)
{
	static const char *const bools[] = {"true", "false", "yes", "no", "on", "off"};
	char *end;

	for (size_t i = 0; i < ARRAY_SIZE(bools); i++)
		if (strcasecmp(text, bools[i]) == 0)
			return true;
	(void)strtod(text, &end);
	return *text && !*end && strspn(text, "+-.0123456789eE") == strlen(text);
}

static bool has_type(struct parser *parser, const yaml_node_t *node, int type);

/* All items of a list, or values of a map. Null is the zero value of each type. */
static bool have_type(struct parser *parser, const yaml_node_t *node, int type)
{
	bool is_map = node->type == YAML_MAPPING_NODE;
	size_t n =
		is_map ? (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start)
		       : (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
	bool good = true;

	for (size_t i = 0; i < n && good; i++) {
		const yaml_node_t *item = yaml_document_get_node(
			&parser->document, is_map ? node->data.mapping.pairs.start[i].value
						  : node->data.sequence.items.start[i]);

		good = (item->type == YAML_SCALAR_NODE && is_null(item)) ||
		       has_type(parser, item, type);
	}
	return good;
}

static bool has_type(struct parser *parser, const yaml_node_t *node, int type)
{
	const char *text = scalar_of(node);
	bool plain = text && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	struct kubelet_value value;
	long long number;

	switch (type) {
	case TYPE_MAP:
		return node->type == YAML_MAPPING_NODE;
	case TYPE_TEXTS:
		return node->type == YAML_MAPPING_NODE && have_type(parser, node, TYPE_TEXT);
	case TYPE_BOOLS:
		return node->type == YAML_MAPPING_NODE && have_type(parser, node, TYPE_BOOL);
	case TYPE_LIST:
		return node->type == YAML_SEQUENCE_NODE;
	case TYPE_WORDS:
		return node->type == YAML_SEQUENCE_NODE && have_type(parser, node, TYPE_TEXT);
	case TYPE_BOOL:
		return plain && parse_value(&value, KUBELET_SERIALIZE_IMAGE_PULLS, text);
	case TYPE_LONG:
		return plain && parse_whole(text, parser->is_json, &number);
	case TYPE_INTEGER:
		return plain && parse_whole(text, parser->is_json, &number) &&
		       number >= INT32_MIN && number <= INT32_MAX;
	case TYPE_TEXT:
		return text && !(plain && is_other(text));
	default:
		return text && !(plain && is_other(text)) && is_time(text);
	}
}

static bool is_known_key(const char *key)
{
	static const char *const others[] = {"apiVersion", "kind", "resolvConf"};
	char word[64];
	bool known = false;

	snprintf(word, sizeof(word), " %.60s ", key);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		known |= streq(key, others[i]);
	for (int i = 0; i < KUBELET_FIELDS; i++)
		known |= streq(key, kubelet_fields[i].name);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		known |= strstr(types[i].keys, word) != NULL;
	return known;
}

/* Checks the type of a key that is known and not of kubelet_fields. */
static int check_type(struct parser *parser, const char *key, const yaml_node_t *node)
{
	char word[64], what[128];

	if (snprintf(word, sizeof(word), " %s ", key) >= (int)sizeof(word) || strchr(key, ' ') ||
		(node->type == YAML_SCALAR_NODE && is_null(node)))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (!strstr(types[i].keys, word) || has_type(parser, node, types[i].type))
			continue;
		snprintf(what, sizeof(what), "%s must be %s%s", key, types[i].what,
			scalar_of(node) ? " and is" : "");
		return refuse(parser, node->start_mark, what, scalar_of(node));
	}
	return 0;
}

static int parse_document(struct parser *parser)
{
	const yaml_node_t *root = yaml_document_get_root_node(&parser->document);
	int r = 0;

	if (!root || (root->type == YAML_SCALAR_NODE && is_null(root)))
		return 0;
	if (root->type != YAML_MAPPING_NODE)
		return refuse(parser, root->start_mark, "not a map of options", NULL);
	for (const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
		r == 0 && pair < root->data.mapping.pairs.top; pair++) {
		const yaml_node_t *node = yaml_document_get_node(&parser->document, pair->value);
		const char *key = scalar_of(yaml_document_get_node(&parser->document, pair->key));
		const char *text = scalar_of(node);

		if (!key)
			continue;
		if (streq(key, "clusterDNS"))
			parse_cluster_dns(parser, node);
		if (streq(key, "resolvConf"))
			r = parse_resolv_conf(parser, node);
		if (streq(key, "kind") && !(text && streq(text, KIND)))
			r = refuse(parser, node->start_mark, "not of kind " KIND " but",
				text ? text : "something else");
		for (int i = 0; i < KUBELET_FIELDS; i++)
			if (streq(key, kubelet_fields[i].name))
				r = parse_field(parser, (enum kubelet_field)i, node);
		if (r == 0)
			r = check_type(parser, key, node);
		if (!is_known_key(key) && !parser->values.unknown[0])
			snprintf(parser->values.unknown, sizeof(parser->values.unknown),
				"%.180s:%zu: %.64s is not verified", parser->path,
				node->start_mark.line + 1, key);
	}
	return r;
}

static bool is_json(const char *text, size_t len)
{
	size_t i = 0;

	while (i < len && text[i] && strchr(" \t\r\n", text[i]))
		i++;
	return i < len && text[i] == '{';
}

int kubelet_parse(const char *path, const char *text, size_t len, struct kubelet_values *values,
	char why[static KUBELET_WHY_MAX])
{
	struct parser parser = {.path = path, .is_json = is_json(text, len), .why = why};
	yaml_parser_t yaml;
	int r;

	if (!yaml_parser_initialize(&yaml))
		out_of_memory();
	yaml_parser_set_input_string(&yaml, (const unsigned char *)text, len);
	if (yaml_parser_load(&yaml, &parser.document)) {
		r = parse_document(&parser);
		yaml_document_delete(&parser.document);
	} else {
		r = refuse(&parser, yaml.problem_mark, "neither YAML nor JSON: correct the file:",
			yaml.problem ? yaml.problem : "unreadable");
	}
	yaml_parser_delete(&yaml);
	if (r == 0)
		*values = parser.values;
	return r;
}

/* ---- files ---- */

struct kubelet_reading {
	const struct host *host;
	struct kubelet_seen *seen;
	struct kubelet_values flags;
	uint64_t start_us; /* CLOCK_REALTIME of the kubelet's start */
	/* Since then: files of others, our own file, directories. */
	bool changed, own_changed, directory_changed;
};

static bool is_there(const struct host *host, const char *path)
{
	char full[PATH_MAX];

	return path_in_root(host->root, path, full) == 0;
}

/*
 * k3s has a kubelet inside; a separate kubelet goes before it. A kubelet in a container, as in a
 * nested cluster, does not belong to this node. Any user and any pod can name a program kubelet:
 * only the command line of the host's root decides where files are written.
 */
static bool match_kubelet(const char *root, pid_t pid, void *embedded)
{
	bool k3s = process_is_named(root, pid, "k3s-server") ||
		   process_is_named(root, pid, "k3s-agent");

	if ((!k3s && !process_is_named(root, pid, "kubelet")) || !process_is_of_host(root, pid))
		return false;
	if (k3s)
		*(pid_t *)embedded = pid;
	return !k3s;
}

static void find_process(const struct host *host, struct kubelet_seen *seen)
{
	pid_t before = seen->pid, embedded = 0, pid;

	if (process_is(host->root, before, seen->start_us)) {
		*seen = (struct kubelet_seen){
			.pid = before, .start_us = seen->start_us, .embedded = seen->embedded};
		return;
	}
	*seen = (struct kubelet_seen){0};
	/* Search all processes only where a kubelet keeps its files. */
	if (!is_there(host, "/var/lib/kubelet") && !is_there(host, "/var/lib/rancher"))
		return;
	pid = process_find(host->root, match_kubelet, &embedded);
	seen->embedded = pid == 0 && embedded > 0;
	if (pid == 0)
		pid = embedded;
	if (pid > 0 && process_start(host->root, pid, &seen->start_us) == 0)
		seen->pid = pid;
}

/* Reads a path of the command line; a relative one starts at the process's working directory. */
static int read_path(const struct kubelet_reading *reading, const char *option,
	char path[static SETTING_PATH_MAX])
{
	const char *root = reading->host->root;
	pid_t pid = reading->seen->pid;
	char value[PATH_MAX], full[PATH_MAX];
	int r = process_option(root, pid, option, false, value, sizeof(value));

	if (r <= 0 || !value[0])
		return r;
	/* Else /: systemd starts services there. */
	if (process_path(root, pid, value, full) < 0)
		snprintf(full, sizeof(full), "/%.4000s", value);
	if (!copy_text(path, SETTING_PATH_MAX, full))
		path[0] = '\0';
	return 0;
}

static int read_command_line(struct kubelet_reading *reading)
{
	const char *root = reading->host->root;
	struct kubelet_seen *seen = reading->seen;
	char value[PATH_MAX], *state = NULL;
	int r = read_path(reading, "config", seen->config);

	if (r < 0)
		return r;
	read_path(reading, "config-dir", seen->config_dir);
	for (int i = 0; i < KUBELET_FIELDS; i++) {
		struct kubelet_value value_of_flag = {.origin = KUBELET_FLAG};
		const char *flag = kubelet_fields[i].flag;

		if (flag &&
			process_option(root, seen->pid, flag,
				kubelet_fields[i].kind == KUBELET_BOOL, value, sizeof(value)) > 0 &&
			parse_value(&value_of_flag, (enum kubelet_field)i, value))
			reading->flags.field[i] = value_of_flag;
	}
	if (process_option(root, seen->pid, "resolv-conf", false, value, sizeof(value)) > 0 &&
		text_is_printable(value) && set_text(reading->flags.resolv_conf.path, value))
		reading->flags.resolv_conf.origin = KUBELET_FLAG;
	if (process_option(root, seen->pid, "cluster-dns", false, value, sizeof(value)) > 0)
		for (char *word = strtok_r(value, ",", &state); word;
			word = strtok_r(NULL, ",", &state))
			add_cluster_dns(&reading->flags, word);
	return 0;
}

static void find_files(struct kubelet_reading *reading)
{
	struct kubelet_seen *seen = reading->seen;

	if (seen->pid > 0 && (seen->embedded || read_command_line(reading) == 0)) {
		seen->presence = KUBELET_RUNNING;
		reading->start_us = realtime_of_boottime(seen->start_us);
		if (seen->embedded && is_there(reading->host, K3S_DROP_IN))
			set_text(seen->config_dir, K3S_DROP_IN);
		return;
	}
	seen->pid = 0; /* it has ended */
	for (size_t i = 0; i < ARRAY_SIZE(known_files); i++) {
		const char *path = known_files[i];

		if (!is_there(reading->host, path))
			continue;
		seen->presence = KUBELET_STOPPED;
		seen->embedded = streq(path, K3S_DROP_IN);
		copy_text(strstr(path, ".conf.d") ? seen->config_dir : seen->config,
			SETTING_PATH_MAX, path);
		return;
	}
}

/* Reports the first fault only. */
static void complain(struct kubelet_reading *reading, const char *path, int error)
{
	const char *cure = "make it readable below the host's root";

	if (error == -EFBIG)
		cure = "it is too large for a kubelet configuration";
	else if (error == -E2BIG)
		cure = "merge the files, 64 files and directories are the limit";
	if (reading->seen->why[0])
		return;
	snprintf(reading->seen->why, KUBELET_WHY_MAX, "%s: %s: %s", path, strerror(-error), cure);
	copy_text(reading->seen->bad.path, SETTING_PATH_MAX, path);
	reading->seen->error = error;
}

static bool is_changed(const struct kubelet_reading *reading, const char *full)
{
	struct stat st;

	return stat(full, &st) == 0 && us_of(st.st_ctim) >= reading->start_us;
}

/*
 * Finds the writer of a file, and the line that repairs it if a value is only in quotes that it
 * must not have.
 */
static void describe_bad(const struct host *host, const char *text, size_t len, const char *why,
	struct bad_file *bad)
{
	_cleanup_free_ char *line = NULL, *repaired = NULL;
	struct kubelet_values values;
	char ignored[KUBELET_WHY_MAX], *to;
	const char *start = text, *value;
	size_t n;

	bad_file_find_writer(host, bad);
	bad->line = bad_file_line(text_after_path(why, bad->path));
	for (unsigned i = 1; i < bad->line && start; i++)
		start = (start = strchr(start, '\n')) ? start + 1 : NULL;
	if (bad->line == 0 || !start)
		return;
	n = strcspn(start, "\r\n");
	line = to = must(strndup(start, n));
	value = strchr(line, ':');
	for (const char *from = line; *from; from++)
		if (!value || from < value || !strchr("\"'", *from))
			*to++ = *from;
	*to = '\0';
	must_do(asprintf(&repaired, "%.*s%s%s", (int)(start - text), text, line, start + n) >= 0);
	if (strlen(line) < n && len == strlen(text) &&
		kubelet_parse(bad->path, repaired, strlen(repaired), &values, ignored) == 0)
		set_text(bad->repair, line + strspn(line, " \t"));
}

/* Reads and merges a file. name is below the drop-in directory; NULL: the main file. */
static void add_file(struct kubelet_reading *reading, const char *path, const char *name)
{
	struct kubelet_seen *seen = reading->seen;
	bool own = name && streq(name, KUBELET_OWN_FILE);
	_cleanup_free_ char *text = NULL;
	struct kubelet_values given = {0};
	char full[PATH_MAX];
	size_t len = 0;
	int r = path_in_root(reading->host->root, path, full);

	if (r == 0)
		r = read_file(full, FILE_MAX, &text, &len);
	if (r < 0) {
		complain(reading, path, r);
		return;
	}
	/* Check the time after reading, to notice a file replaced in between. */
	if (is_changed(reading, full))
		*(own ? &reading->own_changed : &reading->changed) = true;
	if (seen->why[0])
		return;
	seen->error = kubelet_parse(path, text, len, &given, seen->why);
	if (seen->error < 0) {
		copy_text(seen->bad.path, SETTING_PATH_MAX, path);
		describe_bad(reading->host, text, len, seen->why, &seen->bad);
		return;
	}
	if (own)
		hash_bytes(text, len, seen->own_hash);
	if (own)
		seen->own = streq(text, kubelet_own_text) ? KUBELET_OWN_WRITTEN
			    : starts_with(text, MARK)     ? KUBELET_OWN_OTHER
							  : KUBELET_OWN_FOREIGN;
	if (seen->own == KUBELET_OWN_FOREIGN || !own)
		merge_values(&seen->others, &given);
	merge_values(&seen->values, &given);
	/* The kubelet orders files by the first part of the name. */
	if (name && strcmp(name, KUBELET_OWN_FILE) > 0 &&
		given.field[KUBELET_SERIALIZE_IMAGE_PULLS].origin != KUBELET_UNSET)
		seen->overridden = true;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* In the kubelet's order: by name, a directory's files with the directory. */
static void read_directory(struct kubelet_reading *reading)
{
	char full[PATH_MAX], path[SETTING_PATH_MAX];
	char *const roots[] = {full, NULL};
	int r = path_in_root(reading->host->root, reading->seen->config_dir, full);
	FTS *tree = r == 0 ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name) : NULL;
	const FTSENT *entry;
	int n = 0;

	if (r == 0 && !tree)
		r = -errno;
	while (r == 0 && (entry = fts_read(tree))) {
		const char *dot = strrchr(entry->fts_name, '.');
		const char *name = entry->fts_path + MIN(strlen(full) + 1, strlen(entry->fts_path));
		bool directory = entry->fts_info == FTS_D;

		if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
			r = -entry->fts_errno;
		else if (directory)
			reading->directory_changed |= is_changed(reading, entry->fts_accpath);
		else if (entry->fts_info == FTS_DP || !dot || !streq(dot, ".conf"))
			continue;
		if (r == 0 && ++n > FILES_MAX)
			r = -E2BIG;
		if (r < 0 || directory)
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", reading->seen->config_dir, name) >=
			(int)sizeof(path))
			r = -ENAMETOOLONG;
		else
			add_file(reading, path, name);
	}
	if (tree)
		fts_close(tree);
	if (r < 0)
		complain(reading, reading->seen->config_dir, r);
}

void kubelet_read(const struct host *host, struct kubelet_seen *seen)
{
	struct kubelet_reading reading = {.host = host, .seen = seen};
	bool known;

	find_process(host, seen);
	find_files(&reading);
	if (seen->config[0])
		add_file(&reading, seen->config, NULL);
	if (seen->config_dir[0])
		read_directory(&reading);
	merge_values(&seen->values, &reading.flags);
	merge_values(&seen->others, &reading.flags);
	fill_defaults(&seen->values, seen->embedded);
	fill_defaults(&seen->others, seen->embedded);
	/*
	 * The running kubelet has the files that have not changed since its start. A directory also
	 * changes when we add our own file; otherwise a file was removed.
	 */
	known = seen->presence == KUBELET_RUNNING && !reading.changed && seen->why[0] == '\0';
	seen->values_run = known && !reading.own_changed && !reading.directory_changed;
	seen->others_run = known && reading.own_changed;
}
