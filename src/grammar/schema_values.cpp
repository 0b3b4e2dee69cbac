// How the values of each type are written.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "grammar/formats.h"
#include "grammar/number_range.h"
#include "grammar/pattern.h"
#include "grammar/schema.h"
#include "grammar/schema_parts.h"

namespace weir::grammar {
namespace {

constexpr int64_t kMostCount = int64_t{1} << 40;
constexpr int kIndentation = 80;

}  // namespace

Result<int64_t> SchemaCompiler::count(const Json& schema, const char* name, int64_t otherwise,
                                      const std::string& where) {
  const Json* given = keyword(schema, name);
  if (given == nullptr) return otherwise;
  if (!is_of_type(*given, "integer") || *given < 0)
    return invalid_schema(fmt::format("{}.{} is no count", where, name));
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
    if (!pattern->is_string()) return invalid_schema(where + ".pattern is no string");
    const std::string& text = pattern->get_ref<const std::string&>();
    // Compiled again with the rest; here only what it says is checked.
    if (auto compiled = pattern_automaton(text, shape.spelling, builder_.work()); compiled.ok()) {
      shape.patterns.push_back(text);
    } else if (compiled.error().code == Code::kInvalidArgument) {
      return invalid_schema(where + ": " + compiled.error().message);
    } else {
      WEIR_RETURN_IF_ERROR(cannot(where, compiled.error().message));
    }
  }
  const Json* format = keyword(schema, "format");
  if (format == nullptr) return shape;
  if (!format->is_string()) return invalid_schema(where + ".format is no string");
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
    if (!given->is_number()) return invalid_schema(fmt::format("{}.{} is no number", where, name));
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
  if (first != nullptr && !first->is_array()) return invalid_schema(where + ".prefixItems is no array");
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

}  // namespace weir::grammar
