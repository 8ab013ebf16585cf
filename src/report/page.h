/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

/* The status page's style sheet, part of its document: the page asks for nothing else. */
extern const char page_style[];

#endif
