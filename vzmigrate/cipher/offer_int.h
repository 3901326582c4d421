/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * offer_int: what the two halves of offer share. Not for others.
 */
#ifndef CIPHER_OFFER_INT_H
#define CIPHER_OFFER_INT_H

#include "cipher/offer.h"

/* Whether policy and library let `name` be offered, whatever the lists say:
 * OFFER_YES (also for a MAC that is offered only where listed), or why not
 * with a phrase in `why`. `name` is not escaped into `why` unless it is in the
 * table. */
enum offer_verdict offer_policy(const struct offer_ask *ask, enum alg_kind kind,
				const char *name, char *why, size_t whylen);

#endif
