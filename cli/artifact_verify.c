/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "cleanup.h"
#include "cli.h"
#include "output.h"

#define MAX_MEMBERS_BYTES (64U * 1024U * 1024U)

struct options {
    const char *members;
};

static int load_members(json_t **out, const char *file, reposbx_error *err)
{
    RSBX_CLI_AUTO(text) char *text = NULL;
    RSBX_CLI_AUTO(json) json_t *document = NULL;
    json_error_t problem;
    size_t length = 0;
    int rc = rsbx_cli_read_all(&text, &length, file, MAX_MEMBERS_BYTES, err);

    if (rc < 0)
        return rc;
    document = json_loadb(text, length, JSON_REJECT_DUPLICATES, &problem);
    if (document == NULL)
        return rsbx_cli_set(err, REPOSBX_EMALFORMED, "%s:%d:%d: %s", file, problem.line,
                            problem.column, problem.text);
    if (!json_is_array(document) && !json_is_array(json_object_get(document, "members")))
        return rsbx_cli_set(err, REPOSBX_EMALFORMED,
                            "%s: neither an array of members nor a bundle document", file);
    *out = document;
    document = NULL;
    return 0;
}

static const reposbx_artifact_member *find(const reposbx_artifact_bundle *bundle, const char *name)
{
    for (size_t i = 0; i < bundle->member_count; i++) {
        if (strcmp(bundle->members[i].name, name) == 0)
            return &bundle->members[i];
    }
    return NULL;
}

static int same(const json_t *object, uint64_t size, const char *sha256)
{
    const json_t *wanted_size = json_object_get(object, "size");
    const char *wanted = json_string_value(json_object_get(object, "sha256"));

    return json_is_integer(wanted_size) &&
           json_integer_value(wanted_size) == (json_int_t)size && wanted != NULL &&
           strcmp(wanted, sha256) == 0;
}

/* The members that a document names and those of the ZIP must be the same ones. Every name of the
 * document is in the ZIP, none twice, and there are equally many: so the sets are equal. */
static int compare(const reposbx_artifact_bundle *bundle, const json_t *document,
                   reposbx_error *err)
{
    const json_t *members = json_is_array(document) ? document
                                                    : json_object_get(document, "members");
    RSBX_CLI_AUTO(json) json_t *seen = rsbx_cli_need(json_object());

    if (json_is_object(document) && !same(document, bundle->size, bundle->sha256))
        return rsbx_cli_set(err, REPOSBX_EMALFORMED, "size or SHA-256 of the bundle differ");
    for (size_t i = 0; i < json_array_size(members); i++) {
        const json_t *wanted = json_array_get(members, i);
        const char *name = json_string_value(json_object_get(wanted, "path"));
        const reposbx_artifact_member *member = name == NULL ? NULL : find(bundle, name);

        if (name == NULL)
            return rsbx_cli_set(err, REPOSBX_EMALFORMED, "member %zu of the list has no path",
                                i + 1);
        if (member == NULL)
            return rsbx_cli_set(err, REPOSBX_EMALFORMED, "member %.500s is missing", name);
        if (json_object_get(seen, name) != NULL)
            return rsbx_cli_set(err, REPOSBX_EMALFORMED, "member %.500s is listed twice", name);
        if (!same(wanted, member->size, member->sha256))
            return rsbx_cli_set(err, REPOSBX_EMALFORMED, "member %.500s differs", name);
        (void)json_object_set_new(seen, name, json_true());
    }
    for (size_t i = 0; i < bundle->member_count; i++) {
        if (json_object_get(seen, bundle->members[i].name) == NULL)
            return rsbx_cli_set(err, REPOSBX_EMALFORMED, "member %.500s is not on the list",
                                bundle->members[i].name);
    }
    return 0;
}

static int say_no(const struct rsbx_cli_call *call, const reposbx_error *problem)
{
    RSBX_CLI_AUTO(json) json_t *document = NULL;
    const char *file = call->operands[0];

    if (call->cli->json) {
        document = rsbx_cli_need(
            json_pack("{s:b,s:o,s:o}", "ok", 0, "path", rsbx_cli_json_bytes(file, strlen(file)),
                      "problem", rsbx_cli_json_bytes(problem->message, strlen(problem->message))));
        (void)rsbx_cli_print_json(call->cli, document);
    } else {
        (void)fprintf(stderr, "reposbx: %s\n", problem->message);
    }
    return RSBX_CLI_NO;
}

static int say_yes(const struct rsbx_cli_call *call, const reposbx_artifact_bundle *bundle)
{
    RSBX_CLI_AUTO(text) char *text = NULL;
    RSBX_CLI_AUTO(json) json_t *document = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (!call->cli->json) {
        rsbx_cli_print_bundle(bundle);
        return RSBX_CLI_OK;
    }
    if (reposbx_artifact_bundle_json(&text, bundle, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    document = rsbx_cli_need(json_loads(text, 0, NULL));
    (void)json_object_set_new(document, "ok", json_true());
    return rsbx_cli_print_json(call->cli, document);
}

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(bundle) reposbx_artifact_bundle bundle = { 0 };
    RSBX_CLI_AUTO(json) json_t *members = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;
    int rc;

    if (options->members != NULL && load_members(&members, options->members, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    rc = reposbx_artifact_verify(&bundle, call->operands[0], &err);
    if (rc == 0 && members != NULL)
        rc = compare(&bundle, members, &err);
    if (rc == REPOSBX_EMALFORMED)
        return say_no(call, &err);
    return rc < 0 ? rsbx_cli_fail(call->cli, &err) : say_yes(call, &bundle);
}

static const struct rsbx_cli_option table[] = {
    { "members", 0, RSBX_CLI_TEXT, offsetof(struct options, members), "FILE",
      "A JSON bundle document, or an array of {path, size, sha256}, that the ZIP must equal; - is "
      "stdin." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_artifact_verify = {
    .group = "artifact",
    .name = "verify",
    .summary = "check a ZIP of files and list its hashes",
    .operands = "FILE.zip",
    .min_operands = 1,
    .max_operands = 1,
    .text = "Reads the whole ZIP again: names, duplicates, links, sizes, checksums and bombs. Any "
            "ZIP may be checked, not only one made here. Prints the members with their hashes.",
    .exits = "1 when the ZIP is not in order, or differs from --members.",
    .example = "reposbx artifact verify out.zip --members out.json",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
