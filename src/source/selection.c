/* SPDX-License-Identifier: Apache-2.0 */
#include "source/internal.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"
#include "guest/fingerprint.h"

#include "base/banned.h"

/* Policy's list of subtrees: some thousand paths. */
#define MAX_JSON_BYTES (16U * 1024U * 1024U)

static int put_unit(struct rsbx_buf *out, uint32_t unit, reposbx_error *err)
{
    return rsbx_buf_format(out, err, "\\u%04x", unit);
}

/* One character as in Python's json.dumps with ensure_ascii, the form that the digest is taken
 * of. */
static int put_char(struct rsbx_buf *out, uint32_t code, reposbx_error *err)
{
    static const char from[] = "\"\\\n\r\t\f\b";
    static const char to[] = "\"\\nrtfb";
    const char *found = code < 128 && code != 0 ? strchr(from, (int)code) : NULL;
    char text[2] = { (char)code, '\0' };
    int rc;

    if (found != NULL)
        return rsbx_buf_format(out, err, "\\%c", to[found - from]);
    if (code >= 0x20 && code < 0x80)
        return rsbx_buf_append(out, text, 1, err);
    if (code < 0x10000)
        return put_unit(out, code, err);
    rc = put_unit(out, 0xD800 + ((code - 0x10000) >> 10), err);
    return rc != 0 ? rc : put_unit(out, 0xDC00 + ((code - 0x10000) & 0x3FF), err);
}

static int put_text(struct rsbx_buf *out, const char *text, reposbx_error *err)
{
    size_t length = strlen(text);
    int rc = rsbx_buf_text(out, "\"", err);

    while (length > 0 && rc == 0) {
        uint32_t code = 0;
        size_t used = rsbx_utf8_next(&code, text, length);

        if (used == 0) {
            used = 1;
            code = 0xDC00U + (unsigned char)*text;
        }
        rc = put_char(out, code, err);
        text += used;
        length -= used;
    }
    return rc != 0 ? rc : rsbx_buf_text(out, "\"", err);
}

static int check_exclude(const char *const *excludes, size_t i, reposbx_error *err)
{
    char normal[RSBX_MAX_PATH_BYTES + 1];
    int rc = rsbx_path_request(normal, excludes[i], false, "exclude_subtree", err);

    if (rc != 0)
        return rc;
    if (strcmp(normal, excludes[i]) != 0)
        return rsbx_fail(err, REPOSBX_EPOLICY, "exclude_subtree: %s must be written %s",
                         excludes[i], normal);
    if (i > 0 && rsbx_fp_compare(excludes[i - 1], strlen(excludes[i - 1]), normal,
                                 strlen(normal)) >= 0)
        return rsbx_fail(err, REPOSBX_EPOLICY, "exclude_subtree: %s is out of order or given twice",
                         normal);
    for (size_t j = 0; j < i; j++) {
        if (rsbx_path_below(normal, strlen(normal), excludes[j]))
            return rsbx_fail(err, REPOSBX_EPOLICY, "exclude_subtree: %s lies below %s", normal,
                             excludes[j]);
    }
    return REPOSBX_OK;
}

int rsbx_selection_json(char **out, const char *const *excludes, size_t exclude_count,
                        reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf text = RSBX_BUF_INIT(MAX_JSON_BYTES);
    char *result;
    int rc = rsbx_buf_text(&text, "{\"exclude_subtrees\":[", err);

    for (size_t i = 0; i < exclude_count && rc == 0; i++) {
        rc = check_exclude(excludes, i, err);
        if (rc == 0 && i > 0)
            rc = rsbx_buf_text(&text, ",", err);
        if (rc == 0)
            rc = put_text(&text, excludes[i], err);
    }
    if (rc == 0)
        rc = rsbx_buf_text(&text, "],\"repository_filter_policy\":4,\"schema\":"
                                  "\"codenib.repository-source-selection.v1\"}", err);
    if (rc != 0)
        return rc;
    result = rsbx_buf_steal(&text);
    if (result == NULL)
        return rsbx_fail_memory(err);
    *out = result;
    return REPOSBX_OK;
}
