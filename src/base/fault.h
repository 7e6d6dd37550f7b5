/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_BASE_FAULT_H
#define RSBX_BASE_FAULT_H

/*
 * Named points where a test build can be made to crash or fail, so that the tests can stop the
 * product anywhere. In the product RSBX_FAULT is nothing. In the program reposbx-fault (tests/fault) the
 * environment variable REPOSBX_FAULT="name" or "name:N" kills the process with SIGKILL at the Nth
 * passing (first by default) of that point; "all" with REPOSBX_FAULT_LOG=FILE writes each name that
 * is passed.
 */
#ifdef RSBX_FAULT_POINTS
void rsbx_fault_point(const char *name);
#define RSBX_FAULT(name) rsbx_fault_point(name)
#else
#define RSBX_FAULT(name) ((void)0)
#endif

#endif
