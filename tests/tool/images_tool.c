/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Calls the image functions of a runtime driver (src/runtime/driver.h) for the root tests.
 *
 * images_tool KIND SOCKET SECONDS COMMAND
 *
 * KIND: a driver's name. COMMAND:
 *   list                  prints a line for each name: NAME ID
 *   load ARCHIVE SPOOL    loads all images of an archive
 *   pull NAME
 *   clean
 *
 * SIGTERM cancels. Exit status 0; 1 for an error, with "ERRNO: why" on stderr; 64 for wrong usage.
 */

#include "apply/load_file.h"
#include "runtime/driver.h"

#include <signal.h>
#include <sys/signalfd.h>

static struct host host = {.state = "", .put_load_file = load_file_put};

static int run(const struct image_runtime *runtime, int n, char **args, const struct wait *wait,
	char why[static IMAGES_WHY_MAX])
{
	_cleanup_(cleanup_archive_close) struct archive *archive = NULL;
	_cleanup_free_ struct runtime_image *images = NULL;
	const char *command = args[0];
	_Atomic uint64_t done = 0;
	size_t n_images = 0;
	int r = 64;

	if (streq(command, "list") && n == 1)
		r = runtime->driver->list(runtime, wait, &images, &n_images, why);
	for (size_t i = 0; i < n_images; i++)
		printf("%s %s\n", images[i].name, images[i].id);
	if (streq(command, "load") && n == 3) {
		host.state = args[2];
		r = archive_open(&host, args[1], 0, 0, wait, &archive, why);
	}
	for (size_t i = 0; r == 0 && archive && i < archive->n_images; i++)
		r = images_load(
			runtime, &host, archive, &archive->images[i], wait, &done, NULL, why);
	if (streq(command, "pull") && n == 2)
		r = runtime->driver->pull(runtime, args[1], wait, &done, why);
	if (streq(command, "clean") && n == 1)
		r = images_clean(runtime, &host, wait, why);
	return r;
}

int main(int argc, char **argv)
{
	struct image_runtime runtime = {0};
	char why[IMAGES_WHY_MAX] = "";
	struct wait wait;
	sigset_t signals;
	int r = 64;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	wait.cancel_fd = signalfd(-1, &signals, SFD_CLOEXEC);
	runtime.driver = argc > 4 ? runtime_driver_find(argv[1]) : NULL;
	if (runtime.driver) {
		set_text(runtime.socket, argv[2]);
		wait.deadline_us = now_us() + strtoull(argv[3], NULL, 10) * USEC_PER_SEC;
		r = run(&runtime, argc - 4, argv + 4, &wait, why);
	}
	if (r < 0)
		fprintf(stderr, "%s: %s\n", strerrorname_np(-r), why);
	return r < 0 ? 1 : r;
}
