/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sshcopy: a copy of the user's ssh configuration that ssh can read although
 * it names algorithms which this ssh does not know.
 *
 * `ssh -G` ends at such a name wherever it stands, even with the keyword given
 * on the command line. So in the copy the lists of algorithms travel under
 * keywords that hold any string and that we have no use for: ssh still decides
 * which Host and Match blocks apply and which line is first, and the value
 * comes out as it was written.
 */
#ifndef SSH_SSHCOPY_H
#define SSH_SSHCOPY_H

#include <stdbool.h>

#include "base/err.h"

/* Whether ssh's message says that it stumbled over a name of an algorithm. */
bool sshcopy_would_help(const char *message);

/* The keyword in the copy for a list's keyword (any case), or NULL. */
const char *sshcopy_carrier(const char *keyword);

/* The list's keyword, in lower case as ssh prints it, for a carrier; or NULL.
 */
const char *sshcopy_carried(const char *carrier);

/* Whether a carrier's value is ssh's own default, thus nothing of ours. */
bool sshcopy_is_default(const char *value);

/*
 * Copy `config` (NULL: ~/.ssh/config and /etc/ssh/ssh_config) and all that it
 * includes into a new private directory. `home` is the local user's. 0, the
 * directory into *dir and the file for -F into *file (both owned);
 * sshcopy_remove ends it. E_CONFIG, E_LIMIT, E_SYSTEM, E_NOMEM.
 */
int sshcopy_make(const char *config, const char *home, char **dir, char **file,
		 struct err *e);

/* Delete the directory and free the string. NULL is allowed. */
void sshcopy_remove(char *dir);

#endif
