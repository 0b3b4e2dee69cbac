// Tables in Markdown, aligned for reading as they are: the first column to the left, numbers to the right.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weir::cli {

class MarkdownTable {
 public:
  explicit MarkdownTable(std::vector<std::string> titles) { lines_.push_back(std::move(titles)); }

  // As many cells as there are titles.
  void add(std::vector<std::string> cells) { lines_.push_back(std::move(cells)); }

  std::string text() const;

 private:
  std::vector<std::vector<std::string>> lines_;  // the titles first
};

}  // namespace weir::cli
