/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/grpc_reply.h"

#include "base/text.h"
#include "base/utf8.h"
#include "base/util.h"

#include <ctype.h>
#include <nghttp2/nghttp2.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

/* Larger messages are mapped: their memory goes back to the kernel, whatever lies behind it. */
#define HEAP_MAX ((size_t)64 * 1024)

void grpc_reply_init(struct grpc_reply *reply, size_t limit, size_t *budget)
{
	*reply = (struct grpc_reply){.status = -1, .limit = limit, .budget = budget};
}

void grpc_reply_clear(struct grpc_reply *reply)
{
	if (reply->data) {
		if (reply->size > HEAP_MAX)
			munmap(reply->data, reply->size);
		else
			free(reply->data);
		*reply->budget += reply->size;
	}
	reply->data = NULL;
	reply->size = reply->have = 0;
}

/* One line of printable text: it goes into logs and conditions. */
static void make_printable(char *text)
{
	char copy[GRPC_TEXT_MAX];

	hide_secrets(text);
	for (char *p = text; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = ' ';
	copy_text(copy, sizeof(copy), text);
	utf8_copy(text, GRPC_TEXT_MAX, copy);
}

void grpc_reply_fail(struct grpc_reply *reply, enum grpc_status fault, const char *format, ...)
{
	va_list args;

	if (reply->fault != GRPC_OK)
		return;
	reply->fault = fault;
	va_start(args, format);
	vsnprintf(reply->text, sizeof(reply->text), format, args);
	va_end(args);
	make_printable(reply->text);
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* grpc-message is percent-encoded; what is encoded badly is taken as it is. */
static void take_text(struct grpc_reply *reply, const char *value, size_t len)
{
	size_t used = 0;

	for (size_t i = 0; i < len && used < sizeof(reply->text) - 1; i++) {
		int high = value[i] == '%' && len - i > 2 ? hex_value(value[i + 1]) : -1;
		int low = high >= 0 ? hex_value(value[i + 2]) : -1;

		reply->text[used] = value[i];
		if (low >= 0) {
			reply->text[used] = (char)(high << 4 | low);
			i += 2;
		}
		/* A zero byte would end the text. */
		if (reply->text[used] == '\0')
			reply->text[used] = ' ';
		used++;
	}
	reply->text[used] = '\0';
	make_printable(reply->text);
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

/* Three digits, as nghttp2 makes sure. */
static unsigned parse_http_status(const char *value, size_t len)
{
	unsigned status = 0;

	for (size_t i = 0; i < MIN(len, (size_t)3); i++)
		status = 10 * status + (unsigned)(value[i] - '0') % 10;
	return status;
}

static bool is_named(const char *name, size_t len, const char *wanted)
{
	return len == strlen(wanted) && memcmp(name, wanted, len) == 0;
}

/* "application/grpc", also with "+proto" or a parameter; not "application/grpc-web". */
static bool is_grpc_type(const char *value, size_t len)
{
	static const char type[] = "application/grpc";
	size_t n = sizeof(type) - 1;

	return len >= n && memcmp(value, type, n) == 0 &&
	       (len == n || value[n] == '+' || value[n] == ';');
}

bool grpc_reply_header(
	struct grpc_reply *reply, const char *name, size_t name_len, const char *value, size_t len)
{
	reply->headers += name_len + len;
	if (reply->headers > GRPC_HEADERS_MAX)
		grpc_reply_fail(reply, GRPC_INTERNAL, "the answer has too many headers");
	if (reply->fault != GRPC_OK)
		return false;
	if (is_named(name, name_len, ":status"))
		reply->http_status = parse_http_status(value, len);
	else if (is_named(name, name_len, "content-type"))
		reply->is_grpc = is_grpc_type(value, len);
	else if (is_named(name, name_len, "grpc-status"))
		reply->status = parse_status(value, len);
	else if (is_named(name, name_len, "grpc-message"))
		take_text(reply, value, len);
	return true;
}

/* For what is no gRPC: a proxy, or another server at this path. */
static enum grpc_status from_http(unsigned status)
{
	switch (status) {
	case 400:
		return GRPC_INTERNAL;
	case 401:
		return GRPC_UNAUTHENTICATED;
	case 403:
		return GRPC_PERMISSION_DENIED;
	case 404:
		return GRPC_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return GRPC_UNAVAILABLE;
	default:
		return GRPC_UNKNOWN;
	}
}

bool grpc_reply_headers_end(struct grpc_reply *reply)
{
	/* 1xx: the answer's own headers are still to come. A grpc-status counts whatever else. */
	if (reply->http_status < 200 || reply->status >= 0)
		return reply->fault == GRPC_OK;
	if (reply->http_status != 200)
		grpc_reply_fail(
			reply, from_http(reply->http_status), "HTTP status %u", reply->http_status);
	else if (!reply->is_grpc)
		grpc_reply_fail(reply, GRPC_UNKNOWN, "the answer is HTTP, and no gRPC");
	return reply->fault == GRPC_OK;
}

static void take_size(struct grpc_reply *reply)
{
	const uint8_t *p = reply->prefix;
	size_t size = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];

	if (p[0] != 0) {
		grpc_reply_fail(reply, GRPC_INTERNAL, "the answer is compressed without leave");
	} else if (size > reply->limit) {
		grpc_reply_fail(reply, GRPC_RESOURCE_EXHAUSTED,
			"an answer of %zu bytes, at most %zu are taken", size, reply->limit);
	} else if (size > *reply->budget) {
		grpc_reply_fail(reply, GRPC_RESOURCE_EXHAUSTED,
			"an answer of %zu bytes beside too many others", size);
	} else if (size > HEAP_MAX) {
		void *room = mmap(
			NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		reply->data = room == MAP_FAILED ? NULL : room;
	} else {
		reply->data = malloc(MAX(size, (size_t)1));
	}
	if (!reply->data) {
		grpc_reply_fail(reply, GRPC_RESOURCE_EXHAUSTED, "no memory for the answer");
		return;
	}
	reply->size = size;
	*reply->budget -= size;
}

bool grpc_reply_data(struct grpc_reply *reply, const uint8_t *data, size_t len)
{
	size_t n = MIN(len, GRPC_PREFIX_LEN - reply->have_prefix);

	if (reply->fault != GRPC_OK)
		return false;
	if (n > 0) {
		memcpy(reply->prefix + reply->have_prefix, data, n);
		reply->have_prefix += n;
		if (reply->have_prefix == GRPC_PREFIX_LEN)
			take_size(reply);
		if (reply->fault != GRPC_OK)
			return false;
	}
	len -= n;
	if (len > reply->size - reply->have) {
		grpc_reply_fail(reply, GRPC_INTERNAL, "more than one message in the answer");
		return false;
	}
	if (len > 0)
		memcpy(reply->data + reply->have, data + n, len);
	reply->have += len;
	return true;
}

/* PROTOCOL-HTTP2.md, "HTTP2 Transport Mapping": a stream that ends without a grpc-status. */
static enum grpc_status from_stream_error(uint32_t error)
{
	switch (error) {
	case NGHTTP2_REFUSED_STREAM:
		return GRPC_UNAVAILABLE;
	case NGHTTP2_CANCEL:
		return GRPC_CANCELLED;
	case NGHTTP2_ENHANCE_YOUR_CALM:
		return GRPC_RESOURCE_EXHAUSTED;
	case NGHTTP2_INADEQUATE_SECURITY:
		return GRPC_PERMISSION_DENIED;
	default:
		return GRPC_INTERNAL;
	}
}

static void judge(struct grpc_reply *reply, uint32_t error)
{
	bool whole = reply->have_prefix == GRPC_PREFIX_LEN && reply->have == reply->size;

	if (reply->fault != GRPC_OK || reply->status > 0)
		return;
	if (reply->status < 0 && error != NGHTTP2_NO_ERROR)
		grpc_reply_fail(reply, from_stream_error(error), "the call was reset: %s",
			nghttp2_http2_strerror(error));
	else if (reply->status < 0)
		grpc_reply_fail(reply, GRPC_UNKNOWN, "the answer has no status");
	else if (!whole)
		grpc_reply_fail(reply, GRPC_INTERNAL, "the answer has no whole message");
}

void grpc_reply_result(struct grpc_reply *reply, uint32_t error, struct grpc_result *result)
{
	judge(reply, error);
	result->local = reply->fault != GRPC_OK;
	result->status = result->local ? reply->fault : (enum grpc_status)reply->status;
	result->message = reply->text;
	result->data = result->status == GRPC_OK ? reply->data : NULL;
	result->size = result->status == GRPC_OK ? reply->size : 0;
}
