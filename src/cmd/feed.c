/* SPDX-License-Identifier: MIT */
/* Feeding a sequence to the library in calls of a given or of a comfortable size. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "feed.h"

#include <stdint.h>
#include <stdlib.h>

#include "cmd.h"

/* A piece under a progress bar takes at least this many seconds, so that pieces cost nothing. */
#define PIECE_SECONDS 0.05
#define FIRST_PIECE 1024

/* The rest of the tensor from one token on. */
static struct tsa_tensor from_token(struct tsa_tensor t, size_t token)
{
    if (t.data == NULL)
        return t;
    t.data = (char *)t.data + (ptrdiff_t)token * t.token * (ptrdiff_t)cmd_dtype_size(t.dtype);
    return t;
}

/* Sizes of successive calls. */
struct pieces {
    size_t fixed, next;
    double before;
};

static struct pieces pieces_start(const struct feed *feed, size_t first)
{
    return (struct pieces){
        .fixed = feed->step > 0             ? feed->step
                 : feed->progress->terminal ? 0
                                            : SIZE_MAX,
        .next = first,
        .before = cmd_seconds(),
    };
}

static size_t pieces_take(struct pieces *pieces, size_t left)
{
    double now = cmd_seconds();
    if (now - pieces->before < PIECE_SECONDS && pieces->next <= SIZE_MAX / 4)
        pieces->next *= 2;
    pieces->before = now;
    size_t size = pieces->fixed > 0 ? pieces->fixed : pieces->next;
    return size < left ? size : left;
}

static enum tsa_status absorb_marker(const struct feed *feed, struct tsa_state **states,
                                     struct tsa_workspace *ws, struct tsa_error *err)
{
    double one = 1;
    double *zero = calloc(feed->head_dim, sizeof *zero);
    if (zero == NULL)
        return TSA_ENOMEM;
    const struct tsa_tensor k = {.data = zero, .dtype = TSA_F64};
    const struct tsa_tensor v = {.data = &one, .dtype = TSA_F64};
    enum tsa_status status = tsa_absorb(feed->plan,
                                        &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                                            .states = states,
                                                            .count = feed->batch,
                                                            .tokens = 1,
                                                            .k = k,
                                                            .v = v},
                                        ws, err);
    free(zero);
    return status;
}

static enum tsa_status absorb_all(struct feed *feed, struct tsa_state **states, bool outputs,
                                  struct tsa_workspace *ws, struct tsa_error *err)
{
    enum tsa_status status = TSA_OK;
    struct pieces pieces = pieces_start(feed, FIRST_PIECE);
    for (size_t at = 0, size; status == TSA_OK && at < feed->keys; at += size) {
        size = pieces_take(&pieces, feed->keys - at);
        const struct tsa_tensor q = from_token(feed->q, outputs ? at : 0);
        const struct tsa_tensor o = from_token(feed->o, outputs ? at : 0);
        const struct tsa_tensor k = from_token(feed->k, at), v = from_token(feed->v, at);
        const struct tsa_tensor gate = from_token(feed->gate, at);
        const struct tsa_tensor value_gate = from_token(feed->value_gate, at);
        feed->start = at;
        const struct tsa_batch batch = {.size = sizeof batch,
                                        .states = states,
                                        .count = feed->batch,
                                        .tokens = size,
                                        .q = q,
                                        .k = k,
                                        .v = v,
                                        .o = o,
                                        .gate = gate,
                                        .value_gate = value_gate};
        status = !outputs          ? tsa_absorb(feed->plan, &batch, ws, err)
                 : feed->step == 1 ? tsa_decode(feed->plan, &batch, ws, err)
                                   : tsa_prefill(feed->plan, &batch, ws, err);
        feed->calls++;
        progress_update(feed->progress, (double)(at + size) / (double)feed->keys);
    }
    return status;
}

static enum tsa_status query_all(struct feed *feed, struct tsa_state **states,
                                 struct tsa_workspace *ws, struct tsa_error *err)
{
    enum tsa_status status = TSA_OK;
    struct pieces pieces = pieces_start(feed, FIRST_PIECE);
    for (size_t at = 0, size; status == TSA_OK && at < feed->queries; at += size) {
        size = pieces_take(&pieces, feed->queries - at);
        const struct tsa_tensor q = from_token(feed->q, at), o = from_token(feed->o, at);
        feed->start = at;
        status = tsa_query(feed->plan,
                           &(struct tsa_batch){.size = sizeof(struct tsa_batch),
                                               .states = states,
                                               .count = feed->batch,
                                               .tokens = size,
                                               .q = q,
                                               .o = o},
                           ws, err);
        feed->calls++;
        progress_update(feed->progress, (double)(at + size) / (double)feed->queries);
    }
    return status;
}

enum tsa_status feed_states(struct feed *feed, struct tsa_error *err)
{
    struct tsa_workspace *ws = NULL;
    feed->calls = feed->folds = feed->start = 0;
    if (feed->batch == 0)
        return TSA_OK;
    struct tsa_state **states = calloc(feed->batch, sizeof(struct tsa_state *));
    if (states == NULL)
        return TSA_ENOMEM;
    enum tsa_status status = tsa_workspace_create(feed->plan, 0, &ws, err);
    for (size_t b = 0; status == TSA_OK && b < feed->batch; b++)
        status = tsa_state_create(feed->plan, &states[b], err);
    if (status == TSA_OK && feed->marker)
        status = absorb_marker(feed, states, ws, err);
    if (status == TSA_OK)
        status = absorb_all(feed, states, feed->causal, ws, err);
    if (status == TSA_OK && !feed->causal)
        status = query_all(feed, states, ws, err);
    if (status == TSA_OK)
        feed->folds = (size_t)(tsa_state_tokens(states[0], 0) - tsa_state_window(states[0], 0)) /
                      tsa_plan_chunk(feed->plan);
    for (size_t b = 0; b < feed->batch; b++)
        tsa_state_destroy(states[b]);
    free(states);
    tsa_workspace_destroy(ws);
    return status;
}

enum tsa_status feed_softmax(struct feed *feed, struct tsa_error *err)
{
    struct tsa_workspace *ws = NULL;
    feed->calls = feed->folds = feed->start = 0;
    if (feed->batch == 0 || feed->queries == 0)
        return TSA_OK;
    enum tsa_status status = tsa_workspace_create(feed->plan, 0, &ws, err);
    /* Causal masks end at the bottom right: rows at .. at+size see the keys up to there. */
    struct pieces pieces = pieces_start(feed, 16);
    for (size_t at = 0, size; status == TSA_OK && at < feed->queries; at += size) {
        size = pieces_take(&pieces, feed->queries - at);
        const struct tsa_tensor q = from_token(feed->q, at), o = from_token(feed->o, at);
        double done = (double)(at + size) / (double)feed->queries;
        feed->start = 0;
        status = tsa_softmax(feed->plan, feed->batch, size, feed->causal ? at + size : feed->keys,
                             feed->causal, &q, &feed->k, &feed->v, &o, ws, err);
        feed->calls++;
        progress_update(feed->progress, feed->causal ? done * done : done);
    }
    tsa_workspace_destroy(ws);
    return status;
}
