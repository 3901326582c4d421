/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hostid: a random name of this host, made once, kept in the state
 * directory's file `host-id`. Hosts cloned with /etc/machine-id differ in it
 * only where the state directory was not cloned too.
 */
#ifndef MIGRATE_HOSTID_H
#define MIGRATE_HOSTID_H

#include <stdint.h>

#include "base/err.h"

#define HOSTID_LEN 16

/* Read it, making it where it is missing (two processes at once come to the
 * same). E_CORRUPT where the file is not 32 hex digits; errors of
 * statedir_open. Blocks on the disk. */
int hostid_get(uint8_t id[HOSTID_LEN], struct err *e);

/* This boot's random id from /proc into `out` (36 characters and a NUL). */
#define HOSTID_BOOT_MAX 64
int hostid_boot(char out[HOSTID_BOOT_MAX], struct err *e);

#endif
