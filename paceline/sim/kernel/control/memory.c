/* Memory that grows, and the control's: jobs come and leave. */

#include <stdlib.h>

#include "control.h"

void *roomy(void *memory, int64_t *room, int64_t wanted, size_t size)
{
    if (wanted <= *room)
        return memory;
    *room = 2 * wanted;
    return realloc(memory, size * (size_t)*room);
}

void put(list *to, int64_t item)
{
    to->items = roomy(to->items, &to->room, to->count + 1, sizeof(int64_t));
    to->items[to->count++] = item;
}

void *zeroed(int64_t count, size_t size) { return calloc((size_t)(count > 0 ? count : 1), size); }

void *grown(void *memory, int64_t *room, int64_t wanted, size_t size)
{
    const int64_t before = *room;
    char *found = roomy(memory, room, wanted, size);
    if (*room > before)
        memset(found + (size_t)before * size, 0, size * (size_t)(*room - before));
    return found;
}

/* `above`: MOST_TIERS switches of each ToR, -1 behind them; `has_parent`: of each switch. */
struct control *control_new(struct network *n, const struct rules *rules, const int64_t *options, bid_function bid,
                            int64_t *shared, const int64_t *above, const int64_t *has_parent)
{
    struct control *c = zeroed(1, sizeof(struct control));
    int64_t *const fields[] = {&c->slot_ns, &c->half_slot_ns, &c->epoch_ns, &c->latency_ns, &c->lends, &c->strict,
                               &c->few_flows, &c->ns_per_job, &c->jobs_at_no_cost, &c->tors, &c->switches, &c->hosts};
    for (size_t at = 0; at < sizeof fields / sizeof fields[0]; at++)
        *fields[at] = options[at];
    c->n = n;
    c->rules = *rules;
    c->bid = bid;
    c->shared = shared;
    c->links = n->links;
    c->reallocate_ns = c->tick_ns = NEVER_NS;
    c->group_on = zeroed(c->links, sizeof(int64_t));
    c->seen_on = zeroed(c->links, sizeof(int64_t));
    c->link_stamp = zeroed(c->links, sizeof(int64_t));
    c->taken = zeroed(c->links, sizeof(double));
    c->sum = zeroed(c->links, sizeof(double));
    c->price = zeroed(c->links, sizeof(double));
    c->left = zeroed(c->links, sizeof(double));
    c->host_place = zeroed(c->hosts, sizeof(int64_t));
    c->host_stamp = zeroed(c->hosts, sizeof(int64_t));
    for (int64_t link = 0; link < c->links; link++)
        c->group_on[link] = -1;
    c->above = zeroed(c->tors * MOST_TIERS, sizeof(int64_t));
    memcpy(c->above, above, sizeof(int64_t) * (size_t)(c->tors * MOST_TIERS));
    c->has_parent = zeroed(c->switches, sizeof(int64_t));
    memcpy(c->has_parent, has_parent, sizeof(int64_t) * (size_t)c->switches);
    c->times = zeroed(c->switches * (MOST_TIERS + 1), sizeof(list));
    for (int64_t at = 0; at < SLOTS_ON_THE_WAY; at++) {
        c->slots[at].sent = zeroed(n->rows, sizeof(double));
        c->slots[at].goal = zeroed(n->rows, sizeof(double));
    }
    c->slots_taken = 1;
    shared[1] = shared[3] = NEVER_NS;
    return c;
}

int64_t control_add_contender(struct control *c, const char *name, int64_t level, double alone_ns)
{
    if (!c->free_contenders.count) {
        const int64_t before = c->contenders;
        c->contender = grown(c->contender, &c->contenders, before + 1, sizeof(struct contender));
        for (int64_t of = c->contenders - 1; of >= before; of--)
            put(&c->free_contenders, of);
    }
    const int64_t of = c->free_contenders.items[--c->free_contenders.count];
    struct contender *contender = c->contender + of;
    contender->name = zeroed((int64_t)strlen(name) + 1, 1);
    memcpy(contender->name, name, strlen(name));
    contender->level = level;
    contender->delay_ns = level * c->latency_ns;
    contender->alone_ns = alone_ns;
    contender->group = -1;
    contender->touched = contender->counted = 0;
    return of;
}

void control_add_part(struct control *c, int64_t of, int64_t contender, int64_t tor, double size_bytes, double alone_ns,
                      double weight, double iterations, int64_t now_ns)
{
    c->part = grown(c->part, &c->part_rows, of + 1, sizeof(struct part));
    struct part *part = c->part + of;
    part->progress = (struct progress){weight, 0.0, alone_ns, 1.0, iterations, 1, 0, now_ns, now_ns, 0};
    part->tor = tor;
    part->contender = contender;
    part->told = part->flows.count = 0;
    part->bid_ns = now_ns;
    part->size_bytes = size_bytes;
    part->counted_bytes = 0.0;
    put(&c->contender[contender].parts, of);
}

void control_add_flow(struct control *c, int64_t row, int64_t part, int64_t host, double nic_bps, double size_bytes,
                      const int64_t *seen, int64_t links, const int64_t *passes, int64_t switches)
{
    c->flow = grown(c->flow, &c->rows, row + 1, sizeof(struct flow));
    struct flow *flow = c->flow + row;
    const struct flow before = *flow;   /* of whoever had the row */
    memset(flow, 0, sizeof(struct flow));
    flow->iterations = before.iterations;
    flow->promised_listed = before.promised_listed;
    flow->unclaimed_listed = before.unclaimed_listed;
    flow->seen = before.seen;
    flow->passes = before.passes;
    flow->seen.count = flow->passes.count = 0;
    flow->part = part;
    flow->host = host;
    flow->nic_bps = nic_bps;
    flow->size_bytes = size_bytes;
    for (int64_t at = 0; at < links; at++)
        put(&flow->seen, seen[at]);
    for (int64_t at = 0; at < switches; at++)
        put(&flow->passes, passes[at]);
    put(&c->part[part].flows, row);
}

double control_peak_ratio(const struct control *c) { return c->peak_ratio; }

/* How many decisions there were, and how long each took in ns. */
int64_t control_decisions(const struct control *c, const int64_t **ns)
{
    *ns = c->decisions.items;
    return c->decisions.count;
}

void control_free(struct control *c)
{
    struct scratch *s = &c->scratch;
    void *const held[] = {c->group_on, c->seen_on, c->link_stamp, c->taken, c->sum, c->price, c->left, c->host_place,
                          c->host_stamp, c->above, c->has_parent, c->promised.items, c->unclaimed.items,
                          c->touched.items, c->several.items, c->fresh.items, c->free_groups.items,
                          c->free_contenders.items, c->found.items, c->decisions.items, s->rows, s->path, s->host,
                          s->member, s->next, s->head, s->first, s->link, s->order, s->spare, s->names, s->share,
                          s->ceiling, s->of_host, s->of_job, s->counts, s->use, s->weight, s->rates, s->worth, s->pays,
                          s->alone, s->cells, s->tableau};
    for (size_t at = 0; at < sizeof held / sizeof held[0]; at++)
        free(held[at]);
    for (int64_t at = 0; at < c->switches * (MOST_TIERS + 1); at++)
        free(c->times[at].items);
    for (int64_t row = 0; row < c->rows; row++) {
        free(c->flow[row].seen.items);
        free(c->flow[row].passes.items);
    }
    for (int64_t of = 0; of < c->part_rows; of++)
        free(c->part[of].flows.items);
    for (int64_t of = 0; of < c->contenders; of++) {
        struct contender *contender = c->contender + of;
        free(contender->name);
        free(contender->parts.items);
        free(contender->entered.items);
        free(contender->links.items);
        free(contender->flows_on);
    }
    for (int64_t at = 0; at < c->groups; at++)
        free(c->group[at].members.items);
    for (int64_t at = 0; at < SLOTS_ON_THE_WAY; at++) {
        free(c->slots[at].sent);
        free(c->slots[at].goal);
    }
    for (int64_t at = 0; at < c->events; at++)
        free(c->heap[at].entry);
    free(c->times);
    free(c->flow);
    free(c->part);
    free(c->contender);
    free(c->group);
    free(c->heap);
    free(c);
}
