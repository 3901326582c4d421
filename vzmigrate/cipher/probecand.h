/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * probecand: whom a probe measures: what we offer and the server has.
 */
#ifndef CIPHER_PROBECAND_H
#define CIPHER_PROBECAND_H

#include "base/err.h"
#include "cipher/offer.h"
#include "cipher/probe.h"

/*
 * Fill `p` (empty) from our offer, which holds the policy, and the server's
 * lists for the direction to it (NULL: not known, all of ours may be). The
 * order is that of negotiation, so the first is what it would come to.
 *
 * A cipher that needs a MAC is a candidate with each MAC that both have; but
 * where the MACs are our default list, with plain ones (MAC and encrypt) only
 * if both have no encrypt-then-MAC one. One with none is no candidate.
 *
 * 0, also with none; E_LIMIT, E_NOMEM.
 */
int probecand_fill(const struct offer *o, const char *srv_ciphers,
		   const char *srv_macs, struct probe *p, struct err *e);

/*
 * The lists for a connection with candidate `i` first and all else of the
 * offer behind it, so that a server that changed its mind is still reached.
 * Owned strings into *ciphers and *macs; E_NOMEM, E_LIMIT.
 */
int probecand_prefer(const struct offer *o, const struct probe_cand *c,
		     char **ciphers, char **macs, struct err *e);

/* The lines of ssh_config that make it permanent: "Ciphers ^NAME", and with a
 * MAC "\nMACs ^NAME". Owned; NULL with E_NOMEM. */
char *probecand_config(const struct probe_cand *c, struct err *e);

#endif
