/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RSBX_BASE_LIMITS_H
#define RSBX_BASE_LIMITS_H

/*
 * Every cap of the product, each with its reason. Caps that a policy sets are not here.
 */

/* Linux PATH_MAX less its NUL; the fingerprint format has the same bound. */
#define RSBX_MAX_PATH_BYTES 4095U
/* Linux NAME_MAX: no file system that a workspace can live on takes a longer name. */
#define RSBX_MAX_NAME_BYTES 255U
/* The fingerprint format's bound on path components. */
#define RSBX_MAX_PATH_COMPONENTS 256U
/* The fingerprint format's bound on entries. */
#define RSBX_MAX_ENTRIES 500000U

/* A command line: Linux allows 2 MiB for argv and environment together by default (a quarter of an
 * 8 MiB stack); one string at most 128 KiB (MAX_ARG_STRLEN). */
#define RSBX_MAX_ARGV_BYTES (1024U * 1024U)
#define RSBX_MAX_ARG_BYTES (128U * 1024U - 1U)
#define RSBX_MAX_ARGV_COUNT 4096U
#define RSBX_MAX_ENV_COUNT 256U

/* An engine's JSON reply. The largest honest one (image inspect with a long history) is some tens
 * of KiB; /info of a large host some hundreds. */
#define RSBX_MAX_REPLY_BYTES (4U * 1024U * 1024U)
/* An engine's reply header block. */
#define RSBX_MAX_HEADER_BYTES (64U * 1024U)
/* One frame of the multiplexed stream: the engine copies in pieces of 32 KiB; anything larger by
 * far is not a frame. */
#define RSBX_MAX_FRAME_BYTES (1024U * 1024U)

/* A policy document: the largest sensible one lists some hundred images. */
#define RSBX_MAX_POLICY_BYTES (1024U * 1024U)
/* One audit line: argv at its cap, escaped as \uNNNN at worst six times, and room for the rest. */
#define RSBX_MAX_RECORD_BYTES (8U * 1024U * 1024U)
/* A seccomp profile: Docker's own is about 13 KiB. */
#define RSBX_MAX_SECCOMP_BYTES (1024U * 1024U)
/* Metadata, spec and journal documents of the state folder. */
#define RSBX_MAX_STATE_BYTES (16U * 1024U * 1024U)

/* A diff, when the caller names no limit; a patch is reviewed by people and models. */
#define RSBX_DEFAULT_DIFF_BYTES (16U * 1024U * 1024U)
/* One file by read, when the caller names no limit. */
#define RSBX_DEFAULT_READ_BYTES (8U * 1024U * 1024U)
/* The log of refused creations: some ten thousand lines. */
#define RSBX_MAX_REFUSALS_BYTES (8U * 1024U * 1024U)
/* The log of one-shot code: some twenty thousand runs, and as many in the one before it. */
#define RSBX_MAX_RUN_AUDIT_BYTES (32U * 1024U * 1024U)
/* Names that list-files gives at most. */
#define RSBX_MAX_LIST_ENTRIES 200000U
/* Paths that one request names; each may stand for a whole folder. */
#define RSBX_MAX_REQUEST_PATHS 1000U
/* Members of one bundle that a policy can allow: what a ZIP counts without Zip64 records, which some
 * readers lack. */
#define RSBX_MAX_BUNDLE_MEMBERS 65534U

/* Time, in milliseconds. An idle engine answers a call in tens of milliseconds; start and remove
 * take a second on a loaded machine and some ten under full emulation. */
#define RSBX_ENGINE_CALL_MS 60000
#define RSBX_ENGINE_CONNECT_MS 5000
/* After a cancel a call that changes something is still given this long to be answered: nobody wants to
 * leave an engine that is about to make what the clean-up then does not find. */
#define RSBX_CANCEL_GRACE_MS 2000
/* The guest's own clock ends a command; the controller waits this much longer before it kills. */
#define RSBX_GUEST_GRACE_MS 2000
/* For the work behind a request to end: a keeper makes a few engine calls. */
#define RSBX_KEEPERS_MS (2U * RSBX_ENGINE_CALL_MS)
/* From the start of a container to its hello. */
#define RSBX_HELLO_MS 60000
/* The reader child's wall clock and processor time for one repository. */
#define RSBX_READER_MS 600000
#define RSBX_READER_CPU_SECONDS 300
/* Its address space: libgit2 maps pack windows (up to 1 GiB by default, set lower by us) and holds
 * one object at a time. */
#define RSBX_READER_MEMORY_BYTES (2048ULL * 1024ULL * 1024ULL)
/* One blob: it is held whole while it is hashed and validated. */
#define RSBX_MAX_BLOB_BYTES (512ULL * 1024ULL * 1024ULL)

#endif
