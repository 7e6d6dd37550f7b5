/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <reposbx/audit.h>

#include "base/text.h"
#include "codec/sha256.h"
#include "policy/policy.h"
#include "receipt/internal.h"

#include "base/banned.h"

/*
 * One pass over a log that was verified. Each line must follow the one before it, and the last one
 * wanted must have the verified hash: so a log that is replaced between verification and this pass
 * gives no predicate.
 */
typedef struct rsbx_sha256 *sha256_ptr;
RSBX_CLEANUP(sha256, sha256_ptr, rsbx_sha256_free);

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

struct gathering {
    uint64_t wanted, seen, bytes;
    char head[RSBX_SHA256_HEX_BYTES];
    struct rsbx_sha256 *whole; /* over all lines with their newlines */
    bool closed, poisoned;
    json_t *metadata; /* of sandbox_created */
    json_t *commands, *writes, *bundles;
    json_t *patches; /* placed in the workspace by a validation; NULL: none */
    json_t *diff;
    reposbx_error failure;
};

static const char *const started_keys[] = { "command_id", "argv", "argv_hex", "cwd",     "env",
                                            "stdin",      "limits", "observed", NULL };
static const char *const finished_keys[] = { "status",         "exit_code",  "signal",
                                             "exec_errno",     "timed_out",  "output_limited",
                                             "oom_killed",     "duration_ms", "peak_memory_bytes",
                                             "stdout",         "stderr",     NULL };
static const char *const diff_keys[] = { "sha256", "bytes",   "base_tree", "result_tree",
                                         "files",  "omitted", "untracked", NULL };
static const char *const patch_keys[] = { "sha256",      "bytes", "base_tree",
                                          "result_tree", "files", NULL };
static const char *const bundle_keys[] = { "sha256", "size", "members", NULL };
static const char *const write_keys[] = { "path", "bytes", "sha256", "executable", NULL };

/* Copies members; what the record lacks is null, so that every receipt has the same ones. */
static int copy(json_t *to, const json_t *from, const char *const *keys)
{
    for (; *keys != NULL; keys++) {
        json_t *value = json_object_get(from, *keys);

        if (json_object_set_new(to, *keys, value != NULL ? json_incref(value) : json_null()) != 0)
            return rsbx_fail_memory(NULL);
    }
    return REPOSBX_OK;
}

/* {"seq": …} and the members. */
static json_t *extract(uint64_t seq, const json_t *data, const char *const *keys)
{
    json_t *value = json_pack("{s:I}", "seq", (json_int_t)seq);

    if (value != NULL && copy(value, data, keys) != 0) {
        json_decref(value);
        value = NULL;
    }
    return value;
}

static int append(json_t *list, uint64_t seq, const json_t *data, const char *const *keys)
{
    return json_array_append_new(list, extract(seq, data, keys)) == 0 ? REPOSBX_OK
                                                                      : rsbx_fail_memory(NULL);
}

static int start_command(struct gathering *gathering, const json_t *data)
{
    json_t *command = extract(gathering->seen, data, started_keys);

    /* Until its end is found: a controller may have died in the middle. */
    if (command == NULL ||
        json_object_set_new(command, "finished_seq", json_null()) != 0 ||
        copy(command, NULL, finished_keys) != 0 ||
        json_object_set_new(command, "status", json_string("unfinished")) != 0) {
        json_decref(command);
        return rsbx_fail_memory(NULL);
    }
    return json_array_append_new(gathering->commands, command) == 0 ? REPOSBX_OK
                                                                    : rsbx_fail_memory(NULL);
}

static int finish_command(struct gathering *gathering, const json_t *data)
{
    const json_t *id = json_object_get(data, "command_id");
    size_t count = json_array_size(gathering->commands);
    /* A session runs one at a time: what ends is what began last. */
    json_t *command = count > 0 ? json_array_get(gathering->commands, count - 1) : NULL;

    if (command == NULL || !json_equal(json_object_get(command, "command_id"), id))
        return rsbx_fail(&gathering->failure, REPOSBX_EPROTOCOL,
                         "record %llu of the log ends a command that did not start",
                         (unsigned long long)gathering->seen);
    if (json_object_set_new(command, "finished_seq", json_integer((json_int_t)gathering->seen)) != 0)
        return rsbx_fail_memory(NULL);
    return copy(command, data, finished_keys);
}

static int on_event(struct gathering *gathering, const char *event, json_t *data)
{
    uint64_t seq = gathering->seen;

    if (strcmp(event, "sandbox_created") == 0 && gathering->metadata == NULL) {
        gathering->metadata = json_incref(json_object_get(data, "metadata"));
    } else if (strcmp(event, "command_started") == 0) {
        return start_command(gathering, data);
    } else if (strcmp(event, "command_finished") == 0) {
        return finish_command(gathering, data);
    } else if (strcmp(event, "file_written") == 0) {
        return append(gathering->writes, seq, data, write_keys);
    } else if (strcmp(event, "patch_applied") == 0) {
        if (gathering->patches == NULL)
            gathering->patches = json_array();
        return append(gathering->patches, seq, data, patch_keys);
    } else if (strcmp(event, "artifacts_collected") == 0) {
        return append(gathering->bundles, seq, data, bundle_keys);
    } else if (strcmp(event, "diff_created") == 0) {
        json_decref(gathering->diff);
        gathering->diff = extract(seq, data, diff_keys);
        return gathering->diff != NULL ? REPOSBX_OK : rsbx_fail_memory(NULL);
    } else if (strcmp(event, "session_poisoned") == 0) {
        gathering->poisoned = true;
    } else if (strcmp(event, "sandbox_closed") == 0) {
        gathering->closed = true;
    }
    return REPOSBX_OK;
}

/* One record. Its own sum was looked at by the verification of the log. */
static int on_line(void *payload, const char *line, size_t length)
{
    struct gathering *gathering = payload;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr record = NULL;
    const char *event, *prev;
    json_t *data;
    int rc;

    if (gathering->seen == gathering->wanted)
        return 1;
    /* Texts of engines may hold a NUL, which the strict reader would refuse. */
    record = json_loadb(line, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    event = json_string_value(json_object_get(record, "event"));
    prev = json_string_value(json_object_get(record, "prev"));
    data = json_object_get(record, "data");
    if (event == NULL || prev == NULL || data == NULL || strcmp(prev, gathering->head) != 0)
        return rsbx_fail(&gathering->failure, REPOSBX_EPROTOCOL,
                         "record %llu of the log changed while it was read",
                         (unsigned long long)gathering->seen);
    rsbx_sha256_hex(gathering->head, line, length);
    rsbx_sha256_update(gathering->whole, line, length);
    rsbx_sha256_update(gathering->whole, "\n", 1);
    gathering->bytes += length + 1;
    rc = on_event(gathering, event, data);
    if (rc != 0 && gathering->failure.code == 0)
        (void)rsbx_fail_memory(&gathering->failure);
    gathering->seen++;
    return rc;
}

static int read_log(struct gathering *gathering, const char *folder, const char *head,
                    reposbx_error *err)
{
    reposbx_error own = REPOSBX_ERROR_INIT;
    uint64_t offset = 0;
    int rc = reposbx_audit_read(folder, &offset, on_line, gathering, &own);

    if (rc < 0) {
        if (err != NULL)
            *err = gathering->failure.code != 0 ? gathering->failure : own;
        return rc;
    }
    if (gathering->seen != gathering->wanted || strcmp(gathering->head, head) != 0)
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the log is not the one that has this head");
    if (!json_is_object(gathering->metadata))
        return rsbx_fail(err, REPOSBX_EPROTOCOL, "the log does not tell how the session was made");
    return REPOSBX_OK;
}

int rsbx_receipt_policy_digest(char out[65], const json_t *document, reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *text = NULL;
    RSBX_AUTO(rsbx_policy) reposbx_policy *policy = NULL;
    int rc = rsbx_json_text(&text, document, err);

    if (rc == 0)
        rc = reposbx_policy_parse(&policy, text, strlen(text), err);
    return rc == 0 ? rsbx_policy_digest(out, policy, err) : rc;
}

/* A borrowed member of the metadata, or null. */
static json_t *fact(const struct gathering *gathering, const char *key)
{
    json_t *value = json_object_get(gathering->metadata, key);

    return value != NULL ? json_incref(value) : json_null();
}

static json_t *audit_value(const struct gathering *gathering)
{
    uint8_t digest[RSBX_SHA256_BYTES];
    char whole[RSBX_SHA256_HEX_BYTES];

    rsbx_sha256_finish(gathering->whole, digest);
    rsbx_hex(whole, digest, sizeof digest);
    return json_pack("{s:I, s:s, s:s, s:b, s:s, s:I}", "records", (json_int_t)gathering->seen,
                     "head", gathering->head, "verdict", gathering->closed ? "whole" : "open",
                     "poisoned", gathering->poisoned, "sha256", whole, "bytes",
                     (json_int_t)gathering->bytes);
}

static int build(json_t **out, const struct gathering *gathering, reposbx_error *err)
{
    char digest[65];
    RSBX_AUTO(rsbx_json) rsbx_json_ptr policy = fact(gathering, "policy");
    json_t *predicate;
    int rc = rsbx_receipt_policy_digest(digest, policy, err);

    if (rc != 0)
        return rc;
    predicate = json_pack(
        "{s:{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}, s:{s:o, s:o, s:o, s:o, s:o}, "
        "s:{s:o, s:o}, s:{s:s, s:O}, s:O, s:O, s:o, s:O, s:o}",
        "session", "id", fact(gathering, "sandbox_id"), "task_id", fact(gathering, "task_id"),
        "created_at", fact(gathering, "created_at"), "provider", fact(gathering, "provider"),
        "isolation", fact(gathering, "isolation"), "platform", fact(gathering, "platform"),
        "workspace", fact(gathering, "workspace"), "network", fact(gathering, "network"),
        "capabilities", fact(gathering, "capabilities"), "source", "revision",
        fact(gathering, "source_revision"), "tree", fact(gathering, "source_tree"), "fingerprint",
        fact(gathering, "source_fingerprint"), "file_count", fact(gathering, "source_file_count"),
        "bytes", fact(gathering, "source_bytes"), "image", "reference", fact(gathering, "image"),
        "id", fact(gathering, "image_id"), "policy", "sha256", digest, "document", policy,
        "commands", gathering->commands, "writes", gathering->writes, "diff",
        gathering->diff != NULL ? json_incref(gathering->diff) : json_null(), "bundles",
        gathering->bundles, "audit", audit_value(gathering));
    if (predicate != NULL && gathering->patches != NULL &&
        json_object_set(predicate, "patches", gathering->patches) != 0) {
        json_decref(predicate);
        predicate = NULL;
    }
    if (predicate == NULL)
        return rsbx_fail_memory(err);
    *out = predicate;
    return REPOSBX_OK;
}

int rsbx_receipt_gather(json_t **predicate, json_t **metadata, const char *folder,
                        uint64_t records, const char *head, reposbx_error *err)
{
    struct gathering gathering = { .wanted = records, .head = ZEROS,
                                   .failure = REPOSBX_ERROR_INIT };
    RSBX_AUTO(sha256) sha256_ptr whole = NULL;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr commands = json_array();
    RSBX_AUTO(rsbx_json) rsbx_json_ptr writes = json_array();
    RSBX_AUTO(rsbx_json) rsbx_json_ptr bundles = json_array();
    int rc = rsbx_sha256_new(&whole, err);

    if (rc == 0 && (commands == NULL || writes == NULL || bundles == NULL))
        rc = rsbx_fail_memory(err);
    gathering.whole = whole;
    gathering.commands = commands;
    gathering.writes = writes;
    gathering.bundles = bundles;
    if (rc == 0)
        rc = read_log(&gathering, folder, head, err);
    if (rc == 0)
        rc = build(predicate, &gathering, err);
    if (rc == 0 && metadata != NULL)
        *metadata = json_incref(gathering.metadata);
    json_decref(gathering.metadata);
    json_decref(gathering.diff);
    json_decref(gathering.patches);
    return rc;
}

static int add_subject(json_t *list, const char *name, const json_t *object)
{
    return json_array_append_new(list, json_pack("{s:s, s:{s:O}}", "name", name, "digest", "sha256",
                                                 json_object_get(object, "sha256")));
}

int rsbx_receipt_subjects(json_t **out, const json_t *predicate, reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr list = json_array();
    const json_t *diff = json_object_get(predicate, "diff");
    const json_t *bundles = json_object_get(predicate, "bundles");
    int failed = list == NULL;

    if (!failed && json_is_object(diff))
        failed = add_subject(list, "patch", diff);
    for (size_t i = 0; !failed && i < json_array_size(bundles); i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "bundle-%zu", i + 1);
        failed = add_subject(list, name, json_array_get(bundles, i));
    }
    if (!failed)
        failed = add_subject(list, "audit/events.jsonl", json_object_get(predicate, "audit"));
    if (failed)
        return rsbx_fail_memory(err);
    *out = rsbx_json_steal(&list);
    return REPOSBX_OK;
}
