/* Properties and virtual devices from one version of NCCL's net interface to another. */
#ifndef PACELINE_CONVERT_H
#define PACELINE_CONVERT_H

#include <string.h>

#include "net_abi.h"

/* What all versions have. */
#define COPY_COMMON(TO, FROM)                                                                                      \
    do {                                                                                                           \
        (TO)->name = (FROM)->name;                                                                                 \
        (TO)->pci_path = (FROM)->pci_path;                                                                         \
        (TO)->guid = (FROM)->guid;                                                                                 \
        (TO)->pointer_support = (FROM)->pointer_support;                                                           \
        (TO)->registration_is_global = (FROM)->registration_is_global;                                             \
        (TO)->speed_mbits = (FROM)->speed_mbits;                                                                   \
        (TO)->port = (FROM)->port;                                                                                 \
        (TO)->latency = (FROM)->latency;                                                                           \
        (TO)->most_comms = (FROM)->most_comms;                                                                     \
        (TO)->most_receives = (FROM)->most_receives;                                                               \
        (TO)->device_type = (FROM)->device_type;                                                                   \
        (TO)->device_version = (FROM)->device_version;                                                             \
    } while (0)

/* What 9 and later have. */
#define COPY_FROM_V9(TO, FROM)                                                                                     \
    do {                                                                                                           \
        COPY_COMMON(TO, FROM);                                                                                     \
        (TO)->force_flush = (FROM)->force_flush;                                                                   \
        (TO)->most_p2p_bytes = (FROM)->most_p2p_bytes;                                                             \
        (TO)->most_coll_bytes = (FROM)->most_coll_bytes;                                                           \
    } while (0)

static inline void widen_virtual(struct net_virtual_v12 *to, const struct net_virtual_v9 *from) {
    memset(to, 0, sizeof *to);
    to->count = from->count < 0 ? 0 : from->count > 4 ? 4 : from->count;
    memcpy(to->devices, from->devices, (size_t)to->count * sizeof(int));
}

/* 0: it has more devices than that version knows. */
static inline int narrow_virtual(struct net_virtual_v9 *to, const struct net_virtual_v12 *from) {
    memset(to, 0, sizeof *to);
    if (from->count < 0 || from->count > 4)
        return 0;
    to->count = from->count;
    memcpy(to->devices, from->devices, (size_t)to->count * sizeof(int));
    return 1;
}

#endif
