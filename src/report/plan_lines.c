/* A table of plan lines as text: sorted, aligned, with what an operator should know of each beside its formula. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "impmem/bytes.h"
#include "report/plan_internal.h"

#define MIN_NAME_WIDTH 24

void impmem__text_print(impmem__text *text, const char *fmt, ...)
{
    char buffer[512];
    va_list args;
    if (text->status) return;
    va_start(args, fmt);
    int n = vsnprintf(buffer, sizeof buffer, fmt, args);
    va_end(args);
    if (n < 0) {
        text->status = IMPMEM_ERR_INVALID_ARGUMENT;
        return;
    }
    size_t length = (size_t)n < sizeof buffer ? (size_t)n : sizeof buffer - 1;
    text->status = text->write(text->context, buffer, length);
}

const char *impmem__text_mib(uint64_t bytes, char buffer[32])
{
    impmem_format_mib(bytes, buffer, 32);
    char *unit = strchr(buffer, ' ');
    if (unit) *unit = 0;
    return buffer;
}

bool impmem__lines_have_kv(impmem__line_view lines)
{
    for (uint32_t i = 0; i < lines.n_lines; i++)
        if (lines.line[i].tier == IMPMEM_TIER_POOL) return true;
    return false;
}

/* Indices of the accounts' lines, largest first; equal ones stay in plan order. */
static uint32_t sorted(impmem__line_view lines, uint32_t accounts, uint32_t order[IMPMEM_PLAN_MAX_LINES])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < lines.n_lines && i < IMPMEM_PLAN_MAX_LINES; i++) {
        if (!(accounts & (1u << lines.line[i].account))) continue;
        uint32_t at = n++;
        while (at > 0 && lines.line[order[at - 1]].bytes < lines.line[i].bytes) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    return n;
}

static void print_line(impmem__text *text, const impmem_line *line, int width)
{
    char mib[32], asked[32], note[96] = "", about[512];
    const bool optional = (line->flags & IMPMEM_LINE_OPTIONAL) != 0;
    if (line->flags & IMPMEM_LINE_DROPPED)
        snprintf(note, sizeof note, " [optional, dropped: asked %s]", impmem__text_mib(line->demand_bytes, asked));
    else if (optional && line->bytes < line->demand_bytes)
        snprintf(note, sizeof note, " [optional, in part: asked %s]", impmem__text_mib(line->demand_bytes, asked));
    else if (optional) snprintf(note, sizeof note, " [optional]");
    snprintf(about, sizeof about, "%s%s%s%s", line->account == IMPMEM_ACCOUNT_PINNED ? " [page-locked]" : "", note,
             line->flags & IMPMEM_LINE_TRANSIENT ? " [while loading only]" : "",
             line->flags & IMPMEM_LINE_ESTIMATED ? " [estimated]" : "");
    impmem__text_print(text, "    %-*s %10s", width, line->name, impmem__text_mib(line->bytes, mib));
    if (line->how[0]) impmem__text_print(text, "   %s%s\n", line->how, about);
    else impmem__text_print(text, "%s%s\n", about[0] ? "  " : "", about);
}

void impmem__text_lines(impmem__text *text, impmem__line_view lines, uint32_t accounts, const char *what)
{
    uint32_t order[IMPMEM_PLAN_MAX_LINES];
    char mib[32];
    uint32_t n = sorted(lines, accounts, order);
    uint64_t total = 0;
    int width = MIN_NAME_WIDTH;
    for (uint32_t i = 0; i < n; i++) {
        const impmem_line *line = &lines.line[order[i]];
        int length = (int)strlen(line->name);
        if (length > width) width = length;
        if (!(line->flags & IMPMEM_LINE_TRANSIENT)) total += line->bytes; /* checked when it was planned */
    }
    impmem__text_print(text, "  %-*s %12s   how\n", width, what, "MiB");
    for (uint32_t i = 0; i < n; i++) print_line(text, &lines.line[order[i]], width);
    impmem__text_print(text, "    %-*s %10s\n", width, "total", impmem__text_mib(total, mib));
}
