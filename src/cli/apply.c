/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "apply/apply.h"
#include "base/util.h"
#include "cli/changes.h"
#include "cli/client.h"
#include "report/plan_json.h"

#include <errno.h>
#include <stdio.h>

#include <cjson/cJSON.h>

DEFINE_CLEANUP(cJSON, cJSON_Delete)

static int say_error(const char *json, long status)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *root = cJSON_Parse(json);
	const char *error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "error"));

	return error ? cli_fail("agent", "%s", error)
		     : cli_fail("agent", "answered with HTTP status %ld", status);
}

static int print_done(const char *json, const char *nothing)
{
	int failed = print_changes(json);

	if (failed < 0)
		return cli_fail("agent", "answered in an unknown form");
	if (failed == 0 && strstr(json, "\"name\"") == NULL)
		puts(nothing);
	return failed > 0 ? EXIT_FAILED : EXIT_OK;
}

/* -ENOTCONN when no agent runs; else an exit code. */
static int ask_agent(
	const char *socket_path, const char *what, const char *only, const char *nothing)
{
	_cleanup_free_ char *json = NULL;
	char path[64];
	long status;
	int r;

	snprintf(path, sizeof(path), "/v1/%s%s%s", what, only ? "?only=" : "", only ? only : "");
	r = client_call(socket_path, NULL, true, path, &json, &status);
	if (r == -ENOTCONN)
		return r;
	if (r < 0)
		return cli_fail(socket_path, "%s%s", strerror(-r),
			r == -EACCES ? ": only root may change the node" : "");
	return status == 200 ? print_done(json, nothing) : say_error(json, status);
}

static int become_writer(struct core *core, const char *who)
{
	char holder[64];
	int r = core_become_writer(core, who, holder, sizeof(holder));

	if (r == -EBUSY)
		return cli_fail(core_state_directory(),
			"the lock is held by %s: try again later, or stop it", holder);
	if (r < 0)
		return cli_fail(core_state_directory(),
			"%s: nothing is written without a journal: give write access",
			strerror(-r));
	if (core->journal_error < 0)
		return cli_fail(
			core_state_directory(), "%s", journal_describe(core->journal_error));
	return EXIT_OK;
}

static int print_plan(const struct plan *plan, const char *nothing)
{
	_cleanup_free_ char *json = NULL;

	if (report_plan(plan, true, &json) < 0)
		return cli_fail("plan", "%s", strerror(ENOMEM));
	return print_done(json, nothing);
}

static int apply_locally(const struct cli *cli, struct core *core)
{
	int r = become_writer(core, "apply"), resumed;

	if (r != EXIT_OK)
		return r;
	if (!core_wants_to_write(core))
		return cli_fail(
			"apply", "the configuration says mode: observe: nothing is written");
	core_reset(core, cli->only);
	/* What it gives up must stay so: after the reset. */
	resumed = core_resume(core);
	r = core_settle(core);
	if (r == 0)
		r = core_poll(core);
	core_plan_only(core, cli->only);
	if (r == 0)
		r = core_apply(core);
	if (r < 0)
		return cli_fail("apply", "%s", strerror(-r));
	r = print_plan(&core->plan, "Nothing to change.");
	return r == EXIT_OK && resumed < 0 ? EXIT_FAILED : r;
}

static int restore_locally(const struct cli *cli, struct core *core)
{
	int r = become_writer(core, "restore"), stored;

	if (r != EXIT_OK)
		return r;
	if (core->journal->lost)
		return cli_fail("journal.json", "%s", core->journal->note);
	(void)core_resume(core);
	r = core_restore(core, cli->only);
	stored = r == 0 ? core_restore_files(core, cli->only) : 0;
	if (r == 0)
		r = print_plan(&core->plan, "Nothing to put back.");
	if (r >= 0 && (stored < 0 || journal_store(core->journal) < 0))
		return cli_fail("journal.json",
			"values were put back, but that could not be noted: make room in %s",
			core_state_directory());
	return r < 0 ? cli_fail("restore", "%s", strerror(-r)) : r;
}

/* Asks the running agent, else does it here under the same lock. Takes ownership of config. */
static int change_node(const struct cli *cli, struct config *config, const char *what,
	const char *nothing, int (*locally)(const struct cli *cli, struct core *core))
{
	char socket_path[PATH_MAX];
	struct core core = {0};
	int r;

	core_socket_path(config, socket_path);
	r = ask_agent(socket_path, what, cli->only, nothing);
	if (r != -ENOTCONN) {
		config_free(config);
		return r;
	}
	r = core_open(&core, &cli->core, config);
	r = r < 0 ? cli_fail("node", "%s", strerror(-r)) : locally(cli, &core);
	core_close(&core);
	return r;
}

int cli_apply(const struct cli *cli)
{
	struct config *config = cli_load_config(cli);

	if (!config)
		return EXIT_FAILED;
	return change_node(cli, config, "apply", "Nothing to change.", apply_locally);
}

/* A restore must work whatever became of the configuration: the built-in one will do. */
static struct config *load_any_config(const struct cli *cli)
{
	struct config_source none = {.file = "/nonexistent", .optional = true};
	struct config_fault_list faults = {0};
	struct config *config = cli_load_config(cli);

	if (!config)
		(void)core_load_config(&none, &config, &faults, NULL);
	config_faults_clear(&faults);
	return config;
}

int cli_restore(const struct cli *cli)
{
	struct config *config = load_any_config(cli);

	if (!config)
		return EXIT_FAILED;
	return change_node(cli, config, "restore", "Nothing to put back.", restore_locally);
}
