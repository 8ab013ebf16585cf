/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/grpc_response.h"

#include "base/text.h"
#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void grpc_response_init(struct grpc_response *response, struct arena *arena, size_t max)
{
	*response = (struct grpc_response){.status = -1, .arena = arena, .max = max};
}

int grpc_response_fail(struct grpc_response *response, int fault, const char *format, ...)
{
	va_list args;

	if (response->fault != 0)
		return response->fault;
	response->fault = fault;
	va_start(args, format);
	vsnprintf(response->text, sizeof(response->text), format, args);
	va_end(args);
	hide_secrets(response->text);
	text_make_printable(response->text);
	return fault;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* grpc-message is percent-encoded; what is encoded badly is taken as it is. */
static void take_message(struct grpc_response *response, const char *value)
{
	size_t used = 0;

	for (; *value && used < sizeof(response->text) - 1; value++) {
		int high = *value == '%' ? hex_value(value[1]) : -1;
		int low = high >= 0 ? hex_value(value[2]) : -1;
		char c = low >= 0 ? (char)(high << 4 | low) : *value;

		if (low >= 0)
			value += 2;
		/* A zero byte would end the text, and a line is one. */
		response->text[used++] = iscntrl((unsigned char)c) ? ' ' : c;
	}
	response->text[used] = '\0';
	hide_secrets(response->text);
	text_make_printable(response->text);
}

void grpc_response_header(struct grpc_response *response, const char *name, const char *value)
{
	static const char type[] = "application/grpc";
	uint64_t number;

	response->headers += strlen(name) + strlen(value);
	if (response->headers > GRPC_HEADERS_MAX)
		grpc_response_fail(response, -EFBIG, "the answer has too many headers");
	if (response->fault != 0)
		return;
	if (streq(name, ":status")) {
		response->http_status = (unsigned)atoi(value); /* three digits, says nghttp2 */
	} else if (streq(name, "content-type")) {
		/* Also with "+proto" or a parameter; not "application/grpc-web". */
		response->is_grpc =
			starts_with(value, type) && strchr("+;", value[sizeof(type) - 1]);
	} else if (streq(name, "grpc-status")) {
		if (parse_count(value, &number) < 0 || number > GRPC_UNAUTHENTICATED)
			number = GRPC_UNKNOWN;
		response->status = (int)number;
	} else if (streq(name, "grpc-message")) {
		take_message(response, value);
	}
}

void grpc_response_headers_end(struct grpc_response *response)
{
	/* 1xx: the answer's own headers are still to come. A grpc-status counts whatever else. */
	if (response->http_status < 200 || response->status >= 0)
		return;
	/* A proxy, or another server at this path. */
	if (response->http_status != 200)
		grpc_response_fail(response, -EPROTO, "HTTP status %u", response->http_status);
	else if (!response->is_grpc)
		grpc_response_fail(response, -EPROTO, "the answer is HTTP, and no gRPC");
}

static void take_size(struct grpc_response *response)
{
	const uint8_t *p = response->prefix;
	size_t size = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];

	if (p[0] != 0) {
		grpc_response_fail(response, -EBADMSG, "the answer is compressed without leave");
		return;
	}
	if (size > response->max) {
		grpc_response_fail(response, -EFBIG,
			"an answer of %zu bytes, at most %zu are taken", size, response->max);
		return;
	}
	response->data = arena_take(response->arena, MAX(size, (size_t)1));
	response->size = size;
	if (!response->data)
		grpc_response_fail(response, -ENOMEM, "no memory for an answer of %zu bytes", size);
}

void grpc_response_data(struct grpc_response *response, const uint8_t *data, size_t len)
{
	size_t n = MIN(len, GRPC_PREFIX_LEN - response->have_prefix);

	if (n > 0 && response->fault == 0) {
		memcpy(response->prefix + response->have_prefix, data, n);
		response->have_prefix += n;
		if (response->have_prefix == GRPC_PREFIX_LEN)
			take_size(response);
	}
	len -= n;
	if (response->fault != 0 || len == 0)
		return;
	if (len > response->size - response->have) {
		grpc_response_fail(response, -EBADMSG, "more than one message in the answer");
		return;
	}
	memcpy(response->data + response->have, data + n, len);
	response->have += len;
}

int grpc_response_result(struct grpc_response *response, uint32_t error)
{
	bool whole = response->have_prefix == GRPC_PREFIX_LEN && response->have == response->size;

	if (response->fault != 0)
		return response->fault;
	if (response->status > 0)
		return response->status;
	if (response->status < 0 && error != NGHTTP2_NO_ERROR)
		return grpc_response_fail(response, -ECONNRESET, "the call was reset: %s",
			nghttp2_http2_strerror(error));
	if (response->status < 0)
		return grpc_response_fail(response, -EBADMSG, "the answer has no status");
	if (!whole)
		return grpc_response_fail(response, -EBADMSG, "the answer has no whole message");
	return 0;
}

enum grpc_status grpc_status_of(int result)
{
	if (result >= 0)
		return (enum grpc_status)result;
	switch (result) {
	case -ETIMEDOUT:
		return GRPC_DEADLINE_EXCEEDED;
	case -ECANCELED:
		return GRPC_CANCELLED;
	case -EFBIG:
	case -ENOMEM:
		return GRPC_RESOURCE_EXHAUSTED;
	case -EBADMSG:
		return GRPC_INTERNAL;
	case -EINVAL:
		return GRPC_INVALID_ARGUMENT;
	default:
		return GRPC_UNAVAILABLE;
	}
}

const char *grpc_status_name(enum grpc_status status)
{
	static const char *const names[] = {"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT",
		"DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
		"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"};

	return (size_t)status < ARRAY_SIZE(names) ? names[status] : "UNKNOWN";
}
