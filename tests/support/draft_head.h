// The tiny Qwen model with a random multi-token prediction head: tests/data/qwen-tiny, see
// tools/draft_head_golden.py.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/names.h"
#include "support/qwen.h"

namespace weir::test {

// With `live` > 0, all rows of the model's head from that one on are zero, so that few tokens can be the best
// one, and guesses are often right.
inline Result<Checkpoint> tiny_checkpoint_with_head(size_t live = 0) {
  struct Files {
    Checkpoint model;
    SafetensorsFile head;
    std::vector<std::byte> lm_head;
  };
  WEIR_TRY(Checkpoint model, Checkpoint::open("tests/data/qwen-tiny/hf"));
  WEIR_TRY(SafetensorsFile head, SafetensorsFile::open("tests/data/qwen-tiny/draft-head/head.safetensors"));
  auto files = std::make_shared<Files>(Files{std::move(model), std::move(head), {}});
  std::vector<TensorView> tensors;
  for (const TensorView* tensor : files->model.tensors()) {
    if (!is_vision_or_mtp(tensor->name)) tensors.push_back(*tensor);
    if (live == 0 || tensor->name != "lm_head.weight") continue;
    const size_t row_bytes = tensor->data.size() / 512;
    files->lm_head.assign(tensor->data.size(), std::byte{0});
    std::copy_n(tensor->data.begin(), live * row_bytes, files->lm_head.begin());
    tensors.back().data = files->lm_head;
  }
  for (const TensorView& tensor : files->head.tensors()) tensors.push_back(tensor);
  return Checkpoint::from_memory("qwen-tiny with a head", files->model.config(), tensors, files);
}

inline std::unique_ptr<qwen::Model> load_with_head(Result<Checkpoint> checkpoint,
                                                   std::unique_ptr<Steps> steps) {
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  if (!checkpoint.ok()) return nullptr;
  auto model = qwen::Model::load(std::move(*checkpoint), std::move(steps),
                                 {.max_rows = 80, .max_wanted = 16, .draft_head = true}, {});
  EXPECT_TRUE(model.ok()) << model.error().message;
  return model.ok() ? std::move(*model) : nullptr;
}

inline std::unique_ptr<qwen::Model> load_tiny_with_head(std::unique_ptr<Steps> steps, size_t live = 0) {
  return load_with_head(tiny_checkpoint_with_head(live), std::move(steps));
}

}  // namespace weir::test
