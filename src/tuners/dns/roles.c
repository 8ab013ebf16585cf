/* SPDX-License-Identifier: Apache-2.0 */
#include "tuners/dns/roles.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/util.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>

#include <yaml.h>

/* A KubeletConfiguration is a few kilobytes. */
#define KUBELET_FILE_MAX (256 * 1024)

/* Where kubeadm, k3s and RKE2, EKS, GKE and AKS keep the kubelet's configuration. */
static const char *const kubelet_files[] = {
	"/var/lib/kubelet/config.yaml",
	"/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf",
	"/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/00-rke2-defaults.conf",
	"/etc/kubernetes/kubelet/config.json",
	"/etc/kubernetes/kubelet/kubelet-config.json",
	"/home/kubernetes/kubelet-config.yaml",
	"/etc/default/kubeletconfig.json",
};

/* kube-proxy's IPVS mode gives every service address to this device: none is of the node. */
#define IPVS_DEVICE "kube-ipvs0"

const char *dns_role_name(enum dns_role role)
{
	static const char *const names[] = {
		[DNS_LOCAL] = "local",
		[DNS_CLUSTER] = "cluster",
		[DNS_UPSTREAM] = "upstream",
	};

	return names[role];
}

static int by_address(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct dns_key));
}

bool dns_roles_is_node(const struct dns_roles *roles, const struct dns_key *address)
{
	return roles->n_node > 0 && bsearch(address, roles->node, roles->n_node,
					    sizeof(*roles->node), by_address) != NULL;
}

static bool is_cluster(const struct dns_roles *roles, const struct dns_key *server)
{
	for (size_t i = 0; i < roles->n_cluster; i++)
		if (dns_address_equal(&roles->cluster[i], server))
			return true;
	return false;
}

enum dns_role dns_role_of(const struct dns_roles *roles, const struct dns_key *server,
	uint64_t answers, bool budgeted)
{
	if (dns_address_is_loopback(server) || dns_roles_is_node(roles, server))
		return DNS_LOCAL;
	if (is_cluster(roles, server))
		return DNS_CLUSTER;
	return answers > 0 && !budgeted ? DNS_CLUSTER : DNS_UPSTREAM;
}

static bool take_address(const struct sockaddr *from, struct dns_key *address)
{
	const struct sockaddr_in *ipv4 = (const void *)from;
	const struct sockaddr_in6 *ipv6 = (const void *)from;

	*address = (struct dns_key){0};
	if (!from || (from->sa_family != AF_INET && from->sa_family != AF_INET6))
		return false;
	address->family = from->sa_family;
	if (from->sa_family == AF_INET)
		memcpy(address->address, &ipv4->sin_addr, 4);
	else
		memcpy(address->address, &ipv6->sin6_addr, 16);
	return true;
}

void dns_roles_read_node(struct dns_roles *roles)
{
	struct ifaddrs *all = NULL;
	size_t n = 0;

	if (getifaddrs(&all) < 0)
		return;
	for (struct ifaddrs *one = all; one && n < DNS_NODE_ADDRESSES_MAX; one = one->ifa_next) {
		struct dns_key address;

		if (!take_address(one->ifa_addr, &address) || streq(one->ifa_name, IPVS_DEVICE))
			continue;
		if (grow_array(&roles->node, n, &roles->allocated, sizeof(*roles->node)) < 0)
			break;
		roles->node[n++] = address;
	}
	freeifaddrs(all);
	roles->n_node = n;
	if (n > 0)
		qsort(roles->node, n, sizeof(*roles->node), by_address);
}

void dns_roles_add_cluster(struct dns_roles *roles, const struct dns_key *address)
{
	if (!is_cluster(roles, address) && roles->n_cluster < DNS_CLUSTER_SERVERS_MAX)
		roles->cluster[roles->n_cluster++] = *address;
}

static size_t take_sequence(struct dns_roles *roles, yaml_document_t *document, int index)
{
	yaml_node_t *list = yaml_document_get_node(document, index);
	size_t before = roles->n_cluster;

	if (!list || list->type != YAML_SEQUENCE_NODE)
		return 0;
	for (yaml_node_item_t *item = list->data.sequence.items.start;
		item < list->data.sequence.items.top; item++) {
		yaml_node_t *node = yaml_document_get_node(document, *item);
		struct dns_key address;

		if (node && node->type == YAML_SCALAR_NODE &&
			dns_address_parse((const char *)node->data.scalar.value, &address))
			dns_roles_add_cluster(roles, &address);
	}
	return roles->n_cluster - before;
}

static size_t take_document(struct dns_roles *roles, yaml_document_t *document)
{
	yaml_node_t *root = yaml_document_get_root_node(document);

	if (!root || root->type != YAML_MAPPING_NODE)
		return 0;
	for (yaml_node_pair_t *pair = root->data.mapping.pairs.start;
		pair < root->data.mapping.pairs.top; pair++) {
		yaml_node_t *key = yaml_document_get_node(document, pair->key);

		if (key && key->type == YAML_SCALAR_NODE &&
			streq((const char *)key->data.scalar.value, "clusterDNS"))
			return take_sequence(roles, document, pair->value);
	}
	return 0;
}

size_t dns_roles_take_kubelet(struct dns_roles *roles, const char *text, size_t len)
{
	yaml_document_t document;
	yaml_parser_t parser;
	size_t n = 0;

	if (!yaml_parser_initialize(&parser))
		return 0;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	/* Not ours to judge: what cannot be read tells nothing. */
	if (yaml_parser_load(&parser, &document)) {
		n = take_document(roles, &document);
		yaml_document_delete(&document);
	}
	yaml_parser_delete(&parser);
	return n;
}

void dns_roles_read_kubelet(struct dns_roles *roles, const struct host *host)
{
	for (size_t i = 0; i < ARRAY_SIZE(kubelet_files); i++) {
		_cleanup_free_ char *text = NULL;
		char full[PATH_MAX];
		size_t len;

		if (host_path(host, kubelet_files[i], full) &&
			read_file(full, KUBELET_FILE_MAX, &text, &len) == 0 &&
			dns_roles_take_kubelet(roles, text, len) > 0)
			return;
	}
}

void dns_roles_clear(struct dns_roles *roles)
{
	free(roles->node);
	*roles = (struct dns_roles){0};
}
