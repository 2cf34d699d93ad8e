// ferry: stops the compiler without exceptions. Included by headers whose functions have no `try_` form.
#pragma once

#include <ferry/config.hpp>

#if !FERRY_HAS_EXCEPTIONS
#error "this header of ferry needs exceptions: compile without -fno-exceptions; <ferry/ferry.hpp>, <ferry/column.hpp> and ferry/wire do not need them"
#include <see_the_error_above>  // does not exist, so the compiler stops here and reports no errors in later lines
#endif
