/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/link.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/beneath.h"
#include "guest/content.h"

/* As many as Linux follows in one lookup. */
#define MAX_LINKS 40U

struct resolver {
    int root_fd;
    unsigned links;
    size_t done_length;
    char done[RSBX_GUEST_MAX_PATH + 1U];  /* what is resolved, without a link in it */
    char rest[2U * RSBX_GUEST_LINK_ROOM]; /* what is still to be walked */
};

/* Puts a link's target before the rest, with a slash between them where the link had one behind
 * it; false when it is too long or one link too many. */
static bool substitute(struct resolver *state, const char *target, bool slash)
{
    size_t target_length = strlen(target), rest_length = strlen(state->rest);
    size_t room = target_length + slash;

    if (++state->links > MAX_LINKS || room + rest_length >= sizeof(state->rest)) {
        return false;
    }
    memmove(state->rest + room, state->rest, rest_length + 1U);
    memcpy(state->rest, target, target_length);
    if (slash) {
        state->rest[target_length] = '/';
    }
    return true;
}

static bool append(struct resolver *state, const char *name, size_t length)
{
    if (state->done_length + length + 1U > RSBX_GUEST_MAX_PATH) {
        return false;
    }
    if (state->done_length > 0) {
        state->done[state->done_length++] = '/';
    }
    memcpy(state->done + state->done_length, name, length);
    state->done_length += length;
    state->done[state->done_length] = '\0';
    return true;
}

static void cut(struct resolver *state)
{
    state->done_length = rsbx_path_folder(state->done, state->done_length);
    state->done[state->done_length] = '\0';
}

/* The type of what is resolved so far; 0 when nothing is there. */
static mode_t type_of(const struct resolver *state)
{
    struct stat status;
    const char *path = state->done_length == 0 ? "." : state->done;

    return fstatat(state->root_fd, path, &status, AT_SYMLINK_NOFOLLOW) == 0
               ? status.st_mode & S_IFMT
               : 0;
}

/* Walks one name. OUTSIDE and UNRESOLVED end the walk, FOLDER and REGULAR say what is there. */
static enum rsbx_link_state walk_name(struct resolver *state, const char *name, size_t length,
                                      bool last)
{
    char target[RSBX_GUEST_LINK_ROOM];
    mode_t type;
    long got;

    if (length == 0 || (length == 1 && name[0] == '.')) {
        return type_of(state) == S_IFDIR ? RSBX_LINK_FOLDER : RSBX_LINK_UNRESOLVED;
    }
    if (length == 2 && name[0] == '.' && name[1] == '.') {
        if (state->done_length == 0) {
            return RSBX_LINK_OUTSIDE;
        }
        if (type_of(state) != S_IFDIR) {
            return RSBX_LINK_UNRESOLVED;
        }
        cut(state);
        return RSBX_LINK_FOLDER;
    }
    if (!append(state, name, length)) {
        return RSBX_LINK_UNRESOLVED;
    }
    type = type_of(state);
    if (type == S_IFDIR || type == S_IFREG) {
        return type == S_IFDIR ? RSBX_LINK_FOLDER : RSBX_LINK_REGULAR;
    }
    if (type != S_IFLNK) {
        return RSBX_LINK_UNRESOLVED;
    }
    got = rsbx_read_link(state->root_fd, state->done, target);
    if (got <= 0) {
        return RSBX_LINK_UNRESOLVED;
    }
    target[got] = '\0';
    if (target[0] == '/') {
        return RSBX_LINK_OUTSIDE;
    }
    cut(state);
    return substitute(state, target, !last) ? RSBX_LINK_FOLDER : RSBX_LINK_UNRESOLVED;
}

enum rsbx_link_state rsbx_link_resolve(int *fd, int root_fd, const char *path, size_t path_length,
                                       const char *target)
{
    struct resolver state = {.root_fd = root_fd};
    enum rsbx_link_state result = RSBX_LINK_FOLDER;

    if (target[0] == '/') {
        return RSBX_LINK_OUTSIDE;
    }
    state.done_length = rsbx_path_folder(path, path_length);
    memcpy(state.done, path, state.done_length);
    if (!substitute(&state, target, false)) {
        return RSBX_LINK_UNRESOLVED;
    }
    for (;;) {
        char name[256];
        size_t length = strcspn(state.rest, "/");
        bool last = state.rest[length] == '\0';

        if (length >= sizeof(name)) {
            return RSBX_LINK_UNRESOLVED;
        }
        memcpy(name, state.rest, length);
        memmove(state.rest, state.rest + length + !last, strlen(state.rest + length + !last) + 1U);
        result = walk_name(&state, name, length, last);
        if (result == RSBX_LINK_OUTSIDE || result == RSBX_LINK_UNRESOLVED) {
            return result;
        }
        if (last && state.rest[0] == '\0') {
            break;
        }
    }
    if (result == RSBX_LINK_REGULAR) {
        struct stat status;

        *fd = rsbx_open_regular(root_fd, state.done, &status);
        return *fd < 0 ? RSBX_LINK_UNRESOLVED : RSBX_LINK_REGULAR;
    }
    return RSBX_LINK_FOLDER;
}
