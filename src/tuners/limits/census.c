/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what processes and open files use, and names the fullest. The parts, in order: the BPF
 * programs that list both; what a record adds to a row; the tally, which adds up by user, cgroup or
 * namespace and names the fullest; the connections of netfilter, by namespace and, from a sample,
 * by source; the samples, which a task makes of the parts that are due. The task knows no names of
 * pods.
 */
#include "tuners/limits/limits.h"

#include "base/file.h"
#include "base/text.h"
#include "base/wait.h"
#include "kernel/bpf.h"
#include "workload/process.h"

#include <arpa/inet.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <sys/inotify.h>
#include <sys/socket.h>

#include <bpf/bpf.h>
#include <headroom/bpf/census.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#include "census.skel.h"

/* ---- the programs ---- */

/* Shows the program a file of each kind. A container may lack /dev/ptmx. */
static int learn_operations(struct census_bpf_object *object)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);
	_cleanup_close_ int inotify = inotify_init1(IN_CLOEXEC);
	_cleanup_close_ int terminal = open("/dev/ptmx", O_RDONLY | O_NOCTTY | O_CLOEXEC);
	_cleanup_close_ int any = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	object->bss->examples[CENSUS_INOTIFY] = inotify;
	object->bss->examples[CENSUS_PTY] = terminal;
	object->bss->examples[CENSUS_LISTENER] = any;
	object->bss->examples[CENSUS_CONNECTED] = any;
	return bpf_prog_test_run_opts(bpf_program__fd(object->progs.learn), &options);
}

/* The iterators stay after the object is closed, which saves its memory. */
static int keep_link(struct bpf_program *program, int map, int *fd)
{
	union bpf_iter_link_info over = {.map.map_fd = (__u32)map};
	LIBBPF_OPTS(
		bpf_iter_attach_opts, options, .link_info = &over, .link_info_len = sizeof(over));
	struct bpf_link *link = bpf_program__attach_iter(program, map < 0 ? NULL : &options);

	if (!link)
		return -errno;
	*fd = fcntl(bpf_link__fd(link), F_DUPFD_CLOEXEC, 3);
	bpf_link__destroy(link);
	return *fd < 0 ? -errno : 0;
}

void census_close(struct census *census)
{
	cleanup_close(&census->passes[OF_PROCESSES]);
	cleanup_close(&census->passes[OF_FILES]);
	cleanup_close(&census->connections);
}

static void census_unload(void *programs)
{
	census_close(programs);
	free(programs);
}

static int census_load(const struct host *, void **programs, char[static TUNER_WHY_MAX])
{
	struct census_bpf_object *object = census_bpf_object__open_and_load();
	struct census *census = must(malloc(sizeof(*census)));
	int r = object ? 0 : -errno;

	*census = NO_CENSUS;
	if (r == 0)
		r = keep_link(object->progs.census, -1, &census->passes[OF_PROCESSES]);
	if (r == 0)
		r = learn_operations(object);
	if (r == 0)
		r = keep_link(object->progs.list_files, -1, &census->passes[OF_FILES]);
	if (r == 0)
		r = keep_link(object->progs.list_connections, bpf_map__fd(object->maps.slices),
			&census->connections);
	census_bpf_object__destroy(object);
	*programs = census;
	if (r < 0)
		census_unload(steal(*programs));
	return r;
}

static void adopt_census(void *self, void *programs, const char *why)
{
	struct limits *limits = self;

	copy_text(limits->census_why, TUNER_WHY_MAX, why);
	if (programs)
		limits->census = *(struct census *)programs;
	free(programs);
}

const struct bpf_ops limits_census = {
	.load = census_load, .adopt = adopt_census, .unload = census_unload};

/* Reads all records of an iterator. Returns 0 or -errno. */
typedef void census_visit(void *userdata, const void *record);
static int census_each(int link, size_t size, census_visit *visit, void *userdata)
{
	_cleanup_close_ int fd = bpf_iter_create(link);
	_Alignas(8) char buffer[8192];
	size_t whole = sizeof(buffer) / size * size;
	ssize_t n;

	if (fd < 0)
		return -errno;
	/* EAGAIN: the iterator has passed a million files without a record. */
	while ((n = read(fd, buffer, whole)) != 0) {
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		for (ssize_t at = 0; at + (ssize_t)size <= n; at += (ssize_t)size)
			visit(userdata, buffer + at);
	}
	return 0;
}

/* ---- what a process or an open file adds to a row ---- */

/* A use of a limit that a record shows. */
struct limit_use {
	uint64_t key[2];    /* the user or cgroup that the kernel counts for; zero: the process */
	uint64_t used, max; /* max 0: the row's own */
	uint64_t cgroup;    /* the key of the user's */
	bool adds;          /* used adds up over the records with this key */
	uint32_t pid, last_pid;
	uint32_t uid;          /* if by_uid */
	bool by_uid, by_netns; /* by_netns: pid is any process of the network namespace */
	bool is_remote;        /* address and port are of the remote end */
	uint16_t family, port; /* port 0: none */
	uint8_t address[16];
	char comm[CENSUS_COMM]; /* the name of a process */
};

/* The uses by their keys, or the fullest TALLY_CANDIDATES uses without a key. Zeroed: none. */
struct tally {
	struct limit_use *uses;
	size_t n, allocated;
	struct element_index index;
};

#define TALLY_CANDIDATES 32 /* uses that are named; several may belong to one workload */

/* Writes the use that a process adds to a row. False: none. */
static bool census_count(
	const struct census_record *record, enum census_count count, struct limit_use *use)
{
	*use = (struct limit_use){.pid = record->pid};
	switch (count) {
	case COUNT_INOTIFY_INSTANCES:
	case COUNT_INOTIFY_WATCHES:
		use->key[0] = 1;
		use->key[1] = use->uid = record->uid;
		use->by_uid = true;
		use->used = count == COUNT_INOTIFY_WATCHES ? record->inotify_watches
							   : record->inotify_instances;
		return record->uid_counts;
	case COUNT_THREADS:
	case COUNT_OPEN_FILES:
		use->key[0] = record->cgroup;
		use->key[1] = record->pids_cgroup;
		use->adds = true;
		use->used = count == COUNT_THREADS ? record->threads : record->files;
		return record->cgroup || record->pids_cgroup;
	case COUNT_PIDS:
		use->key[0] = 2;
		use->key[1] = record->pids_limited;
		use->used = record->pids_used;
		use->max = record->pids_max;
		use->cgroup = cgroup_key(CGROUP_PIDS, record->pids_limited);
		return record->pids_max > 0;
	case COUNT_MOUNTS:
		use->key[0] = 3;
		use->key[1] = record->mntns;
		use->used = record->mounts;
		break;
	case COUNT_MAPS:
		use->used = record->maps;
		break;
	case COUNT_PROCESS_FILES:
		use->used = record->files;
		use->max = MAX(record->files_max, (__u64)1);
		break;
	case COUNT_NOTHING:
		return false;
	}
	memcpy(use->comm, record->comm, sizeof(use->comm));
	return count == COUNT_MOUNTS ? record->mntns > 0 : use->used > 0;
}

/* Writes the use that an open file adds to a row. False: none. */
static bool census_count_file(
	const struct census_file *file, enum census_count_file count, struct limit_use *use)
{
	*use = (struct limit_use){.used = file->used, .pid = file->pid};
	switch (count) {
	case COUNT_FILE_INSTANCES:
	case COUNT_FILE_WATCHES:
	case COUNT_FILE_PTYS:
		use->key[0] = file->cgroup;
		use->key[1] = file->pids_cgroup;
		use->adds = true;
		use->used = count == COUNT_FILE_WATCHES ? file->used : 1;
		return file->kind == (count == COUNT_FILE_PTYS ? CENSUS_PTY : CENSUS_INOTIFY) &&
		       use->used > 0;
	case COUNT_FILE_LISTENERS:
		use->key[0] = 4;
		use->key[1] = file->file;
		use->max = MAX(file->max, 1U);
		use->port = file->port;
		return file->kind == CENSUS_LISTENER;
	case COUNT_FILE_PORTS:
		memcpy(use->key, file->address, sizeof(use->key));
		use->key[0] ^= file->netns;
		use->key[1] ^= (uint64_t)file->port << 32 | 5;
		use->used = 1;
		use->max = file->max;
		use->adds = use->is_remote = true;
		use->by_netns = !file->cgroup;
		use->family = file->family;
		use->port = file->port;
		memcpy(use->address, file->address, sizeof(use->address));
		return file->kind == CENSUS_CONNECTED;
	case COUNT_NO_FILES:
		break;
	}
	return false;
}

/* ---- the tally ---- */

/* Finds the use with this key, or adds one without users. */
static struct limit_use *tally_at(struct tally *tally, uint64_t high, uint64_t low)
{
	const uint64_t key[2] = {high, low};
	struct limit_use *use = find_keyed(&tally->index, tally->uses, tally->n, &key);

	if (!use) {
		use = add_element(&tally->uses, &tally->n, &tally->allocated);
		memcpy(use->key, key, sizeof(key));
	}
	return use;
}

static void tally_free(struct tally *tally)
{
	free(tally->uses);
	free(tally->index.positions);
	*tally = (struct tally){0};
}

/* Compares by share: either all uses of a row have a maximum of their own, or none has. */
static int by_share(const void *a, const void *b)
{
	const struct limit_use *x = a, *y = b;
	double left = (double)x->used / (double)MAX(x->max, (uint64_t)1);
	double right = (double)y->used / (double)MAX(y->max, (uint64_t)1);

	return (left < right) - (left > right);
}

static void tally_add(struct tally *tally, const struct limit_use *use)
{
	struct limit_use *known;

	if (use->key[0] || use->key[1]) {
		known = tally_at(tally, use->key[0], use->key[1]);
		if (known->pid == 0) {
			*known = *use;
		} else {
			known->used = use->used + (use->adds ? known->used : 0);
			known->max = use->max;
		}
		known->last_pid = use->pid;
		return;
	}
	/* Each process is a use: keep the fullest. */
	if (!tally->uses)
		tally->uses = must(calloc(TALLY_CANDIDATES, sizeof(*tally->uses)));
	keep_first(tally->uses, &tally->n, TALLY_CANDIDATES, sizeof(*use), use, by_share);
}

/* Names a process outside of all workloads and services: the unit of its session, or the host. */
static void name_scope(const char *text, struct workload *workload)
{
	const char *end = strstr(text, ".scope"), *begin = end;

	*workload = (struct workload){.kind = WORKLOAD_HOST, .name = "host"};
	while (begin && begin > text && begin[-1] != '/' && begin[-1] != '\n')
		begin--;
	if (!begin)
		return;
	workload->kind = WORKLOAD_UNIT;
	snprintf(workload->name, sizeof(workload->name), "%.*s",
		(int)(end - begin) + (int)strlen(".scope"), begin);
}

static bool name_process(const struct host *host, uint32_t pid, struct workload *workload)
{
	_cleanup_free_ char *text = NULL;

	if (process_read(host->root, (pid_t)pid, "cgroup", &text, NULL) < 0)
		return false;
	if (!cgroup_file_workload(text, workload))
		name_scope(text, workload);
	return true;
}

static void describe_use(const struct limit_use *use, char detail[static LIMIT_DETAIL_MAX])
{
	char address[INET6_ADDRSTRLEN] = "";

	detail[0] = '\0';
	if (use->is_remote) {
		inet_ntop(use->family, use->address, address, sizeof(address));
		snprintf(detail, LIMIT_DETAIL_MAX, "to %s port %u", address, use->port);
	} else if (use->port > 0) {
		snprintf(detail, LIMIT_DETAIL_MAX, "port %u", use->port);
	} else if (use->comm[0]) {
		snprintf(detail, LIMIT_DETAIL_MAX, "process %u (%.*s)", use->pid, CENSUS_COMM,
			use->comm);
		text_make_printable(detail);
	}
}

static void name_use(const struct host *host, const struct limit_use *use, struct limit_user *user)
{
	struct workload *workload = &user->workload;

	*user = (struct limit_user){
		.used = use->used, .id = use->by_uid || use->by_netns ? 0 : use->cgroup};
	describe_use(use, user->detail);
	if (use->by_uid) {
		workload->kind = WORKLOAD_UID;
		snprintf(workload->name, sizeof(workload->name), "%u", use->uid);
	} else if (use->by_netns) {
		/* The processes of others than pods share the namespace of the host. */
		if (!name_process(host, use->pid, workload) || workload->kind == WORKLOAD_UNIT)
			*workload = (struct workload){.kind = WORKLOAD_HOST, .name = "host"};
	} else if (!name_process(host, use->pid, workload) &&
		   !name_process(host, use->last_pid, workload)) {
		/* They have ended. The loop knows the names of cgroups. */
		*workload = cgroup_unknown(use->cgroup);
	}
}

/* Uses of several cgroups may belong to one workload. */
static void add_user(struct limit_reading *reading, const struct limit_user *user, bool adds)
{
	for (unsigned i = 0; adds && i < reading->n_top; i++) {
		struct limit_user *known = &reading->top[i];

		if (workload_equal(&known->workload, &user->workload) &&
			streq(known->detail, user->detail)) {
			known->used += user->used;
			return;
		}
	}
	if (reading->n_top < LIMIT_TOP_MAX)
		*limit_add_user(reading) = *user;
}

static int by_used(const void *a, const void *b)
{
	const struct limit_user *x = a, *y = b;

	return (x->used < y->used) - (x->used > y->used);
}

/*
 * Sets used and max to the numbers of the fullest use, and top to the workloads of the fullest
 * uses. max is the row's. Frees the tally.
 */
static void tally_finish(struct tally *tally, const struct host *host, uint64_t max, unsigned named,
	struct limit_reading *reading)
{
	const struct limit_use *fullest = tally->uses;
	size_t n = 0;

	for (size_t i = 0; i < tally->n; i++)
		if (tally->uses[i].pid > 0) /* a process was seen */
			tally->uses[n++] = tally->uses[i];
	reading->max = max;
	if (n > 0) {
		qsort(tally->uses, n, sizeof(*tally->uses), by_share);
		reading->used = fullest->used;
		reading->max = fullest->max ? fullest->max : max;
	}
	for (size_t i = 0; i < MIN(n, (size_t)named) && tally->uses[i].used > 0; i++) {
		struct limit_user user;

		name_use(host, &tally->uses[i], &user);
		add_user(reading, &user, tally->uses[i].adds);
	}
	if (reading->n_top > 0 && fullest->max == 0)
		qsort(reading->top, reading->n_top, sizeof(*reading->top), by_used);
	tally_free(tally);
}

/* ---- connections ---- */

#define DUMP_SIZE 32768

/* Reads the tracked connections of these network namespaces. reading gets the fullest one. */
static int limits_sample_namespaces(const struct host *host, struct tally *namespaces,
	struct limit_reading *reading, struct limit_reading *users)
{
	static const struct limit_row row = {
		.max = {"/proc/sys/net/netfilter/nf_conntrack_max", 1}};
	struct tally fullest = {0};
	uint64_t max;
	int r = limits_read_max(host, &row, &max);

	for (size_t i = 0; r == 0 && i < namespaces->n; i++) {
		struct limit_use *use = &namespaces->uses[i];
		_cleanup_free_ char *text = NULL;
		const char *line;

		if (use->pid == 0 || process_read(host->root, (pid_t)use->pid,
					     "net/stat/nf_conntrack", &text, NULL) < 0)
			continue;
		/* Each line of a CPU begins with the count of the namespace. */
		line = strchr(text, '\n');
		use->used = line ? strtoull(line + 1, NULL, 16) : 0;
		use->last_pid = use->pid;
		tally_add(&fullest, use);
	}
	tally_finish(&fullest, host, max, TALLY_CANDIDATES, users);
	reading->used = users->used;
	reading->max = max;
	return r;
}

/* ---- who: a sample of the table ---- */

/* The kernel dumps in the order of a hash, so the beginning is a random sample. */
#define SAMPLE_MAX 2048

/* Finds an attribute among others. */
static const struct nlattr *find_attribute(const struct nlattr *in, int type)
{
	return in ? nla_find(nla_data(in), nla_len(in), type) : NULL;
}

struct sampled {
	struct tally sources;
	unsigned entries;
};

/* Counts the source address of an entry. */
static int add_source(struct nl_msg *found, void *userdata)
{
	struct nlmsghdr *message = nlmsg_hdr(found);
	const struct nfgenmsg *header = nlmsg_data(message);
	const struct nlattr *tuple = nlmsg_find_attr(message, sizeof(*header), CTA_TUPLE_ORIG);
	bool is_v4 = header->nfgen_family == AF_INET;
	const struct nlattr *source = find_attribute(
		find_attribute(tuple, CTA_TUPLE_IP), is_v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC);
	struct sampled *sampled = userdata;
	uint8_t address[16] = {0};
	uint64_t halves[2];
	struct limit_use *use;

	if (!source || nla_len(source) != (is_v4 ? 4 : 16))
		return NL_OK;
	memcpy(address, nla_data(source), (size_t)nla_len(source));
	memcpy(halves, address, sizeof(halves));
	use = tally_at(&sampled->sources, halves[0], halves[1] + is_v4);
	use->family = header->nfgen_family;
	memcpy(use->address, address, sizeof(address));
	use->used++;
	return ++sampled->entries < SAMPLE_MAX ? NL_OK : NL_STOP;
}

static void read_sources(struct sampled *sampled)
{
	struct nfgenmsg family = {AF_UNSPEC, NFNETLINK_V0, 0};
	struct nl_sock *socket = must(nl_socket_alloc());

	nl_socket_set_msg_buf_size(socket, DUMP_SIZE);
	nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, add_source, sampled);
	if (nl_connect(socket, NETLINK_NETFILTER) == 0 &&
		nl_send_simple(socket, NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET, NLM_F_DUMP,
			&family, sizeof(family)) >= 0)
		(void)nl_recvmsgs_default(socket);
	nl_socket_free(socket);
}

/* Returns whether an address is this node's: it can be bound. */
static bool is_local(const struct limit_use *use)
{
	_cleanup_close_ int fd = socket(use->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

	memcpy(&v4.sin_addr, use->address, sizeof(v4.sin_addr));
	memcpy(&v6.sin6_addr, use->address, sizeof(v6.sin6_addr));
	return use->family == AF_INET ? bind(fd, (struct sockaddr *)&v4, sizeof(v4)) == 0
				      : bind(fd, (struct sockaddr *)&v6, sizeof(v6)) == 0;
}

/* The loop replaces an address by the workload that has it: a task does not know the names. */
int limits_conntrack_users(const struct limit_source *source, struct limit_reading *reading)
{
	struct sampled sampled = {0};
	struct tally *sources = &sampled.sources;
	struct limit_reading now = {0};

	/* The request would load the kernel's module into a node that tracks no connections. */
	if (limits_read_conntrack(source, &now) == 0 && now.used > 0)
		read_sources(&sampled);
	if (sampled.entries > 0)
		qsort(sources->uses, sources->n, sizeof(*sources->uses), by_share);
	for (size_t i = 0; i < MIN(sources->n, (size_t)LIMIT_TOP_MAX); i++) {
		const struct limit_use *use = &sources->uses[i];
		struct limit_user *user = limit_add_user(reading);
		char address[INET6_ADDRSTRLEN];

		inet_ntop(use->family, use->address, address, sizeof(address));
		user->used = use->used * now.used / sampled.entries;
		user->workload.kind = is_local(use) ? WORKLOAD_HOST : WORKLOAD_NETNS;
		set_text(user->workload.name,
			user->workload.kind == WORKLOAD_HOST ? "host" : address);
		snprintf(user->detail, sizeof(user->detail), "from %s", address);
	}
	tally_free(sources);
	return 0;
}

/* ---- samples: they consist of the parts that are due ---- */

#define SAMPLE_EVERY_US (10 * USEC_PER_SEC)
#define BUSY_EVERY_US   (5 * USEC_PER_SEC) /* passes for a row that is more than half used */

/* A part uses at most 1/N of a CPU. */
#define NAMESPACES_SHARE 5000
static const struct {
	unsigned idle, busy; /* busy: more than half of a row is used */
} shares[PASSES] = {[OF_PROCESSES] = {2000, 400}, [OF_FILES] = {4000, 200}};

#define FILE_NS 300 /* CPU time for a file, to predict a pass */

#define NAMED_IDLE 3 /* users of a row that is at most half used */

struct limits_sample {
	struct host host;
	struct node_disks disks; /* a copy */
	bool due_rows, due_namespaces;
	bool pids_apart;      /* the pids controller has a hierarchy of cgroup v1 */
	struct census census; /* a descriptor of its own for each part that is due */
	size_t n;
	bool *busy;              /* more than half of a row is used, or a finding is open */
	struct limit_seen *rows; /* results */
	uint64_t cost_us[PASSES], namespaces_us, n_files;
	int errors[PASSES];
};

static int duplicate(int fd, bool due)
{
	return fd < 0 || !due ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static bool is_due(uint64_t *next, uint64_t now, uint64_t every_us, bool force)
{
	if (now < *next && !force)
		return false;
	*next = next_turn_us(now, every_us);
	return true;
}

/* The instances with an open finding stay in the next reading. */
static void take_open(const struct limit_memory *memory, struct limit_seen *seen)
{
	seen->n_open = 0;
	for (size_t i = 0; i < memory->n && seen->n_open < LIMIT_INSTANCES_MAX; i++)
		if (memory->known[i].open)
			seen->open[seen->n_open++] = memory->known[i].hash;
}

void *limits_sample_request(void *self, const void *memory, bool now)
{
	const struct limits_memory *known = memory;
	struct limits *limits = self;
	uint64_t at = now_us();
	bool is_wanted[PASSES] = {0}, due[PASSES], due_rows;
	_cleanup_free_ bool *busy = must(calloc(limits->n, sizeof(*busy)));
	struct limits_sample *sample;

	for (size_t i = 0; i < limits->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;
		struct limit_seen *seen = &limits->rows[i];

		if (known && known->rows)
			take_open(&known->rows[i], seen);
		busy[i] = now || seen->n_open > 0 ||
			  (seen->error == 0 && seen->reading.used * 2 > seen->reading.max);
		is_wanted[OF_PROCESSES] |= busy[i] && reader && reader->count;
		is_wanted[OF_FILES] |= busy[i] && reader && reader->count_file;
	}
	for (int i = 0; i < PASSES; i++) {
		struct limits_pass *pass = &limits->passes[i];

		if (is_wanted[i])
			pass->next_us = MIN(pass->next_us,
				pass->at_us + MAX(BUSY_EVERY_US, pass->cost_us * shares[i].busy));
	}
	due_rows = is_due(&limits->next_sample_us, at, SAMPLE_EVERY_US, now);
	/* The census predicts its cost. */
	due[OF_FILES] = limits->census.passes[OF_FILES] >= 0 && (limits->counted || now) &&
			is_due(&limits->passes[OF_FILES].next_us, at, SAMPLE_EVERY_US, now);
	/* A pass over files also needs one process of each network namespace. */
	due[OF_PROCESSES] = limits->census.passes[OF_PROCESSES] >= 0 &&
			    is_due(&limits->passes[OF_PROCESSES].next_us, at, SAMPLE_EVERY_US,
				    now || due[OF_FILES]);
	if (!due_rows && !due[OF_PROCESSES] && !due[OF_FILES])
		return NULL;
	sample = must(calloc(1, sizeof(*sample)));
	*sample = (struct limits_sample){
		.host = *limits->host,
		.disks = limits->facts->disks,
		.due_rows = due_rows,
		.pids_apart = cgroups_root(limits->facts->cgroups, CGROUP_PIDS) >= 0,
		.census = {{duplicate(limits->census.passes[OF_PROCESSES], due[OF_PROCESSES]),
				   duplicate(limits->census.passes[OF_FILES], due[OF_FILES])},
			duplicate(limits->census.connections, due[OF_FILES])},
		.n = limits->n,
		.busy = steal(busy),
		.rows = must(calloc(limits->n, sizeof(*sample->rows))),
	};
	for (size_t i = 0; i < limits->n; i++) {
		const struct limit_seen *seen = &limits->rows[i];
		struct limit_seen *copy = &sample->rows[i];

		memcpy(copy->open, seen->open, sizeof(copy->open));
		copy->n_open = seen->n_open;
		for (int k = 0; k < SOURCES; k++) {
			copy->instances[k].open = copy->open;
			copy->instances[k].n_open = copy->n_open;
		}
	}
	sample->due_namespaces =
		due[OF_PROCESSES] && is_due(&limits->next_namespaces_us, at, SAMPLE_EVERY_US, now);
	return sample;
}

/* The sums of a pass. */
struct census_pass {
	const struct limits_sample *sample;
	struct tally *tallies;    /* one for each row */
	struct tally cgroups;     /* their failed forks */
	struct tally *namespaces; /* a process of each */
	struct tally files;       /* the files counted so far */
	uint64_t n_files;
};

/*
 * The key of a cgroup by which the loop may name the user later. Where the pids controller is
 * apart, a pod's cgroup in cgroup2 can be its runtime's.
 */
static uint64_t cgroup_of(const struct census_pass *pass, uint64_t inode, uint64_t pids_inode)
{
	return pass->sample->pids_apart ? cgroup_key(CGROUP_PIDS, pids_inode) : inode;
}

static void visit_process(void *userdata, const void *data)
{
	const struct census_record *record = data;
	struct census_pass *pass = userdata;
	struct limit_use use;

	pass->n_files += record->files;
	if (record->netns)
		tally_at(pass->namespaces, 1, record->netns)->pid = record->pid;
	if (record->pids_cgroup)
		tally_at(&pass->cgroups, 1, record->pids_cgroup)->used = record->forks_failed;
	for (size_t i = 0; i < pass->sample->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;

		if (!reader || !census_count(record, reader->count, &use))
			continue;
		if (use.cgroup == 0)
			use.cgroup = cgroup_of(pass, record->cgroup, record->pids_cgroup);
		tally_add(&pass->tallies[i], &use);
	}
}

static void visit_file(void *userdata, const void *data)
{
	const struct census_file *file = data;
	struct census_pass *pass = userdata;
	struct limit_use *seen = tally_at(&pass->files, 1, file->file), use;

	/* Processes share it, or it is a connection of a process. */
	if (seen->used > 0)
		return;
	seen->used = 1;
	for (size_t i = 0; i < pass->sample->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;

		if (!reader || !census_count_file(file, reader->count_file, &use))
			continue;
		use.cgroup = cgroup_of(pass, file->cgroup, file->pids_cgroup);
		tally_add(&pass->tallies[i], &use);
	}
}

/* Nobody has a connection open in TIME_WAIT. */
static void visit_connection(void *userdata, const void *data)
{
	const struct census_pass *pass = userdata;
	struct census_file file;

	memcpy(&file, data, sizeof(file));
	file.pid = tally_at(pass->namespaces, 1, file.netns)->pid;
	visit_file(userdata, &file);
}

/* Turns the tallies of a pass into readings. */
static void finish_rows(struct limits_sample *sample, struct census_pass *pass, int kind, int error)
{
	for (size_t i = 0; i < sample->n; i++) {
		const struct limit_row *row = &limits_rows[i];
		const struct limit_reader *reader = row->reader;
		struct limit_seen *seen = &sample->rows[i];
		struct limit_reading *reading = &seen->users[kind];
		bool only = limits_needs_bpf(row) && !(kind == OF_FILES && reader->count);
		uint64_t max = 0;
		bool any;
		int r = error;

		if (!reader || !(kind == OF_FILES ? reader->count_file != 0 : reader->count != 0))
			continue;
		if (r == 0 && only)
			r = limits_read_max(&sample->host, row, &max);
		any = pass->tallies[i].n > 0;
		tally_finish(&pass->tallies[i], &sample->host, max,
			sample->busy[i] ? TALLY_CANDIDATES : NAMED_IDLE, reading);
		seen->from_pass[kind] = true;
		if (!only)
			continue;
		seen->from_sample = true;
		seen->error = r < 0 ? r : !any || reading->max == 0 ? -ENOENT : 0;
		seen->reading.used = reading->used;
		seen->reading.max = reading->max;
		for (size_t k = 0; reader->count == COUNT_PIDS && k < pass->cgroups.n; k++)
			seen->reading.hits += pass->cgroups.uses[k].used;
	}
}

static void run_pass(struct limits_sample *sample, struct tally *namespaces, int kind)
{
	static const size_t sizes[PASSES] = {
		sizeof(struct census_record), sizeof(struct census_file)};
	static census_visit *const visits[PASSES] = {visit_process, visit_file};
	struct census_pass pass = {.sample = sample, .namespaces = namespaces};
	uint64_t begun = cpu_us();
	int r;

	pass.tallies = must(calloc(sample->n, sizeof(*pass.tallies)));
	r = census_each(sample->census.passes[kind], sizes[kind], visits[kind], &pass);
	if (r == 0 && kind == OF_FILES)
		r = census_each(sample->census.connections, sizes[kind], visit_connection, &pass);
	sample->errors[kind] = r;
	sample->n_files += pass.n_files;
	finish_rows(sample, &pass, kind, r);
	sample->cost_us[kind] = cpu_us() - begun;
	begun = cpu_us();
	for (size_t i = 0; sample->due_namespaces && kind == OF_PROCESSES && i < sample->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;
		struct limit_seen *seen = &sample->rows[i];

		if (!reader || !reader->in_namespaces)
			continue;
		seen->from_sample = seen->from_pass[kind] = true;
		seen->error = limits_sample_namespaces(
			&sample->host, namespaces, &seen->reading, &seen->users[kind]);
		sample->namespaces_us = cpu_us() - begun;
	}
	tally_free(&pass.cgroups);
	tally_free(&pass.files);
	free(pass.tallies);
}

void limits_sample_run(void *request, const struct wait *wait)
{
	struct limits_sample *sample = request;
	struct tally namespaces = {0};

	for (size_t i = 0; sample->due_rows && i < sample->n; i++) {
		const struct limit_reader *reader = limits_rows[i].reader;
		struct limit_seen *seen = &sample->rows[i];
		const struct limit_source source = {
			&sample->host, &sample->disks, reader, &seen->instances[OF_READER]};

		wait_path(wait, limits_rows[i].name);
		if (reader && reader->sample) {
			seen->from_sample = true;
			seen->error = reader->sample(&source, &seen->reading);
		}
		if (reader && reader->add_users) {
			seen->from_pass[OF_FILES] = true;
			if (sample->busy[i])
				(void)reader->add_users(&source, &seen->users[OF_FILES]);
		}
	}
	wait_path(wait, NULL);
	for (int kind = 0; kind < PASSES; kind++)
		if (sample->census.passes[kind] >= 0)
			run_pass(sample, &namespaces, kind);
	tally_free(&namespaces);
}

static void replace_reading(struct limit_reading *old, struct limit_reading *new)
{
	free(old->top);
	*old = *new;
	*new = (struct limit_reading){0};
}

static void replace_instances(struct limit_instances *old, struct limit_instances *new)
{
	limit_instances_clear(old);
	*old = *new;
	old->open = NULL;
	old->n_open = 0;
	*new = (struct limit_instances){0};
}

/* Drops the old users of a row that no longer needs a pass over files. */
static void adopt_row(struct limit_seen *seen, struct limit_seen *new, bool busy)
{
	const struct limit_reader *reader = seen->row->reader;

	if (new->from_sample) {
		seen->error = new->error;
		replace_reading(&seen->reading, &new->reading);
	}
	if (new->from_sample && reader && reader->sample)
		replace_instances(&seen->instances[OF_READER], &new->instances[OF_READER]);
	for (int kind = 0; kind < PASSES; kind++)
		if (new->from_pass[kind]) {
			replace_reading(&seen->users[kind], &new->users[kind]);
			replace_instances(&seen->instances[kind], &new->instances[kind]);
		}
	if (!busy && reader && reader->count && reader->count_file)
		replace_reading(&seen->users[OF_FILES], &(struct limit_reading){0});
}

void limits_sample_adopt(void *self, void *request)
{
	struct limits_sample *sample = request;
	struct limits *limits = self;
	uint64_t at = now_us();

	for (size_t i = 0; i < sample->n; i++) {
		if (limits)
			adopt_row(&limits->rows[i], &sample->rows[i], sample->busy[i]);
		limits_seen_clear(&sample->rows[i]);
	}
	if (limits && sample->census.passes[OF_PROCESSES] >= 0) {
		limits->counted = true;
		limits->passes[OF_FILES].cost_us =
			MAX(limits->passes[OF_FILES].cost_us, sample->n_files * FILE_NS / 1000);
		limits->pass_error = 0;
	}
	for (int kind = 0; limits && kind < PASSES; kind++) {
		struct limits_pass *pass = &limits->passes[kind];

		if (sample->census.passes[kind] < 0)
			continue;
		pass->at_us = at;
		pass->cost_us = sample->cost_us[kind];
		pass->next_us = MAX(pass->next_us, at + pass->cost_us * shares[kind].idle);
		limits->pass_error = MIN(limits->pass_error, sample->errors[kind]);
	}
	if (limits && sample->due_namespaces)
		limits->next_namespaces_us = MAX(
			limits->next_namespaces_us, at + sample->namespaces_us * NAMESPACES_SHARE);
	census_close(&sample->census);
	free(sample->busy);
	free(sample->rows);
	free(sample);
}
