/* The ledger's list of live page-locked allocations. A handle names its allocation by number, so that one that was
 * closed, or a copy of it, is looked for here and touches no freed memory.
 */
#include "backend/internal.h"

void impmem__ledger_pinned_add(impmem_ledger *ledger, impmem__pinned_link *link)
{
    impmem__lock(ledger);
    link->number = ++ledger->last_pinned_number;
    link->next = ledger->pinned;
    ledger->pinned = link;
    impmem__unlock(ledger);
}

impmem__pinned_link *impmem__ledger_pinned_find(const impmem_ledger *ledger, uint64_t number)
{
    impmem__lock(ledger);
    impmem__pinned_link *link = ledger->pinned;
    while (link && link->number != number) link = link->next;
    impmem__unlock(ledger);
    return link;
}

void impmem__ledger_pinned_remove(impmem_ledger *ledger, impmem__pinned_link *link)
{
    impmem__lock(ledger);
    for (impmem__pinned_link **at = &ledger->pinned; *at; at = &(*at)->next) {
        if (*at != link) continue;
        *at = link->next;
        break;
    }
    impmem__unlock(ledger);
}
