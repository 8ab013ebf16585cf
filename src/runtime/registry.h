/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names of registries and images; mirrors of registries: lists, health, questions, files. */

#include <headroom/file.h>

#include "base/json.h"
#include "base/text.h"
#include "runtime/archive.h"

#define REGISTRY_NAME_MAX 262 /* a DNS name (253, RFC 1035), "[", "]", ":65535" and the end */
#define REGISTRY_URL_MAX  256
#define REGISTRY_DEFAULT  "_default" /* any registry without mirrors of its own */

/*
 * Accepts host[:port]: a DNS name, an IPv4 address or an IPv6 one in brackets, a port from 1 to
 * 65535. Returns 0, or -EINVAL for anything else, such as "_default".
 */
int registry_check_name(const char *name);

/*
 * Returns the name under which runtimes look for the mirrors of a registry that has several names,
 * or is written in capitals: "docker.io" for "index.docker.io" and "Docker.IO". NULL: this is it.
 */
const char *registry_canonical(const char *name, char canonical[static REGISTRY_NAME_MAX]);

/*
 * Accepts http[s]://host[:port][/path] without user, password, query, fragment, "..", quotes, white
 * space or any other character that needs an escape in TOML or JSON. Returns 0 or -EINVAL.
 */
int registry_check_url(const char *url);

/*
 * Returns the length of the address of the API in a checked URL with a namespace behind it: of
 * "https://harbor.example/v2" in "https://harbor.example/v2/proxy". 0: without a namespace, the
 * runtime adds /v2.
 */
size_t registry_api_length(const char *url);

/* Copies a checked URL without trailing slashes. False when it does not fit. */
bool registry_copy_url(char *dst, size_t size, const char *url);

/*
 * Expands "busybox" to docker.io/library/busybox:latest (distribution/reference, normalize.go). A
 * digest stays: docker.io/library/busybox@sha256:... Returns -EINVAL for an invalid reference.
 */
int image_normalize(const char *reference, char name[static IMAGE_NAME_MAX]);

#define RUNTIME_MIRROR_MAX 32 /* configured in total */

/* An item of the option runtime.mirrors. */
struct runtime_mirror {
	char registry[REGISTRY_NAME_MAX]; /* or REGISTRY_DEFAULT */
	char url[REGISTRY_URL_MAX];
};

/* Copies the configured mirrors. Returns their number. */
struct config;
size_t registry_read_mirrors(
	const struct config *config, struct runtime_mirror mirrors[static RUNTIME_MIRROR_MAX]);

/* Lists of URLs, separated by spaces. Adding drops trailing slashes and skips duplicates. */
bool registry_list_has(const char *list, const char *url, size_t len);
void registry_list_add(char *list, size_t size, const char *url, size_t len);

/* Copies a list of JSON. Returns false if it does not fit. */
bool registry_list_read(const cJSON *json, char *list, size_t size);

/* Copies a list for display. A list that does not fit is cut and ends with its checksum. */
void registry_shorten_list(const char *list, char *out, size_t size);

/* Returns whether a checked URL's host is "localhost" or a loopback address. */
bool registry_is_loopback(const char *url);

/* Returns whether an address is in a network (CIDR) of a list. */
bool registry_list_covers(const char *list, const char *address);

/*
 * Mirror health: GET URL/v2/ (OCI distribution specification, "determining support") every 10 s,
 * within 2 s, without credentials; redirects are followed. 200 and 401 mean healthy: a mirror that
 * requires a login works. A web page does not.
 *
 * The first answer sets the state. Later the state changes after two contradicting answers, 1 s
 * apart: one lost packet does not disable a mirror.
 */

#define MIRROR_WHY_MAX 192

enum mirror_state {
	MIRROR_UNKNOWN, /* not checked yet: not used */
	MIRROR_UP,
	MIRROR_DOWN,
};

struct mirror {
	char url[REGISTRY_URL_MAX]; /* without trailing slashes */
	enum mirror_state state;
	char why[MIRROR_WHY_MAX]; /* why the last check failed; "" after a success */
	uint64_t since_us;        /* CLOCK_MONOTONIC: in this state */
	uint64_t due_us;          /* CLOCK_MONOTONIC of the next check */
	uint64_t took_us;         /* duration of the last check */
	unsigned int against;     /* answers in a row that contradict the state */
};

/*
 * Checks all due mirrors at the same time. HTTPS uses the certificates that the node trusts, below
 * host_root ("" for /). A cancelled check changes nothing.
 */
void mirrors_check(
	struct mirror *mirrors, size_t n, const char *host_root, const struct wait *wait);

#define MIRROR_PATH_MAX 512

/* A mirror, and what a runtime's file says about it. */
struct mirror_access {
	char url[REGISTRY_URL_MAX];
	/* Full paths; "": none. */
	char cas[4 * MIRROR_PATH_MAX + 1];     /* one a line */
	char clients[4 * MIRROR_PATH_MAX + 1]; /* a certificate, a key, ..., one a line */
	char headers[1024];                    /* one a line */
	const char *networks;                  /* the list of networks in which it is; or NULL */
	bool insecure;                         /* any certificate is good */
	bool is_root;                          /* the URL is that of the API */
	bool useless;                          /* it serves no pulls */
	bool unsupported;                      /* too many certificates, CAs or headers */
};

struct mirror_question {
	char image[IMAGE_NAME_MAX]; /* complete */
	struct mirror_access mirror;
	bool names_registry; /* ?ns=REGISTRY, as the runtime adds it */
	int answer; /* 1: it has the image; 0: not (yet); -errno: it refuses, or does not answer */
	char why[MIRROR_WHY_MAX]; /* for an error: the mirror and its answer */
};

/*
 * Asks all questions at the same time, for 2 s at most. A peer announces a manifest before its
 * layers, so a question by digest asks for the largest layer. After a 404 it asks once more.
 */
void mirrors_ask(struct mirror_question *questions, size_t n, const char *host_root,
	const struct wait *wait);

struct runtime_driver;

/* How a runtime's mirror files look. Paths are below the host's root. */
struct mirror_format {
	const char *setting;        /* "mirrors.": a file's setting is this and its registry */
	const char *directory;      /* unless the runtime's configuration names another */
	const char *url_mark;       /* precedes each URL in the text */
	enum activation activation; /* ACTIVATE_NONE: each pull reads the files */

	/*
	 * Finds the path of a registry's file, and the full path if it exists. -ENOENT: it does not
	 * exist; -EEXIST: a file of others has the registry; -EBADMSG, with why: a file of others
	 * is not understood. why[0] is 0 for all other results.
	 */
	int (*locate)(const struct host *host, const char *directory, const char *registry,
		char path[static SETTING_PATH_MAX], char full[static PATH_MAX],
		char why[static MIRROR_WHY_MAX]);

	/* Writes the tables for mirrors of a registry. False: the runtime cannot have them. */
	bool (*write)(FILE *out, const char *version, const char *registry, const char *const *urls,
		size_t n);
};

/* The file of one registry, as it is on disk. */
struct mirror_file {
	char registry[REGISTRY_NAME_MAX];    /* or REGISTRY_DEFAULT */
	const struct runtime_driver *driver; /* the runtime that reads the file */
	char path[SETTING_PATH_MAX];
	bool exists; /* or a file of others has the registry */
	bool ours;
	bool is_taken;                   /* a file of others has the registry, also beside ours */
	char taken_by[SETTING_PATH_MAX]; /* that file */
	char sum[HASH_TEXT_MAX];         /* the hash of our file's text */
	char mirrors[SETTING_VALUE_MAX]; /* the mirrors in our file */
	int error;                       /* the error of reading it */
	char why[MIRROR_WHY_MAX];        /* with -EBADMSG: "PATH:LINE:COLUMN: what" */
};

void mirror_file_read(const struct mirror_format *format, const struct host *host,
	const char *directory, struct mirror_file *file);

/*
 * Makes the text of a file, which the caller frees; its first line marks it as ours. urls are
 * checked and in the wanted order; those on this node go first. NULL: the runtime cannot have these
 * mirrors.
 */
char *mirror_file_make(const struct mirror_format *format, const char *version,
	const char *registry, const char *const *urls, size_t n);

/* Lists the URLs in a text of ours, "none" without one; a long list is cut and ends in a checksum.
 */
void mirror_file_list(
	const struct mirror_format *format, const char *text, char list[static SETTING_VALUE_MAX]);
