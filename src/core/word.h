/* core/word.h - comparing names that users type. */
#ifndef IMPMEM__CORE_WORD_H
#define IMPMEM__CORE_WORD_H

#include <stdbool.h>

static inline int impmem__lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

/* Equal but for the case of ASCII letters, so that the answer doesn't depend on the locale. */
static inline bool impmem__same_word(const char *a, const char *b)
{
    while (*a && impmem__lower(*a) == impmem__lower(*b)) {
        a++;
        b++;
    }
    return impmem__lower(*a) == impmem__lower(*b);
}

#endif
