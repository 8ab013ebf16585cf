/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The databases of etcd: what the processes are configured with, from files, options and
 * variables; their quotas; the command that makes room in instance.
 */
#include "tuners/limits/limits.h"

#include "base/file.h"
#include "base/text.h"
#include "kernel/host.h"
#include "runtime/driver.h"
#include "runtime/systemd.h"
#include "workload/process.h"

#include <ctype.h>
#include <glob.h>
#include <yaml.h>

#define QUOTA         "quota-backend-bytes"
#define DEFAULT_QUOTA INT64_C(2147483648) /* etcd: server/storage, DefaultQuotaBytes */
#define UNKNOWN_QUOTA INT64_MAX           /* or none */

#define K3S_WRITTEN "/var/lib/rancher/k3s/server/db/etcd/config"

#define FILE_MAX (256 * 1024)

/* ---- the configuration ---- */

enum etcd_option {
	ETCD_QUOTA,
	ETCD_DIRECTORY,
	ETCD_URLS,
	ETCD_CERTIFICATE,
	ETCD_KEY,
	ETCD_AUTHORITIES,
	ETCD_OPTIONS,
};

/* In the file, options of the last rows are in a map of their own. */
#define TLS_MAP "client-transport-security/"
static const struct {
	const char *flag, *key;
} option_rows[ETCD_OPTIONS] = {
	[ETCD_QUOTA] = {QUOTA, QUOTA},
	[ETCD_DIRECTORY] = {"data-dir", "data-dir"},
	[ETCD_URLS] = {"listen-client-urls", "listen-client-urls"},
	[ETCD_CERTIFICATE] = {"cert-file", TLS_MAP "cert-file"},
	[ETCD_KEY] = {"key-file", TLS_MAP "key-file"},
	[ETCD_AUTHORITIES] = {"trusted-ca-file", TLS_MAP "trusted-ca-file"},
};

struct etcd_options {
	char value[ETCD_OPTIONS][SETTING_PATH_MAX]; /* "": not set */
};

/* Visits a value at the top of a document, "KEY", or in a map there, "MAP/KEY". */
typedef void yaml_visit(void *userdata, const char *key, const char *value);

struct yaml_walk {
	yaml_document_t document;
	yaml_visit *visit;
	void *userdata;
};

static const char *scalar_at(struct yaml_walk *walk, int index)
{
	const yaml_node_t *node = yaml_document_get_node(&walk->document, index);

	return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value
						      : NULL;
}

static void visit_value(struct yaml_walk *walk, const char *key, int index)
{
	const yaml_node_t *node = yaml_document_get_node(&walk->document, index);
	const char *value = scalar_at(walk, index);

	if (value)
		walk->visit(walk->userdata, key, value);
	for (const yaml_node_item_t *item =
			node->type == YAML_SEQUENCE_NODE ? node->data.sequence.items.start : NULL;
		item && item < node->data.sequence.items.top; item++)
		if ((value = scalar_at(walk, *item)))
			walk->visit(walk->userdata, key, value);
}

static void visit_map(struct yaml_walk *walk, const char *outer, const yaml_node_t *map)
{
	for (const yaml_node_pair_t *pair = map->data.mapping.pairs.start;
		pair < map->data.mapping.pairs.top; pair++) {
		const yaml_node_t *inner = yaml_document_get_node(&walk->document, pair->value);
		const char *name = scalar_at(walk, pair->key);
		char key[128];

		if (!name || !inner)
			continue;
		snprintf(key, sizeof(key), "%s%s%s", outer, outer[0] ? "/" : "", name);
		if (inner->type == YAML_MAPPING_NODE && !outer[0])
			visit_map(walk, key, inner);
		else if (inner->type != YAML_MAPPING_NODE)
			visit_value(walk, key, pair->value);
	}
}

/* Visits the values of a file, YAML or JSON. 0, -EBADMSG or the error of read_file(). */
static int visit_file(const char *path, yaml_visit *visit, void *userdata)
{
	struct yaml_walk walk = {.visit = visit, .userdata = userdata};
	_cleanup_free_ char *text = NULL;
	const yaml_node_t *root;
	yaml_parser_t parser;
	size_t len = 0;
	int r = read_file(path, FILE_MAX, &text, &len);

	if (r < 0)
		return r;
	must_do(yaml_parser_initialize(&parser));
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	if (!yaml_parser_load(&parser, &walk.document)) {
		yaml_parser_delete(&parser);
		return -EBADMSG;
	}
	root = yaml_document_get_root_node(&walk.document);
	if (root && root->type == YAML_MAPPING_NODE)
		visit_map(&walk, "", root);
	yaml_document_delete(&walk.document);
	yaml_parser_delete(&parser);
	return 0;
}

static void take_option(void *userdata, const char *key, const char *value)
{
	struct etcd_options *options = userdata;

	for (int i = 0; i < ETCD_OPTIONS; i++)
		if (streq(key, option_rows[i].key))
			(void)set_text(options->value[i], value);
}

/* k3s hands the items of its etcd-arg, such as "quota-backend-bytes=9", to etcd. */
static void take_argument(void *userdata, const char *key, const char *value)
{
	struct etcd_options *options = userdata;

	if (!streq(key, "etcd-arg") && !streq(key, "etcd-arg+"))
		return;
	value += strspn(value, "-");
	if (starts_with(value, QUOTA "="))
		(void)set_text(options->value[ETCD_QUOTA], value + strlen(QUOTA "="));
}

static bool is_of_host(const struct node_database *database)
{
	return database->workload.kind == WORKLOAD_UNIT || database->workload.kind == WORKLOAD_HOST;
}

/*
 * The server of k3s gives etcd the values of etcd-arg, of its files in this order and of its
 * command line. It hides the latter, but writes all of them to a file below its usual data-dir.
 * A server in a container has other files.
 */
static void read_k3s(
	const struct host *host, const struct node_database *database, struct etcd_options *options)
{
	static const char *const patterns[] = {
		"/etc/rancher/k3s/config.yaml", "/etc/rancher/k3s/config.yaml.d/*.yaml"};
	_cleanup_free_ char *words = NULL;
	char full[PATH_MAX], *quota = options->value[ETCD_QUOTA];
	size_t len = 0;

	if (is_of_host(database) &&
		visit_file(host_path(host, K3S_WRITTEN, full), take_option, options) == 0)
		return;
	for (size_t i = 0; is_of_host(database) && i < ARRAY_SIZE(patterns); i++) {
		glob_t files = {0};

		(void)glob(host_path(host, patterns[i], full), 0, NULL, &files);
		for (size_t k = 0; k < files.gl_pathc; k++)
			(void)visit_file(files.gl_pathv[k], take_argument, options);
		globfree(&files);
	}
	if (database->workload.kind == WORKLOAD_UNIT)
		(void)systemd_starts_with(
			host, database->workload.name, QUOTA "=", quota, SETTING_PATH_MAX);
	/* "--etcd-arg=quota-backend-bytes=9", or the same in two words. */
	if (process_read(host->root, database->pid, "cmdline", &words, &len) == 0)
		for (const char *word = words; word < words + len; word += strlen(word) + 1) {
			const char *found = strstr(word, QUOTA "=");

			if (found)
				copy_text(quota, SETTING_PATH_MAX, found + strlen(QUOTA "="));
		}
}

/* A variable of etcd is the option in capitals: ETCD_QUOTA_BACKEND_BYTES. */
static const char *find_variable(const char *environment, size_t len, const char *flag)
{
	char name[64] = "ETCD_";

	copy_text(name + strlen(name), sizeof(name) - strlen(name) - 1, flag);
	for (char *c = name; *c; c++)
		*c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
	strcat(name, "=");
	for (size_t at = 0; at < len; at += strlen(environment + at) + 1)
		if (starts_with(environment + at, name))
			return environment + at + strlen(name);
	return NULL;
}

/*
 * Reads the options of etcd: a file, and then nothing else counts, or else each option or its
 * variable. The environment of another user's process needs privileges that a pod lacks. Returns
 * false if they are in a file that cannot be read.
 */
static bool read_etcd(
	const struct host *host, const struct node_database *database, struct etcd_options *options)
{
	_cleanup_free_ char *environment = NULL;
	char file[PATH_MAX] = "", full[PATH_MAX];
	const char *variable;
	size_t len = 0;

	if (process_read(host->root, database->pid, "environ", &environment, &len) < 0)
		len = 0;
	if (process_option(host->root, database->pid, "config-file", false, file, sizeof(file)) !=
			1 &&
		(variable = find_variable(environment, len, "config-file")))
		(void)set_text(file, variable);
	/* The directories are root's: their files are safe to read. The etcd of RKE2 is a pod, and
	 * its directory the host's. */
	if (file[0])
		return !strstr(file, "/../") &&
		       starts_with(file, is_of_host(database) ? "/etc/" : "/var/lib/rancher/") &&
		       visit_file(host_path(host, file, full), take_option, options) == 0;
	for (int i = 0; i < ETCD_OPTIONS; i++) {
		char *value = options->value[i];
		const char *flag = option_rows[i].flag;

		if (process_option(
			    host->root, database->pid, flag, false, value, SETTING_PATH_MAX) != 1 &&
			(variable = find_variable(environment, len, flag)))
			copy_text(value, SETTING_PATH_MAX, variable);
	}
	return true;
}

/* As Go reads numbers: also 0x... A process can misreport its own database only. */
static uint64_t quota_of(const struct etcd_options *options)
{
	const char *text = options->value[ETCD_QUOTA];
	char *end;
	long long quota = strtoll(text, &end, 0);

	return quota < 0 || *end ? UNKNOWN_QUOTA : quota == 0 ? DEFAULT_QUOTA : (uint64_t)quota;
}

/* ---- the file ---- */

/*
 * Finds the file among the open files of the process, or below its directory. The path is the
 * process's own: of a pod it may be another than the host's.
 */
static void find_database(const struct host *host, const struct node_database *database,
	const struct etcd_options *options, char path[static SETTING_PATH_MAX])
{
	static const char below[] = "/member/snap/db";
	const char *data =
		options->value[ETCD_DIRECTORY][0] ? options->value[ETCD_DIRECTORY] : "default.etcd";
	char full[PATH_MAX], link[PATH_MAX + NAME_MAX + 2], target[PATH_MAX];
	_cleanup_(cleanup_closedir) DIR *files = NULL;
	const struct dirent *entry;

	path[0] = '\0';
	snprintf(link, sizeof(link), "/proc/%d/fd", database->pid);
	files = opendir(host_path(host, link, full));
	while (files && !path[0] && (entry = readdir(files))) {
		ssize_t n;

		snprintf(link, sizeof(link), "%s/%s", full, entry->d_name);
		n = readlink(link, target, sizeof(target) - 1);
		target[MAX(n, (ssize_t)0)] = '\0';
		if (n > (ssize_t)strlen(below) && streq(target + n - strlen(below), below))
			copy_text(path, SETTING_PATH_MAX, target);
	}
	if (path[0])
		return;
	if (process_path(host->root, database->pid, data, full) < 0)
		copy_text(full, sizeof(full), data);
	snprintf(path, SETTING_PATH_MAX, "%.200s%s", full, below);
}

/* ---- the command ---- */

/* Writes the first address that this machine alone has, else the first instance. */
static void choose_url(const char *urls, char url[static SETTING_PATH_MAX])
{
	static const char *const locals[] = {"127.0.0.1", "localhost", "[::1]", "unix"};
	char list[SETTING_PATH_MAX], *state = NULL;

	url[0] = '\0';
	set_text(list, urls[0] ? urls : "http://127.0.0.1:2379");
	for (char *word = strtok_r(list, ",", &state); word; word = strtok_r(NULL, ",", &state)) {
		bool is_local = false;

		for (size_t i = 0; i < ARRAY_SIZE(locals); i++)
			is_local |= strstr(word, locals[i]) != NULL;
		if (!url[0] || is_local)
			copy_text(url, SETTING_PATH_MAX, word);
		if (is_local)
			return;
	}
}

/* Starts etcdctl where the database is: in a container, with its files. False: not known how. */
static bool name_program(const struct limit_source *source, const struct node_database *database,
	char *text, size_t size)
{
	const struct workload *workload = &database->workload;
	const char *socket = "";
	char word[SHELL_WORD_MAX], client[RUNTIME_CLIENT_MAX];

	for (unsigned i = source->disks->n_images; i-- > 0;)
		if (source->disks->images[i].runtime)
			socket = source->disks->images[i].socket;

	if (is_of_host(database))
		copy_text(text, size, "ETCDCTL_API=3 etcdctl");
	else if (workload->kind == WORKLOAD_POD && workload->id[0] &&
		 runtime_client(source->host, "crictl", socket, client))
		snprintf(text, size,
			"%s exec \"$(%s ps -q --label io.kubernetes.pod.uid=%s)\" etcdctl", client,
			client, shell_word(word, workload->id));
	else if (workload->kind == WORKLOAD_CONTAINER && workload->id[0] &&
		 runtime_client(source->host, "docker", "", client))
		snprintf(text, size, "%s exec %s etcdctl", client, shell_word(word, workload->id));
	else if ((workload->kind == WORKLOAD_POD || workload->kind == WORKLOAD_CONTAINER) &&
		 host_find_program(source->host, "nsenter", client))
		snprintf(text, size, "%s -t %d -m -n etcdctl", client, database->pid);
	else
		return false;
	return true;
}

/* Frees the revisions that nobody reads, then the pages of the file. NULL: it is not known how. */
static char *make_command(const struct limit_source *source, const struct node_database *database,
	const struct etcd_options *options)
{
	static const char *const flags[] = {
		[ETCD_CERTIFICATE] = "cert", [ETCD_KEY] = "key", [ETCD_AUTHORITIES] = "cacert"};
	char program[4096], url[SETTING_PATH_MAX], word[SHELL_WORD_MAX], *command;

	/* k3s lacks etcdctl. */
	if (streq(database->process, "k3s-server") ||
		!name_program(source, database, program, sizeof(program)))
		return NULL;
	choose_url(options->value[ETCD_URLS], url);
	text_append(program, sizeof(program), " --endpoints=%s", shell_word(word, url));
	for (size_t i = 0; starts_with(url, "https:") && i < ARRAY_SIZE(flags); i++)
		if (flags[i] && options->value[i][0])
			text_append(program, sizeof(program), " --%s=%s", flags[i],
				shell_word(word, options->value[i]));
	if (starts_with(url, "https:") && !options->value[ETCD_AUTHORITIES][0])
		text_append(program, sizeof(program), " --insecure-skip-tls-verify");
	if (strlen(program) == sizeof(program) - 1)
		return NULL;
	must_do(asprintf(&command,
			"(e() { %s \"$@\"; }; e compact \"$(e endpoint status -w json | grep -o "
			"'\"revision\":[0-9]*' | tr -dc 0-9)\"; e defrag && e alarm disarm)",
			program) >= 0);
	return command;
}

/* ---- the row ---- */

/* etcd counts the pages in use: up to 16 MiB less than the file. */
int limits_sample_databases(const struct limit_source *source, struct limit_reading *reading)
{
	reading->upper_bound = true;
	for (unsigned i = 0; i < source->disks->n_databases; i++) {
		const struct node_database *database = &source->disks->databases[i];
		struct limit_user user = {.workload = database->workload, .used = database->bytes};
		struct limit_instance instance = {
			.instance = {.kind = INSTANCE_FILE, .owner = database->workload},
			.used = database->bytes,
			.pid = database->pid};
		struct etcd_options options = {0};
		bool is_known = true;

		if (!process_is_named(source->host->root, database->pid, database->process))
			continue;
		if (streq(database->process, "k3s-server"))
			read_k3s(source->host, database, &options);
		else
			is_known = read_etcd(source->host, database, &options);
		instance.max = user.max = is_known ? quota_of(&options) : UNKNOWN_QUOTA;
		if (instance.max == UNKNOWN_QUOTA)
			continue;
		snprintf(user.detail, sizeof(user.detail), "process %d (%s)", database->pid,
			database->process);
		if (reading->n_top < LIMIT_TOP_MAX)
			*limit_add_user(reading) = user;
		if (limit_keep_fuller(reading, user.used, user.max)) {
			reading->top[reading->n_top - 1] = reading->top[0];
			reading->top[0] = user;
		}
		find_database(source->host, database, &options, instance.instance.name);
		instance.cure = make_command(source, database, &options);
		*limit_instance_user(&instance) = user;
		limit_instance_add(source->instances, &instance);
	}
	return reading->n_top > 0 ? 0 : -ENOENT;
}

void limits_cure_database(struct finding *finding, const struct limit_row *,
	const struct limit_instance *instance, const struct decide_input *, const struct limits *)
{
	if (instance->cure)
		finding_now(finding, "%s", instance->cure);
	else
		finding_hint(finding,
			"etcdctl is not beside this etcd: with it, compact the revisions, then "
			"defrag, then alarm disarm; the members that etcdctl defragments stop "
			"answering meanwhile");
}
