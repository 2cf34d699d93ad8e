// ferry: umbrella header for the conversion of columns to and from the Arrow C interfaces.
#pragma once

#include <ferry/arrow/chunked.hpp>
#include <ferry/arrow/device.hpp>
#include <ferry/arrow/events.hpp>
#include <ferry/arrow/from_arrow.hpp>
#include <ferry/arrow/from_schema.hpp>
#include <ferry/arrow/from_stream.hpp>
#include <ferry/arrow/to_arrow.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/metadata.hpp>
#include <ferry/column/view.hpp>
