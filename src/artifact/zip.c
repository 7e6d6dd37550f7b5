/* SPDX-License-Identifier: Apache-2.0 */
#include "artifact/zip.h"

#include "base/banned.h"

RSBX_LAZY_LIBRARY(zip, RSBX_ZIP_FUNCTIONS, RSBX_ZIP_SONAME);
