#include "text/settings.h"

#include <algorithm>
#include <string_view>

#include "text/json_error.h"
#include "text/quote.h"

namespace weir::text {
namespace {

using simdjson::ondemand::array;
using simdjson::ondemand::json_type;
using simdjson::ondemand::object;
using simdjson::ondemand::value;

constexpr int kDeepest = 8;
constexpr size_t kMostSettings = 256;

bool is_read_elsewhere(std::string_view path) {
  return path == "added_tokens" || path == "model.vocab" || path == "model.merges" ||
         (path.starts_with("post_processor.") && path != "post_processor.type");
}

std::string_view trimmed(std::string_view token) {
  while (!token.empty() && std::string_view(" \t\r\n").find(token.back()) != std::string_view::npos) {
    token.remove_suffix(1);
  }
  return token;
}

class Flattener {
 public:
  Status read_object(object fields, const std::string& path, int depth) {
    std::vector<std::string> seen;
    for (auto field : fields) {
      std::string_view key;
      value v;
      WEIR_JSON(field.unescaped_key().get(key), path);
      // A dot in a key would make its path look like another's.
      if (key.find('.') != std::string_view::npos) return corrupt("there is a key " + in_quotes(key));
      const std::string child = path.empty() ? std::string(key) : path + '.' + std::string(key);
      if (std::find(seen.begin(), seen.end(), child) != seen.end()) {
        return corrupt(in_quotes(child) + " is there twice");
      }
      if (seen.size() == kMostSettings) return too_many();
      seen.push_back(child);
      WEIR_JSON(field.value().get(v), child);
      if (!is_read_elsewhere(child)) WEIR_RETURN_IF_ERROR(read_value(v, child, depth));
    }
    if (seen.empty()) return add(path, "{}");
    return Ok{};
  }

  std::vector<Setting> take() { return std::move(settings_); }

 private:
  static Error too_many() {
    return corrupt("there are more than " + std::to_string(kMostSettings) + " settings");
  }

  Status add(const std::string& path, std::string text) {
    if (settings_.size() == kMostSettings) return too_many();
    settings_.push_back({path, std::move(text)});
    return Ok{};
  }

  Status read_array(array items, const std::string& path, int depth) {
    size_t count = 0;
    for (auto item : items) {
      const std::string child = path + '.' + std::to_string(count++);
      value v;
      WEIR_JSON(item.get(v), child);
      WEIR_RETURN_IF_ERROR(read_value(v, child, depth));
    }
    if (count == 0) return add(path, "[]");
    return Ok{};
  }

  Status read_value(value v, const std::string& path, int depth) {
    json_type type;
    WEIR_JSON(v.type().get(type), path);
    const bool nests = type == json_type::object || type == json_type::array;
    if (nests && depth == kDeepest) {
      return corrupt(in_quotes(path) + " is nested deeper than " + std::to_string(kDeepest));
    }
    if (type == json_type::object) {
      object fields;
      WEIR_JSON(v.get_object().get(fields), path);
      return read_object(fields, path, depth + 1);
    }
    if (type == json_type::array) {
      array items;
      WEIR_JSON(v.get_array().get(items), path);
      return read_array(items, path, depth + 1);
    }
    if (type != json_type::string) return add(path, std::string(trimmed(v.raw_json_token())));
    std::string_view text;
    WEIR_JSON(v.get_string().get(text), path);
    return add(path, '"' + std::string(text) + '"');
  }

  std::vector<Setting> settings_;
};

}  // namespace

Result<std::vector<Setting>> read_settings(simdjson::ondemand::document& document) {
  object root;
  WEIR_JSON(document.get_object().get(root), "the file");
  Flattener flattener;
  WEIR_RETURN_IF_ERROR(flattener.read_object(root, "", 0));
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) {
    return corrupt("something follows the JSON object");
  }
  return flattener.take();
}

}  // namespace weir::text
