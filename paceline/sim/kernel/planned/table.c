/* A switch's load table: switch/load_table.py. Loads and the flows' own rates lie by slot % width, in windows that move
 * on when they are looked at. */

#include "planned.h"

struct place *place_at(const struct planned_flow *flow, int64_t at)
{
    for (int64_t k = 0; k < flow->places; k++)
        if (flow->place[k].at == at)
            return flow->place + k;
    return NULL;
}

static void move_on(const struct planned *c, double *rates_bps, int64_t *first, int64_t slot)
{
    const int64_t end = slot < *first + c->width ? slot : *first + c->width;
    for (int64_t t = *first; t < end; t++)
        rates_bps[t % c->width] = 0.0;
    *first = slot > *first ? slot : *first;
}

static double *load_of(const struct planned *c, int64_t link) { return c->load_bps + link * c->width; }

static void move_place(struct planned *c, struct place *place, int64_t slot)
{
    move_on(c, place->own_bps, &place->first, slot);
    for (int64_t at = 0; at < place->links; at++)
        move_on(c, load_of(c, place->link[at]), c->first + place->link[at], slot);
}

/* All of these plans, or none: hop by hop, as numpy adds them up. */
static int replace_plans(struct planned *c, int64_t at, const struct message *report, int64_t from, int64_t until)
{
    const int64_t width = c->width, horizon = c->horizon;
    double highest = 0.0, added[(until - from) * width];
    struct place *place[until - from];
    int64_t longest = 0, flows = 0;
    for (int64_t word = from; word < until; word++) {
        const double *words = report->words + word * c->stride;
        if (words[3] == 0.0)
            continue;   /* it only asks */
        struct place *of = place[flows] = place_at(c->flow + (int64_t)words[0], at);
        double *change = added + flows++ * width;
        for (int64_t t = 0; t < width; t++)
            change[t] = -of->own_bps[t];
        for (int64_t t = 0; t < horizon; t++) {
            const int64_t slot = report->first_slot + t;
            if (slot >= of->first)
                change[slot % width] = words[4 + t] - of->own_bps[slot % width];
        }
        longest = of->links > longest ? of->links : longest;
    }
    double saved[(flows ? flows * longest : 1) * width];
    for (int64_t hop = 0; hop < longest; hop++)
        for (int64_t f = 0; f < flows; f++)
            if (hop < place[f]->links) {
                double *load = load_of(c, place[f]->link[hop]);
                memcpy(saved + (hop * flows + f) * width, load, sizeof(double) * (size_t)width);
                for (int64_t t = 0; t < width; t++)
                    load[t] += added[f * width + t];
            }
    for (int64_t hop = 0; hop < longest; hop++)
        for (int64_t f = 0; f < flows; f++)
            if (hop < place[f]->links)
                for (int64_t t = 0; t < width; t++)
                    highest = larger(highest, load_of(c, place[f]->link[hop])[t] / c->n->capacity[place[f]->link[hop]]);
    if (highest > c->rules.slack) {
        for (int64_t hop = longest - 1; hop >= 0; hop--)
            for (int64_t f = flows - 1; f >= 0; f--)
                if (hop < place[f]->links)
                    memcpy(load_of(c, place[f]->link[hop]), saved + (hop * flows + f) * width,
                           sizeof(double) * (size_t)width);
        return 0;
    }
    c->peak_ratio = larger(c->peak_ratio, highest);
    for (int64_t word = from, f = 0; word < until; word++) {
        const double *words = report->words + word * c->stride;
        if (words[3] == 0.0)
            continue;
        memset(place[f]->own_bps, 0, sizeof(double) * (size_t)width);
        for (int64_t t = 0; t < horizon; t++)
            if (report->first_slot + t >= place[f]->first)
                place[f]->own_bps[(report->first_slot + t) % width] = words[4 + t];
        f++;
    }
    return 1;
}

void enter_plans(struct planned *c, int64_t at, const struct message *report, int64_t slot)
{
    for (int64_t word = 0; word < report->count; word++)
        move_place(c, place_at(c->flow + (int64_t)report->words[word * c->stride], at), slot);
    const int together = replace_plans(c, at, report, 0, report->count);
    for (int64_t word = 0; word < report->count; word++) {
        const double *words = report->words + word * c->stride;
        if (words[3] != 0.0)
            place_at(c->flow + (int64_t)words[0], at)->accepted = together || replace_plans(c, at, report, word, word + 1);
    }
}

void view_links(struct planned *c, const struct place *place, int64_t slot, double *available_bps, double *load)
{
    move_place(c, (struct place *)place, slot);
    for (int64_t t = 0; t < c->horizon; t++) {
        const int64_t column = (slot + t) % c->width;
        available_bps[t] = INFINITY;
        load[t] = 0.0;
        for (int64_t at = 0; at < place->links; at++) {
            const double u_bps = c->n->capacity[place->link[at]];
            double load_bps = load_of(c, place->link[at])[column] - place->own_bps[column];
            if (load_bps < c->rules.dust * u_bps)
                load_bps = 0.0;
            const double left_bps = u_bps - load_bps;
            if (left_bps < available_bps[t])
                available_bps[t] = larger(left_bps, 0.0);
            load[t] += load_bps / u_bps;
        }
    }
}

void drop_entry(struct planned *c, struct place *place)
{
    if (!place->in_table)
        return;
    place->in_table = 0;
    int64_t newest = place->first;
    for (int64_t at = 0; at < place->links; at++)
        newest = c->first[place->link[at]] > newest ? c->first[place->link[at]] : newest;
    move_place(c, place, newest);
    for (int64_t at = 0; at < place->links; at++)
        for (int64_t t = 0; t < c->width; t++)
            load_of(c, place->link[at])[t] -= place->own_bps[t];
    memset(place->own_bps, 0, sizeof(double) * (size_t)c->width);
}
