/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <reposbx/audit.h>
#include <reposbx/receipt.h>
#include <reposbx/version.h>

#include "receipt/internal.h"

#include "base/banned.h"

static int check_log(reposbx_audit_report *report, const char *folder, reposbx_error *err)
{
    int rc = reposbx_audit_verify(report, folder, err);

    if (rc != 0 || report->verdict == REPOSBX_AUDIT_WHOLE ||
        report->verdict == REPOSBX_AUDIT_OPEN)
        return rc;
    (void)rsbx_fail(err, REPOSBX_EPROTOCOL, "the log is %s: line %llu: %s",
                    report->verdict == REPOSBX_AUDIT_TORN ? "torn" : "tampered with",
                    (unsigned long long)report->bad_line, report->reason);
    if (report->verdict == REPOSBX_AUDIT_TORN)
        rsbx_hint(err, "a crash cut it; closing the session puts it in order");
    return REPOSBX_EPROTOCOL;
}

/* What the state folder says of the session now must be what the log recorded at its birth. */
static int compare_metadata(const json_t *now, const json_t *then, reposbx_error *err)
{
    static const char *const keys[] = { "sandbox_id",         "image",  "image_id",
                                        "platform",           "policy", "source_revision",
                                        "source_fingerprint", "source_tree" };

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (!json_equal(json_object_get(now, keys[i]), json_object_get(then, keys[i])))
            return rsbx_fail(err, REPOSBX_EPROTOCOL,
                             "the session's metadata has another %s than its log", keys[i]);
    }
    return REPOSBX_OK;
}

static int make_predicate(json_t **out, reposbx_provider *provider, const char *id,
                          reposbx_error *err)
{
    RSBX_AUTO(rsbx_text) char *text = NULL;
    RSBX_AUTO(rsbx_text) char *folder = NULL;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr now = NULL;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr then = NULL;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr predicate = NULL;
    reposbx_audit_report report;
    int rc = reposbx_session_metadata_json(&text, provider, id, err);

    if (rc == 0)
        rc = rsbx_json_parse(&now, text, strlen(text), "metadata", err);
    if (rc == 0)
        rc = reposbx_session_audit_path(&folder, provider, id, err);
    if (rc == 0)
        rc = check_log(&report, folder, err);
    if (rc == 0)
        rc = rsbx_receipt_gather(&predicate, &then, folder, report.records, report.head, err);
    if (rc == 0)
        rc = compare_metadata(now, then, err);
    if (rc == 0 && json_object_set_new(predicate, "tool",
                                       json_pack("{s:s, s:s}", "name", "reposbx", "version",
                                                 reposbx_version())) != 0)
        rc = rsbx_fail_memory(err);
    if (rc == 0)
        *out = rsbx_json_steal(&predicate);
    return rc;
}

int reposbx_receipt_make(char **out_json, reposbx_provider *provider, const char *id,
                         const reposbx_receipt_options *options, reposbx_error *err)
{
    static const reposbx_receipt_options defaults = REPOSBX_RECEIPT_OPTIONS_INIT;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr predicate = NULL;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr subjects = NULL;
    RSBX_AUTO(rsbx_json) rsbx_json_ptr statement = NULL;
    RSBX_AUTO(rsbx_text) char *text = NULL;
    int rc;

    if (out_json == NULL || provider == NULL || id == NULL)
        return rsbx_fail(err, REPOSBX_EINVALID, "%s: missing",
                         out_json == NULL ? "out_json" : provider == NULL ? "provider" : "id");
    if (options == NULL)
        options = &defaults;
    if (options->version != 1)
        return rsbx_fail(err, REPOSBX_EINVALID, "receipt options: version %u; this library knows 1",
                         options->version);
    rc = make_predicate(&predicate, provider, id, err);
    if (rc == 0)
        rc = rsbx_receipt_subjects(&subjects, predicate, err);
    if (rc != 0)
        return rc;
    statement = json_pack("{s:s, s:O, s:s, s:O}", "_type", RSBX_STATEMENT_TYPE, "subject", subjects,
                          "predicateType", REPOSBX_RECEIPT_TYPE, "predicate", predicate);
    rc = statement != NULL ? rsbx_json_text(&text, statement, err) : rsbx_fail_memory(err);
    /* In an envelope it grows by a third. */
    if (rc == 0 && strlen(text) > RSBX_MAX_RECEIPT_BYTES / 2)
        rc = rsbx_fail(err, REPOSBX_ELIMIT, "the receipt is larger than %u bytes",
                       RSBX_MAX_RECEIPT_BYTES / 2);
    if (rc == 0 && options->private_key != NULL)
        return rsbx_dsse_sign(out_json, text, strlen(text), options->private_key,
                              options->private_key_length, err);
    if (rc == 0)
        *out_json = rsbx_text_steal(&text);
    return rc;
}
