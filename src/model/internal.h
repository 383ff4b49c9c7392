/* model/internal.h - what the files of src/model share: refusing with a place, a bounded source of bytes, one face for
 * the keys of both formats, the architecture table, and the steps from keys to a model shape. */
#ifndef IMPMEM__MODEL_INTERNAL_H
#define IMPMEM__MODEL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "impmem/model.h"

/* ---- the model object ---- */

#define IMPMEM__NOTES 48u
#define IMPMEM__NOTE_BYTES 200u

struct impmem_model {
    impmem_model_shape shape;
    const char *format; /* static storage */
    uint32_t n_notes;
    char note[IMPMEM__NOTES][IMPMEM__NOTE_BYTES];
};

void impmem__note(impmem_model *model, const char *fmt, ...) IMPMEM_PRINTF(2, 3);

/* ---- memory ---- */

/* The C library's heap: a model is read before there is an engine, so there is no ledger to charge. Zeroed; NULL when
 * refused. */
void *impmem__take(uint64_t bytes);
/* More room for what impmem__take gave; the new part is not zeroed. */
void *impmem__grow(void *memory, uint64_t bytes);
void impmem__give(void *memory); /* NULL is fine */
/* What a function of the C library took for us, such as scandir. */
void impmem__give_system(void *memory);

/* ---- refusing ---- */

typedef struct impmem__diag {
    const char *path;
    impmem_error *why; /* may be NULL */
} impmem__diag;

#define IMPMEM__NO_OFFSET UINT64_MAX

/* One line about the file at `diag->path`; bytes of the message that are not printable ASCII come out as \xNN, so that
 * text from a hostile file can't drive a terminal. Returns `status`. */
impmem_status impmem__refuse(const impmem__diag *diag, impmem_status status, uint64_t offset, const char *fmt, ...)
    IMPMEM_PRINTF(4, 5);

static inline impmem_status impmem__no_memory(const impmem__diag *diag, const char *what)
{
    (void)impmem__refuse(diag, IMPMEM_ERR_OUT_OF_HOST_MEMORY, IMPMEM__NO_OFFSET, "no memory for %s", what);
    return IMPMEM_ERR_OUT_OF_HOST_MEMORY;
}

/* ---- bytes ---- */

#define IMPMEM__BUFFER_BYTES 65536u

/* A regular file read front to back through one buffer, or memory. */
typedef struct impmem__source {
    int fd; /* -1 when over memory */
    const unsigned char *memory;
    uint64_t size;
    uint64_t pos;
    uint64_t buffer_at;
    uint32_t buffer_bytes;
    unsigned char buffer[IMPMEM__BUFFER_BYTES];
} impmem__source;

/* IO: not there, not readable, not a regular file. */
impmem_status impmem__source_open(impmem__source *source, const impmem__diag *diag);
void impmem__source_memory(impmem__source *source, const void *bytes, uint64_t size);
void impmem__source_close(impmem__source *source);
/* Opens the file of `diag`, lets `visit` read it, closes it: with a buffer that is taken for that long. */
typedef impmem_status (*impmem__source_fn)(impmem__source *source, const impmem__diag *diag, void *context);
impmem_status impmem__source_visit(const impmem__diag *diag, impmem__source_fn visit, void *context);
uint64_t impmem__source_left(const impmem__source *source);
/* TRUNCATED names `what` and the offset where it begins. */
impmem_status impmem__source_read(impmem__source *source, void *to, uint64_t bytes, const char *what,
                                  const impmem__diag *diag);
impmem_status impmem__source_skip(impmem__source *source, uint64_t bytes, const char *what, const impmem__diag *diag);
/* IO: `what`, and what the errno value `code` means. */
impmem_status impmem__refuse_errno(const impmem__diag *diag, const char *what, int code);
/* The whole of a small file, ended by a zero byte; the caller frees it. TOO_LARGE beyond `max_bytes`. */
impmem_status impmem__slurp(const impmem__diag *diag, uint64_t max_bytes, char **out_text, uint64_t *out_bytes);

/* ---- keys of either format ---- */

typedef enum impmem__value_kind {
    IMPMEM__ABSENT = 0, /* not there, or JSON null */
    IMPMEM__INT,
    IMPMEM__BOOL,
    IMPMEM__REAL,
    IMPMEM__TEXT,
    IMPMEM__ARRAY,
    IMPMEM__OBJECT
} impmem__value_kind;

typedef struct impmem__value {
    impmem__value_kind kind;
    bool null;       /* there as JSON null: switched off, not forgotten */
    int64_t integer; /* INT, BOOL; saturated at INT64_MAX */
    double real;
    const char *text;
    uint64_t count;   /* of an array */
    const void *item; /* the format's own handle of an array or object */
    uint64_t offset;
} impmem__value;

/* Where keys are looked up. A GGUF name that starts with '.' gets the architecture in front. */
typedef struct impmem__keys {
    void (*find)(const void *self, const char *name, impmem__value *out);
    void (*item)(const impmem__value *array, uint64_t index, impmem__value *out); /* ABSENT when it was not kept */
    const void *self;
    const char *prefix; /* put before a '.' in messages: the architecture, or "" */
    bool gguf;
} impmem__keys;

typedef enum impmem__field {
    IMPMEM__F_LAYERS,
    IMPMEM__F_HIDDEN,
    IMPMEM__F_HEADS,
    IMPMEM__F_KV_HEADS,
    IMPMEM__F_K_DIM,
    IMPMEM__F_V_DIM,
    IMPMEM__F_K_DIM_WINDOW,
    IMPMEM__F_V_DIM_WINDOW,
    IMPMEM__F_K_DIM_GLOBAL,
    IMPMEM__F_KV_HEADS_GLOBAL,
    IMPMEM__F_FEED_FORWARD,
    IMPMEM__F_CONTEXT,
    IMPMEM__F_VOCAB,
    IMPMEM__F_EXPERTS,
    IMPMEM__F_EXPERTS_USED,
    IMPMEM__F_EXPERT_FF,
    IMPMEM__F_SHARED_EXPERTS,
    IMPMEM__F_SHARED_FF,
    IMPMEM__F_LEADING_DENSE,
    IMPMEM__F_MOE_STEP,
    IMPMEM__F_DENSE_FF,
    IMPMEM__F_WINDOW,
    IMPMEM__F_WINDOW_PATTERN,
    IMPMEM__F_CHUNK,
    IMPMEM__F_Q_LORA,
    IMPMEM__F_KV_LORA,
    IMPMEM__F_ROPE_DIM,
    IMPMEM__F_NOPE_DIM,
    IMPMEM__F_MLA_V_DIM,
    IMPMEM__F_SHARED_KV_LAYERS,
    IMPMEM__F_NEXTN,
    IMPMEM__F_INNER,
    IMPMEM__F_GROUPS,
    IMPMEM__F_RANK,
    IMPMEM__F_STATE_HEADS,
    IMPMEM__F_STATE_HEAD_DIM,
    IMPMEM__F_INTERVAL,
    IMPMEM__F_INDEX_DIM,
    IMPMEM__F_INDEX_HEADS,
    IMPMEM__F_COUNT
} impmem__field;

/* ---- architectures ---- */

typedef enum impmem__window_rule {
    IMPMEM__WINDOW_NONE = 0, /* a window key changes nothing */
    IMPMEM__WINDOW_ALL,      /* every layer */
    IMPMEM__WINDOW_BY_FLAG,  /* use_sliding_window, from layer max_window_layers on */
    IMPMEM__WINDOW_PERIODIC, /* all but every period-th layer */
    IMPMEM__WINDOW_CHUNKS    /* chunked attention, all but every period-th layer */
} impmem__window_rule;

/* Which layers keep a recurrent state. */
typedef enum impmem__mix {
    IMPMEM__MIX_NONE = 0,
    IMPMEM__MIX_ALL,    /* every layer, and none attends */
    IMPMEM__MIX_BOTH,   /* every layer, beside its attention */
    IMPMEM__MIX_LISTED, /* those that don't attend, by a list or a period */
    IMPMEM__MIX_PATTERN /* one letter a layer: a layer is a state, attention or a feed-forward part, never two of them */
} impmem__mix;

/* What an architecture has that its keys don't say. */
#define IMPMEM__A_TIED 0x1u        /* tie_word_embeddings when the key is missing */
#define IMPMEM__A_KV_IS_HEADS 0x2u /* no key for KV heads means one per query head, by its published definition */
#define IMPMEM__A_QKV_BIAS 0x4u
#define IMPMEM__A_OUT_BIAS 0x8u      /* of the attention's output */
#define IMPMEM__A_QK_NORM 0x10u      /* one norm of head_dim for Q, one for K */
#define IMPMEM__A_QK_NORM_WIDE 0x20u /* norms over all heads */
#define IMPMEM__A_NORM_BIAS 0x40u
#define IMPMEM__A_PLAIN_MLP 0x80u /* two matrices, not three */
#define IMPMEM__A_MLP_BIAS 0x100u
#define IMPMEM__A_EXPERT_IS_FF 0x200u /* the experts' width is the feed-forward width */
#define IMPMEM__A_ROUTER_BIAS 0x400u
#define IMPMEM__A_SHARED_GATE 0x800u
#define IMPMEM__A_EXPERT_BIAS 0x1000u
#define IMPMEM__A_SINKS 0x2000u
#define IMPMEM__A_POST_NORM 0x4000u          /* post norms with an fp32 accumulator */
#define IMPMEM__A_MLA 0x8000u                /* latent attention */
#define IMPMEM__A_DUAL 0x10000u              /* full and window layers differ in head geometry */
#define IMPMEM__A_SHARED_KV 0x20000u         /* the last layers reuse earlier layers' KV */
#define IMPMEM__A_FUSED_EXPERTS 0x40000u     /* one tensor holds all experts */
#define IMPMEM__A_POSITIONS 0x80000u         /* learned position embeddings */
#define IMPMEM__A_FALCON 0x100000u           /* multi_query decides the KV heads */
#define IMPMEM__A_GROUPED_MQ 0x200000u       /* multi_query_attention decides whether the group count is used */
#define IMPMEM__A_PER_LAYER_INPUT 0x400000u  /* per-layer input embeddings */
#define IMPMEM__A_SHARED_EXPERT_FF 0x800000u /* one shared expert of the experts' width */
#define IMPMEM__A_GATED_QUERY 0x1000000u     /* the query projection carries a gate, unless attn_output_gate is false */
#define IMPMEM__A_INDEXER 0x2000000u         /* sparse attention: a key of its own a token */
#define IMPMEM__A_CROSS 0x4000000u           /* some layers attend to an image instead */
#define IMPMEM__A_NO_FEED_FORWARD 0x8000000u
#define IMPMEM__A_FUSED_STATE 0x10000000u   /* one input projection for query, key, value and gate */
#define IMPMEM__A_STATE_NORMS 0x20000000u   /* norms of the step, B and C */
#define IMPMEM__A_STATE_NO_NORM 0x40000000u /* no norm before the output, unless mamba_rms_norm is true */

typedef struct impmem__arch {
    const char *name;
    const char *gguf;    /* general.architecture values, separated by spaces */
    const char *hf;      /* model_type values, separated by spaces */
    const char *refusal; /* why it is not planned, or NULL */
    uint32_t flags;
    uint8_t window;    /* impmem__window_rule */
    uint8_t period;    /* published default of the pattern */
    uint8_t norms;     /* per layer; 0 = 2 */
    uint8_t recurrent; /* impmem_recurrent_kind of the layers that have a state */
    uint8_t mix;       /* impmem__mix */
    uint16_t head_dim; /* published defaults for keys that are missing; 0 = none */
    uint32_t default_window;
    uint32_t default_vocab;
    uint32_t default_context;
    uint32_t default_experts_used;
} impmem__arch;

/* NULL when unknown. */
const impmem__arch *impmem__arch_of_gguf(const char *name);
const impmem__arch *impmem__arch_of_hf(const char *model_type);
/* For tests and documents: row `index`, or NULL beyond the last. */
const impmem__arch *impmem__arch_row(uint32_t index);

/* ---- from keys to a shape ---- */

/* Figures per layer and per model, as read or derived; lives as long as one read. */
typedef struct impmem__facts {
    uint32_t layers;
    uint32_t hidden;
    uint32_t vocab;
    uint32_t context;
    uint32_t experts, experts_used, expert_ff, shared_experts, shared_ff, leading_dense;
    uint32_t window;
    uint32_t q_lora, kv_lora, rope_dim, nope_dim, mla_v_dim;
    uint32_t shared_kv_layers;
    uint32_t index_dim, index_heads;
    uint32_t cross_tokens;
    uint32_t draft_layers;
    uint32_t conv_kernel, conv_channels;
    uint32_t inner, state, groups, rank; /* of a state: rows, columns, groups of B and C, rank of the step (Mamba) */
    uint32_t state_heads;                /* Mamba-2; value heads of a delta net */
    uint32_t state_head_dim;             /* value heads' */
    uint64_t state_elements;
    bool gated_query;
    bool latent;
    bool k_is_v; /* full layers project K and V with one matrix */
    uint32_t heads[IMPMEM_MAX_LAYERS];
    uint32_t kv_heads[IMPMEM_MAX_LAYERS];
    uint32_t k_dim[IMPMEM_MAX_LAYERS];
    uint32_t v_dim[IMPMEM_MAX_LAYERS];
    uint32_t ff[IMPMEM_MAX_LAYERS];
    uint8_t windowed[IMPMEM_MAX_LAYERS];
    uint8_t moe[IMPMEM_MAX_LAYERS];
    uint8_t recurrent[IMPMEM_MAX_LAYERS]; /* 1: has a state */
    uint8_t cross[IMPMEM_MAX_LAYERS];     /* 1: attends to an image */
    char part[IMPMEM_MAX_LAYERS];         /* the layer's letter where it is one part only, else 0 */
} impmem__facts;

typedef struct impmem__reading {
    impmem__diag diag;
    impmem__keys keys;
    const impmem__arch *arch;
    impmem_model *model;
    impmem__facts facts;
} impmem__reading;

/* The first name of `field` that is there; `out_name` is for messages (static or arch-prefixed into `name_buffer`). */
void impmem__field_find(const impmem__reading *reading, impmem__field field, impmem__value *out, char *name,
                        size_t name_bytes);
/* Integer in [min, max]; *found tells an absent key from a read one. BAD_VALUE otherwise, naming key, found and
 * expected. */
impmem_status impmem__field_u32(impmem__reading *reading, impmem__field field, uint32_t min, uint32_t max, uint32_t *out,
                                bool *found);
bool impmem__field_is_null(const impmem__reading *reading, impmem__field field);
/* As above, MISSING_KEY when absent. */
impmem_status impmem__field_required(impmem__reading *reading, impmem__field field, uint32_t min, uint32_t max,
                                     uint32_t *out);
/* A scalar fills all layers; an array must have one entry a layer. */
impmem_status impmem__field_layers(impmem__reading *reading, impmem__field field, uint32_t min, uint32_t max, uint32_t *out,
                                   bool *found);
/* A key by its plain name: absent leaves *out alone. */
impmem_status impmem__key_bool(impmem__reading *reading, const char *name, bool *out, bool *found);
impmem_status impmem__key_u32(impmem__reading *reading, const char *name, uint32_t min, uint32_t max, uint32_t *out,
                              bool *found);
/* Entry `index` of the array that is key `name`: the number of a layer. */
impmem_status impmem__layer_index(const impmem__reading *reading, const char *name, const impmem__value *list,
                                  uint64_t index, uint32_t *out);
impmem_status impmem__missing(const impmem__reading *reading, impmem__field field);
/* "string \"abc\"", "-3", "an array of 4": for messages. */
void impmem__describe(const impmem__value *value, char *to, size_t bytes);
const char *impmem__field_name(const impmem__reading *reading, impmem__field field, char *name, size_t name_bytes);

/* UNKNOWN_ARCHITECTURE with the row's reason, or for a NULL row the name and which general keys are missing. OK for a
 * row that is planned. */
impmem_status impmem__arch_check(impmem__reading *reading, const char *name);

/* Fills facts, then the shape (all but weights). */
impmem_status impmem__facts_read(impmem__reading *reading);
impmem_status impmem__windows_read(impmem__reading *reading);
/* Which layers have a state, which of them don't attend, and the size of a state. */
impmem_status impmem__recurrent_read(impmem__reading *reading);
/* Whether a word of layer_types means a layer without attention. */
bool impmem__recurrent_word(const char *word);
/* Layers that attend to an image; the tower's tokens are in the shape, or among the keys of a GGUF. */
impmem_status impmem__cross_read(impmem__reading *reading);
impmem_status impmem__shape_fill(impmem__reading *reading);

/* ---- GGUF ---- */

impmem_status impmem__gguf_read(const char *path, impmem_model *model, impmem_error *why);
/* impmem_model_read_projector over memory, for fuzzing. */
impmem_status impmem__gguf_read_projector_memory(const void *bytes, uint64_t size, impmem_model *model, impmem_error *why);
/* The same over memory, for fuzzing: split sets are refused, since there are no siblings. */
impmem_status impmem__gguf_read_memory(const void *bytes, uint64_t size, impmem_model *model, impmem_error *why);

typedef struct impmem__ggml_type {
    uint32_t id;
    const char *name;
    uint32_t block_elements;
    uint32_t block_bytes;
} impmem__ggml_type;

/* NULL when unknown or removed; `*removed_name` names a removed one, else NULL. */
const impmem__ggml_type *impmem__ggml_type_of(uint32_t id, const char **removed_name);

/* ---- Hugging Face ---- */

impmem_status impmem__hf_read_directory(const char *path, impmem_model *model, impmem_error *why);
impmem_status impmem__hf_read_config(const char *path, impmem_model *model, impmem_error *why);
/* The same over memory. */
impmem_status impmem__hf_read_text(const char *text, uint64_t bytes, const char *path, impmem_model *model,
                                   impmem_error *why);

#endif
