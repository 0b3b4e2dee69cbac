#include "chat/tool_schema.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "chat/python_strip.h"
#include "grammar/schema_parts.h"

namespace weir {
namespace {

constexpr int kMostReferences = 64;  // that are followed for one argument

const Json* member(const Json* object, std::string_view name) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto found = object->find(std::string(name));
  return found == object->end() ? nullptr : &*found;
}

void admit_named(const Json& name, ArgumentTypes& types) {
  if (name == "string") types.text = true;
  if (name == "null") types.null = true;
  if (name == "integer") types.integer = true;
  if (name == "number") types.number = true;
  if (name == "boolean") types.boolean = true;
  if (name == "object" || name == "array") types.structured = true;
}

void admit_type_of(const Json& value, ArgumentTypes& types) {
  if (value.is_string()) types.text = true;
  if (value.is_null()) types.null = true;
  if (value.is_number_integer()) types.integer = true;
  if (value.is_number_float()) types.number = true;
  if (value.is_boolean()) types.boolean = true;
  if (value.is_structured()) types.structured = true;
}

// For schemas that name no type: what their other keywords speak of.
void admit_implied(const Json& schema, ArgumentTypes& types) {
  const auto has = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](const char* n) { return member(&schema, n) != nullptr; });
  };
  if (has({"properties", "required", "additionalProperties", "items", "prefixItems", "minItems",
           "maxItems"})) {
    types.structured = true;
  }
  if (has({"minLength", "maxLength", "pattern", "format"})) types.text = true;
  if (has({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})) types.number = true;
}

// References point into `root`; so many more are followed. Recursion is bounded by them and by the nesting of
// the definition, see kMaxJsonDepth.
void admit_schema(const Json& schema, const Json& root, int& references, ArgumentTypes& types) {
  if (const Json* type = member(&schema, "type")) {
    if (type->is_array()) {
      for (const Json& name : *type) admit_named(name, types);
    } else {
      admit_named(*type, types);
    }
  } else if (const Json* values = member(&schema, "enum"); values != nullptr && values->is_array()) {
    for (const Json& value : *values) admit_type_of(value, types);
  } else if (const Json* value = member(&schema, "const")) {
    admit_type_of(*value, types);
  } else {
    admit_implied(schema, types);
  }
  const Json* reference = member(&schema, "$ref");
  if (reference != nullptr && reference->is_string() && references-- > 0) {
    const Json* target = grammar::find_definition(root, reference->get_ref<const std::string&>());
    if (target != nullptr) admit_schema(*target, root, references, types);
  }
  for (const char* name : {"anyOf", "oneOf", "allOf"}) {
    const Json* choices = member(&schema, name);
    if (choices == nullptr || !choices->is_array()) continue;
    for (const Json& choice : *choices) admit_schema(choice, root, references, types);
  }
  if (const Json* nullable = member(&schema, "nullable"); nullable != nullptr && *nullable == true)
    types.null = true;
}

bool is_true(std::string_view text) {
  return text.size() == 4 && std::equal(text.begin(), text.end(), "true", [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
         });
}

}  // namespace

ArgumentTypes argument_types(const std::vector<Tool>& tools, std::string_view tool,
                             std::string_view parameter) {
  ArgumentTypes types;
  const auto found = std::find_if(tools.begin(), tools.end(), [&](const Tool& t) { return t.name == tool; });
  if (found == tools.end()) return types;
  const Json* parameters = member(member(&found->definition, "function"), "parameters");
  if (const Json* schema = member(member(parameters, "properties"), parameter)) {
    int references = kMostReferences;
    admit_schema(*schema, *parameters, references, types);
  }
  return types;
}

bool admits(const ArgumentTypes& types, const Json& value) {
  if (value.is_string()) return types.text;
  if (value.is_null()) return types.null;
  if (value.is_boolean()) return types.boolean;
  if (value.is_number_integer()) return types.integer || types.number;
  if (value.is_number()) return types.number;
  return value.is_structured() && types.structured;
}

Json convert_argument(std::string_view text, const ArgumentTypes& types) {
  if (types.text) return types.null && text == "null" ? Json() : Json(text);
  const std::string_view bare = python_strip(text);
  if (bare == "null") return Json();
  if (!types.known()) return Json(text);
  if (const Result<Json> value = parse_json(bare); value.ok() && admits(types, *value)) return *value;
  if (types.boolean) return is_true(bare);
  return Json(text);
}

}  // namespace weir
