// A model folder, opened: configuration, mapped tensors, and the accounting that every tensor is read or
// known to be skipped.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/matrix.h"
#include "checkpoint/quantization.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor.h"

namespace weir {

enum class Layout { kHuggingFace, kMlx };

// Module paths are given in MLX's spelling without the "language_model." prefix, such as
// "model.layers.0.mlp.gate" and "lm_head"; the checkpoint maps them to the names of its own layout.
class Checkpoint {
 public:
  // `folder` holds config.json and either model.safetensors or shards with model.safetensors.index.json.
  // Tensors of the vision tower and of multi-token prediction are skipped and counted. Errors: kNotFound,
  // kCorrupt or kUnsupported, naming file and tensor.
  static Result<Checkpoint> open(const std::string& folder);

  // The same of tensors in memory, which `owner` keeps alive; `origin` stands for the folder in messages.
  static Result<Checkpoint> from_memory(std::string origin, nlohmann::json config,
                                        std::span<const TensorView> tensors,
                                        std::shared_ptr<const void> owner);

  const std::string& folder() const { return folder_; }
  const nlohmann::json& config() const { return *config_; }
  std::string config_path() const { return folder_ + "/config.json"; }
  const QuantizationSection& quantization() const { return quantization_; }
  Layout layout() const { return layout_; }

  bool has(std::string_view name)
      const;  // a tensor by its full name, such as "model.norm.weight"; skipped ones too

  // The weight matrix of a module, or of a bare tensor `module` itself when no "<module>.weight" exists
  // (Hugging Face's fused experts): [rows, cols] after flattening leading dimensions. Shapes, bits and groups
  // are checked against each other and against config.json's quantisation section; scales and biases against
  // NaN and infinity. Marks the tensors as read. Errors: kNotFound, kCorrupt or kUnsupported, naming file,
  // tensor, found and expected.
  Result<Matrix> matrix(std::string_view module, int64_t rows, int64_t cols);

  // A small float tensor of `count` elements (any shape), all finite, widened to float32. Marks it as read.
  Result<std::vector<float>> values(std::string_view name, int64_t count);

  // True when the zero-centred norms are stored as gain - 1 (raw Hugging Face layout: see specs of the +1
  // rule).
  bool norms_are_zero_centred() const { return layout_ == Layout::kHuggingFace; }

  // Gives back the memory that holds what has been read of the files, so that weights do not take their room
  // twice while they are packed. Matrices stay valid.
  void let_go() const;

  // Skips every tensor not read yet whose full name starts with `prefix`, and counts them.
  void skip_prefix(std::string_view prefix);

  // An error naming the first tensors that nobody read or skipped, and how many there are.
  Status finish() const;

  struct Skipped {
    int64_t tensors = 0;
    uint64_t bytes = 0;
  };
  const Skipped& skipped() const { return skipped_; }

  // What was loaded although config.json says something else: modules without an entry of their own whose
  // bits differ from the defaults. One sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

  // All tensors, skipped ones too, sorted by name as the files spell them.
  std::vector<const TensorView*> tensors() const;
  uint64_t total_bytes() const;

 private:
  enum class Use { kNotYet, kRead, kSkipped };
  struct Entry {
    TensorView view;
    std::string file;
    Use use = Use::kNotYet;
  };

  Checkpoint() = default;

  Status take_config(nlohmann::json config);
  Status open_files();
  Status open_model_files();
  Status open_shards(const std::string& index_path);
  Status add_file(const std::string& path);
  Status add_tensors(std::span<const TensorView> tensors, const std::string& file);
  Status sort_out();
  Status detect_layout();
  void skip(Entry& entry);
  const TensorView* take(std::string_view name);  // marks it as read; null when there is none
  void note_departure(std::string_view module, const Encoding& stored);

  std::string folder_;
  std::shared_ptr<const nlohmann::json> config_;
  QuantizationSection quantization_;
  Layout layout_ = Layout::kHuggingFace;
  std::vector<SafetensorsFile> files_;
  std::shared_ptr<const void> memory_;                 // of tensors that come from no file
  std::map<std::string, Entry, std::less<>> tensors_;  // by canonical name
  Skipped skipped_;
  std::vector<std::string> notes_;
};

}  // namespace weir
