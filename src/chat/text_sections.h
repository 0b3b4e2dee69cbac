// Content and reasoning between the tags of a layout, without the newlines next to the tags.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "chat/output_event.h"

namespace weir {

class TextSections {
 public:
  explicit TextSections(bool thinking) : thinking_(thinking) {}

  bool thinking() const { return thinking_; }

  // No text yet in this section, other than newlines.
  bool fresh() const { return fresh_; }

  // A tag ended the section. The newlines before it were layout, and so are those that follow.
  void start(bool thinking);

  // Newlines at the end are held until text follows.
  void add(std::string_view text, std::vector<OutputEvent>& out);

  // No tag follows: the newlines held are text.
  void finish(std::vector<OutputEvent>& out);

 private:
  void add_delta_text(std::string text, std::vector<OutputEvent>& out) const;

  bool thinking_;
  bool fresh_ = true;
  size_t held_newlines_ = 0;
};

}  // namespace weir
