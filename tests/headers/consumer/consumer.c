/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest customer: built against the installed library and nothing of the source tree. */
#include <stdio.h>
#include <string.h>

#include <reposbx/reposbx.h>

int main(void)
{
    puts(reposbx_version());
    return strcmp(reposbx_version(), REPOSBX_VERSION) != 0 ||
           strcmp(reposbx_code_word(REPOSBX_EPOLICY), "policy") != 0;
}
