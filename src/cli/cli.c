/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/build.h"
#include "base/log.h"
#include "report/report.h"
#include "runtime/http_client.h"
#include "tuners/table.h"

#include <getopt.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sysexits.h>

/* An agent answers at once. An apply may restart a runtime twice and wait for it each time. */
#define TIMEOUT_US        (2 * USEC_PER_SEC)
#define CHANGE_TIMEOUT_US (180 * USEC_PER_SEC)

static int show_help(const struct cli *cli);

static int run_agent(const struct cli *cli)
{
	log_begin_agent();
	return agent_run(&cli->core);
}

const struct cli_option cli_options[] = {
	{"config", "FILE",
		"Reads only this file instead of /etc/headroom/headroom.yaml and the files in "
		"conf.d.",
		offsetof(struct cli, core.config_file)},
	{"host-root", "DIR", "Where a container finds the file systems of the node.",
		offsetof(struct cli, core.host_root)},
	{"observe", NULL, "Writes nothing, whatever the configuration says.",
		offsetof(struct cli, core.observe)},
	{"only", "TUNER", "Limits the command to one tuner.", offsetof(struct cli, only)},
	{"plan", NULL, "Shows what the command would do, and changes nothing.",
		offsetof(struct cli, plan)},
	{"purge", NULL,
		"Also removes all records and their directories, before Headroom is removed. Waits "
		"up to 20 s for the agent to end. A new agent then enforces.",
		offsetof(struct cli, purge)},
	{"force", NULL, "Also restores the values of another installation.",
		offsetof(struct cli, force)},
	{"json", NULL, "Prints JSON instead of text.", offsetof(struct cli, json)},
	{"watch", NULL, "Repeats every two seconds.", offsetof(struct cli, watch)},
	{"probe", "PATH",
		"Fails unless the agent answers this path, such as /livez, with 200 on its socket. "
		"For /readyz it waits up to 3 s, and prints why the agent is not ready.",
		offsetof(struct cli, probe)},
	{"bundle", "FILE",
		"Also writes a tar for support to FILE, or to standard output if it is - (the text "
		"then goes nowhere): status, metrics, log, configuration without secrets, incidents and facts "
		"of the kernel.",
		offsetof(struct cli, bundle)},
	{"prometheus", "URL",
		"Asks this server: Prometheus, Thanos, Mimir or VictoriaMetrics, with its path "
		"prefix, such as https://mimir.example.com/prometheus.",
		offsetof(struct cli, prometheus)},
	{"finding", "NAME",
		"Lists the nodes that have this condition, or a finding about this object.",
		offsetof(struct cli, finding)},
	{"by", "LABEL",
		"Groups the nodes by a label: version, commit, hash, profile, or any label that "
		"Prometheus gives its targets, such as cluster or zone.",
		offsetof(struct cli, by)},
	{"diff", "A B",
		"Compares the nodes with two values of the label of --by. Without --by the label is "
		"version.",
		offsetof(struct cli, diff)},
	{"token-file", "FILE", "Sends the bearer token in this file.",
		offsetof(struct cli, token_file)},
	{"header", "LINE",
		"Sends this header, such as 'X-Scope-OrgID: TENANT'. May be given several times.",
		offsetof(struct cli, headers), .repeats = true},
	{"ca", "FILE", "Trusts only the certificates in this file.", offsetof(struct cli, ca)},
	{"help", NULL, "Prints the usage, as -h does.", offsetof(struct cli, help)},
	{0},
};

const struct cli_command cli_commands[] = {
	{"agent", run_agent, "observe", NULL, "run the daemon in the foreground",
		"Runs the daemon in the foreground. It sets the configured values, then checks "
		"them every second. SIGTERM ends it with exit code 0.",
		"headroom agent --observe"},
	{"status", cli_status, "json watch probe", NULL,
		"limits, settings and conditions of this node",
		"Shows limits, settings, tuners, pulls and conditions, as the running agent "
		"reports them. If no agent runs, the command reads the node itself. --json prints "
		"the document of /v1/status.",
		"headroom status --watch"},
	{"plan", cli_plan, "only json", NULL, "what apply would change, and why",
		"Shows what apply would change, and why. It changes nothing and needs no agent.",
		"headroom plan --only neighbor"},
	{"apply", cli_apply, "only", NULL, "set the configured values, once",
		"Sets the configured values once, through the running agent. If no agent runs, the "
		"command sets them itself under the same lock. Released tuners enforce again, and "
		"settings that were left to someone else are tried again.",
		"headroom apply --only thp"},
	{"restore", cli_restore, "only plan json purge force", NULL, "restore every original value",
		"Restores every original value and file. Values that others changed since are left "
		"alone and reported, and images stay. With --plan it only shows what it would do, "
		"what it would leave, and why; --json prints that as JSON. The tuners are then released: they only observe until apply, "
		"whatever the configuration says.",
		"headroom restore --only sysctl"},
	{"top", cli_top, "", "[TUNER|LIMIT]", "live: who uses what",
		"Shows the users of each limit: pods, containers, units, network namespaces and "
		"users. With the name of a tuner it shows that tuner alone; limits shows all limits "
		"without a tuner of their own. With the name of a limit, or its first part such as "
		"inotify, it also shows what breaks and what to do. "
		"dns shows each DNS server that this node uses: its role, current queries per "
		"second, the busiest second of the last minute, the budget, pending and unanswered "
		"queries, and the median and 99th percentile of the latency. It also shows the "
		"clients of each server and a sample of the most frequent names; names need access "
		"to the agent's socket. "
		"pulls shows each image that is being pulled: what has come in, the rate and the "
		"time left; and the pods that run no container yet. On a terminal the view is live: s sorts by the next "
		"column, the arrows and page keys scroll, / shows only the rows with a text and "
		"their headings, ? "
		"lists the keys, q quits.",
		"headroom top dns"},
	{"images", cli_images, "json", NULL, "images that are preloaded",
		"Shows the images of images.archives and images.pull, which are loaded before a "
		"pod needs them: state, size, progress, duration, source, and whether each is "
		"pinned. --json prints the images of /v1/status as an object with schema.",
		"headroom images"},
	{"doctor", cli_doctor, "json bundle", NULL, "what needs action, and what to type",
		"Checks the conditions, limits and settings of this node, the agent, the configuration, "
		"user namespaces, memory for BPF programs, IPv6 routes and capabilities. It prints "
		"only problems: the workload, what breaks, the command that helps now, and the "
		"permanent cure. The last line has the verdict. It works without an agent, and while "
		"the agent hangs or keeps restarting. doctor.ignore names checks that need no action. --json prints all checks.",
		"headroom doctor --bundle headroom.tar"},
	{"incidents", cli_incidents, "json", "[ID]", "what happened: all, or one in detail",
		"Lists the recorded incidents, newest first. With an ID it shows one: a sentence, "
		"the limits in the minute before and after, their largest users, the settings, "
		"conditions and workloads that changed, what breaks, and the command that helps. "
		"The agent records an incident when a limit is reached or 99 % used, a critical "
		"condition or one about drift or stuck pulls becomes True, and when it starts. The "
		"command reads the files and needs no agent. Without root it asks the agent, at "
		"http.listen.",
		"headroom incidents"},
	{"fleet", cli_fleet, "prometheus finding by diff token-file header ca json", NULL,
		"all nodes of a Prometheus: verdicts, findings, versions",
		"Shows all nodes whose agents this Prometheus scrapes: how many have which verdict, "
		"version, configuration and profile; the findings by number of nodes, with the first "
		"nodes and the user that most of them name; the nodes that stopped reporting; and the "
		"images that are preloaded. It asks Prometheus alone, never the API server or a node, "
		"with eleven queries. Nodes differ in the labels cluster and instance. A "
		"node stopped reporting if its target fails, or if the target disappeared within the "
		"last hour.",
		"headroom fleet --prometheus http://prometheus:9090 --by profile"},
	{"explain", cli_explain, "", "[NAME...]",
		"a limit, setting, condition, reason, metric or key",
		"Explains a limit, setting, condition, reason, metric, profile, configuration key, "
		"alert, member of a JSON document or any word that status prints: its meaning, unit, "
		"default and source. Without a name it lists all names.",
		"headroom explain neighbor/ipv4 NeighborTablePressure"},
	{"check-config", cli_check_config, "", "[FILE...]",
		"file:line:column: message, for every fault",
		"Checks the configuration, or the given files, and prints each fault as "
		"file:line:column: message. It warns of what looks like a mistake: a file of conf.d "
		"that is not read, a port that is open to everyone, a text with ${NAME}. Without a "
		"fault the last line is OK and the files.",
		"headroom check-config /etc/headroom/headroom.yaml"},
	{"config", cli_config, "json", NULL,
		"the merged configuration, and where each value is from",
		"Prints the configuration that the files, the profile and the defaults give, as "
		"YAML that headroom reads. A comment behind each value names its file and line, "
		"or the profile, or default. Passwords in URLs are left out.",
		"headroom config"},
	{"help", show_help, "", "[COMMAND]", "the usage, or that of a command",
		"Prints the usage, as --help does. With the name of a command it prints the usage, "
		"options and exit codes of that command.",
		"headroom help top"},
	{"version", cli_version, "json", NULL, "version, and what this node can run",
		"Prints the version and the commit, and asks the running agent for its own and for "
		"each tuner: whether this node can run it, or why not. Without an agent, doctor "
		"shows it.",
		"headroom version --json"},
	{0},
};

const struct cli_exit cli_exits[] = {
	{EXIT_OK, "agent", "SIGTERM or SIGINT ended it."},
	{EXIT_OK, "status", "The verdict is ok; with --probe: the agent answers with 200."},
	{EXIT_OK, "plan", "Nothing to change."},
	{EXIT_OK, "restore", "Success; with --plan: nothing to restore."},
	{EXIT_OK, "doctor", "The verdict is ok."},
	{EXIT_OK, "fleet",
		"All nodes report and their verdict is ok; with --finding: no node has it."},
	{EXIT_OK, "apply top images incidents explain check-config config help version",
		"Success."},
	{EXIT_FAILED, NULL, "Failure; stderr names the object, the error and the cure."},
	{EXIT_FAILED, "doctor", "Something could not be checked."},
	{EXIT_FAILED, "incidents explain", "The name is unknown."},
	{EXIT_FAILED, "check-config config", "The configuration has a fault."},
	{EXIT_ATTENTION, "status doctor", "There is a warning or a critical condition."},
	{EXIT_ATTENTION, "plan", "Changes are pending."},
	{EXIT_ATTENTION, "restore", "With --plan: there is something to restore."},
	{EXIT_ATTENTION, "fleet",
		"A node has a warning or a critical condition, does not report, or its verdict is "
		"unknown; or the answer is incomplete; with --finding: a node has it."},
	{EXIT_USAGE, NULL, "Wrong usage."},
	{EX_TEMPFAIL, "agent",
		"Another agent, which stderr names, sets the values of this node. The unit does not "
		"restart then."},
	{0},
};

int cli_fail(const char *object, const char *format, ...)
{
	char text[2304];
	va_list args;

	snprintf(text, sizeof(text), "%.255s: ", object);
	va_start(args, format);
	vsnprintf(text + strlen(text), sizeof(text) - strlen(text), format, args);
	va_end(args);
	text_make_printable(text);
	fprintf(stderr, "headroom: %s\n", text);
	return EXIT_FAILED;
}

const struct cli_command *cli_find_command(const char *name)
{
	for (const struct cli_command *command = cli_commands; command->name; command++)
		if (streq(command->name, name))
			return command;
	return NULL;
}

bool cli_has_option(const struct cli_command *command, const struct cli_option *option, bool common)
{
	return (common && text_has_word("config host-root help", option->name)) ||
	       text_has_word(command->options, option->name);
}

bool cli_has_exit(const struct cli_command *command, const struct cli_exit *row)
{
	return !row->commands || text_has_word(row->commands, command->name);
}

void cli_usage(const struct cli_command *command, char usage[static CLI_USAGE_MAX])
{
	int used = snprintf(usage, CLI_USAGE_MAX, "%s", command->name);

	for (const struct cli_option *option = cli_options; option->name; option++)
		if (cli_has_option(command, option, false))
			used += snprintf(usage + used, CLI_USAGE_MAX - (size_t)used, " [--%s%s%s]",
				option->name, option->argument ? " " : "",
				option->argument ? option->argument : "");
	if (command->names)
		snprintf(usage + used, CLI_USAGE_MAX - (size_t)used, " %s", command->names);
}

/* A pipe without COLUMNS gets lines of this width, as manuals have. */
#define HELP_WIDTH 80

static struct screen help_screen(FILE *out)
{
	struct screen screen = screen_open();

	screen.out = out;
	screen.live = false;
	if (screen.width == INT_MAX)
		screen.width = HELP_WIDTH;
	return screen;
}

static void print_usage(FILE *out)
{
	struct screen screen = help_screen(out);

	draw(&screen, COLOR_NONE, "usage: headroom COMMAND [OPTION...]\n\n");
	for (const struct cli_command *command = cli_commands; command->name; command++)
		draw_field(&screen, COLOR_NONE, 2, 13, command->name, command->summary);
	draw(&screen, COLOR_NONE, "\n");
	draw_wrapped(&screen, 0,
		"headroom COMMAND --help lists the options and exit codes of a command.");
	draw_wrapped(&screen, 0, "headroom --version, or -V, prints the version.");
	draw_wrapped(&screen, 0,
		"Manuals: headroom(8), headroom-limits(7), headroom-metrics(7), headroom-images(7), "
		"headroom.yaml(5)");
}

static void print_help(const struct cli_command *command)
{
	struct screen screen = help_screen(stdout);
	char usage[CLI_USAGE_MAX];
	int last = -1;

	cli_usage(command, usage);
	draw(&screen, COLOR_NONE, "usage: headroom ");
	draw_wrapped(&screen, 16, "%s", usage);
	draw(&screen, COLOR_NONE, "\n");
	draw_wrapped(&screen, 0, "%s", command->help);
	draw(&screen, COLOR_NONE, "\nOptions:\n");
	for (const struct cli_option *option = cli_options; option->name; option++)
		if (cli_has_option(command, option, true)) {
			draw(&screen, COLOR_NONE, "  --%-10s %-5s ", option->name,
				option->argument ? option->argument : "");
			draw_wrapped(&screen, 21, "%s", option->help);
		}
	draw(&screen, COLOR_NONE, "\nExample:\n  %s\n\nExit codes:\n", command->example);
	for (const struct cli_exit *row = cli_exits; row->help; row++) {
		if (!cli_has_exit(command, row))
			continue;
		if (row->code == last)
			draw(&screen, COLOR_NONE, "      ");
		else
			draw(&screen, COLOR_NONE, "  %2d  ", row->code);
		last = row->code;
		draw_wrapped(&screen, 6, "%s", row->help);
	}
}

static int usage_error(const struct cli_command *command, const char *what, const char *word)
{
	char usage[CLI_USAGE_MAX];

	cli_usage(command, usage);
	cli_fail(word, "%s: usage: headroom %s", what, usage);
	return EXIT_USAGE;
}

/* Returns whether the tuner has an entry that the word matches so well. */
static bool tuner_knows(const char *tuner, const struct help_entry *entries, size_t n,
	const char *word, enum name_match match)
{
	for (size_t i = 0; i < n && match != NAME_NOT; i++)
		if (entries[i].tuner && streq(entries[i].tuner, tuner) &&
			name_matches(&entries[i], word) == match)
			return true;
	return false;
}

/* Names the tuners whose names a word, or else the name nearest to it, matches best. */
static int unknown_tuner(const struct cli_command *command, const char *word)
{
	size_t n;
	_cleanup_free_ struct help_entry *entries = all_entries(&n);
	struct suggestion nearest = {0}, name = {0};
	const char *known = word;
	char tuners[128] = "", all[256] = "", what[512];
	enum name_match match;

	if (names_match(entries, n, word) == NAME_NOT) {
		names_suggest(entries, n, word, NULL, &name);
		known = name.word;
	}
	match = known[0] ? names_match(entries, n, known) : NAME_NOT;
	for (size_t i = 0; tuner_table[i]; i++) {
		const char *tuner = tuner_table[i]->name;

		suggest_offer(&nearest, word, tuner);
		text_append(all, sizeof(all), "%s%s", i > 0 ? ", " : "", tuner);
		if (tuner_knows(tuner, entries, n, known, match))
			text_append(tuners, sizeof(tuners), "%s%s", tuners[0] ? " or " : "", tuner);
	}
	if (!tuners[0] && strchr(word, '.'))
		set_text(tuners, "sysctl");
	if (nearest.word[0] || tuners[0])
		snprintf(what, sizeof(what), "unknown tuner: did you mean %s?",
			nearest.word[0] ? nearest.word : tuners);
	else
		snprintf(what, sizeof(what), "unknown tuner: not one of %s", all);
	return usage_error(command, what, word);
}

/* Reports a word that is an option of no command, or not of this command. */
static int unknown_option(const struct cli_command *command, const char *word)
{
	struct suggestion nearest = {0};
	_cleanup_free_ char *name = must(strdup(word + strspn(word, "-")));
	char what[128];

	name[strcspn(name, "=")] = '\0';
	for (const struct cli_option *option = cli_options; option->name; option++)
		if (!command || cli_has_option(command, option, true))
			suggest_offer(&nearest, name, option->name);
	if (!command)
		suggest_offer(&nearest, name, "version");
	snprintf(what, sizeof(what), "unknown option%s%s%s",
		nearest.word[0] ? ": did you mean --" : "", nearest.word,
		nearest.word[0] ? "?" : "");
	if (command)
		return usage_error(command, what, word);
	cli_fail(word, "%s%s", what, nearest.word[0] ? "" : ": headroom --help lists the commands");
	return EXIT_USAGE;
}

/* Finds the option in "--NAME" or "--NAME=VALUE". */
static const struct cli_option *find_option(const char *word)
{
	_cleanup_free_ char *name = must(strndup(word, strcspn(word, "=")));

	for (const struct cli_option *option = cli_options; option->name; option++)
		if (starts_with(name, "--") && streq(name + 2, option->name))
			return option;
	return NULL;
}

/* Reports options before the command, with the command line that works. */
static int misplaced_option(int argc, char **argv)
{
	char line[512] = "headroom";
	int command = 1;

	for (; command < argc && argv[command][0] == '-'; command++) {
		const struct cli_option *option = find_option(argv[command]);

		if (!option)
			return unknown_option(NULL, argv[command]);
		command += option->argument && !strchr(argv[command], '=');
	}
	text_append(line, sizeof(line), " %s", command < argc ? argv[command] : "COMMAND");
	for (int i = 1; i < argc; i++)
		if (i != command)
			text_append(line, sizeof(line), " %s", argv[i]);
	cli_fail(argv[1], "options come after the command: %s", line);
	return EXIT_USAGE;
}

/* Reports an incomplete output, as on a full disk: a script must notice. */
static int flush_output(int r)
{
	if (fflush(stdout) != 0 || ferror(stdout))
		return cli_fail("standard output", "%s", strerror(errno));
	return r;
}

static void clear(struct cli *cli)
{
	free(cli->headers);
}

/* Stores the argument of an option. Returns whether all that it needs are there. */
static bool store(const struct cli_option *option, struct cli *cli, int argc, char **argv)
{
	const char **member = (const char **)((char *)cli + option->offset);
	char *lines = NULL;

	if (option->repeats) {
		must_do(asprintf(&lines, "%s%s%s", *member ? *member : "", *member ? "\n" : "",
				optarg) >= 0);
		free((char *)*member);
		*member = lines;
		return true;
	}
	*member = optarg;
	if (!strchr(option->argument, ' '))
		return true;
	if (optind >= argc)
		return false;
	member[1] = argv[optind++];
	return true;
}

static int run(const struct cli_command *command, int argc, char **argv)
{
	const char *host_root = getenv("HEADROOM_HOST_ROOT");
	_cleanup_(clear) struct cli cli = {.core.host_root = host_root ? host_root : ""};
	struct option options[ARRAY_SIZE(cli_options)] = {0};
	int r = EXIT_OK, found, index, max;

	for (size_t i = 0; cli_options[i].name; i++)
		options[i] = (struct option){.name = cli_options[i].name,
			.has_arg = cli_options[i].argument ? required_argument : no_argument};
	opterr = 0;
	while ((found = getopt_long(argc, argv, ":h", options, &index)) != -1) {
		char word[64];

		if (found == 'h') {
			cli.help = true;
			continue;
		}
		if (found == ':')
			return usage_error(command, "its value is missing", argv[optind - 1]);
		if (found == '?' && !optopt)
			return unknown_option(command, argv[optind - 1]);
		/* argv[optind - 1] may be its value, or the word before. */
		if (found == '?')
			snprintf(word, sizeof(word), "-%c", optopt);
		else
			snprintf(word, sizeof(word), "--%s", cli_options[index].name);
		if (found == '?' || !cli_has_option(command, &cli_options[index], true))
			return unknown_option(command, word);
		if (!optarg)
			*(bool *)((char *)&cli + cli_options[index].offset) = true;
		else if (!store(&cli_options[index], &cli, argc, argv))
			return usage_error(command, "a value is missing", argv[optind - 1]);
	}
	if (cli.only && !tuner_find(cli.only))
		return unknown_tuner(command, cli.only);
	cli.names = argv + optind;
	cli.n_names = argc - optind;
	max = !command->names ? 0 : strchr(command->names, '.') ? INT_MAX : 1;
	if (cli.n_names > max)
		return usage_error(command, "unexpected argument", cli.names[max]);
	if (command->run != run_agent) /* which first reads how to log */
		log_check_level();
	if (cli.help)
		print_help(command);
	else
		r = command->run(&cli);
	return flush_output(r);
}

/* Suggests a command: it begins with the word, knows it as a name, or is near to it. */
static int unknown_command(const char *name)
{
	size_t n;
	_cleanup_free_ struct help_entry *entries = all_entries(&n);
	struct suggestion nearest = {0};
	const char *begun = NULL;

	for (const struct cli_command *command = cli_commands; command->name; command++) {
		if (starts_with(command->name, name))
			begun = command->name;
		suggest_offer(&nearest, name, command->name);
	}
	if (begun)
		cli_fail(name, "unknown command: did you mean headroom %s?", begun);
	else if (cli_top_accepts(name))
		cli_fail(name,
			"unknown command: did you mean headroom top %s, or headroom explain %s?",
			name, name);
	else if (names_match(entries, n, name) >= NAME_ALIAS)
		cli_fail(name, "unknown command: did you mean headroom explain %s?", name);
	else if (nearest.word[0])
		cli_fail(name, "unknown command: did you mean headroom %s?", nearest.word);
	else
		cli_fail(name, "unknown command: headroom --help lists all");
	return EXIT_USAGE;
}

static int show_help(const struct cli *cli)
{
	const struct cli_command *command;

	if (cli->n_names == 0) {
		print_usage(stdout);
		return EXIT_OK;
	}
	command = cli_find_command(cli->names[0]);
	if (!command)
		return unknown_command(cli->names[0]);
	print_help(command);
	return EXIT_OK;
}

int cli_main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	const struct cli_command *command = cli_find_command(name);

	if (streq(name, "--help") || streq(name, "-h")) {
		print_usage(stdout);
		return flush_output(EXIT_OK);
	}
	if (streq(name, "--version") || streq(name, "-V")) {
		printf("headroom %s (%s)\n", HEADROOM_VERSION, HEADROOM_COMMIT);
		return flush_output(EXIT_OK);
	}
	signal(SIGXFSZ, SIG_IGN); /* a limit of file sizes is an error of write(2) */
	umask(022); /* whatever it was: the code states the mode of all that it makes */
	log_init(streq(name, "agent") ? LOG_INFO : LOG_WARNING);
	if (command)
		return run(command, argc - 1, argv + 1);
	if (name[0] == '-')
		return misplaced_option(argc, argv);
	if (name[0])
		return unknown_command(name);
	print_usage(stderr);
	return EXIT_USAGE;
}

struct config *cli_load_config(const struct cli *cli, bool *faulty)
{
	const struct config_source source = core_source(cli->core.config_file), none = {0};
	struct config_fault_list faults = {0};
	struct config *config = NULL;

	core_load_config(&source, &config, &faults);
	if (!faulty)
		config_faults_print(stderr, &faults, "");
	config_faults_clear(&faults);
	if (faulty) {
		*faulty = !config;
		if (!config)
			core_load_config(&none, &config, &faults);
	}
	return config;
}

void cli_print_faults(const struct cli *cli)
{
	struct config *config = cli_load_config(cli, NULL);

	if (config)
		config_free(config);
}

int client_text(const char *socket_path, const char *address, bool post, const char *path,
	char **text, long *status)
{
	const struct wait wait = {
		.deadline_us = now_us() + (post ? CHANGE_TIMEOUT_US : TIMEOUT_US), .cancel_fd = -1};
	char url[512];
	struct http_get get = {
		.url = url, .unix_socket = socket_path, .method = post ? "POST" : NULL};

	snprintf(url, sizeof(url), "http://%s%s", socket_path ? "localhost" : address, path);
	http_get_all(&get, 1, &wait);
	*text = get.body;
	*status = get.status;
	if (get.error == 0 || get.error == -ETIMEDOUT)
		return get.error;
	return socket_path && access(socket_path, F_OK) == 0 && access(socket_path, W_OK) < 0
		       ? -EACCES
		       : -ENOTCONN;
}

int client_call(const char *socket_path, const char *address, bool post, const char *path,
	cJSON **body, long *status)
{
	_cleanup_free_ char *text = NULL;
	int r = client_text(socket_path, address, post, path, &text, status);

	if (r == 0)
		*body = cJSON_Parse(text ? text : "");
	if (r == 0 && !cJSON_IsObject(*body))
		cJSON_Delete(steal(*body));
	return r;
}

int cli_fail_hung(const char *socket_path, char text[static CLI_ALONE_MAX])
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	char since[TIME_TEXT_MAX];

	/* The peer's pid is known after listen(2): it need not accept. */
	if (set_text(address.sun_path, socket_path) &&
		connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	time_text(realtime_us() - TIMEOUT_US, since);
	copy_text(text, CLI_ALONE_MAX, "The agent does not answer");
	if (peer.pid > 0)
		snprintf(text, CLI_ALONE_MAX, "Agent %d does not answer", (int)peer.pid);
	return cli_fail(socket_path,
		"%s since %s: if it was stopped, continue it with kill -CONT; else restart its unit "
		"or pod",
		text, since);
}

int local_poll(
	const struct cli *cli, struct config *config, bool watch, bool as_apply, struct core *core)
{
	int r = core_open(core, &cli->core, NULL, config);

	if (r < 0) {
		core_close(core);
		return cli_fail("node", "%s", strerror(-r));
	}
	core->as_apply = as_apply;
	core_read_records(core);
	core_find_lost_files(core);
	if (as_apply)
		core_reset(core, cli->only);
	core_sample(core, watch);
	core_poll(core);
	return EXIT_OK;
}

int node_documents(const struct cli *cli, struct cli_config given, bool watch, cJSON **status,
	FILE *metrics, char alone[static CLI_ALONE_MAX])
{
	static const char path[] = "/v1/status";
	_cleanup_(cleanup_config_free) struct config *config = given.config;
	_cleanup_(cleanup_cJSON_Delete) cJSON *answer = NULL;
	_cleanup_free_ char *text = NULL;
	const char *address = config_text(config, "http.listen");
	char socket_path[PATH_MAX];
	struct core core = {0};
	long code = 0;
	int r;

	core_socket_path(config, socket_path);
	r = client_call(socket_path, NULL, false, path, &answer, &code);
	if (r == -EACCES && address[0])
		r = client_call(NULL, address, false, path, &answer, &code);
	alone[0] = '\0';
	if (r == -ETIMEDOUT)
		(void)cli_fail_hung(socket_path, alone);
	else if (r < 0 || code != 200)
		copy_text(alone, CLI_ALONE_MAX, "No agent is running");
	if (alone[0]) {
		/* In all it takes at most four seconds. */
		core.config_is_faulty = given.faulty;
		core.task_us = (r == -ETIMEDOUT ? 900 : 1800) * USEC_PER_MSEC;
		if (given.faulty && !given.may_be_faulty) {
			cli_print_faults(cli);
			return EXIT_FAILED;
		}
		if (local_poll(cli, steal(config), watch, false, &core) != EXIT_OK)
			return EXIT_FAILED;
		cJSON_Delete(answer);
		answer = report_status(&core.node, true);
		if (metrics)
			report_metrics(metrics, &core.node, false);
		core_close(&core);
	} else if (metrics &&
		   client_text(socket_path, NULL, false, "/metrics", &text, &code) == 0) {
		fputs(text ? text : "", metrics);
	}
	if (!answer)
		return cli_fail("agent", "the answer is not a JSON object");
	json_make_lines_printable(answer, "keep");
	*status = steal(answer);
	return EXIT_OK;
}

int status_document(
	const struct cli *cli, bool watch, cJSON **status, char alone[static CLI_ALONE_MAX])
{
	struct cli_config config = {0};

	config.config = cli_load_config(cli, &config.faulty);
	return node_documents(cli, config, watch, status, NULL, alone);
}
