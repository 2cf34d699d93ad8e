// expect: specialise ferry::dtype_traits<T>
// The kind of an enum is unknown.
#include <ferry/base/dtype.hpp>

#include <type_traits>

enum class colour : int { red };
#ifdef FERRY_COMPILE_FAIL
auto type = ferry::dtype_of<colour>;
#else
auto type = ferry::dtype_of<std::underlying_type_t<colour>>;
#endif
