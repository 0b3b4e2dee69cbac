// Reads what a model writes, while it is being written.
#pragma once

#include <string_view>
#include <vector>

#include "chat/output_event.h"

namespace weir {

// What is found does not depend on how the text is cut into pieces, as long as adjacent deltas are put
// together.
class OutputParser {
 public:
  virtual ~OutputParser() = default;

  virtual std::vector<OutputEvent> feed(std::string_view text) = 0;

  // Flushes; call it once, at the end. `cut_off` says that the model did not end its turn by itself (token
  // limit, stop string, cancellation).
  virtual std::vector<OutputEvent> finish(bool cut_off) = 0;
};

}  // namespace weir
