// weir bench: how fast a model runs, and how near that is to what memory and arithmetic can deliver.
#include "cli/bench.h"

#include <CLI/App.hpp>
#include <memory>
#include <utility>

#include "cli/engine.h"
#include "cli/exit_code.h"
#include "cli/model_folder.h"
#include "cli/verbs.h"

namespace weir::cli {
namespace {

Result<int> bench(const BenchOptions& options) {
  const Stopwatch opening;
  ThreadPool pool(options.backend.chosen_threads());
  WEIR_TRY(Checkpoint checkpoint, open_checkpoint(options.model.model));
  const bool diffusion = diffusion_gemma::is_diffusion_gemma(checkpoint);
  BenchModel model{std::move(checkpoint), pool, opening};
  WEIR_TRY(const BenchResult result,
           diffusion ? bench_diffusion(options, std::move(model)) : bench_qwen(options, std::move(model)));
  return options.json ? print_json(result.report) : print_answer(result.text);
}

}  // namespace

Verb add_bench(CLI::App& app) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "Measure prefill, decode and denoising, step by step");
  command->add_flag("--json", options->json, "Report as JSON");
  add_count(*command, "--prompt", options->prompt, 1,
            "Tokens of the prompt, behind which decoding and denoising go on");
  const CLI::Option* generate =
      add_count(*command, "--generate", options->generate, 1, "Tokens to decode; not for a diffusion model");
  add_count(*command, "--repeats", options->repeats, 1, "Timed repeats, after one to warm up");
  options->model.add(*command);
  options->backend.add(*command);
  return {command, [options, generate] {
            options->generate_given = generate->count() > 0;
            const auto code = bench(*options);
            return code.ok() ? *code : report(code.error());
          }};
}

}  // namespace weir::cli
