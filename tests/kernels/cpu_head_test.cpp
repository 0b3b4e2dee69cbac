// The CPU's output head and its vocabulary against float64, and against themselves: the same bits for every
// instruction set, number of threads and choice of neighbours.
#include "kernels/cpu/head.h"
#include "kernels/cpu_head_support.h"
#include "kernels/cpu_matrix_support.h"

namespace weir::test {
namespace {

constexpr float kScale = 11.25f, kSoftcap = 30, kEpsilon = 1e-6f;
constexpr float kUntouched = 777;

// A canvas of some slots in the batch, behind one causal row, with an inquiry for every row.
struct HeadCase {
  HeadCase(Random& random, const Encoding& encoding, int64_t vocabulary, int64_t hidden, int64_t canvas_rows)
      : owned(random_matrix(random, vocabulary, hidden, encoding)),
        embedding(owned.view()),
        gain(random.vector(hidden, 0.5f, 1.5f)),
        x(random.floats((canvas_rows + 1) * hidden, -4, 4)),
        rows(canvas_rows + 1) {
    const int32_t kinds[] = {kAllTokens, 1, 64, kMaxSoftTokens, 0, kAllTokens};
    for (int64_t r = 0; r < rows; ++r) {
      Inquiry inquiry;
      inquiry.row = static_cast<int32_t>(r);
      inquiry.temperature = random.between(0.4f, 1);
      inquiry.draw = {11, 2, 3, static_cast<uint32_t>(r)};
      inquiry.soft_tokens = kinds[static_cast<size_t>(r) % std::size(kinds)];
      inquiries.push_back(inquiry);
      if (r > 0) slots.push_back(static_cast<int32_t>(2 * r));
    }
  }
  int64_t length() const { return 2 * rows; }
  std::span<const float> row(int64_t r) const {
    return {x.data() + r * embedding.cols, static_cast<size_t>(embedding.cols)};
  }

  OwnedMatrix owned;
  Matrix embedding;
  Vector gain;
  std::vector<float> x;
  int64_t rows;
  std::vector<Inquiry> inquiries;
  std::vector<int32_t> slots;
};

struct Outcome {
  std::vector<Belief> beliefs;
  std::vector<float> soft;  // [length, H]
};

// The case on these kernels, in one pass for each run of `cut` inquiries.
Outcome run_head(HeadCase& c, const cpu::CpuKernels& kernels, int threads, int64_t cut) {
  ThreadPool pool(threads);
  auto packed = cpu::pack_vocabulary(c.embedding, kScale, kernels, "isa", pool);
  EXPECT_TRUE(packed.ok()) << packed.error().message;
  const auto& vocabulary = static_cast<const cpu::PackedVocabulary&>(**packed);
  cpu::Head head(kernels, pool);
  Limits limits;
  limits.rows = c.rows;
  limits.hidden = c.embedding.cols;
  EXPECT_TRUE(head.reserve(limits).ok());

  const int64_t hidden = c.embedding.cols, first_row = 3;  // rows that the pass does not hand over
  CanvasState canvas;
  canvas.soft = zeroed(static_cast<size_t>(c.length() * hidden) * sizeof(float));
  std::fill_n(canvas.soft.floats(), c.length() * hidden, kUntouched);
  std::vector<Inquiry> inquiries = c.inquiries;
  for (Inquiry& inquiry : inquiries) inquiry.row += static_cast<int32_t>(first_row);
  const CanvasSegment segment{nullptr, &canvas, 0, c.length(), first_row + 1, c.slots};
  Outcome outcome;
  outcome.beliefs.resize(inquiries.size());
  const auto count = static_cast<int64_t>(inquiries.size());
  for (int64_t i = 0; i < std::max<int64_t>(count, 1); i += cut) {
    CanvasBatch batch;
    batch.canvases = {&segment, 1};
    batch.inquiries = {inquiries.data() + i, static_cast<size_t>(std::min(cut, count - i))};
    head.run(outcome.beliefs.data() + i, rows_of(c.x, hidden), first_row, c.gain, kEpsilon, vocabulary,
             kSoftcap, batch);
  }
  outcome.soft = {canvas.soft.floats(), canvas.soft.floats() + c.length() * hidden};
  return outcome;
}

// Logits of row r in float64, from activations normed and rounded as the products' are.
std::vector<double> exact_logits(const HeadCase& c, int64_t r) {
  const int64_t hidden = c.embedding.cols;
  const auto& kernels = cpu::portable::kKernels.rows;
  std::vector<float> normed(static_cast<size_t>(hidden));
  kernels.rms_norm(normed.data(), c.row(r).data(), c.gain.floats(), kEpsilon, hidden);
  std::vector<double> x(normed.begin(), normed.end());
  if (c.embedding.encoding.affine()) {
    const int64_t group = c.embedding.encoding.group;
    std::vector<int8_t> q(x.size());
    std::vector<float> scale(x.size()), sum(x.size());
    kernels.quantize(q.data(), scale.data(), sum.data(), normed.data(), group, hidden);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 1.0 * q[i] * scale[i / static_cast<size_t>(group)];
  }
  std::vector<double> z;
  for (int64_t v = 0; v < c.embedding.rows; ++v) {
    const std::vector<double> w = exact_row(c.embedding, v);
    z.push_back(std::inner_product(w.begin(), w.end(), x.begin(), 0.0));
  }
  return z;
}

// scale * sum of p E over the `kept` most probable tokens, and the sum of the terms' magnitudes.
struct Expected {
  std::vector<double> value, magnitude;
};
Expected expected_embedding(const HeadCase& c, const Distribution& d, int32_t kept) {
  const auto hidden = static_cast<size_t>(c.embedding.cols);
  Expected e{std::vector<double>(hidden), std::vector<double>(hidden)};
  const std::vector<int32_t> order = ranked(d.y);
  const size_t count = kept == kAllTokens ? order.size() : static_cast<size_t>(kept);
  for (size_t i = 0; i < std::min(count, order.size()); ++i) {
    const std::vector<double> w = exact_row(c.embedding, order[i]);
    const double p = kScale * d.p[static_cast<size_t>(order[i])];
    for (size_t h = 0; h < hidden; ++h) {
      e.value[h] += p * w[h];
      e.magnitude[h] += p * std::fabs(w[h]);
    }
  }
  return e;
}

std::vector<Encoding> encodings() {
  return {{Dtype::kBf16, 8, 64}, {Dtype::kBf16, 4, 64}, {Dtype::kF32, 8, 32}, {Dtype::kBf16, 6, 128},
          {Dtype::kF32, 4, 32},  {Dtype::kBf16, 3, 64}, {Dtype::kF32, 3, 32}, {Dtype::kBf16, 2, 128},
          {Dtype::kBf16, 2, 32}, {Dtype::kBf16, 0, 0},  {Dtype::kF32, 0, 0}};
}

int64_t hidden_of(const Encoding& encoding) {
  return encoding.affine() ? 256 : 100;
}

TEST(CpuVocabulary, LooksUpTheRowsOfEveryEncodingTimesTheScale) {
  Random random(1);
  ThreadPool pool(2);
  for (const Encoding& encoding : encodings()) {
    const int64_t hidden = hidden_of(encoding);
    const OwnedMatrix owned = random_matrix(random, 39, hidden, encoding);
    for (const NamedKernels& table : kernel_tables()) {
      SCOPED_TRACE(encoding.text() + " on " + table.name);
      auto packed = cpu::pack_vocabulary(owned.view(), kScale, *table.kernels, "isa", pool);
      ASSERT_TRUE(packed.ok());
      const auto& vocabulary = static_cast<const cpu::PackedVocabulary&>(**packed);
      ASSERT_EQ(vocabulary.rows(), 39);
      ASSERT_EQ(vocabulary.cols(), hidden);
      std::vector<float> got(static_cast<size_t>(hidden)), want = got;
      for (int32_t token = 0; token < 39; ++token) {
        vocabulary.look_up(got.data(), token);
        decode_row(owned.view(), token, want.data());
        for (float& value : want) value *= kScale;
        expect_same_bits(got, want, "token " + std::to_string(token));
      }
    }
  }
}

TEST(CpuVocabulary, RefusesWhatTheKernelsDoNotHave) {
  Random random(2);
  ThreadPool pool(1);
  OwnedMatrix owned = random_matrix(random, 32, 64, {Dtype::kBf16, 8, 64});
  Matrix odd = owned.view();
  odd.encoding.group = 48;
  const auto packed = cpu::pack_vocabulary(odd, 1, best_kernels(), "isa", pool);
  ASSERT_FALSE(packed.ok());
  EXPECT_EQ(packed.error().code, Code::kUnsupported);
}

void expect_as_in_float64(HeadCase& c) {
  const int64_t hidden = c.embedding.cols;
  const Outcome got = run_head(c, best_kernels(), 2, c.rows);
  std::vector<bool> written(static_cast<size_t>(c.length()), false);
  for (int64_t r = 0; r < c.rows; ++r) {
    SCOPED_TRACE("row " + std::to_string(r));
    const Inquiry& inquiry = c.inquiries[static_cast<size_t>(r)];
    const Belief& belief = got.beliefs[static_cast<size_t>(r)];
    const Distribution d = distribution(exact_logits(c, r), kSoftcap, inquiry.temperature);
    const std::vector<int32_t> order = ranked(d.y);
    EXPECT_EQ(belief.best, order[0]);
    EXPECT_EQ(belief.second, order[1]);
    EXPECT_EQ(belief.sampled, drawn_token(d, inquiry.draw));
    EXPECT_NEAR(belief.best_probability, d.p[static_cast<size_t>(order[0])], 1e-4 * belief.best_probability);
    EXPECT_NEAR(belief.second_probability, d.p[static_cast<size_t>(order[1])],
                1e-4 * belief.second_probability);
    EXPECT_NEAR(belief.entropy, d.entropy, 5e-5);
    if (r == 0 || inquiry.soft_tokens == 0) continue;
    const auto slot = static_cast<size_t>(c.slots[static_cast<size_t>(r - 1)]);
    written[slot] = true;
    const Expected want = expected_embedding(c, d, inquiry.soft_tokens);
    for (size_t h = 0; h < want.value.size(); ++h) {
      ASSERT_NEAR(got.soft[slot * want.value.size() + h], want.value[h], 1e-4 * want.magnitude[h] + 2e-6)
          << "soft of " << inquiry.soft_tokens << " tokens, column " << h;
    }
  }
  for (int64_t at = 0; at < c.length() * hidden; ++at) {
    if (written[static_cast<size_t>(at / hidden)]) continue;
    ASSERT_EQ(got.soft[static_cast<size_t>(at)], kUntouched) << "slot " << at / hidden;
  }
}

TEST(CpuHead, BeliefsAndExpectedEmbeddingsOfEveryEncodingAreThoseOfFloat64) {
  Random random(3);
  for (const Encoding& encoding : encodings()) {
    for (const int64_t vocabulary : {512, 1003}) {
      SCOPED_TRACE(encoding.text() + ", vocabulary of " + std::to_string(vocabulary));
      HeadCase c(random, encoding, vocabulary, hidden_of(encoding), 20);
      expect_as_in_float64(c);
    }
  }
}

TEST(CpuHead, ManyPanelsAreWalkedInSeveralParts) {
  Random random(4);
  for (const int64_t vocabulary : {1024, 5000}) {
    SCOPED_TRACE(vocabulary);
    HeadCase c(random, {Dtype::kBf16, 8, 64}, vocabulary, 128, 110);
    expect_as_in_float64(c);
  }
}

TEST(CpuHead, ASmallVocabularyGivesAllItsTokens) {
  Random random(5);
  HeadCase c(random, {Dtype::kBf16, 8, 32}, 21, 64, 7);
  expect_as_in_float64(c);
}

void expect_same(const Outcome& a, const Outcome& b, const std::string& what) {
  ASSERT_EQ(std::memcmp(a.beliefs.data(), b.beliefs.data(), a.beliefs.size() * sizeof(Belief)), 0) << what;
  expect_same_bits(a.soft, b.soft, what);
}

TEST(CpuHead, BitsAreTheSameForEveryInstructionSetThreadCountAndCut) {
  Random random(6);
  for (const Encoding& encoding :
       {Encoding{Dtype::kBf16, 8, 64}, Encoding{Dtype::kBf16, 4, 32}, Encoding{Dtype::kBf16, 3, 64},
        Encoding{Dtype::kBf16, 2, 64}, Encoding{Dtype::kBf16, 0, 0}}) {
    HeadCase c(random, encoding, 1300, hidden_of(encoding), 75);
    const Outcome first = run_head(c, *kernel_tables().front().kernels, 1, c.rows);
    for (const NamedKernels& table : kernel_tables()) {
      for (const int threads : {1, 3, 11}) {
        for (const int64_t cut : {c.rows, int64_t{31}, int64_t{1}}) {
          if (cut == 1 && threads == 11) continue;
          expect_same(run_head(c, *table.kernels, threads, cut), first,
                      encoding.text() + " on " + table.name + ", " + std::to_string(threads) + " threads, " +
                          std::to_string(cut) + " inquiries a pass");
        }
      }
    }
  }
}

TEST(CpuHead, NoInquiriesAreNoWork) {
  Random random(7);
  HeadCase c(random, {Dtype::kBf16, 8, 64}, 512, 64, 4);
  c.inquiries.clear();
  const Outcome got = run_head(c, best_kernels(), 2, 1);
  EXPECT_TRUE(got.beliefs.empty());
  for (const float value : got.soft) ASSERT_EQ(value, kUntouched);
}

TEST(CpuHead, ActivationsThatAreNaNStayInTheirRow) {
  Random random(8);
  HeadCase c(random, {Dtype::kBf16, 8, 64}, 600, 64, 40);
  const Outcome clean = run_head(c, best_kernels(), 2, c.rows);
  const int64_t broken = 6;  // asks for all tokens
  ASSERT_EQ(c.inquiries[broken].soft_tokens, kAllTokens);
  c.x[static_cast<size_t>(broken * 64 + 5)] = std::numeric_limits<float>::quiet_NaN();
  const Outcome got = run_head(c, best_kernels(), 2, c.rows);
  EXPECT_TRUE(std::isnan(got.beliefs[broken].entropy));
  for (int64_t r = 0; r < c.rows; ++r) {
    if (r == broken) continue;
    const auto i = static_cast<size_t>(r);
    EXPECT_EQ(std::memcmp(&got.beliefs[i], &clean.beliefs[i], sizeof(Belief)), 0) << "row " << r;
  }
  const auto slot = static_cast<size_t>(c.slots[broken - 1]);
  for (size_t at = 0; at < got.soft.size(); ++at) {
    if (at / 64 == slot) continue;
    ASSERT_EQ(got.soft[at], clean.soft[at]) << "slot " << at / 64;
  }
}

}  // namespace
}  // namespace weir::test
