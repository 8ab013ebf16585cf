/* SPDX-License-Identifier: Apache-2.0 */
#include "apply/value_store.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MAGIC   "headroom values"
#define VERSION 1

/* Two copies of a record: the one that current names is whole, the other is being written. */
struct slot {
	_Atomic uint32_t current; /* 0: the slot is free; 1 or 2: the copy that counts */
	struct value_record copies[2];
};

struct file {
	char magic[16];
	uint32_t version;
	uint32_t record_size;
	char boot[40];
	struct slot slots[VALUE_STORE_MAX];
};

struct value_store {
	struct file *file; /* NULL: there is none, and this process may not make one */
	bool writable;
	struct value_record *records; /* copies of those in the file, and the slot of each */
	uint16_t slots[VALUE_STORE_MAX];
	size_t n, allocated;
};

static int map(int fd, bool write, struct file **ret)
{
	void *address = mmap(
		NULL, sizeof(struct file), PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, fd, 0);

	if (address == MAP_FAILED)
		return -errno;
	*ret = address;
	return 0;
}

/* With all its pages, under another name until the header is complete. */
static int create(int dir, const char *boot, struct file **ret)
{
	_cleanup_close_ int fd = openat(dir, VALUE_STORE_FILE ".new",
		O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	struct file *file = NULL;
	int r;

	if (fd < 0)
		return -errno;
	r = -posix_fallocate(fd, 0, sizeof(*file));
	if (r == 0)
		r = map(fd, true, &file);
	if (r < 0) {
		(void)unlinkat(dir, VALUE_STORE_FILE ".new", 0);
		return r;
	}
	copy_text(file->magic, sizeof(file->magic), MAGIC);
	file->version = VERSION;
	file->record_size = sizeof(struct value_record);
	copy_text(file->boot, sizeof(file->boot), boot);
	if (renameat(dir, VALUE_STORE_FILE ".new", dir, VALUE_STORE_FILE) < 0) {
		r = -errno;
		(void)munmap(file, sizeof(*file));
		return r;
	}
	*ret = file;
	return 0;
}

/* 0 with *ret, -ESTALE for one of another boot, -EBADMSG, -errno. */
static int open_file(int dir, const char *boot, bool write, struct file **ret)
{
	_cleanup_close_ int fd = openat(dir, VALUE_STORE_FILE,
		(write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct file *file = NULL;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size != (off_t)sizeof(*file))
		return -EBADMSG;
	r = map(fd, write, &file);
	if (r < 0)
		return r;
	if (strncmp(file->magic, MAGIC, sizeof(file->magic)) != 0 || file->version != VERSION ||
		file->record_size != sizeof(struct value_record))
		r = -EBADMSG;
	else if (boot[0] && strncmp(file->boot, boot, sizeof(file->boot)) != 0)
		r = -ESTALE;
	if (r < 0)
		(void)munmap(file, sizeof(*file));
	else
		*ret = file;
	return r;
}

static int add(struct value_store *store, const struct value_record *record, size_t slot)
{
	if (grow_array(&store->records, store->n, &store->allocated, sizeof(*store->records)) < 0)
		return -ENOMEM;
	store->records[store->n] = *record;
	store->slots[store->n++] = (uint16_t)slot;
	return 0;
}

static int load(struct value_store *store)
{
	for (size_t i = 0; i < VALUE_STORE_MAX; i++) {
		const struct slot *slot = &store->file->slots[i];
		uint32_t current = atomic_load_explicit(&slot->current, memory_order_acquire);

		if (current != 0 && add(store, &slot->copies[current == 2], i) < 0)
			return -ENOMEM;
	}
	return 0;
}

int value_store_open(const char *directory, const char *boot, bool write, struct value_store **ret)
{
	_cleanup_close_ int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(cleanup_value_store_close) struct value_store *store = calloc(1, sizeof(*store));
	int r = store ? 0 : -ENOMEM;

	if (r == 0 && dir < 0)
		r = -errno;
	if (r == 0)
		r = open_file(dir, boot, write, &store->file);
	if (write && (r == -ENOENT || r == -ESTALE) && dir >= 0)
		r = create(dir, boot, &store->file);
	if (!write && (r == -ENOENT || r == -ESTALE))
		r = 0; /* nothing was recorded in this boot */
	if (r == 0 && store->file)
		r = load(store);
	if (r < 0)
		return r;
	store->writable = write;
	*ret = steal(store);
	return 0;
}

void value_store_close(struct value_store *store)
{
	if (store->file)
		(void)munmap(store->file, sizeof(*store->file));
	free(store->records);
	free(store);
}

const struct value_record *value_store_records(const struct value_store *store, size_t *n)
{
	*n = store->n;
	return store->records;
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
	if (add(store, record, slot) < 0)
		return -ENOMEM;
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
