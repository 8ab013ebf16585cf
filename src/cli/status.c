/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include "report/report.h"
#include "tuners/table.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <termios.h>

#define WATCH_SECONDS 2

static void draw_heading(struct screen *screen, const char *text)
{
	draw(screen, COLOR_NONE, "\n");
	draw(screen, COLOR_BOLD, "%s", text);
	draw(screen, COLOR_NONE, "\n");
}

enum color color_of(const char *word)
{
	_Static_assert(COLOR_FAINT - COLOR_GOOD == TONE_FAINT, "colours in the order of the tones");
	return (enum color)(COLOR_GOOD + tone_of(word));
}

void print_rest(struct screen *screen, int n, const char *what)
{
	if (n > 0)
		draw(screen, COLOR_FAINT, "  and %d %s\n", n, what);
}

static double limit_rank(const cJSON *limit, const void *data)
{
	const struct screen *screen = data;
	const char *severity = json_text_at(limit, "severity");
	double share = json_number_at(limit, "used") / MAX(json_number_at(limit, "max"), 1.0);

	return (streq(severity, "critical")         ? 2000
		       : streq(severity, "warning") ? 1000
						    : 0) +
	       (screen->live ? MIN(share, 999.0) : 0);
}

void sort_limits(const struct screen *screen, cJSON *limits)
{
	json_sort(limits, limit_rank, screen);
}

void print_verdict(struct screen *screen, const cJSON *status, const char *alone)
{
	const char *verdict = json_text_at(status, "node/verdict"), *between = ": ";
	const cJSON *condition;
	char text[512] = "";

	draw(screen, COLOR_BOLD, "%s", json_text_at(status, "node/name"));
	draw(screen, COLOR_NONE, "  headroom %s", json_text_at(status, "node/version"));
	if (!alone[0] || !streq(verdict, "ok")) {
		draw(screen, COLOR_NONE, "  ");
		draw(screen, color_of(verdict), "%s", verdict);
	}
	cJSON_ArrayForEach (condition, json_at(status, "conditions")) {
		if (!streq(json_text_at(condition, "status"), "True") || !has_problem(condition))
			continue;
		text_append(text, sizeof(text), "%s%s", between, json_text_at(condition, "type"));
		between = ", ";
	}
	draw_wrapped(screen, 2, "%s", text);
}

/* Leaves out the last parts, which two blanks separate, until the text fits the live screen. */
static void fit_parts(const struct screen *screen, char *text)
{
	while (screen->live && screen->column + text_width(text) > screen->width) {
		char *cut = NULL;

		for (char *at = text; (at = strstr(at, "  ")); at += 2)
			cut = at;
		if (!cut)
			return;
		*cut = '\0';
	}
}

void print_limit(struct screen *screen, const cJSON *limit)
{
	const cJSON *full = json_at(limit, "full_in_seconds");
	const char *unit = json_text_at(limit, "unit");
	double used = json_number_at(limit, "used"), max = json_number_at(limit, "max");
	double peak = json_number_at(limit, "peak"), hits = json_number_at(limit, "hits");
	double before = json_number_at(limit, "hits_before"), share = used / MAX(max, 1.0);
	const char *name = streq(unit, "bytes") ? unit : ""; /* the unit of further amounts */
	char use[USE_MAX], percent[SHARE_MAX], amount[AMOUNT_MAX], text[512];

	draw(screen, COLOR_NONE, "  %-19s ",
		shorten(json_text_at(limit, "name"), screen->live ? 24 : INT_MAX, text,
			sizeof(text)));
	draw_bar(screen, color_of(json_text_at(limit, "severity")), share);
	if (max > 0)
		snprintf(text, sizeof(text), "%s%s  %s",
			streq(json_text_at(limit, "bound"), "upper") ? "<= " : "",
			use_text(used, max, unit, use), share_text(share, percent));
	else
		snprintf(text, sizeof(text), "no maximum is known");
	/* The parts from the most to the least important. */
	if (cJSON_IsNumber(full)) {
		duration_text(full->valuedouble, amount);
		text_append(text, sizeof(text), "  full in %s", amount);
	}
	if (max > 0)
		text_append(text, sizeof(text), "  peak %s", amount_text(peak, name, amount));
	if (max > 0 && peak > max)
		text_append(text, sizeof(text), " at %s", json_text_at(limit, "peak_at"));
	if (peak > used && json_at(limit, "peak_top/0"))
		text_append(text, sizeof(text), " (%s %s)",
			json_text_at(limit, "peak_top/0/workload/text"),
			amount_text(json_number_at(limit, "peak_top/0/used"), name, amount));
	if (hits > 0)
		text_append(text, sizeof(text), "  hits %.0f", hits - before);
	if (before > 0)
		text_append(text, sizeof(text), " (%.0f since boot)", hits);
	fit_parts(screen, text);
	draw_wrapped(screen, 22, "%s", text);
}

static void print_tuner(struct screen *screen, const cJSON *tuner, const cJSON *settings)
{
	const char *name = json_text_at(tuner, "name"), *mode = json_text_at(tuner, "mode");
	const char *state = json_text_at(tuner, "state");
	int blanks = MAX(11 - (int)strlen(state), 1);

	draw(screen, COLOR_NONE, "  %-10s %-8s ", name, mode);
	draw(screen, color_of(state), "%s", state);
	for (size_t i = 0; i <= SETTING_OBSERVED; i++) {
		const cJSON *setting;
		int n = 0;

		cJSON_ArrayForEach (setting, settings)
			n += streq(json_text_at(setting, "tuner"), name) &&
			     streq(json_text_at(setting, "state"), setting_state_names[i]);
		if (n == 0)
			continue;
		draw(screen, COLOR_NONE, "%*s%d ", blanks, blanks > 0 ? "" : ", ", n);
		draw(screen, color_of(setting_state_names[i]), "%s", setting_state_names[i]);
		blanks = 0;
	}
	draw(screen, COLOR_NONE, "\n");
	if (streq(mode, "released"))
		draw(screen, COLOR_NONE, "%13ssince %s, until headroom apply\n", "",
			json_text_at(tuner, "since"));
	draw_paragraph(screen, 13, json_text_at(tuner, "why"));
}

static void print_pulls(struct screen *screen, const cJSON *runtimes)
{
	const cJSON *runtime, *pull;
	const char *heading = "Pulls";

	cJSON_ArrayForEach (runtime, runtimes)
		cJSON_ArrayForEach (pull, json_at(runtime, "pulls")) {
			const char *image = json_text_at(pull, "image");
			double total = json_number_at(pull, "total");
			double offset = json_number_at(pull, "offset");
			char done[USE_MAX], rate[AMOUNT_MAX];

			if (heading)
				draw_heading(screen, steal(heading));
			draw(screen, COLOR_NONE, "  %-12s ", json_text_at(runtime, "name"));
			if (total > 0)
				draw_bar(screen, COLOR_GOOD, offset / total);
			draw_wrapped(screen, 15, "%s  %s/s  %s",
				total > 0 ? use_text(offset, total, "bytes", done)
					  : amount_text(offset, "bytes", done),
				amount_text(
					json_number_at(pull, "bytes_per_second"), "bytes", rate),
				image[0] ? image : json_text_at(pull, "ref"));
		}
}

/* Lists problems, and counts the conditions that are OK, except for tuners that are off. */
static void print_conditions(struct screen *screen, const cJSON *conditions)
{
	const cJSON *condition;
	char absent[256] = "";
	int n = 0;

	draw_heading(screen, "Conditions");
	cJSON_ArrayForEach (condition, conditions) {
		const char *reason = json_text_at(condition, "reason");
		const char *status = json_text_at(condition, "status");
		const char *word = condition_word(condition, status);
		const char *what = reason_rows[reason_parse(reason)].absent;

		if (what && !strstr(absent, what))
			text_append(absent, sizeof(absent), "%s%s", absent[0] ? ", " : "", what);
		n += !what && streq(status, "False");
		if (!condition_is_listed(condition))
			continue;
		draw(screen, COLOR_NONE, "  ");
		draw(screen, color_of(word), "%-8s", word);
		draw(screen, COLOR_NONE, " %-28s %s\n", json_text_at(condition, "type"), reason);
		draw_paragraph(screen, 11, json_text_at(condition, "message"));
	}
	draw(screen, COLOR_NONE, "  ");
	draw(screen, COLOR_GOOD, "%d OK", n);
	draw(screen, COLOR_NONE, "\n");
	if (absent[0]) {
		draw(screen, COLOR_NONE, "  not applicable: ");
		draw_wrapped(screen, 4, "%s", absent);
	}
}

/* Prints "ready  12.3 MB  1.2 s  docker.io/library/busybox:1.36  from PATH  pinned"; then the
 * error. */
static void print_image(struct screen *screen, const cJSON *image)
{
	const char *state = json_text_at(image, "state"), *why = json_text_at(image, "why");
	const char *source = json_text_at(image, "source"), *name = json_text_at(image, "name");
	double size = json_number_at(image, "size_bytes"), next;
	const cJSON *done = json_at(image, "bytes_done");
	char amount[USE_MAX], took[TIME_TEXT_MAX], text[1024] = "";

	draw(screen, COLOR_NONE, "  ");
	draw(screen, color_of(state), "%-8s ", state);
	if (cJSON_IsNumber(done)) {
		draw_bar(screen, COLOR_GOOD, done->valuedouble / MAX(size, 1.0));
		text_append(text, sizeof(text), "%s  ",
			use_text(done->valuedouble, size, "bytes", amount));
	} else if (size > 0) {
		text_append(text, sizeof(text), "%s  ", amount_text(size, "bytes", amount));
	}
	if (json_number_at(image, "seconds") > 0) {
		latency_text(json_number_at(image, "seconds"), took);
		text_append(text, sizeof(text), "%s  ", took);
	}
	text_append(text, sizeof(text), "%s", name);
	if (!streq(source, name))
		text_append(text, sizeof(text), "  from %s", source);
	if (cJSON_IsTrue(json_at(image, "pinned")))
		text_append(text, sizeof(text), "  pinned");
	if (!streq(state, "ready") && !why[0])
		text_append(text, sizeof(text), "  (%s)", json_text_at(image, "reason"));
	draw_wrapped(screen, 11, "%s", text);
	if (!why[0])
		return;
	next = json_number_at(image, "next_in_seconds");
	duration_text(next, took);
	draw(screen, COLOR_NONE, "%11s", "");
	draw_wrapped(screen, 11, "%s: %s%s%s", json_text_at(image, "reason"), why,
		next > 0 ? "; again in " : "", next > 0 ? took : "");
}

struct status_view {
	cJSON *status;
	const char *alone;
};

static void render_status(struct screen *screen, void *data)
{
	const struct status_view *view = data;
	const cJSON *status = view->status;
	const cJSON *settings = json_at(status, "settings"), *item;
	const char *heading = "Images";
	double would_change = json_number_at(status, "node/would_change");
	int width = 30, n = 0;

	if (view->alone[0]) /* a single reading cannot tell that the node is ok */
		draw(screen, COLOR_WARNING, "%s: this is a single reading without BPF counters.\n",
			view->alone);
	print_verdict(screen, status, view->alone);
	if (would_change > 0)
		draw(screen, COLOR_WARNING, "  %.0f would change: see headroom plan\n",
			would_change);
	draw_heading(screen, "Limits");
	cJSON_ArrayForEach (item, json_at(status, "limits"))
		if (has_problem(item) || n++ < screen->keep)
			print_limit(screen, item);
	print_rest(screen, n - screen->keep, "idle");
	print_conditions(screen, json_at(status, "conditions"));
	draw_heading(screen, "Settings");
	n = 0;
	cJSON_ArrayForEach (item, json_at(status, "tuners"))
		if (!streq(json_text_at(item, "mode"), "off") &&
			(!streq(json_text_at(item, "state"), "active") || n++ < screen->keep))
			print_tuner(screen, item, settings);
	print_rest(screen, n - screen->keep, "active tuners");
	cJSON_ArrayForEach (item, settings)
		width = MIN(MAX(width, (int)strlen(json_text_at(item, "name"))), 40);
	/* Settings that need attention; print_tuner() has counted the others. */
	cJSON_ArrayForEach (item, settings) {
		const char *state = json_text_at(item, "state");

		if (streq(state, "in-sync") || streq(state, "observed") ||
			streq(state, "unsupported"))
			continue;
		draw(screen, COLOR_NONE, "    %-*s ", width, json_text_at(item, "name"));
		draw(screen, color_of(state), "%-8s ", state);
		draw_wrapped(screen, 6, "%s, wanted %s (%s)", json_text_at(item, "actual"),
			json_text_at(item, "wanted"), json_text_at(item, "reason"));
	}
	print_pulls(screen, json_at(status, "runtime/found"));
	cJSON_ArrayForEach (item, json_at(status, "images")) {
		if (!streq(json_text_at(item, "state"), "active"))
			continue; /* `headroom images` lists all */
		if (heading)
			draw_heading(screen, steal(heading));
		print_image(screen, item);
	}
}

static int show_status(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	struct screen screen = screen_open();
	char alone[CLI_ALONE_MAX];
	int r = status_document(cli, false, &status, alone);

	if (r != EXIT_OK)
		return r;
	if (cli->json) {
		json_put(stdout, cJSON_Duplicate(status, true), true);
	} else {
		screen.live = screen.live && cli->watch;
		sort_limits(&screen, cJSON_GetObjectItem(status, "limits"));
		screen_fit(&screen, render_status, &(struct status_view){status, alone});
	}
	return streq(json_text_at(status, "node/verdict"), "ok") ? EXIT_OK : EXIT_ATTENTION;
}

/*
 * Waits two seconds or for a key and returns it, or 0. Ctrl-C and the end of input count as q. A
 * signal that ends the process is delivered after the terminal has been reset.
 */
static char wait_key(void)
{
	static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
	struct pollfd inputs[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.events = POLLIN}};
	struct termios was, raw;
	_cleanup_close_ int signals = -1;
	sigset_t held, before;
	char key = 0;

	/* A background process must not change the terminal. */
	if (tcgetattr(STDIN_FILENO, &was) < 0 || tcgetpgrp(STDIN_FILENO) != getpgrp()) {
		sleep(WATCH_SECONDS);
		return 0;
	}
	sigemptyset(&held);
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++)
		sigaddset(&held, ending[i]);
	sigprocmask(SIG_BLOCK, &held, &before);
	inputs[1].fd = signals = signalfd(-1, &held, SFD_CLOEXEC);
	raw = was;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	if (poll(inputs, 2, WATCH_SECONDS * 1000) > 0 && inputs[0].revents &&
		(read(STDIN_FILENO, &key, 1) != 1 || key == was.c_cc[VINTR]))
		key = 'q';
	tcsetattr(STDIN_FILENO, TCSANOW, &was);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return key;
}

int cli_repeat(const struct cli *cli, bool again, int (*print)(const struct cli *cli))
{
	struct cli view = *cli;
	int r = print(&view);

	while (again && r != EXIT_FAILED && !ferror(stdout)) {
		char key = wait_key();

		if (key == 'q')
			break;
		if (key == 's')
			view.sort_column++;
		r = print(&view);
	}
	return r;
}

/* Serves probes of a pod whose agent listens on no port. */
static int probe(const struct cli *cli)
{
	bool faulty;
	_cleanup_(cleanup_config_free) struct config *config = cli_load_config(cli, &faulty);
	_cleanup_(cleanup_cJSON_Delete) cJSON *answer = NULL;
	char socket_path[PATH_MAX];
	long status = 0;
	int r;

	core_socket_path(config, socket_path);
	r = client_call(socket_path, NULL, false, cli->probe, &answer, &status);
	if (r < 0)
		return cli_fail(socket_path, "%s", strerror(-r));
	return status == 200 ? EXIT_OK : cli_fail(cli->probe, "HTTP status %ld", status);
}

int cli_status(const struct cli *cli)
{
	if (cli->probe)
		return probe(cli);
	return cli_repeat(cli, cli->watch, show_status);
}

int cli_images(const struct cli *cli)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status = NULL;
	struct screen screen = screen_open();
	const cJSON *images, *image;
	char alone[CLI_ALONE_MAX];
	int r = status_document(cli, false, &status, alone);

	if (r != EXIT_OK)
		return r;
	images = json_at(status, "images");
	if (cli->json)
		return json_put(stdout, cJSON_Duplicate(images, true), true) ? EXIT_OK
									     : EXIT_FAILED;
	if (alone[0])
		draw(&screen, COLOR_WARNING, "%s, so no image is loaded.\n", alone);
	cJSON_ArrayForEach (image, images)
		print_image(&screen, image);
	if (cJSON_GetArraySize(images) == 0)
		puts("No images are configured: see images.archives and images.pull in "
		     "headroom.yaml(5).");
	return EXIT_OK;
}
