/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PACKAGING_GENDOC_H
#define PACKAGING_GENDOC_H

#include <stdio.h>

/* The keys of headroom.yaml with their defaults, as comments. */
void put_sample(FILE *out);

#endif
