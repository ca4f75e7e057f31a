/*
 * Which peer a connection leads to. NCCL hands 128 bytes from the side that listens to the side that connects; what is
 * in them is the transport's. Most leave the end unused: there the listening side's address travels.
 * Law: the transport's connect sees the end as its listen left it, or zeros; a transport that uses all of it is left
 * alone, and its peers are not told apart.
 */
#ifndef PACELINE_PEER_TAG_H
#define PACELINE_PEER_TAG_H

#include "../page/page.h"
#include "net_abi.h"

/* Around a listen: before it, and after it succeeded. */
void peer_tag_prepare(void *handle);
void peer_tag_put(void *handle, const uint8_t address[PLP_PEER_BYTES]);
/* Before each call of connect with this handle. */
void peer_tag_take(void *handle);
/* Once connected, or given up: the peer of the handle; zeros where it is not known. */
void peer_tag_of(const void *handle, uint8_t peer[PLP_PEER_BYTES]);

#endif
