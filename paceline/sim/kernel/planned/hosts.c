/* What a host does: host/agent.py and host/flow_state.py under policy/mlcc.py. */

#include <stdlib.h>

#include "planned.h"

/* ---- A flow ---- */

static double volume_bytes(const struct planned_flow *flow)
{
    return (double)flow->iteration * flow->size_bytes + flow->sent_bytes;
}

static double remaining_bytes(const struct planned_flow *flow)
{
    return larger(0.0, flow->size_bytes - flow->sent_bytes);
}

static int waits_for_upstream(const struct planned_flow *flow)
{
    if (!flow->granted)
        return 0;
    const double allowed_bytes = flow->grant.upstream_bytes + flow->window_bytes;
    return volume_bytes(flow) >= allowed_bytes - 1e-6 * flow->size_bytes;
}

static void add_promise(struct planned_flow *flow, int64_t now_ns)
{
    const int64_t elapsed_ns = now_ns - flow->promised_ns;
    flow->promised_ns = now_ns;
    pass_stretch(&flow->stretches, elapsed_ns, smaller(flow->rate_bps, flow->estimate.line_rate_bps));
}

static void observe(const struct planned *c, struct planned_flow *flow, double sent_bytes, int64_t now_ns)
{
    add_promise(flow, now_ns);
    const double fresh_bytes = sent_bytes - flow->sent_bytes;
    flow->sent_bytes = sent_bytes;
    sent_in_stretch(&c->rules, &flow->stretches, fresh_bytes, !waits_for_upstream(flow));
}

static void limit(struct planned *c, struct planned_flow *flow, double rate_bps, double ceiling_bps, int64_t now_ns)
{
    if (rate_bps == flow->rate_bps && ceiling_bps == flow->ceiling_bps)
        return;
    if (flow->live)
        add_promise(flow, now_ns);
    flow->rate_bps = rate_bps;
    flow->ceiling_bps = ceiling_bps;
    c->n->firm[flow->row] = rate_bps;
    c->n->ceiling[flow->row] = ceiling_bps;
    c->n->paced[flow->row] = ceiling_bps < INFINITY;
    c->n->stale = 1;
}

/* Mlcc._apply */
static void apply(struct planned *c, struct planned_flow *flow, double rate_bps, int64_t now_ns)
{
    const double firm_bps = larger(rate_bps, c->rules.floor_bps), nic_bps = c->host[flow->host].nic_bps;
    const int64_t borrows = rate_bps > 0.0 ? c->open : c->tail;
    limit(c, flow, firm_bps, borrows ? larger(firm_bps, nic_bps) : firm_bps, now_ns);
}

static void hold(struct planned *c, struct planned_flow *flow, int64_t now_ns)
{
    const double floor_bps = c->rules.floor_bps;
    limit(c, flow, floor_bps, c->line_rate ? c->host[flow->host].nic_bps : floor_bps, now_ns);
}

/* ---- Reports ---- */

static double planned_bytes(const struct planned *c, const struct planned_flow *flow, int64_t now_ns)
{
    const int64_t offset = slot_at(c, now_ns) - flow->plan_slot;
    const double bps = 0 <= offset && offset < flow->plan_length ? flow->plan_bps[offset] : 0.0;
    return smaller(remaining_bytes(flow), bps * (double)(next_slot_ns(c, now_ns) - now_ns) / BIT_NS_PER_BYTE_S);
}

static void report(struct planned *c, int64_t host, const int64_t *flows, int64_t count, int plans, int64_t now_ns)
{
    if (!count)
        return;
    struct message m = new_message(c, CLAIMS, c->host[host].tor, host, count);
    m.first_slot = slot_at(c, now_ns);
    for (; m.count < count; m.count++) {
        struct planned_flow *flow = c->flow + flows[m.count];
        double *words = m.words + m.count * c->stride;
        flow->claimed = 1;
        words[0] = (double)flows[m.count];
        words[1] = volume_bytes(flow);
        words[2] = plans ? planned_bytes(c, flow, now_ns) : 0.0;
        words[3] = plans && flow->plan_length ? 1.0 : 0.0;
        if (words[3] != 0.0)
            memcpy(words + 4, flow->plan_bps, sizeof(double) * (size_t)c->horizon);
    }
    send_message(c, m, now_ns + c->latency_ns);
}

void withdraw_flows(struct planned *c, int64_t host, const int64_t *flows, int64_t count, int64_t now_ns)
{
    struct message m = new_message(c, GONE, c->host[host].tor, host, count);
    for (int64_t at = 0; at < count; at++) {
        struct planned_flow *flow = c->flow + flows[at];
        if (!flow->claimed)
            continue;
        flow->claimed = 0;
        m.words[m.count * c->stride] = (double)flows[at];
        m.words[m.count++ * c->stride + 1] = (double)flow->iteration * flow->size_bytes + flow->size_bytes;
    }
    if (m.count)
        send_message(c, m, now_ns + c->latency_ns);
    else
        free(m.words);
}

void claim_ready(struct planned *c, int64_t host, const int64_t *flows, int64_t count, int64_t now_ns)
{
    if (c->ready_reports)
        report(c, host, flows, count, 0, now_ns);
}

/* ---- What happens ---- */

/* Progress: the counters of a host's flows, read whenever something happens there. */
void observe_flows(struct planned *c, const struct planned_host *host, int64_t now_ns)
{
    for (int64_t at = 0; at < host->flows; at++) {
        struct planned_flow *flow = c->flow + host->flow[at];
        if (flow->live && flow->counted)
            observe(c, flow, c->n->sent[flow->row] - c->n->goal[flow->row] + c->n->size[flow->row], now_ns);
    }
}

static int any_live(const struct planned *c, const struct planned_host *host)
{
    for (int64_t at = 0; at < host->flows; at++)
        if (c->flow[host->flow[at]].live)
            return 1;
    return 0;
}

void flow_ready(struct planned *c, int64_t of, int64_t iteration, int64_t now_ns)
{
    struct planned_flow *flow = c->flow + of;
    struct planned_host *host = c->host + flow->host;
    if (!any_live(c, host))
        host->boundary_ns = next_slot_ns(c, now_ns);
    flow->live = flow->counted = 1;
    c->live++;
    flow->granted = flow->plan_length = 0;
    flow->iteration = iteration;
    flow->sent_bytes = 0.0;
    flow->promised_ns = now_ns;
    begin_stretches(&flow->stretches);
    hold(c, flow, now_ns);
    arm_ticks(c, now_ns);
}

void flow_done(struct planned *c, int64_t of, int64_t now_ns)
{
    struct planned_flow *flow = c->flow + of;
    observe(c, flow, flow->size_bytes, now_ns);
    flow->live = 0;
    c->live--;
    hold(c, flow, now_ns);
    withdraw_flows(c, flow->host, &of, 1, now_ns);
}

static void tick(struct planned *c, int64_t of, int64_t now_ns)
{
    struct planned_host *host = c->host + of;
    const int due = now_ns >= host->boundary_ns;
    int64_t live = 0, flows[host->flows + 1];
    for (int64_t at = 0; at < host->flows; at++) {
        struct planned_flow *flow = c->flow + host->flow[at];
        double sent_bps, limit_bps;
        if (!flow->live)
            continue;
        flows[live++] = host->flow[at];
        if (due && take_stretches(&flow->stretches, !waits_for_upstream(flow), &sent_bps, &limit_bps))
            observe_bandwidth(&c->rules, &flow->estimate, slot_at(c, now_ns) - 1, sent_bps, limit_bps);
    }
    host->boundary_ns = next_slot_ns(c, now_ns);
    if (due)
        report(c, of, flows, live, 0, now_ns);
}

static void plan(struct planned *c, struct planned_flow *flow, double *committed_bps, int64_t now_ns)
{
    const int64_t slot = slot_at(c, now_ns);
    double before_bps[MOST_HORIZON];
    for (int64_t t = 0; t < c->horizon; t++) {
        const int64_t offset = slot - flow->plan_slot + t;
        before_bps[t] = 0 <= offset && offset < flow->plan_length ? flow->plan_bps[offset] : 0.0;
    }
    const struct question question = {
        .remaining_bytes = remaining_bytes(flow), .volume_bytes = volume_bytes(flow),
        .window_bytes = flow->window_bytes, .bandwidth_bps = bandwidth_value(&c->rules, &flow->estimate, slot),
        .upstream_bytes = flow->grant.upstream_bytes, .downstream_bytes = flow->grant.downstream_bytes,
        .horizon = c->horizon, .slot_ns = c->slot_ns, .left_ns = next_slot_ns(c, now_ns) - now_ns,
        .push = flow->push, .available_bps = flow->grant.available_bps, .load = flow->grant.load};
    plan_rates(&c->rules, &question, before_bps, committed_bps, flow->plan_bps);
    flow->plan_slot = slot;
    flow->plan_length = c->horizon;
    apply(c, flow, flow->plan_bps[0], now_ns);
}

/* Mlcc.on_feedback */
static void feedback(struct planned *c, const struct message *m, int64_t now_ns)
{
    const int64_t slot = slot_at(c, now_ns);
    int64_t taken = 0, planned = 0, flows[m->count];
    double committed_bps[MOST_HORIZON] = {0.0};
    for (int64_t word = 0; word < m->count; word++) {
        const double *words = m->words + word * c->stride;
        struct planned_flow *flow = c->flow + (int64_t)words[0];
        if (!flow->live)
            continue;
        flow->granted = 1;
        flow->grant.accepted = words[1] != 0.0;
        flow->grant.upstream_bytes = words[2];
        flow->grant.downstream_bytes = words[3];
        memcpy(flow->grant.available_bps, words + 4, sizeof(double) * (size_t)c->horizon);
        memcpy(flow->grant.load, words + 4 + c->horizon, sizeof(double) * (size_t)c->horizon);
        flows[taken++] = (int64_t)words[0];
    }
    for (int64_t at = 0; at < taken; at++) {
        struct planned_flow *flow = c->flow + flows[at];
        if (flow->plan_length && flow->plan_slot == slot && flow->grant.accepted)
            continue;
        if (flow->replanned_slot != slot) {
            flow->replanned_slot = slot;
            flow->tries = 0;
        }
        if (++flow->tries <= c->rules.tries) {
            plan(c, flow, committed_bps, now_ns);
            flows[planned++] = flows[at];
        } else {
            apply(c, flow, 0.0, now_ns);
        }
    }
    report(c, m->to, flows, planned, 1, now_ns);
}

void host_hears(struct planned *c, const struct message *m, int64_t now_ns)
{
    struct planned_host *host = c->host + m->to;
    if (m->kind == HOST_TICK) {
        if (host->armed_ns != m->when_ns)
            return;   /* re-armed since */
        host->armed_ns = NEVER_NS;
    }
    observe_flows(c, host, now_ns);
    if (m->kind == HOST_TICK)
        tick(c, m->to, now_ns);
    else
        feedback(c, m, now_ns);
    arm_host(c, m->to, now_ns);
}

void arm_host(struct planned *c, int64_t of, int64_t now_ns)
{
    struct planned_host *host = c->host + of;
    if (!any_live(c, host)) {
        host->armed_ns = NEVER_NS;
        return;
    }
    const int64_t due_ns = host->boundary_ns > now_ns ? host->boundary_ns : now_ns;
    if (host->armed_ns == due_ns)
        return;
    host->armed_ns = due_ns;
    send_message(c, new_message(c, HOST_TICK, of, of, 0), due_ns);
}
