/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUNERS_KUBELET_KUBELET_H
#define TUNERS_KUBELET_KUBELET_H

/* What the kubelet's configuration says of pulling and collecting images. */

#include "runtime/kubelet.h"

#include <headroom/tuner.h>

#define KUBELET_FEW_PULLS   3 /* below this many at once, pulls wait for each other */
#define KUBELET_ADVICES_MAX 3
#define KUBELET_SETTING     "kubelet.serializeImagePulls"

/* Its conditions. */
enum { KUBELET_SERIAL_PULLS };

struct kubelet_config {
	bool manage;
};

/* Pure. 0 or -ENOMEM. */
int kubelet_decide(const struct kubelet_seen *seen, const struct kubelet_config *config,
	struct proposal *proposal);

/* The advices that fit what was seen, each one sentence. Returns how many. */
size_t kubelet_advise(const struct kubelet_seen *seen,
	char advices[static KUBELET_ADVICES_MAX][CONDITION_MESSAGE_MAX]);

/* Why the setting cannot be written, and the cure; NULL when it can. */
const char *kubelet_unmanageable(const struct kubelet_seen *seen);

/* tables.c */
extern const struct explanation kubelet_explanations[];
extern const struct condition_type kubelet_conditions[];
extern const struct capability_row kubelet_capabilities[];

#endif
