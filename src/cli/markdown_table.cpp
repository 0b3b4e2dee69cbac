#include "cli/markdown_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::cli {

std::string MarkdownTable::text() const {
  std::vector<size_t> widths(lines_.front().size(), 3);
  for (const auto& line : lines_) {
    for (size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  }
  std::string out;
  for (size_t l = 0; l < lines_.size(); ++l) {
    for (size_t c = 0; c < widths.size(); ++c) {
      out += c == 0 ? fmt::format("| {:<{}} ", lines_[l][c], widths[c])
                    : fmt::format("| {:>{}} ", lines_[l][c], widths[c]);
    }
    out += "|\n";
    if (l > 0) continue;
    for (size_t c = 0; c < widths.size(); ++c) {
      out += fmt::format("|{:-<{}}{}", "", widths[c] + 1, c == 0 ? "-" : ":");
    }
    out += "|\n";
  }
  return out;
}

}  // namespace weir::cli
