/*
 * Which interfaces: those that NCCL_SOCKET_IFNAME says as NCCL understands it ("eth" begins with, "=eth0" is, "^docker"
 * does not begin with, several with commas). Without it the first that is up and neither a loopback nor a bridge of
 * containers; where there is no such one, the loopback. NCCL_SOCKET_FAMILY is AF_INET or AF_INET6.
 */
#define _GNU_SOURCE
#include <ifaddrs.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interfaces.h"

static struct interface found[MOST_INTERFACES];
static int count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int chosen_by(const char *list, const char *name) {
    int not = *list == '^', exact;
    list += not;
    exact = *list == '=';
    list += exact;
    int match = 0;
    while (*list && !match) {
        size_t length = strcspn(list, ",");
        match = length && (exact ? strlen(name) == length && !strncmp(name, list, length)
                                 : !strncmp(name, list, length));
        list += length + (list[length] == ',');
    }
    return match != not;
}

static int speed_of(const char *name) {
    char path[PATH_MAX];
    int mbits = 0;
    snprintf(path, sizeof path, "/sys/class/net/%s/speed", name);
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%d", &mbits) != 1)
            mbits = 0;
        fclose(file);
    }
    return mbits > 0 ? mbits : 10000; /* virtual ones do not know */
}

static void add(const struct ifaddrs *one, int family) {
    for (int i = 0; i < count; i++)
        if (!strcmp(found[i].name, one->ifa_name))
            return;
    struct interface *new = &found[count++];
    char path[PATH_MAX];
    snprintf(new->name, sizeof new->name, "%s", one->ifa_name);
    new->address_bytes = family == AF_INET ? sizeof new->address.v4 : sizeof new->address.v6;
    memcpy(&new->address, one->ifa_addr, new->address_bytes);
    new->speed_mbits = speed_of(new->name);
    snprintf(path, sizeof path, "/sys/class/net/%s/device", new->name);
    new->pci_path = realpath(path, NULL);
}

/* `wanted` NULL: any but loopbacks and bridges, and one is enough. */
static void look_for(struct ifaddrs *all, const char *wanted, int family) {
    for (struct ifaddrs *one = all; one && count < MOST_INTERFACES; one = one->ifa_next) {
        if (!one->ifa_addr || one->ifa_addr->sa_family != family || !(one->ifa_flags & IFF_UP))
            continue;
        if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)one->ifa_addr)->sin6_addr))
            continue;
        if (!chosen_by(wanted ? wanted : "^lo,docker,virbr", one->ifa_name) || (!wanted && count))
            continue;
        add(one, family);
    }
}

static void find(void) {
    const char *wanted = getenv("NCCL_SOCKET_IFNAME"), *family = getenv("NCCL_SOCKET_FAMILY");
    struct ifaddrs *all;
    if (getifaddrs(&all))
        return;
    if (wanted && !*wanted)
        wanted = NULL;
    int v4 = !family || strcmp(family, "AF_INET6"), v6 = !family || strcmp(family, "AF_INET");
    const char *tries[] = {wanted, wanted ? wanted : "=lo"};
    for (int i = 0; i < 2 && !count; i++) {
        if (v4)
            look_for(all, tries[i], AF_INET);
        if (v6 && !count)
            look_for(all, tries[i], AF_INET6);
    }
    freeifaddrs(all);
}

int interfaces(const struct interface **all) {
    pthread_once(&once, find);
    *all = found;
    return count;
}

int interface_address(int device, uint8_t address[PLP_PEER_BYTES]) {
    const struct interface *all;
    int known = interfaces(&all);
    if (!known)
        return 0;
    const struct interface *one = &all[device >= 0 && device < known ? device : 0];
    if (one->address.any.sa_family == AF_INET6) {
        memcpy(address, &one->address.v6.sin6_addr, PLP_PEER_BYTES);
    } else {
        memset(address, 0, 10);
        memset(address + 10, 0xff, 2);
        memcpy(address + 12, &one->address.v4.sin_addr, 4);
    }
    return 1;
}
