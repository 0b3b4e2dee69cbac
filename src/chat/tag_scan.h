// Finding tags in text that arrives in pieces of any size.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weir {

// Text that has arrived and is not consumed yet.
class TextBuffer {
 public:
  // Invalidates every view handed out before.
  void append(std::string_view text);

  std::string_view rest() const { return std::string_view(text_).substr(consumed_); }

  // Consumes and returns the first `count` bytes of rest(); at most rest().size().
  std::string_view take(size_t count);

  // The same for the white space (space, tab, newline, carriage return) at the front.
  std::string_view take_space();

 private:
  std::string text_;
  size_t consumed_ = 0;
};

// A tag starts with '<' and holds no other '<'.
struct Tag {
  std::string_view text;
  bool at_line_start_only = false;
};

// The first `before` bytes are not part of any tag. `tag` stands right after them; when it is null, the bytes
// after them (possibly none) are the beginning of a tag that has not arrived completely.
struct TagMatch {
  size_t before = 0;
  const Tag* tag = nullptr;
};

// The first of `tags` in `text`. `at_line_start` says whether `text` itself starts a line.
TagMatch find_tag(std::string_view text, std::span<const Tag> tags, bool at_line_start);

}  // namespace weir
