// ferry: the engine of arrow/chunked.hpp.
#pragma once

#include <ferry/arrow/chunked.hpp>

#include <ferry/arrow/detail/opened_stream.hpp>
#include <ferry/arrow/detail/owned.hpp>
#include <ferry/arrow/from_schema.hpp>
#include <ferry/arrow/from_stream.hpp>
#include <ferry/arrow/to_arrow.hpp>
#include <ferry/base/detail/checked.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/structure.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>  // ownership of the exported chunks
#include <optional>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE {
namespace detail {

/// Merges the flags of a chunk into a schema and its children, as `concat` does.
inline void merge_flags(ArrowSchema& into, column_view c) {
    into.flags = merged_flags(into.flags, c.flags());
    for (int i = 0; i < c.child_count(); ++i) merge_flags(*into.children[i], c.child(i));
    if (c.has_dictionary()) merge_flags(*into.dictionary, c.dictionary());
}

/// Reads all chunks of a device stream; `b` is null if they must be in host memory.
[[nodiscard]] inline chunked read_stream(ArrowDeviceArrayStream* stream, arrow_events_ref const* b, stream_token on,
                                         std::source_location where) {
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

/// The private data of an exported stream: the chunks that the consumer has not read.
template <class Stream>
struct exported_chunks {
    using array = std::conditional_t<std::is_same_v<Stream, ArrowArrayStream>, ArrowArray, ArrowDeviceArray>;

    column type;
    std::vector<owned<array>> arrays;
    std::size_t next = 0;
    char const* last_error = nullptr;

    static exported_chunks& of(Stream* s) noexcept { return *static_cast<exported_chunks*>(s->private_data); }
    static int get_schema(Stream* s, ArrowSchema* out) noexcept {
        try {
            to_arrow_schema(of(s).type, out);
        } catch (...) {  // std::bad_alloc
            of(s).last_error = "out of memory";
            return ENOMEM;
        }
        of(s).last_error = nullptr;
        return 0;
    }
    static int get_next(Stream* s, array* out) noexcept {
        auto& me = of(s);
        me.last_error = nullptr;
        *out = me.next == me.arrays.size() ? array{} : std::exchange(me.arrays[me.next++].raw, array{});
        return 0;
    }
};

/// Exports the chunks, each by `to_array(chunk, array)`.
template <class Stream, class ToArray>
void write_stream(chunked const& c, Stream* out, ToArray to_array, std::source_location where) {
    constexpr auto api = "ferry::to_arrow";
    using state = exported_chunks<Stream>;
    if (out == nullptr) fail(errc::argument, api, message{"the stream to write to is null: pass a struct"}, where);
    auto const type = c.chunks().empty() ? device_type::cpu : c.chunks()[0].device().type;
    auto made = std::make_unique<state>();
    made->type = c.type();
    made->arrays.resize(c.chunks().size());
    for (std::size_t i = 0; i < made->arrays.size(); ++i) {
        auto const& chunk = c.chunks()[i];
        if (chunk.device().type != type)
            fail(errc::device, api,
                 message{"chunk "} << std::uint64_t{i} << " is on " << name(chunk.device().type) << ", and chunk 0 on "
                                   << name(type) << ": move the chunks with to()",
                 where);
        to_array(chunk, &made->arrays[i].raw);
    }
    *out = Stream{};
    if constexpr (requires { out->device_type; }) out->device_type = static_cast<ArrowDeviceType>(type);
    out->get_schema = &state::get_schema;
    out->get_next = &state::get_next;
    out->get_last_error = [](Stream* s) { return state::of(s).last_error; };
    out->release = [](Stream* s) {
        delete &state::of(s);
        s->release = nullptr;
    };
    out->private_data = made.release();
}

}  // namespace detail

FERRY_INLINE chunked::chunked(std::vector<column> chunks, column const& type, std::source_location where) {
    constexpr auto api = "ferry::chunked";
    detail::owned<ArrowSchema> schema;
    to_arrow_schema(type, &schema.raw);
    std::int64_t length = 0;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        detail::column_path const path{type.name()};
        static_cast<void>(detail::check_same_type(type, chunks[i], path, i, {api, where}));
        detail::merge_flags(schema.raw, chunks[i]);
        if (!detail::checked_add(length, chunks[i].length(), length))
            detail::fail(errc::overflow, api, message{"the length of the chunks exceeds 63 bits: pass fewer chunks"},
                         where);
    }
    type_ = from_arrow_schema(&schema.raw);
    chunks_ = std::move(chunks);
}

FERRY_INLINE chunked from_arrow(ArrowArrayStream* stream, std::source_location where) {
    arrow_reader reader{stream, where};
    std::vector<column> chunks;
    while (auto chunk = reader.next(where)) chunks.push_back(*std::move(chunk));
    return {std::move(chunks), reader.type(), where};
}
FERRY_INLINE chunked from_arrow(ArrowDeviceArrayStream* stream, arrow_events_ref b, stream_token on,
                                std::source_location where) {
    return detail::read_stream(stream, &b, on, where);
}
FERRY_INLINE chunked from_arrow(ArrowDeviceArrayStream* stream, std::source_location where) {
    return detail::read_stream(stream, nullptr, {}, where);
}

FERRY_INLINE void to_arrow(chunked const& c, ArrowArrayStream* out, std::source_location where) {
    detail::write_stream(c, out, [&](column const& chunk, ArrowArray* to) { to_arrow(chunk, to, where); }, where);
}
FERRY_INLINE void to_arrow(chunked const& c, ArrowDeviceArrayStream* out, arrow_events_ref b, stream_token ready_on,
                           std::source_location where) {
    detail::write_stream(
        c, out, [&](column const& chunk, ArrowDeviceArray* to) { to_arrow(chunk, to, b, ready_on, where); }, where);
}
FERRY_INLINE void to_arrow(chunked const& c, ArrowDeviceArrayStream* out, std::source_location where) {
    detail::write_stream(c, out, [&](column const& chunk, ArrowDeviceArray* to) { to_arrow(chunk, to, where); }, where);
}

}  // namespace FERRY_NAMESPACE
