/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Example tables of options, and helpers that load and compare configurations. */

#include "directory.h"

#include "config_text.h"
#include "tuners/table.h"

static const char *const fixture_modes[] = {"enforce", "observe", "off", NULL};
static const char *const fixture_keep[] = {"keep", NULL};
static const char *const fixture_auto[] = {"auto", NULL};
static const char *const fixture_off[] = {"off", NULL};
static const char *const fixture_kinds[] = {"upstream", "cluster", NULL};

static const struct config_option fixture_text_item[] = {
	{"", OPTION_TEXT, .min = 1, .max = 20}, {0}};
static const struct config_option fixture_count_item[] = {
	{"", OPTION_COUNT, .max = 65535, .choices = fixture_auto}, {0}};
static const struct config_option fixture_budget[] = {
	{"server", OPTION_TEXT, .min = 1},
	{"qps", OPTION_COUNT, 1, 9999, .choices = fixture_auto},
	{"tcp", OPTION_BOOL, .def = "true"},
	{"every", OPTION_DURATION, .choices = fixture_off, .def = "1s"},
	{"kind", OPTION_CHOICE, .choices = fixture_kinds, .def = "upstream"},
	{0},
};

static const struct config_option fixture_options[] = {
	{"neighbor.mode", OPTION_CHOICE, .choices = fixture_modes, .def = "enforce"},
	{"neighbor.ipv4", OPTION_CHOICE, .choices = fixture_keep},
	{"neighbor.ipv4.gc_thresh1", OPTION_COUNT, 1, INT32_MAX, .unit = "entries", .def = "80000"},
	{"neighbor.ipv4.gc_thresh3", OPTION_COUNT, 1, INT32_MAX, .def = "100000"},
	{"neighbor.grow", OPTION_BOOL, .def = "true"},
	{"neighbor.ceiling", OPTION_COUNT, 1, 1048576, fixture_auto, "entries", .def = "auto"},
	{"sysctl", OPTION_SYSCTLS, .def = NULL},
	{"sysctl.mode", OPTION_CHOICE, .choices = fixture_modes, .def = "enforce"},
	{"watch.timeout", OPTION_DURATION, 1000000, UINT64_C(86400000000), fixture_off,
		.def = "30m"},
	{"watch.domains", OPTION_LIST, .max = 3, .def = "[cluster.local]",
		.items = fixture_text_item},
	{"watch.servers", OPTION_LIST, .choices = fixture_auto, .def = "auto",
		.items = fixture_text_item},
	{"watch.ports", OPTION_LIST, .items = fixture_count_item},
	{"watch.budgets", OPTION_LIST, .def = "[{server: auto}]", .items = fixture_budget},
	{0},
};

static const struct config_option *const fixture_tables[] = {core_options, fixture_options, NULL};

static inline struct loaded load_text(const char *text)
{
	return load_bytes(fixture_tables, text, strlen(text));
}

/* Loads the file /F and the directory /d. */
static inline struct loaded load_directory(const struct directory *directory)
{
	struct path main = directory_at(directory, "/F"), others = directory_at(directory, "/d");

	return load_source(fixture_tables,
		&(struct config_source){
			.file = main.text, .directory = others.text, .draft = true});
}

/* Loads a text with the options of the program. */
static inline struct loaded load_options(const char *text)
{
	return load_bytes(option_tables, text, strlen(text));
}

static inline void print_faults(const struct loaded *loaded)
{
	config_faults_print(stdout, &loaded->faults, "");
}

/* Expects exactly one fault, at this position and with these words. */
static inline void assert_one_fault(
	const struct loaded *loaded, unsigned line, unsigned column, const char *words)
{
	const struct config_fault *fault = loaded->faults.faults;

	print_faults(loaded);
	assert_int_equal(loaded->result, -22);
	assert_null(loaded->config);
	assert_int_equal(loaded->faults.n, 1);
	assert_int_equal(fault->line, line);
	assert_int_equal(fault->column, column);
	assert_non_null(strstr(fault->message, words));
	assert_null(strchr(fault->message, '\n'));
	assert_true(strlen(fault->message) < sizeof(fault->message) - 1);
}

static inline void assert_loaded(const struct loaded *loaded)
{
	print_faults(loaded);
	assert_int_equal(loaded->result, 0);
	assert_int_equal(loaded->faults.n, 0);
}
