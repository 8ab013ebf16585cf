/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "tuners/dns/loader.h"
#include "tuners/dns/sense.h"

#include "fake_dns_kernel.h"

struct taken {
	struct dns_bpf *bpf;
	char why[TUNER_WHY_MAX];
	unsigned calls;
};

static void take(struct dns_bpf *bpf, const char *why, void *userdata)
{
	struct taken *taken = userdata;

	taken->bpf = bpf;
	taken->calls++;
	copy_text(taken->why, sizeof(taken->why), why);
}

static void what_was_loaded_is_handed_over_once_without_a_reason(void **state)
{
	struct taken taken = {.why = "not called"};
	struct dns_loader *loader;
	struct host host;
	sd_event *event;

	(void)state;
	assert_true(host_init(&host, ""));
	assert_int_equal(sd_event_new(&event), 0);
	assert_int_equal(dns_loader_start(event, &host, take, &taken, &loader), 0);
	assert_int_equal(taken.calls, 0);
	assert_true(sd_event_run(event, 10 * USEC_PER_SEC) > 0);
	assert_int_equal(taken.calls, 1);
	assert_non_null(taken.bpf);
	assert_string_equal(taken.why, "");
	assert_int_equal(sd_event_run(event, 0), 0);
	dns_loader_close(loader);
	dns_bpf_close(taken.bpf);
	sd_event_unref(event);
}

static void what_nobody_took_is_closed(void **state)
{
	struct taken taken = {0};
	struct dns_loader *loader;
	struct host host;
	sd_event *event;

	(void)state;
	assert_true(host_init(&host, ""));
	assert_int_equal(sd_event_new(&event), 0);
	assert_int_equal(dns_loader_start(event, &host, take, &taken, &loader), 0);
	/* The sanitizers' build tells of what would be left. */
	dns_loader_close(loader);
	assert_int_equal(taken.calls, 0);
	sd_event_unref(event);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_loaded_is_handed_over_once_without_a_reason),
		cmocka_unit_test(what_nobody_took_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
