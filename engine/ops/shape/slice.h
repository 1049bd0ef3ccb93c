// The view that slices and splits share.
#pragma once
#include "engine/ops/table/apply.h"

namespace tycho {

// Adds to the call's results a view of positions start, start + step, ... before stop (from 0)
// along dimension d of its first argument.
void slice_view(Call& c, int d, int64_t start, int64_t stop, int64_t step);

}  // namespace tycho
