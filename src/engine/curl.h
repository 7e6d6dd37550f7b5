/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_ENGINE_CURL_H
#define RSBX_ENGINE_CURL_H

/* The checks of types are macros around the calls, and would not see these. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "base/lazy.h"

/* The functions of libcurl that are called, as rsbx_curl.NAME once rsbx_curl_load() has succeeded: who has an
 * engine has loaded it. */
#define RSBX_CURL_FUNCTIONS(X)                                                                     \
    X(curl_easy_cleanup) X(curl_easy_getinfo) X(curl_easy_init) X(curl_easy_perform)               \
    X(curl_easy_reset) X(curl_easy_setopt) X(curl_easy_strerror) X(curl_global_init)               \
    X(curl_slist_append) X(curl_slist_free_all) X(curl_version_info)

RSBX_LAZY_TABLE(curl, RSBX_CURL_FUNCTIONS);

#endif
