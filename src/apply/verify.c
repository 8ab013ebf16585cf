/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/verify.h"

#include "base/child.h"
#include "base/util.h"
#include "runtime/containerd_config.h"
#include "runtime/docker_config.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>

#define DEADLINE_US     (10 * USEC_PER_SEC)
#define DUMP_MAX        ((size_t)4 << 20)
#define VALIDATES_SINCE 23 /* dockerd --validate: Docker 23.0 */

/* As the program names it that runs inside the host's root. */
static const char *inside(const struct host *host, const char *full)
{
	size_t len = strlen(host->root);

	return strncmp(full, host->root, len) == 0 && full[len] == '/' ? full + len : full;
}

static int explain_start(const struct host *host, const char *binary, int error, char *why)
{
	if (error == -EPERM && host->root[0])
		snprintf(why, EDIT_WHY_MAX,
			"%s could not be run in the host's root: give CAP_SYS_CHROOT", binary);
	else
		snprintf(why, EDIT_WHY_MAX, "%s could not be run: %s", binary, strerror(-error));
	return error;
}

/* -EINVAL when the program says no. */
static int ask(const struct trial *trial, const char *const *arguments, char **output, char *why)
{
	struct child child = {
		.arguments = arguments, .root = trial->host->root, .output_max = DUMP_MAX};
	const struct wait wait = {.deadline_us = now_us() + DEADLINE_US, .cancel_fd = -1};
	struct child_result result = {0};
	int r = child_run(&child, &wait, &result);

	if (r < 0)
		return explain_start(trial->host, arguments[0], r, why);
	if (WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0) {
		*output = result.output;
		return 0;
	}
	free(result.output);
	snprintf(why, EDIT_WHY_MAX, "%s: %.240s", arguments[0],
		result.error[0] ? result.error : "refuses it without a word");
	return -EINVAL;
}

static int dump(const struct trial *trial, const char *full, char **output, char *why)
{
	const char *const arguments[] = {
		trial->service->binary, "-c", inside(trial->host, full), "config", "dump", NULL};

	return ask(trial, arguments, output, why);
}

/* What the running daemon's files come to, before the change. */
static int dump_old(const struct trial *trial, const struct file_at *main, char **output, char *why)
{
	char path[PATH_MAX];
	int r;

	if (main->missing == 0 && access(main->full, F_OK) == 0)
		return dump(trial, main->full, output, why);
	r = file_put_trial(trial->state, main, trial->base ? trial->base : "",
		trial->base ? strlen(trial->base) : 0, path);
	if (r == 0) {
		r = dump(trial, path, output, why);
		file_drop_trial(trial->state, path);
	}
	return r;
}

/* The main file as it is, but importing the new drop-in after everything else. */
static int dump_drop_in(const struct trial *trial, const struct file_at *main, const char *drop_in,
	char **output, char *why)
{
	struct file_bytes text = {0};
	_cleanup_free_ char *importing = NULL;
	char path[PATH_MAX];
	int r = file_take(main, &text);

	if (r < 0)
		return r;
	r = containerd_trial_main(
		text.bytes ? text.bytes : "", text.len, inside(trial->host, drop_in), &importing);
	file_bytes_clear(&text);
	if (r == 0)
		r = file_put_trial(trial->state, main, importing, strlen(importing), path);
	if (r < 0)
		return r;
	r = dump(trial, path, output, why);
	file_drop_trial(trial->state, path);
	return r;
}

static int dump_new(const struct trial *trial, const struct file_at *main, char **output, char *why)
{
	char path[PATH_MAX];
	int r = file_put_trial(trial->state, trial->at, trial->text, trial->len, path);

	if (r < 0)
		return r;
	if (trial->service->config[0] && !streq(trial->service->config, trial->path))
		r = dump_drop_in(trial, main, path, output, why);
	else
		r = dump(trial, path, output, why);
	file_drop_trial(trial->state, path);
	return r;
}

static int compare(const struct trial *trial, const char *old, const char *new, char *why)
{
	char difference[CONTAINERD_DIFFERENCE_MAX];
	int r = containerd_dump_differs(old, new, trial->dump_keys, trial->n_dump_keys, difference);

	if (r <= 0)
		return r;
	snprintf(why, EDIT_WHY_MAX, "it would change more than was asked for: %.240s", difference);
	return -EINVAL;
}

static int verify_containerd(const struct trial *trial, char *why)
{
	const char *config = trial->service->config;
	_cleanup_free_ char *old = NULL, *new = NULL;
	struct file_at main;
	int r = file_locate(trial->host, config[0] ? config : trial->path, &main);

	/* The new one first: where nothing can be written, no program needs to be run. */
	if (r == 0)
		r = dump_new(trial, &main, &new, why);
	if (r == 0)
		r = dump_old(trial, &main, &old, why);
	if (r == 0)
		r = compare(trial, old, new, why);
	return r;
}

static int validate(const struct trial *trial, char *why)
{
	_cleanup_free_ char *output = NULL;
	char path[PATH_MAX];
	int r = file_put_trial(trial->state, trial->at, trial->text, trial->len, path);
	const char *const arguments[] = {trial->service->binary, "--validate", "--config-file",
		inside(trial->host, path), NULL};

	if (r < 0)
		return r;
	r = ask(trial, arguments, &output, why);
	file_drop_trial(trial->state, path);
	return r;
}

static int verify_docker(const struct trial *trial, char *why)
{
	const struct service *service = trial->service;
	struct docker_config_fault fault = {0};
	char key[DOCKER_CONFIG_KEY_MAX];
	int r = docker_config_unknown_key(trial->text, trial->len, service->version, key, &fault);

	if (r > 0) {
		snprintf(why, EDIT_WHY_MAX,
			"line %u: Docker %s does not know the key %s, and would refuse all of it",
			fault.line, service->version, key);
		return -EINVAL;
	}
	if (r == -EINVAL)
		snprintf(why, EDIT_WHY_MAX, "line %u, column %u: %s", fault.line, fault.column,
			fault.message);
	if (r == 0 && service->binary[0] && atoi(service->version) >= VALIDATES_SINCE)
		r = validate(trial, why);
	return r;
}

int verify_text(const struct trial *trial, char why[static EDIT_WHY_MAX])
{
	if (trial->service->verifier == VERIFY_CONTAINERD_DUMP)
		return verify_containerd(trial, why);
	if (trial->service->verifier == VERIFY_DOCKERD)
		return verify_docker(trial, why);
	return 0;
}
