/* span.c - the question whether a stable span is what its allocator handed out and still holds. */
#include "impmem/span.h"

#include "backend/hooks.h"

impmem_status impmem_span_check(const impmem_ledger *ledger, impmem_stable_span span)
{
    if (!ledger) return IMPMEM_ERR_INVALID_ARGUMENT;
    return impmem__ledger_check_span(ledger, span.region_, span.generation_, span.data_, span.bytes_);
}
