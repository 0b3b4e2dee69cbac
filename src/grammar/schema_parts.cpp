#include "grammar/schema_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

namespace weir::grammar {
namespace {

constexpr int kDeepestComparison = 32;

constexpr std::array<std::string_view, 17> kAnnotations = {
    "title",          "description",   "default",      "examples",
    "example",        "deprecated",    "readOnly",     "writeOnly",
    "$schema",        "$id",           "$comment",     "$defs",
    "definitions",    "discriminator", "externalDocs", "contentMediaType",
    "contentEncoding"};

constexpr std::array<std::string_view, 6> kTypes = {"object", "array", "string", "number", "boolean", "null"};

std::optional<size_t> array_index(std::string_view text) {
  size_t index = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), index);
  return read.ec == std::errc{} && read.ptr == text.data() + text.size() ? std::optional(index)
                                                                         : std::nullopt;
}

// A part of a JSON pointer in a URI fragment: %XX, ~1 and ~0 stand for other characters.
std::string unescaped(std::string_view part) {
  std::string text;
  for (size_t i = 0; i < part.size(); ++i) {
    unsigned value = 0;
    const std::string_view digits = part.substr(std::min(i + 1, part.size()), 2);
    if (part[i] == '%' && digits.size() == 2 &&
        std::from_chars(digits.data(), digits.data() + 2, value, 16).ptr == digits.data() + 2) {
      text += static_cast<char>(value);
      i += 2;
    } else {
      text += part[i];
    }
  }
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '~' && i + 1 < text.size() && (text[i + 1] == '0' || text[i + 1] == '1');
    plain += escape ? (text[++i] == '0' ? '~' : '/') : text[i];
  }
  return plain;
}

std::vector<Json> types_of(const Json& type) {
  return type.is_array() ? std::vector<Json>(type.begin(), type.end()) : std::vector<Json>{type};
}

bool type_admits(const Json& types, const Json& type) {
  const auto all = types_of(types);
  const auto has = [&](const char* name) { return std::find(all.begin(), all.end(), name) != all.end(); };
  return std::find(all.begin(), all.end(), type) != all.end() || (type == "integer" && has("number"));
}

Json common_types(const Json& a, const Json& b) {
  Json common = Json::array();
  for (const Json& type : types_of(a)) {
    if (type_admits(b, type)) common.push_back(type);
  }
  for (const Json& type : types_of(b)) {
    if (type_admits(a, type) && std::find(common.begin(), common.end(), type) == common.end()) {
      common.push_back(type);
    }
  }
  return common;
}

Json common_items(const Json& a, const Json& b) {
  Json common = Json::array();
  for (const Json& item : a) {
    if (std::find(b.begin(), b.end(), item) != b.end()) common.push_back(item);
  }
  return common;
}

Json all_items(Json a, const Json& b) {
  for (const Json& item : b) {
    if (std::find(a.begin(), a.end(), item) == a.end()) a.push_back(item);
  }
  return a;
}

Json both_properties(const Json& a, const Json& b) {
  Json all = a;
  for (const auto& [name, schema] : b.items()) {
    const auto found = all.find(name);
    if (found == all.end()) {
      all[name] = schema;
    } else if (*found != schema) {
      *found = Json{{"allOf", Json::array({*found, schema})}};
    }
  }
  return all;
}

// The keyword's value in the merged schema when both give one and they differ.
std::optional<Json> both(const std::string& name, const Json& a, const Json& b) {
  const bool numbers = a.is_number() && b.is_number();
  if (name == "type") return common_types(a, b);
  if (name == "enum" && a.is_array() && b.is_array()) return common_items(a, b);
  if (name == "required" && a.is_array() && b.is_array()) return all_items(a, b);
  if (name == "properties" && a.is_object() && b.is_object()) return both_properties(a, b);
  if (name == "items") return Json{{"allOf", Json::array({a, b})}};
  if (name == "allOf" && a.is_array() && b.is_array()) return all_items(a, b);
  for (const char* least : {"minimum", "exclusiveMinimum", "minLength", "minItems"}) {
    if (name == least && numbers) return a < b ? b : a;
  }
  for (const char* most : {"maximum", "exclusiveMaximum", "maxLength", "maxItems"}) {
    if (name == most && numbers) return a < b ? a : b;
  }
  return std::nullopt;
}

// What a schema says about further properties concerns those that it does not list itself. The lists of two
// schemas become one only where that makes no difference.
bool closes_differently(const Json& a, const Json& b) {
  const auto names = [](const Json& schema) {
    std::vector<std::string> all;
    if (const Json* properties = keyword(schema, "properties");
        properties != nullptr && properties->is_object()) {
      for (const auto& [name, unused] : properties->items()) all.push_back(name);
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  const auto closed = [](const Json& schema) {
    const Json* additional = keyword(schema, "additionalProperties");
    return additional != nullptr && *additional != true;
  };
  const auto adds = [&](const Json& to, const Json& from) {
    const auto known = names(to), more = names(from);
    return closed(to) && !std::includes(known.begin(), known.end(), more.begin(), more.end());
  };
  return adds(a, b) || adds(b, a);
}

bool has_constants(const Json& schema) {
  return keyword(schema, "const") != nullptr || keyword(schema, "enum") != nullptr;
}

std::vector<Json> constants(const Json& schema) {
  if (const Json* value = keyword(schema, "const")) return {*value};
  const Json* values = keyword(schema, "enum");
  return values != nullptr && values->is_array() ? std::vector<Json>(values->begin(), values->end())
                                                 : std::vector<Json>();
}

bool admits_type(const Json& schema, std::string_view type) {
  if (has_constants(schema)) {
    const auto all = constants(schema);
    return std::any_of(all.begin(), all.end(), [&](const Json& value) { return is_of_type(value, type); });
  }
  const Json* types = keyword(schema, "type");
  if (types == nullptr) return true;
  return type_admits(*types, Json(type)) || (type == "number" && type_admits(*types, Json("integer")));
}

bool requires_property(const Json& schema, const std::string& name) {
  const Json* required = keyword(schema, "required");
  return required != nullptr && required->is_array() &&
         std::find(required->begin(), required->end(), name) != required->end();
}

// A property that both require and that cannot have one value.
bool disjoint_objects(const Json& root, const Json& a, const Json& b, int depth) {
  const Json *in_a = keyword(a, "properties"), *in_b = keyword(b, "properties");
  if (in_a == nullptr || in_b == nullptr || !in_a->is_object() || !in_b->is_object()) return false;
  for (const auto& [name, schema] : in_a->items()) {
    const auto other = in_b->find(name);
    if (other == in_b->end() || !requires_property(a, name) || !requires_property(b, name)) continue;
    if (disjoint(root, schema, *other, depth + 1)) return true;
  }
  return false;
}

}  // namespace

Error invalid_schema(std::string message) {
  return {Code::kInvalidArgument, std::move(message), ""};
}

bool is_annotation(std::string_view name) {
  return name.starts_with("x-") ||
         std::find(kAnnotations.begin(), kAnnotations.end(), name) != kAnnotations.end();
}

bool says_nothing(const Json& schema) {
  if (schema == true) return true;
  return schema.is_object() && std::all_of(schema.items().begin(), schema.items().end(),
                                           [](const auto& item) { return is_annotation(item.key()); });
}

int64_t copy_cost(const Json& value) {
  int64_t cost = 4;
  if (value.is_structured()) {
    for (const Json& item : value) cost += copy_cost(item);
  }
  return cost;
}

const Json* keyword(const Json& schema, const char* name) {
  if (!schema.is_object()) return nullptr;
  const auto found = schema.find(name);
  return found == schema.end() ? nullptr : &*found;
}

const Json* find_definition(const Json& root, std::string_view reference) {
  if (!reference.starts_with('#')) return nullptr;
  reference.remove_prefix(1);
  const Json* at = &root;
  while (!reference.empty()) {
    if (reference[0] != '/') return nullptr;
    reference.remove_prefix(1);
    const std::string part = unescaped(reference.substr(0, reference.find('/')));
    reference.remove_prefix(std::min(reference.find('/'), reference.size()));
    if (at->is_object()) {
      const auto found = at->find(part);
      if (found == at->end()) return nullptr;
      at = &*found;
    } else {
      const auto index = at->is_array() ? array_index(part) : std::nullopt;
      if (!index || *index >= at->size()) return nullptr;
      at = &(*at)[*index];
    }
  }
  return at;
}

Result<Json> merged_schema(const Json& a, const Json& b, const std::string& where, Work& work) {
  if (a.is_boolean()) return a == true ? b : a;
  if (b.is_boolean()) return b == true ? a : b;
  if (!a.is_object() || !b.is_object()) {
    return Error{Code::kInvalidArgument, where + " is no schema: expected an object", ""};
  }
  work.spend(copy_cost(a) + copy_cost(b));
  WEIR_RETURN_IF_ERROR(work.status());
  if (closes_differently(a, b)) {
    return Error{Code::kUnsupported,
                 where + ": schemas that are to hold together differ in properties and additionalProperties",
                 "write one schema with all properties"};
  }
  Json all = a;
  for (const auto& [name, value] : b.items()) {
    const auto found = all.find(name);
    if (found == all.end()) {
      all[name] = value;
    } else if (*found != value && !is_annotation(name)) {
      auto merged = both(name, *found, value);
      if (!merged) {
        return Error{Code::kUnsupported,
                     fmt::format("{}: two different {} are to hold together", where, name),
                     "write one schema"};
      }
      *found = *std::move(merged);
    }
  }
  return all;
}

bool disjoint(const Json& root, const Json& a, const Json& b, int depth) {
  if (depth > kDeepestComparison) return false;
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (*one == false) return true;
    const Json* reference = keyword(*one, "$ref");
    if (reference == nullptr || !reference->is_string()) continue;
    const Json* target = find_definition(root, reference->get_ref<const std::string&>());
    return target != nullptr && disjoint(root, *target, *other, depth + 1);
  }
  if (has_constants(a) && has_constants(b)) {
    const auto all = constants(b);
    const auto in_a = constants(a);
    return std::none_of(in_a.begin(), in_a.end(), [&](const Json& value) {
      return std::find(all.begin(), all.end(), value) != all.end();
    });
  }
  const auto shared = [&](std::string_view type) { return admits_type(a, type) && admits_type(b, type); };
  const auto count = std::count_if(kTypes.begin(), kTypes.end(), shared);
  return count == 0 || (count == 1 && shared("object") && disjoint_objects(root, a, b, depth));
}

bool is_of_type(const Json& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (type != "integer" || !value.is_number()) return false;
  return value.is_number_integer() || std::floor(value.get<double>()) == value.get<double>();
}

}  // namespace weir::grammar
