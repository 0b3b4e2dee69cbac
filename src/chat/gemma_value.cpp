#include "chat/gemma_value.h"

#include <algorithm>
#include <string>

#include "chat/gemma_markup.h"

namespace weir::gemma {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool comes_before(std::string_view a, std::string_view b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return static_cast<unsigned char>(lower(x)) < static_cast<unsigned char>(lower(y));
  });
}

void add_object(const Json& object, Keys keys, PromptBuilder& out) {
  std::string_view separator;
  for (const auto& [key, value] : sorted_members(object)) {
    out.add_text(separator);
    if (keys == Keys::kQuoted) {
      add_quoted(key, out);
    } else {
      out.add_text(key);
    }
    out.add_text(":");
    add_value(*value, keys, out);
    separator = ",";
  }
}

void add_array(const Json& array, Keys keys, PromptBuilder& out) {
  std::string_view separator;
  for (const Json& item : array) {
    out.add_text(separator);
    add_value(item, keys, out);
    separator = ",";
  }
}

}  // namespace

std::vector<std::pair<std::string_view, const Json*>> sorted_members(const Json& object) {
  std::vector<std::pair<std::string_view, const Json*>> members;
  for (auto member = object.begin(); member != object.end(); ++member) {
    members.emplace_back(member.key(), &*member);
  }
  std::stable_sort(members.begin(), members.end(),
                   [](const auto& a, const auto& b) { return comes_before(a.first, b.first); });
  return members;
}

void add_quoted(std::string_view text, PromptBuilder& out) {
  out.add_control(kQuote);
  out.add_text(text);
  out.add_control(kQuote);
}

void add_value(const Json& value, Keys keys, PromptBuilder& out) {
  if (value.is_string()) {
    add_quoted(value.get_ref<const std::string&>(), out);
  } else if (value.is_object()) {
    out.add_text("{");
    add_object(value, keys, out);
    out.add_text("}");
  } else if (value.is_array()) {
    out.add_text("[");
    add_array(value, keys, out);
    out.add_text("]");
  } else {
    out.add_text(python_json(value));
  }
}

void add_members(const Json& object, PromptBuilder& out) {
  add_object(object, Keys::kBare, out);
}

}  // namespace weir::gemma
