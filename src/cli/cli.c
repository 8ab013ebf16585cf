/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "agent/agent.h"
#include "base/log.h"
#include "base/text.h"
#include "base/util.h"
#include "tuners/table.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>

enum {
	OPTION_CONFIG = 1 << 0,
	OPTION_OBSERVE = 1 << 1,
	OPTION_ONLY = 1 << 2,
	OPTION_JSON = 1 << 3,
	OPTION_WATCH = 1 << 4,
	OPTION_HOST_ROOT = 1 << 5,
	OPTION_HELP = 1 << 6,
};

static int run_agent(const struct cli *cli)
{
	struct core_options options = cli->core;

	options.watch = true;
	return agent_run(&options);
}

const struct cli_option cli_options[] = {
	{"config", "FILE", OPTION_CONFIG,
		"Reads this file alone, instead of /etc/headroom/headroom.yaml and the files in "
		"conf.d."},
	{"host-root", "DIR", OPTION_HOST_ROOT,
		"Where the node's file systems are mounted, when this is a container."},
	{"observe", NULL, OPTION_OBSERVE,
		"Only observes, whatever the configuration says: nothing is written."},
	{"only", "TUNER", OPTION_ONLY, "One tuner instead of all."},
	{"json", NULL, OPTION_JSON, "Prints JSON instead of text."},
	{"watch", NULL, OPTION_WATCH, "Prints again every two seconds."},
	{"help", NULL, OPTION_HELP, "Prints the usage."},
	{0},
};

const struct cli_command cli_commands[] = {
	{"agent", run_agent, OPTION_OBSERVE, NULL, "run the daemon in the foreground",
		"The daemon, in the foreground: sets what is configured, then checks it every "
		"second. Ends with 0 on SIGTERM."},
	{"status", cli_status, OPTION_JSON | OPTION_WATCH, NULL,
		"limits, settings and conditions of this node",
		"The node at a glance: limits, settings, tuners, pulls and conditions, from the "
		"running agent, else from a reading of its own. With --json it is the document of "
		"/v1/status."},
	{"plan", cli_plan, OPTION_JSON | OPTION_ONLY, NULL, "what apply would change, and why",
		"What apply would change, and why. Changes nothing; needs no agent."},
	{"apply", cli_apply, OPTION_ONLY, NULL, "set the configured values, once",
		"Sets the configured values once, through the running agent, else by itself under "
		"the same lock. It ends a release by restore, and retries settings that were left "
		"to someone else."},
	{"restore", cli_restore, OPTION_ONLY, NULL, "restore every original value",
		"Restores every original value and file. Values changed by others since are left "
		"alone and reported. The tuners are then released: they only observe until apply, "
		"whatever the configuration says."},
	{"top", cli_top, 0, "[dns|neighbor]", "live: who uses what",
		"Who uses how much of a limit: pods, containers, units, network namespaces. dns: "
		"each DNS server that this node uses, its role, queries now, the busiest second of "
		"the last minute, its budget, pending and unanswered queries, and the latency of "
		"half and of 99 % of the answers; then who sends the queries, and the names "
		"queried most, from a sample and only for those who may open the agent's socket. "
		"Live on a terminal, else once."},
	{"explain", cli_explain, 0, "[NAME...]",
		"a limit, setting, condition, reason, metric or key",
		"What a limit, setting, condition, reason, metric, profile, configuration key or "
		"any word of status is: why it matters, its unit, default and source. Without a "
		"name it lists all."},
	{"check-config", cli_check_config, 0, "[FILE...]",
		"file:line:column: message, for every fault",
		"Reads the configuration, or the files named, and prints each fault as "
		"file:line:column: message."},
	{"version", cli_version, OPTION_JSON, NULL, "version, and what this node can run",
		"The version, the commit, and for each tuner whether this node can run it and why "
		"not."},
	{0},
};

int cli_fail(const char *object, const char *format, ...)
{
	char what[2048], where[256];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	copy_text(where, sizeof(where), object);
	text_make_printable(where);
	text_make_printable(what);
	fprintf(stderr, "headroom: %s: %s\n", where, what);
	return EXIT_FAILED;
}

void cli_usage(const struct cli_command *command, char usage[static CLI_USAGE_MAX])
{
	int used = snprintf(usage, CLI_USAGE_MAX, "%s", command->name);

	for (const struct cli_option *option = cli_options; option->name; option++)
		if (option->bit & command->takes)
			used += snprintf(usage + used, CLI_USAGE_MAX - (size_t)used, " [--%s%s%s]",
				option->name, option->argument ? " " : "",
				option->argument ? option->argument : "");
	if (command->names)
		snprintf(usage + used, CLI_USAGE_MAX - (size_t)used, " %s", command->names);
}

static void print_usage(FILE *out)
{
	char usage[CLI_USAGE_MAX];

	fputs("usage: headroom COMMAND [--config FILE] [--host-root DIR] ...\n\n", out);
	for (const struct cli_command *command = cli_commands; command->name; command++) {
		cli_usage(command, usage);
		fprintf(out, "  %-34s %s\n", usage, command->summary);
	}
	fputs("\nManual: headroom(8), headroom.yaml(5)\n", out);
}

static int usage_error(const struct cli_command *command, const char *what, const char *word)
{
	char usage[CLI_USAGE_MAX];

	cli_usage(command, usage);
	cli_fail(word, "%s: usage: headroom %s", what, usage);
	return EXIT_USAGE;
}

/* False for a value that the option does not take. */
static bool take_option(struct cli *cli, int option)
{
	cli->core.observe |= option == OPTION_OBSERVE;
	cli->json |= option == OPTION_JSON;
	cli->watch |= option == OPTION_WATCH;
	cli->help |= option == OPTION_HELP;
	if (option == OPTION_CONFIG)
		cli->core.config_file = optarg;
	if (option == OPTION_HOST_ROOT)
		cli->core.host_root = optarg;
	if (option == OPTION_ONLY)
		cli->only = optarg;
	return option != OPTION_ONLY || tuner_find(optarg);
}

static int parse(const struct cli_command *command, int argc, char **argv, struct cli *cli)
{
	struct option options[ARRAY_SIZE(cli_options)] = {0};
	int option;

	for (size_t i = 0; cli_options[i].name; i++)
		options[i] = (struct option){.name = cli_options[i].name,
			.has_arg = cli_options[i].argument ? required_argument : no_argument,
			.val = (int)cli_options[i].bit};
	opterr = 0;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == '?' || !((unsigned)option & (command->takes | OPTIONS_OF_ALL)))
			return usage_error(
				command, "wrong option or no value for it", argv[optind - 1]);
		if (!take_option(cli, option))
			return usage_error(command, "no tuner of this name", optarg);
	}
	cli->names = argv + optind;
	cli->n_names = argc - optind;
	if (cli->n_names > 0 && !command->names)
		return usage_error(command, "unexpected argument", cli->names[0]);
	return 0;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
	const char *host_root = getenv("HEADROOM_HOST_ROOT");
	struct cli cli = {.core.host_root = host_root ? host_root : ""};
	char usage[CLI_USAGE_MAX];
	int r = parse(command, argc, argv, &cli);

	if (r != 0)
		return r;
	if (cli.help) {
		cli_usage(command, usage);
		printf("usage: headroom %s\n\n%s\n", usage, command->help);
	} else {
		r = command->run(&cli);
	}
	/* On a full disk, a script must not take half an answer for a whole one. */
	if (fflush(stdout) != 0 || ferror(stdout))
		return cli_fail("standard output", "%s", strerror(errno));
	return r;
}

int cli_main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	if (streq(name, "--help") || streq(name, "-h") || streq(name, "help")) {
		print_usage(stdout);
		return EXIT_OK;
	}
	if (streq(name, "--version"))
		name = "version";
	/* A command prints what it did; the agent has only its log. */
	log_init(streq(name, "agent") ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING);
	for (const struct cli_command *command = cli_commands; command->name; command++)
		if (streq(name, command->name))
			return run(command, argc - 1, argv + 1);
	print_usage(stderr);
	return EXIT_USAGE;
}

struct config *cli_load_config(const struct cli *cli)
{
	struct config_source source = core_source(cli->core.config_file);
	struct config_fault_list faults = {0};
	struct config *config = NULL;
	int r = core_load_config(&source, &config, &faults, NULL);

	for (size_t i = 0; i < faults.n; i++)
		fprintf(stderr, "%s:%u:%u: %s\n", faults.faults[i].file, faults.faults[i].line,
			faults.faults[i].column, faults.faults[i].message);
	if (r < 0 && faults.n == 0)
		cli_fail("config", "%s", strerror(-r));
	config_faults_clear(&faults);
	return config;
}

struct config *cli_any_config(const struct cli *cli, bool *faulty)
{
	struct config *config = cli_load_config(cli);

	if (faulty)
		*faulty = !config;
	return config ? config : core_default_config();
}
