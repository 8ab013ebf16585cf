/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"

/*
 * Parses an answer of Prometheus' /api/v1/query with a vector. Returns NULL with *answer, which the
 * caller deletes and in which all texts are printable and each of data/result has metric and value;
 * or the error.
 */
const char *fleet_parse(const char *text, cJSON **answer);
