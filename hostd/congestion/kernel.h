/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The few fields and functions of the kernel that our congestion controls use. libbpf moves every field to where the
 * running kernel has it (CO-RE), so that one object serves all of them; only names and types must be right here.
 */
typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))
#define MOVED __attribute__((preserve_access_index))
#define OF_KERNEL __attribute__((section(".ksyms")))

#define MAP_TYPE_SK_STORAGE 24
#define NO_PREALLOC 1
#define CREATE 1

#define STATE_LOSS 4     /* of set_state: nothing came back for too long, TCP begins anew */
#define EVENT_TX_START 0 /* of cwnd_event: the first packet after a pause in which nothing was on its way */

struct sock {
    u64 sk_pacing_rate;
} MOVED;

struct inet_sock {
    struct sock sk;
} MOVED;

struct inet_connection_sock {
    struct inet_sock icsk_inet;
} MOVED;

struct minmax_sample {
    u32 t;
    u32 v;
} MOVED;

struct minmax {
    struct minmax_sample s[3];
} MOVED;

struct tcp_sock {
    struct inet_connection_sock inet_conn;
    u32 snd_cwnd;
    u32 snd_ssthresh;
    u32 max_packets_out;
    u32 mss_cache;
    u32 srtt_us;           /* eight times the smoothed round trip */
    struct minmax rtt_min; /* us, the least of the last minutes first */
    u8 is_cwnd_limited : 1;
} MOVED;

struct ack_sample {
    u32 pkts_acked;
    s32 rtt_us;
    u32 in_flight;
} MOVED;

struct tcp_congestion_ops {
    u32 (*ssthresh)(struct sock *socket);
    void (*cong_avoid)(struct sock *socket, u32 acknowledged, u32 packets);
    u32 (*undo_cwnd)(struct sock *socket);
    void (*set_state)(struct sock *socket, u8 state);
    void (*cwnd_event)(struct sock *socket, u32 event);
    void (*pkts_acked)(struct sock *socket, const struct ack_sample *sample);
    char name[16];
};

extern u32 tcp_slow_start(struct tcp_sock *socket, u32 packets) OF_KERNEL;
extern void tcp_cong_avoid_ai(struct tcp_sock *socket, u32 needed, u32 packets) OF_KERNEL;
extern u32 tcp_reno_ssthresh(struct sock *socket) OF_KERNEL;
extern u32 tcp_reno_undo_cwnd(struct sock *socket) OF_KERNEL;

/* Helpers of the kernel by number. */
static u64 (*const ktime_get_ns)(void) = (void *)5;
static void *(*const sk_storage_get)(void *map, struct sock *socket, void *initial, u64 flags) = (void *)107;

/* Whether the window is what kept the socket from sending more: one that had nothing to send earns no larger window. */
static __attribute__((always_inline)) int is_window_limited(struct tcp_sock *socket) {
    if (socket->snd_cwnd < socket->snd_ssthresh && socket->snd_cwnd < 2 * socket->max_packets_out)
        return 1;
    /* The bit, wherever the kernel has it: its byte, shifted as CO-RE says. */
    u8 *byte = (u8 *)socket + __builtin_preserve_field_info(socket->is_cwnd_limited, 0);
    u64 value = *byte;
    value <<= __builtin_preserve_field_info(socket->is_cwnd_limited, 4);
    return (value >> __builtin_preserve_field_info(socket->is_cwnd_limited, 5)) != 0;
}
