// weir perplexity: how well a model predicts a text, and how far it is from the model it was made of.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "cli/belief_score.h"
#include "cli/engine.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/json_report.h"
#include "cli/model_folder.h"
#include "cli/options.h"
#include "cli/passages.h"
#include "cli/progress_bar.h"
#include "cli/quantity.h"
#include "cli/text_reader.h"
#include "cli/verbs.h"
#include "models/diffusion_gemma/config.h"

namespace weir::cli {
namespace {

struct Options {
  std::string file, against;
  int64_t window = 512, limit = 0;
  ModelOptions model;
  BackendOptions backend;
  bool denoise = false, json = false;
};

Report report_of(const Options& options, const BeliefScore& score, const TextReader& reader) {
  const auto count = static_cast<double>(score.tokens);
  Report out{{"tokens", score.tokens},
             {"perplexity", score.perplexity()},
             {"bytes_per_step", reader.bytes_per_step()}};
  if (options.against.empty()) return out;
  out["against"] = {{"model", options.against},
                    {"perplexity", score.reference_perplexity()},
                    {"divergence", score.divergence / count},
                    {"same_best", static_cast<double>(score.same_best) / count}};
  return out;
}

std::string text_of(const Options& options, const BeliefScore& score, const TextReader& reader) {
  const auto count = static_cast<double>(score.tokens);
  std::string text = fmt::format("perplexity {:.4f} over {} tokens; a step reads {}\n", score.perplexity(),
                                 score.tokens, size_text(reader.bytes_per_step()));
  if (options.against.empty()) return text;
  return text +
         fmt::format("against {}: its perplexity {:.4f}, divergence {:.5f} nats, same best token {:.2f} %\n",
                     options.against, score.reference_perplexity(), score.divergence / count,
                     100 * static_cast<double>(score.same_best) / count);
}

// Both models read the passage; the reference may be missing.
Status score_passage(const Passage& passage, uint32_t number, TextReader& model, TextReader* reference,
                     BeliefScore& score) {
  const std::vector<size_t> predicted = model.predicted(passage, number);
  WEIR_TRY(const auto logits, model.logits(passage, number));
  std::span<const float> others;
  if (reference != nullptr) {
    WEIR_TRY(others, reference->logits(passage, number));
    if (others.size() != logits.size()) {
      return Error{Code::kInvalidArgument, "the models do not predict the same tokens",
                   "compare a model with one of its own kind"};
    }
  }
  const auto width = static_cast<size_t>(model.vocabulary());
  for (size_t i = 0; i < predicted.size(); ++i) {
    score.add(logits.subspan(i * width, width), others.empty() ? others : others.subspan(i * width, width),
              passage.tokens[predicted[i]]);
  }
  return Ok{};
}

Result<std::unique_ptr<TextReader>> load_reference(const Options& options, const TextReader& model,
                                                   Reading reading, ThreadPool& pool) {
  if (options.against.empty()) return std::unique_ptr<TextReader>();
  WEIR_TRY(const std::string folder, model_folder(options.against));
  WEIR_TRY(auto reference, load_text_reader(folder, options.backend, reading, pool));
  if (reference->vocabulary() == model.vocabulary()) return reference;
  return Error{Code::kInvalidArgument,
               fmt::format("{} has {} tokens, and {} has {}", options.against, reference->vocabulary(),
                           options.model.model, model.vocabulary()),
               "compare a model with one of the same tokenizer"};
}

Result<int> measure(const Options& options) {
  WEIR_TRY(const std::string folder, model_folder(options.model.model));
  WEIR_TRY(const Tokenizer tokenizer, Tokenizer::load(folder + "/tokenizer.json"));
  WEIR_TRY(const Checkpoint checkpoint, Checkpoint::open(folder));
  const bool diffusion = diffusion_gemma::is_diffusion_gemma(checkpoint);
  if (options.denoise && !diffusion) {
    return Error{Code::kInvalidArgument, "--denoise has no meaning for a model that does not denoise",
                 "it belongs to DiffusionGemma, such as -m pocket-gemma"};
  }
  WEIR_TRY(const auto passages,
           read_passages(options.file, tokenizer, diffusion ? ChatLayout::kGemma : ChatLayout::kQwen,
                         static_cast<size_t>(options.window), static_cast<size_t>(options.limit)));
  const Reading reading = options.denoise ? Reading::kDenoise : Reading::kCausal;
  WEIR_TRY(const auto pool, make_pool(options.backend.chosen_threads()));
  WEIR_TRY(const auto model, load_text_reader(folder, options.backend, reading, *pool));
  WEIR_TRY(const auto reference, load_reference(options, *model, reading, *pool));

  BeliefScore score;
  const InterruptScope interrupt;
  std::optional<ProgressBar> bar("reading");
  for (size_t i = 0; i < passages.size(); ++i) {
    if (interrupt.interrupted()) return kInterrupted;
    WEIR_RETURN_IF_ERROR(
        score_passage(passages[i], static_cast<uint32_t>(i), *model, reference.get(), score));
    bar->update(i + 1, passages.size());
  }
  bar.reset();
  if (score.tokens == 0) return Error{Code::kCorrupt, options.file + " has nothing to predict", ""};
  if (options.json) return print_json(report_of(options, score, *model), false);
  return print_answer(text_of(options, score, *model));
}

}  // namespace

Verb add_perplexity(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "perplexity", "Measure how well a model predicts a text, and how far it is from another model");
  command
      ->add_option("FILE", options->file,
                   "Text, or problems in the format of GSM8K (.jsonl), whose answers count")
      ->type_name("");
  command->add_option("--against", options->against, "Model to compare with: the one it was quantised from")
      ->type_name("MODEL");
  command->add_flag(
      "--denoise", options->denoise,
      "A diffusion model reads a canvas, half of it noise, instead of one token after the other");
  add_count(*command, "--window", options->window, 2,
            "Tokens of a text that are read together; default: 512");
  add_count(*command, "--limit", options->limit, 1, "Only the first N windows or problems");
  command->add_flag("--json", options->json, "Report as one JSON object");
  options->model.add(*command);
  options->backend.add(*command);
  return {command, [options] {
            if (options->file.empty()) {
              return report({Code::kInvalidArgument, "weir perplexity needs a text",
                             "such as `weir perplexity tests/data/pocket/held_out.jsonl`"});
            }
            const auto code = measure(*options);
            return code.ok() ? *code : report(code.error());
          }};
}

}  // namespace weir::cli
