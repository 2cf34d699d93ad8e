// ferry: the engines. With FERRY_SEPARATE_COMPILATION, one translation unit of the program includes this header, or the
// program links CMake's target ferry::compiled.
#pragma once

#ifndef FERRY_SEPARATE_COMPILATION
#error "ferry: define FERRY_SEPARATE_COMPILATION for all translation units, or do not include <ferry/src.hpp>"
#endif

#include <ferry/config.hpp>

#include <ferry/space/detail/host_copy.ipp>
#include <ferry/wire/detail/binary.ipp>
#include <ferry/wire/detail/check.ipp>
#include <ferry/wire/detail/json.ipp>
#if FERRY_HAS_COLUMN
#include <ferry/column/detail/column.ipp>
#include <ferry/column/detail/dlpack.ipp>
#include <ferry/column/detail/from_tensors.ipp>
#include <ferry/column/detail/make_struct.ipp>
#include <ferry/column/detail/structure.ipp>
#include <ferry/column/detail/validate.ipp>
#include <ferry/column/detail/view.ipp>
#if FERRY_HAS_EXCEPTIONS
#include <ferry/arrow/detail/chunked.ipp>
#include <ferry/arrow/detail/device.ipp>
#include <ferry/arrow/detail/from_arrow.ipp>
#include <ferry/arrow/detail/from_schema.ipp>
#include <ferry/arrow/detail/from_stream.ipp>
#include <ferry/arrow/detail/to_arrow.ipp>
#include <ferry/column/detail/as.ipp>
#include <ferry/column/detail/concat.ipp>
#include <ferry/column/detail/to.ipp>
#if FERRY_HAS_IPC
#include <ferry/ipc/detail/attach.ipp>
#include <ferry/ipc/detail/attach_column.ipp>
#include <ferry/ipc/detail/publisher.ipp>
#include <ferry/ipc/detail/registry.ipp>
#include <ferry/ipc/detail/send.ipp>
#include <ferry/ipc/detail/session.ipp>
#include <ferry/ipc/detail/share.ipp>
#include <ferry/ipc/detail/share_column.ipp>
#include <ferry/ipc/detail/shared.ipp>
#include <ferry/ipc/detail/space.ipp>
#include <ferry/ipc/detail/subscriber.ipp>
#endif
#endif
#endif
#if FERRY_HAS_EXCEPTIONS
#include <ferry/lease/detail/spill_core.ipp>
#include <ferry/lease/detail/spillable_column.ipp>
#endif

namespace FERRY_NAMESPACE {

/// Defined with the engines. A program that lacks them does not link, and the linker prints this name.
char const define_FERRY_SEPARATE_COMPILATION_in_every_translation_unit_and_link_ferry_compiled = 0;

}  // namespace FERRY_NAMESPACE
