/* What the engine reports of jobs and flows: array/arbitrated.py, event by event. */

#include <stdlib.h>

#include "control.h"

void control_happen(struct control *c, int64_t until_ns, int64_t sequence)
{
    while (c->events && (c->heap[0].when_ns < until_ns
                         || (c->heap[0].when_ns == until_ns && c->heap[0].sequence < sequence))) {
        struct event event = pop(c);
        happen(c, &event, event.when_ns);
        free(event.entry);
    }
    show_next(c);
}

void control_ready(struct control *c, const int64_t *rows, int64_t count, int64_t now_ns)
{
    int64_t asking = 0, asked[count + 1];
    for (int64_t at = 0; at < count; at++) {
        struct flow *flow = c->flow + rows[at];
        struct part *part = c->part + flow->part;
        flow->iterations++;
        flow->phase = is_claimed(flow->phase) ? ASKED : READY;
        flow->granted = flow->stalls.unused = 0;
        flow->begun_bytes = c->n->sent[rows[at]];
        flow->ready_ns = flow->promised_ns = now_ns;
        flow->promised_bits_ns = 0.0;
        compute_ended(&c->rules, &part->progress, now_ns);
        const int asks_now = asks(&c->rules, part->progress.alone_comm_ns, rtt_of(c, part), c->slot_ns);
        limit(c, rows[at], asks_now ? c->rules.floor_bps : flow->nic_bps, flow->nic_bps, now_ns);
        if (asks_now)
            asked[asking++] = rows[at];
        else
            until_claimed(c, rows[at]);
    }
    for (int64_t at = 0; at < asking; at++) {   /* part by part */
        if (asked[at] < 0)
            continue;
        const int64_t of = c->flow[asked[at]].part;
        int64_t together = 0, of_part[asking];
        for (int64_t other = at; other < asking; other++)
            if (asked[other] >= 0 && c->flow[asked[other]].part == of) {
                of_part[together++] = asked[other];
                asked[other] = -1;
            }
        claim(c, of, of_part, together, now_ns);
    }
    if (c->tick_ns == NEVER_NS)
        arm(c, now_ns);
    show_next(c);
}

void control_done(struct control *c, int64_t row, int64_t now_ns)
{
    struct flow *flow = c->flow + row;
    flow->phase = is_claimed(flow->phase) ? SENT : IDLE;
    flow->unclaimed = 0;
    if (is_claimed(flow->phase))
        withdraw(c, row, now_ns, 0);
    show_next(c);
}

void control_iteration_ended(struct control *c, int64_t of, int64_t now_ns)
{
    credit_now(c, c->part + of, now_ns);
    iteration_ended(&c->rules, &c->part[of].progress, now_ns);
}

void control_leave(struct control *c, const int64_t *rows, int64_t count, const int64_t *contenders, int64_t owners,
                   int64_t now_ns)
{
    for (int64_t at = 0; at < count; at++) {
        struct flow *flow = c->flow + rows[at];
        flow->iterations++;
        flow->phase = IDLE;
        flow->promised = flow->unclaimed = 0;
        if (flow->entered)
            settle_withdraw(c, rows[at]);
    }
    for (int64_t at = 0; at < owners; at++)
        contender_gone(c, contenders[at]);
    reallocate_soon(c, now_ns);
    show_next(c);
}
