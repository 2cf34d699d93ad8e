// expect: the assigned view would reference the extents in the inplace_view
// The base of one view would reference the extents of the other.
#include <ferry/tensor/inplace_view.hpp>

#ifdef FERRY_COMPILE_FAIL
void assign(ferry::tensor_view& to, ferry::inplace_view<2>& from) { to = from; }
#else
void assign(ferry::inplace_view<2>& to, ferry::inplace_view<2>& from) { to = from; }
#endif
