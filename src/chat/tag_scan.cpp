#include "chat/tag_scan.h"

#include <algorithm>

#include "base/check.h"

namespace weir {

void TextBuffer::append(std::string_view text) {
  text_.erase(0, consumed_);
  consumed_ = 0;
  text_ += text;
}

std::string_view TextBuffer::take(size_t count) {
  const std::string_view all = rest();
  WEIR_CHECK(count <= all.size());
  consumed_ += count;
  return all.substr(0, count);
}

std::string_view TextBuffer::take_space() {
  return take(std::min(rest().find_first_not_of(" \t\n\r"), rest().size()));
}

TagMatch find_tag(std::string_view text, std::span<const Tag> tags, bool at_line_start) {
  for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const bool starts_line = at == 0 ? at_line_start : text[at - 1] == '\n';
    const std::string_view here = text.substr(at);
    for (const Tag& tag : tags) {
      if (tag.at_line_start_only && !starts_line) continue;
      if (here.starts_with(tag.text)) return {at, &tag};
      if (tag.text.starts_with(here)) return {at, nullptr};
    }
  }
  return {text.size(), nullptr};
}

}  // namespace weir
