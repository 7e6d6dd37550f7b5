/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "codec/json.h"
#include "doctor/internal.h"

#include "base/banned.h"

const char *reposbx_doctor_status_word(int status)
{
    return status == REPOSBX_DOCTOR_PASS ? "pass" : status == REPOSBX_DOCTOR_FAIL ? "fail" : "skip";
}

void reposbx_doctor_report_dispose(reposbx_doctor_report *report)
{
    if (report == NULL)
        return;
    free(report->checks);
    memset(report, 0, sizeof *report);
}

int reposbx_doctor_report_json(char **out, const reposbx_doctor_report *report, reposbx_error *err)
{
    json_t *checks = json_array();
    RSBX_AUTO(rsbx_json) rsbx_json_ptr value =
        json_pack("{s:b, s:o}", "ok", report->failed == 0, "checks", checks);

    for (size_t i = 0; value != NULL && i < report->count; i++) {
        const reposbx_doctor_check *check = &report->checks[i];
        json_t *hint = check->hint[0] != '\0' ? json_string(check->hint) : json_null();

        if (json_array_append_new(
                checks, json_pack("{s:s, s:s, s:s, s:o}", "name", check->name, "status",
                                  reposbx_doctor_status_word(check->status), "detail",
                                  check->detail, "hint", hint)) != 0)
            return rsbx_fail_memory(err);
    }
    return value != NULL ? rsbx_json_text(out, value, err) : rsbx_fail_memory(err);
}

static void add(struct rsbx_doctor *doctor, const char *name, int status,
                const reposbx_error *text)
{
    reposbx_doctor_report *report = doctor->report;
    reposbx_doctor_check *check = &report->checks[report->count];

    if (report->count == RSBX_DOCTOR_MAX_ROWS)
        return;
    check->name = name;
    check->status = status;
    memcpy(check->detail, text->message, sizeof check->detail);
    memcpy(check->hint, text->hint, sizeof check->hint);
    report->count++;
    report->failed += status == REPOSBX_DOCTOR_FAIL;
    report->skipped += status == REPOSBX_DOCTOR_SKIP;
    if (doctor->options->row != NULL)
        doctor->options->row(doctor->options->row_payload, check);
}

/* The text goes through an error, which is printable and bounded. */
static void tell(struct rsbx_doctor *doctor, const char *name, int status, const char *hint,
                 const char *format, va_list arguments) __attribute__((format(printf, 5, 0)));
static void tell(struct rsbx_doctor *doctor, const char *name, int status, const char *hint,
                 const char *format, va_list arguments)
{
    reposbx_error row = REPOSBX_ERROR_INIT;
    char text[REPOSBX_MESSAGE_BYTES];

    (void)vsnprintf(text, sizeof text, format, arguments);
    (void)rsbx_fail(&row, REPOSBX_EPOLICY, "%s", text);
    if (hint != NULL)
        rsbx_hint(&row, "%s", hint);
    add(doctor, name, status, &row);
}

void rsbx_doctor_pass(struct rsbx_doctor *doctor, const char *name, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    tell(doctor, name, REPOSBX_DOCTOR_PASS, NULL, format, arguments);
    va_end(arguments);
}

void rsbx_doctor_skip(struct rsbx_doctor *doctor, const char *name, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    tell(doctor, name, REPOSBX_DOCTOR_SKIP, NULL, format, arguments);
    va_end(arguments);
}

void rsbx_doctor_fail(struct rsbx_doctor *doctor, const char *name, const char *hint,
                      const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    tell(doctor, name, REPOSBX_DOCTOR_FAIL, hint, format, arguments);
    va_end(arguments);
}

void rsbx_doctor_judge(struct rsbx_doctor *doctor, const char *name, int rc,
                       const reposbx_error *err, const char *detail)
{
    if (rc == 0)
        rsbx_doctor_pass(doctor, name, "%s", detail);
    else
        add(doctor, name, REPOSBX_DOCTOR_FAIL, err);
}

struct rsbx_deadline rsbx_doctor_patience(const struct rsbx_doctor *doctor)
{
    return rsbx_deadline_or(rsbx_deadline_in_ms(RSBX_ENGINE_CALL_MS), &doctor->options->cancel_fd);
}

bool rsbx_doctor_cancelled(const struct rsbx_doctor *doctor)
{
    struct pollfd cancel = { .fd = doctor->options->cancel_fd, .events = POLLIN };

    return cancel.fd >= 0 && poll(&cancel, 1, 0) > 0;
}

int reposbx_doctor(reposbx_doctor_report *out, const reposbx_doctor_options *options,
                   reposbx_error *err)
{
    static const reposbx_doctor_options defaults = REPOSBX_DOCTOR_OPTIONS_INIT;
    reposbx_doctor_report report = { .checks = NULL };
    struct rsbx_doctor doctor = { .options = options != NULL ? options : &defaults,
                                  .report = &report };
    int rc = REPOSBX_OK;

    if (out == NULL)
        return rsbx_fail(err, REPOSBX_EINVALID, "out: missing");
    if (doctor.options->version != 1)
        return rsbx_fail(err, REPOSBX_EINVALID, "doctor options: version %u; this library knows 1",
                         doctor.options->version);
    report.checks = calloc(RSBX_DOCTOR_MAX_ROWS + 1, sizeof *report.checks);
    if (report.checks == NULL)
        return rsbx_fail_memory(err);
    rsbx_doctor_libraries(&doctor);
    rsbx_doctor_state(&doctor);
    rsbx_doctor_policy(&doctor);
    rsbx_doctor_engine(&doctor);
    rsbx_doctor_host(&doctor);
    rsbx_doctor_others(&doctor);
    if (options != NULL && options->image != NULL) {
        rsbx_doctor_image(&doctor);
        rsbx_doctor_probe(&doctor);
    }
    if (rsbx_doctor_cancelled(&doctor))
        rc = rsbx_fail(err, REPOSBX_ECANCELLED, "cancelled by the caller");
    rsbx_image_facts_dispose(&doctor.image);
    rsbx_provider_free(doctor.engine);
    reposbx_policy_free(doctor.policy);
    reposbx_provider_free(doctor.provider);
    if (rc != 0)
        reposbx_doctor_report_dispose(&report);
    else
        *out = report;
    return rc;
}
