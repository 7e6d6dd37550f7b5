/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <reposbx/artifact.h>
#include <reposbx/audit.h>
#include <reposbx/receipt.h>

#include "base/text.h"
#include "codec/sha256.h"
#include "policy/policy.h"
#include "receipt/internal.h"

#include "base/banned.h"

/*
 * Every check ends in one row: ok, failed with the first difference, or not checked with what was
 * missing. A check is added before it is known to be possible, so none is left out in silence.
 * Functions return 0 when they came to a row, and an error only for what was given and cannot be
 * read.
 */
struct verifying {
    reposbx_receipt_report report;
    const reposbx_receipt_verify_options *options;
    reposbx_error *err;
    json_t *document;      /* envelope or statement */
    struct rsbx_buf payload;
    json_t *statement;
    const json_t *predicate; /* NULL: the receipt is not in order */
};

static int row(struct verifying *verifying, const char *name, int result, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int row(struct verifying *verifying, const char *name, int result, const char *format, ...)
{
    reposbx_receipt_report *report = &verifying->report;
    reposbx_receipt_check *grown =
        realloc(report->checks, (report->count + 1) * sizeof *grown);
    char raw[1024];
    va_list args;

    if (grown == NULL)
        return rsbx_fail_memory(verifying->err);
    report->checks = grown;
    va_start(args, format);
    if (vsnprintf(raw, sizeof raw, format, args) < 0)
        raw[0] = '\0';
    va_end(args);
    grown += report->count++;
    grown->name = name;
    grown->result = result;
    rsbx_text_printable(grown->detail, sizeof grown->detail, raw, strlen(raw));
    report->failed += result == REPOSBX_RECEIPT_FAILED ? 1 : 0;
    report->not_checked += result == REPOSBX_RECEIPT_NOT_CHECKED ? 1 : 0;
    return REPOSBX_OK;
}

#define OK REPOSBX_RECEIPT_OK
#define FAILED REPOSBX_RECEIPT_FAILED
#define NOT_CHECKED REPOSBX_RECEIPT_NOT_CHECKED

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

/* ---- the receipt itself ---- */

static int open_statement(struct verifying *verifying, const void *receipt, size_t length,
                          reposbx_error *why)
{
    int rc = length <= RSBX_MAX_RECEIPT_BYTES
                 ? rsbx_json_parse(&verifying->document, receipt, length, "receipt", why)
                 : rsbx_fail(why, REPOSBX_EMALFORMED, "the receipt is too large");

    if (rc != 0)
        return rc;
    if (json_object_get(verifying->document, "payloadType") == NULL) {
        verifying->statement = json_incref(verifying->document);
        return REPOSBX_OK;
    }
    rc = rsbx_dsse_payload(&verifying->payload, verifying->document, why);
    if (rc == 0)
        rc = rsbx_json_parse(&verifying->statement, verifying->payload.data,
                             verifying->payload.length, "payload", why);
    return rc;
}

static const char *statement_problem(const json_t *statement, json_t **subjects)
{
    static const char *const objects[] = { "tool", "session", "source", "image", "policy",
                                           "audit" };
    static const char *const arrays[] = { "commands", "writes", "bundles" };
    const json_t *predicate = json_object_get(statement, "predicate");

    if (strcmp(text_of(statement, "_type"), RSBX_STATEMENT_TYPE) != 0)
        return "it is no in-toto statement, version 1";
    if (strcmp(text_of(statement, "predicateType"), REPOSBX_RECEIPT_TYPE) != 0)
        return "its predicateType is not " REPOSBX_RECEIPT_TYPE;
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        if (!json_is_object(json_object_get(predicate, objects[i])))
            return "its predicate lacks an object";
    }
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        if (!json_is_array(json_object_get(predicate, arrays[i])))
            return "its predicate lacks a list";
    }
    if (rsbx_receipt_subjects(subjects, predicate, NULL) != 0 ||
        !json_equal(*subjects, json_object_get(statement, "subject")))
        return "its subjects are not those of its predicate";
    return NULL;
}

static int check_format(struct verifying *verifying, const void *receipt, size_t length)
{
    reposbx_error why = REPOSBX_ERROR_INIT;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr subjects = NULL;
    const char *problem;

    if (open_statement(verifying, receipt, length, &why) != 0)
        return row(verifying, "format", FAILED, "%s", why.message);
    problem = statement_problem(verifying->statement, &subjects);
    if (problem != NULL)
        return row(verifying, "format", FAILED, "%s", problem);
    verifying->predicate = json_object_get(verifying->statement, "predicate");
    return row(verifying, "format", OK, "in-toto statement of session %s, %zu commands",
               text_of(json_object_get(verifying->predicate, "session"), "id"),
               json_array_size(json_object_get(verifying->predicate, "commands")));
}

static int check_signature(struct verifying *verifying, reposbx_error *err)
{
    const reposbx_receipt_verify_options *options = verifying->options;
    bool envelope = verifying->payload.length > 0, good = false;
    int rc;

    if (options->public_key == NULL)
        return row(verifying, "signature", NOT_CHECKED, "%s",
                   envelope ? "no public key was given" : "the receipt is not signed");
    rc = rsbx_dsse_public_key(options->public_key, options->public_key_length, err);
    if (rc != 0)
        return rc;
    if (!envelope)
        return row(verifying, "signature", FAILED, "the receipt is not signed");
    rc = rsbx_dsse_check(&good, verifying->document, &verifying->payload, options->public_key,
                         options->public_key_length, err);
    if (rc != 0)
        return rc;
    return row(verifying, "signature", good ? OK : FAILED, "%s",
               good ? "signed with the given key" : "no signature is of the given key");
}

static int check_policy(struct verifying *verifying)
{
    const json_t *policy = json_object_get(verifying->predicate, "policy");
    reposbx_error why = REPOSBX_ERROR_INIT;
    char digest[65];

    if (verifying->predicate == NULL)
        return row(verifying, "policy", NOT_CHECKED, "the receipt is not in order");
    if (rsbx_receipt_policy_digest(digest, json_object_get(policy, "document"), &why) != 0)
        return row(verifying, "policy", FAILED, "%s", why.message);
    if (strcmp(digest, text_of(policy, "sha256")) != 0)
        return row(verifying, "policy", FAILED, "the document has the digest %s", digest);
    return row(verifying, "policy", OK, "sha256 %s", digest);
}

/* ---- files ---- */

static int hash_file(char sha256[RSBX_SHA256_HEX_BYTES], uint64_t *size, const char *file,
                     reposbx_error *err)
{
    /* Not blocking: a fifo must not stop us before it is seen to be one. */
    RSBX_AUTO(rsbx_fd) int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat facts;

    if (fd < 0)
        return rsbx_fail_errno(err, errno == ENOENT || errno == ENOTDIR ? REPOSBX_ENOTFOUND
                                                                        : REPOSBX_EIO,
                               "cannot open %s", file);
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode))
        return rsbx_fail(err, REPOSBX_EIO, "%s is not a regular file", file);
    return rsbx_sha256_file(sha256, size, fd, UINT64_MAX, file, err);
}

static bool same_number(const json_t *object, const char *key, uint64_t value)
{
    const json_t *number = json_object_get(object, key);

    return json_is_integer(number) && json_integer_value(number) >= 0 &&
           (uint64_t)json_integer_value(number) == value;
}

static int check_patch(struct verifying *verifying, reposbx_error *err)
{
    const json_t *diff = json_object_get(verifying->predicate, "diff");
    char sha256[RSBX_SHA256_HEX_BYTES];
    uint64_t size;
    int rc;

    if (verifying->options->patch == NULL)
        return row(verifying, "patch", NOT_CHECKED, "%s",
                   json_is_object(diff) || verifying->predicate == NULL
                       ? "no patch was given"
                       : "no patch was given, and the receipt has none");
    rc = hash_file(sha256, &size, verifying->options->patch, err);
    if (rc != 0)
        return rc;
    if (verifying->predicate == NULL)
        return row(verifying, "patch", NOT_CHECKED, "the receipt is not in order");
    if (!json_is_object(diff))
        return row(verifying, "patch", FAILED, "the receipt has no patch");
    if (strcmp(sha256, text_of(diff, "sha256")) != 0 || !same_number(diff, "bytes", size))
        return row(verifying, "patch", FAILED, "it has sha256 %s and %llu bytes", sha256,
                   (unsigned long long)size);
    return row(verifying, "patch", OK, "from tree %s to %s", text_of(diff, "base_tree"),
               text_of(diff, "result_tree"));
}

/* ---- bundles ---- */

/* What differs, or NULL. */
static const char *bundle_problem(const reposbx_artifact_bundle *bundle, const json_t *wanted)
{
    const json_t *members = json_object_get(wanted, "members");

    if (!same_number(wanted, "size", bundle->size))
        return "its size differs";
    if (json_array_size(members) != bundle->member_count)
        return "it has another number of members";
    for (size_t i = 0; i < bundle->member_count; i++) {
        const reposbx_artifact_member *member = &bundle->members[i];
        const json_t *one = json_array_get(members, i);
        RSBX_AUTO(rsbx_json) rsbx_json_ptr name =
            rsbx_json_bytes(member->name, strlen(member->name));

        if (!json_equal(name, json_object_get(one, "path")) ||
            !same_number(one, "size", member->size) ||
            strcmp(text_of(one, "sha256"), member->sha256) != 0)
            return "a member differs";
    }
    return NULL;
}

/* Marks the receipt's bundles that this file is. */
static int check_given_bundle(struct verifying *verifying, json_t *seen, const char *file,
                              reposbx_error *err)
{
    const json_t *bundles = json_object_get(verifying->predicate, "bundles");
    reposbx_artifact_bundle bundle = { .path = NULL };
    reposbx_error why = REPOSBX_ERROR_INIT;
    const char *problem = "it is none of the receipt's bundles";
    int rc = reposbx_artifact_verify(&bundle, file, &why);

    if (rc == REPOSBX_EMALFORMED)
        return row(verifying, "bundle", FAILED, "%s: %s", file, why.message);
    if (rc != 0) {
        if (err != NULL)
            *err = why;
        return rc;
    }
    for (size_t i = 0; i < json_array_size(bundles); i++) {
        const json_t *wanted = json_array_get(bundles, i);

        if (strcmp(text_of(wanted, "sha256"), bundle.sha256) != 0)
            continue;
        (void)json_object_set_new(seen, bundle.sha256, json_true());
        problem = bundle_problem(&bundle, wanted);
        break;
    }
    if (verifying->predicate == NULL)
        rc = row(verifying, "bundle", NOT_CHECKED, "the receipt is not in order");
    else if (problem != NULL)
        rc = row(verifying, "bundle", FAILED, "%s: %s", file, problem);
    else
        rc = row(verifying, "bundle", OK, "%s: %zu members, sha256 %s", file, bundle.member_count,
                 bundle.sha256);
    reposbx_artifact_bundle_dispose(&bundle);
    return rc;
}

static int check_bundles(struct verifying *verifying, reposbx_error *err)
{
    const json_t *bundles = json_object_get(verifying->predicate, "bundles");
    RSBX_AUTO(rsbx_json) rsbx_json_ptr seen = json_object();
    int rc = seen != NULL ? REPOSBX_OK : rsbx_fail_memory(err);

    for (size_t i = 0; rc == 0 && i < verifying->options->bundle_count; i++)
        rc = check_given_bundle(verifying, seen, verifying->options->bundles[i], err);
    for (size_t i = 0; rc == 0 && i < json_array_size(bundles); i++) {
        const char *sha256 = text_of(json_array_get(bundles, i), "sha256");

        if (json_object_get(seen, sha256) != NULL)
            continue;
        (void)json_object_set_new(seen, sha256, json_true());
        rc = row(verifying, "bundle", NOT_CHECKED, "the bundle %s was not given", sha256);
    }
    return rc;
}

/* ---- the log ---- */

/* The first member that the log tells otherwise, or NULL. */
static const char *predicate_problem(const json_t *given, const json_t *told)
{
    static const char *const keys[] = { "session", "source", "image",   "policy", "commands",
                                        "writes",  "diff",   "bundles", "audit",  "patches" };

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *one = json_object_get(given, keys[i]), *other = json_object_get(told, keys[i]);

        if (one != other && !json_equal(one, other)) /* both may lack it */
            return keys[i];
    }
    return json_object_size(given) == json_object_size(told) + 1 ? NULL : "what it should not";
}

static int check_audit(struct verifying *verifying, reposbx_error *err)
{
    const json_t *audit = json_object_get(verifying->predicate, "audit");
    const json_t *records = json_object_get(audit, "records");
    RSBX_AUTO(rsbx_json) rsbx_json_ptr told = NULL;
    reposbx_audit_report log;
    reposbx_error why = REPOSBX_ERROR_INIT;
    const char *problem;
    int rc;

    if (verifying->options->audit_dir == NULL)
        return row(verifying, "audit", NOT_CHECKED, "no audit folder was given");
    rc = reposbx_audit_verify(&log, verifying->options->audit_dir, err);
    if (rc != 0)
        return rc;
    if (verifying->predicate == NULL)
        return row(verifying, "audit", NOT_CHECKED, "the receipt is not in order");
    if (log.verdict == REPOSBX_AUDIT_TAMPERED)
        return row(verifying, "audit", FAILED, "the log is tampered with: line %llu: %s",
                   (unsigned long long)log.bad_line, log.reason);
    if (!json_is_integer(records) || json_integer_value(records) <= 0 ||
        (uint64_t)json_integer_value(records) > log.records)
        return row(verifying, "audit", FAILED, "the log has %llu good records, the receipt more",
                   (unsigned long long)log.records);
    rc = rsbx_receipt_gather(&told, NULL, verifying->options->audit_dir,
                             (uint64_t)json_integer_value(records), text_of(audit, "head"), &why);
    if (rc == REPOSBX_EINTERNAL || rc == REPOSBX_EIO) {
        if (err != NULL)
            *err = why;
        return rc;
    }
    if (rc != 0)
        return row(verifying, "audit", FAILED, "%s", why.message);
    problem = predicate_problem(verifying->predicate, told);
    if (problem != NULL)
        return row(verifying, "audit", FAILED, "the receipt and the log differ in: %s", problem);
    return row(verifying, "audit", OK, "records 1 to %lld of %llu say what the receipt says",
               (long long)json_integer_value(records), (unsigned long long)log.records);
}

/* ---- the repository ---- */

static int check_repository(struct verifying *verifying, reposbx_error *err)
{
    const json_t *source = json_object_get(verifying->predicate, "source");
    const char *revision = text_of(source, "revision");
    RSBX_AUTO(rsbx_text) char *text = NULL;
    RSBX_AUTO(rsbx_policy) rsbx_policy_ptr policy = NULL;
    reposbx_error why = REPOSBX_ERROR_INIT;
    char tree[41] = "";
    int rc;

    if (verifying->options->repo == NULL)
        return row(verifying, "repository", NOT_CHECKED, "no repository was given");
    if (verifying->predicate == NULL)
        return row(verifying, "repository", NOT_CHECKED, "the receipt is not in order");
    if (revision[0] == '\0')
        return row(verifying, "repository", FAILED, "the session had a plain folder, no revision");
    rc = rsbx_json_text(&text,
                        json_object_get(json_object_get(verifying->predicate, "policy"),
                                        "document"),
                        &why);
    if (rc == 0)
        rc = reposbx_policy_parse(&policy, text, strlen(text), &why);
    if (rc == 0)
        rc = reposbx_repository_tree(tree, verifying->options->repo, revision, policy, &why);
    if (rc == REPOSBX_EINTERNAL) {
        if (err != NULL)
            *err = why;
        return rc;
    }
    if (rc != 0)
        return row(verifying, "repository", FAILED, "%s", why.message);
    if (strcmp(tree, text_of(source, "tree")) != 0)
        return row(verifying, "repository", FAILED, "revision %s has the tree %s", revision, tree);
    return row(verifying, "repository", OK, "revision %s has the tree %s", revision, tree);
}

int reposbx_receipt_verify(reposbx_receipt_report *out, const void *receipt, size_t length,
                           const reposbx_receipt_verify_options *options, reposbx_error *err)
{
    static const reposbx_receipt_verify_options defaults = REPOSBX_RECEIPT_VERIFY_OPTIONS_INIT;
    struct verifying verifying = { .options = options != NULL ? options : &defaults,
                                   .err = err,
                                   .payload = RSBX_BUF_INIT(RSBX_MAX_RECEIPT_BYTES + 16U) };
    int rc;

    if (out == NULL || (receipt == NULL && length > 0))
        return rsbx_fail(err, REPOSBX_EINVALID, "%s: missing", out == NULL ? "out" : "receipt");
    if (verifying.options->version != 1)
        return rsbx_fail(err, REPOSBX_EINVALID, "verify options: version %u; this library knows 1",
                         verifying.options->version);
    if (verifying.options->bundle_count > 0 && verifying.options->bundles == NULL)
        return rsbx_fail(err, REPOSBX_EINVALID, "bundles: missing");
    rc = check_format(&verifying, receipt, length);
    if (rc == 0)
        rc = check_signature(&verifying, err);
    if (rc == 0)
        rc = check_policy(&verifying);
    if (rc == 0)
        rc = check_patch(&verifying, err);
    if (rc == 0)
        rc = check_bundles(&verifying, err);
    if (rc == 0)
        rc = check_audit(&verifying, err);
    if (rc == 0)
        rc = check_repository(&verifying, err);
    json_decref(verifying.statement);
    json_decref(verifying.document);
    rsbx_buf_dispose(&verifying.payload);
    if (rc != 0) {
        reposbx_receipt_report_dispose(&verifying.report);
        return rc;
    }
    *out = verifying.report;
    return REPOSBX_OK;
}
