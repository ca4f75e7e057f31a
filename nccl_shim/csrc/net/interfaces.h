/* The host's network interfaces: the devices of our own transport, and the address by which peers know this host. */
#ifndef PACELINE_INTERFACES_H
#define PACELINE_INTERFACES_H

#include <net/if.h>
#include <netinet/in.h>

#include "../page/page.h"

enum { MOST_INTERFACES = 16 };

struct interface {
    char name[IF_NAMESIZE];
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    socklen_t address_bytes;
    int speed_mbits;
    char *pci_path; /* NULL: none */
};

/* Those that NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY choose; found once. */
int interfaces(const struct interface **found);
/* The device's address, or the first one's where a wrapped plugin counts its devices otherwise; 0: none. */
int interface_address(int device, uint8_t address[PLP_PEER_BYTES]);

#endif
