/* Messages and timers on their way: a heap by time, and in the order in which they were sent and armed. */

#include <stdlib.h>

#include "planned.h"

/* ---- Slots: model/slots.py ---- */

int64_t slot_at(const struct planned *c, int64_t now_ns)
{
    const int64_t since_ns = now_ns - c->epoch_ns;
    return since_ns >= 0 ? since_ns / c->slot_ns : -((c->slot_ns - 1 - since_ns) / c->slot_ns);
}

int64_t next_slot_ns(const struct planned *c, int64_t now_ns)
{
    return c->epoch_ns + (slot_at(c, now_ns) + 1) * c->slot_ns;
}

/* ---- The heap ---- */

static int before(const struct message *a, const struct message *b)
{
    return a->when_ns < b->when_ns || (a->when_ns == b->when_ns && a->sequence < b->sequence);
}

struct message new_message(const struct planned *c, int64_t kind, int64_t to, int64_t from, int64_t most)
{
    struct message m = {.kind = kind, .to = to, .from = from};
    m.words = most ? malloc(sizeof(double) * (size_t)(most * c->stride)) : NULL;
    return m;
}

void send_message(struct planned *c, struct message m, int64_t when_ns)
{
    m.when_ns = when_ns;
    m.sequence = c->sequence++;
    c->heap = roomy(c->heap, &c->messages_room, c->messages + 1, sizeof(struct message));
    int64_t at = c->messages++;
    for (; at && before(&m, c->heap + (at - 1) / 2); at = (at - 1) / 2)
        c->heap[at] = c->heap[(at - 1) / 2];
    c->heap[at] = m;
}

static struct message pop_message(struct planned *c)
{
    struct message first = c->heap[0], last = c->heap[--c->messages];
    int64_t at = 0, next;
    while ((next = 2 * at + 1) < c->messages) {
        next += next + 1 < c->messages && before(c->heap + next + 1, c->heap + next);
        if (!before(c->heap + next, &last))
            break;
        c->heap[at] = c->heap[next];
        at = next;
    }
    c->heap[at] = last;
    return first;
}

/* ---- Time ---- */

/* Switches look at their tables twice a slot while they remember a job. Nothing comes of it here, but that rates are
 * added up until then: only where bytes move does that make a difference, in the last digit. */
void arm_ticks(struct planned *c, int64_t now_ns)
{
    if (c->tick_ns != NEVER_NS || !c->live || slot_at(c, now_ns) > c->awake_until_slot)
        return;
    const int64_t start_ns = next_slot_ns(c, now_ns) - c->slot_ns;
    const int64_t step_ns = c->slot_ns / 2 > 1 ? c->slot_ns / 2 : 1;
    c->tick_ns = start_ns + ((now_ns - start_ns) / step_ns + 1) * step_ns;
    send_message(c, new_message(c, SWITCH_TICK, 0, 0, 0), c->tick_ns);
}

void handle_messages(struct planned *c, int64_t now_ns)
{
    while (c->messages && c->heap[0].when_ns <= now_ns) {
        struct message m = pop_message(c);
        if (m.kind == SWITCH_TICK) {
            c->tick_ns = NEVER_NS;
            arm_ticks(c, now_ns);
        } else if (m.kind == HOST_TICK || m.kind == ANSWER) {
            host_hears(c, &m, now_ns);
        } else {
            switch_hears(c, &m, now_ns);
        }
        free(m.words);
    }
}
