/* SPDX-License-Identifier: Apache-2.0 */
#include "workload/findings.h"

void findings_clear(struct findings *findings, enum finding_kind kind)
{
	size_t kept = 0;

	for (size_t i = 0; findings && i < findings->n; i++)
		if (findings->list[i].kind != kind)
			findings->list[kept++] = findings->list[i];
	if (findings)
		findings->n = kept;
}

void findings_add(struct findings *findings, const struct finding *finding)
{
	if (findings && findings->n < FINDINGS_MAX)
		findings->list[findings->n++] = *finding;
}

const struct finding *findings_next(
	const struct findings *findings, enum finding_kind kind, const struct finding *after)
{
	size_t i = after ? (size_t)(after - findings->list) + 1 : 0;

	while (findings && i < findings->n && findings->list[i].kind != kind)
		i++;
	return findings && i < findings->n ? &findings->list[i] : NULL;
}
