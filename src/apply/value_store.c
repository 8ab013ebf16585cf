/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/value_store.h"

#include "base/file.h"

#include <stdatomic.h>
#include <sys/file.h>
#include <sys/mman.h>

#define MAGIC   "headroom values"
#define VERSION 1

/* Two copies of a record: the one that current names is whole, the other is being written. */
struct slot {
	_Atomic uint32_t current; /* 0: the slot is free; 1 or 2: the copy that counts */
	struct value_record copies[2];
};

struct header {
	char magic[16];
	uint32_t version;
	uint32_t record_size;
	char boot[40];
};

struct value_file {
	struct header header;
	struct slot slots[VALUE_STORE_MAX];
};

/* With all its pages, under another name until the header is complete. */
static int create(int dir, const char *boot)
{
	_cleanup_close_ int fd = openat(dir, VALUE_STORE_FILE ".new",
		O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	struct header header = {
		.magic = MAGIC, .version = VERSION, .record_size = sizeof(struct value_record)};
	int r;

	if (fd < 0)
		return -errno;
	copy_text(header.boot, sizeof(header.boot), boot);
	r = -posix_fallocate(fd, 0, sizeof(struct value_file));
	if (r == 0)
		r = write_all(fd, &header, sizeof(header));
	if (r == 0 && renameat(dir, VALUE_STORE_FILE ".new", dir, VALUE_STORE_FILE) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir, VALUE_STORE_FILE ".new", 0);
	return r;
}

/* 0 with *ret, -ESTALE for one of another boot, -EBADMSG, -errno. */
static int open_file(int dir, const char *boot, bool write, struct value_file **ret)
{
	_cleanup_close_ int fd = openat(dir, VALUE_STORE_FILE,
		(write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct value_file *file;
	struct stat st;
	int r = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size != (off_t)sizeof(*file))
		return -EBADMSG;
	file = mmap(NULL, sizeof(*file), PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return -errno;
	if (strncmp(file->header.magic, MAGIC, sizeof(file->header.magic)) != 0 ||
		file->header.version != VERSION ||
		file->header.record_size != sizeof(struct value_record))
		r = -EBADMSG;
	else if (boot[0] && strncmp(file->header.boot, boot, sizeof(file->header.boot)) != 0)
		r = -ESTALE;
	if (r < 0)
		(void)munmap(file, sizeof(*file));
	else
		*ret = file;
	return r;
}

static void add(struct value_store *store, const struct value_record *record, size_t slot)
{
	store->records[store->n] = *record;
	store->slots[store->n++] = (uint16_t)slot;
}

int value_store_open(const char *directory, const char *boot, bool write, struct value_store **ret)
{
	_cleanup_close_ int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(cleanup_value_store_close) struct value_store *store = NULL;
	int r;

	if (dir < 0)
		return -errno;
	store = must(calloc(1, sizeof(*store)));
	r = open_file(dir, boot, write, &store->file);
	if (write && (r == -ENOENT || r == -ESTALE)) {
		r = create(dir, boot);
		if (r == 0)
			r = open_file(dir, boot, write, &store->file);
	}
	/* Else nothing was recorded in this boot. */
	if (r < 0 && (write || (r != -ENOENT && r != -ESTALE)))
		return r;
	for (size_t i = 0; store->file && i < VALUE_STORE_MAX; i++) {
		const struct slot *slot = &store->file->slots[i];
		uint32_t current = atomic_load_explicit(&slot->current, memory_order_acquire);

		if (current != 0)
			add(store, &slot->copies[current == 2], i);
	}
	store->writable = write;
	*ret = steal(store);
	return 0;
}

void value_store_close(struct value_store *store)
{
	if (store->file)
		(void)munmap(store->file, sizeof(*store->file));
	free(store);
}

static size_t index_of(const struct value_store *store, const char *name)
{
	size_t i = 0;

	while (i < store->n && !streq(store->records[i].name, name))
		i++;
	return i;
}

/* The copy that does not count is written, then it is made the one that counts. */
static void write_slot(struct slot *slot, const struct value_record *record)
{
	uint32_t next = atomic_load_explicit(&slot->current, memory_order_relaxed) == 1 ? 2 : 1;

	slot->copies[next - 1] = *record;
	atomic_store_explicit(&slot->current, next, memory_order_release);
}

int value_store_put(struct value_store *store, const struct value_record *record)
{
	size_t i = index_of(store, record->name), slot = 0;

	if (!store->writable)
		return -EROFS;
	if (i < store->n) {
		store->records[i] = *record;
		write_slot(&store->file->slots[store->slots[i]], record);
		return 0;
	}
	while (slot < VALUE_STORE_MAX && store->file->slots[slot].current != 0)
		slot++;
	if (slot == VALUE_STORE_MAX)
		return -ENOSPC;
	add(store, record, slot);
	write_slot(&store->file->slots[slot], record);
	return 0;
}

void value_store_forget(struct value_store *store, const char *name)
{
	size_t i = index_of(store, name);

	if (i == store->n || !store->writable)
		return;
	atomic_store_explicit(
		&store->file->slots[store->slots[i]].current, 0, memory_order_release);
	store->records[i] = store->records[--store->n];
	store->slots[i] = store->slots[store->n];
}

int lock_take(int dir, const char *who, char *holder, size_t size)
{
	_cleanup_close_ int fd =
		openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	char text[64];
	int n;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return -errno;
		n = (int)pread(fd, holder, size - 1, 0);
		holder[MAX(n, 0)] = '\0';
		holder[strcspn(holder, "\n")] = '\0';
		if (holder[0] == '\0')
			copy_text(holder, size, "another headroom");
		return -EBUSY;
	}
	/* The name is a courtesy to the process that comes second: on a full disk the lock does
	 * without. */
	n = snprintf(text, sizeof(text), "%s, pid %d\n", who, (int)getpid());
	if (ftruncate(fd, 0) == 0)
		(void)write_all(fd, text, (size_t)n);
	return steal_fd(&fd);
}
