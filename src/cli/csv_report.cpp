#include "cli/csv_report.h"

#include <fmt/format.h>

namespace weir::cli {
namespace {

// Quoted where the comma or a quote in it would end the field.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string text_of(const Report& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string name_of(const Report& element, size_t index) {
  if (!element.is_object() || element.empty()) return std::to_string(index);
  const auto first = element.begin();
  return fmt::format("{}={}", first.key(), text_of(first.value()));
}

void add(std::string& out, const std::string& place, const Report& value) {
  const std::string prefix = place.empty() ? "" : place + "/";
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) add(out, prefix + key, inner);
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) add(out, prefix + name_of(value[i], i), value[i]);
  } else {
    out += field(place) + "," + field(text_of(value)) + "\n";
  }
}

}  // namespace

std::string csv_report(const Report& report) {
  std::string out = "quantity,value\n";
  add(out, "", report);
  return out;
}

}  // namespace weir::cli
