/* SPDX-License-Identifier: Apache-2.0 */
#include "base/toml_scan.h"

#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>

static bool is_text(const char *text, size_t len, const char *wanted)
{
	return len == strlen(wanted) && memcmp(text, wanted, len) == 0;
}

static int digit_value(char c)
{
	if (isdigit((unsigned char)c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

static bool has_sign(const char *text, size_t len)
{
	return len > 0 && (text[0] == '+' || text[0] == '-');
}

/* Digits of a base; underscores only between two of them. */
static int read_digits(const char *text, size_t len, int base, unsigned long long *value)
{
	unsigned long long sum = 0;

	for (size_t i = 0; i < len; i++) {
		if (text[i] == '_' && i > 0 && i + 1 < len && text[i - 1] != '_')
			continue;
		if (digit_value(text[i]) >= base)
			return -EINVAL;
		if (__builtin_mul_overflow(sum, (unsigned long long)base, &sum) ||
			__builtin_add_overflow(sum, (unsigned long long)digit_value(text[i]), &sum))
			return -EINVAL;
	}
	*value = sum;
	return len > 0 ? 0 : -EINVAL;
}

static int base_of(const char *text, size_t len)
{
	if (len < 3 || text[0] != '0')
		return 10;
	switch (text[1]) {
	case 'x':
		return 16;
	case 'o':
		return 8;
	case 'b':
		return 2;
	default:
		return 10;
	}
}

int toml_integer_read(const char *text, size_t len, long long *value)
{
	size_t sign = has_sign(text, len) ? 1 : 0;
	bool negative = sign && text[0] == '-';
	int base = sign ? 10 : base_of(text, len);
	size_t skip = sign + (base == 10 ? 0 : 2);
	unsigned long long sum;
	int r = read_digits(text + skip, len - skip, base, &sum);

	if (r < 0)
		return r;
	if (base == 10 && text[sign] == '0' && len > sign + 1)
		return -EINVAL; /* leading zeros are not TOML */
	if (sum > (unsigned long long)LLONG_MAX + (negative ? 1 : 0))
		return -EINVAL;
	*value = negative ? (long long)(0 - sum) : (long long)sum;
	return 0;
}

/* The length of digits with underscores between them, 0 for none. */
static size_t digits_at(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && (isdigit((unsigned char)text[n]) ||
				  (text[n] == '_' && n > 0 && text[n - 1] != '_' && n + 1 < len &&
					  isdigit((unsigned char)text[n + 1]))))
		n++;
	return n;
}

static bool is_float(const char *text, size_t len)
{
	size_t place = has_sign(text, len) ? 1 : 0;
	size_t whole;
	bool part = false;

	if (is_text(text + place, len - place, "inf") || is_text(text + place, len - place, "nan"))
		return true;
	whole = digits_at(text + place, len - place);
	if (whole == 0 || (whole > 1 && text[place] == '0'))
		return false;
	place += whole;
	if (place < len && text[place] == '.') {
		size_t n = digits_at(text + place + 1, len - place - 1);

		if (n == 0)
			return false;
		place += n + 1;
		part = true;
	}
	if (place < len && (text[place] | 0x20) == 'e') {
		size_t sign = has_sign(text + place + 1, len - place - 1) ? 1 : 0;
		size_t n = digits_at(text + place + 1 + sign, len - place - 1 - sign);

		if (n == 0)
			return false;
		place += n + 1 + sign;
		part = true;
	}
	return part && place == len;
}

/* The length of form, in which 'd' stands for a digit, or 0 when text does not begin so. */
static size_t form_at(const char *text, size_t len, const char *form)
{
	size_t n = strlen(form);

	if (len < n)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (form[i] == 'd' ? !isdigit((unsigned char)text[i]) : text[i] != form[i])
			return 0;
	return n;
}

static size_t time_at(const char *text, size_t len)
{
	size_t n = form_at(text, len, "dd:dd:dd");

	if (n > 0 && n + 1 < len && text[n] == '.' && isdigit((unsigned char)text[n + 1]))
		for (n++; n < len && isdigit((unsigned char)text[n]);)
			n++;
	return n;
}

static bool is_date(const char *text, size_t len)
{
	size_t date = form_at(text, len, "dddd-dd-dd"), place = date, n;

	if (date > 0 && date == len)
		return true;
	if (date > 0) {
		if (text[place] != 'T' && text[place] != 't' && text[place] != ' ')
			return false;
		place++;
	}
	n = time_at(text + place, len - place);
	if (n == 0)
		return false;
	place += n;
	if (date > 0 && place + 1 == len && (text[place] | 0x20) == 'z')
		return true;
	if (date > 0 && place < len && has_sign(text + place, 1))
		place += 1 + form_at(text + place + 1, len - place - 1, "dd:dd");
	return place == len;
}

int toml_scalar_type(const char *text, size_t len, enum toml_type *type)
{
	long long value;

	if (is_text(text, len, "true") || is_text(text, len, "false"))
		*type = TOML_BOOLEAN;
	else if (toml_integer_read(text, len, &value) == 0)
		*type = TOML_INTEGER;
	else if (is_float(text, len))
		*type = TOML_FLOAT;
	else if (is_date(text, len))
		*type = TOML_DATE;
	else
		return -EINVAL;
	return 0;
}
