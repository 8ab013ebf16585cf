/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/log.h"
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
	OPTION_IMAGES = 1 << 5,
	TAKES_NAMES = 1 << 6,
	OPTION_HOST_ROOT = 1 << 7, /* every subcommand */
	OPTION_HELP = 1 << 8,      /* every subcommand */
};

static const struct subcommand {
	const char *name;
	int (*run)(const struct cli *cli);
	unsigned takes;
	const char *usage;
	const char *summary;
} subcommands[] = {
	{"agent", cli_agent, OPTION_CONFIG | OPTION_OBSERVE, "agent [--config F] [--observe]",
		"run the daemon in the foreground"},
	{"status", cli_status, OPTION_CONFIG | OPTION_JSON | OPTION_WATCH,
		"status [--json] [--watch]", "the node at a glance"},
	{"plan", cli_plan, OPTION_CONFIG | OPTION_JSON | OPTION_ONLY, "plan [--json]",
		"what apply would change, and why"},
	{"apply", cli_apply, OPTION_CONFIG | OPTION_ONLY, "apply [--only TUNER]",
		"set what is to be set, once"},
	{"restore", cli_restore, OPTION_CONFIG | OPTION_ONLY | OPTION_IMAGES,
		"restore [--only TUNER] [--images]", "put every original value back"},
	{"top", cli_top, OPTION_CONFIG | TAKES_NAMES, "top [dns|neighbor]", "live: who uses what"},
	{"explain", cli_explain, OPTION_CONFIG | TAKES_NAMES, "explain [NAME]",
		"a limit, setting, condition, reason or config key"},
	{"check-config", cli_check_config, OPTION_CONFIG | TAKES_NAMES, "check-config [F...]",
		"file:line:column: message, for every fault"},
	{"version", cli_version, OPTION_CONFIG | OPTION_JSON, "version [--json]",
		"version, and what this node can run"},
};

static const struct option long_options[] = {
	{"config", required_argument, NULL, OPTION_CONFIG},
	{"observe", no_argument, NULL, OPTION_OBSERVE},
	{"only", required_argument, NULL, OPTION_ONLY},
	{"json", no_argument, NULL, OPTION_JSON},
	{"watch", no_argument, NULL, OPTION_WATCH},
	{"images", no_argument, NULL, OPTION_IMAGES},
	{"host-root", required_argument, NULL, OPTION_HOST_ROOT},
	{"help", no_argument, NULL, OPTION_HELP},
	{0},
};

int cli_fail(const char *object, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "headroom: %s: ", object);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return EXIT_FAILED;
}

static void print_usage(FILE *out)
{
	fputs("usage: headroom SUBCOMMAND [--config F] [--host-root DIR] ...\n\n", out);
	for (size_t i = 0; i < ARRAY_SIZE(subcommands); i++)
		fprintf(out, "  %-34s %s\n", subcommands[i].usage, subcommands[i].summary);
	fputs("\nManual: headroom(8), headroom.yaml(5)\n", out);
}

static int usage_error(const struct subcommand *subcommand, const char *what, const char *word)
{
	fprintf(stderr, "headroom: %s: %s: usage: headroom %s\n", word, what, subcommand->usage);
	return EXIT_USAGE;
}

static bool take_option(struct cli *cli, int option)
{
	switch (option) {
	case OPTION_CONFIG:
		cli->core.config_file = optarg;
		return true;
	case OPTION_OBSERVE:
		return cli->core.observe = true;
	case OPTION_ONLY:
		cli->only = optarg;
		return tuner_find(optarg) != NULL;
	case OPTION_JSON:
		return cli->json = true;
	case OPTION_HELP:
		return cli->help = true;
	case OPTION_WATCH:
		return cli->watch = true;
	case OPTION_HOST_ROOT:
		cli->core.host_root = optarg;
		return true;
	default:
		/* --images: this version preloads none, so there is nothing more to remove. */
		return true;
	}
}

static int parse(const struct subcommand *subcommand, int argc, char **argv, struct cli *cli)
{
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		unsigned allowed = subcommand->takes | OPTION_HOST_ROOT | OPTION_HELP;

		if (option == '?' || !((unsigned)option & allowed))
			return usage_error(
				subcommand, "wrong option or no value for it", argv[optind - 1]);
		if (!take_option(cli, option))
			return usage_error(subcommand, "no tuner of this name", optarg);
	}
	cli->names = argv + optind;
	cli->n_names = argc - optind;
	if (cli->n_names > 0 && !(subcommand->takes & TAKES_NAMES))
		return usage_error(subcommand, "unexpected argument", cli->names[0]);
	return 0;
}

static int run(const struct subcommand *subcommand, int argc, char **argv)
{
	const char *host_root = getenv("HEADROOM_HOST_ROOT");
	struct cli cli = {.core.host_root = host_root ? host_root : ""};
	int r = parse(subcommand, argc, argv, &cli);

	if (r != 0)
		return r;
	if (cli.help)
		printf("usage: headroom %s\n\n%s\n", subcommand->usage, subcommand->summary);
	else
		r = subcommand->run(&cli);
	/* A script must not take half an answer, on a full disk, for a whole one. */
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
	for (size_t i = 0; i < ARRAY_SIZE(subcommands); i++)
		if (streq(name, subcommands[i].name))
			return run(&subcommands[i], argc - 1, argv + 1);
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
