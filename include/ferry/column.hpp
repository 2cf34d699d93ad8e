// ferry: umbrella header for columns.
#pragma once

#include <ferry/column/bitmap.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/dlpack.hpp>
#include <ferry/column/from_tensors.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/make_struct.hpp>
#include <ferry/column/to.hpp>
#include <ferry/column/type.hpp>
#include <ferry/column/validate.hpp>
#include <ferry/column/values.hpp>
#include <ferry/column/view.hpp>
