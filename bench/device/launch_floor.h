// What launches cost when their kernels do next to nothing: the floor under any chain of dependent kernels.
#pragma once

namespace weir::bench {

// Prints microseconds a launch for chains of empty kernels, and of kernels that read 8 KB which the one
// before has written and sum it up over a block.
void print_launch_floor();

}  // namespace weir::bench
