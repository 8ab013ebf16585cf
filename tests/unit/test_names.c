/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "workload/cgroup.h"

static struct name_entry entry(const char *id, const char *name, const char *address)
{
	struct name_entry made = {.workload = {.kind = WORKLOAD_POD, .namespace = "default"}};

	copy_text(made.workload.id, sizeof(made.workload.id), id);
	copy_text(made.workload.name, sizeof(made.workload.name), name);
	copy_text(made.address, sizeof(made.address), address);
	return made;
}

/* What a source tells: a buffer of its own, as names_replace takes it over. */
static void tell(struct names *names, const char *source, const char *const ids[], size_t n)
{
	struct name_entry *entries = calloc(n, sizeof(*entries));
	char name[64];

	assert_non_null(entries);
	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s-of-%s", ids[i], source);
		entries[i] = entry(ids[i], name, "");
	}
	names_replace(names, source, entries, n);
}

static const char *name_of(const struct names *names, const char *id)
{
	static struct workload workload;

	workload = entry(id, "unnamed", "").workload;
	workload.kind = WORKLOAD_CONTAINER;
	return names_apply(names, &workload) ? workload.name : NULL;
}

TEST(every_source_is_asked)
{
	_cleanup_(cleanup_names_close) struct names *names = names_open();

	tell(names, "one", (const char *const[]){"c", "a", "b"}, 3);
	tell(names, "two", (const char *const[]){"z"}, 1);
	assert_string_equal(name_of(names, "a"), "a-of-one");
	assert_string_equal(name_of(names, "c"), "c-of-one");
	assert_string_equal(name_of(names, "z"), "z-of-two");
	assert_null(name_of(names, "d"));
	assert_null(name_of(names, ""));
	assert_null(name_of(NULL, "a"));
}

TEST(a_source_replaces_only_its_own)
{
	_cleanup_(cleanup_names_close) struct names *names = names_open();

	tell(names, "one", (const char *const[]){"a"}, 1);
	tell(names, "two", (const char *const[]){"z"}, 1);
	tell(names, "one", (const char *const[]){"b"}, 1);
	assert_null(name_of(names, "a"));
	assert_string_equal(name_of(names, "b"), "b-of-one");
	assert_string_equal(name_of(names, "z"), "z-of-two");
	names_replace(names, "one", NULL, 0);
	assert_null(name_of(names, "b"));
}

TEST(sources_are_bounded)
{
	static const char *const sources[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
	_cleanup_(cleanup_names_close) struct names *names = names_open();

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		tell(names, sources[i], &sources[i], 1);
	assert_non_null(name_of(names, "8"));
	assert_null(name_of(names, "9"));
}

TEST(an_address_belongs_to_one)
{
	_cleanup_(cleanup_names_close) struct names *names = names_open();
	struct name_entry *entries = calloc(2, sizeof(*entries));
	struct workload workload;

	entries[0] = entry("uid-1", "coredns", "10.0.0.5");
	entries[1] = entry("uid-2", "on-the-host", "");
	names_replace(names, "one", entries, 2);
	assert_true(names_at_address(names, "10.0.0.5", &workload));
	assert_string_equal(workload.name, "coredns");
	assert_false(names_at_address(names, "10.0.0.6", &workload));
	assert_false(names_at_address(names, "", &workload));
}
