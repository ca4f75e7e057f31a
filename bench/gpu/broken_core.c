/* The shim's counting with one fault, for the check that must notice it: -DSIZES_WRONG or -DMARKS_EARLY. */
#define pls_enqueue sound_enqueue
#define pls_end_iteration sound_end_iteration
#include "core.c"
#undef pls_enqueue
#undef pls_end_iteration

#ifdef SIZES_WRONG
PLS_API void pls_enqueue(struct pls_header *header, struct pls_record *record, uint64_t bytes, uint64_t wire_bytes) {
    sound_enqueue(header, record, bytes / 2, wire_bytes / 2);
}

PLS_API uint64_t pls_end_iteration(struct pls_header *header) { return sound_end_iteration(header); }
#endif

#ifdef MARKS_EARLY
/* An iteration ends just before its burst is announced, and not when its backward pass is over. */
enum { PAUSE_NS = 50 * 1000 * 1000 };

PLS_API void pls_enqueue(struct pls_header *header, struct pls_record *record, uint64_t bytes, uint64_t wire_bytes) {
    static _Atomic uint64_t last_ns;
    uint64_t now_ns = pls_now_ns();
    if (now_ns - atomic_exchange(&last_ns, now_ns) > PAUSE_NS)
        sound_end_iteration(header);
    sound_enqueue(header, record, bytes, wire_bytes);
}

PLS_API uint64_t pls_end_iteration(struct pls_header *header) { return header ? GET(header->iteration.iteration) : 0; }
#endif
