/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "tuners/dns/dns.h"

#include "dns_packet.h"

#define HEADER_OF(flags, counts) "\x12\x34" flags counts
#define QUERY                    HEADER_OF("\x01\x00", "\0\1\0\0\0\0\0\0")
#define A_IN                     "\0\1\0\1"
#define AAAA_IN                  "\0\x1c\0\1"

#define KUBERNETES           \
	"\x0akubernetes\x07" \
	"default\x03svc"

/* Reads a message in all ways, which must agree. */
static __u64 read_bytes(const void *data, size_t size)
{
	struct packet packet = {.data = data, .size = size};
	__u64 fast = dns_read(&packet, 0, (__u32)size), slow;

	packet.in_pieces = true;
	slow = dns_read(&packet, 0, (__u32)size);
	assert_int_equal(fast, slow);
	assert_int_equal(fast, size < DNS_HEADER ? 0 : dns_read_by_words(&packet, 0, (__u32)size));
	return fast;
}

#define TEXT(text) text, sizeof(text) - 1
#define READ(text) read_bytes(TEXT(text))

TEST(a_query_is_read)
{
	__u64 read = READ(QUERY "\7example\3com\0" A_IN);

	assert_int_equal(read & 0xffff, 0x1234);
	assert_true(read & DNS_READ_HEADER);
	assert_false(read & (DNS_READ_ANSWER | DNS_READ_EDNS | DNS_READ_MALFORMED));
	assert_int_equal(dns_read_class(read), DNS_TYPE_A);
	assert_int_not_equal(dns_read_question(read), 0);
	/* A type whose low byte is that of A is another type. */
	assert_int_equal(dns_read_class(READ(QUERY "\1a\0\1\1\0\1")), DNS_TYPE_OTHER);
}

TEST(the_question_hash_ignores_case)
{
	__u32 question = dns_read_question(READ(QUERY "\7example\3com\0" A_IN));

	assert_int_equal(question, dns_read_question(READ(QUERY "\7eXAmple\3COM\0" A_IN)));
	assert_int_not_equal(question, dns_read_question(READ(QUERY "\7example\3com\0" AAAA_IN)));
	assert_int_not_equal(question, dns_read_question(READ(QUERY "\7example\3cox\0" A_IN)));
	assert_int_not_equal(question, dns_read_question(READ(QUERY "\3com\7example\0" A_IN)));
	/* Only letters have two cases, not their neighbours @ and `, [ and {. */
	assert_int_not_equal(dns_read_question(READ(QUERY "\1@\0" A_IN)),
		dns_read_question(READ(QUERY "\1`\0" A_IN)));
	assert_int_not_equal(dns_read_question(READ(QUERY "\1[\0" A_IN)),
		dns_read_question(READ(QUERY "\1{\0" A_IN)));
	assert_int_not_equal(dns_read_question(READ(QUERY "\1\xc1\0" A_IN)),
		dns_read_question(READ(QUERY "\1\xe1\0" A_IN)));
}

TEST(malformed_messages_are_recognised)
{
	char longest[DNS_HEADER + 256 + 4] = QUERY;
	size_t at = DNS_HEADER;

	assert_int_equal(READ(""), 0);
	assert_int_equal(READ("\x12\x34\1\0\0\1\0\0\0\0\0"), 0);
	assert_true(READ(QUERY) & DNS_READ_MALFORMED);
	assert_true(READ(QUERY "\7example\3com\0\0\1\0") & DNS_READ_MALFORMED);
	assert_true(READ(QUERY "\7example\3com") & DNS_READ_MALFORMED);
	assert_true(READ(QUERY "\xc0\x0c" A_IN) & DNS_READ_MALFORMED);
	assert_true(READ(QUERY "\1a\x40"
			       "b" A_IN) &
		    DNS_READ_MALFORMED);
	assert_true(READ(HEADER_OF("\1\0", "\0\2\0\0\0\0\0\0") "\1a\0" A_IN) & DNS_READ_MALFORMED);
	assert_int_equal(READ(HEADER_OF("\1\0", "\0\0\0\0\0\0\0\0")), 0x1234 | DNS_READ_HEADER);
	/* 255 bytes, and one more. */
	for (int i = 0; i < 127; i++, at += 2)
		memcpy(longest + at, "\1a", 2);
	memcpy(longest + at, "\0" A_IN, 5);
	assert_false(read_bytes(longest, at + 5) & DNS_READ_MALFORMED);
	longest[at - 2] = 2;
	memcpy(longest + at, "b\0" A_IN, 6);
	assert_true(read_bytes(longest, at + 6) & DNS_READ_MALFORMED);
}

TEST(the_longest_suffix_of_whole_labels_counts)
{
	static const struct {
		const char *name;
		enum dns_suffix_class class;
	} added[] = {
		{"cluster.local", DNS_SUFFIX_CLUSTER},
		{"corp.Example.COM.", DNS_SUFFIX_SEARCH},
		{"dev.corp.example.com", DNS_SUFFIX_CLUSTER},
		{"averyveryverylongdomain.x", DNS_SUFFIX_SEARCH},
		{"one.two.three.four.five.six", DNS_SUFFIX_SEARCH},
	};

	static const struct {
		const char *query;
		size_t size;
		unsigned class;
	} names[] = {
		{TEXT(QUERY KUBERNETES "\7cluster\5local\0" A_IN), 1},
		{TEXT(QUERY "\7CLUSTER\5locaL\0" A_IN), 1},
		{TEXT(QUERY "\x0anotcluster\5local\0" A_IN), 0},
		{TEXT(QUERY "\7cluster\5local\1x\0" A_IN), 0},
		{TEXT(QUERY "\5local\0" A_IN), 0},
		{TEXT(QUERY "\0" A_IN), 0},
		{TEXT(QUERY "\015cluster.local\0" A_IN), 0}, /* a single label */
		{TEXT(QUERY "\1a\4corp\7example\3com\0" A_IN), 2},
		{TEXT(QUERY "\3dev\4corp\7example\3com\0" A_IN), 1},
		{TEXT(QUERY "\1a\027averyveryverylongdomain\1x\0" A_IN), 2},
		{TEXT(QUERY "\3one\3two\5three\4four\4five\3six\0" A_IN), 2},
	};

	for (size_t i = 0; i < ARRAY_SIZE(added); i++)
		assert_true(dns_suffix_add(&suffixes, added[i].name, added[i].class));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(
			dns_read_suffix(read_bytes(names[i].query, names[i].size)), names[i].class);
}
