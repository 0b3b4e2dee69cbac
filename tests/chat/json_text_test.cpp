#include "chat/json_text.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "chat/chat_testing.h"

namespace weir {
namespace {

TEST(JsonText, PrintsFloatsAsPythonDoes) {
  const Json rows = read_json_file("tests/data/chat/python-floats.json");
  ASSERT_GT(rows.size(), 500u);
  for (const Json& row : rows) {
    const auto bits = std::stoull(row[0].get<std::string>(), nullptr, 16);
    EXPECT_EQ(python_float(std::bit_cast<double>(static_cast<uint64_t>(bits))), row[1].get<std::string>());
  }
}

TEST(JsonText, PrintsWhatIsNotANumberAsPythonDoes) {
  EXPECT_EQ(python_float(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(python_float(std::numeric_limits<double>::infinity()), "Infinity");
  EXPECT_EQ(python_float(-std::numeric_limits<double>::infinity()), "-Infinity");
}

// Expected texts: json.dumps(json.loads(text), ensure_ascii=False) in Python 3.11.
TEST(JsonText, PrintsJsonAsPythonDoes) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"b":1,"a":[true,false,null,-3,18446744073709551615],"e":{},"f":[]})",
       R"({"b": 1, "a": [true, false, null, -3, 18446744073709551615], "e": {}, "f": []})"},
      {R"([1.0,1e-5,1e16,1E3,-0.0,-0,0.1])", R"([1.0, 1e-05, 1e+16, 1000.0, -0.0, 0, 0.1])"},
      {R"("\u00e9\ud83d\ude00\u2028\u007f\u0080/\/")", "\"é\U0001F600\u2028\x7F\xC2\x80//\""},
      {R"("\u0000\u0001\b\f\n\r\t\u001f\"\\")", R"("\u0000\u0001\b\f\n\r\t\u001f\"\\")"},
      {R"({"k":1,"l":2,"k":3})", R"({"k": 3, "l": 2})"},
      {R"({"é\n":{"":[[]]}})", R"({"é\n": {"": [[]]}})"},
  };
  for (const auto& [text, expected] : cases) {
    const Result<Json> value = parse_json(text);
    ASSERT_TRUE(value.ok()) << text;
    EXPECT_EQ(python_json(*value), expected);
  }
}

TEST(JsonText, RefusesWhatIsNotJson) {
  for (const char* text : {"", " ", "{", "[1,]", "nul", "{\"a\" 1}", "1 2", "\"\xFF\"", "\"\\ud800\"",
                           "1e999", "01", "\"a", "NaN", "{'a': 1}"}) {
    const Result<Json> value = parse_json(text);
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_EQ(value.error().code, Code::kInvalidArgument);
  }
}

TEST(JsonText, ReadsNestingUpToTheLimitOnly) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  const Result<Json> deepest = parse_json(nested(kMaxJsonDepth));
  ASSERT_TRUE(deepest.ok());
  EXPECT_TRUE(check_json(*deepest, "x").ok());
  EXPECT_FALSE(parse_json(nested(kMaxJsonDepth + 1)).ok());
  EXPECT_FALSE(parse_json(std::string(1000000, '[')).ok());
  EXPECT_FALSE(parse_json(std::string(1000000, '{')).ok());
  EXPECT_TRUE(parse_json(python_json(Json(std::string(1000, '[') + "\"" + std::string(1000, '[')))).ok());
  Json deeper = Json::array();
  deeper.push_back(*deepest);
  const Status status = check_json(deeper, "tools[0]");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "tools[0] nests deeper than 256 levels.");
}

TEST(JsonText, ReadsObjectsOfManyMembersUpToTheLimitOnly) {
  const auto object = [](int members) {
    std::string text = "{";
    for (int i = 0; i < members; ++i) {
      text += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":\"a:b:c\"";
    }
    return text + "}";
  };
  const Result<Json> many = parse_json(object(20000));
  ASSERT_TRUE(many.ok());
  EXPECT_EQ(many->size(), 20000u);
  const Result<Json> more = parse_json(object(24000));
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().message,
            "The JSON text has objects of too many members: one may have about 23,000.");
  EXPECT_FALSE(parse_json("[" + object(20000) + "," + object(20000) + "]").ok());

  std::string small = "[{\"a\":1}";
  for (int i = 0; i < 100000; ++i) small += ",{\"a\":1,\"b\":{\"c\":2}}";
  EXPECT_TRUE(parse_json(small + "]").ok());
  EXPECT_FALSE(parse_json(std::string(1000000, ':')).ok());
}

TEST(JsonText, FindsInvalidUtf8InValuesAndKeys) {
  EXPECT_FALSE(check_json(Json("\xC3"), "x").ok());
  EXPECT_FALSE(check_json(Json::array({1, Json::array({"\xFF"})}), "x").ok());
  Json key;
  key["\xED\xA0\x80"] = 1;
  EXPECT_FALSE(check_json(key, "x").ok());
  EXPECT_TRUE(check_json(Json("é\U0001F600"), "x").ok());
}

}  // namespace
}  // namespace weir
