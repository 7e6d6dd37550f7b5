/* SPDX-License-Identifier: Apache-2.0 */
/* The conversation over a link made of a socket pair: the test is the guest. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "provider/talk.h"

struct pair_link {
    struct rsbx_link base;
    int fd;
};

static int pair_fd(const struct rsbx_link *link)
{
    return ((const struct pair_link *)link)->fd;
}

static int pair_send(size_t *sent, struct rsbx_link *link, const void *bytes, size_t length,
                     reposbx_error *err)
{
    ssize_t out = send(((struct pair_link *)link)->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (out < 0 && errno != EAGAIN)
        return rsbx_fail_errno(err, REPOSBX_EPROTOCOL, "send");
    *sent = out > 0 ? (size_t)out : 0;
    return 0;
}

static int pair_shutdown(struct rsbx_link *link, reposbx_error *err)
{
    (void)err;
    return shutdown(((struct pair_link *)link)->fd, SHUT_WR);
}

static int pair_receive(bool *ended, struct rsbx_link *link, rsbx_link_piece piece, void *payload,
                        reposbx_error *err)
{
    char bytes[4096];
    ssize_t got = recv(((struct pair_link *)link)->fd, bytes, sizeof bytes, MSG_DONTWAIT);

    if (got == 0)
        *ended = true;
    return got > 0 ? piece(payload, 1, bytes, (size_t)got, err) : 0;
}

static void pair_free(struct rsbx_link *link)
{
    (void)close(((struct pair_link *)link)->fd);
    free(link);
}

static const struct rsbx_link_ops pair_ops = { .fd = pair_fd,
                                               .send = pair_send,
                                               .shutdown_send = pair_shutdown,
                                               .receive = pair_receive,
                                               .free = pair_free };

struct fixture {
    struct rsbx_talk *talk;
    int guest_fd;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct pair_link *link = calloc(1, sizeof *link);
    int both[2];

    if (fixture == NULL || link == NULL ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) != 0)
        return -1;
    link->base.ops = &pair_ops;
    link->fd = both[0];
    fixture->guest_fd = both[1];
    *state = fixture;
    return rsbx_talk_open(&fixture->talk, &link->base, NULL);
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    rsbx_talk_free(fixture->talk);
    if (fixture->guest_fd >= 0)
        (void)close(fixture->guest_fd);
    free(fixture);
    return 0;
}

static void guest_says(const struct fixture *fixture, uint16_t type, uint32_t sequence,
                       const void *bytes, uint32_t length)
{
    const struct rsbx_wire_header header = { .type = type,
                                             .sequence = sequence,
                                             .length = length };
    uint8_t raw[RSBX_WIRE_HEADER_BYTES];

    rsbx_wire_put_header(raw, &header);
    assert_int_equal(rsbx_write_all(fixture->guest_fd, raw, sizeof raw), 0);
    assert_int_equal(rsbx_write_all(fixture->guest_fd, bytes, length), 0);
}

struct seen {
    size_t count;
    uint16_t types[8];
    char first[8];
};

static int note(void *payload, const struct rsbx_wire_message *message, reposbx_error *err)
{
    struct seen *seen = payload;

    (void)err;
    if (seen->count == 0 && message->length < sizeof seen->first)
        memcpy(seen->first, message->bytes, message->length);
    seen->types[seen->count++] = message->type;
    return message->type == RSBX_WIRE_TRAILER ? 1 : 0;
}

static void messages_arrive_in_order(void **state)
{
    struct fixture *fixture = *state;
    struct seen seen = { 0 };
    const struct rsbx_talk_handler handler = { .message = note, .payload = &seen };

    guest_says(fixture, RSBX_WIRE_STDOUT, 0, "abc", 3);
    guest_says(fixture, RSBX_WIRE_TRAILER, 1, "", 0);
    assert_int_equal(
        rsbx_talk_run(fixture->talk, &handler, rsbx_deadline_in_ms(5000), NULL), 0);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.types[0], RSBX_WIRE_STDOUT);
    assert_string_equal(seen.first, "abc");
}

static void a_skipped_sequence_number_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct seen seen = { 0 };
    const struct rsbx_talk_handler handler = { .message = note, .payload = &seen };

    guest_says(fixture, RSBX_WIRE_STDOUT, 1, "abc", 3);
    assert_int_equal(
        rsbx_talk_run(fixture->talk, &handler, rsbx_deadline_in_ms(5000), NULL),
        REPOSBX_EPROTOCOL);
    assert_int_equal(seen.count, 0);
}

static void bytes_that_are_no_message_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct seen seen = { 0 };
    const struct rsbx_talk_handler handler = { .message = note, .payload = &seen };

    assert_int_equal(rsbx_write_all(fixture->guest_fd, "hello from a shell\n", 19), 0);
    assert_int_equal(
        rsbx_talk_run(fixture->talk, &handler, rsbx_deadline_in_ms(5000), NULL),
        REPOSBX_EPROTOCOL);
}

static void an_end_without_trailer_is_an_error(void **state)
{
    struct fixture *fixture = *state;
    struct seen seen = { 0 };
    const struct rsbx_talk_handler handler = { .message = note, .payload = &seen };

    guest_says(fixture, RSBX_WIRE_STDOUT, 0, "abc", 3);
    (void)close(fixture->guest_fd);
    fixture->guest_fd = -1;
    assert_int_equal(
        rsbx_talk_run(fixture->talk, &handler, rsbx_deadline_in_ms(5000), NULL),
        REPOSBX_EPROTOCOL);
    assert_int_equal(seen.count, 1);
}

static void silence_ends_at_the_deadline(void **state)
{
    struct fixture *fixture = *state;
    struct seen seen = { 0 };
    const struct rsbx_talk_handler handler = { .message = note, .payload = &seen };

    assert_int_equal(rsbx_talk_run(fixture->talk, &handler, rsbx_deadline_in_ms(50), NULL),
                     REPOSBX_EUNAVAILABLE);
}

static void a_readable_cancel_descriptor_cancels(void **state)
{
    struct fixture *fixture = *state;
    struct seen seen = { 0 };
    const struct rsbx_talk_handler handler = { .message = note, .payload = &seen };
    int both[2];

    assert_int_equal(pipe(both), 0);
    assert_int_equal(rsbx_write_all(both[1], "x", 1), 0);
    assert_int_equal(rsbx_talk_run(fixture->talk, &handler,
                                   rsbx_deadline_or(rsbx_deadline_in_ms(5000), &both[0]), NULL),
                     REPOSBX_ECANCELLED);
    (void)close(both[0]);
    (void)close(both[1]);
}

/* A hello for another greeting: the nonce differs. */
static void a_replayed_hello_is_refused(void **state)
{
    struct fixture *fixture = *state;
    const struct rsbx_hello hello = { .nonce = { 1, 2, 3 }, .pid = 1 };
    uint8_t raw[RSBX_HELLO_BYTES];
    struct rsbx_hello got;

    rsbx_wire_put_hello(raw, &hello);
    guest_says(fixture, RSBX_WIRE_HELLO, 0, raw, sizeof raw);
    assert_int_equal(rsbx_talk_greet(&got, fixture->talk, rsbx_deadline_in_ms(5000), NULL),
                     REPOSBX_EPROTOCOL);
}

/* More than any buffer between holds, while the other side sends as well: nobody may wait for
 * ever. */
static void sending_and_receiving_at_once_does_not_block(void **state)
{
    struct fixture *fixture = *state;
    struct seen seen = { 0 };
    const struct rsbx_talk_handler handler = { .message = note, .payload = &seen };
    char *bytes = calloc(1, 4U * 1024U * 1024U);
    pid_t guest;

    assert_non_null(bytes);
    assert_int_equal(rsbx_talk_put_data(fixture->talk, bytes, 4U * 1024U * 1024U, NULL), 0);
    free(bytes);
    guest = fork();
    if (guest == 0) {
        char sink[65536];
        size_t left = 4U * 1024U * 1024U + 64U * RSBX_WIRE_HEADER_BYTES;

        while (left > 0) {
            ssize_t got = read(fixture->guest_fd, sink, sizeof sink);

            if (got <= 0)
                _exit(1);
            left -= (size_t)got;
        }
        guest_says(fixture, RSBX_WIRE_TRAILER, 0, "", 0);
        _exit(0);
    }
    assert_int_equal(
        rsbx_talk_run(fixture->talk, &handler, rsbx_deadline_in_ms(20000), NULL), 0);
    assert_int_equal(seen.types[0], RSBX_WIRE_TRAILER);
    assert_int_equal(rsbx_talk_waiting(fixture->talk), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_arrive_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(a_skipped_sequence_number_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(bytes_that_are_no_message_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_without_trailer_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(silence_ends_at_the_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(a_readable_cancel_descriptor_cancels, setup, teardown),
        cmocka_unit_test_setup_teardown(a_replayed_hello_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(sending_and_receiving_at_once_does_not_block, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
