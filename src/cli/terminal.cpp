#include "cli/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/environment.h"

namespace weir::cli {
namespace {

// With '?' for control characters that are not in `kept`, and for bytes that are not UTF-8.
std::string without_controls(std::string_view text, std::string_view kept) {
  std::string line;
  while (!text.empty()) {
    const size_t valid = valid_utf8_prefix(text);
    for (size_t i = 0; i < valid; ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      // U+0080 to U+009F, which are C2 80 to C2 9F, are control characters too.
      const bool upper_control = byte == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
      const bool control = byte < 0x20 || byte == 0x7F || upper_control;
      line += control && kept.find(text[i]) == std::string_view::npos ? '?' : text[i];
      i += upper_control ? 1 : 0;
    }
    text.remove_prefix(valid);
    if (text.empty()) break;
    line += '?';
    text.remove_prefix(1);
  }
  return line;
}

}  // namespace

bool is_terminal(std::FILE* stream) {
  return ::isatty(::fileno(stream)) == 1;
}

bool has_colour(std::FILE* stream) {
  return is_terminal(stream) && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
}

TerminalSize terminal_size() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

std::string dimmed(std::FILE* stream, std::string_view text) {
  if (text.empty() || !has_colour(stream)) return std::string(text);
  return "\x1b[2m" + std::string(text) + "\x1b[0m";
}

std::string printable(std::string_view text) {
  return without_controls(text, "");
}

std::string text_for(std::FILE* stream, std::string_view text) {
  return is_terminal(stream) ? without_controls(text, "\n\t") : std::string(text);
}

void tell(std::string_view text) {
  static_cast<void>(write(stderr, text));
}

void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) == -1) static_cast<void>(::open("/dev/null", O_RDONLY));
  }
}

bool write(std::FILE* stream, std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0;
}

}  // namespace weir::cli
