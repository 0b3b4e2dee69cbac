// weir inspect: what a model folder holds.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <iterator>
#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/quote.h"
#include "checkpoint/summary.h"
#include "cli/exit_code.h"
#include "cli/json_report.h"
#include "cli/model_folder.h"
#include "cli/quantity.h"
#include "cli/verbs.h"
#include "models/diffusion_gemma/config.h"
#include "models/qwen/config.h"

namespace weir::cli {
namespace {

struct Options {
  std::string model;
  bool tensors = false;
  bool json = false;
};

std::string_view layout_name(Layout layout) {
  return layout == Layout::kMlx ? "mlx" : "huggingface";
}

std::string model_type(const Checkpoint& checkpoint) {
  const auto found = checkpoint.config().find("model_type");
  return found != checkpoint.config().end() && found->is_string() ? found->get<std::string>() : "unknown";
}

Report module_json(std::string_view kind, const ModuleSummary& module) {
  Report out{{"kind", kind},
             {"tensors", module.tensors},
             {"parameters", module.parameters},
             {"bytes", module.bytes},
             {"bits_per_weight", module.bits_per_weight()}};
  for (const auto& [encoding, parameters] : module.encodings) out["encodings"][encoding] = parameters;
  return out;
}

Report describe(const Checkpoint& checkpoint, bool with_tensors) {
  const CheckpointSummary summary = summarize(checkpoint);
  Report out{{"folder", checkpoint.folder()},
             {"model_type", model_type(checkpoint)},
             {"layout", layout_name(checkpoint.layout())},
             {"total", module_json("total", summary.total)},
             {"modules", Report::array()},
             {"notes", checkpoint.notes()},
             {"config", checkpoint.config()}};
  for (const auto& [kind, module] : summary.kinds) {
    out["modules"].push_back(module_json(module_kind_name(kind), module));
  }
  if (!with_tensors) return out;
  out["tensors"] = Report::array();
  for (const TensorView* tensor : checkpoint.tensors()) {
    out["tensors"].push_back({{"name", tensor->name},
                              {"dtype", dtype_name(tensor->dtype)},
                              {"shape", tensor->shape},
                              {"bytes", tensor->data.size()}});
  }
  return out;
}

std::string module_line(std::string_view kind, const ModuleSummary& module) {
  std::string encodings;
  for (const auto& entry : module.encodings) encodings += (encodings.empty() ? "" : "; ") + entry.first;
  return fmt::format("{:<18} {:>7} {:>12} {:>11} {:>6.2f}  {}\n", kind, module.tensors,
                     count_text(static_cast<uint64_t>(module.parameters)), size_text(module.bytes),
                     module.bits_per_weight(), encodings);
}

std::string diffusion_lines(const diffusion_gemma::Config& c) {
  const auto full = std::count(c.is_full.begin(), c.is_full.end(), true);
  return fmt::format(
      "layers      {} ({} sliding, {} full), hidden size {}, canvas {}\n"
      "attention   {} heads; sliding: {} for keys and values, of {}, window {}; full: {} of {}\n"
      "experts     {}, {} per token, of {}, beside a dense MLP of {}\n"
      "vocabulary  {} tokens, context {}\n",
      c.layers, c.layers - full, full, c.hidden, c.canvas, c.heads, c.sliding.kv_heads, c.sliding.head_dim,
      c.sliding.window, c.full.kv_heads, c.full.head_dim, c.experts, c.top_k, c.intermediate, c.dense,
      c.vocabulary, c.context);
}

// Empty for a model of another architecture.
std::string shape_lines(const Checkpoint& checkpoint) {
  if (const auto diffusion = diffusion_gemma::read_config(checkpoint); diffusion.ok()) {
    return diffusion_lines(*diffusion);
  }
  const auto read = qwen::read_config(checkpoint);
  if (!read.ok()) return "";
  const qwen::Config& c = *read;
  const auto attention = std::count(c.mixers.begin(), c.mixers.end(), qwen::Mixer::kAttention);
  return fmt::format(
      "layers      {} ({} DeltaNet, {} attention), hidden size {}\n"
      "attention   {} heads, {} for keys and values, of {}; DeltaNet: {} key heads of {}, {} value heads of "
      "{}\n"
      "experts     {}, {} per token and 1 shared, of {}\n"
      "vocabulary  {} tokens, context {}\n",
      c.layers, c.layers - attention, attention, c.hidden, c.heads, c.kv_heads, c.head_dim, c.key_heads,
      c.key_dim, c.value_heads, c.value_dim, c.experts, c.top_k, c.intermediate, c.vocabulary, c.context);
}

std::string text_report(const Checkpoint& checkpoint, bool with_tensors) {
  const CheckpointSummary summary = summarize(checkpoint);
  std::string out =
      fmt::format("folder      {}\nmodel type  {}, {} layout\n{}\n", checkpoint.folder(),
                  quote(model_type(checkpoint)), layout_name(checkpoint.layout()), shape_lines(checkpoint));
  out += fmt::format("{:<18} {:>7} {:>12} {:>11} {:>6}  {}\n", "module", "tensors", "parameters", "size",
                     "bits", "stored as");
  for (const auto& [kind, module] : summary.kinds) out += module_line(module_kind_name(kind), module);
  out += module_line("total", summary.total);
  for (const std::string& note : checkpoint.notes()) out += "note: " + note + "\n";
  if (!with_tensors) return out;
  out += "\n";
  for (const TensorView* tensor : checkpoint.tensors()) {
    fmt::format_to(std::back_inserter(out), "{:<5} {:<20} {:>11}  {}\n", dtype_name(tensor->dtype),
                   shape_text(tensor->shape), size_text(tensor->data.size()), quote(tensor->name));
  }
  return out;
}

int inspect(const Options& options) {
  const auto checkpoint = open_checkpoint(options.model);
  if (!checkpoint.ok()) return report(checkpoint.error());
  if (options.json) return print_json(describe(*checkpoint, options.tensors));
  return print_answer(text_report(*checkpoint, options.tensors));
}

}  // namespace

Verb add_inspect(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect", "Show what a model folder holds: shapes, bits, bytes");
  command->add_option("MODEL", options->model, "Model folder, repository id or pocket model's name")
      ->type_name("");
  command->add_flag("--tensors", options->tensors, "List all tensors");
  command->add_flag("--json", options->json, "Report as JSON");
  return {command, [options] {
            if (!options->model.empty()) return inspect(*options);
            return report(
                {Code::kInvalidArgument, "weir inspect needs a model", "such as `weir inspect pocket-qwen`"});
          }};
}

}  // namespace weir::cli
