/* SPDX-License-Identifier: Apache-2.0 */
#include "fake/session.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/banned.h"

int fake_place_setup(void **state)
{
    struct fake_place *here = calloc(1, sizeof *here);

    if (here == NULL)
        return -1;
    here->fake = fake_docker_start();
    *state = here;
    if (setenv("REPOSBX_TEST_ENGINE", fake_docker_address(here->fake), 1) != 0)
        return -1;
    return place_make(&here->place);
}

int fake_place_teardown(void **state)
{
    static const struct fake_habits honest = { .linger_ms = 0 };
    struct fake_place *here = *state;
    int rc;

    fake_docker_behave(here->fake, &honest);
    rc = place_leave(&here->place);
    fake_docker_stop(here->fake);
    free(here);
    return rc;
}

int fake_place_create(reposbx_session **out, struct fake_place *here, const char *image,
                      const char *changes, reposbx_error *err)
{
    reposbx_policy *policy = place_policy(image, changes);
    reposbx_spec spec = REPOSBX_SPEC_INIT;
    int rc;

    spec.repo = here->place.repo;
    spec.revision = here->place.revision;
    spec.image = image;
    spec.task_id = "test-1";
    spec.policy = policy;
    rc = reposbx_session_create(out, here->place.provider, &spec, err);
    reposbx_policy_free(policy);
    return rc;
}

reposbx_session *fake_place_session(struct fake_place *here, const char *changes)
{
    reposbx_session *session = NULL;
    reposbx_error err = REPOSBX_ERROR_INIT;

    if (fake_place_create(&session, here, FAKE_IMAGE_ID, changes, &err) != 0)
        fail_msg("create: %s (%s)", err.message, err.hint);
    return session;
}

int fake_place_exec(reposbx_exec_result *out, reposbx_session *session, reposbx_error *err)
{
    const char *argv[] = { "true" };
    reposbx_exec_request request = REPOSBX_EXEC_REQUEST_INIT;

    request.argv = argv;
    request.argc = 1;
    return reposbx_session_exec(out, session, &request, err);
}

size_t fake_place_folders(const struct fake_place *here, const char *under)
{
    char path[512];
    struct dirent *entry;
    size_t count = 0;
    DIR *folder;

    (void)snprintf(path, sizeof path, "%s/%s", here->place.state, under);
    folder = opendir(path);
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL)
        count += entry->d_name[0] != '.' || strncmp(entry->d_name, ".gone", 5) == 0;
    (void)closedir(folder);
    return count;
}

struct counting {
    const char *event;
    size_t count;
};

static int count_line(void *payload, const char *line, size_t length)
{
    struct counting *counting = payload;
    json_t *record = json_loadb(line, length, 0, NULL);
    const char *event = json_string_value(json_object_get(record, "event"));

    counting->count += event != NULL && strcmp(event, counting->event) == 0;
    json_decref(record);
    return 0;
}

size_t fake_place_records(const reposbx_session *session, const char *event)
{
    struct counting counting = { .event = event };
    uint64_t offset = 0;

    if (reposbx_audit_read(reposbx_session_audit_dir(session), &offset, count_line, &counting,
                           NULL) != 0)
        fail_msg("no audit");
    return counting.count;
}
