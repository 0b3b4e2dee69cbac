#include "checkpoint/write_checkpoint.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "checkpoint/safetensors_writer.h"

namespace weir {

Status write_checkpoint(const Checkpoint& checkpoint, const std::string& folder, const Progress& progress,
                        const std::atomic<bool>& cancelled) {
  const std::vector<const TensorView*> tensors = checkpoint.tensors();
  std::vector<TensorPlan> plan;
  for (const TensorView* tensor : tensors) plan.push_back({tensor->name, tensor->dtype, tensor->shape});
  WEIR_TRY(SafetensorsWriter writer, SafetensorsWriter::create(folder, std::move(plan), progress));
  WEIR_RETURN_IF_ERROR(writer.add_file("config.json", checkpoint.config().dump(2) + "\n"));
  for (const TensorView* tensor : tensors) {
    if (cancelled.load()) return Error{Code::kCancelled, "interrupted; nothing is left in " + folder, ""};
    WEIR_RETURN_IF_ERROR(writer.write(tensor->data));
  }
  return writer.finish();
}

}  // namespace weir
