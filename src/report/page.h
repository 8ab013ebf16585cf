/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

/* How the parts of the status page share it: one document that asks for nothing else. */

#include <stdbool.h>
#include <stdio.h>

#include "model/node.h"

extern const char page_style[];

/* Text within an element or a quoted attribute, escaped. NULL is empty. */
void page_text(FILE *out, const char *text);

/* 1234567 as "1 234 567", with thin spaces that do not break. */
void page_count(FILE *out, uint64_t n);

/* class is one of the style sheet's: ok, warning, critical, dim. */
void page_badge(FILE *out, const char *class, const char *text);

/* True when rows have to be left out from here on; and how many were. */
bool page_full(FILE *out);
void page_left_out(FILE *out, size_t n);

/* page_documents.c: what tuners tell beside limits and settings, as tables. */
void page_documents(FILE *out, const struct node *node);

#endif
