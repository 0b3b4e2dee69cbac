// A turn while it is being generated: thinking in grey on stderr, the answer on stdout.
#pragma once

#include <string_view>

#include "cli/answer.h"

namespace weir::cli {

class TurnView {
 public:
  TurnWriters writers();  // valid while the view lives

  // Ends the last line.
  void finish();

 private:
  bool write_thinking(std::string_view text);
  bool write_content(std::string_view text);

  bool thinking_open_ = false;
  bool line_open_ = false;  // on stdout
};

}  // namespace weir::cli
