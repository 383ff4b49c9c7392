/* cmd_report.c - `impmem report`: what is on a card now, by what this process can see of it. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "core/json.h"
#include "device_flags.h"
#include "device_open.h"
#include "impmem/version.h"

static const char doc[] =
    "Tells what is on a device now: its size, what is free, this process's own context, and what others hold.\v"
    "The command's own context is on the device while it looks, on a line of its own.";

typedef struct row {
    const char *key;
    const char *text;
    double bytes;
} row;

enum { N_ROWS = 8 };

static void rows_of(const impmem_cuda_standing *s, uint64_t others, bool others_known, row rows[N_ROWS])
{
    const row filled[N_ROWS] = {
        {"total_bytes", "total", (double)s->total_bytes},
        {"free_bytes", "free", (double)s->free_bytes},
        {"used_bytes", "used", (double)s->used_bytes},
        {"context_bytes", "of it this command's context", (double)s->context_bytes},
        {"before_bytes",
         s->context_measured ? "of it there before: other processes, the driver" : "of it there before, our context in it",
         (double)s->neighbours_bytes},
        {"own_bytes", "of it this command's own regions", (double)s->own_bytes},
        {"residual_bytes", "residual, by nobody's account", (double)s->residual_bytes},
        {"others_bytes",
         others_known ? "other processes, as the driver lists them" : "other processes: not to be seen from here",
         (double)others},
    };
    memcpy(rows, filled, sizeof filled);
}

static impmem_status print_json(const impmem_cuda_facts *f, const row rows[N_ROWS], bool others_known)
{
    impmem__json json;
    impmem__json_init(&json, impmem_write_file, stdout, 2);
    impmem__json_object_begin(&json);
    impmem__json_field_string(&json, "version", impmem_version());
    impmem__json_field_string(&json, "device", f->name);
    impmem__json_field_i64(&json, "ordinal", f->ordinal);
    impmem__json_field_i64(&json, "driver", f->driver_version);
    impmem__json_field_i64(&json, "runtime", f->runtime_version);
    for (int i = 0; i < N_ROWS; i++) {
        impmem__json_key(&json, rows[i].key);
        if (i == N_ROWS - 1 && !others_known) impmem__json_null(&json);
        else impmem__json_i64(&json, (int64_t)rows[i].bytes);
    }
    impmem__json_object_end(&json);
    impmem_status st = impmem__json_finish(&json);
    printf("\n");
    return st;
}

int command_report(int argc, char **argv)
{
    const device_flags flags = device_flags_parse("report", doc, argc, argv);
    device_session session;
    int code = device_open((int)flags.device, &session);
    if (code) return code;
    impmem_cuda_facts facts;
    impmem_cuda_standing standing;
    impmem_error why = IMPMEM_ERROR_INIT;
    uint64_t used = 0, others = 0;
    impmem_cuda_device_facts(session.device, &facts);
    impmem_status st = impmem_cuda_standing_read(session.device, &standing, &why);
    bool known = SESSION_ASK(&session, managed_memory, session.device->identity, &used, &others) == IMPMEM__CODE_OK;
    code = device_close(&session);
    if (st) {
        command_complain("device %u: %s", flags.device, why.message);
        return st == IMPMEM_ERR_BAD_VALUE ? COMMAND_NO : COMMAND_DEVICE;
    }
    row rows[N_ROWS];
    rows_of(&standing, others, known, rows);
    if (flags.json) {
        st = print_json(&facts, rows, known);
    } else {
        printf("%s, driver %d, runtime %d\n\n", facts.name, facts.driver_version, facts.runtime_version);
        for (int i = 0; i < N_ROWS; i++) printf("%14.1f MiB  %s\n", rows[i].bytes / (double)IMPMEM_MIB, rows[i].text);
    }
    return command_finish_output(code ? code : st ? COMMAND_FILE : COMMAND_DONE);
}
