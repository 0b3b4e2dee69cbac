// "Did you mean": the known word nearest to a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir::cli {

// The word of `known` with the fewest inserted, deleted, replaced or swapped letters away from `word`; empty
// when none is near (more than a third of its letters, at least two).
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace weir::cli
