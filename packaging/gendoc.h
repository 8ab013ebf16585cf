/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

/* The keys of headroom.yaml with their defaults, as comments. */
void put_sample(FILE *out);
