/* How long a burst waits: nccl_shim/page/hold.py in C. */
#include "page.h"

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

PLP_API int64_t plp_hold_remaining(struct plp_hold *hold, const struct plp_answer *answer, int64_t now_ns) {
    if (answer->state != PLP_HELD && answer->state != PLP_ASK) {
        *hold = (struct plp_hold){0};
        return 0;
    }
    if (hold->spent)
        return 0;
    if (hold->limit_ns == 0)
        hold->began_ns = now_ns;
    if (hold->state != answer->state) {
        int64_t beyond_ns = answer->state == PLP_HELD ? PLP_HOLD_SLOTS * answer->slot_ns : 0;
        hold->limit_ns = least(answer->until_ns + beyond_ns, hold->began_ns + PLP_MOST_HOLD_NS);
        hold->state = answer->state;
    }
    if (now_ns >= hold->limit_ns) {
        *hold = (struct plp_hold){.spent = 1};
        return 0;
    }
    int64_t remaining_ns = least(answer->until_ns, hold->limit_ns) - now_ns;
    return remaining_ns > 0 ? remaining_ns : 0;
}
