/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/grpc_response.h"

#include "base/text.h"
#include "base/utf8.h"
#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdarg.h>
#include <stdio.h>

void grpc_response_init(struct grpc_response *response, struct arena *arena, size_t max)
{
	*response = (struct grpc_response){.status = -1, .arena = arena, .max = max};
}

/* One line of printable text: it goes into logs and conditions. */
static void make_printable(char text[static GRPC_ERROR_MAX])
{
	char copy[GRPC_ERROR_MAX];

	hide_secrets(text);
	for (char *p = text; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = ' ';
	copy_text(copy, sizeof(copy), text);
	utf8_copy(text, GRPC_ERROR_MAX, copy);
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
	make_printable(response->text);
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
static void take_message(struct grpc_response *response, const char *value, size_t len)
{
	size_t used = 0;

	for (size_t i = 0; i < len && used < sizeof(response->text) - 1; i++) {
		int high = value[i] == '%' && len - i > 2 ? hex_value(value[i + 1]) : -1;
		int low = high >= 0 ? hex_value(value[i + 2]) : -1;
		char c = value[i];

		if (low >= 0) {
			c = (char)(high << 4 | low);
			i += 2;
		}
		response->text[used++] = c ? c : ' '; /* a zero byte would end the text */
	}
	response->text[used] = '\0';
	make_printable(response->text);
}

/* One or two digits; any other is a status that nobody knows. */
static int parse_status(const char *value, size_t len)
{
	int status = 0;

	if (len < 1 || len > 2)
		return GRPC_UNKNOWN;
	for (size_t i = 0; i < len; i++) {
		if (!isdigit((unsigned char)value[i]))
			return GRPC_UNKNOWN;
		status = 10 * status + value[i] - '0';
	}
	return status <= GRPC_UNAUTHENTICATED ? status : GRPC_UNKNOWN;
}

/* "application/grpc", also with "+proto" or a parameter; not "application/grpc-web". */
static bool is_grpc_type(const char *value, size_t len)
{
	static const char type[] = "application/grpc";
	size_t n = sizeof(type) - 1;

	return len >= n && memcmp(value, type, n) == 0 &&
	       (len == n || value[n] == '+' || value[n] == ';');
}

static bool is_named(const char *name, size_t len, const char *wanted)
{
	return len == strlen(wanted) && memcmp(name, wanted, len) == 0;
}

void grpc_response_header(struct grpc_response *response, const char *name, size_t name_len,
	const char *value, size_t len)
{
	response->headers += name_len + len;
	if (response->headers > GRPC_HEADERS_MAX)
		grpc_response_fail(response, -EFBIG, "the answer has too many headers");
	if (response->fault != 0)
		return;
	if (is_named(name, name_len, ":status")) {
		/* Three digits, as nghttp2 makes sure. */
		response->http_status = 0;
		for (size_t i = 0; i < MIN(len, (size_t)3); i++)
			response->http_status =
				10 * response->http_status + (unsigned)(value[i] - '0') % 10;
	} else if (is_named(name, name_len, "content-type")) {
		response->is_grpc = is_grpc_type(value, len);
	} else if (is_named(name, name_len, "grpc-status")) {
		response->status = parse_status(value, len);
	} else if (is_named(name, name_len, "grpc-message")) {
		take_message(response, value, len);
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
	static const char *const names[] = {
		[GRPC_OK] = "OK",
		[GRPC_CANCELLED] = "CANCELLED",
		[GRPC_UNKNOWN] = "UNKNOWN",
		[GRPC_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
		[GRPC_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
		[GRPC_NOT_FOUND] = "NOT_FOUND",
		[GRPC_ALREADY_EXISTS] = "ALREADY_EXISTS",
		[GRPC_PERMISSION_DENIED] = "PERMISSION_DENIED",
		[GRPC_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
		[GRPC_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
		[GRPC_ABORTED] = "ABORTED",
		[GRPC_OUT_OF_RANGE] = "OUT_OF_RANGE",
		[GRPC_UNIMPLEMENTED] = "UNIMPLEMENTED",
		[GRPC_INTERNAL] = "INTERNAL",
		[GRPC_UNAVAILABLE] = "UNAVAILABLE",
		[GRPC_DATA_LOSS] = "DATA_LOSS",
		[GRPC_UNAUTHENTICATED] = "UNAUTHENTICATED",
	};

	return (size_t)status < ARRAY_SIZE(names) ? names[status] : "UNKNOWN";
}
