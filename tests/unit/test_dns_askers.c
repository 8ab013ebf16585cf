/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/util.h"
#include "tuners/dns/askers.h"

static struct dns_asker row(uint8_t server, uint64_t cgroup, uint64_t queries, uint64_t failed)
{
	return (struct dns_asker){.server = {AF_INET, {10, 0, 0, server}},
		.cgroup = cgroup,
		.queries = queries,
		.expanded = failed,
		.failed = failed};
}

static void put(struct dns_askers *askers, const struct dns_asker *rows, size_t n)
{
	free(askers->old);
	askers->old = askers->askers;
	askers->n_old = askers->n;
	askers->askers = calloc(n, sizeof(*rows));
	assert_non_null(askers->askers);
	memcpy(askers->askers, rows, n * sizeof(*rows));
	askers->n = dns_askers_merge(askers->askers, n);
}

static void rows_are_summed_by_server_and_cgroup(void **state)
{
	struct dns_asker rows[] = {row(2, 7, 10, 1), row(1, 9, 5, 0), row(2, 7, 20, 2),
		row(1, 7, 1, 0), row(2, 7, 30, 3)};
	struct dns_asker by_source[] = {row(1, 1, 3, 0), row(1, 1, 4, 0)};

	(void)state;
	assert_int_equal(dns_askers_merge(rows, ARRAY_SIZE(rows)), 3);
	assert_int_equal(rows[0].cgroup, 7);
	assert_int_equal(rows[0].queries, 1);
	assert_int_equal(rows[1].cgroup, 9);
	assert_int_equal(rows[2].queries, 60);
	assert_int_equal(rows[2].failed, 6);
	assert_int_equal(dns_askers_merge(rows, 0), 0);
	/* In the root it is the address that tells them apart. */
	by_source[1].source = (struct dns_key){AF_INET, {10, 244, 0, 5}};
	assert_int_equal(dns_askers_merge(by_source, 2), 2);
}

static void rates_are_from_reading_to_reading(void **state)
{
	struct dns_asker first[] = {row(1, 7, 1000, 0), row(1, 8, 10, 0)};
	struct dns_asker second[] = {row(1, 7, 1200, 0), row(1, 8, 10, 0), row(1, 9, 50, 0)};
	struct dns_asker third[] = {row(1, 7, 40, 0), row(1, 8, 10, 0), row(1, 9, 50, 0)};
	struct dns_askers askers = {0};

	(void)state;
	put(&askers, first, 2);
	dns_askers_rate(&askers, 10 * USEC_PER_SEC);
	/* What was before the first reading has no time. */
	assert_true(askers.askers[0].per_second == 0);
	put(&askers, second, 3);
	dns_askers_rate(&askers, 12 * USEC_PER_SEC);
	assert_true(askers.askers[0].per_second == 100);
	assert_true(askers.askers[1].per_second == 0);
	assert_true(askers.askers[2].per_second == 25);
	assert_true(askers.askers[0].smooth > 0 && askers.askers[0].smooth < 100);
	assert_int_equal(askers.askers[0].changed_at_us, 12 * USEC_PER_SEC);
	assert_int_equal(askers.askers[1].changed_at_us, 10 * USEC_PER_SEC);
	/* A row that was forgotten in between begins anew. */
	put(&askers, third, 3);
	dns_askers_rate(&askers, 14 * USEC_PER_SEC);
	assert_true(askers.askers[0].per_second == 20);
	assert_true(askers.askers[2].per_second == 0);
	dns_askers_clear(&askers);
}

static struct dns_user user(const char *name, uint64_t queries, double rate)
{
	struct dns_user user = {.queries = queries, .per_second = rate, .smooth = rate};

	user.workload.kind = WORKLOAD_POD;
	copy_text(user.workload.name, sizeof(user.workload.name), name);
	return user;
}

static void containers_of_a_pod_are_one(void **state)
{
	struct dns_user users[] = {user("cart", 10, 1), user("shop", 100, 5), user("cart", 30, 6)};
	struct dns_label label = {0};

	(void)state;
	dns_askers_tell(&label, users, ARRAY_SIZE(users));
	assert_int_equal(label.n_users, 2);
	assert_string_equal(label.users[0].workload.name, "cart");
	assert_int_equal(label.users[0].queries, 40);
	assert_true(label.users[0].per_second == 7);
	assert_string_equal(label.users[1].workload.name, "shop");
	dns_askers_tell(&label, users, 0);
	assert_int_equal(label.n_users, 0);
}

static void forwarders_are_summed_over_upstreams(void **state)
{
	struct dns_book *book = calloc(1, sizeof(*book));
	struct dns_server_state servers[3] = {
		{.role = DNS_UPSTREAM}, {.role = DNS_UPSTREAM}, {.role = DNS_CLUSTER}};
	struct dns_seen seen = {.book = book};

	(void)state;
	assert_non_null(book);
	for (size_t i = 0; i < 3; i++) {
		struct dns_user users[] = {user("coredns-a", 1, 10), user("shop", 1, 99),
			user("coredns-b", 1, (double)(20 * i))};

		book->labels[i].server = &servers[i];
		dns_askers_tell(&book->labels[i], users, ARRAY_SIZE(users));
	}
	dns_askers_forwarders(&seen);
	assert_int_equal(seen.n_forwarders, 2);
	assert_true(seen.forwarders[0].per_second == 20);
	assert_true(seen.forwarders[1].per_second == 20);
	/* One that answers others is a forwarder whatever its name. */
	book->labels[1].users[0].serves = true;
	assert_string_equal(book->labels[1].users[0].workload.name, "shop");
	dns_askers_forwarders(&seen);
	assert_int_equal(seen.n_forwarders, 3);
	assert_string_equal(seen.forwarders[0].workload.name, "shop");
	free(book);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_summed_by_server_and_cgroup),
		cmocka_unit_test(rates_are_from_reading_to_reading),
		cmocka_unit_test(containers_of_a_pod_are_one),
		cmocka_unit_test(forwarders_are_summed_over_upstreams),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
