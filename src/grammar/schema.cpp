#include "grammar/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "grammar/formats.h"
#include "grammar/number_range.h"
#include "grammar/pattern.h"
#include "grammar/schema_parts.h"

namespace weir::grammar {
namespace {

constexpr int kDeepestSchema = 320;
constexpr int kMostMerges = 64;
constexpr int64_t kMostCount = int64_t{1} << 40;
constexpr int kIndentation = 80;

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

Error invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message), ""};
}

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

bool says_nothing(const Json& schema) {
  if (schema == true) return true;
  return schema.is_object() && std::all_of(schema.items().begin(), schema.items().end(),
                                           [](const auto& item) { return is_annotation(item.key()); });
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
  if (!reference.is_string()) return invalid(where + ".$ref is no string");
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
    if (merges > kMostMerges) return invalid(where + ": allOf and $ref lead in circles");
    const Json* all = keyword(flat, "allOf");
    const Json* reference = keyword(flat, "$ref");
    if (all != nullptr) {
      if (!all->is_array()) return invalid(where + ".allOf is no array");
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
  if (depth_ > kDeepestSchema) return invalid(where.substr(0, 200) + ": the schema nests too deeply");
  builder_.work().spend(1 + static_cast<int64_t>(schema.size()));
  WEIR_RETURN_IF_ERROR(builder_.work().status());
  if (schema == false) return Ok{};
  if (!schema.is_boolean() && !schema.is_object())
    return invalid(where + " is no schema: expected an object");
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
    return invalid(where + "." + name + " is no list of schemas");
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
  if (values != nullptr && !values->is_array()) return invalid(where + ".enum is no array");
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
      if (!name.is_string()) return invalid(where + ".type is no name of a type");
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
  if (!known) return invalid(fmt::format("{}.type is \"{}\", which is no type", where, type));
  if (form == Form::kRawText) return Ok{};
  if (type == "array") return add_array(schema, place, where);
  if (type == "object") return add_object(schema, place, where);
  if (type != "boolean") return add_number(schema, type == "integer", place, where);
  place.nfa.link(place.nfa.literal(place.from, "true"), place.to);
  place.nfa.link(place.nfa.literal(place.from, "false"), place.to);
  return Ok{};
}

Result<int64_t> SchemaCompiler::count(const Json& schema, const char* name, int64_t otherwise,
                                      const std::string& where) {
  const Json* given = keyword(schema, name);
  if (given == nullptr) return otherwise;
  if (!is_of_type(*given, "integer") || *given < 0)
    return invalid(fmt::format("{}.{} is no count", where, name));
  return *given > kMostCount ? kMostCount : given->get<int64_t>();
}

Result<TextShape> SchemaCompiler::text_shape(const Json& schema, Form form, const std::string& where) {
  TextShape shape;
  shape.spelling = form == Form::kJson ? Spelling::kJson : Spelling::kRaw;
  shape.avoided = options_.avoided;
  if (form == Form::kRawText) shape.before = "\n";
  WEIR_TRY(shape.least, count(schema, "minLength", 0, where));
  WEIR_TRY(shape.most, count(schema, "maxLength", kUnbounded, where));
  if (const Json* pattern = keyword(schema, "pattern")) {
    if (!pattern->is_string()) return invalid(where + ".pattern is no string");
    const std::string& text = pattern->get_ref<const std::string&>();
    // Compiled again with the rest; here only what it says is checked.
    if (auto compiled = pattern_automaton(text, shape.spelling, builder_.work()); compiled.ok()) {
      shape.patterns.push_back(text);
    } else if (compiled.error().code == Code::kInvalidArgument) {
      return invalid(where + ": " + compiled.error().message);
    } else {
      WEIR_RETURN_IF_ERROR(cannot(where, compiled.error().message));
    }
  }
  const Json* format = keyword(schema, "format");
  if (format == nullptr) return shape;
  if (!format->is_string()) return invalid(where + ".format is no string");
  const std::string_view known = format_pattern(format->get_ref<const std::string&>());
  if (known.empty()) {
    WEIR_RETURN_IF_ERROR(cannot(where, fmt::format("format {} is not supported", format->dump())));
  } else {
    shape.patterns.emplace_back(known);
  }
  return shape;
}

Status SchemaCompiler::add_string(const Json& schema, Form form, Place place, const std::string& where) {
  WEIR_TRY(const TextShape shape, text_shape(schema, form, where));
  WEIR_TRY(const int32_t rule, string_rule(shape));
  place.nfa.link(place.nfa.call(place.from, rule), place.to);
  return Ok{};
}

// A raw text, or a JSON string with its quotes. Where there is but a length, its characters are a repetition:
// that costs nothing for each of them.
Result<int32_t> SchemaCompiler::string_rule(const TextShape& shape) {
  const bool raw = shape.spelling == Spelling::kRaw;
  const std::string key = fmt::format("{} {} {} {}", raw ? "text" : "string", shape.least, shape.most,
                                      fmt::join(shape.patterns, "\n"));
  int32_t& known = builder_.shared(key + words_);
  if (known >= 0) return known;
  Nfa nfa(builder_.work());
  int32_t at = nfa.literal(Nfa::kStart, raw ? "" : "\"");
  const bool counted = shape.least > 0 || shape.most != kUnbounded;
  if (!raw && counted && shape.patterns.empty() && shape.avoided.empty()) {
    Nfa character(builder_.work());
    const int32_t accept = add_json_character(character, Nfa::kStart);
    at = nfa.call(at, builder_.repeat(builder_.add(character.determinize(accept)), shape.least, shape.most));
  } else {
    WEIR_TRY(const Automaton text, text_automaton(shape, builder_.work()));
    at = nfa.insert(at, text);
  }
  at = nfa.literal(at, raw ? "" : "\"");
  return known = builder_.add(nfa.determinize(at));
}

Status SchemaCompiler::add_number(const Json& schema, bool whole, Place place, const std::string& where) {
  NumberRange range;
  range.whole = whole;
  std::string key = whole ? "integer" : "number";
  const auto tighten = [&](const char* name, std::optional<Bound>& bound, bool exclusive,
                           bool least) -> Status {
    const Json* given = keyword(schema, name);
    if (given == nullptr) return Ok{};
    if (!given->is_number()) return invalid(fmt::format("{}.{} is no number", where, name));
    const bool tighter =
        !bound || (least ? bound->value < *given : *given < bound->value) || bound->value == *given;
    if (tighter) bound = Bound{*given, exclusive || (bound && bound->value == *given && bound->exclusive)};
    key += fmt::format(" {} {}", name, given->dump());
    return Ok{};
  };
  WEIR_RETURN_IF_ERROR(tighten("minimum", range.least, false, true));
  WEIR_RETURN_IF_ERROR(tighten("exclusiveMinimum", range.least, true, true));
  WEIR_RETURN_IF_ERROR(tighten("maximum", range.most, false, false));
  WEIR_RETURN_IF_ERROR(tighten("exclusiveMaximum", range.most, true, false));
  if (const Json* format = keyword(schema, "format"); format != nullptr) {
    // All numbers that are written here are of 64 bits.
    if (whole && *format == "int32") {
      range.least = range.least && range.least->value > INT32_MIN ? range.least : Bound{INT32_MIN, false};
      range.most = range.most && range.most->value < INT32_MAX ? range.most : Bound{INT32_MAX, false};
      key += " int32";
    } else if (!(whole && *format == "int64") && !(!whole && *format == "double")) {
      WEIR_RETURN_IF_ERROR(cannot(where, fmt::format("format {} is not supported", format->dump())));
    }
  }
  int32_t& known = builder_.shared(key);
  if (known < 0) {
    auto automaton = number_automaton(range, builder_.work());
    if (!automaton.ok()) {
      WEIR_RETURN_IF_ERROR(cannot(where, automaton.error().message));
      automaton = number_automaton({whole, {}, {}}, builder_.work());
    }
    known = builder_.add(*std::move(automaton));
  }
  place.nfa.link(place.nfa.call(place.from, known), place.to);
  return Ok{};
}

Status SchemaCompiler::add_array(const Json& schema, Place place, const std::string& where) {
  const Json *first = keyword(schema, "prefixItems"), *items = keyword(schema, "items");
  if (first != nullptr && !first->is_array()) return invalid(where + ".prefixItems is no array");
  WEIR_TRY(const int64_t least, count(schema, "minItems", 0, where));
  WEIR_TRY(const int64_t most, count(schema, "maxItems", kUnbounded, where));
  Nfa nfa(builder_.work());
  const int32_t end = nfa.add(), accept = nfa.literal(end, "]");
  int32_t at = nfa.call(nfa.literal(Nfa::kStart, "["), space());
  const auto may_end = [&](int64_t items_so_far) { return items_so_far >= least; };
  const auto may_go_on = [&](int64_t items_so_far) { return most == kUnbounded || items_so_far < most; };
  const auto listed = static_cast<int64_t>(first == nullptr ? 0 : first->size());
  int64_t done = 0;
  if (may_end(0)) nfa.link(at, end);
  for (; done < listed && may_go_on(done); ++done) {
    if (done > 0) at = nfa.call(nfa.literal(at, ","), space());
    const int32_t behind = nfa.add();
    WEIR_RETURN_IF_ERROR(add_json((*first)[static_cast<size_t>(done)], nfa, at, behind,
                                  fmt::format("{}.prefixItems[{}]", where, done)));
    at = behind;
    if (may_end(done + 1)) nfa.link(nfa.call(at, space()), end);
  }
  if (may_go_on(done)) {
    WEIR_TRY(const int32_t item, json_rule(items == nullptr ? Json(true) : *items, where + ".items"));
    if (done == 0) {
      at = nfa.call(at, item);
      done = 1;
    }
    Nfa more(builder_.work());
    const int32_t comma = more.call(more.literal(Nfa::kStart, ","), space());
    const int32_t rule = builder_.add(more.determinize(more.call(comma, item)));
    const int64_t further = most == kUnbounded ? kUnbounded : most - done;
    const int32_t repeated = builder_.repeat(rule, std::max<int64_t>(least - done, 0), further);
    nfa.link(nfa.call(nfa.call(at, repeated), space()), end);
  }
  place.nfa.link(place.nfa.call(place.from, builder_.add(nfa.determinize(accept))), place.to);
  return Ok{};
}

Result<std::vector<Member>> SchemaCompiler::members(const Json& schema, const std::string& where) {
  WEIR_TRY(Json flat, flattened(schema, where));
  for (int hops = 0; keyword(flat, "$ref") != nullptr; ++hops) {
    if (hops > kMostMerges) return invalid(where + ": $ref leads in circles");
    WEIR_TRY(const Json* referred, target(*keyword(flat, "$ref"), where));
    WEIR_TRY(flat, flattened(*referred, where));
  }
  if (!flat.is_object()) return invalid(where + " is no object schema");
  WEIR_RETURN_IF_ERROR(check_keywords(flat, where));
  const Json *properties = keyword(flat, "properties"), *required = keyword(flat, "required");
  if (properties != nullptr && !properties->is_object()) return invalid(where + ".properties is no object");
  if (required != nullptr && !required->is_array()) return invalid(where + ".required is no array");
  std::vector<Member> all;
  std::map<std::string, size_t> known;
  const Json none = Json::object();
  for (const auto& [name, value] : (properties == nullptr ? none : *properties).items()) {
    known[name] = all.size();
    all.push_back({name, value, false});
  }
  const Json* additional = keyword(flat, "additionalProperties");
  for (const Json& name : required == nullptr ? Json::array() : *required) {
    if (!name.is_string()) return invalid(where + ".required holds something that is no name");
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

// A chain of members, of which those that are not required may be left out, for the case that none stands
// before and for the case that one does, which needs a comma.
Status SchemaCompiler::add_object(const Json& schema, Place place, const std::string& where) {
  WEIR_TRY(const std::vector<Member> listed, members(schema, where));
  const Json* additional = keyword(schema, "additionalProperties");
  if (listed.empty() && (additional == nullptr || says_nothing(*additional))) {
    place.nfa.link(place.nfa.call(place.from, any_object()), place.to);
    return Ok{};
  }
  Nfa nfa(builder_.work());
  int32_t first = nfa.call(nfa.literal(Nfa::kStart, "{"), space()), further = nfa.add();
  for (const Member& member : listed) {
    const int32_t key = nfa.add(), behind = nfa.add();
    nfa.link(first, key);
    nfa.link(nfa.call(nfa.literal(further, ","), space()), key);
    const std::string name = "\"" + spelled(member.name, Spelling::kJson) + "\":";
    for (const std::string& word : options_.avoided) {
      if (name.find(word) == std::string::npos) continue;
      return Error{Code::kUnsupported, where + ": a name holds a tag of the model's call format", ""};
    }
    const int32_t value = nfa.call(nfa.literal(key, name), space());
    WEIR_RETURN_IF_ERROR(add_json(member.schema, nfa, value, behind, where + ".properties." + member.name));
    const int32_t next_first = nfa.add();
    if (!member.required) {
      nfa.link(first, next_first);
      nfa.link(further, behind);
    }
    first = next_first;
    further = behind;
  }
  const int32_t end = nfa.add(), accept = nfa.literal(end, "}");
  if (additional != nullptr && *additional != false) {
    WEIR_TRY(const int32_t pair, further_members(listed, *additional, where));
    const int32_t behind = nfa.add();
    nfa.link(nfa.call(first, pair), behind);
    nfa.link(further, behind);
    nfa.link(nfa.call(nfa.call(nfa.literal(behind, ","), space()), pair), behind);
    further = behind;
  }
  nfa.link(first, end);
  nfa.link(nfa.call(further, space()), end);
  place.nfa.link(place.nfa.call(place.from, builder_.add(nfa.determinize(accept))), place.to);
  return builder_.work().status();
}

// A name that is not listed, in its one spelling, and its value.
Result<int32_t> SchemaCompiler::further_members(const std::vector<Member>& listed, const Json& schema,
                                                const std::string& where) {
  std::vector<std::string> names;
  for (const Member& member : listed) names.push_back(spelled(member.name, Spelling::kJson));
  TextShape shape;
  shape.patterns = {""};
  shape.avoided = options_.avoided;
  WEIR_TRY(Automaton name, text_automaton(shape, builder_.work()));
  name = intersect(name, excluding(names, builder_.work()), builder_.work());
  Nfa nfa(builder_.work());
  const int32_t key = nfa.insert(nfa.literal(Nfa::kStart, "\""), name);
  const int32_t value = nfa.call(nfa.literal(key, "\":"), space()), accept = nfa.add();
  WEIR_RETURN_IF_ERROR(add_json(schema, nfa, value, accept, where + ".additionalProperties"));
  return builder_.add(nfa.determinize(accept));
}

int32_t SchemaCompiler::space() {
  int32_t& known = builder_.shared("space");
  if (known >= 0) return known;
  Nfa nfa(builder_.work());
  const int32_t accept = nfa.range(Nfa::kStart, ' ', ' ');
  nfa.link(Nfa::kStart, accept);
  int32_t at = nfa.range(Nfa::kStart, '\n', '\n');
  for (int i = 0; i < kIndentation; ++i) {
    nfa.link(at, accept);
    const int32_t next = nfa.range(at, ' ', ' ');
    nfa.range(at, '\t', '\t', next);
    at = next;
  }
  nfa.link(at, accept);
  return known = builder_.add(nfa.determinize(accept));
}

int32_t SchemaCompiler::any_value() {
  int32_t& known = builder_.shared("any value" + words_);
  if (known >= 0) return known;
  known = builder_.declare();
  const Json every = {{"type", {"object", "array", "string", "number", "boolean", "null"}}};
  Nfa nfa(builder_.work());
  const int32_t accept = nfa.add();
  // Nothing in it can be refused.
  static_cast<void>(add_types(every, Form::kJson, {nfa, Nfa::kStart, accept}, name_));
  builder_.define(known, nfa.determinize(accept));
  return known;
}

int32_t SchemaCompiler::any_object() {
  int32_t& known = builder_.shared("any object" + words_);
  if (known >= 0) return known;
  known = builder_.declare();
  const auto pair = further_members({}, Json(true), name_);
  Nfa nfa(builder_.work());
  const int32_t start = nfa.call(nfa.literal(Nfa::kStart, "{"), space()), end = nfa.add(), behind = nfa.add();
  nfa.link(start, end);
  if (pair.ok()) {
    nfa.link(nfa.call(start, *pair), behind);
    nfa.link(nfa.call(nfa.call(nfa.literal(behind, ","), space()), *pair), behind);
  }
  nfa.link(nfa.call(behind, space()), end);
  builder_.define(known, nfa.determinize(nfa.literal(end, "}")));
  return known;
}

Result<Grammar> schema_grammar(const Json& schema, const std::string& name) {
  Work work;
  GrammarBuilder builder(work);
  SchemaCompiler compiler(builder, schema, name);
  WEIR_TRY(const int32_t root, compiler.root_rule());
  return builder.finish(root);
}

}  // namespace weir::grammar
