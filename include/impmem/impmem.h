/* impmem.h - everything of libimpmem.a: pure C11, libc and threads. impmem/model.h (model files) is apart. */
#ifndef IMPMEM_H
#define IMPMEM_H

#include "impmem/allocator.h"
#include "impmem/arena.h"
#include "impmem/backend.h"
#include "impmem/block_pool.h"
#include "impmem/bytes.h"
#include "impmem/claim.h"
#include "impmem/conformance.h"
#include "impmem/control.h"
#include "impmem/dtype.h"
#include "impmem/engine.h"
#include "impmem/fake.h"
#include "impmem/journal.h"
#include "impmem/kv.h"
#include "impmem/ledger.h"
#include "impmem/line.h"
#include "impmem/pinned.h"
#include "impmem/plan.h"
#include "impmem/plan_report.h"
#include "impmem/scratch.h"
#include "impmem/shape.h"
#include "impmem/size.h"
#include "impmem/span.h"
#include "impmem/staging.h"
#include "impmem/status.h"
#include "impmem/version.h"
#include "impmem/write.h"

#endif
