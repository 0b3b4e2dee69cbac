// Choosing a GPU.
#pragma once

#include <string>

#include "base/result.h"

namespace weir::cuda {

// Makes GPU `number` this thread's device; its name. Error: kDevice when it is not there or not of the kind
// that the kernels were built for.
Result<std::string> use_device(int number);

}  // namespace weir::cuda
