/* backend/journal_format.h - words of the journal file that writer and reader share. The format is told in
 * docs/journal.md. */
#ifndef IMPMEM__BACKEND_JOURNAL_FORMAT_H
#define IMPMEM__BACKEND_JOURNAL_FORMAT_H

#define IMPMEM__JOURNAL_MAGIC "impmem-journal "
#define IMPMEM__JOURNAL_VERSION 1
#define IMPMEM__JOURNAL_CHECKSUM "checksum xxh3-64 "
#define IMPMEM__JOURNAL_CHECKSUM_DIGITS 16u
/* The longest line, terminator included; a writer's lines stay far below it. */
#define IMPMEM__JOURNAL_LINE_BYTES 1024u

#endif
