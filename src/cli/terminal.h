// What stdout and stderr are connected to, and how to write to them.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace weir::cli {

bool is_terminal(std::FILE* stream);

// On a terminal, unless NO_COLOR is set (https://no-color.org) or TERM is "dumb".
bool has_colour(std::FILE* stream);

int terminal_columns();  // of stderr; 80 when unknown

// `text` in grey where the stream shows colour.
std::string dimmed(std::FILE* stream, std::string_view text);

// Writes at once, so that a reader of the stream sees every piece. False when the stream takes no more.
bool write(std::FILE* stream, std::string_view text);

}  // namespace weir::cli
