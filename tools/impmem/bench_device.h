/* bench_device.h - `impmem bench --device`: the library on a device beside what it is held against there. */
#ifndef IMPMEM_COMMAND_BENCH_DEVICE_H
#define IMPMEM_COMMAND_BENCH_DEVICE_H

#include "bench.h"

/* COMMAND_DONE, or what to leave with after a complaint. */
int bench_device(const bench_run *run, int ordinal);

#endif
