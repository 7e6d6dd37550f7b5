/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fd.h"
#include "codec/tar.h"
#include "engine/engine.h"
#include "support/real_engine.h"

#include "base/banned.h"

#define OK(call) demand((call), #call, &err)

static reposbx_error err;
static char image[80];

/* What one test makes; the teardown removes it, also after a failed assertion. */
struct world {
    struct rsbx_engine *engine;
    struct rsbx_stream *stream;
    char container[64];
    char volume[64];
};

static void demand(int rc, const char *what, const reposbx_error *fault)
{
    if (rc != 0)
        fail_msg("%s: %d %s", what, rc, fault->message);
}

static int setup(void **state)
{
    struct world *world = calloc(1, sizeof *world);

    if (world == NULL)
        return -1;
    world->engine = real_engine_open();
    real_engine_name(world->container, "engine");
    real_engine_name(world->volume, "engine");
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    struct world *world = *state;
    int rc;

    rsbx_stream_free(world->stream);
    rc = rsbx_engine_container_remove(world->engine, world->container, real_engine_soon(), NULL);
    if (rc == 0 || rc == REPOSBX_ENOTFOUND)
        rc = rsbx_engine_volume_remove(world->engine, world->volume, real_engine_soon(), NULL);
    rsbx_engine_free(world->engine);
    free(world);
    return rc == 0 || rc == REPOSBX_ENOTFOUND ? 0 : -1;
}

/* A container that runs `script` in sh, with stdin, no network, and maybe the volume at /data. */
static void create(struct world *world, const char *script, bool with_volume)
{
    RSBX_AUTO(rsbx_text) char *warnings = NULL;
    char mount[128];
    json_t *spec;

    (void)snprintf(mount, sizeof mount, "%s:/data", world->volume);
    spec = json_pack("{s:s,s:[sss],s:b,s:b,s:b,s:b,s:b,s:{s:s,s:[s*]}}", "Image", image, "Cmd",
                     "/bin/sh", "-c", script, "OpenStdin", 1, "StdinOnce", 1, "AttachStdin", 1,
                     "AttachStdout", 1, "AttachStderr", 1, "HostConfig", "NetworkMode", "none",
                     "Binds", with_volume ? mount : NULL);
    assert_non_null(spec);
    OK(rsbx_engine_container_create(&warnings, world->engine, world->container, spec,
                                    real_engine_soon(), &err));
    json_decref(spec);
}

static void make_volume(struct world *world, const char *label)
{
    json_t *labels = json_pack("{s:s}", "reposbx.test", label);

    OK(rsbx_engine_volume_create(world->engine, world->volume, labels, NULL, real_engine_soon(),
                                 &err));
    json_decref(labels);
}

static void host_facts(void **state)
{
    struct world *world = *state;
    struct rsbx_engine_host host;

    OK(rsbx_engine_host(&host, world->engine, real_engine_soon(), &err));
    assert_string_equal(host.os, "linux");
    assert_true(host.server_version[0] >= '1' && host.server_version[0] <= '9');
    assert_in_range(host.api_version, RSBX_ENGINE_API_OLDEST, RSBX_ENGINE_API_NEWEST);
    assert_in_range(host.cgroup_version, 1, 2);
    assert_string_not_equal(host.architecture, "");
    assert_string_not_equal(host.cgroup_driver, "");
    assert_string_not_equal(host.storage_driver, "");
}

static void image_documents(void **state)
{
    struct world *world = *state;
    json_t *document = NULL;

    OK(rsbx_engine_image_inspect(&document, world->engine, image, real_engine_soon(), &err));
    assert_string_equal(json_string_value(json_object_get(document, "Id")), image);
    assert_string_equal(json_string_value(json_object_get(document, "Architecture")), "amd64");
    json_decref(document);
    document = NULL;
    assert_int_equal(rsbx_engine_image_inspect(&document, world->engine, "reposbx-test/none:9",
                                               real_engine_soon(), &err),
                     REPOSBX_ENOTFOUND);
    assert_non_null(strstr(err.message, "reposbx-test/none:9"));
    assert_int_equal(
        rsbx_engine_image_inspect(&document, world->engine,
                                  "reposbx-test/none@sha256:00000000000000000000000000000000"
                                  "00000000000000000000000000000000",
                                  real_engine_soon(), &err),
        REPOSBX_ENOTFOUND);
    assert_null(document);
}

static void volume_life(void **state)
{
    struct world *world = *state;
    json_t *document = NULL;
    const json_t *labels;

    assert_int_equal(
        rsbx_engine_volume_remove(world->engine, world->volume, real_engine_soon(), &err),
        REPOSBX_ENOTFOUND);
    make_volume(world, "first");
    make_volume(world, "second"); /* 201 again, and the old labels stay */
    OK(rsbx_engine_volume_inspect(&document, world->engine, world->volume, real_engine_soon(),
                                  &err));
    labels = json_object_get(document, "Labels");
    assert_string_equal(json_string_value(json_object_get(labels, "reposbx.test")), "first");
    json_decref(document);
    create(world, "true", true);
    assert_int_equal(
        rsbx_engine_volume_remove(world->engine, world->volume, real_engine_soon(), &err),
        REPOSBX_EBUSY);
    OK(rsbx_engine_container_remove(world->engine, world->container, real_engine_soon(), &err));
    OK(rsbx_engine_volume_remove(world->engine, world->volume, real_engine_soon(), &err));
    document = NULL;
    assert_int_equal(rsbx_engine_volume_inspect(&document, world->engine, world->volume,
                                                real_engine_soon(), &err),
                     REPOSBX_ENOTFOUND);
    assert_null(document);
}

static void container_states(void **state)
{
    struct world *world = *state;
    json_t *document = NULL;
    json_t *spec = json_pack("{s:s,s:[s]}", "Image", image, "Cmd", "true");
    RSBX_AUTO(rsbx_text) char *warnings = NULL;

    assert_int_equal(
        rsbx_engine_container_start(world->engine, world->container, real_engine_soon(), &err),
        REPOSBX_ENOTFOUND);
    assert_int_equal(
        rsbx_engine_container_kill(world->engine, world->container, real_engine_soon(), &err),
        REPOSBX_ENOTFOUND);
    create(world, "exec sleep 1000", false);
    assert_int_equal(rsbx_engine_container_create(&warnings, world->engine, world->container, spec,
                                                  real_engine_soon(), &err),
                     REPOSBX_EBUSY);
    json_decref(spec);
    assert_int_equal(
        rsbx_engine_container_kill(world->engine, world->container, real_engine_soon(), &err),
        REPOSBX_EBUSY);
    OK(rsbx_engine_container_start(world->engine, world->container, real_engine_soon(), &err));
    assert_int_equal(
        rsbx_engine_container_start(world->engine, world->container, real_engine_soon(), &err),
        REPOSBX_EBUSY);
    OK(rsbx_engine_container_inspect(&document, world->engine, world->container, real_engine_soon(),
                                     &err));
    assert_true(json_is_true(json_object_get(json_object_get(document, "State"), "Running")));
    json_decref(document);
    OK(rsbx_engine_container_kill(world->engine, world->container, real_engine_soon(), &err));
    OK(rsbx_engine_container_remove(world->engine, world->container, real_engine_soon(), &err));
    assert_int_equal(
        rsbx_engine_container_remove(world->engine, world->container, real_engine_soon(), &err),
        REPOSBX_ENOTFOUND);
}

struct heard {
    struct rsbx_buf channel[3];
};

static int hear(void *payload, int channel, const void *bytes, size_t length, reposbx_error *fault)
{
    struct heard *heard = payload;

    return rsbx_buf_append(&heard->channel[channel], bytes, length, fault);
}

/* Receives until the end, or until `wanted` bytes of stdout are there. */
static bool listen_to(struct heard *heard, struct rsbx_stream *stream, size_t wanted)
{
    struct rsbx_deadline deadline = real_engine_soon();
    bool ended = false;

    while (!ended && heard->channel[1].length < wanted) {
        assert_int_equal(rsbx_wait_fd(rsbx_stream_fd(stream), POLLIN, deadline), 1);
        OK(rsbx_stream_receive(&ended, stream, hear, heard, &err));
    }
    return ended;
}

static void talk(struct rsbx_stream *stream, const char *text, size_t length)
{
    struct rsbx_deadline deadline = real_engine_soon();
    size_t sent = 0;

    while (length > 0) {
        assert_int_equal(rsbx_wait_fd(rsbx_stream_fd(stream), POLLOUT, deadline), 1);
        OK(rsbx_stream_send(&sent, stream, text, length, &err));
        text += sent;
        length -= sent;
    }
}

static void attached_stream(void **state)
{
    struct world *world = *state;
    struct heard heard = { { RSBX_BUF_INIT(64), RSBX_BUF_INIT(4096), RSBX_BUF_INIT(4096) } };

    assert_int_equal(rsbx_engine_attach(&world->stream, world->engine, world->container,
                                        real_engine_soon(), &err),
                     REPOSBX_ENOTFOUND);
    assert_non_null(strstr(err.message, world->container));
    assert_null(world->stream);
    create(world, "read line; echo got:$line; echo to-stderr >&2; cat; echo end", false);
    OK(rsbx_engine_attach(&world->stream, world->engine, world->container, real_engine_soon(),
                          &err));
    OK(rsbx_engine_container_start(world->engine, world->container, real_engine_soon(), &err));
    talk(world->stream, "hello\n", 6);
    assert_false(listen_to(&heard, world->stream, 10));
    assert_memory_equal(heard.channel[1].data, "got:hello\n", 10);
    talk(world->stream, "a\0b\xFF", 4);
    OK(rsbx_stream_shutdown_send(world->stream, &err));
    assert_true(listen_to(&heard, world->stream, 4096));
    assert_int_equal(heard.channel[1].length, 18);
    assert_memory_equal(heard.channel[1].data,
                        "got:hello\na\0b\xFF"
                        "end\n",
                        18);
    assert_int_equal(heard.channel[2].length, 10);
    assert_memory_equal(heard.channel[2].data, "to-stderr\n", 10);
    for (int i = 0; i < 3; i++)
        rsbx_buf_dispose(&heard.channel[i]);
}

static void large_input_and_output(void **state)
{
    enum { COUNT = 3000000 };
    struct world *world = *state;
    struct heard heard = { { RSBX_BUF_INIT(64), RSBX_BUF_INIT(COUNT), RSBX_BUF_INIT(4096) } };
    struct rsbx_deadline deadline = real_engine_soon();
    RSBX_AUTO(rsbx_memory) void *input = malloc(COUNT);
    size_t done = 0;
    bool ended = false;

    assert_non_null(input);
    for (size_t i = 0; i < COUNT; i++)
        ((unsigned char *)input)[i] = (unsigned char)(i * 7 + i / 251);
    create(world, "exec cat", false);
    OK(rsbx_engine_attach(&world->stream, world->engine, world->container, real_engine_soon(),
                          &err));
    OK(rsbx_engine_container_start(world->engine, world->container, real_engine_soon(), &err));
    while (!ended) {
        short events = done < COUNT ? POLLIN | POLLOUT : POLLIN;
        size_t sent = 0;

        assert_int_equal(rsbx_wait_fd(rsbx_stream_fd(world->stream), events, deadline), 1);
        if (done < COUNT) {
            OK(rsbx_stream_send(&sent, world->stream, (char *)input + done, COUNT - done, &err));
            done += sent;
            if (done == COUNT)
                OK(rsbx_stream_shutdown_send(world->stream, &err));
        }
        OK(rsbx_stream_receive(&ended, world->stream, hear, &heard, &err));
    }
    assert_int_equal(heard.channel[1].length, COUNT);
    assert_memory_equal(heard.channel[1].data, input, COUNT);
    for (int i = 0; i < 3; i++)
        rsbx_buf_dispose(&heard.channel[i]);
}

static void archives(void **state)
{
    struct world *world = *state;
    const struct rsbx_tar_member member = { "note", 0640, 65532, 65532, "kept in a volume", 16 };
    struct rsbx_buf tar = RSBX_BUF_INIT(1U << 20);
    struct rsbx_buf back = RSBX_BUF_INIT(1U << 20);
    struct rsbx_buf tight = RSBX_BUF_INIT(100);
    struct rsbx_buf file = RSBX_BUF_INIT(100);

    make_volume(world, "archive");
    create(world, "true", true);
    OK(rsbx_tar_write(&tar, &member, 1, &err));
    OK(rsbx_engine_archive_put(world->engine, world->container, "/data", tar.data, tar.length,
                               real_engine_soon(), &err));
    OK(rsbx_engine_archive_get(&back, world->engine, world->container, "/data/note",
                               real_engine_soon(), &err));
    OK(rsbx_tar_read_file(&file, "note", back.data, back.length, &err));
    assert_int_equal(file.length, 16);
    assert_memory_equal(file.data, "kept in a volume", 16);
    assert_int_equal(rsbx_engine_archive_get(&tight, world->engine, world->container, "/data/note",
                                             real_engine_soon(), &err),
                     REPOSBX_ELIMIT);
    assert_int_equal(tight.length, 0);
    assert_int_equal(rsbx_engine_archive_get(&back, world->engine, world->container, "/data/none",
                                             real_engine_soon(), &err),
                     REPOSBX_ENOTFOUND);
    assert_int_equal(rsbx_engine_archive_put(world->engine, world->container, "/none", tar.data,
                                             tar.length, real_engine_soon(), &err),
                     REPOSBX_ENOTFOUND);
    rsbx_buf_dispose(&tar);
    rsbx_buf_dispose(&back);
    rsbx_buf_dispose(&tight);
    rsbx_buf_dispose(&file);
}

static void odd_names(void **state)
{
    struct world *world = *state;
    static const char *const impossible[] = { "", "a/b", "/", "../volumes/x" };
    static const char *const unknown[] = { "a b", "a?b", "a#b", "a%2Fb", "\xFF", "a\nb" };
    json_t *document = NULL;

    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++)
        assert_int_equal(
            rsbx_engine_container_remove(world->engine, impossible[i], real_engine_soon(), &err),
            REPOSBX_EINVALID);
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        int rc = rsbx_engine_container_inspect(&document, world->engine, unknown[i],
                                               real_engine_soon(), &err);

        if (rc != REPOSBX_ENOTFOUND && rc != REPOSBX_EPROTOCOL)
            fail_msg("\"%s\": %d %s", unknown[i], rc, err.message);
        assert_null(document);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(host_facts, setup, teardown),
        cmocka_unit_test_setup_teardown(image_documents, setup, teardown),
        cmocka_unit_test_setup_teardown(volume_life, setup, teardown),
        cmocka_unit_test_setup_teardown(container_states, setup, teardown),
        cmocka_unit_test_setup_teardown(attached_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(large_input_and_output, setup, teardown),
        cmocka_unit_test_setup_teardown(archives, setup, teardown),
        cmocka_unit_test_setup_teardown(odd_names, setup, teardown),
    };
    int gate = real_engine_gate();

    if (gate != 0)
        return gate;
    if (real_engine_image(image) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
