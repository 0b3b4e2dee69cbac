#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "checkpoint/safetensors.h"
#include "device/check.h"
#include "generate/choice_rules.h"
#include "generate/sampler.h"
#include "kernels/cuda/cuda_steps.h"
#include "models/qwen/model.h"

namespace weir::bench {
namespace {

constexpr double kLogitBound = 4e-2;  // ||found - golden|| / ||golden||: 4 to 8 layers of bf16 activations

class Golden {
 public:
  explicit Golden(const std::string& path) : file_(SafetensorsFile::open(path)) {}
  template <class T>
  std::vector<T> read(const std::string& name) const {
    const TensorView* tensor = file_.ok() ? file_->find(name) : nullptr;
    if (tensor == nullptr) return {};
    std::vector<T> out(static_cast<size_t>(tensor->elements()));
    std::memcpy(out.data(), tensor->data.data(), out.size() * sizeof(T));
    return out;
  }

 private:
  Result<SafetensorsFile> file_;
};

std::unique_ptr<qwen::Model> load(Report& report, const std::string& folder, int64_t rows) {
  auto steps = make_cuda_steps(0);
  if (!steps.ok()) return report.fail(folder, steps.error().message), nullptr;
  auto checkpoint = Checkpoint::open(folder);
  if (!checkpoint.ok()) return report.fail(folder, checkpoint.error().message), nullptr;
  auto model = qwen::Model::load(std::move(*checkpoint), std::move(*steps),
                                 {.max_rows = rows, .max_wanted = rows}, {});
  if (!model.ok()) return report.fail(folder, model.error().message), nullptr;
  return std::move(*model);
}

using Tokens = std::vector<int32_t>;

// One pass; logits of all rows.
std::vector<float> run(Report& report, qwen::Model& model, std::vector<Segment> segments,
                       const Tokens& tokens) {
  std::vector<int32_t> wanted(tokens.size());
  std::iota(wanted.begin(), wanted.end(), 0);
  auto logits = model.run({tokens, segments, wanted});
  if (!logits.ok()) {
    report.fail("a pass of " + std::to_string(tokens.size()) + " rows", logits.error().message);
    return {};
  }
  return {logits->begin(), logits->end()};
}

// `tokens` cut into passes; logits of all rows.
std::vector<float> run_cut(Report& report, qwen::Model& model, const Tokens& tokens,
                           const std::vector<size_t>& sizes) {
  SequenceState state = std::move(*model.new_sequence());
  std::vector<float> logits;
  size_t at = 0;
  for (const size_t size : sizes) {
    const Tokens part(tokens.begin() + static_cast<int64_t>(at),
                      tokens.begin() + static_cast<int64_t>(at + size));
    const auto rows = run(report, model, {{&state, 0, static_cast<int64_t>(size)}}, part);
    logits.insert(logits.end(), rows.begin(), rows.end());
    at += size;
  }
  return logits;
}

double relative_error(const std::vector<float>& found, const std::vector<float>& expected) {
  if (found.size() < expected.size() || expected.empty()) return INFINITY;
  const size_t skip = found.size() - expected.size();
  double difference = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(found[skip + i]) - expected[i], 2);
    size += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / size);
}

double different_values(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size() || a.empty()) return INFINITY;
  double count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += a[i] == b[i] ? 0 : 1;
  return count;
}

void check_tiny(Report& report, const std::string& layout) {
  const std::string folder = "tests/data/qwen-tiny/" + layout;
  const Golden golden(folder + "/golden.safetensors");
  const auto model = load(report, folder, 130);
  if (model == nullptr) return;
  for (const int length : {1, 5, 63, 64, 65, 130}) {
    const std::string suffix = std::to_string(length);
    const Tokens ids = golden.read<int32_t>("ids." + suffix);
    report.add(
        "tiny " + layout + " logits of " + suffix + " rows",
        relative_error(run_cut(report, *model, ids, {ids.size()}), golden.read<float>("logits." + suffix)),
        kLogitBound);
  }
  const Tokens ids = golden.read<int32_t>("decode.ids");
  std::vector<size_t> sizes(ids.size() - 4, 1);
  sizes[0] = 5;
  report.add("tiny " + layout + " single steps after a prefill",
             relative_error(run_cut(report, *model, ids, sizes), golden.read<float>("decode.logits")),
             kLogitBound);
  report.add("tiny " + layout + " continuation 40 + 25",
             relative_error(run_cut(report, *model, golden.read<int32_t>("ids.65"), {40, 25}),
                            golden.read<float>("continue.logits")),
             kLogitBound);
}

int32_t argmax(std::span<const float> row) {
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

// Greedy, by the host.
Tokens greedy(Report& report, qwen::Model& model, const Tokens& prompt, size_t count) {
  const auto vocabulary = static_cast<size_t>(model.config().vocabulary);
  SequenceState state = std::move(*model.new_sequence());
  Tokens out, next = prompt;
  while (out.size() < count) {
    const std::vector<int32_t> wanted{static_cast<int32_t>(next.size()) - 1};
    const Segment segment{&state, 0, static_cast<int64_t>(next.size())};
    auto logits = model.run({next, {&segment, 1}, wanted});
    if (!logits.ok()) return report.fail("greedy", logits.error().message), out;
    out.push_back(argmax(logits->first(vocabulary)));
    if (out.back() == 1357 || out.back() == 1355) break;
    next = {out.back()};
  }
  return out;
}

// Chosen and fed back on the device; the ids are read one step behind.
Tokens answer_on_device(Report& report, qwen::Model& model, const Tokens& prompt, size_t count,
                        const Sampling& sampling) {
  SequenceState state = std::move(*model.new_sequence());
  auto chooser = model.steps().make_chooser(choice_rules(sampling, model.config().vocabulary), prompt);
  if (!chooser.ok() || *chooser == nullptr) return report.fail("make_chooser", "there is none"), Tokens();
  const int32_t last = static_cast<int32_t>(prompt.size()) - 1, first = 0;
  const Segment all{&state, 0, static_cast<int64_t>(prompt.size())}, one{&state, 0, 1};
  Status status = model.queue({prompt, {&all, 1}, {&last, 1}}, **chooser);
  Tokens out;
  while (status.ok() && out.size() < count) {
    status = model.queue({{&first, 1}, {&one, 1}, {&first, 1}, chooser->get()}, **chooser);
    const auto token = (*chooser)->take();
    if (!token.ok()) return report.fail("take", token.error().message), out;
    out.push_back(*token);
    if (out.back() == 1357 || out.back() == 1355) break;
  }
  return out;
}

// By the host's sampler, from the device's logits.
Tokens answer_by_host(Report& report, qwen::Model& model, const Tokens& prompt, size_t count,
                      const Sampling& sampling) {
  const int64_t vocabulary = model.config().vocabulary;
  SequenceState state = std::move(*model.new_sequence());
  Sampler sampler(sampling, vocabulary);
  sampler.add_prompt(prompt);
  Tokens out, next = prompt;
  while (out.size() < count) {
    const int32_t last = static_cast<int32_t>(next.size()) - 1;
    const Segment segment{&state, 0, static_cast<int64_t>(next.size())};
    auto logits = model.run({next, {&segment, 1}, {&last, 1}});
    if (!logits.ok()) return report.fail("sampling by the host", logits.error().message), out;
    Draw draw;
    draw.step = static_cast<uint32_t>(prompt.size() + out.size());
    const auto sampled = sampler.sample(logits->first(static_cast<size_t>(vocabulary)), draw);
    if (!sampled.ok()) return report.fail("sampling by the host", sampled.error().message), out;
    out.push_back(sampled->token);
    sampler.add_generated(sampled->token);
    if (out.back() == 1357 || out.back() == 1355) break;
    next = {out.back()};
  }
  return out;
}

void check_answers(Report& report, qwen::Model& model, const Golden& golden, int prompts) {
  int greedy_differ = 0, sampled_differ = 0, repeated_differ = 0;
  for (int k = 0; k < prompts; ++k) {
    const Tokens prompt = golden.read<int32_t>("prompt." + std::to_string(k));
    Sampling sampling;
    sampling.temperature = 0;
    greedy_differ +=
        answer_on_device(report, model, prompt, 128, sampling) != greedy(report, model, prompt, 128);
    sampling.temperature = 1.5f;
    sampling.seed = static_cast<uint64_t>(k);
    if (k % 2 == 0) sampling.top_p = 0.9f;
    if (k % 3 == 0) sampling.top_k = 40;
    if (k % 4 == 0) sampling.repetition_penalty = 1.2f;
    const Tokens answer = answer_on_device(report, model, prompt, 100, sampling);
    sampled_differ += answer != answer_by_host(report, model, prompt, 100, sampling);
    repeated_differ += answer != answer_on_device(report, model, prompt, 100, sampling);
  }
  report.add("pocket greedy answers by the device that differ from the host's", greedy_differ, 0);
  report.add("pocket sampled answers by the device that differ from the host's", sampled_differ, 0);
  report.add("pocket sampled answers that differ when repeated", repeated_differ, 0);
}

void check_pocket(Report& report, int prompts) {
  const std::string folder = "models/pocket-qwen";
  const Golden golden("tests/data/pocket/qwen-mlx-4bit.safetensors");
  const auto model = load(report, folder, 512);
  if (model == nullptr) return;
  const auto vocabulary = static_cast<size_t>(model->config().vocabulary);
  for (int k = 0; k < 6; ++k) {
    const std::string suffix = std::to_string(k);
    Tokens ids = golden.read<int32_t>("prompt." + suffix);
    const Tokens answer = golden.read<int32_t>("greedy." + suffix);
    const auto expected = golden.read<float>("logits." + suffix);
    for (size_t i = 0; ids.size() < expected.size() / vocabulary; ++i) ids.push_back(answer[i]);
    report.add("pocket teacher-forced logits " + suffix,
               relative_error(run_cut(report, *model, ids, {ids.size()}), expected), kLogitBound);
  }
  int equal = 0;
  for (int k = 0; k < prompts; ++k) {
    const std::string suffix = std::to_string(k);
    const Tokens expected = golden.read<int32_t>("greedy." + suffix);
    equal += greedy(report, *model, golden.read<int32_t>("prompt." + suffix), 128) == expected;
  }
  std::printf("pocket greedy equal to the golden: %d of %d\n", equal, prompts);
  report.add("pocket greedy answers that differ", prompts - equal, 2);
  check_answers(report, *model, golden, prompts);
}

// Bit for bit: cuts at multiples of 64, single rows against passes of up to eight, neighbours, repetition.
void check_invariance(Report& report) {
  const auto model = load(report, "models/pocket-qwen", 512);
  if (model == nullptr) return;
  const Golden golden("tests/data/pocket/qwen-mlx-4bit.safetensors");
  Tokens ids;
  for (int k = 0; ids.size() < 330; ++k) {
    const Tokens prompt = golden.read<int32_t>("prompt." + std::to_string(k));
    ids.insert(ids.end(), prompt.begin(), prompt.end());
  }
  ids.resize(330);
  const auto whole = run_cut(report, *model, ids, {330});
  report.add("values that differ when repeated", different_values(run_cut(report, *model, ids, {330}), whole),
             0);
  for (const std::vector<size_t>& sizes :
       std::vector<std::vector<size_t>>{{64, 128, 138}, {256, 74}, {64, 64, 64, 64, 64, 10}, {16, 48, 266}}) {
    report.add("values that differ when cut at " + std::to_string(sizes[0]) + ", ...",
               different_values(run_cut(report, *model, ids, sizes), whole), 0);
  }
  const Tokens few(ids.begin(), ids.begin() + 16);
  const auto eights = run_cut(report, *model, few, {8, 8});
  report.add("values that differ, 8 + 8 and single rows",
             different_values(run_cut(report, *model, few, std::vector<size_t>(16, 1)), eights), 0);
  report.add("values that differ, 8 + 8 and 3 + 5 + 2 + 6",
             different_values(run_cut(report, *model, few, {3, 5, 2, 6}), eights), 0);

  for (const int64_t rows : {4, 100}) {
    const Tokens mine(ids.begin(), ids.begin() + rows), other(ids.begin() + 50, ids.begin() + 50 + rows);
    const auto alone = run_cut(report, *model, mine, {mine.size()});
    SequenceState a = std::move(*model->new_sequence()), b = std::move(*model->new_sequence());
    Tokens both = other;
    both.insert(both.end(), mine.begin(), mine.end());
    auto together = run(report, *model, {{&b, 0, rows}, {&a, rows, rows}}, both);
    together.erase(together.begin(), together.begin() + static_cast<int64_t>(together.size() / 2));
    report.add("values that differ beside a neighbour, " + std::to_string(rows) + " rows",
               different_values(together, alone), 0);
  }
}

}  // namespace

void check_models(Report& report, const CheckOptions& options) {
  if (options.small_only) return check_tiny(report, "mlx-mixed");
  for (const char* layout : {"hf", "mlx-4bit", "mlx-mixed"}) check_tiny(report, layout);
  if (!std::filesystem::exists("models/pocket-qwen"))
    return report.fail("pocket", "models/pocket-qwen is not here");
  check_pocket(report, 40);
  check_invariance(report);
}

}  // namespace weir::bench
