// Resizing's weighted sums along one dimension; the op stands in resize.cpp.
#pragma once

namespace tycho {
struct Call;
}
namespace tycho::cpu {
void resample(Call& c);
}
