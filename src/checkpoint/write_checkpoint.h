// A checkpoint of any origin as a model folder.
#pragma once

#include <atomic>
#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace weir {

// Writes config.json and all tensors as they are, in shards, tensor by tensor: no memory beyond the
// checkpoint's own. Skipped tensors are written too. Errors are SafetensorsWriter's, and kCancelled once
// `cancelled` is set; then nothing is left of what was written.
Status write_checkpoint(const Checkpoint& checkpoint, const std::string& folder, const Progress& progress,
                        const std::atomic<bool>& cancelled);

}  // namespace weir
