/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/curl.h"

#include "base/banned.h"

RSBX_LAZY_LIBRARY(curl, RSBX_CURL_FUNCTIONS, RSBX_CURL_SONAME);
