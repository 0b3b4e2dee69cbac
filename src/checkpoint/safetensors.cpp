#include "checkpoint/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "checkpoint/quote.h"

namespace weir {
namespace {

namespace json = simdjson::dom;

// The format's own limit on the header.
constexpr uint64_t kLongestHeader = 100'000'000;

Error corrupt(std::string_view path, const std::string& what) {
  return Error{Code::kCorrupt, std::string(path) + ": " + what,
               "the file is damaged or not a safetensors file; download or convert it again"};
}

Error bad_tensor(std::string_view path, std::string_view name, const std::string& what) {
  return corrupt(path, "tensor " + quote(name) + " " + what);
}

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Dtype::kF64); ++i) {
    const auto dtype = static_cast<Dtype>(i);
    if (dtype_name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

Result<Dtype> read_dtype(const json::object& fields, std::string_view path, std::string_view name) {
  std::string_view text;
  if (fields["dtype"].get(text)) return bad_tensor(path, name, "has no dtype");
  const auto dtype = dtype_from_name(text);
  if (dtype) return *dtype;
  return Error{Code::kUnsupported,
               std::string(path) + ": tensor " + quote(name) + " has the unknown dtype " + quote(text),
               "weir reads BF16, F16 and F32 weights and MLX's affine quantisation"};
}

Result<std::vector<int64_t>> read_shape(const json::object& fields, std::string_view path,
                                        std::string_view name) {
  json::array dimensions;
  if (fields["shape"].get(dimensions)) return bad_tensor(path, name, "has no shape");
  std::vector<int64_t> shape;
  for (const json::element element : dimensions) {
    int64_t dimension = 0;
    if (element.get(dimension) || dimension < 0) {
      return bad_tensor(path, name, "has a dimension that is not a non-negative integer");
    }
    shape.push_back(dimension);
  }
  return shape;
}

Result<std::pair<uint64_t, uint64_t>> read_offsets(const json::object& fields, std::string_view path,
                                                   std::string_view name) {
  json::array offsets;
  uint64_t begin = 0;
  uint64_t end = 0;
  if (fields["data_offsets"].get(offsets) || offsets.size() != 2 || offsets.at(0).get(begin) ||
      offsets.at(1).get(end)) {
    return bad_tensor(path, name, "has no data_offsets of two non-negative integers");
  }
  return std::pair{begin, end};
}

// Bytes of `shape` in `dtype`; nothing when they do not fit 63 bits. A zero anywhere makes the tensor empty,
// whatever the other dimensions are.
std::optional<uint64_t> byte_size(Dtype dtype, const std::vector<int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  auto size = static_cast<int64_t>(dtype_size(dtype));
  for (const int64_t dimension : shape) {
    if (__builtin_mul_overflow(size, dimension, &size)) return std::nullopt;
  }
  return static_cast<uint64_t>(size);
}

Result<TensorView> read_tensor(const json::object& fields, std::string_view path, std::string_view name,
                               std::span<const std::byte> data) {
  TensorView tensor;
  tensor.name = std::string(name);
  WEIR_TRY(tensor.dtype, read_dtype(fields, path, name));
  WEIR_TRY(tensor.shape, read_shape(fields, path, name));
  WEIR_TRY(const auto offsets, read_offsets(fields, path, name));
  const auto [begin, end] = offsets;
  if (begin > end || end > data.size()) {
    return bad_tensor(path, name,
                      "lies at bytes " + std::to_string(begin) + " to " + std::to_string(end) +
                          " of data that ends at " + std::to_string(data.size()));
  }
  const auto size = byte_size(tensor.dtype, tensor.shape);
  const std::string described = std::string(dtype_name(tensor.dtype)) + " " + shape_text(tensor.shape);
  if (!size) return bad_tensor(path, name, "has the shape " + described + ", larger than any file");
  if (*size != end - begin) {
    return bad_tensor(
        path, name,
        "is " + described + ", " + std::to_string(*size) + " bytes, but has " + std::to_string(end - begin));
  }
  tensor.data = data.subspan(begin, end - begin);
  return tensor;
}

Status check_names(const std::vector<TensorView>& tensors, std::string_view path) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorView& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin != names.end()) return bad_tensor(path, *twin, "occurs twice");
  return Ok{};
}

// The format wants the data covered by tensors, without gaps or overlaps. Sorts by place.
Status check_cover(std::vector<TensorView>& tensors, std::string_view path, std::span<const std::byte> data) {
  const auto place = [](const TensorView& t) { return std::pair{t.data.data(), t.data.size()}; };
  std::stable_sort(tensors.begin(), tensors.end(),
                   [&](const TensorView& a, const TensorView& b) { return place(a) < place(b); });
  const std::byte* expected = data.data();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& tensor = tensors[i];
    if (tensor.data.data() < expected) {
      return bad_tensor(path, tensor.name, "overlaps tensor " + quote(tensors[i - 1].name));
    }
    if (tensor.data.data() > expected) {
      return bad_tensor(path, tensor.name,
                        "starts " + std::to_string(tensor.data.data() - expected) +
                            " bytes after the end of the tensor before it");
    }
    expected = tensor.data.data() + tensor.data.size();
  }
  const auto used = static_cast<size_t>(expected - data.data());
  if (used == data.size()) return Ok{};
  return corrupt(path, "the header describes " + std::to_string(used) + " bytes of data, the file has " +
                           std::to_string(data.size()));
}

Result<std::string_view> find_header(std::span<const std::byte> bytes, std::string_view path) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("version https://git-lfs")) {
    return Error{Code::kCorrupt, std::string(path) + " is a Git LFS pointer, not the weights themselves",
                 "fetch the real file, for example with git lfs pull"};
  }
  uint64_t length = 0;
  if (text.size() < sizeof length) {
    return corrupt(path, "the file has " + std::to_string(text.size()) + " bytes, too few for a header");
  }
  std::memcpy(&length, text.data(), sizeof length);
  const uint64_t room = text.size() - sizeof length;
  if (length > kLongestHeader || length > room) {
    return corrupt(path, "the header should be " + std::to_string(length) + " bytes long, but " +
                             std::to_string(std::min(room, kLongestHeader)) + " is the most it can be");
  }
  return text.substr(sizeof length, length);
}

}  // namespace

Result<std::vector<TensorView>> parse_safetensors(std::span<const std::byte> bytes, std::string_view path) {
  WEIR_TRY(const std::string_view header, find_header(bytes, path));
  const auto data = bytes.subspan(sizeof(uint64_t) + header.size());

  json::parser parser;
  json::object entries;
  const auto failure = parser.parse(header.data(), header.size()).get(entries);
  if (failure) {
    return corrupt(path, std::string("the header is not a JSON object: ") + simdjson::error_message(failure));
  }
  std::vector<TensorView> tensors;
  for (const auto [name, value] : entries) {
    if (name == "__metadata__") continue;
    json::object fields;
    if (value.get(fields)) return bad_tensor(path, name, "is not described by a JSON object");
    WEIR_TRY(TensorView tensor, read_tensor(fields, path, name, data));
    tensors.push_back(std::move(tensor));
  }
  WEIR_RETURN_IF_ERROR(check_names(tensors, path));
  WEIR_RETURN_IF_ERROR(check_cover(tensors, path, data));
  return tensors;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  WEIR_TRY(MappedFile mapped, MappedFile::open(path));
  SafetensorsFile file(std::move(mapped));
  WEIR_TRY(file.tensors_, parse_safetensors(file.file_.bytes(), path));
  return file;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorView& t) { return t.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

}  // namespace weir
