/* plan_svg.c - `impmem plan --svg FILE`: the library's picture into a file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "impmem/plan_report.h"
#include "plan_verb.h"

int plan_svg(const plan_question *question, const impmem_plan *plan, const impmem_plan_failure *failure)
{
    const char *path = question->flags->svg;
    const impmem_model_shape *shape = impmem_model_shape_of(question->model);
    const char *title = shape->name[0] ? shape->name : question->flags->model_path;
    FILE *file = fopen(path, "wb");
    if (!file) {
        command_complain("%s: %s; expected a file to draw into", path, strerror(errno));
        return COMMAND_FILE;
    }
    impmem_status st = failure ? impmem_plan_failure_write_svg(failure, title, impmem_write_file, file)
                               : impmem_plan_write_svg(plan, title, impmem_write_file, file);
    if (failure && st == failure->why.status) st = IMPMEM_OK;
    bool closed = fclose(file) == 0;
    if (!st && closed) return COMMAND_DONE;
    command_complain("%s: writing failed, the picture is incomplete", path);
    return COMMAND_FILE;
}
