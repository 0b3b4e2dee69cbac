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

class SafetensorsFile {
 public:
  // Maps and checks the file: header length, JSON, types, shapes, that every range lies inside the file, that
  // no two overlap and that no name occurs twice.
  static Result<SafetensorsFile> open(const std::string& path);

  // The tensors in the order of their data; views into the mapping, which moves with this object.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;
  const std::string& path() const { return file_.path(); }

 private:
  explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
  std::vector<TensorView> tensors_;
};

}  // namespace weir
