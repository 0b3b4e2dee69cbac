#include "chat/tool_schema.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

// The value that "text" has for a parameter with this schema, printed.
std::string converted(const char* schema, std::string_view text) {
  Json definition = Json::parse(R"({"function": {"name": "f", "parameters": {"properties": {}}}})");
  definition["function"]["parameters"]["properties"]["p"] = Json::parse(schema);
  return python_json(convert_argument(text, argument_types({{"f", definition}}, "f", "p")));
}

TEST(ToolSchema, KeepsStringsAsTheyAre) {
  for (const char* text : {"", " x ", "12", "true", "null", "{\"a\": 1}", "\n"}) {
    EXPECT_EQ(converted(R"({"type": "string"})", text), python_json(Json(text)));
    EXPECT_EQ(converted(R"({"enum": ["a", "b"]})", text), python_json(Json(text)));
  }
  EXPECT_EQ(converted(R"({"type": ["string", "integer"]})", "12"), "\"12\"");
}

TEST(ToolSchema, ReadsNumbers) {
  EXPECT_EQ(converted(R"({"type": "integer"})", "12"), "12");
  EXPECT_EQ(converted(R"({"type": "integer"})", " -3\n"), "-3");
  EXPECT_EQ(converted(R"({"type": "integer"})", "2.5"), "\"2.5\"");
  EXPECT_EQ(converted(R"({"type": "integer"})", "twelve"), "\"twelve\"");
  EXPECT_EQ(converted(R"({"type": "integer"})", ""), "\"\"");
  EXPECT_EQ(converted(R"({"type": "integer"})", "123456789012345678901234567890"),
            "\"123456789012345678901234567890\"");
  EXPECT_EQ(converted(R"({"type": "number"})", "2.50"), "2.5");
  EXPECT_EQ(converted(R"({"type": "number"})", "7"), "7");
  EXPECT_EQ(converted(R"({"type": "number"})", "1e999"), "\"1e999\"");
  EXPECT_EQ(converted(R"({"enum": [1, 2]})", "2"), "2");
  EXPECT_EQ(converted(R"({"const": 1.5})", "1.5"), "1.5");
}

TEST(ToolSchema, ReadsBooleansByTheWordTrue) {
  EXPECT_EQ(converted(R"({"type": "boolean"})", "true"), "true");
  EXPECT_EQ(converted(R"({"type": "boolean"})", "True"), "true");
  EXPECT_EQ(converted(R"({"type": "boolean"})", "TRUE\n"), "true");
  EXPECT_EQ(converted(R"({"type": "boolean"})", "false"), "false");
  EXPECT_EQ(converted(R"({"type": "boolean"})", "1"), "false");
  EXPECT_EQ(converted(R"({"type": "boolean"})", "yes"), "false");
}

TEST(ToolSchema, ReadsObjectsAndArrays) {
  EXPECT_EQ(converted(R"({"type": "object"})", R"({"b": 1, "a": [null]})"), R"({"b": 1, "a": [null]})");
  EXPECT_EQ(converted(R"({"type": "array"})", "[1,2]"), "[1, 2]");
  EXPECT_EQ(converted(R"({"type": "array"})", "[1,2"), "\"[1,2\"");
  EXPECT_EQ(converted(R"({"type": "array"})", "3"), "\"3\"");
  const std::string deep(100000, '[');
  EXPECT_EQ(converted(R"({"type": "array"})", deep), "\"" + deep + "\"");
}

TEST(ToolSchema, ReadsNullUnlessOnlyTextIsAdmitted) {
  EXPECT_EQ(converted(R"({"type": "integer"})", "null"), "null");
  EXPECT_EQ(converted(R"({"type": "object"})", " null "), "null");
  EXPECT_EQ(converted(R"({})", "null"), "null");
  EXPECT_EQ(converted(R"({"type": ["string", "null"]})", "null"), "null");
  EXPECT_EQ(converted(R"({"type": "string", "nullable": true})", "null"), "null");
  EXPECT_EQ(converted(R"({"anyOf": [{"type": "string"}, {"type": "null"}]})", "null"), "null");
  EXPECT_EQ(converted(R"({"type": ["string", "null"]})", "None"), "\"None\"");
}

TEST(ToolSchema, TriesEveryAdmittedType) {
  const char* schema = R"({"oneOf": [{"type": "integer"}, {"type": ["boolean", "array"]}]})";
  EXPECT_EQ(converted(schema, "4"), "4");
  EXPECT_EQ(converted(schema, "[4]"), "[4]");
  EXPECT_EQ(converted(schema, "true"), "true");
  EXPECT_EQ(converted(schema, "four"), "false");
}

TEST(ToolSchema, KeepsTextWhereTheSchemaSaysNothing) {
  for (const char* schema :
       {"{}", "true", "[]", "3", R"({"type": 7})", R"({"type": "any"})", R"({"anyOf": 1})"}) {
    EXPECT_EQ(converted(schema, "12"), "\"12\"") << schema;
  }
  const Tool hollow[] = {{"f", Json()},
                         {"f", Json::parse(R"({"function": 1})")},
                         {"f", Json::parse(R"({"function": {"parameters": null}})")},
                         {"f", Json::parse(R"({"function": {"parameters": {"properties": [1]}}})")}};
  for (const Tool& tool : hollow) EXPECT_FALSE(argument_types({tool}, "f", "p").known());
  EXPECT_FALSE(argument_types({}, "f", "p").known());
}

}  // namespace
}  // namespace weir
