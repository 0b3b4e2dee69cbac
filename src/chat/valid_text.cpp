#include "chat/valid_text.h"

#include "base/utf8.h"

namespace weir {

std::string valid_text(std::string_view text) {
  std::string out;
  for (;;) {
    const size_t good = valid_utf8_prefix(text);
    out += text.substr(0, good);
    if (good == text.size()) return out;
    out += "\xEF\xBF\xBD";
    text.remove_prefix(good + 1);
  }
}

}  // namespace weir
