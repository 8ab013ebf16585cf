/* SPDX-License-Identifier: Apache-2.0 */

#include "report/incidents.h"

#include "directory.h"

#define HEADER(id, object)                                                                     \
	"{\"schema\":1,\"id\":\"" id "\",\"at\":\"2026-11-26T06:23:06Z\",\"object\":\"" object \
	"\",\"trigger\":\"hit\",\"text\":\"" object " reached its limit\"}\n"
#define ID   "20261126T062306Z-conntrack"
#define PATH "/" ID ".jsonl"

/* Names the incident NUMBER of an object; later ones have later times. */
static const char *id_of(char id[INCIDENT_ID_MAX], unsigned number, const char *object)
{
	snprintf(id, INCIDENT_ID_MAX, "20261126T%02u%02u%02uZ-%s", number / 3600, number / 60 % 60,
		number % 60, object);
	return id;
}

static bool exists(const struct directory *directory, const char *id)
{
	char name[INCIDENT_ID_MAX + 16];

	snprintf(name, sizeof(name), "/%s.jsonl", id);
	return access(directory_at(directory, name).text, F_OK) == 0;
}

/* The document of an incident. The caller deletes it. */
static cJSON *document_of(const struct directory *directory, const char *id)
{
	_cleanup_free_ char *text = NULL;
	cJSON *document;

	assert_int_equal(incident_read(directory->path, id, &text), 0);
	document = cJSON_Parse(text);
	if (!document)
		fail_msg("not JSON: %s", text);
	return document;
}

DIRECTORY_TEST(an_incident_is_listed_while_it_is_written_and_after)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = NULL, *later = NULL;

	assert_int_equal(incident_begin(directory->path, ID, "conntrack", "conntrack",
				 HEADER(ID, "conntrack")),
		0);
	assert_int_equal(incident_append(directory->path, ID, "{\"t\":1,\"rows\":{}}\n"), 0);
	list = incidents_list(directory->path);
	assert_string_equal(json_text_at(list, "incidents/0/state"), "open");
	assert_int_equal(incident_end(directory->path, ID,
				 "{\"t\":70,\"end\":\"quiet\",\"text\":\"done\"}\n"),
		0);
	later = incidents_list(directory->path);
	assert_string_equal(json_text_at(later, "incidents/0/state"), "complete");
	assert_string_equal(json_text_at(later, "incidents/0/text"), "done");
	assert_int_equal((int)json_number_at(later, "incidents/0/seconds"), 70);
	assert_true(exists(directory, ID));
	assert_int_equal(incident_append(directory->path, ID, "{}\n"), -ENOENT);
}

DIRECTORY_TEST(a_torn_last_line_is_ignored)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL, *list = NULL;

	directory_put(
		directory, PATH, HEADER(ID, "conntrack") "{\"t\":1,\"rows\":{}}\n{\"t\":2,\"ro");
	document = document_of(directory, ID);
	assert_int_equal(cJSON_GetArraySize(json_at(document, "lines")), 1);
	assert_string_equal(json_text_at(document, "state"), "cut-short");
	list = incidents_list(directory->path);
	assert_int_equal((int)json_number_at(list, "incidents/0/seconds"), 1);
}

DIRECTORY_TEST(a_part_that_a_killed_agent_left_is_closed_as_cut_short)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *document = NULL;

	directory_put(directory, PATH ".part",
		HEADER(ID, "conntrack") "{\"t\":1,\"rows\":{}}\n{\"t\":2,\"ro");
	directory_put(directory, "/20261126T062307Z-pids.jsonl.part", "{\"schema\":1,\"id\":");
	incidents_close_left(directory->path);
	document = document_of(directory, ID);
	assert_string_equal(json_text_at(document, "state"), "cut-short");
	assert_int_equal(cJSON_GetArraySize(json_at(document, "lines")), 2);
	assert_string_equal(json_text_at(document, "lines/1/end"), "cut-short");
	assert_int_not_equal(access(directory_at(directory, PATH ".part").text, F_OK), 0);
	assert_int_not_equal(
		access(directory_at(directory, "/20261126T062307Z-pids.jsonl.part").text, F_OK), 0);
	assert_int_not_equal(
		access(directory_at(directory, "/20261126T062307Z-pids.jsonl").text, F_OK), 0);
}

DIRECTORY_TEST(twenty_a_day_of_each_are_recorded_and_the_rest_counted)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *list = NULL;
	char id[INCIDENT_ID_MAX];

	for (unsigned i = 0; i < INCIDENTS_A_DAY + 5; i++) {
		int r = incident_begin(
			directory->path, id_of(id, i, "pids"), "pids", "pids", "{}\n");

		assert_int_equal(r, i < INCIDENTS_A_DAY ? 0 : -EDQUOT);
		if (r == 0)
			assert_int_equal(incident_end(directory->path, id, "{}\n"), 0);
	}
	assert_int_equal(incident_begin(directory->path, ID, "conntrack", "conntrack", "{}\n"), 0);
	list = incidents_list(directory->path);
	assert_int_equal(cJSON_GetArraySize(json_at(list, "not_recorded")), 1);
	assert_string_equal(json_text_at(list, "not_recorded/0/object"), "pids");
	assert_int_equal((int)json_number_at(list, "not_recorded/0/count"), 5);
}

/* Records an incident of seconds and a cause. Returns whether it was. */
static bool record(const struct directory *directory, unsigned seconds, const char *object,
	const char *cause, size_t bytes)
{
	_cleanup_free_ char *text = malloc(bytes + 1);
	char id[INCIDENT_ID_MAX], header[256];

	assert_non_null(text);
	memset(text, 'x', bytes);
	strcpy(text + bytes - 1, "\n");
	id_of(id, seconds, object);
	for (char *slash; (slash = strchr(id, '/'));)
		*slash = '-';
	snprintf(header, sizeof(header), "{\"id\":\"%s\",\"cause\":\"%s\"}\n", id, cause);
	if (incident_begin(directory->path, id, object, cause, header) < 0)
		return false;
	assert_int_equal(incident_append(directory->path, id, text), 0);
	assert_int_equal(incident_end(directory->path, id, "{\"end\":\"quiet\"}\n"), 0);
	return true;
}

DIRECTORY_TEST(one_who_provokes_incidents_does_not_mute_those_of_others)
{
	char object[64], cause[32];
	unsigned n = 0, recorded = 0;

	/* Objects without end, of some limits. */
	for (unsigned i = 0; i < 200; i++) {
		snprintf(object, sizeof(object), "limit/%u@cgroup:%u", i % 5, i);
		recorded += record(directory, n++, object, "uid 1000", 2);
	}
	assert_int_equal(recorded, INCIDENTS_CAUSE);
	for (unsigned i = 0; i < 40; i++) {
		snprintf(object, sizeof(object), "pids@cgroup:%u", i);
		recorded += record(directory, n++, object, "uid 1001", 2);
	}
	assert_int_equal(recorded, INCIDENTS_CAUSE + INCIDENTS_A_DAY);
	assert_true(record(directory, n++, "limit/0@cgroup:1", "namespace shop", 2));
	assert_true(record(directory, n++, "limit/0@cgroup:1", "limit/0", 2));
	assert_true(record(directory, n++, "threads@cgroup:1", "uid 1001", 2));
	/* Beyond some hundreds of causes the others are one. */
	for (recorded = 0; recorded < 252; n++) {
		snprintf(cause, sizeof(cause), "uid %u", 2000 + recorded);
		recorded += record(directory, n, "pids", cause, 2);
	}
	for (unsigned i = 0; i < 100; i++, n++) {
		snprintf(cause, sizeof(cause), "uid %u", 9000 + i);
		recorded += record(directory, n, "pids", cause, 2);
	}
	assert_int_equal(recorded, 252 + INCIDENTS_A_DAY);
}

DIRECTORY_TEST(one_who_fills_16_mib_removes_no_incident_of_another)
{
	char id[INCIDENT_ID_MAX], object[32], cause[32];
	size_t files = 0;

	assert_true(record(directory, 0, "conntrack", "namespace shop", 100));
	assert_true(record(directory, 1, "often-1", "namespace shop", 100));
	for (unsigned i = 2; i <= 301; i++) {
		snprintf(object, sizeof(object), "often-%u", i);
		snprintf(cause, sizeof(cause), "uid %u", i % 6);
		assert_true(record(directory, i, object, cause, 100 * 1024));
	}
	assert_true(exists(directory, id_of(id, 0, "conntrack")));
	assert_true(exists(directory, id_of(id, 1, "often-1")));
	assert_false(exists(directory, id_of(id, 2, "often-2")));
	assert_true(exists(directory, id_of(id, 301, "often-301")));
	for (unsigned i = 2; i <= 301; i++) {
		snprintf(object, sizeof(object), "often-%u", i);
		files += exists(directory, id_of(id, i, object));
	}
	assert_true(files * 100 * 1024 < INCIDENTS_BYTES_MAX);
	assert_true(files * 100 * 1024 > INCIDENTS_BYTES_MAX * 9 / 10);
}

DIRECTORY_TEST(a_file_ends_at_one_mebibyte)
{
	_cleanup_free_ char *text = malloc(INCIDENT_BYTES_MAX);

	assert_non_null(text);
	memset(text, ' ', INCIDENT_BYTES_MAX);
	strcpy(text + INCIDENT_BYTES_MAX - 2, "\n");
	assert_int_equal(incident_begin(directory->path, ID, "conntrack", "conntrack",
				 HEADER(ID, "conntrack")),
		0);
	assert_int_equal(incident_append(directory->path, ID, text), -EFBIG);
	assert_int_equal(incident_end(directory->path, ID, "{\"t\":1,\"end\":\"longest\"}\n"), 0);
}

DIRECTORY_TEST(an_id_never_leaves_the_directory)
{
	_cleanup_free_ char *text = NULL;

	assert_int_equal(incident_read(directory->path, "../../etc/passwd", &text), -EINVAL);
	assert_int_equal(incident_read(directory->path, ".hidden", &text), -EINVAL);
	assert_int_equal(incident_read(directory->path, "20261126T062306Z-none", &text), -ENOENT);
}
