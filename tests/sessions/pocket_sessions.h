// The pocket models on the CPU, whole conversations with them, and answers down to the bits of what the model
// believed.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "kernels/cpu/cpu_steps.h"
#include "kernels/observe/forwarding_steps.h"
#include "sessions/scheduler.h"
#include "support/diffusion.h"

namespace weir::test {

// Steps that fail every pass after a number of them, as a lost device would, have no memory if so asked, and
// note how many sequences each pass had.
class WatchedSteps : public ForwardingSteps {
 public:
  using ForwardingSteps::ForwardingSteps;
  void begin(const Batch& batch) override {
    segments_of_passes.push_back(batch.segments.size());
    ForwardingSteps::begin(batch);
  }
  Status finish() override {
    if (passes_left == 0) return Error{Code::kDevice, "the device is gone", ""};
    --passes_left;
    return ForwardingSteps::finish();
  }
  Result<Buffer> allocate(size_t bytes) override {
    if (no_memory) return Error{Code::kOutOfMemory, "there is no memory left", ""};
    return ForwardingSteps::allocate(bytes);
  }
  std::atomic<bool> no_memory = false;
  std::atomic<int> passes_left = std::numeric_limits<int>::max();
  std::vector<size_t> segments_of_passes;  // the scheduler's thread writes
};

enum class Kind { kQwen, kGemma };

inline std::string kind_name(Kind kind) {
  return kind == Kind::kQwen ? "qwen" : "gemma";
}

struct PocketModel {
  explicit PocketModel(Kind which, int64_t together = 4) : kind(which) {
    const std::string folder = "models/pocket-" + kind_name(kind);
    auto watched = std::make_unique<WatchedSteps>(taken(make_cpu_steps(pool, cpu_features().best_isa())));
    steps = watched.get();
    Checkpoint checkpoint = taken(Checkpoint::open(folder));
    if (kind == Kind::kQwen) {
      generator = make_generator(taken(qwen::Model::load(std::move(checkpoint), std::move(watched),
                                                         {.max_rows = 512, .max_wanted = together}, {})));
    } else {
      generator = make_generator(
          taken(diffusion_gemma::Model::load(std::move(checkpoint), std::move(watched), together * 128, {})));
    }
    tokenizer = std::make_unique<Tokenizer>(taken(Tokenizer::load(folder + "/tokenizer.json")));
  }

  // A turn of the user, and the beginning of the answer without thinking.
  Tokens question(const std::string& text, bool first) const {
    if (kind == Kind::kQwen) {
      return encode(std::string(first ? "" : "<|im_end|>\n") + "<|im_start|>user\n" + text +
                    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
    }
    return encode(std::string(first ? "<bos>" : "<turn|>\n") + "<|turn>user\n" + text +
                  "<turn|>\n<|turn>model\n<|channel>thought\n<channel|>");
  }
  Tokens encode(const std::string& text) const {
    return taken(tokenizer->encode(text, AddedTokens::kRecognise));
  }

  // Hot enough that chance decides, so that an answer tells of any difference.
  GenerationRequest request(Tokens prompt, uint64_t seed, int64_t max_tokens = 24) const {
    GenerationRequest r;
    r.prompt = std::move(prompt);
    r.max_tokens = max_tokens;
    r.sampling.seed = seed;
    if (kind == Kind::kQwen) {
      r.end_tokens = {1355, 1357};
      r.sampling.temperature = 3;
      r.top_logprobs = 20;
    } else {
      r.end_tokens = {1, 9, 16};
      r.denoising.emplace().steps = 8;
    }
    return r;
  }

  const Kind kind;
  ThreadPool pool{1};
  WatchedSteps* steps = nullptr;
  std::unique_ptr<Generator> generator;
  std::unique_ptr<Tokenizer> tokenizer;
};

inline std::vector<std::string> pocket_questions() {
  std::vector<std::string> questions;
  std::ifstream file("tests/data/pocket/held_out.jsonl");
  for (std::string line; std::getline(file, line);) {
    questions.push_back(nlohmann::json::parse(line)["question"].get<std::string>());
  }
  return questions;
}

// A folder that is gone with this.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "weir-sessions-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::vector<std::string> files(const std::string& suffix = "") const {
    std::vector<std::string> found;
    for (const auto& file : std::filesystem::directory_iterator(path_)) {
      if (file.path().string().ends_with(suffix)) found.push_back(file.path());
    }
    return found;
  }
  uint64_t bytes() const {
    uint64_t total = 0;
    for (const std::string& file : files()) total += std::filesystem::file_size(file);
    return total;
  }

 private:
  std::string path_;
};

// What a client saw.
struct Seen {
  JobResult result;
  std::string text;
  std::vector<uint32_t> beliefs;  // bits of every log-probability or confidence that was reported
};

class Watcher {
 public:
  void piece(const Piece& piece) {
    seen_.text += piece.text;
    if (piece.logprobs == nullptr) return;
    for (const TokenLogprob& top : piece.logprobs->top) note(top.logprob);
  }
  void canvas(const CanvasFrame& frame) {
    for (const float confidence : frame.confidence) note(confidence);
    for (const float entropy : frame.entropy) note(entropy);
  }
  Seen& seen() { return seen_; }

 private:
  void note(float value) { seen_.beliefs.push_back(std::bit_cast<uint32_t>(value)); }
  Seen seen_;
};

struct Asked {
  std::shared_ptr<Job> job;
  std::future<Seen> seen;
};

inline Asked ask(Scheduler& scheduler, GenerationRequest request) {
  const auto watcher = std::make_shared<Watcher>();
  const auto promise = std::make_shared<std::promise<Seen>>();
  Asked asked;
  asked.seen = promise->get_future();
  JobCallbacks callbacks;
  callbacks.piece = [watcher](const Piece& piece) { watcher->piece(piece); };
  callbacks.canvas = [watcher](const CanvasFrame& frame) { watcher->canvas(frame); };
  callbacks.finished = [watcher, promise](const JobResult& result) {
    watcher->seen().result = result;
    promise->set_value(std::move(watcher->seen()));
  };
  asked.job = taken(scheduler.submit(std::move(request), std::move(callbacks)));
  return asked;
}

// The same answer by the generator alone, from nothing.
inline Seen answer_cold(const PocketModel& model, GenerationRequest request) {
  Watcher watcher;
  GenerationCallbacks callbacks;
  callbacks.piece = [&](const Piece& piece) { watcher.piece(piece); };
  callbacks.canvas = [&](const CanvasFrame& frame) { watcher.canvas(frame); };
  const auto generation = taken(model.generator->start(*model.tokenizer, std::move(request), callbacks, {}));
  EXPECT_TRUE(generation->run().ok());
  JobResult& result = watcher.seen().result;
  result.finish = generation->finish_reason();
  result.statistics = generation->statistics();
  result.answer.assign(generation->answer().begin(), generation->answer().end());
  return std::move(watcher.seen());
}

inline void expect_same(const Seen& found, const Seen& expected) {
  EXPECT_EQ(found.result.answer, expected.result.answer);
  EXPECT_EQ(found.text, expected.text);
  EXPECT_EQ(found.result.finish, expected.result.finish);
  EXPECT_TRUE(found.beliefs == expected.beliefs) << "the model believed something else";
  const GenerationStatistics &a = found.result.statistics, &b = expected.result.statistics;
  EXPECT_EQ(a.prompt_tokens, b.prompt_tokens);
  EXPECT_EQ(a.generated_tokens, b.generated_tokens);
  EXPECT_EQ(a.canvases, b.canvases);
  EXPECT_EQ(a.denoising_passes, b.denoising_passes);
  EXPECT_EQ(a.canvas_rows, b.canvas_rows);
}

inline Tokens joined(const Tokens& a, const Tokens& b) {
  Tokens both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

// A sequence that holds the tokens.
inline HeldSequence read(const PocketModel& model, const Tokens& tokens, HeldSequence held = {}) {
  GenerationRequest request = model.request(joined(tokens, {20}), 1);
  request.checkpoints = {static_cast<int64_t>(tokens.size())};
  HeldSequence kept;
  GenerationCallbacks callbacks;
  callbacks.checkpoint = [&](const SequenceState& state) {
    kept.state = taken(model.generator->copy(state));
    kept.tokens = tokens;
  };
  const auto generation =
      taken(model.generator->start(*model.tokenizer, request, callbacks, std::move(held)));
  while (kept.tokens.empty()) EXPECT_TRUE(generation->step().ok());
  EXPECT_EQ(kept.tokens, tokens);
  return kept;
}

}  // namespace weir::test
