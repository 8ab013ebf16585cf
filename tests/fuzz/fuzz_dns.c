/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads any bytes as the sample of a name, which a client chooses: the text is printable and fits.
 * The programs that read messages run in the kernel: test_dns_bpf.py compares them with dnspython.
 */

#include "tuners/dns/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct dns_names names;
	struct dns_name_count top[DNS_NAMES_TOP];
	struct dns_sample sample = {0};
	char text[DNS_SAMPLE_NAME * 4];
	uint64_t samples;
	uint32_t type;
	size_t n;

	memcpy(sample.name, data, MIN(size, sizeof(sample.name)));
	(void)dns_sample_name(&sample, text, sizeof(text), &type);
	check(strlen(text) < sizeof(text) && type <= UINT16_MAX);
	for (const char *c = text; *c; c++)
		check(*c > ' ' && *c < 0x7f);
	dns_names_add(&names, text, type);
	dns_names_fade(&names, size);
	n = dns_names_top(&names, top, &samples);
	check(n <= DNS_NAMES_TOP && (n == 0 || samples > 0));
	return 0;
}
