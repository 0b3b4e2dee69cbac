#include "chat/text_sections.h"

namespace weir {

void TextSections::start(bool thinking) {
  thinking_ = thinking;
  fresh_ = true;
  held_newlines_ = 0;
}

void TextSections::add(std::string_view text, std::vector<OutputEvent>& out) {
  const size_t end = text.find_last_not_of('\n') + 1;
  if (end == 0) {
    if (!fresh_) held_newlines_ += text.size();
    return;
  }
  const size_t begin = fresh_ ? text.find_first_not_of('\n') : 0;
  add_delta_text(std::string(held_newlines_, '\n').append(text.substr(begin, end - begin)), out);
  held_newlines_ = text.size() - end;
  fresh_ = false;
}

void TextSections::finish(std::vector<OutputEvent>& out) {
  add_delta_text(std::string(held_newlines_, '\n'), out);
  held_newlines_ = 0;
}

void TextSections::add_delta_text(std::string text, std::vector<OutputEvent>& out) const {
  if (thinking_) {
    add_delta(out, ReasoningDelta{std::move(text)});
  } else {
    add_delta(out, ContentDelta{std::move(text)});
  }
}

}  // namespace weir
