/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_API_DOCUMENTS_H
#define RSBX_API_DOCUMENTS_H

#include <reposbx/session.h>

#include "codec/json.h"

/* Parts of documents that stand in several; NULL without memory. */
json_t *rsbx_exec_result_value(const reposbx_exec_result *result);
/* A Git mode, and an id beside it: null for what is absent. */
json_t *rsbx_mode_value(uint32_t mode);
json_t *rsbx_oid_value(const char *oid, uint32_t mode);
/* Any bytes as a string. */
json_t *rsbx_text_value(const char *text);
/* The text of `value`, which is taken over. */
int rsbx_document_text(char **out, json_t *value, reposbx_error *err);

#endif
