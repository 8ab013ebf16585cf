/* SPDX-License-Identifier: Apache-2.0 */
#include "report/incidents_internal.h"

#include "base/text.h"

#define NO_READING UINT64_MAX

#define USERS_EVERY_US     (30 * USEC_PER_SEC)
#define WORKLOADS_EVERY_US (5 * USEC_PER_SEC)

cJSON *incident_line(uint64_t at, uint64_t began)
{
	cJSON *line = cJSON_CreateObject();
	int64_t us = (int64_t)(at - began), half = (int64_t)USEC_PER_SEC / 2;

	json_number(line, "t", (double)((us + (us < 0 ? -half : half)) / (int64_t)USEC_PER_SEC));
	return line;
}

void incident_put(FILE *out, cJSON *line)
{
	json_make_printable(line);
	(void)json_put(out, line, false);
}

cJSON *incident_users(const struct limit_reading *limit, unsigned max)
{
	/* The users of a rate were the largest in its busiest second. */
	bool busiest = limit->flow && limit->n_busiest > 0;
	const struct limit_user *users = busiest ? limit->top + limit->n_top : limit->top;
	unsigned n = busiest ? limit->n_busiest : limit->n_top;
	cJSON *array = cJSON_CreateArray();

	for (unsigned i = 0; i < MIN(n, max); i++) {
		cJSON *user = cJSON_CreateArray();
		char text[WORKLOAD_TEXT_MAX], clean[WORKLOAD_TEXT_MAX];

		workload_describe(&users[i].workload, text, sizeof(text));
		utf8_copy(clean, sizeof(clean), text);
		json_append_text(user, clean);
		cJSON_AddItemToArray(user, cJSON_CreateNumber((double)users[i].used));
		utf8_copy(clean, sizeof(clean), users[i].detail);
		if (clean[0])
			json_append_text(user, clean);
		cJSON_AddItemToArray(array, user);
	}
	return array;
}

struct ring_row *ring_row_of(const struct ring *ring, const char *name)
{
	for (size_t i = 0; i < ring->n_rows; i++)
		if (streq(ring->rows[i]->name, name))
			return ring->rows[i];
	return NULL;
}

static void free_users(struct ring_row *row)
{
	free(steal(row->users[0]));
	free(steal(row->users[1]));
}

/* A new row, or that of a limit that was not seen for a minute. NULL: there are too many. */
static struct ring_row *row_for(struct ring *ring, const struct limit *limit, uint64_t now)
{
	struct ring_row *row = ring_row_of(ring, limit->now.name);

	if (row)
		return row;
	for (size_t i = 0; i < ring->n_rows && !row; i++)
		if (now - ring->rows[i]->seen_us > RING_SECONDS * USEC_PER_SEC)
			row = ring->rows[i];
	if (!row && ring->n_rows < ROWS_MAX)
		row = ring->rows[ring->n_rows++] = must(calloc(1, sizeof(*row)));
	if (!row)
		return NULL;
	free_users(row);
	*row = (struct ring_row){.hits_seen = limit->hits_before};
	memset(row->used, 0xff, sizeof(row->used));
	set_text(row->name, limit->now.name);
	return row;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Notes the workloads that were not there before. */
static void add_workloads(struct ring *ring, const struct names *names, uint64_t now)
{
	uint64_t *hashes = must(calloc(names->n + 1, sizeof(*hashes)));
	size_t n = 0;

	for (size_t i = 0; i < names->n; i++) {
		char text[WORKLOAD_TEXT_MAX];
		uint64_t hash;
		bool noted = false;

		workload_describe(&names->entries[i].workload, text, sizeof(text));
		hash = hash_text(HASH_START, text); /* a collision hides one start */
		for (unsigned k = 0; k < MIN(ring->n_notes, (unsigned)NOTES_MAX); k++)
			noted = noted ||
				(ring->notes[k].at_us == now && streq(ring->notes[k].text, text));
		if (!noted && ring->n_workloads > 0 &&
			!bsearch(&hash, ring->workloads, ring->n_workloads, sizeof(hash),
				by_number)) {
			struct ring_note *note = &ring->notes[ring->n_notes++ % NOTES_MAX];

			note->at_us = now;
			set_text(note->text, text);
		}
		hashes[n++] = hash;
	}
	if (n > 0)
		qsort(hashes, n, sizeof(*hashes), by_number);
	free(ring->workloads);
	ring->workloads = hashes;
	ring->n_workloads = n;
	ring->workloads_us = now;
}

void ring_add(struct ring *ring, const struct node *node, const struct names *names, uint64_t now)
{
	bool users_due = now - ring->users_us >= USERS_EVERY_US;

	ring->now = (ring->now + 1) % RING_SECONDS;
	ring->at_us[ring->now] = now;
	for (size_t i = 0; i < ring->n_rows; i++)
		ring->rows[i]->used[ring->now] = NO_READING;
	for (size_t i = 0; i < node->n_limits; i++) {
		const struct limit_reading *limit = &node->limits[i].now;
		struct ring_row *row = row_for(ring, &node->limits[i], now);
		cJSON *users;

		if (!row)
			continue;
		row->unit = limit->unit;
		row->used[ring->now] = MAX(limit->used, limit->peak);
		row->max[ring->now] = limit->max;
		row->hits[ring->now] = limit->hits;
		row->seen_us = now;
		if (!users_due)
			continue;
		users = limit->n_top > 0 ? incident_users(limit, USERS_KEPT) : NULL;
		free(row->users[1]);
		row->users[1] = row->users[0];
		row->users[0] = users ? cJSON_PrintUnformatted(users) : NULL;
		cJSON_Delete(users);
	}
	if (users_due)
		ring->users_us = now;
	if (names && names->n > 0 && now - ring->workloads_us >= WORKLOADS_EVERY_US)
		add_workloads(ring, names, now);
}

void ring_clear(struct ring *ring)
{
	for (size_t i = 0; i < ring->n_rows; i++) {
		free_users(ring->rows[i]);
		free(ring->rows[i]);
	}
	free(ring->workloads);
}

/* Adds the rows that differ from the tick before; all: every row. */
static void put_rows(FILE *out, const struct ring *ring, unsigned at, uint64_t began, bool all)
{
	unsigned before = (at + RING_SECONDS - 1) % RING_SECONDS;
	cJSON *line = incident_line(ring->at_us[at], began), *rows = json_object(line, "rows");

	for (size_t i = 0; i < ring->n_rows; i++) {
		const struct ring_row *row = ring->rows[i];
		bool whole = all || row->used[before] == NO_READING ||
			     row->max[at] != row->max[before] || row->hits[at] != row->hits[before];
		const double numbers[] = {
			(double)row->used[at], (double)row->max[at], (double)row->hits[at]};

		if (row->used[at] != NO_READING && (whole || row->used[at] != row->used[before]))
			json_adopt(
				rows, row->name, cJSON_CreateDoubleArray(numbers, whole ? 3 : 1));
	}
	incident_put(out, line);
}

static void put_notes(FILE *out, const struct ring *ring, uint64_t since, uint64_t began)
{
	unsigned n = MIN(ring->n_notes, (unsigned)NOTES_MAX);

	for (unsigned i = ring->n_notes - n; i < ring->n_notes; i++) {
		const struct ring_note *note = &ring->notes[i % NOTES_MAX];
		cJSON *line;

		if (note->at_us < since)
			continue;
		line = incident_line(note->at_us, began);
		json_text(line, "started", note->text);
		incident_put(out, line);
	}
}

void ring_put_minute(FILE *out, const struct ring *ring, uint64_t began)
{
	bool first = true;

	for (unsigned i = 1; i <= RING_SECONDS; i++) {
		unsigned at = (ring->now + i) % RING_SECONDS;

		if (ring->at_us[at] == 0 ||
			ring->at_us[at] + (RING_SECONDS + 5) * USEC_PER_SEC < began)
			continue;
		put_rows(out, ring, at, began, first);
		first = false;
	}
	put_notes(out, ring, began - MIN(began, RING_SECONDS * USEC_PER_SEC), began);
}

void ring_put_second(FILE *out, const struct ring *ring, uint64_t began)
{
	put_rows(out, ring, ring->now, began, false);
	put_notes(out, ring, ring->at_us[ring->now], began);
}
