/* See peer_tag.h. Connect is called again and again with one handle: its peer is kept here in the meantime. */
#include <pthread.h>
#include <string.h>

#include "peer_tag.h"

enum { TAG_BYTES = 24, TAG_AT = NET_HANDLE_BYTES - TAG_BYTES, PENDING = 1024 };

static const uint8_t untouched = 0xa5;
static const char magic[8] = "PACEPEER";

static struct {
    const void *handle;
    uint8_t peer[PLP_PEER_BYTES];
} pending[PENDING];
static unsigned next;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint8_t *tag_of(void *handle) {
    return (uint8_t *)handle + TAG_AT;
}

static int all(const uint8_t *bytes, uint8_t value) {
    for (int i = 0; i < TAG_BYTES; i++)
        if (bytes[i] != value)
            return 0;
    return 1;
}

void peer_tag_prepare(void *handle) {
    memset(tag_of(handle), untouched, TAG_BYTES);
}

void peer_tag_put(void *handle, const uint8_t address[PLP_PEER_BYTES]) {
    uint8_t *tag = tag_of(handle);
    if (!all(tag, untouched) && !all(tag, 0))
        return;
    memcpy(tag, magic, sizeof magic);
    memcpy(tag + sizeof magic, address, PLP_PEER_BYTES);
}

void peer_tag_take(void *handle) {
    uint8_t *tag = tag_of(handle);
    if (memcmp(tag, magic, sizeof magic))
        return;
    pthread_mutex_lock(&lock);
    unsigned at = next++ % PENDING;
    for (unsigned i = 0; i < PENDING; i++)
        if (pending[i].handle == handle) /* of a connection that was given up */
            pending[i].handle = NULL;
    pending[at].handle = handle;
    memcpy(pending[at].peer, tag + sizeof magic, PLP_PEER_BYTES);
    pthread_mutex_unlock(&lock);
    memset(tag, 0, TAG_BYTES);
}

void peer_tag_of(const void *handle, uint8_t peer[PLP_PEER_BYTES]) {
    memset(peer, 0, PLP_PEER_BYTES);
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < PENDING; i++)
        if (pending[i].handle == handle) {
            memcpy(peer, pending[i].peer, PLP_PEER_BYTES);
            pending[i].handle = NULL;
        }
    pthread_mutex_unlock(&lock);
}
