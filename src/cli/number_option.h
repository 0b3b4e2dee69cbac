// Flags that take a number and stay unset when they are not given.
#pragma once

#include <fmt/core.h>

#include <CLI/App.hpp>
#include <charconv>
#include <optional>
#include <string>
#include <type_traits>

namespace weir::cli {

// The text must be a number from its first to its last character: CLI11 itself would take "" for "not given".
template <typename T>
CLI::Option* add_number(CLI::App& command, const std::string& name, std::optional<T>& target,
                        const std::string& help) {
  return command.add_option_function<std::string>(
      name,
      [name, &target](const std::string& text) {
        T value{};
        const char* end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, value);
        if (read.ec != std::errc{} || read.ptr != end) {
          const char* kind = std::is_integral_v<T> ? "a whole number" : "a number";
          throw CLI::ValidationError(name, fmt::format("'{}' is not {} in its range", text, kind));
        }
        target = value;
      },
      help);
}

}  // namespace weir::cli
