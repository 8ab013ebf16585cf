/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/values.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <linux/magic.h>
#include <linux/neighbour.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <zlib.h>

/* For a lock whose holder changes now. */
#define LOCK_WAIT_US  USEC_PER_SEC
#define LOCK_RETRY_US (25 * USEC_PER_MSEC)

/* ---- records ---- */

#define MAGIC          "headroom values"
#define VERSION        3
#define VERSION_NEWEST 4

/*
 * current is 0 for a free slot, or the number of the valid copy (1 or 2). When both copies are the
 * same, it is SEALED in the low bits, and above the checksum of a copy: then the copy that has this
 * checksum is valid. Earlier versions read the first copy of such a slot, and write numbers only.
 */
struct slot {
	_Atomic uint32_t current;
	struct value_record copies[2];
};

#define SEALED      5U
#define SEALED_MASK 7U

/* Version 4 is version 3 with the version of a program here. */
struct header {
	char magic[16];
	uint32_t version;
	uint32_t record_size;
	char boot[37];
	uint8_t boot_sum[3]; /* of boot; 0: earlier versions wrote none */
	char owner[OWNER_MAX];
};

/* Each later version begins like this. */
struct later_header {
	struct header header;
	char program[RECORD_PROGRAM_MAX]; /* the version of the program */
};

#define SLOTS_SIZE (VALUE_STORE_MAX * sizeof(struct slot))

static size_t header_size(uint32_t version)
{
	return version < 4 ? sizeof(struct header) : sizeof(struct later_header);
}

static void sum_boot(const struct header *header, uint8_t sum[static 3])
{
	uint32_t whole = (uint32_t)crc32(0, (const Bytef *)header->boot, sizeof(header->boot));

	memcpy(sum, &whole, 3);
}

/* Returns 0; -EBADMSG; -ESTALE for a file from another boot; or -EPROTO for a newer version. */
static int check_header(const struct header *header, const char *boot)
{
	static const uint8_t none[3] = {0};
	uint8_t sum[3];

	sum_boot(header, sum);
	if (strncmp(header->magic, MAGIC, sizeof(header->magic)) != 0 ||
		(memcmp(header->boot_sum, none, 3) != 0 && memcmp(header->boot_sum, sum, 3) != 0))
		return -EBADMSG;
	if (boot[0] && strncmp(header->boot, boot, sizeof(header->boot)) != 0)
		return -ESTALE;
	if (header->version > VERSION_NEWEST)
		return -EPROTO;
	return header->version < VERSION || header->record_size != sizeof(struct value_record)
		       ? -EBADMSG
		       : 0;
}

/*
 * Maps the file: it keeps the version that it has. Returns 0; an error of check_header(); or
 * another -errno.
 */
static int open_file(int dir, const char *boot, bool write, struct value_store *store)
{
	_cleanup_close_ int fd = openat(dir, VALUE_STORE_FILE,
		(write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct header header = {0};
	struct stat st;
	size_t size;
	void *file;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!is_own_file(&st))
		return -EKEYREJECTED;
	if (!S_ISREG(st.st_mode) || pread(fd, &header, sizeof(header), 0) != sizeof(header))
		return -EBADMSG;
	r = check_header(&header, boot);
	if (r < 0)
		return r;
	size = header_size(header.version) + SLOTS_SIZE;
	if (st.st_size != (off_t)size)
		return -EBADMSG;
	if (write && fchmod(fd, 0600) < 0)
		return -errno;
	file = mmap(NULL, size, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return -errno;
	store->header = file;
	store->slots = (struct slot *)((char *)file + header_size(header.version));
	return 0;
}

static uint32_t seal_of(const struct value_record *copy)
{
	uint32_t sum = (uint32_t)crc32(0, (const Bytef *)copy, sizeof(*copy));

	return sum * (SEALED_MASK + 1) | SEALED;
}

/* Returns the index of the valid copy, for any value of current but 0; or -EBADMSG. */
static int valid_copy(const struct slot *slot, uint32_t current)
{
	if (current <= 2)
		return (int)current - 1;
	for (int i = 0; (current & SEALED_MASK) == SEALED && i < 2; i++)
		if (current == seal_of(&slot->copies[i]))
			return i;
	return -EBADMSG;
}

/* Copies the record, empty for a free slot; the writer may change it meanwhile. 0 or -EBADMSG. */
static int read_slot(const struct slot *slot, struct value_record *record)
{
	uint32_t current;
	int copy;

	do {
		current = atomic_load_explicit(&slot->current, memory_order_acquire);
		copy = current == 0 ? 0 : valid_copy(slot, current);
		*record = current == 0 || copy < 0 ? (struct value_record){0} : slot->copies[copy];
		atomic_thread_fence(memory_order_seq_cst);
	} while (current != atomic_load_explicit(&slot->current, memory_order_relaxed));
	return MIN(copy, 0);
}

/* Stores before it are seen before it, and stores after it after it: in order after a kill, too. */
static void set_current(struct slot *slot, uint32_t current)
{
	atomic_thread_fence(memory_order_seq_cst);
	atomic_store_explicit(&slot->current, current, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

/* The second copy is valid: replaces the first one by it. */
static void seal_slot(struct slot *slot)
{
	set_current(slot, 2);
	slot->copies[0] = slot->copies[1];
	set_current(slot, seal_of(&slot->copies[1]));
}

int value_store_open(const char *directory, const char *boot, bool write, struct value_store **ret)
{
	_cleanup_close_ int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(cleanup_value_store_close) struct value_store *store = NULL;
	struct header header = {
		.magic = MAGIC, .version = VERSION, .record_size = sizeof(struct value_record)};
	_cleanup_close_ int fd = -1;
	int r;

	if (dir < 0)
		return -errno;
	store = must(calloc(1, sizeof(*store)));
	r = open_file(dir, boot, write, store);
	if (write && (r == -ENOENT || r == -ESTALE)) {
		/* All pages are allocated now: a full tmpfs cannot refuse a record later. */
		fd = openat(dir, VALUE_STORE_FILE ".new",
			O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return -errno;
		set_text(header.boot, boot);
		sum_boot(&header, header.boot_sum);
		r = -posix_fallocate(fd, 0, sizeof(header) + SLOTS_SIZE);
		if (r == 0)
			r = write_all(fd, &header, sizeof(header));
		if (r == 0 && renameat(dir, VALUE_STORE_FILE ".new", dir, VALUE_STORE_FILE) < 0)
			r = -errno;
		if (r < 0)
			(void)unlinkat(dir, VALUE_STORE_FILE ".new", 0);
		else
			r = open_file(dir, boot, write, store);
	}
	/* To a reader a missing or stale file is empty. */
	if (r < 0 && (write || (r != -ENOENT && r != -ESTALE)))
		return r;
	for (size_t i = 0; store->header && i < VALUE_STORE_MAX; i++) {
		r = read_slot(&store->slots[i], &store->records[i]);
		if (r < 0)
			return r;
		if (store->records[i].name[0])
			store->n = i + 1;
	}
	if (store->header)
		copy_text(store->owner, OWNER_MAX, store->header->owner);
	*ret = steal(store);
	return 0;
}

void value_store_program(const char *directory, char program[static RECORD_PROGRAM_MAX])
{
	_cleanup_close_ int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd =
		openat(dir, VALUE_STORE_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct later_header later = {0};

	if (pread(fd, &later, sizeof(later), 0) == sizeof(later)) {
		later.program[RECORD_PROGRAM_MAX - 1] = '\0';
		copy_text(program, RECORD_PROGRAM_MAX, later.program);
	}
}

/*
 * Adds or replaces a record. At every instruction the file holds the old record or the new one. 0;
 * -ENOSPC when no slot is free.
 */
static int put_record(struct value_store *store, const struct value_record *record)
{
	struct value_record *there = find_named(store->records, store->n, record->name);
	struct slot *slot;

	if (!there)
		there = find_named(store->records, VALUE_STORE_MAX, ""); /* a free slot */
	if (!there)
		return -ENOSPC;
	*there = *record;
	store->n = MAX(store->n, (size_t)(there - store->records) + 1);
	slot = &store->slots[there - store->records];
	/* The valid copy stays until the other is written. */
	if (valid_copy(slot, atomic_load_explicit(&slot->current, memory_order_relaxed)) == 1)
		seal_slot(slot);
	slot->copies[1] = *there;
	seal_slot(slot);
	return 0;
}

void value_store_adopt(struct value_store *store, const char *owner)
{
	copy_text(store->owner, OWNER_MAX, owner);
	copy_text(store->header->owner, OWNER_MAX, owner);
	/* An earlier version wrote no checksums. */
	for (size_t i = 0; i < store->n; i++)
		if (store->records[i].name[0])
			(void)put_record(store, &store->records[i]);
}

void value_store_close(struct value_store *store)
{
	if (store->header)
		(void)munmap(store->header, header_size(store->header->version) + SLOTS_SIZE);
	free(store);
}

void value_store_mark(struct value_store *store, const char *name, bool configured)
{
	const struct value_record *there = find_named(store->records, store->n, name);
	struct value_record record;

	if (!there || there->configured == configured)
		return;
	record = *there;
	record.configured = configured;
	(void)put_record(store, &record);
}

void value_store_forget(struct value_store *store, const char *name)
{
	struct value_record *there = find_named(store->records, store->n, name);
	struct slot *slot;

	if (!there)
		return;
	slot = &store->slots[there - store->records];
	*there = (struct value_record){0}; /* the name may be its own */
	set_current(slot, 0);
	/* Nothing is restored from here, even if current is damaged. */
	memset(slot->copies, 0, sizeof(slot->copies));
}

/*
 * Returns the process that holds the lock of an open file, by the kernel's list; 0 if the kernel
 * does not tell, as in another namespace of processes.
 */
static int lock_owner(int fd)
{
	_cleanup_fclose_ FILE *locks = fopen("/proc/locks", "re");
	char line[256];
	unsigned major, minor;
	unsigned long inode;
	struct stat st;
	int pid;

	if (!locks || fstat(fd, &st) < 0)
		return 0;
	/* 3: FLOCK  ADVISORY  WRITE 4711 00:19:1234 0 EOF */
	while (fgets(line, sizeof(line), locks))
		if (sscanf(line, "%*u: FLOCK %*s %*s %d %x:%x:%lu", &pid, &major, &minor, &inode) ==
				4 &&
			inode == st.st_ino && makedev(major, minor) == st.st_dev)
			return MAX(pid, 0);
	return 0;
}

/*
 * Returns whether the process that got the lock runs, and its name is in the file. Otherwise this
 * soon changes: a process writes its name after it has got the lock, and after the end of a process
 * a child that it had just forked holds the lock until it closes its copy of the descriptor.
 */
static bool is_settled(int fd, int owner)
{
	char text[64] = "", *named;

	(void)!pread(fd, text, sizeof(text) - 1, 0);
	named = strstr(text, ", pid ");
	return (kill(owner, 0) == 0 || errno != ESRCH) && named &&
	       atoi(named + strlen(", pid ")) == owner;
}

/* Gets the lock. waits: for a holder that changes. Returns 0 or -errno. */
static int lock_file(int fd, bool waits)
{
	const struct timespec pause = timespec_of(LOCK_RETRY_US);
	uint64_t until_us = now_us() + LOCK_WAIT_US;
	bool was_unseen = false;

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int owner;

		if (errno != EWOULDBLOCK)
			return -errno;
		owner = lock_owner(fd);
		if (!waits || now_us() >= until_us ||
			(owner > 0 ? is_settled(fd, owner) : was_unseen))
			return -EBUSY;
		/*
		 * An owner that is not seen has released it, or is in another namespace of
		 * processes and keeps it.
		 */
		was_unseen = owner == 0;
		if (owner > 0)
			(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	}
	return 0;
}

/*
 * Names the holder. The text in the file is of the last headroom that got the lock; another process
 * may hold it by now.
 */
static void name_holder(int fd, char *holder, size_t size)
{
	ssize_t n = pread(fd, holder, size - 1, 0);
	_cleanup_free_ char *name = NULL, *ours = NULL;
	int pid = lock_owner(fd);
	char path[32], *end;

	holder[MAX(n, 0)] = '\0';
	holder[strcspn(holder, "\n")] = '\0';
	if (holder[0] == '\0')
		copy_text(holder, size, "another headroom");
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	if (pid == 0 || read_file("/proc/self/comm", 64, &ours, NULL) < 0)
		return;
	if (read_file(path, 64, &name, NULL) < 0) {
		snprintf(holder, size, "a child of pid %d, which has ended", pid);
		return;
	}
	name[strcspn(name, "\n")] = ours[strcspn(ours, "\n")] = '\0';
	/* A headroom in a container wrote the pid that it has there. */
	end = strstr(holder, ", pid ");
	if (streq(name, ours))
		*(end ? end : strchr(holder, '\0')) = '\0';
	else
		holder[0] = '\0';
	text_append(holder, size, "%s, pid %d", holder[0] ? "" : name, pid);
}

int lock_acquire(const char *directory, const char *name, bool waits, char *holder, size_t size)
{
	_cleanup_close_ int dir = make_own_directory(directory);
	_cleanup_close_ int fd = -1;
	int r;

	if (dir < 0)
		return dir;
	/* A process that can open the file can lock it. Earlier versions let everybody open it. */
	fd = openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || fchmod(fd, 0600) < 0)
		return -errno;
	r = lock_file(fd, waits);
	if (r == -EBUSY)
		name_holder(fd, holder, size);
	if (r < 0)
		return r;
	/* The holder's name is only for messages: an error, such as a full disk, is ignored. */
	if (ftruncate(fd, 0) == 0)
		(void)dprintf(fd, "%s, pid %d\n", name, (int)getpid());
	return steal_fd(&fd);
}

bool lock_holder(const char *directory, char *holder, size_t size)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX + sizeof("/lock")];
	const char *pid;

	snprintf(path, sizeof(path), "%s/lock", directory);
	if (read_file(path, size - 1, &text, NULL) < 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	pid = strstr(text, ", pid ");
	copy_text(holder, size, text);
	return pid && (kill(atoi(pid + strlen(", pid ")), 0) == 0 || errno == EPERM);
}

/* ---- one value ---- */

DEFINE_CLEANUP(struct nl_sock, nl_socket_free)
DEFINE_CLEANUP(struct nl_msg, nlmsg_free)

static int write_text(const struct host *host, const char *path, const char *value)
{
	_cleanup_close_ int fd = -1;
	char full[PATH_MAX];

	fd = open(host_path(host, path, full), O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* The kernel ignores a write of no bytes: an empty value is an empty line. */
	if (value[0] == '\0')
		value = "\n";
	/* One write(2): procfs and sysfs do not accept a value in parts. */
	return write(fd, value, strlen(value)) < 0 ? -errno : 0;
}

/* libnl maps several errors to one code: keep the kernel's errno. */
static int keep_errno(struct sockaddr_nl *, struct nlmsgerr *error, void *arg)
{
	*(int *)arg = error->error;
	return NL_STOP;
}

static int set_threshold(const struct value_target *target, const char *value)
{
	const char *table = target->family == AF_INET ? "arp_cache" : "ndisc_cache";
	struct ndtmsg header = {.ndtm_family = (uint8_t)target->family};
	_cleanup_(cleanup_nl_socket_free) struct nl_sock *socket = nl_socket_alloc();
	_cleanup_(cleanup_nlmsg_free) struct nl_msg *message =
		nlmsg_alloc_simple(RTM_SETNEIGHTBL, NLM_F_REQUEST | NLM_F_ACK);
	int kernel_error = 0, r;
	uint64_t number;

	if (target->level < 1 || target->level > 3 || parse_count(value, &number) < 0 ||
		number > INT32_MAX)
		return -EINVAL;
	if (!socket || !message ||
		nlmsg_append(message, &header, sizeof(header), NLMSG_ALIGNTO) < 0 ||
		nla_put_string(message, NDTA_NAME, table) < 0 ||
		nla_put_u32(message, NDTA_THRESH1 + target->level - 1, (uint32_t)number) < 0)
		return -ENOMEM;
	if (nl_connect(socket, NETLINK_ROUTE) < 0)
		return errno ? -errno : -EPROTONOSUPPORT;
	nl_socket_modify_err_cb(socket, NL_CB_CUSTOM, keep_errno, &kernel_error);
	r = nl_send_sync(socket, steal(message));
	if (kernel_error < 0)
		return kernel_error;
	return r < 0 ? -EIO : 0;
}

/* ---- plans ---- */

/* Returns whether someone else has written the value since it was judged. */
static bool is_overtaken(const struct host *host, const struct change *change)
{
	char now[SETTING_VALUE_MAX];

	return host_read_value(host, change->target.path, now) == 0 &&
	       !value_equal(now, change->old) && !value_equal(now, change->new) &&
	       !(change->followed[0] && value_equal(now, change->followed));
}

static void give_way(struct change *change)
{
	change->error = -ESTALE;
	change->reason = REASON_WRITE_REFUSED;
	change->why = must(strdup("someone else is changing it now: try again"));
}

/*
 * A threshold is set by RTM_SETNEIGHTBL, or by its file in /proc/sys if that fails. A growing
 * threshold is urgent: its file is tried first, because rtnetlink may wait for a lock. -ERANGE: the
 * write succeeded, but another value was read back.
 */
static int write_and_read_back(const struct host *host, struct change *change)
{
	const char *path = change->target.path;
	bool is_file = change->target.kind == VALUE_FILE;
	int r = -EOPNOTSUPP, read;
	char full[PATH_MAX];
	struct statfs fs;

	/* A write of vm.dirty_bytes sets vm.dirty_ratio, and a write of the ratio undoes it. */
	if (is_file && host_read_value(host, path, change->actual) == 0 &&
		value_equal(change->actual, change->new))
		return 0;
	if (is_file || change->grown)
		r = write_text(host, path, change->new);
	if (r < 0 && !is_file) {
		/* Netlink changes the running kernel: a root without its procfs has only files. */
		r = statfs(host_path(host, path, full), &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC
			    ? set_threshold(&change->target, change->new)
			    : -EOPNOTSUPP;
		if (r < 0 && r != -EINVAL && write_text(host, path, change->new) == 0)
			r = 0;
	}
	read = host_read_value(host, path, change->actual);
	if (read < 0)
		change->actual[0] = '\0';
	if (r < 0 || read < 0)
		return r < 0 ? r : read;
	return value_equal(change->actual, change->new) ? 0 : -ERANGE;
}

/* When the kernel gets a value that begins so, it sets another one itself. */
static const struct {
	const char *leader, *follower;
} followers[] = {
	{"thp.", "vm.min_free_kbytes"},
	{"vm.dirty_background_bytes", "vm.dirty_background_ratio"},
	{"vm.dirty_background_ratio", "vm.dirty_background_bytes"},
	{"vm.dirty_bytes", "vm.dirty_ratio"},
	{"vm.dirty_ratio", "vm.dirty_bytes"},
	{"vm.overcommit_kbytes", "vm.overcommit_ratio"},
	{"vm.overcommit_ratio", "vm.overcommit_kbytes"},
};

/* Writes a value, and learns which value its follower has then. */
static int write_change(const struct host *host, struct plan *plan, struct change *change)
{
	struct change *follower = NULL;
	int r;

	for (size_t i = 0; !follower && i < ARRAY_SIZE(followers); i++)
		if (starts_with(change->name, followers[i].leader))
			follower = find_named(plan->changes, plan->n, followers[i].follower);
	if (follower && is_overtaken(host, follower))
		follower = NULL;
	r = write_and_read_back(host, change);
	if (follower)
		(void)host_read_value(host, follower->target.path, follower->followed);
	return r;
}

static bool restores(const struct change *change)
{
	return change->reason == REASON_NO_LONGER_CONFIGURED;
}

/* After all were written. The record stays until the value is the original. */
static void finish_restore(
	const struct host *host, struct value_store *store, struct change *change)
{
	/* Another value may have restored this one: vm.dirty_ratio sets vm.dirty_bytes. */
	if (change->error < 0 && host_read_value(host, change->target.path, change->actual) == 0 &&
		value_equal(change->actual, change->new))
		change->error = 0;
	if (change->error == 0)
		value_store_forget(store, change->name);
	else if (restores(change))
		change->reason = REASON_NOT_RESTORED;
}

/* Writes the originals of values that are no longer configured. */
static void write_originals(const struct host *host, struct plan *plan)
{
	for (size_t i = 0; i < plan->n; i++) {
		struct change *change = &plan->changes[i];

		if (!restores(change))
			continue;
		if (is_overtaken(host, change))
			give_way(change);
		else
			change->error = write_change(host, plan, change);
	}
}

void values_apply(const struct host *host, struct value_store *store, struct plan *plan)
{
	plan_sort(plan);
	write_originals(host, plan);
	for (size_t i = 0; i < plan->n; i++) {
		struct change *change = &plan->changes[i];
		const struct value_record *known =
			find_named(store->records, store->n, change->name);
		struct value_record record =
			known ? *known : (struct value_record){.target = change->target};
		struct value_record last = record;
		bool foreign = known && value_is_foreign(known, change->old);
		bool undone =
			known && known->chosen[0] && value_equal(change->old, known->original);

		if (restores(change)) {
			finish_restore(host, store, change);
			continue;
		}
		if (change->error == -ESTALE)
			continue;
		set_text(change->actual, change->old);
		if (is_overtaken(host, change)) {
			give_way(change);
			continue;
		}
		change->error = 0;
		if (!known) {
			set_text(record.name, change->name);
			set_text(record.tuner, change->tuner);
			set_text(record.original, change->old);
		}
		/* It is a floor for later configurations. */
		if (foreign || undone)
			set_text(record.chosen, foreign ? change->old : "");
		if (!known || undone || !streq(record.wanted, change->new) ||
			record.grown != change->grown ||
			(!value_equal(change->old, record.original) &&
				!value_equal(change->old, record.before))) {
			/* After a crash before the write, the old value is still to be restored,
			 * unless someone else wrote it. */
			set_text(record.before, foreign ? record.wanted : change->old);
			set_text(record.wanted, change->new);
			record.grown = change->grown;
			change->error = put_record(store, &record);
		}
		if (change->error < 0) {
			change->reason = REASON_NOT_RECORDED;
			continue;
		}
		change->error = write_change(host, plan, change);
		/*
		 * From now on the value read back is ours. The value before the write is not: an
		 * administrator may choose it. The kernel may round or limit a value. During drift
		 * another value read back may be someone else's.
		 */
		if (change->error == 0 ||
			(change->error == -ERANGE && change->reason != REASON_DRIFT &&
				value_is_foreign(&record, change->actual))) {
			set_text(record.before, change->actual);
			(void)put_record(store, &record);
		}
		if (change->error >= 0)
			continue;
		change->reason = change->error == -ERANGE ? REASON_NOT_TAKEN : REASON_WRITE_REFUSED;
		/* Nothing was written. If others write the wanted value, it is theirs. */
		if (!value_equal(change->actual, change->old))
			continue;
		set_text(last.chosen, record.chosen);
		if (last.name[0])
			(void)put_record(store, &last);
		else
			value_store_forget(store, change->name);
	}
}

/* Reads the value, and decides whether it is to be restored. */
static void judge_restore(
	const struct host *host, const struct value_store *store, struct change *change)
{
	const struct value_record *record = find_named(store->records, store->n, change->name);
	int r = host_read_value(host, change->target.path, change->old);

	set_text(change->actual, change->old);
	set_text(change->new, "");
	if (r == -ENOENT) {
		/* The device or module was removed, or this process cannot see it. */
		change->left = true;
		change->reason = REASON_NOT_IN_THIS_KERNEL;
	} else if (r == 0 && value_is_foreign(record, change->old)) {
		change->left = true;
		change->reason = REASON_CHANGED_SINCE;
	} else {
		change->error = r;
		change->reason = REASON_ORIGINAL;
		set_text(change->new, record->original);
	}
}

void values_plan_restore(const struct host *host, const struct value_store *store,
	const char *tuner, struct plan *plan)
{
	for (size_t i = 0; i < store->n; i++) {
		const struct value_record *record = &store->records[i];
		struct change *change;

		if (!record->name[0] || (tuner && !streq(tuner, record->tuner)))
			continue;
		change = plan_add(plan, NULL, record->name, record->tuner, "", "");
		change->target = record->target;
		judge_restore(host, store, change);
	}
	plan_sort(plan);
}

void values_restore(
	const struct host *host, struct value_store *store, const char *tuner, struct plan *plan)
{
	values_plan_restore(host, store, tuner, plan);
	for (size_t i = 0; i < plan->n; i++) {
		struct change *change = &plan->changes[i];

		if (!change->left && change->error == 0 && is_overtaken(host, change))
			judge_restore(host, store, change);
		if (change->reason == REASON_CHANGED_SINCE) {
			log_as(LOG_SETTING_CHANGED, LOG_NOTICE, change->name,
				"left at %s: someone else changed it since", change->old);
			value_store_forget(store, change->name);
		}
		if (change->left || change->error < 0 || value_equal(change->old, change->new))
			continue;
		change->error = write_change(host, plan, change);
	}
	for (size_t i = 0; i < plan->n; i++) {
		struct change *change = &plan->changes[i];

		if (change->left)
			continue;
		finish_restore(host, store, change);
		if (change->error < 0)
			log_as(LOG_SETTING_CHANGED, LOG_ERR, change->name, "not restored to %s: %s",
				change->new, strerror(-change->error));
		else if (!value_equal(change->old, change->new))
			log_as(LOG_SETTING_CHANGED, LOG_INFO, change->name, "%s -> %s (%s)",
				change->old, change->new, reason_rows[change->reason].slug);
	}
}
