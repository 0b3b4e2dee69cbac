// weir synthesize: a model folder of the full model's shapes with random weights.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <string>

#include "checkpoint/synthetic.h"
#include "checkpoint/write_checkpoint.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/progress_bar.h"
#include "cli/quantity.h"
#include "cli/terminal.h"
#include "cli/verbs.h"

namespace weir::cli {
namespace {

struct Options {
  std::string out;
  std::string model = "synthetic:qwen3.6-35b-a3b";
};

Status synthesize(const Options& options) {
  WEIR_TRY(const Checkpoint checkpoint, synthetic_checkpoint(options.model));
  const InterruptScope scope;
  {
    ProgressBar bar("writing");
    WEIR_RETURN_IF_ERROR(write_checkpoint(
        checkpoint, options.out, [&](uint64_t done, uint64_t total) { bar.update(done, total); },
        scope.interrupted()));
  }
  tell(fmt::format("{}: {} tensors, {}\n", options.out, checkpoint.tensors().size(),
                   size_text(checkpoint.total_bytes())));
  return {};
}

}  // namespace

Verb add_synthesize(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("synthesize", "Write a model folder of the full shapes with random weights");
  command->add_option("OUT", options->out, "Folder to make; it must be empty if it exists")->required();
  command->add_option("-m,--model", options->model, "synthetic:NAME[,layers=N][,experts=2|3|4]")
      ->capture_default_str();
  return {command, [options] {
            const Status status = synthesize(*options);
            return status.ok() ? kDone : report(status.error());
          }};
}

}  // namespace weir::cli
