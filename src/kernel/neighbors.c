/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/neighbors.h"

#include "base/util.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <sys/socket.h>

DEFINE_CLEANUP(struct nl_msg, nlmsg_free)

#define DUMP_SIZE 32768

/* The kernel counts ages in USER_HZ on all architectures that are supported. */
#define TICK_US (USEC_PER_SEC / 100)

struct nl_sock *neighbors_open(int *error)
{
	struct nl_sock *socket = must(nl_socket_alloc());

	nl_socket_set_msg_buf_size(socket, DUMP_SIZE);
	/* A request has one answer: the entry, or an acknowledgement that it asks for. */
	nl_socket_disable_auto_ack(socket);
	errno = 0;
	if (nl_connect(socket, NETLINK_ROUTE) >= 0)
		return socket;
	*error = errno ? -errno : -EPROTONOSUPPORT;
	nl_socket_free(socket);
	return NULL;
}

/* Returns whether it is an entry that was resolved or can be. */
static bool parse_entry(struct nlmsghdr *message, struct neighbor_entry *entry)
{
	const struct ndmsg *header = nlmsg_data(message);
	const struct nlattr *address, *mac, *ages, *attribute;
	struct nda_cacheinfo info;

	if (!nlmsg_valid_hdr(message, sizeof(*header)))
		return false;
	address = nlmsg_find_attr(message, sizeof(*header), NDA_DST);
	mac = nlmsg_find_attr(message, sizeof(*header), NDA_LLADDR);
	ages = nlmsg_find_attr(message, sizeof(*header), NDA_CACHEINFO);
	if (!address || nla_len(address) != (header->ndm_family == AF_INET ? 4 : 16) || !ages ||
		nla_len(ages) < (int)sizeof(info))
		return false;
	memcpy(&info, nla_data(ages), sizeof(info));
	*entry = (struct neighbor_entry){
		.id = {.family = header->ndm_family, .ifindex = (uint32_t)header->ndm_ifindex},
		.state = header->ndm_state,
		.is_router = header->ndm_flags & NTF_ROUTER,
		.is_managed = header->ndm_flags & ~NTF_ROUTER,
		.confirmed_us = info.ndm_confirmed * TICK_US,
		.updated_us = info.ndm_updated * TICK_US,
	};
	memcpy(entry->id.address, nla_data(address), (size_t)nla_len(address));
	entry->has_mac = mac && nla_len(mac) == NEIGHBOR_MAC;
	if (entry->has_mac)
		memcpy(entry->mac, nla_data(mac), NEIGHBOR_MAC);
	attribute = nlmsg_find_attr(message, sizeof(*header), NDA_FLAGS_EXT);
	entry->is_managed |= attribute && nla_get_u32(attribute) != 0;
	attribute = nlmsg_find_attr(message, sizeof(*header), NDA_PROTOCOL);
	entry->is_managed |= attribute && nla_get_u8(attribute) != RTPROT_UNSPEC;
	return true;
}

struct reading {
	neighbor_visit *visit;
	void *userdata;
};

static int take_entry(struct nl_msg *found, void *userdata)
{
	const struct reading *reading = userdata;
	struct neighbor_entry entry;

	if (parse_entry(nlmsg_hdr(found), &entry))
		reading->visit(reading->userdata, &entry);
	return NL_OK;
}

/* libnl maps several errors to one code: keep the kernel's errno. */
static int keep_errno(struct sockaddr_nl *, struct nlmsgerr *error, void *userdata)
{
	*(int *)userdata = error->error;
	return NL_STOP;
}

int neighbors_each(struct nl_sock *socket, int family, neighbor_visit *visit, void *userdata)
{
	struct ndmsg header = {.ndm_family = (uint8_t)family};
	struct reading reading = {visit, userdata};
	int error = 0, r;

	nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, take_entry, &reading);
	nl_socket_modify_err_cb(socket, NL_CB_CUSTOM, keep_errno, &error);
	r = nl_send_simple(socket, RTM_GETNEIGH, NLM_F_DUMP, &header, sizeof(header));
	if (r >= 0)
		r = nl_recvmsgs_default(socket);
	return error ? error : r < 0 ? -EIO : 0;
}

/* Sends a message about the entry and waits for the kernel's answer. state 0: none. */
static int send_message(struct nl_sock *socket, int type, int flags,
	const struct neighbor_entry *entry, uint16_t state, bool with_mac)
{
	struct ndmsg header = {.ndm_family = (uint8_t)entry->id.family,
		.ndm_ifindex = (int)entry->id.ifindex,
		.ndm_state = state,
		.ndm_flags = state && entry->is_router ? NTF_ROUTER : 0};
	_cleanup_(cleanup_nlmsg_free) struct nl_msg *message =
		must(nlmsg_alloc_simple(type, NLM_F_REQUEST | flags));
	int error = 0, r;

	if (nlmsg_append(message, &header, sizeof(header), NLMSG_ALIGNTO) < 0 ||
		nla_put(message, NDA_DST, header.ndm_family == AF_INET ? 4 : 16,
			entry->id.address) < 0 ||
		(with_mac && nla_put(message, NDA_LLADDR, NEIGHBOR_MAC, entry->mac) < 0))
		return -ENOMEM;
	nl_socket_modify_err_cb(socket, NL_CB_CUSTOM, keep_errno, &error);
	r = nl_send_auto(socket, message);
	if (r >= 0)
		r = nl_recvmsgs_default(socket);
	return error ? error : r < 0 ? -EIO : 0;
}

static void copy_entry(void *userdata, const struct neighbor_entry *entry)
{
	*(struct neighbor_entry *)userdata = *entry;
}

int neighbors_get(
	struct nl_sock *socket, const struct neighbor_id *id, struct neighbor_entry *entry)
{
	struct neighbor_entry asked = {.id = *id}, found = {0};
	struct reading reading = {copy_entry, &found};
	int r;

	nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, take_entry, &reading);
	r = send_message(socket, RTM_GETNEIGH, 0, &asked, 0, false);
	if (r == 0 && memcmp(&found.id, id, sizeof(*id)) != 0)
		r = -ENOENT;
	if (r == 0)
		*entry = found;
	return r;
}

/* Without NLM_F_REPLACE the kernel leaves the link address and the flag of a router alone. */
int neighbors_probe(struct nl_sock *socket, const struct neighbor_entry *entry)
{
	return send_message(socket, RTM_NEWNEIGH, NLM_F_ACK, entry, NUD_PROBE, false);
}

int neighbors_delete(struct nl_sock *socket, const struct neighbor_entry *entry)
{
	return send_message(socket, RTM_DELNEIGH, NLM_F_ACK, entry, 0, false);
}

int neighbors_put_stale(struct nl_sock *socket, const struct neighbor_entry *entry)
{
	return send_message(socket, RTM_NEWNEIGH, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, entry,
		NUD_STALE, true);
}
