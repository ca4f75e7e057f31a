/*
 * The throttle: isend asks the peer's bucket first, and a request that is left NULL is asked for again by NCCL.
 * Everything else goes to the transport as it came. Comms and requests are the transport's own: which bucket a comm
 * has is kept beside it.
 */
#include <pthread.h>
#include <stdlib.h>

#include "bucket.h"
#include "counts.h"
#include "interfaces.h"
#include "peer_tag.h"
#include "transport.h"

enum { TABLE = 1 << 14 }; /* connections; those beyond are not paced */

struct peer {
    struct bucket *bucket;
    struct pls_record *record;
};

static struct {
    void *comm;
    struct peer peer;
} table[TABLE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *const removed = &table;

static unsigned place_of(const void *comm) {
    uint64_t mixed = (uint64_t)(uintptr_t)comm * UINT64_C(0x9e3779b97f4a7c15);
    return (unsigned)(mixed >> 50);
}

static void remember(void *comm, struct peer peer) {
    pthread_mutex_lock(&lock);
    for (unsigned i = 0, at = place_of(comm); i < TABLE; i++, at = (at + 1) % TABLE)
        if (!table[at].comm || table[at].comm == removed || table[at].comm == comm) {
            table[at].peer = peer;
            table[at].comm = comm;
            break;
        }
    pthread_mutex_unlock(&lock);
}

/* To which the comm sends; with `forget`, for the last time. */
static struct peer peer_of_comm(const void *comm, int forget) {
    struct peer found = {NULL, NULL};
    pthread_mutex_lock(&lock);
    for (unsigned i = 0, at = place_of(comm); i < TABLE && table[at].comm; i++, at = (at + 1) % TABLE)
        if (table[at].comm == comm) {
            found = table[at].peer;
            if (forget)
                table[at].comm = removed;
            break;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

int paced_listen(void *ctx, int device, void *handle, void **listen_comm) {
    peer_tag_prepare(handle);
    int result = transport.listen(ctx, device, handle, listen_comm);
    uint8_t address[PLP_PEER_BYTES];
    if (result == NET_OK && interface_address(device, address))
        peer_tag_put(handle, address);
    return result;
}

int paced_connect(void *ctx, int device, struct net_config *config, void *handle, void **send_comm,
                  void **device_handle) {
    peer_tag_take(handle);
    int result = transport.connect(ctx, device, config, handle, send_comm, device_handle);
    if (result == NET_OK && *send_comm) {
        uint8_t peer[PLP_PEER_BYTES];
        peer_tag_of(handle, peer);
        remember(*send_comm, (struct peer){bucket_of(peer), counts_of(peer)});
    }
    return result;
}

int paced_isend(void *comm, void *data, size_t bytes, int tag, void *memory, void *event, void **request) {
    struct peer peer = peer_of_comm(comm, 0);
    int64_t now_ns = plp_now_ns();
    if (!bucket_take(peer.bucket, bytes, now_ns)) {
        if (bucket_is_held(peer.bucket))
            counts_held(now_ns);
        *request = NULL;
        return NET_OK;
    }
    counts_held(0);
    int result = transport.isend(comm, data, bytes, tag, memory, event, request);
    if (result != NET_OK || !*request)
        bucket_return(peer.bucket, bytes); /* the transport is busy: NCCL asks again */
    else
        counts_sent(peer.record, bytes);
    return result;
}

int paced_close_send(void *comm) {
    peer_of_comm(comm, 1);
    return transport.close_send(comm);
}
