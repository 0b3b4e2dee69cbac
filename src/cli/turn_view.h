// A turn while it is being generated: thinking in grey on stderr, the answer on stdout and, when both are
// terminals, the canvas that is being denoised on stderr.
#pragma once

#include <string_view>

#include "cli/answer.h"
#include "cli/canvas_view.h"

namespace weir::cli {

class TurnView {
 public:
  // `tokenizer` must outlive the view.
  explicit TurnView(const Tokenizer& tokenizer) : canvas_(tokenizer) {}

  TurnWriters writers();  // valid while the view lives

  // Ends the last line.
  void finish();

 private:
  bool write_thinking(std::string_view text);
  bool write_content(std::string_view text);

  CanvasView canvas_;
  bool thinking_open_ = false;
  bool line_open_ = false;  // on stdout
};

}  // namespace weir::cli
