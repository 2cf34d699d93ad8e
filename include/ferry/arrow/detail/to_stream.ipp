// ferry: the engine of arrow/to_stream.hpp.
#pragma once

#include <ferry/arrow/to_stream.hpp>

#include <ferry/arrow/detail/stream_state.hpp>
#include <ferry/base/error.hpp>

#include <memory>  // ownership of the state
#include <utility>

namespace FERRY_NAMESPACE {

FERRY_INLINE void to_arrow_stream(std::vector<column> chunks, column const& type, ArrowArrayStream* out,
                                  std::source_location where) {
    constexpr auto api = "ferry::to_arrow_stream";
    if (out == nullptr)
        detail::fail(errc::argument, api, message{"the ArrowArrayStream to write to is null: pass a struct"}, where);
    auto all = detail::type_of_chunks(chunks, type, api, where);
    for (auto const& c : chunks) c.view().require_host(api, where);
    using state = detail::stream_state<ArrowArrayStream, ArrowArray, column>;
    auto made = std::make_unique<state>(std::move(chunks), std::move(all));
    *out = ArrowArrayStream{};
    made.release()->move_into(*out);
}

FERRY_INLINE void to_arrow_stream(std::vector<column> chunks, ArrowArrayStream* out, std::source_location where) {
    if (chunks.empty())
        detail::fail(errc::argument, "ferry::to_arrow_stream",
                     message{"there are no chunks: pass a column of their type as well"}, where);
    auto const type = chunks.front();
    to_arrow_stream(std::move(chunks), type, out, where);
}

}  // namespace FERRY_NAMESPACE
