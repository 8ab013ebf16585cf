/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/reason.h>

#include "base/text.h"

#define ROW(name, text, who, meaning, ...) \
	[REASON_##name] = {.slug = text, .help = meaning, .act = ACT_##who, ##__VA_ARGS__},

const struct reason_row reason_rows[REASONS] = {
	[REASON_NONE] = {.slug = "", .help = "", .retry = true},
#include <headroom/reason_rows.h>
};

enum reason reason_parse(const char *slug)
{
	for (int i = 0; i < REASONS; i++)
		if (streq(reason_rows[i].slug, slug))
			return (enum reason)i;
	return REASON_NONE;
}

const char *reason_act_text(enum reason reason)
{
	/* [1]: with retry */
	static const char *const texts[][2] = {
		[ACT_AGENT] = {"the agent goes on by itself"},
		[ACT_ADMIN] = {"the administrator must act",
			"the administrator must act if retries fail"},
		[ACT_WRITER] = {"the other writer must act"},
		[ACT_WORKLOAD] = {"the owner of the workload must act"},
		[ACT_SERVER] = {"the operator of the server must act",
			"the operator of the server must act if retries fail"},
	};

	return texts[reason_rows[reason].act][reason_rows[reason].retry];
}
