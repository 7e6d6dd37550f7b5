/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "cli.h"
#include "output.h"

struct options {
    uint64_t max_bytes;
};

/* RFC 4648, section 4. */
static char *base64(const char *bytes, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = (const unsigned char *)bytes;
    char *out = rsbx_cli_need(malloc((length + 2) / 3 * 4 + 1)), *at = out;

    for (; length >= 3; in += 3, length -= 3) {
        *at++ = digits[in[0] >> 2];
        *at++ = digits[(in[0] & 3U) << 4 | in[1] >> 4];
        *at++ = digits[(in[1] & 15U) << 2 | in[2] >> 6];
        *at++ = digits[in[2] & 63U];
    }
    if (length > 0) {
        unsigned int second = length == 2 ? in[1] : 0;

        *at++ = digits[in[0] >> 2];
        *at++ = digits[(in[0] & 3U) << 4 | second >> 4];
        *at++ = length == 2 ? digits[(second & 15U) << 2] : '=';
        *at++ = '=';
    }
    *at = '\0';
    return out;
}

/* Bytes that JSON cannot carry as text (not UTF-8, or with NUL) go as base64. */
static int print_document(const struct rsbx_cli *cli, const char *path, const char *bytes,
                          size_t length)
{
    RSBX_CLI_AUTO(json) json_t *document = rsbx_cli_need(json_object());
    RSBX_CLI_AUTO(text) char *encoded = NULL;
    json_t *content = memchr(bytes, 0, length) == NULL ? json_stringn(bytes, length) : NULL;
    const char *encoding = "utf-8";

    if (content == NULL) {
        encoded = base64(bytes, length);
        content = rsbx_cli_need(json_string(encoded));
        encoding = "base64";
    }
    (void)json_object_set_new(document, "path", rsbx_cli_json_bytes(path, strlen(path)));
    (void)json_object_set_new(document, "size", json_integer((json_int_t)length));
    (void)json_object_set_new(document, "encoding", json_string(encoding));
    (void)json_object_set_new(document, "content", content);
    return rsbx_cli_print_json(cli, document);
}

static int run(const struct rsbx_cli_call *call)
{
    const struct options *options = call->options;
    RSBX_CLI_AUTO(provider) reposbx_provider *provider = NULL;
    RSBX_CLI_AUTO(session) reposbx_session *session = NULL;
    RSBX_CLI_AUTO(text) char *bytes = NULL;
    uint64_t max_bytes = options->max_bytes == 0 ? REPOSBX_READ_BYTES_DEFAULT : options->max_bytes;
    reposbx_error err = REPOSBX_ERROR_INIT;
    size_t length = 0;

    if (rsbx_cli_open_session(&session, &provider, call, &err) < 0 ||
        reposbx_session_read(&bytes, &length, session, call->operands[1], max_bytes, &err) < 0)
        return rsbx_cli_fail(call->cli, &err);
    if (call->cli->json)
        return print_document(call->cli, call->operands[1], bytes, length);
    (void)fwrite(bytes, 1, length, stdout);
    return RSBX_CLI_OK;
}

static const struct rsbx_cli_option table[] = {
    { "max-bytes", 0, RSBX_CLI_COUNT, offsetof(struct options, max_bytes), "N",
      "Refuse a larger file; it is never cut. Default: 8388608 (8 MiB)." },
    { NULL, 0, RSBX_CLI_FLAG, 0, NULL, NULL },
};

const struct rsbx_cli_command rsbx_cli_session_read = {
    .group = "session",
    .name = "read",
    .summary = "print a file of the workspace",
    .operands = "ID PATH",
    .min_operands = 2,
    .max_operands = 2,
    .text = "Prints the bytes of a regular file on stdout. No symbolic link is followed. With "
            "--json: an object with path, size, encoding (utf-8 or base64) and content.",
    .example = "reposbx session read ID src/main.c > main.c",
    .options = table,
    .options_size = sizeof(struct options),
    .run = run,
};
