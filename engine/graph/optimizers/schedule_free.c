/* schedule_free.c: Schedule-Free AdamW: Defazio, Yang, Mehta, Mishchenko, Khaled and Cutkosky 2024,
 * "The Road Less Scheduled", arXiv:2405.15682, algorithm 1. */
#include "engine/graph/optimizer.h"

const struct optimizer optimizer_schedule_free_adamw = {
    .title = "Schedule-Free AdamW",
    .states = {"base", "second_moment"},
    .operations = 16,
    .has_betas = true,
    .averages_itself = true,
    .decays_apart = true,
};
