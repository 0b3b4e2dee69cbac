#include "cli/turn_view.h"

#include <cstdio>

#include "cli/terminal.h"

namespace weir::cli {

TurnWriters TurnView::writers() {
  TurnWriters writers;
  writers.thinking = [this](std::string_view text) { return write_thinking(text); };
  writers.content = [this](std::string_view text) { return write_content(text); };
  if (is_terminal(stderr) && is_terminal(stdout)) {
    writers.canvas = [this](const CanvasFrame& frame) { canvas_.show(frame); };
  }
  return writers;
}

bool TurnView::write_thinking(std::string_view text) {
  thinking_open_ = true;
  write(stderr, dimmed(stderr, text_for(stderr, text)));  // a closed stderr is no reason to stop
  return true;
}

bool TurnView::write_content(std::string_view text) {
  if (thinking_open_) write(stderr, "\n\n");
  thinking_open_ = false;
  line_open_ = text.back() != '\n';
  return write(stdout, text_for(stdout, text));
}

void TurnView::finish() {
  canvas_.erase();
  if (thinking_open_) write(stderr, "\n");
  if (line_open_) write(stdout, "\n");
  thinking_open_ = line_open_ = false;
}

}  // namespace weir::cli
