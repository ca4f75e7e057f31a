/*
 * A token bucket per peer, filled at the rate that the page says. Law: bytes may leave while the level is not
 * negative, and take it down; so the rate is exact over many sends, whatever their size. Of what was not used some ms
 * are kept, and more if a send waited: then the thread that asks came late. A send waits no longer than the page's
 * bound, and a page that is open, stale or not there makes none wait.
 */
#ifndef PACELINE_BUCKET_H
#define PACELINE_BUCKET_H

#include "../page/page.h"

struct bucket;

/* That of a peer, made on first use and kept; NULL once there are too many: such peers are not paced. */
PLP_API struct bucket *bucket_of(const uint8_t peer[PLP_PEER_BYTES]);
/* Whether `bytes` may leave now; then they count as gone. */
PLP_API int bucket_take(struct bucket *bucket, size_t bytes, int64_t now_ns);
/* Whether its sends wait for a turn, and not for a rate. */
int bucket_is_held(struct bucket *bucket);
/* They have not left after all. */
void bucket_return(struct bucket *bucket, size_t bytes);

#endif
