/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * authtry: the keys that authkey.h collects, tried on a server.
 */
#ifndef SSH_AUTHTRY_H
#define SSH_AUTHTRY_H

#include "ssh/authrun.h"

/*
 * Try each key that was not tried yet in this run. An encrypted one is asked
 * for only if no agent holds it and, where its public half is known, the
 * server would take it. enum authstep_result, or an error that ends all.
 */
int authtry_publickey(struct authrun *r, struct err *e);

#endif
