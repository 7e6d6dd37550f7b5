/* SPDX-License-Identifier: Apache-2.0 */
#include "corpus.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#include "base/banned.h"

#define FILE_MODE 0100644U
#define PROGRAM_MODE 0100755U
#define LINK_MODE 0120000U

struct source {
    uint64_t state;
};

static uint64_t draw(struct source *source, uint64_t below)
{
    source->state ^= source->state >> 12;
    source->state ^= source->state << 25;
    source->state ^= source->state >> 27;
    return (source->state * 0x2545F4914F6CDD1DULL >> 24) % below;
}

static void must(int rc)
{
    if (rc != 0)
        abort();
}

static void text(struct rsbx_buf *out, const char *words)
{
    must(rsbx_buf_text(out, words, NULL));
}

static void put(struct corpus_tree *tree, const char *path, size_t path_length, uint32_t mode,
                const void *bytes, size_t length)
{
    struct corpus_file *file = NULL;

    for (size_t i = 0; i < tree->count; i++) {
        if (tree->files[i].path_length == path_length &&
            memcmp(tree->files[i].path, path, path_length) == 0)
            return;
    }
    if (tree->count == tree->capacity) {
        tree->capacity = tree->capacity == 0 ? 16 : tree->capacity * 2;
        tree->files = realloc(tree->files, tree->capacity * sizeof *tree->files);
        if (tree->files == NULL)
            abort();
    }
    file = &tree->files[tree->count++];
    file->path = malloc(path_length + 1);
    file->bytes = malloc(length + 1);
    if (file->path == NULL || file->bytes == NULL)
        abort();
    memcpy(file->path, path, path_length);
    file->path[path_length] = '\0';
    file->path_length = path_length;
    if (length > 0)
        memcpy(file->bytes, bytes, length);
    file->length = length;
    file->mode = mode;
}

static void put_text(struct corpus_tree *tree, const char *path, uint32_t mode, const char *words)
{
    put(tree, path, strlen(path), mode, words, strlen(words));
}

static void put_buf(struct corpus_tree *tree, const char *path, uint32_t mode,
                    const struct rsbx_buf *buf)
{
    put(tree, path, strlen(path), mode, buf->data, buf->length);
}

/* One line without its end. */
static void make_line(struct rsbx_buf *out, struct source *source)
{
    static const char *const shapes[] = {
        "int function_%u(void)", "    statement_%u();", "{", "}", "", "\ttab %u", "_under %u",
        "$dollar %u", "    if (x > %u) {", "    }", "#define X %u", "  \t ", "class Some%u {",
        "-- dash %u", "++ plus %u", "\\ No newline at end of file", "@@ -1,%u +1 @@",
        "diff --git a/x b/x", "h\xc3\xa9 %u", "wide \xe6\x97\xa5 %u",
        "a very long head of a function whose name goes on and on until it is beyond %u eighty x",
        "another head whose eightieth byte is a space, one of several that follow it, so   z   %u",
    };
    size_t shape = draw(source, sizeof shapes / sizeof shapes[0]);
    unsigned int number = (unsigned int)draw(source, 1000);
    const char *mark = strstr(shapes[shape], "%u");

    if (mark == NULL) {
        text(out, shapes[shape]);
        return;
    }
    must(rsbx_buf_append(out, shapes[shape], (size_t)(mark - shapes[shape]), NULL));
    must(rsbx_buf_format(out, NULL, "%u", number));
    text(out, mark + 2);
}

static const char *pick_end(struct source *source, const char *style)
{
    static const char *const mixed[] = { "\n", "\r\n", "\r", "\f\n", "\r\r\n", "\n" };

    if (strcmp(style, "mixed") == 0)
        return mixed[draw(source, sizeof mixed / sizeof mixed[0])];
    return style;
}

static void make_text(struct rsbx_buf *out, struct source *source, size_t lines, const char *style)
{
    for (size_t i = 0; i < lines; i++) {
        make_line(out, source);
        text(out, pick_end(source, style));
    }
}

/* Copies `from` with some lines removed, replaced, doubled or added. */
static void edit_text(struct rsbx_buf *out, struct source *source, const struct rsbx_buf *from,
                      const char *style, uint64_t one_in)
{
    size_t at = 0;

    while (at < from->length) {
        const char *start = from->data + at;
        const char *newline = memchr(start, '\n', from->length - at);
        size_t length = newline == NULL ? from->length - at : (size_t)(newline - start) + 1;
        uint64_t action = draw(source, one_in);

        at += length;
        if (action == 0)
            continue;
        if (action == 1 || action == 2) {
            make_line(out, source);
            text(out, pick_end(source, style));
        }
        if (action != 2)
            must(rsbx_buf_append(out, start, length, NULL));
        if (action == 3)
            must(rsbx_buf_append(out, start, length, NULL));
    }
}

static void strip_end(struct rsbx_buf *buf)
{
    while (buf->length > 0 && buf->data[buf->length - 1] == '\n')
        buf->data[--buf->length] = '\0';
}

static void noise(struct rsbx_buf *out, struct source *source, size_t length, uint64_t variety)
{
    for (size_t i = 0; i < length; i++) {
        uint8_t byte = (uint8_t)draw(source, variety);

        must(rsbx_buf_append(out, &byte, 1, NULL));
    }
}

#define BUF __attribute__((cleanup(rsbx_buf_autop))) struct rsbx_buf

static void edited_pair(struct corpus_case *out, struct source *source, const char *path,
                        size_t lines, const char *style, uint64_t one_in, int strip)
{
    BUF before = RSBX_BUF_INIT(1U << 26);
    BUF after = RSBX_BUF_INIT(1U << 26);

    make_text(&before, source, lines, style);
    edit_text(&after, source, &before, style, one_in);
    if (strip == 1 || strip == 3)
        strip_end(&before);
    if (strip == 2 || strip == 3)
        strip_end(&after);
    put_buf(&out->base, path, FILE_MODE, &before);
    put_buf(&out->result, path, FILE_MODE, &after);
}

static void make_plain(struct corpus_case *out, struct source *source)
{
    edited_pair(out, source, "src/main.c", 1 + draw(source, 300), "\n", 5 + draw(source, 60), 0);
    edited_pair(out, source, "src/two.c", 1 + draw(source, 30), "\n", 6, 0);
    put_text(&out->base, "src/kept.c", FILE_MODE, "kept\n");
    put_text(&out->result, "src/kept.c", FILE_MODE, "kept\n");
    put_text(&out->result, "src/new.c", FILE_MODE, "one\ntwo\n");
    put_text(&out->base, "src/old.c", PROGRAM_MODE, "gone\n");
}

static void make_crlf(struct corpus_case *out, struct source *source)
{
    edited_pair(out, source, "a.txt", 1 + draw(source, 60), "\r\n", 8, (int)draw(source, 4));
    edited_pair(out, source, "b.txt", 1 + draw(source, 60), "mixed", 8, (int)draw(source, 4));
    put_text(&out->base, "to-crlf", FILE_MODE, "a\nb\nc\n");
    put_text(&out->result, "to-crlf", FILE_MODE, "a\r\nb\r\nc\r\n");
}

static void make_odd_ends(struct corpus_case *out, struct source *source)
{
    edited_pair(out, source, "cr.txt", 1 + draw(source, 40), "\r", 8, 0);
    edited_pair(out, source, "ff.txt", 1 + draw(source, 40), "\f\n", 8, 0);
    edited_pair(out, source, "vt.txt", 1 + draw(source, 40), "\v\x1c\x85\n", 8, 1);
}

static void make_no_newline(struct corpus_case *out, struct source *source)
{
    for (int strip = 0; strip < 4; strip++) {
        char path[16];

        (void)snprintf(path, sizeof path, "strip-%d", strip);
        edited_pair(out, source, path, 1 + draw(source, 12), "\n", 7, strip);
    }
    put_text(&out->base, "same-but-end", FILE_MODE, "x");
    put_text(&out->result, "same-but-end", FILE_MODE, "x\n");
    put_text(&out->base, "reverse", FILE_MODE, "x\n");
    put_text(&out->result, "reverse", FILE_MODE, "x");
    put_text(&out->base, "far", FILE_MODE, "1\n2\n3\n4\n5\n6\n7\n8\n9");
    put_text(&out->result, "far", FILE_MODE, "one\n2\n3\n4\n5\n6\n7\n8\n9");
}

static void make_nul(struct corpus_case *out, struct source *source)
{
    BUF before = RSBX_BUF_INIT(1U << 20);
    BUF after = RSBX_BUF_INIT(1U << 20);
    static const size_t places[] = { 0, 1, 7998, 7999, 8000, 8001, 9000, 15000 };
    size_t place = places[draw(source, 8)];

    while (before.length < 16000)
        make_text(&before, source, 1, "\n");
    must(rsbx_buf_append(&after, before.data, before.length, NULL));
    after.data[place] = '\0';
    put_buf(&out->base, "nul-new", FILE_MODE, &before);
    put_buf(&out->result, "nul-new", FILE_MODE, &after);
    put_buf(&out->result, "nul-old", FILE_MODE, &before);
    put_buf(&out->base, "nul-old", FILE_MODE, &after);
    put_buf(&out->result, "nul-added", FILE_MODE, &after);
    put_buf(&out->base, "nul-gone", FILE_MODE, &after);
}

static void make_encodings(struct corpus_case *out, struct source *source)
{
    BUF before = RSBX_BUF_INIT(1U << 20);
    BUF after = RSBX_BUF_INIT(1U << 20);
    static const char latin_old[] = "caf\xe9\nna\xefve\n\xff\xfe\nend\n";
    static const char latin_new[] = "caf\xe9\nnaive\n\xff\xfe\nend\xa0\n";

    must(rsbx_buf_append(&before, "\xff\xfe", 2, NULL));
    for (size_t i = 0; i < 200; i++)
        must(rsbx_buf_append(&before, i % 20 == 19 ? "\n\0" : "x\0", 2, NULL));
    must(rsbx_buf_append(&after, before.data, before.length, NULL));
    after.data[2 + 2 * draw(source, 199)] = 'y';
    put_buf(&out->base, "utf16", FILE_MODE, &before);
    put_buf(&out->result, "utf16", FILE_MODE, &after);
    put(&out->base, "latin", 5, FILE_MODE, latin_old, sizeof latin_old - 1);
    put(&out->result, "latin", 5, FILE_MODE, latin_new, sizeof latin_new - 1);
}

static void make_long_lines(struct corpus_case *out, struct source *source)
{
    BUF before = RSBX_BUF_INIT(1U << 24);
    BUF after = RSBX_BUF_INIT(1U << 24);

    text(&before, "head\n");
    for (size_t i = 0; i < 3U * 1024U * 1024U / 16; i++)
        text(&before, "0123456789abcdef");
    text(&before, "\ntail\n");
    must(rsbx_buf_append(&after, before.data, before.length, NULL));
    after.data[100 + draw(source, 1000000)] = 'X';
    put_buf(&out->base, "long", FILE_MODE, &before);
    put_buf(&out->result, "long", FILE_MODE, &after);
}

static void make_empty(struct corpus_case *out, struct source *source)
{
    static const char *const names[] = { "e1", "e 2", "e\"3", "d/e4", "e\t5", "-e6" };
    const char *name = names[draw(source, 6)];
    const char *other = names[draw(source, 6)];

    put_text(&out->base, "other", FILE_MODE, "other\n");
    put_text(&out->result, "other", FILE_MODE, draw(source, 2) ? "other\n" : "changed\n");
    if (draw(source, 2) == 0)
        put_text(&out->result, name, draw(source, 2) ? FILE_MODE : PROGRAM_MODE, "");
    else
        put_text(&out->base, name, FILE_MODE, "");
    if (strcmp(other, name) != 0) {
        bool filled = draw(source, 2) == 0;

        put_text(&out->base, other, FILE_MODE, filled ? "content\n" : "");
        put_text(&out->result, other, FILE_MODE, filled ? "" : "content");
    }
}

static void make_modes(struct corpus_case *out, struct source *source)
{
    static const char *const names[] = { "run.sh", "run it.sh", "\xffx", "q\"x", "d e/f g" };
    BUF bytes = RSBX_BUF_INIT(1U << 20);
    BUF more = RSBX_BUF_INIT(1U << 20);

    for (size_t i = 0; i < 5; i++) {
        bool up = draw(source, 2) == 0;
        uint64_t kind = draw(source, 4);

        rsbx_buf_clear(&bytes);
        rsbx_buf_clear(&more);
        if (kind == 1)
            make_text(&bytes, source, 4, "\n");
        else if (kind > 1)
            noise(&bytes, source, 100, 3);
        if (bytes.length > 0)
            must(rsbx_buf_append(&more, bytes.data, bytes.length, NULL));
        if (kind == 3 || draw(source, 3) == 0)
            text(&more, "more\n");
        put_buf(&out->base, names[i], up ? FILE_MODE : PROGRAM_MODE, &bytes);
        put_buf(&out->result, names[i], up ? PROGRAM_MODE : FILE_MODE, &more);
    }
}

static void make_types(struct corpus_case *out, struct source *source)
{
    BUF bytes = RSBX_BUF_INIT(1U << 20);

    if (draw(source, 2) == 0)
        make_text(&bytes, source, draw(source, 6), "\n");
    else
        noise(&bytes, source, 60, 4);
    put_buf(&out->base, "to link", draw(source, 2) ? FILE_MODE : PROGRAM_MODE, &bytes);
    put_text(&out->result, "to link", LINK_MODE, "../target of it");
    put_text(&out->base, "to file", LINK_MODE, "a");
    put_buf(&out->result, "to file", draw(source, 2) ? FILE_MODE : PROGRAM_MODE, &bytes);
    put_text(&out->base, "link", LINK_MODE, "one");
    put_text(&out->result, "link", LINK_MODE, draw(source, 2) ? "two" : "/etc/passwd");
    put_text(&out->result, "new link", LINK_MODE, "d/nothing\nthere");
    put_text(&out->base, "old link", LINK_MODE, "\xff\xfe");
    put_text(&out->base, "same bytes", FILE_MODE, "target");
    put_text(&out->result, "same bytes", LINK_MODE, "target");
}

static void make_folders(struct corpus_case *out, struct source *source)
{
    put_text(&out->base, "x", draw(source, 2) ? FILE_MODE : LINK_MODE, "file");
    put_text(&out->result, "x/y/z", FILE_MODE, "below\n");
    put_text(&out->result, "x/a", LINK_MODE, "y");
    put_text(&out->base, "d/one", FILE_MODE, "one\n");
    put_text(&out->base, "d/e/two", FILE_MODE, "two\n");
    put_text(&out->result, "d", draw(source, 2) ? PROGRAM_MODE : LINK_MODE, "was-a-folder");
    /* Names that sort between a file and the folder of the same name. */
    put_text(&out->base, "x.c", FILE_MODE, "dot\n");
    put_text(&out->result, "x.c", FILE_MODE, draw(source, 2) ? "dot\n" : "dash\n");
    put_text(&out->base, "d-a", FILE_MODE, "a\n");
    put_text(&out->result, "d0", FILE_MODE, "0\n");
}

static void make_swaps(struct corpus_case *out, struct source *source)
{
    BUF one = RSBX_BUF_INIT(1U << 20);
    BUF two = RSBX_BUF_INIT(1U << 20);

    make_text(&one, source, 20, "\n");
    noise(&two, source, 300, 200);
    put_buf(&out->base, "a", FILE_MODE, &one);
    put_buf(&out->base, "b", PROGRAM_MODE, &two);
    put_buf(&out->result, "b", FILE_MODE, &one);
    put_buf(&out->result, "a", PROGRAM_MODE, &two);
    put_buf(&out->base, "from/x", FILE_MODE, &one);
    put_buf(&out->result, "to/x", FILE_MODE, &one);
    put_text(&out->base, "p/q", FILE_MODE, "q");
    put_text(&out->base, "r", FILE_MODE, "r");
    put_text(&out->result, "p", FILE_MODE, "r");
    put_text(&out->result, "r/q", FILE_MODE, "q");
}

static void make_deep(struct corpus_case *out, struct source *source)
{
    BUF path = RSBX_BUF_INIT(1U << 16);
    size_t depth = 20 + draw(source, 150);

    for (size_t i = 0; i < depth; i++)
        text(&path, draw(source, 4) == 0 ? "some longer name/" : "d/");
    text(&path, "leaf");
    edited_pair(out, source, path.data, 12, "\n", 6, 0);
    rsbx_buf_clear(&path);
    for (size_t i = 0; i < 250; i++)
        text(&path, "n");
    put_text(&out->result, path.data, FILE_MODE, "long name\n");
}

static void make_names(struct corpus_case *out, struct source *source)
{
    static const char *const names[] = {
        "with space", " lead", "trail ", "two  b/spaces in it", "quote\"d", "back\\slash", "tab\tx",
        "new\nline", "new\nline and space", "esc\x1b[31m", "\x01\x7f", "bell\a\b\v\f\r",
        "\xff\xfe", "caf\xc3\xa9", "\xe6\x97\xa5\xe6\x9c\xac", "-dash", "--cached", "-", "Case",
        "case", "CASE", "a b/c", "x b/x", "a/b c", "dev/null", "...", "..x", "~", "#hash", "'", "$(x)",
        "*", "?", "[x]", "a\n--- a/b\n+++ b/b\n@@ -0,0 +1 @@\n+x", "\"", "\\", "a => b", "{a}", "COM1",
    };
    BUF bytes = RSBX_BUF_INIT(1U << 20);

    for (size_t i = 0; i < 8; i++) {
        const char *name = names[draw(source, sizeof names / sizeof names[0])];
        uint64_t kind = draw(source, 5);

        if (corpus_find(&out->base, name, strlen(name)) != NULL ||
            corpus_find(&out->result, name, strlen(name)) != NULL)
            continue;
        rsbx_buf_clear(&bytes);
        noise(&bytes, source, 30, kind == 4 ? 10 : 1 + draw(source, 3));
        if (kind == 0)
            put_text(&out->result, name, FILE_MODE, "new\n");
        else if (kind == 1)
            put_text(&out->base, name, FILE_MODE, "old\n");
        else if (kind == 2)
            edited_pair(out, source, name, 9, "\n", 6, (int)draw(source, 4));
        else
            put_buf(draw(source, 2) ? &out->base : &out->result, name, FILE_MODE, &bytes);
    }
    put_text(&out->result, "always", FILE_MODE, "x");
}

static void make_binary(struct corpus_case *out, struct source *source)
{
    static const char *const names[] = { "bin", "bin 2", "bin\"3", "d/bin" };
    static const uint64_t varieties[] = { 2, 16, 256 };

    for (size_t i = 0; i < 4; i++) {
        BUF before = RSBX_BUF_INIT(1U << 22);
        BUF after = RSBX_BUF_INIT(1U << 22);
        size_t edits = draw(source, 6);

        must(rsbx_buf_append(&before, "\0", 1, NULL));
        noise(&before, source, draw(source, i == 3 ? 200000 : 3000), varieties[draw(source, 3)]);
        must(rsbx_buf_append(&after, before.data, before.length, NULL));
        for (size_t k = 0; k < edits; k++)
            after.data[draw(source, after.length)] ^= 0x55;
        if (draw(source, 2) == 0)
            noise(&after, source, draw(source, 200), 256);
        else if (draw(source, 2) == 0)
            after.length = draw(source, after.length + 1);
        if (draw(source, 8) != 0)
            put_buf(&out->base, names[i], FILE_MODE, &before);
        if (draw(source, 8) != 0)
            put_buf(&out->result, names[i], FILE_MODE, &after);
    }
}

static void make_attributes(struct corpus_case *out, struct source *source)
{
    static const char *const lines[] = {
        "*.txt text eol=crlf\n", "*.c ident\n", "*.dat filter=missing\n", "*.txt -diff\n",
        "*.c diff=python\n", "*.dat binary\n", "* text=auto\n", "*.c -text\n", "*.txt eol=lf\n",
        "*.c whitespace=fix\n", "*.txt working-tree-encoding=UTF-16\n", "*.dat export-ignore\n",
    };
    BUF bytes = RSBX_BUF_INIT(1U << 16);

    for (size_t i = 0; i < 3; i++)
        text(&bytes, lines[draw(source, sizeof lines / sizeof lines[0])]);
    if (draw(source, 4) != 0)
        put_buf(&out->base, ".gitattributes", FILE_MODE, &bytes);
    text(&bytes, draw(source, 2) ? "* -text\n" : "");
    put_buf(&out->result, ".gitattributes", FILE_MODE, &bytes);
    edited_pair(out, source, "a.txt", 20, "\n", 6, 0);
    edited_pair(out, source, "b.dat", 20, draw(source, 2) ? "\n" : "\r\n", 6, 1);
    put_text(&out->base, "c.c", FILE_MODE, "/* $Id$ */\nint x;  \n");
    put_text(&out->result, "c.c", FILE_MODE, "/* $Id$ */\nint y;  \n\n\n");
}

static void make_repeats(struct corpus_case *out, struct source *source)
{
    BUF before = RSBX_BUF_INIT(1U << 20);
    BUF after = RSBX_BUF_INIT(1U << 20);
    static const char *const few[] = { "\n", "}\n", "    x\n", "{\n", "  }\n" };

    for (size_t i = 0, n = 5 + draw(source, 200); i < n; i++)
        text(&before, few[draw(source, 1 + draw(source, 5))]);
    edit_text(&after, source, &before, "\n", 9);
    for (size_t i = 0, n = draw(source, 6); i < n; i++)
        text(&after, "\n");
    put_buf(&out->base, "blanks", FILE_MODE, &before);
    put_buf(&out->result, "blanks", FILE_MODE, &after);
    edited_pair(out, source, "big", 2000, "\n", 100 + draw(source, 400), 0);
}

static void make_all(struct corpus_case *out, struct source *source)
{
    struct corpus_tree *tree = draw(source, 2) ? &out->base : &out->result;

    put_text(tree, "a", FILE_MODE, "a\n");
    put_text(tree, "b/c", PROGRAM_MODE, "c");
    put_text(tree, "b/d", LINK_MODE, "c");
    put_text(tree, "e", FILE_MODE, "");
    put(tree, "f", 1, FILE_MODE, "\0\1", 2);
}

static const struct kind {
    const char *name;
    size_t repeats;
    void (*make)(struct corpus_case *, struct source *);
} kinds[] = {
    { "text", 40, make_plain },         { "crlf", 20, make_crlf },
    { "odd line ends", 16, make_odd_ends }, { "no newline", 24, make_no_newline },
    { "nul", 16, make_nul },            { "encodings", 8, make_encodings },
    { "3 MB lines", 3, make_long_lines }, { "empty files", 24, make_empty },
    { "modes", 24, make_modes },        { "types", 20, make_types },
    { "folders", 20, make_folders },    { "swaps", 8, make_swaps },
    { "deep", 8, make_deep },           { "names", 48, make_names },
    { "binary", 32, make_binary },      { "attributes", 24, make_attributes },
    { "repeats", 32, make_repeats },    { "everything", 6, make_all },
};

size_t corpus_kind_count(void)
{
    return sizeof kinds / sizeof kinds[0];
}

const char *corpus_kind_name(size_t kind)
{
    return kinds[kind].name;
}

size_t corpus_kind_repeats(size_t kind)
{
    return kinds[kind].repeats;
}

void corpus_make(struct corpus_case *out, size_t kind, uint64_t seed)
{
    struct source source = { .state = (kind + 1) * 0x9E3779B97F4A7C15ULL + seed * 7919 + 1 };

    memset(out, 0, sizeof *out);
    for (int i = 0; i < 16; i++)
        (void)draw(&source, 2);
    kinds[kind].make(out, &source);
}

static void dispose_tree(struct corpus_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++) {
        free(tree->files[i].path);
        free(tree->files[i].bytes);
    }
    free(tree->files);
}

void corpus_dispose(struct corpus_case *one)
{
    dispose_tree(&one->base);
    dispose_tree(&one->result);
}

const struct corpus_file *corpus_find(const struct corpus_tree *tree, const char *path,
                                      size_t length)
{
    for (size_t i = 0; i < tree->count; i++) {
        if (tree->files[i].path_length == length &&
            memcmp(tree->files[i].path, path, length) == 0)
            return &tree->files[i];
    }
    return NULL;
}
