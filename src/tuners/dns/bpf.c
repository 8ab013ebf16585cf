/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/bpf.h"

#include "base/cleanup.h"
#include "base/util.h"
#include "kernel/bpf.h"
#include "tuners/dns/map_table.h"
#include "workload/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <bpf/bpf.h>
#include <headroom/bpf/dns_parse.h>

#include "dns.skel.h"

/* A poll that sweeps may be late by this much. */
#define LATE_US (3 * USEC_PER_SEC)

#define PRIMARY_SIZE  (DNS_PRIMARY * sizeof(struct dns_bucket))
#define OVERFLOW_SIZE (DNS_OVERFLOW * sizeof(struct dns_bucket))

struct dns_bpf {
	struct dns_bpf_object *object;
	struct dns_control *control; /* of object */
	struct ring_buffer *ring;
	struct dns_bucket *primary, *overflow; /* overflow is mapped while it is used */
	uint64_t overflow_rest; /* what was counted there when the last sweep found none */
	struct dns_map_table servers, rows;
	/* While dns_bpf_drain_samples() runs. */
	dns_take_sample *take_sample;
	void *userdata;
};

static int on_sample(void *userdata, void *data, size_t size)
{
	const struct dns_bpf *bpf = userdata;
	struct dns_sample sample;
	size_t at = 0;

	if (size < sizeof(sample) || !bpf->take_sample)
		return 0;
	memcpy(&sample, data, sizeof(sample));
	sample.length = MIN(sample.length, DNS_SAMPLE_NAME);
	/* What came after the name came with it: its type. */
	while (at < sample.length && sample.name[at] && sample.name[at] <= DNS_LABEL_MAX)
		at += sample.name[at] + 1U;
	if (at + 3 <= sample.length && sample.name[at] == 0) {
		sample.type = (uint16_t)(sample.name[at + 1] << 8 | sample.name[at + 2]);
		sample.length = (uint16_t)(at + 1);
	}
	bpf->take_sample(bpf->userdata, &sample);
	return 0;
}

static int load(struct dns_bpf *bpf)
{
	static const struct dns_key other;
	static const struct dns_source nowhere;
	static const uint32_t first;
	int r;

	bpf->object = dns_bpf_object__open_and_load();
	if (!bpf->object)
		return -errno;
	bpf->control = (struct dns_control *)&bpf->object->bss->control;
	bpf->control->version = DNS_RECORD_VERSION;
	bpf->control->root_cgroup = CGROUP_ROOT_INODE;
	bpf->control->generation = 1;
	r = dns_map_table_open(&bpf->servers, bpf->object->maps.servers,
		bpf->object->maps.server_counts, bpf->object->maps.free_servers, 1);
	if (r == 0)
		r = dns_map_table_open(&bpf->rows, bpf->object->maps.rows,
			bpf->object->maps.row_counts, bpf->object->maps.free_rows, 0);
	if (r == 0)
		r = dns_map_array(bpf->object->maps.pending, 0, PRIMARY_SIZE, &bpf->primary);
	if (r < 0)
		return r;
	if (bpf_map_update_elem(
		    bpf_map__fd(bpf->object->maps.servers), &other, &first, BPF_NOEXIST) < 0 ||
		bpf_map_update_elem(
			bpf_map__fd(bpf->object->maps.sources), &other, &nowhere, BPF_NOEXIST) < 0)
		return -errno;
	bpf->ring = ring_buffer__new(bpf_map__fd(bpf->object->maps.samples), on_sample, bpf, NULL);
	return bpf->ring ? 0 : -errno;
}

struct dns_bpf *dns_bpf_load(char why[static TUNER_WHY_MAX])
{
	struct dns_bpf *bpf = calloc(1, sizeof(*bpf));
	int r = bpf ? 0 : -ENOMEM;

	bpf_quiet_libbpf();
	if (r == 0)
		r = load(bpf);
	if (r == 0)
		return bpf;
	bpf_explain_failure(r, why, TUNER_WHY_MAX);
	dns_bpf_close(bpf);
	return NULL;
}

static int attach(struct dns_bpf *bpf, int cgroup)
{
	struct dns_bpf_object *object = bpf->object;

	/* Answers first: a query that is counted must find its answer counted, too. */
	object->links.dns_ingress = bpf_program__attach_cgroup(object->progs.dns_ingress, cgroup);
	if (!object->links.dns_ingress)
		return -errno;
	object->links.dns_egress = bpf_program__attach_cgroup(object->progs.dns_egress, cgroup);
	return object->links.dns_egress ? 0 : -errno;
}

struct dns_bpf *dns_bpf_open(const struct host *host, char why[static TUNER_WHY_MAX])
{
	_cleanup_close_ int cgroup = cgroup_root_open(host, why, TUNER_WHY_MAX);
	struct dns_bpf *bpf = cgroup < 0 ? NULL : dns_bpf_load(why);
	int r = bpf ? attach(bpf, cgroup) : 0;

	if (r == 0)
		return bpf;
	bpf_explain_failure(r, why, TUNER_WHY_MAX);
	dns_bpf_close(bpf);
	return NULL;
}

static void unmap_overflow(struct dns_bpf *bpf)
{
	if (bpf->overflow)
		munmap(bpf->overflow, OVERFLOW_SIZE);
	bpf->overflow = NULL;
	bpf->overflow_rest = 0;
}

void dns_bpf_close(struct dns_bpf *bpf)
{
	if (!bpf)
		return;
	ring_buffer__free(bpf->ring);
	if (bpf->primary)
		munmap(bpf->primary, PRIMARY_SIZE);
	unmap_overflow(bpf);
	dns_map_table_close(&bpf->servers);
	dns_map_table_close(&bpf->rows);
	dns_bpf_object__destroy(bpf->object);
	free(bpf);
}

int dns_bpf_program(const struct dns_bpf *bpf, bool ingress)
{
	return bpf_program__fd(
		ingress ? bpf->object->progs.dns_ingress : bpf->object->progs.dns_egress);
}

const struct dns_control *dns_bpf_control(const struct dns_bpf *bpf)
{
	return bpf->control;
}

int dns_bpf_each(struct dns_bpf *bpf, enum dns_map map, dns_take *take, void *userdata)
{
	if (map == DNS_MAP_SOURCES)
		return dns_map_each(bpf->object->maps.sources, take, userdata);
	return dns_map_table_each(map == DNS_MAP_SERVERS ? &bpf->servers : &bpf->rows,
		&bpf->control->made, take, userdata);
}

void dns_bpf_expect_server(struct dns_bpf *bpf, const struct dns_key *server)
{
	dns_map_table_add(&bpf->servers, server);
}

bool dns_bpf_forget(struct dns_bpf *bpf, enum dns_map map, const void *key, uint64_t now)
{
	static const struct dns_key other;
	bool gone;

	if (map == DNS_MAP_SERVERS && memcmp(key, &other, sizeof(other)) == 0)
		return false;
	/* A query that is being counted, or waits for its answer, has the index too. */
	gone = dns_map_table_remove(map == DNS_MAP_SERVERS ? &bpf->servers : &bpf->rows, key,
		now + DNS_TIMEOUT_NS / 1000 + LATE_US);
	__atomic_add_fetch(&bpf->control->generation, 1, __ATOMIC_RELEASE);
	return gone;
}

bool dns_bpf_forget_source(
	struct dns_bpf *bpf, const struct dns_key *source, struct dns_source *counts)
{
	int fd = bpf_map__fd(bpf->object->maps.sources);

	return bpf_map_lookup_elem(fd, source, counts) == 0 && bpf_map_delete_elem(fd, source) == 0;
}

void dns_bpf_reuse(struct dns_bpf *bpf, uint64_t now)
{
	dns_map_table_reuse(&bpf->servers, now);
	dns_map_table_reuse(&bpf->rows, now);
}

/* Whether the query is still there afterwards. */
static bool sweep_one(struct dns_pending *way, uint64_t now, dns_take_pending *take, void *userdata)
{
	__u64 sent = __atomic_load_n(&way->sent_ns, __ATOMIC_ACQUIRE);
	struct dns_pending query;
	bool unanswered;

	if (sent == 0)
		return false;
	query = *way;
	/* Answered, or another query's, while it was copied. */
	if (__atomic_load_n(&way->sent_ns, __ATOMIC_ACQUIRE) != sent)
		return true;
	query.sent_ns = sent;
	unanswered = now > sent && now - sent > DNS_TIMEOUT_NS;
	if (unanswered && !__atomic_compare_exchange_n(&way->sent_ns, &sent, 0, false,
				  __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return true;
	take(userdata, &query, unanswered);
	return !unanswered;
}

static bool sweep_buckets(
	struct dns_bucket *buckets, size_t n, uint64_t now, dns_take_pending *take, void *userdata)
{
	bool any = false;

	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < DNS_WAYS; j++)
			any = sweep_one(&buckets[i].ways[j], now, take, userdata) || any;
	return any;
}

/*
 * The count is reset once two sweeps found none: that also corrects what two processors miscounted
 * in one bucket. What came meanwhile stays in it.
 */
static void sweep_overflow(
	struct dns_bpf *bpf, uint64_t now, dns_take_pending *take, void *userdata)
{
	__u64 *count = &bpf->control->overflow;
	__u64 overflow = __atomic_load_n(count, __ATOMIC_ACQUIRE);
	bool any;

	if (overflow == 0) {
		unmap_overflow(bpf);
		return;
	}
	if (!bpf->overflow && dns_map_array(bpf->object->maps.pending, PRIMARY_SIZE, OVERFLOW_SIZE,
				      &bpf->overflow) < 0)
		return;
	any = sweep_buckets(bpf->overflow, DNS_OVERFLOW, now, take, userdata);
	if (!any && bpf->overflow_rest == overflow)
		__atomic_compare_exchange_n(
			count, &overflow, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	bpf->overflow_rest = any ? 0 : overflow;
}

void dns_bpf_sweep(struct dns_bpf *bpf, uint64_t now, dns_take_pending *take, void *userdata)
{
	(void)sweep_buckets(bpf->primary, DNS_PRIMARY, now, take, userdata);
	sweep_overflow(bpf, now, take, userdata);
}

void dns_bpf_sample(struct dns_bpf *bpf, uint64_t one_in, uint64_t at_most)
{
	struct dns_control *control = bpf->control;

	control->samples_most = __atomic_load_n(&control->samples, __ATOMIC_RELAXED) + at_most;
	control->sample_share = one_in ? (uint32_t)(UINT32_MAX / one_in) : 0;
}

void dns_bpf_drain_samples(struct dns_bpf *bpf, dns_take_sample *take, void *userdata)
{
	bpf->take_sample = take;
	bpf->userdata = userdata;
	ring_buffer__consume(bpf->ring);
	bpf->take_sample = NULL;
}

bool dns_sample_name(const struct dns_sample *sample, char *text, size_t size)
{
	size_t at = 0, n = 0;

	text[0] = '\0';
	while (at < sample->length && sample->name[at] && sample->name[at] <= DNS_LABEL_MAX) {
		size_t label = at + 1, end = label + sample->name[at];

		for (; label < end && label < sample->length; label++) {
			unsigned char c = (unsigned char)dns_lower(sample->name[label]);
			bool plain = c > ' ' && c < 0x7f && c != '.' && c != '\\' && c != '"';

			if (n + (plain ? 3 : 6) > size)
				return false;
			if (plain)
				n += (size_t)snprintf(text + n, size - n, "%c", c);
			else
				n += (size_t)snprintf(text + n, size - n, "\\%03u", c);
		}
		if (end >= sample->length)
			return false;
		at = end;
		if (sample->name[at])
			n += (size_t)snprintf(text + n, size - n, ".");
	}
	return at < sample->length && sample->name[at] == 0;
}

size_t dns_bpf_set_suffixes(struct dns_bpf *bpf, const struct dns_suffix_name *suffixes, size_t n)
{
	struct dns_suffixes table = {0};
	size_t taken = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t labels = 0;
		uint64_t hash = dns_suffix_hash(suffixes[i].name, &labels);

		for (size_t k = 0; hash && k < DNS_SUFFIX_SLOTS; k++) {
			struct dns_suffix *slot = &table.slots[labels - 1][k];

			if (slot->hash && slot->hash != hash)
				continue;
			if (!slot->hash)
				*slot = (struct dns_suffix){hash, suffixes[i].class};
			table.used |= 1ULL << (labels - 1);
			taken++;
			break;
		}
	}
	/* A name that comes meanwhile may be given the new class of an old domain: once. */
	memcpy(&bpf->control->suffixes, &table, sizeof(table));
	return taken;
}

size_t dns_bpf_watch(struct dns_bpf *bpf, const struct dns_key *addresses, size_t n)
{
	struct dns_watch watch = {0};
	size_t four = 0, six = 0;

	for (size_t i = 0; i < n; i++)
		if (addresses[i].family == AF_INET && four < DNS_WATCH_IPV4)
			memcpy(&watch.ipv4[four++], addresses[i].address, 4);
		else if (addresses[i].family == AF_INET6 && six < DNS_WATCH_IPV6)
			memcpy(watch.ipv6[six++], addresses[i].address, 16);
	memcpy(&bpf->control->watch, &watch, sizeof(watch));
	bpf->control->watching = four + six > 0;
	return four + six;
}
