#include "cli/standard_input.h"

#include <array>
#include <cstdio>

namespace weir::cli {
namespace {

constexpr size_t kMaxBytes = size_t{256} << 20;  // as much as the tokenizer takes

}  // namespace

Result<std::string> read_standard_input() {
  std::string text;
  std::array<char, 65536> part{};
  while (const size_t count = std::fread(part.data(), 1, part.size(), stdin)) {
    text.append(part.data(), count);
    if (text.size() > kMaxBytes) {
      return Error{Code::kInvalidArgument, "stdin holds more than 256 MiB", "give a shorter text"};
    }
  }
  if (std::ferror(stdin) != 0) return Error{Code::kInvalidArgument, "stdin cannot be read", ""};
  return text;
}

Result<std::string> text_or_input(const std::string& text) {
  if (text == "-") return read_standard_input();
  return text;
}

}  // namespace weir::cli
