#include "generate/sampling.h"

#include <fmt/format.h>

namespace weir {
namespace {

Error out_of_range(const char* field, double value, const std::string& range) {
  return Error{Code::kInvalidArgument, fmt::format("{} is {:g}, but must be {}", field, value, range), ""};
}

// False for NaN too.
bool within(float value, float min, float max) {
  return value >= min && value <= max;
}

struct Field {
  const char* name;
  float value;
  float min;
  float max;
};

Status validate_biases(const Sampling& sampling, int64_t vocabulary) {
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (token < 0 || token >= vocabulary) {
      return Error{
          Code::kInvalidArgument,
          fmt::format("logit_bias names token {}, but the model's tokens are 0 to {}", token, vocabulary - 1),
          ""};
    }
    if (!within(bias, -100, 100)) {
      return out_of_range(fmt::format("logit_bias of token {}", token).c_str(), bias, "from -100 to 100");
    }
  }
  return Ok{};
}

}  // namespace

bool has_penalties(const Sampling& sampling) {
  return sampling.presence_penalty != 0 || sampling.frequency_penalty != 0 ||
         sampling.repetition_penalty != 1;
}

Status validate(const Sampling& sampling, int64_t vocabulary) {
  const Field fields[] = {
      {"temperature", sampling.temperature, 0, 100},
      {"top_p", sampling.top_p, 0, 1},
      {"min_p", sampling.min_p, 0, 1},
      {"presence_penalty", sampling.presence_penalty, -2, 2},
      {"frequency_penalty", sampling.frequency_penalty, -2, 2},
      {"repetition_penalty", sampling.repetition_penalty, 0.01f, 100},
  };
  for (const Field& field : fields) {
    if (!within(field.value, field.min, field.max)) {
      return out_of_range(field.name, field.value, fmt::format("from {:g} to {:g}", field.min, field.max));
    }
  }
  if (sampling.top_k < -1) {
    return out_of_range("top_k", sampling.top_k, "a number of tokens, or 0 or -1 to keep all");
  }
  return validate_biases(sampling, vocabulary);
}

}  // namespace weir
