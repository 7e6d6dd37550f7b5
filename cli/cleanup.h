/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_CLI_CLEANUP_H
#define RSBX_CLI_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include <reposbx/reposbx.h>

/*
 * Scope-bound clean-up for the command line, which uses nothing of the library but its public
 * headers: RSBX_CLI_AUTO(text) char *line = NULL; is freed on every way out.
 */
#define RSBX_CLI_AUTO(name) __attribute__((cleanup(rsbx_cli_##name##_autop)))

#define RSBX_CLI_CLEANUP(name, type, release)                                                      \
    static inline __attribute__((unused)) void rsbx_cli_##name##_autop(type *place)                \
    {                                                                                              \
        if (*place != NULL)                                                                        \
            release(*place);                                                                       \
    }                                                                                              \
    struct rsbx_cli_##name##_cleanup_is_defined

#define RSBX_CLI_DISPOSE(name, type, release)                                                      \
    static inline __attribute__((unused)) void rsbx_cli_##name##_autop(type *place)                \
    {                                                                                              \
        release(place);                                                                            \
    }                                                                                              \
    struct rsbx_cli_##name##_cleanup_is_defined

RSBX_CLI_CLEANUP(text, char *, free);
RSBX_CLI_CLEANUP(strings, const char **, free);
RSBX_CLI_CLEANUP(json, json_t *, json_decref);
RSBX_CLI_CLEANUP(problems, reposbx_policy_problem *, free);
RSBX_CLI_CLEANUP(provider, reposbx_provider *, reposbx_provider_free);
RSBX_CLI_CLEANUP(session, reposbx_session *, reposbx_session_free);
RSBX_CLI_CLEANUP(policy, reposbx_policy *, reposbx_policy_free);
RSBX_CLI_CLEANUP(runner, reposbx_runner *, reposbx_runner_free);
RSBX_CLI_CLEANUP(broker, reposbx_broker *, reposbx_broker_free);
RSBX_CLI_DISPOSE(run_result, reposbx_run_result, reposbx_run_result_dispose);
RSBX_CLI_DISPOSE(exec_result, reposbx_exec_result, reposbx_exec_result_dispose);
RSBX_CLI_DISPOSE(file_list, reposbx_file_list, reposbx_file_list_dispose);
RSBX_CLI_DISPOSE(diff_result, reposbx_diff_result, reposbx_diff_result_dispose);
RSBX_CLI_DISPOSE(bundle, reposbx_artifact_bundle, reposbx_artifact_bundle_dispose);
RSBX_CLI_DISPOSE(receipt_report, reposbx_receipt_report, reposbx_receipt_report_dispose);
RSBX_CLI_DISPOSE(doctor_report, reposbx_doctor_report, reposbx_doctor_report_dispose);
RSBX_CLI_DISPOSE(validate_result, reposbx_validate_result, reposbx_validate_result_dispose);
RSBX_CLI_DISPOSE(reap_report, reposbx_reap_report, reposbx_reap_report_dispose);

static inline __attribute__((unused)) void rsbx_cli_fd_autop(const int *place)
{
    if (*place >= 0)
        (void)close(*place);
}

#endif
