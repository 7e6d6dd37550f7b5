/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what fuzz_zip, fuzz_module, fuzz_attributes and fuzz_tar begin with, each taken by its decoder.
 * usage: seed_files FOLDER-FOR-ZIP FOLDER-FOR-MODULES FOLDER-FOR-ATTRIBUTES FOLDER-FOR-TAR */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "artifact/bundle.h"
#include "artifact/internal.h"
#include "base/cleanup.h"
#include "codec/tar.h"
#include "fuzz/seed.h"
#include "source/internal.h"
#include "unit/artifact/zipmake.h"
#include "wasm/internal.h"

#define ATTRIBUTES                                                                                 \
    "# comment\n[attr]binary -diff -merge -text\n*.c diff=cpp text eol=lf\n/docs/** export-ignore=\n" \
    "\"a b\\303\\244\" -text !diff\n**/deep/*/[!a-c]?.txt binary\n[[:alpha:]]\\* text\n"

static void write_zip(const char *folder)
{
    const struct rsbx_bundle_limits limits = { .max_members = 16, .max_bytes = 1U << 20 };
    const struct zipmake_member members[] = {
        { .name = "a/b.txt", .bytes = "hello", .length = 5, .crc = zipmake_crc("hello", 5) },
        { .name = "a/", .attributes = 040755U << 16 | 0x10U },
        { .name = "c", .bytes = "xyz", .length = 3, .crc = zipmake_crc("xyz", 3), .local64 = 1 },
    };
    RSBX_AUTO(rsbx_zip_rows) struct rsbx_zip_rows rows = { NULL, 0 };
    RSBX_AUTO(rsbx_buf) struct rsbx_buf zip = RSBX_BUF_INIT(65536);

    zipmake(&zip, members, sizeof members / sizeof members[0]);
    seed_must(rsbx_zip_directory(&rows, (const uint8_t *)zip.data, zip.length, &limits, NULL) == 0);
    seed_write(folder, "zip", zip.data, zip.length);
}

/* Two types, one import, a function, a page of memory, two exports, its code, three bytes of data. */
static void write_module(const char *folder)
{
    static const char module[] =
        "\0asm\1\0\0\0"
        "\1\x0c\2\x60\0\0\x60\4\x7f\x7f\x7f\x7f\1\x7f"
        "\2\x23\1\x16wasi_snapshot_preview1\x08"
        "fd_write\0\1"
        "\3\2\1\0"
        "\5\3\1\0\1"
        "\7\x13\2\6memory\2\0\6_start\0\1"
        "\x0a\4\1\2\0\x0b"
        "\x0b\x09\1\0\x41\x08\x0b\3"
        "abc";
    struct rsbx_wasm_parsed parsed = { .imports = false };

    seed_must(rsbx_wasm_parse(&parsed, module, sizeof module - 1, NULL) == 0 && parsed.imports);
    rsbx_wasm_parsed_dispose(&parsed);
    seed_write(folder, "module", module, sizeof module - 1);
}

static void write_attributes(const char *folder)
{
    struct rsbx_attr_names names = { NULL, 0, 0 };
    struct rsbx_attr_file file = { NULL, 0 };

    seed_must(rsbx_attr_names_init(&names, NULL) == 0 &&
              rsbx_attr_file_parse(&file, &names, ATTRIBUTES, strlen(ATTRIBUTES), true, NULL) == 0 &&
              file.line_count == 6);
    rsbx_attr_file_dispose(&file);
    rsbx_attr_names_dispose(&names);
    seed_write(folder, "attributes", ATTRIBUTES, strlen(ATTRIBUTES));
}

static void write_tar(const char *folder)
{
    const struct rsbx_tar_member member = { .path = "file", .mode = 0555, .bytes = "hello", .length = 5 };
    RSBX_AUTO(rsbx_buf) struct rsbx_buf tar = RSBX_BUF_INIT(65536);
    RSBX_AUTO(rsbx_buf) struct rsbx_buf bytes = RSBX_BUF_INIT(16);

    seed_must(rsbx_tar_write(&tar, &member, 1, NULL) == 0 &&
              rsbx_tar_read_file(&bytes, "file", tar.data, tar.length, NULL) == 0 && bytes.length == 5);
    seed_write(folder, "tar", tar.data, tar.length);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 64;
    write_zip(argv[1]);
    write_module(argv[2]);
    write_attributes(argv[3]);
    write_tar(argv[4]);
    return 0;
}
