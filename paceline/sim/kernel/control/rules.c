/* flowcore's rules for one flow and one job: host/flow_phase.py, host/progress.py, detect/pace.py, detect/stalls.py,
 * policy/arbitrated.py and policy/paceline.py; tests/sim/kernel/test_rules.py compares each with its function there. */

#include "control.h"

/* ---- host/flow_phase.py ---- */

int is_live(int64_t phase) { return phase != IDLE && phase != SENT; }
int is_claimed(int64_t phase) { return phase == ASKED || phase == GRANTED || phase == SENT; }

/* ---- policy/arbitrated.py ---- */

int too_short(const struct rules *r, double alone_comm_ns, int64_t rtt_ns)
{
    int64_t least_ns = r->shortest_burst_rtts * rtt_ns;
    return alone_comm_ns < (double)(least_ns > r->shortest_burst_ns ? least_ns : r->shortest_burst_ns);
}

int asks(const struct rules *r, double alone_comm_ns, int64_t rtt_ns, int64_t slot_ns)
{
    return alone_comm_ns >= (double)slot_ns || !too_short(r, alone_comm_ns, rtt_ns);
}

/* Below 0: it was granted nothing that it could hand over. */
double handover_bytes(double share_bps, int64_t rtt_ns)
{
    return share_bps <= 0.0 ? -1.0 : share_bps * (double)rtt_ns / BIT_NS_PER_BYTE_S;
}

int contends(const struct rules *r, const struct flow *flow, double sent_bytes, double alone_comm_ns, int64_t now_ns,
             int64_t rtt_ns, int64_t slot, int64_t slot_ns)
{
    if (flow->phase == RELEASED)
        return now_ns - flow->released_ns >= rtt_ns;
    if (flow->phase == READY)
        return now_ns - flow->ready_ns >= slot_ns || asks(r, alone_comm_ns, rtt_ns, slot_ns);
    if (flow->phase == STALLED)
        return may_claim(r, &flow->stalls, slot, slot_ns, sent_bytes - flow->stalled_bytes);
    return 1;
}

/* ---- detect/stalls.py ---- */

void observe(const struct rules *r, struct stalls *stalls, int64_t slot, int64_t slot_ns, int64_t busy_ns,
             double promised_bps, double sent_bytes)
{
    if ((double)busy_ns < r->most_of_a_slot * (double)slot_ns || promised_bps < r->least_share_bps) {
        stalls->unused = 0;
        return;
    }
    stalls->unused = sent_bytes * 8e9 < r->used * promised_bps * (double)busy_ns;
    if (!stalls->unused) {
        stalls->wait_slots = 0;
        return;
    }
    int64_t wait = 2 * stalls->wait_slots > 1 ? 2 * stalls->wait_slots : 1;
    stalls->stalled_slot = slot;
    stalls->wait_slots = wait < r->longest_wait_slots ? wait : r->longest_wait_slots;
}

int may_claim(const struct rules *r, const struct stalls *stalls, int64_t slot, int64_t slot_ns, double moved_bytes)
{
    int moves = moved_bytes * 8e9 >= r->moved_of_floor * r->floor_bps * (double)slot_ns;
    return moves && slot - stalls->stalled_slot >= stalls->wait_slots;
}

/* ---- host/progress.py, detect/pace.py ---- */

void advance_progress(const struct rules *r, struct progress *p, int64_t now_ns, double sent_share)
{
    const int64_t elapsed_ns = now_ns - p->updated_ns;
    const double alone_ns = (double)p->bursts * p->compute_ns + p->alone_comm_ns;
    if (elapsed_ns <= 0 || alone_ns <= 0.0)
        return;
    p->updated_ns = now_ns;
    double pace = p->communicating ? sent_share * p->alone_comm_ns / (double)elapsed_ns : 1.0;
    if (pace > 1.0)
        pace = 1.0;
    const double kept = exp(-(double)elapsed_ns / (r->memory_iterations * alone_ns));
    const double mean = larger(kept * p->pace + (1.0 - kept) * pace, r->least_pace * sqrt(p->weight));
    p->pace = smaller(mean, 1.0);
}

void credit_progress(const struct rules *r, struct progress *p, int64_t now_ns, double fresh_bytes, double size_bytes,
                     int stalled)
{
    if (stalled && fresh_bytes == 0.0)
        p->updated_ns = now_ns;
    else
        advance_progress(r, p, now_ns, fresh_bytes / size_bytes);
}

void compute_ended(const struct rules *r, struct progress *p, int64_t now_ns)
{
    if (p->communicating)
        return;
    p->begun_bursts++;
    advance_progress(r, p, now_ns, 0.0);
    const double measured = (double)(now_ns - p->started_ns);
    p->compute_ns = p->compute_ns != 0.0 ? p->compute_ns + r->gain * (measured - p->compute_ns) : measured;
    p->communicating = 1;
}

void iteration_ended(const struct rules *r, struct progress *p, int64_t now_ns)
{
    advance_progress(r, p, now_ns, 0.0);
    p->communicating = 0;
    p->started_ns = now_ns;
    p->bursts = p->begun_bursts > 1 ? p->begun_bursts : 1;
    p->begun_bursts = 0;
}

/* ---- policy/paceline.py, allocation/arbiters.py ---- */

void bid_of_paceline(const struct progress *progress, double left, struct bid *found)
{
    found->urgency = pow(progress->weight, 0.5) * (1.0 / progress->pace);
    found->compute_ns = progress->compute_ns;
    found->remaining_ns = left * progress->alone_comm_ns;
}

void weights_of_paceline(const struct rules *r, int64_t jobs, const struct bid *bids, double *weights)
{
    double total_ns = 0.0;
    for (int64_t job = 0; job < jobs; job++)
        total_ns += bids[job].remaining_ns;
    for (int64_t job = 0; job < jobs; job++) {
        const struct bid *bid = bids + job;
        const double others_ns = total_ns - bid->remaining_ns;
        const double overlap_ns = others_ns < bid->compute_ns ? others_ns : bid->compute_ns;
        const double finest = r->finest_ns > bid->remaining_ns ? r->finest_ns : bid->remaining_ns;
        weights[job] = bid->urgency * (1.0 + r->kappa * overlap_ns / finest);
    }
}

/* most_urgent: bids are compared field by field. */
int more_urgent(const struct bid *a, const struct bid *b)
{
    if (a->urgency != b->urgency)
        return a->urgency > b->urgency;
    if (a->compute_ns != b->compute_ns)
        return a->compute_ns > b->compute_ns;
    return a->remaining_ns > b->remaining_ns;
}
