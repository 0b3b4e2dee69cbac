// The live canvas on a terminal: the text as it would be committed now, each token the brighter the surer the
// model is of it. It is drawn over itself after each denoising step and vanishes when the canvas is done;
// what stays is the committed text, which the caller writes.
#pragma once

#include <string>

#include "cli/terminal.h"
#include "generate/canvas_frame.h"
#include "text/tokenizer.h"

namespace weir::cli {

// The frame as terminal text: a line of figures, then the canvas wrapped to the terminal's width. At most
// rows - 1 lines; what does not fit is counted in the last one. Without `colour` no escape sequences.
std::string canvas_text(const CanvasFrame& frame, const Tokenizer& tokenizer, TerminalSize size, bool colour);

class CanvasView {
 public:
  // `tokenizer` must outlive the view.
  explicit CanvasView(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void show(const CanvasFrame& frame);
  void erase();

 private:
  const Tokenizer& tokenizer_;
  int lines_ = 0;  // drawn and still there
};

}  // namespace weir::cli
