#include "checkpoint/json_fields.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "expect_error.h"

namespace weir {
namespace {

using nlohmann::json;
using testing::expect_error;

constexpr const char* kWhere = "folder/config.json";

json sample() {
  return json::parse(R"({"int": 7, "big": 18446744073709551615, "negative": -3, "real": 0.25, "flag": true,
      "text": "silu", "nothing": null, "list": [1, 2, 3], "words": ["a", "b"], "mixed": [1, "two"], "object": {"k": 1}})");
}

TEST(JsonFields, ReadsValuesInRange) {
  const json object = sample();
  EXPECT_EQ(*json_int(object, "int", 0, 7, kWhere), 7);
  EXPECT_EQ(*json_int(object, "negative", -3, 0, kWhere), -3);
  EXPECT_EQ(*json_double(object, "real", 0, 1, kWhere), 0.25);
  EXPECT_EQ(*json_double(object, "int", 0, 10, kWhere), 7.0);
  EXPECT_EQ(*json_bool(object, "flag", kWhere), true);
  EXPECT_EQ(*json_string(object, "text", kWhere), "silu");
  EXPECT_EQ(*json_ints(object, "list", 1, 3, kWhere), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(*json_ints(object, "int", 1, 7, kWhere), (std::vector<int64_t>{7}));
  EXPECT_EQ(*json_strings(object, "words", kWhere), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ((**json_object(object, "object", kWhere))["k"], 1);
}

TEST(JsonFields, IntegersOutOfRangeNameFileKeyValueAndRange) {
  const json object = sample();
  expect_error(json_int(object, "int", 8, 100, kWhere), Code::kCorrupt,
               {kWhere, "'int'", "7", "from 8 to 100"});
  expect_error(json_int(object, "big", 0, std::numeric_limits<int64_t>::max(), kWhere), Code::kCorrupt,
               {kWhere, "'big'", "18446744073709551615"});
  expect_error(json_int(object, "negative", 0, 5, kWhere), Code::kCorrupt, {kWhere, "'negative'", "-3"});
  expect_error(json_double(object, "real", 0.5, 1, kWhere), Code::kCorrupt,
               {kWhere, "'real'", "0.25", "0.5"});
}

TEST(JsonFields, WrongKindsAreErrors) {
  const json object = sample();
  expect_error(json_int(object, "real", 0, 5, kWhere), Code::kCorrupt, {"'real' is 0.25"});
  expect_error(json_int(object, "flag", 0, 5, kWhere), Code::kCorrupt, {"'flag' is true"});
  expect_error(json_double(object, "text", 0, 5, kWhere), Code::kCorrupt, {"'text' is 'silu'"});
  expect_error(json_bool(object, "int", kWhere), Code::kCorrupt, {"'int' is 7", "true or false"});
  expect_error(json_string(object, "object", kWhere), Code::kCorrupt, {"'object' is an object", "a string"});
  expect_error(json_ints(object, "mixed", 0, 5, kWhere), Code::kCorrupt, {"item 1 of 'mixed'", "'two'"});
  expect_error(json_ints(object, "list", 0, 2, kWhere), Code::kCorrupt, {"item 2 of 'list' is 3"});
  expect_error(json_ints(object, "text", 0, 2, kWhere), Code::kCorrupt, {"'text'"});
  expect_error(json_strings(object, "mixed", kWhere), Code::kCorrupt, {"item 0 of 'mixed'"});
  expect_error(json_object(object, "list", kWhere), Code::kCorrupt, {"'list' is a list"});
  expect_error(json_int(object, "nothing", 0, 5, kWhere), Code::kCorrupt, {"'nothing' is null"});
}

TEST(JsonFields, AbsentKeysAreErrorsAndNonObjectsToo) {
  expect_error(json_int(sample(), "absent", 0, 5, kWhere), Code::kCorrupt, {kWhere, "'absent' is missing"});
  expect_error(json_int(json(3), "key", 0, 5, kWhere), Code::kCorrupt, {kWhere, "'key'"});
}

TEST(JsonFields, DefaultsStandInForAbsentAndNullOnly) {
  const json object = sample();
  EXPECT_EQ(*json_int_or(object, "absent", 0, 5, kWhere, 4), 4);
  EXPECT_EQ(*json_int_or(object, "nothing", 0, 5, kWhere, 4), 4);
  EXPECT_EQ(*json_int_or(object, "int", 0, 9, kWhere, 4), 7);
  EXPECT_EQ(*json_double_or(object, "absent", 0, 5, kWhere, 1.5), 1.5);
  EXPECT_EQ(*json_bool_or(object, "absent", kWhere, true), true);
  EXPECT_EQ(*json_string_or(object, "absent", kWhere, "x"), "x");
  expect_error(json_int_or(object, "text", 0, 5, kWhere, 4), Code::kCorrupt, {"'text'"});
  EXPECT_TRUE(json_has(object, "int"));
  EXPECT_FALSE(json_has(object, "nothing"));
  EXPECT_FALSE(json_has(json(1), "int"));
}

TEST(JsonFields, BrokenTextIsAnErrorWithoutAnException) {
  for (const char* text : {"", "{", "{\"a\":}", "nul", "[1,]", "{\"\xff\":1}", "1e999", "{} {}"}) {
    expect_error(parse_json(text, kWhere), Code::kCorrupt, {kWhere, "not JSON"});
  }
}

TEST(JsonFields, NestingIsLimited) {
  EXPECT_TRUE(parse_json(std::string(64, '[') + std::string(64, ']'), kWhere).ok());
  for (const int depth : {65, 100'000, 2'000'000}) {
    const auto levels = static_cast<size_t>(depth);
    expect_error(parse_json(std::string(levels, '[') + std::string(levels, ']'), kWhere), Code::kCorrupt,
                 {kWhere, "64 levels"});
    expect_error(parse_json(std::string(levels, '['), kWhere), Code::kCorrupt, {kWhere});
  }
}

}  // namespace
}  // namespace weir
