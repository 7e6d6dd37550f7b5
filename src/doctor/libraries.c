/* SPDX-License-Identifier: Apache-2.0 */
/* The libraries that are loaded, against those that this one was built with: a package that was
 * replaced by an older one is found here and not in the middle of a session. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/opensslv.h>

#include "artifact/zip.h"
#include "codec/archive.h"
#include "codec/git2.h"
#include "doctor/internal.h"
#include "engine/curl.h"

#include "base/banned.h"

struct library {
    const char *name;
    int major, minor;             /* loaded */
    int built_major, built_minor;
};

/* The first two numbers of "1.2.3". */
static void split(struct library *library, const char *loaded, int built_major, int built_minor)
{
    if (loaded == NULL || sscanf(loaded, "%d.%d", &library->major, &library->minor) != 2)
        library->major = library->minor = 0;
    library->built_major = built_major;
    library->built_minor = built_minor;
}

static void list(struct library out[6])
{
    const unsigned int curl = rsbx_curl.curl_version_info(CURLVERSION_NOW)->version_num;
    const int archive = rsbx_archive.archive_version_number();
    int patch;

    out[0] = (struct library){ "libgit2", 0, 0, LIBGIT2_VER_MAJOR, LIBGIT2_VER_MINOR };
    (void)rsbx_git2.git_libgit2_version(&out[0].major, &out[0].minor, &patch);
    out[1] = (struct library){ "libcurl", (int)(curl >> 16), (int)(curl >> 8 & 0xffU),
                               LIBCURL_VERSION_MAJOR, LIBCURL_VERSION_MINOR };
    out[2] = (struct library){ .name = "libzip" };
    split(&out[2], rsbx_zip.zip_libzip_version(), LIBZIP_VERSION_MAJOR, LIBZIP_VERSION_MINOR);
    out[3] = (struct library){ .name = "jansson" };
    split(&out[3], jansson_version_str(), JANSSON_MAJOR_VERSION, JANSSON_MINOR_VERSION);
    out[4] = (struct library){ "openssl", (int)OPENSSL_version_major(),
                               (int)OPENSSL_version_minor(), OPENSSL_VERSION_MAJOR,
                               OPENSSL_VERSION_MINOR };
    out[5] = (struct library){ "libarchive", archive / 1000000, archive / 1000 % 1000,
                               ARCHIVE_VERSION_NUMBER / 1000000,
                               ARCHIVE_VERSION_NUMBER / 1000 % 1000 };
}

void rsbx_doctor_libraries(struct rsbx_doctor *doctor)
{
    static const char hint[] = "install the version that it was built with, or build it anew";
    struct library libraries[6];
    char text[256] = "";
    reposbx_error err = REPOSBX_ERROR_INIT;
    size_t used = 0;
    int rc = rsbx_git2_load(&err);

    if (rc == 0)
        rc = rsbx_curl_load(&err);
    if (rc == 0)
        rc = rsbx_zip_load(&err);
    if (rc == 0)
        rc = rsbx_archive_load(&err);
    if (rc != 0) {
        rsbx_doctor_judge(doctor, "libraries", rc, &err, "");
        return;
    }
    list(libraries);
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        const struct library *one = &libraries[i];

        if (one->major != one->built_major || one->minor < one->built_minor) {
            rsbx_doctor_fail(doctor, "libraries", hint, "%s %d.%d is loaded, not %d.%d", one->name,
                             one->major, one->minor, one->built_major, one->built_minor);
            return;
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %d.%d", i > 0 ? ", " : "",
                                 one->name, one->major, one->minor);
    }
    if ((rsbx_curl.curl_version_info(CURLVERSION_NOW)->features & CURL_VERSION_UNIX_SOCKETS) == 0)
        rsbx_doctor_fail(doctor, "libraries", "install a libcurl with unix sockets",
                         "libcurl knows no unix sockets");
    else
        rsbx_doctor_pass(doctor, "libraries", "%s", text);
}
