/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * CUBIC for a socket that stands for w of them: a link divides itself among it and other sockets as among w of its kind.
 *
 *     window    w virtual windows v, each of which grows as CUBIC's does (RFC 9438), so w times as fast together
 *     loss      the window loses 0.3 · 3/(2w + 1) of itself: one of the w sockets has lost a packet and backs off by 0.3,
 *               and mostly another with it
 *     curve     runs w times as fast, and 3/(2w + 1) times as high: the w sockets lose a packet w times as often as one
 *     turns     another w means another window at once, w times the same v: bursts are over before a window has grown
 *     start     slow start ends with the first queue it makes; from there to the first loss v grows by a twentieth each
 *               round trip, as in the kernel's CUBIC: its curve knows no plateau yet, and would begin flat
 *     pauses    in which nothing is on its way are none of the curve's time
 *
 * With w = 1, and for a socket of which nothing was said, it is CUBIC. Windows are counted in packets · 2^20, time in ms.
 */
#include "kernel.h"

#define SCALE 20
#define THOUSAND 1000ULL
#define NS_PER_MS 1000000ULL
#define LONGEST_MS 30000ULL  /* from the plateau: its cube fits */
#define GROWTH 419430ULL     /* C = 0.4 packets/s^3: 0.4 · 2^20, for ms^3 / 10^9 */
#define PLATEAU 2441406ULL   /* 10^9 / (0.4 · 2^10) */
#define FRIENDLY 555745ULL   /* 3 · 0.3/1.7 packets a round trip, as Reno would gain with CUBIC's back-off: 0.53 · 2^20 */
#define BACK_OFF 300ULL      /* thousandths */
#define LEAST_WINDOW 2U
#define SEARCHING 20U        /* packets acknowledged for one more, as long as no loss is known */
#define SHORT_START 16U      /* packets: too few to tell a queue */
#define NO_THRESHOLD 0x7fffffffU

struct flow {
    u64 weight_milli; /* that the window has now */
    u64 epoch_ns;     /* when the window began to grow; 0: it has not since a loss */
    u64 top;          /* v at the last loss */
    u64 plateau;      /* v around which growth is slowest ... */
    u64 reached_ms;   /* ... and when it is there, from the epoch on, as long as one socket would take */
    u64 friendly;     /* v of a Reno flow that began with the epoch */
    u64 acked_ns;     /* when something last came back */
};

struct {
    int (*type)[MAP_TYPE_SK_STORAGE];
    int (*map_flags)[NO_PREALLOC];
    int *key;
    u32 *value; /* thousandths, by hostd */
} weights SECTION(".maps");

struct {
    int (*type)[MAP_TYPE_SK_STORAGE];
    int (*map_flags)[NO_PREALLOC];
    int *key;
    struct flow *value;
} flows SECTION(".maps");

static u64 cube_root(u64 value) {
    u64 root = 0;
    for (int bit = 20; bit >= 0; bit--) {
        u64 next = root | (1ULL << bit);
        if (next * next * next <= value)
            root = next;
    }
    return root;
}

/* The socket's flow, with what hostd says of it now. */
static struct flow *flow_of(struct tcp_sock *socket) {
    u32 *said = sk_storage_get(&weights, (struct sock *)socket, 0, 0);
    struct flow *own = sk_storage_get(&flows, (struct sock *)socket, 0, CREATE);
    if (!own)
        return own;
    u64 before = own->weight_milli ? own->weight_milli : THOUSAND;
    own->weight_milli = said && *said ? *said : THOUSAND;
    if (own->weight_milli != before) {
        own->epoch_ns = 0;
        u64 window = socket->snd_cwnd * own->weight_milli / before;
        socket->snd_cwnd = window > LEAST_WINDOW ? window : LEAST_WINDOW;
        if (socket->snd_ssthresh < NO_THRESHOLD) {
            u64 threshold = socket->snd_ssthresh * own->weight_milli / before;
            socket->snd_ssthresh = threshold > LEAST_WINDOW ? threshold : LEAST_WINDOW;
        }
    }
    return own;
}

static u64 virtual_window(struct tcp_sock *socket, struct flow *own) {
    u64 weight = own->weight_milli;
    return weight ? ((u64)socket->snd_cwnd << SCALE) * THOUSAND / weight : 0;
}

static void begin_epoch(struct flow *own, u64 window, u64 now_ns) {
    own->epoch_ns = now_ns;
    own->friendly = window;
    own->plateau = window < own->top ? own->top : window;
    u64 gap = (own->plateau - window) >> 10;
    own->reached_ms = cube_root(gap * (2 * own->weight_milli + THOUSAND) / (3 * THOUSAND) * PLATEAU);
}

/* Where CUBIC's curve is now. */
static u64 target(struct flow *own, u64 now_ns) {
    u64 since_ms = (now_ns - own->epoch_ns) / NS_PER_MS * own->weight_milli / THOUSAND;
    u64 from_ms = since_ms < own->reached_ms ? own->reached_ms - since_ms : since_ms - own->reached_ms;
    if (from_ms > LONGEST_MS)
        from_ms = LONGEST_MS;
    u64 gap = from_ms * from_ms * from_ms * GROWTH / 1000000000ULL * 3 * THOUSAND / (2 * own->weight_milli + THOUSAND);
    if (since_ms >= own->reached_ms)
        return own->plateau + gap;
    return own->plateau > gap ? own->plateau - gap : 0;
}

static int has_a_queue(struct tcp_sock *socket) {
    u32 least_us = socket->rtt_min.s[0].v, smoothed_us = socket->srtt_us >> 3;
    return smoothed_us > least_us + least_us / 4;
}

SECTION("struct_ops/avoid")
void avoid(u64 *context) {
    struct tcp_sock *socket = (struct tcp_sock *)context[0];
    u32 packets = context[2];
    struct flow *own = flow_of(socket);
    if (!own)
        return;
    u64 now_ns = own->acked_ns = ktime_get_ns();
    if (!is_window_limited(socket))
        return;
    if (socket->snd_cwnd < socket->snd_ssthresh) {
        if (socket->snd_ssthresh >= NO_THRESHOLD && socket->snd_cwnd > SHORT_START && has_a_queue(socket))
            socket->snd_ssthresh = socket->snd_cwnd;
        packets = tcp_slow_start(socket, packets);
        if (!packets)
            return;
    }
    if (!own->top) {
        tcp_cong_avoid_ai(socket, SEARCHING, packets);
        return;
    }
    u64 window = virtual_window(socket, own);
    if (!window)
        return;
    if (!own->epoch_ns)
        begin_epoch(own, window, now_ns);
    u64 whole = window >> SCALE;
    own->friendly += FRIENDLY * packets * THOUSAND / own->weight_milli / (whole ? whole : 1);
    u64 wanted = target(own, now_ns);
    if (wanted < own->friendly)
        wanted = own->friendly;
    u64 needed = wanted > window ? window / (wanted - window) : 100ULL * socket->snd_cwnd;
    if (needed < 2)
        needed = 2; /* at most half as much again in a round trip */
    tcp_cong_avoid_ai(socket, needed < 0xffffffff ? needed : 0xffffffff, packets);
}

SECTION("struct_ops/threshold")
u32 threshold(u64 *context) {
    struct tcp_sock *socket = (struct tcp_sock *)context[0];
    struct flow *own = flow_of(socket);
    u32 window = socket->snd_cwnd;
    if (!own || !own->weight_milli)
        return tcp_reno_ssthresh((struct sock *)socket);
    u64 now = virtual_window(socket, own);
    own->top = now < own->top ? now - now * BACK_OFF / 2 / THOUSAND : now; /* below the last one: another flow has come */
    own->epoch_ns = 0;
    u64 lost = (u64)window * BACK_OFF * 3 / (2 * own->weight_milli + THOUSAND);
    u32 left = lost < window ? window - lost : 0;
    return left > LEAST_WINDOW ? left : LEAST_WINDOW;
}

SECTION("struct_ops/state")
void state(u64 *context) {
    struct flow *own = flow_of((struct tcp_sock *)context[0]);
    if (own && (u8)context[1] == STATE_LOSS)
        own->top = own->epoch_ns = 0;
}

SECTION("struct_ops/event")
void event(u64 *context) {
    if ((u32)context[1] != EVENT_TX_START)
        return;
    struct flow *own = flow_of((struct tcp_sock *)context[0]);
    if (!own)
        return;
    u64 now_ns = ktime_get_ns();
    if (own->epoch_ns)
        own->epoch_ns += now_ns - own->acked_ns;
    own->acked_ns = now_ns; /* all on its way may be lost, and this come again before anything comes back */
}

SECTION("struct_ops/undo")
u32 undo(u64 *context) {
    return tcp_reno_undo_cwnd((struct sock *)context[0]);
}

SECTION(".struct_ops")
struct tcp_congestion_ops paceline = {
    .ssthresh = (void *)threshold,
    .cong_avoid = (void *)avoid,
    .undo_cwnd = (void *)undo,
    .set_state = (void *)state,
    .cwnd_event = (void *)event,
    .name = "paceline",
};

char may_use[] SECTION("license") = "Dual MIT/GPL";
