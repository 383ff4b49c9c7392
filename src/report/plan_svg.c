/* Plans and failures as a picture: one bar that is the device, and a legend that is the table of its lines. Coordinates are whole
 * hundredths of a pixel, written without floating point, so that no locale puts a comma into them. */
#include <string.h>

#include "impmem/bytes.h"
#include "report/plan_internal.h"

/* Pixels. */
enum {
    WIDTH = 1000,
    MARGIN = 40,
    BAR_WIDTH = WIDTH - 2 * MARGIN,
    BAR_TOP = 104,
    BAR_HEIGHT = 84,
    LEGEND_TOP = BAR_TOP + BAR_HEIGHT + 80,
    ROW = 24,
    LETTER = 7, /* a little more than an average letter of the bar's labels */
    NAME_X = MARGIN + 26,
    TIER_X = 480,
    MIB_X = 760, /* right edges */
    SHARE_X = WIDTH - MARGIN
};

typedef struct picture {
    impmem__text text;
    const impmem_line *line[IMPMEM_PLAN_MAX_LINES]; /* steady device lines, largest first */
    uint32_t n_lines;
    uint64_t total_bytes;
    uint64_t budget_bytes; /* UINT64_MAX: the device has none in this picture */
    uint64_t scale_bytes;  /* that the bar's width stands for; never 0 */
} picture;

static const char *tier_colour(impmem_tier tier)
{
    switch (tier) {
    case IMPMEM_TIER_CHARGE: return "#b8c1cb";
    case IMPMEM_TIER_MODEL: return "#7fb0dd";
    case IMPMEM_TIER_ENGINE: return "#86c294";
    case IMPMEM_TIER_POOL: return "#f0a56b";
    case IMPMEM_TIER_SCRATCH: return "#e3c65f";
    case IMPMEM_TIER_STAGING:
    case IMPMEM_TIER_PINNED:
    case IMPMEM_TIER_CONTROL:
    case IMPMEM_N_TIERS: break;
    }
    return "#b08ab5";
}

/* Bytes of the UTF-8 letter at `c`, 0 when it is none that XML may hold. */
static size_t letter_bytes(const unsigned char *c)
{
    if (c[0] < 0x80) return c[0] >= 0x20 && c[0] != 0x7f ? 1 : 0;
    const size_t n = c[0] >= 0xc2 && c[0] < 0xe0 ? 2 : (c[0] & 0xf0) == 0xe0 ? 3 : c[0] >= 0xf0 && c[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((c[i] & 0xc0) != 0x80) return 0;
    const bool overlong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    const bool surrogate = c[0] == 0xed && c[1] >= 0xa0;
    const bool beyond = c[0] == 0xf4 && c[1] >= 0x90;
    const bool no_letter = c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe; /* U+FFFE and U+FFFF */
    return overlong || surrogate || beyond || no_letter ? 0 : n;
}

/* Text of unknown origin: marked up letters are escaped, what is no letter becomes a question mark. */
static void print_escaped(picture *p, const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    while (*c) {
        const size_t n = letter_bytes(c);
        if (n == 0) impmem__text_print(&p->text, "?");
        else if (*c == '&') impmem__text_print(&p->text, "&amp;");
        else if (*c == '<') impmem__text_print(&p->text, "&lt;");
        else if (*c == '>') impmem__text_print(&p->text, "&gt;");
        else impmem__text_print(&p->text, "%.*s", (int)n, (const char *)c);
        c += n ? n : 1;
    }
}

/* Hundredths of a pixel from the bar's left edge. */
static uint32_t position(const picture *p, uint64_t bytes)
{
    return (uint32_t)((double)bytes / (double)p->scale_bytes * (BAR_WIDTH * 100.0) + 0.5);
}

static void print_px(picture *p, const char *name, uint32_t hundredths)
{
    impmem__text_print(&p->text, " %s=\"%u.%02u\"", name, hundredths / 100, hundredths % 100);
}

static void print_text_at(picture *p, uint32_t x, uint32_t y, const char *attributes, const char *text)
{
    impmem__text_print(&p->text, "<text x=\"%u\" y=\"%u\"%s>", x, y, attributes);
    print_escaped(p, text);
    impmem__text_print(&p->text, "</text>\n");
}

static void sort_lines(picture *p, const impmem_line *lines, uint32_t n)
{
    for (uint32_t i = 0; i < n && i < IMPMEM_PLAN_MAX_LINES; i++) {
        const impmem_line *line = &lines[i];
        if (line->account != IMPMEM_ACCOUNT_DEVICE || line->bytes == 0 || (line->flags & IMPMEM_LINE_TRANSIENT)) continue;
        uint32_t at = p->n_lines++;
        for (; at > 0 && p->line[at - 1]->bytes < line->bytes; at--) p->line[at] = p->line[at - 1];
        p->line[at] = line;
        p->total_bytes += line->bytes; /* checked when it was planned */
    }
}

static void print_head(picture *p, const char *title, const char *summary)
{
    const uint32_t height = LEGEND_TOP + ROW * (p->n_lines + 3) + MARGIN;
    impmem__text_print(&p->text,
                       "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                       "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
                       "viewBox=\"0 0 %u %u\" font-family=\"sans-serif\" font-size=\"14\" fill=\"#1f2933\">\n",
                       (unsigned)WIDTH, height, (unsigned)WIDTH, height);
    impmem__text_print(&p->text, "<defs><pattern id=\"free\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\" "
                                 "patternTransform=\"rotate(45)\"><rect width=\"8\" height=\"8\" fill=\"#ffffff\"/>"
                                 "<rect width=\"2\" height=\"8\" fill=\"#d9dee3\"/></pattern></defs>\n"
                                 "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n");
    if (title) print_text_at(p, MARGIN, 42, " font-size=\"22\" font-weight=\"bold\"", title);
    print_text_at(p, MARGIN, 72, " font-size=\"16\"", summary);
}

/* A label where it has room, in two rows: name and MiB. */
static void print_label(picture *p, uint32_t x, uint32_t width, const char *name, uint64_t bytes)
{
    char mib[32];
    impmem__text_mib(bytes, mib);
    const uint32_t middle = (x + width / 2) / 100 + MARGIN;
    const size_t letters = strlen(name) > strlen(mib) ? strlen(name) : strlen(mib);
    if (letters * LETTER * 100 > width) return;
    print_text_at(p, middle, BAR_TOP + 38, " text-anchor=\"middle\" font-size=\"13\"", name);
    print_text_at(p, middle, BAR_TOP + 58, " text-anchor=\"middle\" font-size=\"13\"", mib);
}

static void print_segment(picture *p, uint64_t from, uint64_t bytes, const char *fill, const char *name)
{
    char mib[32];
    const uint32_t x = position(p, from);
    const uint32_t width = position(p, from + bytes) - x;
    impmem__text_print(&p->text, "<rect y=\"%u\" height=\"%u\"", (unsigned)BAR_TOP, (unsigned)BAR_HEIGHT);
    print_px(p, "x", MARGIN * 100 + x);
    print_px(p, "width", width);
    impmem__text_print(&p->text, " fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"0.6\"><title>", fill);
    print_escaped(p, name);
    impmem__text_print(&p->text, ": %s MiB</title></rect>\n", impmem__text_mib(bytes, mib));
    print_label(p, x, width, name, bytes);
}

static void print_bar(picture *p)
{
    uint64_t from = 0;
    for (uint32_t i = 0; i < p->n_lines; i++) {
        print_segment(p, from, p->line[i]->bytes, tier_colour(p->line[i]->tier), p->line[i]->name);
        from += p->line[i]->bytes;
    }
    if (p->budget_bytes != UINT64_MAX && p->budget_bytes > p->total_bytes)
        print_segment(p, from, p->budget_bytes - p->total_bytes, "url(#free)", "left");
    impmem__text_print(&p->text, "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" fill=\"none\" stroke=\"#1f2933\"/>\n",
                       (unsigned)MARGIN, (unsigned)BAR_TOP, (unsigned)BAR_WIDTH, (unsigned)BAR_HEIGHT);
    print_text_at(p, MARGIN, BAR_TOP + BAR_HEIGHT + 20, " font-size=\"12\"", "0");
}

/* Where the budget ends: the bar's right edge, or a mark across what was requested. */
static void print_budget(picture *p)
{
    char label[64], mib[32];
    if (p->budget_bytes == UINT64_MAX) return;
    impmem_text_buffer out = {label, sizeof label, 0};
    impmem__text words = {impmem_write_buffer, &out, IMPMEM_OK};
    impmem__text_print(&words, "budget %s MiB", impmem__text_mib(p->budget_bytes, mib));
    const uint32_t x = MARGIN + position(p, p->budget_bytes) / 100;
    if (p->total_bytes > p->budget_bytes)
        impmem__text_print(&p->text,
                           "<line x1=\"%u\" x2=\"%u\" y1=\"%u\" y2=\"%u\" stroke=\"#c0392b\" stroke-width=\"3\"/>\n", x, x,
                           (unsigned)BAR_TOP - 10, (unsigned)(BAR_TOP + BAR_HEIGHT) + 6);
    const char *anchor = x > WIDTH / 2 ? " font-size=\"12\" text-anchor=\"end\"" : " font-size=\"12\"";
    print_text_at(p, x, BAR_TOP + BAR_HEIGHT + 20, anchor, label);
}

static void print_row(picture *p, uint32_t row, const char *fill, const char *name, const char *tier, uint64_t bytes)
{
    char mib[32];
    const uint32_t y = LEGEND_TOP + ROW * row;
    const uint64_t whole = p->budget_bytes == UINT64_MAX ? p->total_bytes : p->budget_bytes;
    if (fill[0])
        impmem__text_print(&p->text,
                           "<rect x=\"%u\" y=\"%u\" width=\"16\" height=\"16\" fill=\"%s\" stroke=\"#7b8794\" "
                           "stroke-width=\"0.5\"/>\n",
                           (unsigned)MARGIN, y - 13, fill);
    print_text_at(p, NAME_X, y, "", name);
    print_text_at(p, TIER_X, y, " fill=\"#616e7c\"", tier);
    print_text_at(p, MIB_X, y, " text-anchor=\"end\"", impmem__text_mib(bytes, mib));
    if (whole == 0) return;
    const uint32_t tenths = (uint32_t)((double)bytes / (double)whole * 1000.0 + 0.5);
    impmem__text_print(&p->text, "<text x=\"%u\" y=\"%u\" text-anchor=\"end\">%u.%u %%</text>\n", (unsigned)SHARE_X, y,
                       tenths / 10, tenths % 10);
}

static void print_legend(picture *p)
{
    const uint32_t head = LEGEND_TOP - ROW;
    const char *share = p->budget_bytes == UINT64_MAX ? "of the total" : "of the budget";
    print_text_at(p, NAME_X, head, " font-size=\"12\" fill=\"#616e7c\"", "line, largest first");
    print_text_at(p, TIER_X, head, " font-size=\"12\" fill=\"#616e7c\"", "tier");
    print_text_at(p, MIB_X, head, " font-size=\"12\" fill=\"#616e7c\" text-anchor=\"end\"", "MiB");
    print_text_at(p, SHARE_X, head, " font-size=\"12\" fill=\"#616e7c\" text-anchor=\"end\"", share);
    for (uint32_t i = 0; i < p->n_lines; i++)
        print_row(p, i, tier_colour(p->line[i]->tier), p->line[i]->name, impmem_tier_name(p->line[i]->tier),
                  p->line[i]->bytes);
    print_row(p, p->n_lines, "", "total", "", p->total_bytes);
    if (p->budget_bytes != UINT64_MAX && p->budget_bytes >= p->total_bytes)
        print_row(p, p->n_lines + 1, "url(#free)", "left", "", p->budget_bytes - p->total_bytes);
    else if (p->budget_bytes != UINT64_MAX)
        print_row(p, p->n_lines + 1, "#c0392b", "too much", "", p->total_bytes - p->budget_bytes);
}

static void draw(picture *p, const char *title, const char *summary, const char *foot)
{
    p->scale_bytes = p->total_bytes;
    if (p->budget_bytes != UINT64_MAX && p->budget_bytes > p->total_bytes) p->scale_bytes = p->budget_bytes;
    if (p->scale_bytes == 0) p->scale_bytes = 1;
    print_head(p, title, summary);
    print_bar(p);
    print_budget(p);
    print_legend(p);
    if (foot[0]) print_text_at(p, MARGIN, LEGEND_TOP + ROW * (p->n_lines + 2) + 12, "", foot);
    impmem__text_print(&p->text, "</svg>\n");
}

impmem_status impmem_plan_write_svg(const impmem_plan *plan, const char *title, impmem_write_fn write, void *context)
{
    if (!plan || !write) return IMPMEM_ERR_INVALID_ARGUMENT;
    picture p = {.text = {write, context, IMPMEM_OK}, .budget_bytes = plan->budget_bytes[IMPMEM_ACCOUNT_DEVICE]};
    char summary[160] = "", foot[160] = "", total[32], budget[32], left[32];
    sort_lines(&p, plan->line, plan->n_lines);
    impmem_text_buffer summary_out = {summary, sizeof summary, 0}, foot_out = {foot, sizeof foot, 0};
    impmem__text words = {impmem_write_buffer, &summary_out, IMPMEM_OK};
    impmem__text_print(&words, "fits: %s MiB of %s, %s to spare", impmem__text_mib(p.total_bytes, total),
                       impmem__text_mib(p.budget_bytes, budget), impmem__text_mib(p.budget_bytes - p.total_bytes, left));
    words.context = &foot_out;
    if (plan->n_kv_groups > 0)
        impmem__text_print(&words, "KV holds %llu sequence%s at %u tokens, in blocks of %u tokens",
                           (unsigned long long)plan->sequences_at_max, impmem__plural(plan->sequences_at_max),
                           plan->max_seq_tokens, plan->block_tokens);
    draw(&p, title, summary, foot);
    return p.text.status;
}

impmem_status impmem_plan_failure_write_svg(const impmem_plan_failure *failure, const char *title, impmem_write_fn write,
                                            void *context)
{
    if (!failure || !write || failure->why.status != IMPMEM_ERR_DOES_NOT_FIT) return IMPMEM_ERR_INVALID_ARGUMENT;
    const bool device = failure->account == IMPMEM_ACCOUNT_DEVICE;
    picture p = {.text = {write, context, IMPMEM_OK}, .budget_bytes = device ? failure->budget_bytes : UINT64_MAX};
    char summary[160] = "", over[32], budget[32];
    sort_lines(&p, failure->line, failure->n_lines);
    impmem_text_buffer out = {summary, sizeof summary, 0};
    impmem__text words = {impmem_write_buffer, &out, IMPMEM_OK};
    impmem__text_print(&words, "does not fit: over by %s MiB of %s%s%s", impmem__text_mib(failure->over_bytes, over),
                       impmem__text_mib(failure->budget_bytes, budget), device ? "" : " of host memory, ",
                       device ? "" : impmem_account_name(failure->account));
    draw(&p, title, summary, "");
    return p.text.status ? p.text.status : failure->why.status;
}
