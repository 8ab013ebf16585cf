/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of resolv.conf(5), of the node and of the kubelet, in this order: the parser; the
 * probe, which asks all servers at once; the rules.
 */
#include "tuners/checks.h"

#include "base/file.h"
#include "base/text.h"
#include "runtime/kubelet.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#define NODE_FILE     "/etc/resolv.conf"
#define RESOLVED_FILE "/run/systemd/resolve/resolv.conf" /* the servers of systemd-resolved */
#define FILE_TEXT_MAX (64 * 1024)
#define SERVER        "nameserver "
#define SERVERS_MAX   16
#define SERVERS_USED  3 /* MAXNS of glibc; the kubelet passes on as many */
#define SEARCH_USED   6 /* of glibc before 2.26 */
#define FILES_MAX     2
#define TRIES         2
#define TRY_US        (1000 * USEC_PER_MSEC)

struct resolver {
	char content[sizeof(SERVER) + INET6_ADDRSTRLEN + IF_NAMESIZE]; /* "nameserver ADDRESS" */
	unsigned line;
	union {
		struct sockaddr any;
		struct sockaddr_in ipv4;
		struct sockaddr_in6 ipv6;
	} address;
	int fd, error; /* of the probe; error 0: no answer */
	bool answers;
};

struct resolv_conf {
	const char *path;
	struct resolver servers[SERVERS_MAX];
	size_t n_servers;
	unsigned search_line, n_search;
	bool is_edited_by_hand; /* no link, and no mount that a container runtime has made */
	char target[PATH_MAX];  /* of a link */
};

static const char *address_of(const struct resolver *server)
{
	return server->content + strlen(SERVER);
}

/* ---- the parser ---- */

static bool parse_address(struct resolver *server, const char *word)
{
	char address[INET6_ADDRSTRLEN];
	const char *scope = strchr(word, '%');

	snprintf(server->content, sizeof(server->content), SERVER "%s", word);
	snprintf(address, sizeof(address), "%.*s", (int)strcspn(word, "%"), word);
	if (!scope && inet_pton(AF_INET, address, &server->address.ipv4.sin_addr) == 1) {
		server->address.ipv4.sin_family = AF_INET;
		server->address.ipv4.sin_port = htons(53);
		return true;
	}
	if (inet_pton(AF_INET6, address, &server->address.ipv6.sin6_addr) != 1)
		return false;
	server->address.ipv6.sin6_family = AF_INET6;
	server->address.ipv6.sin6_port = htons(53);
	server->address.ipv6.sin6_scope_id = scope ? if_nametoindex(scope + 1) : 0;
	return true;
}

/* As glibc reads a line: the keyword is in the first column, and the last list of domains counts.
 */
static void parse_line(struct resolv_conf *conf, char *line, unsigned number)
{
	char *rest = NULL, *keyword;

	if (line[0] == ' ' || line[0] == '\t')
		return;
	keyword = strtok_r(line, " \t\r", &rest);
	if (!keyword)
		return;
	if (streq(keyword, "nameserver") && conf->n_servers < SERVERS_MAX) {
		struct resolver server = {.line = number, .fd = -1};
		const char *word = strtok_r(NULL, " \t\r", &rest);

		if (word && parse_address(&server, word))
			conf->servers[conf->n_servers++] = server;
	} else if (streq(keyword, "search") || streq(keyword, "domain")) {
		conf->search_line = number;
		conf->n_search = 0;
		for (const char *word; (word = strtok_r(NULL, " \t\r", &rest));)
			conf->n_search += word[0] != '#' && word[0] != ';';
	}
}

static int read_conf(const struct host *host, struct resolv_conf *conf)
{
	_cleanup_free_ char *text = NULL;
	char full[PATH_MAX], above[PATH_MAX];
	struct stat st, directory;
	unsigned number = 1;
	ssize_t n;
	int r = path_in_root(host->root, conf->path, full);

	if (r == 0)
		r = read_file(full, FILE_TEXT_MAX, &text, NULL);
	if (r < 0)
		return r;
	for (char *next = text, *line; (line = strsep(&next, "\n")); number++)
		parse_line(conf, line, number);
	n = readlink(host_path(host, conf->path, full), conf->target, sizeof(conf->target) - 1);
	conf->target[MAX(n, 0)] = '\0';
	snprintf(above, sizeof(above), "%.*s", (int)(strrchr(full, '/') - full), full);
	conf->is_edited_by_hand = n < 0 && lstat(full, &st) == 0 && stat(above, &directory) == 0 &&
				  st.st_dev == directory.st_dev;
	return 0;
}

/* ---- the probe ---- */

/* Writes a query: the name servers of the root, then, for servers that refuse this, localhost. */
static size_t write_query(uint8_t query[static 64], uint16_t id, int attempt)
{
	static const uint8_t root[] = {0, 0, 2, 0, 1};
	static const uint8_t localhost[] = {
		9, 'l', 'o', 'c', 'a', 'l', 'h', 'o', 's', 't', 0, 0, 1, 0, 1};
	const uint8_t header[12] = {(uint8_t)(id >> 8), (uint8_t)id, 1 /* RD */, 0, 0, 1};
	size_t len = attempt == 0 ? sizeof(root) : sizeof(localhost);

	memcpy(query, header, sizeof(header));
	memcpy(query + sizeof(header), attempt == 0 ? root : localhost, len);
	return sizeof(header) + len;
}

static void send_query(struct resolver *server, uint16_t id, int attempt)
{
	bool ipv4 = server->address.any.sa_family == AF_INET;
	uint8_t query[64];
	size_t len = write_query(query, id, attempt);

	server->error = 0;
	if (server->fd < 0)
		server->fd = socket(server->address.any.sa_family,
			SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server->fd < 0 ||
		connect(server->fd, &server->address.any,
			ipv4 ? sizeof(server->address.ipv4) : sizeof(server->address.ipv6)) < 0 ||
		send(server->fd, query, len, 0) < 0)
		server->error = -errno;
}

static void receive_answer(struct resolver *server, uint16_t id)
{
	uint8_t answer[512];
	ssize_t n = recv(server->fd, answer, sizeof(answer), 0);

	if (n < 0 && errno != EAGAIN)
		server->error = -errno;
	else if (n >= 12 && answer[0] == id >> 8 && answer[1] == (id & 0xff) && answer[2] & 0x80)
		server->answers = true;
}

/* Asks the servers that did not answer yet, and waits for a second at most. */
static void try_servers(struct resolver **servers, size_t n, int attempt)
{
	uint64_t deadline = now_us() + TRY_US;
	uint16_t id = 0;

	(void)!getrandom(&id, sizeof(id), 0);
	for (size_t i = 0; i < n; i++)
		if (!servers[i]->answers)
			send_query(servers[i], id, attempt);
	for (;;) {
		struct pollfd fds[FILES_MAX * SERVERS_USED];
		nfds_t waiting = 0;
		uint64_t now = now_us();

		for (size_t i = 0; i < n; i++) {
			bool waits = !servers[i]->answers && servers[i]->error == 0;

			fds[i] = (struct pollfd){waits ? servers[i]->fd : -1, POLLIN, 0};
			waiting += waits;
		}
		if (waiting == 0 || now >= deadline ||
			poll(fds, n, (int)((deadline - now) / USEC_PER_MSEC) + 1) <= 0)
			return;
		for (size_t i = 0; i < n; i++)
			if (fds[i].revents)
				receive_answer(servers[i], id);
	}
}

static void ask_servers(struct resolv_conf *files, size_t n_files)
{
	struct resolver *servers[FILES_MAX * SERVERS_USED];
	size_t n = 0;

	for (size_t i = 0; i < n_files; i++)
		for (size_t k = 0; k < MIN(files[i].n_servers, (size_t)SERVERS_USED); k++)
			servers[n++] = &files[i].servers[k];
	for (int attempt = 0; attempt < TRIES; attempt++)
		try_servers(servers, n, attempt);
	for (size_t i = 0; i < n; i++)
		if (servers[i]->fd >= 0)
			close(servers[i]->fd);
}

/* ---- the rules ---- */

/* Adds a command that changes a line, or says which program writes the file. */
static void PRINTF_LIKE(3, 4) add_edit(
	const struct resolv_conf *conf, struct check_finding *finding, const char *expression, ...)
{
	char command[64], quoted[SHELL_WORD_MAX];
	va_list args;

	va_start(args, expression);
	vsnprintf(command, sizeof(command), expression, args);
	va_end(args);
	if (conf->is_edited_by_hand)
		check_set(finding->now, "sed -i %s %s", command, shell_word(quoted, conf->path));
	else if (strstr(conf->target, "systemd/resolve") || streq(conf->path, RESOLVED_FILE))
		check_set(finding->hint,
			"systemd-resolved writes it: resolvectl status shows from which link the "
			"servers are; change DNS= in /etc/systemd/resolved.conf or of the link");
	else if (strstr(conf->target, "NetworkManager"))
		check_set(finding->hint, "NetworkManager writes it: nmcli connection modify NAME "
					 "ipv4.dns ADDRESSES");
	else
		check_set(finding->hint, "another program writes %.200s: change it there",
			conf->target[0] ? conf->target : conf->path);
}

static struct check_finding *PRINTF_LIKE(5, 6) add_line(struct check_report *report,
	const struct resolv_conf *conf, unsigned line, const char *content, const char *format, ...)
{
	struct check_finding *finding = check_add(report, CHECK_FAULT, "%s", "");
	va_list args;

	check_about(finding, INSTANCE_FILE, "%.120s:%u %s", conf->path, line, content);
	va_start(args, format);
	vsnprintf(finding->message, sizeof(finding->message), format, args);
	va_end(args);
	return finding;
}

static void judge_answers(struct check_report *report, const struct resolv_conf *conf)
{
	size_t used = MIN(conf->n_servers, (size_t)SERVERS_USED), alive = 0;

	for (size_t i = 0; i < used; i++)
		alive += conf->servers[i].answers;
	for (size_t i = 0; i < used; i++) {
		const struct resolver *server = &conf->servers[i];
		struct check_finding *finding;

		if (server->answers)
			continue;
		finding = add_line(report, conf, server->line, server->content,
			"%s does not answer%s%s%s", address_of(server),
			server->error < 0 ? " (" : "",
			server->error < 0 ? strerror(-server->error) : "",
			server->error < 0 ? ")" : "");
		text_append(finding->message, sizeof(finding->message),
			alive > 0 ? ", and %zu of %zu servers do" : ", and no other server does",
			alive, used);
		if (alive > 0)
			add_edit(conf, finding, "'%us/^/# /'", server->line);
		else
			check_set(finding->hint,
				"dig @%s . NS, and ip route get %s: it must answer, or "
				"the file needs another server",
				address_of(server), address_of(server));
	}
}

static void judge_lengths(struct check_report *report, const struct resolv_conf *conf)
{
	if (conf->n_servers > SERVERS_USED) {
		const struct resolver *first = &conf->servers[SERVERS_USED];
		struct check_finding *finding = add_line(report, conf, first->line, first->content,
			"%zu name servers: resolvers ask the first %d, never %s%s", conf->n_servers,
			SERVERS_USED, address_of(first),
			conf->n_servers > SERVERS_USED + 1 ? " and later ones" : "");

		add_edit(conf, finding, "'%u,$s/^nameserver/# &/'", first->line);
	}
	if (conf->n_search > SEARCH_USED) {
		struct check_finding *finding = add_line(report, conf, conf->search_line, "search",
			"%u search domains: older resolvers use the first %d, others ask for each "
			"of them in turn",
			conf->n_search, SEARCH_USED);

		if (conf->is_edited_by_hand)
			check_set(finding->hint, "keep the %d that are used", SEARCH_USED);
		else
			add_edit(conf, finding, "%s", "");
	}
}

static bool is_loopback(const struct resolver *server)
{
	if (server->address.any.sa_family == AF_INET)
		return ntohl(server->address.ipv4.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&server->address.ipv6.sin6_addr);
}

/* Pods get the servers of the kubelet's file, and CoreDNS forwards to them. */
static void judge_loops(struct check_report *report, const struct resolv_conf *conf,
	const struct kubelet_seen *kubelet)
{
	const struct kubelet_path *option = &kubelet->values.resolv_conf;
	char full[PATH_MAX];

	for (size_t i = 0; i < MIN(conf->n_servers, (size_t)SERVERS_USED); i++) {
		const struct resolver *server = &conf->servers[i];
		struct check_finding *finding;
		bool is_cluster = false;
		char content[sizeof(server->content) + 16];

		for (size_t k = 0; k < kubelet->values.n_cluster_dns; k++)
			is_cluster |= streq(kubelet->values.cluster_dns[k], address_of(server));
		if (!is_cluster && !is_loopback(server))
			continue;
		/* It may be dead as well: each problem can be ignored by its id. */
		snprintf(content, sizeof(content), "%s for pods", server->content);
		finding = add_line(report, conf, server->line, content,
			"the kubelet gives %s to pods, which is %s: CoreDNS asks itself",
			address_of(server),
			is_cluster ? "the cluster's own server" : "there the pod itself");
		if (!is_cluster && path_in_root(report->host->root, RESOLVED_FILE, full) == 0 &&
			option->origin == KUBELET_FILE) {
			check_set(finding->now, "%s:%u: write resolvConf: " RESOLVED_FILE,
				option->file, option->line);
			check_set(finding->hint, "then systemctl restart kubelet");
			finding->now_is_edit = true;
			continue;
		}
		check_set(finding->hint,
			"write the servers of the network to a file, and its path to resolvConf of "
			"the kubelet%s",
			is_cluster ? "" : ", with systemd-resolved " RESOLVED_FILE);
	}
}

void check_resolver(struct check_report *report)
{
	struct resolv_conf *files = must(calloc(FILES_MAX, sizeof(*files)));
	struct kubelet_seen kubelet = {0};
	size_t n = 1, before = report->n;
	int r = 0;

	files[0].path = NODE_FILE;
	kubelet_read(report->host, &kubelet);
	/* k3s avoids loops itself: it gives pods a file of its own. */
	if (kubelet.presence != KUBELET_ABSENT && !kubelet.embedded && !kubelet.why[0] &&
		kubelet.values.resolv_conf.path[0] == '/' &&
		!streq(kubelet.values.resolv_conf.path, NODE_FILE))
		files[n++].path = kubelet.values.resolv_conf.path;
	for (size_t i = 0; i < n && r == 0; i++) {
		r = read_conf(report->host, &files[i]);
		if (r == -ENOENT && i > 0)
			(void)check_add(report, CHECK_FAULT,
				"%.200s does not exist: the kubelet's resolvConf names it, so no pod "
				"starts",
				files[i].path);
		else if (r < 0)
			check_add_unread(report, files[i].path, r);
	}
	if (r == 0) {
		ask_servers(files, n);
		for (size_t i = 0; i < n; i++) {
			judge_answers(report, &files[i]);
			judge_lengths(report, &files[i]);
		}
		if (kubelet.presence != KUBELET_ABSENT && !kubelet.embedded && !kubelet.why[0] &&
			(n > 1 || streq(kubelet.values.resolv_conf.path, NODE_FILE)))
			judge_loops(report, &files[n - 1], &kubelet);
		if (kubelet.presence != KUBELET_ABSENT && kubelet.why[0])
			(void)check_add(
				report, CHECK_UNKNOWN, "resolvConf is not known: %s", kubelet.why);
		if (report->n == before)
			check_add_fine(report);
	}
	free(files);
}
