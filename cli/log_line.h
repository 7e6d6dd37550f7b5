/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_CLI_LOG_LINE_H
#define RSBX_CLI_LOG_LINE_H

#include <jansson.h>

/*
 * One record of a session's log as a line for people: time, event, and what it is about, always in this
 * order: its subject (a command's id, a path, a session, an operation), argv, how it ended, how long it
 * took, how many things and bytes. Digests and whole documents are for --json.
 */
void rsbx_cli_print_record(const char *time, const char *event, const json_t *data);

#endif
