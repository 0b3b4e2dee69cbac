#include "chat/prompt.h"

#include <algorithm>

namespace weir {

std::string flatten(const Prompt& prompt) {
  std::string flat;
  for (const PromptPiece& piece : prompt) flat += piece.text;
  return flat;
}

void PromptBuilder::add_text(std::string_view text) {
  if (text.empty()) return;
  if (pieces_.empty() || pieces_.back().control) pieces_.emplace_back();
  pieces_.back().text += text;
}

void PromptBuilder::add_control(std::string_view marker) {
  pieces_.push_back({std::string(marker), true});
}

void PromptBuilder::add_markup(std::string_view text, std::span<const std::string_view> markers) {
  size_t plain = 0;  // start of the text not added yet
  for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const auto marker = std::find_if(markers.begin(), markers.end(),
                                     [&](std::string_view m) { return text.substr(at).starts_with(m); });
    if (marker == markers.end()) continue;
    add_text(text.substr(plain, at - plain));
    add_control(*marker);
    plain = at + marker->size();
  }
  add_text(text.substr(plain));
}

}  // namespace weir
