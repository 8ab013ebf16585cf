/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "base/json.h"
#include "base/log.h"
#include "report/report.h"
#include "tuners/table.h"

#include <curl/curl.h>
#include <getopt.h>

/* A local agent answers at once; an apply may restart a runtime twice, which is slow to answer. */
#define CONNECT_TIMEOUT_MS 1000L
#define TIMEOUT_MS         30000L
#define CHANGE_TIMEOUT_MS  180000L

DEFINE_CLEANUP(CURL, curl_easy_cleanup)

static int run_agent(const struct cli *cli)
{
	return agent_run(&cli->core);
}

const struct cli_option cli_options[] = {
	{"config", "FILE",
		"Reads this file alone, instead of /etc/headroom/headroom.yaml and the files in "
		"conf.d.",
		offsetof(struct cli, core.config_file)},
	{"host-root", "DIR", "Where the node's file systems are mounted, when this is a container.",
		offsetof(struct cli, core.host_root)},
	{"observe", NULL, "Only observes, whatever the configuration says: nothing is written.",
		offsetof(struct cli, core.observe)},
	{"only", "TUNER", "One tuner instead of all.", offsetof(struct cli, only)},
	{"purge", NULL,
		"Then removes all records and their directories, for a removal of Headroom: waits "
		"20 s for an agent that is ending, and a new one enforces.",
		offsetof(struct cli, purge)},
	{"json", NULL, "Prints JSON instead of text.", offsetof(struct cli, json)},
	{"watch", NULL, "Prints again every two seconds.", offsetof(struct cli, watch)},
	{"help", NULL, "Prints the usage.", offsetof(struct cli, help)},
	{0},
};

const struct cli_command cli_commands[] = {
	{"agent", run_agent, "observe", NULL, "run the daemon in the foreground",
		"The daemon, in the foreground: sets what is configured, then checks it every "
		"second. Ends with 0 on SIGTERM.",
		"headroom agent --observe"},
	{"status", cli_status, "json watch", NULL, "limits, settings and conditions of this node",
		"The node at a glance: limits, settings, tuners, pulls and conditions, from the "
		"running agent, else from a reading of its own. With --json it is the document of "
		"/v1/status.",
		"headroom status --watch"},
	{"plan", cli_plan, "only json", NULL, "what apply would change, and why",
		"What apply would change, and why. Changes nothing; needs no agent.",
		"headroom plan --only neighbor"},
	{"apply", cli_apply, "only", NULL, "set the configured values, once",
		"Sets the configured values once, through the running agent, else by itself under "
		"the same lock. It ends a release by restore, and retries settings that were left "
		"to someone else.",
		"headroom apply --only thp"},
	{"restore", cli_restore, "only purge", NULL, "restore every original value",
		"Restores every original value and file. Values changed by others since are left "
		"alone and reported. The tuners are then released: they only observe until apply, "
		"whatever the configuration says.",
		"headroom restore --only sysctl"},
	{"top", cli_top, "", "[dns|neighbor]", "live: who uses what",
		"Who uses how much of a limit: pods, containers, units, network namespaces. dns: "
		"each DNS server that this node uses, its role, queries now, the busiest second of "
		"the last minute, its budget, pending and unanswered queries, and the latency of "
		"half and of 99 % of the answers; then who sends the queries, and the names "
		"queried most, from a sample and only for those who may open the agent's socket. "
		"Live on a terminal, where s sorts by another column and q quits, else once.",
		"headroom top dns"},
	{"images", cli_images, "json", NULL, "images that are loaded ahead of time",
		"The images that are to be there before a pod needs them (images.archives and "
		"images.pull): state, size, how far each has come, how long it took, where it is "
		"from, and whether it is pinned. With --json it is the list of /v1/status.",
		"headroom images"},
	{"explain", cli_explain, "", "[NAME...]",
		"a limit, setting, condition, reason, metric or key",
		"What a limit, setting, condition, reason, metric, profile, configuration key or "
		"any word of status is: why it matters, its unit, default and source. Without a "
		"name it lists all.",
		"headroom explain neighbor/ipv4 NeighborTablePressure"},
	{"check-config", cli_check_config, "", "[FILE...]",
		"file:line:column: message, for every fault",
		"Reads the configuration, or the files named, and prints each fault as "
		"file:line:column: message.",
		"headroom check-config /etc/headroom/headroom.yaml"},
	{"version", cli_version, "json", NULL, "version, and what this node can run",
		"The version, the commit, and for each tuner whether this node can run it and why "
		"not.",
		"headroom version --json"},
	{0},
};

const struct cli_exit cli_exits[] = {
	{EXIT_OK, "Done. For status: the verdict is ok. For plan: nothing to change."},
	{EXIT_FAILED,
		"Failed, or something could not be set or restored; stderr says what, and the cure. "
		"For check-config: a fault. For explain: no such name."},
	{EXIT_ATTENTION,
		"For status: a condition is True, and not merely advice. For plan: changes are "
		"pending."},
	{EXIT_USAGE, "Wrong usage."},
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

bool cli_takes(const struct cli_command *command, const struct cli_option *option, bool all)
{
	return strstr(all ? "config host-root help" : "", option->name) ||
	       strstr(command->takes, option->name);
}

void cli_usage(const struct cli_command *command, char usage[static CLI_USAGE_MAX])
{
	int used = snprintf(usage, CLI_USAGE_MAX, "%s", command->name);

	for (const struct cli_option *option = cli_options; option->name; option++)
		if (cli_takes(command, option, false))
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

static void print_help(const struct cli_command *command)
{
	struct screen screen = screen_open();
	char usage[CLI_USAGE_MAX];

	cli_usage(command, usage);
	draw(&screen, COLOR_NONE, "usage: headroom %s\n\n", usage);
	draw_wrapped(&screen, 0, "%s", command->help);
	draw(&screen, COLOR_NONE, "\nOptions:\n");
	for (const struct cli_option *option = cli_options; option->name; option++)
		if (cli_takes(command, option, true)) {
			draw(&screen, COLOR_NONE, "  --%-9s %-5s ", option->name,
				option->argument ? option->argument : "");
			draw_wrapped(&screen, 20, "%s", option->help);
		}
	draw(&screen, COLOR_NONE, "\nExample:\n  %s\n\nExit codes:\n", command->example);
	for (const struct cli_exit *row = cli_exits; row->help; row++) {
		draw(&screen, COLOR_NONE, "  %2d  ", row->code);
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

static int run(const struct cli_command *command, int argc, char **argv)
{
	const char *host_root = getenv("HEADROOM_HOST_ROOT");
	struct cli cli = {.core.host_root = host_root ? host_root : ""};
	struct option options[ARRAY_SIZE(cli_options)] = {0};
	int r = EXIT_OK, found, index;

	for (size_t i = 0; cli_options[i].name; i++)
		options[i] = (struct option){.name = cli_options[i].name,
			.has_arg = cli_options[i].argument ? required_argument : no_argument};
	opterr = 0;
	while ((found = getopt_long(argc, argv, "", options, &index)) != -1) {
		if (found == '?' || !cli_takes(command, &cli_options[index], true))
			return usage_error(
				command, "wrong option or no value for it", argv[optind - 1]);
		if (optarg)
			*(const char **)((char *)&cli + cli_options[index].offset) = optarg;
		else
			*(bool *)((char *)&cli + cli_options[index].offset) = true;
	}
	if (cli.only && !tuner_find(cli.only))
		return usage_error(command, "no tuner of this name", cli.only);
	cli.names = argv + optind;
	cli.n_names = argc - optind;
	if (cli.n_names > 0 && !command->names)
		return usage_error(command, "unexpected argument", cli.names[0]);
	if (cli.help)
		print_help(command);
	else
		r = command->run(&cli);
	/* On a full disk, a script must not take half an answer for a whole one. */
	if (fflush(stdout) != 0 || ferror(stdout))
		return cli_fail("standard output", "%s", strerror(errno));
	return r;
}

int cli_main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	struct suggestion nearest = {0};

	if (streq(name, "--help") || streq(name, "-h") || streq(name, "help")) {
		print_usage(stdout);
		return EXIT_OK;
	}
	if (streq(name, "--version"))
		name = "version";
	/* A command prints what it did; the agent has only its log. */
	log_init(streq(name, "agent") ? LOG_INFO : LOG_WARNING);
	for (const struct cli_command *command = cli_commands; command->name; command++)
		if (streq(name, command->name))
			return run(command, argc - 1, argv + 1);
		else
			suggest_offer(&nearest, name, command->name);
	if (nearest.word[0])
		cli_fail(name, "no such command: did you mean headroom %s?", nearest.word);
	else
		print_usage(stderr);
	return EXIT_USAGE;
}

struct config *cli_load_config(const struct cli *cli, bool *faulty)
{
	const struct config_source source = core_source(cli->core.config_file), none = {0};
	struct config_fault_list faults = {0};
	struct config *config = NULL;

	core_load_config(&source, &config, &faults, NULL);
	config_faults_print(stderr, &faults, "");
	config_faults_clear(&faults);
	if (faulty) {
		*faulty = !config;
		if (!config)
			core_load_config(&none, &config, &faults, NULL);
	}
	return config;
}

int client_call(const char *socket_path, const char *address, bool post, const char *path,
	cJSON **body, long *status)
{
	_cleanup_(cleanup_curl_easy_cleanup) CURL *curl = must(curl_easy_init());
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *out = must(open_memstream(&text, &len));
	char url[512];
	CURLcode code;

	snprintf(url, sizeof(url), "http://%s%s", socket_path ? "localhost" : address, path);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	if (socket_path)
		curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket_path);
	curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* not for a request to this machine */
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, post ? CHANGE_TIMEOUT_MS : TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, out); /* written by fwrite(3) */
	if (post)
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
	code = curl_easy_perform(curl);
	fclose(out);
	if (code == CURLE_OPERATION_TIMEDOUT)
		return -ETIMEDOUT;
	if (code != CURLE_OK)
		return socket_path && access(socket_path, F_OK) == 0 &&
				       access(socket_path, W_OK) < 0
			       ? -EACCES
			       : -ENOTCONN;
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
	*body = cJSON_Parse(text);
	return 0;
}

int local_poll(
	const struct cli *cli, struct config *config, bool watch, bool as_apply, struct core *core)
{
	int r = core_open(core, &cli->core, watch, config);

	if (r < 0) {
		core_close(core);
		return cli_fail("node", "%s", strerror(-r));
	}
	core->as_apply = as_apply;
	core_read_records(core);
	if (as_apply)
		core_reset(core, cli->only);
	core_sample(core);
	core_poll(core);
	return EXIT_OK;
}

int status_document(const struct cli *cli, bool watch, cJSON **status, bool *alone)
{
	static const char path[] = "/v1/status";
	bool faulty;
	_cleanup_(cleanup_config_free) struct config *config = cli_load_config(cli, &faulty);
	_cleanup_(cleanup_cJSON_Delete) cJSON *answer = NULL;
	const char *address = config_text(config, "http.listen");
	char socket_path[PATH_MAX];
	struct core core = {0};
	long code = 0;
	int r;

	core_socket_path(config, socket_path);
	r = client_call(socket_path, NULL, false, path, &answer, &code);
	if (r == -EACCES && address[0])
		r = client_call(NULL, address, false, path, &answer, &code);
	*alone = r == -ENOTCONN || r == -EACCES || (r == 0 && code != 200);
	if (r < 0 && !*alone)
		return cli_fail("agent", "%s", strerror(-r));
	if (*alone) {
		if (faulty || local_poll(cli, steal(config), watch, false, &core) != EXIT_OK)
			return EXIT_FAILED;
		cJSON_Delete(answer);
		answer = report_status(&core.node, true);
		core_close(&core);
	}
	if (!answer)
		return cli_fail("agent", "answered in an unknown form");
	json_make_printable(answer);
	*status = steal(answer);
	return EXIT_OK;
}
