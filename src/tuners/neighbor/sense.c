/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/neighbor/neighbor.h"

#include "base/text.h"
#include "kernel/bpf.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <bpf/bpf.h>

#include "neighbor.skel.h"

/* A line of /proc/net/stat/arp_cache has 13 columns of at most 17 characters. */
#define STAT_LINE   256
#define COLUMNS_MAX 32

const struct neighbor_family_row neighbor_families[NEIGHBOR_FAMILIES] = {
	[NEIGHBOR_IPV4] = {AF_INET, "ipv4", "/proc/net/stat/arp_cache"},
	[NEIGHBOR_IPV6] = {AF_INET6, "ipv6", "/proc/net/stat/ndisc_cache"},
};

void neighbor_threshold_name(
	const struct neighbor_family_row *row, int i, char name[static SETTING_NAME_MAX])
{
	snprintf(name, SETTING_NAME_MAX, "net.%s.neigh.default.gc_thresh%d", row->name, i + 1);
}

void *neighbor_open(const struct host *host, struct facts *facts, struct sd_event *event)
{
	static const char path[] = "/proc/sys/net/ipv4/neigh/default/gc_thresh1";
	struct neighbor *neighbor = must(calloc(1, sizeof(*neighbor)));
	char value[SETTING_VALUE_MAX];
	struct stat namespace;
	int r = host_read_value(host, path, value), writable = host_may_write(host, path);

	neighbor->host = host;
	neighbor->names = &facts->names;
	neighbor->once = !event;
	if (stat("/proc/self/ns/net", &namespace) == 0)
		neighbor->own_netns = (uint32_t)namespace.st_ino;
	neighbor->memory_bytes =
		(uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	neighbor->stats_max = STAT_LINE * (size_t)(MAX(sysconf(_SC_NPROCESSORS_CONF), 1) + 1);
	/* No right to write helps in another network namespace. */
	neighbor->write_lack = r < 0 ? LACK_OTHER : LACK_WRITE;
	/* Either netlink with CAP_NET_ADMIN or a writable /proc/sys is enough. */
	if (r < 0)
		snprintf(neighbor->write_why, TUNER_WHY_MAX,
			"%s: %s: run in the host's network namespace (hostNetwork: true)", path,
			strerror(-r));
	else if (writable < 0 && !capability_have(CAP_NET_ADMIN))
		snprintf(neighbor->write_why, TUNER_WHY_MAX,
			"RTM_SETNEIGHTBL: %s, %s: %s: give CAP_NET_ADMIN or a writable /proc/sys",
			strerror(EPERM), path, strerror(-writable));
	return neighbor;
}

void neighbor_close(void *self, void *)
{
	struct neighbor *neighbor = self;

	conflicts_clear(neighbor);
	refresh_clear(neighbor);
	free(neighbor->users.owners);
	free(neighbor->users.rows);
	ring_buffer__free(neighbor->ring);
	neighbor_bpf_object__destroy(neighbor->bpf);
	free(neighbor);
}

/* ---- BPF programs ---- */

static int load_programs(const struct host *, void **programs, char[static TUNER_WHY_MAX])
{
	struct neighbor_bpf_object *bpf = neighbor_bpf_object__open_and_load();
	int r = bpf ? 0 : -errno;

	/* conflicts_watch() attaches it, as it is configured. */
	if (r == 0)
		bpf_program__set_autoattach(bpf->progs.neigh_update, false);
	if (r == 0)
		r = neighbor_bpf_object__attach(bpf);
	if (r < 0)
		neighbor_bpf_object__destroy(bpf);
	else
		*programs = bpf;
	return r;
}

static void unload_programs(void *programs)
{
	neighbor_bpf_object__destroy(programs);
}

static int ignore_record(void *, void *, size_t)
{
	return 0;
}

static void adopt_programs(void *self, void *programs, const char *why)
{
	struct neighbor_bpf_object *bpf = programs;
	struct neighbor *neighbor = self;

	copy_text(neighbor->bpf_why, TUNER_WHY_MAX, why);
	if (!bpf)
		return;
	neighbor->ring =
		ring_buffer__new(bpf_map__fd(bpf->maps.wakeups), ignore_record, NULL, NULL);
	if (!neighbor->ring) {
		bpf_explain_failure(-errno, neighbor->bpf_why, TUNER_WHY_MAX);
		unload_programs(bpf);
		return;
	}
	neighbor->bpf = neighbor->users.object = bpf;
	neighbor->users.owners = netns_owners_open(
		neighbor->host, neighbor->names, bpf_link__fd(bpf->links.list_owners));
	conflicts_watch(neighbor);
}

static int wakeup_fd(const void *self)
{
	const struct neighbor *neighbor = self;

	return neighbor->ring ? ring_buffer__epoll_fd(neighbor->ring) : -1;
}

const struct bpf_ops neighbor_bpf = {
	.load = load_programs,
	.adopt = adopt_programs,
	.unload = unload_programs,
	.wakeup_fd = wakeup_fd,
};

void neighbor_arm(void *self, const void *data)
{
	const struct neighbor_memory *memory = data;
	struct neighbor *neighbor = self;

	for (int family = 0; neighbor->bpf && family < NEIGHBOR_FAMILIES; family++) {
		struct neighbor_record *record = &neighbor->bpf->bss->records[family];

		record->wake_at = memory->families[family].wake_at;
		/* One wake-up per refused entry would be too many. While the kernel refuses
		 * entries, the tick is enough. */
		record->wake_refused = memory->families[family].refused_now == 0;
	}
	if (neighbor->bpf)
		neighbor->bpf->bss->wake_conflict = memory->refresh.wakes ? neighbor->own_netns : 0;
}

/* ---- users, whom BPF counts ---- */

/* Counting costs one system call per 256 namespaces. */
#define COUNT_EVERY_US (2 * USEC_PER_SEC)

/* A walk of the table corrects a wrong sum and costs 200 ns per entry. */
#define WALK_EVERY_US       (60 * USEC_PER_SEC)
#define WALK_AGAIN_AFTER_US (5 * USEC_PER_SEC)

/* Updates the collectable counts of the records. False where the kernel cannot run the program. */
static bool sample(struct neighbor_bpf_object *object)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);

	return bpf_prog_test_run_opts(bpf_program__fd(object->progs.sample), &options) == 0;
}

static uint64_t count_events(const struct neighbor_users *users)
{
	const struct neighbor_record *ipv4 = &users->object->bss->records[NEIGHBOR_IPV4];
	const struct neighbor_record *ipv6 = &users->object->bss->records[NEIGHBOR_IPV6];

	return ipv4->created + ipv4->removed + ipv4->refused + ipv6->created + ipv6->removed +
	       ipv6->refused;
}

static void add_row(void *userdata, const void *key, const void *value)
{
	struct neighbor_users *users = userdata;
	struct neighbor_row *row = add_element(&users->rows, &users->n, &users->allocated);

	memcpy(&row->key, key, sizeof(row->key));
	memcpy(&row->used, value, sizeof(row->used));
}

/* If reading fails, rows are missing and the sum does not match: count() notices. */
static void read_map(struct neighbor_users *users, const struct bpf_map *map)
{
	users->n = 0;
	(void)bpf_each(
		bpf_map__fd(map), sizeof(struct neighbor_key), sizeof(int64_t), add_row, users);
}

static void clear_map(const struct bpf_map *map)
{
	struct neighbor_key key;

	while (bpf_map_get_next_key(bpf_map__fd(map), NULL, &key) == 0)
		bpf_map_delete_elem(bpf_map__fd(map), &key);
}

/* Runs the program over all buckets of both tables. */
static void walk_tables(struct neighbor_bpf_object *object)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);
	struct neighbor_bpf_object__bss *shared = object->bss;
	int program = bpf_program__fd(object->progs.walk);

	for (uint32_t family = 0; family < NEIGHBOR_FAMILIES; family++) {
		shared->walk_family = family;
		shared->walk_bucket = 0;
		do {
			if (bpf_prog_test_run_opts(program, &options) < 0)
				break;
			shared->walk_bucket += NEIGHBOR_WALK_BUCKETS;
		} while (shared->walk_bucket < shared->walk_buckets);
	}
}

/*
 * Counts the entries of the table anew. Entries that are created or removed meanwhile make the
 * result wrong; the next walk is then soon.
 */
static void walk(struct neighbor_users *users)
{
	const struct bpf_map *walked = users->object->maps.headroom_walked;
	const struct bpf_map *counts = users->object->maps.headroom_counts;

	clear_map(walked);
	walk_tables(users->object);
	read_map(users, walked);
	clear_map(walked);
	clear_map(counts);
	for (size_t i = 0; i < users->n; i++)
		bpf_map_update_elem(
			bpf_map__fd(counts), &users->rows[i].key, &users->rows[i].used, BPF_ANY);
}

static int by_use(const void *a, const void *b)
{
	const struct neighbor_row *x = a, *y = b;

	return (x->used < y->used) - (x->used > y->used);
}

/*
 * Sums up the entries of each namespace. The sum is wrong when it differs from the kernel's count
 * although no entry was created or removed since the last time.
 */
static void count(struct neighbor_users *users)
{
	const struct neighbor_record *records = users->object->bss->records;
	const struct bpf_map *map = users->object->maps.headroom_counts;

	memset(users->sums, 0, sizeof(users->sums));
	read_map(users, map);
	for (size_t i = 0; i < users->n; i++) {
		users->sums[users->rows[i].key.family & 1] += users->rows[i].used;
		/*
		 * Forget namespaces that have ended. If an entry is created right now, its count is
		 * lost and the next walk corrects the sum.
		 */
		if (users->rows[i].used == 0)
			bpf_map_delete_elem(bpf_map__fd(map), &users->rows[i].key);
	}
	if (users->n > 0)
		qsort(users->rows, users->n, sizeof(*users->rows), by_use);
	users->wrong = false;
	if (!sample(users->object))
		return;
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++)
		users->wrong |= records[family].sampled &&
				users->sums[family] != (int64_t)records[family].collectable;
	users->wrong = users->wrong && count_events(users) == users->events;
}

/* Counts at most every two seconds, and only after a change. */
static void update_users(
	struct neighbor_users *users, const struct neighbor_conflicts *conflicts, uint64_t now)
{
	const struct neighbor_record *records = users->object->bss->records;
	uint32_t netns[2 * NEIGHBOR_FAMILIES * LIMIT_TOP_MAX + CONFLICT_DEVICES];
	unsigned seen[NEIGHBOR_FAMILIES] = {0};
	uint64_t events = count_events(users);
	bool first = users->counted_at_us == 0;
	size_t n = 0;

	if (users->started_at_us == 0)
		users->started_at_us = now;
	if (now - users->started_at_us < NEIGHBOR_START_US ||
		(!first && now - users->counted_at_us < COUNT_EVERY_US))
		return;
	if (first || users->wrong || events != users->events) {
		users->events = events;
		count(users);
		if (users->wrong && now >= users->next_walk_us) {
			walk(users);
			users->next_walk_us =
				now + (count_events(users) == events ? WALK_EVERY_US
								     : WALK_AGAIN_AFTER_US);
			count(users);
		}
	}
	users->counted_at_us = now;
	/* Find the owners of the namespaces that will be shown. */
	for (size_t i = 0; i < users->n; i++) {
		unsigned family = users->rows[i].key.family & 1;

		if (users->rows[i].used > 0 && seen[family]++ < LIMIT_TOP_MAX)
			netns[n++] = users->rows[i].key.netns;
	}
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++)
		if (records[family].last.netns)
			netns[n++] = records[family].last.netns;
	n += conflicts_netns(conflicts, netns + n, now);
	netns_owners_learn(users->owners, netns, n, now);
}

/*
 * A workload that has filled a table since the last count is not among its users yet. Users are
 * shown if they explain at least half of the entries.
 */
static void show_users(
	const struct neighbor_users *users, int family, struct neighbor_table_seen *table)
{
	if (table->exact && 2 * users->sums[family] < (int64_t)table->collectable)
		return;
	for (size_t i = 0; i < users->n && table->n_top < LIMIT_TOP_MAX; i++) {
		const struct neighbor_row *row = &users->rows[i];
		struct limit_user *user = &table->top[table->n_top];

		if (row->key.family != (unsigned)family || row->used <= 0)
			continue;
		user->workload = netns_owners_find(users->owners, row->key.netns);
		user->used = (uint64_t)row->used;
		table->n_top++;
	}
}

/* Adds what only BPF counts: collectable entries, their users and the last refused entry. */
static void sense_bpf(struct neighbor *neighbor, uint64_t now)
{
	struct neighbor_users *users = &neighbor->users;
	bool sampled = sample(neighbor->bpf);

	/* The records are empty. After a wake-up growth is urgent, but not the list of users. */
	if (ring_buffer__consume(neighbor->ring) > 0)
		neighbor->woken_us = now;
	if (neighbor->woken_us != now)
		update_users(users, &neighbor->conflicts, now);
	conflicts_sense(neighbor, now);
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		const struct neighbor_record *record = &neighbor->bpf->bss->records[family];
		struct neighbor_table_seen *table = &neighbor->tables[family];

		table->exact = sampled && record->sampled;
		if (table->exact)
			table->collectable = record->collectable;
		table->last = record->last;
		netns_event_update(&users->refusals[family], users->owners, record->last.netns,
			record->refused, now);
		table->last_owner = users->refusals[family].owner;
		show_users(users, family, table);
	}
}

/* Parses a statistics file; text is modified. Returns 0, or -EBADMSG for an unknown format. */
static int parse_stats(char *text, struct neighbor_stats *ret)
{
	struct neighbor_stats stats = {0};
	const struct {
		const char *name;
		uint64_t *target;
	} known[] = {
		{"entries", &stats.entries},
		{"allocs", &stats.allocs},
		{"forced_gc_runs", &stats.forced_gc},
		{"table_fulls", &stats.table_fulls},
	};
	uint64_t unknown = 0, *targets[COLUMNS_MAX];
	char *lines = NULL, *names = NULL;
	char *line = strtok_r(text, "\n", &lines);
	size_t columns = 0;

	/* Columns are found by their names in the header: kernels may add some. */
	for (char *name = line ? strtok_r(line, " \t", &names) : NULL;
		name && columns < COLUMNS_MAX; name = strtok_r(NULL, " \t", &names)) {
		targets[columns] = &unknown;
		for (size_t i = 0; i < ARRAY_SIZE(known); i++)
			if (streq(name, known[i].name))
				targets[columns] = known[i].target;
		columns++;
	}
	line = strtok_r(NULL, "\n", &lines);
	if (columns == 0 || targets[0] != &stats.entries || !line)
		return -EBADMSG;
	for (; line; line = strtok_r(NULL, "\n", &lines)) {
		/* entries is the same on every line; all other columns are per CPU. */
		stats.entries = 0;
		for (size_t i = 0; i < columns; i++)
			*targets[i] += strtoull(line, &line, 16);
	}
	*ret = stats;
	return 0;
}

/* Finds who chose a gc_thresh1 below the kernel's, once for each value. */
static void sense_choice(struct neighbor *neighbor, int family)
{
	struct neighbor_choice *choice = &neighbor->choices[family];
	const char *value = neighbor->tables[family].threshold[0];
	char name[SETTING_NAME_MAX];
	int order;

	if (streq(choice->value, value))
		return;
	set_text(choice->value, value);
	choice->why[0] = '\0';
	neighbor_threshold_name(&neighbor_families[family], 0, name);
	if (value_compare(NULL, value, NEIGHBOR_KERNEL_THRESH1, &order) == 0 && order < 0)
		(void)host_find_sysctl(neighbor->host, name, value, choice->why);
}

void neighbor_sense(void *self, uint64_t now)
{
	struct neighbor *neighbor = self;
	const struct host *host = neighbor->host;

	for (int family = 0; family < NEIGHBOR_FAMILIES; family++) {
		const struct neighbor_family_row *row = &neighbor_families[family];
		struct neighbor_table_seen *table = &neighbor->tables[family];
		_cleanup_free_ char *text = NULL;
		char name[SETTING_NAME_MAX], path[SETTING_PATH_MAX];

		*table = (struct neighbor_table_seen){0};
		for (int i = 0; i < NEIGHBOR_LEVELS; i++) {
			neighbor_threshold_name(row, i, name);
			sysctl_path(name, path);
			table->threshold_error[i] =
				host_read_value(host, path, table->threshold[i]);
		}
		sense_choice(neighbor, family);
		table->stats_error =
			host_read_file(host, row->statistics, neighbor->stats_max, &text);
		if (table->stats_error == 0)
			table->stats_error = parse_stats(text, &table->stats);
		table->collectable = table->stats.entries;
	}
	if (neighbor->bpf)
		sense_bpf(neighbor, now);
	refresh_sense(neighbor);
}

/* ---- states and ages, when `headroom top neighbor` asks ---- */

static void write_census(
	const char *family, const struct neighbor_census *census, char *text, size_t size)
{
	static const char *const states[NEIGHBOR_STATES] = {"incomplete", "reachable", "stale",
		"delay", "probe", "failed", "noarp", "permanent"};

	for (int state = 0; state < NEIGHBOR_STATES; state++) {
		const __u64 *entries = census->entries[state];
		uint64_t sum = 0;

		for (int age = 0; age < NEIGHBOR_AGES; age++)
			sum += entries[age];
		if (sum == 0)
			continue;
		text_append(text, size, "  %-6s %-12s", family, states[state]);
		for (int age = 0; age < NEIGHBOR_AGES; age++)
			text_append(text, size, "%10" PRIu64, (uint64_t)entries[age]);
		text_append(text, size, "\n");
	}
}

void neighbor_count_states(char *text, size_t size)
{
	struct neighbor_bpf_object *object = neighbor_bpf_object__open_and_load();
	char why[TUNER_WHY_MAX];
	struct timespec tick = {0};

	if (!object) {
		bpf_explain_failure(-errno, why, sizeof(why));
		text_append(text, size, "States and ages: %s\n", why);
		return;
	}
	/* The coarse clock moves with the kernel's tick. */
	clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
	object->bss->census_hz = (uint32_t)(1000000000 / MAX(tick.tv_nsec, 1L));
	walk_tables(object);
	text_append(text, size,
		"Entries of all namespaces, by state and time since the last use\n"
		"  %-6s %-12s%10s%10s%10s%10s\n",
		"", "", "< 1 min", "< 10 min", "< 1 h", "longer");
	for (int family = 0; family < NEIGHBOR_FAMILIES; family++)
		write_census(
			neighbor_families[family].name, &object->bss->census[family], text, size);
	neighbor_bpf_object__destroy(object);
}
