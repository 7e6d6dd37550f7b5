/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warm pool. Every place of it has a thread of its own, which makes a container, lets it wait,
 * and removes it when a job has been in it:
 *
 *        ┌───────────────────────────────────────────────┐
 *        ▼                                               │
 *     MAKING ──► READY ──► RUNNING ──► USED ── removed ──┘
 *                (waits)   (the job's own thread)
 *
 * Invariants:
 *  1. A container serves one job. What a reset would have to prove, that nothing of the job before
 *     is left, holds for one that nobody used before.
 *  2. No more jobs than places run at a time; one more is refused at once.
 *  3. A job that may run and finds no container waits for the next one, at most as long as one of
 *     its own would take.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/limits.h"
#include "run/internal.h"

#include "base/banned.h"

#define MAX_SIZE 64U
#define MAX_SAMPLES 1000U
/* After a container that could not be made, before the next try. */
#define RETRY_SECONDS 2

enum place_state { PLACE_MAKING, PLACE_READY, PLACE_RUNNING, PLACE_USED, PLACE_ENDED };

struct place {
    struct rsbx_pool *pool;
    pthread_t thread;
    enum place_state state;
    struct rsbx_warm *warm;
    uint64_t since; /* when it got ready: the oldest is taken first */
};

struct rsbx_pool {
    struct rsbx_runner *runner;
    const struct rsbx_run_language *language;
    struct place places[MAX_SIZE];
    unsigned int size, started;
    int cancel_fd; /* readable: what is being made is given up; -1: none */
    pthread_mutex_t mutex; /* of everything below, and of the places */
    pthread_cond_t changed;
    bool stopping;
    unsigned int running;
    reposbx_error fault;   /* of the last container that could not be made; code 0: none since */
    reposbx_error removal; /* of the first that could not be removed */
    reposbx_pool_stats stats;
    double samples[MAX_SAMPLES];
    size_t sample_count;
};

static struct timespec wall_in(unsigned int seconds)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)seconds;
    return at;
}

/* Called with the lock; lets go of it while the container is made. */
static void make_one(struct place *place)
{
    struct rsbx_pool *pool = place->pool;
    reposbx_error why = REPOSBX_ERROR_INIT;
    struct timespec until;
    int rc;

    (void)pthread_mutex_unlock(&pool->mutex);
    rc = rsbx_runner_start(&place->warm, pool->runner, pool->language->name, &pool->cancel_fd,
                           &why);
    (void)pthread_mutex_lock(&pool->mutex);
    if (rc == 0) {
        place->state = PLACE_READY;
        place->since = rsbx_now_ns();
        pool->fault.code = 0;
        (void)pthread_cond_broadcast(&pool->changed);
        return;
    }
    pool->stats.failures++;
    pool->fault = why;
    pool->fault.code = rc;
    (void)pthread_cond_broadcast(&pool->changed);
    until = wall_in(RETRY_SECONDS);
    while (!pool->stopping &&
           pthread_cond_timedwait(&pool->changed, &pool->mutex, &until) == 0)
        continue;
}

static void remove_one(struct place *place)
{
    struct rsbx_pool *pool = place->pool;
    reposbx_error why = REPOSBX_ERROR_INIT;
    int rc;

    (void)pthread_mutex_unlock(&pool->mutex);
    rc = rsbx_runner_destroy(place->warm, &why);
    (void)pthread_mutex_lock(&pool->mutex);
    place->warm = NULL;
    place->state = PLACE_MAKING;
    if (rc != 0 && pool->removal.code == 0)
        pool->removal = why;
    (void)pthread_cond_broadcast(&pool->changed);
}

static void *keep_place(void *payload)
{
    struct place *place = payload;
    struct rsbx_pool *pool = place->pool;

    (void)pthread_mutex_lock(&pool->mutex);
    for (;;) {
        bool over = pool->stopping && place->state != PLACE_RUNNING;

        if (place->warm != NULL && (place->state == PLACE_USED || over))
            remove_one(place);
        else if (over)
            break;
        else if (place->state == PLACE_MAKING)
            make_one(place);
        else
            (void)pthread_cond_wait(&pool->changed, &pool->mutex);
    }
    place->state = PLACE_ENDED;
    (void)pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

static int make_lock(struct rsbx_pool *pool)
{
    pthread_condattr_t attributes;

    if (pthread_mutex_init(&pool->mutex, NULL) != 0 || pthread_condattr_init(&attributes) != 0)
        return -1;
    if (pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
        pthread_cond_init(&pool->changed, &attributes) != 0)
        return -1;
    (void)pthread_condattr_destroy(&attributes);
    return 0;
}

int rsbx_pool_open(struct rsbx_pool **out, struct rsbx_runner *runner, const char *language,
                   unsigned int size, int cancel_fd, reposbx_error *err)
{
    const struct rsbx_run_language *known;
    struct rsbx_pool *pool;
    int rc = rsbx_run_language(&known, language, err);

    if (rc != 0)
        return rc;
    if (size < 1 || size > MAX_SIZE)
        return rsbx_fail(err, REPOSBX_EPOLICY, "size: must lie between 1 and %u", MAX_SIZE);
    pool = calloc(1, sizeof *pool);
    if (pool == NULL || make_lock(pool) != 0) {
        free(pool);
        return rsbx_fail_memory(err);
    }
    pool->runner = runner;
    pool->language = known;
    pool->size = size;
    pool->cancel_fd = cancel_fd;
    *out = pool;
    return REPOSBX_OK;
}

/* Called with the lock. */
static int start_threads(struct rsbx_pool *pool, reposbx_error *err)
{
    while (pool->started < pool->size) {
        struct place *place = &pool->places[pool->started];

        place->pool = pool;
        place->state = PLACE_MAKING;
        if (pthread_create(&place->thread, NULL, keep_place, place) != 0)
            return rsbx_fail(err, REPOSBX_EINTERNAL, "cannot make a thread");
        pool->started++;
    }
    return REPOSBX_OK;
}

static unsigned int count_state(const struct rsbx_pool *pool, enum place_state state)
{
    unsigned int count = 0;

    for (unsigned int i = 0; i < pool->started; i++)
        count += pool->places[i].state == state;
    return count;
}

static int tell_fault(const struct rsbx_pool *pool, reposbx_error *err)
{
    if (err != NULL)
        *err = pool->fault;
    return pool->fault.code;
}

int rsbx_pool_prewarm(struct rsbx_pool *pool, reposbx_error *err)
{
    int rc;

    (void)pthread_mutex_lock(&pool->mutex);
    rc = pool->stopping ? rsbx_fail(err, REPOSBX_ECLOSED, "the pool is shut down")
                        : start_threads(pool, err);
    while (rc == 0 && count_state(pool, PLACE_MAKING) > 0 && !pool->stopping) {
        if (pool->fault.code != 0)
            rc = tell_fault(pool, err);
        else
            (void)pthread_cond_wait(&pool->changed, &pool->mutex);
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return rc;
}

/* The one that has waited longest and still does; called with the lock. */
static struct place *take_ready(struct rsbx_pool *pool)
{
    for (;;) {
        struct place *oldest = NULL;

        for (unsigned int i = 0; i < pool->started; i++) {
            struct place *place = &pool->places[i];

            if (place->state == PLACE_READY && (oldest == NULL || place->since < oldest->since))
                oldest = place;
        }
        if (oldest == NULL || rsbx_warm_quiet(oldest->warm))
            return oldest;
        oldest->state = PLACE_USED;
        pool->stats.discards++;
        (void)pthread_cond_broadcast(&pool->changed);
    }
}

/* Called with the lock: takes a place for a job, or says why not. *waited: none was ready. */
static int enter(struct place **out, bool *waited, struct rsbx_pool *pool, reposbx_error *err)
{
    struct timespec until = wall_in(RSBX_HELLO_MS / 1000);
    struct place *place;
    int rc = start_threads(pool, err);

    if (rc == 0 && pool->stopping)
        rc = rsbx_fail(err, REPOSBX_ECLOSED, "the pool is shut down");
    if (rc != 0)
        return rc;
    if (pool->running >= pool->size) {
        pool->stats.busy++;
        (void)rsbx_fail(err, REPOSBX_EBUSY, "all %u places of the pool are in use", pool->size);
        rsbx_hint(err, "try again, or serve a larger pool");
        return REPOSBX_EBUSY;
    }
    pool->running++;
    *waited = false;
    while ((place = take_ready(pool)) == NULL) {
        *waited = true;
        if (pool->stopping)
            rc = rsbx_fail(err, REPOSBX_ECLOSED, "the pool is shut down");
        else if (pool->fault.code != 0)
            rc = tell_fault(pool, err);
        else if (pthread_cond_timedwait(&pool->changed, &pool->mutex, &until) != 0)
            rc = rsbx_fail(err, REPOSBX_EUNAVAILABLE, "no container of the pool got ready in time");
        if (rc != 0) {
            pool->running--;
            return rc;
        }
    }
    place->state = PLACE_RUNNING;
    *out = place;
    return REPOSBX_OK;
}

/* Called with the lock. */
static void leave(struct rsbx_pool *pool, struct place *place, bool healthy, double milliseconds)
{
    pool->samples[pool->sample_count++ % MAX_SAMPLES] = milliseconds;
    if (healthy)
        pool->stats.resets++;
    else
        pool->stats.discards++;
    pool->running--;
    place->state = PLACE_USED;
    (void)pthread_cond_broadcast(&pool->changed);
}

/* Whether what waits here may take the order. */
static int check_fit(const struct rsbx_pool *pool, const struct rsbx_run_order *order,
                     reposbx_error *err)
{
    const reposbx_policy *policy = pool->runner->policy;
    bool wasm = rsbx_run_waits_as_wasm(pool->runner->address, pool->language, policy);
    bool fits = rsbx_run_fits_wasm(order, policy);

    if (order->language != pool->language || !order->usual)
        return rsbx_fail(err, REPOSBX_EINVALID,
                         "the spec does not fit the pool: its language or its limits differ");
    if (wasm)
        return fits ? REPOSBX_OK
                    : rsbx_fail(err, REPOSBX_EINVALID, "the spec does not fit the pool: it asks for what "
                                                       "WebAssembly cannot have");
    if (fits && policy->wasm == RSBX_WASM_REQUIRE)
        return rsbx_fail(err, REPOSBX_EINVALID, "the spec does not fit the pool: the policy demands "
                                                "WebAssembly, and this pool has containers");
    return rsbx_run_check_image(order, policy, err);
}

int rsbx_pool_run(reposbx_run_result *out, struct rsbx_pool *pool, const reposbx_exec_spec *spec,
                  reposbx_error *err)
{
    uint64_t start = rsbx_now_ns();
    struct rsbx_run_order order;
    struct place *place = NULL;
    reposbx_error own = REPOSBX_ERROR_INIT;
    bool waited = false;
    bool healthy = false;
    int rc;

    if (err == NULL)
        err = &own;
    rc = rsbx_run_check(&order, spec, pool->runner->policy, err);
    if (rc == 0)
        rc = check_fit(pool, &order, err);
    if (rc == REPOSBX_EINVALID)
        return rc; /* it may run elsewhere: no failure to be recorded */
    if (rc == 0) {
        (void)pthread_mutex_lock(&pool->mutex);
        rc = enter(&place, &waited, pool, err);
        if (rc == 0 && waited)
            pool->stats.misses++;
        else if (rc == 0)
            pool->stats.hits++;
        (void)pthread_mutex_unlock(&pool->mutex);
    }
    if (rc == 0)
        rc = rsbx_runner_job(out, &healthy, pool->runner, place->warm, &order, !waited, err);
    if (place != NULL) {
        (void)pthread_mutex_lock(&pool->mutex);
        leave(pool, place, healthy, (double)(rsbx_now_ns() - start) / 1e6);
        (void)pthread_mutex_unlock(&pool->mutex);
    }
    if (rc != 0)
        rsbx_run_record_failed(pool->runner, NULL, spec, rc, err);
    return rc;
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return (left > right) - (left < right);
}

void rsbx_pool_stats(reposbx_pool_stats *out, struct rsbx_pool *pool)
{
    double sorted[MAX_SAMPLES];
    size_t count;

    (void)pthread_mutex_lock(&pool->mutex);
    count = pool->sample_count < MAX_SAMPLES ? pool->sample_count : MAX_SAMPLES;
    memcpy(sorted, pool->samples, count * sizeof sorted[0]);
    *out = pool->stats;
    out->size = pool->size;
    out->ready = count_state(pool, PLACE_READY);
    out->running = pool->running;
    (void)pthread_mutex_unlock(&pool->mutex);
    qsort(sorted, count, sizeof sorted[0], compare_doubles);
    out->p50_ms = count > 0 ? sorted[(count - 1) / 2] : 0.0;
    out->p95_ms = count > 0 ? sorted[(count - 1) * 95 / 100] : 0.0;
}

int rsbx_pool_shutdown(struct rsbx_pool *pool, reposbx_error *err)
{
    unsigned int started;

    (void)pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    started = pool->started;
    pool->started = 0;
    (void)pthread_cond_broadcast(&pool->changed);
    (void)pthread_mutex_unlock(&pool->mutex);
    for (unsigned int i = 0; i < started; i++)
        (void)pthread_join(pool->places[i].thread, NULL);
    if (pool->removal.code == 0)
        return REPOSBX_OK;
    if (err != NULL)
        *err = pool->removal;
    return pool->removal.code;
}

void rsbx_pool_free(struct rsbx_pool *pool)
{
    if (pool == NULL)
        return;
    (void)rsbx_pool_shutdown(pool, NULL);
    (void)pthread_cond_destroy(&pool->changed);
    (void)pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
