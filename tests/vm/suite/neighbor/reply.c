/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply DEVICE MAC SENDER TARGET: for each line of its input one broadcast reply of ARP, that
 * SENDER is at MAC.
 */
#include <arpa/inet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/if_ether.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	struct {
		struct ether_header head;
		struct ether_arp arp;
	} frame = {.arp.ea_hdr = {htons(1), htons(ETHERTYPE_IP), 6, 4, htons(ARPOP_REPLY)}};
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_halen = 6};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);
	char line[16];

	if (argc < 5 || sscanf(argv[2], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &frame.arp.arp_sha[0],
				&frame.arp.arp_sha[1], &frame.arp.arp_sha[2], &frame.arp.arp_sha[3],
				&frame.arp.arp_sha[4], &frame.arp.arp_sha[5]) != 6)
		return 2;
	to.sll_ifindex = (int)if_nametoindex(argv[1]);
	memset(frame.head.ether_dhost, 0xff, 6);
	memcpy(frame.head.ether_shost, frame.arp.arp_sha, 6);
	frame.head.ether_type = htons(ETHERTYPE_ARP);
	inet_pton(AF_INET, argv[3], frame.arp.arp_spa);
	inet_pton(AF_INET, argv[4], frame.arp.arp_tpa);
	while (fgets(line, sizeof(line), stdin))
		if (sendto(fd, &frame, sizeof(frame), 0, (struct sockaddr *)&to, sizeof(to)) < 0)
			return 1;
	return 0;
}
