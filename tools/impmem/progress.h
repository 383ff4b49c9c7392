/* progress.h - a bar on standard error for work that takes long: on a terminal only, nothing in a pipe or a file.
 *
 *   progress bar;
 *   progress_begin(&bar, "simulate", n);
 *   while (...) progress_show(&bar, done);
 *   progress_end(&bar);                      wipes the bar
 */
#ifndef IMPMEM_COMMAND_PROGRESS_H
#define IMPMEM_COMMAND_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    const char *title;
    uint64_t total;
    uint64_t drawn_ns;
    uint32_t calls; /* since the clock was last read */
    bool shown;     /* standard error is a terminal */
} progress;

void progress_begin(progress *bar, const char *title, uint64_t total);
/* Cheap enough for every step: looks at the clock once in 256 calls, draws ten times a second at most. */
void progress_show(progress *bar, uint64_t done);
void progress_end(progress *bar);

#endif
