/* philox.h: Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel
 * random numbers: as easy as 1, 2, 3" (SC 2011). A draw is a pure function of key and counter, so
 * neither the number of threads nor resuming a job changes it.
 *
 * The key of every draw in traind is the job's seed; the counter is (index, stream): `stream` says
 * what the numbers are for (enum philox_stream, with an epoch, step or tensor beside it), `index`
 * counts within it. */
#pragma once

#include <stdint.h>

/* CUDA kernels draw random numbers, too */
#ifdef __CUDACC__
#define PHILOX_FUNCTION __host__ __device__ static inline
#else
#define PHILOX_FUNCTION static inline
#endif

struct philox {
    uint32_t word[4];
};

/* The purpose of a stream of random numbers; the high half of the stream word. */
enum philox_stream {
    PHILOX_INITIAL_WEIGHTS = 1, /* low half: number of the parameter */
    PHILOX_SHUFFLE,             /* low half: epoch */
    PHILOX_SPLIT,               /* validation split */
    PHILOX_DROPOUT,             /* low half: number of the node; index: step, element */
    PHILOX_AUGMENTATION,        /* low half: epoch; index: sample */
    PHILOX_LABEL_NOISE,
    PHILOX_SAMPLING, /* text sampled from a model */
    PHILOX_TEST,
    PHILOX_SWEEP,       /* random sweeps; low half: number of the axis; index: point */
    PHILOX_BATCH_ORDER, /* low half: epoch; index: batch */
    PHILOX_SOBOL,   /* scrambling; low half: number of the axis; index: a bit and those above it */
    PHILOX_PARZEN,  /* candidates; low half: number of the axis */
    PHILOX_SEARCH,  /* order of a grid's points; donors: low half: rung; index: trial */
    PHILOX_EXPLORE, /* changed values; low half: number of the axis; index: rung, trial */
    PHILOX_BALANCE, /* classes in equal shares; low half: epoch; index: position */
    PHILOX_IMAGES,  /* further changes to images; low half: epoch; index: purpose, sample */
    PHILOX_BINS     /* numbers of a table's column that stand for all; index: the number's */
};

PHILOX_FUNCTION uint64_t philox_stream(enum philox_stream purpose, uint32_t detail)
{
    return (uint64_t)purpose << 32 | detail;
}

/* 128 random bits. */
PHILOX_FUNCTION struct philox philox_draw(uint64_t seed, uint64_t stream, uint64_t index)
{
    struct philox counter = {
        {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53u * counter.word[0];
        uint64_t product1 = (uint64_t)0xCD9E8D57u * counter.word[2];

        counter.word[0] = (uint32_t)(product1 >> 32) ^ counter.word[1] ^ key0;
        counter.word[1] = (uint32_t)product1;
        counter.word[2] = (uint32_t)(product0 >> 32) ^ counter.word[3] ^ key1;
        counter.word[3] = (uint32_t)product0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

/* Uniform in [0, 1) with 24 bits. */
PHILOX_FUNCTION float philox_uniform(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}
