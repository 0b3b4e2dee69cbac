#include "generate/sampling.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

namespace weir {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Sampling, DefaultsAndTheEdgesOfEveryRangeAreValid) {
  EXPECT_TRUE(validate({}, 10).ok());
  Sampling low{0, 0, 0, 0, -2, -2, 0.01f, {{0, -100.0f}}, 0};
  EXPECT_TRUE(validate(low, 10).ok());
  Sampling high{100, 1 << 30, 1, 1, 2, 2, 100, {{9, 100.0f}}, ~uint64_t{0}};
  EXPECT_TRUE(validate(high, 10).ok());
  low.top_k = -1;
  EXPECT_TRUE(validate(low, 10).ok());
}

TEST(Sampling, RefusesEveryFieldOutsideItsRangeByName) {
  struct Case {
    const char* field;
    std::function<void(Sampling&)> change;
  };
  const Case cases[] = {
      {"temperature", [](Sampling& s) { s.temperature = -0.1f; }},
      {"temperature", [](Sampling& s) { s.temperature = 101; }},
      {"temperature", [](Sampling& s) { s.temperature = kNan; }},
      {"temperature", [](Sampling& s) { s.temperature = kInfinity; }},
      {"top_k", [](Sampling& s) { s.top_k = -2; }},
      {"top_p", [](Sampling& s) { s.top_p = 1.01f; }},
      {"top_p", [](Sampling& s) { s.top_p = kNan; }},
      {"min_p", [](Sampling& s) { s.min_p = -0.01f; }},
      {"presence_penalty", [](Sampling& s) { s.presence_penalty = 2.5f; }},
      {"frequency_penalty", [](Sampling& s) { s.frequency_penalty = -kInfinity; }},
      {"repetition_penalty", [](Sampling& s) { s.repetition_penalty = 0; }},
      {"repetition_penalty", [](Sampling& s) { s.repetition_penalty = kNan; }},
      {"logit_bias of token 3",
       [](Sampling& s) {
         s.logit_bias = {{3, 100.5f}};
       }},
      {"logit_bias names token 10",
       [](Sampling& s) {
         s.logit_bias = {{10, 1}};
       }},
      {"logit_bias names token -1",
       [](Sampling& s) {
         s.logit_bias = {{-1, 1}};
       }},
  };
  for (const Case& c : cases) {
    Sampling sampling;
    c.change(sampling);
    const Status status = validate(sampling, 10);
    ASSERT_FALSE(status.ok()) << c.field;
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_NE(status.error().message.find(c.field), std::string::npos) << status.error().message;
  }
}

TEST(Sampling, TheErrorTellsValueAndRange) {
  Sampling sampling;
  sampling.temperature = -1.5f;
  EXPECT_EQ(validate(sampling, 10).error().message, "temperature is -1.5, but must be from 0 to 100");
}

}  // namespace
}  // namespace weir
