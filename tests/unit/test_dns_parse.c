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

#define MESSAGES 200

/* A stream of messages, whose ids are their numbers, and its reader. */
struct stream {
	uint8_t data[MESSAGES * 80];
	size_t size;
	unsigned seen[MESSAGES], lost;
	struct dns_way way;
};

static void fill(struct stream *stream)
{
	memset(stream, 0, sizeof(*stream));
	for (unsigned i = 0; i < MESSAGES; i++) {
		unsigned length = DNS_HEADER + (i * 7) % 60;
		uint8_t *at = stream->data + stream->size;

		memset(at + 2, (int)i, length);
		at[0] = 0;
		at[1] = (uint8_t)length;
		at[2] = (uint8_t)(i >> 8);
		at[3] = (uint8_t)i;
		at[6] = 0; /* one question */
		at[7] = 1;
		stream->size += 2 + length;
	}
}

static void read_part(
	struct stream *stream, const struct packet *packet, uint32_t at, uint32_t end, int side)
{
	while (at < end) {
		struct dns_frame frame = {0};
		uint32_t next = dns_side_frame(
			&stream->way.sides[side], dns_word(packet, at), at, end, &frame);

		assert_true(next > at);
		at = next;
		stream->lost += frame.lost != 0;
		if (!frame.whole)
			break;
		assert_true(frame.visible <= frame.length);
		if (frame.head >> 16 < MESSAGES)
			stream->seen[frame.head >> 16]++;
		else
			fail();
	}
}

static void read_segment(struct stream *stream, uint32_t first, size_t from, size_t size)
{
	struct packet packet = {.data = stream->data + from, .size = size};
	uint32_t seen = 0, end = (uint32_t)size;
	int32_t gap = dns_way_gap(&stream->way, first + (uint32_t)from, &seen);
	int64_t skip;

	stream->lost += gap < 0;
	if (gap > 0)
		read_part(stream, &packet, seen, MIN((uint32_t)gap, end), DNS_GAP);
	skip = dns_way_skip(&stream->way, first + (uint32_t)from);
	stream->lost += skip < 0;
	if (skip < (int64_t)size)
		read_part(stream, &packet, skip > 0 ? (uint32_t)skip : 0, end, DNS_NEXT);
}

static void check_all_once(const struct stream *stream)
{
	for (unsigned i = 0; i < MESSAGES; i++)
		assert_int_equal(stream->seen[i], 1);
	assert_int_equal(stream->lost, 0);
}

TEST(messages_of_a_stream_count_once)
{
	static struct stream stream;
	uint32_t first = UINT32_MAX - 3000; /* sequence numbers go round */

	for (size_t cut = 1; cut < 200; cut++) {
		fill(&stream);
		dns_way_open(&stream.way, first - 1);
		for (size_t from = 0; from < stream.size; from += cut) {
			size_t size = MIN(cut, stream.size - from);

			read_segment(&stream, first, from, size);
			/* Retransmissions, alone and with the bytes before them. */
			if (from % 3 == 0)
				read_segment(&stream, first, from, size);
			if (from % 5 == 0 && from >= 100)
				read_segment(&stream, first, from - 100, size + 100);
		}
		check_all_once(&stream);
	}
}

/* Each segment has whole messages. Every seventh arrives a few segments later. */
TEST(segments_out_of_order_count_once)
{
	static struct stream stream;

	for (unsigned late = 1; late < 6; late++) {
		size_t from = 0, size, missing = 0, missing_size = 0;
		unsigned segment = 0, left = 0;

		fill(&stream);
		dns_way_open(&stream.way, 41);
		for (; from < stream.size; from += size, segment++) {
			size = 2U + stream.data[from + 1];
			if (segment % 3 == 0 && from + size < stream.size)
				size += 2U + stream.data[from + size + 1];
			if (left == 0 && segment % 7 == 3) {
				missing = from;
				missing_size = size;
				left = late;
				continue;
			}
			read_segment(&stream, 42, from, size);
			if (left > 0 && --left == 0)
				read_segment(&stream, 42, missing, missing_size);
		}
		if (left > 0)
			read_segment(&stream, 42, missing, missing_size);
		check_all_once(&stream);
	}
}
