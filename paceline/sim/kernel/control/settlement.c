/* Dividing the links among the jobs that claim them: the shares of array/settlement.py. Only groups in which something
 * changed are settled anew; what does not depend on bids is cheap enough here to be worked out again. */

#include <stdlib.h>

#include "control.h"

static struct bid bid_of(const struct control *c, const struct contender *contender)
{
    const struct bid *best = &c->flow[contender->entered.items[0]].bid;
    for (int64_t at = 1; at < contender->entered.count; at++)
        if (more_urgent(&c->flow[contender->entered.items[at]].bid, best))
            best = &c->flow[contender->entered.items[at]].bid;
    return *best;
}

static double alone_bps(const struct control *c, const struct contender *contender)
{
    double least = INFINITY;
    for (int64_t e = 0; e < contender->links.count; e++)
        least = smaller(c->n->capacity[contender->links.items[e]] / contender->flows_on[e], least);
    return least;
}

/* strict_priority: each takes what those before it left. */
static void in_turn(struct control *c, int64_t jobs)
{
    struct scratch *s = &c->scratch;
    for (int64_t e = 0; e < s->first[jobs]; e++)
        c->left[s->link[e]] = c->n->capacity[s->link[e]];
    for (int64_t job = 0; job < jobs; job++)
        s->order[job] = job;
    sort_by_worth(s->worth, s->order, s->spare, jobs);
    for (int64_t place = 0; place < jobs; place++) {
        const int64_t job = s->order[place];
        double rate = INFINITY;
        for (int64_t e = s->first[job]; e < s->first[job + 1]; e++)
            rate = smaller(c->left[s->link[e]] / s->counts[e], rate);
        s->rates[job] = rate = larger(rate, 0.0);
        for (int64_t e = s->first[job]; rate != 0.0 && e < s->first[job + 1]; e++)
            c->left[s->link[e]] -= s->counts[e] * rate;
    }
}

static void pack(struct control *c, int64_t jobs)
{
    struct scratch *s = &c->scratch;
    if (jobs > c->rules.largest_exact) {
        struct prices prices = {jobs, c->links, c->rules.rounds, s->first, s->link, s->counts, c->n->capacity,
                                s->weight, s->use, c->price, c->left, s->worth, s->pays, s->order, s->spare, s->rates};
        price_rates(&prices);
        return;
    }
    const int64_t entries = s->first[jobs];
    s->cells = roomy(s->cells, &s->cells_room, entries * jobs, sizeof(double));
    s->tableau = roomy(s->tableau, &s->tableau_room, (entries + 1) * (jobs + entries + 1), sizeof(double));
    struct packing packing = {jobs, 0, s->first, s->link, s->counts, c->n->capacity, s->alone, s->cells, s->names,
                              s->tableau};
    packing_rows(&packing);
    packing_rates(&packing, s->weight, s->rates);
}

/* Of each job's flows, in scratch.rates. */
static void find_rates(struct control *c, const list *members)
{
    const int64_t jobs = members->count;
    struct scratch *s = &c->scratch;
    gather_links(c, members);
    if (jobs == 1) {   /* nothing but a full link holds a job back, whatever the arbiter */
        s->rates[0] = alone_bps(c, c->contender + members->items[0]);
        return;
    }
    struct bid bids[jobs];
    for (int64_t job = 0; job < jobs; job++) {
        bids[job] = bid_of(c, c->contender + members->items[job]);
        s->worth[job] = bids[job].urgency;
    }
    if (c->strict) {
        in_turn(c, jobs);
        return;
    }
    weights_of_paceline(&c->rules, jobs, bids, s->weight);
    pack(c, jobs);
}

static void room_for_flows(struct scratch *s, int64_t flows, int64_t hops)
{
    if (flows * (hops + 1) <= s->room)
        return;
    s->room = 2 * flows * (hops + 1);
    const size_t size = sizeof(double) * (size_t)s->room;
    s->rows = realloc(s->rows, size);
    s->path = realloc(s->path, size);
    s->host = realloc(s->host, size);
    s->member = realloc(s->member, size);
    s->next = realloc(s->next, size);
    s->head = realloc(s->head, size);
    s->share = realloc(s->share, size);
    s->ceiling = realloc(s->ceiling, size);
    s->of_host = realloc(s->of_host, size);
    s->of_job = realloc(s->of_job, size);
}

/* The group's flows, one job's after the other, with their shares and the ceilings of these; how many. */
static int64_t find_shares(struct control *c, const struct group *group)
{
    struct scratch *s = &c->scratch;
    const list *members = &group->members;
    int64_t flows = 0, hops = 1, hosts = 0;
    for (int64_t m = 0; m < members->count; m++) {
        const list *entered = &c->contender[members->items[m]].entered;
        flows += entered->count;
        for (int64_t at = 0; at < entered->count; at++)
            if (c->flow[entered->items[at]].seen.count > hops)
                hops = c->flow[entered->items[at]].seen.count;
    }
    room_for_flows(s, flows, hops);
    c->stamp++;
    flows = 0;
    for (int64_t m = 0; m < members->count; m++) {
        const list *entered = &c->contender[members->items[m]].entered;
        for (int64_t at = 0; at < entered->count; at++, flows++) {
            const struct flow *flow = c->flow + entered->items[at];
            if (c->host_stamp[flow->host] != c->stamp) {
                c->host_stamp[flow->host] = c->stamp;
                c->host_place[flow->host] = hosts++;
            }
            s->rows[flows] = entered->items[at];
            s->host[flows] = c->host_place[flow->host];
            s->member[flows] = m;
            s->share[flows] = s->rates[m];
            for (int64_t h = 0; h < hops; h++)
                s->path[flows * hops + h] = h < flow->seen.count ? flow->seen.items[h] : c->links - 1;
        }
    }
    struct borrowing borrowing = {flows, hops, c->links, hosts > members->count ? hosts : members->count, s->share,
                                  c->n->capacity, s->path, s->host, s->member, c->rules.nearly_all, c->taken, c->sum,
                                  c->price, s->of_host, s->of_job, s->next, s->head, s->ceiling};
    borrow(&borrowing);
    for (int64_t e = 0; flows <= c->few_flows && e < flows * hops; e++)
        if (s->path[e] < c->links - 1)
            c->peak_ratio = larger(c->taken[s->path[e]] / c->n->capacity[s->path[e]], c->peak_ratio);
    return flows;
}

/* Whose share or ceiling is another than before; how many. */
static int64_t settle_group(struct control *c, struct group *group, settled tell, int64_t now_ns)
{
    find_rates(c, &group->members);
    const int64_t flows = find_shares(c, group);
    struct scratch *s = &c->scratch;
    int64_t entries = 0;
    struct entry *entry = malloc(sizeof(struct entry) * (size_t)flows);
    for (int64_t f = 0; f < flows; f++) {
        struct flow *flow = c->flow + s->rows[f];
        if (flow->share == s->share[f] && flow->ceiling == s->ceiling[f])
            continue;
        flow->share = s->share[f];
        flow->ceiling = s->ceiling[f];
        entry[entries++] = (struct entry){s->rows[f], flow->iterations, s->share[f], s->ceiling[f]};
    }
    if (entries)
        tell(c, group, entries, entry, now_ns);
    else
        free(entry);
    return entries ? group->members.count : 0;
}

int64_t settle(struct control *c, int64_t newest_ns, int64_t now_ns, bids_reader read, settled tell)
{
    int64_t most = 0, kept = 0;
    c->fresh.count = 0;
    if (c->touched.count)
        regroup(c);
    for (int64_t at = 0; at < c->fresh.count; at++) {
        struct group *group = current_group(c, c->fresh.items[at]);
        if (group->members.count == 1) {
            const int64_t jobs = settle_group(c, group, tell, now_ns);
            most = jobs > most ? jobs : most;
        }
    }
    for (int64_t at = 0; at < c->several.count; at++) {
        struct group *group = current_group(c, c->several.items[at]);
        if (!group)
            continue;
        c->several.items[kept++] = group->number;
        const int news = group->read_ns < newest_ns && read(c, group, now_ns);
        if (news || group->fresh) {
            const int64_t jobs = settle_group(c, group, tell, now_ns);
            most = jobs > most ? jobs : most;
        }
        group->fresh = 0;
    }
    c->several.count = kept;
    return most;
}
