/* Slot by slot: shares that lay unused, claims again, and what switches decide anew; array/arbitrated.py. */

#define _POSIX_C_SOURCE 199309L   /* clock_gettime */

#include <stdlib.h>
#include <time.h>

#include "control.h"

/* ---- Slots ---- */

static void close_slot(struct control *c, int64_t now_ns)
{
    const int64_t slot = slot_of(c, now_ns) - 1, start_ns = c->slots[0].taken_ns;
    int64_t kept = 0;
    for (int64_t at = 0; at < c->promised.count; at++) {
        const int64_t row = c->promised.items[at];
        struct flow *flow = c->flow + row;
        const int was = flow->promised;
        flow->promised = flow->promised_listed = 0;
        if (!was || !c->lends || !c->n->live[row])
            continue;
        const int64_t busy_ns = now_ns - (flow->ready_ns > start_ns ? flow->ready_ns : start_ns);
        if (busy_ns > 0) {
            const double before_bytes = flow->ready_ns <= start_ns ? c->slots[0].sent[row] : flow->begun_bytes;
            const double bits_ns = flow->promised_ns < start_ns
                ? flow->firm_bps * (double)(now_ns - start_ns)
                : flow->promised_bits_ns + flow->firm_bps * (double)(now_ns - flow->promised_ns);
            observe(&c->rules, &flow->stalls, slot, c->slot_ns, busy_ns, bits_ns / (double)busy_ns,
                    c->n->sent[row] - before_bytes);
        }
        if (is_claimed(flow->phase) && flow->stalls.unused) {
            credit_now(c, c->part + flow->part, now_ns);
            flow->stalled_bytes = c->n->sent[row];
            limit(c, row, c->rules.floor_bps, flow->nic_bps, now_ns);
            until_claimed(c, row);
            withdraw(c, row, now_ns, 1);
        } else if (flow->firm_bps >= c->rules.least_share_bps) {
            flow->promised = flow->promised_listed = 1;
            c->promised.items[kept++] = row;
        }
    }
    c->promised.count = kept;
}

static void claim_again(struct control *c, int64_t now_ns)
{
    const int64_t slot = slot_of(c, now_ns), count = c->unclaimed.count;
    int64_t kept = 0;
    for (int64_t at = 0; at < count; at++) {
        const int64_t row = c->unclaimed.items[at];
        struct flow *flow = c->flow + row;
        struct part *part = c->part + flow->part;
        flow->unclaimed_listed = 0;
        if (!flow->unclaimed)
            continue;
        if (!contends(&c->rules, flow, c->n->sent[row], part->progress.alone_comm_ns, now_ns, rtt_of(c, part), slot,
                      c->slot_ns)) {
            flow->unclaimed_listed = 1;
            c->unclaimed.items[kept++] = row;
            continue;
        }
        flow->unclaimed = 0;
        credit_now(c, part, now_ns);
        flow->granted = 0;
        if (flow->phase == GRANTED)
            flow->phase = ASKED;
        claim(c, flow->part, &row, 1, now_ns);
    }
    c->unclaimed.count = kept;
}

static void take_counters(struct control *c, int64_t now_ns)
{
    struct counters oldest = c->slots[SLOTS_ON_THE_WAY - 1];
    const size_t size = sizeof(double) * (size_t)c->n->rows;
    memmove(c->slots + 1, c->slots, sizeof(struct counters) * (SLOTS_ON_THE_WAY - 1));
    oldest.sent = realloc(oldest.sent, size + 8);
    oldest.goal = realloc(oldest.goal, size + 8);
    memcpy(oldest.sent, c->n->sent, size);
    memcpy(oldest.goal, c->n->goal, size);
    oldest.taken_ns = now_ns;
    c->slots[0] = oldest;
    c->slots_taken += c->slots_taken < SLOTS_ON_THE_WAY;
}

static void tick(struct control *c, int64_t now_ns)
{
    if (into(c, now_ns, c->slot_ns) < c->half_slot_ns) {
        close_slot(c, now_ns);
        claim_again(c, now_ns);
        take_counters(c, now_ns);
    }
    if (c->several.count)
        reallocate_soon(c, now_ns);
    if (!c->with_claims && !c->touched.count && !sending(c->n))
        c->tick_ns = NEVER_NS;
    else
        arm(c, now_ns);
}

/* ---- Reallocation ---- */

/* The newest counters that are known of a ToR where a group of such a delay is arbitrated. */
static const struct counters *heard(struct control *c, int64_t tor, int64_t delay_ns, int64_t now_ns)
{
    const int64_t until_ns = heard_ns(c, tor, delay_ns, now_ns);
    for (int64_t at = 0; at < c->slots_taken; at++)
        if (c->slots[at].taken_ns <= until_ns)
            return c->slots + at;
    return NULL;
}

static int read_bids(struct control *c, struct group *group, int64_t now_ns)
{
    const int64_t newest_ns = c->slots[0].taken_ns;
    int news = 0, all_read = 1;
    for (int64_t m = 0; m < group->members.count; m++) {
        const struct contender *contender = c->contender + group->members.items[m];
        for (int64_t p = 0; p < contender->parts.count; p++) {
            struct part *part = c->part + contender->parts.items[p];
            int64_t claims = 0;
            for (int64_t at = 0; !claims && at < part->flows.count; at++)
                claims = c->flow[part->flows.items[at]].entered;
            if (!claims || part->bid_ns >= newest_ns)
                continue;
            const struct counters *counters = heard(c, part->tor, contender->delay_ns, now_ns);
            if (counters && part->bid_ns < counters->taken_ns) {
                double sent, left;
                part->bid_ns = counters->taken_ns;
                sums(part, counters->sent, counters->goal, &sent, &left);
                credit(c, part, sent, part->bid_ns);
                for (int64_t at = 0; at < part->flows.count; at++)
                    if (c->flow[part->flows.items[at]].entered)
                        news |= bid(c, part, c->flow + part->flows.items[at], left);
            }
            all_read &= part->bid_ns >= newest_ns;
        }
    }
    if (all_read)
        group->read_ns = newest_ns;
    return news;
}

static void in_force_later(struct control *c, struct group *group, int64_t entries, struct entry *entry, int64_t now_ns)
{
    const int64_t delay_ns = group->level * c->latency_ns;
    for (int64_t m = 0; m < group->members.count; m++) {
        struct contender *contender = c->contender + group->members.items[m];
        if (contender->delay_ns == delay_ns)
            continue;
        contender->delay_ns = delay_ns;
        for (int64_t at = 0; at < contender->entered.count; at++)
            mark(c, contender->entered.items[at]);
    }
    after(c, delay_ns, now_ns,
          (struct event){.kind = ENFORCE, .decided_ns = now_ns, .entries = entries, .entry = entry});
}

static void reallocate(struct control *c, int64_t now_ns)
{
    struct timespec began, ended;
    const int met = c->several.count > 0;
    c->reallocate_ns = NEVER_NS;
    clock_gettime(CLOCK_MONOTONIC, &began);
    const int64_t jobs = settle(c, c->slots[0].taken_ns, now_ns, read_bids, in_force_later);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    put(&c->decisions, (ended.tv_sec - began.tv_sec) * 1000000000 + ended.tv_nsec - began.tv_nsec);
    if (c->several.count && !met)
        arm(c, now_ns);
    c->busy_until_ns = now_ns + c->ns_per_job * (jobs > c->jobs_at_no_cost ? jobs - c->jobs_at_no_cost : 0);
}

/* The network has stepped to this time; its marked flows will be through within a round trip. */
void control_run(struct control *c, int64_t now_ns)
{
    for (int64_t at = 0; at < c->n->marked_flows; at++) {
        const int64_t row = c->n->marked[at];
        if (c->flow[row].phase != GRANTED)
            continue;
        until_claimed(c, row);
        withdraw(c, row, now_ns, 0);
    }
    c->n->marked_flows = 0;
    if (now_ns >= c->tick_ns)
        tick(c, now_ns);
    if (now_ns >= c->reallocate_ns)
        reallocate(c, now_ns);
    show_next(c);
}
