/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "wasm/internal.h"

#include "base/banned.h"

static const char text[] =
    "#include \"module.h\"\n"
    "static inline u32 helper(u32 x) {\n"
    "  return x;\n"
    "}\n"
    "\n"
    "static bool s_module_initialized = false;\n"
    "\n"
    "static u32 func_types[2];\n"
    "\n"
    "static void init_func_types(void) {\n"
    "  func_types[0] = 1;\n"
    "}\n"
    "static u32 w2c_f1(Z_rsbx_instance_t*, u32,\n"
    "    u32);\n"
    "static void w2c__start(Z_rsbx_instance_t*);\n"
    "static const u8 data_segment_data_w2c_d0[] = {\n"
    "  0x01, \n"
    "};\n"
    "static u32 w2c_f1(Z_rsbx_instance_t* instance, u32 w2c_p0,\n"
    "    u32 w2c_p1) {\n"
    "  w2c_B0:;\n"
    "  return w2c_p0;\n"
    "}\n"
    "\n"
    "static void w2c__start(Z_rsbx_instance_t* instance) {\n"
    "}\n"
    "/* export: '_start' */\n"
    "void Z_rsbxZ__start(Z_rsbx_instance_t* instance) {\n"
    "  return w2c__start(instance);\n"
    "}\n";

static void assert_file(int dir_fd, const char *name, const char *content)
{
    struct rsbx_buf bytes = RSBX_BUF_INIT(65536);

    assert_int_equal(rsbx_read_file_at(&bytes, dir_fd, name, NULL), 0);
    assert_string_equal(bytes.data, content);
    rsbx_buf_dispose(&bytes);
}

static void every_item_goes_to_its_place(void **state)
{
    char dir[] = "/tmp/reposbx-split.XXXXXX";
    unsigned pieces = 0;
    int dir_fd;

    (void)state;
    assert_non_null(mkdtemp(dir));
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(rsbx_wasm_split(&pieces, dir_fd, text, strlen(text), NULL), 0);
    assert_int_equal(pieces, 1);
    assert_file(dir_fd, "common.h",
                "#include \"module.h\"\n"
                "static inline u32 helper(u32 x) {\n"
                "  return x;\n"
                "}\n"
                "\n"
                "extern u32 func_types[2];\n"
                "u32 w2c_f1(Z_rsbx_instance_t*, u32,\n"
                "    u32);\n"
                "void w2c__start(Z_rsbx_instance_t*);\n"
                "extern const u8 data_segment_data_w2c_d0[] ;\n");
    assert_file(dir_fd, "piece000.c",
                "#include \"common.h\"\n"
                "u32 w2c_f1(Z_rsbx_instance_t* instance, u32 w2c_p0,\n"
                "    u32 w2c_p1) {\n"
                "  w2c_B0:;\n"
                "  return w2c_p0;\n"
                "}\n"
                "void w2c__start(Z_rsbx_instance_t* instance) {\n"
                "}\n");
    assert_file(dir_fd, "main.c",
                "#include \"common.h\"\n"
                "static bool s_module_initialized = false;\n"
                "\n"
                "u32 func_types[2];\n"
                "\n"
                "static void init_func_types(void) {\n"
                "  func_types[0] = 1;\n"
                "}\n"
                "const u8 data_segment_data_w2c_d0[] = {\n"
                "  0x01, \n"
                "};\n"
                "\n"
                "/* export: '_start' */\n"
                "void Z_rsbxZ__start(Z_rsbx_instance_t* instance) {\n"
                "  return w2c__start(instance);\n"
                "}\n");
    (void)close(dir_fd);
    assert_int_equal(rsbx_remove_tree_at(AT_FDCWD, dir, NULL), 0);
}

static void another_form_is_refused(void **state)
{
    unsigned pieces = 7;

    (void)state;
    assert_int_equal(rsbx_wasm_split(&pieces, -1, "int x;\n", 7, NULL), REPOSBX_EPROTOCOL);
    assert_int_equal(pieces, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_goes_to_its_place),
        cmocka_unit_test(another_form_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
