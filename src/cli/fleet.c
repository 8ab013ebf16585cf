/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headroom fleet: all nodes of a Prometheus. The parts, in order: the queries; the request and its
 * errors; the parser of an answer; the nodes; the document; its views. It asks Prometheus alone,
 * and neither the API server nor a node. A node counts as ok only if its conditions are there: an
 * empty answer does not mean zero.
 */
#include "cli/cli.h"

#include "base/file.h"
#include "config/config.h"
#include "runtime/http_client.h"
#include "tuners/table.h"

#include <ctype.h>
#include <math.h>

#define TIMEOUT_US    (30 * USEC_PER_SEC)
#define ANSWER_MAX    ((size_t)128 << 20)
#define TOKEN_MAX     ((size_t)64 << 10)
#define SERIES_MAX    50000 /* of one answer */
#define NAMES_SHOWN   3     /* of a finding */
#define ROWS_SHOWN    20    /* of a list on a screen */
#define GROUPS_MAX    100   /* of --by with their findings */
#define ADDRESS_MAX   2048
#define JOBS_MAX      640
#define NODE_KEY_MAX  512
#define USER_NAME_MAX 256
#define VALUE_MAX     1e11 /* as a time it is far away, as a count it is large */

/* ---- the queries ---- */

enum query {
	NODES, /* these are first: the others depend on them */
	SEVERITIES,
	JOBS,
	VERSIONS,
	CONFIGS,
	CONDITIONS,
	FINDINGS,
	DOWN,
	LOST,
	IMAGES,
	IMAGE_NODES,
	QUERIES,
};

/*
 * max by (cluster, instance) joins the series of several jobs and replicas. After a restart with
 * another version, the newest sample counts. $label, $findings and $jobs are replaced.
 */
static const struct {
	const char *name, *promql;
} queries[QUERIES] = {
	[NODES] = {"nodes", "count(max by (cluster, instance) (headroom_build_info)) or vector(0)"},
	[SEVERITIES] = {"severities", "count by (severity) (headroom_finding)"},
	[JOBS] = {"jobs", "count by (job) (last_over_time(headroom_build_info[1h]))"},
	[VERSIONS] = {"versions",
		"max by (cluster, instance, version$label) (timestamp(headroom_build_info))"},
	[CONFIGS] = {"configurations",
		"max by (cluster, instance, hash, profile) (timestamp(headroom_config_info))"},
	/* One condition is enough: all are exported together. */
	[CONDITIONS] = {"conditions",
		"max by (cluster, instance) (headroom_condition{condition=\"AgentDegraded\"})"},
	[FINDINGS] = {"findings",
		"max by (cluster, instance, condition, object, severity, kind, namespace, name) "
		"(headroom_finding$findings)"},
	[DOWN] = {"down", "max by (cluster, instance) (up$jobs == 0) "
			  "unless on (cluster, instance) headroom_build_info"},
	[LOST] = {"lost",
		"max by (cluster, instance) (max_over_time(timestamp(headroom_build_info)[1h:1m])) "
		"unless on (cluster, instance) headroom_build_info"},
	[IMAGES] = {"images", "sum by (image, state) (max by (cluster, instance, image, state) "
			      "(headroom_image_preload{state=~\"ready|failed\"}))"},
	[IMAGE_NODES] = {"image_nodes",
		"count by (image) (max by (cluster, instance, image) "
		"(headroom_image_preload{state=\"ready\",image!=\"other\"}))"},
};

struct fleet {
	const struct cli *cli;
	char url[ADDRESS_MAX]; /* without a slash at its end; printable */
	const char *label;     /* of --by or --diff; NULL: none */
	char *headers;
	double time;            /* of the server, at the first answer */
	char jobs[JOBS_MAX];    /* a selector */
	const char *severities; /* a selector that leaves some findings out; "": none */
	cJSON *answers[QUERIES];
	size_t n_queries;
	struct fleet_node *nodes;
	size_t n_nodes, allocated;
	struct element_index index;
	struct fleet_finding *findings;
	size_t n_findings;
	bool several_clusters;
	bool only_critical; /* warnings are not known */
	cJSON *warnings;
};

/* Texts belong to the answers. */
struct fleet_node {
	char key[NODE_KEY_MAX]; /* cluster and instance */
	const char *cluster, *instance;
	const char *version, *hash, *profile, *value; /* value: of fleet.label. "": unknown */
	double version_time, config_time, last_seen;
	bool reports, down, lost;
	const char *verdict;
};

struct fleet_finding {
	const struct fleet_node *node;
	const char *condition, *object, *severity, *kind, *namespace, *name;
};

static void clear_fleet(struct fleet *fleet)
{
	for (size_t i = 0; i < QUERIES; i++)
		cJSON_Delete(fleet->answers[i]);
	if (fleet->headers)
		explicit_bzero(fleet->headers, strlen(fleet->headers));
	free(fleet->headers);
	free(fleet->nodes);
	free(fleet->findings);
	free(fleet->index.positions);
	cJSON_Delete(fleet->warnings);
}

/* ---- the parser of an answer ---- */

/*
 * Returns NULL with *answer, in which all texts are printable and each of data/result has metric
 * and value; or the error.
 */
static const char *parse_answer(const char *text, cJSON **answer)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *parsed = cJSON_Parse(text);
	const cJSON *series;
	const cJSON *result = json_at(parsed, "data/result");

	if (!streq(json_text_at(parsed, "status"), "success") ||
		!streq(json_text_at(parsed, "data/resultType"), "vector") || !cJSON_IsArray(result))
		return "the answer is not that of a Prometheus";
	cJSON_ArrayForEach (series, result) {
		const cJSON *label, *value = cJSON_GetObjectItem(series, "value");

		if (!cJSON_IsObject(cJSON_GetObjectItem(series, "metric")) ||
			!cJSON_IsNumber(cJSON_GetArrayItem(value, 0)) ||
			!cJSON_IsString(cJSON_GetArrayItem(value, 1)))
			return "the answer has a series without labels or value";
		cJSON_ArrayForEach (label, cJSON_GetObjectItem(series, "metric"))
			if (!cJSON_IsString(label))
				return "the answer has a label that is not a text";
	}
	json_make_printable(parsed);
	*answer = steal(parsed);
	return NULL;
}

static const char *label_of(const cJSON *series, const char *label)
{
	const char *text = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItem(series, "metric"), label));

	return text ? text : "";
}

/* Returns 0 for NaN, and bounds the others so that each fits an integer. */
static double bounded(double value)
{
	return isnan(value) ? 0 : fmin(fmax(value, -VALUE_MAX), VALUE_MAX);
}

static double value_of(const cJSON *series)
{
	return bounded(strtod(
		cJSON_GetStringValue(cJSON_GetArrayItem(cJSON_GetObjectItem(series, "value"), 1)),
		NULL));
}

static const cJSON *series_of(const struct fleet *fleet, enum query query)
{
	return json_at(fleet->answers[query], "data/result");
}

/* ---- the request ---- */

/* Returns false after a message. The token is never a part of it. */
static bool read_token(struct fleet *fleet)
{
	const char *path = fleet->cli->token_file;
	_cleanup_free_ char *token = NULL;
	const char *given = fleet->cli->headers;
	size_t len = 0;
	int r = path ? read_file(path, TOKEN_MAX, &token, &len) : 0;

	if (r < 0 || (fleet->cli->ca && access(fleet->cli->ca, R_OK) < 0)) {
		cli_fail(r < 0 ? path : fleet->cli->ca, "%s: give a file that you can read",
			strerror(r < 0 ? -r : errno));
		return false;
	}
	while (len > 0 && isspace((unsigned char)token[len - 1]))
		token[--len] = '\0';
	for (size_t i = 0; path && (i < len || len == 0); i++)
		if (len == 0 || token[i] <= ' ' || token[i] > '~') {
			cli_fail(path, "it is not a token: the file must have one word");
			explicit_bzero(token, len);
			return false;
		}
	must_do(asprintf(&fleet->headers, "Accept: application/json%s%s%s%s",
			path ? "\nAuthorization: Bearer " : "", path ? token : "",
			given ? "\n" : "", given ? given : "") >= 0);
	if (path)
		explicit_bzero(token, len);
	if (path && starts_with(fleet->url, "http:") && !starts_with(fleet->url, "http://127.") &&
		!starts_with(fleet->url, "http://localhost") &&
		!starts_with(fleet->url, "http://[::1]"))
		cli_fail(fleet->url, "the token is sent without TLS: use https");
	return true;
}

/*
 * Returns what replaces the variable that begins the rest. The label of headroom_config_info is
 * there already.
 */
static const char *variable_of(const struct fleet *fleet, const char *rest, char text[static 128])
{
	const char *label = fleet->label;

	if (starts_with(rest, "$jobs"))
		return fleet->jobs;
	if (!starts_with(rest, "$label"))
		return fleet->severities;
	text[0] = '\0';
	if (label && !streq(label, "hash") && !streq(label, "profile"))
		snprintf(text, 128, ", %s", label);
	return text;
}

/* Returns the URL of a query, which the caller frees. */
static char *query_url(const struct fleet *fleet, enum query query)
{
	const char *promql = queries[query].promql;
	size_t before = strcspn(promql, "$");
	const char *after = promql + before + strcspn(promql + before, " )");
	char text[2048], variable[128], time[40] = "", *escaped, *url;

	snprintf(text, sizeof(text), "%.*s%s%s", (int)before, promql,
		promql[before] ? variable_of(fleet, promql + before, variable) : "", after);
	if (fleet->time > 0)
		snprintf(time, sizeof(time), "&time=%.3f", fleet->time);
	escaped = must(curl_easy_escape(NULL, text, 0));
	must_do(asprintf(&url, "%s/api/v1/query?query=%s%s", fleet->url, escaped, time) >= 0);
	curl_free(escaped);
	return url;
}

/* The cure of an error of the connection. */
static const char *connection_cure(int error)
{
	return error == -EKEYREJECTED   ? "give the certificate of its authority with --ca FILE"
	       : error == -EHOSTUNREACH ? "check the name of the host"
	       : error == -ETIMEDOUT    ? "try again, or ask the Prometheus of one cluster"
	       : error == -EFBIG        ? "ask the Prometheus of one cluster"
	       : error == -EINVAL ? "give a URL such as https://HOST:9090, without user or password"
				  : "check the host, the port, and http or https";
}

/* The cure of a status of HTTP. */
static const char *status_cure(long status)
{
	return status == 401 || status == 403
		       ? "give --token-file FILE, or the tenant with --header 'X-Scope-OrgID: TENANT'"
	       : status == 404     ? "add its path prefix to the URL, such as /prometheus"
	       : status / 100 == 3 ? "give the URL to which it redirects, such as one with https"
	       : status == 429 || status >= 500
		       ? "try again; its log says more"
		       : "check the URL, --by and the version of the server";
}

/* The answers to most queries have the same warning. */
static void warn(struct fleet *fleet, const char *text)
{
	const cJSON *warning;

	cJSON_ArrayForEach (warning, fleet->warnings)
		if (streq(warning->valuestring, text))
			return;
	json_append_text(fleet->warnings, text);
}

/* Takes one answer. Returns false after a message. */
static bool take_answer(struct fleet *fleet, enum query query, const struct http_get *get)
{
	const char *text = get->body ? get->body : "", *wrong = NULL;
	_cleanup_(cleanup_cJSON_Delete) cJSON *refusal = NULL;
	const cJSON *warning;

	if (get->error < 0) {
		cli_fail(fleet->url, "%s: %s", get->why, connection_cure(get->error));
		return false;
	}
	if (get->status != 200) {
		refusal = cJSON_Parse(text);
		cli_fail(fleet->url, "HTTP status %ld%s%.300s: %s", get->status,
			refusal ? ": " : "", json_text_at(refusal, "error"),
			status_cure(get->status));
		return false;
	}
	wrong = parse_answer(text, &fleet->answers[query]);
	if (wrong) {
		cli_fail(fleet->url,
			"%s: %s: give the URL of its API, without a page such as /graph",
			queries[query].name, wrong);
		return false;
	}
	if (cJSON_GetArraySize(series_of(fleet, query)) > SERIES_MAX) {
		cli_fail(fleet->url,
			"%s: more than 50,000 series: ask the Prometheus of one cluster",
			queries[query].name);
		return false;
	}
	cJSON_ArrayForEach (warning, json_at(fleet->answers[query], "warnings"))
		if (cJSON_IsString(warning))
			warn(fleet, warning->valuestring);
	if (cJSON_IsTrue(json_at(fleet->answers[query], "isPartial")))
		warn(fleet, "the answer is partial: some storage nodes are down");
	return true;
}

/* Asks the queries from first to the one before end at the same time. */
static bool ask(struct fleet *fleet, enum query first, enum query end)
{
	const struct wait wait = {.deadline_us = now_us() + TIMEOUT_US, .cancel_fd = -1};
	struct http_get gets[QUERIES] = {0};
	char *urls[QUERIES] = {0};
	bool ok = true;

	for (enum query i = first; i < end; i++)
		gets[i] = (struct http_get){.url = urls[i] = query_url(fleet, i),
			.ca_files = fleet->cli->ca,
			.headers = fleet->headers,
			.limit = ANSWER_MAX};
	http_get_all(gets + first, end - first, &wait);
	fleet->n_queries += end - first;
	for (enum query i = first; i < end; i++) {
		ok = ok && take_answer(fleet, i, &gets[i]);
		free(gets[i].body);
		free(urls[i]);
	}
	return ok;
}

/* Leaves out advice, then warnings, if all findings would be too many for one answer. */
static const char *choose_severities(struct fleet *fleet)
{
	double all = 0, without_advice = 0;
	const cJSON *series;

	cJSON_ArrayForEach (series, series_of(fleet, SEVERITIES)) {
		all += value_of(series);
		if (!streq(label_of(series, "severity"), severity_names[SEVERITY_ADVICE]))
			without_advice += value_of(series);
	}
	if (all <= SERIES_MAX)
		return "";
	if (without_advice <= SERIES_MAX) {
		warn(fleet, "more than 50,000 findings: advice is left out");
		return "{severity!=\"advice\"}";
	}
	warn(fleet, "more than 50,000 findings: only critical ones are counted");
	fleet->only_critical = true;
	return "{severity=\"critical\"}";
}

/* Selects the jobs of the agents. In a name, a dot stands for each character that is special. */
static void choose_jobs(struct fleet *fleet)
{
	const cJSON *series;

	set_text(fleet->jobs, "{job=~\".*headroom.*");
	cJSON_ArrayForEach (series, series_of(fleet, JOBS)) {
		const char *job = label_of(series, "job");
		size_t used = strlen(fleet->jobs);

		if (used + strlen(job) + 8 > sizeof(fleet->jobs))
			continue;
		fleet->jobs[used++] = '|';
		for (; *job; job++)
			fleet->jobs[used++] =
				strchr("_-/:", *job) || isalnum((unsigned char)*job) ? *job : '.';
		fleet->jobs[used] = '\0';
	}
	text_append(fleet->jobs, sizeof(fleet->jobs), "\"}");
}

static bool ask_all(struct fleet *fleet)
{
	const cJSON *nodes;
	double n;

	if (!ask(fleet, NODES, VERSIONS))
		return false;
	nodes = cJSON_GetArrayItem(series_of(fleet, NODES), 0);
	if (!nodes) {
		cli_fail(fleet->url, "it does not count its series: give the URL of its API");
		return false;
	}
	n = value_of(nodes);
	if (n > SERIES_MAX) {
		cli_fail(fleet->url,
			"%.0f nodes are too many for one answer: ask the Prometheus of one "
			"cluster",
			n);
		return false;
	}
	fleet->time = fmax(
		bounded(cJSON_GetArrayItem(cJSON_GetObjectItem(nodes, "value"), 0)->valuedouble),
		0);
	fleet->severities = choose_severities(fleet);
	choose_jobs(fleet);
	if (!ask(fleet, VERSIONS, QUERIES))
		return false;
	if (n > 0 || cJSON_GetArraySize(series_of(fleet, DOWN)) > 0 ||
		cJSON_GetArraySize(series_of(fleet, LOST)) > 0)
		return true;
	cli_fail(fleet->url,
		"no series of Headroom is there: scrape the agents (deploy/MONITORING.md), or give the "
		"tenant with --header 'X-Scope-OrgID: TENANT'");
	return false;
}

/* ---- the nodes ---- */

static struct fleet_node *node_of(struct fleet *fleet, const cJSON *series)
{
	const char *cluster = label_of(series, "cluster"), *instance = label_of(series, "instance");
	struct fleet_node *node;
	char key[NODE_KEY_MAX];

	snprintf(key, sizeof(key), "%.254s/%.254s", cluster, instance);
	text_make_printable(key); /* a character may be cut */
	node = find_indexed(&fleet->index, fleet->nodes, fleet->n_nodes, key);
	if (node)
		return node;
	fleet->several_clusters = fleet->several_clusters ||
				  (fleet->n_nodes > 0 && !streq(fleet->nodes[0].cluster, cluster));
	node = add_element(&fleet->nodes, &fleet->n_nodes, &fleet->allocated);
	memcpy(node->key, key, sizeof(key));
	node->cluster = cluster;
	node->instance = instance;
	node->version = node->hash = node->profile = node->value = "";
	node->verdict = "unknown";
	return node;
}

/* The value of these series is the time of their sample. */
static void read_versions(struct fleet *fleet)
{
	const cJSON *series;
	struct fleet_node *node;

	cJSON_ArrayForEach (series, series_of(fleet, VERSIONS)) {
		node = node_of(fleet, series);
		if (value_of(series) < node->version_time)
			continue;
		node->version_time = value_of(series);
		node->version = label_of(series, "version");
		if (fleet->label)
			node->value = label_of(series, fleet->label);
	}
	cJSON_ArrayForEach (series, series_of(fleet, CONFIGS)) {
		node = node_of(fleet, series);
		if (value_of(series) < node->config_time)
			continue;
		node->config_time = value_of(series);
		node->hash = label_of(series, "hash");
		node->profile = label_of(series, "profile");
		if (fleet->label && streq(fleet->label, "hash"))
			node->value = node->hash;
		else if (fleet->label && streq(fleet->label, "profile"))
			node->value = node->profile;
	}
}

static void read_lost(struct fleet *fleet)
{
	const cJSON *series;

	cJSON_ArrayForEach (series, series_of(fleet, DOWN))
		node_of(fleet, series)->down = true;
	cJSON_ArrayForEach (series, series_of(fleet, LOST)) {
		struct fleet_node *node = node_of(fleet, series);

		node->lost = true;
		node->last_seen = fmax(value_of(series), 0);
	}
}

/*
 * A degraded agent always has a finding. Without it the findings are not stored, and the verdict
 * stays unknown, as without conditions.
 */
static void read_findings(struct fleet *fleet)
{
	const cJSON *list = series_of(fleet, FINDINGS), *series;
	size_t n = (size_t)cJSON_GetArraySize(list);

	cJSON_ArrayForEach (series, series_of(fleet, CONDITIONS))
		if (value_of(series) <= 0 && !fleet->only_critical)
			node_of(fleet, series)->verdict = "ok";
	fleet->findings = must(calloc(n + 1, sizeof(*fleet->findings)));
	cJSON_ArrayForEach (series, list) {
		struct fleet_node *node = node_of(fleet, series);
		const char *severity = label_of(series, "severity");

		if (streq(severity, "critical") ||
			(streq(severity, "warning") && !streq(node->verdict, "critical")))
			node->verdict = severity;
		else if (streq(severity, "advice") && streq(node->verdict, "unknown"))
			node->verdict = "ok";
		fleet->findings[fleet->n_findings++] =
			(struct fleet_finding){node, label_of(series, "condition"),
				label_of(series, "object"), severity, label_of(series, "kind"),
				label_of(series, "namespace"), label_of(series, "name")};
	}
}

static int compare_findings(const void *a, const void *b)
{
	const struct fleet_finding *x = a, *y = b;
	int order = strcmp(x->condition, y->condition);

	if (order == 0)
		order = strcmp(x->object, y->object);
	return order ? order : strcmp(x->node->key, y->node->key);
}

static int compare_nodes(const void *a, const void *b)
{
	return strcmp(((const struct fleet_node *)a)->key, ((const struct fleet_node *)b)->key);
}

static void read_nodes(struct fleet *fleet)
{
	read_versions(fleet);
	read_lost(fleet);
	for (enum query i = VERSIONS; i <= FINDINGS; i++) {
		const cJSON *series;

		cJSON_ArrayForEach (series, series_of(fleet, i))
			node_of(fleet, series)->reports = true;
	}
	/* From here on no node is added, so that the sorted array stays. */
	qsort(fleet->nodes, fleet->n_nodes, sizeof(*fleet->nodes), compare_nodes);
	index_reset(&fleet->index);
	read_findings(fleet);
	qsort(fleet->findings, fleet->n_findings, sizeof(*fleet->findings), compare_findings);
}

/* Returns the name of a node; with its cluster if there are several. */
static const char *node_name(const struct fleet *fleet, const struct fleet_node *node)
{
	return fleet->several_clusters && node->cluster[0] ? node->key
	       : node->instance[0]                         ? node->instance
							   : "unnamed";
}

/* ---- the document ---- */

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct count {
	const char *text;
	unsigned n;
};

static int compare_counts(const void *a, const void *b)
{
	const struct count *x = a, *y = b;

	return x->n != y->n ? (x->n < y->n ? 1 : -1) : strcmp(x->text, y->text);
}

/* Sorts texts, and counts equal ones, the most frequent first. The caller frees *counts. */
static size_t count_texts(const char **texts, size_t n, struct count **counts)
{
	size_t n_counts = 0;

	*counts = must(calloc(n + 1, sizeof(**counts)));
	qsort(texts, n, sizeof(*texts), compare_texts);
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || !streq(texts[i], texts[i - 1]))
			(*counts)[n_counts++].text = texts[i];
		(*counts)[n_counts - 1].n++;
	}
	qsort(*counts, n_counts, sizeof(**counts), compare_counts);
	return n_counts;
}

/* Counts the values of a member of the nodes that report: {value, nodes}. */
static cJSON *count_nodes(const struct fleet *fleet, size_t offset)
{
	_cleanup_free_ const char **texts = must(calloc(fleet->n_nodes + 1, sizeof(*texts)));
	_cleanup_free_ struct count *counts = NULL;
	cJSON *array = must(cJSON_CreateArray());
	size_t n = 0, n_counts;

	for (size_t i = 0; i < fleet->n_nodes; i++)
		if (fleet->nodes[i].reports)
			texts[n++] = *(const char **)((char *)&fleet->nodes[i] + offset);
	n_counts = count_texts(texts, n, &counts);
	for (size_t i = 0; i < n_counts; i++) {
		cJSON *row = json_append(array);

		json_text(row, "value", counts[i].text);
		json_number(row, "nodes", counts[i].n);
	}
	return array;
}

/* Returns the length of a pod's name without what differs between the pods of a controller. */
static size_t stem_length(const char *name)
{
	static const char random[] = "bcdfghjklmnpqrstvwxz2456789"; /* of Kubernetes */
	static const struct {
		size_t min, max;
		const char *characters;
	} ends[] = {{5, 5, random}, {6, 10, random}, {1, 5, "0123456789"}};
	size_t len = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		const char *dash = memrchr(name, '-', len);
		size_t part = dash ? (size_t)(name + len - dash) - 1 : 0;

		if (part >= ends[i].min && part <= ends[i].max && dash > name &&
			strspn(dash + 1, ends[i].characters) >= part)
			len = (size_t)(dash - name);
	}
	return len;
}

/* Writes "pod shop/api-*": the pods of one controller are one user. */
static void user_name(const struct fleet_finding *finding, char name[static USER_NAME_MAX])
{
	size_t len = strlen(finding->name);
	size_t stem = streq(finding->kind, "pod") ? stem_length(finding->name) : len;

	snprintf(name, USER_NAME_MAX, "%.20s %.63s%s%.*s%s", finding->kind, finding->namespace,
		finding->namespace[0] ? "/" : "", (int)MIN(stem, (size_t)160), finding->name,
		stem < len ? "-*" : "");
	text_make_printable(name); /* a character may be cut */
}

/* Adds the user that most of n findings name, or null. */
static void add_user(cJSON *row, const struct fleet_finding *findings, size_t n)
{
	_cleanup_free_ char(*names)[USER_NAME_MAX] = must(calloc(n, sizeof(*names)));
	_cleanup_free_ const char **texts = must(calloc(n, sizeof(*texts)));
	_cleanup_free_ struct count *counts = NULL;
	size_t n_texts = 0;
	cJSON *user;

	for (size_t i = 0; i < n; i++)
		if (findings[i].kind[0]) {
			user_name(&findings[i], names[i]);
			texts[n_texts++] = names[i];
		}
	if (count_texts(texts, n_texts, &counts) == 0) {
		json_null(row, "user");
		return;
	}
	user = json_object(row, "user");
	json_text(user, "name", counts[0].text);
	json_number(user, "nodes", counts[0].n);
}

/* Adds a row about n findings with the same condition and object, sorted by node. */
static void add_finding(
	const struct fleet *fleet, cJSON *array, const struct fleet_finding *findings, size_t n)
{
	cJSON *row = json_append(array), *names;
	const char *severity = findings[0].severity;
	unsigned nodes = 0;

	json_text(row, "condition", findings[0].condition);
	json_text(row, "object", findings[0].object);
	names = json_array(row, "names");
	for (size_t i = 0; i < n; i++) {
		if (streq(findings[i].severity, "critical") || streq(severity, "advice"))
			severity = findings[i].severity;
		if (i > 0 && findings[i].node == findings[i - 1].node)
			continue;
		if (nodes++ < NAMES_SHOWN)
			json_append_text(names, node_name(fleet, findings[i].node));
	}
	json_text(row, "severity", severity);
	json_number(row, "nodes", nodes);
	add_user(row, findings, n);
}

static double by_nodes(const cJSON *row, const void *)
{
	return json_number_at(row, "nodes");
}

/* Returns the findings of the nodes whose label has this value, by number of nodes. NULL: of all.
 */
static cJSON *count_findings(const struct fleet *fleet, const char *value)
{
	_cleanup_free_ struct fleet_finding *some =
		must(calloc(fleet->n_findings + 1, sizeof(*some)));
	cJSON *array = must(cJSON_CreateArray());
	size_t n = 0;

	for (size_t i = 0; i < fleet->n_findings; i++)
		if (!value || streq(fleet->findings[i].node->value, value))
			some[n++] = fleet->findings[i];
	for (size_t i = 0, first = 0; i < n; i++) {
		if (i + 1 < n && streq(some[i].condition, some[i + 1].condition) &&
			streq(some[i].object, some[i + 1].object))
			continue;
		add_finding(fleet, array, some + first, i + 1 - first);
		first = i + 1;
	}
	json_sort(array, by_nodes, NULL);
	return array;
}

static const char *const verdicts[] = {"ok", "warning", "critical", "unknown"};

/* Returns the number of reporting nodes with this verdict; of all values, or of one. */
static unsigned count_verdict(const struct fleet *fleet, const char *verdict, const char *value)
{
	unsigned n = 0;

	for (size_t i = 0; i < fleet->n_nodes; i++)
		n += fleet->nodes[i].reports && streq(fleet->nodes[i].verdict, verdict) &&
		     (!value || streq(fleet->nodes[i].value, value));
	return n;
}

static void add_verdicts(const struct fleet *fleet, cJSON *parent, const char *value)
{
	cJSON *object = json_object(parent, "verdicts");

	for (size_t i = 0; i < ARRAY_SIZE(verdicts); i++)
		json_number(object, verdicts[i], count_verdict(fleet, verdicts[i], value));
}

static void add_stopped(const struct fleet *fleet, cJSON *document)
{
	cJSON *array = json_array(document, "stopped");

	for (size_t i = 0; i < fleet->n_nodes; i++) {
		const struct fleet_node *node = &fleet->nodes[i];
		cJSON *row;

		if (node->reports || (!node->down && !node->lost))
			continue;
		row = json_append(array);
		json_text(row, "name", node_name(fleet, node));
		json_text(row, "why", node->down ? "down" : "no target");
		json_time(row, "last_seen", (uint64_t)(node->last_seen * (double)USEC_PER_SEC));
	}
}

static double of_image(const struct fleet *fleet, const char *image, const char *state)
{
	const cJSON *series;

	cJSON_ArrayForEach (series, series_of(fleet, IMAGES))
		if (streq(label_of(series, "image"), image) &&
			streq(label_of(series, "state"), state))
			return value_of(series);
	return 0;
}

static void add_images(const struct fleet *fleet, cJSON *document)
{
	cJSON *array = json_array(document, "images");
	const cJSON *series;

	cJSON_ArrayForEach (series, series_of(fleet, IMAGE_NODES)) {
		const char *image = label_of(series, "image");
		cJSON *row = json_append(array);

		json_text(row, "value", image);
		JSON_NUMBERS(row, {"nodes", value_of(series)},
			{"ready", of_image(fleet, image, "ready")},
			{"failed", of_image(fleet, image, "failed")});
	}
}

static void add_groups(const struct fleet *fleet, cJSON *document)
{
	cJSON *groups, *row;
	int n = 0;

	json_text(document, "by", fleet->label);
	groups = json_adopt(
		document, "groups", count_nodes(fleet, offsetof(struct fleet_node, value)));
	cJSON_ArrayForEach (row, groups) {
		const char *value = json_text_at(row, "value");

		if (n++ >= GROUPS_MAX)
			break;
		add_verdicts(fleet, row, value);
		json_adopt(row, "findings", count_findings(fleet, value));
	}
}

static double by_difference(const cJSON *row, const void *)
{
	return fabs(json_number_at(row, "shares/0") - json_number_at(row, "shares/1"));
}

/* Adds a row of the comparison: how many nodes of each value have it. */
static void add_difference(cJSON *rows, const char *name, const char *severity,
	const double nodes[2], const double all[2])
{
	const double shares[] = {nodes[0] / all[0], nodes[1] / all[1]};
	cJSON *row = json_append(rows);

	json_text(row, "name", name);
	json_text(row, "severity", severity);
	json_adopt(row, "nodes", must(cJSON_CreateDoubleArray(nodes, 2)));
	json_adopt(row, "shares", must(cJSON_CreateDoubleArray(shares, 2)));
}

/* Returns how many nodes with this value have a finding like that of the row. */
static double count_like(const struct fleet *fleet, const cJSON *row, const char *value)
{
	const char *condition = json_text_at(row, "condition"),
		   *object = json_text_at(row, "object");
	const struct fleet_node *last = NULL;
	unsigned n = 0;

	for (size_t i = 0; i < fleet->n_findings; i++) {
		const struct fleet_finding *finding = &fleet->findings[i];

		if (!streq(finding->condition, condition) || !streq(finding->object, object) ||
			!streq(finding->node->value, value) || finding->node == last)
			continue;
		last = finding->node;
		n++;
	}
	return n;
}

/* Adds the comparison. Returns the value that no node has, or NULL. */
static const char *add_diff(const struct fleet *fleet, cJSON *document)
{
	cJSON *diff = json_object(document, "diff"), *values, *rows;
	const char *const *wanted = fleet->cli->diff;
	double nodes[2], all[2] = {0};
	const cJSON *finding;

	json_text(diff, "by", fleet->label);
	values = json_array(diff, "values");
	for (size_t i = 0; i < 2; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(verdicts); k++)
			all[i] += count_verdict(fleet, verdicts[k], wanted[i]);
		if (all[i] <= 0)
			return wanted[i];
		json_append_text(values, wanted[i]);
	}
	json_adopt(diff, "nodes", must(cJSON_CreateDoubleArray(all, 2)));
	rows = json_array(diff, "rows");
	for (size_t k = 0; k < ARRAY_SIZE(verdicts); k++) {
		for (size_t i = 0; i < 2; i++)
			nodes[i] = count_verdict(fleet, verdicts[k], wanted[i]);
		add_difference(rows, verdicts[k], verdicts[k], nodes, all);
	}
	cJSON_ArrayForEach (finding, json_at(document, "findings")) {
		char name[512];

		for (size_t i = 0; i < 2; i++)
			nodes[i] = count_like(fleet, finding, wanted[i]);
		snprintf(name, sizeof(name), "%s %s", json_text_at(finding, "condition"),
			json_text_at(finding, "object"));
		text_make_printable(name); /* a character may be cut */
		if (nodes[0] + nodes[1] > 0)
			add_difference(rows, name, json_text_at(finding, "severity"), nodes, all);
	}
	json_sort(rows, by_difference, NULL);
	return NULL;
}

/* Adds the nodes that have it. Returns their number. */
static unsigned add_nodes_with(const struct fleet *fleet, cJSON *document)
{
	const char *wanted = fleet->cli->finding;
	cJSON *array;
	unsigned n = 0;

	json_text(document, "finding", wanted);
	array = json_array(document, "found");
	for (size_t i = 0; i < fleet->n_findings; i++) {
		const struct fleet_finding *finding = &fleet->findings[i];
		char user[USER_NAME_MAX];
		cJSON *row;

		if (strcasecmp(finding->condition, wanted) != 0 &&
			strcasecmp(finding->object, wanted) != 0)
			continue;
		snprintf(user, sizeof(user), "%s %s%s%s", finding->kind, finding->namespace,
			finding->namespace[0] ? "/" : "", finding->name);
		row = json_append(array);
		json_text(row, "node", node_name(fleet, finding->node));
		json_text(row, "severity", finding->severity);
		json_text(row, "condition", finding->condition);
		json_text(row, "object", finding->object);
		json_text(row, "user", finding->kind[0] ? user : "");
		if (fleet->label)
			json_text(row, fleet->label, finding->node->value);
		n++;
	}
	return n;
}

/* Returns what all views have. */
static cJSON *make_document(struct fleet *fleet)
{
	cJSON *document = must(cJSON_CreateObject()), *nodes;
	unsigned reporting = 0, stopped = 0;

	for (size_t i = 0; i < fleet->n_nodes; i++) {
		reporting += fleet->nodes[i].reports;
		stopped +=
			!fleet->nodes[i].reports && (fleet->nodes[i].down || fleet->nodes[i].lost);
	}
	json_number(document, "schema", 1);
	json_text(document, "source", fleet->url);
	json_time(document, "time", (uint64_t)(fleet->time * (double)USEC_PER_SEC));
	json_number(document, "queries", (double)fleet->n_queries);
	nodes = json_object(document, "nodes");
	JSON_NUMBERS(nodes, {"reporting", reporting}, {"stopped", stopped});
	add_verdicts(fleet, document, NULL);
	json_adopt(document, "versions", count_nodes(fleet, offsetof(struct fleet_node, version)));
	json_adopt(
		document, "configurations", count_nodes(fleet, offsetof(struct fleet_node, hash)));
	json_adopt(document, "profiles", count_nodes(fleet, offsetof(struct fleet_node, profile)));
	json_adopt(document, "findings", count_findings(fleet, NULL));
	add_stopped(fleet, document);
	add_images(fleet, document);
	json_adopt(document, "warnings", steal(fleet->warnings));
	return document;
}

/* ---- the views ---- */

static void draw_title(struct screen *screen, const char *text)
{
	draw(screen, COLOR_NONE, "\n");
	draw(screen, COLOR_BOLD, "%s\n", text);
}

static void draw_rest(struct screen *screen, int n)
{
	if (n > 0)
		draw(screen, COLOR_FAINT, "  and %d more: --json prints all\n", n);
}

/* Draws "NAME  bar  12 of 30 nodes  40 %". */
static void draw_share(struct screen *screen, enum color color, const char *name, double nodes,
	double all, const char *more)
{
	char shown[256], share[SHARE_MAX];

	shorten(name[0] ? name : "unknown", 34, shown, sizeof(shown));
	draw(screen, COLOR_NONE, "  %s%*s", shown, MAX(35 - text_width(shown), 1), "");
	draw_bar(screen, color, nodes / MAX(all, 1));
	draw(screen, COLOR_NONE, "%.0f of %.0f  %s%s\n", nodes, all,
		share_text(nodes / MAX(all, 1), share), more);
}

static void draw_shares(struct screen *screen, const char *title, const cJSON *rows, double all)
{
	const cJSON *row;
	int n = 0;

	if (cJSON_GetArraySize(rows) > 0)
		draw_title(screen, title);
	cJSON_ArrayForEach (row, rows)
		if (n++ < ROWS_SHOWN)
			draw_share(screen, COLOR_GOOD, json_text_at(row, "value"),
				json_number_at(row, "nodes"), all, "");
	draw_rest(screen, n - ROWS_SHOWN);
}

static void draw_images(struct screen *screen, const cJSON *images)
{
	const cJSON *row;

	if (cJSON_GetArraySize(images) > 0)
		draw_title(screen, "Images that are ready");
	cJSON_ArrayForEach (row, images) {
		double failed = json_number_at(row, "failed");
		char more[48] = "";

		if (failed > 0)
			snprintf(more, sizeof(more), ", %.0f failed", failed);
		draw_share(screen, failed > 0 ? COLOR_BAD : COLOR_GOOD, json_text_at(row, "value"),
			json_number_at(row, "ready"), json_number_at(row, "nodes"), more);
	}
}

static void draw_findings(struct screen *screen, const cJSON *findings, double all, bool known)
{
	const cJSON *row;
	int n = 0;

	draw_title(screen, "Findings");
	if (!cJSON_GetArraySize(findings))
		draw(screen, COLOR_NONE,
			known ? "  none\n" : "  unknown: no conditions are stored\n");
	cJSON_ArrayForEach (row, findings) {
		const char *severity = json_text_at(row, "severity");
		const cJSON *name;
		char names[1024] = "", shown[256], object[128];
		double nodes = json_number_at(row, "nodes");

		if (n++ >= ROWS_SHOWN)
			continue;
		snprintf(names, sizeof(names), "%s %s", json_text_at(row, "condition"),
			shorten(json_text_at(row, "object"), 40, object, sizeof(object)));
		draw(screen, COLOR_NONE, "  ");
		draw(screen, color_of(severity), "%-8s", severity);
		draw(screen, COLOR_NONE, " %-40s ", names);
		draw_wrapped(screen, 11, "%.0f of %.0f nodes  %s", nodes, all,
			share_text(nodes / MAX(all, 1), shown));
		names[0] = '\0';
		cJSON_ArrayForEach (name, json_at(row, "names"))
			text_append(names, sizeof(names), "%s%s", names[0] ? ", " : "",
				shorten(name->valuestring, 60, shown, sizeof(shown)));
		if (nodes > NAMES_SHOWN)
			text_append(names, sizeof(names), ", ...");
		if (cJSON_IsObject(json_at(row, "user")))
			text_append(names, sizeof(names), "; largest user on %.0f: %s",
				json_number_at(row, "user/nodes"), json_text_at(row, "user/name"));
		draw_paragraph(screen, 11, names);
	}
	draw_rest(screen, n - ROWS_SHOWN);
}

static void draw_stopped(struct screen *screen, const cJSON *stopped)
{
	const cJSON *row;
	int n = 0;

	if (cJSON_GetArraySize(stopped) > 0)
		draw_title(screen, "Stopped reporting");
	cJSON_ArrayForEach (row, stopped) {
		const char *since = json_text_at(row, "last_seen");
		bool is_down = streq(json_text_at(row, "why"), "down");
		char name[256];

		if (n++ >= ROWS_SHOWN)
			continue;
		draw(screen, COLOR_NONE, "  %-34s ",
			shorten(json_text_at(row, "name"), 60, name, sizeof(name)));
		draw(screen, is_down ? COLOR_BAD : COLOR_WARNING, "%-9s ",
			is_down ? "down" : "no target");
		draw_wrapped(screen, 11, "%s%s",
			since[0] ? "last seen " : "not seen within an hour", since);
	}
	draw_rest(screen, n - ROWS_SHOWN);
}

static void draw_groups(struct screen *screen, const cJSON *document)
{
	const cJSON *row, *finding;
	int n = 0;

	draw_title(screen, json_text_at(document, "by"));
	cJSON_ArrayForEach (row, json_at(document, "groups")) {
		char text[512] = "";
		int findings = 0;

		if (n++ >= MIN(ROWS_SHOWN, GROUPS_MAX))
			continue;
		draw_share(screen, COLOR_GOOD, json_text_at(row, "value"),
			json_number_at(row, "nodes"), json_number_at(document, "nodes/reporting"),
			"");
		for (size_t i = 0; i < ARRAY_SIZE(verdicts); i++) {
			double nodes = cJSON_GetObjectItem(json_at(row, "verdicts"), verdicts[i])
					       ->valuedouble;

			if (nodes > 0)
				text_append(text, sizeof(text), "%s%.0f %s", text[0] ? ", " : "",
					nodes, verdicts[i]);
		}
		cJSON_ArrayForEach (finding, json_at(row, "findings"))
			if (findings++ < NAMES_SHOWN)
				text_append(text, sizeof(text), "; %s %s on %.0f",
					json_text_at(finding, "condition"),
					json_text_at(finding, "object"),
					json_number_at(finding, "nodes"));
		draw_paragraph(screen, 4, text);
	}
	draw_rest(screen, n - ROWS_SHOWN);
}

static void draw_diff(struct screen *screen, const cJSON *diff)
{
	const cJSON *row;
	char first[128], second[128];

	draw_title(screen, json_text_at(diff, "by"));
	draw(screen, COLOR_FAINT, "  %-44s %15s %15s\n", "",
		shorten(cJSON_GetStringValue(json_at(diff, "values/0")), 15, first, sizeof(first)),
		shorten(cJSON_GetStringValue(json_at(diff, "values/1")), 15, second,
			sizeof(second)));
	draw(screen, COLOR_NONE, "  %-44s %15.0f %15.0f\n", "nodes",
		json_number_at(diff, "nodes/0"), json_number_at(diff, "nodes/1"));
	cJSON_ArrayForEach (row, json_at(diff, "rows")) {
		char name[256], share[2][SHARE_MAX], cells[2][48];

		for (int i = 0; i < 2; i++) {
			const char *paths[][2] = {{"nodes/0", "nodes/1"}, {"shares/0", "shares/1"}};

			snprintf(cells[i], sizeof(cells[i]), "%.0f  %s",
				json_number_at(row, paths[0][i]),
				share_text(json_number_at(row, paths[1][i]), share[i]));
		}
		draw(screen, COLOR_NONE, "  ");
		draw(screen, color_of(json_text_at(row, "severity")), "%-44s",
			shorten(json_text_at(row, "name"), 44, name, sizeof(name)));
		draw(screen, COLOR_NONE, " %15s %15s\n", cells[0], cells[1]);
	}
}

static void draw_found(struct screen *screen, const cJSON *document)
{
	double unknown = json_number_at(document, "verdicts/unknown");
	const cJSON *row;
	char name[256];

	if (!cJSON_GetArraySize(json_at(document, "found")))
		draw(screen, COLOR_NONE, "No node has it\n");
	if (unknown > 0)
		draw(screen, COLOR_WARNING, "It is unknown on %.0f nodes\n", unknown);
	cJSON_ArrayForEach (row, json_at(document, "found")) {
		draw(screen, COLOR_NONE, "%-28s ",
			shorten(json_text_at(row, "node"), 60, name, sizeof(name)));
		draw(screen, color_of(json_text_at(row, "severity")), "%-8s ",
			json_text_at(row, "severity"));
		draw_wrapped(screen, 11, "%s %s %s", json_text_at(row, "condition"),
			json_text_at(row, "object"), json_text_at(row, "user"));
	}
}

static void draw_overview(struct screen *screen, const cJSON *document)
{
	double all = json_number_at(document, "nodes/reporting");

	draw_title(screen, "Verdicts");
	for (size_t i = 0; i < ARRAY_SIZE(verdicts); i++) {
		double nodes = cJSON_GetObjectItem(json_at(document, "verdicts"), verdicts[i])
				       ->valuedouble;

		if (nodes > 0 || i == 0)
			draw_share(screen, color_of(verdicts[i]), verdicts[i], nodes, all, "");
	}
	draw_findings(screen, json_at(document, "findings"), all,
		json_number_at(document, "verdicts/unknown") < all);
	draw_stopped(screen, json_at(document, "stopped"));
	draw_shares(screen, "Versions", json_at(document, "versions"), all);
	draw_shares(screen, "Configurations", json_at(document, "configurations"), all);
	draw_shares(screen, "Profiles", json_at(document, "profiles"), all);
	draw_images(screen, json_at(document, "images"));
}

static void draw_fleet(const struct cli *cli, const cJSON *document)
{
	struct screen screen = screen_open();
	const cJSON *warning;

	draw_wrapped(&screen, 2, "%.0f nodes report to %s at %s; %.0f stopped reporting",
		json_number_at(document, "nodes/reporting"), json_text_at(document, "source"),
		json_text_at(document, "time"), json_number_at(document, "nodes/stopped"));
	cJSON_ArrayForEach (warning, json_at(document, "warnings")) {
		draw(&screen, COLOR_WARNING, "  incomplete: ");
		draw_wrapped(&screen, 4, "%s", warning->valuestring);
	}
	if (cli->finding)
		draw_found(&screen, document);
	else if (cli->diff[0])
		draw_diff(&screen, json_at(document, "diff"));
	else if (cli->by)
		draw_groups(&screen, document);
	else
		draw_overview(&screen, document);
}

/* Returns whether a condition, limit, setting or reason has the name, or a node has it. */
static bool name_is_known(const char *name)
{
	size_t n;
	_cleanup_free_ struct help_entry *entries = all_entries(&n);

	for (size_t i = 0; i < n; i++)
		if (strcasecmp(entries[i].name, name) == 0)
			return true;
	return false;
}

/* Returns EXIT_OK after filling in fleet, or another code after a message. */
static int check_usage(struct fleet *fleet, const struct cli *cli)
{
	const char *label = cli->by ? cli->by : cli->diff[0] ? "version" : NULL;
	size_t len = cli->prometheus ? strlen(cli->prometheus) : 0;

	if (!starts_with(len ? cli->prometheus : "", "http://") &&
		!starts_with(len ? cli->prometheus : "", "https://")) {
		cli_fail("fleet",
			"give --prometheus URL, such as https://prometheus.example.com/prefix");
		return EXIT_USAGE;
	}
	if (len >= sizeof(fleet->url) || strpbrk(cli->prometheus, "?#@ ") ||
		!text_is_printable(cli->prometheus)) {
		cli_fail("--prometheus", "give a URL without user, query or blanks");
		return EXIT_USAGE;
	}
	if (label && (isdigit((unsigned char)label[0]) || !label[0] || strlen(label) > 100 ||
			     label[strspn(label, "abcdefghijklmnopqrstuvwxyz"
						 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")])) {
		cli_fail(label, "no label has this name: it has letters, digits and _");
		return EXIT_USAGE;
	}
	if (cli->headers && (!strchr(cli->headers, ':') || strchr(cli->headers, '\r'))) {
		cli_fail("--header", "give a line such as 'X-Scope-OrgID: TENANT'");
		return EXIT_USAGE;
	}
	set_text(fleet->url, cli->prometheus);
	while (len > 0 && fleet->url[len - 1] == '/')
		fleet->url[--len] = '\0';
	fleet->label = label;
	return EXIT_OK;
}

/* Adds what the options ask for. Returns the exit code; EXIT_FAILED after a message. */
static int add_view(const struct fleet *fleet, cJSON *document)
{
	const struct cli *cli = fleet->cli;
	const char *missing = NULL;
	bool ok = count_verdict(fleet, "ok", NULL) == json_number_at(document, "nodes/reporting") &&
		  json_number_at(document, "nodes/stopped") <= 0;

	if (cli->finding) {
		bool none = add_nodes_with(fleet, document) == 0;

		ok = none && count_verdict(fleet, "unknown", NULL) == 0;
		if (none && !name_is_known(cli->finding))
			return cli_fail(cli->finding,
				"no node has such a finding: headroom explain lists the names");
	} else if (cli->diff[0]) {
		missing = add_diff(fleet, document);
	} else if (cli->by) {
		add_groups(fleet, document);
	}
	if (missing)
		return cli_fail(missing, "no node has this %s: headroom fleet --by %s lists them",
			fleet->label, fleet->label);
	return ok && cJSON_GetArraySize(json_at(document, "warnings")) == 0 ? EXIT_OK
									    : EXIT_ATTENTION;
}

int cli_fleet(const struct cli *cli)
{
	_cleanup_(clear_fleet) struct fleet fleet = {
		.cli = cli, .severities = "", .warnings = must(cJSON_CreateArray())};
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;
	int r = check_usage(&fleet, cli);

	if (r != EXIT_OK)
		return r;
	if (!read_token(&fleet) || !ask_all(&fleet))
		return EXIT_FAILED;
	read_nodes(&fleet);
	document = make_document(&fleet);
	r = add_view(&fleet, document);
	if (r == EXIT_FAILED)
		return r;
	if (cli->json)
		json_put(stdout, steal(document), true);
	else
		draw_fleet(cli, document);
	return r;
}
