/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/guest/group.h"

#include <signal.h>

#include "base/banned.h"

struct box box;
struct reply reply;

int guest_setup(void **state)
{
    (void)state;
    /* A guest that ended is a failed check, and not the end of the program. */
    (void)signal(SIGPIPE, SIG_IGN);
    box_open(&box);
    return 0;
}

int guest_root_setup(void **state)
{
    (void)guest_setup(state);
    box.root = true;
    return 0;
}

int guest_teardown(void **state)
{
    (void)state;
    reply_free(&reply);
    box_close(&box);
    return 0;
}
