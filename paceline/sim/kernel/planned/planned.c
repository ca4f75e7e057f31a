/* What the engine reports of jobs and flows, and the memory: the control's own, from planned_new to planned_free. */

#define _POSIX_C_SOURCE 199309L   /* clock_gettime */

#include <stdlib.h>
#include <time.h>

#include "planned.h"

struct planned *planned_new(struct network *n, const struct planning *rules, const int64_t *options, int64_t *shared,
                            const int64_t *tors, const double *nics_bps)
{
    struct planned *c = zeroed(1, sizeof(struct planned));
    int64_t *const fields[] = {&c->slot_ns, &c->horizon, &c->epoch_ns, &c->latency_ns, &c->ready_reports,
                               &c->line_rate, &c->open, &c->tail, &c->whole_slots, &c->hosts, &c->switches};
    for (size_t at = 0; at < sizeof fields / sizeof fields[0]; at++)
        *fields[at] = options[at];
    c->n = n;
    c->rules = *rules;
    c->shared = shared;
    c->width = 2 * c->horizon;
    c->stride = 4 + 2 * c->horizon;
    c->tick_ns = NEVER_NS;
    c->awake_until_slot = -1;
    c->host = zeroed(c->hosts, sizeof(struct planned_host));
    for (int64_t of = 0; of < c->hosts; of++) {
        c->host[of].tor = tors[of];
        c->host[of].nic_bps = nics_bps[of];
        c->host[of].armed_ns = NEVER_NS;
    }
    c->number = zeroed(c->switches, sizeof(int64_t));
    c->first = zeroed(n->links, sizeof(int64_t));
    c->load_bps = zeroed(n->links * c->width, sizeof(double));
    shared[1] = shared[3] = NEVER_NS;
    return c;
}

/* ---- Jobs come and leave ---- */

static void free_flow(struct planned_flow *flow)
{
    for (int64_t k = 0; k < flow->places; k++) {
        free(flow->place[k].link);
        free(flow->place[k].own_bps);
        free(flow->place[k].said.available_bps);
        free(flow->place[k].said.load);
    }
    void *const held[] = {flow->plan_bps, flow->grant.available_bps, flow->grant.load, flow->upstream_flow,
                          flow->downstream_flow, flow->said_at, flow->place};
    for (size_t at = 0; at < sizeof held / sizeof held[0]; at++)
        free(held[at]);
    memset(flow, 0, sizeof(struct planned_flow));
}

void planned_add_job(struct planned *c, int64_t of, int64_t switches)
{
    c->job = grown(c->job, &c->jobs, of + 1, sizeof(struct planned_job));
    free(c->job[of].heard_slot);
    free(c->job[of].memory);
    c->job[of].switches = switches;
    c->job[of].heard_slot = zeroed(switches, sizeof(int64_t));
    c->job[of].memory = zeroed(switches, sizeof(int64_t));
}

static int64_t *copied(const int64_t *numbers, int64_t count)
{
    int64_t *copy = zeroed(count, sizeof(int64_t));
    memcpy(copy, numbers, sizeof(int64_t) * (size_t)count);
    return copy;
}

/* `places`: of each switch on the path its number, its place among the job's, and how many links follow: those it keeps.
 * `neighbours`: the flows upstream, then those downstream. */
void planned_add_flow(struct planned *c, int64_t of, const int64_t *facts, double size_bytes, double window_bytes,
                      const int64_t *places, const int64_t *neighbours)
{
    c->flow = grown(c->flow, &c->flows, of + 1, sizeof(struct planned_flow));
    struct planned_flow *flow = c->flow + of;
    free_flow(flow);   /* of whoever had the number */
    flow->row = facts[0];
    flow->host = facts[1];
    flow->job = facts[2];
    flow->push = facts[3];
    flow->places = facts[4];
    flow->upstream = facts[5];
    flow->downstream = facts[6];
    flow->present = 1;
    flow->replanned_slot = -1;
    flow->size_bytes = size_bytes;
    flow->window_bytes = window_bytes;
    flow->rate_bps = flow->ceiling_bps = INFINITY;
    flow->plan_bps = zeroed(c->horizon, sizeof(double));
    flow->grant.available_bps = zeroed(c->horizon, sizeof(double));
    flow->grant.load = zeroed(c->horizon, sizeof(double));
    struct planned_host *host = c->host + flow->host;
    flow->estimate.line_rate_bps = host->nic_bps;
    flow->stretches.whole_slots = c->whole_slots;
    flow->upstream_flow = copied(neighbours, flow->upstream);
    flow->downstream_flow = copied(neighbours + flow->upstream, flow->downstream);
    flow->said_at = zeroed(flow->places, sizeof(int64_t));
    flow->place = zeroed(flow->places, sizeof(struct place));
    for (int64_t k = 0; k < flow->places; k++) {
        struct place *place = flow->place + k;
        place->at = *places++;
        place->of_job = *places++;
        place->links = *places++;
        place->link = copied(places, place->links);
        places += place->links;
        place->own_bps = zeroed(c->width, sizeof(double));
        place->said.available_bps = zeroed(c->horizon, sizeof(double));
        place->said.load = zeroed(c->horizon, sizeof(double));
    }
    host->flow = roomy(host->flow, &host->room, host->flows + 1, sizeof(int64_t));
    host->flow[host->flows++] = of;
}

static void show_next(struct planned *c) { c->shared[3] = c->messages ? c->heap[0].when_ns : NEVER_NS; }

/* A job comes to a host or leaves it, or its iteration ends there: the host reads its counters. */
void planned_touch(struct planned *c, int64_t host, int64_t now_ns)
{
    observe_flows(c, c->host + host, now_ns);
    arm_host(c, host, now_ns);
    show_next(c);
}

/* These flows leave a host; none of its counters is read of flows that leave. */
void planned_stop(struct planned *c, const int64_t *flows, int64_t count)
{
    for (int64_t at = 0; at < count; at++)
        c->flow[flows[at]].counted = 0;
}

void planned_leave(struct planned *c, int64_t of, const int64_t *flows, int64_t count, int64_t now_ns)
{
    struct planned_host *host = c->host + of;
    observe_flows(c, host, now_ns);
    withdraw_flows(c, of, flows, count, now_ns);
    for (int64_t at = 0; at < count; at++) {
        struct planned_flow *flow = c->flow + flows[at];
        c->live -= flow->live;
        flow->live = flow->present = 0;
    }
    int64_t kept = 0;
    for (int64_t at = 0; at < host->flows; at++)
        if (c->flow[host->flow[at]].present)
            host->flow[kept++] = host->flow[at];
    host->flows = kept;
    arm_host(c, of, now_ns);
    show_next(c);
}

/* ---- Bursts ---- */

void planned_ready(struct planned *c, const int64_t *flows, int64_t count, int64_t iteration, int64_t now_ns)
{
    for (int64_t first = 0; first < count; first++) {   /* host by host */
        const int64_t host = c->flow[flows[first]].host;
        int64_t earlier = 0, together = 0, of_host[count];
        while (earlier < first && c->flow[flows[earlier]].host != host)
            earlier++;
        if (earlier < first)
            continue;
        observe_flows(c, c->host + host, now_ns);
        for (int64_t at = first; at < count; at++)
            if (c->flow[flows[at]].host == host)
                flow_ready(c, of_host[together++] = flows[at], iteration, now_ns);
        claim_ready(c, host, of_host, together, now_ns);
        arm_host(c, host, now_ns);
    }
    show_next(c);
}

void planned_done(struct planned *c, int64_t of, int64_t now_ns)
{
    const int64_t host = c->flow[of].host;
    c->flow[of].counted = 0;
    observe_flows(c, c->host + host, now_ns);
    flow_done(c, of, now_ns);
    arm_host(c, host, now_ns);
    show_next(c);
}

void planned_run(struct planned *c, int64_t now_ns)
{
    if (!c->messages || c->heap[0].when_ns > now_ns)
        return;
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    handle_messages(c, now_ns);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    c->decision_ns = roomy(c->decision_ns, &c->decisions_room, c->decisions + 1, sizeof(int64_t));
    c->decision_ns[c->decisions++] = (ended.tv_sec - began.tv_sec) * 1000000000 + ended.tv_nsec - began.tv_nsec;
    show_next(c);
}

double planned_peak_ratio(const struct planned *c) { return c->peak_ratio; }

/* How often messages were handled, and how long each time took in ns. */
int64_t planned_decisions(const struct planned *c, const int64_t **ns)
{
    *ns = c->decision_ns;
    return c->decisions;
}

void planned_free(struct planned *c)
{
    for (int64_t of = 0; of < c->flows; of++) {
        struct pending *report = c->flow[of].pending;
        if (report != NULL && report->flow[0] == of) {
            free(report->flow);
            free(report);
        }
    }
    for (int64_t of = 0; of < c->flows; of++)
        free_flow(c->flow + of);
    for (int64_t of = 0; of < c->hosts; of++)
        free(c->host[of].flow);
    for (int64_t of = 0; of < c->jobs; of++) {
        free(c->job[of].heard_slot);
        free(c->job[of].memory);
    }
    for (int64_t at = 0; at < c->messages; at++)
        free(c->heap[at].words);
    void *const held[] = {c->flow, c->host, c->job, c->number, c->first, c->load_bps, c->heap, c->decision_ns};
    for (size_t at = 0; at < sizeof held / sizeof held[0]; at++)
        free(held[at]);
    free(c);
}
