/* SPDX-License-Identifier: Apache-2.0 */
#include "wasi/host.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <wasm-rt-impl.h>

#include "wasi/module.h" /* made where the module is: its declarations, RSBX_WASI_IMPORTED */

#define PAGE 65536U
#define GIB (1024ULL * 1024ULL * 1024ULL)
/* An address and an offset of 32 bits each reach 8 GiB; what no module page lies on must fault. */
#define REACH (8U * GIB)
/* Alignment in front, and a guard behind that the filter relies on. */
#define ALIGNMENT (4U * GIB)
#define RESERVED (REACH + 2U * ALIGNMENT)

/* The allocator cannot ask for more once the filter stands: the runtime's types and the module's tables
 * live in what is taken here. Never touched, it costs nothing. */
#define HEAP_BYTES (64 * 1024 * 1024)

/* The module's data, when it could be laid out in advance: copied to `rsbx_image_offset`. */
extern const unsigned char rsbx_image[];
extern const uint32_t rsbx_image_offset;
extern const uint32_t rsbx_image_bytes;

static rsbx_wasi wasi;
static Z_rsbx_instance_t instance;

static void say(const char *text)
{
    size_t length = strlen(text);

    while (length > 0) {
        ssize_t done = write(2, text, length);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return;
        text += done;
        length -= (size_t)done;
    }
}

static _Noreturn void broken(const char *what)
{
    if (wasi.page != NULL)
        wasi.page->phase = RSBX_WASI_BROKEN;
    say("wasm host: cannot confine itself: ");
    say(what);
    say("\n");
    _exit(RSBX_WASI_EXIT_BROKEN);
}

_Noreturn void rsbx_wasi_exit(rsbx_wasi *state, uint32_t code)
{
    state->page->phase = RSBX_WASI_EXITED;
    _exit((int)(code & 0xffU));
}

static _Noreturn void trapped(uint32_t code, const char *words)
{
    wasi.page->trap = code;
    wasi.page->phase = RSBX_WASI_TRAPPED;
    say("wasm trap: ");
    say(words);
    say("\n");
    _exit(RSBX_WASI_EXIT_TRAP);
}

/* ---- linear memory, in the place of the runtime's own two functions ---- */

void __wrap_wasm_rt_allocate_memory(wasm_rt_memory_t *memory, uint32_t initial, uint32_t most);
uint32_t __wrap_wasm_rt_grow_memory(wasm_rt_memory_t *memory, uint32_t delta);

static void note_peak(uint32_t pages)
{
    if (pages > wasi.page->peak_pages)
        wasi.page->peak_pages = pages;
}

/* The reservation was made before the filter; this gives the module its first pages. */
void __wrap_wasm_rt_allocate_memory(wasm_rt_memory_t *memory, uint32_t initial, uint32_t most)
{
    memory->data = wasi.memory->data;
    memory->max_pages = most;
    memory->pages = 0;
    memory->size = 0;
    if (initial > 0 && __wrap_wasm_rt_grow_memory(memory, initial) == UINT32_MAX)
        trapped(WASM_RT_TRAP_OOB, "the memory limit is below what the module starts with");
}

/* Pages are the module's own count; a limit that was lowered while it waited counts from now on. The
 * last page of 4 GiB is never given, so that `size` fits its 32 bits. */
uint32_t __wrap_wasm_rt_grow_memory(wasm_rt_memory_t *memory, uint32_t delta)
{
    uint64_t pages = (uint64_t)memory->pages + delta;
    uint32_t before = memory->pages;

    if (delta == 0)
        return before;
    if (pages > memory->max_pages)
        return UINT32_MAX;
    if (pages > 65535U || pages > wasi.page->limit_pages ||
        mprotect(memory->data + (uint64_t)before * PAGE, (uint64_t)delta * PAGE,
                 PROT_READ | PROT_WRITE) != 0) {
        wasi.page->denied = 1;
        return UINT32_MAX;
    }
    memory->pages = (uint32_t)pages;
    memory->size = (uint32_t)pages * PAGE;
    note_peak(memory->pages);
    return before;
}

static unsigned char *reserve(void)
{
    unsigned char *all = mmap(NULL, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                              -1, 0);
    uintptr_t start;

    if (all == MAP_FAILED)
        broken("no address space for the linear memory");
    start = ((uintptr_t)all + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return all + (start - (uintptr_t)all);
}

/* ---- start ---- */

static void fill_heap(void)
{
    void *all;

    (void)mallopt(M_MMAP_MAX, 0);
    (void)mallopt(M_TRIM_THRESHOLD, -1); /* what is freed stays */
    all = malloc(HEAP_BYTES);
    if (all == NULL)
        broken("no memory for the heap");
    free(all);
}

static void map_page(void)
{
    void *page = mmap(NULL, RSBX_WASI_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                      RSBX_WASI_PAGE_FD, 0);

    if (page == MAP_FAILED)
        broken("descriptor 3 is no page; this program is started by reposbx only");
    wasi.page = page;
    if (wasi.page->magic != RSBX_WASI_PAGE_MAGIC)
        broken("descriptor 3 is another page");
    (void)close(RSBX_WASI_PAGE_FD);
}

/* Pages of the image that hold nothing but zeroes stay untouched, as fresh memory is. */
static void copy_image(void)
{
    static const unsigned char zeroes[4096];
    unsigned char *place = rsbx_wasi_span(&wasi, rsbx_image_offset, rsbx_image_bytes);

    if (place == NULL)
        trapped(WASM_RT_TRAP_OOB, wasm_rt_strerror(WASM_RT_TRAP_OOB));
    for (uint32_t at = 0; at < rsbx_image_bytes; at += 4096U) {
        uint32_t length = rsbx_image_bytes - at < 4096U ? rsbx_image_bytes - at : 4096U;

        if (memcmp(rsbx_image + at, zeroes, length) != 0)
            memcpy(place + at, rsbx_image + at, length);
    }
}

/* Alone in its frame: it is returned to by a jump. */
static _Noreturn void run_module(void)
{
    int code = wasm_rt_impl_try();

    if (code != 0)
        trapped((uint32_t)code, wasm_rt_strerror((wasm_rt_trap_t)code));
    Z_rsbx_init_module();
#if RSBX_WASI_IMPORTED
    Z_rsbx_instantiate(&instance, &wasi);
#else
    Z_rsbx_instantiate(&instance);
#endif
    if (rsbx_image_bytes > 0)
        copy_image();
    Z_rsbxZ__start(&instance);
    rsbx_wasi_exit(&wasi, 0);
}

int main(int argc, char **argv)
{
    map_page();
    if (argc < 1)
        broken("no arguments");
    wasi.argc = (uint32_t)argc;
    wasi.argv = argv;
    wasi.memory = Z_rsbxZ_memory(&instance);
    wasi.memory->data = reserve();
    (void)signal(SIGPIPE, SIG_IGN);
    fill_heap();
    wasm_rt_init();
    if (rsbx_wasi_confine(wasi.memory->data, REACH) != 0)
        broken(strerror(errno));
    wasi.page->phase = RSBX_WASI_RUNS;
    run_module();
}
