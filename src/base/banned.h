/* SPDX-License-Identifier: Apache-2.0 */
/* Included last by every source file outside the guest: calls with no bound, no error or a shell
 * behind them do not compile. */
#ifndef RSBX_BASE_BANNED_H
#define RSBX_BASE_BANNED_H

#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf gets strtok atoi atol atoll atof
#pragma GCC poison system popen mktemp tmpnam tempnam gmtime localtime ctime asctime

#endif
