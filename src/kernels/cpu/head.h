// The output head of block diffusion: DiffusionSteps::norm_head.
//
// The vocabulary is walked once, some panels at a time, in four phases with a barrier of the pool between
// them: threads divide the panels' blocks of weights for the logits, then rows for what is learned about
// each, then, for expected embeddings, rows and panels, and columns. Which thread does what moves no sum.
#pragma once

#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/activations.h"
#include "kernels/cpu/expected_embeddings.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/row_belief.h"
#include "kernels/cpu/top_tokens.h"
#include "kernels/cpu/vocabulary.h"
#include "kernels/diffusion_steps.h"

namespace weir::cpu {

class Head {
 public:
  Head(const CpuKernels& kernels, ThreadPool& pool);

  // For batches with at most limits.rows inquiries. Error: kOutOfMemory.
  Status reserve(const Limits& limits);

  // beliefs[i] of inquiry i, and the expected embeddings of its canvas row where it asks for them, as
  // DiffusionSteps::norm_head says. softcap > 0. Activations are rounded to int8 for an affine vocabulary, as
  // in every projection.
  void run(Belief* beliefs, Rows x, int64_t first_row, const Vector& gain, float epsilon,
           const PackedVocabulary& vocabulary, float softcap, const CanvasBatch& batch);

 private:
  // One inquiry while the vocabulary is walked.
  struct Row {
    RowBelief belief;
    TopTokens top;
    DrawKey draw;
    Capping capping;
    float* soft = nullptr;  // where its expected embedding goes, if anywhere
    int64_t expected = -1;  // its number among the rows that need all tokens
  };

  void begin_rows(float softcap, const CanvasBatch& batch, int64_t cols);
  void prepare(Rows x, int64_t first_row, const Vector& gain, float epsilon, const PackedMatrix& w,
               std::span<const Inquiry> inquiries);
  void multiply_panels(const PackedMatrix& w, Range panels);
  void weigh_row(int64_t i, Range panels, int64_t vocabulary, float* weights);
  void finish_row(Belief& belief, Row& row, const PackedVocabulary& vocabulary, float* embedding) const;
  float* thread_floats(int thread) const { return thread_floats_ + thread * thread_stride_; }

  const CpuKernels& kernels_;
  ThreadPool& pool_;
  int64_t panels_;  // walked at a time
  std::vector<Row> rows_;
  int64_t expected_rows_ = 0;

  Buffer scratch_;
  float* normed_ = nullptr;         // [inquiries, H]
  float* logits_ = nullptr;         // [inquiries][panels][kHeadPanel]
  int32_t* identity_ = nullptr;     // 0, 1, 2, ...
  RankedToken* top_ = nullptr;      // [inquiries][kMaxSoftTokens]
  float* thread_floats_ = nullptr;  // [threads][thread_stride_]: a panel's weights, or an embedding
  int64_t thread_stride_ = 0;
  Activations activations_;
  ExpectedEmbeddings expected_;
};

}  // namespace weir::cpu
