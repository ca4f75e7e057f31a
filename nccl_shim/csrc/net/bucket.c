/* See bucket.h. Several proxy threads may send to one peer; each bucket has a lock, held for some ns. */
#include <string.h>

#include "bucket.h"

#define IDLE_CREDIT_NS 5000000  /* of a peer to which nothing waited to be sent */
#define LATE_CREDIT_NS 50000000 /* while a send waits: the thread may ask late and still reach the rate */
#define LOOK_NS 100000          /* between two looks at the page */
enum { BUCKETS = 1024 };

struct bucket {
    pthread_mutex_t lock;
    uint8_t peer[PLP_PEER_BYTES];
    double level_bytes;
    int64_t filled_ns;
    int64_t looked_ns;
    int64_t refused_ns; /* since when a send waits; 0: none does */
    struct plp_answer answer;
    struct plp_hold hold;
};

static struct bucket buckets[BUCKETS];
static int used;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static struct plp_reader page = PLP_READER;
static pthread_mutex_t turning = PTHREAD_MUTEX_INITIALIZER;
static struct plp_hold turn; /* of all buckets that are held */

PLP_API struct bucket *bucket_of(const uint8_t peer[PLP_PEER_BYTES]) {
    struct bucket *found = NULL;
    pthread_mutex_lock(&making);
    for (int i = 0; i < used && !found; i++)
        if (!memcmp(buckets[i].peer, peer, PLP_PEER_BYTES))
            found = &buckets[i];
    if (!found && used < BUCKETS) {
        found = &buckets[used++];
        pthread_mutex_init(&found->lock, NULL);
        memcpy(found->peer, peer, PLP_PEER_BYTES);
    }
    pthread_mutex_unlock(&making);
    return found;
}

static void look(struct bucket *bucket, int64_t now_ns) {
    if (bucket->looked_ns && now_ns - bucket->looked_ns < LOOK_NS)
        return;
    bucket->looked_ns = now_ns;
    plp_look(&page, bucket->peer, now_ns, &bucket->answer);
    if (bucket->answer.state == PLP_ASK) /* is for launches: what is sent has been launched */
        bucket->answer.state = PLP_OPEN;
}

static void fill(struct bucket *bucket, int64_t now_ns) {
    double rate = bucket->answer.rate, before = bucket->level_bytes;
    double most = rate * ((bucket->refused_ns ? LATE_CREDIT_NS : IDLE_CREDIT_NS) / 1e9);
    bucket->level_bytes += rate * ((double)(now_ns - bucket->filled_ns) / 1e9);
    if (bucket->level_bytes > most)
        bucket->level_bytes = before > most ? before : most; /* what was saved by coming late stays */
    bucket->filled_ns = now_ns;
}

/*
 * How long it still waits for its turn. A turn is the process's: bytes that wait at one peer after the other, as in a
 * tree, wait for it once.
 */
static int64_t turn_remaining(struct bucket *bucket, int64_t now_ns) {
    int was_held = bucket->hold.limit_ns != 0 || bucket->hold.spent;
    int64_t own_ns = plp_hold_remaining(&bucket->hold, &bucket->answer, now_ns);
    if (bucket->answer.state != PLP_HELD && !was_held)
        return own_ns;
    pthread_mutex_lock(&turning);
    int64_t all_ns = plp_hold_remaining(&turn, &bucket->answer, now_ns);
    pthread_mutex_unlock(&turning);
    return own_ns < all_ns ? own_ns : all_ns;
}

static int may_go(struct bucket *bucket, int64_t now_ns) {
    if (turn_remaining(bucket, now_ns) > 0)
        return 0; /* bounded by itself */
    if (bucket->answer.state != PLP_RATE) {
        bucket->level_bytes = 0;
        bucket->filled_ns = now_ns;
        return 1;
    }
    fill(bucket, now_ns);
    if (bucket->level_bytes >= 0)
        return 1;
    if (!bucket->refused_ns)
        bucket->refused_ns = now_ns;
    if (now_ns - bucket->refused_ns < PLP_MOST_HOLD_NS)
        return 0;
    bucket->level_bytes = 0;
    return 1;
}

PLP_API int bucket_take(struct bucket *bucket, size_t bytes, int64_t now_ns) {
    if (!bucket || !bytes)
        return 1;
    pthread_mutex_lock(&bucket->lock);
    look(bucket, now_ns);
    int go = may_go(bucket, now_ns);
    if (go) {
        bucket->refused_ns = 0;
        if (bucket->answer.state == PLP_RATE)
            bucket->level_bytes -= (double)bytes;
    }
    pthread_mutex_unlock(&bucket->lock);
    return go;
}

int bucket_is_held(struct bucket *bucket) {
    pthread_mutex_lock(&bucket->lock);
    int held = bucket->hold.limit_ns != 0;
    pthread_mutex_unlock(&bucket->lock);
    return held;
}

void bucket_return(struct bucket *bucket, size_t bytes) {
    if (!bucket || !bytes)
        return;
    pthread_mutex_lock(&bucket->lock);
    if (bucket->answer.state == PLP_RATE)
        bucket->level_bytes += (double)bytes;
    pthread_mutex_unlock(&bucket->lock);
}
