// expect: ferry/column and ferry/arrow need a little-endian 64-bit machine: .* FERRY_HAS_COLUMN
// with: -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__
#include <ferry/column.hpp>
// next case
// with: -U__SIZEOF_POINTER__ -D__SIZEOF_POINTER__=4
#include <ferry/column.hpp>
