/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APPLY_FILES_JSON_H
#define APPLY_FILES_JSON_H

#include "apply/files.h"

#include <cjson/cJSON.h>

/* A note as an object of the journal. NULL without memory. */
cJSON *file_note_print(const struct file_note *note);

/* 0, -EBADMSG for another form, -ENOMEM. note, zeroed before, is cleared by its owner in any case.
 */
int file_note_parse(const cJSON *object, struct file_note *note);

/* "toml", "json", "own"; format is written on success only. */
const char *edit_format_name(enum edit_format format);
bool edit_format_by_name(const char *name, enum edit_format *format);

#endif
