// weir quantize: a bfloat16 checkpoint in few bits, in MLX's layout.
#include "checkpoint/quantize.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/quantize_plan.h"
#include "cli/engine.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/model_folder.h"
#include "cli/options.h"
#include "cli/passages.h"
#include "cli/progress_bar.h"
#include "cli/quantity.h"
#include "cli/terminal.h"
#include "cli/text_reader.h"
#include "cli/verbs.h"

namespace weir::cli {
namespace {

struct Options {
  std::string in, out;
  int bits = 4, group = 64;
  std::string recipe, calibrate;
  bool search = false;
  int64_t threads = 0;
};

// A checkpoint of 40 layers has hundreds of modules that stay plain for one reason.
void tell_notes(const std::vector<std::string>& notes) {
  constexpr size_t kShown = 3;
  for (size_t i = 0; i < std::min(notes.size(), kShown); ++i) tell(fmt::format("note: {}\n", notes[i]));
  if (notes.size() > kShown) tell(fmt::format("note: the same of {} more\n", notes.size() - kShown));
}

// Lets the unquantised model read the text.
Result<Importance> calibrate(const Options& options, ModelFamily family, ThreadPool& pool) {
  WEIR_TRY(const std::string folder, model_folder(options.in));
  WEIR_TRY(const Tokenizer tokenizer, Tokenizer::load(folder + "/tokenizer.json"));
  constexpr size_t kWindow = 512;
  const ChatLayout layout = family == ModelFamily::kQwen ? ChatLayout::kQwen : ChatLayout::kGemma;
  WEIR_TRY(const auto passages, read_passages(options.calibrate, tokenizer, layout, kWindow, 0));
  InputEnergy energy;
  WEIR_TRY(const auto reader, load_text_reader(folder, BackendOptions{}, Reading::kCausal, pool, &energy));
  const InterruptScope scope;
  ProgressBar bar("calibrating");
  for (size_t i = 0; i < passages.size(); ++i) {
    if (scope.interrupted()) return Error{Code::kCancelled, "interrupted; nothing was written", ""};
    WEIR_RETURN_IF_ERROR(reader->logits(passages[i], static_cast<uint32_t>(i)));
    bar.update(i + 1, passages.size());
  }
  return reader->importance(energy);
}

Status quantize_model(const Options& options) {
  WEIR_TRY(const Checkpoint checkpoint, open_checkpoint(options.in));
  WEIR_TRY(const ModelFamily family, model_family(checkpoint));
  WEIR_TRY(const QuantizeRecipe recipe,
           QuantizeRecipe::make(family, {options.bits, options.group}, options.recipe));
  QuantizeJob job;
  job.rule = options.search || !options.calibrate.empty() ? ScaleRule::kSearch : ScaleRule::kMlx;
  BackendOptions backend;
  backend.threads = options.threads;
  WEIR_TRY(const auto pool, make_pool(backend.chosen_threads()));
  if (!options.calibrate.empty()) {
    WEIR_TRY(job.importance, calibrate(options, family, *pool));
  }
  const InterruptScope scope;
  std::optional<ProgressBar> bar("quantising");
  WEIR_TRY(const QuantizeReport report,
           quantize(
               checkpoint, options.out, recipe, job, *pool,
               [&](uint64_t done, uint64_t total) { bar->update(done, total); }, scope.interrupted()));
  bar.reset();
  tell_notes(report.plain_though);
  tell(fmt::format("{}: {} matrices quantised, {} of {}\n", options.out, report.matrices,
                   size_text(report.bytes), size_text(checkpoint.total_bytes())));
  return Ok{};
}

}  // namespace

Verb add_quantize(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("quantize", "Write a bfloat16 checkpoint anew in few bits, for weir and MLX");
  command->add_option("IN", options->in, "Model folder or repository id of a bfloat16 checkpoint")
      ->type_name("");
  command->add_option("OUT", options->out, "Folder to make; it must be empty if it exists")->type_name("");
  command->add_option("--bits", options->bits, "Of a weight: 2, 3, 4, 5, 6 or 8")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--group-size", options->group, "Weights that share a scale: 32, 64 or 128")
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--recipe", options->recipe,
                   "Bits of single parts, such as experts=2,attention=8:32,head=bf16")
      ->type_name("PART=BITS[:GROUP],...");
  command->add_flag("--search", options->search,
                    "Search for the scales of least error instead of MLX's own, which are the default");
  command
      ->add_option("--calibrate", options->calibrate,
                   "Text or problems (.jsonl) that show which weights matter; implies --search")
      ->type_name("FILE");
  add_count(*command, "--threads", options->threads, 1, "Threads; default: all this process may run on",
            1024);
  return {command, [options] {
            if (options->in.empty() || options->out.empty()) {
              return report({Code::kInvalidArgument, "weir quantize needs a model and a folder to write",
                             "such as `weir quantize Qwen/Qwen3.6-35B-A3B qwen-4bit --bits 4`"});
            }
            const Status status = quantize_model(*options);
            return status.ok() ? kDone : report(status.error());
          }};
}

}  // namespace weir::cli
