/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that the interpreter reads. Without inputs it is the code itself. With inputs a
 * preamble comes first: it writes them below /tmp/input, compiles the code as a text of its own (so
 * that its lines count from 1 and a "from __future__" in its first line is its first statement),
 * takes itself out of the namespace and of tracebacks, and runs it. Everything foreign in it is
 * base64: no byte of an input or of the code can end a literal.
 */
#include <string.h>

#include "run/internal.h"

#include "base/banned.h"

/* Long literals cost the parser much; lists of shorter ones do not. */
#define PIECE_BYTES 49152U

static const char preamble[] =
    "def _reposbx(inputs, code):\n"
    "    import base64, os, sys\n"
    "    own = {sys._getframe(0).f_code, sys._getframe(1).f_code}\n"
    "    del sys._getframe(1).f_globals['_reposbx']\n"
    "    shown = sys.excepthook\n"
    "    def excepthook(kind, value, trace):\n"
    "        while trace is not None and trace.tb_frame.f_code in own:\n"
    "            trace = trace.tb_next\n"
    "        shown(kind, value.with_traceback(trace), trace)\n"
    "    sys.excepthook = excepthook\n"
    "    os.makedirs('/tmp/input', exist_ok=True)\n"
    "    for name, pieces in inputs:\n"
    "        with open('/tmp/input/' + name, 'xb') as file:\n"
    "            for piece in pieces:\n"
    "                file.write(base64.b64decode(piece))\n"
    "    text = b''.join(base64.b64decode(piece) for piece in code)\n"
    "    return compile(text, '<stdin>', 'exec', dont_inherit=True)\n"
    "exec(_reposbx([\n";

static int put_base64(struct rsbx_buf *out, const unsigned char *bytes, size_t length,
                      reposbx_error *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t groups = (length + 2) / 3;
    char *at = rsbx_buf_reserve(out, groups * 4, err);

    if (at == NULL)
        return REPOSBX_ELIMIT;
    for (size_t i = 0; i < length; i += 3) {
        size_t left = length - i;
        unsigned int group = (unsigned int)bytes[i] << 16;

        if (left > 1)
            group |= (unsigned int)bytes[i + 1] << 8;
        if (left > 2)
            group |= bytes[i + 2];
        *at++ = digits[group >> 18];
        *at++ = digits[group >> 12 & 63];
        *at++ = left > 1 ? digits[group >> 6 & 63] : '=';
        *at++ = left > 2 ? digits[group & 63] : '=';
    }
    out->length += groups * 4;
    out->data[out->length] = '\0';
    return REPOSBX_OK;
}

/* ['…', '…'] */
static int put_pieces(struct rsbx_buf *out, const void *bytes, size_t length, reposbx_error *err)
{
    const unsigned char *at = bytes;
    int rc = rsbx_buf_text(out, "[", err);

    while (rc == 0 && length > 0) {
        size_t piece = length < PIECE_BYTES ? length : PIECE_BYTES;

        rc = rsbx_buf_text(out, "'", err);
        if (rc == 0)
            rc = put_base64(out, at, piece, err);
        if (rc == 0)
            rc = rsbx_buf_text(out, "',\n", err);
        at += piece;
        length -= piece;
    }
    return rc == 0 ? rsbx_buf_text(out, "]", err) : rc;
}

int rsbx_run_compose(struct rsbx_buf *out, const reposbx_exec_spec *spec, reposbx_error *err)
{
    int rc;

    if (spec->input_count == 0)
        return rsbx_buf_append(out, spec->code != NULL ? spec->code : "", spec->code_length, err);
    rc = rsbx_buf_text(out, preamble, err);
    for (size_t i = 0; rc == 0 && i < spec->input_count; i++) {
        /* The name's alphabet was checked: nothing in it can end the literal. */
        rc = rsbx_buf_format(out, err, "('%s', ", spec->inputs[i].name);
        if (rc == 0)
            rc = put_pieces(out, spec->inputs[i].bytes, spec->inputs[i].length, err);
        if (rc == 0)
            rc = rsbx_buf_text(out, "),\n", err);
    }
    if (rc == 0)
        rc = rsbx_buf_text(out, "], ", err);
    if (rc == 0)
        rc = put_pieces(out, spec->code, spec->code_length, err);
    return rc == 0 ? rsbx_buf_text(out, "))\n", err) : rc;
}

int rsbx_run_program(char **out, size_t *length, const reposbx_exec_spec *spec, reposbx_error *err)
{
    RSBX_AUTO(rsbx_buf) struct rsbx_buf program = RSBX_BUF_INIT(RSBX_RUN_MAX_PROGRAM_BYTES);
    const struct rsbx_run_language *language;
    char *bytes;
    int rc = rsbx_run_language(&language, spec->language, err);

    if (rc == 0)
        rc = rsbx_run_check_inputs(spec, language, err);
    if (rc == 0)
        rc = rsbx_run_compose(&program, spec, err);
    if (rc != 0)
        return rc;
    *length = program.length;
    bytes = rsbx_buf_steal(&program);
    if (bytes == NULL)
        return rsbx_fail_memory(err);
    *out = bytes;
    return REPOSBX_OK;
}
