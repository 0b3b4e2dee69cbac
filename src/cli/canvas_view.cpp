#include "cli/canvas_view.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <vector>

#include "cli/terminal.h"
#include "text/stream_decoder.h"

namespace weir::cli {
namespace {

// Greys of the 256-colour palette, from barely visible to white: 232 is black, 255 white.
int grey_of(float confidence) {
  constexpr int kDarkest = 238, kBrightest = 255;
  const float share = std::clamp(confidence, 0.0f, 1.0f);
  return kDarkest + static_cast<int>(std::lround(share * static_cast<float>(kBrightest - kDarkest)));
}

constexpr const char* kBehindAnswer = "\u00b7";

// One character as a terminal shows it: a line break becomes a sign, other control characters a dot.
struct Cell {
  std::string text;
  int width = 1;
  int grey = 0;
};

void add_cells(std::vector<Cell>& cells, std::string_view text, int grey) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t point = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(bytes, left, &point);
    if (length <= 0) return;  // the decoder gives valid text only
    Cell cell{std::string(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length)),
              utf8proc_charwidth(point), grey};
    if (point == '\n') {
      cell = {"\u23ce", 1, grey};
    } else if (point < ' ' || point == 0x7f) {
      cell = {"\u00b7", 1, grey};
    }
    cells.push_back(std::move(cell));
    bytes += length;
    left -= length;
  }
}

std::vector<Cell> cells_of(const CanvasFrame& frame, const Tokenizer& tokenizer) {
  std::vector<Cell> cells;
  StreamDecoder decoder(tokenizer, SpecialTokens::kKeep);
  const auto answer = static_cast<size_t>(frame.answer_length);
  for (size_t i = 0; i < frame.best.size(); ++i) {
    const int grey = grey_of(frame.confidence[i]);
    if (i < answer) {
      add_cells(cells, decoder.push(frame.best[i]), grey);
      if (i + 1 == answer) add_cells(cells, decoder.finish(), grey);
    } else {
      cells.push_back({kBehindAnswer, 1, grey});
    }
  }
  return cells;
}

std::vector<std::string> lines_of(const std::vector<Cell>& cells, int columns, bool colour) {
  std::vector<std::string> lines(1);
  int width = 0, grey = 0;
  for (const Cell& cell : cells) {
    if (width + cell.width > columns) {
      lines.emplace_back();
      width = 0;
      grey = 0;
    }
    if (colour && cell.grey != grey) lines.back() += fmt::format("\x1b[38;5;{}m", grey = cell.grey);
    lines.back() += cell.text;
    width += cell.width;
  }
  return lines;
}

std::string figures(const CanvasFrame& frame) {
  const float sum = std::accumulate(frame.confidence.begin(), frame.confidence.end(), 0.0f);
  const float mean = sum / static_cast<float>(std::max<size_t>(frame.confidence.size(), 1));
  return fmt::format("canvas {}, pass {}, {} rows, {:.0f} % sure", frame.canvas + 1, frame.step, frame.rows,
                     100 * mean);
}

}  // namespace

std::string canvas_text(const CanvasFrame& frame, const Tokenizer& tokenizer, TerminalSize size,
                        bool colour) {
  const int columns = std::max(size.columns, 2);
  std::vector<std::string> lines = lines_of(cells_of(frame, tokenizer), columns, colour);
  const auto most = static_cast<size_t>(std::max(size.rows - 2, 1));
  if (lines.size() > most) {
    const size_t hidden = lines.size() - most + 1;
    lines.resize(most - 1);
    lines.push_back(fmt::format("... {} more lines", hidden).substr(0, static_cast<size_t>(columns)));
  }
  std::string out = figures(frame).substr(0, static_cast<size_t>(columns)) + "\n";
  for (const std::string& line : lines) out += line + (colour ? "\x1b[0m\n" : "\n");
  return out;
}

void CanvasView::show(const CanvasFrame& frame) {
  erase();
  if (frame.last) return;
  const std::string text = canvas_text(frame, tokenizer_, terminal_size(), has_colour(stderr));
  lines_ = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  tell(text);
}

void CanvasView::erase() {
  if (lines_ > 0) tell(fmt::format("\x1b[{}A\r\x1b[J", lines_));
  lines_ = 0;
}

}  // namespace weir::cli
