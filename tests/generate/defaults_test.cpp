#include "generate/defaults.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace weir {
namespace {

using Ids = std::vector<int32_t>;

class Defaults : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("weir_defaults_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const char* name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  Result<GenerationDefaults> read() { return read_generation_defaults(folder_.string()); }

  std::filesystem::path folder_;
};

TEST_F(Defaults, ReadsEveryFieldOfGenerationConfig) {
  write("generation_config.json", R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
        "min_p": 0.05, "repetition_penalty": 1.1, "eos_token_id": [7, 3, 7], "pad_token_id": null,
        "transformers_version": "5.0"})");
  write("config.json", R"({"eos_token_id": 99})");
  const auto defaults = read();
  ASSERT_TRUE(defaults.ok()) << defaults.error().message;
  EXPECT_EQ(defaults->sampling.temperature, 0.6f);
  EXPECT_EQ(defaults->sampling.top_k, 20);
  EXPECT_EQ(defaults->sampling.top_p, 0.95f);
  EXPECT_EQ(defaults->sampling.min_p, 0.05f);
  EXPECT_EQ(defaults->sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(defaults->end_tokens, (Ids{3, 7}));
}

TEST_F(Defaults, DoSampleFalseIsGreedyWhateverTheTemperature) {
  write("generation_config.json", R"({"do_sample": false, "temperature": 0.6, "eos_token_id": 5})");
  const auto defaults = read();
  ASSERT_TRUE(defaults.ok()) << defaults.error().message;
  EXPECT_EQ(defaults->sampling.temperature, 0);
  EXPECT_EQ(defaults->end_tokens, (Ids{5}));
}

TEST_F(Defaults, WithoutGenerationConfigTheEndTokensOfBothLevelsOfConfigCount) {
  write("config.json", R"({"eos_token_id": [4, 2], "text_config": {"eos_token_id": 1}})");
  const auto defaults = read();
  ASSERT_TRUE(defaults.ok()) << defaults.error().message;
  EXPECT_EQ(defaults->sampling.temperature, 1);
  EXPECT_EQ(defaults->sampling.top_k, 0);
  EXPECT_EQ(defaults->end_tokens, (Ids{1, 2, 4}));
}

TEST_F(Defaults, NullCountsAsAbsent) {
  write("generation_config.json", R"({"temperature": null, "top_k": null, "eos_token_id": null})");
  write("config.json", R"({"eos_token_id": null, "text_config": {"eos_token_id": 1}})");
  const auto defaults = read();
  ASSERT_TRUE(defaults.ok()) << defaults.error().message;
  EXPECT_EQ(defaults->sampling.temperature, 1);
  EXPECT_EQ(defaults->end_tokens, (Ids{1}));
}

TEST_F(Defaults, ReadsThePocketModel) {
  const char* folder = "../shared/models/pocket-qwen/mlx-4bit";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "the pocket models are not beside the project";
  const auto defaults = read_generation_defaults(folder);
  ASSERT_TRUE(defaults.ok()) << defaults.error().message;
  EXPECT_EQ(defaults->sampling.top_k, 20);
  EXPECT_EQ(defaults->end_tokens, (Ids{1355, 1357}));
}

TEST_F(Defaults, AFieldOfTheWrongKindOrSizeIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"temperature": "hot"})", "temperature"},
      {R"({"temperature": -1})", "temperature"},
      {R"({"temperature": 1e300})", "temperature"},
      {R"({"temperature": [1]})", "temperature"},
      {R"({"top_p": 1.5})", "top_p"},
      {R"({"top_p": true})", "top_p"},
      {R"({"min_p": {}})", "min_p"},
      {R"({"top_k": 20.5})", "top_k"},
      {R"({"top_k": 4294967296})", "top_k"},
      {R"({"top_k": -2})", "top_k"},
      {R"({"repetition_penalty": 0})", "repetition_penalty"},
      {R"({"do_sample": 1})", "do_sample"},
      {R"({"eos_token_id": -1})", "eos_token_id"},
      {R"({"eos_token_id": 2147483648})", "eos_token_id"},
      {R"({"eos_token_id": 18446744073709551615})", "eos_token_id"},
      {R"({"eos_token_id": "2"})", "eos_token_id"},
      {R"({"eos_token_id": [1, [2]]})", "eos_token_id"},
      {R"({"eos_token_id": {"id": 2}})", "eos_token_id"},
  };
  write("config.json", "{}");
  for (const auto& [text, field] : cases) {
    write("generation_config.json", text);
    const auto defaults = read();
    ASSERT_FALSE(defaults.ok()) << text;
    EXPECT_EQ(defaults.error().code, Code::kCorrupt) << text;
    EXPECT_NE(defaults.error().message.find(field), std::string::npos) << defaults.error().message;
    EXPECT_NE(defaults.error().message.find("generation_config.json"), std::string::npos);
  }
}

TEST_F(Defaults, AFileThatIsNoJsonObjectIsCorrupt) {
  write("config.json", "{}");
  const std::string deep = std::string(100000, '[');
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), std::string("\xff\xfe"),
        std::string("{\"top_k\": 1}}"), std::string("{\"top_k\":\0 1}", 13), deep}) {
    write("generation_config.json", text);
    const auto defaults = read();
    ASSERT_FALSE(defaults.ok()) << text.substr(0, 40);
    EXPECT_EQ(defaults.error().code, Code::kCorrupt);
  }
}

TEST_F(Defaults, ABrokenConfigIsAnErrorWhenItsEndTokensAreNeeded) {
  EXPECT_EQ(read().error().code, Code::kNotFound);
  write("config.json", R"({"text_config": 5})");
  EXPECT_EQ(read().error().code, Code::kCorrupt);
  write("config.json", R"({"text_config": {"eos_token_id": "x"}})");
  EXPECT_EQ(read().error().code, Code::kCorrupt);
}

TEST_F(Defaults, AGenerationConfigThatCannotBeOpenedIsNotTakenForAMissingOne) {
  write("config.json", R"({"eos_token_id": 1})");
  std::filesystem::create_symlink(folder_ / "nowhere", folder_ / "generation_config.json");
  EXPECT_FALSE(read().ok());
}

}  // namespace
}  // namespace weir
