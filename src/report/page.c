/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page.h"

#include "report/report.h"

#include "base/build.h"
#include "base/text.h"
#include "base/util.h"
#include "tuners/table.h"

/* A bar's colour: the agent itself speaks of pressure from 80 % on. */
#define BAR_WARNING  80
#define BAR_CRITICAL 95

static void put_head(FILE *out, const struct node *node)
{
	fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
	      "<meta http-equiv=\"refresh\" content=\"5\">\n<title>",
		out);
	page_text(out, node->name);
	fprintf(out, ": %s - Headroom</title>\n", verdict_name(node_verdict(node)));
	fputs("<link rel=\"icon\" href=\"data:image/svg+xml,%3Csvg "
	      "xmlns='http://www.w3.org/2000/svg' "
	      "viewBox='0 0 16 16'%3E%3Cpath fill='%232aa869' d='M2 9h3v6H2zm4.500-4h3v10h-3zM11 "
	      "1h3v14"
	      "h-3z'/%3E%3C/svg%3E\">\n<style>",
		out);
	fputs(page_style, out);
	fputs("</style>\n</head>\n", out);
}

static void put_header(FILE *out, const struct node *node)
{
	const char *verdict = verdict_name(node_verdict(node));
	uint64_t now = realtime_us();
	char started[TIME_TEXT_MAX], up[TIME_TEXT_MAX], at[TIME_TEXT_MAX];

	time_text(node->started_us, started);
	time_text(now, at);
	duration_text(now > node->started_us
			      ? (double)(now - node->started_us) / (double)USEC_PER_SEC
			      : 0,
		up);
	fputs("<body>\n<header>\n<h1>", out);
	page_text(out, node->name);
	fputs("</h1>", out);
	page_badge(out, verdict, verdict);
	if (!node->applied)
		page_badge(out, "dim", "not applied yet");
	fprintf(out,
		"\n<p class=\"sub\">Headroom %s (%s), up %s since <time>%s</time>, seen "
		"<time>%s</time>"
		"</p>\n</header>\n<main>\n",
		HEADROOM_VERSION, HEADROOM_COMMIT, up, started, at);
}

static const char *bar_class(double percent)
{
	if (percent >= BAR_CRITICAL)
		return "critical";
	return percent >= BAR_WARNING ? "warning" : "ok";
}

static double peak_percent(const struct limit *limit)
{
	if (limit->now.max == 0)
		return 100;
	return MIN((double)limit->peak / (double)limit->now.max * 100, 99.5);
}

static void put_bar(FILE *out, const struct limit *limit, double percent)
{
	fprintf(out,
		"<div class=\"track\" role=\"meter\" aria-valuemin=\"0\" aria-valuemax=\"100\" "
		"aria-valuenow=\"%.0f\" aria-label=\"",
		percent);
	page_text(out, limit->now.name);
	fprintf(out,
		" used\"><div class=\"bar %s\" style=\"width:%.1f%%\"></div>"
		"<div class=\"peak\" style=\"left:%.1f%%\" title=\"peak\"></div></div>\n",
		bar_class(percent), percent, peak_percent(limit));
}

static void put_facts(FILE *out, const struct limit *limit)
{
	double full = limit_full_in_seconds(limit);
	char duration[TIME_TEXT_MAX];

	fputs("<p class=\"facts num\"><span>peak ", out);
	page_count(out, limit->peak);
	fputs("</span><span>struck ", out);
	page_count(out, limit->now.hits);
	fputs(limit->now.hits == 1 ? " time</span>" : " times</span>", out);
	if (limit->now.upper_bound)
		fputs("<span>an upper bound: the exact count is not known here</span>", out);
	if (full >= 0) {
		duration_text(full, duration);
		fprintf(out, "<span class=\"critical\">full in %s</span>", duration);
	}
	fputs("</p>\n", out);
}

static void put_user(FILE *out, const struct limit_user *user)
{
	const struct workload *workload = &user->workload;

	fprintf(out, "<li class=\"row\"><span><span class=\"dim\">%s</span> ",
		workload_kind_name(workload->kind));
	page_text(out, workload->namespace);
	if (workload->namespace[0])
		fputc('/', out);
	page_text(out, workload->name[0] ? workload->name : workload->id);
	fputs("</span><span class=\"num\">", out);
	page_count(out, user->used);
	fputs("</span></li>\n", out);
}

static void put_limit(FILE *out, const struct limit *limit)
{
	double percent = (1 - limit_headroom(limit)) * 100;

	fputs("<section class=\"card\"><div class=\"row\"><h3>", out);
	page_text(out, limit->now.name);
	fprintf(out, "</h3><b class=\"num %s\">%.0f %%</b></div>\n", bar_class(percent), percent);
	put_bar(out, limit, percent);
	fprintf(out, "<p class=\"facts num\"><span>%s", limit->now.upper_bound ? "at most " : "");
	page_count(out, limit->now.used);
	fputs(" of ", out);
	page_count(out, limit->now.max);
	fputc(' ', out);
	page_text(out, limit->now.unit);
	fputs("</span></p>\n", out);
	put_facts(out, limit);
	if (limit->now.n_top > 0) {
		fputs("<ol aria-label=\"who uses most\">\n", out);
		for (unsigned i = 0; i < limit->now.n_top; i++)
			put_user(out, &limit->now.top[i]);
		fputs("</ol>\n", out);
	}
	fputs("</section>\n", out);
}

static void put_limits(FILE *out, const struct node *node)
{
	size_t i;

	if (node->n_limits == 0)
		return;
	fputs("<h2>Limits</h2>\n<div class=\"cards\">\n", out);
	for (i = 0; i < node->n_limits && !page_full(out); i++)
		put_limit(out, &node->limits[i]);
	fputs("</div>\n", out);
	page_left_out(out, node->n_limits - i);
}

static const char *condition_class(const struct condition *condition)
{
	enum verdict verdict = condition_verdict(condition);

	if (verdict != VERDICT_OK)
		return verdict_name(verdict);
	return condition->now.status == CONDITION_FALSE ? "ok" : "dim";
}

static void put_condition(FILE *out, const struct condition *condition)
{
	char since[TIME_TEXT_MAX] = "";

	if (condition->since_us)
		time_text(condition->since_us, since);
	fputs("<tr><th scope=\"row\" title=\"", out);
	page_text(out, condition->now.type->help);
	fputs("\">", out);
	page_text(out, condition->now.type->name);
	fputs("</th><td>", out);
	page_badge(out, condition_class(condition), condition_status_name(condition->now.status));
	fputs("</td><td>", out);
	page_text(out, condition->now.message[0] ? condition->now.message : condition->now.reason);
	fprintf(out, "</td><td class=\"dim num\">%s</td></tr>\n", since);
}

static void put_conditions(FILE *out, const struct node *node)
{
	fputs("<h2>Conditions</h2>\n<div class=\"wide\"><table>\n<thead><tr><th "
	      "scope=\"col\">Condition"
	      "</th><th scope=\"col\">Status</th><th scope=\"col\">Message</th><th "
	      "scope=\"col\">Since"
	      "</th></tr></thead>\n<tbody>\n",
		out);
	/* Problems first. */
	for (size_t i = 0; i < node->n_conditions; i++)
		if (node->conditions[i].now.status == CONDITION_TRUE)
			put_condition(out, &node->conditions[i]);
	for (size_t i = 0; i < node->n_conditions; i++)
		if (node->conditions[i].now.status != CONDITION_TRUE)
			put_condition(out, &node->conditions[i]);
	fputs("</tbody>\n</table></div>\n", out);
}

static const char *setting_class(enum setting_state state)
{
	switch (state) {
	case SETTING_IN_SYNC:
		return "ok";
	case SETTING_FAILED:
		return "critical";
	case SETTING_PENDING:
	case SETTING_DRIFTED:
	case SETTING_YIELDED:
		return "warning";
	case SETTING_UNSUPPORTED:
	case SETTING_OBSERVED:
		break;
	}
	return "dim";
}

static void put_value(FILE *out, const char *value)
{
	fputs("<td><code>", out);
	page_text(out, value);
	fputs("</code></td>", out);
}

static void put_setting(FILE *out, const struct setting *setting)
{
	const char *help = setting->reason ? reason_help(setting->reason) : NULL;

	fputs("<tr><th scope=\"row\">", out);
	page_text(out, setting->want.name);
	fputs("</th><td>", out);
	page_badge(out, setting_class(setting->state), setting_state_name(setting->state));
	fputs("</td>", out);
	put_value(out, setting->want.wanted);
	put_value(out, setting->want.actual);
	put_value(out, setting->original);
	fputs("<td class=\"dim\" title=\"", out);
	page_text(out, help);
	fputs("\">", out);
	page_text(out, setting->reason);
	fputs("</td></tr>\n", out);
}

static void put_settings(FILE *out, const struct node *node)
{
	size_t i;

	if (node->n_settings == 0)
		return;
	fputs("<h2>Settings</h2>\n<div class=\"wide\"><table>\n<thead><tr><th "
	      "scope=\"col\">Setting</th>"
	      "<th scope=\"col\">State</th><th scope=\"col\">Wanted</th><th "
	      "scope=\"col\">Actual</th>"
	      "<th scope=\"col\">Original</th><th "
	      "scope=\"col\">Reason</th></tr></thead>\n<tbody>\n",
		out);
	for (i = 0; i < node->n_settings && !page_full(out); i++)
		put_setting(out, &node->settings[i]);
	fputs("</tbody>\n</table></div>\n", out);
	page_left_out(out, node->n_settings - i);
}

static const char *tuner_class(enum tuner_state state)
{
	if (state == TUNER_ACTIVE)
		return "ok";
	return state == TUNER_DEGRADED ? "warning" : "dim";
}

static void put_tuner(FILE *out, const struct tuner_status *tuner)
{
	fputs("<tr><th scope=\"row\">", out);
	page_text(out, tuner->ops->name);
	fputs("</th><td>", out);
	page_badge(out, tuner_class(tuner->state), tuner_state_name(tuner->state));
	fprintf(out, "</td><td>%s</td><td>", mode_name(tuner->mode));
	page_text(out, tuner->why);
	fputs("</td></tr>\n", out);
}

static void put_tuners(FILE *out, const struct node *node)
{
	if (node->n_tuners == 0)
		return;
	fputs("<h2>Tuners</h2>\n<div class=\"wide\"><table>\n<thead><tr><th "
	      "scope=\"col\">Tuner</th>"
	      "<th scope=\"col\">State</th><th scope=\"col\">Mode</th><th "
	      "scope=\"col\">Why</th></tr>"
	      "</thead>\n<tbody>\n",
		out);
	for (size_t i = 0; i < node->n_tuners; i++)
		put_tuner(out, &node->tuners[i]);
	fputs("</tbody>\n</table></div>\n", out);
}

static void put_page(FILE *out, void *data)
{
	const struct node *node = data;

	put_head(out, node);
	put_header(out, node);
	put_conditions(out, node);
	put_limits(out, node);
	page_documents(out, node);
	put_tuners(out, node);
	put_settings(out, node);
	fputs("</main>\n<footer>Read-only, renewed every 5 seconds. More: <a href=\"/v1/status\">"
	      "/v1/status</a>, <a href=\"/metrics\">/metrics</a>, <a href=\"/health\">/health</a>, "
	      "<a href=\"/readyz?verbose\">/readyz</a>.</footer>\n</body>\n</html>\n",
		out);
}

int report_page(const struct node *node, char **ret, size_t *len)
{
	return document_text(put_page, (void *)node, ret, len);
}
