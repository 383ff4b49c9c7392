/* progress.c - a bar on standard error, on a terminal only. */
#define _GNU_SOURCE
#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 40, CALLS_PER_LOOK = 256, DRAW_EVERY_NS = 100000000 };

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void progress_begin(progress *bar, const char *title, uint64_t total)
{
    *bar = (progress){.title = title, .total = total ? total : 1, .shown = isatty(STDERR_FILENO) == 1};
    if (bar->shown) bar->drawn_ns = now_ns();
}

void progress_show(progress *bar, uint64_t done)
{
    if (!bar->shown || ++bar->calls < CALLS_PER_LOOK) return;
    bar->calls = 0;
    uint64_t now = now_ns();
    if (now - bar->drawn_ns < DRAW_EVERY_NS) return;
    bar->drawn_ns = now;
    if (done > bar->total) done = bar->total;
    double share = (double)done / (double)bar->total;
    char full[WIDTH + 1];
    memset(full, ' ', WIDTH);
    memset(full, '#', (size_t)(share * WIDTH));
    full[WIDTH] = '\0';
    fprintf(stderr, "\r%s [%s] %3d %%", bar->title, full, (int)(share * 100));
    fflush(stderr);
}

void progress_end(progress *bar)
{
    if (!bar->shown) return;
    fprintf(stderr, "\r\033[K"); /* back to the line's start, and clear to its end */
    fflush(stderr);
    bar->shown = false;
}
