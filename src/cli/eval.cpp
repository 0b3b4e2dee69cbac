// weir eval: accuracy and speed on word problems.
#include <fmt/core.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/answer.h"
#include "cli/draft_option.h"
#include "cli/eval_log.h"
#include "cli/exit_code.h"
#include "cli/gsm8k.h"
#include "cli/interrupt.h"
#include "cli/json_report.h"
#include "cli/options.h"
#include "cli/quantity.h"
#include "cli/terminal.h"
#include "cli/verbs.h"

namespace weir::cli {
namespace {

// A greedy answer can go round in circles, and the context may be long.
constexpr int64_t kDefaultMaxTokens = 4096;

constexpr int64_t kMostParallel = 256;

// The finish reason of a problem that does not fit the context: it was not asked, and counts as wrong.
constexpr const char* kTooLongReason = "too-long";

struct Options {
  std::string file;
  std::string out;
  std::string system;
  int64_t limit = 0;  // 0: all
  int64_t parallel = 1;
  ModelOptions model;
  BackendOptions backend;
  SamplingOptions sampling;
  DenoisingOptions denoising;
  Draft draft = Draft::kOff;
  std::optional<bool> think;
  bool json = false;
};

struct Summary {
  int64_t correct = 0, total = 0, cut_off = 0, too_long = 0;
  int64_t prompt_tokens = 0, generated_tokens = 0;
  double prefill_seconds = 0, decode_seconds = 0;
  int64_t denoising_passes = 0, canvases = 0, canvas_rows = 0;
};

// Wilson's score interval for a proportion, 95 % (Wilson, JASA 22, 1927).
std::pair<double, double> wilson_interval(int64_t right, int64_t of) {
  if (of == 0) return {0, 1};
  constexpr double z = 1.959964;
  const auto n = static_cast<double>(of);
  const double p = static_cast<double>(right) / n;
  const double centre = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

double ratio(double a, double b) {
  return b > 0 ? a / b : 0;
}

// What decides the answers: two runs with equal settings give equal results.
Report settings_of(const Options& options, const Engine& engine, const TurnOptions& turn,
                   uint64_t file_hash) {
  const Sampling& s = turn.sampling;
  return {{"problems", fmt::format("{:016x}", file_hash)},
          {"model", engine.folder},
          {"model_bytes", engine.checkpoint_bytes},
          {"kernels", engine.generator->steps().name()},
          {"system", options.system},
          {"think", turn.think},
          {"temperature", s.temperature},
          {"top_k", s.top_k},
          {"top_p", s.top_p},
          {"min_p", s.min_p},
          {"presence_penalty", s.presence_penalty},
          {"frequency_penalty", s.frequency_penalty},
          {"repetition_penalty", s.repetition_penalty},
          {"logit_bias", s.logit_bias},
          {"seed", s.seed},
          {"stop", turn.stop},
          {"max_tokens", turn.max_tokens},
          {"denoising", turn.denoising ? denoising_json(*turn.denoising) : Report()}};
}

Summary summarise(const EvalLog& log, int64_t count) {
  Summary sum;
  for (const auto& [index, result] : log.results()) {
    if (index >= count) continue;
    ++sum.total;
    sum.correct += result.correct() ? 1 : 0;
    sum.too_long += result.finish_reason == kTooLongReason ? 1 : 0;
    sum.cut_off += result.finish_reason == finish_reason_name(FinishReason::kLength) ? 1 : 0;
    sum.prompt_tokens += result.prompt_tokens;
    sum.generated_tokens += result.generated_tokens;
    sum.prefill_seconds += result.prefill_seconds;
    sum.decode_seconds += result.decode_seconds;
    sum.denoising_passes += result.denoising_passes;
    sum.canvases += result.canvases;
    sum.canvas_rows += result.canvas_rows;
  }
  return sum;
}

void show_progress(const EvalLog& log, int64_t count) {
  if (!is_terminal(stderr)) return;
  const Summary sum = summarise(log, count);
  tell(fmt::format("\r\x1b[K{} of {}, {} right", sum.total, count, sum.correct));
  std::fflush(stderr);
}

int print_summary(const Summary& sum, const Report& settings, bool json) {
  const auto [low, high] = wilson_interval(sum.correct, sum.total);
  const double accuracy = ratio(static_cast<double>(sum.correct), static_cast<double>(sum.total));
  const double seconds = sum.prefill_seconds + sum.decode_seconds;
  const double speed = ratio(static_cast<double>(sum.generated_tokens), seconds);
  const double prefill = ratio(static_cast<double>(sum.prompt_tokens), sum.prefill_seconds);
  const double decode = ratio(static_cast<double>(sum.generated_tokens - sum.total), sum.decode_seconds);
  const double passes = ratio(static_cast<double>(sum.denoising_passes), static_cast<double>(sum.canvases));
  const double rows = ratio(static_cast<double>(sum.canvas_rows), static_cast<double>(sum.generated_tokens));
  if (json) {
    return print_json({{"accuracy", accuracy},
                       {"correct", sum.correct},
                       {"total", sum.total},
                       {"ci95", {low, high}},
                       {"cut_off", sum.cut_off},
                       {"too_long", sum.too_long},
                       {"tokens_per_second", speed},
                       {"prefill_tokens_per_second", prefill},
                       {"decode_tokens_per_second", decode},
                       {"prompt_tokens", sum.prompt_tokens},
                       {"generated_tokens", sum.generated_tokens},
                       {"canvases", sum.canvases},
                       {"passes_per_canvas", passes},
                       {"rows_per_token", rows},
                       {"seconds", seconds},
                       {"settings", settings}},
                      false);
  }
  std::string text = fmt::format(
      "accuracy {:.1f} % ({} of {}), 95 % interval {:.1f} to {:.1f} %\n"
      "{:.1f} tokens/s in all ({} tokens in {}); prompts {:.1f} tokens/s, decoding {:.1f} tokens/s\n",
      accuracy * 100, sum.correct, sum.total, low * 100, high * 100, speed, sum.generated_tokens,
      duration_text(seconds), prefill, decode);
  if (sum.canvases > 0) {
    text += fmt::format("{} canvases, {:.2f} passes each; {:.2f} rows forwarded per token\n", sum.canvases,
                        passes, rows);
  }
  if (sum.cut_off > 0) text += fmt::format("{} answers were cut off by --max-tokens\n", sum.cut_off);
  if (sum.too_long > 0) {
    text += fmt::format("{} problems do not fit the context and count as wrong\n", sum.too_long);
  }
  return print_answer(text);
}

EvalResult result_of(int64_t index, const Problem& problem, const Answer& given) {
  EvalResult r;
  r.index = index;
  r.expected = problem.expected;
  r.found = final_number(given.content).value_or("");
  r.answer = given.content;
  r.finish_reason = finish_reason_name(given.finish);
  r.prompt_tokens = given.statistics.prompt_tokens;
  r.generated_tokens = given.statistics.generated_tokens;
  r.prefill_seconds = given.statistics.prefill_seconds;
  r.decode_seconds = given.statistics.decode_seconds;
  r.denoising_passes = given.statistics.denoising_passes;
  r.canvases = given.statistics.canvases;
  r.canvas_rows = given.statistics.canvas_rows;
  return r;
}

EvalResult not_asked(int64_t index, const Problem& problem) {
  EvalResult r;
  r.index = index;
  r.expected = problem.expected;
  r.finish_reason = kTooLongReason;
  return r;
}

// Works through the problems that the log does not hold yet, several at a time.
class Evaluation {
 public:
  Evaluation(const Options& options, Engine& engine, TurnOptions turn, const ProblemSet& set, int64_t count,
             EvalLog& log)
      : options_(options), engine_(engine), turn_(std::move(turn)), set_(set), log_(log), count_(count) {}

  // Returns false when interrupted.
  Result<bool> run() {
    const InterruptScope interrupt;
    writers_.interrupted = &interrupt.interrupted();
    while (true) {
      WEIR_RETURN_IF_ERROR(fill());
      if (active_.empty()) break;
      std::vector<Generation*> generations;
      for (const Active& a : active_) generations.push_back(&a.turn->generation());
      WEIR_RETURN_IF_ERROR(engine_.generator->step(generations));
      if (interrupt.interrupted()) return false;
      WEIR_RETURN_IF_ERROR(collect());
    }
    if (drafted_ > 0) tell(fmt::format("{} tokens were drafted, {} of them taken\n", drafted_, taken_));
    return true;
  }

 private:
  struct Active {
    int64_t index;
    std::unique_ptr<Turn> turn;
  };

  const Problem& problem(int64_t index) const { return set_.problems[static_cast<size_t>(index)]; }

  Status fill() {
    for (; static_cast<int64_t>(active_.size()) < options_.parallel && next_ < count_; ++next_) {
      if (log_.results().contains(next_)) continue;
      turn_.sequence = static_cast<uint32_t>(next_);
      auto turn = Turn::start(engine_, ask(options_.system, problem(next_).question), turn_, writers_, {});
      if (turn.ok()) {
        active_.push_back({next_, *std::move(turn)});
      } else if (turn.error().code == Code::kTooLong) {
        WEIR_RETURN_IF_ERROR(log_.add(not_asked(next_, problem(next_))));
      } else {
        return std::move(turn).error();
      }
    }
    return Ok{};
  }

  Status collect() {
    for (auto a = active_.begin(); a != active_.end();) {
      if (!a->turn->is_over()) {
        ++a;
        continue;
      }
      const Answer given = a->turn->finish();
      drafted_ += given.statistics.drafted_tokens;
      taken_ += given.statistics.accepted_tokens;
      WEIR_RETURN_IF_ERROR(log_.add(result_of(a->index, problem(a->index), given)));
      a = active_.erase(a);
      show_progress(log_, count_);
    }
    return Ok{};
  }

  const Options& options_;
  Engine& engine_;
  TurnOptions turn_;
  const ProblemSet& set_;
  EvalLog& log_;
  int64_t count_;
  TurnWriters writers_;
  int64_t next_ = 0;
  int64_t drafted_ = 0, taken_ = 0;
  std::vector<Active> active_;
};

Result<int> eval(const Options& options) {
  WEIR_TRY(const ProblemSet set, read_problems(options.file));
  WEIR_TRY(Engine engine, load_engine(options.model, options.backend,
                                      {.parallel = options.parallel, .draft = options.draft}));
  const auto all = static_cast<int64_t>(set.problems.size());
  const int64_t count = options.limit > 0 ? std::min(options.limit, all) : all;
  WEIR_TRY(TurnOptions turn, turn_options(engine, options.sampling, options.denoising, options.think));
  WEIR_RETURN_IF_ERROR(use_draft(engine, options.draft, turn));
  if (!options.sampling.seed) turn.sampling.seed = 0;  // an evaluation can be repeated and resumed
  if (turn.max_tokens == 0) turn.max_tokens = kDefaultMaxTokens;

  const Report settings = settings_of(options, engine, turn, set.hash);
  WEIR_TRY(EvalLog log, EvalLog::open(options.out, settings));
  if (!log.results().empty())
    tell(fmt::format("{} problems are already in {}\n", log.results().size(), options.out));
  WEIR_TRY(const bool completed, Evaluation(options, engine, turn, set, count, log).run());
  if (is_terminal(stderr)) tell("\n");
  const int written = print_summary(summarise(log, count), settings, options.json);
  return completed ? written : kInterrupted;
}

}  // namespace

Verb add_eval(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("eval", "Measure accuracy and speed on a GSM8K-format file");
  command
      ->add_option("FILE", options->file, "Problems, one {\"question\", \"answer\": \"... #### N\"} a line")
      ->type_name("");
  command->add_option("--out", options->out, "Keep each result here, and go on with what is there")
      ->type_name("FILE");
  add_count(*command, "--limit", options->limit, 1, "Only the first N problems");
  add_count(*command, "--parallel", options->parallel, 1,
            "Answer N problems together; the answers are the same", kMostParallel);
  command->add_option("--system", options->system, "System message")->type_name("TEXT");
  add_draft(*command, options->draft);
  add_think(*command, options->think, "Let the model think first, or not");
  command->add_flag("--json", options->json, "Report as one JSON object");
  options->model.add(*command);
  options->sampling.add(*command);
  options->denoising.add(*command);
  options->backend.add(*command);
  return {command, [options] {
            if (options->file.empty()) {
              return report({Code::kInvalidArgument, "weir eval needs a file of problems",
                             "such as `weir eval tests/data/pocket/held_out.jsonl`"});
            }
            const auto code = eval(*options);
            return code.ok() ? *code : report(code.error());
          }};
}

}  // namespace weir::cli
