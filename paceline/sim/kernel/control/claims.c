/* What becomes of flows and their claims: array/claims.py, and the first half of array/arbitrated.py. */

#include <stdlib.h>

#include "control.h"

int64_t rtt_of(const struct control *c, const struct part *part)   /* as far as the host knows */
{
    return part->told ? 2 * c->contender[part->contender].delay_ns : 0;
}

static struct entry *one(int64_t row, int64_t iteration)
{
    struct entry *entry = malloc(sizeof(struct entry));
    *entry = (struct entry){row, iteration, 0.0, 0.0};
    return entry;
}

/* ---- Flows ---- */

void limit(struct control *c, int64_t row, double firm_bps, double ceiling_bps, int64_t now_ns)
{
    struct flow *flow = c->flow + row;
    const int64_t start_ns = c->slots[0].taken_ns;
    flow->promised_bits_ns = flow->promised_ns < start_ns
        ? flow->firm_bps * (double)(now_ns - start_ns)
        : flow->promised_bits_ns + flow->firm_bps * (double)(now_ns - flow->promised_ns);
    flow->firm_bps = firm_bps;
    flow->promised_ns = now_ns;
    if (firm_bps >= c->rules.least_share_bps) {
        flow->promised = 1;
        if (!flow->promised_listed)
            put(&c->promised, row);
        flow->promised_listed = 1;
    }
    c->n->firm[row] = firm_bps;
    c->n->ceiling[row] = ceiling_bps;
    c->n->paced[row] = ceiling_bps < INFINITY;
    c->n->stale = 1;
}

void until_claimed(struct control *c, int64_t row)
{
    c->flow[row].unclaimed = 1;
    if (!c->flow[row].unclaimed_listed)
        put(&c->unclaimed, row);
    c->flow[row].unclaimed_listed = 1;
}

/* What the part's flows have sent, and what they have left. */
void sums(const struct part *part, const double *sent, const double *goal, double *total, double *left)
{
    *total = *left = 0.0;
    for (int64_t at = 0; at < part->flows.count; at++) {
        const int64_t row = part->flows.items[at];
        const double more = goal[row] - sent[row];
        *total += sent[row];
        if (more > 0.0)
            *left += more;
    }
}

static int all_stalled(const struct control *c, const struct part *part)
{
    int some = 0;
    for (int64_t at = 0; at < part->flows.count; at++) {
        const int64_t phase = c->flow[part->flows.items[at]].phase;
        if (is_live(phase) && phase != STALLED)
            return 0;
        some |= phase == STALLED;
    }
    return some;
}

void credit(struct control *c, struct part *part, double sent_bytes, int64_t now_ns)
{
    if (!(sent_bytes >= part->counted_bytes))
        return;   /* these are older counters than those already counted */
    const double fresh_bytes = sent_bytes - part->counted_bytes;
    const int stalled = sent_bytes == part->counted_bytes && all_stalled(c, part);
    credit_progress(&c->rules, &part->progress, now_ns, fresh_bytes, part->size_bytes, stalled);
    part->counted_bytes = sent_bytes;
}

void credit_now(struct control *c, struct part *part, int64_t now_ns)
{
    double sent, left;
    sums(part, c->n->sent, c->n->goal, &sent, &left);
    credit(c, part, sent, now_ns);
}

/* What the host says of this flow; whether that is news. The part was credited. */
int bid(struct control *c, const struct part *part, struct flow *flow, double left_bytes)
{
    const double left = left_bytes / part->size_bytes;
    struct bid found, *known = &flow->bid;
    if (c->bid)
        c->bid(&part->progress, left, part->counted_bytes / part->size_bytes, flow->ready_ns, &found);
    else
        bid_of_paceline(&part->progress, left, &found);
    const int news = found.urgency != known->urgency || found.compute_ns != known->compute_ns
        || found.remaining_ns != known->remaining_ns;
    *known = found;
    return news;
}

/* ---- Claims ---- */

void claim(struct control *c, int64_t of, const int64_t *rows, int64_t count, int64_t now_ns)
{
    struct part *part = c->part + of;
    const int64_t delay_ns = c->contender[part->contender].delay_ns;
    double sent, left;
    struct entry *entry = malloc(sizeof(struct entry) * (size_t)count);
    sums(part, c->n->sent, c->n->goal, &sent, &left);
    for (int64_t at = count - 1; at >= 0; at--) {   /* a host learns of its flows one after the other */
        struct flow *flow = c->flow + rows[at];
        credit(c, part, sent, now_ns);
        bid(c, part, flow, left);
        flow->phase = flow->granted ? GRANTED : ASKED;
        claims_changed(c, part->tor, delay_ns, &flow->passes, now_ns);
        left -= c->n->sent[rows[at]] != 0.0 ? flow->size_bytes : 0.0;
        entry[at] = (struct entry){rows[at], flow->iterations, 0.0, 0.0};
    }
    part->bid_ns = now_ns;
    after(c, delay_ns, now_ns, (struct event){.kind = ENTER, .entries = count, .entry = entry});
}

void withdraw(struct control *c, int64_t row, int64_t now_ns, int stalled)
{
    struct flow *flow = c->flow + row;
    const struct part *part = c->part + flow->part;
    const int64_t delay_ns = c->contender[part->contender].delay_ns;
    if (is_claimed(flow->phase)) {
        if (flow->phase != SENT)
            flow->released_ns = now_ns;
        flow->phase = flow->phase == SENT ? IDLE : stalled ? STALLED : RELEASED;
    }
    c->n->mark[row] = INFINITY;
    claims_changed(c, part->tor, delay_ns, &flow->passes, now_ns);
    after(c, delay_ns, now_ns, (struct event){.kind = GONE, .entries = 1, .entry = one(row, flow->iterations)});
}

/* Where the flow hands over. On a host by itself nothing has to be handed over ahead of time. */
void mark(struct control *c, int64_t row)
{
    const struct flow *flow = c->flow + row;
    const int64_t rtt_ns = rtt_of(c, c->part + flow->part);
    double left_bytes = -1.0;
    if (rtt_ns && flow->phase == GRANTED && flow->granted)
        left_bytes = handover_bytes(flow->grant_bps, rtt_ns);
    c->n->mark[row] = left_bytes < 0.0 ? INFINITY : c->n->goal[row] - left_bytes;
}

static void grant(struct control *c, const struct entry *entry, int64_t now_ns)
{
    struct flow *flow = c->flow + entry->row;
    struct part *part = c->part + flow->part;
    const double floor_bps = c->rules.floor_bps;
    flow->granted = 1;
    flow->grant_bps = entry->share;
    if (flow->phase == ASKED)
        flow->phase = GRANTED;
    if (!part->told) {
        part->told = 1;
        part->progress.alone_comm_ns = larger(c->contender[part->contender].alone_ns, 1.0);
    }
    const int is_short = too_short(&c->rules, part->progress.alone_comm_ns, rtt_of(c, part));
    limit(c, entry->row, larger(floor_bps, entry->share), is_short ? flow->nic_bps : larger(floor_bps, entry->ceiling),
          now_ns);
    mark(c, entry->row);
}

void happen(struct control *c, const struct event *event, int64_t now_ns)
{
    int64_t fresh = 0;
    for (int64_t at = 0; at < event->entries; at++) {
        const struct entry *entry = event->entry + at;
        struct flow *flow = c->flow + entry->row;
        if (flow->iterations != entry->iteration)
            continue;   /* the burst is through */
        if (event->kind == ENTER && c->n->live[entry->row]) {
            settle_enter(c, entry->row);
            fresh = 1;
        } else if (event->kind == GONE && flow->entered) {
            settle_withdraw(c, entry->row);
            fresh = 1;
        } else if (event->kind == ENFORCE && c->n->live[entry->row] && event->decided_ns >= flow->decided_ns) {
            flow->decided_ns = event->decided_ns;   /* no switch that is nearer has decided since */
            grant(c, entry, now_ns);
        }
    }
    if (fresh)
        reallocate_soon(c, now_ns);
}
