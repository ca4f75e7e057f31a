/* When what happens: the control's own events, a heap by time and sequence, and its next slot and reallocation. */

#include <stdlib.h>

#include "control.h"

/* ---- Slots ---- */

int64_t slot_of(const struct control *c, int64_t now_ns)
{
    const int64_t since_ns = now_ns - c->epoch_ns;
    return since_ns >= 0 ? since_ns / c->slot_ns : -((c->slot_ns - 1 - since_ns) / c->slot_ns);
}

int64_t into(const struct control *c, int64_t now_ns, int64_t every_ns)
{
    const int64_t rest = (now_ns - c->epoch_ns) % every_ns;
    return rest < 0 ? rest + every_ns : rest;
}

void arm(struct control *c, int64_t now_ns)
{
    const int64_t every_ns = c->several.count ? c->half_slot_ns : c->slot_ns;
    c->tick_ns = now_ns + every_ns - into(c, now_ns, every_ns);
}

void reallocate_soon(struct control *c, int64_t when_ns)
{
    const int64_t at_ns = when_ns > c->busy_until_ns ? when_ns : c->busy_until_ns;
    c->reallocate_ns = at_ns < c->reallocate_ns ? at_ns : c->reallocate_ns;
    if (c->tick_ns == NEVER_NS)
        arm(c, when_ns);
}

/* ---- Events of the control's own ---- */

static int before(const struct event *a, const struct event *b)
{
    return a->when_ns < b->when_ns || (a->when_ns == b->when_ns && a->sequence < b->sequence);
}

void show_next(struct control *c)
{
    c->shared[1] = c->events ? c->heap[0].when_ns : NEVER_NS;
    c->shared[2] = c->events ? c->heap[0].sequence : 0;
    c->shared[3] = c->reallocate_ns < c->tick_ns ? c->reallocate_ns : c->tick_ns;
}

void push(struct control *c, struct event event)
{
    event.sequence = c->shared[0]++;
    c->heap = roomy(c->heap, &c->events_room, c->events + 1, sizeof(struct event));
    int64_t at = c->events++;
    for (; at && before(&event, c->heap + (at - 1) / 2); at = (at - 1) / 2)
        c->heap[at] = c->heap[(at - 1) / 2];
    c->heap[at] = event;
}

struct event pop(struct control *c)
{
    struct event first = c->heap[0], last = c->heap[--c->events];
    int64_t at = 0, next;
    while ((next = 2 * at + 1) < c->events) {
        next += next + 1 < c->events && before(c->heap + next + 1, c->heap + next);
        if (!before(c->heap + next, &last))
            break;
        c->heap[at] = c->heap[next];
        at = next;
    }
    c->heap[at] = last;
    return first;
}

void after(struct control *c, int64_t delay_ns, int64_t now_ns, struct event event)
{
    event.when_ns = now_ns + delay_ns;
    if (delay_ns) {
        push(c, event);
        return;
    }
    happen(c, &event, now_ns);
    free(event.entry);
}
