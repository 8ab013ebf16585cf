/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/dns/dns.h"

TEST(the_busiest_names_come_first)
{
	struct dns_names names = {0};

	for (int i = 0; i < 60; i++)
		dns_names_add(&names, i < 50 ? "a.example" : "b.example", i < 20 ? 28 : 1);
	dns_names_fade(&names, 1);
	assert_int_equal(names.whole.n, 3);
	assert_string_equal(names.whole.names[0].text, "a.example");
	assert_int_equal(names.whole.names[0].type, 1);
	assert_int_equal(names.whole.names[0].count, 30);
	assert_int_equal(names.whole.names[1].type, 28);
	assert_string_equal(names.whole.names[2].text, "b.example");
}

/* Two frequent names among many that occur once. */
TEST(frequent_names_are_found_among_random_ones)
{
	struct dns_names names = {0};
	char text[64];

	for (int i = 0; i < 20000; i++) {
		snprintf(text, sizeof(text), "random-%d.example", i);
		dns_names_add(&names, text, 1);
		if (i % 10 == 0)
			dns_names_add(&names, "heavy.example", 1);
		if (i % 20 == 0)
			dns_names_add(&names, "half.example", 1);
	}
	assert_int_equal(names.whole.n, DNS_NAMES_KEPT);
	dns_names_fade(&names, 1);
	assert_string_equal(names.whole.names[0].text, "heavy.example");
	assert_string_equal(names.whole.names[1].text, "half.example");
	/* A count is never too low, and too high by excess at most. */
	assert_true(names.whole.names[0].count >= 2000);
	assert_true(names.whole.names[0].count - names.whole.names[0].excess <= 2000);
}

TEST(counts_halve_every_thirty_seconds)
{
	struct dns_names names = {0};
	uint64_t now = 1000 * USEC_PER_SEC;

	dns_names_fade(&names, now);
	for (int i = 0; i < 8; i++)
		dns_names_add(&names, "was.example", 1);
	dns_names_add(&names, "once.example", 1);
	dns_names_fade(&names, now + 29 * USEC_PER_SEC);
	assert_int_equal(names.whole.n, 2);
	dns_names_fade(&names, now + 31 * USEC_PER_SEC);
	assert_int_equal(names.whole.n, 1);
	assert_int_equal(names.whole.names[0].count, 4);
	for (int i = 0; i < 5; i++)
		dns_names_add(&names, "is.example", 1);
	dns_names_fade(&names, now + 32 * USEC_PER_SEC);
	assert_string_equal(names.whole.names[0].text, "is.example");
	for (int i = 2; i < 8; i++)
		dns_names_fade(&names, now + (uint64_t)i * 40 * USEC_PER_SEC);
	assert_int_equal(names.whole.n, 0);
	/* A reused element starts at 0. */
	dns_names_add(&names, "new.example", 1);
	assert_int_equal(names.whole.names[0].count, 1);
	assert_int_equal(names.whole.names[0].excess, 0);
}

TEST(a_long_name_keeps_its_end)
{
	struct dns_names names = {0};
	char text[300];

	memset(text, 'x', sizeof(text));
	strcpy(text + 280, ".example");
	dns_names_add(&names, text, 1);
	dns_names_add(&names, text, 1);
	assert_int_equal(names.whole.n, 1);
	assert_int_equal(strlen(names.whole.names[0].text), DNS_NAME_TEXT - 1);
	assert_non_null(strstr(names.whole.names[0].text, "x.example"));
}

TEST(unique_names_are_listed_by_their_suffix)
{
	struct dns_names names = {0};
	struct dns_name_count top[DNS_NAMES_TOP];
	uint64_t samples;
	char text[64];
	size_t n;

	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "u%d.probe.example.net", i);
		dns_names_add(&names, text, 1);
		if (i % 25 == 0)
			dns_names_add(&names, "mail.example.com", 15);
	}
	dns_names_fade(&names, 1);
	n = dns_names_top(&names, top, &samples);
	assert_int_equal(samples, 1040);
	assert_string_equal(top[0].text, "*.probe.example.net");
	assert_int_equal(top[0].type, 0);
	assert_in_range(top[0].count, 1000, 1040);
	assert_true(n >= 2);
	assert_string_equal(top[1].text, "mail.example.com");
	/* A name that most of the suffix's queries ask for is listed itself. */
	for (int i = 0; i < 2000; i++)
		dns_names_add(&names, "www.probe.example.net", 1);
	dns_names_fade(&names, 2);
	dns_names_top(&names, top, &samples);
	assert_string_equal(top[0].text, "www.probe.example.net");
}

TEST(a_suffix_outlives_names_that_occur_once)
{
	struct dns_names names = {0};
	struct dns_name_count top[DNS_NAMES_TOP];
	uint64_t samples;
	char text[64];

	dns_names_fade(&names, 1);
	for (int i = 0; i < 40; i++) {
		snprintf(text, sizeof(text), "u%d.probe.example.net", i);
		dns_names_add(&names, text, 1);
	}
	dns_names_fade(&names, 1 + 30 * USEC_PER_SEC);
	assert_int_equal(dns_names_top(&names, top, &samples), 1);
	assert_string_equal(top[0].text, "*.probe.example.net");
	assert_int_equal(top[0].count, 20);
	assert_int_equal(samples, 20);
}
