/* SPDX-License-Identifier: Apache-2.0 */
/* Images that tests make of their own one, on either engine. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "real/place.h"

#include "base/banned.h"

#define PODMAN(out, ...) place_podman((out), (const char *const[]){ __VA_ARGS__, NULL })

static void podman_derive(char *out, const char *const *changes)
{
    const char *words[40] = { "commit", "--quiet", "--format=docker" };
    char *container = NULL, *image = NULL;
    size_t count = 3;

    assert_int_equal(PODMAN(&container, "create", place_image(), "/bin/true"), 0);
    container[strcspn(container, "\n")] = '\0';
    for (; *changes != NULL && count < 36; changes++) {
        if (strncmp(*changes, "HEALTHCHECK ", 12) == 0)
            continue; /* which podman commit does not know */
        words[count++] = "--change";
        words[count++] = *changes;
    }
    words[count] = container;
    assert_int_equal(place_podman(&image, words), 0);
    image[strcspn(image, "\n")] = '\0';
    (void)snprintf(out, PLACE_IMAGE_BYTES, "sha256:%s", image);
    assert_int_equal(PODMAN(NULL, "rm", container), 0);
    free(container);
    free(image);
}

/* Appends `text` as part of a query. */
static void put_escaped(char *out, size_t size, const char *text)
{
    size_t used = strlen(out);

    for (; *text != '\0' && used + 4 < size; text++)
        used += (size_t)snprintf(out + used, size - used,
                                 isalnum((unsigned char)*text) ? "%c" : "%%%02X",
                                 (unsigned char)*text);
}

static void docker_derive(char *out, const char *const *changes)
{
    char path[1024], *answer, *created;
    json_t *document;

    (void)snprintf(path, sizeof path, "{\"Image\": \"%s\", \"Cmd\": [\"/bin/true\"]}", place_image());
    created = place_engine("POST", "/containers/create", path);
    assert_non_null(created);
    document = json_loads(created, 0, NULL);
    (void)snprintf(path, sizeof path, "/commit?container=%s",
                   json_string_value(json_object_get(document, "Id")));
    for (; *changes != NULL; changes++) {
        (void)snprintf(path + strlen(path), sizeof path - strlen(path), "&changes=");
        put_escaped(path, sizeof path, *changes);
    }
    answer = place_engine("POST", path, "{}");
    (void)snprintf(path, sizeof path, "/containers/%s?force=1",
                   json_string_value(json_object_get(document, "Id")));
    json_decref(document);
    free(created);
    free(place_engine("DELETE", path, NULL));
    assert_non_null(answer);
    document = json_loads(answer, 0, NULL);
    (void)snprintf(out, PLACE_IMAGE_BYTES, "%s", json_string_value(json_object_get(document, "Id")));
    json_decref(document);
    free(answer);
}

void place_derive_image(char out[PLACE_IMAGE_BYTES], const char *const *changes)
{
    if (strcmp(place_provider_name(), "podman") == 0)
        podman_derive(out, changes);
    else
        docker_derive(out, changes);
}

void place_drop_image(const char *id)
{
    char path[160];

    (void)snprintf(path, sizeof path, "/images/%s?force=1", id);
    if (strcmp(place_provider_name(), "podman") == 0)
        (void)PODMAN(NULL, "image", "rm", "--force", id);
    else
        free(place_engine("DELETE", path, NULL));
}
