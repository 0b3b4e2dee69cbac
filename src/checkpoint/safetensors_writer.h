// Writes the weights of a model folder: safetensors shards and their index, tensor by tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/new_file.h"
#include "checkpoint/tensor.h"

namespace weir {

// A tensor that will be written.
struct TensorPlan {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;  // dimensions of at least 0 whose product fits

  uint64_t bytes() const;
};

// Nothing of the folder has its name before finish(), and what was written is removed when it is not reached.
class SafetensorsWriter {
 public:
  static constexpr uint64_t kShardBytes = uint64_t{5} << 30;

  // `folder` is empty, or is made, with its parents. Tensors are laid out in the order of `plan`, in shards
  // of at most `shard_bytes` of data; a larger tensor has a shard of its own. Tensors of the multi-token
  // prediction head (kDraftHeadPrefix) are neighbours and have a file of theirs, kDraftHeadFile, which the
  // index does not list. `progress` counts bytes of all tensors. Errors: kInvalidArgument for a folder with
  // something in it, for names that occur twice and for no bytes at all; kInternal for what the file system
  // refuses, a lack of room for all tensors included.
  static Result<SafetensorsWriter> create(std::string folder, std::vector<TensorPlan> plan,
                                          Progress progress = {}, uint64_t shard_bytes = kShardBytes);

  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();

  // The next bytes of the tensors in their order; a call may end anywhere. At most as many as were planned.
  Status write(std::span<const std::byte> data);

  // Another file of the folder, such as config.json, whole.
  Status add_file(std::string_view name, std::string_view text);

  // Once all planned bytes are written: the index, then the names of all files. config.json gets its name
  // last, so that a folder which has one is complete.
  Status finish();

 private:
  struct Shard {
    bool draft_head = false;
    std::string name = {};
    std::vector<TensorPlan> tensors = {};
    uint64_t bytes = 0;
  };

  SafetensorsWriter(std::string folder, Progress progress)
      : folder_(std::move(folder)), progress_(std::move(progress)) {}

  Status prepare_folder();
  Status check_room() const;
  void name_shards();
  Status open_shard();  // the next one, with its header
  std::string index() const;

  std::string folder_;
  Progress progress_;
  bool made_folder_ = false, finished_ = false;
  std::vector<Shard> shards_;
  std::map<std::string, NewFile> files_;  // by name; the last shard of them open
  size_t opened_ = 0;                     // shards so far
  uint64_t left_in_shard_ = 0, done_ = 0, total_ = 0;
};

}  // namespace weir
