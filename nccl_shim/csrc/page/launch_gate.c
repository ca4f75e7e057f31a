#define _GNU_SOURCE
#include "launch_gate.h"

#include <errno.h>
#include <time.h>

#include "../core.h"
#include "page.h"

#define LOOK_NS INT64_C(1000000)
#define REST_NS INT64_C(5000000)
#define LATE_NS INT64_C(50000000)
#define LEAST_BYTES (UINT64_C(1) << 16) /* of a program without iterations: less is no burst */
#define PARTS UINT64_C(200)             /* of an iteration: a launch of less prints a loss */
#define FIRST_BYTES (INT64_C(1) << 20)  /* of a burst, or an eighth of its iteration: not the rest of the last one */

#define SET(field, value) atomic_store_explicit(&(field), (value), memory_order_relaxed)
#define GET(field) atomic_load_explicit(&(field), memory_order_relaxed)

static struct plp_reader page = PLP_READER;
static atomic_flag taken = ATOMIC_FLAG_INIT; /* a thread waits; others of the process pass */
static _Atomic uint64_t gated;               /* the iteration, plus 1, that has begun */
static int passes_next;                      /* written by the thread that has `taken` */

/* How long bursts let the network rest after their launch, of late, before their first bytes were out; of one that is
 * on its way there: since when it rests (0: none is), the longest rest so far, and what it has still to send. */
static _Atomic int64_t lag_ns, since_ns, longest_ns, awaited_bytes;

static int begins_burst(struct pls_header *header, uint64_t bytes, int64_t now_ns) {
    uint64_t iteration = GET(header->iteration.iteration);
    if (iteration == 0)
        return bytes >= LEAST_BYTES && now_ns - (int64_t)GET(header->heartbeat_ns) >= REST_NS;
    if (bytes < GET(header->iteration.last_enqueued) / PARTS)
        return 0;
    return GET(gated) != iteration + 1 && atomic_exchange(&gated, iteration + 1) != iteration + 1;
}

static int64_t may_go_in_ns(struct plp_hold *hold, int64_t now_ns) {
    static const uint8_t any_peer[PLP_PEER_BYTES];
    struct plp_answer answer;
    plp_look(&page, any_peer, now_ns, &answer);
    return plp_hold_remaining(hold, &answer, now_ns);
}

/* hostd sees by `held_ns` that bytes wait: NCCL has not been told of them yet. */
static void wait_for_turn(struct pls_header *header) {
    struct plp_hold hold = {0};
    int64_t now_ns = plp_now_ns(), left_ns = may_go_in_ns(&hold, now_ns);
    if (left_ns > 0)
        pls_hold(header, (uint64_t)now_ns);
    for (; left_ns > 0; left_ns = may_go_in_ns(&hold, now_ns)) {
        struct timespec nap = {0, (long)(left_ns < LOOK_NS ? left_ns : LOOK_NS)};
        nanosleep(&nap, NULL);
        now_ns = plp_now_ns();
    }
    passes_next = hold.spent;
    if (GET(header->held_ns))
        pls_hold(header, 0);
}

void plp_before_launch(struct pls_header *header, uint64_t bytes) {
    if (!header || !begins_burst(header, bytes, plp_now_ns()) || atomic_flag_test_and_set(&taken))
        return;
    int before = errno;
    if (passes_next)
        passes_next = 0;
    else if (GET(lag_ns) < LATE_NS)
        wait_for_turn(header);
    uint64_t part = GET(header->iteration.last_enqueued) / 8;
    SET(awaited_bytes, part && part < FIRST_BYTES ? (int64_t)part : FIRST_BYTES);
    SET(longest_ns, 0);
    SET(since_ns, plp_now_ns());
    errno = before;
    atomic_flag_clear(&taken);
}

void plp_sent(uint64_t bytes) {
    int64_t since = GET(since_ns), now_ns;
    if (!since)
        return;
    now_ns = plp_now_ns();
    if (now_ns - since > GET(longest_ns))
        SET(longest_ns, now_ns - since);
    int is_out = atomic_fetch_sub(&awaited_bytes, (int64_t)bytes) <= (int64_t)bytes;
    if (!atomic_compare_exchange_strong(&since_ns, &since, is_out ? 0 : now_ns) || !is_out)
        return;
    int64_t old_ns = GET(lag_ns);
    SET(lag_ns, old_ns ? (3 * old_ns + GET(longest_ns)) / 4 : GET(longest_ns));
}
