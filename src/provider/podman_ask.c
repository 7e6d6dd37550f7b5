/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/podman_ask.h"

#include "base/buf.h"
#include "base/limits.h"
#include "provider/podman_spec.h"

#include "base/banned.h"

int rsbx_podman_ask(json_t **out, const struct rsbx_podman *program, const char *const *words,
                    const char *what, struct rsbx_deadline deadline, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(RSBX_MAX_REPLY_BYTES);
    struct rsbx_podman_call call = { .argv = words, .output_bytes = text.limit, .deadline = deadline };
    int rc = rsbx_podman_text(&text, program, &call, what, err);

    if (rc == 0 &&
        rsbx_json_parse(out, text.data != NULL ? text.data : "", text.length, what, err) != 0) {
        if (err != NULL)
            err->code = REPOSBX_EPROTOCOL;
        rc = REPOSBX_EPROTOCOL;
    }
    return rc;
}

/* Its exit codes are 0, 1 and others for failures. */
int rsbx_podman_exists(bool *out, const struct rsbx_podman *program, const char *kind, const char *name,
                       struct rsbx_deadline deadline, reposbx_error *err)
{
    const char *const words[] = { kind, "exists", name, NULL };
    RSBX_AUTO(rsbx_podman_answer) struct rsbx_podman_answer answer = { 0 };
    struct rsbx_podman_call call = { .argv = words, .deadline = deadline };
    int rc = rsbx_podman_run(&answer, program, &call, err);

    if (rc == 0 && !answer.timed_out && answer.exit_code == 1) {
        *out = false;
        return REPOSBX_OK;
    }
    if (rc == 0)
        rc = rsbx_podman_check(&answer, kind, err);
    if (rc == 0)
        *out = true;
    return rc;
}

int rsbx_podman_host(struct rsbx_host_facts *out, unsigned int *version, const struct rsbx_podman *program,
                     struct rsbx_deadline deadline, reposbx_error *err)
{
    static const char *const words[] = { "info", "--format=json", NULL };
    RSBX_AUTO(rsbx_json) rsbx_json_ptr info = NULL;
    int rc = rsbx_podman_ask(&info, program, words, "podman info", deadline, err);

    return rc == 0 ? rsbx_podman_read_host(out, version, info, err) : rc;
}

int rsbx_podman_image(struct rsbx_image_facts *out, const struct rsbx_podman *program,
                      const char *reference, struct rsbx_deadline deadline, reposbx_error *err)
{
    const char *const words[] = { "image", "inspect", "--format=json", reference, NULL };
    RSBX_AUTO(rsbx_json) rsbx_json_ptr list = NULL;
    struct rsbx_image_facts facts = { 0 };
    bool there = false;
    int rc = rsbx_podman_exists(&there, program, "image", reference, deadline, err);

    if (rc == 0 && !there) {
        rc = rsbx_fail(err, REPOSBX_EUNAVAILABLE, "image %s is not in Podman's storage", reference);
        rsbx_hint(err, "images are never pulled: load or import it first, then name it by the id or "
                       "digest that podman shows");
    }
    if (rc == 0)
        rc = rsbx_podman_ask(&list, program, words, "image", deadline, err);
    if (rc != 0)
        return rc;
    rc = rsbx_podman_read_image(&facts, list, err);
    if (rc != 0) {
        rsbx_image_facts_dispose(&facts);
        return rc;
    }
    *out = facts;
    return REPOSBX_OK;
}
