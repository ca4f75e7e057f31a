/* Which jobs claim links, and which of them meet: the groups of array/settlement.py. Only groups whose claims came or
 * went are formed anew. */

#include <stdlib.h>

#include "control.h"

/* ---- Claims ---- */

static void touch(struct control *c, int64_t of)
{
    if (!c->contender[of].touched)
        put(&c->touched, of);
    c->contender[of].touched = 1;
    c->contender[of].counted = 0;
}

void settle_enter(struct control *c, int64_t row)
{
    struct flow *flow = c->flow + row;
    const int64_t of = c->part[flow->part].contender;
    list *entered = &c->contender[of].entered;
    flow->share = NAN;   /* equals no share */
    touch(c, of);
    if (flow->entered)
        return;
    flow->entered = 1;
    put(entered, row);
    for (int64_t at = entered->count - 1; at > 0 && entered->items[at - 1] > row; at--) {
        entered->items[at] = entered->items[at - 1];
        entered->items[at - 1] = row;
    }
}

void settle_withdraw(struct control *c, int64_t row)
{
    struct flow *flow = c->flow + row;
    const int64_t of = c->part[flow->part].contender;
    list *entered = &c->contender[of].entered;
    int64_t kept = 0;
    flow->entered = 0;
    for (int64_t at = 0; at < entered->count; at++)
        if (entered->items[at] != row)
            entered->items[kept++] = entered->items[at];
    entered->count = kept;
    touch(c, of);
}

static void forget(struct control *c, int64_t of)
{
    struct contender *contender = c->contender + of;
    free(contender->name);
    contender->name = NULL;
    contender->gone = contender->parts.count = contender->entered.count = 0;
    contender->group = -1;
    put(&c->free_contenders, of);
}

void contender_gone(struct control *c, int64_t of)
{
    if (c->contender[of].touched || c->contender[of].group >= 0)
        c->contender[of].gone = 1;   /* until the next settlement */
    else
        forget(c, of);
}

/* The links of its flows that claim, as count_links finds them. */
static void count_claimed_links(struct control *c, struct contender *contender)
{
    if (contender->counted)
        return;
    contender->counted = 1;
    contender->links.count = 0;
    c->stamp++;
    for (int64_t at = 0; at < contender->entered.count; at++) {
        const list *seen = &c->flow[contender->entered.items[at]].seen;
        for (int64_t h = 0; h < seen->count; h++) {
            const int64_t link = seen->items[h];
            if (c->link_stamp[link] != c->stamp) {
                c->link_stamp[link] = c->stamp;
                c->seen_on[link] = contender->links.count;
                put(&contender->links, link);
                contender->flows_on = roomy(contender->flows_on, &contender->flows_room, contender->links.count,
                                            sizeof(double));
                contender->flows_on[contender->links.count - 1] = 0.0;
            }
            contender->flows_on[c->seen_on[link]] += 1.0;
        }
    }
}

/* ---- Groups: a number is a place and a generation, so that one that was is not taken for one that is. ---- */

struct group *current_group(struct control *c, int64_t number)
{
    struct group *group = number < 0 ? NULL : c->group + (number & 0xffffff);
    return group && group->number == number ? group : NULL;
}

static void find(struct control *c, int64_t of)
{
    struct contender *contender = c->contender + of;
    if (contender->stamp == c->generation || !contender->entered.count)
        return;
    contender->stamp = c->generation;
    put(&c->found, of);
}

static void dissolve(struct control *c, int64_t number)
{
    struct group *group = current_group(c, number);
    if (!group)
        return;
    for (int64_t at = 0; at < group->members.count; at++)
        find(c, group->members.items[at]);
    group->number = -1;
    c->with_claims--;
    put(&c->free_groups, number & 0xffffff);
}

static struct group *new_group(struct control *c)
{
    if (!c->free_groups.count) {
        const int64_t before = c->groups;
        c->group = roomy(c->group, &c->groups, before + 64, sizeof(struct group));
        memset(c->group + before, 0, sizeof(struct group) * (size_t)(c->groups - before));
        for (int64_t place = c->groups - 1; place >= before; place--) {
            c->group[place].number = -1;
            put(&c->free_groups, place);
        }
    }
    const int64_t place = c->free_groups.items[--c->free_groups.count];
    struct group *group = c->group + place;
    group->number = c->generation++ << 24 | place;
    group->members.count = group->level = 0;
    group->read_ns = -1;
    group->fresh = 1;
    c->with_claims++;
    return group;
}

/* Those of the touched that still claim, and all jobs of the groups that they were in or now meet. */
static void with_neighbours(struct control *c)
{
    c->generation++;
    c->found.count = 0;
    for (int64_t at = 0; at < c->touched.count; at++)
        find(c, c->touched.items[at]);
    for (int64_t at = 0; at < c->touched.count; at++) {
        const int64_t of = c->touched.items[at];
        struct contender *contender = c->contender + of;
        dissolve(c, contender->group);
        count_claimed_links(c, contender);
        for (int64_t e = 0; e < contender->links.count; e++)
            dissolve(c, c->group_on[contender->links.items[e]]);
        contender->group = -1;
        contender->touched = 0;
        if (contender->gone)
            forget(c, of);
    }
    c->touched.count = 0;
}

static int by_name(const struct control *c, int64_t one, int64_t other)
{
    return strcmp(c->contender[one].name, c->contender[other].name);
}

static void sort_names(const struct control *c, int64_t *of, int64_t *spare, int64_t count)
{
    if (count < 2)
        return;
    const int64_t middle = count / 2;
    int64_t a = 0, b = middle, at = 0;
    sort_names(c, of, spare, middle);
    sort_names(c, of + middle, spare, count - middle);
    while (a < middle && b < count)
        spare[at++] = by_name(c, of[b], of[a]) < 0 ? of[b++] : of[a++];
    while (a < middle)
        spare[at++] = of[a++];
    while (b < count)
        spare[at++] = of[b++];
    memcpy(of, spare, sizeof(int64_t) * (size_t)count);
}

/* Memory for so many jobs with so many links together. */
static void room_for_jobs(struct control *c, int64_t jobs, int64_t entries)
{
    struct scratch *s = &c->scratch;
    if (jobs + 1 > s->jobs_room) {
        s->jobs_room = 2 * (jobs + 1);
        const size_t size = sizeof(double) * (size_t)s->jobs_room;
        s->first = realloc(s->first, size);
        s->order = realloc(s->order, size);
        s->spare = realloc(s->spare, size);
        s->weight = realloc(s->weight, size);
        s->rates = realloc(s->rates, size);
        s->worth = realloc(s->worth, size);
        s->pays = realloc(s->pays, size);
        s->alone = realloc(s->alone, size);
    }
    if (entries > s->links_room) {
        s->links_room = 2 * entries;
        const size_t size = sizeof(double) * (size_t)s->links_room;
        s->link = realloc(s->link, size);
        s->counts = realloc(s->counts, size);
        s->use = realloc(s->use, size);
        s->names = realloc(s->names, size);
    }
}

/* Their links one after the other, as crowd.c and packing.c want them. */
void gather_links(struct control *c, const list *members)
{
    struct scratch *s = &c->scratch;
    int64_t entries = 0;
    for (int64_t at = 0; at < members->count; at++)
        entries += c->contender[members->items[at]].links.count;
    room_for_jobs(c, members->count, entries);
    s->first[0] = 0;
    for (int64_t at = 0; at < members->count; at++) {
        const struct contender *contender = c->contender + members->items[at];
        const size_t count = (size_t)contender->links.count;
        memcpy(s->link + s->first[at], contender->links.items, sizeof(int64_t) * count);
        memcpy(s->counts + s->first[at], contender->flows_on, sizeof(double) * count);
        s->first[at + 1] = s->first[at] + contender->links.count;
    }
}

/* Form the groups anew whose claims came or went. */
void regroup(struct control *c)
{
    with_neighbours(c);
    for (int64_t at = 0; at < c->found.count; at++)
        count_claimed_links(c, c->contender + c->found.items[at]);
    gather_links(c, &c->found);
    struct scratch *s = &c->scratch;
    for (int64_t e = 0; e < s->first[c->found.count]; e++)
        c->seen_on[s->link[e]] = -1;
    link_groups(c->found.count, s->first, s->link, s->order, c->seen_on);
    for (int64_t at = 0; at < c->found.count; at++) {   /* the first of a group comes first */
        const int64_t of = c->found.items[at], first = c->found.items[s->order[at]];
        struct group *group = first == of ? new_group(c) : current_group(c, c->contender[first].group);
        c->contender[of].group = group->number;
        put(&group->members, of);
        if (c->contender[of].level > group->level)
            group->level = c->contender[of].level;
        if (first == of)
            put(&c->fresh, group->number);
    }
    for (int64_t at = 0; at < c->fresh.count; at++) {
        struct group *group = current_group(c, c->fresh.items[at]);
        sort_names(c, group->members.items, s->spare, group->members.count);
        if (group->members.count > 1)
            put(&c->several, group->number);
        for (int64_t m = 0; m < group->members.count; m++) {
            const list *links = &c->contender[group->members.items[m]].links;
            for (int64_t e = 0; e < links->count; e++)
                c->group_on[links->items[e]] = group->number;
        }
    }
}
