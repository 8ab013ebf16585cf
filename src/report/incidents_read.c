/* SPDX-License-Identifier: Apache-2.0 */
#include "report/incidents.h"

#include "base/file.h"

/* More than any first or last line. */
#define LINE_MAX_BYTES (32 * 1024)

/* Parses the line at the begin or, if last, at the end of a file. A torn last line is ignored. */
static cJSON *read_line(int fd, off_t size, bool last)
{
	_cleanup_free_ char *text = must(malloc(LINE_MAX_BYTES + 1));
	off_t at = last && size > LINE_MAX_BYTES ? size - LINE_MAX_BYTES : 0;
	ssize_t n = pread(fd, text, LINE_MAX_BYTES, at);
	char *line = text, *end;

	if (n <= 0)
		return NULL;
	text[n] = '\0';
	end = last ? strrchr(text, '\n') : strchr(text, '\n');
	if (!end)
		return NULL;
	*end = '\0';
	if (last && strrchr(text, '\n'))
		line = strrchr(text, '\n') + 1;
	return cJSON_Parse(line);
}

static const char *state_of(const cJSON *last, bool part)
{
	const char *end = json_text_at(last, "end");

	return streq(end, "cut-short") ? end : end[0] ? "complete" : part ? "open" : "cut-short";
}

void incident_copy(cJSON *to, const cJSON *from, const char *const *keys)
{
	for (; *keys; keys++)
		json_text(to, *keys, json_text_at(from, *keys));
}

/* Returns NULL for a file that is not an incident. */
static cJSON *summary(const char *directory, const struct incident_file *file)
{
	_cleanup_close_ int fd = -1;
	_cleanup_(cleanup_cJSON_Delete) cJSON *first = NULL, *last = NULL;
	char path[PATH_MAX];
	const char *text;
	struct stat st;
	cJSON *row;

	incident_path(directory, file->id, file->part ? INCIDENT_PART : "", path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	first = read_line(fd, st.st_size, false);
	if (!streq(json_text_at(first, "id"), file->id))
		return NULL;
	last = read_line(fd, st.st_size, true);
	row = cJSON_CreateObject();
	incident_copy(row, first, (const char *const[]){"id", "at", "object", "trigger", NULL});
	text = json_text_at(last, "text");
	if (!json_at(last, "end") || streq(json_text_at(last, "end"), "cut-short") || !text[0])
		text = json_text_at(first, "text");
	json_text(row, "text", text);
	json_text(row, "state", state_of(last, file->part));
	json_number(row, "seconds", json_number_at(last, "t"));
	json_number(row, "bytes", (double)st.st_size);
	return row;
}

static void add_not_recorded(cJSON *root, const char *directory)
{
	_cleanup_(cleanup_cJSON_Delete) cJSON *counts =
		incident_read_small(directory, INCIDENT_COUNTS);
	cJSON *array = json_array(root, "not_recorded");
	const cJSON *day, *object;

	cJSON_ArrayForEach (day, counts)
		cJSON_ArrayForEach (object, day) {
			cJSON *row;

			if (json_number_at(object, "skipped") == 0)
				continue;
			row = json_append(array);
			json_text(row, "day", day->string);
			json_text(row, "object", object->string);
			json_number(row, "count", json_number_at(object, "skipped"));
			json_text(row, "why", json_text_at(object, "why"));
		}
}

cJSON *incidents_list(const char *directory)
{
	cJSON *root = cJSON_CreateObject(), *array = json_array(root, "incidents"), *row;
	size_t n;
	_cleanup_free_ struct incident_file *files = incident_files(directory, &n);
	double bytes = 0;

	while (n-- > 0) {
		row = summary(directory, &files[n]);
		bytes += json_number_at(row, "bytes");
		cJSON_AddItemToArray(array, row); /* NULL adds nothing */
	}
	add_not_recorded(root, directory);
	JSON_NUMBERS(root, {"bytes", bytes}, {"max_bytes", (double)INCIDENTS_BYTES_MAX});
	return root;
}

int incident_read(const char *directory, const char *id, char **document)
{
	static const char *const suffixes[] = {"", INCIDENT_PART};
	_cleanup_(cleanup_cJSON_Delete) cJSON *first = NULL, *last = NULL;
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX], *end, *tail;
	size_t len = 0, size;
	int r = -ENOENT, i;
	FILE *out;

	if (id[0] == '.' || strchr(id, '/') || strlen(id) >= INCIDENT_ID_MAX)
		return -EINVAL;
	for (i = 0; i < 2 && r == -ENOENT; i++) {
		incident_path(directory, id, suffixes[i], path);
		r = read_file(path, 2 * INCIDENT_BYTES_MAX, &text, &len);
	}
	if (r < 0)
		return r;
	while (len > 0 && text[len - 1] != '\n') /* torn */
		len--;
	text[len] = '\0';
	end = strchr(text, '\n');
	if (!end)
		return -EBADMSG;
	*end++ = '\0';
	first = cJSON_Parse(text);
	if (!first)
		return -EBADMSG;
	if (*end)
		text[len - 1] = '\0';
	tail = strrchr(end, '\n');
	last = cJSON_Parse(tail ? tail + 1 : end);
	out = must(open_memstream(document, &size));
	fprintf(out, "{\"incident\":%s,\"state\":\"%s\",\"lines\":[", text, state_of(last, i == 2));
	for (const char *line = end; *line; line++) {
		if (*line == '\n')
			fputc(',', out);
		fputc(*line, out);
	}
	fputs("]}\n", out);
	return fclose(out) == 0 ? 0 : -ENOMEM;
}
