/* What a device takes before the first byte of ours: the built-in default and the cards that were measured. */
#include "core/word.h"
#include "impmem/bytes.h"
#include "impmem/plan.h"

/* Tenths of a MiB, rounded up to a byte: as such figures are reported. */
#define TENTHS_MIB(tenths) (((uint64_t)(tenths)*IMPMEM_MIB + 9) / 10)

/* Library reserves follow the model and the matrix library, not the card: five models measured on one card claimed 763,
 * 967, 1366, 1535 and 3260 to 3393 MiB. The default is the middle of the upper half; where the card is the measured one,
 * its largest. */
static const impmem_device_profile table[] = {
    {sizeof(impmem_device_profile), 1, "default",
     "built in: a middle of measured cards and models, not this device's figures", 0, 528 * IMPMEM_MIB, 1536 * IMPMEM_MIB,
     2 * IMPMEM_MIB, 1},
    {sizeof(impmem_device_profile), 1, "h200", "measured 2026-11-29, driver 580, CUDA 13.0; library reserve is the default",
     143156 * IMPMEM_MIB, 527 * IMPMEM_MIB, 1536 * IMPMEM_MIB, 2 * IMPMEM_MIB, 1},
    {sizeof(impmem_device_profile), 1, "rtx-5090-wsl2",
     "measured under WSL2, CUDA 13.3; library reserve the largest of five models", TENTHS_MIB(326070), TENTHS_MIB(16796),
     3393 * IMPMEM_MIB, 2 * IMPMEM_MIB, 1},
};

const impmem_device_profile *impmem_device_profile_at(uint32_t index)
{
    return index < sizeof table / sizeof table[0] ? &table[index] : NULL;
}

const impmem_device_profile *impmem_device_profile_find(const char *name)
{
    if (!name) return NULL;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (impmem__same_word(name, table[i].name)) return &table[i];
    return NULL;
}

void impmem_plan_input_use_profile(impmem_plan_input *input, const impmem_device_profile *profile)
{
    if (!input || !profile) return;
    input->context_bytes = profile->context_bytes;
    input->library_reserve_bytes = profile->library_reserve_bytes;
    input->granule_bytes = profile->granule_bytes;
    input->charges_estimated = profile->estimated != 0;
}
