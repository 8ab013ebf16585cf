/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page.h"

#include "base/utf8.h"
#include "base/util.h"

#include <inttypes.h>

/*
 * Rows are left out beyond this, so that no node makes a page of 200 kB: the largest row, of values
 * that all have to be escaped, is 5 kB.
 */
#define PAGE_ROWS_MAX (180 * 1000)

/* Text within an element or a quoted attribute. */
void page_text(FILE *out, const char *text)
{
	for (; text && *text; text += MAX(utf8_length(text), (size_t)1)) {
		size_t n = utf8_length(text);

		if (*text == '&')
			fputs("&amp;", out);
		else if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '>')
			fputs("&gt;", out);
		else if (*text == '"')
			fputs("&quot;", out);
		else if (*text == '\'')
			fputs("&#39;", out);
		else if (n > 0)
			fwrite(text, 1, n, out);
		else
			fputs(UTF8_REPLACEMENT, out);
	}
}

bool page_full(FILE *out)
{
	return ftello(out) > PAGE_ROWS_MAX;
}

void page_left_out(FILE *out, size_t n)
{
	if (n > 0)
		fprintf(out, "<p class=\"dim\">%zu more: see /v1/status.</p>\n", n);
}

/* 1234567 as "1 234 567", with thin spaces that do not break. */
void page_count(FILE *out, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n);

	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			fputs("\xe2\x80\xaf", out);
		fputc(digits[i], out);
	}
}

void page_badge(FILE *out, const char *class, const char *text)
{
	fprintf(out, "<span class=\"badge %s\">", class);
	page_text(out, text);
	fputs("</span>", out);
}
