/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * devno: the device of an inode as one number.
 */
#ifndef FS_DEVNO_H
#define FS_DEVNO_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* The device that the inode is on, as stat's st_dev has it. `stx` is borrowed.
 * Not the device that a special file is (stx_rdev_*). */
static inline uint64_t
devno_of(const struct statx *stx)
{
	return makedev(stx->stx_dev_major, stx->stx_dev_minor);
}

#endif
