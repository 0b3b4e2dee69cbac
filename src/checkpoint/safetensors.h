// One safetensors file: eight bytes of header length, a JSON header, then the tensors' bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "checkpoint/tensor.h"

namespace weir {

// The tensors of a whole file in memory, in the order of their data, as views into `bytes`. Checks header
// length, JSON, types and shapes, that the ranges cover the data without gaps or overlaps, and that no name
// occurs twice. `path` is for messages. Errors: kCorrupt, or kUnsupported for an unknown dtype.
Result<std::vector<TensorView>> parse_safetensors(std::span<const std::byte> bytes, std::string_view path);

class SafetensorsFile {
 public:
  // Maps the file and checks it as parse_safetensors does. Error beyond its own: kNotFound.
  static Result<SafetensorsFile> open(const std::string& path);

  // The tensors in the order of their data; views into the mapping, which moves with this object.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;
  const std::string& path() const { return file_.path(); }
  void let_go() const { file_.let_go(); }  // see MappedFile

 private:
  explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
  std::vector<TensorView> tensors_;
};

}  // namespace weir
