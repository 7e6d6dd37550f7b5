/* SPDX-License-Identifier: Apache-2.0 */
/* Writes patches for fuzz_incoming's tree into a folder: what our own writer says of changes of every
 * kind, and what only Git says (renames, copies, short ids). usage: seed_incoming FOLDER */
#include <stdio.h>

#include <git2.h>

#include "codec/git2.h"
#include "fuzz/incoming_base.h"
#include "fuzz/seed.h"

#define MODE_FILE 0100644U

static const char *folder;
static unsigned int written;

static void write_seed(const char *text, size_t length)
{
    char name[32];

    (void)snprintf(name, sizeof name, "seed-%02u", written++);
    seed_write(folder, name, text, length);
}

struct step {
    const char *path;
    uint32_t mode; /* 0: gone */
    const char *bytes;
    size_t length;
};
#define TO(path, mode, text) { path, mode, text, sizeof(text) - 1 }
#define END { NULL, 0, NULL, 0 }

static const struct step changes[][5] = {
    { TO("a", MODE_FILE, "1\n2\nthree\n4\n5\n6\n7\n8\n9\n10\n11\ntwelve\n"), END },
    { TO("b", MODE_FILE, "one\ntwo\n"), TO("empty", MODE_FILE, "no more"), END },
    { TO("bin", MODE_FILE, "\0\1\2\3binary\0and\0more\0binary\n"), END },
    { TO("new/deep/er", 0100755U, "#!/bin/sh\nexit 0\n"), TO("nothing", MODE_FILE, ""), END },
    { TO("d/e/f", 0, ""), TO("d/g", MODE_FILE, "#!/bin/sh\n"), TO("bin", 0, ""), END },
    { TO("l", MODE_FILE, "a file\n"), TO("q\t\"q", MODE_FILE, "other\n"), END },
    { TO("d/e/f", 0, ""), TO("d/g", 0, ""), TO("d", MODE_FILE, "was a folder\n"), END },
    { TO("k", 0120000U, "d/e/f"), TO("l", 0120000U, "a"), END },
    { TO("n", MODE_FILE, "\0new binary\0\377\376"), TO("d/e/f", 0100755U, "y\n"), END },
};

static const char *const texts[] = {
    "diff --git a/b b/c\nsimilarity index 100%\nrename from b\nrename to c\n",
    "diff --git a/d/g b/h\nsimilarity index 100%\ncopy from d/g\ncopy to h\n",
    ("diff --git a/a b/z\nsimilarity index 90%\nrename from a\nrename to z\n--- a/a\n+++ b/z\n"
     "@@ -1,3 +1,3 @@\n-1\n+one\n 2\n 3\n"),
    "diff --git \"a/q\\t\\\"q\" b/q\nsimilarity index 100%\nrename from \"q\\t\\\"q\"\nrename to q\n",
    "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -0,0 +1 @@\n+0\n@@ -12,0 +14 @@\n+13\n",
    "diff --git a/d/g b/d/g\nold mode 100755\nnew mode 100644\n",
    "diff --git a/empty b/empty\ndeleted file mode 100644\nindex e69de29..0000000\n",
};

static void write_changes(const struct step *step)
{
    const struct rsbx_diff_options options = { .max_bytes = 1U << 20 };
    struct rsbx_diff_result result = { .patch = NULL };
    struct rsbx_diff *diff = base_new();
    reposbx_error err = REPOSBX_ERROR_INIT;

    for (; step->path != NULL; step++)
        base_change(diff, step->path, strlen(step->path), step->mode, step->bytes, step->length);
    if (rsbx_diff_run(&result, diff, &options, &err) != 0) {
        (void)fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    write_seed(result.patch, result.patch_length);
    rsbx_diff_result_dispose(&result);
    rsbx_diff_free(diff);
}

int main(int argc, char **argv)
{
    if (argc != 2 || rsbx_git2_load(NULL) != 0 || rsbx_git2.git_libgit2_init() < 0)
        return 64;
    folder = argv[1];
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        write_changes(changes[i]);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        write_seed(texts[i], strlen(texts[i]));
    return 0;
}
