/* What a page says of one peer: nccl_shim/page/decision.py in C. */
#include <math.h>
#include <string.h>

#include "page.h"

static uint32_t crc32_of(uint32_t crc, const uint8_t *bytes, size_t length) {
    /* Four bits at a time: a table of 16 words needs no start and stays in the cache. */
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                       0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    crc = ~crc;
    for (size_t i = 0; i < length; i++) {
        crc = table[(crc ^ bytes[i]) & 15] ^ (crc >> 4);
        crc = table[(crc ^ (bytes[i] >> 4)) & 15] ^ (crc >> 4);
    }
    return ~crc;
}

size_t plp_bank_bytes(uint32_t capacity) {
    return sizeof(struct plp_bank) + (size_t)capacity * sizeof(struct plp_entry);
}

size_t plp_bank_at(uint64_t sequence, uint32_t capacity) {
    return sizeof(struct plp_header) + (sequence & 1) * plp_bank_bytes(capacity);
}

int plp_header_believed(const struct plp_header *header, int64_t now_ns) {
    if (memcmp(header->magic, "PACEPAGE", 8) || header->version != PLP_VERSION)
        return 0;
    if (header->capacity == 0 || header->capacity > PLP_MOST_ENTRIES ||
        header->size != sizeof *header + 2 * plp_bank_bytes(header->capacity))
        return 0;
    if (header->slot_ns < PLP_LEAST_SLOT_NS || header->slot_ns > PLP_MOST_SLOT_NS)
        return 0;
    return header->heartbeat_ns <= now_ns + header->slot_ns &&
           header->heartbeat_ns >= now_ns - PLP_STALE_SLOTS * header->slot_ns;
}

int plp_bank_believed(const struct plp_bank *bank, size_t length, const struct plp_header *header) {
    if (length < sizeof *bank || bank->sequence != header->sequence || bank->count > header->capacity)
        return 0;
    size_t entries = (size_t)bank->count * sizeof(struct plp_entry);
    if (sizeof *bank + entries > length)
        return 0;
    uint32_t crc = crc32_of(0, (const uint8_t *)bank, offsetof(struct plp_bank, checksum));
    return crc32_of(crc, (const uint8_t *)(bank + 1), entries) == bank->checksum;
}

static const struct plp_entry *find(const struct plp_bank *bank, const uint8_t peer[PLP_PEER_BYTES]) {
    const struct plp_entry *entry = (const struct plp_entry *)(bank + 1);
    for (uint32_t i = 0; i < bank->count; i++)
        if (!memcmp(entry[i].peer, peer, PLP_PEER_BYTES))
            return &entry[i];
    return NULL;
}

struct plp_answer plp_entry_answer(const struct plp_bank *bank, const uint8_t peer[PLP_PEER_BYTES], int64_t now_ns,
                                   int64_t slot_ns) {
    static const uint8_t any_peer[PLP_PEER_BYTES];
    struct plp_answer answer = {.state = PLP_OPEN, .slot_ns = slot_ns};
    const struct plp_entry *entry = find(bank, peer);
    if (!entry)
        entry = find(bank, any_peer);
    if (!entry)
        return answer;
    if (entry->state == PLP_HELD && entry->held_until_ns > now_ns) {
        int64_t bound_ns = now_ns + PLP_MOST_HOLD_NS;
        answer.state = PLP_HELD;
        answer.until_ns = entry->held_until_ns < bound_ns ? entry->held_until_ns : bound_ns;
    } else if (entry->state == PLP_ASK) {
        answer.state = PLP_ASK;
        answer.until_ns = now_ns + PLP_HOLD_SLOTS * slot_ns;
    } else if (entry->state == PLP_RATE && isfinite(entry->rate) && entry->rate > 0 && entry->rate <= PLP_MOST_RATE) {
        answer.state = PLP_RATE;
        answer.rate = entry->rate > PLP_LEAST_RATE ? entry->rate : PLP_LEAST_RATE;
    }
    return answer;
}

PLP_API void plp_decide(const void *page, size_t length, const uint8_t peer[PLP_PEER_BYTES], int64_t now_ns,
                        struct plp_answer *answer) {
    *answer = (struct plp_answer){.state = PLP_OPEN};
    struct plp_header header;
    if (length < sizeof header)
        return;
    memcpy(&header, page, sizeof header);
    if (!plp_header_believed(&header, now_ns))
        return;
    size_t at = plp_bank_at(header.sequence, header.capacity), bytes = plp_bank_bytes(header.capacity);
    if (at >= length)
        return;
    const struct plp_bank *bank = (const struct plp_bank *)((const char *)page + at);
    if (plp_bank_believed(bank, length - at < bytes ? length - at : bytes, &header))
        *answer = plp_entry_answer(bank, peer, now_ns, header.slot_ns);
}
