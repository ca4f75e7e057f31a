/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * MLTCP: Reno whose additive increase grows with what the socket has sent in this iteration.
 *
 *     sent  bytes acknowledged since the last pause of at least `pause_ns`: computing lies there
 *     r     min(1, sent / bytes of an iteration)
 *     F(r)  slope · r + intercept
 *     each acknowledged packet raises the window by F(r) / window; slow start and losses are Reno's
 *
 * The job that is further in its iteration is so the more aggressive one, and jobs that collide drift apart. A socket of
 * which nothing was said is a plain Reno socket.
 */
#include "kernel.h"

struct iteration {
    u64 bytes;            /* 0: not known */
    u64 pause_ns;
    u32 slope_milli;
    u32 intercept_milli;
    u64 sent;             /* from here on the program's own */
    u64 acked_ns;
};

struct {
    int (*type)[MAP_TYPE_SK_STORAGE];
    int (*map_flags)[NO_PREALLOC];
    int *key;
    struct iteration *value;
} iterations SECTION(".maps");

SECTION("struct_ops/acked")
void acked(u64 *context) {
    struct tcp_sock *socket = (struct tcp_sock *)context[0];
    const struct ack_sample *sample = (const struct ack_sample *)context[1];
    struct iteration *own = sk_storage_get(&iterations, (struct sock *)socket, 0, 0);
    if (!own)
        return;
    u64 now_ns = ktime_get_ns();
    if (now_ns - own->acked_ns > own->pause_ns)
        own->sent = 0;
    own->acked_ns = now_ns;
    own->sent += (u64)sample->pkts_acked * socket->mss_cache;
}

/* 1000 F(r). */
static u64 aggressiveness_milli(struct tcp_sock *socket) {
    struct iteration *own = sk_storage_get(&iterations, (struct sock *)socket, 0, 0);
    if (!own || !own->bytes)
        return 1000;
    u64 sent = own->sent < own->bytes ? own->sent : own->bytes;
    return own->slope_milli * sent / own->bytes + own->intercept_milli;
}

SECTION("struct_ops/avoid")
void avoid(u64 *context) {
    struct tcp_sock *socket = (struct tcp_sock *)context[0];
    u32 packets = context[2];
    if (!is_window_limited(socket))
        return;
    if (socket->snd_cwnd <= socket->snd_ssthresh) {
        packets = tcp_slow_start(socket, packets);
        if (!packets)
            return;
    }
    u64 milli = aggressiveness_milli(socket);
    u32 needed = milli ? (u64)socket->snd_cwnd * 1000 / milli : socket->snd_cwnd;
    tcp_cong_avoid_ai(socket, needed ? needed : 1, packets);
}

SECTION("struct_ops/threshold")
u32 threshold(u64 *context) {
    return tcp_reno_ssthresh((struct sock *)context[0]);
}

SECTION("struct_ops/undo")
u32 undo(u64 *context) {
    return tcp_reno_undo_cwnd((struct sock *)context[0]);
}

SECTION(".struct_ops")
struct tcp_congestion_ops mltcp = {
    .ssthresh = (void *)threshold,
    .cong_avoid = (void *)avoid,
    .undo_cwnd = (void *)undo,
    .pkts_acked = (void *)acked,
    .name = "mltcp",
};

char may_use[] SECTION("license") = "Dual MIT/GPL";
