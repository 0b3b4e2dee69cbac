#include "cli/line_reader.h"

#include <histedit.h>

#include <filesystem>
#include <iostream>
#include <system_error>
#include <utility>

#include "cli/terminal.h"

namespace weir::cli {
namespace {

constexpr int kHistoryLines = 1000;

std::string without_line_end(std::string line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  return line;
}

}  // namespace

struct LineReader::Editor {
  EditLine* line = nullptr;
  History* history = nullptr;
  std::string history_file;
  std::string prompt;

  explicit Editor(std::string file) : history_file(std::move(file)) {
    line = el_init("weir", stdin, stderr, stderr);
    history = history_init();
    HistEvent event{};
    ::history(history, &event, H_SETSIZE, kHistoryLines);
    ::history(history, &event, H_SETUNIQUE, 1);
    if (!history_file.empty()) ::history(history, &event, H_LOAD, history_file.c_str());
    el_set(line, EL_CLIENTDATA, this);
    el_set(line, EL_PROMPT, &show_prompt);
    el_set(line, EL_HIST, &::history, history);
    el_set(line, EL_EDITOR, "emacs");
    el_set(line, EL_SIGNAL, 1);  // the terminal is put back when a signal ends the program
  }
  ~Editor() {
    history_end(history);
    el_end(line);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  static char* show_prompt(EditLine* line) {
    Editor* editor = nullptr;
    el_get(line, EL_CLIENTDATA, &editor);
    return editor->prompt.data();
  }

  // After each line, so that nothing is lost when the program is killed.
  void remember(const std::string& text) {
    HistEvent event{};
    ::history(history, &event, H_ENTER, text.c_str());
    if (history_file.empty()) return;
    const std::filesystem::path path(history_file);
    std::error_code ignored;  // chatting goes on without a history file
    std::filesystem::create_directories(path.parent_path(), ignored);
    ::history(history, &event, H_SAVE, history_file.c_str());
    std::filesystem::permissions(
        path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, ignored);
  }
};

LineReader::LineReader(std::string history_file) {
  if (is_terminal(stdin) && is_terminal(stderr)) editor_ = std::make_unique<Editor>(std::move(history_file));
}

LineReader::~LineReader() = default;

std::optional<std::string> LineReader::read(const std::string& prompt) {
  if (!editor_) {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return without_line_end(std::move(line));
  }
  editor_->prompt = prompt;
  int count = 0;
  const char* line = el_gets(editor_->line, &count);
  if (line == nullptr || count <= 0) return std::nullopt;
  std::string text = without_line_end(std::string(line, static_cast<size_t>(count)));
  if (!text.empty()) editor_->remember(text);
  return text;
}

}  // namespace weir::cli
