/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pool: a stack of free frame buffers under a mutex. State: the pool owns
 * every buffer; who took one owns it until pool_put.
 */
#include "xfer/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t free_one;
	struct pool_frame *free; /* stack: the warmest buffer is used next */
	struct pool_frame *all;	 /* array of `count` */
	size_t count;
	bool stopped;
};

struct pool *
pool_new(size_t count, struct err *e)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (p) {
		p->all = calloc(count, sizeof(*p->all));
	}
	if (!p || !p->all) {
		free(p);
		err_nomem(e);
		return NULL;
	}
	p->count = count;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->free_one, NULL);
	for (size_t i = count; i-- > 0;) {
		p->all[i].pool = p;
		p->all[i].room = POOL_ROOM;
		p->all[i].next = p->free;
		p->free = &p->all[i];
	}
	return p;
}

/* With the lock held and a free buffer there. */
static struct pool_frame *
take(struct pool *p)
{
	struct pool_frame *f = p->free;

	if (!f->bytes) {
		f->bytes = malloc(FRAME_HEADER + POOL_ROOM);
		if (!f->bytes) {
			return NULL;
		}
	}
	p->free = f->next;
	f->next = NULL;
	f->len = 0;
	f->flags = 0;
	f->type = 0;
	f->from = NULL;
	f->at = 0;
	return f;
}

struct pool_frame *
pool_get(struct pool *p)
{
	struct pool_frame *f = NULL;

	pthread_mutex_lock(&p->lock);
	while (!p->free && !p->stopped) {
		pthread_cond_wait(&p->free_one, &p->lock);
	}
	if (!p->stopped) {
		f = take(p);
	}
	pthread_mutex_unlock(&p->lock);
	return f;
}

struct pool_frame *
pool_try_get(struct pool *p)
{
	struct pool_frame *f = NULL;

	pthread_mutex_lock(&p->lock);
	if (p->free && !p->stopped) {
		f = take(p);
	}
	pthread_mutex_unlock(&p->lock);
	return f;
}

struct pool_frame *
pool_large(uint32_t room)
{
	struct pool_frame *f = calloc(1, sizeof(*f));

	if (f) {
		f->room = room;
		f->bytes = malloc(FRAME_HEADER + (size_t)room);
	}
	if (!f || !f->bytes) {
		free(f);
		return NULL;
	}
	return f;
}

void
pool_put(struct pool_frame *f)
{
	struct pool *p;

	if (!f) {
		return;
	}
	p = f->pool;
	if (!p) {
		free(f->bytes);
		free(f);
		return;
	}
	pthread_mutex_lock(&p->lock);
	f->next = p->free;
	p->free = f;
	pthread_cond_signal(&p->free_one);
	pthread_mutex_unlock(&p->lock);
}

void
pool_stop(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->stopped = true;
	pthread_cond_broadcast(&p->free_one);
	pthread_mutex_unlock(&p->lock);
}

void
pool_restart(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->stopped = false;
	pthread_mutex_unlock(&p->lock);
}

void
pool_free(struct pool *p)
{
	if (!p) {
		return;
	}
	for (size_t i = 0; i < p->count; i++) {
		free(p->all[i].bytes);
	}
	free(p->all);
	pthread_cond_destroy(&p->free_one);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
