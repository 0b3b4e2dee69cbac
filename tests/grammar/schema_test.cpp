#include "grammar/schema.h"

#include <gtest/gtest.h>

#include "grammar_testing.h"

namespace weir::grammar {
namespace {

std::string refusal(const std::string& schema) {
  const auto grammar = schema_grammar(Json::parse(schema), "schema");
  return grammar.ok() ? "taken" : grammar.error().message;
}

bool takes(const std::string& schema, std::string_view text) {
  const auto grammar = schema_grammar(Json::parse(schema), "schema");
  EXPECT_TRUE(grammar.ok()) << schema << (grammar.ok() ? "" : grammar.error().message);
  return grammar.ok() && takes(*grammar, text);
}

TEST(Schema, KeywordsThatCannotBeEnforcedAreNamedWithTheirPlace) {
  EXPECT_EQ(refusal(R"({"properties": {"a": {"type": "array", "uniqueItems": true}}})"),
            "schema.properties.a: uniqueItems is not supported");
  for (const char* name : {"not", "if", "patternProperties", "propertyNames", "contains", "dependentRequired",
                           "minProperties", "multipleOf", "unevaluatedItems", "surprise", "$dynamicRef"}) {
    Json schema = {{"type", "object"}, {name, {{"x", 1}}}};
    EXPECT_NE(refusal(schema.dump()).find(std::string(name) + " is not supported"), std::string::npos)
        << name;
  }
  EXPECT_NE(refusal(R"({"type": "string", "format": "regex"})").find("format \"regex\""), std::string::npos);
  EXPECT_NE(refusal(R"j({"type": "string", "pattern": "(?=a)"})j").find("(? group"), std::string::npos);
  EXPECT_NE(refusal(R"({"enum": ["a"], "minLength": 1})").find("minLength beside enum"), std::string::npos);
  EXPECT_NE(refusal(R"({"$ref": "other.json"})").find("refers to nothing"), std::string::npos);
  EXPECT_EQ(
      refusal(R"({"title": "x", "default": 1, "uniqueItems": false, "minProperties": 0, "type": "object"})"),
      "taken");
}

TEST(Schema, OneOfIsTakenWhereNoValueSatisfiesTwo) {
  EXPECT_EQ(refusal(R"({"oneOf": [{"type": "string"}, {"type": "integer"}]})"), "taken");
  EXPECT_NE(refusal(R"({"oneOf": [{"type": "number"}, {"type": "integer"}]})").find("oneOf"),
            std::string::npos);
  EXPECT_EQ(refusal(R"({"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {
      "a": {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
      "b": {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]}}})"),
            "taken");
  EXPECT_NE(
      refusal(R"({"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
      {"type": "object", "properties": {"kind": {"const": "b"}}}]})")
          .find("oneOf"),
      std::string::npos);
}

TEST(Schema, SchemasWithoutAnyValueAreRefused) {
  for (const char* schema :
       {"false", R"({"enum": []})", R"({"type": "string", "minLength": 3, "maxLength": 2})",
        R"({"type": "integer", "minimum": 5, "maximum": 4})", R"({"enum": [1], "const": 2})",
        R"({"type": "array", "minItems": 2, "maxItems": 1})",
        R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
        R"({"type": "string", "pattern": "^a{3}$", "maxLength": 2})"}) {
    EXPECT_NE(refusal(schema).find("no value"), std::string::npos) << schema << refusal(schema);
  }
  EXPECT_NE(refusal(R"({"$ref": "#"})").find("itself"), std::string::npos);
  EXPECT_NE(refusal(R"({"anyOf": [{"$ref": "#"}, {"type": "string"}]})").find("itself"), std::string::npos);
  EXPECT_NE(refusal(R"({"allOf": [{"$ref": "#"}]})").find("itself"), std::string::npos);
}

TEST(Schema, HostileSchemasEndSoonWithASentence) {
  std::string deep = R"({"type": "string"})";
  for (int i = 0; i < 200; ++i) deep = R"({"anyOf": [)" + deep + R"(, {"type": "null"}]})";
  EXPECT_EQ(refusal(deep), "taken");
  EXPECT_NE(refusal(R"j({"type": "string", "pattern": "(a|b)*a(a|b){20}"})j").find("too large"),
            std::string::npos);
  EXPECT_NE(refusal(R"j({"type": "string", "pattern": "((a{1000}){1000}){1000}"})j").find("too large"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"type": "string", "pattern": "^a", "maxLength": 99999999})").find("too large"),
            std::string::npos);
  EXPECT_EQ(refusal(R"({"type": "string", "minLength": 1000000000, "maxLength": 1e300})"), "taken");
  EXPECT_EQ(refusal(R"({"type": "array", "minItems": 1000000000000})"), "taken");
  Json doubling = {{"$ref", "#/$defs/0"}};
  for (int i = 0; i < 60; ++i) {
    const std::string next = "#/$defs/" + std::to_string(i + 1);
    doubling["$defs"][std::to_string(i)] = {
        {"allOf",
         {{{"anyOf",
            {{{"$ref", next}, {"title", "x"}, {"minItems", 1}}, {{"$ref", next}, {"minItems", 2}}}}}}}};
  }
  doubling["$defs"]["60"] = {{"type", "array"}};
  EXPECT_NE(refusal(doubling.dump()), "taken");
  std::string open = "(";
  for (int i = 0; i < 10000; ++i) open += "(";
  EXPECT_NE(refusal(Json{{"type", "string"}, {"pattern", open}}.dump()), "taken");
}

TEST(Schema, NamesAndTextsAreComparedAsTheyAreRead) {
  constexpr const char* kSchema =
      R"({"type": "object", "properties": {"a\"é": {"const": "\u0001<"}}, "required": ["a\"é"],
      "additionalProperties": {"type": "integer"}})";
  EXPECT_TRUE(takes(kSchema, "{\"a\\\"é\":\"\\u0001<\"}"));
  EXPECT_TRUE(takes(kSchema, "{\"a\\\"é\": \"\\u0001<\", \"b\": 1, \"\": -20}"));
  // The same name again would count, whatever it says.
  EXPECT_FALSE(takes(kSchema, "{\"a\\\"é\":\"\\u0001<\",\"a\\\"é\":1}"));
  EXPECT_FALSE(takes(kSchema, "{\"a\\\"é\":\"\\u0001<\",\"\\u0061\\\"é\":1}"));
}

TEST(Schema, StringsAreWellFormed) {
  constexpr const char* kAny = R"({"type": "string"})";
  for (const char* text :
       {"\"\"", "\"a\\n\\/\\u00e9 \\ud83d\\ude00\"", "\"\xF0\x9F\x98\x80\xC3\xA9\xE2\x82\xAC\""}) {
    EXPECT_TRUE(takes(kAny, text)) << text;
  }
  for (const char* text :
       {"\"", "\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83dx\"", "\"\xC3\"",
        "\"\xED\xA0\x80\"", "\"\xC0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xFF\"", "'a'", "\"a\"b"}) {
    EXPECT_FALSE(takes(kAny, text)) << text;
  }
  constexpr const char* kTwo = R"({"type": "string", "minLength": 2, "maxLength": 2})";
  EXPECT_TRUE(takes(kTwo, "\"\\ud83d\\ude00\xF0\x9F\x98\x80\""));
  EXPECT_FALSE(takes(kTwo, "\"abc\""));
  EXPECT_FALSE(takes(kTwo, "\"\xF0\x9F\x98\x80\""));
}

TEST(Schema, SpaceIsBounded) {
  constexpr const char* kSchema = R"({"type": "array"})";
  EXPECT_TRUE(takes(kSchema, "[1, 2,\n    3\n]"));
  EXPECT_TRUE(takes(kSchema, "[\n]"));
  EXPECT_FALSE(takes(kSchema, "[  1]"));
  EXPECT_FALSE(takes(kSchema, "[\n\n1]"));
  EXPECT_FALSE(takes(kSchema, "[1] "));
  EXPECT_FALSE(takes(kSchema, " [1]"));
  EXPECT_FALSE(takes(kSchema, "[\n" + std::string(200, ' ') + "]"));
}

TEST(Schema, DeepValuesEndBeforeTheLimit) {
  std::string deep(30, '['), too_deep(300, '[');
  EXPECT_TRUE(takes(R"({"type": "array"})", deep + std::string(30, ']')));
  EXPECT_FALSE(takes(R"({"type": "array"})", too_deep + std::string(300, ']')));
}

}  // namespace
}  // namespace weir::grammar
