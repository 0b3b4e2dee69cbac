#include "grammar/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "grammar/schema_parts.h"

namespace weir::grammar {
namespace {

constexpr int kDeepestSchema = 320;
constexpr int kMostMerges = 64;

constexpr std::array kKeywords = {
    "type",    "enum",        "const",    "properties", "required",         "additionalProperties",
    "items",   "prefixItems", "minItems", "maxItems",   "minLength",        "maxLength",
    "pattern", "format",      "minimum",  "maximum",    "exclusiveMinimum", "exclusiveMaximum",
    "anyOf",   "oneOf",       "allOf",    "$ref",       "nullable"};

// Those that speak of one type only, for schemas that do not name it.
constexpr std::array<std::pair<const char*, const char*>, 16> kTypeOfKeyword = {{
    {"properties", "object"},
    {"required", "object"},
    {"additionalProperties", "object"},
    {"items", "array"},
    {"prefixItems", "array"},
    {"minItems", "array"},
    {"maxItems", "array"},
    {"minLength", "string"},
    {"maxLength", "string"},
    {"pattern", "string"},
    {"format", "string"},
    {"minimum", "number"},
    {"maximum", "number"},
    {"exclusiveMinimum", "number"},
    {"exclusiveMaximum", "number"},
    {"multipleOf", "number"},
}};

// Says the same whether it is there or not.
bool is_neutral(const std::string& name, const Json& value) {
  if (name == "uniqueItems" || name == "unevaluatedProperties") return value == (name != "uniqueItems");
  return (name == "minProperties" && value == 0) || (name == "propertyNames" && value == Json::object()) ||
         (name == "patternProperties" && value == Json::object());
}

Json without(Json schema, const char* name) {
  schema.erase(name);
  return schema;
}

}  // namespace

SchemaCompiler::SchemaCompiler(GrammarBuilder& builder, const Json& root, std::string name,
                               SchemaOptions options)
    : builder_(builder),
      root_(root),
      name_(std::move(name)),
      options_(std::move(options)),
      words_(fmt::format(" {}", fmt::join(options_.avoided, " "))) {}

Result<int32_t> SchemaCompiler::root_rule() {
  WEIR_TRY(const int32_t rule, json_rule(root_, name_));
  WEIR_RETURN_IF_ERROR(finish_references());
  return rule;
}

Result<int32_t> SchemaCompiler::json_rule(const Json& schema, const std::string& where) {
  if (says_nothing(schema)) return any_value();
  Nfa nfa(builder_.work());
  const int32_t accept = nfa.add();
  WEIR_RETURN_IF_ERROR(add_json(schema, nfa, Nfa::kStart, accept, where));
  return builder_.add(nfa.determinize(accept));
}

Status SchemaCompiler::finish_references() {
  while (!undefined_.empty()) {
    const std::string reference = std::move(undefined_.back());
    undefined_.pop_back();
    WEIR_TRY(const Json* schema, target(reference, name_));
    Nfa nfa(builder_.work());
    const int32_t accept = nfa.add();
    WEIR_RETURN_IF_ERROR(add_json(*schema, nfa, Nfa::kStart, accept, reference));
    builder_.define(references_[reference], nfa.determinize(accept));
    WEIR_RETURN_IF_ERROR(builder_.work().status());
  }
  return Ok{};
}

Status SchemaCompiler::add_json(const Json& schema, Nfa& nfa, int32_t from, int32_t to,
                                const std::string& where) {
  return add(schema, Form::kJson, {nfa, from, to}, where);
}

Status SchemaCompiler::add_raw_text(const Json& schema, Nfa& nfa, int32_t from, int32_t to,
                                    const std::string& where) {
  return add(schema, Form::kRawText, {nfa, from, to}, where);
}

Status SchemaCompiler::cannot(const std::string& where, const std::string& what) {
  if (options_.relaxed == nullptr) {
    return Error{Code::kUnsupported, where + ": " + what, "docs/server.md lists what schemas may say"};
  }
  options_.relaxed->push_back(where + ": " + what);
  return Ok{};
}

Status SchemaCompiler::check_keywords(const Json& schema, const std::string& where) {
  for (const auto& [name, value] : schema.items()) {
    const bool known = std::find(kKeywords.begin(), kKeywords.end(), name) != kKeywords.end();
    if (known || is_annotation(name) || is_neutral(name, value)) continue;
    WEIR_RETURN_IF_ERROR(cannot(where, name.substr(0, 40) + " is not supported"));
  }
  return Ok{};
}

Result<const Json*> SchemaCompiler::target(const Json& reference, const std::string& where) const {
  if (!reference.is_string()) return invalid_schema(where + ".$ref is no string");
  const Json* schema = find_definition(root_, reference.get_ref<const std::string&>());
  if (schema != nullptr) return schema;
  return Error{Code::kUnsupported,
               fmt::format("{}: $ref {} refers to nothing in the schema", where, reference.dump()),
               "references begin with #/$defs/ or #/definitions/"};
}

// The schema with what allOf and a $ref among other keywords say put into it.
Result<Json> SchemaCompiler::flattened(const Json& schema, const std::string& where) {
  builder_.work().spend(copy_cost(schema));
  WEIR_RETURN_IF_ERROR(builder_.work().status());
  Json flat = schema;
  for (int merges = 0; flat.is_object(); ++merges) {
    if (merges > kMostMerges) return invalid_schema(where + ": allOf and $ref lead in circles");
    const Json* all = keyword(flat, "allOf");
    const Json* reference = keyword(flat, "$ref");
    if (all != nullptr) {
      if (!all->is_array()) return invalid_schema(where + ".allOf is no array");
      Json parts = *all;
      flat = without(std::move(flat), "allOf");
      for (const Json& part : parts) {
        WEIR_TRY(flat, merged_schema(flat, part, where + ".allOf", builder_.work()));
      }
    } else if (reference != nullptr && !says_nothing(without(flat, "$ref"))) {
      WEIR_TRY(const Json* referred, target(*reference, where));
      WEIR_TRY(flat, merged_schema(without(flat, "$ref"), *referred, where, builder_.work()));
    } else {
      break;
    }
  }
  return flat;
}

Status SchemaCompiler::add(const Json& schema, Form form, Place place, const std::string& where) {
  struct Depth {
    int& depth;
    explicit Depth(int& d) : depth(d) { ++depth; }
    ~Depth() { --depth; }
  } depth(depth_);
  if (depth_ > kDeepestSchema) return invalid_schema(where.substr(0, 200) + ": the schema nests too deeply");
  builder_.work().spend(1 + static_cast<int64_t>(schema.size()));
  WEIR_RETURN_IF_ERROR(builder_.work().status());
  if (schema == false) return Ok{};
  if (!schema.is_boolean() && !schema.is_object())
    return invalid_schema(where + " is no schema: expected an object");
  if (schema.is_object()) WEIR_RETURN_IF_ERROR(check_keywords(schema, where));
  if (keyword(schema, "allOf") != nullptr || keyword(schema, "$ref") != nullptr) {
    WEIR_TRY(const Json flat, flattened(schema, where));
    const Json* reference = keyword(flat, "$ref");
    if (reference == nullptr) return add(flat, form, place, where);
    WEIR_TRY(const Json* referred, target(*reference, where));
    if (form == Form::kRawText) return add(*referred, form, place, where);
    return add_reference(reference->get_ref<const std::string&>(), place);
  }
  if (keyword(schema, "anyOf") != nullptr) return add_alternatives("anyOf", schema, form, place, where);
  if (keyword(schema, "oneOf") != nullptr) return add_alternatives("oneOf", schema, form, place, where);
  if (const Json* nullable = keyword(schema, "nullable"); nullable != nullptr && *nullable == true) {
    place.nfa.link(place.nfa.literal(place.from, "null"), place.to);
  }
  if (keyword(schema, "const") != nullptr || keyword(schema, "enum") != nullptr) {
    return add_constants(schema, form, place, where);
  }
  return add_types(schema, form, place, where);
}

Status SchemaCompiler::add_reference(const std::string& reference, Place place) {
  auto found = references_.find(reference);
  if (found == references_.end()) {
    found = references_.emplace(reference, builder_.declare()).first;
    undefined_.push_back(reference);
  }
  place.nfa.link(place.nfa.call(place.from, found->second), place.to);
  return Ok{};
}

// Each alternative together with what stands beside them.
Status SchemaCompiler::add_alternatives(const char* name, const Json& schema, Form form, Place place,
                                        const std::string& where) {
  builder_.work().spend(copy_cost(schema));
  WEIR_RETURN_IF_ERROR(builder_.work().status());
  const Json alternatives = *keyword(schema, name);
  if (!alternatives.is_array() || alternatives.empty())
    return invalid_schema(where + "." + name + " is no list of schemas");
  const Json rest = without(schema, name);
  const bool exclusive = std::string_view(name) == "oneOf";
  for (size_t i = 0; exclusive && i < alternatives.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      builder_.work().spend(8);
      if (disjoint(root_, alternatives[i], alternatives[j])) continue;
      WEIR_RETURN_IF_ERROR(cannot(
          where, fmt::format("oneOf has alternatives {} and {} that one value may satisfy both", j, i)));
    }
    WEIR_RETURN_IF_ERROR(builder_.work().status());
  }
  for (size_t i = 0; i < alternatives.size(); ++i) {
    const std::string at = fmt::format("{}.{}[{}]", where, name, i);
    if (says_nothing(rest)) {
      WEIR_RETURN_IF_ERROR(add(alternatives[i], form, place, at));
    } else {
      const Json both{{"allOf", Json::array({rest, alternatives[i]})}};
      WEIR_RETURN_IF_ERROR(add(both, form, place, at));
    }
  }
  return Ok{};
}

Status SchemaCompiler::add_constants(const Json& schema, Form form, Place place, const std::string& where) {
  for (const auto& [name, unused] : schema.items()) {
    const bool fits = name == "enum" || name == "const" || name == "type" || name == "nullable";
    if (fits || is_annotation(name) || std::find(kKeywords.begin(), kKeywords.end(), name) == kKeywords.end())
      continue;
    WEIR_RETURN_IF_ERROR(cannot(where, name + " beside enum or const is not supported"));
  }
  const Json *values = keyword(schema, "enum"), *value = keyword(schema, "const"),
             *types = keyword(schema, "type");
  if (values != nullptr && !values->is_array()) return invalid_schema(where + ".enum is no array");
  const Json single = value == nullptr ? Json() : Json::array({*value});
  const Json type_list = types == nullptr || types->is_array() ? Json() : Json::array({*types});
  const Json* const names = types != nullptr && types->is_array() ? types : &type_list;
  for (const Json& candidate : values != nullptr ? *values : single) {
    if (value != nullptr && candidate != *value) continue;
    const bool typed = types == nullptr || std::any_of(names->begin(), names->end(), [&](const Json& type) {
                         return type.is_string() && is_of_type(candidate, type.get_ref<const std::string&>());
                       });
    if (!typed) continue;
    std::string text = candidate.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (form == Form::kRawText) {
      if (!candidate.is_string() && !candidate.is_null()) continue;
      if (candidate.is_string()) text = candidate.get<std::string>();
    }
    const bool avoided =
        std::any_of(options_.avoided.begin(), options_.avoided.end(),
                    [&](const std::string& word) { return text.find(word) != std::string::npos; });
    if (avoided) {
      WEIR_RETURN_IF_ERROR(cannot(where, "a value holds a tag of the model's call format"));
      continue;
    }
    place.nfa.link(place.nfa.literal(place.from, text), place.to);
  }
  return builder_.work().status();
}

Status SchemaCompiler::add_types(const Json& schema, Form form, Place place, const std::string& where) {
  std::vector<std::string> types;
  if (const Json* type = keyword(schema, "type")) {
    const Json list = type->is_array() ? *type : Json::array({*type});
    for (const Json& name : list) {
      if (!name.is_string()) return invalid_schema(where + ".type is no name of a type");
      types.push_back(name.get<std::string>());
    }
  } else if (schema.is_object()) {
    for (const auto& [name, type_name] : kTypeOfKeyword) {
      const bool known = std::find(types.begin(), types.end(), type_name) != types.end();
      if (schema.contains(name) && !known) types.emplace_back(type_name);
    }
  }
  if (types.empty() && keyword(schema, "type") == nullptr) {
    if (form == Form::kRawText) return add_string(Json::object(), form, place, where);
    place.nfa.link(place.nfa.call(place.from, any_value()), place.to);
    return Ok{};
  }
  for (const std::string& type : types) WEIR_RETURN_IF_ERROR(add_type(type, schema, form, place, where));
  return Ok{};
}

Status SchemaCompiler::add_type(const std::string& type, const Json& schema, Form form, Place place,
                                const std::string& where) {
  if (type == "null") {
    place.nfa.link(place.nfa.literal(place.from, "null"), place.to);
    return Ok{};
  }
  if (type == "string") return add_string(schema, form, place, where);
  const bool known =
      type == "boolean" || type == "integer" || type == "number" || type == "array" || type == "object";
  if (!known) return invalid_schema(fmt::format("{}.type is \"{}\", which is no type", where, type));
  if (form == Form::kRawText) return Ok{};
  if (type == "array") return add_array(schema, place, where);
  if (type == "object") return add_object(schema, place, where);
  if (type != "boolean") return add_number(schema, type == "integer", place, where);
  place.nfa.link(place.nfa.literal(place.from, "true"), place.to);
  place.nfa.link(place.nfa.literal(place.from, "false"), place.to);
  return Ok{};
}

Result<std::vector<Member>> SchemaCompiler::members(const Json& schema, const std::string& where) {
  WEIR_TRY(Json flat, flattened(schema, where));
  for (int hops = 0; keyword(flat, "$ref") != nullptr; ++hops) {
    if (hops > kMostMerges) return invalid_schema(where + ": $ref leads in circles");
    WEIR_TRY(const Json* referred, target(*keyword(flat, "$ref"), where));
    WEIR_TRY(flat, flattened(*referred, where));
  }
  if (!flat.is_object()) return invalid_schema(where + " is no object schema");
  WEIR_RETURN_IF_ERROR(check_keywords(flat, where));
  const Json *properties = keyword(flat, "properties"), *required = keyword(flat, "required");
  if (properties != nullptr && !properties->is_object())
    return invalid_schema(where + ".properties is no object");
  if (required != nullptr && !required->is_array()) return invalid_schema(where + ".required is no array");
  std::vector<Member> all;
  std::map<std::string, size_t> known;
  const Json none = Json::object();
  for (const auto& [name, value] : (properties == nullptr ? none : *properties).items()) {
    known[name] = all.size();
    all.push_back({name, value, false});
  }
  const Json* additional = keyword(flat, "additionalProperties");
  for (const Json& name : required == nullptr ? Json::array() : *required) {
    if (!name.is_string()) return invalid_schema(where + ".required holds something that is no name");
    const auto found = known.find(name.get_ref<const std::string&>());
    if (found != known.end()) {
      all[found->second].required = true;
    } else {
      known[name.get<std::string>()] = all.size();
      all.push_back({name.get<std::string>(), additional == nullptr ? Json(true) : *additional, true});
    }
  }
  return all;
}

Result<Grammar> schema_grammar(const Json& schema, const std::string& name) {
  Work work;
  GrammarBuilder builder(work);
  SchemaCompiler compiler(builder, schema, name);
  WEIR_TRY(const int32_t root, compiler.root_rule());
  return builder.finish(root);
}

}  // namespace weir::grammar
