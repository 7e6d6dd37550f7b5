/* SPDX-License-Identifier: Apache-2.0 */
/* What the provider makes of a podman that fails, lies, hangs or was left behind. The program is a
 * script of the test's that answers from files beside it. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "provider/provider.h"

#define ENOUGH_MS 20000
#define SLOT "sbx-1-000001-exec"
#define STORE "sbx-1-guest"

static char folder[64];
static char program[96];
static char address[128];

static const char script[] = "#!/bin/sh\n"
                             "dir=${0%/*}\n"
                             "printf '%s\\n' \"$*\" >> $dir/calls\n"
                             "while :; do case $1 in --*) shift ;; *) break ;; esac; done\n"
                             "verb=$1\n"
                             "case $1 in image | volume | container) verb=$1-$2 ;; esac\n"
                             "[ -e $dir/$verb ] || exit 125\n"
                             ". $dir/$verb\n";

static const char info[] =
    "echo '{\"host\": {\"arch\": \"amd64\", \"os\": \"linux\", \"cgroupVersion\": \"v2\","
    " \"cgroupManager\": \"systemd\", \"cgroupControllers\": [\"cpu\", \"memory\", \"pids\"],"
    " \"security\": {\"rootless\": true, \"seccompEnabled\": true}},"
    " \"version\": {\"Version\": \"4.3.1\"}}'\n";

static const char nothing[] = "echo '[]'\n";
static const char our_slot[] = "echo '[{\"Names\": [\"" SLOT "\"], \"State\": \"running\","
                               " \"ExitCode\": 0, \"Labels\": {\"reposbx.session\": \"sbx-1\"}}]'\n";
static const char foreign_slot[] = "echo '[{\"Names\": [\"" SLOT "\"], \"State\": \"running\","
                                   " \"ExitCode\": 0, \"Labels\": {\"a\": \"b\"}}]'\n";
static const char foreign_store[] = "echo '[{\"Name\": \"" STORE "\", \"Labels\": {}}]'\n";

static void file_path(char out[160], const char *name)
{
    (void)snprintf(out, 160, "%s/%s", folder, name);
}

/* What the program does for a verb. */
static void answer(const char *verb, const char *commands)
{
    char path[160];
    int fd;

    file_path(path, verb);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    assert_true(fd >= 0);
    assert_int_equal(rsbx_write_all(fd, commands, strlen(commands)), 0);
    (void)close(fd);
}

/* What it was called with, one call a line. */
static const char *calls(void)
{
    static struct rsbx_buf text = RSBX_BUF_INIT(65536);
    char path[160];

    file_path(path, "calls");
    rsbx_buf_clear(&text);
    if (rsbx_read_file_at(&text, AT_FDCWD, path, NULL) != 0)
        return "";
    return text.data;
}

static int setup(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/podman-test.XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(program, sizeof program, "%s/podman", folder);
    (void)snprintf(address, sizeof address, "podman:%s", program);
    answer("podman", script);
    answer("info", info);
    answer("ps", nothing);
    answer("volume-ls", nothing);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return rsbx_remove_tree_at(AT_FDCWD, folder, NULL);
}

static rsbx_provider_ptr opened(void)
{
    struct rsbx_provider *provider = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (rsbx_provider_open(&provider, address, 0, rsbx_deadline_in_ms(ENOUGH_MS), &err) != 0)
        fail_msg("%s", err.message);
    return provider;
}

static int open_code(const char *where, unsigned int known)
{
    struct rsbx_provider *provider = NULL;
    int rc = rsbx_provider_open(&provider, where, known, rsbx_deadline_in_ms(ENOUGH_MS), NULL);

    rsbx_provider_free(provider);
    return rc;
}

static void what_cannot_be_opened(void **state)
{
    (void)state;
    assert_int_equal(open_code("podman:/nowhere/podman", 0), REPOSBX_EUNAVAILABLE);
    assert_int_equal(open_code("podman?what=ever", 0), REPOSBX_EINVALID);
    assert_int_equal(open_code("podmanx", 0), REPOSBX_EINVALID);
    answer("info", "echo 'no JSON'\n");
    assert_int_equal(open_code(address, 0), REPOSBX_EPROTOCOL);
    answer("info", "echo 'Error: broken' >&2; exit 125\n");
    assert_int_equal(open_code(address, 0), REPOSBX_EUNAVAILABLE);
    answer("info", info);
    assert_int_equal(open_code(address, 0), 0);
}

static void what_is_known_is_not_asked_for(void **state)
{
    (void)state;
    assert_int_equal(open_code(address, 403), 0);
    assert_string_equal(calls(), "");
}

static void images_that_are_not_there(void **state)
{
    RSBX_AUTO(rsbx_provider) rsbx_provider_ptr provider = opened();
    struct rsbx_image_facts facts = { .os = "untouched" };
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    answer("image-exists", "exit 1\n");
    assert_int_equal(provider->ops->image(&facts, provider, "sha256:1",
                                          rsbx_deadline_in_ms(ENOUGH_MS), &err),
                     REPOSBX_EUNAVAILABLE);
    assert_non_null(strstr(err.message, "not in Podman's storage"));
    assert_non_null(strstr(err.hint, "never pulled"));
    answer("image-exists", "echo 'Error: storage is locked' >&2; exit 125\n");
    assert_int_equal(provider->ops->image(&facts, provider, "sha256:1",
                                          rsbx_deadline_in_ms(ENOUGH_MS), &err),
                     REPOSBX_EUNAVAILABLE);
    assert_non_null(strstr(err.message, "storage is locked"));
    assert_string_equal(facts.os, "untouched");
}

static void a_store_of_somebody_else(void **state)
{
    RSBX_AUTO(rsbx_provider) rsbx_provider_ptr provider = opened();
    const struct rsbx_store_spec spec = { .name = STORE, .session_id = "sbx-1" };
    struct rsbx_deadline soon = rsbx_deadline_in_ms(ENOUGH_MS);

    (void)state;
    answer("volume-create", "echo 'Error: volume already exists' >&2; exit 125\n");
    answer("volume-ls", foreign_store);
    answer("volume-rm", "exit 0\n");
    assert_int_equal(provider->ops->make_store(provider, &spec, soon, NULL), REPOSBX_EPOLICY);
    assert_int_equal(provider->ops->destroy(provider, RSBX_OBJECT_STORE, STORE, "sbx-1", soon, NULL),
                     REPOSBX_EPOLICY);
    assert_null(strstr(calls(), "volume rm"));
    answer("volume-ls", nothing);
    assert_int_equal(provider->ops->make_store(provider, &spec, soon, NULL), REPOSBX_EUNAVAILABLE);
}

static int launch(struct rsbx_provider *provider, uint64_t wait_ms, reposbx_error *err)
{
    const struct rsbx_slot_spec spec = { .name = SLOT,
                                         .session_id = "sbx-1",
                                         .image_id = "sha256:1",
                                         .limits = { .cpus = 1, .memory_bytes = 1, .pids = 1 } };

    return provider->ops->launch(provider, &spec, rsbx_deadline_in_ms(wait_ms), err);
}

static void a_launch_that_says_no(void **state)
{
    RSBX_AUTO(rsbx_provider) rsbx_provider_ptr provider = opened();
    reposbx_error err = REPOSBX_ERROR_INIT;

    (void)state;
    answer("run", "echo 'Error: no space' >&2; exit 126\n");
    assert_int_equal(launch(provider, ENOUGH_MS, &err), REPOSBX_EUNAVAILABLE);
    assert_non_null(strstr(err.message, "no space"));
    /* A name that is taken, whoever has it, is not used. */
    answer("ps", our_slot);
    assert_int_equal(launch(provider, ENOUGH_MS, NULL), REPOSBX_EUNAVAILABLE);
    answer("ps", foreign_slot);
    assert_int_equal(launch(provider, ENOUGH_MS, NULL), REPOSBX_EPOLICY);
    /* A limit that was dropped. */
    answer("run", "echo 'Your kernel does not support swap limit capabilities' >&2; echo id\n");
    answer("ps", our_slot);
    assert_int_equal(launch(provider, ENOUGH_MS, &err), REPOSBX_EPOLICY);
    assert_non_null(strstr(err.message, "swap limit"));
    answer("run", "echo id\n");
    assert_int_equal(launch(provider, ENOUGH_MS, NULL), 0);
}

static void a_launch_that_was_killed(void **state)
{
    RSBX_AUTO(rsbx_provider) rsbx_provider_ptr provider = opened();

    (void)state;
    answer("run", "kill -9 $$\n");
    assert_int_equal(launch(provider, ENOUGH_MS, NULL), REPOSBX_EUNAVAILABLE);
    answer("ps", our_slot);
    assert_int_equal(launch(provider, ENOUGH_MS, NULL), 0);
}

static int destroy_slot(struct rsbx_provider *provider, uint64_t wait_ms)
{
    return provider->ops->destroy(provider, RSBX_OBJECT_SLOT, SLOT, "sbx-1",
                                  rsbx_deadline_in_ms(wait_ms), NULL);
}

static void a_container_of_somebody_else(void **state)
{
    RSBX_AUTO(rsbx_provider) rsbx_provider_ptr provider = opened();
    struct rsbx_slot_state slot = { .running = true };

    (void)state;
    answer("rm", "exit 0\n");
    answer("ps", foreign_slot);
    assert_int_equal(destroy_slot(provider, ENOUGH_MS), REPOSBX_EPOLICY);
    assert_non_null(strstr(calls(), "rm --force --time=0 --filter=name=^" SLOT "$ "
                                    "--filter=label=reposbx.session=sbx-1\n"));
    assert_int_equal(provider->ops->inspect(&slot, provider, SLOT, "sbx-1",
                                            rsbx_deadline_in_ms(ENOUGH_MS), NULL),
                     REPOSBX_EPOLICY);
    assert_true(slot.running);
}

static void gone_is_what_a_look_says(void **state)
{
    RSBX_AUTO(rsbx_provider) rsbx_provider_ptr provider = opened();

    (void)state;
    answer("rm", "exit 0\n");
    answer("ps", our_slot);
    assert_int_equal(destroy_slot(provider, 300), REPOSBX_EUNAVAILABLE);
    answer("ps", "exit 125\n");
    assert_int_equal(destroy_slot(provider, 300), REPOSBX_EUNAVAILABLE);
    /* And the other way round: whatever rm said, it is not there. */
    answer("rm", "exit 125\n");
    answer("ps", nothing);
    assert_int_equal(destroy_slot(provider, ENOUGH_MS), 0);
}

/* A controller was killed; the podman that it had started goes on and makes the container. */
static void what_is_still_being_made_is_waited_for(void **state)
{
    RSBX_AUTO(rsbx_provider) rsbx_provider_ptr provider = opened();
    RSBX_AUTO(rsbx_buf) struct rsbx_buf seen = RSBX_BUF_INIT(4096);
    char path[160];
    int ready[2];
    char byte;
    pid_t child;

    (void)state;
    answer("later", our_slot);
    answer("run", "echo; exec >&-; sleep 0.5; cp $dir/later $dir/ps\n");
    answer("rm", "cp $dir/ps $dir/seen; echo 'echo []' > $dir/ps\n");
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    child = fork();
    if (child == 0) {
        (void)dup2(ready[1], 1);
        (void)execl(program, program, "run", "--name=" SLOT, (char *)NULL);
        _exit(99);
    }
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1); /* it runs */
    (void)close(ready[0]);
    assert_int_equal(destroy_slot(provider, ENOUGH_MS), 0);
    assert_int_equal(waitpid(child, NULL, WNOHANG), child);
    file_path(path, "seen");
    assert_int_equal(rsbx_read_file_at(&seen, AT_FDCWD, path, NULL), 0);
    assert_string_equal(seen.data, our_slot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_cannot_be_opened, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_known_is_not_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(images_that_are_not_there, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_of_somebody_else, setup, teardown),
        cmocka_unit_test_setup_teardown(a_launch_that_says_no, setup, teardown),
        cmocka_unit_test_setup_teardown(a_launch_that_was_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_container_of_somebody_else, setup, teardown),
        cmocka_unit_test_setup_teardown(gone_is_what_a_look_says, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_still_being_made_is_waited_for, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
