// ferry: the engine of arrow/chunked.hpp.
#pragma once

#include <ferry/arrow/chunked.hpp>

#include <ferry/arrow/detail/opened_stream.hpp>
#include <ferry/arrow/detail/stream_state.hpp>
#include <ferry/arrow/from_stream.hpp>
#include <ferry/arrow/to_stream.hpp>
#include <ferry/base/detail/checked.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>  // ownership of the state
#include <optional>
#include <utility>

namespace FERRY_NAMESPACE {
namespace detail {

/// Reads all chunks of a device stream; `b` is null if they must be in host memory.
[[nodiscard]] inline chunked read_device_stream(ArrowDeviceArrayStream* stream, arrow_events_ref const* b,
                                                stream_token on, std::source_location where) {
    opened_stream<ArrowDeviceArrayStream> from{stream, where};
    auto const type = from.stream().device_type;
    std::vector<column> chunks;
    owned<ArrowDeviceArray> chunk;
    while (from.next(chunk, where)) {
        if (chunk.raw.device_type != type)
            fail(errc::device, stream_api,
                 message{"a chunk is on device type "} << std::int64_t{chunk.raw.device_type} << ", expected "
                                                       << std::int64_t{type}
                                                       << ", that of the stream: correct it in the producer",
                 where);
        chunks.push_back(take_device_array(&chunk.raw, &from.schema(), b, on, where));
    }
    return {std::move(chunks), from.type(), where};
}

/// Exports the chunks with `to_array(chunk, array)`.
template <class ToArray>
void write_device_stream(chunked const& c, ArrowDeviceArrayStream* out, ToArray to_array, std::source_location where) {
    constexpr auto api = "ferry::to_arrow";
    if (out == nullptr)
        fail(errc::argument, api, message{"the ArrowDeviceArrayStream to write to is null: pass a struct"}, where);
    auto const type = c.chunks().empty() ? device_type::cpu : c.chunks()[0].device().type;
    std::vector<owned<ArrowDeviceArray>> arrays(c.chunks().size());
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        auto const& chunk = c.chunks()[i];
        if (chunk.device().type != type)
            fail(errc::device, api,
                 message{"chunk "} << std::uint64_t{i} << " is on " << name(chunk.device().type) << ", and chunk 0 on "
                                   << name(type) << ": move the chunks with to()",
                 where);
        to_array(chunk, &arrays[i].raw);
    }
    using state = stream_state<ArrowDeviceArrayStream, ArrowDeviceArray, owned<ArrowDeviceArray>>;
    auto made = std::make_unique<state>(std::move(arrays), c.type());
    *out = ArrowDeviceArrayStream{};
    out->device_type = static_cast<ArrowDeviceType>(type);
    made.release()->move_into(*out);
}

}  // namespace detail

FERRY_INLINE chunked::chunked(std::vector<column> chunks, column const& type, std::source_location where) {
    constexpr auto api = "ferry::chunked";
    type_ = detail::type_of_chunks(chunks, type, api, where);
    std::int64_t length = 0;
    for (auto const& c : chunks)
        if (!detail::checked_add(length, c.length(), length))
            detail::fail(errc::overflow, api, message{"the length of the chunks exceeds 63 bits: pass fewer chunks"},
                         where);
    chunks_ = std::move(chunks);
}

FERRY_INLINE chunked from_arrow(ArrowArrayStream* stream, std::source_location where) {
    auto reader = from_arrow_stream(stream, where);
    return {read_all(reader, where), reader.type(), where};
}
FERRY_INLINE chunked from_arrow(ArrowDeviceArrayStream* stream, arrow_events_ref b, stream_token on,
                                std::source_location where) {
    return detail::read_device_stream(stream, &b, on, where);
}
FERRY_INLINE chunked from_arrow(ArrowDeviceArrayStream* stream, std::source_location where) {
    return detail::read_device_stream(stream, nullptr, {}, where);
}

FERRY_INLINE void to_arrow(chunked const& c, ArrowArrayStream* out, std::source_location where) {
    to_arrow_stream({c.chunks().begin(), c.chunks().end()}, c.type(), out, where);
}
FERRY_INLINE void to_arrow(chunked const& c, ArrowDeviceArrayStream* out, arrow_events_ref b, stream_token ready_on,
                           std::source_location where) {
    detail::write_device_stream(
        c, out, [&](column const& chunk, ArrowDeviceArray* to) { to_arrow(chunk, to, b, ready_on, where); }, where);
}
FERRY_INLINE void to_arrow(chunked const& c, ArrowDeviceArrayStream* out, std::source_location where) {
    detail::write_device_stream(
        c, out, [&](column const& chunk, ArrowDeviceArray* to) { to_arrow(chunk, to, where); }, where);
}

}  // namespace FERRY_NAMESPACE
