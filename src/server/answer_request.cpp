#include "server/answer_request.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <random>
#include <utility>

#include "chat/layout.h"
#include "chat/prompt_tokens.h"
#include "server/answer_form.h"

namespace weir::server {
namespace {

constexpr float kLeastTemperature = 0.01f;  // of a denoising schedule
constexpr size_t kMostStopStrings = 64;

uint64_t system_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

void read_float(Fields& fields, const char* name, float& target) {
  if (const auto given = fields.number(name)) target = static_cast<float>(*given);
}

// Any whole number of 64 bits, signed or not, is a seed of its own.
void read_seed(Fields& fields, uint64_t& seed) {
  const Json* given = fields.value("seed");
  if (given == nullptr) return;
  if (!given->is_number_integer()) {
    return fields.fail("seed", "is " + shown(*given) + ": expected a whole number of 64 bits");
  }
  seed = given->is_number_unsigned() ? given->get<uint64_t>() : static_cast<uint64_t>(given->get<int64_t>());
}

void read_logit_bias(Fields& fields, std::vector<std::pair<int32_t, float>>& biases) {
  const Json* given = fields.value("logit_bias");
  if (given == nullptr) return;
  if (!given->is_object()) {
    return fields.fail("logit_bias", "is " + shown(*given) + ": expected an object of token ids");
  }
  for (const auto& [key, bias] : given->items()) {
    int32_t token = 0;
    const char* end = key.data() + key.size();
    const auto read = std::from_chars(key.data(), end, token);
    if (read.ec != std::errc{} || read.ptr != end) {
      return fields.fail("logit_bias", "has a key that is no token id", "ids are whole numbers in quotes");
    }
    if (!bias.is_number()) {
      return fields.fail("logit_bias", "of token " + key + " is " + shown(bias) + ": expected a number");
    }
    biases.emplace_back(token, static_cast<float>(bias.get<double>()));
  }
}

void read_stop(Fields& fields, std::vector<std::string>& stop) {
  stop = fields.texts("stop");
  if (stop.size() > kMostStopStrings) {
    fields.fail("stop", "has " + std::to_string(stop.size()) + " strings: expected at most " +
                            std::to_string(kMostStopStrings));
  }
}

}  // namespace

Status add_chat_prompt(AnswerRequest& request, const ServedModel& model) {
  WEIR_TRY(const Prompt prompt, render_prompt(model.layout, request.conversation, request.prompt_options));
  WEIR_TRY(std::vector<int32_t> tokens, prompt_tokens(prompt, *model.tokenizer));
  request.prompts.push_back(std::move(tokens));
  return add_form(request, model);
}

void read_model(Fields& fields, const ServedModel& model) {
  const auto name = fields.text("model");
  if (!name || *name == model.id) return;
  if (std::find(model.aliases.begin(), model.aliases.end(), *name) != model.aliases.end()) return;
  fields.fail({Code::kNotFound, "there is no model " + shown(*name) + " here, only \"" + model.id + "\"",
               "weir serve --alias NAME gives it another name"});
}

AnswerRequest default_request(const ServedModel& model) {
  AnswerRequest request;
  request.prompt_options.enable_thinking = model.think;
  request.generation.sampling = model.defaults.sampling;
  request.generation.sampling.seed = system_seed();
  request.generation.end_tokens = model.defaults.end_tokens;
  if (model.is_diffusion) request.generation.denoising = model.defaults.denoising;
  return request;
}

void set_temperature(double temperature, const ServedModel& model, AnswerRequest& request) {
  const auto t = static_cast<float>(temperature);
  // Of a diffusion model only the range check is left to the sampling.
  request.generation.sampling.temperature = t;
  if (!model.is_diffusion) return;
  Denoising& denoising = *request.generation.denoising;
  denoising.t_max = std::max(denoising.t_max * t, kLeastTemperature);
  denoising.t_min = std::max(denoising.t_min * t, kLeastTemperature);
}

void read_sampling(Fields& fields, const ServedModel& model, AnswerRequest& request) {
  Sampling& sampling = request.generation.sampling;
  if (const auto temperature = fields.number("temperature")) set_temperature(*temperature, model, request);
  read_float(fields, "top_p", sampling.top_p);
  read_float(fields, "min_p", sampling.min_p);
  read_float(fields, "presence_penalty", sampling.presence_penalty);
  read_float(fields, "frequency_penalty", sampling.frequency_penalty);
  read_float(fields, "repetition_penalty", sampling.repetition_penalty);
  if (const auto top_k = fields.integer("top_k", -1, std::numeric_limits<int32_t>::max())) {
    sampling.top_k = static_cast<int>(*top_k);
  }
  read_seed(fields, sampling.seed);
  read_logit_bias(fields, sampling.logit_bias);
  read_stop(fields, request.generation.stop_strings);
}

void merge_system_messages(std::vector<Message>& messages) {
  const auto is_system = [](const Message& message) { return message.role == Role::kSystem; };
  const auto end = std::find_if_not(messages.begin(), messages.end(), is_system);
  if (end - messages.begin() < 2) return;
  std::string all = messages.front().content.text();
  for (auto message = messages.begin() + 1; message != end; ++message) {
    all += "\n\n" + message->content.text();
  }
  messages.front().content = MessageContent(std::move(all));
  messages.erase(messages.begin() + 1, end);
}

}  // namespace weir::server
