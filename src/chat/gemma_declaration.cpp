#include "chat/gemma_declaration.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "chat/gemma_value.h"

namespace weir::gemma {
namespace {

// Of an object that lists no properties, the template takes the other members of its schema for them.
constexpr std::array<std::string_view, 5> kSchemaWords = {"description", "type", "properties", "required",
                                                          "nullable"};

const Json& member(const Json& object, const char* name) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return text;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

// The type in capitals. Several are written as Python shows a list, which is what the template does.
std::string type_of(const Json& schema) {
  const Json& type = member(schema, "type");
  if (!type.is_array()) return upper(text_of(type));
  std::string all = "[";
  for (const Json& name : type) {
    if (all.size() > 1) all += ", ";
    all.append("'").append(upper(text_of(name))).append("'");
  }
  return all + "]";
}

bool is_true(const Json& value) {
  return value.is_boolean() && value.get<bool>();
}

bool has_items(const Json& value, Json::value_t type) {
  return value.type() == type && !value.empty();
}

// Writes "name:" with a comma before all fields but the first.
class Fields {
 public:
  explicit Fields(PromptBuilder& out) : out_(out) {}

  void start(std::string_view name) {
    if (!first_) out_.add_text(",");
    first_ = false;
    out_.add_text(name);
    out_.add_text(":");
  }

  void add_text(std::string_view name, std::string_view text) {
    start(name);
    add_quoted(text, out_);
  }

  // The names of required properties.
  void add_names(const Json& names) {
    start("required");
    out_.add_text("[");
    std::string_view separator;
    for (const Json& name : names) {
      out_.add_text(separator);
      add_quoted(text_of(name), out_);
      separator = ",";
    }
    out_.add_text("]");
  }

 private:
  PromptBuilder& out_;
  bool first_ = true;
};

void add_property(const Json& schema, PromptBuilder& out);

void add_properties(const Json& properties, bool skip_schema_words, PromptBuilder& out) {
  Fields fields(out);
  for (const auto& [key, schema] : sorted_members(properties)) {
    if (skip_schema_words && std::count(kSchemaWords.begin(), kSchemaWords.end(), key) > 0) continue;
    fields.start(key);
    add_property(*schema, out);
  }
}

void add_item_type(const Json& type, PromptBuilder& out) {
  if (!type.is_array()) return add_quoted(upper(text_of(type)), out);
  Json names = Json::array();
  for (const Json& name : type) names.push_back(upper(text_of(name)));
  add_value(names, Keys::kQuoted, out);
}

// What the items of an array are. Unlike a property, their schema is written as it is, but for these members.
void add_items(const Json& schema, PromptBuilder& out) {
  Fields fields(out);
  for (const auto& [key, value] : sorted_members(schema)) {
    if (value->is_null()) continue;
    if (key == "required") {
      fields.add_names(value->is_array() ? *value : Json::array());
      continue;
    }
    fields.start(key);
    if (key == "properties") {
      out.add_text("{");
      if (value->is_object()) add_properties(*value, false, out);
      out.add_text("}");
    } else if (key == "type") {
      add_item_type(*value, out);
    } else {
      add_value(*value, Keys::kQuoted, out);
    }
  }
}

void add_object_fields(const Json& schema, Fields& fields, PromptBuilder& out) {
  const Json& properties = member(schema, "properties");
  fields.start("properties");
  out.add_text("{");
  add_properties(properties.is_object() ? properties : schema, !properties.is_object(), out);
  out.add_text("}");
  const Json& required = member(schema, "required");
  if (has_items(required, Json::value_t::array)) fields.add_names(required);
}

void add_property(const Json& schema, PromptBuilder& out) {
  out.add_text("{");
  Fields fields(out);
  const std::string description = text_of(member(schema, "description"));
  if (!description.empty()) fields.add_text("description", description);
  const std::string type = type_of(schema);
  const Json& choices = member(schema, "enum");
  if (type == "STRING" && has_items(choices, Json::value_t::array)) {
    fields.start("enum");
    add_value(choices, Keys::kQuoted, out);
  }
  const Json& items = member(schema, "items");
  if (type == "ARRAY" && has_items(items, Json::value_t::object)) {
    fields.start("items");
    out.add_text("{");
    add_items(items, out);
    out.add_text("}");
  }
  if (is_true(member(schema, "nullable"))) {
    fields.start("nullable");
    out.add_text("true");
  }
  if (type == "OBJECT") add_object_fields(schema, fields, out);
  fields.add_text("type", type);
  out.add_text("}");
}

void add_parameters(const Json& schema, PromptBuilder& out) {
  out.add_text(",parameters:{");
  const Json& properties = member(schema, "properties");
  if (has_items(properties, Json::value_t::object)) {
    out.add_text("properties:{");
    add_properties(properties, false, out);
    out.add_text("},");
  }
  const Json& required = member(schema, "required");
  if (has_items(required, Json::value_t::array)) {
    Fields(out).add_names(required);
    out.add_text(",");
  }
  const Json& type = member(schema, "type");
  if (!has_items(type, Json::value_t::array) && text_of(type).empty()) return;
  Fields(out).add_text("type", type_of(schema));
  out.add_text("}");
}

void add_response(const Json& schema, PromptBuilder& out) {
  out.add_text(",response:{");
  const std::string description = text_of(member(schema, "description"));
  if (!description.empty()) {
    Fields(out).add_text("description", description);
    out.add_text(",");
  }
  if (type_of(schema) != "OBJECT") return;
  Fields(out).add_text("type", "OBJECT");
  out.add_text("}");
}

}  // namespace

void add_declaration(const Tool& tool, PromptBuilder& out) {
  const Json& function = member(tool.definition, "function");
  out.add_text("declaration:");
  out.add_text(tool.name);
  out.add_text("{");
  Fields(out).add_text("description", text_of(member(function, "description")));
  const Json& parameters = member(function, "parameters");
  if (has_items(parameters, Json::value_t::object)) add_parameters(parameters, out);
  if (function.is_object() && function.contains("response")) add_response(member(function, "response"), out);
  out.add_text("}");
}

}  // namespace weir::gemma
