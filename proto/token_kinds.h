/* token_kinds.h: what one token of a sequence may be. The schema, its help, the documentation and
 * enum dataset_tokens are made from this list. engine/data/tokens.c cuts sequences into tokens. */
#pragma once

/* Columns: DATASET_TOKENS_<upper> of enum dataset_tokens; the name in specifications and messages;
 * a short description. */
#define TOKEN_KINDS(KIND)                                                          \
    KIND(CHARACTERS, characters, "characters of UTF-8, those of the training set") \
    KIND(BYTES, bytes, "any bytes")                                                \
    KIND(NUCLEOTIDES, nucleotides, "A C G T, and N for every other code; U is T")  \
    KIND(KMERS, kmers, "kmer nucleotides at once, a new token begins every kmer_stride ones")
