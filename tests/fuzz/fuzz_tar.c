/* SPDX-License-Identifier: Apache-2.0 */
/* The archive in which an engine gives a file back: its bytes or a refusal, within the limit. */
#include <stdint.h>
#include <stdlib.h>

#include "codec/tar.h"

#define MOST 4096U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rsbx_buf out = RSBX_BUF_INIT(MOST);

    if (rsbx_tar_read_file(&out, "file", data, size, NULL) == 0 && out.length > MOST)
        abort();
    rsbx_buf_dispose(&out);
    return 0;
}
