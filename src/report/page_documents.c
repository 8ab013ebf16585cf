/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "base/util.h"

#include <cjson/cJSON.h>

DEFINE_CLEANUP(cJSON, cJSON_Delete)

/* A number of a document; 0 where it is not there. */
static double number(const cJSON *object, const char *key)
{
	const cJSON *item = cJSON_GetObjectItem(object, key);

	return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static const char *text(const cJSON *object, const char *key)
{
	const cJSON *item = cJSON_GetObjectItem(object, key);

	return cJSON_IsString(item) ? item->valuestring : "";
}

static void begin_table(FILE *out, const char *title, const char *const heads[])
{
	fprintf(out, "<h2>%s</h2>\n<div class=\"wide\"><table>\n<thead><tr>", title);
	for (; *heads; heads++)
		fprintf(out, "<th scope=\"col\">%s</th>", *heads);
	fputs("</tr></thead>\n<tbody>\n", out);
}

static void end_table(FILE *out, size_t left_out)
{
	fputs("</tbody>\n</table></div>\n", out);
	page_left_out(out, left_out);
}

static void put_number(FILE *out, double value)
{
	fputs("<td class=\"num\">", out);
	page_count(out, (uint64_t)MAX(value, 0.0));
	fputs("</td>", out);
}

static void put_budget(FILE *out, const cJSON *budget)
{
	static const char *const keys[][2] = {
		{"qps", "queries/s"},
		{"pps", "packets/s"},
		{"pending", "pending"},
	};
	const char *separator = "";

	fputs("<td class=\"num\">", out);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (number(budget, keys[i][0]) <= 0)
			continue;
		fputs(separator, out);
		page_count(out, (uint64_t)number(budget, keys[i][0]));
		fprintf(out, " %s", keys[i][1]);
		separator = ", ";
	}
	fputs("</td>", out);
}

static void put_latency(FILE *out, const cJSON *latency)
{
	fputs("<td class=\"num\">", out);
	if (cJSON_IsObject(latency))
		fprintf(out, "%.1f, %.1f ms", number(latency, "p50") * 1000,
			number(latency, "p99") * 1000);
	fputs("</td>", out);
}

static void put_top(FILE *out, const cJSON *users)
{
	const cJSON *first = cJSON_GetArrayItem(users, 0);
	const cJSON *workload = cJSON_GetObjectItem(first, "workload");

	fputs("<td>", out);
	if (workload) {
		fprintf(out, "<span class=\"dim\">%s</span> ", text(workload, "kind"));
		page_text(out, text(workload, "namespace"));
		fputs(text(workload, "namespace")[0] ? "/" : "", out);
		page_text(out, text(workload, "name"));
	}
	fputs("</td>", out);
}

static void put_server(FILE *out, const cJSON *server)
{
	fputs("<tr><th scope=\"row\">", out);
	page_text(out, text(server, "server"));
	fputs("</th><td>", out);
	page_text(out, text(server, "role"));
	fputs("</td>", out);
	put_number(out, number(server, "queries_per_second"));
	put_number(out, number(server, "peak"));
	put_budget(out, cJSON_GetObjectItem(server, "budget"));
	put_number(out, number(server, "pending"));
	put_number(out, number(server, "unanswered"));
	put_latency(out, cJSON_GetObjectItem(server, "latency"));
	put_top(out, cJSON_GetObjectItem(server, "top"));
	fputs("</tr>\n", out);
}

static void put_dns(FILE *out, const cJSON *document)
{
	static const char *const heads[] = {"Resolver", "Role", "Queries a second",
		"Busiest second", "Budget", "Pending", "Unanswered", "Latency p50, p99",
		"Asks most", NULL};
	const cJSON *servers = cJSON_GetObjectItem(document, "servers"), *server;
	size_t left_out = 0;

	if (cJSON_GetArraySize(servers) == 0)
		return;
	begin_table(out, "DNS", heads);
	cJSON_ArrayForEach (server, servers) {
		if (page_full(out))
			left_out++;
		else
			put_server(out, server);
	}
	end_table(out, left_out);
}

static const char *answer_class(const char *state)
{
	if (streq(state, "answers"))
		return "ok";
	return streq(state, "silent") ? "warning" : "dim";
}

static void put_pulls(FILE *out, const cJSON *pulls)
{
	double rate = 0;
	int n = cJSON_GetArraySize(pulls);
	const cJSON *pull;

	cJSON_ArrayForEach (pull, pulls)
		rate += number(pull, "bytes_per_second");
	fputs("<td class=\"num\">", out);
	if (n > 0)
		fprintf(out, "%d layer%s, %.1f MB/s", n, n == 1 ? "" : "s", rate / 1e6);
	fputs("</td>", out);
}

static void put_store(FILE *out, const cJSON *store)
{
	const cJSON *warning;

	fputs("<td>", out);
	if (cJSON_IsObject(store)) {
		page_text(out, text(store, "directory"));
		fputs(" <span class=\"dim\">", out);
		page_text(out, text(store, "driver"));
		fputs(", ", out);
		page_text(out, text(store, "filesystem"));
		fprintf(out, "</span> %.0f %% full",
			100 * number(store, "used") / MAX(number(store, "size"), 1.0));
		cJSON_ArrayForEach (warning, cJSON_GetObjectItem(store, "warnings")) {
			fputs("<br><span class=\"warning\">", out);
			page_text(out, cJSON_GetStringValue(warning));
			fputs("</span>", out);
		}
	}
	fputs("</td>", out);
}

static void put_runtime(FILE *out, const cJSON *runtime)
{
	const char *state = text(runtime, "state");

	fputs("<tr><th scope=\"row\">", out);
	page_text(out, text(runtime, "name"));
	fputs("</th><td>", out);
	page_text(out, text(runtime, "version"));
	fputs("</td><td>", out);
	page_badge(out, answer_class(state), state);
	fputs("</td><td class=\"num\">", out);
	page_text(out, text(runtime, "max_concurrent_downloads"));
	fputs("</td>", out);
	put_pulls(out, cJSON_GetObjectItem(runtime, "pulls"));
	put_store(out, cJSON_GetObjectItem(runtime, "store"));
	fputs("</tr>\n", out);
}

/* One that was never there to be asked is no news on this page. */
static bool is_news(const cJSON *runtime)
{
	return !streq(text(runtime, "state"), "asked");
}

static void put_runtimes(FILE *out, const cJSON *document)
{
	static const char *const heads[] = {
		"Runtime", "Version", "State", "Layers at once", "Fetching now", "Images", NULL};
	const cJSON *found = cJSON_GetObjectItem(document, "found"), *runtime;
	bool begun = false;
	size_t left_out = 0;

	cJSON_ArrayForEach (runtime, found) {
		if (!is_news(runtime))
			continue;
		if (page_full(out)) {
			left_out++;
			continue;
		}
		if (!begun)
			begin_table(out, "Container runtimes", heads);
		begun = true;
		put_runtime(out, runtime);
	}
	if (begun)
		end_table(out, left_out);
	else
		page_left_out(out, left_out);
}

void page_documents(FILE *out, const struct node *node)
{
	static const struct {
		const char *name;
		void (*put)(FILE *out, const cJSON *document);
	} tables[] = {{"dns", put_dns}, {"runtime", put_runtimes}};

	for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
		for (size_t i = 0; i < node->n_tuners; i++) {
			const struct tuner_status *tuner = &node->tuners[i];
			_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;

			if (!tuner->self || !tuner->ops->document ||
				!streq(tuner->ops->document_name, tables[t].name))
				continue;
			/* The page is for everyone who reaches the port. */
			document = tuner->ops->document(tuner->self, tuner->memory, false);
			if (document)
				tables[t].put(out, document);
		}
}
