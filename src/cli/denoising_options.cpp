#include "cli/denoising_options.h"

#include <CLI/App.hpp>
#include <algorithm>

#include "cli/number_option.h"

namespace weir::cli {
namespace {

constexpr const char* kReferenceGroup =
    "Denoising, block diffusion only (defaults from the model's generation_config.json)";
constexpr const char* kFasterGroup = "Denoising otherwise than the reference, each off unless given";

Error needs(const std::string& flag, const std::string& other) {
  return {Code::kInvalidArgument, flag + " needs " + other, "give both, or neither"};
}

}  // namespace

void DenoisingOptions::add(CLI::App& command) {
  const char* group = kReferenceGroup;
  const auto number = [&](const char* name, auto& target, const char* type, const char* help) {
    all_.push_back(add_number(command, name, target, help)->type_name(type)->group(group));
  };
  const auto flag = [&](const char* name, bool& target, const char* help) {
    all_.push_back(command.add_flag(name, target, help)->group(group));
  };
  number("--denoising-steps", steps_, "N", "Most passes over a canvas");
  number("--t-max", t_max_, "X", "Temperature of the first pass");
  number("--t-min", t_min_, "X", "Temperature that the passes fall towards");
  number("--entropy-bound", entropy_bound_, "X",
         "Tokens are kept, the surest first, while the entropies before them add up to at most X nats");
  number("--stable-steps", stable_steps_, "N", "Passes that must leave the text unchanged before it is done");
  number("--stop-entropy", stop_entropy_, "X", "... and its mean entropy must be below X nats");

  group = kFasterGroup;
  number("--soft-top-k", soft_top_k_, "K",
         "Self-conditioning sees the K most probable tokens of a position, not all");
  flag("--greedy-accept", greedy_accept_, "Kept tokens are the most probable ones, not samples");
  number("--accept-probability", accept_probability_, "P",
         "Tokens of at least this probability are kept, whatever the entropies");
  number("--late-probability", late_probability_, "P",
         "... and of at least this one after --late-after passes");
  number("--late-after", late_after_, "N", "Passes before --late-probability takes over");
  number("--freeze", freeze_, "N", "A token kept N times in a row stays for good");
  flag("--compact", compact_, "Passes leave frozen positions out; their keys and values grow stale");
  number("--refresh-share", refresh_share_, "X",
         "... but all take part when X of the canvas has changed since they did");
  flag("--thaw", thaw_, "... and are set free where another token has become more probable");
  number("--row-bucket", row_bucket_, "N",
         "... and fill each pass up to a multiple of N rows, the stalest first");
  number("--step-cap", step_cap_, "N", "At most N passes, at the temperatures of the full schedule");
  flag("--flush", flush_, "... the last of which reads the whole text before it is done");
  number("--gap-stop", gap_stop_, "X", "Done when the best token leads by X of probability everywhere");
  flag("--answer-stop", answer_stop_, "The stop rules look at the answer only, not at what follows its end");
  flag("--tail-drop", tail_drop_, "What follows a frozen end of the answer is frozen too");
  flag("--repair", repair_, "One more pass reads the finished text and may correct it");
  number("--causal-check", causal_check_, "P",
         "The causal reader corrects the text where it gives another token at least probability P");
  number("--repeat-guard", repeat_guard_, "N", "The answer ends where a token stands N times in a row");
}

std::string DenoisingOptions::given() const {
  for (const CLI::Option* option : all_) {
    if (option->count() > 0) return "--" + option->get_lnames().front();
  }
  return "";
}

Result<Acceptance> DenoisingOptions::acceptance(Acceptance from_model) const {
  if (late_probability_.has_value() != late_after_.has_value()) {
    return needs("--late-probability", "--late-after");
  }
  if (!accept_probability_) {
    if (late_after_) return needs("--late-probability", "--accept-probability");
    return entropy_bound_ ? Acceptance(EntropyBound{*entropy_bound_}) : from_model;
  }
  if (entropy_bound_) {
    return Error{Code::kInvalidArgument, "--accept-probability and --entropy-bound exclude each other",
                 "give one of them"};
  }
  return Acceptance(ConfidenceThreshold{
      *accept_probability_, late_probability_.value_or(*accept_probability_), late_after_.value_or(0)});
}

// Flags that only change what another one does.
Status DenoisingOptions::check_companions() const {
  if (!compact_ && refresh_share_) return needs("--refresh-share", "--compact");
  if (!compact_ && thaw_) return needs("--thaw", "--compact");
  if (!compact_ && row_bucket_) return needs("--row-bucket", "--compact");
  if (!step_cap_ && flush_) return needs("--flush", "--step-cap");
  return Ok{};
}

Result<Denoising> DenoisingOptions::over(Denoising d) const {
  WEIR_RETURN_IF_ERROR(check_companions());
  d.steps = steps_.value_or(d.steps);
  d.t_max = t_max_.value_or(d.t_max);
  d.t_min = t_min_.value_or(d.t_min);
  WEIR_TRY(d.acceptance, acceptance(d.acceptance));
  d.stability = stable_steps_.value_or(d.stability);
  d.confidence = stop_entropy_.value_or(d.confidence);

  if (soft_top_k_) d.soft_tokens = static_cast<int32_t>(std::min<int64_t>(*soft_top_k_, kMaxSoftTokens + 1));
  d.greedy_accept = greedy_accept_;
  if (freeze_) d.freezing = Freezing{*freeze_};
  if (compact_) d.compaction = Compaction{refresh_share_.value_or(0.0f), thaw_, row_bucket_.value_or(1)};
  if (step_cap_) d.cap = StepCap{*step_cap_, flush_};
  if (gap_stop_) d.gap_stop = GapStop{*gap_stop_};
  d.answer_stop = answer_stop_;
  d.tail_drop = tail_drop_;
  d.repair = repair_;
  if (causal_check_) d.causal_check = CausalCheck{*causal_check_};
  d.repeat_guard = repeat_guard_.value_or(0);
  WEIR_RETURN_IF_ERROR(validate(d));
  return d;
}

Report denoising_json(const Denoising& d) {
  Report out{{"steps", d.steps},
             {"t_max", d.t_max},
             {"t_min", d.t_min},
             {"stable_steps", d.stability},
             {"stop_entropy", d.confidence},
             {"soft_tokens", d.soft_tokens},
             {"greedy_accept", d.greedy_accept},
             {"freeze", d.freezing ? d.freezing->after : 0},
             {"answer_stop", d.answer_stop},
             {"tail_drop", d.tail_drop},
             {"repair", d.repair},
             {"repeat_guard", d.repeat_guard},
             {"gap_stop", d.gap_stop ? Report(d.gap_stop->gap) : Report()},
             {"causal_check", d.causal_check ? Report(d.causal_check->sure) : Report()}};
  if (const auto* bound = std::get_if<EntropyBound>(&d.acceptance)) {
    out["entropy_bound"] = bound->bound;
  } else {
    const auto& p = std::get<ConfidenceThreshold>(d.acceptance);
    out["accept_probability"] = {p.high, p.low, p.high_steps};
  }
  if (d.compaction) {
    out["compact"] = {{"refresh_share", d.compaction->refresh_share},
                      {"thaw", d.compaction->thaw},
                      {"bucket", d.compaction->bucket}};
  }
  if (d.cap) out["step_cap"] = {{"steps", d.cap->steps}, {"flush", d.cap->flush}};
  return out;
}

}  // namespace weir::cli
