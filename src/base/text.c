/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <ctype.h>
#include <math.h>

#include <nettle/base16.h>
#include <nettle/sha2.h>

_Static_assert(HASH_TEXT_MAX == BASE16_ENCODE_LENGTH(SHA256_DIGEST_SIZE) + 1, "hash as text");

#define MINUTE 60
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

/* A longer forecast is useless. It fits in an int. */
#define DURATION_MAX (9999.0 * DAY)

void time_text(uint64_t realtime_us, char out[static TIME_TEXT_MAX])
{
	time_t seconds = (time_t)(realtime_us / USEC_PER_SEC);
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(out, TIME_TEXT_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

int time_parse(const char *text, uint64_t *realtime_us)
{
	struct tm tm = {0};
	char sign = '\0', rest = '\0';
	int hours = 0, minutes = 0;
	const char *zone = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	time_t seconds;

	if (!zone || strlen(text) < strlen("2024-05-01T12:00:00Z") || text[4] != '-')
		return -EINVAL;
	if (*zone == '.')
		zone += 1 + strspn(zone + 1, "0123456789");
	if (!streq(zone, "Z") &&
		(sscanf(zone, "%c%2d:%2d%c", &sign, &hours, &minutes, &rest) != 3 ||
			!strchr("+-", sign) || hours < 0 || minutes < 0))
		return -EINVAL;
	seconds = timegm(&tm) - (sign == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
	if (seconds <= 0)
		return -EINVAL;
	*realtime_us = (uint64_t)seconds * USEC_PER_SEC;
	return 0;
}

void duration_text(double seconds, char out[static TIME_TEXT_MAX])
{
	int s = (int)MIN(MAX(seconds, 0.0), DURATION_MAX);

	if (s < MINUTE)
		snprintf(out, TIME_TEXT_MAX, "%d s", s);
	else if (s < HOUR)
		snprintf(out, TIME_TEXT_MAX, "%d min", s / MINUTE);
	else if (s < DAY)
		snprintf(out, TIME_TEXT_MAX, "%d h %d min", s / HOUR, s % HOUR / MINUTE);
	else
		snprintf(out, TIME_TEXT_MAX, "%d d %d h", s / DAY, s % DAY / HOUR);
}

struct text_position text_position(const char *text, size_t at)
{
	struct text_position position = {.line = 1, .column = at + 1};

	for (size_t i = 0; i < at; i++)
		if (text[i] == '\n') {
			position.line++;
			position.column = at - i;
		}
	return position;
}

void latency_text(double seconds, char out[static TIME_TEXT_MAX])
{
	/* A number that was written as JSON may differ in its last bit, and a half is then rounded
	 * the other way. */
	seconds = round(seconds * 1e9) / 1e9;
	if (seconds < 0.001)
		snprintf(out, TIME_TEXT_MAX, "%.0f µs", seconds * 1e6);
	else if (seconds < 1)
		snprintf(out, TIME_TEXT_MAX, "%.0f ms", seconds * 1e3);
	else
		snprintf(out, TIME_TEXT_MAX, "%.1f s", seconds);
}

uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash;
}

static double prefix_factor(const char *unit)
{
	return streq(unit, "bytes") ? 1000 : streq(unit, "memory") ? 1024 : 0;
}

bool unit_is_scaled(const char *unit)
{
	return prefix_factor(unit) > 0;
}

const char *amount_text(double value, const char *unit, char out[static AMOUNT_MAX])
{
	static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
	double factor = prefix_factor(unit);
	size_t i = 0;

	/* 999,950 is 1.0 MB, not 1000.0 kB. */
	for (; factor > 0 && value >= (i ? factor - 0.05 : factor) && i + 1 < ARRAY_SIZE(prefixes);
		i++)
		value /= factor;
	if (factor > 0 && i > 0)
		snprintf(out, AMOUNT_MAX, "%.1f %s%sB", value,
			factor > 1000 && i == 1 ? "K" : prefixes[i], factor > 1000 ? "i" : "");
	else
		snprintf(out, AMOUNT_MAX, "%.0f%s%.48s", value, unit[0] ? " " : "",
			factor > 0 ? "bytes" : unit);
	return out;
}

const char *bare_amount_text(double value, const char *unit, char out[static AMOUNT_MAX])
{
	return amount_text(value, unit_is_scaled(unit) ? unit : "", out);
}

const char *use_text(double used, double max, const char *unit, char out[static USE_MAX])
{
	char a[AMOUNT_MAX], b[AMOUNT_MAX] = "unknown";

	amount_text(used, max > 0 && prefix_factor(unit) == 0 ? "" : unit, a);
	if (max > 0)
		amount_text(max, unit, b);
	snprintf(out, USE_MAX, "%s of %s", a, b);
	return out;
}

const char *share_text(double share, char out[static SHARE_MAX])
{
	if (share > 0 && share < 0.01)
		snprintf(out, SHARE_MAX, "<1 %%");
	else
		snprintf(out, SHARE_MAX, "%.0f %%",
			MIN(100 * share, 99999.0) - (share > 0.99 && share < 1 ? 0.5 : 0));
	return out;
}

size_t text_mark(const char *text, size_t len)
{
	return len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* Returns the length in bytes (1 to 4) of the character at text, or 0 if it is invalid. */
static size_t utf8_decode(const char *text, uint32_t *code)
{
	static const uint32_t least[] = {0, 0x80, 0x800, 0x10000}; /* below: an overlong form */
	const unsigned char *p = (const unsigned char *)text;
	size_t more = p[0] < 0x80 ? 0 : p[0] < 0xe0 ? 1 : p[0] < 0xf0 ? 2 : 3;
	uint32_t c = more ? p[0] & (0x3fU >> more) : p[0];

	for (size_t i = 1; i <= more; i++) {
		if ((p[i] & 0xc0) != 0x80) /* or the terminator: do not read beyond it */
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if ((p[0] >= 0x80 && p[0] < 0xc0) || p[0] >= 0xf8 || c < least[more] || c > 0x10ffff ||
		(c >= 0xd800 && c <= 0xdfff))
		return 0;
	*code = c;
	return more + 1;
}

/* Returns false for C0, DEL, C1, line and paragraph separators, and bidirectional controls. */
static bool is_printable(uint32_t c)
{
	return c >= 0x20 && !(c >= 0x7f && c < 0xa0) && c != 0x61c && c != 0x200e && c != 0x200f &&
	       !(c >= 0x2028 && c <= 0x202e) && !(c >= 0x2066 && c <= 0x2069);
}

const char *utf8_next(const char **text, size_t *len)
{
	const char *at = *text;
	uint32_t code;

	*len = utf8_decode(at, &code);
	*text += MAX(*len, (size_t)1);
	if (*len > 0 && (is_printable(code) || code == '\n' || code == '\t'))
		return at;
	at = *len > 0 ? "?" : UTF8_REPLACEMENT;
	*len = strlen(at);
	return at;
}

void utf8_copy(char *dst, size_t size, const char *src)
{
	size_t used = 0, len;

	while (*src) {
		const char *from = utf8_next(&src, &len);

		if (used + len >= size)
			break;
		memcpy(dst + used, from, len);
		used += len;
	}
	dst[used] = '\0';
}

void text_cut(char *text, size_t max)
{
	char *end = text + max - strlen("…"), *word;

	if (strlen(text) <= max)
		return;
	while (end > text && ((unsigned char)*end & 0xc0) == 0x80)
		end--;
	*end = '\0';
	word = strrchr(text, ' ');
	strcpy(word ? word : end, "…");
}

void text_make_printable(char *text)
{
	char *to = text;

	for (size_t len; *text; text += len) {
		uint32_t code = 0;

		len = MAX(utf8_decode(text, &code), (size_t)1);
		if (!is_printable(code))
			*to++ = '?';
		else
			to = (char *)memmove(to, text, len) + len;
	}
	*to = '\0';
}

bool text_has_word(const char *text, const char *word)
{
	for (size_t len; *text; text += len) {
		text += strspn(text, " \t\n,");
		len = strcspn(text, " \t\n,");
		if (len == strlen(word) && starts_with(text, word))
			return true;
	}
	return false;
}

bool text_is_printable(const char *text)
{
	_cleanup_free_ char *printable = must(strdup(text));

	text_make_printable(printable);
	return streq(printable, text);
}

/* Returns the last @ of a text, unless a digest of an image follows it; NULL: there is none. */
static char *last_at(const char *text, size_t len)
{
	char *at = memrchr(text, '@', len);

	return at && !starts_with(at, "@sha") ? at : NULL;
}

/*
 * Removes "USER:PASSWORD@" from a text that is one address. Without a scheme, or with blanks and
 * quotes in the password, hide_secrets() would not find it.
 */
static void hide_login(char *text)
{
	char *scheme = strstr(text, ":/"), *begin = text, *at;

	if (scheme)
		begin = scheme + 1 + strspn(scheme + 1, "/");
	at = last_at(begin, strlen(begin));
	if (at && memchr(begin, ':', (size_t)(at - begin)))
		memmove(begin, at + 1, strlen(at + 1) + 1);
}

const char *text_quote(char quoted[static TEXT_QUOTE_MAX], const char *text)
{
	_cleanup_free_ char *whole = must(strdup(text));
	char shown[TEXT_QUOTE_MAX - sizeof("\"...\"")];

	/* Before it is cut: half a URL does not show where a password ends. */
	hide_login(whole);
	hide_secrets(whole);
	utf8_copy(shown, sizeof(shown), whole);
	text_make_printable(shown);
	snprintf(quoted, TEXT_QUOTE_MAX, "\"%s%s\"", shown,
		strlen(whole) >= sizeof(shown) ? "..." : "");
	return quoted;
}

#define SHELL_WORD_BYTES 512 /* four for each, two quotes */

const char *shell_word(char word[static SHELL_WORD_MAX], const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_@%+=:,./-";
	size_t len = strlen(text);

	if (len > 0 && len < SHELL_WORD_BYTES && strspn(text, plain) == len)
		return strcpy(word, text);
	strcpy(word, "'");
	for (; len < SHELL_WORD_BYTES && *text; text++)
		text_append(word, SHELL_WORD_MAX, "%.*s", *text == '\'' ? 4 : 1,
			*text == '\'' ? "'\\''" : text);
	text_append(word, SHELL_WORD_MAX, "'");
	return word;
}

void text_append(char *buffer, size_t size, const char *format, ...)
{
	size_t used = strlen(buffer);
	va_list args;

	va_start(args, format);
	vsnprintf(buffer + used, size - used, format, args);
	va_end(args);
}

void text_fold_blanks(char *text)
{
	char *out = text;

	for (const char *in = text; *in; in++) {
		if (!isspace((unsigned char)*in))
			*out++ = *in;
		else if (out > text && out[-1] != ' ')
			*out++ = ' ';
	}
	if (out > text && out[-1] == ' ')
		out--;
	*out = '\0';
}

void copy_public(char *out, size_t size, const char *text)
{
	_cleanup_free_ char *whole = must(strdup(text));

	hide_secrets(whole);
	copy_text(out, size, whole);
}

/* Returns whether what follows the first colon is not a port: "bob:p" of "bob:p/ss@host". */
static bool has_password(const char *authority, size_t len)
{
	const char *colon = memchr(authority, ':', len);

	if (!colon || authority[0] == '[')
		return false;
	len -= (size_t)(colon + 1 - authority);
	return strspn(colon + 1, "0123456789") < len || len > strlen("65535");
}

void hide_secrets(char *text)
{
	for (char *url = strstr(text, "://"); url; url = strstr(url, "://")) {
		size_t authority;
		char *end, *at, *query;

		url += strlen("://");
		end = url + strcspn(url, " \"'\\");
		authority = strcspn(url, "/?# \"'\\");
		at = memrchr(url, '@', authority);
		/* RFC 3986 forbids these characters in a password, and people type them. */
		if (!at && has_password(url, authority))
			at = last_at(url, (size_t)(end - url));
		if (at)
			memmove(url, at + 1, strlen(at + 1) + 1);
		end = url + strcspn(url, " \"'\\");
		query = url + strcspn(url, "?#");
		if (query < end)
			memmove(query, end, strlen(end) + 1);
	}
}

const char *text_after_path(const char *text, const char *path)
{
	size_t len = strlen(path);

	if (len == 0 || strncmp(text, path, len) != 0 || text[len] != ':')
		return text;
	return text + len + 1 + strspn(text + len + 1, " ");
}

void hash_finish(struct sha256_ctx *hash, char out[static HASH_TEXT_MAX])
{
	uint8_t digest[SHA256_DIGEST_SIZE];

	sha256_digest(hash, sizeof(digest), digest);
	base16_encode_update(out, sizeof(digest), digest);
	out[HASH_TEXT_MAX - 1] = '\0';
}

void hash_bytes(const void *data, size_t len, char out[static HASH_TEXT_MAX])
{
	struct sha256_ctx hash;

	sha256_init(&hash);
	sha256_update(&hash, len, data);
	hash_finish(&hash, out);
}
