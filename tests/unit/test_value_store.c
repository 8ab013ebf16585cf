/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "apply/value_store.h"

#define BOOT "5e0b9f3c-1d5c-4f7e-9a55-000000000001"

static struct value_record record_of(const char *name, unsigned value)
{
	struct value_record record = {.target.path = "/proc/sys/vm/a"};

	copy_text(record.name, sizeof(record.name), name);
	snprintf(record.original, sizeof(record.original), "%u", value);
	snprintf(record.before, sizeof(record.before), "%u", value);
	snprintf(record.wanted, sizeof(record.wanted), "%u", value);
	return record;
}

static void put(struct value_store *store, const char *name, unsigned value)
{
	struct value_record record = record_of(name, value);

	assert_int_equal(value_store_put(store, &record), 0);
}

/* What another process finds: "name=wanted" of each record. */
static void assert_records(const struct directory *directory, const char *boot, const char *text)
{
	_cleanup_(cleanup_value_store_close) struct value_store *store = NULL;
	char found[256] = "";

	assert_int_equal(value_store_open(directory->path, boot, false, &store), 0);
	for (size_t i = 0; i < store->n; i++) {
		size_t used = strlen(found);

		snprintf(found + used, sizeof(found) - used, "%s%s=%s", used ? " " : "",
			store->records[i].name, store->records[i].wanted);
	}
	assert_string_equal(found, text);
}

DIRECTORY_TEST(records_outlive_the_process)
{
	struct value_store *store;

	assert_records(directory, BOOT, ""); /* there is no file */
	assert_int_equal(value_store_open(directory->path, BOOT, true, &store), 0);
	put(store, "a", 1);
	put(store, "b", 2);
	put(store, "c", 3);
	put(store, "a", 4);
	value_store_forget(store, "b");
	assert_records(directory, BOOT, "a=4 c=3"); /* while it is open, too */
	put(store, "d", 5);
	value_store_close(store);
	assert_records(directory, BOOT, "a=4 d=5 c=3");
}

DIRECTORY_TEST(another_boot_begins_afresh)
{
	struct value_store *store;

	assert_int_equal(value_store_open(directory->path, BOOT, true, &store), 0);
	put(store, "a", 1);
	value_store_close(store);
	assert_records(directory, "another", "");
	assert_records(directory, "", "a=1"); /* it is not known which boot this is */
	assert_int_equal(value_store_open(directory->path, "another", true, &store), 0);
	value_store_close(store);
	assert_records(directory, BOOT, "");
}

DIRECTORY_TEST(a_file_of_someone_else_is_left_alone)
{
	struct value_store *store;

	directory_put(directory, "/" VALUE_STORE_FILE, "noise");
	assert_int_equal(value_store_open(directory->path, BOOT, true, &store), -EBADMSG);
	assert_int_equal(value_store_open(directory->path, BOOT, false, &store), -EBADMSG);
	assert_file(directory, "/" VALUE_STORE_FILE, "noise");
	assert_int_equal(value_store_open("/nonexistent", BOOT, true, &store), -ENOENT);
}

DIRECTORY_TEST(slots_come_to_an_end)
{
	struct value_record record;
	struct value_store *store;
	char name[16];

	assert_int_equal(value_store_open(directory->path, BOOT, true, &store), 0);
	for (unsigned i = 0; i < VALUE_STORE_MAX; i++) {
		snprintf(name, sizeof(name), "%u", i);
		put(store, name, i);
	}
	record = record_of("more", 1);
	assert_int_equal(value_store_put(store, &record), -ENOSPC);
	put(store, "7", 8); /* what has a slot keeps it */
	value_store_forget(store, "8");
	assert_int_equal(value_store_put(store, &record), 0);
	value_store_close(store);
	assert_int_equal(value_store_open(directory->path, BOOT, false, &store), 0);
	assert_int_equal(value_store_put(store, &record), -EROFS);
	value_store_close(store);
}
