/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"

#include "base/banned.h"

/*
 * A line ends with its own sum, the SHA-256 of all bytes before it:
 *
 *     {"seq":…,…,"prev":"…","sum":"64 hex"}
 *
 * The chain alone protects a record by the one that follows; the sum does it for the last one too,
 * and makes every changed byte visible before the text is looked at as JSON.
 */
#define SUM_START ",\"sum\":\""
#define SUM_END "\"}"
#define SUM_START_BYTES (sizeof SUM_START - 1)
#define SUM_BYTES (SUM_START_BYTES + 64 + sizeof SUM_END - 1)

void rsbx_record_autop(struct rsbx_record *record)
{
    int saved = errno;

    json_decref(record->data);
    record->data = NULL;
    errno = saved;
}

bool rsbx_event_good(const char *event)
{
    size_t length = strnlen(event, RSBX_EVENT_BYTES);

    return length > 0 && length < RSBX_EVENT_BYTES && event[0] >= 'a' && event[0] <= 'z' &&
           strspn(event, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

struct dump {
    struct rsbx_buf *out;
    int rc;
    reposbx_error *err;
};

static int append_piece(const char *text, size_t length, void *payload)
{
    struct dump *dump = payload;

    dump->rc = rsbx_buf_append(dump->out, text, length, dump->err);
    return dump->rc;
}

/* Compact ASCII: what JSON can escape is escaped, so that no text breaks or disguises a line. */
static int append_data(struct rsbx_buf *out, const json_t *data, reposbx_error *err)
{
    struct dump dump = { out, REPOSBX_OK, err };

    if (json_dump_callback(data, append_piece, &dump, JSON_COMPACT | JSON_ENSURE_ASCII) == 0)
        return REPOSBX_OK;
    if (dump.rc != 0)
        return dump.rc;
    return rsbx_fail(err, REPOSBX_EINVALID, "the data of a record cannot be written as JSON");
}

/* What was written must be what a reader gets. */
static int read_back(const char *line, size_t length, const struct rsbx_record *wanted,
                     reposbx_error *err)
{
    RSBX_AUTO(rsbx_record) struct rsbx_record found = { .data = NULL };

    if (rsbx_record_parse(&found, line, length, NULL) == 0 &&
        json_equal(found.data, wanted->data) && found.seq == wanted->seq)
        return REPOSBX_OK;
    return rsbx_fail(err, REPOSBX_EINVALID, "the data of event %s cannot be read back",
                     wanted->event);
}

int rsbx_record_write(struct rsbx_buf *out, const struct rsbx_record *record, reposbx_error *err)
{
    size_t start = out->length;
    char sum[RSBX_SHA256_HEX_BYTES];
    int rc;

    if (!rsbx_event_good(record->event) || !json_is_object(record->data))
        return rsbx_fail(err, REPOSBX_EINVALID, "no event name or no data object");
    rc = rsbx_buf_format(out, err,
                         "{\"seq\":%llu,\"time\":\"%s\",\"monotonic_ns\":%llu,\"boot_id\":\"%s\","
                         "\"event\":\"%s\",\"data\":",
                         (unsigned long long)record->seq, record->time,
                         (unsigned long long)record->monotonic_ns, record->boot_id, record->event);
    if (rc == 0)
        rc = append_data(out, record->data, err);
    if (rc == 0)
        rc = rsbx_buf_format(out, err, ",\"prev\":\"%s\"", record->prev);
    if (rc == 0) {
        rsbx_sha256_hex(sum, out->data + start, out->length - start);
        rc = rsbx_buf_format(out, err, SUM_START "%s" SUM_END, sum);
    }
    if (rc == 0)
        rc = read_back(out->data + start, out->length - start, record, err);
    return rc;
}

/* ---- reading ---- */

static bool sum_fits(const char *line, size_t length)
{
    char sum[RSBX_SHA256_HEX_BYTES];
    const char *place;

    if (length <= SUM_BYTES)
        return false;
    place = line + length - SUM_BYTES;
    rsbx_sha256_hex(sum, line, length - SUM_BYTES);
    return memcmp(place, SUM_START, SUM_START_BYTES) == 0 &&
           memcmp(place + SUM_START_BYTES, sum, 64) == 0 &&
           memcmp(place + SUM_START_BYTES + 64, SUM_END, sizeof SUM_END - 1) == 0;
}

static int take_text(char *out, size_t size, const json_t *object, const char *key,
                     reposbx_error *err)
{
    const char *text;
    int rc = rsbx_json_get_text(&text, object, key, "record", err);

    if (rc != 0)
        return rc;
    if (strlen(text) >= size)
        return rsbx_fail(err, REPOSBX_EMALFORMED, "\"%s\" is too long", key);
    memcpy(out, text, strlen(text) + 1);
    return REPOSBX_OK;
}

static int take_members(struct rsbx_record *out, json_t *object, reposbx_error *err)
{
    int rc = rsbx_json_get_u64(&out->seq, object, "seq", "record", err);

    if (rc == 0)
        rc = take_text(out->time, sizeof out->time, object, "time", err);
    if (rc == 0)
        rc = rsbx_json_get_u64(&out->monotonic_ns, object, "monotonic_ns", "record", err);
    if (rc == 0)
        rc = take_text(out->boot_id, sizeof out->boot_id, object, "boot_id", err);
    if (rc == 0)
        rc = take_text(out->event, sizeof out->event, object, "event", err);
    if (rc == 0)
        rc = take_text(out->prev, sizeof out->prev, object, "prev", err);
    if (rc == 0)
        rc = rsbx_json_get_node(&out->data, object, "data", JSON_OBJECT, "record", err);
    if (rc == 0 && json_object_size(object) != 8)
        rc = rsbx_fail(err, REPOSBX_EMALFORMED, "members too many");
    if (rc == 0 && !rsbx_is_hex(out->prev, 64))
        rc = rsbx_fail(err, REPOSBX_EMALFORMED, "\"prev\" is not 64 hex digits");
    if (rc == 0 && !rsbx_event_good(out->event))
        rc = rsbx_fail(err, REPOSBX_EMALFORMED, "\"event\" is no event name");
    return rc == 0 || rc == REPOSBX_EINTERNAL ? rc : REPOSBX_EMALFORMED;
}

int rsbx_record_parse(struct rsbx_record *out, const char *line, size_t length, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr object = NULL;
    struct rsbx_record record = { .data = NULL };
    json_error_t fault;
    int rc;

    if (!sum_fits(line, length))
        return rsbx_fail(err, REPOSBX_EMALFORMED, "the bytes do not match the record's own sum");
    /* Texts of engines may hold a NUL, which the strict reader would refuse. */
    object = json_loadb(line, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
    if (object == NULL)
        return rsbx_fail(err, REPOSBX_EMALFORMED, "not a JSON object: %s", fault.text);
    rc = take_members(&record, object, err);
    if (rc != 0) {
        if (err != NULL)
            err->code = rc;
        return rc;
    }
    json_incref(record.data);
    *out = record;
    return REPOSBX_OK;
}
