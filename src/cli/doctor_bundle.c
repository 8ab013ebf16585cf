/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor.h"

#include "base/child.h"
#include "base/file.h"
#include "base/task.h"
#include "base/text.h"
#include "cli/cli.h"
#include "kernel/kmsg.h"
#include "report/incidents.h"
#include "runtime/systemd.h"
#include "tuners/table.h"

#include <ctype.h>
#include <sys/utsname.h>

#define BUNDLE_DIRECTORY "headroom-doctor/"
#define FACT_MAX         (256 * 1024)
#define INCIDENTS_MAX    200
#define LOG_MAX          (4 * 1024 * 1024)
#define LOG_LINES        "2000"
#define KERNEL_LINES     500 /* of each part of dmesg.txt */
#define HIDDEN           "[hidden]"

struct bundle {
	const struct bundle_input *input;
	FILE *out;    /* in memory */
	FILE *errors; /* text: what could not be collected */
	uint64_t time_s;
};

/* ---- secrets ---- */

/* Returns the length of a word at text that a secret follows: "password: hunter2". */
static size_t secret_key(const char *text)
{
	static const char *const keys[] = {"password", "passwd", "passphrase", "token", "secret",
		"authorization", "bearer", "apikey", "api_key", "api-key", "access_key",
		"access-key", "private_key", "credential", "credentials"};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		size_t len = strlen(keys[i]), gap;

		if (strncasecmp(text, keys[i], len) != 0)
			continue;
		gap = strspn(text + len, "\\\"' ");
		if (text[len + gap] != ':' && text[len + gap] != '=')
			continue;
		gap += 1 + strspn(text + len + gap + 1, "\\\"' ");
		for (const char *scheme = "basic "; gap > 0;
			scheme = streq(scheme, "basic ") ? "bearer " : NULL) {
			if (!scheme)
				return len + gap;
			if (strncasecmp(text + len + gap, scheme, strlen(scheme)) == 0)
				gap += strlen(scheme);
		}
	}
	return 0;
}

/* Returns the length of a hash of crypt(3) or a JSON web token at text, or 0. */
static size_t secret_word(const char *text)
{
	size_t len = strcspn(text, " \t\n\"'\\,;)");

	if (text[0] == '$' && isalnum((unsigned char)text[1]) && len > 10 &&
		memchr(text + 2, '$', len - 2))
		return len;
	return strncmp(text, "eyJ", 3) == 0 && len > 20 ? len : 0;
}

/*
 * Returns a copy without secrets. It keeps only scheme, host and port of a URL: the path of a
 * mirror or a web hook may be a secret, too.
 */
static char *redact(const char *text)
{
	_cleanup_free_ char *copy = must(strdup(text));
	char *result = NULL;
	size_t size, n;
	FILE *out = must(open_memstream(&result, &size));

	hide_secrets(copy);
	for (const char *p = copy; *p;) {
		bool begins = p == copy || !isalnum((unsigned char)p[-1]);

		if (strncmp(p, "://", 3) == 0) {
			n = 3 + strcspn(p + 3, "/ \t\n\"'\\,;)<>");
			fwrite(p, 1, n, out);
			p += n;
			n = strcspn(p, " \t\n\"'\\,;)<>");
			if (n > 1)
				fputs("/" HIDDEN, out);
			p += n;
		} else if ((n = secret_key(p)) > 0) {
			fwrite(p, 1, n, out);
			p += n;
			/* A quoted secret may have blanks. */
			n = strcspn(p, strchr("\"'", p[-1]) ? "\n\"'\\" : " \t\n\"'\\,;");
			fputs(n > 0 ? HIDDEN : "", out);
			p += n;
		} else if (begins && (n = secret_word(p)) > 0) {
			fputs(HIDDEN, out);
			p += n;
		} else {
			fputc(*p++, out);
		}
	}
	fclose(out);
	return result;
}

/* ---- tar ---- */

/* Writes a file in the ustar format: POSIX.1-2017, pax, "ustar Interchange Format". */
static void put_bytes(struct bundle *bundle, const char *name, const char *data, size_t len)
{
	static const char zeros[512];
	char header[512] = {0};
	unsigned sum = 0;

	snprintf(header, 100, BUNDLE_DIRECTORY "%s", name);
	memcpy(header + 100,
		"0000600\0"
		"0000000\0"
		"0000000\0",
		24);
	snprintf(header + 124, 12, "%011zo", len);
	snprintf(header + 136, 12, "%011" PRIo64, bundle->time_s);
	memset(header + 148, ' ', 8);
	header[156] = '0';
	memcpy(header + 257, "ustar\00000", 8);
	for (size_t i = 0; i < sizeof(header); i++)
		sum += (unsigned char)header[i];
	snprintf(header + 148, 8, "%06o", sum);
	fwrite(header, 1, sizeof(header), bundle->out);
	fwrite(data, 1, len, bundle->out);
	fwrite(zeros, 1, -len % 512, bundle->out);
}

static void put_text(struct bundle *bundle, const char *name, const char *text)
{
	_cleanup_free_ char *clean = redact(text);

	put_bytes(bundle, name, clean, strlen(clean));
}

static void put_json(struct bundle *bundle, const char *name, const cJSON *document)
{
	_cleanup_free_ char *text = must(cJSON_Print(document));

	put_text(bundle, name, text);
}

/* ---- contents ---- */

static void note(struct bundle *bundle, const char *what, const char *why)
{
	fprintf(bundle->errors, "%s: %s\n", what, why);
}

/* Leaves out the names of DNS queries, which a document for root has. */
static void put_status(struct bundle *bundle)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *status =
		must(cJSON_Duplicate(bundle->input->status, true));
	cJSON *server;

	cJSON_ArrayForEach (
		server, cJSON_GetObjectItem(cJSON_GetObjectItem(status, "dns"), "servers"))
		cJSON_DeleteItemFromObject(server, "names");
	put_json(bundle, "status.json", status);
}

/* Writes the journal of the unit, if the node has one. The status has the agent's last messages. */
static void put_log(struct bundle *bundle)
{
	const char *const arguments[] = {"/usr/bin/journalctl", "--unit", "headroom.service",
		"--lines", LOG_LINES, "--no-pager", "--output", "short-iso-precise", "--quiet",
		NULL};
	const struct child child = {
		.arguments = arguments, .root = bundle->input->host->root, .output_max = LOG_MAX};
	const struct wait wait = {.deadline_us = UINT64_MAX, .cancel_fd = -1};
	_cleanup_free_ char *output = NULL;
	char why[CHILD_WHY_MAX];
	const cJSON *event;
	size_t len;

	if (child_ask(&child, &wait, &output, why) < 0)
		note(bundle, "log.txt: journal", why);
	else if (output[0]) {
		put_text(bundle, "log.txt", output);
		return;
	} else {
		note(bundle, "log.txt: journal", "it lacks messages of headroom.service");
	}
	free(steal(output));
	FILE *out = must(open_memstream(&output, &len));
	cJSON_ArrayForEach (event, json_at(bundle->input->status, "events"))
		fprintf(out, "%s %s: %s\n", json_text_at(event, "time"),
			json_text_at(event, "level"), json_text_at(event, "text"));
	fclose(out);
	put_text(bundle, "log.txt", output);
}

/* The last lines of a text that is written line by line. */
struct last_lines {
	char *lines[KERNEL_LINES];
	size_t n; /* all that were added */
};

static void PRINTF_LIKE(2, 3) last_lines_add(struct last_lines *last, const char *format, ...)
{
	char **line = &last->lines[last->n++ % KERNEL_LINES];
	va_list args;

	free(*line);
	va_start(args, format);
	must_do(vasprintf(line, format, args) >= 0);
	va_end(args);
}

static void last_lines_put(struct last_lines *last, FILE *out)
{
	for (size_t i = last->n > KERNEL_LINES ? last->n - KERNEL_LINES : 0; i < last->n; i++)
		fputs(last->lines[i % KERNEL_LINES], out);
	for (size_t i = 0; i < KERNEL_LINES; i++)
		free(last->lines[i]);
}

/* Writes the faults in the kernel's log with their classes, then the end of the log. */
static void put_kernel_log(struct bundle *bundle)
{
	_cleanup_(cleanup_kmsg_close) struct kmsg *kmsg = NULL;
	struct last_lines faults = {0}, all = {0};
	_cleanup_free_ char *text = NULL;
	struct kmsg_record record;
	struct kmsg_fault fault;
	size_t len;
	FILE *out;
	int r = kmsg_open(bundle->input->host, KMSG_ALL, 0, &kmsg);

	while (r == 0 && (r = kmsg_next(kmsg, now_us(), &record)) > 0) {
		double seconds = (double)record.time_us / USEC_PER_SEC;

		if (kmsg_classify(kmsg, &record, &fault) && !fault.is_over)
			last_lines_add(&faults, "%s [%12.6f] %s\n", kmsg_classes[fault.class].slug,
				seconds, record.text);
		last_lines_add(&all, "<%u> [%12.6f] %s%s\n", record.level, seconds,
			record.of_kernel ? "" : "(program) ", record.text);
		r = 0;
	}
	if (r < 0)
		note(bundle, "dmesg.txt", strerror(-r));
	out = must(open_memstream(&text, &len));
	fprintf(out, "==> faults: %zu\n", faults.n);
	last_lines_put(&faults, out);
	fprintf(out, "==> last lines of %zu\n", all.n);
	last_lines_put(&all, out);
	fclose(out);
	put_text(bundle, "dmesg.txt", text);
}

static void put_unit(FILE *out, const struct host *host, const char *name)
{
	char since[TIME_TEXT_MAX] = "not known";
	struct systemd_state state;

	if (!systemd_state(host, name, &state) || streq(state.load, "not-found"))
		return;
	if (state.change_us > 0)
		time_text(state.change_us, since);
	fprintf(out, "%s: %s, %s (%s), %s, result %s, %u restarts, since %s\n", name, state.load,
		state.active, state.sub, state.file, state.result, state.restarts, since);
}

/* Writes the states of the units of agent, kubelet and runtimes. */
static void put_units(struct bundle *bundle)
{
	const struct host *host = bundle->input->host;
	_cleanup_(sd_bus_close_unrefp) sd_bus *bus = NULL;
	_cleanup_free_ char *text = NULL;
	size_t len;
	FILE *out;
	int r = systemd_open(host, &bus);

	if (r < 0)
		return note(bundle, "units.txt: systemd", strerror(-r));
	out = must(open_memstream(&text, &len));
	put_unit(out, host, "headroom.service");
	for (const char *const *name = node_units; *name; name++)
		put_unit(out, host, *name);
	fclose(out);
	put_text(bundle, "units.txt", text);
}

/* The incidents, which a thread collects: their disk may hang. */
struct part {
	struct bundle bundle;
	char *tar, *errors;
	size_t len, errors_len;
};

/* Writes the newest incidents: their names begin with the time. */
static void collect_incidents(struct bundle *bundle)
{
	char directory[PATH_MAX], path[PATH_MAX], name[96];
	struct dirent **entries = NULL;
	int r = core_directory(bundle->input->host, CORE_STATE, directory), n;

	if (r < 0 || !set_text(path, directory))
		return note(bundle, "incidents", strerror(ENODEV));
	text_append(path, sizeof(path), INCIDENTS_DIRECTORY);
	n = scandir(path, &entries, NULL, alphasort);
	if (n < 0)
		return note(bundle, "incidents", strerror(errno));
	for (int i = 0; i < n; i++) {
		_cleanup_free_ char *text = NULL;
		char file[PATH_MAX];

		if (entries[i]->d_name[0] != '.' && i + INCIDENTS_MAX >= n) {
			snprintf(file, sizeof(file), "%.*s/%s", PATH_MAX - NAME_MAX - 2, path,
				entries[i]->d_name);
			snprintf(name, sizeof(name), "incidents/%.80s", entries[i]->d_name);
			r = read_file(file, INCIDENT_BYTES_MAX, &text, NULL);
			if (r < 0)
				note(bundle, name, strerror(-r));
			else
				put_text(bundle, name, text);
		}
		free(entries[i]);
	}
	free(entries);
}

static void run_part(void *data, const struct wait *)
{
	struct part *part = data;

	collect_incidents(&part->bundle);
}

static void put_incidents(struct bundle *bundle)
{
	struct part *part = must(calloc(1, sizeof(*part)));
	struct task *task = NULL;
	int r;

	part->bundle = *bundle;
	part->bundle.out = must(open_memstream(&part->tar, &part->len));
	part->bundle.errors = must(open_memstream(&part->errors, &part->errors_len));
	r = task_start(&task, NULL, &(struct task){run_part, NULL, part, NULL, UINT64_MAX});
	if (!task_end(&task, now_us() + INCIDENTS_READ_US)) /* the thread keeps the memory */
		return note(bundle, "incidents", "their disk does not answer");
	fclose(part->bundle.out);
	fclose(part->bundle.errors);
	fwrite(part->tar, 1, part->len, bundle->out);
	fwrite(part->errors, 1, part->errors_len, bundle->errors);
	if (r < 0)
		note(bundle, "incidents", strerror(-r));
	free(part->tar);
	free(part->errors);
	free(part);
}

/* Collects files of the kernel and of the distribution: versions, and what the limits depend on. */
static void put_facts(struct bundle *bundle)
{
	static const char *const paths[] = {"/etc/os-release", "/proc/version", "/proc/cmdline",
		"/proc/uptime", "/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/vmstat",
		"/proc/cpuinfo", "/sys/devices/system/cpu/possible",
		"/sys/devices/system/cpu/online", "/sys/devices/system/cpu/isolated",
		"/proc/diskstats", "/proc/swaps", "/proc/sys/net/ipv4/ip_local_port_range",
		"/proc/sys/net/ipv4/ip_local_reserved_ports", "/proc/sys/net/ipv4/ip_forward",
		"/proc/sys/net/bridge/bridge-nf-call-iptables", "/etc/resolv.conf",
		"/proc/buddyinfo", "/proc/filesystems", "/proc/cgroups", "/proc/mounts",
		"/proc/net/sockstat", "/proc/net/sockstat6", "/proc/net/softnet_stat",
		"/proc/net/netstat", "/proc/net/snmp", "/proc/net/stat/nf_conntrack",
		"/proc/net/rt6_stats", "/proc/key-users", "/proc/pressure/cpu",
		"/proc/pressure/memory", "/proc/pressure/io", "/proc/sys/fs/file-nr",
		"/proc/sys/fs/mount-max", "/proc/sys/fs/inotify/max_user_instances",
		"/proc/sys/fs/inotify/max_user_watches", "/proc/sys/kernel/pid_max",
		"/proc/sys/kernel/threads-max", "/proc/sys/kernel/unprivileged_bpf_disabled",
		"/proc/sys/kernel/lockdown", "/proc/sys/net/core/bpf_jit_limit",
		"/proc/sys/net/core/bpf_jit_enable", "/proc/sys/net/core/somaxconn",
		"/proc/sys/net/ipv4/tcp_mem", "/proc/sys/net/ipv6/route/max_size",
		"/proc/sys/net/ipv4/neigh/default/gc_thresh1",
		"/proc/sys/net/ipv4/neigh/default/gc_thresh2",
		"/proc/sys/net/ipv4/neigh/default/gc_thresh3",
		"/proc/sys/net/netfilter/nf_conntrack_max", "/proc/sys/user/max_user_namespaces",
		"/proc/sys/vm/max_map_count", "/sys/kernel/mm/transparent_hugepage/enabled",
		"/sys/kernel/mm/transparent_hugepage/defrag", "/sys/kernel/security/lockdown",
		"/proc/self/status", "/proc/self/limits"};
	_cleanup_free_ char *all = NULL;
	size_t len;
	FILE *out = must(open_memstream(&all, &len));
	struct utsname name;

	if (uname(&name) == 0)
		fprintf(out, "==> uname\n%s %s %s %s %s\n", name.sysname, name.nodename,
			name.release, name.version, name.machine);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		_cleanup_free_ char *text = NULL;
		int r = host_read_file(bundle->input->host, paths[i], FACT_MAX, &text);

		if (r < 0)
			note(bundle, paths[i], strerror(-r));
		else
			fprintf(out, "==> %s\n%s%s", paths[i], text,
				text[0] && text[strlen(text) - 1] != '\n' ? "\n" : "");
	}
	fclose(out);
	put_text(bundle, "kernel.txt", all);
}

int doctor_bundle(const char *path, const struct bundle_input *input)
{
	static const char end[1024];
	_cleanup_(cleanup_cJSON_Delete) cJSON *version = NULL;
	_cleanup_free_ char *errors = NULL, *tar = NULL;
	size_t errors_len, len;
	struct bundle bundle = {.input = input,
		.out = must(open_memstream(&tar, &len)),
		.errors = must(open_memstream(&errors, &errors_len)),
		.time_s = realtime_us() / USEC_PER_SEC};

	put_json(&bundle, "doctor.json", input->doctor);
	put_status(&bundle);
	if (input->metrics && input->metrics[0])
		put_text(&bundle, "metrics.txt", input->metrics);
	else
		note(&bundle, "metrics.txt", "the agent sent none");
	put_json(&bundle, "configuration.json", input->configuration);
	version = version_document(input->status);
	put_json(&bundle, "version.json", version);
	put_log(&bundle);
	put_kernel_log(&bundle);
	put_units(&bundle);
	put_incidents(&bundle);
	put_facts(&bundle);
	fclose(bundle.errors);
	put_text(&bundle, "errors.txt", errors);
	fwrite(end, 1, sizeof(end), bundle.out);
	fclose(bundle.out);
	/* The file is replaced as a whole, with access for its owner only. */
	return streq(path, "-") ? write_all(STDOUT_FILENO, tar, len)
				: replace_path(path, tar, len, false);
}
