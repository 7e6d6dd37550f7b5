/* SPDX-License-Identifier: Apache-2.0 */
/* A log that many processes append to and that never ends: each record takes a lock, a full log
 * makes room. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/fd.h"

#include "base/banned.h"

static int append(int at_fd, uint64_t limit_bytes, const char *event, const json_t *data,
                  reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int folder_fd = -1;
    RSBX_AUTO(rsbx_audit) rsbx_audit_ptr audit = NULL;
    int rc;

    if (mkdirat(at_fd, "audit", 0700) != 0 && errno != EEXIST)
        return rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot make the folder");
    folder_fd = openat(at_fd, "audit", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder_fd < 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot open the folder");
    rc = rsbx_audit_open(&audit, folder_fd, limit_bytes, err);
    return rc == 0 ? rsbx_audit_append(audit, event, data, RSBX_AUDIT_ORDINARY, err) : rc;
}

int rsbx_audit_roll(int at_fd, uint64_t limit_bytes, const char *event, const json_t *data,
                    reposbx_error *err)
{
    RSBX_AUTO(rsbx_fd) int lock_fd =
        openat(at_fd, "audit.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc;

    if (lock_fd < 0 || flock(lock_fd, LOCK_EX) != 0)
        return rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot take the lock");
    rc = append(at_fd, limit_bytes, event, data, err);
    if (rc != REPOSBX_ELIMIT)
        return rc;
    rc = rsbx_remove_tree_at(at_fd, "audit.old", err);
    if (rc == 0 && renameat(at_fd, "audit", at_fd, "audit.old") != 0)
        rc = rsbx_fail_errno(err, REPOSBX_EIO, "audit: cannot put the full log aside");
    return rc == 0 ? append(at_fd, limit_bytes, event, data, err) : rc;
}
