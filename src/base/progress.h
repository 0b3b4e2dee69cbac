// How a long piece of work reports to whoever started it. Library folders never print: they call this.
#pragma once

#include <cstdint>
#include <functional>

namespace weir {

// Called with the units done so far and the total, from the thread that does the work, at most every few
// milliseconds. An empty function means that nobody is watching.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

}  // namespace weir
