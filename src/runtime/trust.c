/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/trust.h"

#include "base/file.h"
#include "base/util.h"

#include <errno.h>
#include <limits.h>
#include <sys/mman.h>

#define BEGIN      "-----BEGIN "
#define BUNDLE_MAX (4u * 1024 * 1024)
#define PART       12 /* certificates: under 1 ms to read, and a bundle has a dozen parts */
#define PARTS_MAX  128

struct trust {
	int fds[PARTS_MAX];
	size_t n;
};

/* Debian, Red Hat, SUSE, Alpine: the places that Go's crypto/x509 knows, in its order. */
static const char *const places[] = {
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/cert.pem",
};

static int read_bundle(const char *host_root, char **text)
{
	char path[PATH_MAX];
	int r = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(places) && r == -ENOENT; i++) {
		r = path_in_root(host_root, places[i], path);
		if (r == 0)
			r = read_file(path, BUNDLE_MAX, text, NULL);
	}
	return r;
}

static int add_part(struct trust *trust, const char *start, size_t len)
{
	int fd, r;

	if (trust->n == PARTS_MAX)
		return -E2BIG;
	fd = memfd_create("trust", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	trust->fds[trust->n++] = fd;
	r = write_all(fd, start, len);
	return r;
}

/* Cut before every so many certificates; what stands between them are comments. */
static int split(struct trust *trust, const char *text)
{
	const char *start = strstr(text, BEGIN), *next = start;

	while (start) {
		int r;

		for (int i = 0; i < PART && next; i++)
			next = strstr(next + strlen(BEGIN), BEGIN);
		r = add_part(trust, start, next ? (size_t)(next - start) : strlen(start));
		if (r < 0)
			return r;
		start = next;
	}
	return trust->n > 0 ? 0 : -EINVAL;
}

int trust_open(const char *host_root, struct trust **ret)
{
	_cleanup_(cleanup_trust_close) struct trust *trust = NULL;
	_cleanup_free_ char *text = NULL;
	int r = read_bundle(host_root, &text);

	if (r < 0)
		return r;
	trust = calloc(1, sizeof(*trust));
	if (!trust)
		return -ENOMEM;
	r = split(trust, text);
	if (r < 0)
		return r;
	*ret = steal(trust);
	return 0;
}

size_t trust_parts(const struct trust *trust)
{
	return trust->n;
}

void trust_path(const struct trust *trust, size_t part, char path[static TRUST_PATH_MAX])
{
	snprintf(path, TRUST_PATH_MAX, "/proc/self/fd/%d", trust->fds[part]);
}

void trust_close(struct trust *trust)
{
	if (!trust)
		return;
	for (size_t i = 0; i < trust->n; i++)
		close(trust->fds[i]);
	free(trust);
}
