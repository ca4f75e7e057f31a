/*
 * Bytes of an operation. Law: payload is count times element size, exactly as the caller asked; wire bytes are
 * what this rank sends for it on a ring, where n ranks pass chunks round.
 */
#ifndef PACELINE_PAYLOAD_H
#define PACELINE_PAYLOAD_H

#include <stdint.h>
#include <string.h>

/* NCCL names types "ncclFloat32", "ncclBfloat16", "ncclFloat8e4m3"…: the first digit tells the size.
 * uint8 is called "Unknown". */
static inline uint64_t element_bytes(const char *datatype) {
    if (!datatype)
        return 1;
    for (const char *at = datatype; *at; at++) {
        switch (*at) {
        case '8': return 1;
        case '1': return 2;
        case '3': return 4;
        case '6': return 8;
        default: break;
        }
    }
    if (strcmp(datatype, "ncclHalf") == 0)
        return 2;
    if (strcmp(datatype, "ncclInt") == 0 || strcmp(datatype, "ncclFloat") == 0)
        return 4;
    return strcmp(datatype, "ncclDouble") == 0 ? 8 : 1;
}

/* AllGather and ReduceScatter counts are per rank, so their ring sends n-1 such pieces; a broadcast is passed
 * on by every rank but the last, which this rank cannot tell, so it is counted as passed on. */
static inline uint64_t ring_wire_bytes(const char *func, uint64_t payload_bytes, int32_t nranks) {
    uint64_t n = nranks > 1 ? (uint64_t)nranks : 1;
    if (n == 1)
        return 0;
    if (func && strcmp(func, "AllReduce") == 0) {
        /* 2 (n - 1) / n of it, without the cost of a division of 128 bits */
        uint64_t whole = payload_bytes / n, rest = payload_bytes % n;
        return 2 * (n - 1) * whole + 2 * (n - 1) * rest / n;
    }
    if (func && (strcmp(func, "AllGather") == 0 || strcmp(func, "ReduceScatter") == 0))
        return payload_bytes * (n - 1);
    return payload_bytes;
}

#endif
