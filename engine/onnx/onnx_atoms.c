/* onnx_atoms.c: how the axes of a value lie in a tensor of the graph; see onnx_value.h. */
#include "engine/onnx/onnx_value.h"

#include <string.h>

struct onnx_atoms onnx_atoms_plain(int rank, const int64_t *extent)
{
    struct onnx_atoms atoms = {0};

    for (int r = 0; r < rank; r++) {
        atoms.first[r] = atoms.count;
        if (extent[r] != 1 && atoms.count < ONNX_ATOMS_MAX) {
            atoms.order[atoms.count] = atoms.count;
            atoms.extent[atoms.count++] = extent[r];
        }
    }
    atoms.first[rank] = atoms.count;
    return atoms;
}

bool onnx_atoms_are_plain(const struct onnx_atoms *atoms)
{
    for (int i = 0; i < atoms->count; i++)
        if (atoms->order[i] != i)
            return false;
    return true;
}

void onnx_atoms_permute(struct onnx_atoms *atoms, int rank, const int *axes)
{
    struct onnx_atoms old = *atoms;
    int count = 0;

    for (int r = 0; r < rank; r++) {
        atoms->first[r] = count;
        for (int i = old.first[axes[r]]; i < old.first[axes[r] + 1]; i++)
            atoms->order[count++] = old.order[i];
    }
    atoms->first[rank] = count;
}

/* Cuts the atom at place `at` of the order into `left` times the rest; axes from `rank` of `first`
 * on do not matter. */
static bool atom_cut(struct onnx_atoms *atoms, int at, int64_t left, int rank)
{
    int base = atoms->order[at];

    if (atoms->count == ONNX_ATOMS_MAX || base == 0)
        return false;
    for (int i = 0; i < atoms->count; i++)
        atoms->order[i] += atoms->order[i] > base;
    memmove(&atoms->order[at + 1], &atoms->order[at],
            (size_t)(atoms->count - at) * sizeof *atoms->order);
    atoms->order[at + 1] = base + 1;
    memmove(&atoms->extent[base + 1], &atoms->extent[base],
            (size_t)(atoms->count - base) * sizeof *atoms->extent);
    atoms->extent[base] = left;
    atoms->extent[base + 1] /= left;
    atoms->count++;
    for (int r = 0; r <= rank; r++)
        atoms->first[r] += atoms->first[r] > at;
    return true;
}

bool onnx_atoms_reshape(struct onnx_atoms *atoms, int rank, const int64_t *extent)
{
    struct onnx_atoms result = *atoms;
    int first[ONNX_RANK_MAX + 1], at = 0;

    for (int r = 0; r < rank; r++) {
        bool batch = extent[r] >= ONNX_BATCH;
        int64_t want = batch ? extent[r] / ONNX_BATCH : extent[r];

        first[r] = at;
        if (batch && extent[r] % ONNX_BATCH)
            return false;
        for (; want > 1 || batch; at++) {
            int64_t have = at < result.count ? result.extent[result.order[at]] : 0;

            if (!have)
                return false;
            if (result.order[at] == 0 && batch)
                batch = false;
            else if (result.order[at] == 0)
                return false;
            else if (want % have == 0)
                want /= have;
            else if (have % want == 0 && want > 1 && atom_cut(&result, at, want, 0))
                want = 1;
            else
                return false;
        }
    }
    first[rank] = at;
    if (at != result.count)
        return false;
    memcpy(result.first, first, ((size_t)rank + 1) * sizeof *first);
    *atoms = result;
    return true;
}

bool onnx_atoms_match(struct onnx_atoms *a, struct onnx_atoms *b, int rank)
{
    for (int r = 0; r < rank; r++)
        for (int at = a->first[r]; at < a->first[r + 1] || at < b->first[r + 1]; at++) {
            int64_t one = at < a->first[r + 1] ? a->extent[a->order[at]] : 0;
            int64_t other = at < b->first[r + 1] ? b->extent[b->order[at]] : 0;

            if (one == other)
                continue;
            if (!one || !other || one >= ONNX_BATCH || other >= ONNX_BATCH)
                return false;
            if (one > other ? one % other || !atom_cut(a, at, other, rank)
                            : other % one || !atom_cut(b, at, one, rank))
                return false;
        }
    return a->count == b->count;
}

void onnx_atoms_join(struct onnx_atoms *atoms)
{
    struct onnx_atoms joined = {.count = 1, .extent = {ONNX_BATCH}};
    int64_t before = 1, behind = 1;
    int batch = 0, at = 0;

    while (atoms->order[batch] != 0)
        before *= atoms->extent[atoms->order[batch++]];
    for (int i = batch + 1; i < atoms->count; i++)
        behind *= atoms->extent[atoms->order[i]];
    if (before > 1) {
        joined.order[at++] = joined.count;
        joined.extent[joined.count++] = before;
    }
    joined.order[at++] = 0;
    if (behind > 1) {
        joined.order[at++] = joined.count;
        joined.extent[joined.count++] = behind;
    }
    *atoms = joined;
}

void onnx_atoms_drop(struct onnx_atoms *atoms, int rank)
{
    int number[ONNX_ATOMS_MAX], count = 0, at = 0;
    struct onnx_atoms old = *atoms;

    for (int i = 0; i < old.count; i++) {
        number[i] = count;
        if (old.extent[i] != 1)
            atoms->extent[count++] = old.extent[i];
    }
    for (int r = 0; r < rank; r++) {
        atoms->first[r] = at;
        for (int i = old.first[r]; i < old.first[r + 1]; i++)
            if (old.extent[old.order[i]] != 1)
                atoms->order[at++] = number[old.order[i]];
    }
    atoms->first[rank] = at;
    atoms->count = count;
}
