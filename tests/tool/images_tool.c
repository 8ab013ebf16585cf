/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The calls of src/runtime/images.h, for the root tests.
 *
 * images_tool KIND SOCKET SECONDS COMMAND
 *
 * KIND: containerd, docker. COMMAND:
 *   list                  a line for each name: NAME ID
 *   load ARCHIVE SPOOL    all images of an archive
 *   pull NAME, clean
 *
 * SIGTERM cancels. Exit status 0; 1 for an error, with "ERRNO: why" on stderr; 64 for wrong usage.
 */

#include "runtime/images.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>

static struct host host = {.state = ""};

static int list(const struct image_runtime *runtime, const struct wait *wait, char *why)
{
	_cleanup_free_ struct runtime_image *images = NULL;
	size_t n = 0;
	int r = images_list(runtime, wait, &images, &n, why);

	for (size_t i = 0; r == 0 && i < n; i++)
		printf("%s %s\n", images[i].name, images[i].id);
	return r;
}

static int load(
	const struct image_runtime *runtime, char **args, const struct wait *wait, char *why)
{
	_cleanup_(cleanup_archive_close) struct archive *archive = NULL;
	_Atomic uint64_t done = 0;
	int r;

	host.state = args[1];
	r = archive_open(&host, args[0], 0, wait, &archive, why);
	for (size_t i = 0; r == 0 && i < archive->n_images; i++)
		r = images_load(runtime, &host, archive, &archive->images[i], wait, &done, why);
	return r;
}

static int run(const struct image_runtime *runtime, int n, char **args, const struct wait *wait,
	char why[static IMAGES_WHY_MAX])
{
	const char *command = args[0];

	if (streq(command, "list") && n == 1)
		return list(runtime, wait, why);
	if (streq(command, "load") && n == 3)
		return load(runtime, args + 1, wait, why);
	if (streq(command, "pull") && n == 2)
		return images_pull(runtime, args[1], wait, why);
	if (streq(command, "clean") && n == 1)
		return images_clean(runtime, &host, wait, why);
	return 64;
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
	if (argc > 4) {
		runtime.kind = streq(argv[1], "docker") ? RUNTIME_DOCKER : RUNTIME_CONTAINERD;
		copy_text(runtime.socket, sizeof(runtime.socket), argv[2]);
		wait.deadline_us = now_us() + strtoull(argv[3], NULL, 10) * USEC_PER_SEC;
		r = run(&runtime, argc - 4, argv + 4, &wait, why);
	}
	if (r == 64)
		fprintf(stderr, "images_tool: see the comment at the top of its source\n");
	else if (r < 0)
		fprintf(stderr, "%s: %s\n", strerrorname_np(-r), why);
	return r < 0 ? 1 : r;
}
