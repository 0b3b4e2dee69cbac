// What stdout and stderr are connected to, and how to write to them.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace weir::cli {

bool is_terminal(std::FILE* stream);

// On a terminal, unless NO_COLOR is set (https://no-color.org) or TERM is "dumb".
bool has_colour(std::FILE* stream);

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};

TerminalSize terminal_size();  // of stderr; the defaults when unknown

// `text` in grey where the stream shows colour.
std::string dimmed(std::FILE* stream, std::string_view text);

// `text` as one line that moves no cursor and sets no colour: '?' for control characters and for bytes that
// are not UTF-8, which names of files and other words of the user may hold.
std::string printable(std::string_view text);

// What a model wrote, as it may go to `stream`: to a terminal without what would move its cursor, set its
// title or its clipboard ('?' for control characters but tabs and line ends); elsewhere unchanged.
std::string text_for(std::FILE* stream, std::string_view text);

// Writes to stderr. What it does not take is lost: there is nobody left to tell.
void tell(std::string_view text);

// Opens standard streams that the caller has closed on /dev/null, for reading only: no file of ours may take
// their place, and writing to them still fails.
void occupy_closed_streams();

// Writes at once, so that a reader of the stream sees every piece. False when the stream takes no more.
bool write(std::FILE* stream, std::string_view text);

}  // namespace weir::cli
