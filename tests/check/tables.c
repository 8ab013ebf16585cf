// SPDX-License-Identifier: Apache-2.0

/*
 * Prints the program's own tables for the checks:
 *   tables names             a line "KIND<tab>NAME" for each name that `explain` knows
 *   tables limits            "NAME<tab>USED<tab>MAX": limits and the files they are read from
 *   tables words             the headings of the tables of `top` and of the page
 *   tables page              the status page of this node, in observe mode
 *   tables metrics made-up   the metrics of a made-up node with all kinds of data
 *   tables metrics node      the metrics of this node, in observe mode
 * A third argument "openmetrics" selects that format.
 */

#include "../unit/fake_node.h"

#include "agent/core.h"
#include "base/log.h"
#include "report/report.h"
#include "tuners/dns/dns.h"
#include "tuners/table.h"

/* More servers than labels, so that some are summed as "other". One server has a budget. */
static bool make_up_dns(struct dns_server_table *table)
{
	for (uint8_t i = 0; i < DNS_LABELS + 2; i++) {
		const struct dns_counters more = {.queries = {100, i},
			.latency = {[3] = 90},
			.responses = {[DNS_NOERROR] = 80, [DNS_NXDOMAIN] = 10}};
		struct dns_server_state *server =
			dns_server_get(table, &(struct dns_address){{0xfd, [15] = i}});

		if (!server)
			return false;
		server->role = i == 1 ? DNS_CLUSTER : DNS_UPSTREAM;
		server->budget.max[DNS_QUERIES] = i == 0 ? 1024 : 0;
		dns_label_claim(table, server, 0);
		dns_server_add(table, server, &more, 1);
	}
	return true;
}

static void put_made_up_dns(const void *self, const void *, struct metric_sink *sink)
{
	const struct dns_memory none = {0};

	dns_put_metrics(self, &none, sink);
}

static int print_made_up_metrics(bool openmetrics)
{
	static const struct tuner_ops made_up_dns = {
		.name = "dns", .tables = &dns_tables, .metrics = put_made_up_dns};
	struct dns_sensor *sensor = calloc(1, sizeof(*sensor));
	struct fake_node fake;
	int r = 1;

	fake_node_make(&fake);
	fake.tuners[1].ops = &made_up_dns;
	fake.tuners[1].self = sensor;
	if (!sensor)
		return 1;
	sensor->seen.watched = true;
	if (make_up_dns(&sensor->seen.table)) {
		report_metrics(stdout, &fake.node, openmetrics);
		r = 0;
	}
	dns_server_table_clear(&sensor->seen.table);
	free(sensor);
	return r;
}

static int print_node(bool page, bool openmetrics)
{
	struct config_source source = {.file = "/nonexistent", .optional = true};
	struct core_options options = {.host_root = "", .observe = true};
	struct config_fault_list faults = {0};
	struct config *config = NULL;
	struct core core = {0};
	int r = core_load_config(&source, &config, &faults);

	config_faults_clear(&faults);
	if (r < 0)
		return 1;
	r = core_open(&core, &options, NULL, config);
	if (r == 0)
		core_poll(&core);
	if (r == 0 && page)
		report_page(stdout, &core.node, false);
	else if (r == 0)
		report_metrics(stdout, &core.node, openmetrics);
	core_close(&core);
	return r == 0 ? 0 : 1;
}

static void print_headings(void)
{
	for (size_t i = 0; tuner_table[i]; i++)
		for (const struct table_view *view = tuner_table[i]->tables->view; view;
			view = view->next)
			for (const struct column *column = view->columns;
				column->key || column->write; column++)
				printf("%s\n%s\n", column->title ? column->title : "",
					column->heading ? column->heading : "");
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "", *which = argc > 2 ? argv[2] : "";
	bool openmetrics = argc > 3;

	log_init(LOG_ERR);
	if (streq(what, "names") || streq(what, "limits")) {
		size_t n;
		_cleanup_free_ struct help_entry *entries = all_entries(&n);

		for (const struct help_entry *entry = entries; entry < entries + n; entry++)
			if (streq(what, "names") && entry->kind != ENTRY_PROFILE_SETTING)
				printf("%s\t%s\n", entry_kind_names[entry->kind], entry->name);
			else if (streq(what, "limits") && entry->kind == ENTRY_LIMIT &&
				 entry->limit->used.path)
				printf("%s\t%s\t%s\n", entry->name, entry->limit->used.path,
					entry->limit->max.path);
		return 0;
	}
	if (streq(what, "metrics") && streq(which, "made-up"))
		return print_made_up_metrics(openmetrics);
	if (streq(what, "metrics") && streq(which, "node"))
		return print_node(false, openmetrics);
	if (streq(what, "page"))
		return print_node(true, false);
	if (streq(what, "words")) {
		print_headings();
		return 0;
	}
	return 64;
}
