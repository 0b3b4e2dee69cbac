#include "cli/options.h"

#include <fmt/core.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <charconv>
#include <random>
#include <string_view>

#include "cli/environment.h"
#include "cli/number_option.h"
#include "cli/quantity.h"

namespace weir::cli {
namespace {

constexpr const char* kSamplingGroup = "Sampling (defaults from the model's generation_config.json)";
constexpr const char* kBackendGroup = "Machine";

constexpr int64_t kMostRows = int64_t{1} << 20;

// More threads than the CPU runs at once only wait for each other; up to 64 are allowed for trials.
int64_t most_threads() {
  return std::max(64, cpu_features().hardware_threads);
}

// Files the flag under a heading of --help and gives it its environment variable.
CLI::Option* shared(CLI::Option* option, const std::string& group) {
  return option->group(group)->envname(variable_of(option->get_lnames().front()));
}

Result<std::pair<int32_t, float>> parse_bias(std::string_view text) {
  std::pair<int32_t, float> bias;
  const size_t equals = text.find('=');
  if (equals != std::string_view::npos) {
    const char* end = text.data() + text.size();
    const auto id = std::from_chars(text.data(), text.data() + equals, bias.first);
    const auto value = std::from_chars(text.data() + equals + 1, end, bias.second);
    if (id.ec == std::errc{} && id.ptr == text.data() + equals && value.ec == std::errc{} &&
        value.ptr == end) {
      return bias;
    }
  }
  return Error{Code::kInvalidArgument, fmt::format("--logit-bias '{}' is not ID=BIAS", text),
               "a token id and a number, such as --logit-bias 42=-100; weir tokenize shows ids"};
}

uint64_t system_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace

CLI::Option* add_count(CLI::App& command, const std::string& name, int64_t& value, int64_t least,
                       const std::string& help, int64_t most) {
  return command
      .add_option_function<std::string>(
          name,
          [name, &value, least, most](const std::string& text) {
            const auto parsed = parse_quantity(text);
            if (!parsed.ok()) {
              throw CLI::ValidationError(name, parsed.error().message + "; expected " + parsed.error().hint);
            }
            if (*parsed < least) {
              throw CLI::ValidationError(name, fmt::format("{} is too small, at least {}", *parsed, least));
            }
            if (*parsed > most) {
              throw CLI::ValidationError(name, fmt::format("{} is too large, at most {}", *parsed, most));
            }
            value = *parsed;
          },
          help)
      ->type_name("N");
}

CLI::Option* add_think(CLI::App& command, std::optional<bool>& think, const std::string& help) {
  // Into an optional, CLI11's add_flag() would write false where the flag is not given.
  return command.add_flag_function(
      "--think,!--no-think", [&think](int64_t count) { think = count > 0; },
      help + "; default: as its own template does");
}

Result<uint64_t> parse_seed(std::string_view text) {
  uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, seed);
  if (read.ec == std::errc{} && read.ptr == end) return seed;
  return Error{Code::kInvalidArgument, fmt::format("'{}' is not a seed", text),
               "a whole number from 0 to 2^64 - 1"};
}

void ModelOptions::add(CLI::App& command) {
  shared(command
             .add_option("-m,--model", model,
                         "Model folder, repository id in the Hugging Face cache, or a pocket model's name")
             ->capture_default_str(),
         "Model");
}

void BackendOptions::add(CLI::App& command) {
  shared(command
             .add_option("--device", device, "cpu, cuda, or reference: plain float32 kernels, slow and exact")
             ->check(CLI::IsMember({"cpu", "reference", "cuda"}))
             ->type_name("NAME")
             ->capture_default_str(),
         kBackendGroup);
  shared(
      command.add_option("--isa", isa, "Instruction set: portable, avx2, avx512, avx512-vnni or avx512-amx")
          ->type_name("NAME"),
      kBackendGroup);
  shared(add_count(command, "--threads", threads, 1, "Threads; default: all this process may run on",
                   most_threads()),
         kBackendGroup);
  shared(add_count(command, "--chunk", chunk, 1, "Most tokens of the prompt in one pass; default: 512",
                   kMostRows),
         kBackendGroup);
}

Result<Isa> BackendOptions::chosen_isa() const {
  const CpuFeatures& cpu = cpu_features();
  if (isa.empty()) return cpu.best_isa();
  WEIR_TRY(const Isa wanted, parse_isa(isa));
  if (cpu.supports(wanted)) return wanted;
  return Error{Code::kDevice, fmt::format("this CPU ({}) does not have {}", cpu.model, isa),
               fmt::format("its best is --isa {}, which is the default", isa_name(cpu.best_isa()))};
}

int BackendOptions::chosen_threads() const {
  return threads > 0 ? static_cast<int>(threads) : cpu_features().hardware_threads;
}

void SamplingOptions::add(CLI::App& command) {
  const auto number = [&](const std::string& name, auto& target, const std::string& help) {
    shared(add_number(command, name, target, help)->type_name("X"), kSamplingGroup);
  };
  number("--temperature", temperature, "0 takes the most likely token each time");
  number("--top-k", top_k, "Keep the K most likely tokens; 0 keeps all");
  number("--top-p", top_p, "Keep the fewest tokens whose probabilities reach P");
  number("--min-p", min_p, "Keep tokens at least P times as likely as the best");
  number("--presence-penalty", presence_penalty, "Subtracted from the logits of tokens already generated");
  number("--frequency-penalty", frequency_penalty, "The same, once for each occurrence");
  number("--repetition-penalty", repetition_penalty, "Divides the logits of tokens seen; 1 is neutral");
  const auto set_seed = [this](const std::string& text) {
    const auto parsed = parse_seed(text);
    if (!parsed.ok()) throw CLI::ValidationError("--seed", parsed.error().message);
    seed = *parsed;
  };
  shared(command
             .add_option_function<std::string>("--seed", set_seed,
                                               "Repeats an answer; default: another one each time")
             ->type_name("N"),
         kSamplingGroup);
  shared(add_count(command, "--max-tokens", max_tokens, 1,
                   "Most tokens to generate; default: until the context is full"),
         kSamplingGroup);
  command.add_option("--stop", stop, "End the answer before this text; may be repeated")
      ->type_name("TEXT")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->group(kSamplingGroup);
  command.add_option("--logit-bias", logit_bias, "Add B to the logit of token ID; may be repeated")
      ->type_name("ID=B")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->group(kSamplingGroup);
}

Result<Sampling> SamplingOptions::over(Sampling sampling) const {
  sampling.temperature = temperature.value_or(sampling.temperature);
  sampling.top_k = top_k.value_or(sampling.top_k);
  sampling.top_p = top_p.value_or(sampling.top_p);
  sampling.min_p = min_p.value_or(sampling.min_p);
  sampling.presence_penalty = presence_penalty.value_or(sampling.presence_penalty);
  sampling.frequency_penalty = frequency_penalty.value_or(sampling.frequency_penalty);
  sampling.repetition_penalty = repetition_penalty.value_or(sampling.repetition_penalty);
  sampling.seed = seed ? *seed : system_seed();
  for (const std::string& text : logit_bias) {
    WEIR_TRY(const auto bias, parse_bias(text));
    sampling.logit_bias.push_back(bias);
  }
  return sampling;
}

}  // namespace weir::cli
