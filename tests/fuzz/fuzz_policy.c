/* SPDX-License-Identifier: Apache-2.0 */
/* Policy documents: a document that is taken says itself again, to the byte. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <reposbx/policy.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reposbx_policy *policy = NULL;
    reposbx_policy *again = NULL;
    char *first = NULL;
    char *second = NULL;

    if (reposbx_policy_parse(&policy, (const char *)data, size, NULL) != 0)
        return 0;
    if (reposbx_policy_json(&first, policy, 0, NULL) != 0 ||
        reposbx_policy_parse(&again, first, strlen(first), NULL) != 0 ||
        reposbx_policy_json(&second, again, 0, NULL) != 0 || strcmp(first, second) != 0)
        abort();
    free(first);
    free(second);
    reposbx_policy_free(policy);
    reposbx_policy_free(again);
    return 0;
}
