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

/* What a source tells of ids of one letter: a buffer of its own, as names_replace takes it over. */
static void tell(struct names *names, const char *source, const char *ids)
{
	struct name_entry *entries = calloc(strlen(ids), sizeof(*entries));
	char name[64];

	for (size_t i = 0; ids[i]; i++) {
		snprintf(name, sizeof(name), "%c-of-%s", ids[i], source);
		entries[i] = entry((const char[]){ids[i], '\0'}, name, "");
	}
	names_replace(names, source, entries, strlen(ids));
}

static void expect(const struct names *names, const char *id, const char *name)
{
	struct workload workload = entry(id, "unnamed", "").workload;

	assert_int_equal(names_apply(names, &workload), name != NULL);
	assert_string_equal(workload.name, name ? name : "unnamed");
}

TEST(a_source_replaces_only_its_own)
{
	_cleanup_(cleanup_names_close) struct names *names = names_open();

	tell(names, "one", "cab");
	tell(names, "two", "z");
	expect(names, "a", "a-of-one");
	expect(names, "c", "c-of-one");
	expect(names, "z", "z-of-two");
	expect(names, "d", NULL);
	expect(names, "", NULL);
	expect(NULL, "a", NULL);
	tell(names, "one", "e");
	expect(names, "a", NULL);
	expect(names, "e", "e-of-one");
	expect(names, "z", "z-of-two");
	names_replace(names, "one", NULL, 0);
	expect(names, "e", NULL);
}

TEST(sources_are_bounded)
{
	static const char *const sources[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
	_cleanup_(cleanup_names_close) struct names *names = names_open();

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		tell(names, sources[i], sources[i]);
	expect(names, "8", "8-of-8");
	expect(names, "9", NULL);
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
