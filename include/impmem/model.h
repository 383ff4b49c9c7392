/* impmem/model.h - read a model's shape from its files: GGUF, a Hugging Face directory, or a config.json. In
 * libimpmem_model (needs jansson); not part of impmem.h. Floor 2, implemented in src/model; manual: docs/models.md.
 *
 *   impmem_error why = IMPMEM_ERROR_INIT;
 *   impmem_model *model;
 *   if (impmem_model_read("model.gguf", &model, &why)) { fprintf(stderr, "%s\n", why.message); return 3; }
 *   in.model = impmem_model_shape_of(model);
 *
 * Only headers are read, never weights, and never more than the stated bounds. Nothing is guessed silently: an
 * architecture that is not understood is refused by name with the keys that were missing; what is derived rather than
 * read is listed as a note. One thread per model object.
 */
#ifndef IMPMEM_MODEL_H
#define IMPMEM_MODEL_H

#include "impmem/shape.h"
#include "impmem/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct impmem_model impmem_model;

/* `path`: a .gguf file (v2 or v3; the first file of a split set reads its siblings), a directory with config.json
 * (and model.safetensors.index.json or model*.safetensors), or a config file itself. What a file says it is counts
 * before its name. Errors, with the file as `subject`, and in `message` the place (key, or byte, which is `offset`
 * too), what was found and what was expected: INVALID_ARGUMENT (NULL), IO (no readable regular file), TRUNCATED,
 * BAD_FORMAT, BAD_VALUE, MISSING_KEY, UNKNOWN_ARCHITECTURE, TOO_LARGE (bounds in docs/models.md), OUT_OF_HOST_MEMORY.
 * `*out` is written only on success. */
IMPMEM_NODISCARD impmem_status impmem_model_read(const char *path, impmem_model **out, impmem_error *why);
void impmem_model_destroy(impmem_model *model); /* NULL is fine */

/* Adds the vision tower of a projector file, a GGUF whose architecture is clip, to a model that has none: the vision
 * figures of the shape, with vision_apart 1 and the bytes of the file's tensors. Errors as impmem_model_read, BAD_VALUE
 * too for a model that has a tower, UNKNOWN_ARCHITECTURE for another kind of GGUF; the model stays as it was. */
IMPMEM_NODISCARD impmem_status impmem_model_read_projector(const char *path, impmem_model *model, impmem_error *why);

/* Owned by the model; passes impmem_shape_check. NULL for NULL. */
const impmem_model_shape *impmem_model_shape_of(const impmem_model *model);

/* "gguf v2", "gguf v3", "safetensors index", "safetensors", "config.json": where the geometry and the size of the
 * weights came from. "" for NULL. Static storage. */
const char *impmem_model_format(const impmem_model *model);

/* One sentence per thing that was derived or defaulted instead of read, e.g. "head_dim: hidden_size /
 * num_attention_heads". NULL beyond the last, and for NULL. Owned by the model. */
const char *impmem_model_note(const impmem_model *model, uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
