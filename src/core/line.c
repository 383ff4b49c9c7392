/* Names of accounts, tiers and tags. */
#include "impmem/line.h"

const char *impmem_account_name(impmem_account account)
{
    switch (account) {
    case IMPMEM_ACCOUNT_DEVICE: return "device";
    case IMPMEM_ACCOUNT_PINNED: return "pinned";
    case IMPMEM_ACCOUNT_PAGEABLE: return "pageable";
    case IMPMEM_N_ACCOUNTS: break;
    }
    return "?";
}

const char *impmem_tier_name(impmem_tier tier)
{
    switch (tier) {
#define TIER_NAME(name, value, text)                                                                                       \
    case IMPMEM_TIER_##name: return text;
        IMPMEM_TIER_MAP(TIER_NAME)
#undef TIER_NAME
    case IMPMEM_N_TIERS: break;
    }
    return "?";
}

const char *impmem_tag_name(impmem_tag tag)
{
    switch (tag) {
#define TAG_NAME(name, value, text)                                                                                        \
    case IMPMEM_TAG_##name: return text;
        IMPMEM_TAG_MAP(TAG_NAME)
#undef TAG_NAME
    case IMPMEM_N_TAGS: break;
    }
    return "?";
}
