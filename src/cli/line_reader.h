// Lines from the user: edited and remembered on a terminal, plain from a pipe.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace weir::cli {

class LineReader {
 public:
  // `history_file` keeps lines for the next start; empty, or not writable: they are forgotten.
  explicit LineReader(std::string history_file);
  ~LineReader();

  bool on_terminal() const { return editor_ != nullptr; }

  // The next line without its end. Nothing at the end of the input (Ctrl-D). The prompt is shown on a
  // terminal only, on stderr.
  std::optional<std::string> read(const std::string& prompt);

 private:
  struct Editor;

  std::unique_ptr<Editor> editor_;
};

}  // namespace weir::cli
