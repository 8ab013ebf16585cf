/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include <stdarg.h>

void config_fault_add(
	struct config_fault_list *list, const struct config_place *place, const char *format, ...)
{
	struct config_fault *fault;
	va_list args;

	if (grow_array(&list->faults, list->n, &list->allocated, sizeof(*list->faults)) < 0)
		return;
	fault = &list->faults[list->n++];
	copy_text(fault->file, sizeof(fault->file), place->file);
	fault->line = place->line;
	fault->column = place->column;
	va_start(args, format);
	vsnprintf(fault->message, sizeof(fault->message), format, args);
	va_end(args);
}

void config_faults_clear(struct config_fault_list *list)
{
	free(list->faults);
	*list = (struct config_fault_list){0};
}
