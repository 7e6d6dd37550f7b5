/* SPDX-License-Identifier: Apache-2.0 */
/* .gitattributes of a stranger: whatever the lines are, they are read, and matching ends. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "source/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = { "a", "a/b.c", "docs/deep/down/file.txt", "\xff[a]*" };
    struct rsbx_attr_names names = { NULL, 0, 0 };
    struct rsbx_attr_file file = { NULL, 0 };
    uint64_t steps = 0;

    if (rsbx_attr_names_init(&names, NULL) != 0)
        abort();
    if (rsbx_attr_file_parse(&file, &names, (const char *)data, size, true, NULL) == 0) {
        for (size_t i = 0; i < file.line_count; i++) {
            const struct rsbx_attr_line *line = &file.lines[i];

            for (size_t k = 0; k < line->setting_count; k++) {
                if (line->settings[k].attribute >= names.count)
                    abort();
            }
            for (size_t k = 0; line->pattern != NULL && k < sizeof paths / sizeof paths[0]; k++)
                (void)rsbx_pattern_match(line->pattern, paths[k], strlen(paths[k]), false, &steps);
        }
        rsbx_attr_file_dispose(&file);
    }
    rsbx_attr_names_dispose(&names);
    return 0;
}
