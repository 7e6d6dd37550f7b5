/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_TESTS_WASM_FIXTURE_H
#define RSBX_TESTS_WASM_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "wasm/wasm.h"

/* A temporary folder with a state folder in it. */
struct place {
    char dir[64];
    char state[96];
};

void place_make(struct place *place);
void place_remove(struct place *place);

/* Runs a program of the system's, with both outputs thrown away, in `dir`; its exit status. */
int run_program(const char *dir, const char *const *argv);
/* Turns a text module into DIR/NAME.wasm (package wabt); `path` gets where it is. */
void assemble(char path[128], const struct place *place, const char *name, const char *text);
/* The same from a file of this folder. */
void assemble_file(char path[128], const struct place *place, const char *name, const char *file);
void write_text(const char *path, const void *bytes, size_t length);

/* 77 (or 1 where tests must run) without wasm2c, wat2wasm and a compiler, else 0. */
int tools_missing(void);

#endif
