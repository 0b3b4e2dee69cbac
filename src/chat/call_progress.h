// How far a parser of one tool call has come.
#pragma once

namespace weir {

enum class CallProgress {
  kStepped,   // consumed something; call advance again
  kNeedMore,  // nothing to do before more text arrives
  kClosed,    // the call is over
  kNotACall,  // while thinking, its opening turned out to be mere words; raw() is what was consumed
};

}  // namespace weir
