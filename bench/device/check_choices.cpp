// Choosing tokens on the device: the same choices as the host's sampler on the same logits, but for ties by
// rounding.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "device/check.h"
#include "device/guarded.h"
#include "device/random_weights.h"
#include "generate/choice_rules.h"
#include "generate/sampler.h"

namespace weir::bench {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kChoices = 48;  // of one answer

struct Setting {
  const char* name;
  Sampling sampling;
};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  const auto add = [&](const char* name, auto change) {
    Sampling s;
    change(s);
    all.push_back({name, s});
  };
  add("greedy", [](Sampling& s) { s.temperature = 0; });
  add("temperature 1", [](Sampling&) {});
  add("temperature 0.1", [](Sampling& s) { s.temperature = 0.1f; });
  add("temperature 20", [](Sampling& s) { s.temperature = 20; });
  add("top-k 1", [](Sampling& s) { s.top_k = 1; });
  add("top-k 20, top-p 0.95", [](Sampling& s) { s.top_k = 20, s.top_p = 0.95f; });
  add("top-k 5000", [](Sampling& s) { s.top_k = 5000; });
  add("top-k all", [](Sampling& s) { s.top_k = 1 << 30; });
  add("top-p 0.5", [](Sampling& s) { s.top_p = 0.5f; });
  add("top-p 0.999, temperature 3", [](Sampling& s) { s.top_p = 0.999f, s.temperature = 3; });
  add("top-p 0", [](Sampling& s) { s.top_p = 0; });
  add("min-p 0.05", [](Sampling& s) { s.min_p = 0.05f; });
  add("min-p 1", [](Sampling& s) { s.min_p = 1; });
  add("all bounds",
      [](Sampling& s) { s.top_k = 300, s.top_p = 0.9f, s.min_p = 0.01f, s.temperature = 1.3f; });
  add("penalties", [](Sampling& s) {
    s.presence_penalty = 1, s.frequency_penalty = 0.5f, s.repetition_penalty = 1.3f, s.top_k = 50;
  });
  add("greedy with penalties",
      [](Sampling& s) { s.temperature = 0, s.frequency_penalty = 1.5f, s.repetition_penalty = 1.1f; });
  add("bias", [](Sampling& s) { s.logit_bias = {{3, 20.0f}, {7, -100.0f}, {3, 1.5f}, {40, 12.0f}}; });
  return all;
}

// Rows of logits of one kind.
std::vector<float> logits_of(const std::string& kind, int64_t vocabulary, uint64_t seed) {
  Random random(seed);
  auto values = random.values(vocabulary, 4.0f);
  for (float& v : values) {
    if (kind == "coarse") v = std::round(v * 4) / 4;  // many ties
    if (kind == "flat") v = 2.5f;
    if (kind == "masked" && random.below(3) > 0) v = -kInfinity;
  }
  if (kind == "peaked") {
    for (int i = 0; i < 30; ++i) values[static_cast<size_t>(random.below(vocabulary))] += 14;
  }
  return values;
}

// Choices that differ; the answer ends with the first, since penalties would carry it on.
int differing(Report& report, Steps& cuda, const std::vector<float>& logits, const Sampling& sampling,
              int* compared) {
  const auto vocabulary = static_cast<int64_t>(logits.size());
  const std::vector<int32_t> prompt{3, 5, 5, 11};
  Guarded row(cuda, 1, vocabulary, Dtype::kF32);
  row.set(logits);
  auto chooser = cuda.make_chooser(choice_rules(sampling, vocabulary), prompt);
  if (!chooser.ok() || *chooser == nullptr) return report.fail("make_chooser", "there is none"), 0;
  Sampler sampler(sampling, vocabulary);
  sampler.add_prompt(prompt);
  for (int i = 0; i < kChoices; ++i) {
    (*chooser)->choose(row.rows());
    const auto found = (*chooser)->take();
    Draw draw;
    draw.step = static_cast<uint32_t>(prompt.size()) + static_cast<uint32_t>(i);
    const auto expected = sampler.sample(logits, draw);
    if (!found.ok() || !expected.ok()) return report.fail("choosing", "an error on one side"), 1;
    ++*compared;
    if (*found != expected->token) return 1;
    sampler.add_generated(expected->token);
  }
  return 0;
}

void check_bad_logits(Report& report, Steps& cuda) {
  Sampling sampling;
  for (const float bad : {NAN, kInfinity, -kInfinity}) {
    std::vector<float> logits(1000, bad == -kInfinity ? bad : 1.0f);
    logits[777] = bad;
    Guarded row(cuda, 1, 1000, Dtype::kF32);
    row.set(logits);
    auto chooser = cuda.make_chooser(choice_rules(sampling, 1000), {});
    if (!chooser.ok() || *chooser == nullptr) return report.fail("make_chooser", "there is none");
    (*chooser)->choose(row.rows());
    const auto token = (*chooser)->take();
    report.add("logits with " + std::to_string(bad) + " are an error",
               !token.ok() && token.error().code == Code::kInternal ? 0 : 1, 0);
  }
}

}  // namespace

void check_choices(Report& report, Steps& cuda, const CheckOptions& options) {
  const Limits limits{.rows = 1,
                      .hidden = 64,
                      .widest = 64,
                      .vocabulary = 248320,
                      .slots = 1,
                      .experts = 1,
                      .intermediate = 64};
  if (const Status status = cuda.reserve(limits); !status.ok())
    return report.fail("reserve", status.error().message);
  int compared = 0, differ = 0;
  for (const char* kind : {"normal", "peaked", "coarse", "flat", "masked"}) {
    for (const int64_t vocabulary : {int64_t{248320}, int64_t{1358}, int64_t{60}}) {
      if (options.small_only && (vocabulary > 60 || kind != std::string("coarse"))) continue;
      int here = 0, differ_here = 0;
      uint64_t seed = 1;
      for (const Setting& setting : settings()) {
        Sampling sampling = setting.sampling;
        sampling.seed = seed++ * 0x9E3779B97F4A7C15u;
        const int d = differing(report, cuda, logits_of(kind, vocabulary, seed), sampling, &here);
        if (d > 0) std::printf("     a choice differs: %s, %s, %ld\n", kind, setting.name, vocabulary);
        differ_here += d;
      }
      std::printf("     %s logits, %ld tokens: %d choices, %d differ\n", kind, vocabulary, here, differ_here);
      compared += here;
      differ += differ_here;
    }
  }
  report.add("choices that differ from the host's, of " + std::to_string(compared), differ, 1e-3 * compared);
  check_bad_logits(report, cuda);
}

}  // namespace weir::bench
