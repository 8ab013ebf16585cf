/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/images/images.h"

void images_decide_pins(const struct images_tuner *tuner, const struct decide_input *input,
	struct proposal *proposal)
{
	(void)tuner, (void)input, (void)proposal;
}
