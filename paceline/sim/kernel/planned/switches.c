/* What a switch does about a message: switch/agent.py without arbitration, with its claims, federation and pending
 * reports. */

#include <stdlib.h>

#include "planned.h"

static struct planned_flow *named(const struct planned *c, const struct message *m, int64_t word)
{
    return c->flow + (int64_t)m->words[word * c->stride];
}

/* ---- Claims: switch/claims.py ---- */

/* A job that no report has named for long is forgotten: what was known of its flows is of another memory. */
static void note_claim(struct planned *c, const struct message *m, int64_t word, int64_t slot)
{
    struct planned_flow *flow = named(c, m, word);
    struct place *place = place_at(flow, m->to);
    struct planned_job *job = c->job + flow->job;
    const double *words = m->words + word * c->stride;
    if (!job->memory[place->of_job] || slot - job->heard_slot[place->of_job] > c->rules.job_memory_slots)
        job->memory[place->of_job]++;
    job->heard_slot[place->of_job] = slot;
    if (!place->in_table)
        place->in_table = place->accepted = 1;
    place->volume_bytes = words[1] + words[2];
    place->known = job->memory[place->of_job];
}

/* F of another flow of the job, in the asker's bytes. */
static int volume_of(const struct planned *c, const struct planned_flow *asker, const struct place *at, int64_t of,
                     double *volume)
{
    const struct planned_flow *flow = c->flow + of;
    const struct place *place = place_at(flow, at->at);
    if (place == NULL || !place->known || place->known != c->job[asker->job].memory[at->of_job])
        return 0;
    *volume = place->volume_bytes * (flow->size_bytes != 0.0 ? asker->size_bytes / flow->size_bytes : 1.0);
    return 1;
}

static void write_grant(struct planned *c, struct planned_flow *flow, struct place *place, int64_t slot, double *words)
{
    double upstream = INFINITY, downstream = 0.0, volume;
    for (int64_t at = 0; at < flow->upstream; at++)
        upstream = smaller(upstream, volume_of(c, flow, place, flow->upstream_flow[at], &volume) ? volume : 0.0);
    for (int64_t at = 0; at < flow->downstream; at++)
        if (volume_of(c, flow, place, flow->downstream_flow[at], &volume) && volume < INFINITY)
            downstream = larger(downstream, volume);
    words[0] = (double)(flow - c->flow);
    words[1] = (double)place->accepted;
    words[2] = upstream;
    words[3] = downstream;
    view_links(c, place, slot, words + 4, words + 4 + c->horizon);
}

/* messages/grants.py: merged, of what the other switches said last, shifted to now. */
static void merge_grants(const struct planned *c, const struct planned_flow *flow, int64_t slot, double *words)
{
    for (int64_t at = 0; at < flow->said; at++) {
        const struct grant *said = &flow->place[flow->said_at[at]].said;
        const int64_t shift = slot > said->first_slot ? slot - said->first_slot : 0;
        words[1] = words[1] != 0.0 && said->accepted ? 1.0 : 0.0;
        words[2] = larger(words[2], said->upstream_bytes);
        words[3] = larger(words[3], said->downstream_bytes);
        for (int64_t t = 0; t + shift < c->horizon; t++) {
            words[4 + t] = smaller(words[4 + t], said->available_bps[t + shift]);
            words[4 + c->horizon + t] += said->load[t + shift];
        }
    }
}

/* ---- Answers ---- */

/* To a host about its flows, from their ToR. */
static void answer_host(struct planned *c, int64_t at, const int64_t *flows, int64_t count, int64_t now_ns)
{
    const int64_t slot = slot_at(c, now_ns);
    for (int64_t first = 0; first < count; first++) {
        const int64_t host = c->flow[flows[first]].host;
        int64_t earlier = 0;
        while (earlier < first && c->flow[flows[earlier]].host != host)
            earlier++;
        if (earlier < first)
            continue;
        struct message m = new_message(c, ANSWER, host, at, count);
        for (int64_t of = first; of < count; of++) {
            struct planned_flow *flow = c->flow + flows[of];
            if (flow->host != host || !flow->place[0].in_table || (flow->pending && flow->waits))
                continue;
            write_grant(c, flow, flow->place, slot, m.words + m.count * c->stride);
            merge_grants(c, flow, slot, m.words + m.count++ * c->stride);
        }
        if (m.count)
            send_message(c, m, now_ns + c->latency_ns);
        else
            free(m.words);
    }
}

static void complete(struct planned *c, int64_t at, struct pending *report, int64_t now_ns)
{
    for (int64_t of = 0; of < report->flows; of++)
        c->flow[report->flow[of]].pending = NULL;
    answer_host(c, at, report->flow, report->flows, now_ns);
    free(report->flow);
    free(report);
}

/* PendingReports.stop: the report, if it is to be answered now. */
static struct pending *stop_waiting(struct planned *c, int64_t of)
{
    struct planned_flow *flow = c->flow + of;
    struct pending *report = flow->pending;
    if (report == NULL)
        return NULL;
    const int was_missing = flow->waits != 0;
    int64_t kept = 0;
    for (int64_t at = 0; at < report->flows; at++)
        if (report->flow[at] != of)
            report->flow[kept++] = report->flow[at];
    report->flows = kept;
    report->waiting -= was_missing;
    flow->pending = NULL;
    flow->waits = 0;
    if (was_missing && !report->flows) {
        free(report->flow);
        free(report);
        return NULL;
    }
    return was_missing && !report->waiting ? report : NULL;   /* else it was returned before, or waits on */
}

/* ---- Reports ---- */

/* To each other switch on the flows' paths one message with what concerns its links. */
static void forward(struct planned *c, const struct message *m, int64_t kind, int64_t number, int64_t first_slot,
                    int64_t now_ns)
{
    int64_t messages = 0, room = 0;
    struct message *to = NULL;
    for (int64_t word = 0; word < m->count; word++) {
        const struct planned_flow *flow = named(c, m, word);
        if (!flow->forwarded)
            continue;
        for (int64_t k = 1; k < flow->places; k++) {
            int64_t at = 0;
            while (at < messages && to[at].to != flow->place[k].at)
                at++;
            if (at == messages) {
                to = roomy(to, &room, ++messages, sizeof(struct message));
                to[at] = new_message(c, kind, flow->place[k].at, m->to, m->count);
            }
            memcpy(to[at].words + to[at].count++ * c->stride, m->words + word * c->stride,
                   sizeof(double) * (size_t)c->stride);
        }
    }
    for (int64_t at = 0; at < messages; at++) {
        to[at].number = number;
        to[at].first_slot = first_slot;
        send_message(c, to[at], now_ns + c->latency_ns);
    }
    free(to);
}

static void take_claims(struct planned *c, const struct message *m, int64_t now_ns)
{
    const int64_t slot = slot_at(c, now_ns);
    c->awake_until_slot = slot + c->rules.job_memory_slots;
    for (int64_t word = 0; word < m->count; word++)
        note_claim(c, m, word, slot);
    enter_plans(c, m->to, m, slot);
    arm_ticks(c, now_ns);
}

static void host_claims(struct planned *c, const struct message *m, int64_t now_ns)
{
    int64_t *number = c->number + m->to, replaced = 0, flows[m->count];
    struct pending *complete_now[m->count];
    *number = *number + 1 > now_ns ? *number + 1 : now_ns;
    for (int64_t word = 0; word < m->count; word++) {
        flows[word] = (int64_t)m->words[word * c->stride];
        c->flow[flows[word]].forwarded = 1;
    }
    forward(c, m, FORWARDED, *number, m->first_slot, now_ns);
    for (int64_t word = 0; word < m->count; word++) {
        struct pending *older = stop_waiting(c, flows[word]);
        if (older != NULL)
            complete_now[replaced++] = older;
    }
    for (int64_t at = 0; at < replaced; at++)
        complete(c, m->to, complete_now[at], now_ns);
    take_claims(c, m, now_ns);
    struct pending *report = calloc(1, sizeof(struct pending));
    report->number = m->number;
    report->forwarded = *number;
    report->flow = malloc(sizeof(int64_t) * (size_t)m->count);
    for (int64_t word = 0; word < m->count; word++) {
        struct planned_flow *flow = c->flow + flows[word];
        report->flow[report->flows++] = flows[word];
        flow->waits = ((int64_t)1 << flow->places) - 2;   /* every place but the first */
        report->waiting += flow->waits != 0;
    }
    if (!report->waiting) {
        complete(c, m->to, report, now_ns);
        return;
    }
    for (int64_t word = 0; word < m->count; word++)
        c->flow[flows[word]].pending = report;
}

static void forget_volume(struct planned *c, const struct message *m, int64_t word)
{
    struct planned_flow *flow = named(c, m, word);
    struct place *place = place_at(flow, m->to);
    drop_entry(c, place);
    if (c->job[flow->job].memory[place->of_job]) {
        place->volume_bytes = m->words[word * c->stride + 1];
        place->known = c->job[flow->job].memory[place->of_job];
    }
}

static void host_withdraws(struct planned *c, const struct message *m, int64_t now_ns)
{
    int64_t *number = c->number + m->to;
    *number = *number + 1 > now_ns ? *number + 1 : now_ns;
    forward(c, m, FORWARDED_GONE, *number, slot_at(c, now_ns), now_ns);
    for (int64_t word = 0; word < m->count; word++) {
        struct planned_flow *flow = named(c, m, word);
        flow->forwarded = flow->said = 0;
        for (int64_t k = 0; k < flow->places; k++)
            flow->place[k].has_said = 0;
        forget_volume(c, m, word);
        struct pending *report = stop_waiting(c, flow - c->flow);
        if (report != NULL)
            complete(c, m->to, report, now_ns);
    }
}

/* From a ToR: answered at once. */
static void tor_claims(struct planned *c, const struct message *m, int64_t now_ns)
{
    c->number[m->to] = c->number[m->to] + 1 > now_ns ? c->number[m->to] + 1 : now_ns;
    take_claims(c, m, now_ns);
    struct message answer = new_message(c, SAID, m->from, m->to, m->count);
    answer.number = m->number;
    answer.first_slot = slot_at(c, now_ns);
    for (int64_t word = 0; word < m->count; word++) {
        struct planned_flow *flow = named(c, m, word);
        write_grant(c, flow, place_at(flow, m->to), answer.first_slot, answer.words + answer.count++ * c->stride);
    }
    send_message(c, answer, now_ns + c->latency_ns);
}

/* Another switch has answered. */
static void tor_hears(struct planned *c, const struct message *m, int64_t now_ns)
{
    int64_t reports = 0, news = 0, fresh[m->count];
    struct pending *complete_now[m->count];
    for (int64_t word = 0; word < m->count; word++) {
        const double *words = m->words + word * c->stride;
        struct planned_flow *flow = named(c, m, word);
        struct place *place = place_at(flow, m->from);
        if (!flow->forwarded || place == NULL)
            continue;
        const int64_t bit = (int64_t)1 << (place - flow->place);
        if (!place->has_said)
            flow->said_at[flow->said++] = place - flow->place;
        place->has_said = 1;
        place->said.accepted = words[1] != 0.0;
        place->said.upstream_bytes = words[2];
        place->said.downstream_bytes = words[3];
        place->said.first_slot = m->first_slot;
        memcpy(place->said.available_bps, words + 4, sizeof(double) * (size_t)c->horizon);
        memcpy(place->said.load, words + 4 + c->horizon, sizeof(double) * (size_t)c->horizon);
        struct pending *report = flow->pending;
        if (report == NULL) {
            fresh[news++] = flow - c->flow;
        } else if ((flow->waits & bit) && m->number >= report->forwarded) {
            flow->waits &= ~bit;
            report->waiting -= flow->waits == 0;
            if (!report->waiting)
                complete_now[reports++] = report;
        }
    }
    for (int64_t at = 0; at < reports; at++)
        complete(c, m->to, complete_now[at], now_ns);
    answer_host(c, m->to, fresh, news, now_ns);
}


void switch_hears(struct planned *c, const struct message *m, int64_t now_ns)
{
    switch (m->kind) {
    case CLAIMS:
        host_claims(c, m, now_ns);
        break;
    case GONE:
        host_withdraws(c, m, now_ns);
        break;
    case FORWARDED:
        tor_claims(c, m, now_ns);
        break;
    case FORWARDED_GONE:
        for (int64_t word = 0; word < m->count; word++)
            forget_volume(c, m, word);
        break;
    default:
        tor_hears(c, m, now_ns);
    }
}
