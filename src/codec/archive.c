/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/archive.h"

#include "base/banned.h"

RSBX_LAZY_LIBRARY(archive, RSBX_ARCHIVE_FUNCTIONS, RSBX_ARCHIVE_SONAME);
