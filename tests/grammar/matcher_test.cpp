#include <gtest/gtest.h>

#include "grammar_testing.h"

namespace weir::grammar {
namespace {

Grammar grammar_of(const std::string& schema) {
  auto grammar = schema_grammar(Json::parse(schema), "schema");
  EXPECT_TRUE(grammar.ok()) << (grammar.ok() ? "" : grammar.error().message);
  return *std::move(grammar);
}

std::shared_ptr<const TokenGrammar> in_tokens(const std::string& schema) {
  return *TokenGrammar::make(grammar_of(schema), pocket_vocabulary());
}

constexpr const char* kSchemas[] = {
    R"({"type": "object"})",
    R"({"type": "array", "items": {"enum": ["alpha", "beta", 1, null, [1, {"a": 2}]]}, "minItems": 1, "maxItems": 3})",
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 7}, "n": {"type": "integer",
        "minimum": -3, "maximum": 250}, "name2": {"type": ["number", "null"]}}, "required": ["n"]})",
    R"({"type": "string", "pattern": "^[a-z\u00e9\"]{2,5}(-[0-9]+)?$"})",
    R"({"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties": {"v": {"type": "boolean"}, "next":
        {"anyOf": [{"$ref": "#/$defs/t"}, {"type": "null"}]}}, "required": ["v", "next"]}}})"};

// The tokens that may follow the text, each tried byte by byte.
std::vector<int32_t> tried_one_by_one(const Grammar& grammar, const std::string& text) {
  const Tokenizer& tokenizer = pocket_vocabulary()->tokenizer();
  Configurations alone(grammar);
  int32_t here = alone.start();
  for (const char c : text) here = alone.after(here, static_cast<unsigned char>(c));
  std::vector<int32_t> expected;
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    int32_t at = tokenizer.is_added(token) ? Configurations::kNone : here;
    for (const char c : tokenizer.token_bytes(token)) {
      if (at != Configurations::kNone) at = alone.after(at, static_cast<unsigned char>(c));
    }
    if (at != Configurations::kNone || (token == kPocketEnd && alone.complete(here)))
      expected.push_back(token);
  }
  return expected;
}

// Answers of drawn tokens, of which long ones are likelier: they come near the bounds of counts sooner.
void expect_exact_masks(const std::string& schema, std::mt19937_64& random, int answers, int most_tokens) {
  const Tokenizer& tokenizer = pocket_vocabulary()->tokenizer();
  const Grammar grammar = grammar_of(schema);
  const auto shared = in_tokens(schema);
  for (int answer = 0; answer < answers; ++answer) {
    TokenMatcher matcher(shared, {kPocketEnd});
    std::string text;
    for (int step = 0; step < most_tokens; ++step) {
      const auto allowed = tokens_of(matcher.allowed());
      ASSERT_FALSE(allowed.empty()) << text;
      ASSERT_EQ(allowed, tried_one_by_one(grammar, text)) << schema << " after " << text;
      int32_t token = allowed[random() % allowed.size()];
      for (int draw = 0; draw < 2; ++draw) {
        const int32_t other = allowed[random() % allowed.size()];
        if (tokenizer.token_bytes(other).size() > tokenizer.token_bytes(token).size()) token = other;
      }
      if (token == kPocketEnd) break;
      ASSERT_TRUE(matcher.accept(token));
      text += tokenizer.token_bytes(token);
    }
  }
}

TEST(TokenMatcher, AMaskHoldsTheTokensWhoseBytesGoOnOneByOne) {
  std::mt19937_64 random(7);
  for (const char* schema : kSchemas) expect_exact_masks(schema, random, 6, 40);
}

// Counts far from their bounds share masks. Strings and arrays with drawn bounds, in each other and side by
// side, where alternatives have different counts for one text.
Json drawn_schema(std::mt19937_64& random, int depth) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
  const auto bounds = [&](const char* least, const char* most, int largest) {
    Json schema = Json::object();
    const int a = below(largest), b = below(largest);
    if (below(3) > 0) schema[least] = std::min(a, b);
    if (below(3) > 0) schema[most] = std::max(a, b);
    return schema;
  };
  const int kind = depth == 0 ? 0 : below(4);
  if (kind == 0) {
    Json schema = bounds("minLength", "maxLength", 70);
    schema["type"] = "string";
    return schema;
  }
  if (kind == 1) return {{"anyOf", {drawn_schema(random, depth - 1), drawn_schema(random, depth - 1)}}};
  Json schema = bounds("minItems", "maxItems", 40);
  schema["type"] = "array";
  schema["items"] = kind == 2 ? Json{{"enum", {1, 23, ""}}} : drawn_schema(random, depth - 1);
  return schema;
}

TEST(TokenMatcher, AMaskIsExactWhereverCountsAre) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 60; ++i) {
    const std::string schema = drawn_schema(random, 3).dump();
    SCOPED_TRACE(schema);
    expect_exact_masks(schema, random, 2, 60);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(TokenMatcher, TokensThatMayNotFollowChangeNothing) {
  TokenMatcher matcher(in_tokens(R"({"const": "ab"})"), {kPocketEnd});
  const Tokenizer& tokenizer = pocket_vocabulary()->tokenizer();
  EXPECT_FALSE(matcher.accept(*tokenizer.find("x")));
  EXPECT_FALSE(matcher.accept(kPocketEnd));
  EXPECT_FALSE(matcher.accept(*tokenizer.find("<think>")));
  EXPECT_FALSE(matcher.accept(-1));
  EXPECT_FALSE(matcher.accept(1 << 30));
  for (const char* token : {"\"", "a", "b", "\""})
    EXPECT_TRUE(matcher.accept(*tokenizer.find(token))) << token;
  EXPECT_TRUE(matcher.complete());
  EXPECT_EQ(tokens_of(matcher.allowed()), std::vector<int32_t>{kPocketEnd});
}

TEST(TokenMatcher, MarkersStandForThemselvesAndNotForTheirLetters) {
  Work work;
  GrammarBuilder builder(work);
  Nfa nfa(work);
  const int32_t end = nfa.literal(nfa.marker(Nfa::kStart, builder.marker("<think>")), "x");
  auto grammar = builder.finish(builder.add(nfa.determinize(end)));
  ASSERT_TRUE(grammar.ok());
  const auto shared = TokenGrammar::make(*std::move(grammar), pocket_vocabulary());
  ASSERT_TRUE(shared.ok());
  const int32_t marker = *pocket_vocabulary()->tokenizer().find("<think>");
  TokenMatcher matcher(*shared, {});
  EXPECT_EQ(tokens_of(matcher.allowed()), std::vector<int32_t>{marker});
  EXPECT_TRUE(matcher.accept(marker));
  EXPECT_TRUE(matcher.accept(*pocket_vocabulary()->tokenizer().find("x")));
  EXPECT_TRUE(matcher.complete());
}

TEST(TokenMatcher, LongAnswersForgetOldConfigurationsAndGoOn) {
  TokenMatcher matcher(in_tokens(R"({"type": "string", "maxLength": 100000})"), {kPocketEnd});
  const Tokenizer& tokenizer = pocket_vocabulary()->tokenizer();
  ASSERT_TRUE(matcher.accept(*tokenizer.find("\"")));
  const int32_t a = *tokenizer.find("a");
  for (int i = 0; i < 99999; ++i) ASSERT_TRUE(matcher.accept(a)) << i;
  EXPECT_EQ(tokens_of(matcher.allowed()).empty(), false);
  EXPECT_TRUE(matcher.accept(a));
  EXPECT_EQ(tokens_of(matcher.allowed()), std::vector<int32_t>{*tokenizer.find("\"")});
}

// Alternatives that begin alike double with each level; only so many are followed, and none leads astray.
TEST(TokenMatcher, AlternativesThatMultiplyStayWithinBounds) {
  const auto shared = in_tokens(R"({"$ref": "#/$defs/t", "$defs": {"t": {"anyOf": [
      {"type": "array", "items": {"$ref": "#/$defs/t"}}, {"type": "array", "items": {"$ref": "#/$defs/t"}, "maxItems": 9},
      {"type": "array", "items": {"$ref": "#/$defs/t"}, "maxItems": 8}, {"const": 1}]}}})");
  const int32_t bracket = *pocket_vocabulary()->tokenizer().find("[");
  TokenMatcher matcher(shared, {kPocketEnd});
  int depth = 0;
  while (depth < 500 && matcher.accept(bracket)) ++depth;
  EXPECT_GT(depth, 5);
  EXPECT_LT(depth, 100);
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000 && !matcher.complete(); ++i) {
    const auto tokens = tokens_of(matcher.allowed());
    ASSERT_FALSE(tokens.empty());
    ASSERT_TRUE(matcher.accept(*pocket_vocabulary()->tokenizer().find(i == 0 ? "1" : "]")));
  }
  EXPECT_TRUE(matcher.complete());
}

}  // namespace
}  // namespace weir::grammar
