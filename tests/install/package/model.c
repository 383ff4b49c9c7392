/* A consumer of the installed model archive: a file that isn't there is an error of reading, and says which file. */
#include <impmem/model.h>

#include <string.h>

int main(void)
{
    impmem_error why = IMPMEM_ERROR_INIT;
    impmem_model *model = NULL;
    if (impmem_model_read("no-such-model.gguf", &model, &why) != IMPMEM_ERR_IO) return 1;
    if (model != NULL) return 2;
    if (strstr(why.subject, "no-such-model.gguf") == NULL) return 3;
    impmem_model_destroy(model);
    return 0;
}
