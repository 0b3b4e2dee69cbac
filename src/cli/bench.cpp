// weir bench: how fast a model runs, and how near that is to what memory and arithmetic can deliver.
#include "cli/bench.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include "cli/csv_report.h"
#include "cli/engine.h"
#include "cli/exit_code.h"
#include "cli/model_folder.h"
#include "cli/quantity.h"
#include "cli/verbs.h"

namespace weir::cli {
namespace {

struct Options : BenchOptions {
  std::string what;  // "" or "roofline"
  std::string format = "md";
  bool json = false;
  std::string svg;
};

// "512,2k,8192" in ascending order, each at least `least`.
Result<std::vector<int64_t>> parse_counts(std::string_view text, int64_t least) {
  std::vector<int64_t> counts;
  while (true) {
    const size_t comma = text.find(',');
    WEIR_TRY(const int64_t count, parse_quantity(text.substr(0, comma)));
    if (count < least) {
      return Error{Code::kInvalidArgument, fmt::format("{} is too small, at least {}", count, least), ""};
    }
    counts.push_back(count);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

CLI::Option* add_counts(CLI::App& command, const std::string& name, std::vector<int64_t>& counts,
                        int64_t least, const std::string& help) {
  return command
      .add_option_function<std::string>(
          name,
          [name, &counts, least](const std::string& text) {
            auto parsed = parse_counts(text, least);
            if (!parsed.ok()) throw CLI::ValidationError(name, parsed.error().message);
            counts = *std::move(parsed);
          },
          help)
      ->type_name("N,...");
}

Result<BenchResult> measure(const Options& options) {
  if (options.what == "roofline") return bench_roofline(options);
  const Stopwatch opening;
  WEIR_TRY(const auto pool, make_pool(options.backend.chosen_threads()));
  WEIR_TRY(Checkpoint checkpoint, open_checkpoint(options.model.model));
  const bool diffusion = diffusion_gemma::is_diffusion_gemma(checkpoint);
  BenchModel model{std::move(checkpoint), *pool, opening};
  return diffusion ? bench_diffusion(options, std::move(model)) : bench_qwen(options, std::move(model));
}

Status write_chart(const std::string& path, const std::vector<ChartPanel>& charts) {
  std::ofstream file(path, std::ios::binary);
  file << line_chart(charts);
  file.close();
  if (file) return {};
  return Error{Code::kInternal, fmt::format("cannot write {}: {}", path, std::strerror(errno)), ""};
}

Result<int> bench(const Options& options) {
  WEIR_TRY(const BenchResult result, measure(options));
  const bool json = options.json || options.format == "json";
  const int code = json ? print_json(result.report)
                        : print_answer(options.format == "csv" ? csv_report(result.report) : result.text);
  if (!options.svg.empty()) WEIR_RETURN_IF_ERROR(write_chart(options.svg, result.charts));
  return code;
}

}  // namespace

Verb add_bench(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "Measure prefill, decode and denoising, step by step");
  command
      ->add_option("WHAT", options->what,
                   "roofline: speed of 4-bit products by rows, without a model; default: a model")
      ->check(CLI::IsMember({"roofline"}))
      ->type_name("");
  const CLI::Option* prompts =
      add_counts(*command, "--prompt", options->prompts, 1, "Tokens of prompts; default: 512");
  const CLI::Option* depths = add_counts(*command, "--depth", options->depths, 0,
                                         "Tokens behind which to decode; default: behind each prompt");
  const CLI::Option* generate = add_count(*command, "--generate", options->generate, 1, "Tokens to decode");
  const CLI::Option* rows = add_counts(*command, "--rows", options->rows, 1,
                                       "Rows of a denoising pass, or of the roofline; default: up to 256");
  add_count(*command, "--repeats", options->repeats, 1, "Timed repeats, after one to warm up");
  command->add_option("--format", options->format, "md, csv or json")
      ->check(CLI::IsMember({"md", "csv", "json"}))
      ->type_name("NAME")
      ->capture_default_str();
  command->add_flag("--json", options->json, "The same as --format json");
  command->add_option("--svg", options->svg, "Also draw the speeds by depth, or by rows")->type_name("FILE");
  options->model.add(*command);
  options->backend.add(*command);
  return {command, [options, prompts, depths, generate, rows] {
            options->prompts_given = prompts->count() > 0;
            options->depths_given = depths->count() > 0;
            options->generate_given = generate->count() > 0;
            options->rows_given = rows->count() > 0;
            const auto code = bench(*options);
            return code.ok() ? *code : report(code.error());
          }};
}

}  // namespace weir::cli
