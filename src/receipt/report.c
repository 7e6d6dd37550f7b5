/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <reposbx/receipt.h>

#include "receipt/internal.h"

#include "base/banned.h"

const char *reposbx_receipt_result_word(int result)
{
    switch ((enum reposbx_receipt_result)result) {
    case REPOSBX_RECEIPT_OK:
        return "ok";
    case REPOSBX_RECEIPT_NOT_CHECKED:
        return "not_checked";
    case REPOSBX_RECEIPT_FAILED:
        break;
    }
    return "failed";
}

void reposbx_receipt_report_dispose(reposbx_receipt_report *report)
{
    if (report == NULL)
        return;
    free(report->checks);
    memset(report, 0, sizeof *report);
}

int reposbx_receipt_report_json(char **out, const reposbx_receipt_report *report,
                                reposbx_error *err)
{
    RSBX_AUTO(rsbx_json) rsbx_json_ptr checks = json_array();
    RSBX_AUTO(rsbx_json) rsbx_json_ptr value = NULL;

    if (out == NULL || report == NULL)
        return rsbx_fail(err, REPOSBX_EINVALID, "%s: missing", out == NULL ? "out" : "report");
    for (size_t i = 0; i < report->count; i++) {
        const reposbx_receipt_check *check = &report->checks[i];

        if (json_array_append_new(
                checks, json_pack("{s:s, s:s, s:s}", "name", check->name, "result",
                                  reposbx_receipt_result_word(check->result), "detail",
                                  check->detail)) != 0)
            return rsbx_fail_memory(err);
    }
    value = json_pack("{s:b, s:I, s:I, s:O}", "ok", report->failed == 0, "failed",
                      (json_int_t)report->failed, "not_checked", (json_int_t)report->not_checked,
                      "checks", checks);
    if (value == NULL)
        return rsbx_fail_memory(err);
    return rsbx_json_text(out, value, err);
}
