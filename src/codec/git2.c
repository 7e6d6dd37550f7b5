/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/git2.h"

#include "base/banned.h"

RSBX_LAZY_LIBRARY(git2, RSBX_GIT2_FUNCTIONS, RSBX_GIT2_SONAME);
